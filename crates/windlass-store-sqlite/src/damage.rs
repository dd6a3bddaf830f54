//! Damaged rows: reads that meet one note it and leave it out, and an operator can remove it.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{OptionalExtension, Params, Row, Transaction, params};
use windlass_store::{
    DamagedRowId, DamagedTable, IsolatedRow, RUN_FORMAT, RunLabels, RunRow, RunStatus, StoreDamage, StoreError,
    StoreErrorKind,
};
use windlass_value::{BlobHash, Timestamp};

use crate::clean::detach_run;
use crate::error::{SqliteResult, SqliteStoreError, damaged};
use crate::rows::{
    RECORD_COLUMNS, RUN_COLUMNS, WAIT_COLUMNS, first_column, open_wait, record_row, run_row, ticks_as_read,
    wait_row_number,
};
use crate::stored_run::STORED_RUN_COLUMNS;
use crate::transaction::WriteTransaction;
use crate::{SqliteStore, locked};

/// Maximum number of damaged rows that are listed. A store with more of them is damaged as a whole.
const MAX_LISTED: usize = 1_000;

/// A kind of rows that are read in scans: how to decode one, and how to tell its number if that fails.
pub(crate) struct RowKind<T> {
    pub table: DamagedTable,
    pub columns: fn(&Row<'_>, &Path) -> SqliteResult<T>,
    pub number: fn(&Row<'_>) -> rusqlite::Result<i64>,
}

impl<T> RowKind<T> {
    /// Returns the id of a row, whatever the rest of it is.
    pub(crate) fn id(&self, row: &Row<'_>) -> SqliteResult<DamagedRowId> {
        Ok(DamagedRowId::new(self.table, (self.number)(row)?))
    }

    /// Decodes a row. The error for a column of another type or range names the row.
    pub(crate) fn decode(&self, row: &Row<'_>, file: &Path) -> SqliteResult<T> {
        (self.columns)(row, file).map_err(|trouble| match (trouble, self.id(row)) {
            (SqliteStoreError::Sqlite(error), Ok(id)) if !matches!(error, rusqlite::Error::SqliteFailure(..)) => {
                let (table, number) = (id.table.as_str(), id.number);
                damaged(format!("Table {table}, row {number} is damaged: {error}."), file).into()
            }
            (trouble, _) => trouble,
        })
    }
}

impl SqliteStore {
    /// Reads rows until `limit` of them are intact. Damaged ones are noted and left out, so the statement has no limit of
    /// its own.
    pub(crate) fn intact<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        kind: &RowKind<T>,
        limit: u32,
    ) -> Result<Vec<T>, StoreError> {
        self.read(|transaction| {
            let mut found = Vec::new();
            let mut select = transaction.prepare_cached(sql)?;
            let mut rows = select.query(parameters)?;
            while found.len() < limit as usize
                && let Some(row) = rows.next()?
            {
                found.extend(self.if_intact(row, kind)?);
            }
            Ok(found)
        })
    }

    /// Decodes a row; a damaged one is noted, and is no row of the result.
    fn if_intact<T>(&self, row: &Row<'_>, kind: &RowKind<T>) -> SqliteResult<Option<T>> {
        match kind.decode(row, self.file()) {
            Ok(found) => Ok(Some(found)),
            Err(trouble) => {
                let id = kind.id(row)?;
                self.note_if_damaged(id, trouble).map(|()| None)
            }
        }
    }

    /// Notes the row if the error is damage. Any other error is returned.
    pub(crate) fn note_if_damaged(&self, row: DamagedRowId, trouble: SqliteStoreError) -> SqliteResult<()> {
        match trouble.into_error(self.file()) {
            error if error.kind == StoreErrorKind::Damaged => {
                self.note_damage([row]);
                Ok(())
            }
            error => Err(error.into()),
        }
    }

    pub(crate) fn note_damage(&self, rows: impl IntoIterator<Item = DamagedRowId>) {
        let mut known = locked(&self.damaged);
        let room = MAX_LISTED.saturating_sub(known.len());
        known.extend(rows.into_iter().take(room));
    }
}

/// Returns the isolated row that an error is about.
pub(crate) fn isolated_row(error: &StoreError) -> Option<DamagedRowId> {
    let damaged = error.damaged_row.as_deref()?;
    let table = match damaged.table {
        // The labels of a run are part of its row.
        "runs" | "run_labels" => DamagedTable::Runs,
        "records" => DamagedTable::Records,
        "waits" => DamagedTable::Waits,
        _ => return None,
    };
    Some(DamagedRowId::new(table, damaged.row))
}

impl StoreDamage for SqliteStore {
    fn damage(&self) -> Result<Vec<IsolatedRow>, StoreError> {
        let known = locked(&self.damaged).clone();
        let found = self.read(|transaction| {
            let mut rows: BTreeSet<DamagedRowId> = known.clone();
            rows.extend(with_unknown_status(transaction)?);
            rows.into_iter().filter_map(|row| look_at(transaction, row, self.file()).transpose()).collect()
        });
        let found: Vec<IsolatedRow> = found?;
        // Rows that were found meanwhile stay.
        let listed = |row: &DamagedRowId| found.iter().any(|damaged| damaged.id == *row);
        locked(&self.damaged).retain(|row| !known.contains(row) || listed(row));
        self.note_damage(found.iter().map(|damaged| damaged.id));
        Ok(found)
    }

