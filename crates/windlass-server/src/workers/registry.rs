//! The registry of recently active workers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_runtime::real_now;
use windlass_value::Timestamp;

use super::queue::{JobId, QueueKey};
use super::wire::{Labels, LeaseRequest, WorkerState};

/// Number of reports per worker that are remembered, because a worker repeats a report whose response was lost.
const MAX_FINISHED_REPORTS: usize = 64;

/// Maximum number of known workers. A new one replaces the idle worker that has been silent longest.
const MAX_WORKERS: usize = 10_000;

/// Number of leases after which a silent worker without jobs is forgotten.
const FORGET_AFTER_LEASES: u32 = 20;

/// One lifetime of a worker: an id chosen by the worker, within its token.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct WorkerKey {
    pub token: Arc<str>,
    pub worker: Arc<str>,
}

pub(super) struct WorkerRecord {
    pub name: String,
    /// Name of its token.
    pub token_name: String,
    pub tools: BTreeSet<Arc<str>>,
    pub labels: Labels,
    pub only_labelled: bool,
    pub slots: usize,
    /// The worker has announced that it takes no more jobs.
    pub draining: bool,
    /// An operator has asked it to stop.
    pub drain_requested: bool,
    pub leased_jobs: BTreeSet<JobId>,
    /// Results of its newest reports.
    pub finished_reports: VecDeque<FinishedReport>,
    /// Number of its requests that are waiting.
    pub waiting_requests: usize,
    pub last_seen: Instant,
    pub seen_at: Timestamp,
    /// Wakes its waiting heartbeats.
    pub heartbeat_wake: Arc<Notify>,
}

pub(super) struct FinishedReport {
    pub id: JobId,
    pub lease_epoch: u32,
    /// Epoch of the task it continued with.
    pub next_epoch: Option<u32>,
}

impl WorkerRecord {
    fn new() -> WorkerRecord {
        WorkerRecord {
            name: String::new(),
            token_name: String::new(),
            tools: BTreeSet::new(),
            labels: Labels::new(),
            only_labelled: false,
            slots: 0,
            draining: false,
            drain_requested: false,
            leased_jobs: BTreeSet::new(),
            finished_reports: VecDeque::new(),
            waiting_requests: 0,
            last_seen: Instant::now(),
            seen_at: real_now(),
            heartbeat_wake: Arc::default(),
        }
    }

    /// Returns whether the worker can run jobs of this queue.
    pub(crate) fn can_run(&self, kind: &QueueKey) -> bool {
        let labelled = !kind.labels.is_empty() || !self.only_labelled;
        let has = |(name, value): (&Arc<str>, &Arc<str>)| self.labels.get(name) == Some(value);
        labelled && self.tools.contains(&kind.tool) && kind.labels.iter().all(has)
    }

    pub(crate) fn accepts_jobs(&self) -> bool {
        !self.draining && !self.drain_requested
    }

    pub(crate) fn free_slots(&self) -> usize {
        if self.accepts_jobs() { self.slots.saturating_sub(self.leased_jobs.len()) } else { 0 }
    }

    pub(crate) fn state(&self, lease: Duration) -> WorkerState {
        match () {
            () if self.waiting_requests == 0 && self.last_seen.elapsed() >= lease => WorkerState::Lost,
            () if !self.accepts_jobs() => WorkerState::Draining,
            () => WorkerState::Active,
        }
    }

    pub(crate) fn remember_report(&mut self, report: FinishedReport) {
        if self.finished_reports.len() >= MAX_FINISHED_REPORTS {
            self.finished_reports.pop_front();
        }
        self.finished_reports.push_back(report);
    }
}

/// The active workers, and the departed ones, newest last.
#[derive(Default)]
pub(super) struct WorkerRegistry(BTreeMap<WorkerKey, WorkerRecord>, VecDeque<(WorkerKey, Instant)>);

/// Number of remembered departed workers: a message sent before the departure may still arrive, for at most a lease.
const MAX_DEPARTED_WORKERS: usize = 256;

impl WorkerRegistry {
    pub(crate) fn get(&self, key: &WorkerKey) -> Option<&WorkerRecord> {
        self.0.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &WorkerKey) -> Option<&mut WorkerRecord> {
        self.0.get_mut(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&WorkerKey, &WorkerRecord)> {
        self.0.iter()
    }

    /// Removes a worker; late messages from it are rejected.
    pub(crate) fn deregister(&mut self, key: &WorkerKey) {
        self.0.remove(key);
        if self.1.len() >= MAX_DEPARTED_WORKERS {
            self.1.pop_front();
        }
        self.1.push_back((key.clone(), Instant::now()));
    }

    pub(crate) fn has_left(&self, key: &WorkerKey, lease: Duration) -> bool {
        self.1.iter().any(|(gone, at)| gone == key && at.elapsed() < lease)
    }

    /// Records a message from the worker. An unknown worker is added: it may have outlived a restart of the server.
    pub(crate) fn touch(&mut self, key: &WorkerKey, lease: Duration) -> &mut WorkerRecord {
        if !self.0.contains_key(key) {
            self.forget_silent(lease);
        }
        let worker = self.0.entry(key.clone()).or_insert_with(WorkerRecord::new);
        (worker.last_seen, worker.seen_at) = (Instant::now(), real_now());
        worker
    }

    pub(crate) fn register(
        &mut self,
        key: &WorkerKey,
        token_name: &str,
        request: &LeaseRequest,
        lease: Duration,
    ) -> &mut WorkerRecord {
        let worker = self.touch(key, lease);
        worker.name.clone_from(&request.name);
        token_name.clone_into(&mut worker.token_name);
        worker.tools = request.tools.iter().map(|tool| tool.as_str().into()).collect();
        worker.labels.clone_from(&request.labels);
        worker.only_labelled = request.only_labelled;
        worker.slots = request.slots as usize;
        worker
    }

    fn forget_silent(&mut self, lease: Duration) {
        let idle = |worker: &WorkerRecord| worker.leased_jobs.is_empty() && worker.waiting_requests == 0;
        self.0.retain(|_, worker| !idle(worker) || worker.last_seen.elapsed() < lease * FORGET_AFTER_LEASES);
        while self.0.len() >= MAX_WORKERS {
            let oldest = self.0.iter().filter(|(_, worker)| idle(worker)).min_by_key(|(_, worker)| worker.last_seen);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            self.0.remove(&oldest);
        }
    }
}
