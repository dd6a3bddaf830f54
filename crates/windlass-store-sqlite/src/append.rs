//! One run's part of a transaction: first every check that can refuse it, then the writes.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{OptionalExtension, Transaction, params};
use windlass_store::{
    BatchVerdict, InboxRow, IterationRow, IterationTrim, JournalRecord, JournalRow, NewRun, NewSnapshot, RUN_FORMAT,
    RunBatch, RunStatus, StatusChange, WaitRow,
};
use windlass_value::BlobHash;

use crate::error::SqliteResult;
use crate::logs::append_lines;
use crate::rows::{
    RELEASE, blob_checksum, inbox_checksum, iteration_checksum, journal_checksum, options_checksum, result_checksum,
    snapshot_checksum, wait_checksum,
};
use crate::trees::{self, TreeCheck};

pub(crate) fn append(transaction: &Transaction<'_>, batch: RunBatch) -> SqliteResult<BatchVerdict> {
    let (number, is_new) = match check_batch(transaction, &batch)? {
        BatchCheck::Refused(verdict) => return Ok(verdict),
        BatchCheck::Existing(number) => (number, false),
        BatchCheck::New(new, root) => {
            let number = create(transaction, &batch, new)?;
            // A run that ends in its first batch is never open.
            let opens = batch.status.as_ref().is_none_or(|change| !change.status.is_final());
            if let Some(root) = root.filter(|_| opens) {
                trees::enter(transaction, number, root)?;
            }
            (number, true)
        }
    };
    write(RunWriter { transaction, number, is_new }, batch)?;
    Ok(BatchVerdict::Committed)
}

enum BatchCheck<'b> {
    Refused(BatchVerdict),
    Existing(i64),
    /// With the root of its run tree, for a child run.
    New(&'b NewRun, Option<i64>),
}

