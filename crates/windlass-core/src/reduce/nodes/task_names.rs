//! The names that a task's expressions see in addition to the scope's, and the outcome of the task.
//!
//! | task | `_task`, `_attempt`, `_visit`, `_prev` | `_own` | `outcome` |
//! |---|---|---|---|
//! | is about to be attempted | of this attempt | the previous result; – before the first | – |
//! | has ended | of the attempt that has ended | its result | its outcome |
//!
//! `_step` is the name of the node that the author sees the task in. – is a name that does not exist.

use std::cell::OnceCell;
use std::sync::Arc;

use windlass_value::{Map, Timestamp, Value};

use crate::plan::Task;
use crate::state::PipelineFrame;
use crate::{ErrorInfo, Outcome, TaskOutcome};

/// The properties of an outcome that the reducer sets itself.
const RESERVED: [&str; 5] = ["status", "result", "error", "meta", "private"];

/// The names `_step`, `_task`, `_attempt` and `_visit` (both from 1), `_prev` and `_own`; for an ended task also
/// `outcome`.
pub(crate) struct TaskNames<'a> {
    step: &'a Arc<str>,
    task: Arc<str>,
    attempt: u32,
    visit: u32,
    previous: Value,
    /// Some task of the pipeline has ended, so that `previous` is a result.
    has_result: bool,
    ended: Option<TaskEnd<'a>>,
}

/// The end of a task. Its value is built only on access: most tasks end without a rule.
struct TaskEnd<'a> {
    outcome: &'a TaskOutcome,
    started_at: Timestamp,
    ended_at: Timestamp,
    value: OnceCell<Value>,
}

impl<'a> TaskNames<'a> {
    /// Returns the names of a task that is about to be attempted.
    pub(super) fn before(step: &'a Arc<str>, task: &Task, body: &PipelineFrame) -> TaskNames<'a> {
        let continues = body.next_call_input.is_some();
        TaskNames {
            step,
            task: task.label.clone(),
            attempt: body.attempt + u32::from(!continues),
            visit: body.visits.get(&body.pc).copied().unwrap_or(0) + 1,
            previous: body.previous.clone(),
            has_result: body.pc > 0 || !body.visits.is_empty(),
            ended: None,
        }
    }

    pub(super) fn after(
        step: &'a Arc<str>,
        task: &Task,
        body: &PipelineFrame,
        outcome: &'a TaskOutcome,
        ended_at: Timestamp,
    ) -> TaskNames<'a> {
        let (started_at, value) = (body.task_started_at, OnceCell::new());
        let ended = Some(TaskEnd { outcome, started_at, ended_at, value });
        TaskNames { attempt: body.attempt.max(1), ended, ..TaskNames::before(step, task, body) }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        match name {
            "_task" => Some(Value::Str(self.task.clone())),
            "_attempt" => Some(Value::from(self.attempt)),
            "_visit" => Some(Value::from(self.visit)),
            "_prev" => Some(self.previous.clone()),
            "_step" => Some(Value::Str(self.step.clone())),
            "_own" => match &self.ended {
                Some(ended) => Some(ended.outcome.output.clone()),
                None => self.has_result.then(|| self.previous.clone()),
            },
            "outcome" => self.outcome().cloned(),
            _ => None,
        }
    }

    /// Returns `{status, result, error, meta, private?}` with the facts that the tool has reported added.
    fn outcome(&self) -> Option<&Value> {
        let ended = self.ended.as_ref()?;
        Some(ended.value.get_or_init(|| {
            let mut map = Map::new();
            map.insert("status", status(ended.outcome));
            map.insert("result", ended.outcome.output.clone());
            map.insert("error", ended.outcome.error.as_ref().map_or(Value::Null, ErrorInfo::to_value));
            map.insert("meta", complete_meta(&ended.outcome.meta, self.attempt, ended.started_at, ended.ended_at));
            if !ended.outcome.private.is_null() {
                map.insert("private", ended.outcome.private.clone());
            }
            facts(ended.outcome).for_each(|(name, fact)| _ = map.insert(name.clone(), fact.clone()));
            Value::map(map)
        }))
    }
}

/// Returns the same for an ended node: the facts of a failed node are those that its last task reported.
pub(super) fn outcome_value(outcome: &Outcome) -> Value {
    let mut map = Map::new();
    map.insert("status", if outcome.status.is_bad() { "error" } else { "success" });
    map.insert("result", outcome.output.clone());
    map.insert("error", outcome.error.as_ref().map_or(Value::Null, ErrorInfo::to_value));
    let known = outcome.error.as_ref().and_then(|error| error.facts.as_map());
    for (name, fact) in known.into_iter().flat_map(Map::iter).filter(|(name, _)| !RESERVED.contains(&&***name)) {
        map.insert(name.clone(), fact.clone());
    }
    Value::map(map)
}

pub(super) fn status(outcome: &TaskOutcome) -> &'static str {
    if outcome.error.is_some() { "error" } else { "success" }
}

/// Returns the tool's facts. A tool adds to the known properties of an outcome; it does not replace them.
pub(super) fn facts(outcome: &TaskOutcome) -> impl Iterator<Item = (&Arc<str>, &Value)> {
    outcome.facts.as_map().into_iter().flat_map(Map::iter).filter(|(name, _)| !RESERVED.contains(&&***name))
}

/// Returns the tool's meta data with the attempt and the times that the reducer knows.
pub(super) fn complete_meta(meta: &Value, attempt: u32, started_at: Timestamp, ended_at: Timestamp) -> Value {
    let mut known = meta.as_map().cloned().unwrap_or_default();
    known.insert("attempt", attempt);
    known.insert("duration_ms", ended_at.since(started_at).as_ms());
    known.insert("started_at", started_at.to_string());
    known.insert("ended_at", ended_at.to_string());
    Value::map(known)
}
