//! `windlass context`: named servers in the user's configuration.

use std::io::{IsTerminal, Read};

use windlass_tools::Secret;
use windlass_value::Value;

use crate::args::{self, ContextCommand, GlobalArgs};
use crate::failure::{CliExit, CliFailure, codes};
use crate::runs::contexts::{Contexts, ServerContext, TokenSource};
use crate::runs::keyring;
use crate::tools::variable;
use crate::worker::{ServerClient, accepted_certificates};
use crate::{out, text};

/// Maximum number of bytes of a token.
const MAX_TOKEN_BYTES: u64 = 64 * 1024;

pub(crate) fn context(global: &GlobalArgs, args: &args::ContextArgs) -> Result<CliExit, CliFailure> {
    match &args.command {
        ContextCommand::Add(args) => add(global, args),
        ContextCommand::List => list(global),
        ContextCommand::Use(args) => use_context(global, args.name.as_deref()),
        ContextCommand::Remove(args) => remove(global, &args.name),
    }
}

fn add(global: &GlobalArgs, args: &args::ContextAddArgs) -> Result<CliExit, CliFailure> {
    let name = &args.name;
    if !is_context_name(name) {
        return Err(CliFailure::usage(format!("`{name}` cannot be the name of a context"))
            .hint("up to 64 letters, digits, - and _"));
    }
    // The server of a context is named for this context, not by the environment for this shell.
    let server = global.server.as_ref().filter(|server| variable("WINDLASS_SERVER").as_ref() != Some(server));
    let server = server.ok_or_else(|| {
        CliFailure::usage("a context needs a server")
            .hint(format!("windlass context add {name} --server https://windlass.example.org --token-file FILE"))
    })?;
    let token = token_source(global, args)?;
    let known = token.as_ref().map(|_| Secret::new("checked"));
    // Rejects a URL that no request could use, and a token that would be sent unencrypted.
    ServerClient::new(server, known.as_ref(), global.insecure, accepted_certificates(global.ca.as_deref())?)?;
    if token == Some(TokenSource::Keyring) {
        keyring::write(name, &read_token_from_stdin()?)?;
    }
    let mut contexts = Contexts::load()?;
    // The context may be used in any folder.
    let ca = global.ca.as_ref().map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
    let context = ServerContext { server: server.clone(), token, insecure: global.insecure, ca };
    let is_new = contexts.contexts.insert(name.clone(), context).is_none();
    contexts.save()?;
    print_change(global, name, if is_new { "added" } else { "changed" })?;
    if contexts.current.as_deref() != Some(name) {
        out::note(&format!("`windlass context use {name}` makes all commands use it; --server {name} one of them"));
    }
    Ok(CliExit::Success)
}

fn is_context_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    !name.is_empty() && name.len() <= 64 && name.chars().all(plain)
}

fn token_source(global: &GlobalArgs, args: &args::ContextAddArgs) -> Result<Option<TokenSource>, CliFailure> {
    match (&global.token_file, &args.token_command, args.keyring) {
        (Some(file), None, false) => {
            // A token that cannot be read is a mistake now rather than later; the context may be used in any folder.
            crate::worker::read_token(Some(file))?;
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            Ok(Some(TokenSource::File(file)))
        }
        (None, Some(command), false) => Ok(Some(TokenSource::Command(command.clone()))),
        (None, None, true) => Ok(Some(TokenSource::Keyring)),
        (None, None, false) => Ok(None),
        _ => Err(CliFailure::usage("a context has one source of its token")
            .hint("give one of --token-file, --token-command and --keyring")),
    }
}

fn read_token_from_stdin() -> Result<Secret, CliFailure> {
    let missing = |why: &str| {
        CliFailure::usage(format!("the token for the keyring is read from standard input: {why}"))
            .code(codes::NO_TOKEN)
            .hint("windlass context add NAME --server URL --keyring < FILE")
    };
    if std::io::stdin().is_terminal() {
        return Err(missing("a terminal would show it"));
    }
    let mut text = String::new();
    let read = std::io::stdin().take(MAX_TOKEN_BYTES).read_to_string(&mut text);
    read.map_err(|error| missing(&error.to_string()))?;
    match text.trim() {
        "" => Err(missing("it is empty")),
        token => Ok(Secret::new(token)),
    }
}

fn list(global: &GlobalArgs) -> Result<CliExit, CliFailure> {
    let Contexts { current, contexts } = Contexts::load()?;
    if global.json {
        let entry = |(name, context): (&String, &ServerContext)| {
            Value::object([
                ("name", Value::from(name.as_str())),
                ("server", Value::from(context.server.as_str())),
                ("token", Value::from(context.token.as_ref().map(TokenSource::describe))),
                ("insecure", Value::from(context.insecure)),
                ("ca", Value::from(context.ca.as_ref().map(|file| file.display().to_string()))),
                ("current", Value::from(current.as_ref() == Some(name))),
            ])
        };
        out::print_json(&Value::list(contexts.iter().map(entry).collect()))?;
        return Ok(CliExit::Success);
    }
    if contexts.is_empty() {
        out::print("no contexts")?;
        out::note("`windlass context add NAME --server URL --token-file FILE` adds one");
        return Ok(CliExit::Success);
    }
    let head = ["", "NAME", "SERVER", "TOKEN"].map(str::to_owned).to_vec();
    let line = |(name, context): (&String, &ServerContext)| {
        let mark = if current.as_ref() == Some(name) { "*" } else { "" };
        let token = context.token.as_ref().map_or("-".to_owned(), TokenSource::describe);
        vec![mark.to_owned(), name.clone(), context.server.clone(), token]
    };
    out::print(&text::table(&std::iter::once(head).chain(contexts.iter().map(line)).collect::<Vec<_>>()))?;
    Ok(CliExit::Success)
}

fn use_context(global: &GlobalArgs, name: Option<&str>) -> Result<CliExit, CliFailure> {
    let mut contexts = Contexts::load()?;
    if let Some(name) = name {
        contexts.get(name)?;
    }
    contexts.current = name.map(str::to_owned);
    contexts.save()?;
    match (global.json, name) {
        (true, _) => out::print_json(&Value::object([("current", Value::from(name))]))?,
        (false, Some(name)) => out::print(&format!("commands use {name}, unless --server or --store is given"))?,
        (false, None) => out::print("commands use the store of the current folder")?,
    }
    Ok(CliExit::Success)
}

fn remove(global: &GlobalArgs, name: &str) -> Result<CliExit, CliFailure> {
    let mut contexts = Contexts::load()?;
    if contexts.get(name)?.token == Some(TokenSource::Keyring) {
        keyring::remove(name);
    }
    contexts.contexts.remove(name);
    let was_current = contexts.current.take_if(|current| current == name).is_some();
    contexts.save()?;
    let exit = print_change(global, name, "removed")?;
    if was_current {
        out::note("it was the current context: commands use the store of the current folder again");
    }
    Ok(exit)
}

fn print_change(global: &GlobalArgs, name: &str, change: &str) -> Result<CliExit, CliFailure> {
    match global.json {
        true => out::print_json(&Value::object([("name", Value::from(name)), (change, Value::Bool(true))]))?,
        false => out::print(&format!("{name} is {change}"))?,
    }
    Ok(CliExit::Success)
}