/// Checks a batch against the tables, never against cached state: another process may have written in the meantime.
fn check_batch<'b>(transaction: &Transaction<'_>, batch: &'b RunBatch) -> SqliteResult<BatchCheck<'b>> {
    if !batch.is_sound() {
        return Ok(BatchCheck::Refused(BatchVerdict::Conflict));
    }
    let (check, head) = match (find(transaction, &batch.run)?, &batch.create) {
        (Some(_), Some(_)) | (None, None) => return Ok(BatchCheck::Refused(BatchVerdict::Conflict)),
        (Some((_, epoch)), None) if epoch != batch.owner_epoch => return Ok(BatchCheck::Refused(BatchVerdict::Fenced)),
        (Some((number, _)), None) => (BatchCheck::Existing(number), head(transaction, number)?),
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

fn find(transaction: &Transaction<'_>, run: &str) -> SqliteResult<Option<(i64, u64)>> {
    let mut select = transaction.prepare_cached("SELECT number, owner_epoch FROM runs WHERE id = ?1")?;
    Ok(select.query_row([run], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

fn head(transaction: &Transaction<'_>, number: i64) -> SqliteResult<u64> {
    let mut select = transaction
        .prepare_cached("SELECT first_tick + ticks FROM journal WHERE run = ?1 ORDER BY first_tick DESC LIMIT 1")?;
    Ok(select.query_row([number], |row| row.get(0)).optional()?.unwrap_or(0))
}

fn was_cancelled(transaction: &Transaction<'_>, run: &Arc<str>, new: &NewRun) -> SqliteResult<bool> {
    let Some(request_id) = &new.cancel_request_id else { return Ok(false) };
    let mut select = transaction.prepare_cached("SELECT 1 FROM inbox WHERE run = ?1 AND request_id = ?2")?;
    Ok(select.exists([run, request_id])?)
}

fn has_execution_id(transaction: &Transaction<'_>, execution_id: i64) -> SqliteResult<bool> {
    let mut select = transaction.prepare_cached("SELECT 1 FROM runs WHERE execution_id = ?1")?;
    Ok(select.exists([execution_id])?)
}

fn was_consumed(transaction: &Transaction<'_>, batch: &RunBatch) -> SqliteResult<bool> {
    for request_id in &batch.consumed {
        let mut select =
            transaction.prepare_cached("SELECT 1 FROM inbox WHERE run = ?1 AND request_id = ?2 AND consumed = 1")?;
        if select.exists([&batch.run, request_id])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Inserts the row of a new run with its initial status.
///
/// Most small runs end in the batch that creates them: writing the row only once updates each index only once.
fn create(transaction: &Transaction<'_>, batch: &RunBatch, new: &NewRun) -> SqliteResult<i64> {
    let mut insert = transaction.prepare_cached(
        "INSERT INTO runs (number, id, plan, definition, dialect, status, owner, owner_epoch, created_at, changed_at, parent,
                           options, options_checksum, result, result_checksum, format, execution_id)
         VALUES (1 + max(coalesce((SELECT max(number) FROM runs), 0), coalesce((SELECT max(number) FROM removed_runs), 0)),
                 ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?;
    let (run, change) = (&batch.run, batch.status.as_ref());
    let result = change.and_then(|change| change.result.as_ref());
    let number = insert.insert(params![
        run,
        new.plan.0,
        new.definition,
        new.dialect,
        change.map_or(RunStatus::Pending, |change| change.status).as_str(),
        new.owner,
        batch.owner_epoch,
        new.created_at.0,
        change.map_or(new.created_at, |change| change.at).0,
        new.parent,
        new.options,
        options_checksum(run, &new.options),
        result,
        result.map(|result| result_checksum(run, result)),
        RUN_FORMAT,
        new.execution_id,
    ])?;
    for (name, value) in &new.labels {
        let mut insert = transaction.prepare_cached("INSERT INTO run_labels (run, name, value) VALUES (?1, ?2, ?3)")?;
        insert.execute(params![number, name, value])?;
    }
    Ok(number)
}

/// Writes one run within a transaction.
#[derive(Clone, Copy)]
struct RunWriter<'t> {
    transaction: &'t Transaction<'t>,
    number: i64,
    /// The run's row was created in this transaction and already has its status.
    is_new: bool,
}

fn write(writer: RunWriter<'_>, batch: RunBatch) -> SqliteResult<()> {
    if let Some(record) = batch.record {
        writer.record(batch.expected_ticks, record)?;
    }
    if let Some(snapshot) = &batch.snapshot {
        writer.snapshot(snapshot)?;
    }
    writer.iterations(&batch.iterations, &batch.iteration_trims)?;
    if let Some(before) = batch.trim_before {
        writer.trim(before)?;
    }
    if batch.release {
        writer.release()?;
    }
    if batch.replied {
        trees::mark(writer.transaction, writer.number, trees::REPLIED)?;
    }
    writer.blobs(&batch.blobs)?;
    consume(writer.transaction, &batch.run, &batch.consumed)?;
    if let Some(timer) = batch.timer {
        let mut update = writer.transaction.prepare_cached("UPDATE runs SET timer = ?2 WHERE number = ?1")?;
        update.execute(params![writer.number, timer.map(|timer| timer.0)])?;
    }
    if let Some(waits) = &batch.waits {
        writer.waits(waits)?;
    }
    if let Some(change) = &batch.status {
        writer.status(&batch.run, change)?;
    }
    if let Some(logs) = &batch.logs {
        append_lines(writer.transaction, writer.number, &logs.lines, logs.max_run_bytes)?;
    }
    batch.send.iter().try_for_each(|message| send(writer.transaction, message))?;
    batch.cancellations.iter().try_for_each(|message| cancel(writer.transaction, message))
}

impl RunWriter<'_> {
    fn record(self, first_tick: u64, record: JournalRecord) -> SqliteResult<()> {
        let JournalRecord { ticks, first_event, events, body } = record;
        let row = JournalRow { first_tick, ticks, first_event, events, body };
        let mut insert = self.transaction.prepare_cached(
            "INSERT INTO journal (run, first_tick, ticks, first_event, events, checksum, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        let checksum = journal_checksum(self.number, &row);
        insert.execute(params![self.number, first_tick, ticks, first_event, events, checksum, row.body])?;
        Ok(())
    }

    fn snapshot(self, new: &NewSnapshot) -> SqliteResult<()> {
        let mut insert = self.transaction.prepare_cached(
            "INSERT OR REPLACE INTO snapshots (run, tick, event, state_hash, checksum, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        let checksum = snapshot_checksum(self.number, new.tick, new.event, &new.state_hash, &new.body);
        insert.execute(params![self.number, new.tick, new.event, new.state_hash, checksum, new.body])?;
        Ok(())
    }

    /// Stores blobs and records this run as a writer of each, even if another run has stored the blob before.
    fn blobs(self, blobs: &[(BlobHash, Vec<u8>)]) -> SqliteResult<()> {
        for (hash, body) in blobs {
            let mut insert = self
                .transaction
                .prepare_cached("INSERT OR IGNORE INTO blobs (hash, checksum, body) VALUES (?1, ?2, ?3)")?;
            insert.execute(params![hash.0, blob_checksum(hash, body), body])?;
            let mut insert =
                self.transaction.prepare_cached("INSERT OR IGNORE INTO blob_runs (hash, run) VALUES (?1, ?2)")?;
            insert.execute(params![hash.0, self.number])?;
        }
        Ok(())
    }

    fn iterations(self, iterations: &[IterationRow], trims: &[IterationTrim]) -> SqliteResult<()> {
        for iteration in iterations {
            let mut insert = self.transaction.prepare_cached(
                "INSERT OR REPLACE INTO iterations (run, loop_path, first, last, outcome, checksum, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            let checksum = iteration_checksum(self.number, iteration);
            let IterationRow { loop_path, first, last, outcome, body } = iteration;
            insert.execute(params![self.number, loop_path, first, last, *outcome as u8, checksum, body])?;
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
            let checksum = wait_checksum(self.number, wait);
            upsert.execute(params![self.number, name, path, since.0, deadline, checksum, body])?;
        }
        Ok(())
    }

    /// Trims the journal. Nothing is deleted without a snapshot to start from, and the newest row stays: it holds the
    /// journal's position.
    fn trim(self, before: u64) -> SqliteResult<()> {
        let mut newest = self.transaction.prepare_cached("SELECT max(tick) FROM snapshots WHERE run = ?1")?;
        let Some(newest) = newest.query_row([self.number], |row| row.get::<_, Option<u64>>(0))? else { return Ok(()) };
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

    fn release(self) -> SqliteResult<()> {
        let sql = format!("UPDATE runs SET {RELEASE}, owner = NULL WHERE number = ?1");
        let mut update = self.transaction.prepare_cached(&sql)?;
        update.execute([self.number])?;
        Ok(())
    }

    fn status(self, run: &Arc<str>, change: &StatusChange) -> SqliteResult<()> {
        if !self.is_new {
            let mut update = self.transaction.prepare_cached(
                "UPDATE runs SET status = ?2, changed_at = ?3, result = ?4, result_checksum = ?5 WHERE number = ?1",
            )?;
            let checksum = change.result.as_ref().map(|result| result_checksum(run, result));
            update.execute(params![self.number, change.status.as_str(), change.at.0, change.result, checksum])?;
        }
        if change.status.is_final() {
            self.end(run)?;
        }
        Ok(())
    }

    /// Clears the timer, the waits and the inbox of a run that has ended, and its place among the open runs of its tree.
    ///
    /// Messages may have arrived before the run was created; everything else of a new run came with its batch.
    fn end(self, run: &Arc<str>) -> SqliteResult<()> {
        let mut update =
            self.transaction.prepare_cached("UPDATE runs SET timer = NULL WHERE number = ?1 AND timer IS NOT NULL")?;
        update.execute([self.number])?;
        let mut delete = self.transaction.prepare_cached("DELETE FROM waits WHERE run = ?1")?;
        delete.execute([self.number])?;
        let mut update =
            self.transaction.prepare_cached("UPDATE inbox SET consumed = 1 WHERE run = ?1 AND consumed = 0")?;
        update.execute([run])?;
        trees::end(self.transaction, self.number)
    }
}

/// Marks requests as consumed. The row stays, without its body, so that the same request is recognised for ever.
///
/// A request that came without a message (from inside the owner's process) is recorded too.
pub(crate) fn consume(transaction: &Transaction<'_>, run: &Arc<str>, consumed: &[Arc<str>]) -> SqliteResult<()> {
    for request_id in consumed {
        let mut upsert = transaction.prepare_cached(
            "INSERT INTO inbox (run, request_id, at, consumed, checksum, body) VALUES (?1, ?2, 0, 1, ?3, x'')
             ON CONFLICT (run, request_id) DO UPDATE SET consumed = 1, checksum = excluded.checksum, body = x''",
        )?;
        upsert.execute(params![run, request_id, inbox_checksum(run, request_id, &[])])?;
    }
    Ok(())
}

/// Delivers a message. It waits for a run that does not exist yet and is dropped for a run that has ended.
fn send(transaction: &Transaction<'_>, message: &InboxRow) -> SqliteResult<()> {
    let mut select = transaction.prepare_cached("SELECT status FROM runs WHERE id = ?1")?;
    let status: Option<String> = select.query_row([&message.run], |row| row.get(0)).optional()?;
    let ended = status.and_then(|word| RunStatus::parse(&word)).is_some_and(RunStatus::is_final);
    if !ended {
        put_message(transaction, message)?;
    }
    Ok(())
}

/// Delivers a cancellation. For a run that does not exist yet only the request is recorded, as if it had been
/// consumed: there is no owner to wake.
fn cancel(transaction: &Transaction<'_>, message: &InboxRow) -> SqliteResult<()> {
    match find(transaction, &message.run)? {
        Some((number, _)) => {
            trees::mark(transaction, number, trees::CANCELLED_BY_CALLER)?;
            send(transaction, message)
        }
        None => consume(transaction, &message.run, std::slice::from_ref(&message.request_id)),
    }
}

/// Stores a message. Returns false if the request is already known.
pub(crate) fn put_message(transaction: &Transaction<'_>, message: &InboxRow) -> SqliteResult<bool> {
    let InboxRow { run, request_id, body, at } = message;
    let mut insert = transaction.prepare_cached(
        "INSERT OR IGNORE INTO inbox (run, request_id, at, consumed, checksum, body) VALUES (?1, ?2, ?3, 0, ?4, ?5)",
    )?;
    let kept = insert.execute(params![run, request_id, at.0, inbox_checksum(run, request_id, body), body])?;
    Ok(kept == 1)
}
