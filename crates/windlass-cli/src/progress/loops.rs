//! Where each live loop stands, as its events tell.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::Event;
use windlass_runtime::show::turns_of;
use windlass_value::Value;

use super::loop_of;
use crate::text;

#[derive(Clone, Default)]
pub struct LoopSeen {
    pub most: Option<u64>,
    pub ended: u64,
    pub last: Value,
    /// Not shown since it has changed.
    pub fresh: bool,
}

impl LoopSeen {
    pub fn count(&self) -> String {
        text::of(self.ended, self.most)
    }
}

/// By path.
#[derive(Default)]
pub struct Loops(pub BTreeMap<Arc<str>, LoopSeen>);

/// What an event did to a loop.
pub enum Change {
    Began(Arc<str>),
    Moved(Arc<str>),
    Ended(Arc<str>),
}

impl Loops {
    pub fn take(&mut self, event: &Event) -> Option<Change> {
        match &*event.kind {
            "loop.started" => {
                let most = turns_of(event);
                self.0.insert(event.path.clone(), LoopSeen { most, ..LoopSeen::default() });
                Some(Change::Began(event.path.clone()))
            }
            "loop.iteration.done" => {
                let path: Arc<str> = loop_of(&event.path).into();
                let seen = self.0.entry(path.clone()).or_default();
                seen.ended += 1;
                seen.last = event.data.get("result").cloned().unwrap_or_default();
                seen.fresh = true;
                Some(Change::Moved(path))
            }
            "loop.progress" => {
                let seen = self.0.entry(event.path.clone()).or_default();
                let to = event.data.get("to").and_then(Value::as_int).unwrap_or(0).max(0) as u64;
                seen.ended = seen.ended.max(to + 1);
                seen.fresh = true;
                Some(Change::Moved(event.path.clone()))
            }
            "loop.done" => {
                self.0.remove(&event.path)?;
                Some(Change::Ended(event.path.clone()))
            }
            _ => None,
        }
    }
}
