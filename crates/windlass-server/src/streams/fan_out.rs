//! Fan-out of a run's newest events: read once for all its readers, from a ring buffer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use windlass_runtime::inspect::{StoredEvent, newest_event};
use windlass_runtime::{EventReader, RuntimeError};

use super::frame::{EventBatch, MAX_BATCH_BYTES};
use crate::api::models::find_run;
use crate::{ApiProblem, App};

/// Maximum size of the ring buffer for readers that are nearly up to date. Readers further behind read the store.
const MAX_RING_BYTES: usize = 4 * 1024 * 1024;

/// Maximum total size of all ring buffers. The per-run buffer shrinks as the number of streamed runs grows, down to
/// the minimum that an up-to-date reader needs.
const MAX_TOTAL_RING_BYTES: usize = 256 * 1024 * 1024;
const MIN_RING_BYTES: usize = 2 * MAX_BATCH_BYTES;

/// Maximum number of events encoded together.
const MAX_EVENTS_PER_PUSH: usize = 512;

/// Waking readers takes time from the runs: the more readers there are, the less often they are woken.
const WAKE_INTERVAL_PER_READER: Duration = Duration::from_micros(100);
const MAX_WAKE_INTERVAL: Duration = Duration::from_millis(250);

/// The runs that have readers.
#[derive(Default)]
pub(crate) struct EventFanOuts {
    open: Mutex<BTreeMap<Arc<str>, Weak<EventFanOut>>>,
    count: Arc<AtomicUsize>,
}

/// The event fan-out of one run with readers.
pub(crate) struct EventFanOut {
    ring: Mutex<EventRing>,
    /// Number of fan-outs.
    fan_outs: Arc<AtomicUsize>,
    changed: Notify,
    feed_task: Mutex<Option<AbortHandle>>,
}

struct EventRing {
    batches: VecDeque<EventBatch>,
    bytes: usize,
    /// All events after this sequence number are in the batches.
    starts_after: u64,
    newest: u64,
    end: Option<StreamEnd>,
}

/// The reason why a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// The run has ended.
    Ended,
    /// This server no longer follows the run; the reader reconnects.
    Lost,
}

/// The next events for a reader.
pub(crate) enum NextEvents {
    Batch(EventBatch),
    /// The events have left the buffer, but are in the store.
    InStore,
    Nothing,
    Ended(StreamEnd),
}

impl EventFanOuts {
    fn open(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Weak<EventFanOut>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, run: &str) -> Option<Arc<EventFanOut>> {
        self.open().get(run).and_then(Weak::upgrade)
    }

    /// Returns the fan-out of a run; reading begins with the first reader and stops with the last.
    pub(crate) async fn join(&self, app: &App, run: &Arc<str>) -> Result<Arc<EventFanOut>, ApiProblem> {
        if let Some(fan_out) = self.get(run).filter(|hub| !hub.is_ended()) {
            return Ok(fan_out);
        }
        let id = run.clone();
        let (newest, reader) = app
            .read_store(move |app| {
                let newest = newest_event(app.store.as_ref(), &find_run(app, &id)?)?;
                Ok((newest, app.engine.events(&id, newest)?))
            })
            .await?;
        let mut open = self.open();
        if let Some(fan_out) = open.get(run).and_then(Weak::upgrade).filter(|hub| !hub.is_ended()) {
            // A concurrent caller was faster.
            return Ok(fan_out);
        }
        open.retain(|_, hub| hub.strong_count() > 0);
        let fan_out = Arc::new(EventFanOut::new(newest, &self.count));
        open.insert(run.clone(), Arc::downgrade(&fan_out));
        drop(open);
        let task = tokio::spawn(feed(Arc::downgrade(&fan_out), run.clone(), reader));
        *fan_out.feed_task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
        Ok(fan_out)
    }
}

impl Drop for EventFanOut {
    fn drop(&mut self) {
        self.fan_outs.fetch_sub(1, Ordering::Relaxed);
        if let Some(task) = self.feed_task.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

async fn feed(fan_out: Weak<EventFanOut>, run: Arc<str>, mut reader: EventReader) {
    loop {
        let first = reader.next().await;
        let Some(fan_out) = fan_out.upgrade() else { return };
        let first = match first {
            Ok(Some(event)) => event,
            Ok(None) => return fan_out.end(StreamEnd::Ended),
            Err(RuntimeError::NoSuchRun(_)) => return fan_out.end(StreamEnd::Ended),
            Err(_) => return fan_out.end(StreamEnd::Lost),
        };
        let mut pieces = vec![StoredEvent::Event(first)];
        while pieces.len() < MAX_EVENTS_PER_PUSH
            && let Some(event) = reader.next_buffered()
        {
            pieces.push(StoredEvent::Event(event));
        }
        fan_out.push(EventBatch::encode_all(&run, &pieces));
        let readers = u32::try_from(Arc::strong_count(&fan_out).saturating_sub(1)).unwrap_or(u32::MAX);
        drop(fan_out);
        tokio::time::sleep(WAKE_INTERVAL_PER_READER.saturating_mul(readers).min(MAX_WAKE_INTERVAL)).await;
    }
}

impl EventFanOut {
    /// Creates a fan-out that starts after an event.
    fn new(newest: u64, fan_outs: &Arc<AtomicUsize>) -> EventFanOut {
        fan_outs.fetch_add(1, Ordering::Relaxed);
        let ring = EventRing { batches: VecDeque::new(), bytes: 0, starts_after: newest, newest, end: None };
        EventFanOut {
            ring: Mutex::new(ring),
            fan_outs: fan_outs.clone(),
            changed: Notify::new(),
            feed_task: Mutex::default(),
        }
    }

    fn ring(&self) -> MutexGuard<'_, EventRing> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ended(&self) -> bool {
        self.ring().end.is_some()
    }

    fn push(&self, batches: Vec<EventBatch>) {
        let share = MAX_TOTAL_RING_BYTES / self.fan_outs.load(Ordering::Relaxed).max(1);
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
            ring.starts_after = oldest.last;
        }
        drop(ring);
        self.changed.notify_waiters();
    }

