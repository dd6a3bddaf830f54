//! Decoding of columns into rows. Every row is checked against its checksum here and nowhere else.
//!
//! Each list of columns begins with those that the checksum is over, and the checksum follows them.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Row;
use windlass_store::backend::damaged_blob_message;
use windlass_store::{
    DamagedRow, InboxRow, IterationHeader, IterationOutcome, IterationRow, JournalRow, OpenWait, PlanRow, RecordRow,
    RunLabels, RunRow, RunStatus, SnapshotRow, StoreError, WaitRow,
};
use windlass_value::{BlobHash, Timestamp, Value};

use crate::error::{SqliteResult, damaged, damaged_row};
use crate::seal::{RowCheck, body_sum};
use crate::stored_run::{STORED_RUN_COLUMNS, StoredRun};

/// The number of ticks is the journal's position: its newest row always stays, even when older rows are trimmed. See
/// `ticks_as_read` for a row that is damaged.
///
/// Most runs have no labels: for them the aggregate, which was measured to be a fifth of the read, is not evaluated.
macro_rules! run_columns {
    () => {
        concat!(
            $crate::stored_run::stored_run_columns!(),
            ", options, result, ",
            $crate::rows::ticks!(),
            ", CASE WHEN EXISTS (SELECT 1 FROM run_labels WHERE run = runs.number)
                 THEN (SELECT json_group_object(name, value) FROM run_labels WHERE run = runs.number) END"
        )
    };
}
pub(crate) const RUN_COLUMNS: &str = run_columns!();

/// The columns that the checksum of a journal row is over.
macro_rules! journal_head {
    () => {
        "run, first_tick, ticks, first_event, events, body_checksum, written"
    };
}
pub(crate) use journal_head;

/// SQL expression for the number of ticks of a run, for `ticks_as_read`.
macro_rules! ticks {
    () => {
        concat!(
            "coalesce((SELECT windlass_ticks(",
            $crate::rows::journal_head!(),
            ", checksum) FROM journal WHERE run = runs.number ORDER BY first_tick DESC LIMIT 1), 0)"
        )
    };
}
pub(crate) use ticks;

pub(crate) const JOURNAL_COLUMNS: &str = concat!(journal_head!(), ", checksum, position, body");
pub(crate) const JOURNAL_HEAD_COLUMNS: &str = concat!(journal_head!(), ", checksum, position");
pub(crate) const SNAPSHOT_COLUMNS: &str = "run, tick, event, state_hash, body_checksum, checksum, rowid, body";
pub(crate) const SNAPSHOT_HEAD_COLUMNS: &str = "run, tick, event, state_hash, body_checksum, checksum, rowid";
pub(crate) const PLAN_COLUMNS: &str = "hash, dialect, body, checksum, rowid";
pub(crate) const BLOB_COLUMNS: &str = "hash, body, checksum, rowid";
pub(crate) const ITERATION_COLUMNS: &str = "run, loop_path, first, last, outcome, body_checksum, checksum, rowid, body";
pub(crate) const ITERATION_HEAD_COLUMNS: &str = "run, loop_path, first, last, outcome, body_checksum, checksum, rowid";
pub(crate) const INBOX_COLUMNS: &str = "run, request_id, at, consumed, written, body, checksum, position";
pub(crate) const WAIT_COLUMNS: &str =
    "waits.run, name, path, since, deadline, body, waits.checksum, position, runs.id, runs.definition";
pub(crate) const RECORD_COLUMNS: &str = "revision, kind, key, at, body, checksum, revision";

