//! One run's part of a transaction: first every check that can refuse it, then the writes.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Row, params};
use windlass_store::{
    BatchVerdict, IterationRow, IterationTrim, JournalRecord, NewRun, NewSnapshot, RUN_FORMAT, RunBatch, RunStatus,
    StatusChange, WaitRow,
};
use windlass_value::BlobHash;

use crate::error::SqliteResult;
use crate::inbox::{cancel, consume, find_message, send};
use crate::logs::append_lines;
use crate::rows::{SNAPSHOT_HEAD_COLUMNS, journal_head, journal_head_row, labels_sum, snapshot_head};
use crate::seal::{body_sum, seal};
use crate::stored_run::{StoredRun, stored_run_columns};
use crate::transaction::WriteTransaction;
use crate::trees::{self, TreeCheck};

pub(crate) fn append(transaction: &WriteTransaction<'_>, batch: &RunBatch) -> SqliteResult<BatchVerdict> {
    let (run, is_new) = match check_batch(transaction, batch)? {
        BatchCheck::Refused(verdict) => return Ok(verdict),
        BatchCheck::Existing(run) => (*run, false),
        BatchCheck::New(new, root) => {
            let run = create(transaction, batch, new)?;
            // A run that ends in its first batch is never open.
            if let Some(root) = root.filter(|_| !batch.status.as_ref().is_some_and(is_end)) {
                trees::enter(transaction, run.number, root)?;
            }
            (run, true)
        }
    };
    write(RunWriter { transaction, number: run.number, is_new }, run, batch)?;
    Ok(BatchVerdict::Committed)
}

enum BatchCheck<'b> {
    Refused(BatchVerdict),
    Existing(Box<StoredRun>),
    /// With the root of its run tree, for a child run.
    New(&'b NewRun, Option<i64>),
}

/// Checks a batch against the tables, never against cached state: another process may have written in the meantime.
fn check_batch<'b>(transaction: &WriteTransaction<'_>, batch: &'b RunBatch) -> SqliteResult<BatchCheck<'b>> {
    if !batch.is_sound() {
        return Ok(BatchCheck::Refused(BatchVerdict::Conflict));
    }
    let (check, head) = match (StoredRun::find(transaction, &batch.run)?, &batch.create) {
        (Some(_), Some(_)) | (None, None) => return Ok(BatchCheck::Refused(BatchVerdict::Conflict)),
        (Some(run), None) if run.owner_epoch != batch.owner_epoch => {
            return Ok(BatchCheck::Refused(BatchVerdict::Fenced));
        }
        (Some(run), None) => {
            let head = match head(transaction, run.number) {
                // A status can be set all the same: that is how such a run is quarantined.
                Err(error) if batch.record.is_none() && batch.snapshot.is_none() && error.is_damaged_row() => {
                    batch.expected_ticks
                }
                head => head?,
            };
            (BatchCheck::Existing(Box::new(run)), head)
        }
        (None, Some(new)) if was_cancelled(transaction, &batch.run, new)? => {
            return Ok(BatchCheck::Refused(BatchVerdict::Conflict));
        }
        (None, Some(new)) if has_execution_id(transaction, new.execution_id)? => {
            return Ok(BatchCheck::Refused(BatchVerdict::ExecutionIdConflict));
        }
        (None, Some(new)) => match trees::check_tree(transaction, new)? {
            TreeCheck::Open(root) => (BatchCheck::New(new, root), 0),
            TreeCheck::Cancelled => return Ok(BatchCheck::Refused(BatchVerdict::Conflict)),
            TreeCheck::Full => return Ok(BatchCheck::Refused(BatchVerdict::TreeFull)),
            TreeCheck::Damaged => return Ok(BatchCheck::Refused(BatchVerdict::TreeDamaged)),
        },
    };
    if head != batch.expected_ticks || was_consumed(transaction, batch)? {
        return Ok(BatchCheck::Refused(BatchVerdict::Conflict));
    }
    Ok(check)
}

/// Returns the number of ticks in the journal of a run.
fn head(transaction: &WriteTransaction<'_>, number: i64) -> SqliteResult<u64> {
    let sql = concat!(
        "SELECT ",
        journal_head!(),
        ", checksum, position FROM journal WHERE run = ?1 ORDER BY first_tick DESC LIMIT 1"
    );
    let mut select = transaction.prepare_cached(sql)?;
    let newest =
        select.query_and_then([number], |row| journal_head_row(row, transaction.file()))?.next().transpose()?;
    Ok(newest.map_or(0, |newest| newest.row.first_tick + u64::from(newest.row.ticks)))
}

