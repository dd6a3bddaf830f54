//! The log file: its hash chain, its recovery after a crash, and its rotation.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::FILE;
use super::end::{EndRecord, LogEnd};
use super::key::AuditKey;

/// Lock file held by the writing process.
const LOCK: &str = "audit.lock";

/// Key of the hash at the end of a line.
pub(super) const HASH_KEY: &str = ",\"hash\":\"";

/// Length of the hash, its quote and the brace at the end of each line.
pub(super) const HASH_TAIL_BYTES: usize = 64 + 2;

/// Maximum length of a line; names, paths and numbers are all bounded.
pub(super) const MAX_LINE_BYTES: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
#[error("{what} (`{file}`): {why}")]
pub struct AuditError {
    pub what: String,
    pub file: String,
    pub why: String,
}

impl AuditError {
    pub(super) fn new(file: &Path, what: &str, why: &dyn std::fmt::Display) -> AuditError {
        AuditError { what: what.to_owned(), file: file.display().to_string(), why: why.to_string() }
    }

    pub fn hint(&self) -> &'static str {
        "only one server at a time may write it; otherwise check the disk and the permissions of the store's directory"
    }
}

/// Splits a line into the hashed text and the hash it states.
pub(super) fn split_line(line: &[u8]) -> Option<(&[u8], [u8; 32])> {
    let at = line.len().checked_sub(HASH_TAIL_BYTES + HASH_KEY.len())?;
    let (body, tail) = line.split_at(at);
    let hash = tail.strip_prefix(HASH_KEY.as_bytes())?.strip_suffix(b"\"}")?;
    Some((body, *blake3::Hash::from_hex(hash).ok()?.as_bytes()))
}

pub(super) fn line_number(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct NumberedLine {
        n: u64,
    }
    serde_json::from_slice::<NumberedLine>(line).ok().map(|line| line.n)
}

/// Returns all files of a log, oldest first.
pub(super) fn log_files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut rotated: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_prefix("audit.").and_then(|rest| rest.strip_suffix(".log"));
        if number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())) {
            rotated.push(path);
        }
    }
    rotated.sort();
    let current = directory.join(FILE);
    rotated.extend(current.exists().then_some(current));
    Ok(rotated)
}

pub(super) struct AuditFile {
    directory: PathBuf,
    file: File,
    bytes: u64,
    max_bytes: u64,
    /// Numbers of the file's first line and of the next line.
    first: u64,
    next: u64,
    last_hash: [u8; 32],
    /// `next` and `last_hash` after the last line that is synced to disk.
    synced: (u64, [u8; 32]),
    buffer: Vec<u8>,
    lock: File,
    key: AuditKey,
    end: EndRecord,
}

/// The state of the log's end, as the start of a server has found it.
#[derive(Clone, Copy, Default)]
pub(super) struct OpenedEnd {
    /// Number of bytes of a torn line that were truncated.
    pub cut_bytes: u64,
    /// Number of lines that were there and are missing.
    pub removed_lines: u64,
    /// There are lines, and no record of their end.
    pub end_unknown: bool,
}

