//! Verification of every page and every row.

use std::path::Path;

use rusqlite::{Row, Transaction};
use windlass_store::backend::JournalCheck;
use windlass_store::{DamagedRowId, JournalRow};

use crate::damage::{RECORD_ROWS, RUN_ROWS, RowKind, WAIT_ROWS};
use crate::error::{SqliteResult, SqliteStoreError};
use crate::rows::{
    BLOB_COLUMNS, INBOX_COLUMNS, ITERATION_COLUMNS, JOURNAL_COLUMNS, PLAN_COLUMNS, RECORD_COLUMNS, RUN_COLUMNS,
    SNAPSHOT_COLUMNS, WAIT_COLUMNS, blob_body, inbox_row, iteration_row, journal_row, plan_row, snapshot_row,
};

/// Runs all checks. Damage that stops one check is a finding like any other, and the next check runs.
/// Also returns the damaged rows that are isolated.
pub(crate) fn verify(transaction: &Transaction<'_>, file: &Path) -> (Vec<String>, Vec<DamagedRowId>) {
    let mut check = StoreCheck { transaction, file, findings: Vec::new(), damaged: Vec::new() };
    check.pages();
    check.isolated(RUN_COLUMNS, "FROM runs", &RUN_ROWS);
    check.table("SELECT", SNAPSHOT_COLUMNS, "FROM snapshots", |row, file| snapshot_row(row, file).map(drop));
    check.table("SELECT", PLAN_COLUMNS, "FROM plans", |row, file| plan_row(row, file).map(drop));
    check.table("SELECT", BLOB_COLUMNS, "FROM blobs", |row, file| blob_body(row, file).map(drop));
    check.table("SELECT", ITERATION_COLUMNS, "FROM iterations", |row, file| iteration_row(row, file).map(drop));
    check.table("SELECT", INBOX_COLUMNS, "FROM inbox", |row, file| inbox_row(row, file).map(drop));
    let waits = "FROM waits JOIN runs ON runs.number = waits.run";
    check.isolated(WAIT_COLUMNS, waits, &WAIT_ROWS);
    check.isolated(RECORD_COLUMNS, "FROM records", &RECORD_ROWS);
    check.parents();
    check.journals();
    (check.findings, check.damaged)
}

struct StoreCheck<'t> {
    transaction: &'t Transaction<'t>,
    file: &'t Path,
    findings: Vec<String>,
    damaged: Vec<DamagedRowId>,
}

impl StoreCheck<'_> {
    fn report<T>(&mut self, outcome: SqliteResult<T>) -> Option<T> {
        outcome.map_err(|trouble| self.findings.push(trouble.into_error(self.file).message)).ok()
    }

    fn pages(&mut self) {
        let outcome = self.quick_check();
        let lines = self.report(outcome).unwrap_or_default();
        self.findings.extend(lines.into_iter().filter(|line| line != "ok"));
    }

    fn quick_check(&self) -> SqliteResult<Vec<String>> {
        let mut pragma = self.transaction.prepare("PRAGMA quick_check")?;
        let lines = pragma.query_map([], |row| row.get(0))?;
        Ok(lines.collect::<rusqlite::Result<_>>()?)
    }

    fn table(&mut self, select: &str, columns: &str, from: &str, decode: fn(&Row<'_>, &Path) -> SqliteResult<()>) {
        let sql = format!("{select} {columns} {from}");
        let outcome = self.rows(&sql, &mut |check, row| {
            let outcome = decode(row, check.file);
            check.report(outcome);
            Ok(())
        });
        self.report(outcome);
    }

    /// Checks a table whose damaged rows are isolated.
    fn isolated<T>(&mut self, columns: &str, from: &str, kind: &RowKind<T>) {
        let outcome = self.rows(&format!("SELECT {columns} {from}"), &mut |check, row| {
            if check.report(kind.decode(row, check.file)).is_none() {
                check.damaged.push(kind.id(row)?);
            }
            Ok(())
        });
        self.report(outcome);
    }

    /// Checks that every run is newer than its parent: rows that do not form a tree break that somewhere.
    fn parents(&mut self) {
        let sql = "SELECT child.id, above.id FROM runs AS child JOIN runs AS above ON above.id = child.parent
                   WHERE child.parent IS NOT NULL AND above.number >= child.number";
        let outcome = self.rows(sql, &mut |check, row| {
            let (run, parent): (String, String) = (row.get(0)?, row.get(1)?);
            check.findings.push(format!("Run {run}: its parent {parent} is not older than the run."));
            Ok(())
        });
        self.report(outcome);
    }

    fn rows(&mut self, sql: &str, visit: &mut dyn FnMut(&mut Self, &Row<'_>) -> SqliteResult<()>) -> SqliteResult<()> {
        let transaction = self.transaction;
        let mut select = transaction.prepare(sql)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            visit(self, row)?;
        }
        Ok(())
    }

    fn journals(&mut self) {
        let sql = "SELECT number, id, (SELECT max(tick) FROM snapshots WHERE run = number) FROM runs";
        let outcome = self.rows(sql, &mut |check, row| {
            let outcome = check.journal(row.get(0)?, &row.get::<_, String>(1)?, row.get(2)?);
            check.report(outcome);
            Ok(())
        });
        self.report(outcome);
    }

    fn journal(&mut self, number: i64, id: &str, newest_snapshot: Option<u64>) -> SqliteResult<()> {
        let mut journal = JournalCheck::new(id, newest_snapshot);
        let sql = format!("SELECT {JOURNAL_COLUMNS} FROM journal WHERE run = {number} ORDER BY first_tick");
        self.rows(&sql, &mut |check, row| {
            journal.check_row(&row_numbers(row)?);
            let outcome = journal_row(row, check.file);
            check.report(outcome);
            Ok(())
        })?;
        self.findings.extend(journal.finish());
        Ok(())
    }
}

/// Reads a row without its body, which may be damaged while the numbers are intact.
fn row_numbers(row: &Row<'_>) -> Result<JournalRow, SqliteStoreError> {
    let (first_tick, ticks, first_event, events) = (row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
    Ok(JournalRow { first_tick, ticks, first_event, events, body: Vec::new() })
}
