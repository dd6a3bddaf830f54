//! The work folder of an agent, and path resolution that cannot leave it.
//!
//! Folders are opened one by one and kept open, and symbolic links are read and followed by hand. A path therefore
//! cannot change its meaning between check and use.

mod guard;
mod resolved_path;
mod tree;

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::text::{escape_invisible, truncate_chars};
pub use guard::ProtectedPaths;
pub(crate) use guard::{AccessMode, PathGuard};
pub(crate) use resolved_path::ResolvedPath;
pub(crate) use tree::{FileTree, TreeEntry, WalkEnd};

/// As many as operating systems usually follow.
const MAX_LINKS: usize = 40;
const MAX_PATH_BYTES: usize = 4096;
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o755);

/// A sentence for the model or author that named the path.
pub(crate) type FileToolProblem = String;

/// A folder that no path leads out of.
pub(crate) struct WorkFolder {
    root: OwnedFd,
    /// The path without symbolic links.
    path: PathBuf,
    /// The path as the caller named it.
    given: PathBuf,
    guard: PathGuard,
}

impl WorkFolder {
    pub(crate) fn open(given: &Path, protected: &ProtectedPaths) -> Result<WorkFolder, FileToolProblem> {
        let shown = || quote(given.as_os_str());
        if given.as_os_str().is_empty() {
            return Err("there is no work folder (on a server, set `workdir` under [server] in windlass.toml)".into());
        }
        if !given.is_absolute() {
            return Err(format!("the work folder {} is not an absolute path", shown()));
        }
        let path =
            given.canonicalize().map_err(|error| format!("the work folder {} cannot be used: {error}", shown()))?;
        let root = rustix::fs::open(&path, folder_flags(), Mode::empty())
            .map_err(|error| format!("the work folder {} cannot be used: {}", shown(), reason(error)))?;
        let guard = PathGuard::new(protected);
        let stat = rustix::fs::fstat(&root).map_err(reason)?;
        // The operator chose the folder, so it may have a protected name. Only a store in use is rejected.
        guard
            .check(&path, OsStr::new(""), Some(&stat), AccessMode::Read)
            .map_err(|_| format!("the work folder {} is the store of runs", shown()))?;
        Ok(WorkFolder { root, path, given: given.to_owned(), guard })
    }

    /// Follows a path to its target, which need not exist. An absolute path is accepted if it leads into the folder. With
    /// write access, missing folders on the way are created.
    pub(crate) fn find(&self, path: &str, access: AccessMode) -> Result<ResolvedPath, FileToolProblem> {
        let walk = PathWalk { folder: self, named: path, dirs: Vec::new(), names: Vec::new(), links: 0 };
        let parts = self.parts(path)?;
        walk.follow(parts, access)
    }

    pub(crate) fn guard(&self) -> &PathGuard {
        &self.guard
    }

    /// Resolves a path relative to this folder as far as it exists, and the rest by its text. Creates nothing.
    pub(crate) fn resolve(&self, path: &str) -> Option<PathBuf> {
        let mut walk = PathWalk { folder: self, named: path, dirs: Vec::new(), names: Vec::new(), links: 0 };
        let mut parts = self.parts(path).ok()?;
        while let Some(part) = parts.pop_front() {
            if part == ".." {
                walk.dirs.pop()?;
                walk.names.pop();
                continue;
            }
            let here = walk.dirs.last().unwrap_or(&self.root).as_fd();
            let found = statat(here, &part, AtFlags::SYMLINK_NOFOLLOW).ok();
            match found.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Some(FileType::Symlink) => walk.follow_link(&part, &mut parts).ok()?,
                Some(FileType::Directory) => walk.enter(part).ok()?,
                _ => {
                    walk.names.push(part);
                    for part in parts {
                        if part == ".." { walk.names.pop().map(drop)? } else { walk.names.push(part) }
                    }
                    break;
                }
            }
        }
        Some(walk.names.iter().collect())
    }

    /// The path without symbolic links.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Splits a path into its parts, keeping `..`. Rejects a path that leaves the folder by its text alone, before
    /// anything is created.
    fn parts(&self, path: &str) -> Result<VecDeque<OsString>, FileToolProblem> {
        if path.is_empty() || path.len() > MAX_PATH_BYTES || path.contains('\0') {
            return Err(format!("{} is not a usable path", quote(OsStr::new(path))));
        }
        let relative =
            if path.starts_with('/') { self.relative_path(Path::new(path)) } else { Some(PathBuf::from(path)) };
        let relative = relative.ok_or_else(|| outside_problem(path))?;
        let parts = split(relative.as_os_str());
        let mut depth = 0usize;
        for part in &parts {
            depth = if part == ".." { depth.checked_sub(1).ok_or_else(|| outside_problem(path))? } else { depth + 1 };
        }
        Ok(parts)
    }

    /// Converts an absolute path to one relative to this folder.
    fn relative_path(&self, absolute: &Path) -> Option<PathBuf> {
        let rest = absolute.strip_prefix(&self.given).or_else(|_| absolute.strip_prefix(&self.path));
        rest.ok().map(Path::to_owned)
    }
}

