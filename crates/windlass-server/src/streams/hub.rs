//! The newest events of a run, read once for all its readers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use windlass_runtime::show::{StoredEvent, newest_event};
use windlass_runtime::{EventReader, RuntimeError};

use super::frame::{MAX_BATCH_BYTES, Batch};
use crate::api::models::row_of;
use crate::{App, Problem};

/// Bytes of events that are kept for readers who are nearly up to date. Whoever is further behind reads the store.
const MAX_RING_BYTES: usize = 4 * 1024 * 1024;

/// The same of all runs that somebody reads: the more there are, the less is kept of each, down to what one who is up to date
/// may need.
const MAX_TOTAL_RING_BYTES: usize = 256 * 1024 * 1024;
const MIN_RING_BYTES: usize = 2 * MAX_BATCH_BYTES;

/// Events encoded in one go.
const MAX_EVENTS_PER_PUSH: usize = 512;

/// Each reader that is woken costs so much time that the run could use: the more there are, the less often they are woken.
const PACE_PER_READER: Duration = Duration::from_micros(100);
const MAX_WAKE_INTERVAL: Duration = Duration::from_millis(250);

/// Runs that somebody reads now.
#[derive(Default)]
pub(crate) struct Hubs {
    open: Mutex<BTreeMap<Arc<str>, Weak<Hub>>>,
    count: Arc<AtomicUsize>,
}

/// One run that somebody reads.
pub(crate) struct Hub {
    ring: Mutex<Ring>,
    /// How many there are.
    hubs: Arc<AtomicUsize>,
    moved: Notify,
    feeding: Mutex<Option<AbortHandle>>,
}

struct Ring {
    batches: VecDeque<Batch>,
    bytes: usize,
    /// Everything after this number is in the batches.
    before: u64,
    newest: u64,
    over: Option<Over>,
}

/// Why no more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The run has ended.
    Ended,
    /// This server no longer knows: whoever reads asks again.
    Lost,
}

/// What there is for a reader.
pub(crate) enum Ahead {
    Batch(Batch),
    /// It is not here any more, but in the store.
    InStore,
    Nothing,
    Over(Over),
}

impl Hubs {
    fn open(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Weak<Hub>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, run: &str) -> Option<Arc<Hub>> {
        self.open().get(run).and_then(Weak::upgrade)
    }

