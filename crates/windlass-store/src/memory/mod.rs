//! An in-memory store that models a disk: a write is durable once it is synced, and a crash discards the rest.
//!
//! Every write call is staged, synced and only then visible. So a crash before the sync loses exactly that call,
//! and a crash after the sync keeps the call although its caller got no answer. These are the two outcomes of every
//! real crash.

mod checksummed;
mod clean;
mod damage;
mod image;
mod logs;
mod read;
mod records;
mod trees;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_value::{BlobHash, Timestamp};

use crate::{
    BatchVerdict, ClaimResult, InboxRow, InboxVerdict, Owner, OwnerGuard, PlanRow, RunBatch, StoreError,
    StoreErrorKind, StoreOwners, StoreSpace, StoreWrite,
};
use image::DiskImage;
use trees::TreeMarks;

/// The fault that the next write encounters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The disk is full: nothing is written, and the store stays usable.
    Full,
    /// Another process holds the write lock too long: nothing is written, and the store stays usable.
    Busy,
    /// The write itself fails; the store stops.
    WriteFailed,
    /// The sync fails, so the content of the disk is unknown; the store stops.
    SyncFailed,
}

/// The point within a write call at which a planned crash happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CrashPoint {
    BeforeSync,
    AfterSync,
}

/// A store in memory, for tests and for engines that keep nothing on disk.
#[derive(Default)]
pub struct MemoryStore {
    disk: Mutex<Disk>,
    owners: Arc<Mutex<HashSet<String>>>,
    heartbeats: Arc<Mutex<BTreeMap<String, Timestamp>>>,
}

#[derive(Default)]
struct Disk {
    image: DiskImage,
    syncs: u64,
    faults: VecDeque<Fault>,
    /// The number of write calls until the fault.
    scheduled_fault: Option<(u64, Fault)>,
    /// The number of write calls until the crash, and the point within that call.
    crash: Option<(u64, CrashPoint)>,
    stopped: Option<StoreError>,
}

impl MemoryStore {
    /// Creates an empty store without faults.
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Returns the number of completed syncs.
    pub fn syncs(&self) -> u64 {
        self.disk().syncs
    }

    /// Simulates a machine crash and restart: returns a store with everything that was synced, and no live owner.
    pub fn crash(&self) -> MemoryStore {
        let disk = Disk { image: self.disk().image.clone(), ..Disk::default() };
        MemoryStore { disk: Mutex::new(disk), owners: Arc::default(), heartbeats: Arc::default() }
    }

    /// Simulates that all processes are killed: returns a store with everything that was synced and the heartbeats, which
    /// only the death of the machine would lose. No owner is alive.
    pub fn kill(&self) -> MemoryStore {
        let heartbeats = self.heartbeats.lock().unwrap_or_else(PoisonError::into_inner).clone();
        MemoryStore { heartbeats: Arc::new(Mutex::new(heartbeats)), ..self.crash() }
    }

    /// Makes the next write call fail with this fault. Several calls queue up, one fault for each write.
    pub fn fail_next(&self, fault: Fault) {
        self.disk().faults.push_back(fault);
    }

    /// Refuses the next `n` new runs as if another process had drawn the same execution ids.
    pub fn repeat_execution_ids(&self, n: u64) {
        self.disk().image.execution_id_conflicts = n;
    }

    /// Makes the n-th write call from now (1 is the next) fail with this fault.
    pub fn fail_nth(&self, n: u64, fault: Fault) {
        self.disk().scheduled_fault = Some((n, fault));
    }

    /// Crashes in the n-th write call from now (1 is the next), before its sync: the write is lost, and the store
    /// stops.
    pub fn crash_before_sync(&self, n: u64) {
        self.disk().crash = Some((n, CrashPoint::BeforeSync));
    }

    /// Crashes in the n-th write call from now (1 is the next), after its sync: its caller gets no answer, the store
    /// stops.
    pub fn crash_after_sync(&self, n: u64) {
        self.disk().crash = Some((n, CrashPoint::AfterSync));
    }

