//! The row of a run without its long columns: read and verified before every change, and written with a new checksum.

use std::path::Path;
use std::sync::Arc;

use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension, Row, params};
use windlass_store::{DamagedRow, RunStatus, StoreError};

use crate::error::{SqliteResult, damaged_row};
use crate::rows::{parse_status, ticks, ticks_as_read};
use crate::seal::{RowCheck, SealedColumn, body_sum, seal};
use crate::transaction::WriteTransaction;

/// The columns that the checksum of a run is over, and the checksum.
macro_rules! stored_run_columns {
    () => {
        "number, id, execution_id, plan, definition, dialect, format, status, owner, owner_epoch, previous_owner,
         claimed_ticks, created_at, changed_at, timer, parent, labels_checksum, options_checksum, result_checksum,
         written, checksum"
    };
}
pub(crate) use stored_run_columns;

/// The number of those columns.
pub(crate) const STORED_RUN_COLUMNS: usize = 21;

/// The row of a run without options, result and labels.
#[derive(Clone, PartialEq)]
pub(crate) struct StoredRun {
    pub number: i64,
    pub id: Arc<str>,
    pub execution_id: i64,
    pub plan: [u8; 32],
    pub definition: String,
    pub dialect: String,
    pub format: u32,
    pub status: RunStatus,
    pub owner: Option<String>,
    pub owner_epoch: u64,
    pub previous_owner: Option<String>,
    pub claimed_ticks: u64,
    pub created_at: i64,
    pub changed_at: i64,
    pub timer: Option<i64>,
    pub parent: Option<Arc<str>>,
    pub labels_checksum: u32,
    pub options_checksum: u32,
    pub result_checksum: Option<u32>,
    pub written: u64,
}

impl StoredRun {
    /// Decodes the columns of `stored_run_columns`, with which the row begins.
    pub(crate) fn decode(row: &Row<'_>, file: &Path) -> SqliteResult<StoredRun> {
        let number: i64 = row.get(0)?;
        if !RowCheck::new(row, STORED_RUN_COLUMNS - 1).is_sealed()? {
            let what = DamagedRow { table: "runs", row: number, key: row.get(1).ok() };
            return Err(damaged_row(what, file).into());
        }
        StoredRun::decode_unchecked(row, file)
    }

    fn decode_unchecked(row: &Row<'_>, file: &Path) -> SqliteResult<StoredRun> {
        let number: i64 = row.get(0)?;
        Ok(StoredRun {
            number,
            id: row.get(1)?,
            execution_id: row.get(2)?,
            plan: row.get(3)?,
            definition: row.get(4)?,
            dialect: row.get(5)?,
            format: row.get(6)?,
            status: parse_status(row.get_ref(7)?.as_str().unwrap_or_default(), number, file)?,
            owner: row.get(8)?,
            owner_epoch: row.get(9)?,
            previous_owner: row.get(10)?,
            claimed_ticks: row.get(11)?,
            created_at: row.get(12)?,
            changed_at: row.get(13)?,
            timer: row.get(14)?,
            parent: row.get(15)?,
            labels_checksum: row.get(16)?,
            options_checksum: row.get(17)?,
            result_checksum: row.get(18)?,
            written: row.get(19)?,
        })
    }

    /// Reads the run with this id.
    pub(crate) fn find(transaction: &WriteTransaction<'_>, id: &str) -> SqliteResult<Option<StoredRun>> {
        let sql = concat!("SELECT ", stored_run_columns!(), " FROM runs WHERE id = ?1");
        let mut select = transaction.prepare_cached(sql)?;
        select.query_and_then([id], |row| StoredRun::decode(row, transaction.file()))?.next().transpose()
    }

    /// The error for a damaged row of this run in another table or in its long columns.
    pub(crate) fn damaged(&self, table: &'static str, file: &Path) -> StoreError {
        damaged_row(DamagedRow { table, row: self.number, key: Some(self.id.to_string()) }, file)
    }

