//! Stores with one flaw each.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_store::{
    BatchRemoval, BatchVerdict, ClaimResult, DamagedRowId, EndedTree, InboxRow, InboxVerdict, IsolatedRow,
    IterationHeader, IterationRow, JournalRow, LogFilter, LogPage, MemoryStore, NewLogLine, OpenWait, Owner, PlanRow,
    RecordChange, RecordRow, RemovableTree, RunBatch, RunFilter, RunRow, SnapshotRow, StatusCount, StoreClean,
    StoreDamage, StoreError, StoreLogs, StoreOwners, StoreRead, StoreRecords, StoreScan, StoreSpace, StoreWrite,
    SweepResult, TreeRemoval,
};
use windlass_value::{BlobHash, Timestamp};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flaw {
    None,
    AppendsAnywhere,
    IgnoresEpochs,
    OneForAll,
    ForgetsTheLastWrite,
    SyncsTwice,
    StealsRuns,
    KeepsRuns,
    AcceptsRepeats,
    ForgetsRequests,
    ForgetsTreeMarks,
    CountsNoTree,
    RemovesOneByOne,
    NeverConsumes,
    SkipsPartialRows,
    IgnoresSnapshotTick,
    NeverTrims,
    NeverTrimsIterations,
    LatestTimerFirst,
    LosesEmptyBlobs,
    OldestRunFirst,
    IgnoresSearch,
    CountsAll,
    KeepsWaits,
    ChangesWhatItCan,
    ForgetsRevisions,
    ConstantMark,
    FindsNothing,
    RemovesAnything,
    NeverSweeps,
    LosesOtherBlobs,
    KeepsAllLines,
    HidesDamage,
    KeepsCircles,
}

type StoreResult<T> = Result<T, StoreError>;

pub(crate) struct FlawedStore {
    flaw: Flaw,
    pub inner: MemoryStore,
    pub before_last_write: Mutex<MemoryStore>,
    /// The blobs of remaining runs were lost together with those of a removed run.
    lost_all: AtomicBool,
}

impl FlawedStore {
    pub(crate) fn new(flaw: Flaw, inner: MemoryStore) -> FlawedStore {
        FlawedStore { flaw, before_last_write: Mutex::new(inner.crash()), lost_all: AtomicBool::new(false), inner }
    }

    fn remember(&self) {
        if self.flaw == Flaw::ForgetsTheLastWrite {
            *self.before_last_write.lock().unwrap_or_else(PoisonError::into_inner) = self.inner.crash();
        }
    }

    fn spoil(&self, batch: &mut RunBatch) {
        let run = self.inner.run(&batch.run).ok().flatten();
        match (self.flaw, run) {
            (Flaw::AppendsAnywhere, Some(run)) => batch.expected_ticks = run.ticks,
            (Flaw::IgnoresEpochs, Some(run)) => batch.owner_epoch = run.owner_epoch,
            (Flaw::NeverConsumes, _) => batch.consumed.clear(),
            (Flaw::NeverTrims, _) => batch.trim_before = None,
            (Flaw::KeepsWaits, _) => batch.waits = batch.waits.take().filter(|waits| !waits.is_empty()),
            (Flaw::NeverTrimsIterations, _) => batch.iteration_trims.clear(),
            (Flaw::CountsNoTree, _) => {
                batch.create.iter_mut().for_each(|create| create.max_tree_runs = u64::MAX);
            }
            _ => {}
        }
    }
}

impl StoreWrite for FlawedStore {
    fn append(&self, mut batches: Vec<RunBatch>) -> StoreResult<Vec<BatchVerdict>> {
        self.remember();
        batches.iter_mut().for_each(|batch| self.spoil(batch));
        let verdicts = self.inner.append(batches)?;
        let all_well = verdicts.iter().all(|verdict| *verdict == BatchVerdict::Committed);
        match self.flaw == Flaw::OneForAll && !all_well {
            true => Ok(vec![BatchVerdict::Conflict; verdicts.len()]),
            false => Ok(verdicts),
        }
    }

    fn put_plan(&self, plan: &PlanRow) -> StoreResult<()> {
        self.remember();
        self.inner.put_plan(plan)
    }

    fn claim(&self, run: &str, owner: &str) -> StoreResult<ClaimResult> {
        self.remember();
        if self.flaw == Flaw::StealsRuns
            && let Some(row) = self.inner.run(run)?
        {
            self.inner.release(run, row.owner_epoch)?;
        }
        self.inner.claim(run, owner)
    }

    fn claim_all(&self, runs: &[Arc<str>], owner: &str) -> StoreResult<Vec<ClaimResult>> {
        runs.iter().map(|run| self.claim(run, owner)).collect()
    }

    fn release(&self, run: &str, owner_epoch: u64) -> StoreResult<()> {
        self.remember();
        match self.flaw {
            Flaw::KeepsRuns => Ok(()),
            _ => self.inner.release(run, owner_epoch),
        }
    }

