//! The tool and the input of a call: the first one, and further ones when an operation takes more than one call.
//!
//! | the task | nothing was sent under its key | something was sent under its key |
//! |---|---|---|
//! | is attempted | a new call, with an evaluated input | the same call again; with `reevaluates_input` its input is evaluated again |
//! | resumes after a wait | the call continues, with an evaluated input | the call continues with the same input; with `reevaluates_input` as above |
//! | continues an operation | – | the call continues with the input that the tool requested |
//!
//! The last column's first row is what a retry sends when no reply was received: one key never carries different
//! bytes.

use std::sync::Arc;

use windlass_value::Value;

use super::pipeline::PipelinePosition;
use crate::plan::{Effect, ToolName};
use crate::reduce::eval::Locals;
use crate::reduce::fault::FaultResult;
use crate::reduce::loop_node::truncated;
use crate::reduce::{ItemStop, Reducer};
use crate::state::{FrameId, PendingWait, ScopeId, Timer};
use crate::{ErrorInfo, EventKind, NextCall};

/// Maximum number of names that a message lists.
const MAX_NAMES_LISTED: usize = 20;

/// The next call of a task.
pub(super) enum EffectCall {
    /// A new attempt.
    Begin { tool: Arc<str>, input: Value },
    /// Another call of an unfinished operation.
    Continue { tool: Arc<str>, input: Value },
}

impl Reducer<'_> {
    /// Returns the next call. What was sent under the current key is sent again unchanged; otherwise name and input are
    /// evaluated.
    pub(super) fn next_call(
        &mut self,
        id: FrameId,
        effect: &Effect,
        scope: ScopeId,
        locals: Locals<'_>,
    ) -> Result<EffectCall, ItemStop> {
        let sent = Some(self.pipeline_frame(id)?.body).filter(|body| body.sent);
        let (tool, inputs, next_input) = sent
            .map(|body| (body.tool.clone(), Some(body.inputs.clone()), body.next_call_input.clone()))
            .unwrap_or_default();
        let tool = match (&effect.tool, tool) {
            (ToolName::Fixed(tool), _) => tool.clone(),
            (ToolName::Computed { .. }, Some(tool)) => tool,
            (ToolName::Computed { computed, among }, None) => {
                let name = self.eval_with(*computed, scope, locals)?;
                select_tool(&name, among)?
            }
        };
        let inputs = inputs.filter(|_| !effect.reevaluates_input);
        let resumes = matches!(self.pending_wait(id)?, Some(PendingWait::Resolved));
        match (next_input, inputs) {
            (None, None) if resumes => {
                Ok(EffectCall::Continue { tool, input: self.eval_with(effect.input, scope, locals)? })
            }
            (None, Some(input)) if resumes => Ok(EffectCall::Continue { tool, input }),
            (Some(input), _) => Ok(EffectCall::Continue { tool, input }),
            (None, Some(input)) => Ok(EffectCall::Begin { tool, input }),
            (None, None) => Ok(EffectCall::Begin { tool, input: self.eval_with(effect.input, scope, locals)? }),
        }
    }

    /// Schedules the next call of an operation that continues elsewhere. No worker is occupied until then.
    pub(super) fn schedule_next_call(&mut self, id: FrameId, next: &NextCall) -> FaultResult {
        let PipelinePosition { task, body, .. } = self.pipeline_frame(id)?;
        let attempt = body.attempt;
        let until = self.now() + next.after;
        if !task.hidden {
            let (task, path) = (task.label.clone(), self.task_path(id));
            self.publish(path, EventKind::TaskWaiting { task, attempt, until });
        }
        let input = self.move_to_blob(next.input.clone());
        let key = self.set_timer(until, Timer::Alarm(id));
        self.frame_mut(id)?.alarm = Some(key);
        self.hold_or_return_worker(id, next.after)?;
        let body = self.pipeline_frame_mut(id)?;
        body.next_call_input = Some(input);
        body.call += 1;
        self.yield_slot(id)
    }
}

/// Selects a tool by its computed name, which must be one of those that the definition lists.
fn select_tool(name: &Value, among: &[Arc<str>]) -> Result<Arc<str>, ErrorInfo> {
    let found = name.as_str().and_then(|name| among.iter().find(|one| &***one == name));
    found.cloned().ok_or_else(|| {
        let what = match name.as_str() {
            Some(_) => format!("there is no tool {}", truncated(name)),
            None => format!("a tool's name must be a text, not {} {}", name.kind(), truncated(name)),
        };
        ErrorInfo::new("NoSuchTool", "tool", format!("{what}; available tools: {}", list_names(among)))
    })
}

fn list_names(names: &[Arc<str>]) -> String {
    let text = names.iter().take(MAX_NAMES_LISTED).map(|name| &**name).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES_LISTED) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}
