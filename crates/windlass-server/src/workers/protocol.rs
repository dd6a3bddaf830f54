//! Handlers of the worker protocol: lease, heartbeat, progress, complete, fail, deregister.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use windlass_core::{EventKind, SuspendedOn, TaskOutcome};
use windlass_runtime::RemoteLease;
use windlass_value::Value;

use super::dispatcher::{Dispatcher, DispatcherState, JobEntry, JobStage, LeasePoll, PendingReport, ReportRejection};
use super::queue::JobId;
use super::registry::{FinishedReport, WorkerKey};
use super::wire::{
    HeartbeatRequest, HeartbeatResponse, LeaseRef, LeaseRequest, LeaseResponse, LeasedJob, LogReport, ProgressReport,
    ReportOrigin,
};

/// Maximum time that a lease request waits.
const MAX_POLL_TIME: Duration = Duration::from_secs(30);

impl Dispatcher {
    /// Leases jobs to a worker, at most as many as it has free slots. Waits while there are none.
    pub(crate) async fn lease(
        &self,
        worker_key: &WorkerKey,
        token_name: &str,
        request: &LeaseRequest,
    ) -> LeaseResponse {
        let deadline = Instant::now() + Duration::from_millis(request.wait_ms).min(MAX_POLL_TIME);
        {
            let mut state = self.state();
            if state.workers.has_left(worker_key, self.lease) {
                let (lease_ms, heartbeat_ms) = (self.lease_ms(), self.heartbeat_ms());
                return LeaseResponse { jobs: Vec::new(), lease_ms, heartbeat_ms, drain: true };
            }
            state.workers.register(worker_key, token_name, request, self.lease);
        }
        let poll = PollGuard::begin(self, worker_key);
        let (jobs, drain) = loop {
            let LeaseBatch { jobs, drain, is_final } = self.take_jobs(worker_key, request.free, poll.number);
            if !jobs.is_empty() || is_final || Instant::now() >= deadline {
                break (jobs, drain);
            }
            tokio::select! {
                () = poll.wake.notified() => {}
                () = sleep_until(deadline) => {}
            }
        };
        LeaseResponse { jobs, lease_ms: self.lease_ms(), heartbeat_ms: self.heartbeat_ms(), drain }
    }

    fn take_jobs(&self, worker_key: &WorkerKey, requested: Option<u32>, poll: u64) -> LeaseBatch {
        let mut guard = self.state();
        let state = &mut *guard;
        if let Some(poll) = state.poll_requests.get_mut(&poll) {
            poll.woken = false;
            if poll.is_abandoned {
                return LeaseBatch { jobs: Vec::new(), drain: false, is_final: true };
            }
        }
        if state.workers.has_left(worker_key, self.lease) {
            return LeaseBatch { jobs: Vec::new(), drain: true, is_final: true };
        }
        let worker = state.workers.touch(worker_key, self.lease);
        let (drain, closing) = (worker.drain_requested, state.closing);
        let is_final = closing || !worker.accepts_jobs();
        let max_jobs = worker.free_slots().min(requested.map_or(usize::MAX, |wanted| wanted as usize));
        let mut jobs = Vec::new();
        while jobs.len() < max_jobs && !closing {
            let workers = &state.workers;
            let fits = |kind: &_| workers.get(worker_key).is_some_and(|worker| worker.can_run(kind));
            let Some(id) = state.queues.pop(fits) else { break };
            jobs.extend(state.assign(&id, worker_key, self.lease));
        }
        LeaseBatch { jobs, drain, is_final }
    }