    fn inbox_put(&self, message: &InboxRow) -> StoreResult<InboxVerdict> {
        self.remember();
        match self.inner.inbox_put(message)? {
            InboxVerdict::Duplicate if self.flaw == Flaw::AcceptsRepeats => Ok(InboxVerdict::Accepted { owner: None }),
            verdict => Ok(verdict),
        }
    }

    fn cancel_tree(&self, message: &InboxRow) -> StoreResult<InboxVerdict> {
        self.remember();
        match self.flaw {
            Flaw::ForgetsTreeMarks => self.inner.inbox_put(message),
            _ => self.inner.cancel_tree(message),
        }
    }

    fn note_request(&self, run: &str, request_id: &str) -> StoreResult<()> {
        self.remember();
        match self.flaw {
            Flaw::ForgetsRequests => Ok(()),
            _ => self.inner.note_request(run, request_id),
        }
    }
}

impl StoreRead for FlawedStore {
    fn run(&self, run: &str) -> StoreResult<Option<RunRow>> {
        self.inner.run(run)
    }

    fn run_by_execution_id(&self, execution_id: i64) -> StoreResult<Option<RunRow>> {
        self.inner.run_by_execution_id(execution_id)
    }

    fn plan(&self, hash: &BlobHash) -> StoreResult<Option<PlanRow>> {
        self.inner.plan(hash)
    }

    fn blob(&self, hash: &BlobHash) -> StoreResult<Option<Vec<u8>>> {
        let blob = self.inner.blob(hash)?.filter(|_| !self.lost_all.load(Ordering::SeqCst));
        Ok(blob.filter(|body| self.flaw != Flaw::LosesEmptyBlobs || !body.is_empty()))
    }

    fn blob_of_run(&self, run: &str, hash: &BlobHash) -> StoreResult<Option<Vec<u8>>> {
        self.inner.blob_of_run(run, hash)
    }

    fn snapshot(&self, run: &str, max_tick: Option<u64>) -> StoreResult<Option<SnapshotRow>> {
        self.inner.snapshot(run, max_tick.filter(|_| self.flaw != Flaw::IgnoresSnapshotTick))
    }

    fn oldest_snapshot(&self, run: &str) -> StoreResult<Option<SnapshotRow>> {
        self.inner.oldest_snapshot(run)
    }

    fn journal(&self, run: &str, from: u64, limit: u32) -> StoreResult<Vec<JournalRow>> {
        let mut rows = self.inner.journal(run, from, limit)?;
        rows.retain(|row| self.flaw != Flaw::SkipsPartialRows || row.first_tick >= from);
        Ok(rows)
    }

    fn journal_by_event(&self, run: &str, from: u64, limit: u32) -> StoreResult<Vec<JournalRow>> {
        self.inner.journal_by_event(run, from, limit)
    }

    fn inbox(&self, run: &str, limit: u32) -> StoreResult<Vec<InboxRow>> {
        self.inner.inbox(run, limit)
    }

    fn is_cancelled_above(&self, run: &str) -> StoreResult<bool> {
        self.inner.is_cancelled_above(run)
    }

    fn knows_request(&self, run: &str, request_id: &str) -> StoreResult<bool> {
        self.inner.knows_request(run, request_id)
    }

    fn iterations(&self, run: &str, loop_path: &str, from: u64, limit: u32) -> StoreResult<Vec<IterationRow>> {
        self.inner.iterations(run, loop_path, from, limit)
    }

    fn iteration_headers(
        &self,
        run: &str,
        loop_path: &str,
        from: u64,
        only_failed: bool,
        limit: u32,
    ) -> StoreResult<Vec<IterationHeader>> {
        self.inner.iteration_headers(run, loop_path, from, only_failed, limit)
    }

    fn loops(&self, run: &str) -> StoreResult<Vec<String>> {
        self.inner.loops(run)
    }
}

impl StoreScan for FlawedStore {
    fn runs(&self, filter: &RunFilter, before: Option<i64>, limit: u32) -> StoreResult<Vec<RunRow>> {
        let search = filter.search.clone().filter(|_| self.flaw != Flaw::IgnoresSearch);
        let mut rows = self.inner.runs(&RunFilter { search, ..filter.clone() }, before, limit)?;
        if self.flaw == Flaw::OldestRunFirst {
            rows.reverse();
        }
        Ok(rows)
    }

    fn counts(&self, filter: &RunFilter, max_per_status: u32) -> StoreResult<Vec<StatusCount>> {
        let max_per_status = if self.flaw == Flaw::CountsAll { u32::MAX / 16 } else { max_per_status };
        self.inner.counts(filter, max_per_status)
    }

    fn due(&self, now: Timestamp, limit: u32) -> StoreResult<Vec<RunRow>> {
        let mut rows = self.inner.due(now, limit)?;
        if self.flaw == Flaw::LatestTimerFirst {
            rows.reverse();
        }
        Ok(rows)
    }

    fn next_due(&self) -> StoreResult<Option<Timestamp>> {
        self.inner.next_due()
    }

    fn with_inbox(&self, limit: u32) -> StoreResult<Vec<String>> {
        self.inner.with_inbox(limit)
    }

