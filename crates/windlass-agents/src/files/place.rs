//! The end of a path: a file that is read or replaced.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, accessat, fchmod, fstat, fsync, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::{Problem, reason};

const NEW_FILE_MODE: Mode = Mode::from_raw_mode(0o600);

/// What a path leads to: a name in an open folder.
pub(crate) struct Place {
    pub(super) parent: OwnedFd,
    /// None: the folder itself.
    pub(super) name: Option<OsString>,
    /// None: nothing is there yet.
    pub(crate) kind: Option<FileType>,
    /// From the work folder on, fit to be shown; empty for the folder itself.
    pub(crate) shown: String,
}

impl Place {
    /// The file, and how many bytes it has. What is no ordinary file is not even opened: that alone can do something.
    pub(crate) fn open(&self) -> Result<(File, u64), Problem> {
        let name = self.file_name()?;
        let problem = |error: Errno| format!("`{}` cannot be read: {}", self.shown, reason(error));
        // Should it have become a pipe in the meantime, nobody waits for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = openat(&self.parent, name, flags, Mode::empty()).map_err(problem)?;
        let stat = fstat(&opened).map_err(problem)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((File::from(opened), u64::try_from(stat.st_size).unwrap_or(0))),
            other => Err(self.not_a_file(other)),
        }
    }

    /// Whoever reads it meanwhile sees all of the old content or all of the new one, also after a crash.
    pub(crate) fn replace(&self, content: &[u8]) -> Result<(), Problem> {
        let problem = |error: Errno| format!("`{}` cannot be written: {}", self.shown, reason(error));
        let name = match self.kind {
            None => self.name.as_ref().ok_or_else(|| self.not_a_file(FileType::Directory))?,
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
        let (beside, mut file) = self.beside().map_err(problem)?;
        let written = file
            .write_all(content)
            .and_then(|()| Ok(fchmod(&file, mode)?))
            .and_then(|()| file.sync_all())
            .and_then(|()| Ok(renameat(&self.parent, &beside, &self.parent, name)?));
        if let Err(error) = written {
            let _ = unlinkat(&self.parent, &beside, AtFlags::empty());
            return Err(format!("`{}` cannot be written: {error}", self.shown));
        }
        // The new name is there already; only a crash of the machine could undo it.
        let _ = fsync(&self.parent);
        Ok(())
    }

    /// A new file in the same folder.
    fn beside(&self) -> Result<(String, File), Errno> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = format!(".windlass-{}-{}.tmp", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed));
            match openat(&self.parent, &name, flags, NEW_FILE_MODE) {
                Ok(opened) => return Ok((name, File::from(opened))),
                // One that a crash has left.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn file_name(&self) -> Result<&OsString, Problem> {
        match (&self.name, self.kind) {
            (Some(name), Some(FileType::RegularFile)) => Ok(name),
            (Some(_), None) => Err(format!("there is no `{}`", self.shown)),
            (_, kind) => Err(self.not_a_file(kind.unwrap_or(FileType::Directory))),
        }
    }

    fn not_a_file(&self, kind: FileType) -> Problem {
        let shown = if self.shown.is_empty() { "." } else { &self.shown };
        match kind {
            FileType::Directory => format!("`{shown}` is a folder, not a file; `glob` lists what is in it"),
            FileType::Fifo => format!("`{shown}` is a pipe, not a file"),
            FileType::Socket => format!("`{shown}` is a socket, not a file"),
            FileType::CharacterDevice | FileType::BlockDevice => format!("`{shown}` is a device, not a file"),
            _ => format!("`{shown}` is no ordinary file"),
        }
    }
}