    /// Renews the leases of a worker. Waits while there is nothing to report to it.
    pub(crate) async fn heartbeat(&self, worker_key: &WorkerKey, beat: &HeartbeatRequest) -> HeartbeatResponse {
        let deadline = Instant::now() + Duration::from_millis(beat.wait_ms).min(self.lease / 3);
        let wake = {
            let mut state = self.state();
            if state.workers.has_left(worker_key, self.lease) {
                // Its jobs go to others.
                return HeartbeatResponse { lost: beat.jobs.clone(), drain: true, ..HeartbeatResponse::default() };
            }
            state.workers.touch(worker_key, self.lease).heartbeat_wake.clone()
        };
        let _waiting = PresenceGuard::begin(self, worker_key);
        loop {
            let mut notified = std::pin::pin!(wake.notified());
            // Registered before the check, so that no notification is missed.
            notified.as_mut().enable();
            let (response, closing) = self.process_heartbeat(worker_key, beat);
            if !response.is_empty() || closing || Instant::now() >= deadline {
                return response;
            }
            tokio::select! {
                () = notified => {}
                () = sleep_until(deadline) => {}
            }
        }
    }

    fn process_heartbeat(&self, worker_key: &WorkerKey, beat: &HeartbeatRequest) -> (HeartbeatResponse, bool) {
        let may_rejoin = self.may_rejoin();
        let mut guard = self.state();
        let state = &mut *guard;
        if state.workers.has_left(worker_key, self.lease) {
            return (HeartbeatResponse { lost: beat.jobs.clone(), drain: true, ..HeartbeatResponse::default() }, true);
        }
        let worker = state.workers.touch(worker_key, self.lease);
        let starts_draining = beat.draining && !std::mem::replace(&mut worker.draining, beat.draining);
        let mut response = HeartbeatResponse { drain: worker.drain_requested, ..HeartbeatResponse::default() };
        if starts_draining {
            // A draining worker is not kept waiting.
            state.wake_worker_polls(worker_key);
        }
        for lease in &beat.jobs {
            let id = JobId { run: lease.run.clone(), job: lease.job };
            match state.lease_status(&id, lease, worker_key) {
                LeaseStatus::Owned => {
                    let now = Instant::now();
                    let Some(entry) = state.jobs.get_mut(&id) else { continue };
                    if let JobStage::Leased(held) = &mut entry.stage {
                        held.expires_at = now + self.lease;
                    }
                    if entry.job.lease_epoch != lease.lease_epoch {
                        // The response that reported the new epoch was lost.
                        response.renewed.push(LeaseRef { lease_epoch: entry.job.lease_epoch, ..lease.clone() });
                    }
                    if entry.cancelled {
                        response.cancelled.push(LeaseRef { lease_epoch: entry.job.lease_epoch, ..lease.clone() });
                    }
                }
                LeaseStatus::Reclaimable(lease_epoch) if !state.closing => {
                    state.reclaim(&id, worker_key, self.lease);
                    response.renewed.push(LeaseRef { lease_epoch, ..lease.clone() });
                }
                // Its run may not have been reloaded yet, or is being evicted with all others.
                LeaseStatus::Unknown if may_rejoin || state.closing => {}
                LeaseStatus::Reclaimable(_) | LeaseStatus::Reporting => {}
                LeaseStatus::Unknown | LeaseStatus::OwnedByOther => response.lost.push(lease.clone()),
            }
        }
        (response, state.closing)
    }

