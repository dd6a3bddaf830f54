//! Damaged rows of the memory store.

use super::MemoryStore;
use super::image::StoredRunImage;
use crate::{DamagedRowId, DamagedTable, IsolatedRow, RunStatus, StoreDamage, StoreError, StoreErrorKind};

impl StoredRunImage {
    /// Refuses a run whose row is damaged.
    pub(super) fn check(&self) -> Result<&StoredRunImage, StoreError> {
        match self.damaged {
            false => Ok(self),
            true => Err(StoreError::new(StoreErrorKind::Damaged, self.damage_reason())),
        }
    }

    pub(super) fn damage_reason(&self) -> String {
        format!("The row of the run {} is damaged: its checksum does not match.", self.row.run)
    }
}

impl MemoryStore {
    /// Damages the row of a run. Returns false if there is none.
    pub fn damage_run(&self, run: &str) -> bool {
        let mut disk = self.disk();
        disk.image.run_mut(run).map(|run| run.damaged = true).is_some()
    }
}

impl StoreDamage for MemoryStore {
    fn damage(&self) -> Result<Vec<IsolatedRow>, StoreError> {
        self.read_image(|image| {
            let runs = image.runs.iter().filter(|(_, run)| run.damaged).map(|(number, run)| IsolatedRow {
                id: DamagedRowId::new(DamagedTable::Runs, *number),
                name: Some(run.row.run.to_string()),
                reason: run.damage_reason(),
                run: Some(Box::new(run.row.clone())),
            });
            let records = image.records.values().filter_map(|record| {
                let number = i64::try_from(record.row.revision).unwrap_or(i64::MAX);
                Some(IsolatedRow {
                    id: DamagedRowId::new(DamagedTable::Records, number),
                    name: Some(format!("{} {}", record.row.kind, record.row.key)),
                    reason: record.read().err()?.message,
                    run: None,
                })
            });
            runs.chain(records).collect()
        })
    }

    fn remove_damaged(&self, row: DamagedRowId) -> Result<bool, StoreError> {
        self.write(|image| match row.table {
            DamagedTable::Runs => {
                let run = image.runs.get(&row.number);
                let removable = run.is_some_and(|run| run.damaged || run.row.status == RunStatus::Quarantined);
                if removable {
                    image.detach_run(row.number);
                }
                removable
            }
            DamagedTable::Records => {
                let number = row.number.unsigned_abs();
                let before = image.records.len();
                image.records.retain(|_, record| record.row.revision != number || record.read().is_ok());
                image.records.len() < before
            }
            // The model never damages a wait.
            DamagedTable::Waits => false,
        })
    }
}
