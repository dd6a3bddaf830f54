//! Decoding of columns into rows. Every body is checked against its checksum here and nowhere else.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Row;
use windlass_store::backend::{checksum, damaged_blob_message, record_checksum};
use windlass_store::{
    InboxRow, IterationOutcome, IterationRow, JournalRow, OpenWait, PlanRow, RecordRow, RunLabels, RunRow, RunStatus,
    SnapshotRow, StoreError, WaitRow,
};
use windlass_value::{BlobHash, Timestamp, Value};

use crate::error::{SqliteResult, damaged, damaged_row};

/// The number of ticks is the journal's position: its newest row always stays, even when older rows are trimmed.
///
/// Most runs have no labels: for them the aggregate, which was measured to be a fifth of the read, is not evaluated.
pub(crate) const RUN_COLUMNS: &str =
    "number, id, plan, definition, dialect, status, owner, owner_epoch, created_at, changed_at, timer, parent, options,
     options_checksum, result, result_checksum,
     (SELECT first_tick + ticks FROM journal WHERE run = runs.number ORDER BY first_tick DESC LIMIT 1), format, previous_owner,
     CASE WHEN EXISTS (SELECT 1 FROM run_labels WHERE run = runs.number)
         THEN (SELECT json_group_object(name, value) FROM run_labels WHERE run = runs.number) END, execution_id";
/// SQL expression for the number of ticks of a run.
macro_rules! ticks {
    () => {
        "coalesce((SELECT first_tick + ticks FROM journal WHERE run = runs.number ORDER BY first_tick DESC LIMIT 1), 0)"
    };
}
pub(crate) const TICKS: &str = ticks!();
/// SQL assignment for a run whose owner changes. An owner that has written nothing leaves the previous owner as it is.
pub(crate) const RELEASE: &str = concat!(
    "previous_owner = CASE WHEN owner IS NOT NULL AND ",
    ticks!(),
    " > claimed_ticks THEN owner ELSE previous_owner END"
);
pub(crate) const JOURNAL_COLUMNS: &str = "run, first_tick, ticks, first_event, events, checksum, body, position";
pub(crate) const SNAPSHOT_COLUMNS: &str = "run, tick, event, state_hash, checksum, body, rowid";
pub(crate) const PLAN_COLUMNS: &str = "hash, dialect, checksum, body, rowid";
pub(crate) const BLOB_COLUMNS: &str = "hash, checksum, body, rowid";
pub(crate) const ITERATION_COLUMNS: &str = "run, loop_path, first, last, outcome, checksum, body, rowid";
pub(crate) const INBOX_COLUMNS: &str = "run, request_id, at, checksum, body, position";
pub(crate) const WAIT_COLUMNS: &str =
    "waits.run, runs.id, runs.definition, name, path, since, deadline, checksum, body, position";
pub(crate) const RECORD_COLUMNS: &str = "kind, key, at, checksum, body, revision";

pub(crate) fn run_row(row: &Row<'_>, file: &Path) -> SqliteResult<RunRow> {
    let number: i64 = row.get(0)?;
    let (id, options, result): (Arc<str>, Vec<u8>, Option<Vec<u8>>) = (row.get(1)?, row.get(12)?, row.get(14)?);
    let (options_sum, result_sum): (u32, Option<u32>) = (row.get(13)?, row.get(15)?);
    let expected = (options_checksum(&id, &options), result.as_ref().map(|result| result_checksum(&id, result)));
    if (options_sum, result_sum) != expected {
        return Err(damaged_row("runs", number, file).into());
    }
    let status = known_status(&row.get::<_, String>(5)?, number, file)?;
    Ok(RunRow {
        number,
        run: id,
        execution_id: row.get(20)?,
        plan: BlobHash(row.get(2)?),
        definition: row.get(3)?,
        dialect: row.get(4)?,
        status,
        owner: row.get(6)?,
        owner_epoch: row.get(7)?,
        created_at: Timestamp(row.get(8)?),
        changed_at: Timestamp(row.get(9)?),
        timer: row.get::<_, Option<i64>>(10)?.map(Timestamp),
        parent: row.get(11)?,
        options,
        result,
        ticks: row.get::<_, Option<u64>>(16)?.unwrap_or(0),
        format: row.get(17)?,
        previous_owner: row.get(18)?,
        labels: run_labels(row.get(19)?, number, file)?,
    })
}