    fn end(&self, end: StreamEnd) {
        self.ring().end = Some(end);
        self.changed.notify_waiters();
    }

    /// Returns a notification future. Create it before checking, so that no change in between is missed.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Returns the events after a sequence number.
    pub(crate) fn after(&self, after: u64) -> NextEvents {
        let ring = self.ring();
        if after < ring.starts_after {
            return NextEvents::InStore;
        }
        let at = ring.batches.partition_point(|batch| batch.last <= after);
        match (ring.batches.get(at), ring.end) {
            (Some(batch), _) => NextEvents::Batch(batch.clone()),
            (None, Some(end)) => NextEvents::Ended(end),
            (None, None) => NextEvents::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::{Event, EventKind};
    use windlass_value::{Timestamp, Value};

    use super::*;

    fn batches(from: u64, to: u64, bytes: usize) -> Vec<EventBatch> {
        let piece = |seq| {
            let data = Value::object([("text", "x".repeat(bytes))]);
            let kind = EventKind::Other { type_name: "note\nid: 9".into(), fields: data };
            StoredEvent::Event(Event { seq, at: Timestamp(0), path: "a".into(), kind })
        };
        EventBatch::encode_all("r", &(from..=to).map(piece).collect::<Vec<_>>())
    }

    fn fan_out(before: u64) -> EventFanOut {
        EventFanOut::new(before, &Arc::default())
    }

    #[test]
    fn a_reader_gets_the_events_after_its_position() {
        let fan_out = fan_out(4);
        fan_out.push(batches(5, 7, 10));
        fan_out.push(batches(8, 8, 10));
        assert!(matches!(fan_out.after(3), NextEvents::InStore));
        for after in 4..8 {
            let NextEvents::Batch(batch) = fan_out.after(after) else { panic!("nothing after {after}") };
            let text = String::from_utf8(batch.sse_after(after).to_vec()).expect("text");
            assert!(text.starts_with(&format!("id: {}\nevent: note id: 9\ndata: {{\"seq\":{}", after + 1, after + 1)));
            let lines = String::from_utf8(batch.lines_after(after).to_vec()).expect("text");
            assert_eq!(lines.lines().count() as u64, batch.last - after);
        }
        assert!(matches!(fan_out.after(8), NextEvents::Nothing));
        fan_out.end(StreamEnd::Ended);
        assert!(matches!(fan_out.after(8), NextEvents::Ended(StreamEnd::Ended)));
        assert!(
            matches!(fan_out.after(7), NextEvents::Batch(_)),
            "events published before the end are delivered first"
        );
    }

    /// A reader that does not read holds one batch, so a batch must stay small however many events there are.
    #[test]
    fn a_batch_is_small_unless_an_event_is_large() {
        for (events, bytes) in [(1, 10), (100, 1_000), (100, MAX_BATCH_BYTES / 2), (3, MAX_BATCH_BYTES * 2)] {
            let all = batches(1, events, bytes);
            let largest = all.iter().map(EventBatch::size).max().unwrap_or_default();
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
    fn the_ring_buffer_is_bounded() {
        let fan_out = fan_out(0);
        for at in 0..20 {
            fan_out.push(batches(at + 1, at + 1, MAX_RING_BYTES / 4));
        }
        assert!(fan_out.ring().bytes <= MAX_RING_BYTES);
        assert!(matches!(fan_out.after(0), NextEvents::InStore), "a slow reader reads from the store");
        assert!(matches!(fan_out.after(19), NextEvents::Batch(_)));
        // The per-run buffer shrinks as the number of streamed runs grows.
        fan_out.fan_outs.fetch_add(10_000, Ordering::Relaxed);
        (0..20).for_each(|at| fan_out.push(batches(at + 21, at + 21, MAX_BATCH_BYTES / 2)));
        assert!(fan_out.ring().bytes <= MIN_RING_BYTES && matches!(fan_out.after(39), NextEvents::Batch(_)));
        // A batch larger than the buffer is kept all the same, since it is the newest.
        fan_out.push(batches(41, 41, MAX_RING_BYTES * 2));
        assert!(matches!(fan_out.after(40), NextEvents::Batch(_)));
    }
}
