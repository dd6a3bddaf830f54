//! Events published by the engine: observations of a run, numbered from 1 without a gap.
//!
//! [`EventKind`] is the only declaration of all event types; a macro declares it in `kind.rs`. To add a type, declare
//! it there, publish it, and run `UPDATE=1 cargo test -p windlass-core --test event_reference`, which writes the
//! reference, the schema and the types of the web UI.

mod declare;
mod field;
mod kind;
mod parts;

use std::sync::Arc;

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use windlass_value::{Map, Timestamp, Value};

pub use field::{EventDoc, FieldDoc, FieldShape, ObjectShape};
pub use kind::EventKind;
pub use parts::{
    EventError, IdleReason, LoopEventLimits, LoopStats, PatchScope, PermissionDecision, StepCounts, TaskResult,
    TaskStatus,
};

/// Wire names that no event type may use for its own fields.
const FIXED: [&str; 5] = ["seq", "at", "type", "path", "workflowId"];

/// An observation of a run.
///
/// Its JSON form is `{"seq", "at", "type", "path", …fields}`; its journal form is a tuple with the type's fields as
/// declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Counts from 1 per run without a gap.
    pub seq: u64,
    /// The time of the tick that published it.
    pub at: Timestamp,
    /// The step, task or iteration that it is about; empty for the run.
    pub path: Arc<str>,
    /// The type and its fields.
    pub kind: EventKind,
}

impl Event {
    /// The `type` on the wire.
    pub fn type_name(&self) -> &str {
        self.kind.type_name()
    }

    /// The fields on the wire, without those that every event has.
    pub fn fields(&self) -> Map {
        self.kind.fields()
    }

    /// The object on the wire. `run` adds the run's id.
    pub fn to_wire(&self, run: Option<&str>) -> Map {
        let mut map = Map::new();
        map.insert(FIXED[0], self.seq);
        map.insert(FIXED[1], self.at.to_string());
        map.insert(FIXED[2], self.type_name());
        map.insert(FIXED[3], self.path.clone());
        if let Some(run) = run {
            map.insert(FIXED[4], run);
        }
        for (name, value) in self.fields() {
            // Fields of a custom event must not override the fixed fields.
            if !FIXED.contains(&&*name) {
                map.insert(name, value);
            }
        }
        map
    }

    /// Reads an event from its wire object. Returns None if one of the fixed fields is missing or wrong.
    pub fn from_wire(mut map: Map) -> Option<Event> {
        let seq = u64::try_from(map.remove(FIXED[0])?.as_int()?).ok()?;
        let at = Timestamp::parse_rfc3339(map.remove(FIXED[1])?.as_str()?)?;
        let (Value::Str(type_name), Value::Str(path)) = (map.remove(FIXED[2])?, map.remove(FIXED[3])?) else {
            return None;
        };
        map.remove(FIXED[4]);
        Some(Event { seq, at, path, kind: EventKind::new(type_name, map) })
    }
}

/// Names of types that definitions and tools refer to by name.
impl EventKind {
    /// A step succeeded.
    pub const STEP_DONE: &'static str = "step.done";
    /// A step failed.
    pub const STEP_FAILED: &'static str = "step.failed";
    /// A loop ended.
    pub const LOOP_DONE: &'static str = "loop.done";
    /// A worker reports progress.
    pub const TASK_PROGRESS: &'static str = "task.progress";
    /// Streamed output of an agent's model.
    pub const AGENT_OUTPUT: &'static str = "agent.output";
    /// A progress message from the coordinator to the user.
    pub const COORDINATOR_NARRATION: &'static str = "coordinator.narration";
    /// The coordinator's summary at the end.
    pub const COORDINATOR_SYNTHESIS: &'static str = "coordinator.synthesis";
    /// The coordinator failed; the steps continue without it.
    pub const COORDINATOR_FAILED: &'static str = "coordinator.failed";
}

impl EventKind {
    /// Returns the event of this type with these fields; [`EventKind::Other`] where the engine defines no such type, or
    /// one with other fields. The fields are the same either way.
    pub fn new(type_name: Arc<str>, fields: Map) -> EventKind {
        match EventKind::typed(&type_name, &fields) {
            Some(kind) if kind.fields() == fields => kind,
            _ => EventKind::Other { type_name, fields: Value::map(fields) },
        }
    }

    /// Returns the event of this type with some of its fields: missing fields that cannot be omitted are empty. For
    /// tests and for views that know only some of the fields.
    pub fn with_defaults(type_name: &str, mut fields: Map) -> EventKind {
        if let Some(docs) = EventKind::DOCS.iter().find(|docs| docs.type_name == type_name) {
            field::fill(docs.fields, &mut fields);
        }
        EventKind::new(type_name.into(), fields)
    }

    /// Returns the number of the step run that the event is about, where step runs have numbers.
    pub fn firing(&self) -> Option<u64> {
        match self {
            EventKind::StepStarted { firing, .. }
            | EventKind::StepDone { firing, .. }
            | EventKind::StepFailed { firing, .. }
            | EventKind::StepSkipped { firing, .. }
            | EventKind::StepIdle { firing, .. }
            | EventKind::TaskRetrying { firing, .. }
            | EventKind::InputRequired { firing, .. } => *firing,
            EventKind::StepRunning { firing, .. } => Some(*firing),
            _ => None,
        }
    }

    /// Returns the error that the event reports, if any.
    pub fn error(&self) -> Option<&EventError> {
        match self {
            EventKind::WorkflowFinished { error, .. }
            | EventKind::StepDone { error, .. }
            | EventKind::StepFailed { error, .. }
            | EventKind::StepSkipped { error, .. }
            | EventKind::IterationDone { error, .. } => error.as_deref(),
            EventKind::TaskProcessed { outcome, .. } => outcome.error.as_deref(),
            EventKind::TaskRetrying { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return (self.seq, self.at, &self.path, &self.kind).serialize(serializer);
        }
        let wire = self.to_wire(None);
        let mut out = serializer.serialize_map(Some(wire.len()))?;
        wire.iter().try_for_each(|(name, value)| out.serialize_entry(&**name, value))?;
        out.end()
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Event, D::Error> {
        if !deserializer.is_human_readable() {
            let (seq, at, path, kind) = Deserialize::deserialize(deserializer)?;
            return Ok(Event { seq, at, path, kind });
        }
        match Value::deserialize(deserializer)? {
            Value::Map(map) => Event::from_wire(Arc::unwrap_or_clone(map))
                .ok_or_else(|| D::Error::custom("an event has `seq`, `at`, `type` and `path`")),
            other => Err(D::Error::custom(format!("an event is an object, not {}", other.kind()))),
        }
    }
}
