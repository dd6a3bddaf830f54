//! The names that a task's expressions see besides the scope's, and what is known of its outcome.
//!
//! | task | `_task`, `_attempt`, `_visit`, `_prev` | `outcome` |
//! |---|---|---|
//! | is about to be tried | of this try | – |
//! | has ended | of the try that has ended | what is known of it |
//!
//! – is a name that is not there.

use std::cell::OnceCell;
use std::sync::Arc;

use windlass_value::{Map, Timestamp, Value};

use crate::plan::Task;
use crate::state::PipelineFrame;
use crate::{ErrorInfo, Outcome, TaskOutcome};

/// What the reducer itself says of an outcome.
const OWN: [&str; 4] = ["status", "result", "error", "meta"];

/// `_task`, `_attempt` and `_visit` (both from 1), `_prev`; of a task that has ended also `outcome`.
pub(crate) struct TaskNames<'a> {
    task: Arc<str>,
    attempt: u32,
    visit: u32,
    previous: Value,
    ended: Option<Ending<'a>>,
}

/// Put together only if somebody asks: most tasks end without a rule.
struct Ending<'a> {
    outcome: &'a TaskOutcome,
    started_at: Timestamp,
    ended_at: Timestamp,
    told: OnceCell<Value>,
}

impl<'a> TaskNames<'a> {
    /// Of a task that is about to be tried.
    pub(super) fn before(task: &Task, body: &PipelineFrame) -> TaskNames<'a> {
        let goes_on = body.again.is_some();
        TaskNames {
            task: task.label.clone(),
            attempt: body.attempt + u32::from(!goes_on),
            visit: body.visits.get(&body.pc).copied().unwrap_or(0) + 1,
            previous: body.previous.clone(),
            ended: None,
        }
    }

    pub(super) fn after(
        task: &Task,
        body: &PipelineFrame,
        outcome: &'a TaskOutcome,
        ended_at: Timestamp,
    ) -> TaskNames<'a> {
        let (started_at, told) = (body.task_started_at, OnceCell::new());
        let ended = Some(Ending { outcome, started_at, ended_at, told });
        TaskNames { attempt: body.attempt.max(1), ended, ..TaskNames::before(task, body) }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        match name {
            "_task" => Some(Value::Str(self.task.clone())),
            "_attempt" => Some(Value::from(self.attempt)),
            "_visit" => Some(Value::from(self.visit)),
            "_prev" => Some(self.previous.clone()),
            "outcome" => self.outcome().cloned(),
            _ => None,
        }
    }

    /// `{status, result, error, meta}`, and beside them the facts that the tool has told.
    fn outcome(&self) -> Option<&Value> {
        let ended = self.ended.as_ref()?;
        Some(ended.told.get_or_init(|| {
            let mut told = Map::new();
            told.insert("status", status(ended.outcome));
            told.insert("result", ended.outcome.output.clone());
            told.insert("error", ended.outcome.error.as_ref().map_or(Value::Null, ErrorInfo::to_value));
            told.insert("meta", completed(&ended.outcome.meta, self.attempt, ended.started_at, ended.ended_at));
            facts(ended.outcome).for_each(|(name, fact)| _ = told.insert(name.clone(), fact.clone()));
            Value::map(told)
        }))
    }
}

/// The same of a node that has ended: what is known of a failed one is what its last task told.
pub(super) fn ended_value(outcome: &Outcome) -> Value {
    let mut told = Map::new();
    told.insert("status", if outcome.status.is_bad() { "error" } else { "success" });
    told.insert("result", outcome.output.clone());
    told.insert("error", outcome.error.as_ref().map_or(Value::Null, ErrorInfo::to_value));
    let known = outcome.error.as_ref().and_then(|error| error.facts.as_map());
    for (name, fact) in known.into_iter().flat_map(Map::iter).filter(|(name, _)| !OWN.contains(&&***name)) {
        told.insert(name.clone(), fact.clone());
    }
    Value::map(told)
}

pub(super) fn status(outcome: &TaskOutcome) -> &'static str {
    if outcome.error.is_some() { "error" } else { "success" }
}

/// A tool adds to what is known of every outcome; it does not replace it.
pub(super) fn facts(outcome: &TaskOutcome) -> impl Iterator<Item = (&Arc<str>, &Value)> {
    outcome.facts.as_map().into_iter().flat_map(Map::iter).filter(|(name, _)| !OWN.contains(&&***name))
}

/// What the tool says of its work, and what the reducer knows of it.
pub(super) fn completed(meta: &Value, attempt: u32, started_at: Timestamp, ended_at: Timestamp) -> Value {
    let mut known = meta.as_map().cloned().unwrap_or_default();
    known.insert("attempt", attempt);
    known.insert("duration_ms", ended_at.since(started_at).as_ms());
    known.insert("started_at", started_at.to_string());
    known.insert("ended_at", ended_at.to_string());
    Value::map(known)
}
