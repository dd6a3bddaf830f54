//! Access to the files next to a workflow. Compilers use it and never access the disk themselves.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The reason why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileReadProblem {
    /// The file does not exist, or a part of its path is not a folder.
    Missing,
    /// A folder or a socket, for example.
    NotAFile,
    /// The file has more bytes than the caller accepts.
    TooLarge {
        /// The maximum that the caller gave.
        max_bytes: u64,
    },
    /// No file access is available.
    Unavailable,
    /// Another error of the operating system, in its words.
    Other(String),
}

impl fmt::Display for FileReadProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileReadProblem::Missing => f.write_str("it does not exist"),
            FileReadProblem::NotAFile => f.write_str("it is not a file"),
            FileReadProblem::TooLarge { max_bytes } => write!(f, "it has more than {max_bytes} bytes"),
            FileReadProblem::Unavailable => f.write_str("files cannot be read here"),
            FileReadProblem::Other(why) => f.write_str(why),
        }
    }
}

/// Reads files for a compiler.
pub trait FileReader: Send + Sync {
    /// Returns the file's bytes, unless there are more than `max_bytes`.
    fn read(&self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileReadProblem>;
    /// Returns the path without links and without `..`; the file must exist.
    fn canonical(&self, path: &Path) -> Result<PathBuf, FileReadProblem>;
    /// Returns the size of a file in bytes.
    fn size(&self, path: &Path) -> Result<u64, FileReadProblem>;
}

/// The file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFiles;

impl FileReader for DiskFiles {
    fn read(&self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileReadProblem> {
        if self.size(path)? > max_bytes {
            return Err(FileReadProblem::TooLarge { max_bytes });
        }
        let file = std::fs::File::open(path).map_err(problem_from_io)?;
        let mut bytes = Vec::new();
        // The file may have grown in the meantime.
        file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(problem_from_io)?;
        match bytes.len() as u64 > max_bytes {
            true => Err(FileReadProblem::TooLarge { max_bytes }),
            false => Ok(bytes),
        }
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf, FileReadProblem> {
        path.canonicalize().map_err(problem_from_io)
    }

    fn size(&self, path: &Path) -> Result<u64, FileReadProblem> {
        let metadata = std::fs::metadata(path).map_err(problem_from_io)?;
        match metadata.is_file() {
            true => Ok(metadata.len()),
            false => Err(FileReadProblem::NotAFile),
        }
    }
}

/// No file access: a workflow from standard input, or from memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl FileReader for NoFiles {
    fn read(&self, _: &Path, _: u64) -> Result<Vec<u8>, FileReadProblem> {
        Err(FileReadProblem::Unavailable)
    }

    fn canonical(&self, _: &Path) -> Result<PathBuf, FileReadProblem> {
        Err(FileReadProblem::Unavailable)
    }

    fn size(&self, _: &Path) -> Result<u64, FileReadProblem> {
        Err(FileReadProblem::Unavailable)
    }
}

fn problem_from_io(error: std::io::Error) -> FileReadProblem {
    match error.kind() {
        // A file where a folder is expected on the path: the target does not exist either.
        ErrorKind::NotFound | ErrorKind::NotADirectory => FileReadProblem::Missing,
        ErrorKind::IsADirectory => FileReadProblem::NotAFile,
        _ => FileReadProblem::Other(error.to_string()),
    }
}
