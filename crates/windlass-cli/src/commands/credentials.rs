//! `windlass credentials`: credentials that a store or a server keeps, encrypted. Values are written and never shown.

use std::io::{IsTerminal, Read};

use windlass_store_sqlite::SqliteOptions;
use windlass_tools::{Credential, StoredCredential, VaultError};
use windlass_value::Value;

use crate::args::{self, CredentialsCommand, GlobalArgs};
use crate::config::CliSettings;
use crate::credentials::{prompt, value, vault_limits};
use crate::failure::{CliExit, CliFailure, codes};
use crate::runs::api::segment;
use crate::runs::{self, ServerRuns, decode};
use crate::tools::variable;
use crate::{out, stores, text};

/// Maximum number of bytes that are read as a value; a store accepts fewer.
const MAX_READ_BYTES: u64 = 16 * 1024 * 1024;

/// Secrets with fewer characters are not redacted.
const MIN_SECRET_CHARS: usize = 8;

/// The place where credentials are kept.
enum CredentialKeeper {
    Store(Box<CliSettings>),
    Server(ServerRuns),
}

pub(crate) fn credentials(global: &GlobalArgs, args: &args::CredentialsArgs) -> Result<CliExit, CliFailure> {
    let keeper = find_keeper(global)?;
    match &args.command {
        CredentialsCommand::Set(args) => set(global, &keeper, args),
        CredentialsCommand::List => list(global, &keeper),
        CredentialsCommand::Remove(args) => remove(global, &keeper, args),
    }
}

/// Returns the named server, else the one that runs on the store, else the store itself.
fn find_keeper(global: &GlobalArgs) -> Result<CredentialKeeper, CliFailure> {
    if let Some(target) = runs::named_server(global)? {
        return Ok(CredentialKeeper::Server(target.connect()?));
    }
    match runs::local_server(global)? {
        Some(server) => Ok(CredentialKeeper::Server(server)),
        None => Ok(CredentialKeeper::Store(Box::new(CliSettings::load(global)?))),
    }
}

fn set(global: &GlobalArgs, keeper: &CredentialKeeper, args: &args::CredentialSetArgs) -> Result<CliExit, CliFailure> {
    let given = read_value(args)?;
    let value = value::normalize(given.trim(), args.format, args.from_file.as_deref())?;
    let stored = match keeper {
        CredentialKeeper::Store(settings) => {
            // A credential may be set before the first run.
            settings.vault.attach(stores::open_or_create(&stores::directory(global), SqliteOptions::default())?);
            let by = variable("USER").unwrap_or_else(|| "program".to_owned());
            settings.vault.set(&args.name, &value, &by, vault_limits(settings)).map_err(to_failure)?
        }
        CredentialKeeper::Server(server) => {
            let body = Value::object([("value", Value::from(value.as_str()))]);
            let set = server.put(&format!("credentials/{}", segment(&args.name)), &body);
            decode::credential(&set.map_err(|error| server.api.failure(error))?)?
        }
    };
    if global.json {
        out::print_json(&to_value(&stored))?;
    } else {
        out::print(&format!("{} is stored ({})", stored.name, describe(&stored.kind, &value)))?;
    }
    if has_short_secret(&value) {
        out::note("it has a secret of fewer than 8 characters, too few to be redacted from outputs");
    }
    Ok(CliExit::Success)
}

/// Reads the value from a file, from standard input, or from the terminal without showing it. It is never an argument,
/// which other users of the machine could see.
fn read_value(args: &args::CredentialSetArgs) -> Result<String, CliFailure> {
    let from = args.from_file.as_ref().map_or_else(|| "standard input".to_owned(), |file| file.display().to_string());
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::InvalidData => {
            CliFailure::input(format!("the value from {from} is not text")).hint("store binary data in base64")
        }
        _ => CliFailure::input(format!("could not read the value from {from}: {error}")),
    };
    let mut value = String::new();
    match &args.from_file {
        Some(file) => {
            let file = std::fs::File::open(file).map_err(unreadable)?;
            file.take(MAX_READ_BYTES).read_to_string(&mut value).map_err(unreadable)?;
        }
        None if std::io::stdin().is_terminal() => {
            value = prompt::hidden_line(&format!("value of {} (not shown)", args.name))?;
        }
        None => {
            std::io::stdin().take(MAX_READ_BYTES).read_to_string(&mut value).map_err(unreadable)?;
        }
    }
    Ok(value)
}