/// Parses the status of a run.
pub(crate) fn known_status(word: &str, number: i64, file: &Path) -> Result<RunStatus, StoreError> {
    let unknown = || damaged(format!("Table runs, row {number} is damaged: its status {word:?} is unknown."), file);
    RunStatus::parse(word).ok_or_else(unknown)
}

/// Returns the number of a row of `RUN_COLUMNS`, whatever the rest of it is.
pub(crate) fn run_row_number(row: &Row<'_>) -> rusqlite::Result<i64> {
    row.get(0)
}

/// Returns the number of a row of `RECORD_COLUMNS`, whatever the rest of it is.
pub(crate) fn record_row_number(row: &Row<'_>) -> rusqlite::Result<i64> {
    row.get(5)
}

/// Returns the number of a row of `WAIT_COLUMNS`, whatever the rest of it is.
pub(crate) fn wait_row_number(row: &Row<'_>) -> rusqlite::Result<i64> {
    row.get(9)
}

/// Decodes the labels of a run, which a query returns as a JSON object of texts, or null for a run without labels.
fn run_labels(json: Option<String>, number: i64, file: &Path) -> SqliteResult<RunLabels> {
    let Some(json) = json else { return Ok(RunLabels::new()) };
    let parsed = windlass_value::parse_json(&json).map_err(|_| damaged_row("run_labels", number, file))?;
    let text = |(name, value): (&Arc<str>, &Value)| Some((name.to_string(), value.as_str()?.to_owned()));
    Ok(parsed.as_map().into_iter().flat_map(|map| map.iter()).filter_map(text).collect())
}

pub(crate) fn journal_row(row: &Row<'_>, file: &Path) -> SqliteResult<JournalRow> {
    let run: i64 = row.get(0)?;
    let found = JournalRow {
        first_tick: row.get(1)?,
        ticks: row.get(2)?,
        first_event: row.get(3)?,
        events: row.get(4)?,
        body: row.get(6)?,
    };
    let numbers = [found.first_tick, found.ticks.into(), found.first_event, found.events.into()];
    check(row, 5, journal_checksum(run, numbers, &found.body), "journal", file)?;
    Ok(found)
}

pub(crate) fn snapshot_row(row: &Row<'_>, file: &Path) -> SqliteResult<SnapshotRow> {
    let run: i64 = row.get(0)?;
    let found = SnapshotRow { tick: row.get(1)?, event: row.get(2)?, state_hash: row.get(3)?, body: row.get(5)? };
    let expected = snapshot_checksum(run, found.tick, found.event, &found.state_hash, &found.body);
    check(row, 4, expected, "snapshots", file)?;
    Ok(found)
}

pub(crate) fn plan_row(row: &Row<'_>, file: &Path) -> SqliteResult<PlanRow> {
    let found = PlanRow { hash: BlobHash(row.get(0)?), dialect: row.get(1)?, body: row.get(3)? };
    check(row, 2, plan_checksum(&found), "plans", file)?;
    Ok(found)
}

pub(crate) fn blob_body(row: &Row<'_>, file: &Path) -> SqliteResult<Vec<u8>> {
    let (hash, body): (BlobHash, Vec<u8>) = (BlobHash(row.get(0)?), row.get(2)?);
    match row.get::<_, u32>(1)? == blob_checksum(&hash, &body) {
        true => Ok(body),
        false => Err(damaged(damaged_blob_message(&hash), file).into()),
    }
}

pub(crate) fn iteration_row(row: &Row<'_>, file: &Path) -> SqliteResult<IterationRow> {
    let run: i64 = row.get(0)?;
    let found = IterationRow {
        loop_path: row.get(1)?,
        first: row.get(2)?,
        last: row.get(3)?,
        outcome: iteration_outcome(row, 4, file)?,
        body: row.get(6)?,
    };
    check(row, 5, iteration_checksum(run, &found), "iterations", file)?;
    Ok(found)
}

