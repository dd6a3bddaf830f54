//! `windlass register FILE… --server URL`

use std::path::Path;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::args::{self, Global};
use crate::failure::{Exit, Failure};
use crate::worker::{Client, Trouble, line_of, token};
use crate::{host, out};

/// The longest that a server may take to compile one.
const WITHIN: Duration = Duration::from_secs(60);

/// Registers each file in turn, and stops at the first that is refused: what comes after it may call it.
pub fn register(global: &Global, args: &args::Register) -> Result<Exit, Failure> {
    if args.name.is_some() && args.files.len() > 1 {
        return Err(Failure::usage("--name is for one file").hint("register them one by one"));
    }
    let hint =
        "give --token-file FILE or set WINDLASS_TOKEN; the first start of `windlass serve` writes .windlass/token";
    let token = token(args.token_file.as_deref()).map_err(|failure| failure.hint(hint))?;
    let client = Client::new(&args.server, &token, args.insecure)?.whole();
    let labels = super::worker::labels(&args.labels)?;
    host::runtime()?.block_on(async {
        for file in &args.files {
            let read = std::fs::read_to_string(file);
            let source =
                read.map_err(|error| Failure::usage(format!("could not read the file: {error}")).place(shown(file)))?;
            let mut body = json!({ "source": source, "labels": &labels });
            if let Some(name) = &args.name {
                body["name"] = json!(name);
            }
            let answer = client.post::<Json>("definitions", &body, WITHIN).await;
            told(global, file, &answer.map_err(|trouble| failure(trouble, file))?)?;
        }
        Ok(Exit::Good)
    })
}

fn told(global: &Global, file: &Path, answer: &Json) -> Result<(), Failure> {
    if global.json {
        return out::print(&answer.to_string());
    }
    for warning in answer["warnings"].as_array().into_iter().flatten() {
        out::note(&format!("{}:{}", file.display(), line_of(warning)));
    }
    let new = if answer["new"] == true { "" } else { ", as before" };
    let name = answer["name"].as_str().unwrap_or_default();
    out::print(&format!("{name} version {}{new}", answer["version"]))
}

fn failure(trouble: Trouble, file: &Path) -> Failure {
    let failure = match trouble {
        Trouble::Away(why) => Failure::new(Exit::Otherwise, format!("the server does not answer: {why}")),
        Trouble::Refused { detail, .. } => Failure::new(Exit::Invalid, detail),
        Trouble::Stale => Failure::new(Exit::Otherwise, "others have registered it at the same time").hint("try again"),
    };
    failure.place(shown(file))
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}
