//! Readers of a run's events: any number of them, starting at any event number, while the run is active and
//! afterwards.
//!
//! Readers page through the journal in the store. A reader that has read everything is woken when more events arrive.
//! So no reader is too slow, and no event is delivered twice. In-memory runs keep their newest events in a ring
//! buffer.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::{Notify, broadcast};
use windlass_core::{Event, EventKind};
use windlass_store::{JournalRow, RunRow, RunStatus};
use windlass_value::Timestamp;

use super::{EngineInner, RunOptions, RuntimeEngine};
use crate::report::FinalReport;
use crate::{RuntimeError, codec};

/// The number of journal rows read per batch.
const ROW_BATCH_SIZE: u32 = 64;

/// The number of events taken from memory per batch.
const EVENT_BATCH_SIZE: usize = 256;

/// The poll interval for a run of this engine. The run wakes its readers; they also poll in case it has left.
const FALLBACK_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The minimum poll interval for a run that this engine does not track but would adopt.
const UNTRACKED_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The number of dropped feeds that may remain listed before the list is pruned.
const MAX_DEAD_FEEDS: usize = 256;

/// The maximum number of events by which a live subscriber may lag behind.
const MAX_LIVE_BACKLOG: usize = 4_096;

/// The connection between a run and its readers.
pub(crate) struct EventFeed {
    /// The newest events of an in-memory run. `None`: the events are in the store.
    ring_buffer: Option<Mutex<EventRingBuffer>>,
    /// Created when a handle requests live events.
    live: OnceLock<broadcast::Sender<Event>>,
    changed: Notify,
}

struct EventRingBuffer {
    events: VecDeque<Event>,
    max_events: usize,
    /// No more events will be added.
    ended: bool,
}

impl EventFeed {
    /// Creates the feed of a run whose events are in the store.
    pub(crate) fn stored() -> EventFeed {
        EventFeed { ring_buffer: None, live: OnceLock::new(), changed: Notify::new() }
    }

    /// Creates the feed of a run that keeps this many events in memory.
    pub(crate) fn in_memory(max_events: usize) -> EventFeed {
        let ring_buffer = EventRingBuffer { events: VecDeque::new(), max_events: max_events.max(1), ended: false };
        EventFeed { ring_buffer: Some(Mutex::new(ring_buffer)), live: OnceLock::new(), changed: Notify::new() }
    }

    fn ring_buffer(&self) -> Option<MutexGuard<'_, EventRingBuffer>> {
        self.ring_buffer.as_ref().map(|ring_buffer| ring_buffer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Subscribes to events from now on. A slow subscriber may miss some.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.live.get_or_init(|| broadcast::channel(MAX_LIVE_BACKLOG).0).subscribe()
    }

    /// Publishes an event: the only way an event leaves a run. An event of a durable run is already in the store,
    /// unless a decorator has added it.
    pub(crate) fn publish(&self, event: Event) {
        if let Some(live) = self.live.get().filter(|live| live.receiver_count() > 0) {
            // A subscriber that has just gone misses nothing.
            let _ = live.send(event.clone());
        }
        if let Some(mut ring_buffer) = self.ring_buffer() {
            if ring_buffer.events.len() >= ring_buffer.max_events {
                ring_buffer.events.pop_front();
            }
            ring_buffer.events.push_back(event);
        }
        self.changed.notify_waiters();
    }

    /// Marks the feed as complete: the run has ended or left this engine.
    pub(crate) fn close(&self) {
        if let Some(mut ring_buffer) = self.ring_buffer() {
            ring_buffer.ended = true;
        }
        self.changed.notify_waiters();
    }

    /// Wakes the readers, whether or not there are new events.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }

    fn len(&self) -> usize {
        self.ring_buffer().map_or(0, |ring_buffer| ring_buffer.events.len())
    }
}

/// Feeds of ended in-memory runs: those that a handle still refers to, and the newest of the others within bounds.
#[derive(Default)]
pub(super) struct FeedCache {
    feeds: BTreeMap<Arc<str>, Weak<EventFeed>>,
    newest: VecDeque<Arc<EventFeed>>,
    events: usize,
}

