//! The content of the modelled disk and the changes each write makes to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use windlass_value::{BlobHash, Timestamp};

use super::checksummed::{BlobRow, Checksummed};
use super::logs::RunLogs;
use super::trees::{TreeMarks, TreePlace};
use crate::RUN_FORMAT;
use crate::{
    BatchVerdict, InboxRow, IterationOutcome, IterationRow, IterationTrim, JournalRecord, JournalRow, NewRun,
    NewSnapshot, PlanRow, RecordRow, RunBatch, RunRow, RunStatus, SnapshotRow, StatusChange, WaitRow,
};

#[derive(Clone, Default)]
pub(super) struct DiskImage {
    pub runs: BTreeMap<i64, StoredRunImage>,
    pub numbers: HashMap<Arc<str>, i64>,
    /// The number of each run by its execution id.
    pub execution_ids: HashMap<i64, i64>,
    /// The number of runs to come whose execution id another process seems to have drawn.
    pub execution_id_conflicts: u64,
    pub plans: HashMap<BlobHash, PlanRow>,
    pub blobs: HashMap<BlobHash, Checksummed<BlobRow>>,
    /// The runs that have written each blob.
    pub blob_runs: HashMap<BlobHash, BTreeSet<i64>>,
    /// Removed runs, with the data that still has to be freed.
    pub removed_runs: BTreeMap<i64, StoredRunImage>,
    /// Every request id a run was ever sent, and the position of its message while it is unconsumed.
    pub requests: HashMap<Arc<str>, HashMap<Arc<str>, Option<u64>>>,
    /// Unconsumed messages by position, which is the order of arrival.
    pub unconsumed: BTreeMap<u64, InboxRow>,
    /// The positions in `unconsumed` of each run.
    pub unconsumed_by_run: HashMap<Arc<str>, BTreeSet<u64>>,
    pub timers: BTreeSet<(Timestamp, i64)>,
    /// Open waits by position, with the run's number.
    pub waits: BTreeMap<i64, (i64, WaitRow)>,
    /// The places of runs in their run trees, by number.
    pub tree_places: BTreeMap<i64, TreePlace>,
    /// By kind and key.
    pub records: BTreeMap<(String, String), Checksummed<RecordRow>>,
    pub last_revision: u64,
    /// The position of the newest log line.
    pub last_log_position: i64,
    next_position: u64,
}

#[derive(Clone)]
pub(super) struct StoredRunImage {
    pub row: RunRow,
    /// The number of ticks at the last claim.
    pub claimed_ticks: u64,
    pub journal: BTreeMap<u64, Checksummed<JournalRow>>,
    pub snapshots: BTreeMap<u64, Checksummed<SnapshotRow>>,
    pub iterations: BTreeMap<Arc<str>, BTreeMap<u64, IterationRow>>,
    pub logs: RunLogs,
    /// The row is damaged.
    pub damaged: bool,
}

impl DiskImage {
    pub(crate) fn run(&self, run: &str) -> Option<&StoredRunImage> {
        self.runs.get(self.numbers.get(run)?)
    }

    pub(crate) fn run_mut(&mut self, run: &str) -> Option<&mut StoredRunImage> {
        self.runs.get_mut(self.numbers.get(run)?)
    }

    pub(crate) fn apply(&mut self, batch: RunBatch) -> BatchVerdict {
        let verdict = self.verdict_for(&batch);
        if verdict != BatchVerdict::Committed {
            return verdict;
        }
        if batch.create.is_some() && self.execution_id_conflicts > 0 {
            self.execution_id_conflicts -= 1;
            return BatchVerdict::ExecutionIdConflict;
        }
        self.write(batch);
        verdict
    }

    /// Evaluates every condition that can refuse a batch before anything is written.
    fn verdict_for(&self, batch: &RunBatch) -> BatchVerdict {
        if !batch.is_sound() {
            return BatchVerdict::Conflict;
        }
        let head = match (self.run(&batch.run), &batch.create) {
            (Some(_), Some(_)) | (None, None) => return BatchVerdict::Conflict,
            (Some(run), None) if run.damaged => return BatchVerdict::Damaged,
            (None, Some(new)) if self.was_cancelled(&batch.run, new) => return BatchVerdict::Conflict,
            (None, Some(new)) if self.execution_ids.contains_key(&new.execution_id) => {
                return BatchVerdict::ExecutionIdConflict;
            }
            (None, Some(new)) if self.is_cancelled_from(new.parent.as_ref()) => return BatchVerdict::Conflict,
            (None, Some(new)) if self.is_tree_full(new) => return BatchVerdict::TreeFull,
            (None, Some(_)) => 0,
            (Some(run), None) if run.row.owner_epoch != batch.owner_epoch => return BatchVerdict::Fenced,
            (Some(run), None) => run.row.ticks,
        };
        let requests = self.requests.get(&batch.run);
        let consumed_before =
            |id: &Arc<str>| requests.and_then(|known| known.get(id)).is_some_and(|unread| unread.is_none());
        if head != batch.expected_ticks || batch.consumed.iter().any(consumed_before) {
            return BatchVerdict::Conflict;
        }
        BatchVerdict::Committed
    }

