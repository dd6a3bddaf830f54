//! Definitions that come from files, in development mode. A version registered from elsewhere would be undone by the
//! next scan of the files, so it is refused.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The definitions that come from files.
#[derive(Default)]
pub struct FileSources(RwLock<ScannedFiles>);

#[derive(Default)]
enum ScannedFiles {
    /// Definitions are only registered over the API.
    #[default]
    None,
    /// The first scan has not ended: any definition may come from a file.
    Pending,
    /// The files by the names of their definitions.
    Files(BTreeMap<Arc<str>, String>),
}

/// The reason why a definition cannot be registered or removed over the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileConflict {
    /// The definition comes from this file.
    File {
        /// The name of the definition.
        name: String,
        /// The path of the file.
        file: String,
    },
    /// The files have not been scanned yet.
    NotScanned,
}

impl FileSources {
    /// Refuses all registrations over the API until the first scan has ended.
    pub fn await_scan(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = ScannedFiles::Pending;
    }

    /// Replaces the files after a scan, by the names of their definitions.
    pub fn replace(&self, files: BTreeMap<Arc<str>, String>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = ScannedFiles::Files(files);
    }

    /// Checks that a change over the API would not be undone by a scan.
    pub(crate) fn check_change(&self, name: &str) -> Result<(), FileConflict> {
        match &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            ScannedFiles::None => Ok(()),
            ScannedFiles::Pending => Err(FileConflict::NotScanned),
            ScannedFiles::Files(files) => match files.get(name) {
                None => Ok(()),
                Some(file) => Err(FileConflict::File { name: name.to_owned(), file: file.clone() }),
            },
        }
    }
}
