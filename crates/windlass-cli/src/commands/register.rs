//! `windlass register FILE… --server URL`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value as Json, json};
use windlass_core::ProcessLimits;
use windlass_server::workers::Labels;

use crate::args::{self, GlobalArgs};
use crate::catalog_compiler::NO_NAME;
use crate::config::CliSettings;
use crate::definition;
use crate::dev::{DefinitionRoots, NO_DEFINITION};
use crate::failure::{CliExit, CliFailure, codes};
use crate::runs::api::unreachable_hint;
use crate::worker::{ServerClient, ServerRequestError, format_report, read_token};
use crate::{host, out, runs};

/// Maximum time that a server may take to compile one definition.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(60);

/// Registers each file in order and stops at the first rejection: a later file may call the rejected one.
///
/// The files of a folder have no order: a rejected file is tried again as long as others are accepted, since it may
/// call them. Of two files of a folder with the same name, the first counts, as for `dev`.
pub(crate) fn register(global: &GlobalArgs, args: &args::RegisterArgs) -> Result<CliExit, CliFailure> {
    let files = collect_files(&args.files, &CliSettings::load(global)?.process_limits)?;
    if args.name.is_some() && files.len() > 1 {
        return Err(CliFailure::usage("--name takes a single file").hint("register them one by one"));
    }
    let hint =
        "give --token-file FILE or set WINDLASS_TOKEN; the first start of `windlass serve` writes .windlass/token";
    let (client, url) = match runs::named_server(global)? {
        Some(target) if target.token.is_none() => {
            read_token(None).map_err(|failure| failure.hint(hint))?;
            return Err(CliFailure::usage("there is no token").code(codes::NO_TOKEN).hint(hint));
        }
        Some(target) => (target.client()?.with_full_api(), target.url),
        None => runs::local_client(global, "register")?,
    };
    let labels = super::worker::parse_labels(&args.labels)?;
    let registrar = Registrar { global, client, labels, name: args.name.as_deref(), server: &url };
    host::runtime()?.block_on(registrar.register_all(files))
}

/// A file, and whether it was found in a folder.
struct CandidateFile {
    file: PathBuf,
    in_folder: bool,
}

/// Collects the files in the order in which they were named.
fn collect_files(named: &[PathBuf], limits: &ProcessLimits) -> Result<Vec<CandidateFile>, CliFailure> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(CandidateFile { file: path.clone(), in_folder: false });
            continue;
        }
        let roots = DefinitionRoots::new(std::slice::from_ref(path), None, limits)?;
        if let Some(note) = roots.truncation_note() {
            out::note(&format!("{}: {note}", display_path(path)));
        }
        let inside = roots.files();
        if inside.is_empty() {
            let failure = CliFailure::usage("there are no definitions in this folder")
                .code(codes::NO_DEFINITIONS)
                .location(display_path(path));
            return Err(failure.hint("they are files that end with .json, .yaml or .yml"));
        }
        files.extend(inside.into_iter().map(|file| CandidateFile { file, in_folder: true }));
    }
    Ok(files)
}

struct Registrar<'a> {
    global: &'a GlobalArgs,
    client: ServerClient,
    labels: Labels,
    name: Option<&'a str>,
    server: &'a str,
}

