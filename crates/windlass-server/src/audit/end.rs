//! The record of the log's end, apart from the log: without it, lines that are removed at the end would leave no trace.
//!
//! It is written after each commit of the log and costs no sync: after a power cut it may name an older end, never one
//! that the log does not have. Two places are written alternately, so that one of them is always whole.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::key::AuditKey;

/// The file of the record, next to the log.
pub const END_FILE: &str = "audit.end";

/// Length of one of the two places.
const PLACE_BYTES: usize = 256;

/// The end of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LogEnd {
    /// The number of the last line.
    pub number: u64,
    pub hash: [u8; 32],
}

impl LogEnd {
    /// Reads the record; `None`: there is none, or it was not written with this key.
    pub(super) fn read(directory: &Path, key: &AuditKey) -> io::Result<Option<LogEnd>> {
        let bytes = match std::fs::read(directory.join(END_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let places = bytes.chunks(PLACE_BYTES).filter_map(|place| LogEnd::parse(place, key));
        Ok(places.max_by_key(|end| end.number))
    }

    fn parse(place: &[u8], key: &AuditKey) -> Option<LogEnd> {
        let text = std::str::from_utf8(place).ok()?.trim_end();
        let (end, proof) = text.rsplit_once(' ')?;
        if blake3::Hash::from_hex(proof).ok()? != key.end_hash(end) {
            return None;
        }
        let (number, hash) = end.split_once(' ')?;
        Some(LogEnd { number: number.parse().ok()?, hash: *blake3::Hash::from_hex(hash).ok()?.as_bytes() })
    }

    fn place(&self, key: &AuditKey) -> [u8; PLACE_BYTES] {
        let end = format!("{} {}", self.number, blake3::Hash::from_bytes(self.hash).to_hex());
        let text = format!("{end} {}", key.end_hash(&end).to_hex());
        let mut place = [b' '; PLACE_BYTES];
        place[..text.len()].copy_from_slice(text.as_bytes());
        place[PLACE_BYTES - 1] = b'\n';
        place
    }
}

/// Writes the record.
pub(super) struct EndRecord {
    file: File,
    writes: u64,
}

impl EndRecord {
    /// Opens the record and writes the end into both places.
    pub(super) fn open(directory: &Path, key: &AuditKey, end: &LogEnd) -> io::Result<EndRecord> {
        let path = directory.join(END_FILE);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let mut record = EndRecord { file, writes: 0 };
        // The first write replaces the older place, so that one of them stays whole.
        record.write(key, end)?;
        record.file.sync_all()?;
        record.write(key, end)?;
        Ok(record)
    }

    pub(super) fn write(&mut self, key: &AuditKey, end: &LogEnd) -> io::Result<()> {
        self.file.write_all_at(&end.place(key), (self.writes % 2) * PLACE_BYTES as u64)?;
        self.writes += 1;
        Ok(())
    }
}
