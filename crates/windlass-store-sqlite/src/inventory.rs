//! The check of a store's files before SQLite opens them: whether the database, its log and the head record belong
//! together, and whether every commit that was acknowledged is there.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use windlass_store::{StoreError, StoreErrorKind};

use crate::chain::{CHAIN_PAGE, ChainLink};
use crate::error::from_io;
use crate::head::{FileIdentity, HeadRecord, identity};
use crate::schema::{APPLICATION_ID, FORMAT_VERSION};
use crate::wal::LogWalk;

/// Everything that is known of a store's files without SQLite.
#[derive(Debug)]
pub(crate) struct Inventory {
    pub file: PathBuf,
    pub log: PathBuf,
    /// The head record; `None` if it is missing or damaged.
    pub head: Option<HeadRecord>,
    /// The link in the database file itself, without its log.
    pub database: Option<ChainLink>,
    pub walk: LogWalk,
    identity: Option<FileIdentity>,
}

/// The reason why a store must not be opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mismatch {
    /// The file `windlass.head` is missing.
    NoHead,
    /// Both slots of the head record are damaged.
    DamagedHead,
    /// The page that says which commit was the last is damaged.
    DamagedChain,
    /// The files are of different stores.
    OtherStore,
    /// The log does not continue the database: they are of different times.
    LogDoesNotFit,
    /// Commits are missing: the first and the last of them.
    Missing { first: u64, last: u64 },
    /// The last commit is another one than the head record says.
    OtherHistory { sequence: u64 },
}

impl Inventory {
    /// Takes stock of a store that no other process has open. Returns `None` for a database of another program or of
    /// another format: opening it will say so.
    pub(crate) fn take(file: &Path, head: Option<HeadRecord>) -> Result<Option<Inventory>, StoreError> {
        let Some(header) = read_at(file, 0, HEADER_BYTES)? else { return Ok(None) };
        if !is_of_this_format(&header) {
            return Ok(None);
        }
        let page_bytes = u64::from(u16::from_be_bytes([header[16], header[17]]));
        let page = read_at(file, page_bytes * u64::from(CHAIN_PAGE - 1), usize::try_from(page_bytes).unwrap_or(0))?;
        let log = log_path(file);
        let walk = LogWalk::read(&log).map_err(|error| from_io(&error, "read", &log))?;
        Ok(Some(Inventory {
            database: page.as_deref().and_then(ChainLink::from_page),
            identity: identity(file)?,
            file: file.to_owned(),
            head,
            walk,
            log,
        }))
    }

    /// Returns the link of the last commit that is there.
    pub(crate) fn last(&self) -> Option<ChainLink> {
        let in_log = self.walk.links.last().copied();
        in_log.into_iter().chain(self.database).max_by_key(|link| link.sequence)
    }

