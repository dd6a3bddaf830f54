//! Group commit: one thread takes all waiting batches, commits them in one transaction and replies to every caller.
//!
//! The writer never delays a batch to collect more. A lone batch is committed immediately; batches that arrive
//! during that commit form the next group. A caller that may block can avoid both thread switches with
//! `submit_inline`.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, ThreadId};

use tracing::{error, trace_span, warn};

use crate::{BatchVerdict, RunBatch, StoreError, StoreErrorKind, StoreWrite};

/// Receives the verdict on the committing thread, so it must return quickly.
pub type CommitReply = Box<dyn FnOnce(Result<BatchVerdict, StoreError>) + Send>;

/// Called around every commit, on the thread that commits.
pub type CommitHook = Box<dyn FnMut(CommitPoint) + Send>;

/// A moment of a commit, passed to a [`CommitHook`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitPoint {
    /// The number of the commit of this writer, counted from 1.
    pub number: u64,
    /// Before the store is called, or after it has answered.
    pub when: CommitMoment,
}

/// The side of a commit on which a hook is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitMoment {
    /// Nothing of the group is written yet.
    Before,
    /// The store has answered; the callers have not been notified yet.
    After,
}

/// Limits of a [`GroupWriter`]: the size of one commit, and of the queue in front of it.
#[derive(Clone, Copy, Debug)]
pub struct WriterLimits {
    /// Upper limits for one commit.
    pub max_group_batches: usize,
    /// Maximum number of bytes in one commit. A larger batch is committed alone.
    pub max_group_bytes: usize,
    /// Backpressure: amount of waiting data at which `submit` blocks.
    pub max_queue_batches: usize,
    /// Number of waiting bytes at which `submit` blocks.
    pub max_queue_bytes: usize,
}

impl Default for WriterLimits {
    fn default() -> WriterLimits {
        WriterLimits {
            max_group_batches: 512,
            max_group_bytes: 8 * 1024 * 1024,
            max_queue_batches: 8_192,
            max_queue_bytes: 64 * 1024 * 1024,
        }
    }
}

/// Commits the batches of many runs in groups, each group in one transaction; see the module documentation.
pub struct GroupWriter {
    shared: Arc<WriterShared>,
    thread: Option<JoinHandle<()>>,
    thread_id: ThreadId,
}

struct WriterShared {
    queue: Mutex<BatchQueue>,
    /// Signals that a batch has arrived, or that none will arrive any more.
    arrived: Condvar,
    /// Signals that the queue has room again.
    room_available: Condvar,
    limits: WriterLimits,
    committer: Mutex<Committer>,
    commits: AtomicU64,
    batches: AtomicU64,
    latency: LatencyCounts,
}

/// Upper bounds of the buckets in microseconds; commits that took longer are counted in `longer`.
const LATENCY_BOUNDS_US: [u64; 10] = [200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 200_000, 1_000_000];

#[derive(Default)]
struct LatencyCounts {
    buckets: [AtomicU64; LATENCY_BOUNDS_US.len()],
    longer: AtomicU64,
    sum_us: AtomicU64,
}

/// Histogram of commit durations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitLatency {
    /// Upper bound in seconds, and the number of commits between the previous bound and this one. The last bound is
    /// infinite.
    pub buckets: Vec<(f64, u64)>,
    /// The number of commits in all buckets.
    pub count: u64,
    /// The total duration of all commits.
    pub sum_seconds: f64,
}

impl LatencyCounts {
    fn add(&self, took: std::time::Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX / 2);
        let bucket = LATENCY_BOUNDS_US.iter().position(|bound| us <= *bound);
        bucket.map_or(&self.longer, |bucket| &self.buckets[bucket]).fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct BatchQueue {
    waiting: VecDeque<PendingBatch>,
    bytes: usize,
    /// The thread that has taken a group and not finished it, replies included: this keeps replies in commit order.
    committing: Option<ThreadId>,
    closed: bool,
    /// The reason why the thread has ended, if it has.
    stopped: Option<StoreError>,
}

struct PendingBatch {
    batch: RunBatch,
    reply: CommitReply,
    bytes: usize,
}

impl GroupWriter {
    /// Starts a writer with the default limits and without a hook. Fails if its thread cannot be started.
    pub fn new(store: Arc<dyn StoreWrite>) -> Result<GroupWriter, StoreError> {
        GroupWriter::with_limits(store, WriterLimits::default(), None)
    }

