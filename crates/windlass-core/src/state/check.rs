//! Validates a complete state that was loaded from outside: a snapshot may be damaged, or belong to another plan.
//!
//! The reducer relies on these checks. It detects frames of the wrong kind and dangling ids itself and reports a
//! [`ReducerFault`]; it follows indexes into the plan and chains of parents without checking them again.

use std::collections::{BTreeMap, BTreeSet};

use super::{AgendaItem, Frame, FrameBody, FrameId, GraphFrame, NetFrame, ScopeId, Slab, SlabId, State, Timer};
use crate::plan::{Graph, Join, Net, NodeId, NodeKind};
use crate::reduce::{kind_of, miscounted, no_frame, no_job, no_part, no_scope};
use crate::{Program, ReducerFault};

type StateCheckResult = Result<(), Box<ReducerFault>>;

impl State {
    /// Checks that the state can belong to this program.
    pub fn check(&self, program: &Program) -> Result<(), ReducerFault> {
        self.check_all(program).map_err(|fault| *fault)
    }

    fn check_all(&self, program: &Program) -> StateCheckResult {
        if !self.frames.is_sound() || !self.scopes.is_sound() {
            return Err(Box::new(ReducerFault::Damaged { what: "the list of free entries" }));
        }
        self.check_scopes(program)?;
        let mut live: BTreeMap<FrameId, u32> = BTreeMap::new();
        for (id, frame) in self.frames.iter() {
            self.check_frame(program, id, frame)?;
            match frame.parent {
                Some(parent) => *live.entry(parent).or_default() += 1,
                None if self.root == Some(id) => {}
                None => return Err(no_frame(id, "a parent, or the root")),
            }
        }
        for item in &self.agenda {
            self.check_item(item, &mut live)?;
        }
        for (id, frame) in self.frames.iter() {
            if frame.live != live.remove(&id).unwrap_or(0) {
                return Err(miscounted(id, "live children"));
            }
        }
        match live.keys().next() {
            Some(parent) => Err(no_frame(*parent, "the parent of a frame")),
            None => self.check_references(),
        }
    }

    fn check_scopes(&self, program: &Program) -> StateCheckResult {
        let parent = |id: ScopeId| self.scopes.get(id).and_then(|scope| scope.parent);
        for (id, scope) in self.scopes.iter() {
            if scope.parent.is_some_and(|parent| self.scopes.get(parent).is_none()) {
                return Err(no_scope(id, "the scope around another"));
            }
            let nodes = scope.outcomes.iter().map(|(node, _)| *node).chain(scope.owner);
            nodes
                .chain(scope.iteration.as_ref().map(|iteration| iteration.loop_node))
                .try_for_each(|node| check_node(program, node))?;
        }
        if has_cycle(&self.scopes, parent) {
            return Err(Box::new(ReducerFault::Damaged { what: "the chain of scopes" }));
        }
        match self.scopes.get(self.root_scope) {
            Some(_) => Ok(()),
            None => Err(no_scope(self.root_scope, "the run's scope")),
        }
    }

