//! Installs each package in a fresh root and tries the first commands there.
//!
//! A machine may lack what a part of the check needs. The report says which part that is, and how to make it possible.

mod first_commands;
mod install;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::DistError;
use crate::program::PackagedProgram;
use crate::release::Release;
use crate::target::PackageTarget;
use first_commands::{InstalledProgram, try_first_commands, try_version};

/// The reason why a package did not pass its check.
#[derive(Debug)]
pub(crate) enum CheckProblem {
    /// The package is wrong.
    Failed(String),
    /// This machine lacks something.
    NotChecked(String),
}

impl From<String> for CheckProblem {
    fn from(message: String) -> CheckProblem {
        CheckProblem::Failed(message)
    }
}

impl From<DistError> for CheckProblem {
    fn from(error: DistError) -> CheckProblem {
        CheckProblem::Failed(error.to_string())
    }
}

/// The results of all checks.
pub struct CheckReport {
    lines: Vec<(String, Result<String, CheckProblem>)>,
}

impl CheckReport {
    pub fn print(&self) {
        for (package, result) in &self.lines {
            match result {
                Ok(done) => println!("ok           {package}: {done}"),
                Err(CheckProblem::NotChecked(why)) => println!("not checked  {package}: {why}"),
                Err(CheckProblem::Failed(why)) => println!("FAILED       {package}: {why}"),
            }
        }
    }

    /// Whether all packages passed. If the check must be `complete`, those that could not be checked count as failed.
    pub fn succeeded(&self, complete: bool) -> bool {
        self.lines.iter().all(|(_, result)| match result {
            Ok(_) => true,
            Err(CheckProblem::NotChecked(_)) => !complete,
            Err(CheckProblem::Failed(_)) => false,
        })
    }
}

/// The packages of one target, and how this machine runs their program.
pub(crate) struct CheckedTarget<'a> {
    pub out: &'a Path,
    pub release: &'a Release,
    pub program: &'a PackagedProgram,
    /// Put in front of the program's path: nothing, or an emulator.
    pub runner: Vec<&'static str>,
    /// The lines that `--version` must print.
    pub version: Vec<String>,
}

/// Checks the packages in the folder `out`. A program that was not built for them may have another commit than the
/// release.
pub fn check_packages(
    out: &Path,
    release: &Release,
    programs: &[PackagedProgram],
    were_built: bool,
) -> Result<CheckReport, DistError> {
    let mut lines = vec![("checksums".to_owned(), install::checksums(out))];
    for program in programs {
        let name = |package: &str| format!("{package} for {}", program.target.machine());
        let Some(runner) = runner(program.target) else {
            let why = format!("this machine cannot run it: `apt-get install {EMULATOR_PACKAGE}`");
            lines.push((name("all packages"), Err(CheckProblem::NotChecked(why))));
            continue;
        };
        let version = expected_version(release, program, were_built);
        let target = CheckedTarget { out, release, program, runner, version };
        let checks: [(&str, PackageCheck); 5] = [
            ("archive", install::archive),
            ("Debian package", install::debian_package),
            ("wheel", install::wheel),
            ("npm package", install::npm_package),
            ("container image", install::image),
        ];
        for (package, check) in checks {
            if package == "container image" && !program.is_static {
                continue;
            }
            println!("checking the {}", name(package));
            let root = tempfile::tempdir().map_err(DistError::file(std::env::temp_dir()))?;
            lines.push((name(package), check(&target, root.path())));
        }
    }
    Ok(CheckReport { lines })
}

fn expected_version(release: &Release, program: &PackagedProgram, was_built: bool) -> Vec<String> {
    let commit = release.commit.as_deref().filter(|_| was_built).map(|commit| format!(" ({commit})"));
    let first = format!("windlass {}{}", release.version, commit.unwrap_or_default());
    let target = if program.is_static { program.target.rust_target() } else { String::new() };
    vec![first, "\nfeatures: ".to_owned(), format!("\ntarget: {target}")]
}

/// Installs a package below an empty folder, and tries it.
type PackageCheck = fn(&CheckedTarget<'_>, &Path) -> Result<String, CheckProblem>;

/// The Debian package with emulators.
pub(crate) const EMULATOR_PACKAGE: &str = "qemu-user";

/// Returns what this machine puts in front of a program to run it: nothing, or an emulator. `None` if it cannot.
pub fn runner(target: PackageTarget) -> Option<Vec<&'static str>> {
    if PackageTarget::host() == Some(target) {
        return Some(Vec::new());
    }
    let emulators = match target {
        PackageTarget::X86_64 => ["qemu-x86_64", "qemu-x86_64-static"],
        PackageTarget::Aarch64 => ["qemu-aarch64", "qemu-aarch64-static"],
    };
    emulators.into_iter().find(|name| is_installed(name)).map(|name| vec![name])
}

pub(crate) fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Whether a program is in PATH.
pub(crate) fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Programs for administrators are not in every user's PATH.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.into_iter().any(|folder| folder.join(name).is_file())
}

/// Runs a command that must succeed, and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{shown}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => {
            let (out, errors) = (text(&output.stdout), text(&output.stderr));
            Err(format!("{shown} ended with {}:\n{out}{errors}", output.status))
        }
    }
}
