//! Stores with one flaw each.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_store::{
    BatchRemoval, Claim, InboxRow, InboxVerdict, IterationHeader, IterationRow, JournalRow, MemoryStore, OpenWait,
    Owner, PlanRow, RecordChange, RecordRow, RemovableTree, RunBatch, RunFilter, RunRow, SnapshotRow, StatusCount,
    StoreClean, StoreError, StoreOwners, StoreRead, StoreRecords, StoreScan, StoreWrite, Swept, TreeRemoval, Verdict,
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
}

type Outcome<T> = Result<T, StoreError>;

pub(crate) struct FlawedStore {
    flaw: Flaw,
    pub inner: MemoryStore,
    pub before_last_write: Mutex<MemoryStore>,
    /// The blobs of runs that stay went with those of one that was removed.
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
            (Flaw::AppendsAnywhere, Some(run)) => batch.expected = run.ticks,
            (Flaw::IgnoresEpochs, Some(run)) => batch.epoch = run.owner_epoch,
            (Flaw::NeverConsumes, _) => batch.consumed.clear(),
            (Flaw::NeverTrims, _) => batch.trim_before = None,
            (Flaw::KeepsWaits, _) => batch.waits = batch.waits.take().filter(|waits| !waits.is_empty()),
            (Flaw::NeverTrimsIterations, _) => batch.iteration_trims.clear(),
            _ => {}
        }
    }
}

impl StoreWrite for FlawedStore {
    fn append(&self, mut batches: Vec<RunBatch>) -> Outcome<Vec<Verdict>> {
        self.remember();
        batches.iter_mut().for_each(|batch| self.spoil(batch));
        let verdicts = self.inner.append(batches)?;
        let all_well = verdicts.iter().all(|verdict| *verdict == Verdict::Committed);
        match self.flaw == Flaw::OneForAll && !all_well {
            true => Ok(vec![Verdict::Conflict; verdicts.len()]),
            false => Ok(verdicts),
        }
    }

    fn put_plan(&self, plan: &PlanRow) -> Outcome<()> {
        self.remember();
        self.inner.put_plan(plan)
    }

    fn claim(&self, run: &str, owner: &str) -> Outcome<Claim> {
        self.remember();
        if let (Flaw::StealsRuns, Some(row)) = (self.flaw, self.inner.run(run)?) {
            self.inner.release(run, row.owner_epoch)?;
        }
        self.inner.claim(run, owner)
    }

    fn claim_all(&self, runs: &[Arc<str>], owner: &str) -> Outcome<Vec<Claim>> {
        runs.iter().map(|run| self.claim(run, owner)).collect()
    }

    fn release(&self, run: &str, owner_epoch: u64) -> Outcome<()> {
        self.remember();
        match self.flaw {
            Flaw::KeepsRuns => Ok(()),
            _ => self.inner.release(run, owner_epoch),
        }
    }

    fn inbox_put(&self, message: &InboxRow) -> Outcome<InboxVerdict> {
        self.remember();
        match self.inner.inbox_put(message)? {
            InboxVerdict::Duplicate if self.flaw == Flaw::AcceptsRepeats => Ok(InboxVerdict::Accepted { owner: None }),
            verdict => Ok(verdict),
        }
    }

    fn note_request(&self, run: &str, request_id: &str) -> Outcome<()> {
        self.remember();
        match self.flaw {
            Flaw::ForgetsRequests => Ok(()),
            _ => self.inner.note_request(run, request_id),
        }
    }
}

impl StoreRead for FlawedStore {
    fn run(&self, run: &str) -> Outcome<Option<RunRow>> {
        self.inner.run(run)
    }

    fn plan(&self, hash: &BlobHash) -> Outcome<Option<PlanRow>> {
        self.inner.plan(hash)
    }

    fn blob(&self, hash: &BlobHash) -> Outcome<Option<Vec<u8>>> {
        let blob = self.inner.blob(hash)?.filter(|_| !self.lost_all.load(Ordering::SeqCst));
        Ok(blob.filter(|body| self.flaw != Flaw::LosesEmptyBlobs || !body.is_empty()))
    }

    fn blob_of_run(&self, run: &str, hash: &BlobHash) -> Outcome<Option<Vec<u8>>> {
        self.inner.blob_of_run(run, hash)
    }

    fn snapshot(&self, run: &str, max_tick: Option<u64>) -> Outcome<Option<SnapshotRow>> {
        self.inner.snapshot(run, max_tick.filter(|_| self.flaw != Flaw::IgnoresSnapshotTick))
    }

    fn oldest_snapshot(&self, run: &str) -> Outcome<Option<SnapshotRow>> {
        self.inner.oldest_snapshot(run)
    }

    fn journal(&self, run: &str, from: u64, limit: u32) -> Outcome<Vec<JournalRow>> {
        let mut rows = self.inner.journal(run, from, limit)?;
        rows.retain(|row| self.flaw != Flaw::SkipsPartialRows || row.first_tick >= from);
        Ok(rows)
    }

    fn journal_by_event(&self, run: &str, from: u64, limit: u32) -> Outcome<Vec<JournalRow>> {
        self.inner.journal_by_event(run, from, limit)
    }

