//! Records of the memory store.

use super::MemoryStore;
use super::checksummed::Checksummed;
use super::image::DiskImage;
use crate::{RecordChange, RecordRow, StoreError, StoreRecords};

impl StoreRecords for MemoryStore {
    fn record(&self, kind: &str, key: &str) -> Result<Option<RecordRow>, StoreError> {
        let found =
            self.read_image(|image| image.records.get(&(kind.to_owned(), key.to_owned())).map(Checksummed::read))?;
        found.transpose()
    }

    fn records(&self, kind: &str, after_key: &str, limit: u32) -> Result<Vec<RecordRow>, StoreError> {
        self.read_image(|image| {
            let rows = image.records.range((kind.to_owned(), after_key.to_owned())..);
            let rows = rows.take_while(|((of, _), _)| of == kind).filter(|((_, key), _)| *key != after_key);
            rows.filter_map(|(_, record)| record.read().ok()).take(limit as usize).collect()
        })
    }

    fn record_keys(&self, kind: &str, after_key: &str, limit: u32) -> Result<Vec<String>, StoreError> {
        self.read_image(|image| {
            let rows = image.records.range((kind.to_owned(), after_key.to_owned())..);
            let keys = rows.take_while(|((of, _), _)| of == kind).map(|((_, key), _)| key);
            keys.filter(|key| *key != after_key).take(limit as usize).cloned().collect()
        })
    }

    fn change_records(&self, changes: Vec<RecordChange>) -> Result<bool, StoreError> {
        self.write(|image| {
            let before = image.records.clone();
            let all = changes.into_iter().all(|change| image.change_record(change));
            if !all {
                image.records = before;
            }
            all
        })
    }
}

impl DiskImage {
    fn change_record(&mut self, change: RecordChange) -> bool {
        let RecordChange { kind, key, expected_revision: expected, body, at } = change;
        let record_key = (kind.clone(), key.clone());
        let revision = self.records.get(&record_key).map_or(0, |record| record.row.revision);
        if expected.is_some_and(|expected| expected != revision) {
            return false;
        }
        match body {
            None => drop(self.records.remove(&record_key)),
            Some(body) => {
                self.last_revision += 1;
                let row = RecordRow { kind, key, revision: self.last_revision, body, at };
                self.records.insert(record_key, Checksummed::new(row));
            }
        }
        true
    }
}