    /// Publishes an event of a running task. It counts as a heartbeat.
    pub(crate) fn progress(&self, worker_key: &WorkerKey, progress: &ProgressReport) -> Result<(), ReportRejection> {
        let data = self.known_secrets.redactor().redact_value(&progress.data);
        let id = JobId { run: progress.run.clone(), job: progress.job };
        self.with_leased_job(worker_key, &id, progress.lease_epoch, |entry| match progress.r#type.as_deref() {
            None => entry.publish.progress(data),
            Some(kind) => entry.publish.send(kind, data),
        })
    }

    /// Stores log lines of a running task. They count as a heartbeat.
    pub(crate) fn log(&self, worker_key: &WorkerKey, report: &LogReport) -> Result<(), ReportRejection> {
        let id = JobId { run: report.run.clone(), job: report.job };
        let log = self.with_leased_job(worker_key, &id, report.lease_epoch, |entry| entry.log.clone())?;
        log.count_lost(report.lost);
        let redaction = self.known_secrets.redactor();
        for line in &report.lines {
            log.write(line.stream(), &redaction.redact_text(&line.text));
        }
        Ok(())
    }

    /// Accesses a job that this worker holds under this epoch, and renews its lease.
    fn with_leased_job<T>(
        &self,
        worker_key: &WorkerKey,
        id: &JobId,
        lease_epoch: u32,
        access: impl FnOnce(&mut JobEntry) -> T,
    ) -> Result<T, ReportRejection> {
        let mut guard = self.state();
        let state = &mut *guard;
        if state.workers.has_left(worker_key, self.lease) {
            return Err(ReportRejection::Stale);
        }
        state.workers.touch(worker_key, self.lease);
        let entry = state.jobs.get_mut(id).filter(|entry| entry.job.lease_epoch == lease_epoch);
        let entry = entry.ok_or(ReportRejection::Stale)?;
        let JobStage::Leased(held) = &mut entry.stage else { return Err(ReportRejection::Stale) };
        if held.worker != *worker_key {
            return Err(ReportRejection::Stale);
        }
        held.expires_at = Instant::now() + self.lease;
        Ok(access(entry))
    }

    /// Records the end of a task. Returns when it is durable, with the next task under the same lease.
    pub(crate) async fn report(
        &self,
        worker_key: &WorkerKey,
        report: &ReportOrigin,
        outcome: TaskOutcome,
    ) -> Result<Option<LeasedJob>, ReportRejection> {
        let id = JobId { run: report.run.clone(), job: report.job };
        let away = match self.accept_report(worker_key, &id, report.lease_epoch, outcome)? {
            AcceptedReport::Repeated(next) => return Ok(next.map(|job| (*job).clone())),
            AcceptedReport::Now(away) => away,
        };
        let mut handover =
            ReportHandover { dispatcher: self, id, lease_epoch: report.lease_epoch, is_delivered: false };
        match away.wait_accepted().await {
            Some(true) => Ok(handover.next_job(worker_key)),
            Some(false) => Err(ReportRejection::Stale),
            None => Err(ReportRejection::ShuttingDown),
        }
    }

    fn accept_report(
        &self,
        worker_key: &WorkerKey,
        id: &JobId,
        lease_epoch: u32,
        outcome: TaskOutcome,
    ) -> Result<AcceptedReport, ReportRejection> {
        let outcome = self.redact_outcome(outcome);
        let mut guard = self.state();
        let state = &mut *guard;
        if state.workers.has_left(worker_key, self.lease) {
            return Err(ReportRejection::Stale);
        }
        state.workers.touch(worker_key, self.lease);
        let is_owner = state.jobs.get(id).is_some_and(|entry| {
            entry.job.lease_epoch == lease_epoch
                && matches!(&entry.stage, JobStage::Leased(held) if held.worker == *worker_key)
        });
        if !is_owner {
            // While all runs are being evicted, a missing job does not belong to another worker either.
            let rejection = if state.closing { ReportRejection::ShuttingDown } else { ReportRejection::Stale };
            return state.find_repeated_report(worker_key, id, lease_epoch).ok_or(rejection);
        }
        let entry = state.jobs.remove(id).ok_or(ReportRejection::Stale)?;
        let (Some(away), Some(result)) = (entry.away, entry.result) else { return Err(ReportRejection::Stale) };
        // The worker keeps its slot until it is known whether it continues.
        state.reported.insert(id.clone(), PendingReport { worker: worker_key.clone(), lease_epoch, next_epoch: None });
        // Fails if the run has just been evicted; waiting for `away` reports that.
        let _ = result.send(outcome);
        Ok(AcceptedReport::Now(away))
    }

    /// Redacts this server's secrets from an outcome. The worker has redacted its own.
    fn redact_outcome(&self, mut outcome: TaskOutcome) -> TaskOutcome {
        let redaction = self.known_secrets.redactor();
        if redaction.is_empty() {
            return outcome;
        }
        let (mut side_outputs, mut suspension) = (outcome.side_outputs.take(), outcome.suspension.take());
        for sent in side_outputs.iter_mut().flat_map(|outputs| &mut outputs.sends) {
            sent.payload = redaction.redact_value(&sent.payload);
        }
        for change in side_outputs.iter_mut().flat_map(|outputs| &mut outputs.state_changes) {
            change.value = redaction.redact_value(&change.value);
        }
        if let Some(SuspendedOn::Checkpoint(value) | SuspendedOn::Child { input: value, .. }) =
            suspension.as_mut().map(|suspension| &mut suspension.waits_for)
        {
            *value = redaction.redact_value(value);
        }
        TaskOutcome { side_outputs, suspension, ..redaction.redact_outcome(outcome) }
    }

    /// Removes a worker that deregisters: its jobs go to others immediately.
    pub(crate) fn deregister(&self, worker_key: &WorkerKey) {
        let mut state = self.state();
        let held = state.workers.get(worker_key).map(|worker| worker.leased_jobs.clone()).unwrap_or_default();
        let lost: Vec<RemoteLease> = held.iter().filter_map(|id| state.drop_entry(id)?.away).collect();
        state.workers.deregister(worker_key);
        drop(state);
        lost.iter().for_each(RemoteLease::revoke);
    }
}

