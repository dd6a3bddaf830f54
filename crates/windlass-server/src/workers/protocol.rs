//! What workers say, and what they are told.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use windlass_core::{SuspendedOn, EventKind, TaskOutcome};
use windlass_runtime::RemoteLease;

use super::dispatcher::{Dispatcher, LeasePoll, ReportRejection, PendingReport, Stage, State};
use super::queue::JobId;
use super::registry::{Done, WorkerKey};
use super::wire::{LeaseRequest, HeartbeatResponse, HeartbeatRequest, LeaseRef, LeaseResponse, LeasedJob, ProgressReport, ReportOrigin};

/// The longest that a request for jobs is kept waiting.
const MAX_POLL_TIME: Duration = Duration::from_secs(30);

impl Dispatcher {
    /// Jobs for a worker, at most as many as it has slots free. Waits while there are none.
    pub(crate) async fn lease(&self, who: &WorkerKey, token_name: &str, request: &LeaseRequest) -> LeaseResponse {
        let deadline = Instant::now() + Duration::from_millis(request.wait_ms).min(MAX_POLL_TIME);
        {
            let mut state = self.state();
            if state.workers.has_left(who, self.lease) {
                let (lease_ms, heartbeat_ms) = (self.lease_ms(), self.heartbeat_ms());
                return LeaseResponse { jobs: Vec::new(), lease_ms, heartbeat_ms, drain: true };
            }
            state.workers.introduce(who, token_name, request, self.lease);
        }
        let poll = PollGuard::begin(self, who);
        let (jobs, drain) = loop {
            let LeaseBatch { jobs, drain, stops } = self.take(who, request.free, poll.number);
            if !jobs.is_empty() || stops || Instant::now() >= deadline {
                break (jobs, drain);
            }
            tokio::select! {
                () = poll.wake.notified() => {}
                () = sleep_until(deadline) => {}
            }
        };
        LeaseResponse { jobs, lease_ms: self.lease_ms(), heartbeat_ms: self.heartbeat_ms(), drain }
    }

    fn take(&self, who: &WorkerKey, wanted: Option<u32>, poll: u64) -> LeaseBatch {
        let mut guard = self.state();
        let state = &mut *guard;
        if let Some(poll) = state.polls.get_mut(&poll) {
            poll.woken = false;
            if poll.is_abandoned {
                return LeaseBatch { jobs: Vec::new(), drain: false, stops: true };
            }
        }
        if state.workers.has_left(who, self.lease) {
            return LeaseBatch { jobs: Vec::new(), drain: true, stops: true };
        }
        let worker = state.workers.seen(who, self.lease);
        let (drain, closing) = (worker.drain, state.closing);
        let stops = closing || !worker.takes_more();
        let max_jobs = worker.free().min(wanted.map_or(usize::MAX, |wanted| wanted as usize));
        let mut jobs = Vec::new();
        while jobs.len() < max_jobs && !closing {
            let workers = &state.workers;
            let fits = |kind: &_| workers.get(who).is_some_and(|worker| worker.fits(kind));
            let Some(id) = state.queues.pop(fits) else { break };
            jobs.extend(state.assign(&id, who, self.lease));
        }
        LeaseBatch { jobs, drain, stops }
    }

    /// The worker lives, and has these. Waits while there is nothing to tell it.
    pub(crate) async fn heartbeat(&self, who: &WorkerKey, beat: &HeartbeatRequest) -> HeartbeatResponse {
        let deadline = Instant::now() + Duration::from_millis(beat.wait_ms).min(self.lease / 3);
        let wake = {
            let mut state = self.state();
            if state.workers.has_left(who, self.lease) {
                // What it had is for others.
                return HeartbeatResponse { lost: beat.jobs.clone(), drain: true, ..HeartbeatResponse::default() };
            }
            state.workers.seen(who, self.lease).heartbeat_wake.clone()
        };
        let _waiting = PresenceGuard::begin(self, who);
        loop {
            let mut notified = std::pin::pin!(wake.notified());
            // From here on nothing is missed.
            notified.as_mut().enable();
            let (response, closing) = self.process_heartbeat(who, beat);
            if !response.is_empty() || closing || Instant::now() >= deadline {
                return response;
            }
            tokio::select! {
                () = notified => {}
                () = sleep_until(deadline) => {}
            }
        }
    }