    /// The hub of a run; reading begins with the first reader and stops with the last.
    pub(crate) async fn join(&self, app: &App, run: &Arc<str>) -> Result<Arc<Hub>, Problem> {
        if let Some(hub) = self.get(run).filter(|hub| !hub.is_over()) {
            return Ok(hub);
        }
        let id = run.clone();
        let (newest, reader) = app
            .at_store(move |app| {
                let newest = newest_event(app.store.as_ref(), &row_of(app, &id)?)?;
                Ok((newest, app.engine.events(&id, newest)?))
            })
            .await?;
        let mut open = self.open();
        if let Some(hub) = open.get(run).and_then(Weak::upgrade).filter(|hub| !hub.is_over()) {
            // Somebody was faster.
            return Ok(hub);
        }
        open.retain(|_, hub| hub.strong_count() > 0);
        let hub = Arc::new(Hub::new(newest, &self.count));
        open.insert(run.clone(), Arc::downgrade(&hub));
        drop(open);
        let task = tokio::spawn(feed(Arc::downgrade(&hub), run.clone(), reader));
        *hub.feeding.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
        Ok(hub)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.hubs.fetch_sub(1, Ordering::Relaxed);
        if let Some(task) = self.feeding.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

async fn feed(hub: Weak<Hub>, run: Arc<str>, mut reader: EventReader) {
    loop {
        let first = reader.next().await;
        let Some(hub) = hub.upgrade() else { return };
        let first = match first {
            Ok(Some(event)) => event,
            Ok(None) => return hub.end(Over::Ended),
            Err(RuntimeError::NoSuchRun(_)) => return hub.end(Over::Ended),
            Err(_) => return hub.end(Over::Lost),
        };
        let mut pieces = vec![StoredEvent::Event(first)];
        while pieces.len() < MAX_EVENTS_PER_PUSH
            && let Some(event) = reader.at_hand()
        {
            pieces.push(StoredEvent::Event(event));
        }
        hub.push(Batch::all(&run, &pieces));
        let readers = u32::try_from(Arc::strong_count(&hub).saturating_sub(1)).unwrap_or(u32::MAX);
        drop(hub);
        tokio::time::sleep(PACE_PER_READER.saturating_mul(readers).min(MAX_WAKE_INTERVAL)).await;
    }
}

impl Hub {
    /// One that has seen everything up to an event.
    fn new(newest: u64, hubs: &Arc<AtomicUsize>) -> Hub {
        hubs.fetch_add(1, Ordering::Relaxed);
        let ring = Ring { batches: VecDeque::new(), bytes: 0, before: newest, newest, over: None };
        Hub { ring: Mutex::new(ring), hubs: hubs.clone(), moved: Notify::new(), feeding: Mutex::default() }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.ring().over.is_some()
    }

    fn push(&self, batches: Vec<Batch>) {
        let share = MAX_TOTAL_RING_BYTES / self.hubs.load(Ordering::Relaxed).max(1);
        let max_bytes = share.clamp(MIN_RING_BYTES, MAX_RING_BYTES);
        let mut ring = self.ring();
        for batch in batches {
            ring.newest = batch.last;
            ring.bytes += batch.size();
            ring.batches.push_back(batch);
        }
        while ring.bytes > max_bytes && ring.batches.len() > 1 {
            let Some(oldest) = ring.batches.pop_front() else { break };
            ring.bytes -= oldest.size();
            ring.before = oldest.last;
        }
        drop(ring);
        self.moved.notify_waiters();
    }

    fn end(&self, over: Over) {
        self.ring().over = Some(over);
        self.moved.notify_waiters();
    }

    /// To be made before looking, so that nothing which comes in between is missed.
    pub(crate) fn moved(&self) -> tokio::sync::futures::Notified<'_> {
        self.moved.notified()
    }

    /// What there is after a number.
    pub(crate) fn after(&self, after: u64) -> Ahead {
        let ring = self.ring();
        if after < ring.before {
            return Ahead::InStore;
        }
        let at = ring.batches.partition_point(|batch| batch.last <= after);
        match (ring.batches.get(at), ring.over) {
            (Some(batch), _) => Ahead::Batch(batch.clone()),
            (None, Some(over)) => Ahead::Over(over),
            (None, None) => Ahead::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::{Event, EventKind};
    use windlass_value::{Timestamp, Value};

    use super::*;

    fn batches(from: u64, to: u64, bytes: usize) -> Vec<Batch> {
        let piece = |seq| {
            let data = Value::object([("text", "x".repeat(bytes))]);
            let kind = EventKind::Other { type_name: "note\nid: 9".into(), fields: data };
            StoredEvent::Event(Event { seq, at: Timestamp(0), path: "a".into(), kind })
        };
        Batch::all("r", &(from..=to).map(piece).collect::<Vec<_>>())
    }

    fn hub(before: u64) -> Hub {
        Hub::new(before, &Arc::default())
    }

    #[test]
    fn a_reader_is_given_what_it_has_not_seen() {
        let hub = hub(4);
        hub.push(batches(5, 7, 10));
        hub.push(batches(8, 8, 10));
        assert!(matches!(hub.after(3), Ahead::InStore));
        for after in 4..8 {
            let Ahead::Batch(batch) = hub.after(after) else { panic!("nothing after {after}") };
            let text = String::from_utf8(batch.sse_after(after).to_vec()).expect("text");
            assert!(text.starts_with(&format!("id: {}\nevent: note id: 9\ndata: {{\"seq\":{}", after + 1, after + 1)));
            let lines = String::from_utf8(batch.lines_after(after).to_vec()).expect("text");
            assert_eq!(lines.lines().count() as u64, batch.last - after);
        }
        assert!(matches!(hub.after(8), Ahead::Nothing));
        hub.end(Over::Ended);
        assert!(matches!(hub.after(8), Ahead::Over(Over::Ended)));
        assert!(matches!(hub.after(7), Ahead::Batch(_)), "what was told before the end is given first");
    }

    /// Whoever does not read keeps one batch, so none is large because there is much to tell.
    #[test]
    fn a_batch_is_small_unless_an_event_is_large() {
        for (events, bytes) in [(1, 10), (100, 1_000), (100, MAX_BATCH_BYTES / 2), (3, MAX_BATCH_BYTES * 2)] {
            let all = batches(1, events, bytes);
            let largest = all.iter().map(Batch::size).max().unwrap_or_default();
            assert!(largest <= MAX_BATCH_BYTES.max(bytes + 200), "{events} of {bytes}: {largest}");
            let mut after = 0;
            for batch in all {
                let lines = String::from_utf8(batch.lines_after(after).to_vec()).expect("text");
                assert_eq!(lines.lines().count() as u64, batch.last - after, "{events} of {bytes}");
                after = batch.last;
            }
            assert_eq!(after, events, "nothing is lost");
        }
    }

    #[test]
    fn what_is_kept_for_readers_is_bounded() {
        let hub = hub(0);
        for at in 0..20 {
            hub.push(batches(at + 1, at + 1, MAX_RING_BYTES / 4));
        }
        assert!(hub.ring().bytes <= MAX_RING_BYTES);
        assert!(matches!(hub.after(0), Ahead::InStore), "whoever is too slow reads the store");
        assert!(matches!(hub.after(19), Ahead::Batch(_)));
        // Of thousands of runs less is kept of each.
        hub.hubs.fetch_add(10_000, Ordering::Relaxed);
        (0..20).for_each(|at| hub.push(batches(at + 21, at + 21, MAX_BATCH_BYTES / 2)));
        assert!(hub.ring().bytes <= MIN_RING_BYTES && matches!(hub.after(39), Ahead::Batch(_)));
        // One that is larger than all is kept all the same: it is the newest.
        hub.push(batches(41, 41, MAX_RING_BYTES * 2));
        assert!(matches!(hub.after(40), Ahead::Batch(_)));
    }
}
