//! Children that wait for each other.
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
//! – is impossible and a fault: so is a child that the plan does not have, and one that ends without having run. A graph has no
//! alarm.

use std::collections::VecDeque;
use std::sync::Arc;

use windlass_value::{Map, Value};

use crate::plan::{Ending, Graph, NodeId, NodeKind, OnFailure, Pick};
use crate::program::NodeFacts;
use crate::reduce::eval::{Holds, Locals};
use crate::reduce::impossible::{Checked, miscounted, no_frame, no_part, wrong_frame};
use crate::reduce::{Reducer, Stop};
use crate::state::{Body, ChildState, Closing, FrameId, GraphFrame, Item};
use crate::{ErrorInfo, Outcome, Status};

/// What an access to a graph's frame expects.
const A_GRAPH: &str = "a graph with its children";

impl<'a> Reducer<'a> {
    pub(in crate::reduce) fn enter_graph(&mut self, id: FrameId, graph: &Graph) -> Result<(), Stop> {
        let children: Vec<ChildState> = graph
            .children
            .iter()
            .map(|child| ChildState { missing: child.after.len() as u32, ..ChildState::default() })
            .collect();
        let empty = children.is_empty();
        let ready = (0..children.len() as u32).filter(|child| children[*child as usize].missing == 0).collect();
        self.frame_mut(id)?.body = Body::Graph(GraphFrame { children, ready, ..GraphFrame::default() });
        self.publish_started(id)?;
        match empty {
            true => self.end_with(id, Status::Succeeded, Value::map(Map::new()), None)?,
            false => self.start_ready(id)?,
        }
        Ok(())
    }

