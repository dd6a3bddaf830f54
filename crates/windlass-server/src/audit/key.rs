//! The key of a store's audit log. A process that can write the log, but not read this file, cannot write lines that fit.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::log::log_files;

/// The file in the store's directory, with 64 hexadecimal digits.
pub const KEY_FILE: &str = "audit.key";

#[derive(Clone)]
pub(super) struct AuditKey([u8; 32]);

impl AuditKey {
    /// Reads the key; `None`: there is no file.
    pub(super) fn read(directory: &Path) -> io::Result<Option<AuditKey>> {
        let text = match fs::read_to_string(directory.join(KEY_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let key = blake3::Hash::from_hex(text.trim()).map_err(|_| invalid("it does not have 64 hexadecimal digits"))?;
        Ok(Some(AuditKey(*key.as_bytes())))
    }

    /// Reads the key, and creates it for a log that has no lines yet. A log keeps its key: with another one, none of
    /// its lines could be verified.
    pub(super) fn read_or_create(directory: &Path) -> io::Result<AuditKey> {
        if let Some(key) = AuditKey::read(directory)? {
            return Ok(key);
        }
        if log_files(directory)?.iter().any(|file| fs::metadata(file).is_ok_and(|facts| facts.len() > 0)) {
            return Err(invalid("it is missing, and there is a log that was written with it"));
        }
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
        let path = directory.join(KEY_FILE);
        // Complete under its name, or not there.
        let draft = directory.join(format!("{KEY_FILE}.new"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        writeln!(file, "{}", blake3::Hash::from_bytes(key).to_hex())?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        File::open(directory)?.sync_all()?;
        Ok(AuditKey(key))
    }

    /// Computes the hash of a line from the previous hash and the line's text before its own hash.
    pub(super) fn chain_hash(&self, before: &[u8; 32], line: &[u8]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(before);
        hasher.update(line);
        *hasher.finalize().as_bytes()
    }

    /// Authenticates the record of the log's end. No line has the hash of this text: lines begin with `{`.
    pub(super) fn end_hash(&self, text: &str) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(b"audit end\0");
        hasher.update(text.as_bytes());
        hasher.finalize()
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{KEY_FILE}: {why}"))
}
