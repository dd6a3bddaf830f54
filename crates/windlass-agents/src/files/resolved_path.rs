//! The target of a path: a file that is read or replaced.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, accessat, fchmod, fstat, fsync, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::{FileToolProblem, reason};

const NEW_FILE_MODE: Mode = Mode::from_raw_mode(0o600);

/// The target of a resolved path: a name in an open folder.
pub(crate) struct ResolvedPath {
    pub(super) parent: OwnedFd,
    /// `None` for the folder itself.
    pub(super) name: Option<OsString>,
    /// `None` if nothing exists there yet.
    pub(crate) kind: Option<FileType>,
    /// The path relative to the work folder, escaped for display; empty for the folder itself.
    pub(crate) display: String,
}

impl ResolvedPath {
    /// Opens the file and returns its size. Only regular files are opened: opening others can already have an effect.
    pub(crate) fn open(&self) -> Result<(File, u64), FileToolProblem> {
        let name = self.file_name()?;
        let problem = |error: Errno| format!("`{}` cannot be read: {}", self.display, reason(error));
        // With `NONBLOCK`, opening does not wait for a writer if the file has become a pipe in the meantime.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(&self.parent, name, flags, Mode::empty()).map_err(problem)?;
        let stat = fstat(&opened).map_err(problem)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((File::from(opened), u64::try_from(stat.st_size).unwrap_or(0))),
            other => Err(self.not_a_file_problem(other)),
        }
    }

    /// Replaces the content atomically: readers see all of the old or all of the new content, also after a crash.
    pub(crate) fn replace(&self, content: &[u8]) -> Result<(), FileToolProblem> {
        let problem = |error: Errno| format!("`{}` cannot be written: {}", self.display, reason(error));
        let name = match self.kind {
            None => self.name.as_ref().ok_or_else(|| self.not_a_file_problem(FileType::Directory))?,
            Some(_) => self.file_name()?,
        };
        let mode = match self.kind {
            None => NEW_FILE_MODE,
            Some(_) => {
                accessat(&self.parent, name, Access::WRITE_OK, AtFlags::empty()).map_err(problem)?;
                let stat = statat(&self.parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(problem)?;
                Mode::from_raw_mode(stat.st_mode & 0o777)
            }
        };
        let (temp_name, mut file) = self.create_temp_file().map_err(problem)?;
        let written = file
            .write_all(content)
            .and_then(|()| Ok(fchmod(&file, mode)?))
            .and_then(|()| file.sync_all())
            .and_then(|()| Ok(renameat(&self.parent, &temp_name, &self.parent, name)?));
        if let Err(error) = written {
            let _ = unlinkat(&self.parent, &temp_name, AtFlags::empty());
            return Err(format!("`{}` cannot be written: {error}", self.display));
        }
        // The new name is already in place; only a crash of the machine could undo it.
        let _ = fsync(&self.parent);
        Ok(())
    }

    /// Creates a temporary file in the same folder.
    fn create_temp_file(&self) -> Result<(String, File), Errno> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = format!(".windlass-{}-{}.tmp", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
            match openat(&self.parent, &name, flags, NEW_FILE_MODE) {
                Ok(opened) => return Ok((name, File::from(opened))),
                // Left behind by a crash.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn file_name(&self) -> Result<&OsString, FileToolProblem> {
        match (&self.name, self.kind) {
            (Some(name), Some(FileType::RegularFile)) => Ok(name),
            (Some(_), None) => Err(format!("there is no `{}`", self.display)),
            (_, kind) => Err(self.not_a_file_problem(kind.unwrap_or(FileType::Directory))),
        }
    }

    fn not_a_file_problem(&self, kind: FileType) -> FileToolProblem {
        let display = if self.display.is_empty() { "." } else { &self.display };
        match kind {
            FileType::Directory => format!("`{display}` is a folder, not a file; `glob` lists its files"),
            FileType::Fifo => format!("`{display}` is a pipe, not a file"),
            FileType::Socket => format!("`{display}` is a socket, not a file"),
            FileType::CharacterDevice | FileType::BlockDevice => format!("`{display}` is a device, not a file"),
            _ => format!("`{display}` is not a regular file"),
        }
    }
}
