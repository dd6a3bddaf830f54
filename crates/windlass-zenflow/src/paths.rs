//! Paths of files next to a workflow: never out of its folder, neither as written nor through a link.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use windlass_dialect::{FileReadProblem, FileReader};

pub(crate) const PATH_HINT: &str = "write a path inside the workflow's folder, such as docs/notes.md";

/// The reason why a path leads to no file.
#[derive(Debug)]
pub(crate) enum PathError {
    /// The path as written is invalid; the text is the rest of a sentence about it.
    Invalid(&'static str),
    /// A link leads out of the folder.
    Outside,
    File(FileReadProblem),
}

/// A folder whose files may be read.
#[derive(Clone)]
pub(crate) struct WorkflowFolder {
    path: PathBuf,
    pub files: Arc<dyn FileReader>,
}

impl WorkflowFolder {
    /// Opens a folder. Resolves links in its own path first, so that paths are compared with its real location.
    pub(crate) fn open(path: &Path, files: Arc<dyn FileReader>) -> WorkflowFolder {
        let path = files.canonical(path).unwrap_or_else(|_| path.to_owned());
        WorkflowFolder { path, files }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the real location of a file.
    pub(crate) fn find(&self, written: &str) -> Result<PathBuf, PathError> {
        let tidy = normalize(written).map_err(PathError::Invalid)?;
        let path = self.files.canonical(&self.path.join(tidy)).map_err(PathError::File)?;
        match path.starts_with(&self.path) {
            true => Ok(path),
            false => Err(PathError::Outside),
        }
    }
}

/// Removes `.` and `..` from a path. The error is the rest of a sentence about the path.
pub(crate) fn normalize(written: &str) -> Result<PathBuf, &'static str> {
    if written.trim().is_empty() {
        return Err("is no path");
    }
    if written.contains('\0') {
        return Err("contains a character that paths cannot have");
    }
    // A drive letter is a separate root on one system and a name on others.
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
    fn paths_never_lead_out_of_the_folder() {
        for (written, expected) in [
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
            ("a\0b", Err("contains a character that paths cannot have")),
        ] {
            assert_eq!(normalize(written), expected.map(PathBuf::from), "{written}");
        }
    }
}
