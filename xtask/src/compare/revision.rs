//! Revisions of this repository, checked out and built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file and a text in it that every measurable revision has.
const REQUIRED_TEXT: (&str, &str) = ("crates/windlass-bench/src/main.rs", "\"--modes\"");

pub(crate) struct Revision {
    name: String,
    commit: String,
    /// The folder below `target/compare` in which it is checked out: always the same one, so that a later revision is
    /// built incrementally.
    side: &'static str,
}

impl Revision {
    /// Finds a revision and checks that it can be measured.
    pub(crate) fn find(root: &Path, name: &str, side: &'static str) -> Result<Revision, String> {
        let spec = format!("{name}^{{commit}}");
        let commit = git(root, &["rev-parse", "--verify", "--quiet", &spec]);
        let commit = commit.map_err(|_| format!("`{name}` is not a revision of this repository"))?;
        let (file, text) = REQUIRED_TEXT;
        let measures = git(root, &["show", &format!("{commit}:{file}")]).is_ok_and(|file| file.contains(text));
        match measures {
            true => Ok(Revision { name: name.to_owned(), commit, side }),
            false => Err(format!(
                "`{name}` cannot be measured: its windlass-bench has no `--once`, `--work` and `--counts`. Choose a later \
                 revision, or make a branch of `{name}` with only the measuring code on top, and compare with that."
            )),
        }
    }

    pub(crate) fn title(&self) -> String {
        let short = &self.commit[..12.min(self.commit.len())];
        if self.name == "HEAD" || self.commit.starts_with(&self.name) {
            short.to_owned()
        } else {
            format!("{} ({short})", self.name)
        }
    }

    /// Checks the revision out below `target/compare`, builds it, and returns the path of its `windlass-bench`; if
    /// `served`, the program `windlass` is beside it. Existing builds are reused.
    pub(crate) fn build(&self, root: &Path, served: bool) -> Result<PathBuf, String> {
        let short = &self.commit[..12.min(self.commit.len())];
        let programs = root.join("target/compare").join(format!("{short}-programs"));
        let packages = [("windlass-bench", "windlass-bench"), ("windlass-cli", "windlass")];
        let needed = &packages[..if served { 2 } else { 1 }];
        let missing: Vec<_> = needed.iter().filter(|(_, name)| !programs.join(name).is_file()).collect();
        let bench = programs.join("windlass-bench");
        if missing.is_empty() {
            return Ok(bench);
        }
        let folder = root.join("target/compare").join(self.side);
        if folder.join("Cargo.toml").is_file() {
            git(&folder, &["checkout", "--quiet", "--force", "--detach", &self.commit])?;
        } else {
            // Git still knows a worktree that was removed by hand.
            git(root, &["worktree", "prune"])?;
            git(root, &["worktree", "add", "--detach", "--force", &folder.to_string_lossy(), &self.commit])?;
        }
        fs::create_dir_all(&programs).map_err(|error| error.to_string())?;
        // Both revisions share the build of everything that is not this repository's own.
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        for (package, name) in missing {
            println!("> building {package} of {} in {}", self.title(), folder.display());
            let mut command = Command::new(env!("CARGO"));
            command.args(["build", "--release", "--package", package]);
            let status = command.current_dir(&folder).env("CARGO_TARGET_DIR", &target).status();
            if !status.is_ok_and(|status| status.success()) {
                return Err(format!("{package} of {} does not build", self.title()));
            }
            let built = target.join("release").join(name);
            fs::copy(&built, programs.join(name)).map_err(|error| format!("{}: {error}", built.display()))?;
        }
        Ok(bench)
    }
}

/// Returns whether there are uncommitted changes.
pub(crate) fn is_dirty(root: &Path) -> bool {
    git(root, &["status", "--porcelain", "--untracked-files=no"]).is_ok_and(|changes| !changes.is_empty())
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
        false => Err(format!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim())),
    }
}
