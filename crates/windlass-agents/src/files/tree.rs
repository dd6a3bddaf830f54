//! All files below a place. Symbolic links are told of, never followed.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, openat, statat};

use super::{AccessMode, FileToolProblem, PathGuard, ResolvedPath, folder_flags, reason};

/// Each level is a call on the stack.
const MAX_DEPTH: usize = 64;

/// What there is to see of a tree.
pub(crate) struct FileTree<'a> {
    pub(crate) guard: &'a PathGuard,
    /// Also what begins with a dot.
    pub(crate) includes_hidden: bool,
    /// More is a mistake in the pattern, or a folder that should not be searched as a whole.
    pub(crate) max_entries: usize,
    pub(crate) stop: &'a dyn Fn() -> bool,
}

/// One file or link.
pub(crate) struct TreeEntry<'a> {
    /// From the work folder on.
    pub(crate) path: &'a str,
    pub(crate) name: &'a str,
    /// From the place on where the search began.
    pub(crate) relative: &'a str,
    parent: BorrowedFd<'a>,
    raw: &'a OsStr,
    kind: FileType,
}

impl TreeEntry<'_> {
    /// None if it is no ordinary file, or cannot be read.
    pub(crate) fn open(&self) -> Option<(File, u64)> {
        let file = ResolvedPath {
            parent: self.parent.try_clone_to_owned().ok()?,
            name: Some(self.raw.to_owned()),
            kind: Some(self.kind),
            display: self.path.to_owned(),
        };
        file.open().ok()
    }
}

/// How a search ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum WalkEnd {
    Complete,
    /// Whoever asked has enough.
    LimitReached,
    /// There is too much to look at.
    TooManyEntries,
    Stopped,
}

impl FileTree<'_> {
    /// In the order of names, a folder at a time.
    pub(crate) fn walk(
        &self,
        start: &ResolvedPath,
        mut visit: impl FnMut(&TreeEntry<'_>) -> ControlFlow<()>,
    ) -> Result<WalkEnd, FileToolProblem> {
        let problem = |error| format!("`{}` cannot be searched: {}", start.display, reason(error));
        let root = match (&start.name, start.kind) {
            (Some(name), Some(FileType::Directory)) => {
                openat(&start.parent, name, folder_flags(), Mode::empty()).map_err(problem)?
            }
            (None, _) => openat(&start.parent, ".", folder_flags(), Mode::empty()).map_err(problem)?,
            (Some(_), None) => return Err(format!("there is no `{}`", start.display)),
            (Some(name), Some(kind)) => {
                let (raw, relative) = (name.as_os_str(), name.to_string_lossy());
                let parent = std::os::fd::AsFd::as_fd(&start.parent);
                let _ =
                    visit(&TreeEntry { path: &start.display, name: &relative, relative: &relative, parent, raw, kind });
                return Ok(WalkEnd::Complete);
            }
        };
        let mut remaining = self.max_entries;
        let prefix = if start.display.is_empty() { String::new() } else { format!("{}/", start.display) };
        let ended = self.walk_folder(&root, &prefix, prefix.len(), MAX_DEPTH, &mut remaining, &mut visit);
        Ok(match ended {
            ControlFlow::Continue(()) => WalkEnd::Complete,
            ControlFlow::Break(found) => found,
        })
    }

    fn walk_folder(
        &self,
        folder: &OwnedFd,
        prefix: &str,
        start: usize,
        depth: usize,
        remaining: &mut usize,
        visit: &mut dyn FnMut(&TreeEntry<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<WalkEnd> {
        let Ok(entries) = Dir::read_from(folder) else { return ControlFlow::Continue(()) };
        let names = entries.filter_map(Result::ok).map(|entry| entry.file_name().to_bytes().to_vec());
        let is_included =
            |name: &Vec<u8>| !matches!(name.as_slice(), b"." | b"..") && (self.includes_hidden || name[0] != b'.');
        let mut names: Vec<Vec<u8>> = names.filter(is_included).collect();
        names.sort_unstable();
        for raw in &names {
            if (self.stop)() {
                return ControlFlow::Break(WalkEnd::Stopped);
            }
            *remaining = match remaining.checked_sub(1) {
                Some(left) => left,
                None => return ControlFlow::Break(WalkEnd::TooManyEntries),
            };
            let raw = OsStr::from_bytes(raw);
            let Ok(stat) = statat(folder, raw, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            // By its name and by what it is: where it is was looked at when the search began.
            if self.guard.check(Path::new(""), raw, Some(&stat), AccessMode::Read).is_err() {
                continue;
            }
            let kind = FileType::from_raw_mode(stat.st_mode);
            let name = raw.to_string_lossy();
            let path = format!("{prefix}{name}");
            if kind == FileType::Directory {
                if depth == 0 {
                    return ControlFlow::Break(WalkEnd::TooManyEntries);
                }
                let Ok(inner) = openat(folder, raw, folder_flags(), Mode::empty()) else { continue };
                self.walk_folder(&inner, &format!("{path}/"), start, depth - 1, remaining, visit)?;
                continue;
            }
            let parent = std::os::fd::AsFd::as_fd(folder);
            let entry = TreeEntry { path: &path, name: &name, relative: &path[start..], parent, raw, kind };
            if visit(&entry).is_break() {
                return ControlFlow::Break(WalkEnd::LimitReached);
            }
        }
        ControlFlow::Continue(())
    }
}
