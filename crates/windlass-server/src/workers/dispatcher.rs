//! The queue of jobs for remote workers, and the leases that workers hold.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use windlass_core::TaskOutcome;
use windlass_runtime::{EventPublisher, RemoteLease, TaskLog, ToolCall, real_now};
use windlass_tools::KnownSecrets;
use windlass_value::Timestamp;

use super::queue::{JobId, JobQueues, QueueKey, QueuePosition};
use super::registry::{WorkerKey, WorkerRecord, WorkerRegistry};
use super::wire::{LeaseInfo, LeasedJob, QueueInfo, WorkerInfo, WorkerList};

/// Heartbeats that a worker with jobs sends per lease duration.
const HEARTBEATS_PER_LEASE: u32 = 6;

/// Default lease duration: the time a worker may send no heartbeat.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// The reason why the report of a worker is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReportRejection {
    /// The job is not, or no longer, leased to this worker under this epoch. The worker stops.
    Stale,
    /// The server is evicting the run for a shutdown. The report may not be durable and must be repeated.
    ShuttingDown,
}

pub struct Dispatcher {
    pub(super) state: Mutex<DispatcherState>,
    pub(super) lease: Duration,
    /// Until then, workers from before the server's start may report the jobs they still have.
    pub(super) rejoin_until: Instant,
    /// Secrets to redact from workers' reports.
    pub(super) known_secrets: KnownSecrets,
}

#[derive(Default)]
pub(super) struct DispatcherState {
    /// Expired leases, by tool.
    pub expired: BTreeMap<Arc<str>, u64>,
    pub jobs: HashMap<JobId, JobEntry>,
    pub queues: JobQueues,
    pub workers: WorkerRegistry,
    /// Jobs whose report is becoming durable. The next task goes to the same worker, if it can run it.
    pub reported: HashMap<JobId, PendingReport>,
    /// Workers waiting for a job, in order of arrival.
    pub poll_requests: BTreeMap<u64, LeasePoll>,
    pub polls_started: u64,
    pub closing: bool,
    /// Jobs queued since the server's start, tracked while workers from before the start may still rejoin.
    pub seen_since_start: HashSet<JobId>,
}

/// A task that has not been reported.
pub(super) struct JobEntry {
    pub job: Arc<LeasedJob>,
    pub kind: QueueKey,
    pub stage: JobStage,
    pub queued_at: Timestamp,
    pub cancelled: bool,
    pub publish: EventPublisher,
    pub log: TaskLog,
    pub away: Option<RemoteLease>,
    pub result: Option<oneshot::Sender<TaskOutcome>>,
    /// Wakes the waiting tool call, because the time of its next check has changed.
    pub changed: Arc<Notify>,
}

pub(super) enum JobStage {
    /// A worker from before the server's start may still have it.
    AwaitingRejoin(Instant),
    Queued(QueuePosition),
    Leased(JobLease),
}

pub(super) struct JobLease {
    pub worker: WorkerKey,
    pub since: Timestamp,
    pub expires_at: Instant,
    /// End of the task's own timeout.
    pub deadline: Option<Instant>,
}

pub(super) struct PendingReport {
    pub worker: WorkerKey,
    pub lease_epoch: u32,
    pub next_epoch: Option<u32>,
}

pub(super) struct LeasePoll {
    pub worker: WorkerKey,
    pub wake: Arc<Notify>,
    /// The poll was woken for a job and has not checked the queue yet.
    pub woken: bool,
    /// The worker has been silent for too long since it sent this request: a job in the response might not reach it.
    pub is_abandoned: bool,
}

impl Default for Dispatcher {
    fn default() -> Dispatcher {
        Dispatcher::new(DEFAULT_LEASE)
    }
}

impl Dispatcher {
    /// Creates a dispatcher. It exists before the engine, whose remote tools queue their jobs in it.
    pub fn new(lease: Duration) -> Dispatcher {
        let rejoin_until = Instant::now() + lease / HEARTBEATS_PER_LEASE * 2;
        Dispatcher { state: Mutex::default(), lease, rejoin_until, known_secrets: KnownSecrets::default() }
    }