impl FeedCache {
    pub(crate) fn put(&mut self, run: &Arc<str>, feed: &Arc<EventFeed>, max_events: usize) {
        if feed.ring_buffer.is_none() {
            return;
        }
        if self.feeds.len() >= 2 * self.newest.len() + MAX_DEAD_FEEDS {
            self.feeds.retain(|_, feed| feed.strong_count() > 0);
        }
        self.feeds.insert(run.clone(), Arc::downgrade(feed));
        self.events += feed.len();
        self.newest.push_back(feed.clone());
        while self.events > max_events && self.newest.len() > 1 {
            let Some(oldest) = self.newest.pop_front() else { break };
            self.events -= oldest.len();
        }
    }

    fn get(&self, run: &str) -> Option<Arc<EventFeed>> {
        self.feeds.get(run).and_then(Weak::upgrade)
    }
}

/// Reads a run's events in order, each once. One [`EventKind::EventsTrimmed`] replaces a range that is no longer
/// available.
pub struct EventReader {
    inner: Arc<EngineInner>,
    run: Arc<str>,
    /// The number of the newest event that was returned.
    after: u64,
    /// The tick at which the journal is read next.
    next_tick: Option<u64>,
    read: VecDeque<Event>,
    /// Only set for a run whose events are in memory.
    feed: Option<Arc<EventFeed>>,
    in_memory: bool,
    done: bool,
}

impl RuntimeEngine {
    /// Returns a reader of the events after a number, 0 for all of them. The run may have ended or belong to another
    /// process.
    pub fn events(&self, run: &str, after: u64) -> Result<EventReader, RuntimeError> {
        let row = self.inner.store.run(run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_owned()))?;
        let how = RunOptions::from_row(&row)?;
        let feed = if how.in_memory { self.inner.feed(run) } else { None };
        Ok(EventReader {
            inner: self.inner.clone(),
            run: row.run,
            after,
            next_tick: None,
            read: VecDeque::new(),
            feed,
            in_memory: how.in_memory,
            done: false,
        })
    }
}

impl EngineInner {
    /// Returns how long a reader waits for a notification before it checks the store.
    fn poll_interval(&self, run: &str) -> Duration {
        match self.runs().get(run) {
            // In memory or evicted: this engine wakes its readers.
            Some(tracked) if !tracked.elsewhere => FALLBACK_POLL_INTERVAL,
            Some(_) => self.poll_every,
            // This engine is the one that would resume the run.
            None if self.adopt => self.poll_every.max(UNTRACKED_POLL_INTERVAL),
            None => self.poll_every,
        }
    }

    fn feed(&self, run: &str) -> Option<Arc<EventFeed>> {
        let tracked = self.runs().get(run).map(|tracked| tracked.feed.clone());
        tracked.or_else(|| self.feed_cache().get(run))
    }
}

impl EventReader {
    /// Returns the next event, waiting for it if necessary. Returns `None` when the run has ended and all its events
    /// were returned. Dropping the future loses no event.
    pub async fn next(&mut self) -> Result<Option<Event>, RuntimeError> {
        loop {
            if let Some(event) = self.read.pop_front() {
                self.after = event.seq;
                return Ok(Some(event));
            }
            if self.done {
                return Ok(None);
            }
            match (self.in_memory, self.feed.clone()) {
                (false, _) => self.read_store().await?,
                (true, Some(feed)) => self.read_memory(&feed).await,
                (true, None) => self.report_trimmed_events()?,
            }
        }
    }

    /// Returns the next event if it was already read together with those before it.
    pub fn next_buffered(&mut self) -> Option<Event> {
        let event = self.read.pop_front()?;
        self.after = event.seq;
        Some(event)
    }

    /// Returns the number of the newest event that was returned. A reader that starts after it misses none.
    pub fn after(&self) -> u64 {
        self.after
    }