    /// Returns the number of the last commit that is known to have been acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        let store = self.last().map(|link| link.store);
        let is_ours = |link: &&ChainLink| store.is_none_or(|store| link.store == store);
        let in_log = self.walk.beyond.iter().filter(is_ours).map(|link| link.synced).max();
        in_log.unwrap_or(0).max(self.head.map_or(0, |head| head.sequence))
    }

    /// Returns the reason why the store must not be opened, if there is one.
    pub(crate) fn mismatch(&self) -> Option<Mismatch> {
        let Some(last) = self.last() else { return Some(Mismatch::DamagedChain) };
        if self.walk.links.iter().chain(&self.database).any(|link| link.store != last.store) {
            return Some(Mismatch::OtherStore);
        }
        if self.head.is_some_and(|head| head.store != last.store) {
            return Some(Mismatch::OtherStore);
        }
        let acknowledged = self.acknowledged();
        if acknowledged > last.sequence {
            return Some(Mismatch::Missing { first: last.sequence + 1, last: acknowledged });
        }
        if !self.log_continues_database() {
            return Some(Mismatch::LogDoesNotFit);
        }
        let Some(head) = self.head else {
            let exists = self.file.with_file_name(crate::head::HEAD_FILE).exists();
            return Some(if exists { Mismatch::DamagedHead } else { Mismatch::NoHead });
        };
        let same = self.walk.links.iter().chain(&self.database).find(|link| link.sequence == head.sequence);
        same.is_some_and(|link| link.hash != head.hash).then_some(Mismatch::OtherHistory { sequence: head.sequence })
    }

    /// Returns whether the log is of the same store as the database, or has no commit.
    pub(crate) fn log_is_of_database(&self) -> bool {
        self.walk.links.iter().all(|link| self.database.is_some_and(|database| database.store == link.store))
    }

    fn log_continues_database(&self) -> bool {
        let (Some(first), Some(last)) = (self.walk.links.first(), self.walk.links.last()) else { return true };
        let follows = |pair: &[ChainLink]| pair[1].sequence == pair[0].sequence + 1 && pair[1].previous == pair[0].hash;
        let begins = self.database.is_none_or(|database| {
            let is_next = first.sequence != database.sequence + 1 || first.previous == database.hash;
            first.sequence <= database.sequence + 1 && database.sequence <= last.sequence && is_next
        });
        begins && self.walk.links.windows(2).all(follows)
    }

    /// Returns whether the files may be a copy that was made while the store was in use: its pages may be of different
    /// times.
    pub(crate) fn may_be_copy(&self) -> bool {
        match (self.head, self.last()) {
            (Some(head), Some(last)) if head.is_closed => last.sequence != head.sequence,
            // The number of the device may change with a restart of the machine; that of the file does not.
            (Some(head), _) => self.identity.is_none_or(|(_, file)| file != head.database.1),
            (None, _) => true,
        }
    }

    /// Describes where the log ends before its time.
    pub(crate) fn log_state(&self) -> String {
        let (log, walk) = (self.log.display(), &self.walk);
        match walk {
            LogWalk { bytes: 0, .. } => format!("the log {log} is missing or empty"),
            LogWalk { has_header: false, .. } => format!("the header of the log {log} is damaged"),
            LogWalk { broken_at: Some(at), .. } => format!("the log {log} is damaged at byte {at}"),
            _ => format!("the log {log} ends too early"),
        }
    }
}

impl Mismatch {
    /// The error for a store whose head record was removed while another process has it open.
    pub(crate) fn no_head(file: &Path) -> StoreError {
        refused(format!("{} has no head record (windlass.head).", file.display()), file)
    }

    /// Returns the error with which the store is refused.
    pub(crate) fn into_error(self, inventory: &Inventory) -> StoreError {
        let (file, state) = (inventory.file.display(), inventory.log_state());
        let message = match self {
            Mismatch::NoHead => format!(
                "{file} has no head record (windlass.head): it was copied without it, or the record was removed. \
                 It is unknown whether commits are missing."
            ),
            Mismatch::DamagedHead => format!(
                "The head record of {file} (windlass.head) is damaged. It is unknown whether commits are missing."
            ),
            Mismatch::DamagedChain => {
                format!("{file} is damaged: its page that names the last commit (table chain) cannot be read.")
            }
            Mismatch::OtherStore => format!("{file}, its log and its head record are of different stores."),
            Mismatch::LogDoesNotFit => format!(
                "The log of {file} does not continue the database: they are of different times, as in a copy of a store \
                 in use."
            ),
            Mismatch::Missing { first, last } => format!(
                "{} acknowledged commits of {file} are missing (numbers {first} to {last}): {state}.",
                last - first + 1
            ),
            Mismatch::OtherHistory { sequence } => {
                format!("Commit {sequence} of {file} is not the one that the head record names: a file was replaced.")
            }
        };
        refused(message, &inventory.file)
    }
}

/// The error for a store whose files must not be opened.
pub(crate) fn refused(message: String, file: &Path) -> StoreError {
    let hint = "Nothing was changed. `windlass repair --dry-run` lists what can be saved and what is lost; or restore a \
                backup.";
    StoreError::new(StoreErrorKind::Incomplete, message).with_file(file).with_hint(hint)
}

/// Returns the path of the log of a database.
pub(crate) fn log_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// The length of the database's header.
pub(crate) const HEADER_BYTES: usize = 100;

fn is_of_this_format(header: &[u8]) -> bool {
    let number =
        |at: usize| i64::from(u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
    number(68) == APPLICATION_ID && number(60) == FORMAT_VERSION
}

/// Reads bytes of a file; `None` if it is shorter.
pub(crate) fn read_at(file: &Path, offset: u64, bytes: usize) -> Result<Option<Vec<u8>>, StoreError> {
    let mut buffer = vec![0; bytes];
    let read = File::open(file).and_then(|opened| opened.read_exact_at(&mut buffer, offset));
    match read {
        Ok(()) => Ok(Some(buffer)),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(from_io(&error, "read", file)),
    }
}
