//! Branches: a choice between nodes.
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

use crate::plan::{Branch, BranchTest, NodeId};
use crate::reduce::eval::Locals;
use crate::reduce::fault::FaultResult;
use crate::reduce::{ItemStop, Reducer};
use crate::state::{FrameBody, FrameEnd, FrameId};
use crate::{Outcome, Status};

impl Reducer<'_> {
    pub(in crate::reduce) fn enter_branch(&mut self, id: FrameId, branch: &Branch) -> Result<(), ItemStop> {
        let scope = self.frame(id)?.scope;
        let subject = branch.on.map(|on| self.eval(on, scope)).transpose()?;
        let mut chosen: Option<NodeId> = None;
        for case in &branch.cases {
            let holds = match case.test {
                BranchTest::When(condition) => self.condition(condition, scope, Locals::default())?,
                BranchTest::Equals(value) => Some(self.eval(value, scope)?) == subject,
            };
            if holds {
                chosen = Some(case.node);
                break;
            }
        }
        let chosen = chosen.or(branch.otherwise);
        self.publish_started(id)?;
        for other in branch.cases.iter().map(|case| case.node).chain(branch.otherwise) {
            if Some(other) != chosen {
                self.skip_inside(id, other, "ActionBranchingConditionNotSatisfied")?;
            }
        }
        match chosen {
            Some(node) => {
                let child = self.begin_child(id, node, 0, scope, false)?;
                self.frame_mut(id)?.body = FrameBody::Branch { child };
            }
            None => self.end_with(id, Status::Succeeded, Value::Null, None)?,
        }
        Ok(())
    }

    pub(in crate::reduce) fn branch_child_ended(&mut self, id: FrameId, outcome: &Arc<Outcome>) -> FaultResult {
        self.child_removed(id)?;
        let attempts = self.frame(id)?.attempt;
        let (output, error) = (outcome.output.clone(), outcome.error.clone());
        self.finish(
            id,
            FrameEnd { status: outcome.status, output, error, inputs: Value::Null, attempts, loop_summary: None },
        )
    }
}
