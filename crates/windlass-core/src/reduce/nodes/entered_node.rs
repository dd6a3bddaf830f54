//! A task that enters a node: the pipeline waits for the node's end, which becomes the task's end.
//!
//! | the node ends | the task ends |
//! |---|---|
//! | succeeded | successfully, with the node's output |
//! | failed, skipped, cancelled, timed out | failed, with the node's output and error |
//!
//! The end of a node that no task has entered is impossible and a fault.

use super::pipeline::PipelinePosition;
use crate::plan::{NodeId, NodeKind};
use crate::reduce::Reducer;
use crate::reduce::fault::FaultResult;
use crate::state::{AgendaItem, FrameId, ScopeId};
use crate::{ErrorInfo, Outcome, Status, TaskOutcome};

impl Reducer<'_> {
    /// Enters the node. Each entry is a separate generation, so a retry or a jump that enters it again has its own
    /// effects.
    pub(super) fn enter_node(&mut self, id: FrameId, node: NodeId, scope: ScopeId) -> FaultResult {
        // The nodes inside have their own jobs and may take long.
        self.return_worker(id)?;
        let PipelinePosition { body, .. } = self.pipeline_frame(id)?;
        let child = self.begin_child(id, node, u64::from(body.pc), scope, false)?;
        self.state.next_generation += 1;
        let generation = self.state.next_generation;
        self.frame_mut(child)?.generation = generation;
        self.pipeline_frame_mut(id)?.child = Some(child);
        Ok(())
    }

    fn is_internal_loop(&self, node: NodeId) -> bool {
        matches!(&self.program.node(node).kind, NodeKind::Loop(looping) if looping.internal)
    }

    pub(in crate::reduce) fn entered_node_ended(&mut self, id: FrameId, outcome: &Outcome) -> FaultResult {
        self.child_removed(id)?;
        let entered = self.pipeline_frame(id)?.task.action.node();
        let hidden = entered.is_some_and(|node| self.program.node(node).hidden && !self.is_internal_loop(node));
        let body = self.pipeline_frame_mut(id)?;
        body.child = None;
        if hidden && outcome.loop_summary.is_some() {
            body.loop_summary = outcome.loop_summary.clone();
        }
        self.state.agenda.push_back(AgendaItem::TaskEnded(id, Box::new(task_outcome(outcome))));
        Ok(())
    }
}

/// Converts the node's outcome: a node that did not succeed is a failed task, with the node's own error if it has
/// one.
fn task_outcome(outcome: &Outcome) -> TaskOutcome {
    let (code, kind) = match outcome.status {
        Status::Succeeded => return TaskOutcome::success(outcome.output.clone()),
        Status::Failed => ("NodeFailed", "node"),
        Status::Skipped => ("Skipped", "skipped"),
        Status::Cancelled => ("Cancelled", "cancelled"),
        Status::TimedOut => ("TimedOut", "timeout"),
    };
    let default_error = || ErrorInfo::new(code, kind, format!("the node ended as {}", outcome.status.as_str()));
    let error = outcome.error.clone().unwrap_or_else(default_error);
    TaskOutcome { output: outcome.output.clone(), ..TaskOutcome::failure(error) }
}
