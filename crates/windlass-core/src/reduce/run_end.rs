//! The end of a run: its status, its output, and its final event.
//!
//! | run | the root ends | an end was decided before | its outputs cannot be evaluated |
//! |---|---|---|---|
//! | held | – | ended as decided: it has not begun | – |
//! | running | ended, as the root has | ended as decided, when the root has ended | failed |
//! | ended | – | ignored | – |
//!
//! – is impossible: the root ends once, and the agenda is empty from then on.

use std::sync::Arc;

use windlass_value::{Map, Value};

use super::fault::FaultResult;
use super::publish::redacted_value;
use super::{ItemStop, Reducer};
use crate::state::{Closing, Phase};
use crate::{Command, ErrorInfo, EventKind, Outcome, RunResult, Status};

impl Reducer<'_> {
    /// Processes the last item of a run: its output and its end.
    pub(crate) fn end_run(&mut self, outcome: &Arc<Outcome>) -> Result<(), ItemStop> {
        let decided_end = self.state.decided_end.clone();
        let (status, error) = match decided_end {
            Some(closing) => (closing.status, closing.error),
            None => (outcome.status, outcome.error.clone()),
        };
        let mut output = match &self.program.plan.outputs {
            None => outcome.output.clone(),
            Some(_) => Value::Null,
        };
        if let (Some(outputs), Status::Succeeded) = (&self.program.plan.outputs, status) {
            let mut map = Map::new();
            for (name, expression) in outputs {
                map.insert(name.clone(), self.eval(*expression, self.state.root_scope)?);
            }
            output = Value::map(map);
        }
        if let (Some(name), Status::Succeeded) = (self.state.output_node.clone(), status) {
            output = self.output_of(&name)?;
        }
        let (reply, usage) = (self.state.reply.clone(), outcome.usage.clone());
        self.close_run(RunResult { status, output, error, reply, usage });
        Ok(())
    }

    /// Returns the output of the node that the caller requests; null if it has not run.
    fn output_of(&self, name: &str) -> Result<Value, ItemStop> {
        let node = self.program.named(None, name).ok_or_else(|| {
            let message = format!("the caller requests the output of `{name}`, which this definition does not have");
            ErrorInfo::new("NoSuchStep", "call", message)
        })?;
        let scope = self.state.scopes.get(self.state.root_scope);
        Ok(scope.and_then(|scope| scope.outcome(node)).map(|outcome| outcome.output.clone()).unwrap_or_default())
    }

    pub(crate) fn fail_run(&mut self, _outcome: &Arc<Outcome>, error: ErrorInfo) {
        let (output, reply, usage) = (Value::Null, self.state.reply.clone(), Value::Null);
        self.close_run(RunResult { status: Status::Failed, output, error: Some(error), reply, usage });
    }

    /// Ends a run that was held until now.
    pub(crate) fn end_held_run(&mut self, closing: Closing) -> FaultResult {
        let Closing { status, error, output, .. } = closing;
        self.close_run(RunResult { status, output, error, reply: None, usage: Value::Null });
        Ok(())
    }

    fn close_run(&mut self, result: RunResult) {
        self.state.phase = Phase::Ended(result.clone());
        self.state.timers.clear();
        self.state.waits.clear();
        self.drop_remaining_mail();
        self.state.agenda.clear();
        let output = if self.program.redacts_output() { redacted_value() } else { result.output.clone() };
        let error = result.error.as_ref().map(|error| self.event_error(error));
        let (status, usage) = (result.status, result.usage.clone());
        self.publish("".into(), EventKind::WorkflowFinished { status, output, error, usage });
        self.work.output.commands.push(match result.status {
            Status::Succeeded | Status::Skipped => Command::CompleteRun(result),
            Status::Cancelled | Status::TimedOut => Command::Halt(result),
            Status::Failed => Command::FailWorkflow(result),
        });
    }
}
