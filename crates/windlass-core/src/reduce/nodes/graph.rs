//! Children that wait for each other.

use std::collections::VecDeque;
use std::sync::Arc;

use windlass_value::{Map, Value};

use crate::plan::{Ending, Graph, NodeId, NodeKind, OnFailure, Pick};
use crate::program::NodeFacts;
use crate::reduce::eval::{Holds, Locals};
use crate::reduce::{Reducer, Stop};
use crate::state::{Body, ChildState, Closing, FrameId, GraphFrame, Item};
use crate::{ErrorInfo, Outcome, Status};

impl<'a> Reducer<'a> {
    pub(in crate::reduce) fn enter_graph(&mut self, id: FrameId, graph: &Graph) -> Result<(), Stop> {
        let children: Vec<ChildState> = graph
            .children
            .iter()
            .map(|child| ChildState { missing: child.after.len() as u32, ..ChildState::default() })
            .collect();
        let empty = children.is_empty();
        let ready = (0..children.len() as u32).filter(|child| children[*child as usize].missing == 0).collect();
        let Some(frame) = self.state.frames.get_mut(id) else { return Ok(()) };
        frame.body = Body::Graph(GraphFrame { children, ready, ..GraphFrame::default() });
        self.tell_started(id);
        match empty {
            true => self.end_with(id, Status::Succeeded, Value::map(Map::new()), None),
            false => self.start_ready(id),
        }
        Ok(())
    }