    /// Starts a writer with these limits; `hook` is called before and after every commit.
    pub fn with_limits(
        store: Arc<dyn StoreWrite>,
        limits: WriterLimits,
        hook: Option<CommitHook>,
    ) -> Result<GroupWriter, StoreError> {
        let shared = Arc::new(WriterShared {
            queue: Mutex::default(),
            arrived: Condvar::new(),
            room_available: Condvar::new(),
            limits,
            committer: Mutex::new(Committer { store, hook, number: 0 }),
            commits: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            latency: LatencyCounts::default(),
        });
        let working = shared.clone();
        let thread = std::thread::Builder::new().name("windlass-writer".to_owned()).spawn(move || working.run_thread());
        let thread = thread.map_err(|error| {
            StoreError::new(StoreErrorKind::Stopped, format!("Could not start the writer thread: {error}."))
        })?;
        Ok(GroupWriter { shared, thread_id: thread.thread().id(), thread: Some(thread) })
    }

    /// Queues a batch; batches are committed in order of arrival.
    ///
    /// Blocks while the queue is full (backpressure: callers must not compute what cannot be written). A reply may
    /// submit again and is never blocked.
    pub fn submit(&self, batch: RunBatch, reply: CommitReply) {
        self.submit_many(vec![(batch, reply)]);
    }

    /// Queues several batches contiguously, with no other batch in between.
    pub fn submit_many(&self, batches: Vec<(RunBatch, CommitReply)>) {
        let mut queue = self.shared.queue();
        let is_in_reply = queue.committing == Some(std::thread::current().id());
        while !is_in_reply && self.shared.is_full(&queue) && queue.stopped.is_none() {
            queue = self.shared.room_available.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        self.shared.hand_over(queue, batches);
    }

    /// Commits the batch on the calling thread if the writer is idle; otherwise queues it.
    ///
    /// For a lone run this takes no longer than the commit itself. The caller must be allowed to block for a sync.
    pub fn submit_inline(&self, batch: RunBatch, reply: CommitReply) {
        let mut queue = self.shared.queue();
        let idle = queue.waiting.is_empty() && queue.committing.is_none() && queue.stopped.is_none();
        if !idle {
            drop(queue);
            return self.submit(batch, reply);
        }
        queue.committing = Some(std::thread::current().id());
        drop(queue);
        self.shared.commit(vec![PendingBatch { bytes: 0, batch, reply }]);
    }

    /// Queues a batch, or returns it to the caller instead of blocking.
    pub fn try_submit(&self, batch: RunBatch, reply: CommitReply) -> Result<(), Box<(RunBatch, CommitReply)>> {
        let queue = self.shared.queue();
        if self.shared.is_full(&queue) && queue.stopped.is_none() {
            return Err(Box::new((batch, reply)));
        }
        self.shared.hand_over(queue, vec![(batch, reply)]);
        Ok(())
    }

    /// The number of commits requested from the store.
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }

    /// The histogram of commit durations.
    pub fn latency(&self) -> CommitLatency {
        let counts = &self.shared.latency;
        let bounds = LATENCY_BOUNDS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
        let each = counts.buckets.iter().chain([&counts.longer]).map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(each).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        CommitLatency { buckets, count, sum_seconds: counts.sum_us.load(Ordering::Relaxed) as f64 / 1e6 }
    }

    /// The number of batches in those commits.
    pub fn batches(&self) -> u64 {
        self.shared.batches.load(Ordering::Relaxed)
    }
}

/// Commits everything that was submitted before the writer ends.
impl Drop for GroupWriter {
    fn drop(&mut self) {
        self.shared.queue().closed = true;
        self.shared.arrived.notify_one();
        if let Some(thread) = self.thread.take().filter(|_| std::thread::current().id() != self.thread_id) {
            // The callers have already received the panic as an error; there is nothing left to report.
            let _ = thread.join();
        }
    }
}

impl WriterShared {
    fn queue(&self) -> MutexGuard<'_, BatchQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_full(&self, queue: &BatchQueue) -> bool {
        queue.waiting.len() >= self.limits.max_queue_batches || queue.bytes >= self.limits.max_queue_bytes
    }

    fn hand_over(&self, mut queue: MutexGuard<'_, BatchQueue>, batches: Vec<(RunBatch, CommitReply)>) {
        if let Some(stopped) = queue.stopped.clone() {
            drop(queue);
            batches.into_iter().for_each(|(_, reply)| send_reply(reply, Err(StoreError::stopped_by(&stopped))));
            return;
        }
        queue.push(batches);
        drop(queue);
        self.arrived.notify_one();
    }

    fn run_thread(&self) {
        while let Some(group) = self.next_group() {
            self.commit(group);
        }
    }

