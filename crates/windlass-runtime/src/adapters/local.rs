//! The innermost adapter: workers in this process, a mailbox, a clock. Alone it runs a workflow in memory; with a
//! virtual clock it runs six hours of polling in milliseconds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot};
use windlass_core::{Event, Job, State, Tick, TickKind, TickOutput};
use windlass_value::{BlobHash, Duration, Timestamp, Value};

use crate::RuntimeError;
use crate::adapter::{
    Adapter, ChildStart, Children, FinalizedJob, Journal, NextInput, Outward, TickSource, TimeSource, WaitCondition,
    Workers,
};
use crate::blobs::BlobCache;
use crate::clock::Clock;
use crate::codec;
use crate::concerns;
use crate::engine::EventFeed;
use crate::engine_clock::EngineClock;
use crate::workers::RunWorkers;

/// The maximum number of ticks taken in one batch; the rest stays queued.
const TICK_BATCH_SIZE: usize = 1_024;

/// The interval at which a waiting run checks its timer against the clock: the maximum delay after the clock was set
/// forward or the machine has slept.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// A message to a run in memory.
#[derive(Debug)]
pub enum RunMessage {
    /// Input for the reducer.
    Tick(Box<TickKind>),
    /// There may be messages in the store.
    Inbox,
    /// A caller requests the encoded state.
    Snapshot(oneshot::Sender<Vec<u8>>),
    /// The run leaves memory if it only waits.
    Evict,
    /// Running tasks may end; no new task is started, and then the run leaves memory.
    Drain,
    /// The run leaves memory between two ticks, without waiting for running tasks.
    Close,
}

/// The sender of a run's messages. It is closed when the run has left memory.
#[derive(Clone, Debug)]
pub struct RunMailbox {
    sender: mpsc::UnboundedSender<RunMessage>,
    /// The run has yet to take its last notification of messages in the store; another one would tell it nothing more.
    inbox_notified: Arc<AtomicBool>,
}

impl RunMailbox {
    /// Creates a mailbox and its receiver.
    pub fn channel() -> (RunMailbox, mpsc::UnboundedReceiver<RunMessage>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (RunMailbox { sender, inbox_notified: Arc::default() }, receiver)
    }

    /// Sends a message. A run that has left memory needs none.
    pub fn send(&self, message: RunMessage) {
        let _ = self.sender.send(message);
    }

    /// Notifies the run that the store may hold messages for it, at most once until the run has looked.
    pub fn notify_inbox(&self) {
        if !self.inbox_notified.swap(true, Ordering::SeqCst) {
            self.send(RunMessage::Inbox);
        }
    }

    /// Reports whether both belong to the same stay of a run in memory.
    pub fn same_channel(&self, other: &RunMailbox) -> bool {
        self.sender.same_channel(&other.sender)
    }

    /// Waits until the run has left memory.
    pub async fn closed(&self) {
        self.sender.closed().await;
    }
}

/// An adapter with workers of this process, a mailbox and a clock; see the module documentation.
pub struct LocalAdapter {
    clock: Clock,
    wall: EngineClock,
    /// The offset of the wall clock up to which its steps are part of ticks.
    clock_offset: i64,
    entropy: u64,
    mail: mpsc::UnboundedReceiver<RunMessage>,
    mailbox: RunMailbox,
    reports: mpsc::UnboundedReceiver<TickKind>,
    workers: RunWorkers,
    feed: Option<Arc<EventFeed>>,
    /// The store's inbox is to be read even without a notification.
    inbox_check_pending: bool,
    /// A message that arrived after the worker reports of the same poll.
    postponed: Option<RunMessage>,
    /// The process shuts down as soon as its running tasks have ended. Shared by all runs of the process, since a
    /// worker report may be taken before the message that announces the shutdown.
    draining: Arc<AtomicBool>,
    /// Values of a run that has no store.
    blobs: BTreeMap<BlobHash, Vec<u8>>,
}

impl LocalAdapter {
    /// Creates the adapter of one run. `seed` is the entropy of the first tick; `workers` send their reports to
    /// `reports`.
    pub fn new(
        clock: Clock,
        seed: u64,
        mail: (RunMailbox, mpsc::UnboundedReceiver<RunMessage>),
        reports: mpsc::UnboundedReceiver<TickKind>,
        workers: RunWorkers,
    ) -> LocalAdapter {
        let (mailbox, mail) = mail;
        let blobs = BTreeMap::new();
        let (feed, inbox_check_pending, postponed, draining) = (None, false, None, Arc::default());
        let wall = EngineClock::default();
        let clock_offset = wall.offset();
        LocalAdapter {
            clock,
            wall,
            clock_offset,
            entropy: seed,
            mail,
            mailbox,
            reports,
            workers,
            feed,
            inbox_check_pending,
            postponed,
            draining,
            blobs,
        }
    }