struct PathWalk<'a> {
    folder: &'a WorkFolder,
    named: &'a str,
    /// The open folders below the root, outermost first.
    dirs: Vec<OwnedFd>,
    names: Vec<OsString>,
    links: usize,
}

impl PathWalk<'_> {
    fn follow(mut self, mut parts: VecDeque<OsString>, access: AccessMode) -> Result<ResolvedPath, FileToolProblem> {
        while let Some(part) = parts.pop_front() {
            if part == ".." {
                self.dirs.pop().ok_or_else(|| outside_problem(self.named))?;
                self.names.pop();
                continue;
            }
            let here = self.dirs.last().unwrap_or(&self.folder.root).as_fd();
            let found = match statat(here, &part, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => Some(stat),
                Err(Errno::NOENT) => None,
                Err(error) => return Err(self.unusable(error)),
            };
            let whole = self.names.iter().fold(self.folder.path.clone(), |path, name| path.join(name)).join(&part);
            self.folder.guard.check(&whole, &part, found.as_ref(), access)?;
            let kind = found.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode));
            match kind {
                Some(FileType::Symlink) => self.follow_link(&part, &mut parts)?,
                _ if parts.is_empty() => return self.finish(Some(part), kind),
                Some(FileType::Directory) => self.enter(part)?,
                Some(_) => return Err(format!("{} is not a folder, so it contains no files", quote(&part))),
                None if access == AccessMode::Write => {
                    match mkdirat(here, &part, FOLDER_MODE) {
                        // Another process may just have created it.
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(self.unusable(error)),
                    }
                    self.enter(part)?;
                }
                None => return Err(format!("there is no {}", quote(OsStr::new(self.named)))),
            }
        }
        self.finish(None, Some(FileType::Directory))
    }

    fn enter(&mut self, name: OsString) -> Result<(), FileToolProblem> {
        let here = self.dirs.last().unwrap_or(&self.folder.root);
        let opened = openat(here, &name, folder_flags(), Mode::empty()).map_err(|error| self.unusable(error))?;
        self.dirs.push(opened);
        self.names.push(name);
        Ok(())
    }

    /// Replaces the link by the parts of its target.
    fn follow_link(&mut self, name: &OsStr, parts: &mut VecDeque<OsString>) -> Result<(), FileToolProblem> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(format!("{} is a loop of symbolic links", quote(OsStr::new(self.named))));
        }
        let here = self.dirs.last().unwrap_or(&self.folder.root);
        let target = readlinkat(here, name, Vec::new()).map_err(|error| self.unusable(error))?;
        let mut target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            target = self.folder.relative_path(&target).ok_or_else(|| outside_problem(self.named))?;
            self.dirs.clear();
            self.names.clear();
        }
        for part in split(target.as_os_str()).into_iter().rev() {
            parts.push_front(part);
        }
        Ok(())
    }

    fn finish(mut self, name: Option<OsString>, kind: Option<FileType>) -> Result<ResolvedPath, FileToolProblem> {
        let parent = match self.dirs.pop() {
            Some(parent) => parent,
            None => self.folder.root.try_clone().map_err(|error| format!("the work folder cannot be used: {error}"))?,
        };
        self.names.extend(name.clone());
        let display =
            self.names.iter().map(|name| escape_invisible(&name.to_string_lossy())).collect::<Vec<_>>().join("/");
        Ok(ResolvedPath { parent, name, kind, display })
    }

    fn unusable(&self, error: Errno) -> FileToolProblem {
        format!("{} cannot be used: {}", quote(OsStr::new(self.named)), reason(error))
    }
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn split(path: &OsStr) -> VecDeque<OsString> {
    let parts = path.as_bytes().split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.map(|part| OsStr::from_bytes(part).to_owned()).collect()
}

fn outside_problem(path: &str) -> FileToolProblem {
    format!("{} is outside the work folder; only files in it can be used", quote(OsStr::new(path)))
}

/// Quotes a path for a message.
pub(crate) fn quote(path: &OsStr) -> String {
    format!("`{}`", truncate_chars(&escape_invisible(&path.to_string_lossy()), 200))
}

/// Returns the system's error text without its number.
pub(crate) fn reason(error: Errno) -> String {
    let text = std::io::Error::from(error).to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}