    /// Flips a bit in the journal row that holds this tick. Returns false if there is none.
    pub fn damage_journal(&self, run: &str, tick: u64) -> bool {
        let mut disk = self.disk();
        let row = disk.image.run_mut(run).and_then(|run| run.journal.range_mut(..=tick).next_back());
        row.map(|(_, row)| row.damage()).is_some()
    }

    /// Flips a bit in a blob. Returns false if there is none.
    pub fn damage_blob(&self, hash: &BlobHash) -> bool {
        self.disk().image.blobs.get_mut(hash).map(|blob| blob.damage()).is_some()
    }

    /// Flips a bit in a record. Returns false if there is none.
    pub fn damage_record(&self, kind: &str, key: &str) -> bool {
        let mut disk = self.disk();
        let record = disk.image.records.get_mut(&(kind.to_owned(), key.to_owned()));
        record.map(|record| record.damage()).is_some()
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<T>(&self, change: impl FnOnce(&mut DiskImage) -> T) -> Result<T, StoreError> {
        self.disk().write(change)
    }

    fn claim_in(&self, image: &mut DiskImage, run: &str, owner: &str) -> ClaimResult {
        let Some(run) = image.run_mut(run) else { return ClaimResult::NoSuchRun };
        if run.damaged {
            return ClaimResult::Damaged { reason: run.damage_reason() };
        }
        if run.row.status.is_final() {
            return ClaimResult::Ended;
        }
        match &run.row.owner {
            Some(holder) if holder != owner && self.is_alive(holder) => ClaimResult::HeldBy(holder.clone()),
            _ => ClaimResult::Owned { owner_epoch: run.claim(owner) },
        }
    }

    fn put_in(&self, image: &mut DiskImage, message: &InboxRow) -> Result<InboxVerdict, StoreError> {
        if image.is_known_request(&message.run, &message.request_id) {
            return Ok(InboxVerdict::Duplicate);
        }
        let Some(run) = image.run(&message.run) else { return Ok(InboxVerdict::NoSuchRun) };
        if run.check()?.row.status.is_final() {
            return Ok(InboxVerdict::Ended);
        }
        let owner = run.row.owner.clone().filter(|owner| self.is_alive(owner));
        image.enqueue_message(message.clone());
        Ok(InboxVerdict::Accepted { owner })
    }

    fn is_alive(&self, owner: &str) -> bool {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).contains(owner)
    }
}

impl Disk {
    fn refuse_if_stopped(&self) -> Result<(), StoreError> {
        match &self.stopped {
            None => Ok(()),
            Some(first) => Err(StoreError::stopped_by(first)),
        }
    }

    fn stop(&mut self, error: StoreError) -> StoreError {
        self.stopped.get_or_insert(error).clone()
    }

    fn write<T>(&mut self, change: impl FnOnce(&mut DiskImage) -> T) -> Result<T, StoreError> {
        self.refuse_if_stopped()?;
        let crash = self.next_crash();
        if let Some(fault) = self.next_fault() {
            return Err(self.apply_fault(fault));
        }
        if crash == Some(CrashPoint::BeforeSync) {
            let message = "The store was stopped between a write and its sync.";
            return Err(self.stop(StoreError::new(StoreErrorKind::Stopped, message)));
        }
        let outcome = change(&mut self.image);
        self.syncs += 1;
        if crash == Some(CrashPoint::AfterSync) {
            let message = "The store was stopped after a sync, before it could answer.";
            return Err(self.stop(StoreError::new(StoreErrorKind::Stopped, message)));
        }
        Ok(outcome)
    }

    fn next_fault(&mut self) -> Option<Fault> {
        if let Some((calls, fault)) = self.scheduled_fault.take() {
            match calls.saturating_sub(1) {
                0 => return Some(fault),
                left => self.scheduled_fault = Some((left, fault)),
            }
        }
        self.faults.pop_front()
    }

    fn next_crash(&mut self) -> Option<CrashPoint> {
        let (calls, point) = self.crash.as_mut()?;
        *calls = calls.saturating_sub(1);
        (*calls == 0).then_some(*point)
    }

