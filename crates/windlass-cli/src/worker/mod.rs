//! A worker: takes jobs of a server on another machine and does them with the tools of this one.
//!
//! `client` the way to the server · `task` one job, from its first task to its last.

mod client;
mod task;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::ProcessLimits;
use windlass_runtime::{CancelToken, Tools};
use windlass_server::workers::{
    HeartbeatRequest, HeartbeatResponse, LeaseRef, LeaseRequest, LeaseResponse, LeasedJob, LeaveRequest,
};
use windlass_tools::Redactor;

pub(crate) use client::{ServerClient, ServerRequestError, format_report, read_token};

use crate::failure::{CliExit, CliFailure};
use crate::host::Interrupts;
use crate::out;

/// How long a request for jobs may wait at the server.
const POLL_TIME: Duration = Duration::from_secs(20);
/// What an answer may take beyond that.
const RESPONSE_SLACK: Duration = Duration::from_secs(15);
/// A heartbeat waits for news no longer than this, so that new jobs are soon part of it.
const MAX_HEARTBEAT_WAIT: Duration = Duration::from_secs(2);
/// Between two tries while the server is away.
const BACKOFF: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

pub(crate) struct RemoteWorker {
    client: ServerClient,
    tools: Tools,
    /// What it says of itself.
    poll_request: LeaseRequest,
    /// Struck out of all that it says.
    redaction: Redactor,
    limits: ProcessLimits,
    leases: Mutex<BTreeMap<JobId, Arc<HeldLease>>>,
    /// Something has begun or ended.
    changed: Notify,
    draining: AtomicBool,
    heartbeat_ms: AtomicU64,
}

/// A job of a run.
type JobId = (Arc<str>, u64);

/// A task that is being done, or whose report is on its way.
struct HeldLease {
    key: Arc<str>,
    attempt: u32,
    lease_epoch: AtomicU32,
    /// Nobody wants its result any more.
    cancelled: CancelToken,
    /// It is somebody else's.
    lost: CancelToken,
}

impl RemoteWorker {
    pub(crate) fn new(
        client: ServerClient,
        tools: Tools,
        poll_request: LeaseRequest,
        redaction: Redactor,
        limits: ProcessLimits,
    ) -> RemoteWorker {
        RemoteWorker {
            client,
            tools,
            poll_request,
            redaction,
            limits,
            leases: Mutex::default(),
            changed: Notify::new(),
            draining: AtomicBool::new(false),
            heartbeat_ms: AtomicU64::new(1_000),
        }
    }

    fn leases(&self) -> MutexGuard<'_, BTreeMap<JobId, Arc<HeldLease>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Works until it is told to stop. What it has by then it finishes, as far as the time allows; the rest it gives back.
    pub(crate) async fn run(
        self: Arc<Self>,
        interrupts: &mut Interrupts,
        drain_for: Duration,
    ) -> Result<CliExit, CliFailure> {
        let heartbeats = tokio::spawn(self.clone().send_heartbeats());
        let mut polling = Box::pin(self.clone().take_jobs());
        let mut stopped = tokio::select! {
            result = &mut polling => Some(result),
            () = interrupts.next() => None,
        };
        self.draining.store(true, Ordering::SeqCst);
        self.changed.notify_waiters();
        // Whoever was never let in has nothing to finish.
        let refused = matches!(stopped, Some(Err(_)));
        if !refused {
            let left = self.leases().len();
            out::note(&format!("draining: {left} job(s) left, at most {} s", drain_for.as_secs()));
        }
        let finished = async {
            if stopped.is_none() {
                // The server answers whoever waits, once it knows: nothing is given to nobody.
                let _ = self.heartbeat(Duration::ZERO).await;
                stopped = Some(tokio::time::timeout(MAX_HEARTBEAT_WAIT, &mut polling).await.unwrap_or(Ok(())));
            }
            self.all_ended().await;
        };
        tokio::select! {
            () = finished => {}
            () = tokio::time::sleep(drain_for) => {}
            () = interrupts.next() => {}
        }
        heartbeats.abort();
        let given_back = self.leases().len();
        for lease in self.leases().values() {
            lease.lost.cancel();
        }
        let deregistration = LeaveRequest { worker: self.poll_request.worker.clone() };
        let deregistered: Result<(), ServerRequestError> =
            self.client.post("leave", &deregistration, Duration::from_secs(5)).await;
        if let Err(error @ ServerRequestError::Unreachable(_)) = deregistered {
            out::note(&format!("the server does not hear that this worker goes: {}", describe_error(&error)));
        }
        if !refused {
            out::note(&match given_back {
                0 => "drained: all that was begun is done".to_owned(),
                left => format!("stopped: {left} job(s) given back"),
            });
        }
        stopped.unwrap_or(Ok(())).map(|()| CliExit::Success)
    }

    async fn all_ended(&self) {
        loop {
            let changed = self.changed.notified();
            if self.leases().is_empty() {
                return;
            }
            changed.await;
        }
    }

