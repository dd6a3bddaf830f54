//! Readers of a run's events: any number of them, from any number on, while it runs and afterwards.
//!
//! What the journal holds is read from the store, page by page; whoever has read all is woken when there is more. So nobody
//! is too slow, and nothing is given twice. Runs that keep nothing have their newest events in memory.

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

/// Journal rows read at once.
const ROW_BATCH_SIZE: u32 = 64;

/// Events taken from memory at once.
const EVENT_BATCH_SIZE: usize = 256;

/// A run of this engine wakes its readers; they look by themselves as well, in case it has left.
const FALLBACK_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A run that nobody has told of here, in an engine that goes on with any.
const UNTRACKED_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How many feeds may be forgotten before they are looked for.
const MAX_DEAD_FEEDS: usize = 256;

/// Events that a live subscriber may be behind.
const MAX_LIVE_BACKLOG: usize = 4_096;

/// One run's way to its readers.
pub(crate) struct EventFeed {
    /// None: the store has them.
    ring_buffer: Option<Mutex<EventRingBuffer>>,
    /// Made when a handle wants events live.
    live: OnceLock<broadcast::Sender<Event>>,
    changed: Notify,
}

struct EventRingBuffer {
    events: VecDeque<Event>,
    max_events: usize,
    /// No more will come.
    ended: bool,
}

impl EventFeed {
    /// For a run whose events are in the store.
    pub(crate) fn stored() -> EventFeed {
        EventFeed { ring_buffer: None, live: OnceLock::new(), changed: Notify::new() }
    }

    /// For a run of which so many events are kept in memory.
    pub(crate) fn in_memory(max_events: usize) -> EventFeed {
        let ring_buffer = EventRingBuffer { events: VecDeque::new(), max_events: max_events.max(1), ended: false };
        EventFeed { ring_buffer: Some(Mutex::new(ring_buffer)), live: OnceLock::new(), changed: Notify::new() }
    }

    fn ring_buffer(&self) -> Option<MutexGuard<'_, EventRingBuffer>> {
        self.ring_buffer.as_ref().map(|ring_buffer| ring_buffer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Events from now on, for a reader that may miss some when it is slow.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.live.get_or_init(|| broadcast::channel(MAX_LIVE_BACKLOG).0).subscribe()
    }

    /// The one way by which an event leaves a run. It is durable, as far as the run's events ever are.
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

    /// The run has ended or left this engine.
    pub(crate) fn close(&self) {
        if let Some(mut ring_buffer) = self.ring_buffer() {
            ring_buffer.ended = true;
        }
        self.changed.notify_waiters();
    }

    /// Readers look again, whether or not there is something new.
    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }

    fn len(&self) -> usize {
        self.ring_buffer().map_or(0, |ring_buffer| ring_buffer.events.len())
    }
}

/// Feeds of runs that have ended and had their events in memory: while somebody has a handle, and the newest of the others
/// within bounds.
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

/// Gives a run's events in order, none twice. What is no longer there is told of by one [`EventKind::EventsTrimmed`].
pub struct EventReader {
    inner: Arc<EngineInner>,
    run: Arc<str>,
    /// The number of the newest event that was given.
    after: u64,
    /// Where the journal is read on.
    next_tick: Option<u64>,
    read: VecDeque<Event>,
    /// Only for a run whose events are in memory.
    feed: Option<Arc<EventFeed>>,
    in_memory: bool,
    done: bool,
}

impl RuntimeEngine {
    /// The events of a run after a number, 0 for all of them; also of one that has ended or that another process runs.
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
    /// How long a reader that is not woken waits before it looks by itself.
    fn poll_interval(&self, run: &str) -> Duration {
        match self.runs().get(run) {
            // Whether it is in memory or only waits: this engine wakes its readers.
            Some(tracked) if !tracked.elsewhere => FALLBACK_POLL_INTERVAL,
            Some(_) => self.poll_every,
            // It is this engine that would go on with it.
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
    /// The next event, when it is there. None: the run has ended and all its events were given. Nothing is lost when this
    /// is dropped before it is done.
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

    /// The next event, if it was read already with those before it.
    pub fn next_buffered(&mut self) -> Option<Event> {
        let event = self.read.pop_front()?;
        self.after = event.seq;
        Some(event)
    }

    /// The number of the newest event that was given: whoever asks for those after it again misses none.
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

    /// The run's events were in memory, and no longer are.
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
        // Looked at once before the store is, so that nothing which comes in between is missed.
        let waits = std::future::poll_fn(|context| std::task::Poll::Ready(changed.as_mut().poll(context).is_pending()));
        if !waits.await || self.read_page()? {
            return Ok(());
        }
        let row = self.inner.store.run(&self.run)?;
        if row.as_ref().is_none_or(is_over) {
            // What it said last may have come since.
            self.done = !self.read_page()?;
            return Ok(());
        }
        if self.inner.is_closing() {
            return Err(RuntimeError::Closing);
        }
        let pause = self.inner.poll_interval(&self.run);
        // Whichever it is, the store is looked at next.
        let _ = tokio::time::timeout(pause, changed).await;
        Ok(())
    }

    /// Whether there was something to read.
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

    /// Events before this one are no longer there.
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

/// Nobody adds to the run's events.
fn is_over(row: &RunRow) -> bool {
    row.status.is_final() || row.status == RunStatus::Quarantined
}

/// A tick of the journal, of which only the events are read.
#[derive(Deserialize)]
struct JournaledEvents {
    events: Vec<Event>,
}