fn was_cancelled(transaction: &WriteTransaction<'_>, run: &Arc<str>, new: &NewRun) -> SqliteResult<bool> {
    let Some(request_id) = &new.cancel_request_id else { return Ok(false) };
    Ok(find_message(transaction, transaction.file(), run, request_id)?.is_some())
}

fn has_execution_id(transaction: &WriteTransaction<'_>, execution_id: i64) -> SqliteResult<bool> {
    let mut select = transaction.prepare_cached("SELECT 1 FROM runs WHERE execution_id = ?1")?;
    Ok(select.exists([execution_id])?)
}

fn was_consumed(transaction: &WriteTransaction<'_>, batch: &RunBatch) -> SqliteResult<bool> {
    for request_id in &batch.consumed {
        if find_message(transaction, transaction.file(), &batch.run, request_id)?.is_some_and(|row| row.is_consumed) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Inserts the row of a new run with its initial status.
///
/// Most small runs end in the batch that creates them: writing the row only once updates each index only once.
fn create(transaction: &WriteTransaction<'_>, batch: &RunBatch, new: &NewRun) -> SqliteResult<StoredRun> {
    let (change, number) = (batch.status.as_ref(), next_number(transaction)?);
    let result = change.and_then(|change| change.result.as_ref());
    let run = StoredRun {
        number,
        id: batch.run.clone(),
        execution_id: new.execution_id,
        plan: new.plan.0,
        definition: new.definition.clone(),
        dialect: new.dialect.clone(),
        format: RUN_FORMAT,
        status: change.map_or(RunStatus::Pending, |change| change.status),
        owner: new.owner.clone().filter(|_| !batch.release),
        owner_epoch: batch.owner_epoch,
        previous_owner: new.owner.clone().filter(|_| batch.release && batch.record.is_some()),
        claimed_ticks: 0,
        created_at: new.created_at.0,
        changed_at: change.map_or(new.created_at, |change| change.at).0,
        timer: batch.timer.flatten().filter(|_| !change.is_some_and(is_end)).map(|timer| timer.0),
        parent: new.parent.clone(),
        labels_checksum: labels_sum(&new.labels),
        options_checksum: body_sum(&new.options),
        result_checksum: result.map(|result| body_sum(result)),
        written: transaction.sequence(),
    };
    insert(transaction, &run, new, result)?;
    for (name, value) in &new.labels {
        let mut insert = transaction.prepare_cached("INSERT INTO run_labels (run, name, value) VALUES (?1, ?2, ?3)")?;
        insert.execute(params![number, name, value])?;
    }
    Ok(run)
}

fn is_end(change: &StatusChange) -> bool {
    change.status.is_final()
}

/// Returns the number of the next run. The number of a removed run is not reused while rows of it are left.
fn next_number(transaction: &WriteTransaction<'_>) -> SqliteResult<i64> {
    let mut select = transaction.prepare_cached(
        "SELECT 1 + max(coalesce((SELECT max(number) FROM runs), 0), coalesce((SELECT max(number) FROM removed_runs), 0))",
    )?;
    Ok(select.query_row([], |row| row.get(0))?)
}

fn insert(
    transaction: &WriteTransaction<'_>,
    run: &StoredRun,
    new: &NewRun,
    result: Option<&Vec<u8>>,
) -> SqliteResult<()> {
    let sql = concat!(
        "INSERT INTO runs (",
        stored_run_columns!(),
        ", options, result) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
                                    ?20, ?21, ?22, ?23)"
    );
    let checksum = run.checksum();
    transaction.note(checksum);
    transaction.prepare_cached(sql)?.execute(params![
        run.number,
        run.id,
        run.execution_id,
        run.plan,
        run.definition,
        run.dialect,
        run.format,
        run.status.as_str(),
        run.owner,
        run.owner_epoch,
        run.previous_owner,
        run.claimed_ticks,
        run.created_at,
        run.changed_at,
        run.timer,
        run.parent,
        run.labels_checksum,
        run.options_checksum,
        run.result_checksum,
        run.written,
        checksum,
        new.options,
        result,
    ])?;
    Ok(())
}

/// Writes one run within a transaction.
#[derive(Clone, Copy)]
struct RunWriter<'t> {
    transaction: &'t WriteTransaction<'t>,
    number: i64,
    /// The run's row was created in this transaction and already has its status.
    is_new: bool,
}

