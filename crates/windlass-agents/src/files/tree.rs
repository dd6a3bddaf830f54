//! Walks all files below a path. Symbolic links are reported, never followed.

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

/// The settings of a walk.
pub(crate) struct FileTree<'a> {
    pub(crate) guard: &'a PathGuard,
    /// Includes names that begin with a dot.
    pub(crate) includes_hidden: bool,
    /// The limit of visited entries. More means a mistake in the pattern, or a folder that should not be searched whole.
    pub(crate) max_entries: usize,
    pub(crate) stop: &'a dyn Fn() -> bool,
}

/// One file or link.
pub(crate) struct TreeEntry<'a> {
    /// The path relative to the work folder.
    pub(crate) path: &'a str,
    pub(crate) name: &'a str,
    /// The path relative to the start of the walk.
    pub(crate) relative: &'a str,
    parent: BorrowedFd<'a>,
    raw: &'a OsStr,
    kind: FileType,
}

impl TreeEntry<'_> {
    /// Opens the file. Returns `None` if it is not a regular file or cannot be read.
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

/// The way a walk ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum WalkEnd {
    Complete,
    /// The visitor stopped the walk because it has reached its limit.
    LimitReached,
    /// There are too many entries or levels.
    TooManyEntries,
    Stopped,
}

impl FileTree<'_> {
    /// Visits the files in the order of their names, one folder after the other.
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
            // Checks name and identity only: the location was checked when the walk began.
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
