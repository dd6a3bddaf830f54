//! The innermost adapter: workers in this process, a mailbox, a clock. Alone it runs a workflow in memory; with a virtual
//! clock it runs six hours of polling in milliseconds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot};
use windlass_core::{Event, Job, Output, State, Tick, TickKind};
use windlass_value::{BlobHash, Duration, Timestamp, Value};

use crate::RuntimeError;
use crate::adapter::{
    Adapter, ChildStart, Children, Finalized, Journal, Next, Outward, TickSource, TimeSource, Waiting, Workers,
};
use crate::blobs::BlobCache;
use crate::clock::Clock;
use crate::codec;
use crate::concerns;
use crate::engine::EventFeed;
use crate::workers::RunWorkers;

/// Ticks taken over in one go; the rest waits its turn.
const TICK_BATCH_SIZE: usize = 1_024;

/// How late a time may be noticed that has come sooner than the system's sleep says.
const LOOK_AT_CLOCK_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub enum Mail {
    Tick(Box<TickKind>),
    /// There may be messages in the store.
    Inbox,
    /// Somebody wants the state, encoded.
    Snapshot(oneshot::Sender<Vec<u8>>),
    /// What is at work may end; nothing new is begun, and then the run is let go of.
    Drain,
    Close,
}

pub type Mailbox = mpsc::UnboundedSender<Mail>;

pub struct Local {
    clock: Clock,
    entropy: u64,
    mail: mpsc::UnboundedReceiver<Mail>,
    mailbox: Mailbox,
    reports: mpsc::UnboundedReceiver<TickKind>,
    workers: RunWorkers,
    feed: Option<Arc<EventFeed>>,
    /// The store is to be looked into, whether or not somebody says so.
    looks: bool,
    /// Mail that has come after workers' reports of the same turn.
    postponed: Option<Mail>,
    /// The process goes down as soon as what is at work has ended. Shared by all its runs: what a worker reports may be
    /// taken before the mail that says so.
    draining: Arc<AtomicBool>,
    /// Values of a run that has no store.
    kept: BTreeMap<BlobHash, Vec<u8>>,
}

impl Local {
    pub fn new(
        clock: Clock,
        seed: u64,
        mail: (Mailbox, mpsc::UnboundedReceiver<Mail>),
        reports: mpsc::UnboundedReceiver<TickKind>,
        workers: RunWorkers,
    ) -> Local {
        let (mailbox, mail) = mail;
        let kept = BTreeMap::new();
        let (feed, looks, postponed, draining) = (None, false, None, Arc::default());
        Local { clock, entropy: seed, mail, mailbox, reports, workers, feed, looks, postponed, draining, kept }
    }

    /// Messages may have come while nobody was looking.
    #[must_use]
    pub(crate) fn looking_first(self) -> Local {
        Local { looks: true, ..self }
    }

    /// When the process begins nothing new.
    #[must_use]
    pub(crate) fn draining_with(self, draining: Arc<AtomicBool>) -> Local {
        Local { draining, ..self }
    }

    /// Readers have the run's events from here.
    #[must_use]
    pub(crate) fn with_feed(self, feed: Arc<EventFeed>) -> Local {
        Local { feed: Some(feed), ..self }
    }

    /// All that is there already: workers' reports, then outside input. A run whose workers always have something to say
    /// hears its mail all the same.
    fn at_hand(&mut self) -> Option<Next> {
        if std::mem::take(&mut self.looks) {
            return Some(Next::Inbox);
        }
        if let Some(mail) = self.postponed.take() {
            return Some(self.opened(mail));
        }
        let Ok(report) = self.reports.try_recv() else {
            let mail = self.mail.try_recv().ok()?;
            return Some(self.opened(mail));
        };
        let ticks = self.all_from(report);
        self.postponed = self.mail.try_recv().ok();
        Some(Next::Ticks(ticks))
    }

