//! The manifest of a backup: the files of the store as lists of chunks, and where each chunk is.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass_store::{StoreError, StoreErrorKind};

use crate::error::from_io;
use crate::open::sync_directory;

/// Version of the layout of a backup directory. Programs refuse higher versions.
const BACKUP_FORMAT: u64 = 1;

/// The size of a chunk: eight pages. A smaller one makes long manifests, a larger one copies more for a changed page.
pub(super) const CHUNK_BYTES: usize = 32 * 1024;

pub(super) const MANIFEST_SUFFIX: &str = ".manifest";

/// The name of a backup's file with the chunks that no earlier backup has.
pub(super) const PACK_SUFFIX: &str = ".pack";

/// One backup in a backup directory.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Manifest {
    pub backup_format: u64,
    pub store_format: i64,
    pub run_format: u32,
    pub created_by: String,
    /// Microseconds since 1970: the copy has what was durable then.
    pub at: i64,
    /// The pack files that have the chunks, by the names of their backups.
    pub packs: Vec<String>,
    pub files: Vec<FileEntry>,
    /// Damage that the store already had.
    pub findings: Vec<String>,
}

#[derive(Serialize, Deserialize, Debug)]
pub(super) struct FileEntry {
    pub name: String,
    pub bytes: u64,
    pub chunks: Vec<ChunkEntry>,
}

/// A chunk: its hash, and its place as an index into `packs` and an offset in that file.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(super) struct ChunkEntry(pub String, pub usize, pub u64);

impl FileEntry {
    /// Returns the length of the chunk with this index.
    pub(super) fn chunk_bytes(&self, index: usize) -> usize {
        let begin = index as u64 * CHUNK_BYTES as u64;
        self.bytes.saturating_sub(begin).min(CHUNK_BYTES as u64) as usize
    }
}

impl Manifest {
    /// Writes the manifest, which makes its backup complete. Everything it refers to must be durable.
    pub(super) fn write(&self, directory: &Path, name: &str) -> Result<(), StoreError> {
        let path = directory.join(format!("{name}{MANIFEST_SUFFIX}"));
        let temporary = directory.join(format!("{name}{MANIFEST_SUFFIX}.new"));
        let body = serde_json::to_vec(self).map_err(|error| invalid(&path, &error.to_string()))?;
        let hash = blake3::hash(&body).to_hex();
        let write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
            file.write_all(&body)?;
            writeln!(file, "\n{hash}")?;
            file.sync_all()?;
            fs::rename(&temporary, &path)
        };
        write().map_err(|error| from_io(&error, "write", &path))?;
        sync_directory(directory)
    }

    /// Reads the manifest of a backup and checks its hash.
    pub(super) fn read(directory: &Path, name: &str) -> Result<Manifest, StoreError> {
        let path = directory.join(format!("{name}{MANIFEST_SUFFIX}"));
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => no_backup(directory, Some(name)),
            _ => from_io(&error, "read", &path),
        })?;
        let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let split = text.iter().rposition(|byte| *byte == b'\n');
        let Some((body, hash)) = split.map(|at| (&text[..at], &text[at + 1..])) else {
            return Err(invalid(&path, "it is cut off"));
        };
        if blake3::hash(body).to_hex().as_bytes() != hash {
            return Err(invalid(&path, "its checksum does not match"));
        }
        #[derive(Deserialize)]
        struct Format {
            backup_format: u64,
        }
        let format: Format = serde_json::from_slice(body).map_err(|error| invalid(&path, &error.to_string()))?;
        if format.backup_format > BACKUP_FORMAT {
            let what = format!("the backup {}", path.display());
            return Err(StoreError::needs_newer(&what, "backup format", format.backup_format, BACKUP_FORMAT));
        }
        serde_json::from_slice(body).map_err(|error| invalid(&path, &error.to_string()))
    }

    pub(super) fn new(at: i64, store_format: i64, findings: Vec<String>) -> Manifest {
        Manifest {
            backup_format: BACKUP_FORMAT,
            store_format,
            run_format: windlass_store::RUN_FORMAT,
            created_by: concat!("windlass ", env!("CARGO_PKG_VERSION")).to_owned(),
            at,
            packs: Vec::new(),
            files: Vec::new(),
            findings,
        }
    }

    /// Removes the packs that no chunk is in.
    pub(super) fn drop_unused_packs(&mut self) {
        let used: BTreeSet<usize> =
            self.files.iter().flat_map(|file| &file.chunks).map(|ChunkEntry(_, pack, _)| *pack).collect();
        let places: HashMap<usize, usize> = used.iter().enumerate().map(|(new, old)| (*old, new)).collect();
        for ChunkEntry(_, pack, _) in self.files.iter_mut().flat_map(|file| &mut file.chunks) {
            *pack = places.get(pack).copied().unwrap_or(*pack);
        }
        self.packs = used.iter().filter_map(|pack| self.packs.get(*pack).cloned()).collect();
    }

    /// Returns the total size of the files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Calls `visit` with every chunk, in order, after its hash was checked.
    pub(super) fn read_chunks(
        &self,
        directory: &Path,
        mut visit: impl FnMut(&FileEntry, &[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut packs = PackReader { directory, packs: &self.packs, open: None };
        let mut buffer = vec![0; CHUNK_BYTES];
        for file in &self.files {
            for (index, chunk) in file.chunks.iter().enumerate() {
                let bytes = &mut buffer[..file.chunk_bytes(index)];
                packs.read(chunk, bytes)?;
                visit(file, bytes)?;
            }
        }
        Ok(())
    }
}

/// Reads chunks; keeps the pack open that was read last.
struct PackReader<'a> {
    directory: &'a Path,
    packs: &'a [String],
    open: Option<(usize, File, PathBuf)>,
}