    /// Redacts these secrets from everything that workers report.
    #[must_use]
    pub fn with_redaction(self, known_secrets: KnownSecrets) -> Dispatcher {
        Dispatcher { known_secrets, ..self }
    }

    pub(crate) fn lease_ms(&self) -> u64 {
        self.lease.as_millis() as u64
    }

    pub(crate) fn heartbeat_ms(&self) -> u64 {
        (self.lease / HEARTBEATS_PER_LEASE).as_millis() as u64
    }

    pub(super) fn state(&self) -> MutexGuard<'_, DispatcherState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the dispatcher for a shutdown: workers get no more jobs, but keep those they have.
    pub fn close(&self) {
        let mut state = self.state();
        state.closing = true;
        state.poll_requests.values().for_each(|poll| poll.wake.notify_one());
        state.workers.iter().for_each(|(_, worker)| worker.heartbeat_wake.notify_waiters());
    }

    /// Returns whether workers from before the server's start may still report their jobs.
    pub(super) fn may_rejoin(&self) -> bool {
        Instant::now() < self.rejoin_until
    }

    /// Returns whether a worker may have the job from before the server's start: it has not been queued since.
    fn may_be_held_from_before(&self, state: &mut DispatcherState, id: &JobId) -> bool {
        match self.may_rejoin() {
            true => state.seen_since_start.insert(id.clone()),
            false => {
                state.seen_since_start = HashSet::new();
                false
            }
        }
    }

    /// Lists the known workers and the queued jobs.
    pub fn list(&self) -> WorkerList {
        let state = self.state();
        let items = state.workers.iter().map(|(key, worker)| self.info(&state, key, worker)).collect();
        WorkerList { items, queued: state.queues.list() }
    }

    /// Returns the queued jobs of a run.
    pub(crate) fn queued_jobs_of(&self, run: &str) -> Vec<QueueInfo> {
        self.state().queues.jobs_of_run(run)
    }

    /// Returns the number of leases expired since the server's start, by tool.
    pub(crate) fn expired(&self) -> BTreeMap<Arc<str>, u64> {
        self.state().expired.clone()
    }

    fn info(&self, state: &DispatcherState, key: &WorkerKey, worker: &WorkerRecord) -> WorkerInfo {
        let now = Instant::now();
        let held = worker.leased_jobs.iter().filter_map(|id| {
            let entry = state.jobs.get(id)?;
            let JobStage::Leased(held) = &entry.stage else { return None };
            let left = held.expires_at.saturating_duration_since(now).as_micros() as u64;
            Some(LeaseInfo {
                run: id.run.clone(),
                job: id.job,
                lease_epoch: entry.job.lease_epoch,
                path: entry.job.path.clone(),
                tool: entry.job.tool.clone(),
                since: held.since.to_string(),
                expires_at: (real_now() + windlass_value::Duration(left)).to_string(),
            })
        });
        WorkerInfo {
            worker: key.worker.clone(),
            name: worker.name.clone(),
            token: worker.token_name.clone(),
            tools: worker.tools.iter().cloned().collect(),
            labels: worker.labels.clone(),
            only_labelled: worker.only_labelled,
            slots: worker.slots as u32,
            state: worker.state(self.lease),
            seen_at: worker.seen_at.to_string(),
            leases: held.collect(),
        }
    }

    /// Asks the worker to stop when its jobs are done. Returns false if there is no such worker.
    pub(crate) fn drain(&self, worker: &str) -> bool {
        let mut state = self.state();
        let keys: Vec<WorkerKey> =
            state.workers.iter().filter(|(key, _)| &*key.worker == worker).map(|(key, _)| key.clone()).collect();
        for key in &keys {
            if let Some(worker) = state.workers.get_mut(key) {
                worker.drain_requested = true;
                worker.heartbeat_wake.notify_waiters();
            }
            state.wake_worker_polls(key);
        }
        !keys.is_empty()
    }
}

