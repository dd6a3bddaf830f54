//! Objects and words inside events.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Map, Value, interned};

use super::declare::{object_fields, wire_name};
use super::field::word_fields;
use super::field::{EventField, FieldDoc, FieldShape, ObjectShape, is_default, present, put};
use crate::ErrorInfo;

object_fields! {
    /// A failure, as events report it.
    EventError {
        /// For programs: `503`, `LoopCountExceeded`, `InvalidTemplate`.
        code: Arc<str>,
        /// A coarse class that retries match: `timeout`, `connection`, `http`, `expression`, `limit`, `tool`.
        kind: Arc<str>,
        /// For people. A message over the inline limit is cut.
        message: Arc<str>,
    }
    optional {
        /// What to do about it.
        hint: Option<Arc<str>>,
        /// Where it happened first.
        path: Arc<str>,
    }

    /// The limits of a loop.
    LoopEventLimits {
        /// The most iterations, if they are limited.
        count: Option<u64>,
        /// The most time, as an ISO 8601 duration.
        timeout: Option<Arc<str>>,
        /// The number of items, for a loop over items.
        items: Option<u64>,
    }
    optional {
        /// Iterations that run at the same time, if there are more items than that.
        max_concurrency as "atOnce": Option<u64>,
        /// The budget: the most of each thing that is counted, by its name.
        budget: Value,
    }

    /// Iterations of a loop, counted by how they ended.
    LoopStats {
        /// All that have ended.
        total: u64,
        /// Those that succeeded.
        success: u64,
        /// Those that failed.
        failed: u64,
    }
}

impl EventError {
    /// The error without what only the engine needs; texts beyond this many bytes are cut.
    pub(crate) fn new(error: &ErrorInfo, max_bytes: usize) -> Arc<EventError> {
        Arc::new(EventError {
            code: error.code.clone(),
            kind: error.kind.clone(),
            message: cut(&error.message, max_bytes),
            hint: error.hint.as_ref().map(|hint| cut(hint, max_bytes)),
            path: error.path.clone(),
        })
    }
}

fn cut(text: &Arc<str>, max_bytes: usize) -> Arc<str> {
    match text.len() <= max_bytes {
        true => text.clone(),
        false => format!("{}…", &text[..text.floor_char_boundary(max_bytes)]).into(),
    }
}

/// How a task ended, with what its tool reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// Whether the task has an error.
    pub status: TaskStatus,
    /// The task's output or a reference to it.
    pub result: Value,
    /// Why the task failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub error: Option<Arc<EventError>>,
    /// Attempt, duration and what the tool says of its work.
    #[serde(default, skip_serializing_if = "is_default")]
    pub meta: Value,
    /// An object with further facts of the tool, such as `http` and `pg`; null when there are none. On the wire they stand
    /// beside the other fields.
    #[serde(default, skip_serializing_if = "is_default")]
    pub facts: Value,
}

impl EventField for TaskResult {
    const SHAPE: FieldShape = FieldShape::Object(&ObjectShape {
        name: "TaskResult",
        docs: &[
            " How a task ended, with what its tool reported. Further facts of the tool, such as `http` and `pg`, stand",
            " beside the other fields.",
        ],
        fields: &[
            FieldDoc {
                name: "status",
                docs: &[" Whether the task has an error."],
                optional: false,
                shape: TaskStatus::SHAPE,
            },
            FieldDoc {
                name: "result",
                docs: &[" The task's output or a reference to it."],
                optional: false,
                shape: Value::SHAPE,
            },
            FieldDoc { name: "error", docs: &[" Why the task failed."], optional: true, shape: EventError::SHAPE },
            FieldDoc {
                name: "meta",
                docs: &[" Attempt, duration and what the tool says of its work."],
                optional: true,
                shape: Value::SHAPE,
            },
        ],
        open: true,
    });

    fn to_wire(&self) -> Value {
        let mut map = Map::new();
        put(&mut map, "status", &self.status);
        put(&mut map, "result", &self.result);
        if self.error.is_some() {
            put(&mut map, "error", &self.error);
        }
        if !self.meta.is_null() {
            put(&mut map, "meta", &self.meta);
        }
        for (name, fact) in self.facts.as_map().into_iter().flat_map(Map::iter) {
            map.insert(name.clone(), fact.clone());
        }
        Value::map(map)
    }

    fn from_wire(value: &Value) -> Option<TaskResult> {
        let mut facts = value.as_map()?.clone();
        Some(TaskResult {
            status: TaskStatus::from_wire(&facts.remove("status")?)?,
            result: facts.remove("result")?,
            error: facts.remove("error").map_or(Some(None), |error| EventField::from_wire(&error))?,
            meta: facts.remove("meta").unwrap_or_default(),
            facts: if facts.is_empty() { Value::Null } else { Value::map(facts) },
        })
    }

    fn each_value(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        visit(&mut self.result);
        visit(&mut self.meta);
        if let Value::Map(facts) = &mut self.facts {
            Arc::make_mut(facts).values_mut().for_each(visit);
        }
    }
}

/// Declares enums that are one word on the wire.
macro_rules! words {
    ($( $(#[doc = $doc:literal])+ $name:ident { $first:ident = $first_word:literal $(, $variant:ident = $word:literal)* } )+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum $name {
            #[default]
            #[serde(rename = $first_word)]
            $first,
            $( #[serde(rename = $word)] $variant, )*
        }

        impl $name {
            pub(crate) const ALL: [$name; [$first_word $(, $word)*].len()] = [$name::$first $(, $name::$variant)*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $name::$first => $first_word,
                    $( $name::$variant => $word, )*
                }
            }
        }

        word_fields!($name);
    )+};
}

words! {
    /// Whether a task gave an output or an error.
    TaskStatus { Success = "success", Error = "error" }

    /// Whose variables a patch changes.
    PatchScope { Run = "run", Step = "step", Iteration = "turn" }

    /// Why a step gave its worker back.
    IdleReason { Wait = "wait", Retry = "retry" }

    /// The answer to an agent that wants to use a tool.
    PermissionDecision { Allowed = "allowed", Always = "always", Denied = "refused" }
}
