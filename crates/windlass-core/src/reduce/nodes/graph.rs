//! Graphs: children with dependencies on each other.
//!
//! A child is *waiting* for others, *ready*, *running*, or *ended*; the graph counts them.
//!
//! | state | enter | start child | child ends | close |
//! |---|---|---|---|---|
//! | new | running; ended if it has no children | – | – | ended |
//! | running | – | the child runs, is skipped, or fails to start | running; closing if a failure cancels the rest; ended with the last | closing |
//! | closing | ignored | ignored | ended when none is live | closing |
//! | ended | ignored | ignored | – | ignored |
//!
//! – is impossible and a fault: so is a child that the plan does not have, and one that ends without having run. A
//! graph has no alarm.

use std::collections::VecDeque;
use std::sync::Arc;

use windlass_value::{Map, Value};

use crate::plan::{Graph, GraphFailurePolicy, GraphStatusRule, NodeId, NodeKind, PickPolicy};
use crate::program::NodeFacts;
use crate::reduce::eval::{ConditionResult, Locals};
use crate::reduce::fault::{FaultResult, miscounted, no_frame, no_part, wrong_frame};
use crate::reduce::{ItemStop, Reducer};
use crate::state::{AgendaItem, ChildState, Closing, FrameBody, FrameId, GraphFrame};
use crate::{ErrorInfo, Outcome, Status};

/// The expectation named in faults about a graph's frame.
const A_GRAPH: &str = "a graph with its children";

impl<'a> Reducer<'a> {
    pub(in crate::reduce) fn enter_graph(&mut self, id: FrameId, graph: &Graph) -> Result<(), ItemStop> {
        let children: Vec<ChildState> = graph
            .children
            .iter()
            .map(|child| ChildState { missing: child.after.len() as u32, ..ChildState::default() })
            .collect();
        let empty = children.is_empty();
        let ready = (0..children.len() as u32).filter(|child| children[*child as usize].missing == 0).collect();
        self.frame_mut(id)?.body = FrameBody::Graph(GraphFrame { children, ready, ..GraphFrame::default() });
        self.publish_started(id)?;
        match empty {
            true => self.end_with(id, Status::Succeeded, Value::map(Map::new()), None)?,
            false => self.start_ready(id)?,
        }
        Ok(())
    }

