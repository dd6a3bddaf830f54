//! Verification of every page and every row.

use std::path::Path;

use rusqlite::{Row, Transaction};
use windlass_store::DamagedRowId;
use windlass_store::backend::JournalCheck;

use crate::damage::isolated_row;
use crate::error::SqliteResult;
use crate::logs::{LOG_COLUMNS, LOG_TOTAL_COLUMNS, log_row, log_totals};
use crate::rows::{
    BLOB_COLUMNS, INBOX_COLUMNS, ITERATION_COLUMNS, JOURNAL_COLUMNS, PLAN_COLUMNS, RECORD_COLUMNS, RUN_COLUMNS,
    SNAPSHOT_COLUMNS, WAIT_COLUMNS, blob_body, check, iteration_row, journal_head_row, journal_row, open_wait,
    plan_row, record_row, run_row, snapshot_row, stored_message,
};
use crate::stored_run::StoredRun;
use crate::transaction::newest_link;
use crate::trees::{TREE_COLUMNS, verify_row};

/// Runs all checks. Damage that stops one check is a finding like any other, and the next check runs.
pub(crate) fn verify(transaction: &Transaction<'_>, file: &Path) -> Vec<String> {
    verify_rows(transaction, file).0
}

/// Does the same, and returns the damaged rows that are isolated as well.
pub(crate) fn verify_rows(transaction: &Transaction<'_>, file: &Path) -> (Vec<String>, Vec<DamagedRowId>) {
    let mut check = StoreCheck { transaction, file, newest: u64::MAX, findings: Vec::new(), damaged: Vec::new() };
    check.pages();
    if let Some(link) = check.report(newest_link(transaction, file)) {
        check.newest = link.sequence;
    }
    for (table, columns, decode) in TABLES {
        check.table(&format!("SELECT {columns} FROM {table}"), *decode);
    }
    check.parents();
    check.journals();
    (check.findings, check.damaged)
}

/// Decodes a row and returns the number of the commit that has written it, or 0 if the row does not say.
pub(crate) type DecodeRow = fn(&Row<'_>, &Path) -> SqliteResult<u64>;

/// The tables with their columns. Rows of the journal are checked run by run.
pub(crate) const TABLES: &[(&str, &str, DecodeRow)] = &[
    ("meta", "key, value, checksum, 0", |row, file| check(row, 2, "meta", file).map(|()| 0)),
    ("runs", RUN_COLUMNS, |row, file| {
        let written = StoredRun::decode(row, file)?.written;
        run_row(row, file).map(|_| written)
    }),
    ("snapshots", SNAPSHOT_COLUMNS, |row, file| snapshot_row(row, file).map(|_| 0)),
    ("plans", PLAN_COLUMNS, |row, file| plan_row(row, file).map(|_| 0)),
    ("blobs", BLOB_COLUMNS, |row, file| blob_body(row, file).map(|_| 0)),
    ("iterations", ITERATION_COLUMNS, |row, file| iteration_row(row, file).map(|_| 0)),
    ("inbox", INBOX_COLUMNS, |row, file| stored_message(row, file).map(|stored| stored.written)),
    ("waits JOIN runs ON runs.number = waits.run", WAIT_COLUMNS, |row, file| open_wait(row, file).map(|_| 0)),
    ("records", RECORD_COLUMNS, |row, file| record_row(row, file).map(|_| 0)),
    ("run_trees", TREE_COLUMNS, |row, file| verify_row(row, file).map(|()| 0)),
    ("logs", LOG_COLUMNS, |row, file| log_row(row, file).map(|_| 0)),
    ("log_totals", LOG_TOTAL_COLUMNS, |row, file| log_totals(row, file).map(|_| 0)),
    ("removed_runs", "number, checksum, number", |row, file| check(row, 1, "removed_runs", file).map(|()| 0)),
];

/// Selects runs that are not newer than their parents: rows that do not form a tree break that somewhere.
pub(crate) const PARENTS: &str =
    "SELECT child.id, above.id FROM runs AS child JOIN runs AS above ON above.id = child.parent
                                  WHERE child.parent IS NOT NULL AND above.number >= child.number";

/// Describes a row of `PARENTS`.
pub(crate) fn parent_finding(row: &Row<'_>) -> SqliteResult<String> {
    let (run, parent): (String, String) = (row.get(0)?, row.get(1)?);
    Ok(format!("Run {run}: its parent {parent} is not older than the run."))
}

struct StoreCheck<'t> {
    transaction: &'t Transaction<'t>,
    file: &'t Path,
    /// The number of the newest commit: no row is of a later one.
    newest: u64,
    findings: Vec<String>,
    damaged: Vec<DamagedRowId>,
}

impl StoreCheck<'_> {
    fn report<T>(&mut self, outcome: SqliteResult<T>) -> Option<T> {
        outcome
            .map_err(|trouble| {
                let error = trouble.into_error(self.file);
                self.damaged.extend(isolated_row(&error));
                self.findings.push(error.message);
            })
            .ok()
    }

    fn pages(&mut self) {
        let outcome = self.integrity_check();
        let lines = self.report(outcome).unwrap_or_default();
        self.findings.extend(lines.into_iter().filter(|line| line != "ok"));
    }

    fn integrity_check(&self) -> SqliteResult<Vec<String>> {
        let mut pragma = self.transaction.prepare("PRAGMA integrity_check")?;
        let lines = pragma.query_map([], |row| row.get(0))?;
        Ok(lines.collect::<rusqlite::Result<_>>()?)
    }

    fn parents(&mut self) {
        let outcome = self.rows(PARENTS, &mut |check, row| {
            check.findings.push(parent_finding(row)?);
            Ok(())
        });
        self.report(outcome);
    }

    fn table(&mut self, sql: &str, decode: DecodeRow) {
        let outcome = self.rows(sql, &mut |check, row| {
            let outcome = decode(row, check.file);
            if let Some(written) = check.report(outcome) {
                check.stamp(written);
            }
            Ok(())
        });
        self.report(outcome);
    }

    /// Checks that the commit of a row exists: it does not in a database whose pages are of different times.
    fn stamp(&mut self, written: u64) {
        if written > self.newest && !self.findings.iter().any(|finding| finding.contains(FROM_THE_FUTURE)) {
            let newest = self.newest;
            self.findings.push(format!("A row was written by commit {written}, and {FROM_THE_FUTURE} {newest}."));
        }
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
            let outcome = journal_head_row(row, check.file);
            if let Some(head) = check.report(outcome) {
                journal.check_row(&head.row);
                check.stamp(head.written);
                let outcome = journal_row(row, check.file);
                check.report(outcome);
            }
            Ok(())
        })?;
        self.findings.extend(journal.finish());
        Ok(())
    }
}

pub(crate) const FROM_THE_FUTURE: &str = "the newest commit of the database is";
