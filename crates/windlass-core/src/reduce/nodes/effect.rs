//! Which tool is called with what: at first, and when an operation takes more than one call.
//!
//! | the task | nothing was sent under its key | something was sent under its key |
//! |---|---|---|
//! | is tried | a new call, with an input that is evaluated | the same call once more; with `fresh` its input is evaluated anew |
//! | has been answered | the call goes on, with an input that is evaluated | the call goes on with the same input; with `fresh` as above |
//! | goes on with an operation | – | the call goes on with what the tool asked for |
//!
//! The last column's first row is what a retry sends when no reply was received: one key never carries other bytes.

use std::sync::Arc;

use windlass_value::Value;

use super::pipeline::At;
use crate::plan::{Effect, Name};
use crate::reduce::eval::Locals;
use crate::reduce::impossible::Checked;
use crate::reduce::loop_node::shortened;
use crate::reduce::{Reducer, Stop};
use crate::state::{PendingWait, FrameId, ScopeId, Timer};
use crate::{Again, ErrorInfo, EventKind};

/// Names that a message lists.
const MAX_NAMES_LISTED: usize = 20;

/// The call that a task is about to make.
pub(super) enum Call {
    /// A new try.
    Begins { tool: Arc<str>, input: Value },
    /// One more call of an operation that was not finished.
    GoesOn { tool: Arc<str>, input: Value },
}

impl Reducer<'_> {
    /// What was sent under the current key is sent again as it was; else name and input are evaluated.
    pub(super) fn next_call(
        &mut self,
        id: FrameId,
        effect: &Effect,
        scope: ScopeId,
        locals: Locals<'_>,
    ) -> Result<Call, Stop> {
        let sent = Some(self.pipeline_frame(id)?.body).filter(|body| body.sent);
        let (tool, inputs, again) =
            sent.map(|body| (body.tool.clone(), Some(body.inputs.clone()), body.again.clone())).unwrap_or_default();
        let tool = match (&effect.tool, tool) {
            (Name::Fixed(tool), _) => tool.clone(),
            (Name::Computed { .. }, Some(tool)) => tool,
            (Name::Computed { computed, among }, None) => {
                let name = self.eval_with(*computed, scope, locals)?;
                chosen(&name, among)?
            }
        };
        let inputs = inputs.filter(|_| !effect.fresh);
        let resumes = matches!(self.pending_wait(id)?, Some(PendingWait::Resolved));
        match (again, inputs) {
            (None, None) if resumes => Ok(Call::GoesOn { tool, input: self.eval_with(effect.input, scope, locals)? }),
            (None, Some(input)) if resumes => Ok(Call::GoesOn { tool, input }),
            (Some(input), _) => Ok(Call::GoesOn { tool, input }),
            (None, Some(input)) => Ok(Call::Begins { tool, input }),
            (None, None) => Ok(Call::Begins { tool, input: self.eval_with(effect.input, scope, locals)? }),
        }
    }

    /// The tool's operation goes on without us: nobody is kept busy until it is time to ask.
    pub(super) fn call_again_after(&mut self, id: FrameId, again: &Again) -> Checked {
        let At { task, body, .. } = self.pipeline_frame(id)?;
        let attempt = body.attempt;
        let until = self.now() + again.after;
        if !task.hidden {
            let (task, path) = (task.label.clone(), self.task_path(id));
            self.publish(path, EventKind::TaskWaiting { task, attempt, until });
        }
        let input = self.slim(again.input.clone());
        let key = self.set_timer(until, Timer::Alarm(id));
        self.frame_mut(id)?.alarm = Some(key);
        self.hold_or_return_worker(id, again.after)?;
        let body = self.pipeline_frame_mut(id)?;
        body.again = Some(input);
        body.call += 1;
        self.yield_slot(id)
    }
}

/// A computed name reaches nothing but what the definition has named.
fn chosen(name: &Value, among: &[Arc<str>]) -> Result<Arc<str>, ErrorInfo> {
    let found = name.as_str().and_then(|name| among.iter().find(|one| &***one == name));
    found.cloned().ok_or_else(|| {
        let what = match name.as_str() {
            Some(_) => format!("there is no tool {} here", shortened(name)),
            None => format!("a tool's name must be a text; {} {} is none", name.kind(), shortened(name)),
        };
        ErrorInfo::new("NoSuchTool", "tool", format!("{what}; there are: {}", listed(among)))
    })
}

fn listed(names: &[Arc<str>]) -> String {
    let told = names.iter().take(MAX_NAMES_LISTED).map(|name| &**name).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES_LISTED) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}
