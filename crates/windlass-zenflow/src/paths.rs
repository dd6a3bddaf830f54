//! Paths of files beside a workflow: never out of its folder, neither by what is written nor by a link.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use windlass_dialect::{FileProblem, Files};

pub(crate) const HINT: &str = "write a path inside of the workflow's folder, such as docs/notes.md";

/// Why a path leads to no file.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// What is written cannot be right; the rest of a sentence about it.
    Written(&'static str),
    /// A link leads out of the folder.
    Outside,
    File(FileProblem),
}

/// A folder whose files may be read.
#[derive(Clone)]
pub(crate) struct Folder {
    path: PathBuf,
    pub files: Arc<dyn Files>,
}

impl Folder {
    /// Links in the folder's own path are followed first: what is in it is compared with where it really is.
    pub(crate) fn open(path: &Path, files: Arc<dyn Files>) -> Folder {
        let path = files.canonical(path).unwrap_or_else(|_| path.to_owned());
        Folder { path, files }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file really is.
    pub(crate) fn find(&self, written: &str) -> Result<PathBuf, Trouble> {
        let tidy = tidied(written).map_err(Trouble::Written)?;
        let path = self.files.canonical(&self.path.join(tidy)).map_err(Trouble::File)?;
        match path.starts_with(&self.path) {
            true => Ok(path),
            false => Err(Trouble::Outside),
        }
    }
}

/// The path without `.` and `..`, or the rest of a sentence that says what is wrong with it.
pub(crate) fn tidied(written: &str) -> Result<PathBuf, &'static str> {
    if written.trim().is_empty() {
        return Err("is no path");
    }
    if written.contains('\0') {
        return Err("has a character that no path has");
    }
    // A drive letter is a folder of its own on one system and a name on others.
    let drive = written.as_bytes().get(1) == Some(&b':') && written.as_bytes()[0].is_ascii_alphabetic();
    if written.starts_with(['/', '\\']) || drive {
        return Err("is an absolute path");
    }
    let mut tidy = PathBuf::new();
    for part in Path::new(written).components() {
        match part {
            Component::Normal(name) => tidy.push(name),
            Component::CurDir => {}
            Component::ParentDir if tidy.pop() => {}
            Component::ParentDir => return Err("leads out of the workflow's folder"),
            Component::RootDir | Component::Prefix(_) => return Err("is an absolute path"),
        }
    }
    match tidy.as_os_str().is_empty() {
        true => Err("is a folder, not a file"),
        false => Ok(tidy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        for (written, is) in [
            ("a/b.md", Ok("a/b.md")),
            ("./a/../b.md", Ok("b.md")),
            ("a/./b//c", Ok("a/b/c")),
            ("..", Err("leads out of the workflow's folder")),
            ("a/../../b", Err("leads out of the workflow's folder")),
            ("/etc/passwd", Err("is an absolute path")),
            ("\\\\server\\share", Err("is an absolute path")),
            ("C:/x", Err("is an absolute path")),
            ("a/..", Err("is a folder, not a file")),
            (" ", Err("is no path")),
            ("a\0b", Err("has a character that no path has")),
        ] {
            assert_eq!(tidied(written), is.map(PathBuf::from), "{written}");
        }
    }
}