    fn inbox(&self, run: &str, limit: u32) -> Outcome<Vec<InboxRow>> {
        self.inner.inbox(run, limit)
    }

    fn knows_request(&self, run: &str, request_id: &str) -> Outcome<bool> {
        self.inner.knows_request(run, request_id)
    }

    fn iterations(&self, run: &str, loop_path: &str, from: u64, limit: u32) -> Outcome<Vec<IterationRow>> {
        self.inner.iterations(run, loop_path, from, limit)
    }

    fn iteration_headers(
        &self,
        run: &str,
        loop_path: &str,
        from: u64,
        only_failed: bool,
        limit: u32,
    ) -> Outcome<Vec<IterationHeader>> {
        self.inner.iteration_headers(run, loop_path, from, only_failed, limit)
    }

    fn loops(&self, run: &str) -> Outcome<Vec<String>> {
        self.inner.loops(run)
    }
}

impl StoreScan for FlawedStore {
    fn runs(&self, filter: &RunFilter, before: Option<i64>, limit: u32) -> Outcome<Vec<RunRow>> {
        let search = filter.search.clone().filter(|_| self.flaw != Flaw::IgnoresSearch);
        let mut rows = self.inner.runs(&RunFilter { search, ..filter.clone() }, before, limit)?;
        if self.flaw == Flaw::OldestRunFirst {
            rows.reverse();
        }
        Ok(rows)
    }

    fn counts(&self, filter: &RunFilter, max_per_status: u32) -> Outcome<Vec<StatusCount>> {
        let max_per_status = if self.flaw == Flaw::CountsAll { u32::MAX / 16 } else { max_per_status };
        self.inner.counts(filter, max_per_status)
    }

    fn due(&self, now: Timestamp, limit: u32) -> Outcome<Vec<RunRow>> {
        let mut rows = self.inner.due(now, limit)?;
        if self.flaw == Flaw::LatestTimerFirst {
            rows.reverse();
        }
        Ok(rows)
    }

    fn next_due(&self) -> Outcome<Option<Timestamp>> {
        self.inner.next_due()
    }

    fn with_inbox(&self, limit: u32) -> Outcome<Vec<String>> {
        self.inner.with_inbox(limit)
    }

    fn waits(&self, run: Option<&str>, after: i64, limit: u32) -> Outcome<Vec<OpenWait>> {
        self.inner.waits(run, after, limit)
    }

    fn change_mark(&self) -> Outcome<u64> {
        Ok(if self.flaw == Flaw::ConstantMark { 7 } else { self.inner.change_mark()? })
    }

    fn verify(&self) -> Outcome<Vec<String>> {
        Ok(if self.flaw == Flaw::FindsNothing { Vec::new() } else { self.inner.verify()? })
    }
}

impl StoreClean for FlawedStore {
    fn removable(&self, before: Timestamp, after: i64, limit: u32) -> Outcome<Vec<RemovableTree>> {
        self.inner.removable(before, after, limit)
    }

    fn remove_all(&self, runs: &[Arc<str>], before: Timestamp) -> Outcome<BatchRemoval> {
        let Some(run) = runs.first() else { return Ok(BatchRemoval::default()) };
        match self.flaw {
            Flaw::RemovesOneByOne => {
                let removed = self.remove(run, before)?;
                Ok(BatchRemoval { runs: removed.runs, done: usize::from(!removed.more) })
            }
            _ => self.inner.remove_all(runs, before),
        }
    }

    fn remove(&self, run: &str, before: Timestamp) -> Outcome<TreeRemoval> {
        let before = if self.flaw == Flaw::RemovesAnything { Timestamp(i64::MAX) } else { before };
        self.inner.remove(run, before)
    }

    fn sweep(&self) -> Outcome<Swept> {
        match self.flaw {
            Flaw::NeverSweeps => Ok(Swept::default()),
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
    fn record(&self, kind: &str, key: &str) -> Outcome<Option<RecordRow>> {
        self.inner.record(kind, key)
    }

    fn records(&self, kind: &str, after_key: &str, limit: u32) -> Outcome<Vec<RecordRow>> {
        self.inner.records(kind, after_key, limit)
    }

    fn change_records(&self, mut changes: Vec<RecordChange>) -> Outcome<bool> {
        self.remember();
        match self.flaw {
            Flaw::ChangesWhatItCan => {
                let changed = changes.into_iter().map(|change| self.inner.change_records(vec![change]));
                Ok(changed.collect::<Outcome<Vec<bool>>>()?.into_iter().all(|changed| changed))
            }
            Flaw::ForgetsRevisions => {
                changes.iter_mut().for_each(|change| change.expected = None);
                self.inner.change_records(changes)
            }
            _ => self.inner.change_records(changes),
        }
    }
}

impl StoreOwners for FlawedStore {
    fn open_owner(&self) -> Outcome<Owner> {
        self.inner.open_owner()
    }

    fn owner_alive(&self, owner: &str) -> Outcome<bool> {
        self.inner.owner_alive(owner)
    }
}