impl Registrar<'_> {
    async fn register_all(&self, mut left: Vec<CandidateFile>) -> Result<CliExit, CliFailure> {
        let mut names: BTreeMap<String, PathBuf> = BTreeMap::new();
        let mut duplicates = Vec::new();
        loop {
            let (mut refused, mut any_registered) = (Vec::new(), false);
            for found in left {
                let source = read_text(&found.file)?;
                if found.in_folder && !names.is_empty() {
                    let name = self.registered_name(&source, &found.file).await;
                    let name = name.map_err(|error| self.to_failure(error, &found.file))?;
                    if let Some((name, other)) = name.and_then(|name| names.get_key_value(&name))
                        && *other != found.file
                    {
                        duplicates.push(duplicate_name(name, &found.file, other));
                        continue;
                    }
                }
                match self.register_one(&source, &found.file).await {
                    Ok(answer) => {
                        any_registered = true;
                        if let Some(name) = answer["name"].as_str() {
                            names.insert(name.to_owned(), found.file.clone());
                        }
                        self.print_reply(&found.file, &answer)?;
                    }
                    // A folder may hold other files, too.
                    Err(ServerRequestError::Rejected { codes, .. })
                        if found.in_folder && codes.iter().any(|code| code == NO_DEFINITION) => {}
                    Err(error @ ServerRequestError::Rejected { status: 422, .. }) if found.in_folder => {
                        refused.push((found, error));
                    }
                    Err(error) => return Err(self.to_failure(error, &found.file)),
                }
            }
            if refused.is_empty() || !any_registered {
                let refused = refused.into_iter().map(|(found, error)| self.to_failure(error, &found.file));
                let mut failures = refused.chain(duplicates);
                let Some(first) = failures.next() else { return Ok(CliExit::Success) };
                failures.for_each(|failure| failure.show());
                return Err(first);
            }
            left = refused.into_iter().map(|(found, _)| found).collect();
        }
    }

    /// Returns the name that the server would register the definition under, or `None` if it would reject it.
    async fn registered_name(&self, source: &str, file: &Path) -> Result<Option<String>, ServerRequestError> {
        let checked: Json =
            self.client.post("definitions/check", &json!({ "source": source }), COMPILE_TIMEOUT).await?;
        let nameless = checked["problems"].as_array().into_iter().flatten().any(|problem| problem["code"] == NO_NAME);
        Ok(match nameless {
            true => definition::default_name(file),
            false => checked["name"].as_str().map(str::to_owned),
        })
    }

    async fn register_one(&self, source: &str, file: &Path) -> Result<Json, ServerRequestError> {
        let mut body = json!({ "source": source, "labels": &self.labels });
        if let Some(name) = self.name {
            body["name"] = json!(name);
        }
        let answer = self.client.post::<Json>("definitions", &body, COMPILE_TIMEOUT).await;
        match (&answer, definition::default_name(file)) {
            // A definition without a name is named after its file, as `run` and `dev` do.
            (Err(ServerRequestError::Rejected { codes, .. }), Some(name))
                if codes.iter().any(|code| code == NO_NAME) =>
            {
                body["name"] = json!(name);
                self.client.post::<Json>("definitions", &body, COMPILE_TIMEOUT).await
            }
            _ => answer,
        }
    }

    fn print_reply(&self, file: &Path, answer: &Json) -> Result<(), CliFailure> {
        if self.global.json {
            return out::print(&answer.to_string());
        }
        for warning in answer["warnings"].as_array().into_iter().flatten() {
            out::note(&format!("{}:{}", file.display(), format_report(warning)));
        }
        let new = if answer["is_new"] == true { "" } else { ", as before" };
        let name = answer["name"].as_str().unwrap_or_default();
        out::print(&format!("{name} version {}{new}", answer["version"]))
    }

    fn to_failure(&self, error: ServerRequestError, file: &Path) -> CliFailure {
        let server = self.server;
        let failure = match error {
            ServerRequestError::Unreachable(why) => {
                CliFailure::new(CliExit::Failed, format!("the server at {server} does not respond: {why}"))
                    .code(codes::UNREACHABLE_SERVER)
                    .hint(unreachable_hint(server, &why))
            }
            ServerRequestError::Rejected { status: 401, detail, .. } => {
                CliFailure::usage(format!("the server rejects this token: {detail}"))
                    .code(codes::TOKEN_REJECTED)
                    .hint("`windlass token create NAME --scope admin` at the server creates one")
            }
            ServerRequestError::Rejected { status: 403, detail, .. } => {
                CliFailure::usage(format!("this token may not register definitions: {detail}"))
                    .code(codes::FORBIDDEN)
                    .hint("it needs the scope `admin`: `windlass token create NAME --scope admin` at the server")
            }
            ServerRequestError::Rejected { status: 409, detail, .. } => {
                CliFailure::new(CliExit::Failed, detail).code(codes::CONFLICT)
            }
            ServerRequestError::Rejected { status: 422, detail, .. } => CliFailure::new(CliExit::Invalid, detail),
            ServerRequestError::Rejected { status, detail, .. } => {
                CliFailure::new(CliExit::Failed, format!("the server rejects the definition ({status}): {detail}"))
                    .code(codes::INVALID_DEFINITION)
            }
            ServerRequestError::StaleLease => {
                CliFailure::new(CliExit::Failed, "the server rejects a lease epoch, which no registration has")
                    .code(codes::CONFLICT)
            }
        };
        failure.location(display_path(file))
    }
}

fn read_text(file: &Path) -> Result<String, CliFailure> {
    std::fs::read_to_string(file).map_err(|error| {
        CliFailure::usage(format!("could not read the file: {error}"))
            .code(codes::UNREADABLE)
            .location(display_path(file))
            .hint("name files with definitions, or a folder")
    })
}

fn duplicate_name(name: &str, file: &Path, other: &Path) -> CliFailure {
    let message =
        format!("its definition has the same name, `{name}`, as that of {}, which was registered", other.display());
    let hint = "give it another name in the text, or remove one of the two from the folder";
    CliFailure::new(CliExit::Invalid, message).code(codes::DUPLICATE_DEFINITION).location(display_path(file)).hint(hint)
}

fn display_path(file: &Path) -> String {
    file.display().to_string()
}
