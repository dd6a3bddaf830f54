//! Log lines of tasks. Those that are not part of a batch are committed without a sync: the next commit of a journal
//! syncs them as well.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{OptionalExtension, Row, Transaction, params};
use windlass_store::{LogFilter, LogPage, LogRow, LogStream, NewLogLine, SpaceLeft, StoreError, StoreLogs};
use windlass_value::Timestamp;

use crate::SqliteStore;
use crate::error::SqliteResult;
use crate::rows::check;
use crate::seal::seal;
use crate::transaction::WriteTransaction;

/// The number of lines that one statement removes, when a run has written too much.
const TRIM_LINES: u32 = 256;

impl StoreLogs for SqliteStore {
    fn append_logs(&self, lines: &[NewLogLine], max_run_bytes: u64) -> Result<(), StoreError> {
        if lines.is_empty() {
            return Ok(());
        }
        self.reserve.known().require(SpaceLeft::Enough)?;
        self.write_unsynced(|transaction| {
            for group in lines.chunk_by(|one, other| one.run == other.run) {
                append_group(transaction, group, max_run_bytes)?;
            }
            Ok(())
        })
    }

    fn logs(&self, run: &str, filter: LogFilter<'_>, after: i64, limit: u32) -> Result<LogPage, StoreError> {
        self.read(|transaction| {
            let Some(number) = run_number(transaction, run)? else { return Ok(LogPage::default()) };
            let removed = totals(transaction, number, self.file())?.removed;
            let sql = format!(
                "SELECT {LOG_COLUMNS} FROM logs
                 WHERE run = ?1 AND position > ?2
                     AND (?4 IS NULL OR path = ?4 OR substr(path, 1, length(?4) + 1) IN (?4 || '.', ?4 || '['))
                 ORDER BY position LIMIT ?3"
            );
            let lines = self.all_in(transaction, &sql, params![number, after, limit, filter.path], log_row)?;
            Ok(LogPage { lines, removed })
        })
    }
}

fn run_number(transaction: &Transaction<'_>, run: &str) -> SqliteResult<Option<i64>> {
    let mut select = transaction.prepare_cached("SELECT number FROM runs WHERE id = ?1")?;
    Ok(select.query_row([run], |row| row.get(0)).optional()?)
}

pub(crate) const LOG_COLUMNS: &str = "run, path, attempt, stream, at, text, checksum, position";
pub(crate) const LOG_TOTAL_COLUMNS: &str = "run, bytes, removed, checksum, run";

pub(crate) fn log_row(row: &Row<'_>, file: &Path) -> SqliteResult<LogRow> {
    check(row, 6, "logs", file)?;
    let stream: u8 = row.get(3)?;
    Ok(LogRow {
        position: row.get(7)?,
        path: row.get::<_, Arc<str>>(1)?,
        attempt: row.get(2)?,
        // A line of an unknown stream is still a line.
        stream: LogStream::from_number(stream).unwrap_or(LogStream::Log),
        at: Timestamp(row.get(4)?),
        text: row.get(5)?,
    })
}

/// The size of a run's log.
#[derive(Default)]
pub(crate) struct LogTotals {
    bytes: u64,
    removed: u64,
}

pub(crate) fn log_totals(row: &Row<'_>, file: &Path) -> SqliteResult<LogTotals> {
    check(row, 3, "log_totals", file)?;
    Ok(LogTotals { bytes: row.get(1)?, removed: row.get(2)? })
}

fn totals(transaction: &Transaction<'_>, number: i64, file: &Path) -> SqliteResult<LogTotals> {
    let sql = format!("SELECT {LOG_TOTAL_COLUMNS} FROM log_totals WHERE run = ?1");
    let mut select = transaction.prepare_cached(&sql)?;
    let found = select.query_and_then([number], |row| log_totals(row, file))?.next().transpose()?;
    Ok(found.unwrap_or_default())
}

/// Appends lines of one run, if it exists.
fn append_group(transaction: &WriteTransaction<'_>, lines: &[NewLogLine], max_run_bytes: u64) -> SqliteResult<()> {
    let Some(first) = lines.first() else { return Ok(()) };
    match run_number(transaction, &first.run)? {
        Some(number) => append_lines(transaction, number, lines, max_run_bytes),
        None => Ok(()),
    }
}

/// Appends lines of one run, and removes its oldest lines if it has written too much.
pub(crate) fn append_lines(
    transaction: &WriteTransaction<'_>,
    number: i64,
    lines: &[NewLogLine],
    max_run_bytes: u64,
) -> SqliteResult<()> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO logs (run, path, attempt, stream, at, checksum, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for line in lines {
        let stream = line.stream as u8;
        let checksum = seal(&[&number, &&*line.path, &line.attempt, &stream, &line.at.0, &&*line.text]);
        insert.execute(params![number, line.path, line.attempt, stream, line.at.0, checksum, line.text])?;
    }
    let mut total = totals(transaction, number, transaction.file())?;
    total.bytes += lines.iter().map(|line| line.text.len() as u64).sum::<u64>();
    trim(transaction, number, &mut total, max_run_bytes)?;
    let checksum = seal(&[&number, &total.bytes, &total.removed]);
    let mut upsert = transaction.prepare_cached(
        "INSERT INTO log_totals (run, bytes, removed, checksum) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (run) DO UPDATE SET
             bytes = excluded.bytes, removed = excluded.removed, checksum = excluded.checksum",
    )?;
    upsert.execute(params![number, total.bytes, total.removed, checksum])?;
    Ok(())
}

fn trim(transaction: &Transaction<'_>, number: i64, total: &mut LogTotals, max_bytes: u64) -> SqliteResult<()> {
    let mut delete = transaction.prepare_cached(
        "DELETE FROM logs WHERE position IN (SELECT position FROM logs WHERE run = ?1 ORDER BY position LIMIT ?2)
         RETURNING length(CAST(text AS BLOB))",
    )?;
    while total.bytes > max_bytes {
        let sizes = delete.query_map(params![number, TRIM_LINES], |row| row.get(0))?;
        let sizes = sizes.collect::<rusqlite::Result<Vec<u64>>>()?;
        if sizes.is_empty() {
            break;
        }
        total.removed += sizes.len() as u64;
        total.bytes = total.bytes.saturating_sub(sizes.iter().sum());
    }
    Ok(())
}