    fn write(&mut self, batch: RunBatch) {
        let run_id = batch.run.clone();
        if let Some(new) = batch.create {
            // A run that ends in its first batch is never open.
            let opens = batch.status.as_ref().is_none_or(|change| !change.status.is_final());
            let root = self.root_above(&new).filter(|_| opens);
            let number = self.create(&run_id, batch.owner_epoch, new);
            self.enter_tree(number, root);
        }
        let Some(run) = self.numbers.get(&run_id).and_then(|number| self.runs.get_mut(number)) else { return };
        if let Some(record) = batch.record {
            run.append(record);
        }
        if let Some(snapshot) = batch.snapshot {
            run.snapshots.insert(snapshot.tick, Checksummed::new(snapshot_row(snapshot)));
        }
        run.store_iterations(batch.iterations, &batch.iteration_trims);
        if let Some(before) = batch.trim_before {
            run.trim(before);
        }
        if batch.release {
            run.release();
        }
        let number = run.row.number;
        if batch.replied {
            self.mark(number, TreeMarks { replied: true, ..TreeMarks::default() });
        }
        if let Some(waits) = batch.waits {
            self.set_waits(number, waits);
        }
        for (hash, body) in batch.blobs {
            self.blobs.entry(hash).or_insert_with(|| Checksummed::new(BlobRow { hash, body }));
            self.blob_runs.entry(hash).or_default().insert(number);
        }
        for request_id in &batch.consumed {
            self.consume(&run_id, request_id);
        }
        if let Some(logs) = &batch.logs {
            self.append_logs(&logs.lines, logs.max_run_bytes);
        }
        if let Some(timer) = batch.timer {
            self.set_timer(&run_id, timer);
        }
        if let Some(change) = batch.status {
            self.set_status(&run_id, change);
        }
        for message in batch.send {
            self.send(message);
        }
        for message in batch.cancellations {
            self.cancel(message);
        }
    }

    fn was_cancelled(&self, run: &Arc<str>, new: &NewRun) -> bool {
        let known = self.requests.get(run);
        new.cancel_request_id.as_ref().is_some_and(|request| known.is_some_and(|known| known.contains_key(request)))
    }

    fn create(&mut self, run: &Arc<str>, owner_epoch: u64, new: NewRun) -> i64 {
        let newest = [self.runs.last_key_value(), self.removed_runs.last_key_value()];
        let number = newest.into_iter().flatten().map(|(last, _)| last + 1).max().unwrap_or(1);
        let row = RunRow {
            format: RUN_FORMAT,
            number,
            run: run.clone(),
            execution_id: new.execution_id,
            plan: new.plan,
            definition: new.definition,
            dialect: new.dialect,
            status: RunStatus::Pending,
            owner: new.owner,
            owner_epoch,
            previous_owner: None,
            created_at: new.created_at,
            changed_at: new.created_at,
            timer: None,
            parent: new.parent,
            options: new.options,
            result: None,
            ticks: 0,
            labels: new.labels,
        };
        self.numbers.insert(run.clone(), number);
        self.execution_ids.insert(new.execution_id, number);
        let journal = BTreeMap::new();
        let run = StoredRunImage {
            row,
            claimed_ticks: 0,
            journal,
            snapshots: BTreeMap::new(),
            iterations: BTreeMap::new(),
            logs: RunLogs::default(),
            damaged: false,
        };
        self.runs.insert(number, run);
        number
    }

    fn set_timer(&mut self, run: &str, timer: Option<Timestamp>) {
        let Some(run) = self.numbers.get(run).and_then(|number| self.runs.get_mut(number)) else { return };
        if let Some(old) = run.row.timer {
            self.timers.remove(&(old, run.row.number));
        }
        if let Some(new) = timer {
            self.timers.insert((new, run.row.number));
        }
        run.row.timer = timer;
    }

    fn set_status(&mut self, run_id: &Arc<str>, change: StatusChange) {
        let Some(run) = self.run_mut(run_id) else { return };
        run.row.status = change.status;
        run.row.changed_at = change.at;
        run.row.result = change.result;
        if change.status.is_final() {
            let number = run.row.number;
            self.set_waits(number, Vec::new());
            self.set_timer(run_id, None);
            self.close_inbox(run_id);
            self.end_in_tree(number);
        }
    }