fn write(writer: RunWriter<'_>, run: StoredRun, batch: &RunBatch) -> SqliteResult<()> {
    if let Some(record) = &batch.record {
        writer.record(batch.expected_ticks, record)?;
    }
    if let Some(snapshot) = &batch.snapshot {
        writer.snapshot(snapshot)?;
    }
    writer.iterations(&batch.iterations, &batch.iteration_trims)?;
    if let Some(before) = batch.trim_before {
        writer.trim(before)?;
    }
    if batch.replied {
        trees::mark(writer.transaction, writer.number, trees::REPLIED)?;
    }
    writer.blobs(&batch.blobs)?;
    consume(writer.transaction, &batch.run, &batch.consumed)?;
    if let Some(waits) = &batch.waits {
        writer.waits(waits)?;
    }
    if !writer.is_new {
        writer.change(run, batch)?;
    }
    if batch.status.as_ref().is_some_and(is_end) {
        writer.end(&batch.run)?;
    }
    if let Some(logs) = &batch.logs {
        append_lines(writer.transaction, writer.number, &logs.lines, logs.max_run_bytes)?;
    }
    batch.send.iter().try_for_each(|message| send(writer.transaction, message))?;
    batch.cancellations.iter().try_for_each(|message| cancel(writer.transaction, message))
}

