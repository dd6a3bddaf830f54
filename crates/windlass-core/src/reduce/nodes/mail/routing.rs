//! Routing of mail: the receiver of an address.
//!
//! | the node's parent | the node is alive | has not begun | has ended |
//! |---|---|---|---|
//! | a graph | the child runs | the child waits for others | the child has ended |
//! | a branch | its case was taken | – | another was taken |
//! | a loop | it runs in this iteration | the iteration is to come, or its body runs and the node is its judge | the iteration is over |
//! | a pipeline | its task is inside it | its task is to come | its task is behind |
//! | a net | found by its address | – | in any other case |
//! | nothing (the root) | while the run is alive | – | with the run |
//!
//! The parent decides first: if it has not begun, has ended or is being cancelled, so has the node. A child or a task
//! that the frame does not have is impossible and a fault.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::{TARGET_TERMINAL, UNKNOWN_STEP, WORKFLOW_CANCELLED};
use crate::Status;
use crate::addresses::{iteration_indexes, last_first, normalised};
use crate::plan::{NodeId, NodeKind};
use crate::reduce::Reducer;
use crate::reduce::fault::{FaultResult, no_part, wrong_frame};
use crate::state::{Frame, FrameBody, FrameId, LiveIteration, LoopFrame};

/// Maximum number of addresses that the answer to undeliverable mail lists.
const MAX_KNOWN_LISTED: usize = 20;

pub(super) enum MailRoute {
    Live(FrameId),
    /// A node that has not begun.
    Early(NodeId),
    Undeliverable(Undeliverable),
}

/// The reason why a mail is dropped.
pub(super) struct Undeliverable {
    pub reason: Arc<str>,
    pub message: String,
    /// Addresses that could be used instead.
    pub known: Vec<Arc<str>>,
    /// There is such a node, but it only wraps nodes that read mail.
    pub wraps: bool,
}

impl Undeliverable {
    pub(crate) fn new(reason: impl Into<Arc<str>>, message: String) -> Undeliverable {
        Undeliverable { reason: reason.into(), message, known: Vec::new(), wraps: false }
    }
}

/// The presence of a node of the plan in the run.
enum NodePresence {
    Alive(FrameId),
    NotBegun,
    Ended,
    /// In an iteration that the loop will never reach: it has only this many items.
    Never(u64),
}