    fn process_heartbeat(&self, who: &WorkerKey, beat: &HeartbeatRequest) -> (HeartbeatResponse, bool) {
        let may_rejoin = self.may_rejoin();
        let mut guard = self.state();
        let state = &mut *guard;
        if state.workers.has_left(who, self.lease) {
            return (HeartbeatResponse { lost: beat.jobs.clone(), drain: true, ..HeartbeatResponse::default() }, true);
        }
        let worker = state.workers.seen(who, self.lease);
        let stops = beat.draining && !std::mem::replace(&mut worker.draining, beat.draining);
        let mut response = HeartbeatResponse { drain: worker.drain, ..HeartbeatResponse::default() };
        if stops {
            // Nobody who takes no more is kept waiting.
            state.wake_polls_of(who);
        }
        for lease in &beat.jobs {
            let id = JobId { run: lease.run.clone(), job: lease.job };
            match state.lease_status(&id, lease, who) {
                LeaseStatus::Owned => {
                    let now = Instant::now();
                    let Some(entry) = state.jobs.get_mut(&id) else { continue };
                    if let Stage::Leased(held) = &mut entry.stage {
                        held.expires_at = now + self.lease;
                    }
                    if entry.job.lease_epoch != lease.lease_epoch {
                        // The answer that said so was lost.
                        response.renewed.push(LeaseRef { lease_epoch: entry.job.lease_epoch, ..lease.clone() });
                    }
                    if entry.cancelled {
                        response.cancelled.push(LeaseRef { lease_epoch: entry.job.lease_epoch, ..lease.clone() });
                    }
                }
                LeaseStatus::Reclaimable(lease_epoch) if !state.closing => {
                    state.reclaim(&id, who, self.lease);
                    response.renewed.push(LeaseRef { lease_epoch: epoch: lease_epoch, ..lease.clone() });
                }
                // Its run may not have been brought back yet, or is being let go of with all others.
                LeaseStatus::Unknown if may_rejoin || state.closing => {}
                LeaseStatus::Reclaimable(_) | LeaseStatus::Reporting => {}
                LeaseStatus::Unknown | LeaseStatus::OwnedByOther => response.lost.push(lease.clone()),
            }
        }
        (response, state.closing)
    }