impl PackReader<'_> {
    fn read(&mut self, chunk: &ChunkEntry, bytes: &mut [u8]) -> Result<(), StoreError> {
        let ChunkEntry(hash, pack, offset) = chunk;
        if self.open.as_ref().is_none_or(|(open, _, _)| open != pack) {
            let name = self.packs.get(*pack).map_or("", String::as_str);
            let path = self.directory.join(format!("{name}{PACK_SUFFIX}"));
            let file = File::open(&path).map_err(|error| missing_pack(&error, &path))?;
            self.open = Some((*pack, file, path));
        }
        let Some((_, file, path)) = &self.open else { return Ok(()) };
        let read = std::os::unix::fs::FileExt::read_exact_at(file, bytes, *offset);
        read.map_err(|error| missing_pack(&error, path))?;
        match blake3::hash(bytes).to_hex().as_str() == hash {
            true => Ok(()),
            false => Err(invalid(path, &format!("the chunk at byte {offset} does not match its checksum"))),
        }
    }
}

/// Returns the names of the complete backups in a directory, oldest first.
pub(super) fn backup_names(directory: &Path) -> Result<Vec<String>, StoreError> {
    file_names(directory, MANIFEST_SUFFIX)
}

/// Returns the names of the files that have this suffix, without it, in order.
pub(super) fn file_names(directory: &Path, suffix: &str) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(from_io(&error, "list", directory)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| from_io(&error, "list", directory))?.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(suffix));
        names.extend(name.map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

pub(super) fn no_backup(directory: &Path, name: Option<&str>) -> StoreError {
    let what = name.map_or_else(|| "no backup".to_owned(), |name| format!("no backup `{name}`"));
    let message = format!("There is {what} in {}.", directory.display());
    let hint = "Name the directory that was given to `windlass backup`.";
    StoreError::new(StoreErrorKind::Version, message).with_hint(hint).with_file(directory)
}

fn missing_pack(error: &std::io::Error, path: &Path) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::NotFound => invalid(path, "the file is missing"),
        std::io::ErrorKind::UnexpectedEof => invalid(path, "the file is too short"),
        _ => from_io(error, "read", path),
    }
}

fn invalid(path: &Path, why: &str) -> StoreError {
    let message = format!("The backup is damaged: {}: {why}.", path.display());
    let hint = "Restore an older backup with `--at NAME`, or one from another directory.";
    StoreError::new(StoreErrorKind::Damaged, message).with_hint(hint).with_file(path)
}