    /// Returns the graph and its frame, which must exist and be a graph's, with a state for each of its children.
    fn graph_frame(&self, id: FrameId) -> FaultResult<(&'a Graph, &GraphFrame)> {
        let Some(frame) = self.state.frames.get(id) else { return Err(no_frame(id, A_GRAPH)) };
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Graph(graph), FrameBody::Graph(body)) if graph.children.len() == body.children.len() => {
                Ok((graph, body))
            }
            (_, other) => Err(wrong_frame(id, A_GRAPH, other)),
        }
    }

    fn graph_frame_mut(&mut self, id: FrameId) -> FaultResult<&mut GraphFrame> {
        match self.state.frames.get_mut(id).map(|frame| &mut frame.body) {
            Some(FrameBody::Graph(body)) => Ok(body),
            Some(other) => Err(wrong_frame(id, A_GRAPH, other)),
            None => Err(no_frame(id, A_GRAPH)),
        }
    }

    /// Starts ready children in the order in which they became ready, up to the concurrency limit.
    fn start_ready(&mut self, id: FrameId) -> FaultResult {
        loop {
            let (graph, body) = self.graph_frame(id)?;
            if graph.max_concurrency.is_some_and(|limit| body.running >= limit.max(1)) {
                return Ok(());
            }
            // Nothing is ready.
            let Some(child) = pick_ready(graph, self.graph_frame_mut(id)?) else { return Ok(()) };
            let planned = graph.children.get(child as usize).ok_or_else(|| no_part(id, "child", child.into()))?;
            match planned.condition {
                Some(_) => self.state.agenda.push_back(AgendaItem::StartChild { graph: id, child }),
                None => self.begin_graph_child(id, graph, child)?,
            }
        }
    }

    fn begin_graph_child(&mut self, id: FrameId, graph: &Graph, child: u32) -> FaultResult {
        let scope = self.frame(id)?.scope;
        let frame = self.begin_child(id, graph.children[child as usize].node, u64::from(child), scope, false)?;
        self.graph_frame_mut(id)?.children[child as usize].frame = Some(frame);
        Ok(())
    }

    /// Starts a child with a condition: false skips it, and a condition that cannot be evaluated fails it.
    pub(in crate::reduce) fn start_child(&mut self, id: FrameId, child: u32) -> Result<(), ItemStop> {
        // The graph was cancelled, or has failed, since the child became ready.
        let Some(scope) = self.frame_if_open(id).map(|frame| frame.scope) else { return Ok(()) };
        let (graph, _) = self.graph_frame(id)?;
        let planned = graph.children.get(child as usize).ok_or_else(|| no_part(id, "child", child.into()))?;
        let holds = match planned.condition {
            Some(condition) => self.holds(condition, scope, Locals::default())?,
            None => ConditionResult::Yes,
        };
        let node = planned.node;
        match holds {
            ConditionResult::Yes => {
                self.begin_graph_child(id, graph, child)?;
                return Ok(());
            }
            ConditionResult::No => {
                let error = ErrorInfo::new("ConditionFalse", "skipped", "its condition is not met");
                self.record_without_run(id, node, Status::Skipped, error)?;
            }
            ConditionResult::Missing(what) => {
                let error =
                    ErrorInfo::new("MissingData", "skipped", format!("its condition needs a missing value: {what}"));
                self.record_without_run(id, node, Status::Skipped, error)?;
            }
        }
        self.child_settled(id, child, Status::Skipped, None)?;
        Ok(())
    }

    pub(in crate::reduce) fn child_not_started(
        &mut self,
        id: FrameId,
        child: u32,
        mut error: ErrorInfo,
    ) -> FaultResult {
        let (graph, _) = self.graph_frame(id)?;
        let planned = graph.children.get(child as usize).ok_or_else(|| no_part(id, "child", child.into()))?;
        if error.path.is_empty() {
            error.path = self.child_path(id, planned.node);
        }
        self.record_without_run(id, planned.node, Status::Failed, error.clone())?;
        self.child_settled(id, child, Status::Failed, Some(error))
    }

    pub(in crate::reduce) fn graph_child_ended(
        &mut self,
        id: FrameId,
        child: u32,
        outcome: &Arc<Outcome>,
    ) -> FaultResult {
        self.child_removed(id)?;
        self.child_settled(id, child, outcome.status, outcome.error.clone())
    }

    /// Records a child's end, updates its dependents, starts the children that became ready, and ends the graph when
    /// all have ended.
    fn child_settled(&mut self, id: FrameId, child: u32, status: Status, error: Option<ErrorInfo>) -> FaultResult {
        let (graph, _) = self.graph_frame(id)?;
        let planned = graph.children.get(child as usize).ok_or_else(|| no_part(id, "child", child.into()))?;
        let node = self.frame(id)?.node;
        let counts = !self.program.facts(node).lingering.contains(&child);
        let body = self.graph_frame_mut(id)?;
        body.running = body.running.checked_sub(1).ok_or_else(|| miscounted(id, "running children"))?;
        if let Some(busy) = body.busy.get_mut(&planned.group) {
            *busy = busy.saturating_sub(1);
        }
        if status.is_bad() && counts && body.error.is_none() {
            body.error = error;
        }
        let mut ended = vec![(child, status)];
        while let Some((child, status)) = ended.pop() {
            self.record_child_end(id, child, status)?;
            for dependent in &self.program.facts(node).dependents[child as usize] {
                if let Some(skipped) = self.dependency_ended(id, graph, *dependent, child, status)? {
                    ended.push((*dependent, skipped));
                }
            }
        }
        if status.is_bad() && counts && graph.on_failure == GraphFailurePolicy::CancelRest {
            return self.cancel_rest(id, status);
        }
        self.start_ready(id)?;
        self.start_linger_time(id)?;
        self.end_graph_if_done(id)
    }

    /// Starts the linger time of the remaining children when only lingering children are left.
    fn start_linger_time(&mut self, id: FrameId) -> FaultResult {
        let (graph, body) = self.graph_frame(id)?;
        let lingering = self.program.facts(self.frame(id)?.node).lingering.iter();
        let left = lingering.map(|child| (*child, &body.children[*child as usize])).filter(|(_, s)| s.status.is_none());
        let left: Vec<(u32, Option<FrameId>)> = left.map(|(child, state)| (child, state.frame)).collect();
        if body.ended as usize + left.len() < graph.children.len() {
            return Ok(());
        }
        for (child, frame) in left {
            let time = self.program.node(graph.children[child as usize].node).linger_time;
            if let (Some(time), Some(frame)) = (time, frame) {
                self.limit_deadline(frame, self.now() + time)?;
            }
        }
        Ok(())
    }

    fn record_child_end(&mut self, id: FrameId, child: u32, status: Status) -> FaultResult {
        let body = self.graph_frame_mut(id)?;
        let state = &mut body.children[child as usize];
        state.status = Some(status);
        state.frame = None;
        body.ended += 1;
        Ok(())
    }

    /// Records for a dependent that one of its dependencies has ended. Returns the dependent's status if it will never
    /// run; None while it still waits or becomes ready.
    fn dependency_ended(
        &mut self,
        id: FrameId,
        graph: &Graph,
        dependent: u32,
        child: u32,
        status: Status,
    ) -> FaultResult<Option<Status>> {
        let after = &graph.children[dependent as usize].after;
        let accepted = after.iter().filter(|after| after.child == child).all(|after| after.accepts.contains(status));
        let edges = after.iter().filter(|after| after.child == child).count() as u32;
        let body = self.graph_frame_mut(id)?;
        let accepted = accepted && !(graph.skips_transitively && body.children[child as usize].unmet);
        let state = &mut body.children[dependent as usize];
        state.missing = state.missing.checked_sub(edges).ok_or_else(|| miscounted(id, "missing dependencies"))?;
        state.unmet |= !accepted;
        if state.missing > 0 {
            return Ok(None);
        }
        if !state.unmet {
            body.ready.push_back(dependent);
            return Ok(None);
        }
        let error = self.unmet_error(id, graph, dependent)?;
        self.record_without_run(id, graph.children[dependent as usize].node, graph.unmet, error)?;
        Ok(Some(graph.unmet))
    }

    /// Names the first dependency, in written order, that ended with a status that is not accepted.
    fn unmet_error(&self, id: FrameId, graph: &Graph, dependent: u32) -> FaultResult<ErrorInfo> {
        let (_, body) = self.graph_frame(id)?;
        let ended = |child: u32| body.children[child as usize].status;
        let unmet_itself = |child: u32| graph.skips_transitively && body.children[child as usize].unmet;
        let unmet = graph.children[dependent as usize].after.iter().find_map(|after| {
            let status =
                ended(after.child).filter(|status| !after.accepts.contains(*status) || unmet_itself(after.child))?;
            Some((after, status))
        });
        let (after, status) = unmet.ok_or_else(|| no_part(id, "unmet dependency of child", dependent.into()))?;
        let name = &self.program.node(graph.children[after.child as usize].node).name;
        let accepted: Vec<String> = after.accepts.iter().map(|status| format!("{status:?}")).collect();
        let message = format!("`{name}` ended as {status:?}, and this runs only after {}", accepted.join(" or "));
        let error = ErrorInfo::new("ActionDependencyFailed", "skipped", message);
        let ended = match status {
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::Skipped => "was skipped",
            Status::Cancelled => "was cancelled",
            Status::TimedOut => "took too long",
        };
        Ok(self.program.plan.apply_wording(error, &[("name", name), ("ended", ended)]))
    }

    /// Records the children of a cancelled graph that have not begun and never will. A frame of any other kind has no
    /// such children.
    pub(in crate::reduce) fn record_unstarted(&mut self, id: FrameId) -> FaultResult {
        if !self.program.plan.records_unstarted || !matches!(self.frame(id)?.body, FrameBody::Graph(_)) {
            return Ok(());
        }
        let (graph, body) = self.graph_frame(id)?;
        let states = graph.children.iter().zip(&body.children);
        let unstarted = states.filter(|(_, state)| state.status.is_none() && state.frame.is_none());
        for node in unstarted.map(|(child, _)| child.node).collect::<Vec<_>>() {
            self.record_unstarted_inside(id, node)?;
        }
        Ok(())
    }

    fn record_unstarted_inside(&mut self, id: FrameId, node: NodeId) -> FaultResult {
        let unstarted = self.program.node(node);
        if !unstarted.hidden {
            let error = ErrorInfo::new("NotBegun", "cancelled", "it was cancelled before it began");
            self.record_outcome_without_run(id, node, Status::Cancelled, error)?;
            return Ok(());
        }
        match &unstarted.kind {
            NodeKind::Graph(graph) => {
                graph.children.iter().try_for_each(|child| self.record_unstarted_inside(id, child.node))
            }
            // Nodes inside these begin any number of times, or not at all: nothing relies on them.
            NodeKind::Pipeline(_)
            | NodeKind::Branch(_)
            | NodeKind::Loop(_)
            | NodeKind::Net(_)
            | NodeKind::Wait(_)
            | NodeKind::Call(_) => Ok(()),
        }
    }

    fn cancel_rest(&mut self, id: FrameId, status: Status) -> FaultResult {
        let (graph, body) = self.graph_frame(id)?;
        let (error, output) = (body.error.clone(), self.graph_output(id, graph)?);
        self.close(id, Closing { status, error, output, own_end: true })
    }

    fn end_graph_if_done(&mut self, id: FrameId) -> FaultResult {
        let (graph, body) = self.graph_frame(id)?;
        if (body.ended as usize) < graph.children.len() {
            return Ok(());
        }
        let facts = self.program.facts(self.frame(id)?.node);
        let status = match graph.ending {
            GraphStatusRule::Leaves => status_by_leaves(graph, body, facts),
            GraphStatusRule::Any => {
                let counting = (0u32..).zip(&body.children).filter(|(child, _)| !facts.lingering.contains(child));
                worst_status(counting.filter_map(|(_, child)| child.status))
            }
        };
        let error = status.is_bad().then(|| body.error.clone()).flatten();
        let output = self.graph_output(id, graph)?;
        self.end_with(id, status, output, error)
    }

    /// Returns `{child: output}` for the children that have an output.
    fn graph_output(&self, id: FrameId, graph: &Graph) -> FaultResult<Value> {
        let scope = self.scope(self.frame(id)?.scope)?;
        let mut map = Map::with_capacity(graph.children.len());
        for child in &graph.children {
            let node = self.program.node(child.node);
            if let Some(outcome) = scope.outcome(child.node).filter(|outcome| outcome.ran())
                && !node.hidden
            {
                map.insert(node.name.clone(), outcome.output.clone());
            }
        }
        Ok(Value::map(map))
    }
}