    fn apply_fault(&mut self, fault: Fault) -> StoreError {
        let error = |kind, message: &str| StoreError::new(kind, message);
        match fault {
            Fault::Full => error(StoreErrorKind::Full, "The disk is full.").with_hint("Free some space, then resume."),
            Fault::Busy => error(StoreErrorKind::Busy, "Another process holds the write lock."),
            Fault::WriteFailed => self.stop(error(StoreErrorKind::Io, "A write failed.")),
            Fault::SyncFailed => self.stop(error(StoreErrorKind::Io, "A sync failed.")),
        }
    }
}

impl StoreWrite for MemoryStore {
    fn append(&self, batches: Vec<RunBatch>) -> Result<Vec<BatchVerdict>, StoreError> {
        self.write(|image| batches.into_iter().map(|batch| image.apply(batch)).collect())
    }

    fn put_plan(&self, plan: &PlanRow) -> Result<(), StoreError> {
        self.write(|image| {
            image.plans.entry(plan.hash).or_insert_with(|| plan.clone());
        })
    }

    fn claim(&self, run: &str, owner: &str) -> Result<ClaimResult, StoreError> {
        self.write(|image| self.claim_in(image, run, owner))
    }

    fn claim_all(&self, runs: &[Arc<str>], owner: &str) -> Result<Vec<ClaimResult>, StoreError> {
        self.write(|image| runs.iter().map(|run| self.claim_in(image, run, owner)).collect())
    }

    fn release(&self, run: &str, owner_epoch: u64) -> Result<(), StoreError> {
        self.write(|image| {
            if let Some(run) = image.run_mut(run).filter(|run| run.row.owner_epoch == owner_epoch) {
                run.release();
            }
        })
    }

    fn inbox_put(&self, message: &InboxRow) -> Result<InboxVerdict, StoreError> {
        self.write(|image| self.put_in(image, message))?
    }

    fn cancel_tree(&self, message: &InboxRow) -> Result<InboxVerdict, StoreError> {
        self.write(|image| {
            let verdict = self.put_in(image, message)?;
            if let (InboxVerdict::Accepted { .. }, Some(number)) = (&verdict, image.number(&message.run)) {
                image.mark(number, TreeMarks { cancelled: true, ..TreeMarks::default() });
            }
            Ok(verdict)
        })?
    }

    fn note_request(&self, run: &str, request_id: &str) -> Result<(), StoreError> {
        self.write(|image| {
            if image.run(run).is_some() && !image.is_known_request(run, request_id) {
                image.consume(&run.into(), &request_id.into());
            }
        })
    }
}

/// Liveness guard of an owner in this process.
struct MemoryOwner {
    name: String,
    owners: Arc<Mutex<HashSet<String>>>,
    heartbeats: Arc<Mutex<BTreeMap<String, Timestamp>>>,
}

impl OwnerGuard for MemoryOwner {
    fn beat(&self, at: Timestamp) -> Result<(), StoreError> {
        self.heartbeats.lock().unwrap_or_else(PoisonError::into_inner).insert(self.name.clone(), at);
        Ok(())
    }
}

impl Drop for MemoryOwner {
    fn drop(&mut self) {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

impl StoreSpace for MemoryStore {}

impl StoreOwners for MemoryStore {
    fn open_owner(&self) -> Result<Owner, StoreError> {
        // Counted over all stores, so that no name is reused after a crash.
        static NEXT: AtomicU64 = AtomicU64::new(1);
        self.disk().refuse_if_stopped()?;
        let name = format!("memory-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        let (owners, heartbeats) = (self.owners.clone(), self.heartbeats.clone());
        Ok(Owner::new(name.clone(), MemoryOwner { name, owners, heartbeats }))
    }

    fn owner_alive(&self, owner: &str) -> Result<bool, StoreError> {
        self.disk().refuse_if_stopped()?;
        Ok(self.is_alive(owner))
    }

    fn live_owners(&self) -> Result<Vec<String>, StoreError> {
        self.disk().refuse_if_stopped()?;
        Ok(self.owners.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect())
    }

    fn last_heartbeat(&self, owner: &str) -> Result<Option<Timestamp>, StoreError> {
        self.disk().refuse_if_stopped()?;
        Ok(self.heartbeats.lock().unwrap_or_else(PoisonError::into_inner).get(owner).copied())
    }
}