    /// Waits for work. Returns `None` when there will be no more.
    fn next_group(&self) -> Option<Vec<PendingBatch>> {
        let mut queue = self.queue();
        while queue.committing.is_some() || (queue.waiting.is_empty() && !queue.closed && queue.stopped.is_none()) {
            queue = self.arrived.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let group = queue.take_group(&self.limits);
        queue.committing = (!group.is_empty()).then(|| std::thread::current().id());
        drop(queue);
        self.room_available.notify_all();
        (!group.is_empty()).then_some(group)
    }

    /// Commits a group. The caller must have set `committing`.
    fn commit(&self, group: Vec<PendingBatch>) {
        let (batches, replies): (Vec<_>, Vec<_>) =
            group.into_iter().map(|waiting| (waiting.batch, waiting.reply)).unzip();
        let count = batches.len() as u64;
        let span = trace_span!("commit", batches = count);
        let _entered = span.enter();
        let mut committer = self.committer.lock().unwrap_or_else(PoisonError::into_inner);
        let began = std::time::Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| committer.commit(batches)));
        drop(committer);
        self.latency.add(began.elapsed());
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.batches.fetch_add(count, Ordering::Relaxed);
        let has_panicked = outcome.is_err();
        match &outcome {
            Ok(Ok(_)) => {}
            Ok(Err(failed)) => warn!(batches = count, error = %failed, "commit failed"),
            Err(_) => error!(batches = count, "commit panicked"),
        }
        send_replies(replies, outcome.unwrap_or_else(|_| Err(panic_error())));
        if has_panicked {
            self.stop(&panic_error());
        }
        self.finish_commit();
    }

    /// Ends a commit. Wakes the writer thread only if there is work: for a lone run the wake-up would cost more than
    /// everything else.
    fn finish_commit(&self) {
        let mut queue = self.queue();
        queue.committing = None;
        let is_work_left = !queue.waiting.is_empty() || queue.closed || queue.stopped.is_some();
        drop(queue);
        if is_work_left {
            self.arrived.notify_one();
        }
    }

    /// Stops the writer after a panic: the state of the store is unknown, so every current and later caller gets an
    /// error.
    fn stop(&self, error: &StoreError) {
        let mut queue = self.queue();
        queue.stopped = Some(error.clone());
        queue.bytes = 0;
        let left: Vec<PendingBatch> = queue.waiting.drain(..).collect();
        drop(queue);
        self.room_available.notify_all();
        for waiting in left {
            send_reply(waiting.reply, Err(StoreError::stopped_by(error)));
        }
    }
}

impl BatchQueue {
    fn push(&mut self, batches: Vec<(RunBatch, CommitReply)>) {
        for (batch, reply) in batches {
            let bytes = batch.size_bytes();
            self.bytes += bytes;
            self.waiting.push_back(PendingBatch { batch, reply, bytes });
        }
    }

    /// Takes the next group: at least one batch, however large it is.
    fn take_group(&mut self, limits: &WriterLimits) -> Vec<PendingBatch> {
        let (mut count, mut bytes) = (0, 0);
        for waiting in self.waiting.iter().take(limits.max_group_batches) {
            if count > 0 && bytes + waiting.bytes > limits.max_group_bytes {
                break;
            }
            count += 1;
            bytes += waiting.bytes;
        }
        self.bytes -= bytes;
        self.waiting.drain(..count).collect()
    }
}

struct Committer {
    store: Arc<dyn StoreWrite>,
    hook: Option<CommitHook>,
    number: u64,
}

impl Committer {
    fn commit(&mut self, batches: Vec<RunBatch>) -> Result<Vec<BatchVerdict>, StoreError> {
        let count = batches.len();
        self.number += 1;
        self.call_hook(CommitMoment::Before);
        let outcome = self.store.append(batches);
        self.call_hook(CommitMoment::After);
        outcome.and_then(|verdicts| match verdicts.len() == count {
            true => Ok(verdicts),
            false => {
                let message = format!("The store returned {} verdicts for {count} batches.", verdicts.len());
                Err(StoreError::new(StoreErrorKind::Damaged, message))
            }
        })
    }

    fn call_hook(&mut self, when: CommitMoment) {
        if let Some(hook) = &mut self.hook {
            hook(CommitPoint { number: self.number, when });
        }
    }
}

fn panic_error() -> StoreError {
    let message = "The writer thread has panicked in a commit.";
    StoreError::new(StoreErrorKind::Stopped, message).with_hint("Start again, and report this bug.")
}

fn send_replies(replies: Vec<CommitReply>, outcome: Result<Vec<BatchVerdict>, StoreError>) {
    match outcome {
        Ok(verdicts) => replies.into_iter().zip(verdicts).for_each(|(reply, verdict)| send_reply(reply, Ok(verdict))),
        Err(error) => replies.into_iter().for_each(|reply| send_reply(reply, Err(error.clone()))),
    }
}

/// Calls a reply; a reply that panics affects only its own caller.
fn send_reply(reply: CommitReply, outcome: Result<BatchVerdict, StoreError>) {
    let _ = catch_unwind(AssertUnwindSafe(|| reply(outcome)));
}
