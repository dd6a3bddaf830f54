//! The innermost adapter: workers in this process, a mailbox, a clock. Alone it runs a workflow in memory; with a virtual
//! clock it runs six hours of polling in milliseconds.

use std::collections::BTreeMap;

use tokio::sync::{broadcast, mpsc};
use windlass_core::{Event, Job, Output, RunResult, State, Tick, TickKind};
use windlass_value::{BlobHash, Timestamp, Value};

use crate::RuntimeError;
use crate::adapter::{Adapter, ChildStart, Next, Waiting};
use crate::blobs::BlobCache;
use crate::clock::Clock;
use crate::codec;
use crate::workers::RunWorkers;

/// Ticks taken over in one go; the rest waits its turn.
const TICKS_AT_ONCE: usize = 1_024;

#[derive(Debug)]
pub enum Mail {
    Tick(Box<TickKind>),
    /// There may be messages in the store.
    Inbox,
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
    events: Option<broadcast::Sender<Event>>,
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
        events: Option<broadcast::Sender<Event>>,
    ) -> Local {
        let (mailbox, mail) = mail;
        Local { clock, entropy: seed, mail, mailbox, reports, workers, events, kept: BTreeMap::new() }
    }

    /// All that is there already: workers' reports, then outside input.
    fn at_hand(&mut self) -> Option<Next> {
        let mut ticks = Vec::new();
        while ticks.len() < TICKS_AT_ONCE
            && let Ok(report) = self.reports.try_recv()
        {
            ticks.push(report);
        }
        if !ticks.is_empty() {
            return Some(Next::Ticks(ticks));
        }
        self.mail.try_recv().ok().map(opened)
    }

    async fn wait(&mut self, until: Option<Timestamp>) -> Next {
        loop {
            let now = self.clock.now();
            let check = (self.workers.in_flight() > 0).then(|| now + self.workers.look_every());
            let wake = [until, check].into_iter().flatten().min();
            let sleep = async {
                match wake {
                    Some(at) => tokio::time::sleep(at.since(now).to_std()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(report) = self.reports.recv() => return self.with_first(report),
                mail = self.mail.recv() => return mail.map_or(Next::Closed, opened),
                () = sleep => {}
            }
            if until.is_some_and(|at| at <= self.clock.now()) {
                return Next::Timer;
            }
            let lost = self.workers.expire();
            if !lost.is_empty() {
                return Next::Ticks(lost);
            }
        }
    }

    fn with_first(&mut self, report: TickKind) -> Next {
        let mut ticks = vec![report];
        while ticks.len() < TICKS_AT_ONCE
            && let Ok(report) = self.reports.try_recv()
        {
            ticks.push(report);
        }
        Next::Ticks(ticks)
    }
}

fn opened(mail: Mail) -> Next {
    match mail {
        Mail::Tick(tick) => Next::Ticks(vec![*tick]),
        Mail::Inbox => Next::Inbox,
        Mail::Close => Next::Closed,
    }
}

impl Adapter for Local {
    fn get_now(&mut self) -> Timestamp {
        self.clock.now()
    }

    fn entropy(&mut self) -> u64 {
        // A Weyl sequence: the reducer mixes it.
        self.entropy = self.entropy.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.entropy
    }

    async fn wait_receive(&mut self) -> Next {
        self.mail.recv().await.map_or(Next::Closed, opened)
    }

    async fn wait_for_next_task(&mut self, waiting: Waiting) -> Next {
        if let Some(next) = self.at_hand() {
            return next;
        }
        if waiting.poll {
            return Next::Nothing;
        }
        if let Some(at) = waiting.until {
            let alone = self.workers.in_flight() == 0 && !waiting.children && !waiting.paused;
            if at <= self.clock.now() || (alone && self.clock.skip_to(at)) {
                return Next::Timer;
            }
        }
        self.wait(waiting.until).await
    }

    fn on_tick(&mut self, _tick: &Tick, _output: &Output, _state: &State) {}

    async fn flush(&mut self, _state: &State, blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        self.kept.extend(blobs.take_fresh());
        Ok(())
    }

    async fn load_blob(&mut self, hash: &BlobHash) -> Result<Option<Value>, RuntimeError> {
        let Some(bytes) = self.kept.get(hash) else { return Ok(None) };
        codec::blob_value(hash, bytes).map(Some)
    }

    fn run_worker(&mut self, job: Job, input: Value) {
        self.workers.run(job, input);
    }

    fn cancel_worker(&mut self, job: u64) {
        self.workers.cancel(job);
    }

    fn start_child(&mut self, child: ChildStart) {
        let error =
            windlass_core::ErrorInfo::new("NoChildren", "tool", "a run in memory alone cannot start child runs");
        let outcome = windlass_core::TaskOutcome::failure(error);
        self.send_event(TickKind::CallResult { call: child.call, status: windlass_core::Status::Failed, outcome });
    }

    fn cancel_child(&mut self, _child: &str) {}

    fn write_to_event_stream(&mut self, event: Event) {
        if let Some(events) = &self.events {
            // Nobody listening is not an error.
            let _ = events.send(event);
        }
    }

    fn send_event(&mut self, tick: TickKind) {
        // The receiver is ours: it cannot be gone.
        let _ = self.mailbox.send(Mail::Tick(Box::new(tick)));
    }

    async fn release(&mut self, _state: &State, _blobs: &mut BlobCache) -> Result<(), RuntimeError> {
        Ok(())
    }

    fn ended(&mut self, _result: &RunResult) {}

    async fn close(&mut self) {
        self.mail.close();
    }
}
