//! What file tools leave alone, even in the work folder: whoever could write it could run programs, or tell the engine
//! another past.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Stat, statat};

use super::{Problem, quoted};

/// Paths that file tools do not touch, beside those that go by their names: nothing in a folder `.windlass` is read or
/// written, no `windlass.toml` and nothing in a `.git` is written.
#[derive(Clone, Debug, Default)]
pub struct Protected {
    /// Neither read nor written, with all that is in them.
    pub closed: Vec<PathBuf>,
    /// Read, but not written, with all that is in them.
    pub kept: Vec<PathBuf>,
}

/// What a path is wanted for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Wanted {
    Read,
    Write,
}

const STORE: &str = ".windlass";
const SETTINGS: &str = "windlass.toml";
const GIT: &str = ".git";

/// The paths as they are now, without links.
#[derive(Default)]
pub(crate) struct Guard {
    closed: Vec<Known>,
    kept: Vec<Known>,
}

struct Known {
    /// In lower case: there are file systems that do not tell the cases apart.
    path: PathBuf,
    /// Whatever it is called.
    file: Option<(u64, u64)>,
}

impl Guard {
    pub(crate) fn new(protected: &Protected) -> Guard {
        let known = |paths: &[PathBuf]| paths.iter().map(|path| Known::new(path)).collect();
        Guard { closed: known(&protected.closed), kept: known(&protected.kept) }
    }

    /// One more name on a path: `path` is the whole of it, without links, `name` its end.
    pub(crate) fn check(&self, path: &Path, name: &OsStr, stat: Option<&Stat>, wanted: Wanted) -> Result<(), Problem> {
        let refused = |what: &str| Err(format!("{} is {what}; file tools leave it alone", quoted(name)));
        if is(name, STORE) || self.closed.iter().any(|known| known.is(path, stat)) {
            return refused("where runs are kept");
        }
        if wanted == Wanted::Read {
            return Ok(());
        }
        if is(name, SETTINGS) {
            return refused("a file of settings, which cannot be written");
        }
        if is(name, GIT) {
            return refused("what git keeps, which cannot be written");
        }
        match self.kept.iter().any(|known| known.is(path, stat)) {
            true => refused("part of what is being run, or its settings, and cannot be written"),
            false => Ok(()),
        }
    }
}

impl Known {
    fn new(path: &Path) -> Known {
        let file = statat(CWD, path, AtFlags::empty()).ok().map(|stat| identity(&stat));
        Known { path: lower(&resolved(path)), file }
    }

    fn is(&self, path: &Path, stat: Option<&Stat>) -> bool {
        let same = stat.is_some_and(|stat| self.file == Some(identity(stat)));
        same || lower(path).starts_with(&self.path)
    }
}

#[allow(clippy::unnecessary_cast, reason = "the types are not the same on every system")]
fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// Without links as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(path), _, _) => path,
        (Err(_), Some(parent), Some(name)) => resolved(parent).join(name),
        _ => path.to_owned(),
    }
}

fn lower(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().to_lowercase())
}

fn is(name: &OsStr, known: &str) -> bool {
    name.to_string_lossy().to_lowercase() == known
}