    /// Uses the engine's clock. `offset` is the one under which the run's timers were set.
    #[must_use]
    pub(crate) fn with_clock(self, wall: EngineClock, offset: i64) -> LocalAdapter {
        LocalAdapter { wall, clock_offset: offset, ..self }
    }

    fn now(&self) -> Timestamp {
        self.clock.at(self.wall.now())
    }

    /// The clock was set, and no tick has moved the timers yet.
    fn was_clock_set(&self) -> bool {
        self.wall.offset() != self.clock_offset
    }

    /// Reads the inbox first: messages may have arrived while the run was not in memory.
    #[must_use]
    pub(crate) fn checking_inbox_first(self) -> LocalAdapter {
        LocalAdapter { inbox_check_pending: true, ..self }
    }

    /// Uses the engine's draining flag: when it is set, no new task is started.
    #[must_use]
    pub(crate) fn with_draining_flag(self, draining: Arc<AtomicBool>) -> LocalAdapter {
        LocalAdapter { draining, ..self }
    }

    /// Publishes the run's events to this feed.
    #[must_use]
    pub(crate) fn with_feed(self, feed: Arc<EventFeed>) -> LocalAdapter {
        LocalAdapter { feed: Some(feed), ..self }
    }

    /// Returns the input that is already available: worker reports, then external input. A run whose workers report
    /// continuously still receives its messages.
    fn poll_ready(&mut self) -> Option<NextInput> {
        if std::mem::take(&mut self.inbox_check_pending) {
            return Some(NextInput::Inbox);
        }
        if let Some(mail) = self.postponed.take() {
            return Some(self.handle_message(mail));
        }
        let Ok(report) = self.reports.try_recv() else {
            let mail = self.mail.try_recv().ok()?;
            return Some(self.handle_message(mail));
        };
        let ticks = self.drain_reports(report);
        self.postponed = self.mail.try_recv().ok();
        Some(NextInput::Ticks(ticks))
    }