    /// Replaces a run's waits. A wait that stays open keeps its position.
    pub(crate) fn set_waits(&mut self, number: i64, waits: Vec<WaitRow>) {
        self.waits.retain(|_, (run, wait)| *run != number || waits.iter().any(|stays| stays.path == wait.path));
        for wait in waits {
            match self.waits.values_mut().find(|(run, known)| *run == number && known.path == wait.path) {
                Some((_, known)) => *known = wait,
                None => {
                    let position = self.waits.last_key_value().map_or(1, |(last, _)| last + 1);
                    self.waits.insert(position, (number, wait));
                }
            }
        }
    }

    fn close_inbox(&mut self, run: &Arc<str>) {
        for position in self.unconsumed_by_run.remove(run).unwrap_or_default() {
            if let Some(message) = self.unconsumed.remove(&position) {
                self.requests.entry(run.clone()).or_default().insert(message.request_id, None);
            }
        }
    }

    /// Marks a request as consumed. A request that came without a message (from inside the owner's process) is recorded
    /// too.
    pub(crate) fn consume(&mut self, run: &Arc<str>, request_id: &Arc<str>) {
        let before = self.requests.entry(run.clone()).or_default().insert(request_id.clone(), None);
        if let Some(Some(position)) = before {
            self.unconsumed.remove(&position);
            if let Some(positions) = self.unconsumed_by_run.get_mut(run) {
                positions.remove(&position);
            }
        }
    }

    /// Delivers a message. It waits for a run that does not exist yet and is dropped for a run that has ended.
    fn send(&mut self, message: InboxRow) {
        let ended = self.run(&message.run).is_some_and(|run| run.row.status.is_final());
        if !ended && !self.is_known_request(&message.run, &message.request_id) {
            self.enqueue_message(message);
        }
    }

    /// Delivers a cancellation. For a run that does not exist yet only the request is recorded, as if it had been
    /// consumed.
    fn cancel(&mut self, message: InboxRow) {
        match self.run(&message.run).map(|run| run.row.number) {
            Some(number) => {
                self.mark(number, TreeMarks { cancelled_by_caller: true, ..TreeMarks::default() });
                self.send(message);
            }
            None => self.consume(&message.run, &message.request_id),
        }
    }

    pub(crate) fn is_known_request(&self, run: &str, request_id: &str) -> bool {
        self.requests.get(run).is_some_and(|known| known.contains_key(request_id))
    }

    pub(crate) fn enqueue_message(&mut self, message: InboxRow) {
        self.next_position += 1;
        let position = self.next_position;
        self.requests.entry(message.run.clone()).or_default().insert(message.request_id.clone(), Some(position));
        self.unconsumed_by_run.entry(message.run.clone()).or_default().insert(position);
        self.unconsumed.insert(position, message);
    }
}

impl StoredRunImage {
    /// Ends the ownership. An owner that has written nothing leaves the previous owner as it is.
    pub(super) fn release(&mut self) {
        if let Some(owner) = self.row.owner.take().filter(|_| self.row.ticks > self.claimed_ticks) {
            self.row.previous_owner = Some(owner);
        }
    }

    pub(super) fn claim(&mut self, owner: &str) -> u64 {
        self.release();
        self.row.owner = Some(owner.to_owned());
        self.row.owner_epoch += 1;
        self.claimed_ticks = self.row.ticks;
        self.row.owner_epoch
    }

    fn append(&mut self, record: JournalRecord) {
        let JournalRecord { ticks, first_event, events, body } = record;
        let first_tick = self.row.ticks;
        self.journal.insert(first_tick, Checksummed::new(JournalRow { first_tick, ticks, first_event, events, body }));
        self.row.ticks += u64::from(ticks);
    }

    fn store_iterations(&mut self, iterations: Vec<IterationRow>, trims: &[IterationTrim]) {
        for iteration in iterations {
            self.iterations.entry(iteration.loop_path.clone()).or_default().insert(iteration.first, iteration);
        }
        for trim in trims {
            if let Some(rows) = self.iterations.get_mut(&trim.loop_path) {
                rows.retain(|_, row| {
                    let stays = row.first < trim.keep_first || row.last >= trim.before;
                    stays || row.outcome != IterationOutcome::Succeeded
                });
            }
        }
        self.iterations.retain(|_, rows| !rows.is_empty());
    }

    /// Trims the journal. Nothing is deleted without a snapshot to start from, and the newest row stays: it holds the
    /// journal's position.
    fn trim(&mut self, before: u64) {
        let Some(newest_snapshot) = self.snapshots.last_key_value().map(|(tick, _)| *tick) else { return };
        let before = before.min(newest_snapshot);
        let newest = self.journal.last_key_value().map(|(tick, _)| *tick);
        self.journal.retain(|tick, row| Some(*tick) == newest || tick + u64::from(row.row.ticks) > before);
        self.snapshots.retain(|tick, _| *tick >= before);
    }
}

fn snapshot_row(new: NewSnapshot) -> SnapshotRow {
    SnapshotRow { tick: new.tick, event: new.event, state_hash: new.state_hash, body: new.body }
}
