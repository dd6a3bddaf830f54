//! The report of an ended run, for people and programs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_core::plan::{Node, NodeKind};
use windlass_core::{ErrorInfo, LoopSummary, Outcome, Program, RunReply, State, Status, redacted_value};
use windlass_store::RunRow;
use windlass_value::{IterationRecords, Map, Value};

use crate::adapters::CHILD_FACT;
use crate::{RuntimeError, codec};

/// Stored in the run's row when it has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinalReport {
    /// The final status.
    pub status: Status,
    /// The output of the run, redacted if the definition says so.
    pub output: Value,
    /// The error, if the run did not succeed.
    pub error: Option<ErrorInfo>,
    /// The reply that the run sent before it ended.
    pub reply: Option<RunReply>,
    /// The top-level steps, in the definition's order.
    pub steps: Vec<(Arc<str>, StepReport)>,
    /// The number of events that it has published.
    pub events: u64,
    /// The resources that it has used, if they are counted.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub usage: Value,
}

/// The end of one top-level step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepReport {
    /// The final status.
    pub status: Status,
    /// The output of the step.
    pub output: Value,
    /// The error, if the step did not succeed, or the reason why it was skipped.
    pub error: Option<ErrorInfo>,
    /// For a loop: its iterations and the reason for its end, without the records of single iterations.
    pub looping: Option<LoopSummary>,
    /// The resources that it has used, if they are counted.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub usage: Value,
}

impl FinalReport {
    /// Decodes the report in a run's row: of its end, or of its quarantine. Fails for a run that a newer program has
    /// written.
    pub fn from_row(row: &RunRow) -> Result<Option<FinalReport>, RuntimeError> {
        row.check_format()?;
        row.result.as_ref().map(|bytes| codec::decode(bytes, "the run's result")).transpose()
    }

    pub(crate) fn from_state(program: &Program, state: &State) -> FinalReport {
        let result = state.result().cloned().unwrap_or(windlass_core::RunResult {
            status: Status::Failed,
            output: Value::Null,
            error: None,
            reply: None,
            usage: Value::Null,
        });
        FinalReport {
            status: result.status,
            output: if program.redacts_output() { redacted_value() } else { result.output },
            error: result.error,
            reply: result.reply,
            steps: completed_steps(program, state),
            events: state.events,
            usage: result.usage,
        }
    }

    /// Returns the object of `windlass run --json`, without the fields that only the caller knows.
    pub fn to_value(&self) -> Map {
        let mut map = Map::new();
        map.insert("status", self.status.as_str());
        map.insert("output", self.output.clone());
        if let Some(error) = &self.error {
            map.insert("error", error_value(error));
        }
        if let Some(reply) = &self.reply {
            map.insert(
                "reply",
                Value::object([("value", reply.value.clone()), ("success", Value::Bool(reply.success))]),
            );
        }
        if !self.usage.is_null() {
            map.insert("usage", self.usage.clone());
        }
        let steps = self.steps.iter().map(|(name, step)| (name.clone(), step.to_value()));
        map.insert("steps", Value::object(steps));
        map
    }
}

impl StepReport {
    fn from_outcome(outcome: &Outcome) -> StepReport {
        StepReport {
            status: outcome.status,
            output: outcome.output.clone(),
            error: outcome.error.clone(),
            // The iteration records of a loop are for expressions; they may be long.
            looping: outcome
                .loop_summary
                .clone()
                .map(|summary| LoopSummary { records: IterationRecords::None, ..summary }),
            usage: outcome.usage.clone(),
        }
    }

    /// Returns the step's entry in the object of `windlass run --json`.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("status", self.status.as_str());
        map.insert("output", self.output.clone());
        if let Some(error) = &self.error {
            map.insert("error", error_value(error));
        }
        if let Some(looping) = &self.looping {
            map.insert("loop", loop_value(looping));
        }
        if !self.usage.is_null() {
            map.insert("usage", self.usage.clone());
        }
        Value::map(map)
    }
}

fn loop_value(looping: &LoopSummary) -> Value {
    let mut map = Map::new();
    map.insert("kind", looping.kind.clone());
    map.insert("iterations", looping.iterations);
    map.insert("failed", looping.failed);
    map.insert("reason", looping.reason.as_str());
    if !looping.usage.is_empty() {
        map.insert("usage", Value::object(looping.usage.iter().map(|used| (used.what.clone(), used.used))));
    }
    if looping.unjudged > 0 {
        map.insert("unjudged", looping.unjudged);
    }
    Value::map(map)
}

/// Returns the steps that have ended so far; the run may still be open.
pub fn completed_steps(program: &Program, state: &State) -> Vec<(Arc<str>, StepReport)> {
    let root = program.node(program.plan.root);
    let mut top = match (&root.kind, root.hidden) {
        (NodeKind::Graph(_) | NodeKind::Net(_), _) | (_, true) => root.kind.children(),
        (_, false) => vec![program.plan.root],
    };
    // The children of a hidden graph appear in place of the graph.
    while let Some(at) = top.iter().position(|node| is_hidden_graph(program.node(*node))) {
        let inside = program.node(top[at]).kind.children();
        top.splice(at..=at, inside);
    }
    let Some(scope) = state.scopes.get(state.root_scope) else { return Vec::new() };
    top.into_iter()
        .filter_map(|node| {
            let mut step = StepReport::from_outcome(scope.outcome(node)?);
            if program.facts(node).redacted {
                step.output = redacted_value();
            }
            Some((program.node(node).name.clone(), step))
        })
        .collect()
}

fn is_hidden_graph(node: &Node) -> bool {
    node.hidden && matches!(node.kind, NodeKind::Graph(_))
}

/// Returns an error with the code of the page that explains it.
pub fn error_value(error: &ErrorInfo) -> Value {
    let reference = windlass_errors::for_run_error(&error.code, &error.kind);
    match error.to_value() {
        Value::Map(fields) => {
            let mut map = Map::clone(&fields);
            map.insert("reference", reference);
            if let Some(child) = error.facts.get(CHILD_FACT) {
                map.insert(CHILD_FACT, child.clone());
            }
            Value::map(map)
        }
        other => other,
    }
}