    async fn wait(&mut self, until: Option<Timestamp>) -> NextInput {
        loop {
            let moved = self.wall.moved();
            if until.is_some() && self.was_clock_set() {
                return NextInput::Timer;
            }
            let now = self.now();
            let check = (self.workers.in_flight() > 0).then(|| now + self.workers.lease_check_interval());
            // The clock may be set forward or the machine may have slept, and a running sleep does not notice.
            let again = until.map(|_| now + CLOCK_CHECK_INTERVAL);
            let wake = [until, check, again].into_iter().flatten().min();
            let sleep = async {
                match wake {
                    Some(at) => tokio::time::sleep(at.since(now).to_std()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(report) = self.reports.recv() => return NextInput::Ticks(self.drain_reports(report)),
                mail = self.mail.recv() => return mail.map_or(NextInput::Closed, |mail| self.handle_message(mail)),
                () = sleep => {}
                () = moved => continue,
            }
            if until.is_some_and(|at| at <= self.now()) {
                return NextInput::Timer;
            }
            let lost = self.workers.expire_leases();
            if !lost.is_empty() {
                return NextInput::Ticks(lost);
            }
        }
    }

    /// Returns a report and those that have arrived after it, up to one batch.
    fn drain_reports(&mut self, first: TickKind) -> Vec<TickKind> {
        let mut ticks = vec![first];
        while ticks.len() < TICK_BATCH_SIZE
            && let Ok(report) = self.reports.try_recv()
        {
            ticks.push(report);
        }
        ticks
    }

    fn handle_message(&mut self, mail: RunMessage) -> NextInput {
        match mail {
            RunMessage::Tick(tick) => NextInput::Ticks(vec![*tick]),
            RunMessage::Inbox => {
                self.mailbox.inbox_notified.store(false, Ordering::SeqCst);
                NextInput::Inbox
            }
            RunMessage::Snapshot(reply) => NextInput::Snapshot(reply),
            RunMessage::Evict => NextInput::Evict,
            RunMessage::Drain => {
                self.draining.store(true, Ordering::SeqCst);
                if self.is_drained() { NextInput::Closed } else { NextInput::Nothing }
            }
            RunMessage::Close => NextInput::Closed,
        }
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// No task runs here, and all reports have been taken.
    fn is_drained(&self) -> bool {
        self.is_draining() && !self.workers.has_local_work() && self.reports.is_empty()
    }
}

impl Adapter for LocalAdapter {
    concerns!(own: time, ticks, journal, workers, children, outward);

    async fn close(&mut self) {
        self.mail.close();
    }
}

impl TimeSource for LocalAdapter {
    fn get_now(&mut self) -> Timestamp {
        self.now()
    }

    fn take_clock_step(&mut self) -> i64 {
        let before = std::mem::replace(&mut self.clock_offset, self.wall.offset());
        self.clock_offset.saturating_sub(before)
    }

    fn clock_offset(&mut self) -> i64 {
        self.clock_offset
    }

    fn entropy(&mut self) -> u64 {
        // A Weyl sequence: the reducer mixes it.
        self.entropy = self.entropy.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.entropy
    }
}

impl TickSource for LocalAdapter {
    async fn wait_receive(&mut self) -> NextInput {
        self.mail.recv().await.map_or(NextInput::Closed, |mail| self.handle_message(mail))
    }

    async fn wait_for_next_task(&mut self, waiting: WaitCondition) -> NextInput {
        if !self.reports.is_empty() {
            // A run that is always busy yields to other tasks. It yields before anything is taken, so that nothing is
            // lost when the caller drops this future.
            tokio::task::consume_budget().await;
        }
        if self.is_drained() {
            return NextInput::Closed;
        }
        if let Some(next) = self.poll_ready() {
            return next;
        }
        if waiting.poll {
            return NextInput::Nothing;
        }
        if waiting.idle_event_pending {
            return NextInput::Timer;
        }
        if let Some(at) = waiting.until {
            let alone = self.workers.in_flight() == 0 && !waiting.children && !waiting.paused;
            if at <= self.now() || (alone && self.clock.skip_from(self.wall.now(), at)) {
                return NextInput::Timer;
            }
        }
        // Boxed: the waiting future is large, and most of the time input is available.
        Box::pin(self.wait(waiting.until)).await
    }

    fn has_pending_input(&mut self, buffered: bool) -> bool {
        buffered || self.postponed.is_some() || !self.mail.is_empty()
    }

    fn send_event(&mut self, tick: TickKind) {
        self.mailbox.send(RunMessage::Tick(Box::new(tick)));
    }
}

impl Journal for LocalAdapter {
    fn on_tick(&mut self, _tick: &Tick, _output: &TickOutput, _state: &State) {}

    async fn flush(&mut self, _state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        self.blobs.extend(blobs.take_fresh());
        Ok(())
    }

    async fn load_blob(&mut self, hash: &BlobHash) -> Result<Option<Value>, RuntimeError> {
        let Some(bytes) = self.blobs.get(hash) else { return Ok(None) };
        codec::blob_value(hash, bytes).map(Some)
    }

    async fn evict(&mut self, _state: &State, _blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        Ok(())
    }
}

impl Workers for LocalAdapter {
    fn run_worker(&mut self, job: Job, input: Value) {
        // A task that is not started here is started under the same key by the process that resumes the run.
        if !self.is_draining() {
            self.workers.run(job, input);
        }
    }

    fn cancel_worker(&mut self, job: u64) {
        self.workers.cancel(job);
    }

    fn finalize_step(&mut self, step: FinalizedJob) {
        self.workers.finalize(step);
    }

    fn on_commit_applied(&mut self) {
        self.workers.acknowledge();
    }
}

impl Children for LocalAdapter {
    fn start_child(&mut self, child: ChildStart) {
        let error = windlass_core::ErrorInfo::new(
            "NoChildren",
            "tool",
            "an in-memory run without an engine cannot start child runs",
        );
        let outcome = windlass_core::TaskOutcome::failure(error);
        self.send_event(TickKind::CallResult { call: child.call, status: windlass_core::Status::Failed, outcome });
    }

    fn cancel_child(&mut self, _child: &str) {}
}

impl Outward for LocalAdapter {
    fn write_to_event_stream(&mut self, event: Event) {
        if let Some(feed) = &self.feed {
            feed.publish(event);
        }
    }
}