pub(crate) fn run_row(row: &Row<'_>, file: &Path) -> SqliteResult<RunRow> {
    let stored = StoredRun::decode(row, file)?;
    let next = STORED_RUN_COLUMNS;
    let (options, result): (Vec<u8>, Option<Vec<u8>>) = (row.get(next)?, row.get(next + 1)?);
    let sums = (body_sum(&options), result.as_deref().map(body_sum));
    if sums != (stored.options_checksum, stored.result_checksum) {
        return Err(stored.damaged("runs", file).into());
    }
    let ticks = ticks_as_read(row.get(next + 2)?);
    let labels = run_labels(row.get(next + 3)?).filter(|labels| labels_sum(labels) == stored.labels_checksum);
    Ok(RunRow {
        labels: labels.ok_or_else(|| stored.damaged("run_labels", file))?,
        number: stored.number,
        run: stored.id,
        execution_id: stored.execution_id,
        plan: BlobHash(stored.plan),
        definition: stored.definition,
        dialect: stored.dialect,
        status: stored.status,
        owner: stored.owner,
        owner_epoch: stored.owner_epoch,
        created_at: Timestamp(stored.created_at),
        changed_at: Timestamp(stored.changed_at),
        timer: stored.timer.map(Timestamp),
        parent: stored.parent,
        options,
        result,
        ticks,
        format: stored.format,
        previous_owner: stored.previous_owner,
    })
}

/// Returns the number of ticks. The damage of the newest row is reported to the reader of the journal, so that the run
/// is listed and can be quarantined.
pub(crate) fn ticks_as_read(ticks: i64) -> u64 {
    u64::try_from(ticks).unwrap_or_else(|_| (-1 - ticks).unsigned_abs())
}

/// Decodes the labels of a run, which a query returns as a JSON object of texts, or null for a run without labels.
fn run_labels(json: Option<String>) -> Option<RunLabels> {
    let Some(json) = json else { return Some(RunLabels::new()) };
    let parsed = windlass_value::parse_json(&json).ok()?;
    let text = |(name, value): (&Arc<str>, &Value)| Some((name.to_string(), value.as_str()?.to_owned()));
    Some(parsed.as_map().into_iter().flat_map(|map| map.iter()).filter_map(text).collect())
}

/// Computes the checksum of a run's labels.
pub(crate) fn labels_sum(labels: &RunLabels) -> u32 {
    let mut sum = windlass_store::backend::RowSum::default();
    for (name, value) in labels {
        sum.bytes(b't', name.as_bytes());
        sum.bytes(b't', value.as_bytes());
    }
    sum.finish()
}

/// The numbers of a journal row, which are verified without its body.
pub(crate) struct JournalHead {
    pub row: JournalRow,
    body_checksum: u32,
    pub written: u64,
}

pub(crate) fn journal_head_row(row: &Row<'_>, file: &Path) -> SqliteResult<JournalHead> {
    check(row, 7, "journal", file)?;
    let head = JournalRow {
        first_tick: row.get(1)?,
        ticks: row.get(2)?,
        first_event: row.get(3)?,
        events: row.get(4)?,
        body: Vec::new(),
    };
    Ok(JournalHead { row: head, body_checksum: row.get(5)?, written: row.get(6)? })
}

pub(crate) fn journal_row(row: &Row<'_>, file: &Path) -> SqliteResult<JournalRow> {
    let head = journal_head_row(row, file)?;
    let body: Vec<u8> = row.get(9)?;
    check_body(&body, head.body_checksum, "journal", row.get(8)?, file)?;
    Ok(JournalRow { body, ..head.row })
}

/// Decodes a snapshot without its body.
pub(crate) fn snapshot_head(row: &Row<'_>, file: &Path) -> SqliteResult<SnapshotRow> {
    check(row, 5, "snapshots", file)?;
    Ok(SnapshotRow { tick: row.get(1)?, event: row.get(2)?, state_hash: row.get(3)?, body: Vec::new() })
}

pub(crate) fn snapshot_row(row: &Row<'_>, file: &Path) -> SqliteResult<SnapshotRow> {
    let head = snapshot_head(row, file)?;
    let body: Vec<u8> = row.get(7)?;
    check_body(&body, row.get(4)?, "snapshots", row.get(6)?, file)?;
    Ok(SnapshotRow { body, ..head })
}

pub(crate) fn plan_row(row: &Row<'_>, file: &Path) -> SqliteResult<PlanRow> {
    check(row, 3, "plans", file)?;
    Ok(PlanRow { hash: BlobHash(row.get(0)?), dialect: row.get(1)?, body: row.get(2)? })
}

