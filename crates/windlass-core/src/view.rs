//! A view of a run for people: the tree of live frames, with loops folded.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_value::{Timestamp, Value};

use crate::plan::{LoopCheck, NodeKind};
use crate::reduce::usage_value;
use crate::state::{ApprovalForm, Frame, FrameBody, FrameId, State, WaitFrame};
use crate::{IterationRecord, LoopEndReason, Program};

/// A live node. Hidden nodes around it are left out.
#[derive(Clone, Debug)]
pub struct FrameView {
    /// The name of the node, as in the plan.
    pub name: Arc<str>,
    /// The dialect's name of the node kind.
    pub label: Arc<str>,
    /// `running`, `waiting`, `retrying`, `cancelling`.
    pub activity: &'static str,
    /// The time at which the node began.
    pub started_at: Timestamp,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The index of the iteration that the node is the body of, counted from 0.
    pub iteration: Option<u64>,
    /// On a loop: its progress.
    pub looping: Option<LoopView>,
    /// Resources used so far by the jobs inside, if the node meters them; else null.
    pub usage: Value,
    /// The time at which it continues by itself: the next iteration of a loop, a retry, or the end of a wait.
    pub due: Option<Timestamp>,
    /// The form it shows to people, with the name of the signal that answers it.
    pub open_form: Option<(Arc<str>, Box<ApprovalForm>)>,
    /// The live nodes inside it.
    pub children: Vec<FrameView>,
}

/// The progress of a loop.
#[derive(Clone, Debug)]
pub struct LoopView {
    /// Iterations begun.
    pub begun: u64,
    /// Iterations ended.
    pub ended: u64,
    /// Iterations that failed.
    pub failed: u64,
    /// The maximum number of iterations, if it is known.
    pub max_iterations: Option<u64>,
    /// The condition as written in the definition.
    pub condition: Option<Value>,
    /// The output of the last iteration; null before the first has ended.
    pub last: Value,
    /// The reason for which no further iteration begins, if that is decided.
    pub stopping: Option<LoopEndReason>,
}

type ChildrenByParent = BTreeMap<FrameId, Vec<(u64, FrameId)>>;

/// Returns the live frames of a run, starting at its root.
pub fn frame_tree(program: &Program, state: &State) -> Vec<FrameView> {
    let mut inner: ChildrenByParent = BTreeMap::new();
    for (id, frame) in state.frames.iter() {
        if let Some(parent) = frame.parent {
            inner.entry(parent).or_default().push((frame.slot, id));
        }
    }
    inner.values_mut().for_each(|children| children.sort());
    state.root.map(|root| views(program, state, root, None, &inner)).unwrap_or_default()
}

fn views(
    program: &Program,
    state: &State,
    id: FrameId,
    iteration: Option<u64>,
    inner: &ChildrenByParent,
) -> Vec<FrameView> {
    let Some(frame) = state.frames.get(id) else { return Vec::new() };
    let node = program.node(frame.node);
    let children = inner.get(&id).into_iter().flatten().flat_map(|(slot, child)| {
        let iteration = match &node.kind {
            NodeKind::Loop(_) => Some(*slot),
            _ => iteration.filter(|_| node.hidden),
        };
        views(program, state, *child, iteration, inner)
    });
    if node.hidden {
        return children.collect();
    }
    vec![FrameView {
        name: node.name.clone(),
        label: node.label.clone(),
        activity: activity(frame),
        started_at: frame.started_at,
        attempt: frame.attempt,
        iteration,
        looping: loop_view(program, frame).or_else(|| hidden_loop(program, state, frame)),
        due: due(program, state, id, inner),
        usage: frame.account.as_ref().map_or(Value::Null, |account| usage_value(&account.usage)),
        open_form: match &frame.body {
            FrameBody::Wait(WaitFrame::Signal { name, form: Some(form), .. }) => Some((name.clone(), form.clone())),
            _ => None,
        },
        children: children.collect(),
    }]
}

/// Returns the time at which a frame continues by itself. Hidden nodes inside it count as part of it.
fn due(program: &Program, state: &State, id: FrameId, inner: &ChildrenByParent) -> Option<Timestamp> {
    let frame = state.frames.get(id)?;
    let own = frame.alarm.filter(|_| frame.closing.is_none()).map(|(at, _)| at);
    let is_hidden = |child: FrameId| state.frames.get(child).is_some_and(|frame| program.node(frame.node).hidden);
    let hidden = inner.get(&id).into_iter().flatten().map(|(_, child)| *child).filter(|child| is_hidden(*child));
    own.into_iter().chain(hidden.filter_map(|child| due(program, state, child, inner))).min()
}

fn activity(frame: &Frame) -> &'static str {
    match &frame.body {
        _ if frame.closing.is_some() => "cancelling",
        FrameBody::Backoff => "retrying",
        FrameBody::Pipeline(pipeline) if pipeline.next_call_input.is_some() => "waiting",
        FrameBody::Pipeline(_) if frame.alarm.is_some() => "retrying",
        FrameBody::Wait(WaitFrame::Time | WaitFrame::Signal { .. } | WaitFrame::Mail(_)) | FrameBody::Call { .. } => {
            "waiting"
        }
        FrameBody::Loop(_) if frame.alarm.is_some() => "waiting",
        FrameBody::New
        | FrameBody::Pipeline(_)
        | FrameBody::Graph(_)
        | FrameBody::Branch { .. }
        | FrameBody::Loop(_)
        | FrameBody::Net(_) => "running",
    }
}

/// Returns the loop that a task of this frame has entered, if that loop is hidden.
fn hidden_loop(program: &Program, state: &State, frame: &Frame) -> Option<LoopView> {
    let FrameBody::Pipeline(pipeline) = &frame.body else { return None };
    let entered = pipeline.child.and_then(|child| state.frames.get(child));
    entered.filter(|child| program.node(child.node).hidden).and_then(|child| loop_view(program, child))
}

fn loop_view(program: &Program, frame: &Frame) -> Option<LoopView> {
    let (NodeKind::Loop(looping), FrameBody::Loop(body)) = (&program.node(frame.node).kind, &frame.body) else {
        return None;
    };
    if looping.internal {
        return None;
    }
    let condition = match looping.check {
        LoopCheck::Never => None,
        LoopCheck::Before { condition, .. } | LoopCheck::After { condition, .. } => {
            Some(program.plan.expressions[condition.0 as usize].as_written().clone())
        }
    };
    Some(LoopView {
        begun: body.begun,
        ended: body.ended,
        failed: body.failed,
        max_iterations: body.items.as_ref().map(|items| items.count).or(body.max_iterations),
        condition,
        last: body.previous.clone(),
        stopping: body.stopping,
    })
}

/// Returns the iterations whose body has ended and whose judge runs. The loop's history gets them with the verdict.
pub fn judged_iterations(state: &State) -> impl Iterator<Item = &IterationRecord> {
    let judging = state.frames.iter().filter_map(|(_, frame)| match &frame.body {
        FrameBody::Loop(body) => Some(body.judging.values()),
        _ => None,
    });
    judging.flatten()
}

/// Returns the resources that the jobs of a live run have used so far; null if its root does not meter them.
pub fn usage_so_far(state: &State) -> Value {
    let root = state.root.and_then(|root| state.frames.get(root));
    root.and_then(|root| root.account.as_ref()).map_or(Value::Null, |account| usage_value(&account.usage))
}
