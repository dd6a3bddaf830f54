//! Errors of packaging.

use std::path::{Path, PathBuf};

/// The reason why a package could not be built or checked.
#[derive(Debug, thiserror::Error)]
pub enum DistError {
    #[error("{path}: {source}", path = path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("could not write {package}: {source}")]
    Package { package: &'static str, source: std::io::Error },
    #[error("{0}")]
    Failed(String),
}

impl DistError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> DistError {
        let path = path.into();
        move |source| DistError::File { path, source }
    }

    pub(crate) fn package(package: &'static str) -> impl Fn(std::io::Error) -> DistError {
        move |source| DistError::Package { package, source }
    }

    pub(crate) fn failed(message: impl Into<String>) -> DistError {
        DistError::Failed(message.into())
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, DistError> {
    std::fs::read(path).map_err(DistError::file(path))
}

pub(crate) fn read_text(path: &Path) -> Result<String, DistError> {
    std::fs::read_to_string(path).map_err(DistError::file(path))
}