/// The engine's side.
impl Dispatcher {
    /// Accepts a job from the engine.
    pub(super) fn offer(&self, call: ToolCall) -> JobOffer {
        let (result, received) = oneshot::channel();
        let changed = Arc::new(Notify::new());
        let id = JobId { run: call.run.clone(), job: call.job };
        let offer =
            JobOffer { id: id.clone(), lease_epoch: call.lease_epoch, result: received, changed: changed.clone() };
        let kind = QueueKey { tool: call.tool.clone(), labels: call.definition.labels.clone() };
        let job = LeasedJob {
            run_tree: (call.run_tree != call.run).then_some(call.run_tree),
            sealed_by: call.sealed_by,
            run: call.run,
            job: call.job,
            lease_epoch: call.lease_epoch,
            tool: call.tool,
            input: call.input,
            idempotency_key: call.key,
            attempt: call.attempt,
            path: call.path,
            timeout_ms: call.timeout.map(|timeout| timeout.0 / 1_000),
            definition: call.definition.name.clone(),
            labels: call.definition.labels.clone(),
            // Read when a worker gets the job, which may be long after now.
            credentials: BTreeMap::new(),
            is_continuation: call.is_continuation,
            at: call.at,
            resumed: call.resumed,
            previous_attempts: call.tried,
        };
        let mut guard = self.state();
        let state = &mut *guard;
        // A worker that held it under an older epoch has lost it.
        state.drop_entry(&id);
        let from_before_start = self.may_be_held_from_before(state, &id);
        let queued_at = real_now();
        let stage = match state.continuing_worker(&id, &kind) {
            Some(worker) => {
                if let Some(reported) = state.reported.get_mut(&id) {
                    reported.next_epoch = Some(job.lease_epoch);
                }
                JobStage::Leased(state.lease_to(&id, &job, worker, self.lease))
            }
            None if job.lease_epoch > 0 && from_before_start => JobStage::AwaitingRejoin(self.rejoin_until),
            None => JobStage::Queued(state.queues.push(&kind, &id, queued_at)),
        };
        match stage {
            JobStage::Queued(_) => state.wake_one(&kind),
            // The worker that has it may be waiting in a heartbeat.
            JobStage::AwaitingRejoin(_) => {
                state.workers.iter().for_each(|(_, worker)| worker.heartbeat_wake.notify_one())
            }
            JobStage::Leased(_) => {}
        }
        let (publish, log, away) = (call.publish, call.log, call.remote_lease);
        let entry = JobEntry {
            job: Arc::new(job),
            kind,
            stage,
            queued_at,
            cancelled: false,
            publish,
            log,
            away,
            result: Some(result),
            changed,
        };
        state.jobs.insert(id, entry);
        offer
    }

    /// Checks a job's lease and timeout, and returns what the engine has to do.
    pub(super) fn check_job(&self, id: &JobId, lease_epoch: u32) -> JobCheck {
        let now = Instant::now();
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(entry) = state.jobs.get_mut(id).filter(|entry| entry.job.lease_epoch == lease_epoch) else {
            return JobCheck::Gone;
        };
        match &entry.stage {
            JobStage::Queued(_) => JobCheck::Queued,
            JobStage::AwaitingRejoin(until) if *until > now => JobCheck::Until(*until),
            JobStage::AwaitingRejoin(_) => {
                entry.stage = JobStage::Queued(state.queues.push(&entry.kind, id, entry.queued_at));
                let kind = entry.kind.clone();
                state.wake_one(&kind);
                JobCheck::Queued
            }
            JobStage::Leased(held) if held.deadline.is_some_and(|deadline| deadline <= now) => {
                state.drop_entry(id);
                JobCheck::TimedOut
            }
            JobStage::Leased(held) if held.expires_at <= now => {
                let silent_worker = held.worker.clone();
                state
                    .poll_requests
                    .values_mut()
                    .filter(|poll| poll.worker == silent_worker)
                    .for_each(|poll| poll.is_abandoned = true);
                *state.expired.entry(entry.job.tool.clone()).or_default() += 1;
                match state.drop_entry(id).and_then(|entry| entry.away) {
                    Some(away) => JobCheck::LeaseExpired(away),
                    None => JobCheck::Gone,
                }
            }
            JobStage::Leased(held) => {
                JobCheck::Until(held.deadline.map_or(held.expires_at, |deadline| deadline.min(held.expires_at)))
            }
        }
    }