    fn remove_damaged(&self, row: DamagedRowId) -> Result<bool, StoreError> {
        self.write(|transaction| {
            let removable = match look_at(transaction, row, self.file())? {
                Some(_) => true,
                None => row.table == DamagedTable::Runs && is_quarantined(transaction, row.number)?,
            };
            if removable {
                remove(transaction, row)?;
            }
            Ok(removable)
        })
    }
}

/// Returns runs whose status no program has written: no scan by status would meet them. Only the index is read.
fn with_unknown_status(transaction: &Transaction<'_>) -> SqliteResult<Vec<DamagedRowId>> {
    let known: Vec<String> = RunStatus::ALL.iter().map(|status| format!("'{}'", status.as_str())).collect();
    let sql = format!(
        "SELECT number FROM runs INDEXED BY runs_status WHERE status NOT IN ({}) LIMIT {MAX_LISTED}",
        known.join(", ")
    );
    let mut select = transaction.prepare_cached(&sql)?;
    let numbers = select.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    Ok(numbers.into_iter().map(|number| DamagedRowId::new(DamagedTable::Runs, number)).collect())
}

/// Reads a row again; `None` if it is gone or intact.
fn look_at(transaction: &Transaction<'_>, id: DamagedRowId, file: &Path) -> SqliteResult<Option<IsolatedRow>> {
    let number = id.number;
    let damaged = match id.table {
        DamagedTable::Runs => {
            let sql = format!("SELECT {RUN_COLUMNS} FROM runs WHERE number = ?1");
            inspect(transaction, &sql, number, &RUN_ROWS, |row| (text(row, 1), Some(Box::new(readable_run(row)))), file)
        }
        DamagedTable::Records => {
            let sql = format!("SELECT {RECORD_COLUMNS} FROM records WHERE revision = ?1");
            let name = |row: &Row<'_>| text(row, 1).zip(text(row, 2)).map(|(kind, key)| format!("{kind} {key}"));
            inspect(transaction, &sql, number, &RECORD_ROWS, |row| (name(row), None), file)
        }
        DamagedTable::Waits => {
            let sql =
                format!("SELECT {WAIT_COLUMNS} FROM waits JOIN runs ON runs.number = waits.run WHERE position = ?1");
            inspect(transaction, &sql, number, &WAIT_ROWS, |row| (text(row, 8), None), file)
        }
    };
    let Some((reason, name, run)) = damaged? else { return Ok(None) };
    // Keys of records may contain the byte 0, which separates their parts.
    let name = name.map(|name| name.replace('\0', " "));
    Ok(Some(IsolatedRow { id, name, reason, run }))
}

type Readable = (Option<String>, Option<Box<RunRow>>);

/// The reason why a row is damaged, and what can be read of it.
type Inspected = (String, Option<String>, Option<Box<RunRow>>);

/// Returns the reason why a row is damaged and what can be read of it; `None` if it is gone or intact.
fn inspect<T>(
    transaction: &Transaction<'_>,
    sql: &str,
    number: i64,
    kind: &RowKind<T>,
    readable: impl Fn(&Row<'_>) -> Readable,
    file: &Path,
) -> SqliteResult<Option<Inspected>> {
    let look = || -> SqliteResult<Option<(String, Readable)>> {
        let mut select = transaction.prepare_cached(sql)?;
        let mut rows = select.query([number])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let Err(trouble) = kind.decode(row, file) else { return Ok(None) };
        match trouble.into_error(file) {
            error if error.kind == StoreErrorKind::Damaged => Ok(Some((error.message, readable(row)))),
            error => Err(error.into()),
        }
    };
    match look() {
        Ok(found) => Ok(found.map(|(reason, (name, run))| (reason, name, run))),
        // Not even its bytes can be read: the page is damaged.
        Err(trouble) => match trouble.into_error(file) {
            error if error.kind == StoreErrorKind::Damaged => Ok(Some((error.message, None, None))),
            error => Err(error.into()),
        },
    }
}

fn text(row: &Row<'_>, column: usize) -> Option<String> {
    row.get(column).ok()
}

/// Decodes what can be read of a damaged row of `RUN_COLUMNS`. It is shown and never acted on.
fn readable_run(row: &Row<'_>) -> RunRow {
    let words = |column| text(row, column).unwrap_or_default();
    let time = |column| Timestamp(row.get(column).unwrap_or_default());
    RunRow {
        format: RUN_FORMAT,
        number: row.get(0).unwrap_or_default(),
        run: words(1).into(),
        execution_id: row.get(2).unwrap_or_default(),
        plan: BlobHash(row.get(3).unwrap_or_default()),
        definition: words(4),
        dialect: words(5),
        status: RunStatus::Quarantined,
        owner: None,
        owner_epoch: 0,
        previous_owner: None,
        created_at: time(12),
        changed_at: time(13),
        timer: None,
        parent: text(row, 15).map(Into::into),
        options: Vec::new(),
        result: None,
        ticks: row.get(STORED_RUN_COLUMNS + 2).map_or(0, ticks_as_read),
        labels: RunLabels::new(),
    }
}

fn is_quarantined(transaction: &Transaction<'_>, number: i64) -> SqliteResult<bool> {
    let mut select = transaction.prepare_cached("SELECT 1 FROM runs WHERE number = ?1 AND status = ?2")?;
    Ok(select.exists(params![number, RunStatus::Quarantined.as_str()])?)
}

fn remove(transaction: &WriteTransaction<'_>, row: DamagedRowId) -> SqliteResult<()> {
    let delete = match row.table {
        DamagedTable::Runs => {
            // An unreadable id has no messages that could be found.
            let mut select = transaction.prepare_cached("SELECT id FROM runs WHERE number = ?1")?;
            let id = select.query_row([row.number], |found| Ok(text(found, 0))).optional()?.flatten();
            return detach_run(transaction, row.number, &id.unwrap_or_default()).map(drop);
        }
        DamagedTable::Records => "DELETE FROM records WHERE revision = ?1",
        DamagedTable::Waits => "DELETE FROM waits WHERE position = ?1",
    };
    transaction.prepare_cached(delete)?.execute([row.number])?;
    Ok(())
}

/// Rows of runs.
pub(crate) const RUN_ROWS: RowKind<RunRow> =
    RowKind { table: DamagedTable::Runs, columns: run_row, number: first_column };
/// Rows of records.
pub(crate) const RECORD_ROWS: RowKind<windlass_store::RecordRow> =
    RowKind { table: DamagedTable::Records, columns: record_row, number: first_column };
/// Rows of waits.
pub(crate) const WAIT_ROWS: RowKind<windlass_store::OpenWait> =
    RowKind { table: DamagedTable::Waits, columns: open_wait, number: wait_row_number };
