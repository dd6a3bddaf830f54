//! A choice between nodes.
//!
//! | state | enter | child ends | close |
//! |---|---|---|---|
//! | new | chosen (one case holds), ended (none does); failed if a condition cannot be evaluated | – | ended |
//! | chosen | – | ended, as the child has | closing |
//! | closing | ignored | ended | closing |
//!
//! – is impossible and a fault. A branch has no alarm.

use std::sync::Arc;

use windlass_value::Value;

use crate::plan::{Branch, NodeId, Test};
use crate::reduce::eval::Locals;
use crate::reduce::impossible::Checked;
use crate::reduce::{Reducer, Stop};
use crate::state::{Body, Ended, FrameId};
use crate::{Outcome, Status};

impl Reducer<'_> {
    pub(in crate::reduce) fn enter_branch(&mut self, id: FrameId, branch: &Branch) -> Result<(), Stop> {
        let scope = self.frame(id)?.scope;
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
        self.publish_started(id)?;
        for untaken in branch.cases.iter().map(|case| case.node).chain(branch.otherwise) {
            if Some(untaken) != taken {
                self.skip_inside(id, untaken, "ActionBranchingConditionNotSatisfied")?;
            }
        }
        match taken {
            Some(node) => {
                let child = self.begin_child(id, node, 0, scope, false)?;
                self.frame_mut(id)?.body = Body::Branch { child };
            }
            None => self.end_with(id, Status::Succeeded, Value::Null, None)?,
        }
        Ok(())
    }

    pub(in crate::reduce) fn branch_child_ended(&mut self, id: FrameId, outcome: &Arc<Outcome>) -> Checked {
        self.child_gone(id)?;
        let attempts = self.frame(id)?.attempt;
        let (output, error) = (outcome.output.clone(), outcome.error.clone());
        self.finish(id, Ended { status: outcome.status, output, error, inputs: Value::Null, attempts, loop_summary: None })
    }
}
