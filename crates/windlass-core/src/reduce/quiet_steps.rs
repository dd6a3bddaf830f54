//! Counts of steps inside quiet iterations. The event that reports these iterations contains them, so that an
//! observer counts as if each step had published its own events.

use std::sync::Arc;

use super::Reducer;
use super::fault::FaultResult;
use super::nodes::with_label;
use crate::plan::{NodeId, NodeKind};
use crate::state::{FrameBody, FrameId, QuietSteps};
use crate::{Status, StepCounts};

impl Reducer<'_> {
    /// Counts the end of a step that publishes nothing because its iteration is quiet.
    pub(crate) fn count_quiet_step(&mut self, id: FrameId, node: NodeId, status: Status) -> FaultResult {
        let path = |reducer: &Reducer<'_>| reducer.path(id);
        self.count_quiet(id, (node, None), path, |counts| counts.add_end(status))
    }

    /// Counts a node that never had a frame, next to the frame that would have entered it.
    pub(crate) fn count_quiet_without_run(
        &mut self,
        near: FrameId,
        node: NodeId,
        path: &Arc<str>,
        status: Status,
    ) -> FaultResult {
        let path = path.clone();
        self.count_quiet(near, (node, None), move |_| path, |counts| counts.add_end(status))
    }

    /// Counts the end of a task that publishes nothing because its iteration is quiet.
    pub(crate) fn count_quiet_task(&mut self, id: FrameId, (task, label): (u32, &str), status: Status) -> FaultResult {
        let node = self.frame(id)?.node;
        let path = |reducer: &Reducer<'_>| with_label(reducer.path(id), label);
        self.count_quiet(id, (node, Some(task)), path, |counts| counts.add_end(status))
    }

    /// Counts the iterations of a loop that ends inside a quiet iteration.
    pub(crate) fn count_quiet_loop(&mut self, id: FrameId, iterations: u64, failed: u64) -> FaultResult {
        let node = self.frame(id)?.node;
        let path = |reducer: &Reducer<'_>| reducer.path(id);
        self.count_quiet(id, (node, None), path, |counts| {
            counts.iterations += iterations;
            counts.failed_iterations += failed;
        })
    }

    /// The path is only built for the first run of each step that an event reports.
    fn count_quiet(
        &mut self,
        id: FrameId,
        (node, task): (NodeId, Option<u32>),
        path: impl FnOnce(&Reducer<'_>) -> Arc<str>,
        count: impl FnOnce(&mut StepCounts),
    ) -> FaultResult {
        let Some(reporting) = self.reporting_loop(id)? else { return Ok(()) };
        let is_same = |steps: &QuietSteps| steps.node == node && steps.task == task;
        let at = self.loop_frame(reporting)?.1.quiet_steps.iter().position(is_same);
        let steps = match at {
            Some(at) => &mut self.loop_frame_mut(reporting)?.quiet_steps[at],
            None => {
                let steps = QuietSteps::new(node, task, path(self));
                let all = &mut self.loop_frame_mut(reporting)?.quiet_steps;
                all.push(steps);
                let last = all.len() - 1;
                &mut all[last]
            }
        };
        count(&mut steps.counts);
        Ok(())
    }

    /// Returns the loop whose events report the quiet iteration around a frame: the innermost that is not quiet
    /// itself. None if it publishes no events.
    fn reporting_loop(&self, id: FrameId) -> FaultResult<Option<FrameId>> {
        let mut at = Some(id);
        while let Some(frame_id) = at {
            let frame = self.frame(frame_id)?;
            if !frame.quiet {
                let publishes = |kind: &NodeKind| matches!(kind, NodeKind::Loop(looping) if !looping.internal);
                let is_loop = matches!(frame.body, FrameBody::Loop(_));
                return Ok(Some(frame_id).filter(|_| is_loop && publishes(&self.program.node(frame.node).kind)));
            }
            at = frame.parent;
        }
        Ok(None)
    }
}
