//! Named servers in the user's configuration folder, and where their tokens come from.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_syntax::did_you_mean;
use windlass_tools::Secret;

use super::keyring;
use crate::failure::{CliFailure, codes};
use crate::tools::variable;

/// The file below the configuration folder.
const FILE: &str = "windlass/contexts.json";

/// All contexts of a user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    /// The context that applies to commands without `--server` and `--store`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    #[serde(default)]
    pub contexts: BTreeMap<String, ServerContext>,
}

/// One named server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerContext {
    pub server: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenSource>,
    /// The token may be sent over plain HTTP to another machine.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
    /// File with the certificate authority of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

/// The place that keeps the token of a context. The file of contexts never contains a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TokenSource {
    File(PathBuf),
    Command(String),
    Keyring,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl TokenSource {
    /// Describes the source for users.
    pub(crate) fn describe(&self) -> String {
        match self {
            TokenSource::File(file) => format!("file {}", file.display()),
            TokenSource::Command(command) => format!("command `{command}`"),
            TokenSource::Keyring => "keyring".to_owned(),
        }
    }

    /// Reads the token of a context.
    pub(crate) fn read(&self, context: &str) -> Result<Secret, CliFailure> {
        match self {
            TokenSource::File(file) => crate::worker::read_token(Some(file)),
            TokenSource::Command(command) => run_token_command(command),
            TokenSource::Keyring => keyring::read(context),
        }
        .map_err(|failure| failure.location(format!("context `{context}`")))
    }
}

fn run_token_command(command: &str) -> Result<Secret, CliFailure> {
    let failed = |why: String| {
        CliFailure::usage(format!("the command for the token `{command}` {why}"))
            .code(codes::NO_TOKEN)
            .hint("it must print the token on standard output; `windlass context add` stores another command")
    };
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", command]).stdin(std::process::Stdio::inherit()).stderr(std::process::Stdio::inherit());
    let done = shell.output().map_err(|error| failed(format!("could not be started: {error}")))?;
    if !done.status.success() {
        return Err(failed(format!("failed: {}", done.status)));
    }
    match String::from_utf8(done.stdout).map(|text| text.trim().to_owned()) {
        Ok(token) if !token.is_empty() => Ok(Secret::new(token)),
        _ => Err(failed("printed no token".to_owned())),
    }
}

impl Contexts {
    /// Reads the contexts of the user; none if there is no file.
    pub(crate) fn load() -> Result<Contexts, CliFailure> {
        match path() {
            Some(path) => read(&path),
            None => Ok(Contexts::default()),
        }
    }

    /// Returns a context by its name.
    pub(crate) fn get(&self, name: &str) -> Result<&ServerContext, CliFailure> {
        self.contexts.get(name).ok_or_else(|| {
            let known = || match self.contexts.is_empty() {
                true => format!("`windlass context add {name} --server URL` creates it"),
                false => format!("there are: {}", self.contexts.keys().cloned().collect::<Vec<_>>().join(", ")),
            };
            let hint = did_you_mean(name, self.contexts.keys().map(String::as_str)).unwrap_or_else(known);
            CliFailure::usage(format!("there is no context `{name}`")).code(codes::NO_CONTEXT).hint(hint)
        })
    }

    /// Writes the contexts, readable by the user only.
    pub(crate) fn save(&self) -> Result<(), CliFailure> {
        let path = path().ok_or_else(|| {
            CliFailure::usage("there is no folder for the configuration").hint("set XDG_CONFIG_HOME or HOME")
        })?;
        let text = serde_json::to_string_pretty(self).map_err(|error| unusable(&path, &error))?;
        write(&path, &text).map_err(|error| unusable(&path, &error))
    }
}

fn path() -> Option<PathBuf> {
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = folder.or_else(|| Some(Path::new(&variable("HOME")?).join(".config")));
    folder.map(|folder| folder.join(FILE))
}

fn read(path: &Path) -> Result<Contexts, CliFailure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Contexts::default()),
        Err(error) => return Err(unusable(path, &error)),
    };
    serde_json::from_str(&text).map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> CliFailure {
    CliFailure::setting(format!("the contexts cannot be used: {why}"))
        .code(codes::UNREADABLE_SETTINGS)
        .location(path.display().to_string())
        .hint("correct the file, or remove it and add the contexts again")
}

/// Replaces the file as a whole: another process sees the old one or the new one.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let draft = path.with_extension(format!("json.{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_survive_a_round_trip_and_hold_no_token() {
        let context =
            |token| ServerContext { server: "https://w.example".to_owned(), token, insecure: false, ca: None };
        let contexts = BTreeMap::from([
            ("a".to_owned(), context(Some(TokenSource::File("/t".into())))),
            ("b".to_owned(), context(Some(TokenSource::Command("pass w".to_owned())))),
            ("c".to_owned(), context(Some(TokenSource::Keyring))),
            ("d".to_owned(), context(None)),
        ]);
        let all = Contexts { current: Some("a".to_owned()), contexts };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("below/contexts.json");
        write(&path, &serde_json::to_string(&all).expect("JSON")).expect("written");
        assert_eq!(read(&path).expect("read"), all);
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).expect("a file").permissions());
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(read(&folder.path().join("missing")).expect("none"), Contexts::default());
        std::fs::write(&path, "{").expect("written");
        assert!(read(&path).is_err());
        let failure = all.get("e").expect_err("unknown");
        assert_eq!(failure.message(), "there is no context `e`");
    }

    #[test]
    fn the_token_of_a_command_is_its_output() {
        let read = |command: &str| TokenSource::Command(command.to_owned()).read("x");
        assert_eq!(read("echo ' wl_1 '").expect("a token").reveal(), "wl_1");
        for (command, part) in [("exit 3", "failed"), ("true", "printed no token")] {
            let failure = read(command).expect_err("no token");
            assert!(failure.message().contains(part), "{}", failure.message());
        }
    }
}