/// Removes and returns the next of the ready children.
fn pick_ready(graph: &Graph, body: &mut GraphFrame) -> Option<u32> {
    let group = |child: u32| &graph.children[child as usize].group;
    let at = match graph.pick {
        PickPolicy::Ready => 0,
        // The group that was picked least recently; groups that were never picked come first.
        PickPolicy::RoundRobin => {
            let last_picked =
                |child: &u32| body.recent_groups.iter().position(|had| had == group(*child)).map_or(0, |at| at + 1);
            first_with_least(&body.ready, last_picked)?
        }
        PickPolicy::LeastBusy => {
            let busy = |child: &u32| body.busy.get(group(*child)).copied().unwrap_or(0);
            first_with_least(&body.ready, busy)?
        }
    };
    let child = body.ready.remove(at)?;
    body.running += 1;
    match graph.pick {
        PickPolicy::Ready => {}
        PickPolicy::RoundRobin => {
            body.recent_groups.retain(|had| had != group(child));
            body.recent_groups.push(group(child).clone());
        }
        PickPolicy::LeastBusy => *body.busy.entry(group(child).clone()).or_default() += 1,
    }
    Some(child)
}

fn first_with_least<K: Ord>(ready: &VecDeque<u32>, key: impl Fn(&u32) -> K) -> Option<usize> {
    ready.iter().enumerate().min_by_key(|(_, child)| key(child)).map(|(at, _)| at)
}

