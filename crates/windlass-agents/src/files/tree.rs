//! All files below a place. Symbolic links are told of, never followed.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, openat, statat};

use super::{Guard, Place, Problem, Wanted, folder_flags, reason};

/// Each level is a call on the stack.
const MAX_DEPTH: usize = 64;

/// What there is to see of a tree.
pub(crate) struct Tree<'a> {
    pub(crate) guard: &'a Guard,
    /// Also what begins with a dot.
    pub(crate) hidden: bool,
    /// More is a mistake in the pattern, or a folder that should not be searched as a whole.
    pub(crate) max_entries: usize,
    pub(crate) stop: &'a dyn Fn() -> bool,
}

/// One file or link.
pub(crate) struct Entry<'a> {
    /// From the work folder on.
    pub(crate) path: &'a str,
    pub(crate) name: &'a str,
    /// From the place on where the search began.
    pub(crate) below: &'a str,
    parent: BorrowedFd<'a>,
    raw: &'a OsStr,
    kind: FileType,
}

impl Entry<'_> {
    /// None if it is no ordinary file, or cannot be read.
    pub(crate) fn open(&self) -> Option<(File, u64)> {
        let place = Place {
            parent: self.parent.try_clone_to_owned().ok()?,
            name: Some(self.raw.to_owned()),
            kind: Some(self.kind),
            shown: self.path.to_owned(),
        };
        place.open().ok()
    }
}

/// How a search ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Found {
    All,
    /// Whoever asked has enough.
    Enough,
    /// There is too much to look at.
    TooMuch,
    Stopped,
}

impl Tree<'_> {
    /// In the order of names, a folder at a time.
    pub(crate) fn walk(
        &self,
        place: &Place,
        mut visit: impl FnMut(&Entry<'_>) -> ControlFlow<()>,
    ) -> Result<Found, Problem> {
        let problem = |error| format!("`{}` cannot be searched: {}", place.shown, reason(error));
        let root = match (&place.name, place.kind) {
            (Some(name), Some(FileType::Directory)) => {
                openat(&place.parent, name, folder_flags(), Mode::empty()).map_err(problem)?
            }
            (None, _) => openat(&place.parent, ".", folder_flags(), Mode::empty()).map_err(problem)?,
            (Some(_), None) => return Err(format!("there is no `{}`", place.shown)),
            (Some(name), Some(kind)) => {
                let (raw, below) = (name.as_os_str(), name.to_string_lossy());
                let parent = std::os::fd::AsFd::as_fd(&place.parent);
                let _ = visit(&Entry { path: &place.shown, name: &below, below: &below, parent, raw, kind });
                return Ok(Found::All);
            }
        };
        let mut left = self.max_entries;
        let prefix = if place.shown.is_empty() { String::new() } else { format!("{}/", place.shown) };
        let ended = self.folder(&root, &prefix, prefix.len(), MAX_DEPTH, &mut left, &mut visit);
        Ok(match ended {
            ControlFlow::Continue(()) => Found::All,
            ControlFlow::Break(found) => found,
        })
    }

    fn folder(
        &self,
        folder: &OwnedFd,
        prefix: &str,
        start: usize,
        depth: usize,
        left: &mut usize,
        visit: &mut dyn FnMut(&Entry<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<Found> {
        let Ok(entries) = Dir::read_from(folder) else { return ControlFlow::Continue(()) };
        let names = entries.filter_map(Result::ok).map(|entry| entry.file_name().to_bytes().to_vec());
        let wanted = |name: &Vec<u8>| !matches!(name.as_slice(), b"." | b"..") && (self.hidden || name[0] != b'.');
        let mut names: Vec<Vec<u8>> = names.filter(wanted).collect();
        names.sort_unstable();
        for raw in &names {
            if (self.stop)() {
                return ControlFlow::Break(Found::Stopped);
            }
            *left = match left.checked_sub(1) {
                Some(left) => left,
                None => return ControlFlow::Break(Found::TooMuch),
            };
            let raw = OsStr::from_bytes(raw);
            let Ok(stat) = statat(folder, raw, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            // By its name and by what it is: where it is was looked at when the search began.
            if self.guard.check(Path::new(""), raw, Some(&stat), Wanted::Read).is_err() {
                continue;
            }
            let kind = FileType::from_raw_mode(stat.st_mode);
            let name = raw.to_string_lossy();
            let path = format!("{prefix}{name}");
            if kind == FileType::Directory {
                if depth == 0 {
                    return ControlFlow::Break(Found::TooMuch);
                }
                let Ok(inner) = openat(folder, raw, folder_flags(), Mode::empty()) else { continue };
                self.folder(&inner, &format!("{path}/"), start, depth - 1, left, visit)?;
                continue;
            }
            let parent = std::os::fd::AsFd::as_fd(folder);
            let entry = Entry { path: &path, name: &name, below: &path[start..], parent, raw, kind };
            if visit(&entry).is_break() {
                return ControlFlow::Break(Found::Enough);
            }
        }
        ControlFlow::Continue(())
    }
}