/// The jobs available for a worker.
struct LeaseBatch {
    jobs: Vec<LeasedJob>,
    /// An operator has asked the worker to stop.
    drain: bool,
    /// There will be no more jobs from this server or for this worker.
    is_final: bool,
}

enum AcceptedReport {
    Now(RemoteLease),
    /// The report was received before, and its response was lost.
    Repeated(Option<Arc<LeasedJob>>),
}

/// The status of a lease that a worker names.
enum LeaseStatus {
    Owned,
    /// The job is not leased now, and it is the same work that this worker has been doing.
    Reclaimable(u32),
    Reporting,
    OwnedByOther,
    Unknown,
}

impl DispatcherState {
    fn lease_status(&self, id: &JobId, lease: &LeaseRef, worker_key: &WorkerKey) -> LeaseStatus {
        let Some(entry) = self.jobs.get(id) else {
            return match self.reported.get(id).is_some_and(|reported| reported.worker == *worker_key) {
                true => LeaseStatus::Reporting,
                false => LeaseStatus::Unknown,
            };
        };
        let job = &entry.job;
        let is_same_work = || {
            lease.lease_epoch < job.lease_epoch
                && lease.idempotency_key.as_deref() == Some(&*job.idempotency_key)
                && lease.attempt.is_none_or(|attempt| attempt == job.attempt)
        };
        match &entry.stage {
            JobStage::Leased(held)
                if held.worker == *worker_key && (lease.lease_epoch == job.lease_epoch || is_same_work()) =>
            {
                LeaseStatus::Owned
            }
            JobStage::Leased(held) if held.worker == *worker_key && self.reported.contains_key(id) => {
                LeaseStatus::Reporting
            }
            JobStage::Leased(_) => LeaseStatus::OwnedByOther,
            JobStage::Queued(_) | JobStage::AwaitingRejoin(_) if is_same_work() => {
                LeaseStatus::Reclaimable(job.lease_epoch)
            }
            JobStage::Queued(_) | JobStage::AwaitingRejoin(_) => LeaseStatus::OwnedByOther,
        }
    }

    /// Gives a job back to the worker that has been running it all the time, under the new epoch.
    fn reclaim(&mut self, id: &JobId, worker_key: &WorkerKey, lease: Duration) {
        let Some(entry) = self.jobs.get(id) else { return };
        if let JobStage::Queued(position) = entry.stage {
            let kind = entry.kind.clone();
            self.queues.remove(&kind, id, position);
        }
        self.assign(id, worker_key, lease);
    }

    /// Assigns a job to the worker.
    fn assign(&mut self, id: &JobId, worker_key: &WorkerKey, lease: Duration) -> Option<LeasedJob> {
        let job = self.jobs.get(id)?.job.clone();
        let held = self.lease_to(id, &job, worker_key.clone(), lease);
        let entry = self.jobs.get_mut(id)?;
        entry.stage = JobStage::Leased(held);
        entry.changed.notify_one();
        Some((*job).clone())
    }

