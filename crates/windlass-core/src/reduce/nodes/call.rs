//! A child run.
//!
//! | state | enter | result of the child run | close |
//! |---|---|---|---|
//! | new | called; failed if its name or input cannot be evaluated, or the run may start no more child runs | – | ended |
//! | called | – | ended, as the child run has | ended, and the child run is cancelled |
//! | ended | ignored | rejected, and an event reports it | ignored |
//!
//! – is impossible and a fault. A call has no children inside this run, and no alarm.

use windlass_value::Value;

use crate::plan::ChildRunCall;
use crate::reduce::fault::{FaultResult, no_call};
use crate::reduce::{ItemStop, Reducer};
use crate::state::{FrameBody, FrameId, OpenCall};
use crate::{Command, EffectKey, ErrorInfo};

impl Reducer<'_> {
    pub(in crate::reduce) fn enter_call(&mut self, id: FrameId, call: &ChildRunCall) -> Result<(), ItemStop> {
        if let Some(error) = self.child_run_refusal(self.state.next_call) {
            return Err(error.into());
        }
        let scope = self.frame(id)?.scope;
        let definition = match self.eval(call.definition, scope)? {
            Value::Str(name) => name,
            other => {
                let message = format!("a child run needs the name of a definition, not {other:?}");
                return Err(ErrorInfo::new("BadDefinition", "expression", message).into());
            }
        };
        let input = self.eval(call.input, scope)?;
        let input = self.move_to_blob(input);
        self.publish_started(id)?;
        let path = self.path(id);
        let number = self.state.next_call;
        self.state.next_call += 1;
        let frame = self.frame_mut(id)?;
        frame.body = FrameBody::Call { call: number };
        let key = EffectKey { path, generation: frame.generation, visit: 0, group: 0, call: 0 };
        self.state.calls.insert(number, OpenCall { frame: id, definition, input, key });
        self.request_child(number)?;
        Ok(())
    }

    /// Returns the error for a call with this number, counted from 0, if the run may start no more child runs.
    pub(super) fn child_run_refusal(&self, number: u64) -> Option<ErrorInfo> {
        let max = self.program.limits.max_child_runs;
        let error = || {
            let message = format!("the run has started {max} child runs, the limit `max_child_runs`");
            let hint =
                "check for a call that is repeated without end, or raise `limits.max_child_runs` in windlass.toml";
            ErrorInfo::new("ChildRuns", "limit", message).hint(hint)
        };
        (number >= max).then(error)
    }

    /// Requests the child run. A repeated request is harmless: the child's id is derived from its key.
    pub(in crate::reduce) fn request_child(&mut self, call: u64) -> FaultResult {
        let open = self.state.calls.get(&call).ok_or_else(|| no_call(call, "an open call"))?;
        let OpenCall { definition, input, key, .. } = open.clone();
        self.work.output.commands.push(Command::StartChild { call, definition, input, key });
        Ok(())
    }
}