    /// The graph and its frame, which exists and is one, with a state for each of its children.
    fn graph_frame(&self, id: FrameId) -> Checked<(&'a Graph, &GraphFrame)> {
        let Some(frame) = self.state.frames.get(id) else { return Err(no_frame(id, A_GRAPH)) };
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Graph(graph), Body::Graph(body)) if graph.children.len() == body.children.len() => {
                Ok((graph, body))
            }
            (_, other) => Err(wrong_frame(id, A_GRAPH, other)),
        }
    }

    fn graph_frame_mut(&mut self, id: FrameId) -> Checked<&mut GraphFrame> {
        match self.state.frames.get_mut(id).map(|frame| &mut frame.body) {
            Some(Body::Graph(body)) => Ok(body),
            Some(other) => Err(wrong_frame(id, A_GRAPH, other)),
            None => Err(no_frame(id, A_GRAPH)),
        }
    }

    /// Starts what may start, in the order in which it became ready, as far as the limit allows.
    fn start_ready(&mut self, id: FrameId) -> Checked {
        loop {
            let (graph, body) = self.graph_frame(id)?;
            if graph.max_concurrency.is_some_and(|limit| body.running >= limit.max(1)) {
                return Ok(());
            }
            // Nothing is ready.
            let Some(child) = picked(graph, self.graph_frame_mut(id)?) else { return Ok(()) };
            let known = graph.children.get(child as usize).ok_or_else(|| no_part(id, "child", child.into()))?;
            match known.condition {
                Some(_) => self.state.agenda.push_back(Item::StartChild { graph: id, child }),
                None => self.begin_graph_child(id, graph, child)?,
            }
        }
    }

    fn begin_graph_child(&mut self, id: FrameId, graph: &Graph, child: u32) -> Checked {
        let scope = self.frame(id)?.scope;
        let frame = self.begin_child(id, graph.children[child as usize].node, u64::from(child), scope, false)?;
        self.graph_frame_mut(id)?.children[child as usize].frame = Some(frame);
        Ok(())
    }

    /// A child with a condition: false skips it, and one that cannot be evaluated fails it.
    pub(in crate::reduce) fn start_child(&mut self, id: FrameId, child: u32) -> Result<(), Stop> {
        // The graph was called off, or has failed, since the child was ready.
        let Some(scope) = self.frame_if_open(id).map(|frame| frame.scope) else { return Ok(()) };
        let (graph, _) = self.graph_frame(id)?;
        let known = graph.children.get(child as usize).ok_or_else(|| no_part(id, "child", child.into()))?;
        let holds = match known.condition {
            Some(condition) => self.holds(condition, scope, Locals::default())?,
            None => Holds::Yes,
        };
        let node = known.node;
        match holds {
            Holds::Yes => {
                self.begin_graph_child(id, graph, child)?;
                return Ok(());
            }
            Holds::No => {
                let error = ErrorInfo::new("ConditionFalse", "skipped", "its condition is not met");
                self.record_unrun(id, node, Status::Skipped, error)?;
            }
            Holds::Missing(what) => {
                let error =
                    ErrorInfo::new("MissingData", "skipped", format!("its condition needs what is not there: {what}"));
                self.record_unrun(id, node, Status::Skipped, error)?;
            }
        }
        self.settle(id, child, Status::Skipped, None)?;
        Ok(())
    }

    pub(in crate::reduce) fn child_not_started(&mut self, id: FrameId, child: u32, mut error: ErrorInfo) -> Checked {
        let (graph, _) = self.graph_frame(id)?;
        let known = graph.children.get(child as usize).ok_or_else(|| no_part(id, "child", child.into()))?;
        if error.path.is_empty() {
            error.path = self.child_path(id, known.node);
        }
        self.record_unrun(id, known.node, Status::Failed, error.clone())?;
        self.settle(id, child, Status::Failed, Some(error))
    }

    pub(in crate::reduce) fn graph_child_ended(&mut self, id: FrameId, child: u32, outcome: &Arc<Outcome>) -> Checked {
        self.child_gone(id)?;
        self.settle(id, child, outcome.status, outcome.error.clone())
    }

    /// Notes a child's end, lets its dependents know, starts what became ready, and ends the graph when all have ended.
    fn settle(&mut self, id: FrameId, child: u32, status: Status, error: Option<ErrorInfo>) -> Checked {
        let (graph, _) = self.graph_frame(id)?;
        let known = graph.children.get(child as usize).ok_or_else(|| no_part(id, "child", child.into()))?;
        let node = self.frame(id)?.node;
        let counts = !self.program.facts(node).lingering.contains(&child);
        let body = self.graph_frame_mut(id)?;
        body.running = body.running.checked_sub(1).ok_or_else(|| miscounted(id, "running children"))?;
        if let Some(busy) = body.busy.get_mut(&known.group) {
            *busy = busy.saturating_sub(1);
        }
        if status.is_bad() && counts && body.error.is_none() {
            body.error = error;
        }
        let mut ended = vec![(child, status)];
        while let Some((child, status)) = ended.pop() {
            self.note_end(id, child, status)?;
            for dependent in &self.program.facts(node).dependents[child as usize] {
                if let Some(skipped) = self.dependency_ended(id, graph, *dependent, child, status)? {
                    ended.push((*dependent, skipped));
                }
            }
        }
        if status.is_bad() && counts && graph.on_failure == OnFailure::CancelRest {
            return self.cancel_rest(id, status);
        }
        self.start_ready(id)?;
        self.let_linger(id)?;
        self.end_graph_if_done(id)
    }

    /// When only those are left that hold nobody up, their time begins.
    fn let_linger(&mut self, id: FrameId) -> Checked {
        let (graph, body) = self.graph_frame(id)?;
        let lingering = self.program.facts(self.frame(id)?.node).lingering.iter();
        let left = lingering.map(|child| (*child, &body.children[*child as usize])).filter(|(_, s)| s.status.is_none());
        let left: Vec<(u32, Option<FrameId>)> = left.map(|(child, state)| (child, state.frame)).collect();
        if body.ended as usize + left.len() < graph.children.len() {
            return Ok(());
        }
        for (child, frame) in left {
            let time = self.program.node(graph.children[child as usize].node).lingers;
            if let (Some(time), Some(frame)) = (time, frame) {
                self.end_by(frame, self.now() + time)?;
            }
        }
        Ok(())
    }

    fn note_end(&mut self, id: FrameId, child: u32, status: Status) -> Checked {
        let body = self.graph_frame_mut(id)?;
        let state = &mut body.children[child as usize];
        state.status = Some(status);
        state.frame = None;
        body.ended += 1;
        Ok(())
    }

    /// Some(status) when the dependent will never run.
    fn dependency_ended(
        &mut self,
        id: FrameId,
        graph: &Graph,
        dependent: u32,
        child: u32,
        status: Status,
    ) -> Checked<Option<Status>> {
        let after = &graph.children[dependent as usize].after;
        let accepted = after.iter().filter(|after| after.child == child).all(|after| after.accepts.contains(status));
        let edges = after.iter().filter(|after| after.child == child).count() as u32;
        let body = self.graph_frame_mut(id)?;
        let accepted = accepted && !(graph.spreads && body.children[child as usize].unmet);
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
        let error = self.why_unmet(id, graph, dependent)?;
        self.record_unrun(id, graph.children[dependent as usize].node, graph.unmet, error)?;
        Ok(Some(graph.unmet))
    }

    /// Names the first dependency, as written, that did not end as it should have.
    fn why_unmet(&self, id: FrameId, graph: &Graph, dependent: u32) -> Checked<ErrorInfo> {
        let (_, body) = self.graph_frame(id)?;
        let ended = |child: u32| body.children[child as usize].status;
        let spread = |child: u32| graph.spreads && body.children[child as usize].unmet;
        let unmet = graph.children[dependent as usize].after.iter().find_map(|after| {
            let status = ended(after.child).filter(|status| !after.accepts.contains(*status) || spread(after.child))?;
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
        Ok(self.program.plan.worded(error, &[("name", name), ("ended", ended)]))
    }

    /// Records what has not begun when a graph is called off: it never will. A frame of any other kind has no such children.
    pub(in crate::reduce) fn keep_unbegun(&mut self, id: FrameId) -> Checked {
        if !self.program.plan.keeps_unbegun || !matches!(self.frame(id)?.body, Body::Graph(_)) {
            return Ok(());
        }
        let (graph, body) = self.graph_frame(id)?;
        let states = graph.children.iter().zip(&body.children);
        let unbegun = states.filter(|(_, state)| state.status.is_none() && state.frame.is_none());
        for node in unbegun.map(|(child, _)| child.node).collect::<Vec<_>>() {
            self.unbegun_inside(id, node)?;
        }
        Ok(())
    }

    fn unbegun_inside(&mut self, id: FrameId, node: NodeId) -> Checked {
        let unbegun = self.program.node(node);
        if !unbegun.hidden {
            let error = ErrorInfo::new("NotBegun", "cancelled", "it was called off before it began");
            self.keep_unrun(id, node, Status::Cancelled, error)?;
            return Ok(());
        }
        match &unbegun.kind {
            NodeKind::Graph(graph) => graph.children.iter().try_for_each(|child| self.unbegun_inside(id, child.node)),
            // What is inside these begins as often as they say, or not at all: nobody counts on it.
            NodeKind::Pipeline(_)
            | NodeKind::Branch(_)
            | NodeKind::Loop(_)
            | NodeKind::Net(_)
            | NodeKind::Wait(_)
            | NodeKind::Call(_) => Ok(()),
        }
    }

    fn cancel_rest(&mut self, id: FrameId, status: Status) -> Checked {
        let (graph, body) = self.graph_frame(id)?;
        let (error, output) = (body.error.clone(), self.graph_output(id, graph)?);
        self.close(id, Closing { status, error, output, own: true })
    }

    fn end_graph_if_done(&mut self, id: FrameId) -> Checked {
        let (graph, body) = self.graph_frame(id)?;
        if (body.ended as usize) < graph.children.len() {
            return Ok(());
        }
        let facts = self.program.facts(self.frame(id)?.node);
        let status = match graph.ending {
            Ending::Leaves => status_by_leaves(graph, body, facts),
            Ending::Any => {
                let counting = (0u32..).zip(&body.children).filter(|(child, _)| !facts.lingering.contains(child));
                worst(counting.filter_map(|(_, child)| child.status))
            }
        };
        let error = status.is_bad().then(|| body.error.clone()).flatten();
        let output = self.graph_output(id, graph)?;
        self.end_with(id, status, output, error)
    }

    /// `{child: output}` for the children that have one.
    fn graph_output(&self, id: FrameId, graph: &Graph) -> Checked<Value> {
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

/// Takes the next of the children that could start.
fn picked(graph: &Graph, body: &mut GraphFrame) -> Option<u32> {
    let group = |child: u32| &graph.children[child as usize].group;
    let at = match graph.pick {
        Pick::Ready => 0,
        // The group whose turn was longest ago; those that had none yet come first.
        Pick::RoundRobin => {
            let last_turn = |child: &u32| body.turns.iter().position(|had| had == group(*child)).map_or(0, |at| at + 1);
            first_with_least(&body.ready, last_turn)?
        }
        Pick::LeastBusy => {
            let busy = |child: &u32| body.busy.get(group(*child)).copied().unwrap_or(0);
            first_with_least(&body.ready, busy)?
        }
    };
    let child = body.ready.remove(at)?;
    body.running += 1;
    match graph.pick {
        Pick::Ready => {}
        Pick::RoundRobin => {
            body.turns.retain(|had| had != group(child));
            body.turns.push(group(child).clone());
        }
        Pick::LeastBusy => *body.busy.entry(group(child).clone()).or_default() += 1,
    }
    Some(child)
}

fn first_with_least<K: Ord>(ready: &VecDeque<u32>, key: impl Fn(&u32) -> K) -> Option<usize> {
    ready.iter().enumerate().min_by_key(|(_, child)| key(child)).map(|(at, _)| at)
}

/// The children nobody waits for decide; a skipped one hands the decision to those it waited for. One that was cut off
/// decides nothing: whoever gave it a limit has foreseen that.
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
    worst(deciding.into_iter())
}

fn worst(statuses: impl Iterator<Item = Status>) -> Status {
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