    fn check_frame(&self, program: &Program, id: FrameId, frame: &Frame) -> StateCheckResult {
        check_node(program, frame.node)?;
        if self.scopes.get(frame.scope).is_none() {
            return Err(no_scope(frame.scope, "the scope of a frame"));
        }
        if frame.parent.is_some_and(|parent| self.frames.get(parent).is_none()) {
            return Err(no_frame(frame.parent.unwrap_or(id), "the parent of a frame"));
        }
        let wrong =
            |expected| Err(Box::new(ReducerFault::WrongFrame { frame: id, expected, found: kind_of(&frame.body) }));
        match (&program.node(frame.node).kind, &frame.body) {
            (_, FrameBody::New | FrameBody::Backoff) => Ok(()),
            (NodeKind::Pipeline(pipeline), FrameBody::Pipeline(body)) => {
                match (body.pc as usize) < pipeline.tasks.len() {
                    true => Ok(()),
                    false => Err(no_part(id, "task", body.pc.into())),
                }
            }
            (NodeKind::Graph(graph), FrameBody::Graph(body)) => check_graph(id, graph, body),
            (NodeKind::Net(net), FrameBody::Net(body)) => {
                let regions = program.facts(frame.node).net_regions.as_ref().map_or(0, |regions| regions.count());
                check_net(id, net, body)?;
                check_activations(id, net, body, regions)
            }
            (NodeKind::Branch(_), FrameBody::Branch { .. })
            | (NodeKind::Loop(_), FrameBody::Loop(_))
            | (NodeKind::Wait(_), FrameBody::Wait(_))
            | (NodeKind::Call(_), FrameBody::Call { .. }) => Ok(()),
            (NodeKind::Pipeline(_), _) => wrong("a pipeline"),
            (NodeKind::Graph(_), _) => wrong("a graph"),
            (NodeKind::Branch(_), _) => wrong("a branch"),
            (NodeKind::Loop(_), _) => wrong("a loop"),
            (NodeKind::Net(_), _) => wrong("a net"),
            (NodeKind::Wait(_), _) => wrong("a wait"),
            (NodeKind::Call(_), _) => wrong("a call"),
        }
    }

    /// Checks an agenda item. Items may outlive their frames; only the end of a child needs its parent.
    fn check_item(&self, item: &AgendaItem, live: &mut BTreeMap<FrameId, u32>) -> StateCheckResult {
        match item {
            AgendaItem::ChildEnded { parent, scope, .. } => {
                *live.entry(*parent).or_default() += 1;
                match self.scopes.get(*scope) {
                    Some(_) => Ok(()),
                    None => Err(no_scope(*scope, "the scope of a frame that has ended")),
                }
            }
            AgendaItem::Enter(_)
            | AgendaItem::Task(_)
            | AgendaItem::TaskEnded(..)
            | AgendaItem::StartChild { .. }
            | AgendaItem::FirstCheck(_)
            | AgendaItem::NextIteration(_)
            | AgendaItem::Fire(_)
            | AgendaItem::Finish(..)
            | AgendaItem::EndRun(_)
            | AgendaItem::Parameters
            | AgendaItem::Token(..)
            | AgendaItem::Mail(_) => Ok(()),
        }
    }

    /// Checks that jobs, calls, timers and waits refer to existing frames.
    fn check_references(&self) -> StateCheckResult {
        if has_cycle(&self.frames, |id| self.frames.get(id).and_then(|frame| frame.parent)) {
            return Err(Box::new(ReducerFault::Damaged { what: "the chain of frames" }));
        }
        let exists = |id: FrameId, expected| match self.frames.get(id) {
            Some(_) => Ok(()),
            None => Err(no_frame(id, expected)),
        };
        self.root.map_or(Ok(()), |root| exists(root, "the root"))?;
        for (job, open) in &self.jobs {
            if open.job.job != *job {
                return Err(no_job(open.job.job, "a job under its own number"));
            }
            match self.frames.get(open.frame).map(|frame| &frame.body) {
                Some(FrameBody::Pipeline(body)) if body.job == Some(*job) => {}
                _ => return Err(no_frame(open.frame, "the pipeline of a job")),
            }
        }
        for (_, frame) in self.frames.iter() {
            if let FrameBody::Pipeline(body) = &frame.body
                && let Some(job) = body.job.filter(|job| !self.jobs.contains_key(job))
            {
                return Err(no_job(job, "the job of a pipeline"));
            }
        }
        for timer in self.timers.values() {
            match timer {
                Timer::Deadline(id) | Timer::LoopTime(id) | Timer::Alarm(id) | Timer::Budget(id) => {
                    exists(*id, "the frame of a timer")?;
                }
                Timer::Grace(job) if !self.jobs.contains_key(job) => return Err(no_job(*job, "the job of a timer")),
                Timer::Grace(_) | Timer::Run => {}
            }
        }
        self.calls.values().try_for_each(|open| exists(open.frame, "the frame of a call"))?;
        self.waits.values().flatten().try_for_each(|id| exists(*id, "a frame that waits for an event"))?;
        self.nets.iter().try_for_each(|id| exists(*id, "a net"))?;
        self.mail.boxes.keys().try_for_each(|id| exists(*id, "the owner of a mailbox"))
    }
}