    /// Something to be seen outside. It counts as life.
    pub(crate) fn progress(&self, who: &WorkerKey, progress: &ProgressReport) -> Result<(), ReportRejection> {
        let data = self.redaction.redact_value(&progress.data);
        let mut guard = self.state();
        let state = &mut *guard;
        if state.workers.has_left(who, self.lease) {
            return Err(ReportRejection::Stale);
        }
        state.workers.seen(who, self.lease);
        let id = JobId { run: progress.run.clone(), job: progress.job };
        let entry = state.jobs.get_mut(&id).filter(|entry| entry.job.lease_epoch == progress.lease_epoch).ok_or(ReportRejection::Stale)?;
        let Stage::Leased(held) = &mut entry.stage else { return Err(ReportRejection::Stale) };
        if held.worker != *who {
            return Err(ReportRejection::Stale);
        }
        held.expires_at = Instant::now() + self.lease;
        match progress.r#type.as_deref() {
            None => entry.publish.progress(data),
            Some(kind) => entry.publish.send(kind, data),
        }
        Ok(())
    }

    /// The end of a task. Returns when it is durable, with what comes next under the same lease.
    pub(crate) async fn report(
        &self,
        who: &WorkerKey,
        report: &ReportOrigin,
        outcome: TaskOutcome,
    ) -> Result<Option<LeasedJob>, ReportRejection> {
        let id = JobId { run: report.run.clone(), job: report.job };
        let away = match self.accept_report(who, &id, report.lease_epoch, outcome)? {
            AcceptedReport::Repeated(next) => return Ok(next.map(|job| (*job).clone())),
            AcceptedReport::Now(away) => away,
        };
        let mut handover = ReportHandover { dispatcher: self, id, lease_epoch: report.lease_epoch, is_delivered: false };
        match away.wait_accepted().await {
            Some(true) => Ok(handover.next(who)),
            Some(false) => Err(ReportRejection::Stale),
            None => Err(ReportRejection::ShuttingDown),
        }
    }

    fn accept_report(&self, who: &WorkerKey, id: &JobId, lease_epoch: u32, outcome: TaskOutcome) -> Result<AcceptedReport, ReportRejection> {
        let outcome = self.redact_outcome(outcome);
        let mut guard = self.state();
        let state = &mut *guard;
        if state.workers.has_left(who, self.lease) {
            return Err(ReportRejection::Stale);
        }
        state.workers.seen(who, self.lease);
        let its = state.jobs.get(id).is_some_and(|entry| {
            entry.job.lease_epoch == lease_epoch && matches!(&entry.stage, Stage::Leased(held) if held.worker == *who)
        });
        if !its {
            // While all runs are let go of, a job that is not there is nobody else's either.
            let rejection = if state.closing { ReportRejection::ShuttingDown } else { ReportRejection::Stale };
            return state.find_repeated_report(who, id, lease_epoch).ok_or(rejection);
        }
        let entry = state.jobs.remove(id).ok_or(ReportRejection::Stale)?;
        let (Some(away), Some(result)) = (entry.away, entry.result) else { return Err(ReportRejection::Stale) };
        // It keeps its slot until it knows whether it goes on.
        state.reported.insert(id.clone(), PendingReport { worker: who.clone(), lease_epoch: epoch: lease_epoch, next_epoch: None });
        // A run that has just left this process says so through `away`.
        let _ = result.send(outcome);
        Ok(AcceptedReport::Now(away))
    }

    /// All of it without secrets of this server. A worker has struck out its own.
    fn redact_outcome(&self, mut outcome: TaskOutcome) -> TaskOutcome {
        if self.redaction.is_empty() {
            return outcome;
        }
        let (mut side_outputs, mut suspension) = (outcome.side_outputs.take(), outcome.suspension.take());
        for sent in side_outputs.iter_mut().flat_map(|beside| &mut beside.sends) {
            sent.payload = self.redaction.redact_value(&sent.payload);
        }
        for change in side_outputs.iter_mut().flat_map(|beside| &mut beside.state_changes) {
            change.value = self.redaction.redact_value(&change.value);
        }
        if let Some(SuspendedOn::Checkpoint(value) | SuspendedOn::Child { input: value, .. }) =
            suspension.as_mut().map(|awaits| &mut awaits.waits_for)
        {
            *value = self.redaction.redact_value(value);
        }
        TaskOutcome { side_outputs: beside: side_outputs, suspension: awaits: suspension, ..self.redaction.redact_outcome(outcome) }
    }

    /// The worker goes: all that it has is for others, now.
    pub(crate) fn leave(&self, who: &WorkerKey) {
        let mut state = self.state();
        let held = state.workers.get(who).map(|worker| worker.leased_jobs.clone()).unwrap_or_default();
        let lost: Vec<RemoteLease> = held.iter().filter_map(|id| state.drop_entry(id)?.away).collect();
        state.workers.leave(who);
        drop(state);
        lost.iter().for_each(RemoteLease::revoke);
    }
}

/// What there is for a worker now.
struct LeaseBatch {
    jobs: Vec<LeasedJob>,
    /// Somebody wants it to stop.
    drain: bool,
    /// There will be no more, from this server or for this worker.
    stops: bool,
}

