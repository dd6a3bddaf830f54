//! `windlass register FILE… --server URL`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value as Json, json};
use windlass_core::ProcessLimits;
use windlass_server::workers::Labels;

use crate::args::{self, Global};
use crate::config::Settings;
use crate::definition;
use crate::dev::{NO_DEFINITION, Roots};
use crate::failure::{Exit, Failure};
use crate::served::NO_NAME;
use crate::worker::{Client, Trouble, line_of, token};
use crate::{host, out};

/// The longest that a server may take to compile one.
const WITHIN: Duration = Duration::from_secs(60);

/// Registers each file in turn, and stops at the first that is refused: what comes after it may call it. Files of a folder
/// have no order: what is refused is tried again as long as others are taken, which it may call. Of two files of a folder that
/// have one name, the first counts, as for `dev`.
pub(crate) fn register(global: &Global, args: &args::Register) -> Result<Exit, Failure> {
    let files = files(&args.files, &Settings::load(global)?.process_limits)?;
    if args.name.is_some() && files.len() > 1 {
        return Err(Failure::usage("--name is for one file").hint("register them one by one"));
    }
    let hint =
        "give --token-file FILE or set WINDLASS_TOKEN; the first start of `windlass serve` writes .windlass/token";
    let token = token(args.token_file.as_deref()).map_err(|failure| failure.hint(hint))?;
    let client = Client::new(&args.server, &token, args.insecure)?.whole();
    let labels = super::worker::labels(&args.labels)?;
    let registrar = Registrar { global, client, labels, name: args.name.as_deref(), server: &args.server };
    host::runtime()?.block_on(registrar.all(files))
}

/// A file, and whether it was found in a folder.
struct Found {
    file: PathBuf,
    in_folder: bool,
}

/// In the order in which they were named.
fn files(named: &[PathBuf], limits: &ProcessLimits) -> Result<Vec<Found>, Failure> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(Found { file: path.clone(), in_folder: false });
            continue;
        }
        let roots = Roots::new(std::slice::from_ref(path), None, limits)?;
        if let Some(note) = roots.truncation_note() {
            out::note(&format!("{}: {note}", shown(path)));
        }
        let inside = roots.files();
        if inside.is_empty() {
            let failure = Failure::usage("there are no definitions in this folder").place(shown(path));
            return Err(failure.hint("they are files that end with .json, .yaml or .yml"));
        }
        files.extend(inside.into_iter().map(|file| Found { file, in_folder: true }));
    }
    Ok(files)
}

struct Registrar<'a> {
    global: &'a Global,
    client: Client,
    labels: Labels,
    name: Option<&'a str>,
    server: &'a str,
}

impl Registrar<'_> {
    async fn all(&self, mut left: Vec<Found>) -> Result<Exit, Failure> {
        let mut names: BTreeMap<String, PathBuf> = BTreeMap::new();
        let mut doubles = Vec::new();
        loop {
            let (mut refused, mut taken) = (Vec::new(), false);
            for found in left {
                let source = text_of(&found.file)?;
                if found.in_folder && !names.is_empty() {
                    let name = self.name_of(&source, &found.file).await;
                    let name = name.map_err(|trouble| self.failure(trouble, &found.file))?;
                    if let Some((name, other)) = name.and_then(|name| names.get_key_value(&name))
                        && *other != found.file
                    {
                        doubles.push(double(name, &found.file, other));
                        continue;
                    }
                }
                match self.one(&source, &found.file).await {
                    Ok(answer) => {
                        taken = true;
                        if let Some(name) = answer["name"].as_str() {
                            names.insert(name.to_owned(), found.file.clone());
                        }
                        self.tell(&found.file, &answer)?;
                    }
                    // A folder may hold other files, too.
                    Err(Trouble::Refused { codes, .. })
                        if found.in_folder && codes.iter().any(|code| code == NO_DEFINITION) => {}
                    Err(trouble @ Trouble::Refused { status: 422, .. }) if found.in_folder => {
                        refused.push((found, trouble));
                    }
                    Err(trouble) => return Err(self.failure(trouble, &found.file)),
                }
            }
            if refused.is_empty() || !taken {
                let refused = refused.into_iter().map(|(found, trouble)| self.failure(trouble, &found.file));
                let mut failures = refused.chain(doubles);
                let Some(first) = failures.next() else { return Ok(Exit::Good) };
                failures.for_each(|failure| failure.show());
                return Err(first);
            }
            left = refused.into_iter().map(|(found, _)| found).collect();
        }
    }

    /// What the server would call it. None: it would not take it.
    async fn name_of(&self, source: &str, file: &Path) -> Result<Option<String>, Trouble> {
        let checked: Json = self.client.post("definitions/check", &json!({ "source": source }), WITHIN).await?;
        let nameless = checked["problems"].as_array().into_iter().flatten().any(|problem| problem["code"] == NO_NAME);
        Ok(match nameless {
            true => definition::name_of_file(file),
            false => checked["name"].as_str().map(str::to_owned),
        })
    }

    async fn one(&self, source: &str, file: &Path) -> Result<Json, Trouble> {
        let mut body = json!({ "source": source, "labels": &self.labels });
        if let Some(name) = self.name {
            body["name"] = json!(name);
        }
        let answer = self.client.post::<Json>("definitions", &body, WITHIN).await;
        match (&answer, definition::name_of_file(file)) {
            // What the text does not say, its file does: so `run` and `dev` call it.
            (Err(Trouble::Refused { codes, .. }), Some(name)) if codes.iter().any(|code| code == NO_NAME) => {
                body["name"] = json!(name);
                self.client.post::<Json>("definitions", &body, WITHIN).await
            }
            _ => answer,
        }
    }

    fn tell(&self, file: &Path, answer: &Json) -> Result<(), Failure> {
        if self.global.json {
            return out::print(&answer.to_string());
        }
        for warning in answer["warnings"].as_array().into_iter().flatten() {
            out::note(&format!("{}:{}", file.display(), line_of(warning)));
        }
        let new = if answer["new"] == true { "" } else { ", as before" };
        let name = answer["name"].as_str().unwrap_or_default();
        out::print(&format!("{name} version {}{new}", answer["version"]))
    }

    fn failure(&self, trouble: Trouble, file: &Path) -> Failure {
        let server = self.server;
        let failure = match trouble {
            Trouble::Away(why) => Failure::new(Exit::Otherwise, format!("the server does not answer: {why}"))
                .hint(format!("is it there? `windlass serve` starts one; this was {server}")),
            Trouble::Refused { status: status @ (401 | 403), detail, .. } => {
                Failure::usage(format!("the server refuses this token ({status}): {detail}"))
                    .hint("it needs the scope `admin`: `windlass token create NAME --scope admin` at the server")
            }
            Trouble::Refused { status: 422, detail, .. } => Failure::new(Exit::Invalid, detail),
            Trouble::Refused { status, detail, .. } => {
                Failure::new(Exit::Otherwise, format!("the server refuses it ({status}): {detail}"))
            }
            Trouble::StaleLease => {
                Failure::new(Exit::Otherwise, "others have registered it at the same time").hint("try again")
            }
        };
        failure.place(shown(file))
    }
}

fn text_of(file: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("could not read the file: {error}"))
            .place(shown(file))
            .hint("name files with definitions, or a folder")
    })
}

fn double(name: &str, file: &Path, other: &Path) -> Failure {
    let message = format!("its definition is called `{name}`, as that of {} is, which was registered", other.display());
    let hint = "give it a name of its own in the text, or take one of the two out of the folder";
    Failure::new(Exit::Invalid, message).place(shown(file)).hint(hint)
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}