/// Returns the status that the children without dependents determine; a skipped child passes the decision to its
/// dependencies. A cancelled child decides nothing: the author who gave it a limit expects that.
fn status_by_leaves(graph: &Graph, body: &GraphFrame, facts: &NodeFacts) -> Status {
    let children = 0..graph.children.len() as u32;
    let decides = |child: &u32| facts.dependents[*child as usize].is_empty() && !facts.lingering.contains(child);
    let mut open: Vec<u32> = children.filter(decides).collect();
    let mut seen = vec![false; graph.children.len()];
    let mut deciding = Vec::new();
    while let Some(child) = open.pop() {
        if std::mem::replace(&mut seen[child as usize], true) {
            continue;
        }
        match body.children[child as usize].status {
            Some(Status::Skipped) => open.extend(graph.children[child as usize].after.iter().map(|after| after.child)),
            Some(Status::Cancelled) | None => {}
            Some(status) => deciding.push(status),
        }
    }
    worst_status(deciding.into_iter())
}

fn worst_status(statuses: impl Iterator<Item = Status>) -> Status {
    let rank = |status: &Status| match status {
        Status::Failed => 3,
        Status::TimedOut => 2,
        Status::Cancelled => 1,
        Status::Succeeded | Status::Skipped => 0,
    };
    match statuses.max_by_key(rank) {
        None | Some(Status::Skipped) => Status::Succeeded,
        Some(status) => status,
    }
}