enum AcceptedReport {
    Now(RemoteLease),
    /// It was said before, and the answer was lost.
    Repeated(Option<Arc<LeasedJob>>),
}

/// How a lease that a worker speaks of stands.
enum LeaseStatus {
    Owned,
    /// It waits for a worker, and is what this one has been doing.
    Reclaimable(u32),
    Reporting,
    OwnedByOther,
    Unknown,
}

impl State {
    fn lease_status(&self, id: &JobId, lease: &LeaseRef, who: &WorkerKey) -> LeaseStatus {
        let Some(entry) = self.jobs.get(id) else {
            return match self.reported.get(id).is_some_and(|reported| reported.worker == *who) {
                true => LeaseStatus::Reporting,
                false => LeaseStatus::Unknown,
            };
        };
        let job = &entry.job;
        let same = || {
            lease.lease_epoch < job.lease_epoch
                && lease.idempotency_key.as_deref() == Some(&*job.idempotency_key)
                && lease.attempt.is_none_or(|attempt| attempt == job.attempt)
        };
        match &entry.stage {
            Stage::Leased(held) if held.worker == *who && (lease.lease_epoch == job.lease_epoch || same()) => LeaseStatus::Owned,
            Stage::Leased(held) if held.worker == *who && self.reported.contains_key(id) => LeaseStatus::Reporting,
            Stage::Leased(_) => LeaseStatus::OwnedByOther,
            Stage::Queued(_) | Stage::AwaitingRejoin(_) if same() => LeaseStatus::Reclaimable(job.lease_epoch),
            Stage::Queued(_) | Stage::AwaitingRejoin(_) => LeaseStatus::OwnedByOther,
        }
    }

    /// The worker has been at it all the time, and goes on under the new epoch.
    fn reclaim(&mut self, id: &JobId, who: &WorkerKey, lease: Duration) {
        let Some(entry) = self.jobs.get(id) else { return };
        if let Stage::Queued(place) = entry.stage {
            let kind = entry.kind.clone();
            self.queues.remove(&kind, id, place);
        }
        self.assign(id, who, lease);
    }

    /// The worker has it from now on.
    fn assign(&mut self, id: &JobId, who: &WorkerKey, lease: Duration) -> Option<LeasedJob> {
        let job = self.jobs.get(id)?.job.clone();
        let held = self.lease_to(id, &job, who.clone(), lease);
        let entry = self.jobs.get_mut(id)?;
        entry.stage = Stage::Leased(held);
        entry.changed.notify_one();
        Some((*job).clone())
    }

    fn find_repeated_report(&self, who: &WorkerKey, id: &JobId, lease_epoch: u32) -> Option<AcceptedReport> {
        let done = &self.workers.get(who)?.done;
        let done = done.iter().rev().find(|done| done.id == *id && done.lease_epoch == lease_epoch)?;
        let next = self.jobs.get(id).filter(|entry| {
            Some(entry.job.lease_epoch) == done.next_epoch && matches!(&entry.stage, Stage::Leased(held) if held.worker == *who)
        });
        Some(AcceptedReport::Repeated(next.map(|entry| entry.job.clone())))
    }
}

/// A report on its way to being durable. Whoever waits for the answer may go away: what comes next is for others then.
struct ReportHandover<'a> {
    dispatcher: &'a Dispatcher,
    id: JobId,
    lease_epoch: u32,
    is_delivered: bool,
}

