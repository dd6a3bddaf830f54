//! The reply of a run to its caller, before the run has ended.
//!
//! | run | reply |
//! |---|---|
//! | has not replied | has replied: the reply is published and passed to the caller, and the run continues |
//! | has replied | the task has failed |

use windlass_value::Value;

use crate::plan::ExprId;
use crate::reduce::eval::Locals;
use crate::reduce::{ItemStop, Reducer};
use crate::state::{FrameId, ScopeId};
use crate::{Command, ErrorInfo, EventKind, RunReply};

impl Reducer<'_> {
    pub(super) fn evaluate_reply(
        &mut self,
        value: ExprId,
        success: Option<ExprId>,
        scope: ScopeId,
        locals: Locals<'_>,
    ) -> Result<RunReply, ItemStop> {
        let value = self.eval_with(value, scope, locals)?;
        let success = success.map(|success| self.condition(success, scope, locals)).transpose()?;
        Ok(RunReply { value, success: success.unwrap_or(true) })
    }

    /// Gives the reply, once. From here on the caller can no longer cancel the run.
    pub(super) fn reply(&mut self, id: FrameId, reply: RunReply) -> Result<Value, ErrorInfo> {
        if self.state.reply.is_some() {
            let error =
                ErrorInfo::new("AlreadyReplied", "reply", "the run has replied already, and can do so only once");
            return Err(error.hint("put the replies into branches of which only one is taken"));
        }
        let stored = RunReply { value: self.move_to_blob(reply.value), success: reply.success };
        self.publish_at(id, EventKind::RunReplied { reply: stored.value.clone(), success: stored.success });
        self.state.reply = Some(stored.clone());
        let value = stored.value.clone();
        self.work.output.commands.push(Command::Reply(stored));
        Ok(value)
    }
}
