//! Completions and manual pages, as the program itself writes them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::error::{DistError, read};

/// A shell, and the name of its file with completions.
const SHELLS: [(&str, &str); 4] =
    [("bash", "windlass.bash"), ("zsh", "_windlass"), ("fish", "windlass.fish"), ("powershell", "_windlass.ps1")];

/// Completions and manual pages of the program. They are the same for all targets.
#[derive(Clone, Default)]
pub struct ProgramPages {
    /// By file name.
    pub completions: BTreeMap<String, Vec<u8>>,
    /// By file name, such as `windlass-run.1`.
    pub manual: BTreeMap<String, Vec<u8>>,
}

impl ProgramPages {
    /// Asks a program that this machine can run; `runner` is put in front of its path, such as an emulator.
    pub fn from_program(program: &Path, runner: &[&str]) -> Result<ProgramPages, DistError> {
        let mut completions = BTreeMap::new();
        for (shell, file) in SHELLS {
            completions.insert(file.to_owned(), run(program, runner, &["completions", shell])?);
        }
        let folder = tempfile::tempdir().map_err(DistError::file(std::env::temp_dir()))?;
        run(program, runner, &["man", &folder.path().display().to_string()])?;
        let mut manual = BTreeMap::new();
        for entry in std::fs::read_dir(folder.path()).map_err(DistError::file(folder.path()))?.flatten() {
            manual.insert(entry.file_name().to_string_lossy().into_owned(), read(&entry.path())?);
        }
        Ok(ProgramPages { completions, manual })
    }

    pub(crate) fn completion(&self, file: &str) -> Result<&[u8], DistError> {
        let found = self.completions.get(file).map(Vec::as_slice);
        found.ok_or_else(|| DistError::failed(format!("the program has written no {file}")))
    }
}

fn run(program: &Path, runner: &[&str], arguments: &[&str]) -> Result<Vec<u8>, DistError> {
    let mut command = match runner.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    };
    let output = command.args(arguments).output().map_err(DistError::file(program))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => {
            let (program, arguments) = (program.display(), arguments.join(" "));
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(DistError::failed(format!("`{program} {arguments}` failed: {}", errors.trim_end())))
        }
    }
}