impl ReportHandover<'_> {
    fn next(&mut self, who: &WorkerKey) -> Option<LeasedJob> {
        self.is_delivered = true;
        let mut state = self.dispatcher.state();
        let next_epoch = state.reported.get(&self.id).filter(|reported| reported.lease_epoch == self.lease_epoch)?.next_epoch;
        let entry = state.jobs.get(&self.id).filter(|entry| Some(entry.job.lease_epoch) == next_epoch);
        let job = entry.filter(|entry| matches!(&entry.stage, Stage::Leased(held) if held.worker == *who));
        let job = job.map(|entry| (*entry.job).clone());
        let done = Done { id: self.id.clone(), lease_epoch: self.lease_epoch, next_epoch: job.as_ref().map(|job| job.lease_epoch) };
        state.workers.get_mut(who)?.note(done);
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
        let goes_on = state.jobs.get_mut(&self.id).filter(|entry| Some(entry.job.lease_epoch) == reported.next_epoch);
        match goes_on {
            Some(_) if self.is_delivered => {}
            Some(entry) => {
                // Nobody has heard of it: it keeps its epoch.
                entry.stage = Stage::Queued(state.queues.push_front(&entry.kind, &self.id, entry.queued_at));
                entry.changed.notify_one();
                let kind = entry.kind.clone();
                state.let_go(&self.id, &reported.worker);
                state.wake_one(&kind);
            }
            None => state.let_go(&self.id, &reported.worker),
        }
    }
}

/// A worker that waits for jobs.
struct PollGuard<'a> {
    dispatcher: &'a Dispatcher,
    number: u64,
    wake: Arc<Notify>,
    _presence: PresenceGuard<'a>,
}

impl<'a> PollGuard<'a> {
    fn begin(dispatcher: &'a Dispatcher, who: &WorkerKey) -> PollGuard<'a> {
        let wake = Arc::new(Notify::new());
        let number = {
            let mut state = dispatcher.state();
            state.polls_made += 1;
            let number = state.polls_made;
            state.polls.insert(number, LeasePoll { worker: who.clone(), wake: wake.clone(), woken: false, is_abandoned: false });
            number
        };
        PollGuard { dispatcher, number, wake, _presence: PresenceGuard::begin(dispatcher, who) }
    }
}

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.dispatcher.state();
        if state.polls.remove(&self.number).is_some_and(|poll| poll.woken) {
            state.wake_for_all();
        }
    }
}

/// A worker whose request waits is there.
struct PresenceGuard<'a> {
    dispatcher: &'a Dispatcher,
    who: WorkerKey,
}

impl<'a> PresenceGuard<'a> {
    fn begin(dispatcher: &'a Dispatcher, who: &WorkerKey) -> PresenceGuard<'a> {
        // It may have left just now.
        if let Some(worker) = dispatcher.state().workers.get_mut(who) {
            worker.waiting += 1;
        }
        PresenceGuard { dispatcher, who: who.clone() }
    }
}

impl Drop for PresenceGuard<'_> {
    fn drop(&mut self) {
        if let Some(worker) = self.dispatcher.state().workers.get_mut(&self.who) {
            worker.waiting = worker.waiting.saturating_sub(1);
            worker.seen = Instant::now();
        }
    }
}

/// What nobody but the engine says.
const ENGINE_EVENT_PREFIXES: [&str; 15] = [
    "workflow", "playbook", "run", "step", "task", "loop", "job", "event", "message", "mail", "ctx", "input", "budget",
    "approval", "trigger",
];

/// Whether only the engine tells of such an event.
pub(crate) fn is_engine_event(kind: &str) -> bool {
    ENGINE_EVENT_PREFIXES.contains(&kind.split('.').next().unwrap_or_default())
}

/// Longest type of an event.
const MAX_TYPE_BYTES: usize = 64;

impl ProgressReport {
    /// What is wrong with it, if something is. `task.progress` may be said as such.
    pub(crate) fn problem(&mut self) -> Option<String> {
        if self.r#type.as_deref() == Some(EventKind::TASK_PROGRESS) {
            self.r#type = None;
        }
        let kind = self.r#type.as_deref()?;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        if kind.is_empty() || kind.len() > MAX_TYPE_BYTES || !kind.bytes().all(plain) {
            return Some(format!("`type` must be 1 to {MAX_TYPE_BYTES} of a-z, 0-9, `.`, `_`, `-`"));
        }
        let family = kind.split('.').next().unwrap_or_default();
        is_engine_event(kind).then(|| format!("types that begin with `{family}` are the engine's own"))
    }
}