impl AuditFile {
    /// Opens the log. Where lines are missing at its end, it continues with the number after them, so that the gap stays
    /// visible.
    pub(crate) fn open(directory: &Path, max_bytes: u64) -> Result<(AuditFile, OpenedEnd), AuditError> {
        let path = directory.join(FILE);
        let io_error = |what: &'static str| {
            let path = path.clone();
            move |error: std::io::Error| AuditError::new(&path, what, &error)
        };
        let open = |path: &Path| OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
        let lock = open(&directory.join(LOCK)).map_err(io_error("could not open the audit log's lock"))?;
        lock.try_lock().map_err(|error| AuditError::new(&path, "another server is writing this audit log", &error))?;
        let key = AuditKey::read_or_create(directory).map_err(io_error("could not use the key of the audit log"))?;
        let recorded = LogEnd::read(directory, &key).map_err(io_error("could not read the end of the audit log"))?;
        let older = log_files(directory).map_err(io_error("could not find the audit log"))?;
        let previous = older.into_iter().rfind(|file| *file != path);
        let mut file = open(&path).map_err(io_error("could not open the audit log"))?;
        let cut =
            truncate_torn_line(&mut file).map_err(io_error("could not truncate the audit log's unfinished end"))?;
        let mut last = last_line(&mut file).map_err(io_error("could not read the audit log"))?;
        let has_lines = last.is_some();
        if let (None, Some(older)) = (&last, previous) {
            let read = File::open(&older).and_then(|mut older| last_line(&mut older));
            last = read.map_err(io_error("could not read the audit log before this one"))?;
        }
        let (present, present_hash) = match &last {
            None => (0, [0; 32]),
            Some(line) => {
                let damaged = || AuditError::new(&path, "the audit log's last line is invalid", &"its hash is missing");
                let (_, hash) = split_line(line).ok_or_else(damaged)?;
                (line_number(line).ok_or_else(damaged)?, hash)
            }
        };
        let end_unknown = recorded.is_none() && present > 0;
        let removed = recorded.filter(|end| end.number > present);
        let (number, last_hash) = removed.map_or((present, present_hash), |end| (end.number, end.hash));
        let opened = OpenedEnd { cut_bytes: cut, removed_lines: number - present, end_unknown };
        let first = match has_lines {
            true => {
                first_line_number(&mut file).map_err(io_error("could not read the audit log"))?.unwrap_or(number + 1)
            }
            false => number + 1,
        };
        let end = EndRecord::open(directory, &key, &LogEnd { number, hash: last_hash })
            .map_err(io_error("could not write the end of the audit log"))?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(io_error("could not read the audit log"))?;
        sync_directory(directory).map_err(io_error("could not sync the audit log's directory"))?;
        let directory = directory.to_owned();
        let (next, buffer) = (number + 1, Vec::new());
        let synced = (next, last_hash);
        let log =
            AuditFile { directory, file, bytes, max_bytes, first, next, last_hash, synced, buffer, lock, key, end };
        Ok((log, opened))
    }

    /// Adds a line to the next commit and returns its number.
    pub(crate) fn add(&mut self, text: &str) -> u64 {
        let begin = self.buffer.len();
        // Writing into memory does not fail.
        let _ = write!(self.buffer, "{{\"n\":{},{text}", self.next);
        self.last_hash = self.key.chain_hash(&self.last_hash, &self.buffer[begin..]);
        let hash = blake3::Hash::from_bytes(self.last_hash).to_hex();
        let _ = writeln!(self.buffer, "{HASH_KEY}{hash}\"}}");
        self.next += 1;
        self.next - 1
    }

    /// Writes all added lines. Returns true when all of them are on disk, and false when none is, because the disk is
    /// full.
    ///
    /// `make_room` is called when the disk is full, until it returns false.
    pub(crate) fn commit(&mut self, make_room: &dyn Fn() -> bool) -> Result<bool, AuditError> {
        let path = self.directory.join(FILE);
        let io_error = |error: std::io::Error| AuditError::new(&path, "could not write the audit log", &error);
        let mut written = self.file.write_all(&self.buffer);
        while written.as_ref().is_err_and(is_full) && make_room() {
            written = self.file.set_len(self.bytes).and_then(|()| self.file.write_all(&self.buffer));
        }
        if let Err(error) = written {
            if is_full(&error) && self.roll_back().is_ok() {
                return Ok(false);
            }
            return Err(io_error(error));
        }
        self.file.sync_data().map_err(io_error)?;
        self.synced = (self.next, self.last_hash);
        self.end.write(&self.key, &LogEnd { number: self.next - 1, hash: self.last_hash }).map_err(io_error)?;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        // Frees the memory of a burst.
        self.buffer.shrink_to(MAX_LINE_BYTES);
        if self.bytes >= self.max_bytes {
            self.rotate().map_err(io_error)?;
        }
        Ok(true)
    }

    /// Discards the added lines. Nothing was synced, so the content of the disk is known, and the chain continues from
    /// there once there is space.
    fn roll_back(&mut self) -> std::io::Result<()> {
        self.file.set_len(self.bytes)?;
        self.file.sync_data()?;
        (self.next, self.last_hash) = self.synced;
        self.buffer = Vec::new();
        Ok(())
    }

    /// Continues the chain in a new file. An interruption at any point loses no line.
    fn rotate(&mut self) -> std::io::Result<()> {
        let path = self.directory.join(FILE);
        fs::rename(&path, self.directory.join(format!("audit.{:012}.log", self.first)))?;
        self.file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&path)?;
        sync_directory(&self.directory)?;
        (self.bytes, self.first) = (0, self.next);
        Ok(())
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::FileTooLarge)
}

impl Drop for AuditFile {
    fn drop(&mut self) {
        // Closing is not enough: a child process being started has the file open as well until it calls exec.
        let _ = self.lock.unlock();
    }
}

fn sync_directory(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Truncates what a crash left at the end: a torn line, and lines of which a power loss kept only parts.
fn truncate_torn_line(file: &mut File) -> std::io::Result<u64> {
    let bytes = file.seek(SeekFrom::End(0))?;
    let mut chunk = vec![0u8; MAX_LINE_BYTES];
    let mut end = written_bytes(file, &mut chunk)?;
    while end > 0 {
        let begin = end.saturating_sub(chunk.len() as u64);
        let part = &mut chunk[..(end - begin) as usize];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(part)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            end = begin + at as u64 + 1;
            break;
        }
        end = begin;
    }
    if end < bytes {
        file.set_len(end)?;
        file.sync_all()?;
    }
    Ok(bytes - end)
}

/// Returns the position of the first zero byte, or the length of the file. No line contains one: it is where a power loss
/// kept the size of the file, or what follows, and not the content.
fn written_bytes(file: &mut File, chunk: &mut [u8]) -> std::io::Result<u64> {
    let mut at = 0;
    file.seek(SeekFrom::Start(0))?;
    loop {
        let read = file.read(chunk)?;
        match chunk[..read].iter().position(|byte| *byte == 0) {
            Some(zero) => return Ok(at + zero as u64),
            None if read == 0 => return Ok(at),
            None => at += read as u64,
        }
    }
}

fn last_line(file: &mut File) -> std::io::Result<Option<Vec<u8>>> {
    let bytes = file.seek(SeekFrom::End(0))?;
    let begin = bytes.saturating_sub(2 * MAX_LINE_BYTES as u64);
    file.seek(SeekFrom::Start(begin))?;
    let mut end = Vec::new();
    file.take(bytes - begin).read_to_end(&mut end)?;
    let Some(text) = end.strip_suffix(b"\n") else { return Ok(None) };
    let at = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    Ok(Some(text[at..].to_vec()))
}

fn first_line_number(file: &mut File) -> std::io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(0))?;
    let mut begin = vec![0u8; MAX_LINE_BYTES];
    let read = file.read(&mut begin)?;
    let line = begin[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(line_number(line))
}
