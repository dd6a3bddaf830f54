//! Reads of one run.

use rusqlite::{Params, Row, Transaction, params};
use windlass_store::{
    InboxRow, IterationHeader, IterationRow, JournalRow, PlanRow, RunRow, SnapshotRow, StoreError, StoreRead,
    check_run_format,
};
use windlass_value::BlobHash;

use crate::damage::{RUN_ROWS, RowKind};
use crate::error::SqliteResult;
use crate::inbox::find_message;
use crate::rows::{
    BLOB_COLUMNS, INBOX_COLUMNS, ITERATION_COLUMNS, ITERATION_HEAD_COLUMNS, JOURNAL_COLUMNS, JOURNAL_HEAD_COLUMNS,
    JournalHead, PLAN_COLUMNS, RUN_COLUMNS, SNAPSHOT_COLUMNS, blob_body, inbox_row, iteration_head, iteration_row,
    journal_head_row, journal_row, plan_row, snapshot_row,
};
use crate::stored_run::{StoredRun, stored_run_columns};
use crate::{SqliteStore, trees};

impl SqliteStore {
    pub(crate) fn all<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        decode: impl Fn(&Row<'_>, &std::path::Path) -> SqliteResult<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.read(|transaction| self.all_in(transaction, sql, parameters, decode))
    }

    pub(crate) fn all_in<T>(
        &self,
        transaction: &Transaction<'_>,
        sql: &str,
        parameters: impl Params,
        decode: impl Fn(&Row<'_>, &std::path::Path) -> SqliteResult<T>,
    ) -> SqliteResult<Vec<T>> {
        self.each_in(transaction, sql, parameters, decode)?.into_iter().collect()
    }

    /// Reads rows with one result each: a damaged row does not hide the others.
    pub(crate) fn each_in<T>(
        &self,
        transaction: &Transaction<'_>,
        sql: &str,
        parameters: impl Params,
        decode: impl Fn(&Row<'_>, &std::path::Path) -> SqliteResult<T>,
    ) -> SqliteResult<Vec<SqliteResult<T>>> {
        let mut select = transaction.prepare_cached(sql)?;
        let (mut rows, mut found) = (select.query(parameters)?, Vec::new());
        while let Some(row) = rows.next()? {
            found.push(decode(row, self.file()));
        }
        Ok(found)
    }

    /// Reads at most one row. A damaged one is noted, and is an error.
    pub(crate) fn only<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        kind: &RowKind<T>,
    ) -> Result<Option<T>, StoreError> {
        self.first(sql, parameters, |row, file| kind.decode(row, file).inspect_err(|_| self.note_damage(kind.id(row))))
    }

    fn first<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        decode: impl Fn(&Row<'_>, &std::path::Path) -> SqliteResult<T>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.all(sql, parameters, decode)?.pop())
    }
}

impl SqliteStore {
    /// Reads data of a run by its number; returns the default for a run that does not exist.
    fn read_run<T: Default>(
        &self,
        run: &str,
        read: impl FnOnce(&Transaction<'_>, i64) -> SqliteResult<T>,
    ) -> Result<T, StoreError> {
        self.read(|transaction| match number_of(transaction, run, self.file())? {
            Some(number) => read(transaction, number),
            None => Ok(T::default()),
        })
    }
}

impl StoreRead for SqliteStore {
    fn run(&self, run: &str) -> Result<Option<RunRow>, StoreError> {
        self.only(&format!("SELECT {RUN_COLUMNS} FROM runs WHERE id = ?1"), [run], &RUN_ROWS)
    }

    fn run_by_execution_id(&self, execution_id: i64) -> Result<Option<RunRow>, StoreError> {
        self.only(&format!("SELECT {RUN_COLUMNS} FROM runs WHERE execution_id = ?1"), [execution_id], &RUN_ROWS)
    }

    fn plan(&self, hash: &BlobHash) -> Result<Option<PlanRow>, StoreError> {
        self.first(&format!("SELECT {PLAN_COLUMNS} FROM plans WHERE hash = ?1"), [hash.0], plan_row)
    }

