//! The files of a package, in an order and with attributes that do not depend on the machine.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use flate2::{Compression, GzBuilder};

/// Permissions of programs and folders.
pub(crate) const EXECUTABLE: u32 = 0o755;
/// Permissions of all other files.
pub(crate) const PLAIN: u32 = 0o644;

/// A tree of files, sorted by path. The folders of a file exist by themselves.
#[derive(Clone, Default)]
pub(crate) struct PackageTree {
    entries: BTreeMap<String, PackageEntry>,
}

/// A file, or a folder if it has no content.
#[derive(Clone)]
pub(crate) struct PackageEntry {
    pub content: Option<Arc<[u8]>>,
    pub mode: u32,
    /// The number of the user and of the group.
    pub owner: u64,
}

impl PackageTree {
    pub(crate) fn add(&mut self, path: impl Into<String>, mode: u32, content: impl Into<Arc<[u8]>>) {
        self.insert(path.into(), PackageEntry { content: Some(content.into()), mode, owner: 0 });
    }

    pub(crate) fn add_text(&mut self, path: impl Into<String>, content: impl AsRef<str>) {
        self.add(path, PLAIN, content.as_ref().as_bytes());
    }

    pub(crate) fn add_folder(&mut self, path: impl Into<String>, mode: u32, owner: u64) {
        self.insert(path.into(), PackageEntry { content: None, mode, owner });
    }

    /// Adds all files of another tree below a folder.
    pub(crate) fn add_tree(&mut self, folder: &str, other: &PackageTree) {
        let folder = folder.trim_end_matches('/');
        other.entries.iter().for_each(|(path, entry)| self.insert(format!("{folder}/{path}"), entry.clone()));
    }

    fn insert(&mut self, path: String, entry: PackageEntry) {
        for (at, _) in path.match_indices('/') {
            let folder = PackageEntry { content: None, mode: EXECUTABLE, owner: 0 };
            self.entries.entry(path[..at].to_owned()).or_insert(folder);
        }
        self.entries.insert(path, entry);
    }

    /// All files, without folders.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, u32, &Arc<[u8]>)> {
        self.entries.iter().filter_map(|(path, entry)| Some((path.as_str(), entry.mode, entry.content.as_ref()?)))
    }

    /// The number of bytes of all files.
    pub(crate) fn size(&self) -> u64 {
        self.files().map(|(_, _, content)| content.len() as u64).sum()
    }

    /// Writes a tar file whose entries all have the same time.
    pub(crate) fn to_tar(&self, time: u64) -> io::Result<Vec<u8>> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            let mut header = tar::Header::new_gnu();
            header.set_mtime(time);
            header.set_mode(entry.mode);
            header.set_uid(entry.owner);
            header.set_gid(entry.owner);
            let content: &[u8] = entry.content.as_deref().unwrap_or_default();
            header.set_size(content.len() as u64);
            match entry.content {
                Some(_) => {
                    header.set_entry_type(tar::EntryType::Regular);
                    archive.append_data(&mut header, path, content)?;
                }
                None => {
                    header.set_entry_type(tar::EntryType::Directory);
                    archive.append_data(&mut header, format!("{path}/"), content)?;
                }
            }
        }
        archive.into_inner()
    }

    pub(crate) fn to_tar_gz(&self, time: u64) -> io::Result<Vec<u8>> {
        gzip(&self.to_tar(time)?)
    }
}

/// Compresses bytes. The result has neither a time nor a name.
pub(crate) fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressed = GzBuilder::new().write(Vec::new(), Compression::best());
    compressed.write_all(bytes)?;
    compressed.finish()
}
