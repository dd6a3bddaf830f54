//! A choice between nodes.

use std::sync::Arc;

use windlass_value::Value;

use crate::plan::{Branch, NodeId, Test};
use crate::reduce::eval::Locals;
use crate::reduce::{Reducer, Stop};
use crate::state::{Body, Ended, FrameId};
use crate::{Outcome, Status};

impl Reducer<'_> {
    pub(in crate::reduce) fn enter_branch(&mut self, id: FrameId, branch: &Branch) -> Result<(), Stop> {
        let Some(frame) = self.state.frames.get(id) else { return Ok(()) };
        let scope = frame.scope;
        let subject = branch.on.map(|on| self.eval(on, scope)).transpose()?;
        let mut taken: Option<NodeId> = None;
        for case in &branch.cases {
            let holds = match case.test {
                Test::When(condition) => self.condition(condition, scope, Locals::default())?,
                Test::Equals(value) => Some(self.eval(value, scope)?) == subject,
            };
            if holds {
                taken = Some(case.node);
                break;
            }
        }
        let taken = taken.or(branch.otherwise);
        self.tell_started(id);
        for untaken in branch.cases.iter().map(|case| case.node).chain(branch.otherwise) {
            if Some(untaken) != taken {
                self.skip_inside(id, untaken, "ActionBranchingConditionNotSatisfied");
            }
        }
        match taken {
            Some(node) => {
                let child = self.begin_child(id, node, 0, scope, false);
                if let Some(frame) = self.state.frames.get_mut(id) {
                    frame.body = Body::Branch { child };
                }
            }
            None => self.end_with(id, Status::Succeeded, Value::Null, None),
        }
        Ok(())
    }

    pub(in crate::reduce) fn branch_child_ended(&mut self, id: FrameId, outcome: &Arc<Outcome>) {
        self.child_gone(id);
        let attempts = self.state.frames.get(id).map_or(1, |frame| frame.attempt);
        let (output, error) = (outcome.output.clone(), outcome.error.clone());
        self.finish(id, Ended { status: outcome.status, output, error, inputs: Value::Null, attempts, turns: None });
    }
}