    /// Asks for as many jobs as it has slots free, again and again.
    async fn take_jobs(self: Arc<Self>) -> Result<(), CliFailure> {
        let (mut backoff, mut unreachable, mut connected) = (Backoff::new(), false, false);
        while !self.is_draining() {
            let changed = self.changed.notified();
            let free = (self.poll_request.slots as usize).saturating_sub(self.leases().len());
            if free == 0 {
                changed.await;
                continue;
            }
            // The first answer comes at once, so that whoever looks on sees that there is a server.
            let wait = if connected && !unreachable { POLL_TIME } else { Duration::ZERO };
            let request =
                LeaseRequest { free: Some(free as u32), wait_ms: wait.as_millis() as u64, ..self.poll_request.clone() };
            match self.client.post::<LeaseResponse>("lease", &request, POLL_TIME + RESPONSE_SLACK).await {
                Ok(leased) => {
                    if unreachable || !connected {
                        out::note(if connected { "the server is back: connected again" } else { "connected" });
                    }
                    (unreachable, connected, backoff) = (false, true, Backoff::new());
                    self.heartbeat_ms.store(leased.heartbeat_ms.max(1), Ordering::SeqCst);
                    leased.jobs.into_iter().for_each(|job| self.start_job(job));
                    if leased.drain {
                        out::note("the server wants this worker to stop");
                        return Ok(());
                    }
                }
                Err(ServerRequestError::Rejected { status, detail, .. }) if !connected => {
                    let failure = CliFailure::usage(format!("the server refuses this worker ({status}): {detail}"));
                    return Err(failure.hint("its token needs the scope `work`"));
                }
                Err(error) => {
                    if !unreachable {
                        let what = match &error {
                            // It was let in before: its token may be given back to it, and its jobs go on.
                            ServerRequestError::Rejected { .. } => "the server refuses this worker now",
                            _ => "the server is away",
                        };
                        out::note(&format!("{what}: {}; trying again", describe_error(&error)));
                    }
                    unreachable = true;
                    backoff.wait().await;
                }
            }
        }
        Ok(())
    }

    fn start_job(self: &Arc<Self>, job: LeasedJob) {
        self.track_lease(&job);
        tokio::spawn(self.clone().work(job));
    }

    fn track_lease(&self, job: &LeasedJob) -> Arc<HeldLease> {
        let lease = Arc::new(HeldLease {
            key: job.idempotency_key.clone(),
            attempt: job.attempt,
            lease_epoch: AtomicU32::new(job.lease_epoch),
            cancelled: CancelToken::uncancelled(),
            lost: CancelToken::uncancelled(),
        });
        self.leases().insert((job.run.clone(), job.job), lease.clone());
        self.changed.notify_waiters();
        lease
    }

    /// Shows life as long as it has jobs.
    async fn send_heartbeats(self: Arc<Self>) {
        let mut backoff = Backoff::new();
        loop {
            let changed = self.changed.notified();
            if self.leases().is_empty() {
                changed.await;
                continue;
            }
            match self.heartbeat(MAX_HEARTBEAT_WAIT).await {
                Ok(no_news) => {
                    backoff = Backoff::new();
                    if !no_news {
                        // It says the same until the job has been reported.
                        let every = Duration::from_millis(self.heartbeat_ms.load(Ordering::SeqCst));
                        tokio::time::sleep(every.min(MAX_HEARTBEAT_WAIT) / 4).await;
                    }
                }
                Err(_) => backoff.wait().await,
            }
        }
    }

    /// One sign of life, and what the server says to it. True: nothing.
    async fn heartbeat(&self, max_wait: Duration) -> Result<bool, ServerRequestError> {
        let lease = |((run, job), held_lease): (&JobId, &Arc<HeldLease>)| LeaseRef {
            run: run.clone(),
            job: *job,
            lease_epoch: held_lease.lease_epoch.load(Ordering::SeqCst),
            idempotency_key: Some(held_lease.key.to_string()),
            attempt: Some(held_lease.attempt),
        };
        let jobs = self.leases().iter().map(lease).collect();
        let every = Duration::from_millis(self.heartbeat_ms.load(Ordering::SeqCst));
        let wait_ms = max_wait.min(every).as_millis() as u64;
        let beat =
            HeartbeatRequest { worker: self.poll_request.worker.clone(), jobs, draining: self.is_draining(), wait_ms };
        let response: HeartbeatResponse = self.client.post("heartbeat", &beat, every + RESPONSE_SLACK).await?;
        let leases = self.leases();
        let find_lease = |lease: &LeaseRef| {
            let held_lease = leases.get(&(lease.run.clone(), lease.job))?;
            // By now it may be another task of the same job.
            lease.idempotency_key.as_deref().is_none_or(|key| *held_lease.key == *key).then_some(held_lease)
        };
        for lease in &response.renewed {
            if let Some(held_lease) = find_lease(lease) {
                held_lease.lease_epoch.store(lease.lease_epoch, Ordering::SeqCst);
            }
        }
        response.cancelled.iter().filter_map(find_lease).for_each(|lease| lease.cancelled.cancel());
        response.lost.iter().filter_map(find_lease).for_each(|lease| lease.lost.cancel());
        if response.drain && !self.draining.swap(true, Ordering::SeqCst) {
            out::note("the server wants this worker to stop");
            self.changed.notify_waiters();
        }
        Ok(response.lost.is_empty() && response.cancelled.is_empty() && response.renewed.is_empty())
    }
}

fn describe_error(error: &ServerRequestError) -> String {
    match error {
        ServerRequestError::Unreachable(why) => why.clone(),
        ServerRequestError::StaleLease => "it refuses the job's epoch".to_owned(),
        ServerRequestError::Rejected { status, detail, .. } => format!("{detail} ({status})"),
    }
}

/// Waits longer each time.
struct Backoff(Duration);

impl Backoff {
    fn new() -> Backoff {
        Backoff(BACKOFF[0])
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(BACKOFF[1]);
    }
}