    fn blob(&self, hash: &BlobHash) -> Result<Option<Vec<u8>>, StoreError> {
        self.first(&format!("SELECT {BLOB_COLUMNS} FROM blobs WHERE hash = ?1"), [hash.0], blob_body)
    }

    fn blob_of_run(&self, run: &str, hash: &BlobHash) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = format!(
            "SELECT {BLOB_COLUMNS} FROM blobs WHERE hash = ?1 AND EXISTS (
                 SELECT 1 FROM blob_runs WHERE hash = ?1 AND run = (SELECT number FROM runs WHERE id = ?2))"
        );
        self.first(&sql, params![hash.0, run], blob_body)
    }

    fn snapshot(&self, run: &str, max_tick: Option<u64>) -> Result<Option<SnapshotRow>, StoreError> {
        let max_tick = max_tick.map_or(i64::MAX, |tick| i64::try_from(tick).unwrap_or(i64::MAX));
        let sql = format!(
            "SELECT {SNAPSHOT_COLUMNS} FROM snapshots
             WHERE run = ?1 AND tick <= ?2 ORDER BY tick DESC LIMIT 1"
        );
        self.read_run(run, |transaction, number| {
            Ok(self.all_in(transaction, &sql, params![number, max_tick], snapshot_row)?.pop())
        })
    }

    fn oldest_snapshot(&self, run: &str) -> Result<Option<SnapshotRow>, StoreError> {
        let sql = format!("SELECT {SNAPSHOT_COLUMNS} FROM snapshots WHERE run = ?1 ORDER BY tick LIMIT 1");
        self.read_run(run, |transaction, number| Ok(self.all_in(transaction, &sql, [number], snapshot_row)?.pop()))
    }

    fn journal(&self, run: &str, from: u64, limit: u32) -> Result<Vec<JournalRow>, StoreError> {
        // Starts at the row that may hold tick `from` in its middle, so that earlier rows are not scanned.
        let sql = format!(
            "SELECT {JOURNAL_COLUMNS} FROM journal
             WHERE run = ?1 AND first_tick + ticks > ?2 AND first_tick >= coalesce(
                 (SELECT first_tick FROM journal WHERE run = ?1 AND first_tick <= ?2 ORDER BY first_tick DESC LIMIT 1), 0)
             ORDER BY first_tick LIMIT ?3"
        );
        self.read_run(run, |transaction, number| {
            self.all_in(transaction, &sql, params![number, saturated(from), limit], journal_row)
        })
    }

    fn journal_by_event(&self, run: &str, from: u64, limit: u32) -> Result<Vec<JournalRow>, StoreError> {
        let sql = format!(
            "SELECT {JOURNAL_COLUMNS} FROM journal WHERE run = ?1 AND first_tick >= ?2 AND events > 0
             ORDER BY first_tick LIMIT ?3"
        );
        self.read_run(run, |transaction, number| {
            let tick = self.tick_of_event(transaction, number, from)?;
            self.all_in(transaction, &sql, params![number, tick, limit], journal_row)
        })
    }

    fn inbox(&self, run: &str, limit: u32) -> Result<Vec<InboxRow>, StoreError> {
        let sql =
            format!("SELECT {INBOX_COLUMNS} FROM inbox WHERE run = ?1 AND consumed = 0 ORDER BY position LIMIT ?2");
        self.all(&sql, params![run, limit], inbox_row)
    }

    fn is_cancelled_above(&self, run: &str) -> Result<bool, StoreError> {
        self.read(|transaction| trees::is_cancelled_above(transaction, run))
    }

    fn knows_request(&self, run: &str, request_id: &str) -> Result<bool, StoreError> {
        self.read(|transaction| Ok(find_message(transaction, self.file(), run, request_id)?.is_some()))
    }