pub(crate) fn blob_body(row: &Row<'_>, file: &Path) -> SqliteResult<Vec<u8>> {
    match RowCheck::new(row, 2).is_sealed()? {
        true => Ok(row.get(1)?),
        false => {
            let hash = row.get(0).map_or_else(|_| "(unreadable)".to_owned(), |hash| BlobHash(hash).to_string());
            let what = DamagedRow { table: "blobs", row: row.get(3)?, key: Some(hash.clone()) };
            let message = row.get(0).map_or(hash, |hash| damaged_blob_message(&BlobHash(hash)));
            Err(damaged(message, file).with_damaged_row(what).into())
        }
    }
}

pub(crate) fn iteration_head(row: &Row<'_>, file: &Path) -> SqliteResult<IterationHeader> {
    check(row, 6, "iterations", file)?;
    let number: u8 = row.get(4)?;
    let unknown = || damaged(format!("Table iterations has the unknown outcome {number}."), file);
    let outcome = IterationOutcome::from_number(number).ok_or_else(unknown)?;
    Ok(IterationHeader { first: row.get(2)?, last: row.get(3)?, outcome })
}

pub(crate) fn iteration_row(row: &Row<'_>, file: &Path) -> SqliteResult<IterationRow> {
    let IterationHeader { first, last, outcome } = iteration_head(row, file)?;
    let body: Vec<u8> = row.get(8)?;
    check_body(&body, row.get(5)?, "iterations", row.get(7)?, file)?;
    Ok(IterationRow { loop_path: row.get(1)?, first, last, outcome, body })
}

/// A message with its mark.
pub(crate) struct StoredMessage {
    pub message: InboxRow,
    pub is_consumed: bool,
    pub written: u64,
}

pub(crate) fn stored_message(row: &Row<'_>, file: &Path) -> SqliteResult<StoredMessage> {
    check(row, 6, "inbox", file)?;
    let message = InboxRow { run: row.get(0)?, request_id: row.get(1)?, at: Timestamp(row.get(2)?), body: row.get(5)? };
    Ok(StoredMessage { message, is_consumed: row.get(3)?, written: row.get(4)? })
}

pub(crate) fn inbox_row(row: &Row<'_>, file: &Path) -> SqliteResult<InboxRow> {
    Ok(stored_message(row, file)?.message)
}

pub(crate) fn open_wait(row: &Row<'_>, file: &Path) -> SqliteResult<OpenWait> {
    check(row, 6, "waits", file)?;
    let wait = WaitRow {
        name: row.get(1)?,
        path: row.get(2)?,
        since: Timestamp(row.get(3)?),
        deadline: row.get::<_, Option<i64>>(4)?.map(Timestamp),
        body: row.get(5)?,
    };
    Ok(OpenWait { position: row.get(7)?, run: row.get(8)?, definition: row.get(9)?, wait })
}

pub(crate) fn record_row(row: &Row<'_>, file: &Path) -> SqliteResult<RecordRow> {
    if !RowCheck::new(row, 5).is_sealed()? {
        let text = |column| row.get::<_, String>(column).unwrap_or_default();
        let what = DamagedRow { table: "records", row: row.get(0)?, key: Some(format!("{}/{}", text(1), text(2))) };
        return Err(damaged_row(what, file).into());
    }
    Ok(RecordRow {
        revision: row.get(0)?,
        kind: row.get(1)?,
        key: row.get(2)?,
        at: Timestamp(row.get(3)?),
        body: row.get(4)?,
    })
}

/// Checks the checksum in a column against the columns before it. The row's number is in the column after it.
pub(crate) fn check(row: &Row<'_>, column: usize, table: &'static str, file: &Path) -> SqliteResult<()> {
    match RowCheck::new(row, column).is_sealed()? {
        true => Ok(()),
        false => {
            let what = DamagedRow { table, row: row.get(column + 1)?, key: None };
            Err(damaged_row(what, file).into())
        }
    }
}

fn check_body(body: &[u8], expected: u32, table: &'static str, row: i64, file: &Path) -> Result<(), StoreError> {
    match body_sum(body) == expected {
        true => Ok(()),
        false => Err(damaged_row(DamagedRow { table, row, key: None }, file)),
    }
}

/// Decodes the word of a status.
pub(crate) fn parse_status(word: &str, number: i64, file: &Path) -> Result<RunStatus, StoreError> {
    let unknown = || damaged(format!("Table runs, row {number} has the unknown status {word:?}."), file);
    RunStatus::parse(word).ok_or_else(unknown)
}
