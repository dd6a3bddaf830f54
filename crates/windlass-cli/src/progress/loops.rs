//! Tracks the progress of each live loop from its events.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::{Event, EventKind};
use windlass_runtime::inspect::started_max_iterations;
use windlass_value::Value;

use super::loop_path;
use crate::text;

#[derive(Clone, Default)]
pub(crate) struct LoopProgress {
    pub max_iterations: Option<u64>,
    pub ended: u64,
    pub last: Value,
    /// Changed since it was last shown.
    pub fresh: bool,
}

impl LoopProgress {
    pub(crate) fn count(&self) -> String {
        text::format_ratio(self.ended, self.max_iterations)
    }
}

/// The live loops by path.
#[derive(Default)]
pub(crate) struct LiveLoops(pub BTreeMap<Arc<str>, LoopProgress>);

/// The effect of an event on a loop.
pub(crate) enum LoopChange {
    Began(Arc<str>),
    Moved(Arc<str>),
    Ended(Arc<str>),
}

impl LiveLoops {
    pub(crate) fn apply(&mut self, event: &Event) -> Option<LoopChange> {
        match &event.kind {
            EventKind::LoopStarted { limits, .. } => {
                let max_iterations = started_max_iterations(limits);
                self.0.insert(event.path.clone(), LoopProgress { max_iterations, ..LoopProgress::default() });
                Some(LoopChange::Began(event.path.clone()))
            }
            EventKind::IterationDone { result, .. } => {
                let path: Arc<str> = loop_path(&event.path).into();
                let seen = self.0.entry(path.clone()).or_default();
                seen.ended += 1;
                seen.last = result.clone();
                seen.fresh = true;
                Some(LoopChange::Moved(path))
            }
            EventKind::LoopProgress { to, .. } => {
                let seen = self.0.entry(event.path.clone()).or_default();
                seen.ended = seen.ended.max(to + 1);
                seen.fresh = true;
                Some(LoopChange::Moved(event.path.clone()))
            }
            EventKind::LoopDone { .. } => {
                self.0.remove(&event.path)?;
                Some(LoopChange::Ended(event.path.clone()))
            }
            _ => None,
        }
    }
}
