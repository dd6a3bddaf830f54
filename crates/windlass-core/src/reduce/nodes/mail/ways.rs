//! Whom an address means.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::{CANCELLED, TERMINAL, UNKNOWN};
use crate::Status;
use crate::addresses::{last_first, normalised, turns};
use crate::plan::{NodeId, NodeKind};
use crate::reduce::Reducer;
use crate::state::{Body, Frame, FrameId, LiveIteration};

/// Addresses that whoever wrote to nobody is told of.
const KNOWN_TOLD: usize = 20;

pub(super) enum Way {
    Living(FrameId),
    /// A node that has not begun.
    Early(NodeId),
    Nowhere(Nowhere),
}

/// Why a mail is dropped.
pub(super) struct Nowhere {
    pub reason: Arc<str>,
    pub message: String,
    /// Who could be written to instead.
    pub known: Vec<Arc<str>>,
    /// There is such a node, but it only wraps those who read.
    pub wraps: bool,
}

impl Nowhere {
    pub fn because(reason: impl Into<Arc<str>>, message: String) -> Nowhere {
        Nowhere { reason: reason.into(), message, known: Vec::new(), wraps: false }
    }
}

/// Where a node of the plan stands.
enum Standing {
    Alive(FrameId),
    NotBegun,
    Ended,
    /// A turn beyond the last of so many.
    Never(u64),
}

