//! Objects and enumerations used inside events.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Map, Value, interned};

use super::declare::{object_fields, wire_name};
use super::field::word_fields;
use super::field::{EventField, FieldDoc, FieldShape, ObjectShape, is_default, present, put};
use crate::{ErrorInfo, Status};

object_fields! {
    /// A failure, as events report it.
    EventError {
        /// For programs: `503`, `LoopCountExceeded`, `InvalidTemplate`.
        code: Arc<str>,
        /// A coarse class that retries match: `timeout`, `connection`, `http`, `expression`, `limit`, `tool`.
        kind: Arc<str>,
        /// The message for people. A message over the inline limit is truncated.
        message: Arc<str>,
    }
    optional {
        /// Advice on how to fix it.
        hint: Option<Arc<str>>,
        /// The path where it happened first.
        path: Arc<str>,
    }

    /// The limits of a loop.
    LoopEventLimits {
        /// The maximum number of iterations, if it is limited.
        count: Option<u64>,
        /// The maximum time, as an ISO 8601 duration.
        timeout: Option<Arc<str>>,
        /// The number of items, for a loop over items.
        items: Option<u64>,
    }
    optional {
        /// The maximum number of concurrent iterations, if there are more items than that.
        max_concurrency: Option<u64>,
        /// The budget: the maximum of each metered resource, by name.
        budget: Value,
    }

    /// Iterations of a loop, counted by how they ended.
    LoopStats {
        /// All iterations that have ended.
        total: u64,
        /// Iterations that succeeded.
        success: u64,
        /// Iterations that failed.
        failed: u64,
    }

    /// The ended runs of one step or task, counted by how they ended.
    StepCounts {
        /// The path of the run that ended first.
        path: Arc<str>,
    }
    optional {
        /// Runs that succeeded.
        succeeded: u64,
        /// Runs that failed.
        failed: u64,
        /// Runs that were skipped.
        skipped: u64,
        /// Runs that were cancelled.
        cancelled: u64,
        /// Runs that took longer than their timeout.
        timed_out: u64,
        /// The iterations of all runs, if the step is a loop.
        iterations: u64,
        /// Those of them that failed.
        failed_iterations: u64,
    }
}

impl StepCounts {
    pub(crate) fn add_end(&mut self, status: Status) {
        *match status {
            Status::Succeeded => &mut self.succeeded,
            Status::Failed => &mut self.failed,
            Status::Skipped => &mut self.skipped,
            Status::Cancelled => &mut self.cancelled,
            Status::TimedOut => &mut self.timed_out,
        } += 1;
    }

    /// Returns the number of runs that ended with this status.
    pub fn ended(&self, status: Status) -> u64 {
        match status {
            Status::Succeeded => self.succeeded,
            Status::Failed => self.failed,
            Status::Skipped => self.skipped,
            Status::Cancelled => self.cancelled,
            Status::TimedOut => self.timed_out,
        }
    }
}

impl EventError {
    /// Returns the error without the fields that only the engine needs. Texts longer than `max_bytes` are truncated.
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

/// The outcome of a task, with the facts that its tool reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// Whether the task has an error.
    pub status: TaskStatus,
    /// The task's output or a reference to it.
    pub result: Value,
    /// The reason why the task failed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub error: Option<Arc<EventError>>,
    /// Attempt, duration and further facts the tool reports about its work.
    #[serde(default, skip_serializing_if = "is_default")]
    pub meta: Value,
    /// An object with further facts from the tool, such as `http` and `pg`; null when there are none. On the wire they
    /// appear next to the other fields.
    #[serde(default, skip_serializing_if = "is_default")]
    pub facts: Value,
}

impl EventField for TaskResult {
    const SHAPE: FieldShape = FieldShape::Object(&ObjectShape {
        name: "TaskResult",
        docs: &[
            " The outcome of a task, with the facts that its tool reported. Further facts of the tool, such as `http` and",
            " `pg`, appear next to the other fields.",
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
            FieldDoc {
                name: "error",
                docs: &[" The reason why the task failed."],
                optional: true,
                shape: EventError::SHAPE,
            },
            FieldDoc {
                name: "meta",
                docs: &[" Attempt, duration and further facts the tool reports about its work."],
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

/// Declares enums that are a single word on the wire.
macro_rules! words {
    ($( $(#[doc = $doc:literal])+ $name:ident { $first:ident = $first_word:literal $(, $variant:ident = $word:literal)* } )+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum $name {
            #[doc = concat!("`", $first_word, "` on the wire.")]
            #[default]
            #[serde(rename = $first_word)]
            $first,
            $(
                #[doc = concat!("`", $word, "` on the wire.")]
                #[serde(rename = $word)]
                $variant,
            )*
        }

        impl $name {
            pub(crate) const ALL: [$name; [$first_word $(, $word)*].len()] = [$name::$first $(, $name::$variant)*];

            /// Returns the word on the wire.
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

    /// The owner of the variables that a patch changes.
    PatchScope { Run = "run", Step = "step", Iteration = "iteration" }

    /// The reason why a step returned its worker.
    IdleReason { Wait = "wait", Retry = "retry" }

    /// The decision on an agent's request to use a tool.
    PermissionDecision { Allowed = "allowed", Always = "always", Denied = "denied" }
}