    async fn read_memory(&mut self, feed: &EventFeed) {
        let mut changed = pin!(feed.changed.notified());
        changed.as_mut().enable();
        if let Some(ring_buffer) = feed.ring_buffer() {
            let first = ring_buffer.events.front().map_or(self.after.saturating_add(1), |first| first.seq);
            self.push_gap_event(first, ring_buffer.events.front().map(|event| event.at));
            // Their numbers rise; a decorator may have left some out.
            let skip = ring_buffer.events.partition_point(|event| event.seq <= self.after);
            self.read.extend(ring_buffer.events.iter().skip(skip).take(EVENT_BATCH_SIZE).cloned());
            self.done = ring_buffer.ended && self.read.is_empty();
            if self.done || !self.read.is_empty() {
                return;
            }
        }
        changed.await;
    }

    /// Ends the reader of an in-memory run whose events are no longer buffered.
    fn report_trimmed_events(&mut self) -> Result<(), RuntimeError> {
        self.done = true;
        let Some(row) = self.inner.store.run(&self.run)? else { return Ok(()) };
        let Some(report) = FinalReport::from_row(&row)? else { return Ok(()) };
        self.push_gap_event(report.events + 1, None);
        Ok(())
    }

    async fn read_store(&mut self) -> Result<(), RuntimeError> {
        let feed = self.inner.feed(&self.run);
        let changed = async {
            match &feed {
                Some(feed) => feed.changed.notified().await,
                None => std::future::pending().await,
            }
        };
        let mut changed = pin!(changed);
        // Polled once before the store is read, so that no notification in between is missed.
        let waits = std::future::poll_fn(|context| std::task::Poll::Ready(changed.as_mut().poll(context).is_pending()));
        if !waits.await || self.read_page()? {
            return Ok(());
        }
        let row = self.inner.store.run(&self.run)?;
        if row.as_ref().is_none_or(is_over) {
            // Its last events may have been written since.
            self.done = !self.read_page()?;
            return Ok(());
        }
        if self.inner.is_closing() {
            return Err(RuntimeError::Closing);
        }
        let pause = self.inner.poll_interval(&self.run);
        // In either case the store is read next.
        let _ = tokio::time::timeout(pause, changed).await;
        Ok(())
    }

    /// Reads one batch from the journal and reports whether there was anything to read.
    fn read_page(&mut self) -> Result<bool, RuntimeError> {
        let rows = match self.next_tick {
            Some(tick) => self.inner.store.journal(&self.run, tick, ROW_BATCH_SIZE)?,
            None => self.inner.store.journal_by_event(&self.run, self.after.saturating_add(1), ROW_BATCH_SIZE)?,
        };
        for row in &rows {
            self.read_row(row)?;
        }
        Ok(!rows.is_empty())
    }

    fn read_row(&mut self, row: &JournalRow) -> Result<(), RuntimeError> {
        self.next_tick = Some(row.first_tick + u64::from(row.ticks));
        let entries: Vec<JournaledEvents> = codec::decode(&row.body, "the journal")?;
        let given = self.read.back().map_or(self.after, |last| last.seq);
        let mut events =
            entries.into_iter().flat_map(|entry| entry.events).filter(|event| event.seq > given).peekable();
        if let Some(first) = events.peek() {
            let (seq, at) = (first.seq, first.at);
            self.push_gap_event(seq, Some(at));
        }
        self.read.extend(events);
        Ok(())
    }

    /// Adds an event for the trimmed range before the event `next`.
    fn push_gap_event(&mut self, next: u64, at: Option<Timestamp>) {
        let from = self.read.back().map_or(self.after, |last| last.seq).saturating_add(1);
        if next <= from {
            return;
        }
        let to = next - 1;
        let at = at.unwrap_or_else(crate::clock::real_now);
        self.read.push_back(Event { seq: to, at, path: "".into(), kind: EventKind::EventsTrimmed { from, to } });
    }
}

/// No more events will be added to the run.
fn is_over(row: &RunRow) -> bool {
    row.status.is_final() || row.status == RunStatus::Quarantined
}

/// A journaled tick of which only the events are decoded.
#[derive(Deserialize)]
struct JournaledEvents {
    events: Vec<Event>,
}