    fn graph_of(&self, id: FrameId) -> Option<(&'a Graph, &GraphFrame)> {
        let frame = self.state.frames.get(id)?;
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Graph(graph), Body::Graph(body)) => Some((graph, body)),
            _ => None,
        }
    }

    fn graph_mut(&mut self, id: FrameId) -> Option<&mut GraphFrame> {
        match &mut self.state.frames.get_mut(id)?.body {
            Body::Graph(body) => Some(body),
            _ => None,
        }
    }

    /// Starts what may start, in the order in which it became ready, as far as the limit allows.
    fn start_ready(&mut self, id: FrameId) {
        loop {
            let Some((graph, body)) = self.graph_of(id) else { return };
            if graph.in_flight.is_some_and(|limit| body.running >= limit.max(1)) {
                return;
            }
            let Some(child) = self.graph_mut(id).and_then(|body| picked(graph, body)) else { return };
            match graph.children[child as usize].condition {
                Some(_) => self.state.agenda.push_back(Item::StartChild { graph: id, child }),
                None => self.begin_graph_child(id, graph, child),
            }
        }
    }

    fn begin_graph_child(&mut self, id: FrameId, graph: &Graph, child: u32) {
        let Some(scope) = self.state.frames.get(id).map(|frame| frame.scope) else { return };
        let frame = self.begin_child(id, graph.children[child as usize].node, u64::from(child), scope, false);
        if let Some(body) = self.graph_mut(id) {
            body.children[child as usize].frame = Some(frame);
        }
    }

    /// A child with a condition: false skips it, and one that cannot be evaluated fails it.
    pub(in crate::reduce) fn start_child(&mut self, id: FrameId, child: u32) -> Result<(), Stop> {
        let Some(frame) = self.state.frames.get(id).filter(|frame| frame.closing.is_none()) else { return Ok(()) };
        let scope = frame.scope;
        let Some((graph, _)) = self.graph_of(id) else { return Ok(()) };
        let holds = match graph.children[child as usize].condition {
            Some(condition) => self.holds(condition, scope, Locals::default())?,
            None => Holds::Yes,
        };
        let node = graph.children[child as usize].node;
        match holds {
            Holds::Yes => {
                self.begin_graph_child(id, graph, child);
                return Ok(());
            }
            Holds::No => {
                let error = ErrorInfo::new("ConditionFalse", "skipped", "its condition is not met");
                self.record_unrun(id, node, Status::Skipped, error);
            }
            Holds::Missing(what) => {
                let error =
                    ErrorInfo::new("MissingData", "skipped", format!("its condition needs what is not there: {what}"));
                self.record_unrun(id, node, Status::Skipped, error);
            }
        }
        self.settle(id, child, Status::Skipped, None);
        Ok(())
    }

    pub(in crate::reduce) fn child_not_started(&mut self, id: FrameId, child: u32, mut error: ErrorInfo) {
        if let Some((graph, _)) = self.graph_of(id) {
            if error.path.is_empty() && self.program.plan.tells_more_of_errors() {
                error.path = self.child_path(id, graph.children[child as usize].node);
            }
            self.record_unrun(id, graph.children[child as usize].node, Status::Failed, error.clone());
        }
        self.settle(id, child, Status::Failed, Some(error));
    }

    pub(in crate::reduce) fn graph_child_ended(&mut self, id: FrameId, child: u32, outcome: &Arc<Outcome>) {
        self.child_gone(id);
        self.settle(id, child, outcome.status, outcome.error.clone());
    }

    /// Notes a child's end, lets its dependents know, starts what became ready, and ends the graph when all have ended.
    fn settle(&mut self, id: FrameId, child: u32, status: Status, error: Option<ErrorInfo>) {
        let Some((graph, _)) = self.graph_of(id) else { return };
        let Some(node) = self.state.frames.get(id).map(|frame| frame.node) else { return };
        let counts = !self.program.facts(node).lingering.contains(&child);
        if let Some(body) = self.graph_mut(id) {
            body.running -= 1;
            if let Some(busy) = body.busy.get_mut(&graph.children[child as usize].group) {
                *busy -= 1;
            }
            if status.is_bad() && counts && body.error.is_none() {
                body.error = error;
            }
        }
        let mut ended = vec![(child, status)];
        while let Some((child, status)) = ended.pop() {
            self.note_end(id, child, status);
            for dependent in &self.program.facts(node).dependents[child as usize] {
                if let Some(skipped) = self.dependency_ended(id, graph, *dependent, child, status) {
                    ended.push((*dependent, skipped));
                }
            }
        }
        if status.is_bad() && counts && graph.on_failure == OnFailure::CancelRest {
            return self.cancel_rest(id, status);
        }
        self.start_ready(id);
        self.let_linger(id);
        self.end_graph_if_done(id);
    }

    /// When only those are left that hold nobody up, their time begins.
    fn let_linger(&mut self, id: FrameId) {
        let Some((graph, body)) = self.graph_of(id) else { return };
        let Some(node) = self.state.frames.get(id).map(|frame| frame.node) else { return };
        let lingering = self.program.facts(node).lingering.iter();
        let left = lingering.map(|child| (*child, &body.children[*child as usize])).filter(|(_, s)| s.status.is_none());
        let left: Vec<(u32, Option<FrameId>)> = left.map(|(child, state)| (child, state.frame)).collect();
        if body.ended as usize + left.len() < graph.children.len() {
            return;
        }
        for (child, frame) in left {
            let time = self.program.node(graph.children[child as usize].node).lingers;
            if let (Some(time), Some(frame)) = (time, frame) {
                self.end_by(frame, self.now() + time);
            }
        }
    }

    fn note_end(&mut self, id: FrameId, child: u32, status: Status) {
        if let Some(body) = self.graph_mut(id) {
            let state = &mut body.children[child as usize];
            state.status = Some(status);
            state.frame = None;
            body.ended += 1;
        }
    }

    /// Some(status) when the dependent will never run.
    fn dependency_ended(
        &mut self,
        id: FrameId,
        graph: &Graph,
        dependent: u32,
        child: u32,
        status: Status,
    ) -> Option<Status> {
        let after = &graph.children[dependent as usize].after;
        let accepted = after.iter().filter(|after| after.child == child).all(|after| after.accepts.contains(status));
        let edges = after.iter().filter(|after| after.child == child).count() as u32;
        let body = self.graph_mut(id)?;
        let accepted = accepted && !(graph.spreads && body.children[child as usize].unmet);
        let state = &mut body.children[dependent as usize];
        state.missing -= edges;
        state.unmet |= !accepted;
        if state.missing > 0 {
            return None;
        }
        if !state.unmet {
            body.ready.push_back(dependent);
            return None;
        }
        let error = self.why_unmet(id, graph, dependent);
        self.record_unrun(id, graph.children[dependent as usize].node, graph.unmet, error);
        Some(graph.unmet)
    }

    /// Names the first dependency, as written, that did not end as it should have.
    fn why_unmet(&self, id: FrameId, graph: &Graph, dependent: u32) -> ErrorInfo {
        let ended = |child: u32| self.graph_of(id).and_then(|(_, body)| body.children[child as usize].status);
        let spread = |child: u32| {
            graph.spreads && self.graph_of(id).is_some_and(|(_, body)| body.children[child as usize].unmet)
        };
        let unmet = graph.children[dependent as usize].after.iter().find_map(|after| {
            let status = ended(after.child).filter(|status| !after.accepts.contains(*status) || spread(after.child))?;
            Some((after, status))
        });
        let message = unmet.map_or("it did not run".to_owned(), |(after, status)| {
            let name = &self.program.node(graph.children[after.child as usize].node).name;
            let accepted: Vec<String> = after.accepts.iter().map(|status| format!("{status:?}")).collect();
            format!("`{name}` ended as {status:?}, and this runs only after {}", accepted.join(" or "))
        });
        let error = ErrorInfo::new("ActionDependencyFailed", "skipped", message);
        let Some((after, status)) = unmet else { return error };
        let name = &self.program.node(graph.children[after.child as usize].node).name;
        let ended = match status {
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::Skipped => "was skipped",
            Status::Cancelled => "was cancelled",
            Status::TimedOut => "took too long",
        };
        self.program.plan.worded(error, &[("name", name), ("ended", ended)])
    }

    /// What has not begun when a graph is called off never will.
    pub(in crate::reduce) fn keep_unbegun(&mut self, id: FrameId) {
        let Some((graph, body)) = self.graph_of(id).filter(|_| self.program.plan.keeps_unbegun) else { return };
        let states = graph.children.iter().zip(&body.children);
        let unbegun = states.filter(|(_, state)| state.status.is_none() && state.frame.is_none());
        for node in unbegun.map(|(child, _)| child.node).collect::<Vec<_>>() {
            self.unbegun_inside(id, node);
        }
    }

    fn unbegun_inside(&mut self, id: FrameId, node: NodeId) {
        match (self.program.node(node).hidden, &self.program.node(node).kind) {
            (false, _) => {
                let error = ErrorInfo::new("NotBegun", "cancelled", "it was called off before it began");
                self.keep_unrun(id, node, Status::Cancelled, error);
            }
            (true, NodeKind::Graph(graph)) => {
                graph.children.iter().for_each(|child| self.unbegun_inside(id, child.node));
            }
            (true, _) => {}
        }
    }

    fn cancel_rest(&mut self, id: FrameId, status: Status) {
        let error = self.graph_of(id).and_then(|(_, body)| body.error.clone());
        let output = self.graph_of(id).map_or(Value::Null, |(graph, _)| self.graph_output(id, graph));
        self.close(id, Closing { status, error, output, own: true });
    }

    fn end_graph_if_done(&mut self, id: FrameId) {
        let Some((graph, body)) = self.graph_of(id) else { return };
        if (body.ended as usize) < graph.children.len() {
            return;
        }
        let node = self.state.frames.get(id).map_or(self.program.plan.root, |frame| frame.node);
        let facts = self.program.facts(node);
        let status = match graph.ending {
            Ending::Leaves => status_by_leaves(graph, body, facts),
            Ending::Any => {
                let counting = (0u32..).zip(&body.children).filter(|(child, _)| !facts.lingering.contains(child));
                worst(counting.filter_map(|(_, child)| child.status))
            }
        };
        let error = status.is_bad().then(|| body.error.clone()).flatten();
        let output = self.graph_output(id, graph);
        self.end_with(id, status, output, error);
    }

    /// `{child: output}` for the children that have one.
    fn graph_output(&self, id: FrameId, graph: &Graph) -> Value {
        let Some(scope) = self.state.frames.get(id).and_then(|frame| self.state.scopes.get(frame.scope)) else {
            return Value::Null;
        };
        let mut map = Map::with_capacity(graph.children.len());
        for child in &graph.children {
            let node = self.program.node(child.node);
            if let Some(outcome) = scope.outcome(child.node).filter(|outcome| outcome.ran())
                && !node.hidden
            {
                map.insert(node.name.clone(), outcome.output.clone());
            }
        }
        Value::map(map)
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
