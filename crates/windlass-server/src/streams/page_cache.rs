//! What readers who are behind have read from the store. A row of the journal may hold far more than a reader is given at
//! once, and can only be read whole: so it is put here in small batches, for the same reader a moment later and for all
//! others who are there. Readers keep nothing: what they wait for is bounded however many there are.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use windlass_runtime::RuntimeError;
use windlass_runtime::inspect::StoredEvents;

use super::frame::EventBatch;
use crate::{ApiProblem, App};

/// Bytes of all that is kept; the newest is kept even if it has more.
const MAX_CACHE_BYTES: usize = 32 * 1024 * 1024;

/// Reading goes on until there are so many bytes, or rows.
const MIN_READ_BYTES: usize = 256 * 1024;
const MAX_READ_ROWS: u32 = 64;

/// The number of a run, and of the last event.
type Key = (i64, u64);

/// Those who read at once. They find what others have read before them, and nobody who only looks waits for them.
const MAX_CONCURRENT_READS: usize = 2;

pub(crate) struct EventPageCache {
    pages: Mutex<CachedPages>,
    lane: Semaphore,
}

impl Default for EventPageCache {
    fn default() -> EventPageCache {
        EventPageCache { pages: Mutex::default(), lane: Semaphore::new(MAX_CONCURRENT_READS) }
    }
}

#[derive(Default)]
struct CachedPages {
    by_last_event: BTreeMap<Key, CachedPage>,
    /// The oldest first.
    order: VecDeque<Key>,
    bytes: usize,
}

/// Events one after the other.
struct CachedPage {
    /// They come right after this one.
    starts_after: u64,
    batches: Vec<EventBatch>,
}

impl CachedPage {
    fn bytes(&self) -> usize {
        self.batches.iter().map(EventBatch::size).sum()
    }
}

impl EventPageCache {
    fn pages(&self) -> MutexGuard<'_, CachedPages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes after an event, and the last event that was read with it; None if it is not here.
    pub(crate) fn after(&self, run: i64, after: u64) -> Option<(EventBatch, u64)> {
        let pages = self.pages();
        let ((_, last), page) = pages.by_last_event.range((run, after.checked_add(1)?)..=(run, u64::MAX)).next()?;
        let at = page.batches.partition_point(|batch| batch.last <= after);
        let batch = page.batches.get(at).filter(|_| page.starts_after <= after)?;
        Some((batch.clone(), *last))
    }

    fn insert(&self, run: i64, before: u64, batches: Vec<EventBatch>) {
        let Some(last) = batches.last().map(|batch| batch.last) else { return };
        let (mut pages, page) = (self.pages(), CachedPage { starts_after: before, batches });
        pages.bytes += page.bytes();
        match pages.by_last_event.insert((run, last), page) {
            // Somebody has read the same at the same time.
            Some(same) => pages.bytes -= same.bytes(),
            None => pages.order.push_back((run, last)),
        }
        while pages.bytes > MAX_CACHE_BYTES && pages.order.len() > 1 {
            let oldest = pages.order.pop_front().and_then(|key| pages.by_last_event.remove(&key));
            pages.bytes -= oldest.map_or(0, |oldest| oldest.bytes());
        }
    }
}

/// What comes after an event: as much of it as was asked for, and all of what had to be read is kept for others.
pub(crate) async fn read_after(
    app: &App,
    (run, number): (Arc<str>, i64),
    after: u64,
    bytes: usize,
) -> Result<Vec<EventBatch>, ApiProblem> {
    let cache = &app.views.page_cache;
    // It is never closed.
    let permit = cache.lane.acquire().await.map_err(|_| ApiProblem::unavailable("the server is stopping"))?;
    if let Some((batch, _)) = cache.after(number, after) {
        return Ok(vec![batch]);
    }
    let batches = app.read_store(move |app| Ok(read_store(app, run, after)?)).await?;
    let mut returned_bytes = 0;
    let requested = batches.iter().take_while(|batch| {
        let fits = returned_bytes == 0 || returned_bytes + batch.size() <= bytes;
        returned_bytes += batch.size();
        fits
    });
    let requested = requested.cloned().collect();
    cache.insert(number, after, batches);
    drop(permit);
    Ok(requested)
}

fn read_store(app: &App, run: Arc<str>, after: u64) -> Result<Vec<EventBatch>, RuntimeError> {
    let mut events = StoredEvents::new(run.clone(), after);
    let (mut batches, mut size, mut rows, mut next) = (Vec::new(), 0, 0, 1);
    while size < MIN_READ_BYTES && rows < MAX_READ_ROWS {
        let pieces = events.read_rows(app.store.as_ref(), next)?;
        if pieces.is_empty() {
            break;
        }
        rows += next;
        let more = EventBatch::encode_all(&run, &pieces);
        let read: usize = more.iter().map(EventBatch::size).sum();
        size += read;
        batches.extend(more);
        // As many as are likely to be enough.
        next = u32::try_from(MIN_READ_BYTES / (read / next as usize).max(1))
            .unwrap_or(MAX_READ_ROWS)
            .clamp(1, MAX_READ_ROWS / 2);
    }
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use windlass_core::{Event, EventKind};
    use windlass_runtime::inspect::StoredEvent;
    use windlass_value::{Timestamp, Value};

    use super::*;

    fn batches(from: u64, to: u64, bytes: usize) -> Vec<EventBatch> {
        let piece = |seq| {
            let data = Value::object([("text", "x".repeat(bytes))]);
            let kind = EventKind::Other { type_name: "note".into(), fields: data };
            StoredEvent::Event(Event { seq, at: Timestamp(0), path: "a".into(), kind })
        };
        EventBatch::encode_all("r", &(from..=to).map(piece).collect::<Vec<_>>())
    }

    #[test]
    fn read_pages_are_shared_until_evicted() {
        let cache = EventPageCache::default();
        cache.insert(1, 10, batches(11, 20, 10_000));
        cache.insert(2, 0, batches(1, 5, 10));
        let found = |run, after| cache.after(run, after).map(|(batch, last)| (batch.last > after, last));
        assert_eq!(
            [found(1, 9), found(1, 10), found(1, 19), found(1, 20)],
            [None, Some((true, 20)), Some((true, 20)), None]
        );
        assert_eq!([found(2, 0), found(2, 5), found(3, 0), found(2, u64::MAX)], [Some((true, 5)), None, None, None]);
        let mut after = 10;
        while let Some((batch, _)) = cache.after(1, after) {
            assert!(batch.last > after && batch.last <= 20);
            after = batch.last;
        }
        assert_eq!(after, 20);
        // The same again is kept once.
        cache.insert(1, 10, batches(11, 20, 10_000));
        let before = cache.pages().bytes;
        for number in 0..200 {
            cache.insert(5, number, batches(number + 1, number + 1, 1024 * 1024));
        }
        assert_eq!((found(1, 10), found(5, 199)), (None, Some((true, 200))));
        let pages = cache.pages();
        assert!(before < 200_000 && pages.bytes <= MAX_CACHE_BYTES, "{before} {}", pages.bytes);
        assert_eq!(pages.order.len(), pages.by_last_event.len());
    }
}