fn check_node(program: &Program, node: NodeId) -> StateCheckResult {
    match (node.0 as usize) < program.plan.nodes.len() {
        true => Ok(()),
        false => Err(Box::new(ReducerFault::NoNode { node: node.0 })),
    }
}

fn check_graph(id: FrameId, graph: &Graph, body: &GraphFrame) -> StateCheckResult {
    let children = graph.children.len();
    if body.children.len() != children {
        return Err(no_part(id, "child", body.children.len() as u64));
    }
    match body.ready.iter().find(|child| **child as usize >= children) {
        Some(child) => Err(no_part(id, "child", (*child).into())),
        None => Ok(()),
    }
}

fn check_net(id: FrameId, net: &Net, body: &NetFrame) -> StateCheckResult {
    let places = net.places.len();
    if body.places.len() != places {
        return Err(no_part(id, "place", body.places.len() as u64));
    }
    let firings = body.firings.values().map(|firing| firing.place);
    let fan_outs = body.fan_outs.values().filter_map(|fan| fan.place);
    if let Some(place) = firings.chain(fan_outs).find(|place| *place as usize >= places) {
        return Err(no_part(id, "place", place.into()));
    }
    for (place, state) in net.places.iter().zip(&body.places) {
        let queues = match &place.join {
            Join::Each { needs, .. } => needs.len(),
            Join::None | Join::All | Join::Merged | Join::FanOut | Join::Meeting { .. } => place.accepts.len(),
        };
        let fits = state.held.len() == place.accepts.len() && state.sets.values().all(|set| set.len() == queues);
        if !fits {
            return Err(no_part(id, "queue of a join", state.held.len() as u64));
        }
        if let Some(slot) = state.awaiting_slot.iter().find(|slot| !body.firings.contains_key(slot)) {
            return Err(no_part(id, "firing", *slot));
        }
    }
    Ok(())
}

/// Checks the activations of a net: their regions and places exist, and so do the activations of all tokens.
fn check_activations(id: FrameId, net: &Net, body: &NetFrame, regions: usize) -> StateCheckResult {
    for met in body.activations.values() {
        if met.region as usize >= regions {
            return Err(no_part(id, "region", met.region.into()));
        }
        let places = met.pending.keys().chain(met.held.keys());
        if let Some(place) = places.into_iter().find(|place| **place as usize >= net.places.len()) {
            return Err(no_part(id, "place", (*place).into()));
        }
    }
    let queued = body.places.iter().flat_map(|place| &place.queue);
    let held = body.activations.values().flat_map(|met| met.held.values().flatten());
    let tokens = queued.chain(held).map(|token| &token.regions);
    let mut tags = tokens.chain(body.firings.values().map(|firing| &firing.regions)).flatten();
    match tags.find(|(_, activation)| !body.activations.contains_key(activation)) {
        Some((_, activation)) => Err(no_part(id, "activation", *activation)),
        None => Ok(()),
    }
}

/// Returns true if following the parents of some entry never ends. Each entry is visited once.
fn has_cycle<T>(slab: &Slab<T>, parent: impl Fn(SlabId<T>) -> Option<SlabId<T>>) -> bool {
    let mut ends: BTreeSet<SlabId<T>> = BTreeSet::new();
    for (id, _) in slab.iter() {
        let mut passed = BTreeSet::new();
        let mut current = Some(id);
        while let Some(next) = current.filter(|next| !ends.contains(next)) {
            if !passed.insert(next) {
                return true;
            }
            current = parent(next);
        }
        ends.append(&mut passed);
    }
    false
}