/// Describes what was stored: its kind and the names of its fields.
fn describe(kind: &str, value: &str) -> String {
    let credential = Credential::from_text(value).ok();
    let names: Vec<&str> = credential.iter().flat_map(|credential| credential.field_names()).collect();
    match (kind, names.is_empty()) {
        (_, true) => kind.to_owned(),
        ("fields", false) => format!("fields: {}", names.join(", ")),
        (_, false) => format!("{kind}; fields: {}", names.join(", ")),
    }
}

fn has_short_secret(value: &str) -> bool {
    let secrets = Credential::from_text(value).map(|credential| credential.secrets()).unwrap_or_default();
    secrets.iter().any(|secret| secret.reveal().chars().count() < MIN_SECRET_CHARS)
}

fn list(global: &GlobalArgs, keeper: &CredentialKeeper) -> Result<CliExit, CliFailure> {
    let all: Vec<StoredCredential> = match keeper {
        CredentialKeeper::Store(settings) => settings.vault.list()?,
        CredentialKeeper::Server(server) => {
            let page = server.get("credentials")?;
            decode::list(&page, "items")?.iter().map(decode::credential).collect::<Result<_, _>>()?
        }
    };
    if global.json {
        out::print_json(&Value::list(all.iter().map(to_value).collect()))?;
        return Ok(CliExit::Success);
    }
    if all.is_empty() {
        out::print("no stored credentials")?;
        out::note("`windlass credentials set NAME` stores one; those of the environment and of [auth] are not listed");
        return Ok(CliExit::Success);
    }
    let head = ["NAME", "KIND", "CHANGED", "BY"].map(str::to_owned).to_vec();
    out::print(&text::table(&std::iter::once(head).chain(all.iter().map(line)).collect::<Vec<_>>()))?;
    for (name, problem) in all.iter().filter_map(|one| Some((&one.name, one.problem.as_ref()?))) {
        out::note(&format!("{name} cannot be opened: {problem}"));
    }
    Ok(CliExit::Success)
}

fn line(stored: &StoredCredential) -> Vec<String> {
    let at = stored.changed_at.get(..19).unwrap_or(&stored.changed_at).replace('T', " ");
    vec![stored.name.clone(), stored.kind.clone(), at, stored.by.clone()]
}

fn remove(
    global: &GlobalArgs,
    keeper: &CredentialKeeper,
    args: &args::CredentialRemoveArgs,
) -> Result<CliExit, CliFailure> {
    let name = &args.name;
    if !args.yes && !confirm_removal(name)? {
        out::note("nothing was removed");
        return Ok(CliExit::Success);
    }
    let unknown = || {
        let failure = CliFailure::usage(format!("there is no stored credential `{name}`")).code(codes::NOT_FOUND);
        failure.hint(format!("`{}` shows them", stores::command(global, "credentials list")))
    };
    match keeper {
        CredentialKeeper::Store(settings) => {
            if !settings.vault.remove(name)? {
                return Err(unknown());
            }
        }
        CredentialKeeper::Server(server) => {
            server.delete(&format!("credentials/{}", segment(name))).map_err(|error| match error.is_status(404) {
                true => unknown(),
                false => server.api.failure(error),
            })?;
        }
    }
    match global.json {
        true => {
            out::print_json(&Value::object([("name", Value::from(name.as_str())), ("removed", Value::Bool(true))]))?
        }
        false => out::print(&format!("{name} is removed"))?,
    }
    Ok(CliExit::Success)
}

fn confirm_removal(name: &str) -> Result<bool, CliFailure> {
    if !std::io::stdin().is_terminal() {
        return Err(CliFailure::usage(format!("removing `{name}` needs a confirmation, and there is no terminal"))
            .hint("--yes confirms it"));
    }
    prompt::confirm(&format!("Remove the credential {name}? Tasks that refer to it will fail."))
}

fn to_value(stored: &StoredCredential) -> Value {
    let mut entries = vec![
        ("name", Value::from(stored.name.as_str())),
        ("kind", Value::from(stored.kind.as_str())),
        ("changed_at", Value::from(stored.changed_at.as_str())),
        ("by", Value::from(stored.by.as_str())),
    ];
    entries.extend(stored.problem.as_deref().map(|problem| ("problem", Value::from(problem))));
    Value::object(entries)
}

fn to_failure(error: VaultError) -> CliFailure {
    let (message, hint) = (error.to_string(), error.hint().to_owned());
    let code = match error {
        VaultError::Store(error) => return error.into(),
        VaultError::Key(_) | VaultError::OtherKey(_) => codes::CREDENTIAL_KEY,
        _ => codes::INVALID_CREDENTIAL,
    };
    CliFailure::usage(message).code(code).hint(hint)
}
