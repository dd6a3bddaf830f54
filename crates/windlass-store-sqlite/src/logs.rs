//! Log lines of tasks. Those that are not part of a batch are committed without a sync: the next commit of a journal
//! syncs them as well.

use std::sync::Arc;

use rusqlite::{OptionalExtension, Row, Transaction, params};
use windlass_store::{LogFilter, LogPage, LogRow, LogStream, NewLogLine, SpaceLeft, StoreError, StoreLogs};
use windlass_value::Timestamp;

use crate::SqliteStore;
use crate::error::SqliteResult;

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
            let mut select = transaction.prepare_cached("SELECT removed FROM log_totals WHERE run = ?1")?;
            let removed = select.query_row([number], |row| row.get(0)).optional()?.unwrap_or(0);
            let mut select = transaction.prepare_cached(
                "SELECT position, path, attempt, stream, at, text FROM logs
                 WHERE run = ?1 AND position > ?2
                     AND (?4 IS NULL OR path = ?4 OR substr(path, 1, length(?4) + 1) IN (?4 || '.', ?4 || '['))
                 ORDER BY position LIMIT ?3",
            )?;
            let lines = select.query_map(params![number, after, limit, filter.path], log_row)?;
            Ok(LogPage { lines: lines.collect::<rusqlite::Result<_>>()?, removed })
        })
    }
}

fn run_number(transaction: &Transaction<'_>, run: &str) -> SqliteResult<Option<i64>> {
    let mut select = transaction.prepare_cached("SELECT number FROM runs WHERE id = ?1")?;
    Ok(select.query_row([run], |row| row.get(0)).optional()?)
}

fn log_row(row: &Row<'_>) -> rusqlite::Result<LogRow> {
    let stream: u8 = row.get(3)?;
    Ok(LogRow {
        position: row.get(0)?,
        path: row.get::<_, Arc<str>>(1)?,
        attempt: row.get(2)?,
        // A line of an unknown stream is still a line.
        stream: LogStream::from_number(stream).unwrap_or(LogStream::Log),
        at: Timestamp(row.get(4)?),
        text: row.get(5)?,
    })
}

/// Appends lines of one run, if it exists.
fn append_group(transaction: &Transaction<'_>, lines: &[NewLogLine], max_run_bytes: u64) -> SqliteResult<()> {
    let Some(first) = lines.first() else { return Ok(()) };
    match run_number(transaction, &first.run)? {
        Some(number) => append_lines(transaction, number, lines, max_run_bytes),
        None => Ok(()),
    }
}

/// Appends lines of one run, and removes its oldest lines if it has written too much.
pub(crate) fn append_lines(
    transaction: &Transaction<'_>,
    number: i64,
    lines: &[NewLogLine],
    max_run_bytes: u64,
) -> SqliteResult<()> {
    let mut insert = transaction
        .prepare_cached("INSERT INTO logs (run, path, attempt, stream, at, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for line in lines {
        insert.execute(params![number, line.path, line.attempt, line.stream as u8, line.at.0, line.text])?;
    }
    let added: u64 = lines.iter().map(|line| line.text.len() as u64).sum();
    let mut upsert = transaction.prepare_cached(
        "INSERT INTO log_totals (run, bytes, removed) VALUES (?1, ?2, 0)
         ON CONFLICT (run) DO UPDATE SET bytes = bytes + excluded.bytes RETURNING bytes",
    )?;
    let bytes: u64 = upsert.query_row(params![number, added], |row| row.get(0))?;
    trim(transaction, number, bytes, max_run_bytes)
}

fn trim(transaction: &Transaction<'_>, number: i64, mut bytes: u64, max_bytes: u64) -> SqliteResult<()> {
    let mut delete = transaction.prepare_cached(
        "DELETE FROM logs WHERE position IN (SELECT position FROM logs WHERE run = ?1 ORDER BY position LIMIT ?2)
         RETURNING length(CAST(text AS BLOB))",
    )?;
    let mut removed = 0u64;
    while bytes > max_bytes {
        let sizes = delete.query_map(params![number, TRIM_LINES], |row| row.get(0))?;
        let sizes = sizes.collect::<rusqlite::Result<Vec<u64>>>()?;
        if sizes.is_empty() {
            break;
        }
        removed += sizes.len() as u64;
        bytes = bytes.saturating_sub(sizes.iter().sum());
    }
    if removed > 0 {
        let mut update =
            transaction.prepare_cached("UPDATE log_totals SET bytes = ?2, removed = removed + ?3 WHERE run = ?1")?;
        update.execute(params![number, bytes, removed])?;
    }
    Ok(())
}