    /// Computes the checksum of the row.
    pub(crate) fn checksum(&self) -> u32 {
        let StoredRun { id, plan, definition, dialect, owner, previous_owner, parent, .. } = self;
        let columns: [&dyn SealedColumn; STORED_RUN_COLUMNS - 1] = [
            &self.number,
            &&**id,
            &self.execution_id,
            &&plan[..],
            &definition.as_str(),
            &dialect.as_str(),
            &self.format,
            &self.status.as_str(),
            &owner.as_deref(),
            &self.owner_epoch,
            &previous_owner.as_deref(),
            &self.claimed_ticks,
            &self.created_at,
            &self.changed_at,
            &self.timer,
            &parent.as_deref(),
            &self.labels_checksum,
            &self.options_checksum,
            &self.result_checksum,
            &self.written,
        ];
        seal(&columns)
    }

    /// Removes the owner. An owner that has written nothing since its claim leaves the previous owner as it is.
    pub(crate) fn release(&mut self, transaction: &WriteTransaction<'_>) -> SqliteResult<()> {
        let ticks = self.ticks(transaction)?;
        if let Some(owner) = self.owner.take()
            && ticks > self.claimed_ticks
        {
            self.previous_owner = Some(owner);
        }
        Ok(())
    }

    /// Returns the number of ticks in the run's journal.
    pub(crate) fn ticks(&self, transaction: &WriteTransaction<'_>) -> SqliteResult<u64> {
        let sql = concat!("SELECT ", ticks!(), " FROM runs WHERE number = ?1");
        let mut select = transaction.prepare_cached(sql)?;
        let ticks: Option<i64> = select.query_row([self.number], |row| row.get(0)).optional()?;
        Ok(ticks_as_read(ticks.unwrap_or(0)))
    }

    /// Writes the columns that differ from the row as it was read, and the new checksum. An index of a column that is
    /// not named is not touched.
    pub(crate) fn save(
        &self,
        transaction: &WriteTransaction<'_>,
        before: &StoredRun,
        result: Option<&Option<Vec<u8>>>,
    ) -> SqliteResult<()> {
        if self == before && result.is_none() {
            return Ok(());
        }
        let mut new = self.clone();
        new.written = transaction.sequence();
        if let Some(result) = result {
            new.result_checksum = result.as_deref().map(body_sum);
        }
        let (checksum, status, old_status) = (new.checksum(), new.status.as_str(), before.status.as_str());
        let mut assignments: Vec<(&str, &dyn ToSql)> = vec![("written", &new.written), ("checksum", &checksum)];
        let mut set = |name: &'static str, has_changed: bool, value| {
            if has_changed {
                assignments.push((name, value));
            }
        };
        set("format", new.format != before.format, &new.format as &dyn ToSql);
        set("status", status != old_status, &status);
        set("owner", new.owner != before.owner, &new.owner);
        set("owner_epoch", new.owner_epoch != before.owner_epoch, &new.owner_epoch);
        set("previous_owner", new.previous_owner != before.previous_owner, &new.previous_owner);
        set("claimed_ticks", new.claimed_ticks != before.claimed_ticks, &new.claimed_ticks);
        set("changed_at", new.changed_at != before.changed_at, &new.changed_at);
        set("timer", new.timer != before.timer, &new.timer);
        set("result_checksum", new.result_checksum != before.result_checksum, &new.result_checksum);
        if let Some(result) = result {
            set("result", true, result);
        }
        update(transaction, self.number, &assignments)
    }
}

fn update(transaction: &WriteTransaction<'_>, number: i64, assignments: &[(&str, &dyn ToSql)]) -> SqliteResult<()> {
    let names: Vec<String> =
        assignments.iter().zip(2..).map(|((name, _), place)| format!("{name} = ?{place}")).collect();
    let sql = format!("UPDATE runs SET {} WHERE number = ?1", names.join(", "));
    let values = assignments.iter().map(|(_, value)| *value);
    let parameters: Vec<&dyn ToSql> = std::iter::once(&number as &dyn ToSql).chain(values).collect();
    transaction.prepare_cached(&sql)?.execute(&*parameters)?;
    Ok(())
}

/// Writes the checksum of every run anew. Only for tests that change the columns of runs by hand.
pub fn reseal_runs(connection: &Connection) -> rusqlite::Result<()> {
    let mut select = connection.prepare(concat!("SELECT ", stored_run_columns!(), " FROM runs"))?;
    let decode = |row: &Row<'_>| Ok(StoredRun::decode_unchecked(row, Path::new("")).ok());
    for run in select.query_map([], decode)?.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().flatten() {
        connection.execute("UPDATE runs SET checksum = ?2 WHERE number = ?1", params![run.number, run.checksum()])?;
    }
    Ok(())
}