impl RunWriter<'_> {
    fn record(self, first_tick: u64, record: &JournalRecord) -> SqliteResult<()> {
        let JournalRecord { ticks, first_event, events, body } = record;
        let (sum, written) = (body_sum(body), self.transaction.sequence());
        let checksum = seal(&[&self.number, &first_tick, ticks, first_event, events, &sum, &written]);
        self.transaction.note(checksum);
        let mut insert = self.transaction.prepare_cached(
            "INSERT INTO journal (run, first_tick, ticks, first_event, events, body_checksum, written, checksum, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        insert.execute(params![self.number, first_tick, ticks, first_event, events, sum, written, checksum, body])?;
        Ok(())
    }

    fn snapshot(self, new: &NewSnapshot) -> SqliteResult<()> {
        let NewSnapshot { tick, event, state_hash, body } = new;
        let mut insert = self.transaction.prepare_cached(
            "INSERT OR REPLACE INTO snapshots (run, tick, event, state_hash, body_checksum, checksum, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        let sum = body_sum(body);
        let checksum = seal(&[&self.number, tick, event, &&state_hash[..], &sum]);
        insert.execute(params![self.number, tick, event, state_hash, sum, checksum, body])?;
        Ok(())
    }

    /// Stores blobs and records this run as a writer of each, even if another run has stored the blob before.
    fn blobs(self, blobs: &[(BlobHash, Vec<u8>)]) -> SqliteResult<()> {
        for (hash, body) in blobs {
            let mut insert = self
                .transaction
                .prepare_cached("INSERT OR IGNORE INTO blobs (hash, checksum, body) VALUES (?1, ?2, ?3)")?;
            insert.execute(params![hash.0, seal(&[&&hash.0[..], &&body[..]]), body])?;
            let mut insert =
                self.transaction.prepare_cached("INSERT OR IGNORE INTO blob_runs (hash, run) VALUES (?1, ?2)")?;
            insert.execute(params![hash.0, self.number])?;
        }
        Ok(())
    }

    fn iterations(self, iterations: &[IterationRow], trims: &[IterationTrim]) -> SqliteResult<()> {
        for iteration in iterations {
            let mut insert = self.transaction.prepare_cached(
                "INSERT OR REPLACE INTO iterations (run, loop_path, first, last, outcome, body_checksum, checksum, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?;
            let IterationRow { loop_path, first, last, outcome, body } = iteration;
            let (outcome, sum) = (*outcome as u8, body_sum(body));
            let checksum = seal(&[&self.number, &&**loop_path, first, last, &outcome, &sum]);
            insert.execute(params![self.number, loop_path, first, last, outcome, sum, checksum, body])?;
        }
        for trim in trims {
            let mut delete = self.transaction.prepare_cached(
                "DELETE FROM iterations
                 WHERE run = ?1 AND loop_path = ?2 AND first >= ?3 AND first < ?4 AND last < ?4 AND outcome = 0",
            )?;
            delete.execute(params![self.number, trim.loop_path, trim.keep_first, trim.before])?;
        }
        Ok(())
    }

    /// Replaces the run's waits. A wait that stays open keeps its position.
    fn waits(self, waits: &[WaitRow]) -> SqliteResult<()> {
        let mut select = self.transaction.prepare_cached("SELECT path FROM waits WHERE run = ?1")?;
        let known = select.query_map([self.number], |row| row.get(0))?.collect::<rusqlite::Result<Vec<Arc<str>>>>()?;
        let mut delete = self.transaction.prepare_cached("DELETE FROM waits WHERE run = ?1 AND path = ?2")?;
        let staying: HashSet<&Arc<str>> = waits.iter().map(|wait| &wait.path).collect();
        for path in known.iter().filter(|path| !staying.contains(path)) {
            delete.execute(params![self.number, path])?;
        }
        let mut upsert = self.transaction.prepare_cached(
            "INSERT INTO waits (run, name, path, since, deadline, checksum, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (run, path) DO UPDATE SET
                 name = excluded.name, since = excluded.since, deadline = excluded.deadline,
                 checksum = excluded.checksum, body = excluded.body",
        )?;
        for wait in waits {
            let WaitRow { name, path, body, since, deadline } = wait;
            let deadline = deadline.map(|deadline| deadline.0);
            let checksum = seal(&[&self.number, &&**name, &&**path, &since.0, &deadline, &&body[..]]);
            upsert.execute(params![self.number, name, path, since.0, deadline, checksum, body])?;
        }
        Ok(())
    }

    /// Trims the journal. Nothing is deleted without a snapshot to start from, and the newest row stays: it holds the
    /// journal's position.
    fn trim(self, before: u64) -> SqliteResult<()> {
        let Some(newest) = self.newest_snapshot()? else { return Ok(()) };
        let before = before.min(newest);
        let mut delete = self.transaction.prepare_cached(
            "DELETE FROM journal
             WHERE run = ?1 AND first_tick < ?2 AND first_tick + ticks <= ?2
                 AND first_tick < (SELECT max(first_tick) FROM journal WHERE run = ?1)",
        )?;
        delete.execute(params![self.number, before])?;
        let mut delete = self.transaction.prepare_cached("DELETE FROM snapshots WHERE run = ?1 AND tick < ?2")?;
        delete.execute(params![self.number, before])?;
        Ok(())
    }

    fn newest_snapshot(self) -> SqliteResult<Option<u64>> {
        let sql = format!("SELECT {SNAPSHOT_HEAD_COLUMNS} FROM snapshots WHERE run = ?1 ORDER BY tick DESC LIMIT 1");
        let mut select = self.transaction.prepare_cached(&sql)?;
        let decode = |row: &Row<'_>| snapshot_head(row, self.transaction.file());
        let newest = select.query_and_then([self.number], decode)?.next().transpose()?;
        Ok(newest.map(|newest| newest.tick))
    }

    /// Changes the columns of a run that exists: its owner, timer, status and result.
    fn change(self, before: StoredRun, batch: &RunBatch) -> SqliteResult<()> {
        let mut run = before.clone();
        if batch.release {
            run.release(self.transaction)?;
        }
        if let Some(timer) = batch.timer {
            run.timer = timer.map(|timer| timer.0);
        }
        if let Some(change) = &batch.status {
            (run.status, run.changed_at) = (change.status, change.at.0);
            run.timer = run.timer.filter(|_| !is_end(change));
        }
        run.save(self.transaction, &before, batch.status.as_ref().map(|change| &change.result))
    }

    /// Clears the waits and the inbox of a run that has ended, and its place among the open runs of its tree.
    ///
    /// Messages may have arrived before the run was created; everything else of a new run came with its batch.
    fn end(self, run: &Arc<str>) -> SqliteResult<()> {
        let mut delete = self.transaction.prepare_cached("DELETE FROM waits WHERE run = ?1")?;
        delete.execute([self.number])?;
        let mut select =
            self.transaction.prepare_cached("SELECT request_id FROM inbox WHERE run = ?1 AND consumed = 0")?;
        let left = select.query_map([run], |row| row.get(0))?.collect::<rusqlite::Result<Vec<Arc<str>>>>()?;
        consume(self.transaction, run, &left)?;
        trees::end(self.transaction, self.number)
    }
}
