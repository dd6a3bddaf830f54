//! The search for damage while the store is in use: in short transactions, with pauses in proportion to the work.
//!
//! Rows are read in the order of their numbers, a part at a time. The pages of a table and its indexes are checked in
//! one transaction per table: writers proceed meanwhile, but the log grows until it ends.

use std::time::{Duration, Instant};

use rusqlite::{Connection, Row, Transaction, params};
use windlass_store::backend::JournalCheck;
use windlass_store::{ScrubReport, StoreError};

use crate::error::{SqliteResult, SqliteStoreError};
use crate::rows::{JOURNAL_COLUMNS, JOURNAL_HEAD_COLUMNS, journal_head_row, journal_row};
use crate::transaction::newest_link;
use crate::verify::{DecodeRow, FROM_THE_FUTURE, TABLES};
use crate::{SqliteStore, locked, open, owners};

/// The number of rows that one transaction reads.
const ROWS_PER_STEP: u32 = 200;

/// A pause is slept in parts of this length, so that closing the store does not wait for it.
const PAUSE_PART: Duration = Duration::from_millis(20);

/// Virtual instructions of SQLite after which a check of pages looks whether the store is being closed.
const OPS_PER_LOOK: i32 = 100_000;

/// Findings that a report has at most: a disk that fails has more than anyone reads.
const MAX_FINDINGS: usize = 1_000;

impl SqliteStore {
    /// Looks for damage in short steps.
    pub(crate) fn scrub_slowly(&self, busy_percent: u32) -> Result<ScrubReport, StoreError> {
        self.refuse_if_stopped()?;
        // Closing the store waits for this connection to be closed.
        let _busy = locked(&self.scrubbing);
        let mut connection =
            open::open_reader(self.file(), &self.options).map_err(|error| error.into_error(self.file()))?;
        let is_closed = self.is_closed.clone();
        let stop = move || is_closed.load(std::sync::atomic::Ordering::Acquire);
        let watched = connection.progress_handler(OPS_PER_LOOK, Some(stop));
        watched.map_err(|error| SqliteStoreError::from(error).into_error(self.file()))?;
        let mut scrub = Scrub {
            store: self,
            busy_percent: busy_percent.clamp(1, 100),
            began: Instant::now(),
            report: Default::default(),
        };
        scrub.run(&mut connection);
        scrub.report.is_complete = !self.is_closing();
        Ok(scrub.report)
    }

    fn is_closing(&self) -> bool {
        self.is_closed.load(std::sync::atomic::Ordering::Acquire)
    }
}

struct Scrub<'s> {
    store: &'s SqliteStore,
    busy_percent: u32,
    /// When the present step began.
    began: Instant,
    report: ScrubReport,
}

