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

    /// Adds a file before its definition is registered, so that a change over the API comes before that registration
    /// or is refused.
    pub fn claim(&self, name: &Arc<str>, file: String) {
        if let ScannedFiles::Files(files) = &mut *self.0.write().unwrap_or_else(PoisonError::into_inner) {
            files.insert(name.clone(), file);
        }
    }

    /// Makes a change over the API unless a scan would undo it. No file is claimed meanwhile.
    pub(crate) fn change<T>(&self, name: &str, change: impl FnOnce() -> T) -> Result<T, FileConflict> {
        let scanned = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match &*scanned {
            ScannedFiles::Pending => return Err(FileConflict::NotScanned),
            ScannedFiles::Files(files) => {
                if let Some(file) = files.get(name) {
                    return Err(FileConflict::File { name: name.to_owned(), file: file.clone() });
                }
            }
            ScannedFiles::None => {}
        }
        Ok(change())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_ends_before_its_file_is_claimed_or_is_refused() {
        let (sources, name) = (FileSources::default(), Arc::from("hello"));
        assert_eq!(sources.change("hello", || 1), Ok(1), "definitions are no files");
        sources.await_scan();
        sources.claim(&name, "hello.json".to_owned());
        assert_eq!(sources.change("other", || 1), Err(FileConflict::NotScanned));
        sources.replace(BTreeMap::new());
        assert_eq!(sources.change("hello", || sources.0.try_write().is_err()), Ok(true), "a claim waits");
        sources.claim(&name, "hello.json".to_owned());
        let refused = FileConflict::File { name: "hello".to_owned(), file: "hello.json".to_owned() };
        assert_eq!(sources.change("hello", || 1), Err(refused));
        assert_eq!(sources.change("other", || 1), Ok(1));
    }
}
