//! A page cache for readers that are behind. A journal row may contain far more than a reader gets in one chunk, and
//! can only be read as a whole; it is cached here in small batches, for the same reader a moment later and for other
//! readers at the same position. Readers hold no data themselves, so memory is bounded however many there are.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use windlass_runtime::RuntimeError;
use windlass_runtime::inspect::StoredEvents;

use super::frame::EventBatch;
use crate::{ApiProblem, App};

/// Maximum total size of the cache; the newest page is kept even if it is larger.
const MAX_CACHE_BYTES: usize = 32 * 1024 * 1024;

/// A read continues until it has this many bytes or rows.
const MIN_READ_BYTES: usize = 256 * 1024;
const MAX_READ_ROWS: u32 = 64;

/// The number of a run, and of the last event of a page.
type Key = (i64, u64);

/// Maximum number of concurrent reads. Readers find pages that others have read before, and plain requests do not
/// wait for them.
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
    /// Oldest first.
    order: VecDeque<Key>,
    bytes: usize,
}

/// A sequence of events.
struct CachedPage {
    /// The sequence number of the event before the first.
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

    /// Returns the batch after an event and the last event of its page; None if it is not cached.
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
            // A concurrent reader has read the same page.
            Some(same) => pages.bytes -= same.bytes(),
            None => pages.order.push_back((run, last)),
        }
        while pages.bytes > MAX_CACHE_BYTES && pages.order.len() > 1 {
            let oldest = pages.order.pop_front().and_then(|key| pages.by_last_event.remove(&key));
            pages.bytes -= oldest.map_or(0, |oldest| oldest.bytes());
        }
    }
}

/// Reads the events after an event: as many as requested. All that had to be read is cached for others.
pub(crate) async fn read_after(
    app: &App,
    (run, number): (Arc<str>, i64),
    after: u64,
    bytes: usize,
) -> Result<Vec<EventBatch>, ApiProblem> {
    let cache = &app.views.page_cache;
    // The semaphore is never closed.
    let permit = cache.lane.acquire().await.map_err(|_| ApiProblem::unavailable("the server is shutting down"))?;
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
        // An estimate of the number of rows that suffices.
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
        // A repeated page is stored once.
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
