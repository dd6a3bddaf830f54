//! Events of a run from the store, and as objects of the public contract.

use std::sync::Arc;

use windlass_core::{Event, EventKind};
use windlass_store::{RunRow, StoreError, StoreRead};
use windlass_value::{Timestamp, Value};

use crate::RuntimeError;
use crate::codec::{self, TickEntry};

/// The number of journal rows read per batch.
const ROW_BATCH_SIZE: u32 = 64;

/// The event field that contains an error.
const ERROR_FIELD: &str = "error";

/// A run's events in order, each once, as far as the store has them.
pub struct StoredEvents {
    run: Arc<str>,
    /// The number of the last event that was returned.
    last_seq: u64,
}

/// One event, or a range that retention has removed.
#[derive(Clone, Debug)]
pub enum StoredEvent {
    /// A stored event.
    Event(Event),
    /// Events that retention has removed.
    Trimmed {
        /// The number of the first removed event.
        from: u64,
        /// The number of the last removed event.
        to: u64,
    },
}

impl StoredEvent {
    /// Returns the number up to which a reader that has this item has seen everything.
    pub fn seq(&self) -> u64 {
        match self {
            StoredEvent::Event(event) => event.seq,
            StoredEvent::Trimmed { to, .. } => *to,
        }
    }
}

impl StoredEvents {
    /// Creates a reader of the events after a number, 0 for all.
    pub fn new(run: Arc<str>, last_seq: u64) -> StoredEvents {
        StoredEvents { run, last_seq }
    }

    /// Returns the next durable events; none if there are no more at the moment.
    pub fn read(&mut self, store: &dyn StoreRead) -> Result<Vec<StoredEvent>, RuntimeError> {
        self.read_rows(store, ROW_BATCH_SIZE)
    }

    /// Reads at most this many journal rows and returns their events.
    pub fn read_rows(&mut self, store: &dyn StoreRead, rows: u32) -> Result<Vec<StoredEvent>, RuntimeError> {
        let mut events = Vec::new();
        for row in store.journal_by_event(&self.run, self.last_seq.saturating_add(1), rows)? {
            let entries: Vec<TickEntry> = codec::decode(&row.body, "the journal")?;
            for event in entries.into_iter().flat_map(|entry| entry.events) {
                if event.seq <= self.last_seq {
                    continue;
                }
                if event.seq > self.last_seq + 1 {
                    events.push(StoredEvent::Trimmed { from: self.last_seq + 1, to: event.seq - 1 });
                }
                self.last_seq = event.seq;
                events.push(StoredEvent::Event(event));
            }
        }
        Ok(events)
    }

    /// Returns the number of the last event that was returned, or skipped as trimmed.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }
}

/// Returns the number of the newest event of a run in the store.
pub fn newest_event(store: &dyn StoreRead, row: &RunRow) -> Result<u64, StoreError> {
    let mut ticks = row.ticks;
    while let Some(last) = ticks.checked_sub(1) {
        let Some(row) = store.journal(&row.run, last, 1)?.into_iter().next() else { break };
        if row.events > 0 {
            return Ok(row.first_event + u64::from(row.events) - 1);
        }
        // Ticks without events are rare, and few in a row.
        ticks = row.first_tick;
    }
    Ok(0)
}

/// Returns the number of an event before `time` that is close to the first event at or after `time`. This is a binary
/// search over the journal, whose times only grow.
pub fn last_before(store: &dyn StoreRead, row: &RunRow, time: Timestamp) -> Result<u64, RuntimeError> {
    let (mut low, mut high) = (0, newest_event(store, row)?);
    while low < high {
        let middle = low + (high - low) / 2;
        let Some(found) = store.journal_by_event(&row.run, middle + 1, 1)?.into_iter().next() else { break };
        let entries: Vec<TickEntry> = codec::decode(&found.body, "the journal")?;
        let last = entries.iter().flat_map(|entry| &entry.events).last();
        match last.map(|last| (last.seq, last.at)) {
            Some((seq, at)) if at < time => low = seq.max(middle + 1),
            _ => high = middle.min(found.first_event.saturating_sub(1)),
        }
    }
    Ok(low)
}

/// Returns the event as an object of the public contract: the five fixed fields, then the event's own fields at the
/// same level.
pub fn event_value(run: &str, event: &StoredEvent) -> Value {
    match event {
        StoredEvent::Event(event) => event_with_run_hints(run, event),
        StoredEvent::Trimmed { from, to } => {
            let kind = EventKind::EventsTrimmed { from: *from, to: *to };
            event_with_run_hints(run, &Event { seq: *to, at: Timestamp::default(), path: "".into(), kind })
        }
    }
}

fn event_with_run_hints(run: &str, event: &Event) -> Value {
    let mut map = event.to_wire(Some(run));
    for (key, value) in map.iter_mut().filter(|(key, value)| has_hint(key, value)) {
        *value = fill_hint(run, key, value);
    }
    Value::map(map)
}

/// Reports whether a field may be an error with a hint, or contain one.
fn has_hint(key: &str, value: &Value) -> bool {
    matches!(value, Value::Map(_)) && (key == "outcome" || key == ERROR_FIELD)
}

/// Fills the run id into an error's hint, also if the error is inside an outcome.
fn fill_hint(run: &str, key: &str, value: &Value) -> Value {
    let inner = match (key, value) {
        ("outcome", Value::Map(_)) => ERROR_FIELD,
        (ERROR_FIELD, Value::Map(_)) => "hint",
        _ => return value.clone(),
    };
    let Some((mut map, found)) = value.as_map().cloned().zip(value.get(inner)) else { return value.clone() };
    map.insert(
        inner,
        match found.as_str() {
            Some(hint) if inner == "hint" => Value::from(fill_run_id(hint, run)),
            _ => fill_hint(run, inner, found),
        },
    );
    Value::map(map)
}

/// Fills the id of a run into a hint that names it as RUN.
pub fn fill_run_id(hint: &str, run: &str) -> String {
    hint.replace(" RUN", &format!(" {run}"))
}