pub(crate) fn iteration_outcome(row: &Row<'_>, column: usize, file: &Path) -> SqliteResult<IterationOutcome> {
    let number: u8 = row.get(column)?;
    let unknown = || damaged(format!("Table iterations has the unknown outcome {number}."), file);
    Ok(IterationOutcome::from_number(number).ok_or_else(unknown)?)
}

pub(crate) fn inbox_row(row: &Row<'_>, file: &Path) -> SqliteResult<InboxRow> {
    let found = InboxRow { run: row.get(0)?, request_id: row.get(1)?, at: Timestamp(row.get(2)?), body: row.get(4)? };
    check(row, 3, inbox_checksum(&found.run, &found.request_id, &found.body), "inbox", file)?;
    Ok(found)
}

pub(crate) fn open_wait(row: &Row<'_>, file: &Path) -> SqliteResult<OpenWait> {
    let run: i64 = row.get(0)?;
    let wait = WaitRow {
        name: row.get(3)?,
        path: row.get(4)?,
        since: Timestamp(row.get(5)?),
        deadline: row.get::<_, Option<i64>>(6)?.map(Timestamp),
        body: row.get(8)?,
    };
    check(row, 7, wait_checksum(run, &wait), "waits", file)?;
    Ok(OpenWait { position: row.get(9)?, run: row.get(1)?, definition: row.get(2)?, wait })
}

pub(crate) fn record_row(row: &Row<'_>, file: &Path) -> SqliteResult<RecordRow> {
    let found = RecordRow {
        kind: row.get(0)?,
        key: row.get(1)?,
        at: Timestamp(row.get(2)?),
        body: row.get(4)?,
        revision: row.get(5)?,
    };
    check(row, 3, record_checksum(&found), "records", file)?;
    Ok(found)
}

/// Checks a checksum. In every list of columns the checksum is followed by the body, and the body by the row number.
fn check(row: &Row<'_>, column: usize, expected: u32, table: &str, file: &Path) -> SqliteResult<()> {
    match row.get::<_, u32>(column)? == expected {
        true => Ok(()),
        false => Err(damaged_row(table, row.get::<_, i64>(column + 2)?, file).into()),
    }
}

pub(crate) fn options_checksum(id: &str, options: &[u8]) -> u32 {
    checksum(&[], &[id.as_bytes(), options])
}

pub(crate) fn result_checksum(id: &str, result: &[u8]) -> u32 {
    checksum(&[], &[id.as_bytes(), result])
}

/// Computes the checksum of a journal row. `numbers` are its first tick, ticks, first event and events.
pub(crate) fn journal_checksum(run: i64, numbers: [u64; 4], body: &[u8]) -> u32 {
    let [first_tick, ticks, first_event, events] = numbers;
    checksum(&[run.unsigned_abs(), first_tick, ticks, first_event, events], &[body])
}

pub(crate) fn snapshot_checksum(run: i64, tick: u64, event: u64, state_hash: &[u8; 32], body: &[u8]) -> u32 {
    checksum(&[run.unsigned_abs(), tick, event], &[state_hash, body])
}

pub(crate) fn plan_checksum(plan: &PlanRow) -> u32 {
    checksum(&[], &[&plan.hash.0, plan.dialect.as_bytes(), &plan.body])
}

pub(crate) fn blob_checksum(hash: &BlobHash, body: &[u8]) -> u32 {
    checksum(&[], &[&hash.0, body])
}

pub(crate) fn iteration_checksum(run: i64, row: &IterationRow) -> u32 {
    let numbers = [run.unsigned_abs(), row.first, row.last, row.outcome as u64];
    checksum(&numbers, &[row.loop_path.as_bytes(), &row.body])
}

pub(crate) fn inbox_checksum(run: &str, request_id: &str, body: &[u8]) -> u32 {
    checksum(&[], &[run.as_bytes(), request_id.as_bytes(), body])
}

pub(crate) fn wait_checksum(run: i64, row: &WaitRow) -> u32 {
    let deadline = row.deadline.map_or(0, |deadline| deadline.0.unsigned_abs());
    let numbers = [run.unsigned_abs(), row.since.0.unsigned_abs(), deadline];
    checksum(&numbers, &[row.name.as_bytes(), row.path.as_bytes(), &row.body])
}