impl Reducer<'_> {
    /// The whole address first, of who is alive, then of who is in the plan; then its end, of who is alive.
    pub(super) fn way_to(&self, to: &str) -> Way {
        if let Some(message) = ill_formed(to) {
            return Way::Nowhere(Nowhere { known: self.known(), ..Nowhere::because(UNKNOWN, message) });
        }
        let address = normalised(to);
        let end = last_first(&address);
        let own = self.alive(self.state.mail.by_end.get(&*end).into_iter().flatten());
        match own.as_slice() {
            [] => {}
            [one] => return Way::Living(*one),
            several => return self.several(to, several),
        }
        if let Some(owner) = self.turn_of(&address) {
            return Way::Living(owner);
        }
        let at: Vec<NodeId> = self.program.addresses().at(&end).to_vec();
        let boxes = at.iter().copied().filter(|node| self.program.node(*node).mailbox.is_some());
        let (mut to_come, mut never) = (false, None);
        let mut ended = None;
        for node in boxes {
            match self.standing(node, &mut turns(&address)) {
                Standing::NotBegun if self.program.addresses().in_loop(node) => to_come = true,
                Standing::NotBegun => return Way::Early(node),
                Standing::Never(turns) => never = Some(turns),
                // Who is alive and is not listed as such is being called off.
                Standing::Ended | Standing::Alive(_) => ended = Some(node),
            }
        }
        if let Some(node) = ended {
            let message = format!("`{to}` has ended and reads no more mail");
            return Way::Nowhere(Nowhere::because(self.why_closed(node), message));
        }
        let alike = self.alive(starting_with(&self.state.mail.by_end, format!("{end}.")));
        match alike.as_slice() {
            [one] => return Way::Living(*one),
            [] => {}
            several => return self.several(to, several),
        }
        if let Some(turns) = never.filter(|_| !to_come) {
            let message = format!("`{to}` will never be: there are only {turns} turns, and the first is 0");
            return Way::Nowhere(Nowhere { known: self.known(), ..Nowhere::because(UNKNOWN, message) });
        }
        if to_come {
            let message = format!("`{to}` has not begun; in a loop only a turn that is running gets mail");
            return Way::Nowhere(Nowhere { known: self.known(), ..Nowhere::because(UNKNOWN, message) });
        }
        self.nobody(to, &address, &end, &at)
    }

    /// A loop that reads mail reads that of its turns: `loop.0`, while this one runs.
    fn turn_of(&self, address: &str) -> Option<FrameId> {
        let (around, turn) = address.rsplit_once('.')?;
        let turn: u64 = turn.parse().ok()?;
        let owner = self.living_at(around)?;
        match &self.state.frames.get(owner)?.body {
            Body::Loop(body) => matches!(body.iterations.get(&turn), Some(LiveIteration::Body(_))).then_some(owner),
            Body::New
            | Body::Backoff
            | Body::Pipeline(_)
            | Body::Graph(_)
            | Body::Branch { .. }
            | Body::Net(_)
            | Body::Wait(_)
            | Body::Call { .. } => None,
        }
    }

    fn several(&self, to: &str, several: &[FrameId]) -> Way {
        let message = format!("several could be meant by `{to}`: write the whole address of one");
        let known = several.iter().take(KNOWN_TOLD).map(|id| self.address_of(*id)).collect();
        Way::Nowhere(Nowhere { known, ..Nowhere::because(UNKNOWN, message) })
    }

    /// Nobody reads under this address: it only holds others, or it is none at all.
    fn nobody(&self, to: &str, address: &str, end: &str, at: &[NodeId]) -> Way {
        let addresses = self.program.addresses();
        let silent = |node: &NodeId| self.program.node(*node).mailbox.is_none();
        let wrapper = at.iter().copied().find(silent).or_else(|| {
            let mut alike = addresses.ending(end).filter(silent);
            alike.next().filter(|_| alike.next().is_none())
        });
        if let Some(node) = wrapper {
            return Way::Nowhere(self.wrapper(to, address, node));
        }
        let message = format!("nobody reads mail under `{to}`");
        let readers = addresses.ending(end).filter(|node| !silent(node)).filter_map(|node| addresses.shown(node));
        let alike: Vec<Arc<str>> = readers.take(KNOWN_TOLD).cloned().collect();
        let known = if alike.is_empty() { self.known() } else { alike };
        Way::Nowhere(Nowhere { known, ..Nowhere::because(UNKNOWN, message) })
    }

    fn wrapper(&self, to: &str, address: &str, node: NodeId) -> Nowhere {
        let label = &self.program.node(node).label;
        let alive = self.alive(starting_with(&self.state.mail.by_address, format!("{address}.")));
        let mut known: Vec<Arc<str>> = alive.into_iter().take(KNOWN_TOLD).map(|id| self.address_of(id)).collect();
        if known.is_empty() {
            let inside = self.program.addresses().all().filter(|(other, _)| self.is_inside(*other, node));
            let readers = inside.filter(|(other, _)| self.program.node(*other).mailbox.is_some());
            known = readers.take(KNOWN_TOLD).map(|(_, shown)| shown.clone()).collect();
        }
        let message = match known.first() {
            Some(first) => format!(
                "`{to}` ({label}) only wraps other steps and reads no mail itself: write to one inside it, such as `{first}`"
            ),
            None => format!("`{to}` ({label}) reads no mail, nor does anything inside it"),
        };
        Nowhere { known, wraps: true, ..Nowhere::because(UNKNOWN, message) }
    }

    fn is_inside(&self, node: NodeId, around: NodeId) -> bool {
        std::iter::successors(Some(node), |node| self.program.node(*node).parent).skip(1).any(|node| node == around)
    }

    /// Some of those who would get mail now.
    fn known(&self) -> Vec<Arc<str>> {
        let alive = self.state.mail.by_address.values().flatten();
        let alive = alive.filter(|id| !self.is_called_off(**id)).map(|id| self.address_of(*id));
        let to_come = self.program.addresses().all().filter(|(node, _)| {
            let reads = self.program.node(*node).mailbox.is_some() && !self.program.addresses().in_loop(*node);
            reads && matches!(self.standing(*node, &mut std::iter::empty()), Standing::NotBegun)
        });
        alive.chain(to_come.map(|(_, shown)| shown.clone())).take(KNOWN_TOLD).collect()
    }

    /// The mailbox at exactly this address, if its owner is alive.
    pub(super) fn living_at(&self, address: &str) -> Option<FrameId> {
        let end = last_first(&normalised(address));
        self.state.mail.by_end.get(&*end)?.iter().copied().find(|id| !self.is_called_off(*id))
    }

    /// At most one more than are ever told of.
    fn alive<'f>(&self, ids: impl Iterator<Item = &'f FrameId>) -> Vec<FrameId> {
        ids.copied().filter(|id| !self.is_called_off(*id)).take(KNOWN_TOLD + 1).collect()
    }

    /// It will not be entered anew, and reads nothing any more.
    fn is_called_off(&self, id: FrameId) -> bool {
        let closing = self.state.frames.get(id).and_then(|frame| frame.closing.as_ref());
        closing.is_some_and(|closing| !closing.own)
    }

    pub(super) fn why_closed(&self, node: NodeId) -> Arc<str> {
        let verdict = self.state.verdict.as_ref().map(|verdict| verdict.status);
        match (verdict, &self.program.node(node).mailbox) {
            (Some(Status::Cancelled | Status::TimedOut), _) => CANCELLED.into(),
            (_, Some(mailbox)) => mailbox.closed.clone(),
            (_, None) => TERMINAL.into(),
        }
    }

    /// Where a node stands whose loops are in these turns, from the outermost in.
    fn standing(&self, node: NodeId, turns: &mut dyn Iterator<Item = u64>) -> Standing {
        let Some(parent) = self.program.node(node).parent else {
            return self.state.root.map_or(Standing::Ended, Standing::Alive);
        };
        match self.standing(parent, turns) {
            Standing::Alive(above) => match self.state.frames.get(above) {
                Some(frame) if !self.is_called_off(above) => self.standing_in(frame, node, turns),
                _ => Standing::Ended,
            },
            other => other,
        }
    }

    fn standing_in(&self, above: &Frame, node: NodeId, turns: &mut dyn Iterator<Item = u64>) -> Standing {
        let alive = |id: FrameId| match self.state.frames.get(id) {
            Some(frame) if frame.node == node => Standing::Alive(id),
            _ => Standing::Ended,
        };
        match (&self.program.node(above.node).kind, &above.body) {
            (NodeKind::Graph(graph), Body::Graph(body)) => {
                let at = graph.children.iter().position(|child| child.node == node);
                match at.and_then(|at| body.children.get(at)) {
                    Some(child) if child.status.is_none() => child.frame.map_or(Standing::NotBegun, alive),
                    _ => Standing::Ended,
                }
            }
            (_, Body::Branch { child }) => alive(*child),
            (NodeKind::Loop(looping), Body::Loop(body)) => {
                let Some(turn) = turns.next() else { return Standing::NotBegun };
                let is_judge = looping.judge == Some(node);
                let items = body.items.as_ref().map(|items| items.count);
                match (body.iterations.get(&turn), items) {
                    (Some(LiveIteration::Body(frame)), _) if !is_judge => alive(*frame),
                    (Some(LiveIteration::Judge(frame)), _) if is_judge => alive(*frame),
                    (Some(LiveIteration::Body(_)), _) => Standing::NotBegun,
                    (Some(LiveIteration::Judge(_)), _) => Standing::Ended,
                    (None, Some(items)) if turn >= items => Standing::Never(items),
                    (None, _) if turn < body.begun => Standing::Ended,
                    (None, _) => Standing::NotBegun,
                }
            }
            (NodeKind::Pipeline(pipeline), Body::Pipeline(body)) => {
                let at = pipeline.tasks.iter().position(|task| task.action.node() == Some(node));
                let at = at.map_or(0, |at| at as u32);
                match body.child {
                    Some(child) if body.pc == at => alive(child),
                    _ if body.pc < at || (body.pc == at && body.attempt == 0) => Standing::NotBegun,
                    _ => Standing::Ended,
                }
            }
            (_, Body::New | Body::Backoff) => Standing::NotBegun,
            _ => Standing::Ended,
        }
    }
}

fn ill_formed(to: &str) -> Option<String> {
    if to.trim().is_empty() {
        return Some("an address is missing: whom is it to?".to_owned());
    }
    let hollow = to.split('.').any(|part| part.trim().is_empty());
    hollow.then(|| format!("`{to}` is no address: a part of it is empty"))
}

/// Whoever stands under a key that starts like this.
fn starting_with(index: &BTreeMap<Arc<str>, Vec<FrameId>>, start: String) -> impl Iterator<Item = &FrameId> {
    let from = index.range::<str, _>((Bound::Included(&*start), Bound::Unbounded));
    from.take_while(move |(key, _)| key.starts_with(&start)).flat_map(|(_, ids)| ids)
}