impl Scrub<'_> {
    fn run(&mut self, connection: &mut Connection) {
        for (table, columns, decode) in TABLES {
            let position = if table.starts_with("waits") { "waits.position" } else { "rowid" };
            match *table {
                // Its rows have no numbers, and it has only a few.
                "meta" => self.whole_table(connection, &format!("SELECT {columns} FROM {table}"), *decode),
                _ => self.table(connection, table, position, columns, *decode),
            }
        }
        self.table(connection, "journal", "rowid", JOURNAL_COLUMNS, |row, file| {
            let written = journal_head_row(row, file)?.written;
            journal_row(row, file).map(|_| written)
        });
        self.journals(connection);
        self.pages(connection);
        self.report.findings.extend(owners::damaged_heartbeats(&self.store.owners));
    }

    fn whole_table(&mut self, connection: &mut Connection, sql: &str, decode: DecodeRow) {
        self.step(connection, |scrub, transaction| {
            let mut select = transaction.prepare(sql)?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                scrub.row(row, decode, u64::MAX);
            }
            Ok(())
        });
    }

    /// Verifies the rows of a table.
    fn table(&mut self, connection: &mut Connection, table: &str, position: &str, columns: &str, decode: DecodeRow) {
        let sql = format!(
            "SELECT {columns}, {position} AS place FROM {table} WHERE {position} > ?1 ORDER BY {position} LIMIT ?2"
        );
        let (mut after, mut is_more) = (i64::MIN, true);
        while is_more && !self.is_over() {
            is_more = false;
            self.step(connection, |scrub, transaction| {
                let newest = newest_link(transaction, scrub.store.file())?.sequence;
                let mut select = transaction.prepare_cached(&sql)?;
                let place = select.column_index("place")?;
                let (mut rows, mut count) = (select.query(params![after, ROWS_PER_STEP])?, 0);
                while let Some(row) = rows.next()? {
                    (after, count) = (row.get(place)?, count + 1);
                    scrub.row(row, decode, newest);
                }
                is_more = count == ROWS_PER_STEP;
                Ok(())
            });
        }
    }

    fn row(&mut self, row: &Row<'_>, decode: DecodeRow, newest: u64) {
        self.report.rows += 1;
        match decode(row, self.store.file()) {
            Ok(written) if written > newest => {
                self.find(format!("A row was written by commit {written}, and {FROM_THE_FUTURE} {newest}."));
            }
            Ok(_) => {}
            Err(error) => self.find(error.into_error(self.store.file()).message),
        }
    }

    /// Checks that the journals have no gaps, one run at a time.
    fn journals(&mut self, connection: &mut Connection) {
        let (mut after, mut is_more) = (i64::MIN, true);
        while is_more && !self.is_over() {
            is_more = false;
            self.step(connection, |scrub, transaction| {
                let sql = "SELECT number, id, (SELECT max(tick) FROM snapshots WHERE run = number)
                           FROM runs WHERE number > ?1 ORDER BY number LIMIT 1";
                let mut select = transaction.prepare_cached(sql)?;
                let mut rows = select.query([after])?;
                if let Some(row) = rows.next()? {
                    (after, is_more) = (row.get(0)?, true);
                    scrub.journal(transaction, after, JournalCheck::new(&row.get::<_, String>(1)?, row.get(2)?))?;
                }
                Ok(())
            });
        }
    }

    fn journal(&mut self, transaction: &Transaction<'_>, run: i64, mut check: JournalCheck) -> SqliteResult<()> {
        let sql = format!("SELECT {JOURNAL_HEAD_COLUMNS} FROM journal WHERE run = ?1 ORDER BY first_tick");
        for head in self.store.each_in(transaction, &sql, [run], journal_head_row)? {
            // A damaged row has been found before.
            let Ok(head) = head else { return Ok(()) };
            check.check_row(&head.row);
        }
        check.finish().into_iter().for_each(|finding| self.find(finding));
        Ok(())
    }

    /// Checks the pages of each table and of its indexes, and that they agree.
    fn pages(&mut self, connection: &mut Connection) {
        let mut tables: Vec<String> = Vec::new();
        self.step(connection, |_, transaction| {
            let mut select = transaction.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
            tables = select.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            Ok(())
        });
        for table in tables {
            self.step(connection, |scrub, transaction| {
                let mut pragma = transaction.prepare(&format!("PRAGMA integrity_check('{table}')"))?;
                let lines = pragma.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
                lines.into_iter().filter(|line| line != "ok").for_each(|line| scrub.find(line));
                Ok(())
            });
        }
    }

    fn is_over(&self) -> bool {
        self.store.is_closing() || self.report.findings.len() >= MAX_FINDINGS
    }

    fn find(&mut self, finding: String) {
        if self.report.findings.len() < MAX_FINDINGS && !self.report.findings.contains(&finding) {
            self.report.findings.push(finding);
        }
    }

    /// Runs one transaction, then pauses.
    fn step(
        &mut self,
        connection: &mut Connection,
        work: impl FnOnce(&mut Self, &Transaction<'_>) -> SqliteResult<()>,
    ) {
        if self.is_over() {
            return;
        }
        self.began = Instant::now();
        let outcome = connection.transaction().map_err(SqliteStoreError::from).and_then(|transaction| {
            work(self, &transaction)?;
            Ok(transaction.finish()?)
        });
        if let Err(error) = outcome
            && !self.store.is_closing()
        {
            self.find(error.into_error(self.store.file()).message);
        }
        self.pause();
    }

    fn pause(&self) {
        let worked = self.began.elapsed();
        let until = Instant::now() + worked * (100 - self.busy_percent) / self.busy_percent;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|_| !self.store.is_closing()) {
            std::thread::sleep(left.min(PAUSE_PART));
        }
    }
}