    fn find_repeated_report(&self, worker_key: &WorkerKey, id: &JobId, lease_epoch: u32) -> Option<AcceptedReport> {
        let reports = &self.workers.get(worker_key)?.finished_reports;
        let done = reports.iter().rev().find(|done| done.id == *id && done.lease_epoch == lease_epoch)?;
        let next = self.jobs.get(id).filter(|entry| {
            Some(entry.job.lease_epoch) == done.next_epoch
                && matches!(&entry.stage, JobStage::Leased(held) if held.worker == *worker_key)
        });
        Some(AcceptedReport::Repeated(next.map(|entry| entry.job.clone())))
    }
}

/// A report that is becoming durable. If the waiting worker disconnects, the next task goes to others.
struct ReportHandover<'a> {
    dispatcher: &'a Dispatcher,
    id: JobId,
    lease_epoch: u32,
    is_delivered: bool,
}

impl ReportHandover<'_> {
    fn next_job(&mut self, worker_key: &WorkerKey) -> Option<LeasedJob> {
        self.is_delivered = true;
        let mut state = self.dispatcher.state();
        let next_epoch =
            state.reported.get(&self.id).filter(|reported| reported.lease_epoch == self.lease_epoch)?.next_epoch;
        let entry = state.jobs.get(&self.id).filter(|entry| Some(entry.job.lease_epoch) == next_epoch);
        let job = entry.filter(|entry| matches!(&entry.stage, JobStage::Leased(held) if held.worker == *worker_key));
        let job = job.map(|entry| (*entry.job).clone());
        let report = FinishedReport {
            id: self.id.clone(),
            lease_epoch: self.lease_epoch,
            next_epoch: job.as_ref().map(|job| job.lease_epoch),
        };
        state.workers.get_mut(worker_key)?.remember_report(report);
        job
    }
}

impl Drop for ReportHandover<'_> {
    fn drop(&mut self) {
        let mut guard = self.dispatcher.state();
        let state = &mut *guard;
        if state.reported.get(&self.id).is_none_or(|reported| reported.lease_epoch != self.lease_epoch) {
            return;
        }
        let Some(reported) = state.reported.remove(&self.id) else { return };
        let next_entry =
            state.jobs.get_mut(&self.id).filter(|entry| Some(entry.job.lease_epoch) == reported.next_epoch);
        match next_entry {
            Some(_) if self.is_delivered => {}
            Some(entry) => {
                // No worker knows of it, so it keeps its epoch.
                entry.stage = JobStage::Queued(state.queues.push_front(&entry.kind, &self.id, entry.queued_at));
                entry.changed.notify_one();
                let kind = entry.kind.clone();
                state.free_slot(&self.id, &reported.worker);
                state.wake_one(&kind);
            }
            None => state.free_slot(&self.id, &reported.worker),
        }
    }
}

/// A waiting lease request.
struct PollGuard<'a> {
    dispatcher: &'a Dispatcher,
    number: u64,
    wake: Arc<Notify>,
    _presence: PresenceGuard<'a>,
}

impl<'a> PollGuard<'a> {
    fn begin(dispatcher: &'a Dispatcher, worker_key: &WorkerKey) -> PollGuard<'a> {
        let wake = Arc::new(Notify::new());
        let number = {
            let mut state = dispatcher.state();
            state.polls_started += 1;
            let number = state.polls_started;
            state.poll_requests.insert(
                number,
                LeasePoll { worker: worker_key.clone(), wake: wake.clone(), woken: false, is_abandoned: false },
            );
            number
        };
        PollGuard { dispatcher, number, wake, _presence: PresenceGuard::begin(dispatcher, worker_key) }
    }
}

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.dispatcher.state();
        if state.poll_requests.remove(&self.number).is_some_and(|poll| poll.woken) {
            state.wake_for_all_queues();
        }
    }
}

/// Marks a worker as present while one of its requests waits.
struct PresenceGuard<'a> {
    dispatcher: &'a Dispatcher,
    worker_key: WorkerKey,
}

