//! Events of the runs that a restarted or retried run continues: what it inherits.

use std::collections::VecDeque;
use std::sync::Arc;

use windlass_core::Event;
use windlass_store::{RunRow, StoreRead};
use windlass_value::Duration;

use super::{StoredEvent, StoredEvents};
use crate::{RunOptions, RuntimeError};

/// The maximum number of source runs that are followed: a run may be the restart of a restart.
const MAX_SOURCE_RUNS: usize = 64;

/// The events of a run's source runs up to the fork, oldest run first. Times are shifted, so that the last of them is
/// where the run itself begins: the time between the two runs did not pass for any step.
pub struct InheritedEvents {
    parts: VecDeque<InheritedPart>,
}

/// The events of one source run.
struct InheritedPart {
    events: StoredEvents,
    until: u64,
    shift: Duration,
    /// The run was removed: its events are missing.
    removed: bool,
}

impl InheritedEvents {
    /// Finds the source runs of a run. A run that is no restart and no retry has none.
    pub fn new(store: &dyn StoreRead, row: &RunRow) -> Result<InheritedEvents, RuntimeError> {
        let mut parts = VecDeque::new();
        let (mut at, mut shift) = (Some(row.clone()), Duration::ZERO);
        while let Some(row) = at.take() {
            let Some(from) = RunOptions::from_row(&row)?.from else { break };
            shift = Duration(shift.0.saturating_add(row.created_at.since(from.time).0));
            let source = store.run(&from.run)?;
            let (events, removed) = (StoredEvents::new(Arc::clone(&from.run), 0), source.is_none());
            parts.push_front(InheritedPart { events, until: from.events, shift, removed });
            at = source.filter(|_| parts.len() < MAX_SOURCE_RUNS);
        }
        Ok(InheritedEvents { parts })
    }

    /// Returns the next events; none if there are no more. Events about a run itself are left out: its start and its
    /// pauses are not those of the new run.
    pub fn read(&mut self, store: &dyn StoreRead) -> Result<Vec<StoredEvent>, RuntimeError> {
        while let Some(part) = self.parts.front_mut() {
            if part.removed {
                let to = part.until;
                self.parts.pop_front();
                if to > 0 {
                    return Ok(vec![StoredEvent::Trimmed { from: 1, to }]);
                }
                continue;
            }
            let read = if part.events.last_seq() < part.until { part.events.read(store)? } else { Vec::new() };
            let (until, shift) = (part.until, part.shift);
            if read.is_empty() {
                self.parts.pop_front();
            }
            let events: Vec<StoredEvent> = read.into_iter().filter_map(|event| inherit(event, until, shift)).collect();
            if !events.is_empty() {
                return Ok(events);
            }
        }
        Ok(Vec::new())
    }
}

fn inherit(event: StoredEvent, until: u64, shift: Duration) -> Option<StoredEvent> {
    match event {
        StoredEvent::Event(event) if event.seq > until || event.path.is_empty() => None,
        StoredEvent::Event(event) => Some(StoredEvent::Event(Event { at: event.at + shift, ..event })),
        StoredEvent::Trimmed { from, .. } if from > until => None,
        StoredEvent::Trimmed { from, to } => Some(StoredEvent::Trimmed { from, to: to.min(until) }),
    }
}
