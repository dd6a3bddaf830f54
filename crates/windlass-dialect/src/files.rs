//! The files beside a workflow. The front asks for them and never looks at a disk itself.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileProblem {
    Missing,
    /// A folder, a socket.
    NotAFile,
    TooLarge {
        max_bytes: u64,
    },
    /// There is nobody who could look.
    NobodyLooks,
    Other(String),
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileProblem::Missing => f.write_str("it is not there"),
            FileProblem::NotAFile => f.write_str("it is not a file"),
            FileProblem::TooLarge { max_bytes: most } => write!(f, "it has more than {most} bytes"),
            FileProblem::NobodyLooks => f.write_str("files cannot be read here"),
            FileProblem::Other(why) => f.write_str(why),
        }
    }
}

/// Whoever reads files for the front.
pub trait Files: Send + Sync {
    /// The file's bytes, if they are not more than `most`.
    fn read(&self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileProblem>;
    /// The path without links and without `..`; the file must be there.
    fn canonical(&self, path: &Path) -> Result<PathBuf, FileProblem>;
    /// How many bytes a file has.
    fn size(&self, path: &Path) -> Result<u64, FileProblem>;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileProblem> {
        if self.size(path)? > max_bytes {
            return Err(FileProblem::TooLarge { max_bytes: most: max_bytes });
        }
        let file = std::fs::File::open(path).map_err(problem)?;
        let mut bytes = Vec::new();
        // It may have grown since.
        file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(problem)?;
        match bytes.len() as u64 > max_bytes {
            true => Err(FileProblem::TooLarge { max_bytes: most: max_bytes }),
            false => Ok(bytes),
        }
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf, FileProblem> {
        path.canonicalize().map_err(problem)
    }

    fn size(&self, path: &Path) -> Result<u64, FileProblem> {
        let about = std::fs::metadata(path).map_err(problem)?;
        match about.is_file() {
            true => Ok(about.len()),
            false => Err(FileProblem::NotAFile),
        }
    }
}

/// No file at all: a workflow from standard input, or from memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _: &Path, _: u64) -> Result<Vec<u8>, FileProblem> {
        Err(FileProblem::NobodyLooks)
    }

    fn canonical(&self, _: &Path) -> Result<PathBuf, FileProblem> {
        Err(FileProblem::NobodyLooks)
    }

    fn size(&self, _: &Path) -> Result<u64, FileProblem> {
        Err(FileProblem::NobodyLooks)
    }
}

fn problem(error: std::io::Error) -> FileProblem {
    match error.kind() {
        // A file where a folder is expected on the way: nothing is there either.
        ErrorKind::NotFound | ErrorKind::NotADirectory => FileProblem::Missing,
        ErrorKind::IsADirectory => FileProblem::NotAFile,
        _ => FileProblem::Other(error.to_string()),
    }
}
