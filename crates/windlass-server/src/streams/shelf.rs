//! What readers who are behind have read from the store. A row of the journal may hold far more than a reader is given at
//! once, and can only be read whole: so it is put here in small batches, for the same reader a moment later and for all
//! others who are there. Readers keep nothing: what they wait for is bounded however many there are.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use windlass_runtime::RuntimeError;
use windlass_runtime::show::StoredEvents;

use super::frame::Batch;
use crate::{App, Problem};

/// Bytes of all that is kept; the newest is kept even if it has more.
const MAX_CACHE_BYTES: usize = 32 * 1024 * 1024;

/// Reading goes on until there are so many bytes, or rows.
const READ_BYTES: usize = 256 * 1024;
const READ_ROWS: u32 = 64;

/// The number of a run, and of the last event.
type Key = (i64, u64);

/// Those who read at once. They find what others have read before them, and nobody who only looks waits for them.
const MAX_CONCURRENT_READS: usize = 2;

pub(crate) struct Shelf {
    kept: Mutex<Kept>,
    lane: Semaphore,
}

impl Default for Shelf {
    fn default() -> Shelf {
        Shelf { kept: Mutex::default(), lane: Semaphore::new(MAX_CONCURRENT_READS) }
    }
}

#[derive(Default)]
struct Kept {
    reads: BTreeMap<Key, Read>,
    /// The oldest first.
    order: VecDeque<Key>,
    bytes: usize,
}

/// Events one after the other.
struct Read {
    /// They come right after this one.
    before: u64,
    batches: Vec<Batch>,
}

impl Read {
    fn bytes(&self) -> usize {
        self.batches.iter().map(Batch::size).sum()
    }
}

impl Shelf {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes after an event, and the last event that was read with it; None if it is not here.
    pub(crate) fn after(&self, run: i64, after: u64) -> Option<(Batch, u64)> {
        let kept = self.kept();
        let ((_, last), read) = kept.reads.range((run, after.checked_add(1)?)..=(run, u64::MAX)).next()?;
        let at = read.batches.partition_point(|batch| batch.last <= after);
        let batch = read.batches.get(at).filter(|_| read.before <= after)?;
        Some((batch.clone(), *last))
    }

    fn keep(&self, run: i64, before: u64, batches: Vec<Batch>) {
        let Some(last) = batches.last().map(|batch| batch.last) else { return };
        let (mut kept, read) = (self.kept(), Read { before, batches });
        kept.bytes += read.bytes();
        match kept.reads.insert((run, last), read) {
            // Somebody has read the same at the same time.
            Some(same) => kept.bytes -= same.bytes(),
            None => kept.order.push_back((run, last)),
        }
        while kept.bytes > MAX_CACHE_BYTES && kept.order.len() > 1 {
            let oldest = kept.order.pop_front().and_then(|key| kept.reads.remove(&key));
            kept.bytes -= oldest.map_or(0, |oldest| oldest.bytes());
        }
    }
}

/// What comes after an event: as much of it as was asked for, and all of what had to be read is kept for others.
pub(crate) async fn read(
    app: &App,
    (run, number): (Arc<str>, i64),
    after: u64,
    bytes: usize,
) -> Result<Vec<Batch>, Problem> {
    let shelf = &app.views.shelf;
    // It is never closed.
    let permit = shelf.lane.acquire().await.map_err(|_| Problem::unavailable("the server is stopping"))?;
    if let Some((batch, _)) = shelf.after(number, after) {
        return Ok(vec![batch]);
    }
    let batches = app.at_store(move |app| Ok(from_store(app, run, after)?)).await?;
    let mut given = 0;
    let wanted = batches.iter().take_while(|batch| {
        let fits = given == 0 || given + batch.size() <= bytes;
        given += batch.size();
        fits
    });
    let wanted = wanted.cloned().collect();
    shelf.keep(number, after, batches);
    drop(permit);
    Ok(wanted)
}

fn from_store(app: &App, run: Arc<str>, after: u64) -> Result<Vec<Batch>, RuntimeError> {
    let mut events = StoredEvents::new(run.clone(), after);
    let (mut batches, mut size, mut rows, mut next) = (Vec::new(), 0, 0, 1);
    while size < READ_BYTES && rows < READ_ROWS {
        let pieces = events.read_rows(app.store.as_ref(), next)?;
        if pieces.is_empty() {
            break;
        }
        rows += next;
        let more = Batch::all(&run, &pieces);
        let read: usize = more.iter().map(Batch::size).sum();
        size += read;
        batches.extend(more);
        // As many as are likely to be enough.
        next = u32::try_from(READ_BYTES / (read / next as usize).max(1)).unwrap_or(READ_ROWS).clamp(1, READ_ROWS / 2);
    }
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use windlass_core::{Event, EventKind};
    use windlass_runtime::show::StoredEvent;
    use windlass_value::{Timestamp, Value};

    use super::*;

    fn batches(from: u64, to: u64, bytes: usize) -> Vec<Batch> {
        let piece = |seq| {
            let data = Value::object([("text", "x".repeat(bytes))]);
            let kind = EventKind::Other { type_name: "note".into(), fields: data };
            StoredEvent::Event(Event { seq, at: Timestamp(0), path: "a".into(), kind })
        };
        Batch::all("r", &(from..=to).map(piece).collect::<Vec<_>>())
    }

    #[test]
    fn what_was_read_is_there_for_all_for_a_while() {
        let shelf = Shelf::default();
        shelf.keep(1, 10, batches(11, 20, 10_000));
        shelf.keep(2, 0, batches(1, 5, 10));
        let found = |run, after| shelf.after(run, after).map(|(batch, last)| (batch.last > after, last));
        assert_eq!(
            [found(1, 9), found(1, 10), found(1, 19), found(1, 20)],
            [None, Some((true, 20)), Some((true, 20)), None]
        );
        assert_eq!([found(2, 0), found(2, 5), found(3, 0), found(2, u64::MAX)], [Some((true, 5)), None, None, None]);
        let mut after = 10;
        while let Some((batch, _)) = shelf.after(1, after) {
            assert!(batch.last > after && batch.last <= 20);
            after = batch.last;
        }
        assert_eq!(after, 20);
        // The same again is kept once.
        shelf.keep(1, 10, batches(11, 20, 10_000));
        let before = shelf.kept().bytes;
        for number in 0..200 {
            shelf.keep(5, number, batches(number + 1, number + 1, 1024 * 1024));
        }
        assert_eq!((found(1, 10), found(5, 199)), (None, Some((true, 200))));
        let kept = shelf.kept();
        assert!(before < 200_000 && kept.bytes <= MAX_CACHE_BYTES, "{before} {}", kept.bytes);
        assert_eq!(kept.order.len(), kept.reads.len());
    }
}