    fn waits(&self, run: Option<&str>, after: i64, limit: u32) -> StoreResult<Vec<OpenWait>> {
        self.inner.waits(run, after, limit)
    }

    fn change_mark(&self) -> StoreResult<u64> {
        Ok(if self.flaw == Flaw::ConstantMark { 7 } else { self.inner.change_mark()? })
    }

    fn verify(&self) -> StoreResult<Vec<String>> {
        Ok(if self.flaw == Flaw::FindsNothing { Vec::new() } else { self.inner.verify()? })
    }
}

impl StoreDamage for FlawedStore {
    fn damage(&self) -> StoreResult<Vec<IsolatedRow>> {
        Ok(if self.flaw == Flaw::HidesDamage { Vec::new() } else { self.inner.damage()? })
    }

    fn remove_damaged(&self, row: DamagedRowId) -> StoreResult<bool> {
        self.inner.remove_damaged(row)
    }
}

impl StoreClean for FlawedStore {
    fn removable(&self, before: Timestamp, after: i64, limit: u32) -> StoreResult<Vec<RemovableTree>> {
        let mut trees = self.inner.removable(before, after, limit)?;
        if self.flaw == Flaw::KeepsCircles {
            let has_parent = |tree: &RemovableTree| {
                let parent = self.inner.run(&tree.run).ok().flatten().and_then(|row| row.parent);
                parent.is_some_and(|parent| self.inner.run(&parent).is_ok_and(|row| row.is_some()))
            };
            trees.retain(|tree| !has_parent(tree));
        }
        Ok(trees)
    }

    fn remove_all(&self, runs: &[Arc<str>], before: Timestamp) -> StoreResult<BatchRemoval> {
        let Some(run) = runs.first() else { return Ok(BatchRemoval::default()) };
        match self.flaw {
            Flaw::RemovesOneByOne => {
                let removed = self.remove(run, before)?;
                Ok(BatchRemoval { runs: removed.runs, done: usize::from(!removed.more) })
            }
            _ => self.inner.remove_all(runs, before),
        }
    }

    fn ended_trees(&self, before: Option<i64>, limit: u32) -> StoreResult<Vec<EndedTree>> {
        self.inner.ended_trees(before, limit)
    }

    fn remove(&self, run: &str, before: Timestamp) -> StoreResult<TreeRemoval> {
        let before = if self.flaw == Flaw::RemovesAnything { Timestamp(i64::MAX) } else { before };
        self.inner.remove(run, before)
    }

    fn sweep(&self) -> StoreResult<SweepResult> {
        match self.flaw {
            Flaw::NeverSweeps => Ok(SweepResult::default()),
            Flaw::LosesOtherBlobs => {
                let swept = self.inner.sweep()?;
                self.lost_all.fetch_or(swept.blobs > 0, Ordering::SeqCst);
                Ok(swept)
            }
            _ => self.inner.sweep(),
        }
    }
}

impl StoreRecords for FlawedStore {
    fn record(&self, kind: &str, key: &str) -> StoreResult<Option<RecordRow>> {
        self.inner.record(kind, key)
    }

    fn records(&self, kind: &str, after_key: &str, limit: u32) -> StoreResult<Vec<RecordRow>> {
        self.inner.records(kind, after_key, limit)
    }

    fn record_keys(&self, kind: &str, after_key: &str, limit: u32) -> StoreResult<Vec<String>> {
        self.inner.record_keys(kind, after_key, limit)
    }

    fn change_records(&self, mut changes: Vec<RecordChange>) -> StoreResult<bool> {
        self.remember();
        match self.flaw {
            Flaw::ChangesWhatItCan => {
                let changed = changes.into_iter().map(|change| self.inner.change_records(vec![change]));
                Ok(changed.collect::<StoreResult<Vec<bool>>>()?.into_iter().all(|changed| changed))
            }
            Flaw::ForgetsRevisions => {
                changes.iter_mut().for_each(|change| change.expected_revision = None);
                self.inner.change_records(changes)
            }
            _ => self.inner.change_records(changes),
        }
    }
}

impl StoreSpace for FlawedStore {}

impl StoreOwners for FlawedStore {
    fn open_owner(&self) -> StoreResult<Owner> {
        self.inner.open_owner()
    }

    fn owner_alive(&self, owner: &str) -> StoreResult<bool> {
        self.inner.owner_alive(owner)
    }

    fn live_owners(&self) -> StoreResult<Vec<String>> {
        self.inner.live_owners()
    }

    fn last_heartbeat(&self, owner: &str) -> StoreResult<Option<Timestamp>> {
        self.inner.last_heartbeat(owner)
    }
}

impl StoreLogs for FlawedStore {
    fn append_logs(&self, lines: &[NewLogLine], max_run_bytes: u64) -> StoreResult<()> {
        let max_run_bytes = if self.flaw == Flaw::KeepsAllLines { u64::MAX } else { max_run_bytes };
        self.inner.append_logs(lines, max_run_bytes)
    }

    fn logs(&self, run: &str, filter: LogFilter<'_>, after: i64, limit: u32) -> StoreResult<LogPage> {
        self.inner.logs(run, filter, after, limit)
    }
}
