//! Verification of every page and every row.

use std::path::Path;

use rusqlite::{Row, Transaction};
use windlass_store::JournalRow;
use windlass_store::backend::JournalCheck;

use crate::error::{SqliteResult, SqliteStoreError};
use crate::rows::{
    BLOB_COLUMNS, INBOX_COLUMNS, ITERATION_COLUMNS, JOURNAL_COLUMNS, PLAN_COLUMNS, RECORD_COLUMNS, RUN_COLUMNS,
    SNAPSHOT_COLUMNS, WAIT_COLUMNS, blob_body, inbox_row, iteration_row, journal_row, open_wait, plan_row, record_row,
    run_row, snapshot_row,
};
use crate::trees::{TREE_COLUMNS, verify_row};

/// Runs all checks. Damage that stops one check is a finding like any other, and the next check runs.
pub(crate) fn verify(transaction: &Transaction<'_>, file: &Path) -> Vec<String> {
    let mut check = StoreCheck { transaction, file, findings: Vec::new() };
    check.pages();
    check.table("SELECT", RUN_COLUMNS, "FROM runs", |row, file| run_row(row, file).map(drop));
    check.table("SELECT", SNAPSHOT_COLUMNS, "FROM snapshots", |row, file| snapshot_row(row, file).map(drop));
    check.table("SELECT", PLAN_COLUMNS, "FROM plans", |row, file| plan_row(row, file).map(drop));
    check.table("SELECT", BLOB_COLUMNS, "FROM blobs", |row, file| blob_body(row, file).map(drop));
    check.table("SELECT", ITERATION_COLUMNS, "FROM iterations", |row, file| iteration_row(row, file).map(drop));
    check.table("SELECT", INBOX_COLUMNS, "FROM inbox", |row, file| inbox_row(row, file).map(drop));
    check.table("SELECT", TREE_COLUMNS, "FROM run_trees", verify_row);
    let waits = "FROM waits JOIN runs ON runs.number = waits.run";
    check.table("SELECT", WAIT_COLUMNS, waits, |row, file| open_wait(row, file).map(drop));
    check.table("SELECT", RECORD_COLUMNS, "FROM records", |row, file| record_row(row, file).map(drop));
    check.journals();
    check.findings
}

struct StoreCheck<'t> {
    transaction: &'t Transaction<'t>,
    file: &'t Path,
    findings: Vec<String>,
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
