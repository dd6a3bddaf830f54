//! Scans over runs.

use rusqlite::params;
use windlass_value::Timestamp;

use super::rows::{RUN_COLUMNS, run_row};
use super::schema::unfinished;
use super::trouble::Outcome;
use super::{SqliteStore, locked, open};
use crate::{RunFilter, RunRow, RunStatus, StoreError, StoreScan};

impl StoreScan for SqliteStore {
    fn runs(&self, filter: &RunFilter, before: Option<i64>, limit: u32) -> Result<Vec<RunRow>, StoreError> {
        let mut conditions = vec!["number < ?1"];
        if filter.status.is_some() {
            conditions.push("status = ?2");
        }
        if filter.definition.is_some() {
            conditions.push("definition = ?3");
        }
        if filter.unfinished {
            conditions.push(unfinished!());
        }
        let conditions = conditions.join(" AND ");
        // Naming a parameter that no condition uses keeps the numbering the same for every filter.
        let sql = format!(
            "SELECT {RUN_COLUMNS} FROM runs WHERE {conditions} AND (?2 IS NULL OR 1) AND (?3 IS NULL OR 1)
             ORDER BY number DESC LIMIT ?4"
        );
        let status = filter.status.map(RunStatus::as_str);
        self.all(&sql, params![before.unwrap_or(i64::MAX), status, filter.definition, limit], run_row)
    }

    fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<RunRow>, StoreError> {
        // A run that has ended has no timer.
        let sql = format!(
            "SELECT {RUN_COLUMNS} FROM runs WHERE timer IS NOT NULL AND timer <= ?1 ORDER BY timer, number LIMIT ?2"
        );
        self.all(&sql, params![now.0, limit], run_row)
    }

    fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT timer FROM runs WHERE timer IS NOT NULL ORDER BY timer LIMIT 1";
        Ok(self.all(sql, [], |row, _| Ok(Timestamp(row.get(0)?)))?.pop())
    }

    fn with_inbox(&self, limit: u32) -> Result<Vec<String>, StoreError> {
        // Nothing is unread in a run that has ended; a run that is yet to be made counts.
        let sql = "SELECT run FROM inbox WHERE consumed = 0 GROUP BY run ORDER BY min(position) LIMIT ?1";
        self.all(sql, [limit], |row, _| Ok(row.get(0)?))
    }

    fn change_mark(&self) -> Result<u64, StoreError> {
        self.refuse_if_stopped()?;
        let mut watcher = locked(&self.watcher);
        let mut look = || -> Outcome<u64> {
            let connection = match watcher.take() {
                Some(connection) => connection,
                None => open::open_reader(self.file(), &self.options)?,
            };
            let mark = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
            *watcher = Some(connection);
            Ok(mark)
        };
        look().map_err(|trouble| trouble.into_error(self.file()))
    }

    fn verify(&self) -> Result<Vec<String>, StoreError> {
        self.read(|transaction| Ok(super::verify::findings(transaction, self.file())))
    }
}