    fn iterations(&self, run: &str, loop_path: &str, from: u64, limit: u32) -> Result<Vec<IterationRow>, StoreError> {
        let sql = format!(
            "SELECT {ITERATION_COLUMNS} FROM iterations
             WHERE run = ?1 AND loop_path = ?2 AND last >= ?3 AND first >= coalesce(
                 (SELECT first FROM iterations WHERE run = ?1 AND loop_path = ?2 AND first <= ?3
                  ORDER BY first DESC LIMIT 1), 0)
             ORDER BY first LIMIT ?4"
        );
        self.read_run(run, |transaction, number| {
            self.all_in(transaction, &sql, params![number, loop_path, saturated(from), limit], iteration_row)
        })
    }

    fn iteration_headers(
        &self,
        run: &str,
        loop_path: &str,
        from: u64,
        only_failed: bool,
        limit: u32,
    ) -> Result<Vec<IterationHeader>, StoreError> {
        // The body is the last column of a row, so it is not read unless it is selected.
        let failed = if only_failed { "AND outcome = 1" } else { "" };
        let sql = format!(
            "SELECT {ITERATION_HEAD_COLUMNS} FROM iterations
             WHERE run = ?1 AND loop_path = ?2 AND last >= ?3 AND first >= coalesce(
                 (SELECT first FROM iterations WHERE run = ?1 AND loop_path = ?2 AND first <= ?3
                  ORDER BY first DESC LIMIT 1), 0) {failed}
             ORDER BY first LIMIT ?4"
        );
        self.read_run(run, |transaction, number| {
            self.all_in(transaction, &sql, params![number, loop_path, saturated(from), limit], iteration_head)
        })
    }

    fn loops(&self, run: &str) -> Result<Vec<String>, StoreError> {
        // Jumps from one path to the next through the index instead of scanning every iteration of every loop.
        let sql = "WITH RECURSIVE
             found(path) AS (
                 SELECT min(loop_path) FROM iterations WHERE run = ?1
                 UNION ALL
                 SELECT (SELECT min(loop_path) FROM iterations WHERE run = ?1 AND loop_path > path)
                 FROM found WHERE path IS NOT NULL)
             SELECT path FROM found WHERE path IS NOT NULL";
        self.read_run(run, |transaction, number| self.all_in(transaction, sql, [number], |row, _| Ok(row.get(0)?)))
    }
}

/// Saturates a number to 2^63 - 1, the maximum that SQLite stores; no tick is larger.
fn saturated(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the number under which the run's rows are stored. A run of a newer format is refused.
fn number_of(transaction: &Transaction<'_>, run: &str, file: &std::path::Path) -> SqliteResult<Option<i64>> {
    let sql = concat!("SELECT ", stored_run_columns!(), " FROM runs WHERE id = ?1");
    let mut select = transaction.prepare_cached(sql)?;
    let found = select.query_and_then([run], |row| StoredRun::decode(row, file))?.next().transpose()?;
    let Some(found) = found else { return Ok(None) };
    check_run_format(run, found.format)?;
    Ok(Some(found.number))
}

impl SqliteStore {
    /// Returns the first tick at or after which all rows with events hold `event` or later ones.
    ///
    /// Event numbers rise with ticks, so a binary search finds it; an index on events would cost a page in every
    /// commit.
    fn tick_of_event(&self, transaction: &Transaction<'_>, number: i64, event: u64) -> SqliteResult<u64> {
        let sql = format!(
            "SELECT {JOURNAL_HEAD_COLUMNS} FROM journal WHERE run = ?1 AND first_tick >= ?2 AND events > 0
             ORDER BY first_tick LIMIT 1"
        );
        let mut newest = transaction.prepare_cached("SELECT max(first_tick) FROM journal WHERE run = ?1")?;
        let newest: Option<u64> = newest.query_row([number], |row| row.get(0))?;
        let (mut low, mut high) = (0, newest.map_or(0, |tick| tick + 1));
        while low < high {
            let middle = low + (high - low) / 2;
            let found = self.all_in(transaction, &sql, params![number, middle], journal_head_row)?.pop();
            match found {
                Some(JournalHead { row, .. }) if row.first_event + u64::from(row.events) <= event => {
                    low = row.first_tick + 1;
                }
                Some(_) | None => high = middle,
            }
        }
        Ok(low)
    }
}