    /// Cancels a job. Returns true if no worker has it, so that the cancellation is complete.
    pub(super) fn cancel(&self, id: &JobId, lease_epoch: u32) -> bool {
        let mut state = self.state();
        let Some(entry) = state.jobs.get_mut(id).filter(|entry| entry.job.lease_epoch == lease_epoch) else {
            return false;
        };
        entry.cancelled = true;
        let JobStage::Leased(held) = &entry.stage else {
            state.drop_entry(id);
            return true;
        };
        let worker = held.worker.clone();
        if let Some(worker) = state.workers.get(&worker) {
            worker.heartbeat_wake.notify_waiters();
        }
        false
    }

    /// Removes a job whose call has ended or whose run was evicted.
    pub(super) fn forget(&self, id: &JobId, lease_epoch: u32) {
        let mut state = self.state();
        if state.jobs.get(id).is_some_and(|entry| entry.job.lease_epoch == lease_epoch) {
            state.drop_entry(id);
        }
    }
}

/// A queued job as seen by the engine.
pub(super) struct JobOffer {
    pub id: JobId,
    pub lease_epoch: u32,
    pub result: oneshot::Receiver<TaskOutcome>,
    pub changed: Arc<Notify>,
}

pub(super) enum JobCheck {
    /// It is queued for a worker, for as long as it takes.
    Queued,
    Until(Instant),
    TimedOut,
    LeaseExpired(RemoteLease),
    /// It was reported, or replaced by another epoch.
    Gone,
}

impl DispatcherState {
    /// Removes a job and notifies the worker that had it.
    pub(crate) fn drop_entry(&mut self, id: &JobId) -> Option<JobEntry> {
        let entry = self.jobs.remove(id)?;
        match &entry.stage {
            JobStage::AwaitingRejoin(_) => {}
            JobStage::Queued(place) => self.queues.remove(&entry.kind, id, *place),
            JobStage::Leased(held) => {
                let worker = held.worker.clone();
                self.free_slot(id, &worker);
                if let Some(worker) = self.workers.get(&worker) {
                    worker.heartbeat_wake.notify_waiters();
                }
            }
        }
        Some(entry)
    }

    /// Frees a slot of the worker.
    pub(crate) fn free_slot(&mut self, id: &JobId, worker: &WorkerKey) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.leased_jobs.remove(id);
            self.wake_worker_polls(worker);
        }
    }

    /// Returns the worker that continues with the job: the one that just reported it, if it can run this task as well.
    fn continuing_worker(&self, id: &JobId, kind: &QueueKey) -> Option<WorkerKey> {
        let reported = self.reported.get(id).filter(|_| !self.closing)?;
        let worker = self.workers.get(&reported.worker)?;
        (worker.accepts_jobs() && worker.can_run(kind)).then(|| reported.worker.clone())
    }

    pub(crate) fn lease_to(&mut self, id: &JobId, job: &LeasedJob, worker: WorkerKey, lease: Duration) -> JobLease {
        if let Some(known) = self.workers.get_mut(&worker) {
            known.leased_jobs.insert(id.clone());
        }
        let now = Instant::now();
        let deadline = job.timeout_ms.map(|ms| now + Duration::from_millis(ms));
        JobLease { worker, since: real_now(), expires_at: now + lease, deadline }
    }

    /// Wakes one waiting worker that can run such a job.
    pub(crate) fn wake_one(&mut self, kind: &QueueKey) {
        let workers = &self.workers;
        let can = |poll: &&mut LeasePoll| {
            !poll.woken
                && !poll.is_abandoned
                && workers.get(&poll.worker).is_some_and(|worker| worker.free_slots() > 0 && worker.can_run(kind))
        };
        if let Some(poll) = self.poll_requests.values_mut().find(can) {
            poll.woken = true;
            poll.wake.notify_one();
        }
    }

    /// Wakes workers for all queues, after a woken poll ended without checking.
    pub(crate) fn wake_for_all_queues(&mut self) {
        for kind in self.queues.kinds().cloned().collect::<Vec<_>>() {
            self.wake_one(&kind);
        }
    }

    pub(crate) fn wake_worker_polls(&mut self, worker: &WorkerKey) {
        for poll in self.poll_requests.values_mut().filter(|poll| poll.worker == *worker) {
            poll.woken = true;
            poll.wake.notify_one();
        }
    }
}