impl Reducer<'_> {
    /// Routes an address: by the complete address among live nodes, then in the plan; then by its suffix among live
    /// nodes.
    pub(super) fn route_to(&self, to: &str) -> FaultResult<MailRoute> {
        if let Some(message) = ill_formed(to) {
            return self.unknown_address(message);
        }
        let address = normalised(to);
        let end = last_first(&address);
        let exact = self.live_frames(self.state.mail.by_end.get(&*end).into_iter().flatten());
        match exact.as_slice() {
            [] => {}
            [one] => return Ok(MailRoute::Live(*one)),
            several => return Ok(self.ambiguous_address(to, several)),
        }
        if let Some(owner) = self.iteration_owner(&address)? {
            return Ok(MailRoute::Live(owner));
        }
        let at: Vec<NodeId> = self.program.addresses().nodes_at(&end).to_vec();
        let boxes = at.iter().copied().filter(|node| self.program.node(*node).mailbox.is_some());
        let (mut to_come, mut never) = (false, None);
        let mut ended = None;
        for node in boxes {
            match self.presence(node, &mut iteration_indexes(&address))? {
                NodePresence::NotBegun if self.program.addresses().in_loop(node) => to_come = true,
                NodePresence::NotBegun => return Ok(MailRoute::Early(node)),
                NodePresence::Never(iterations) => never = Some(iterations),
                // A live node that is not listed as live is being cancelled.
                NodePresence::Ended | NodePresence::Alive(_) => ended = Some(node),
            }
        }
        if let Some(node) = ended {
            let message = format!("`{to}` has ended and reads no more mail");
            return Ok(MailRoute::Undeliverable(Undeliverable::new(self.closed_reason(node), message)));
        }
        let matching = self.live_frames(with_prefix(&self.state.mail.by_end, format!("{end}.")));
        match matching.as_slice() {
            [one] => return Ok(MailRoute::Live(*one)),
            [] => {}
            several => return Ok(self.ambiguous_address(to, several)),
        }
        if let Some(iterations) = never.filter(|_| !to_come) {
            return self.unknown_address(format!(
                "`{to}` will never exist: there are only {iterations} iterations, and the first is 0"
            ));
        }
        if to_come {
            return self.unknown_address(format!("`{to}` has not begun; in a loop only a running iteration gets mail"));
        }
        self.no_reader(to, &address, &end, &at)
    }

    /// Returns the route of an address under which no node gets mail now.
    fn unknown_address(&self, message: String) -> FaultResult<MailRoute> {
        Ok(MailRoute::Undeliverable(Undeliverable {
            known: self.known_addresses()?,
            ..Undeliverable::new(UNKNOWN_STEP, message)
        }))
    }

    /// Returns the loop of an address such as `loop.0`, while that iteration runs: a loop that reads mail reads that of
    /// its iterations.
    fn iteration_owner(&self, address: &str) -> FaultResult<Option<FrameId>> {
        let iteration = address.rsplit_once('.').and_then(|(around, index)| Some((around, index.parse::<u64>().ok()?)));
        let owner = iteration.and_then(|(around, index)| Some((self.live_owner_at(around)?, index)));
        let Some((owner, iteration)) = owner else { return Ok(None) };
        match &self.frame(owner)?.body {
            FrameBody::Loop(body) => {
                Ok(matches!(body.iterations.get(&iteration), Some(LiveIteration::Body(_))).then_some(owner))
            }
            FrameBody::New
            | FrameBody::Backoff
            | FrameBody::Pipeline(_)
            | FrameBody::Graph(_)
            | FrameBody::Branch { .. }
            | FrameBody::Net(_)
            | FrameBody::Wait(_)
            | FrameBody::Call { .. } => Ok(None),
        }
    }

    fn ambiguous_address(&self, to: &str, several: &[FrameId]) -> MailRoute {
        let message = format!("`{to}` is ambiguous: write the full address of one");
        let known = several.iter().take(MAX_KNOWN_LISTED).map(|id| self.address_of(*id)).collect();
        MailRoute::Undeliverable(Undeliverable { known, ..Undeliverable::new(UNKNOWN_STEP, message) })
    }

    /// Returns the route of an address without a reader: a node that only wraps others, or no node at all.
    fn no_reader(&self, to: &str, address: &str, end: &str, at: &[NodeId]) -> FaultResult<MailRoute> {
        let addresses = self.program.addresses();
        let has_no_mailbox = |node: &NodeId| self.program.node(*node).mailbox.is_none();
        let wrapper = at.iter().copied().find(has_no_mailbox).or_else(|| {
            let mut alike = addresses.ending_with(end).filter(has_no_mailbox);
            alike.next().filter(|_| alike.next().is_none())
        });
        if let Some(node) = wrapper {
            return Ok(MailRoute::Undeliverable(self.wrapper_address(to, address, node)));
        }
        let message = format!("no node reads mail under `{to}`");
        let readers = addresses
            .ending_with(end)
            .filter(|node| !has_no_mailbox(node))
            .filter_map(|node| addresses.display_address(node));
        let matching: Vec<Arc<str>> = readers.take(MAX_KNOWN_LISTED).cloned().collect();
        match matching.is_empty() {
            true => self.unknown_address(message),
            false => Ok(MailRoute::Undeliverable(Undeliverable {
                known: matching,
                ..Undeliverable::new(UNKNOWN_STEP, message)
            })),
        }
    }

    fn wrapper_address(&self, to: &str, address: &str, node: NodeId) -> Undeliverable {
        let label = &self.program.node(node).label;
        let alive = self.live_frames(with_prefix(&self.state.mail.by_address, format!("{address}.")));
        let mut known: Vec<Arc<str>> = alive.into_iter().take(MAX_KNOWN_LISTED).map(|id| self.address_of(id)).collect();
        if known.is_empty() {
            let inside = self.program.addresses().iter().filter(|(other, _)| self.is_inside(*other, node));
            let readers = inside.filter(|(other, _)| self.program.node(*other).mailbox.is_some());
            known = readers.take(MAX_KNOWN_LISTED).map(|(_, shown)| shown.clone()).collect();
        }
        let message = match known.first() {
            Some(first) => format!(
                "`{to}` ({label}) only wraps other steps and reads no mail itself: write to one inside it, such as `{first}`"
            ),
            None => format!("`{to}` ({label}) reads no mail, nor does anything inside it"),
        };
        Undeliverable { known, wraps: true, ..Undeliverable::new(UNKNOWN_STEP, message) }
    }

    fn is_inside(&self, node: NodeId, around: NodeId) -> bool {
        std::iter::successors(Some(node), |node| self.program.node(*node).parent).skip(1).any(|node| node == around)
    }

    /// Returns some of the addresses that would get mail now.
    fn known_addresses(&self) -> FaultResult<Vec<Arc<str>>> {
        let alive = self.state.mail.by_address.values().flatten();
        let alive = alive.filter(|id| !self.is_cancelled(**id)).map(|id| self.address_of(*id));
        let mut known: Vec<Arc<str>> = alive.take(MAX_KNOWN_LISTED).collect();
        for (node, shown) in self.program.addresses().iter() {
            if known.len() >= MAX_KNOWN_LISTED {
                break;
            }
            let reads = self.program.node(node).mailbox.is_some() && !self.program.addresses().in_loop(node);
            if reads && matches!(self.presence(node, &mut std::iter::empty())?, NodePresence::NotBegun) {
                known.push(shown.clone());
            }
        }
        Ok(known)
    }

    /// Returns the owner of the mailbox at exactly this address, if it is alive.
    pub(super) fn live_owner_at(&self, address: &str) -> Option<FrameId> {
        let end = last_first(&normalised(address));
        self.state.mail.by_end.get(&*end)?.iter().copied().find(|id| !self.is_cancelled(*id))
    }

    /// Returns the frames that are not being cancelled: at most one more than are ever listed.
    fn live_frames<'f>(&self, ids: impl Iterator<Item = &'f FrameId>) -> Vec<FrameId> {
        ids.copied().filter(|id| !self.is_cancelled(*id)).take(MAX_KNOWN_LISTED + 1).collect()
    }

    /// Returns true if the frame is cancelled from outside: it will not be entered again and reads no more mail.
    fn is_cancelled(&self, id: FrameId) -> bool {
        let closing = self.state.frames.get(id).and_then(|frame| frame.closing.as_ref());
        closing.is_some_and(|closing| !closing.own_end)
    }

    pub(super) fn closed_reason(&self, node: NodeId) -> Arc<str> {
        match self.state.decided_end.as_ref().map(|verdict| verdict.status) {
            Some(Status::Cancelled | Status::TimedOut) => WORKFLOW_CANCELLED.into(),
            Some(Status::Succeeded | Status::Failed | Status::Skipped) | None => {
                let mailbox = self.program.node(node).mailbox.as_ref();
                mailbox.map_or_else(|| TARGET_TERMINAL.into(), |mailbox| mailbox.closed.clone())
            }
        }
    }

    /// Returns the presence of a node whose loops are in these iterations, from the outermost in.
    fn presence(&self, node: NodeId, iterations: &mut dyn Iterator<Item = u64>) -> FaultResult<NodePresence> {
        let Some(parent) = self.program.node(node).parent else {
            return Ok(self.state.root.map_or(NodePresence::Ended, NodePresence::Alive));
        };
        let above = match self.presence(parent, iterations)? {
            NodePresence::Alive(above) => above,
            settled @ (NodePresence::NotBegun | NodePresence::Ended | NodePresence::Never(_)) => return Ok(settled),
        };
        match self.frame_if_live(above) {
            Some(frame) if !self.is_cancelled(above) => self.presence_in(above, frame, node, iterations),
            // A cancelled frame enters nothing any more; an ended one may be listed until its parent has processed its
            // end.
            Some(_) | None => Ok(NodePresence::Ended),
        }
    }

    /// Returns the presence of a node that is directly inside the node of this frame.
    fn presence_in(
        &self,
        id: FrameId,
        above: &Frame,
        node: NodeId,
        iterations: &mut dyn Iterator<Item = u64>,
    ) -> FaultResult<NodePresence> {
        match (&self.program.node(above.node).kind, &above.body) {
            (NodeKind::Graph(graph), FrameBody::Graph(body)) => {
                let at = graph.children.iter().position(|child| child.node == node);
                let child = at.and_then(|at| body.children.get(at));
                let child = child.ok_or_else(|| no_part(id, "child that is node", node.0.into()))?;
                match child.status {
                    Some(_) => Ok(NodePresence::Ended),
                    None => Ok(child.frame.map_or(NodePresence::NotBegun, |frame| self.presence_of_frame(frame, node))),
                }
            }
            (NodeKind::Branch(_), FrameBody::Branch { child }) => Ok(self.presence_of_frame(*child, node)),
            (NodeKind::Loop(looping), FrameBody::Loop(body)) => Ok(match iterations.next() {
                Some(iteration) => self.presence_in_iteration(body, iteration, node, looping.judge == Some(node)),
                None => NodePresence::NotBegun,
            }),
            (NodeKind::Pipeline(pipeline), FrameBody::Pipeline(body)) => {
                let at = pipeline.tasks.iter().position(|task| task.action.node() == Some(node));
                let at = at.ok_or_else(|| no_part(id, "task that enters node", node.0.into()))? as u32;
                Ok(match body.child {
                    Some(child) if body.pc == at => self.presence_of_frame(child, node),
                    None if body.pc == at && body.attempt == 0 => NodePresence::NotBegun,
                    Some(_) | None if body.pc < at => NodePresence::NotBegun,
                    Some(_) | None => NodePresence::Ended,
                })
            }
            // A live body of a place is found by its address. A body that has not begun may begin many times.
            (NodeKind::Net(_), FrameBody::Net(_)) => Ok(NodePresence::Ended),
            (_, FrameBody::New | FrameBody::Backoff) => Ok(NodePresence::NotBegun),
            (
                _,
                other @ (FrameBody::Pipeline(_)
                | FrameBody::Graph(_)
                | FrameBody::Branch { .. }
                | FrameBody::Loop(_)
                | FrameBody::Net(_)
                | FrameBody::Wait(_)
                | FrameBody::Call { .. }),
            ) => Err(wrong_frame(id, "the frame around a node", other)),
        }
    }

    fn presence_in_iteration(&self, body: &LoopFrame, iteration: u64, node: NodeId, is_judge: bool) -> NodePresence {
        let items = body.items.as_ref().map(|items| items.count);
        match (body.iterations.get(&iteration), items) {
            (Some(LiveIteration::Body(frame)), _) if !is_judge => self.presence_of_frame(*frame, node),
            (Some(LiveIteration::Judge(frame)), _) if is_judge => self.presence_of_frame(*frame, node),
            (Some(LiveIteration::Body(_)), _) => NodePresence::NotBegun,
            (Some(LiveIteration::Judge(_)), _) => NodePresence::Ended,
            (None, Some(items)) if iteration >= items => NodePresence::Never(items),
            (None, _) if iteration < body.begun => NodePresence::Ended,
            (None, _) => NodePresence::NotBegun,
        }
    }

    /// Returns the presence of this node in a frame that its parent lists. The frame may have ended, and a branch may
    /// have taken another case.
    fn presence_of_frame(&self, id: FrameId, node: NodeId) -> NodePresence {
        match self.frame_if_live(id) {
            Some(frame) if frame.node == node => NodePresence::Alive(id),
            Some(_) | None => NodePresence::Ended,
        }
    }
}

fn ill_formed(to: &str) -> Option<String> {
    if to.trim().is_empty() {
        return Some("the address is empty: name the receiver".to_owned());
    }
    let has_empty_part = to.split('.').any(|part| part.trim().is_empty());
    has_empty_part.then(|| format!("`{to}` is not a valid address: a part of it is empty"))
}

/// Returns the frames under all keys with this prefix.
fn with_prefix(index: &BTreeMap<Arc<str>, Vec<FrameId>>, start: String) -> impl Iterator<Item = &FrameId> {
    let from = index.range::<str, _>((Bound::Included(&*start), Bound::Unbounded));
    from.take_while(move |(key, _)| key.starts_with(&start)).flat_map(|(_, ids)| ids)
}
