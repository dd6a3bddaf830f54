//! The store watcher: reloads runs that are due or have messages, and forwards messages that other processes have
//! written.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use windlass_store::{StoreError, StoreErrorKind};

use super::{EngineInner, EvictedClock, TrackedRun};

/// The maximum number of runs reloaded in one round.
const RUN_BATCH_SIZE: u32 = 256;

/// The number of overdue runs that are looked up together.
const WAKE_BATCH_SIZE: u32 = 1_024;

/// The maximum sleep between two rounds.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum number of runs with messages that are reloaded in one round: each round reads all messages again.
const MAX_ROUND_RELOADS: usize = 4_096;

/// A scan for messages rests for this many times its own duration, so that it takes a bounded share of the time even if
/// a hundred thousand runs have messages.
const SCAN_REST_FACTOR: u32 = 4;

/// The watcher's view of the store.
#[derive(Default)]
struct StoreWatch {
    mark: Option<u64>,
    /// The store may hold messages that no scan has seen.
    scan_pending: bool,
    /// The last scan rests until then.
    scan_after: Option<Instant>,
}

pub(super) async fn watch(engine: Weak<EngineInner>) {
    let mut watch = StoreWatch::default();
    loop {
        let Some(inner) = engine.upgrade().filter(|inner| !inner.is_closing()) else { return };
        let moved = inner.clock.moved();
        let pause = inner.poll_store(&mut watch).await;
        let nudged = async {
            inner.nudge.notified().await;
        };
        // An error of the store is reported by the affected run; here it only means to check again later.
        tokio::select! {
            () = nudged => {}
            () = moved => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

impl EngineInner {
    /// Checks the store once. Returns how long to sleep.
    async fn poll_store(self: &Arc<Self>, watch: &mut StoreWatch) -> Duration {
        let changed = match self.store.change_mark() {
            Ok(now) => watch.mark.replace(now) != Some(now),
            Err(error) => {
                self.stop_if_lost(&error);
                false
            }
        };
        watch.scan_pending |= changed || self.has_evicted();
        if watch.scan_pending && watch.scan_after.is_none_or(|at| at <= Instant::now()) {
            let begun = Instant::now();
            let absent = self.deliver_inbox();
            watch.scan_after = Some(Instant::now() + begun.elapsed() * SCAN_REST_FACTOR);
            watch.scan_pending = absent.len() > MAX_ROUND_RELOADS;
            let wanted = absent.len().min(MAX_ROUND_RELOADS);
            let room = self.residency.make_room(wanted);
            watch.scan_pending |= room < wanted;
            self.reload_all(absent.into_iter().take(room).collect()).await;
        }
        let more = self.wake_due().await;
        self.reload_postponed().await;
        self.check_foreign_runs().await;
        if more {
            return Duration::ZERO;
        }
        let due = self.store.next_due().ok().flatten();
        // A run that is still overdue belongs to another process and must not keep this loop busy.
        let until_due = due.map(|at| at.since(self.clock.now()).to_std()).filter(|left| !left.is_zero());
        let until_due = until_due.map_or(MAX_POLL_INTERVAL, |left| left.max(Duration::from_millis(1)));
        let rest = watch.scan_after.filter(|_| watch.scan_pending);
        let rest = rest.map_or(MAX_POLL_INTERVAL, |at| at.saturating_duration_since(Instant::now()));
        until_due.min(self.poll_every).min(MAX_POLL_INTERVAL).min(rest)
    }

    /// Ends all runs when the store has permanently stopped: no run will move again, so waiting callers get the error.
    fn stop_if_lost(&self, error: &StoreError) {
        if matches!(error.kind, StoreErrorKind::Io | StoreErrorKind::Stopped | StoreErrorKind::Gone) {
            let runs: Vec<Arc<str>> = self.runs().keys().cloned().collect();
            for run in runs {
                self.stop_run(&run, error.clone().into());
            }
        }
    }

    fn has_evicted(&self) -> bool {
        self.runs().values().any(|tracked| tracked.mailbox.is_none())
    }

    /// Notifies the resident runs that have messages and returns the others that this engine takes. Reads all messages:
    /// those for runs that no engine takes must not hide those of our own runs. The cost grows with the messages, not
    /// with the number of runs.
    fn deliver_inbox(&self) -> Vec<Arc<str>> {
        let Ok(with_mail) = self.store.with_inbox(u32::MAX) else { return Vec::new() };
        let mut absent: Vec<Arc<str>> = Vec::new();
        {
            let runs = self.runs();
            for run in with_mail {
                match runs.get(&*run).map(|tracked| tracked.mailbox.as_ref()) {
                    Some(Some(mailbox)) => mailbox.notify_inbox(),
                    Some(None) => absent.push(run.into()),
                    None if self.adopt => absent.push(run.into()),
                    None => {}
                }
            }
        }
        absent.retain(|run| !self.is_postponed(run));
        absent
    }

    /// Reloads a batch of runs that are due. Returns whether it was full and made progress: then there may be more, which
    /// should not wait. After an outage they may be very many.
    pub(super) async fn wake_due(self: &Arc<Self>) -> bool {
        self.wake_due_before_step().await;
        let mut batch_size = WAKE_BATCH_SIZE;
        let absent = loop {
            let Ok(due) = self.store.due(self.clock.now(), batch_size) else { return false };
            let all = due.len() < batch_size as usize;
            let mut absent: Vec<Arc<str>> = {
                let runs = self.runs();
                let is_absent = |run: &Arc<str>| match runs.get(run) {
                    Some(tracked) => tracked.mailbox.is_none(),
                    None => self.adopt,
                };
                due.into_iter().map(|row| row.run).filter(is_absent).collect()
            };
            absent.retain(|run| !self.is_postponed(run));
            if all || !absent.is_empty() {
                break absent;
            }
            // Runs that cannot be reloaded now are due first and must not hide the others.
            batch_size = batch_size.saturating_mul(4);
        };
        let is_full = absent.len() >= WAKE_BATCH_SIZE as usize;
        let room = self.residency.make_room(absent.len());
        self.reload_all(absent.into_iter().take(room).collect()).await > 0 && is_full
    }

    /// Reloads evicted runs that are due by the time that the clock showed before it was set back. Their timers in the
    /// store lie in a time that is still to come; the reload moves them.
    async fn wake_due_before_step(self: &Arc<Self>) {
        let (offset, now) = (self.clock.offset(), self.clock.now());
        if offset >= self.highest_offset.fetch_max(offset, Ordering::SeqCst) {
            return;
        }
        let is_due = |tracked: &TrackedRun| match tracked.evicted_clock.filter(|_| tracked.mailbox.is_none()) {
            Some(EvictedClock { offset: before, due: Some(due) }) if before > offset => {
                due.0 <= now.0.saturating_add(before - offset)
            }
            _ => false,
        };
        let mut due: Vec<Arc<str>> = {
            let runs = self.runs();
            let is_moved = |tracked: &TrackedRun| tracked.evicted_clock.is_none_or(|evicted| evicted.offset <= offset);
            if runs.values().all(is_moved) {
                self.highest_offset.store(offset, Ordering::SeqCst);
            }
            runs.iter().filter(|(_, tracked)| is_due(tracked)).map(|(run, _)| run.clone()).collect()
        };
        due.retain(|run| !self.is_postponed(run));
        due.truncate(RUN_BATCH_SIZE as usize);
        self.reload_all(due).await;
    }

    /// Checks the runs that callers here wait for while another process owns them: they end there, or become free.
    async fn check_foreign_runs(self: &Arc<Self>) {
        // Most engines have none of them, but many tracked runs that would be searched for them.
        if !self.follows.load(Ordering::SeqCst) {
            return;
        }
        let elsewhere = |tracked: &TrackedRun| tracked.elsewhere && tracked.mailbox.is_none();
        let runs: Vec<Arc<str>> =
            self.runs().iter().filter(|(_, tracked)| elsewhere(tracked)).map(|(run, _)| run.clone()).collect();
        self.reload_all(runs).await;
    }

    /// Reloads a run. If that is not possible now, it is retried later, unless it is damaged.
    pub(super) async fn reload_or_postpone(self: &Arc<Self>, run: &Arc<str>) {
        self.reload_all(vec![run.clone()]).await;
    }
}