    async fn wait(&mut self, until: Option<Timestamp>) -> Next {
        loop {
            let now = self.clock.now();
            let check = (self.workers.in_flight() > 0).then(|| now + self.workers.lease_check_interval());
            // The clock may be put forward, or the machine have slept: a sleep that has begun does not notice.
            let again = until.map(|_| now + LOOK_AT_CLOCK_EVERY);
            let wake = [until, check, again].into_iter().flatten().min();
            let sleep = async {
                match wake {
                    Some(at) => tokio::time::sleep(at.since(now).to_std()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(report) = self.reports.recv() => return Next::Ticks(self.all_from(report)),
                mail = self.mail.recv() => return mail.map_or(Next::Closed, |mail| self.opened(mail)),
                () = sleep => {}
            }
            if until.is_some_and(|at| at <= self.clock.now()) {
                return Next::Timer;
            }
            let lost = self.workers.expire_leases();
            if !lost.is_empty() {
                return Next::Ticks(lost);
            }
        }
    }

    /// A report and those that have come after it.
    fn all_from(&mut self, first: TickKind) -> Vec<TickKind> {
        let mut ticks = vec![first];
        while ticks.len() < TICK_BATCH_SIZE
            && let Ok(report) = self.reports.try_recv()
        {
            ticks.push(report);
        }
        ticks
    }

    fn opened(&mut self, mail: Mail) -> Next {
        match mail {
            Mail::Tick(tick) => Next::Ticks(vec![*tick]),
            Mail::Inbox => Next::Inbox,
            Mail::Snapshot(reply) => Next::Snapshot(reply),
            Mail::Drain => {
                self.draining.store(true, Ordering::SeqCst);
                if self.is_drained() { Next::Closed } else { Next::Nothing }
            }
            Mail::Close => Next::Closed,
        }
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Nothing is at work here, and all that was reported has been taken.
    fn is_drained(&self) -> bool {
        self.is_draining() && !self.workers.has_local_work() && self.reports.is_empty()
    }
}

impl Adapter for Local {
    concerns!(own: time, ticks, journal, workers, children, outward);

    async fn close(&mut self) {
        self.mail.close();
    }
}

impl TimeSource for Local {
    fn get_now(&mut self) -> Timestamp {
        self.clock.now()
    }

    fn entropy(&mut self) -> u64 {
        // A Weyl sequence: the reducer mixes it.
        self.entropy = self.entropy.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.entropy
    }
}

impl TickSource for Local {
    async fn wait_receive(&mut self) -> Next {
        self.mail.recv().await.map_or(Next::Closed, |mail| self.opened(mail))
    }

    async fn wait_for_next_task(&mut self, waiting: Waiting) -> Next {
        if !self.reports.is_empty() {
            // A run that always has something to do lets others have their turn; before anything is taken, so that nothing
            // is lost when nobody waits for this any longer.
            tokio::task::consume_budget().await;
        }
        if self.is_drained() {
            return Next::Closed;
        }
        if let Some(next) = self.at_hand() {
            return next;
        }
        if waiting.poll {
            return Next::Nothing;
        }
        if waiting.idle_event_pending {
            return Next::Timer;
        }
        if let Some(at) = waiting.until {
            let alone = self.workers.in_flight() == 0 && !waiting.children && !waiting.paused;
            if at <= self.clock.now() || (alone && self.clock.skip_to(at)) {
                return Next::Timer;
            }
        }
        // Boxed: what waits is large, and most often there is something at hand.
        Box::pin(self.wait(waiting.until)).await
    }

    fn more_comes(&mut self, buffered: bool) -> bool {
        buffered || self.postponed.is_some() || !self.mail.is_empty()
    }

    fn send_event(&mut self, tick: TickKind) {
        // The receiver is ours: it cannot be gone.
        let _ = self.mailbox.send(Mail::Tick(Box::new(tick)));
    }
}

impl Journal for Local {
    fn on_tick(&mut self, _tick: &Tick, _output: &Output, _state: &State) {}

    async fn flush(&mut self, _state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        self.kept.extend(blobs.take_fresh());
        Ok(())
    }

    async fn load_blob(&mut self, hash: &BlobHash) -> Result<Option<Value>, RuntimeError> {
        let Some(bytes) = self.kept.get(hash) else { return Ok(None) };
        codec::blob_value(hash, bytes).map(Some)
    }

    async fn evict(&mut self, _state: &State, _blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        Ok(())
    }
}

impl Workers for Local {
    fn run_worker(&mut self, job: Job, input: Value) {
        // What is not begun any more is begun, under the same key, by whoever goes on with the run.
        if !self.is_draining() {
            self.workers.run(job, input);
        }
    }

    fn cancel_worker(&mut self, job: u64) {
        self.workers.cancel(job);
    }

    fn finalize_step(&mut self, step: Finalized) {
        self.workers.finalize(step);
    }

    fn settled(&mut self) {
        self.workers.acknowledge();
    }
}

impl Children for Local {
    fn start_child(&mut self, child: ChildStart) {
        let error =
            windlass_core::ErrorInfo::new("NoChildren", "tool", "a run in memory alone cannot start child runs");
        let outcome = windlass_core::TaskOutcome::failure(error);
        self.send_event(TickKind::CallResult { call: child.call, status: windlass_core::Status::Failed, outcome });
    }

    fn cancel_child(&mut self, _child: &str) {}
}

impl Outward for Local {
    fn write_to_event_stream(&mut self, event: Event) {
        if let Some(feed) = &self.feed {
            feed.publish(event);
        }
    }
}