impl<'a> PresenceGuard<'a> {
    fn begin(dispatcher: &'a Dispatcher, worker_key: &WorkerKey) -> PresenceGuard<'a> {
        // The worker may have left just now.
        if let Some(worker) = dispatcher.state().workers.get_mut(worker_key) {
            worker.waiting_requests += 1;
        }
        PresenceGuard { dispatcher, worker_key: worker_key.clone() }
    }
}

impl Drop for PresenceGuard<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.dispatcher.state().workers.get_mut(&self.worker_key) {
            worker.waiting_requests = worker.waiting_requests.saturating_sub(1);
            worker.last_seen = Instant::now();
        }
    }
}

/// First segments of the event types that tools of agents publish. A remote worker may run such a tool.
const TOOL_EVENT_PREFIXES: [&str; 2] = ["agent", "coordinator"];

/// First segment of the names of trigger log entries, which readers see beside events.
const TRIGGER_PREFIX: &str = "trigger";

/// Returns whether a type lies in the engine's namespace: it has the same first segment as a type that the engine
/// defines.
pub(crate) fn is_engine_event(kind: &str) -> bool {
    let prefix = first_segment(kind);
    prefix == TRIGGER_PREFIX || EventKind::TYPES.iter().any(|defined| first_segment(defined) == prefix)
}

fn first_segment(kind: &str) -> &str {
    kind.split('.').next().unwrap_or_default()
}

/// Returns whether a remote worker may publish this event of the engine's namespace: it must be an event of an agent's
/// tool, with the fields that its type declares.
fn is_tool_event(kind: &str, data: &Value) -> bool {
    let declared = TOOL_EVENT_PREFIXES.contains(&first_segment(kind)) && EventKind::TYPES.contains(&kind);
    let fields = data.as_map().filter(|_| declared);
    fields.is_some_and(|fields| !matches!(EventKind::new(kind.into(), fields.clone()), EventKind::Other { .. }))
}

/// Maximum length of an event type.
const MAX_TYPE_BYTES: usize = 64;

impl ProgressReport {
    /// Returns the problem of an invalid report. Naming the type `task.progress` explicitly is allowed.
    pub(crate) fn check(&mut self) -> Option<String> {
        if self.r#type.as_deref() == Some(EventKind::TASK_PROGRESS) {
            self.r#type = None;
        }
        let kind = self.r#type.as_deref()?;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        if kind.is_empty() || kind.len() > MAX_TYPE_BYTES || !kind.bytes().all(plain) {
            return Some(format!("`type` must be 1 to {MAX_TYPE_BYTES} of a-z, 0-9, `.`, `_`, `-`"));
        }
        let prefix = first_segment(kind);
        let is_forged = is_engine_event(kind) && !is_tool_event(kind, &self.data);
        is_forged.then(|| format!("types that begin with `{prefix}` are the engine's own"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str, data: Value) -> Option<String> {
        let (worker, run) = ("w".to_owned(), "r".into());
        ProgressReport { worker, run, job: 1, lease_epoch: 1, r#type: Some(kind.to_owned()), data }.check()
    }

    #[test]
    fn a_worker_cannot_publish_an_event_of_the_engine() {
        for defined in EventKind::TYPES.iter().filter(|defined| **defined != EventKind::TASK_PROGRESS) {
            let forged = Value::object([("a", Value::from(1u32))]);
            assert!(problem(defined, forged).is_some(), "{defined}");
        }
        for kind in ["workflow.x", "events.x", "agent.outputx", "coordinator.x", "trigger.fired"] {
            assert!(problem(kind, Value::object([("delta", Value::from("x"))])).is_some(), "{kind}");
        }
    }

    #[test]
    fn a_worker_publishes_its_own_events_and_those_of_agents_tools() {
        assert_eq!(problem("photo.scaled", Value::Null), None);
        assert_eq!(problem("agent.output", Value::object([("delta", Value::from("x"))])), None);
        assert_eq!(problem("task.progress", Value::from(1u32)), None);
    }
}
