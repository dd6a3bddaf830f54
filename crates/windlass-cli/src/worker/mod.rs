//! A remote worker: leases jobs from a server on another machine and runs them with the tools of this one.
//!
//! `client`: HTTP client of the server; `task`: one job, from its first task to its last.

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
    DeregisterRequest, HeartbeatRequest, HeartbeatResponse, LeaseRef, LeaseRequest, LeaseResponse, LeasedJob,
};
use windlass_tools::{KnownSecrets, Redactor};

pub(crate) use client::{ServerClient, ServerRequestError, accepted_certificates, format_report, read_token};

use crate::failure::{CliExit, CliFailure, codes};
use crate::host::Interrupts;
use crate::out;

/// Time that a request for jobs may wait at the server.
const POLL_TIME: Duration = Duration::from_secs(20);
/// Additional time allowed for the response.
const RESPONSE_SLACK: Duration = Duration::from_secs(15);
/// Maximum time that a heartbeat waits for news, so that the next one soon includes new jobs.
const MAX_HEARTBEAT_WAIT: Duration = Duration::from_secs(2);
/// Minimum and maximum delay between attempts while the server is unreachable.
const BACKOFF: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];

pub(crate) struct RemoteWorker {
    client: ServerClient,
    tools: Tools,
    /// Secrets that its tools redact; those that come with jobs are added.
    known_secrets: KnownSecrets,
    /// The worker's description of itself, sent with each poll.
    poll_request: LeaseRequest,
    /// Redacted from everything that the worker sends.
    redaction: Redactor,
    limits: ProcessLimits,
    leases: Mutex<BTreeMap<JobId, Arc<HeldLease>>>,
    /// Notified when a job starts or ends.
    changed: Notify,
    draining: AtomicBool,
    heartbeat_ms: AtomicU64,
}

/// The run and the number of a job.
type JobId = (Arc<str>, u64);

/// The lease of a task that is running or whose report is on its way.
struct HeldLease {
    key: Arc<str>,
    attempt: u32,
    lease_epoch: AtomicU32,
    /// The task was cancelled: its result is no longer needed.
    cancelled: CancelToken,
    /// The lease is lost: another worker has the job.
    lost: CancelToken,
}

impl RemoteWorker {
    pub(crate) fn new(
        client: ServerClient,
        (tools, known_secrets): (Tools, KnownSecrets),
        poll_request: LeaseRequest,
        redaction: Redactor,
        limits: ProcessLimits,
    ) -> RemoteWorker {
        RemoteWorker {
            client,
            tools,
            known_secrets,
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

    /// Works until it is stopped. Then it finishes its jobs as far as the drain time allows, and returns the rest to
    /// the server.
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
        // A worker that was never accepted has nothing to finish.
        let refused = matches!(stopped, Some(Err(_)));
        if !refused {
            let left = self.leases().len();
            out::note(&format!("draining: {left} job(s) left, at most {} s", drain_for.as_secs()));
        }
        let finished = async {
            if stopped.is_none() {
                // The heartbeat ends the worker's waiting poll, so that the server assigns no job to it.
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
        let deregistration = DeregisterRequest { worker: self.poll_request.worker.clone() };
        let deregistered: Result<(), ServerRequestError> =
            self.client.post("deregister", &deregistration, Duration::from_secs(5)).await;
        if let Err(error @ ServerRequestError::Unreachable(_)) = deregistered {
            out::note(&format!("could not deregister this worker: {}", describe_error(&error)));
        }
        if !refused {
            out::note(&match given_back {
                0 => "drained: all jobs are done".to_owned(),
                left => format!("stopped: {left} job(s) returned to the server"),
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

    /// Polls for as many jobs as there are free slots, until the worker drains.
    async fn take_jobs(self: Arc<Self>) -> Result<(), CliFailure> {
        let (mut backoff, mut unreachable, mut connected) = (Backoff::new(), false, false);
        while !self.is_draining() {
            let changed = self.changed.notified();
            let free = (self.poll_request.slots as usize).saturating_sub(self.leases().len());
            if free == 0 {
                changed.await;
                continue;
            }
            // The first poll returns immediately, to show that the server responds.
            let wait = if connected && !unreachable { POLL_TIME } else { Duration::ZERO };
            let request =
                LeaseRequest { free: Some(free as u32), wait_ms: wait.as_millis() as u64, ..self.poll_request.clone() };
            match self.client.post::<LeaseResponse>("lease", &request, POLL_TIME + RESPONSE_SLACK).await {
                Ok(leased) => {
                    if unreachable || !connected {
                        out::note(if connected { "connected again" } else { "connected" });
                    }
                    (unreachable, connected, backoff) = (false, true, Backoff::new());
                    self.heartbeat_ms.store(leased.heartbeat_ms.max(1), Ordering::SeqCst);
                    leased.jobs.into_iter().for_each(|job| self.start_job(job));
                    if leased.drain {
                        out::note("the server asked this worker to drain");
                        return Ok(());
                    }
                }
                Err(ServerRequestError::Rejected { status, detail, .. }) if !connected => {
                    let failure = CliFailure::usage(format!("the server rejects this worker ({status}): {detail}"))
                        .code(codes::TOKEN_REJECTED);
                    return Err(failure.hint("its token needs the scope `work`"));
                }
                Err(error) => {
                    if !unreachable {
                        let what = match &error {
                            // It was accepted before: its token may become valid again, and its jobs continue.
                            ServerRequestError::Rejected { .. } => "the server now rejects this worker",
                            _ => "the server is unreachable",
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

    /// Sends heartbeats as long as there are jobs.
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
                        // The server repeats its news until the job has been reported.
                        let every = Duration::from_millis(self.heartbeat_ms.load(Ordering::SeqCst));
                        tokio::time::sleep(every.min(MAX_HEARTBEAT_WAIT) / 4).await;
                    }
                }
                Err(_) => backoff.wait().await,
            }
        }
    }

    /// Sends one heartbeat and applies the response. Returns true if the response had no news.
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
            out::note("the server asked this worker to drain");
            self.changed.notify_waiters();
        }
        Ok(response.lost.is_empty() && response.cancelled.is_empty() && response.renewed.is_empty())
    }
}

fn describe_error(error: &ServerRequestError) -> String {
    match error {
        ServerRequestError::Unreachable(why) => why.clone(),
        ServerRequestError::StaleLease => "it rejects the job's lease epoch".to_owned(),
        ServerRequestError::Rejected { status, detail, .. } => format!("{detail} ({status})"),
    }
}

/// A delay that doubles with each attempt, up to a maximum.
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
