//! Paths that file tools do not touch, even in the work folder: write access to them would allow an agent to run
//! programs or to change the recorded history of the engine.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Stat, statat};

use super::{FileToolProblem, quote};

/// Paths that file tools do not touch, in addition to those protected by name: nothing in a folder `.windlass` is
/// read or written, no `windlass.toml` and nothing in a `.git` is written.
#[derive(Clone, Debug, Default)]
pub struct ProtectedPaths {
    /// Neither read nor written, including everything inside.
    pub no_access: Vec<PathBuf>,
    /// Readable but not writable, including everything inside.
    pub read_only: Vec<PathBuf>,
}

/// The requested access to a path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum AccessMode {
    Read,
    Write,
}

const STORE: &str = ".windlass";
const SETTINGS: &str = "windlass.toml";
const GIT: &str = ".git";

/// The protected paths as they are now, with symbolic links resolved.
#[derive(Default)]
pub(crate) struct PathGuard {
    no_access: Vec<ProtectedPath>,
    read_only: Vec<ProtectedPath>,
}

struct ProtectedPath {
    /// In lower case, because some file systems ignore case.
    path: PathBuf,
    /// Device and inode, which identify the file under any name.
    file: Option<(u64, u64)>,
}

impl PathGuard {
    pub(crate) fn new(protected: &ProtectedPaths) -> PathGuard {
        let known = |paths: &[PathBuf]| paths.iter().map(|path| ProtectedPath::new(path)).collect();
        PathGuard { no_access: known(&protected.no_access), read_only: known(&protected.read_only) }
    }

    /// Checks one component of a path: `path` is the whole path so far, without links, `name` its last component.
    pub(crate) fn check(
        &self,
        path: &Path,
        name: &OsStr,
        stat: Option<&Stat>,
        access: AccessMode,
    ) -> Result<(), FileToolProblem> {
        let refused = |what: &str| Err(format!("{} is {what}; file tools cannot access it", quote(name)));
        if is_named(name, STORE) || self.no_access.iter().any(|known| known.matches(path, stat)) {
            return refused("the store of runs");
        }
        if access == AccessMode::Read {
            return Ok(());
        }
        if is_named(name, SETTINGS) {
            return refused("a settings file, which cannot be written");
        }
        if is_named(name, GIT) {
            return refused("part of a git repository's metadata, which cannot be written");
        }
        match self.read_only.iter().any(|known| known.matches(path, stat)) {
            true => refused("part of the running definition or its settings, and cannot be written"),
            false => Ok(()),
        }
    }
}

impl ProtectedPath {
    fn new(path: &Path) -> ProtectedPath {
        let file = statat(CWD, path, AtFlags::empty()).ok().map(|stat| identity(&stat));
        ProtectedPath { path: to_lowercase_path(&canonicalize_existing(path)), file }
    }

    fn matches(&self, path: &Path, stat: Option<&Stat>) -> bool {
        let same = stat.is_some_and(|stat| self.file == Some(identity(stat)));
        same || to_lowercase_path(path).starts_with(&self.path)
    }
}

#[allow(clippy::unnecessary_cast, reason = "the types are not the same on every system")]
fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// Resolves symbolic links in the part of the path that exists.
fn canonicalize_existing(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(path), _, _) => path,
        (Err(_), Some(parent), Some(name)) => canonicalize_existing(parent).join(name),
        _ => path.to_owned(),
    }
}

fn to_lowercase_path(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().to_lowercase())
}

fn is_named(name: &OsStr, known: &str) -> bool {
    name.to_string_lossy().to_lowercase() == known
}
