//! Rows with their checksum, so that tests can model damage and reads detect it.

use windlass_value::BlobHash;

use crate::checksum::{checksum, record_checksum};
use crate::{JournalRow, RecordRow, SnapshotRow, StoreError, StoreErrorKind};

pub(super) trait HasChecksum: Clone {
    fn checksum(&self) -> u32;
    fn name(&self) -> String;
    fn body_mut(&mut self) -> &mut Vec<u8>;
}

#[derive(Clone)]
pub(super) struct Checksummed<R> {
    pub row: R,
    checksum: u32,
}

impl<R: HasChecksum> Checksummed<R> {
    pub(crate) fn new(row: R) -> Checksummed<R> {
        Checksummed { checksum: row.checksum(), row }
    }

    pub(crate) fn read(&self) -> Result<R, StoreError> {
        match self.row.checksum() == self.checksum {
            true => Ok(self.row.clone()),
            false => {
                let message = format!("{} is damaged: its checksum does not match.", self.row.name());
                Err(StoreError::new(StoreErrorKind::Damaged, message))
            }
        }
    }

    pub(crate) fn damage(&mut self) {
        match self.row.body_mut().first_mut() {
            Some(byte) => *byte ^= 0x40,
            None => self.checksum ^= 0x40,
        }
    }
}

/// A blob stored under its hash.
#[derive(Clone)]
pub(super) struct BlobRow {
    pub hash: BlobHash,
    pub body: Vec<u8>,
}

impl HasChecksum for BlobRow {
    fn checksum(&self) -> u32 {
        checksum(&[], &[&self.hash.0, &self.body])
    }

    fn name(&self) -> String {
        format!("The stored value {}", self.hash)
    }

    fn body_mut(&mut self) -> &mut Vec<u8> {
        &mut self.body
    }
}

impl HasChecksum for JournalRow {
    fn checksum(&self) -> u32 {
        checksum(&[self.first_tick, self.ticks.into(), self.first_event, self.events.into()], &[&self.body])
    }

    fn name(&self) -> String {
        format!("Journal row at tick {}", self.first_tick)
    }

    fn body_mut(&mut self) -> &mut Vec<u8> {
        &mut self.body
    }
}

impl HasChecksum for RecordRow {
    fn checksum(&self) -> u32 {
        record_checksum(self)
    }

    fn name(&self) -> String {
        format!("The record {} {:?}", self.kind, self.key)
    }

    fn body_mut(&mut self) -> &mut Vec<u8> {
        &mut self.body
    }
}

impl HasChecksum for SnapshotRow {
    fn checksum(&self) -> u32 {
        checksum(&[self.tick, self.event], &[&self.state_hash, &self.body])
    }

    fn name(&self) -> String {
        format!("Snapshot at tick {}", self.tick)
    }

    fn body_mut(&mut self) -> &mut Vec<u8> {
        &mut self.body
    }
}
