//! Delivery of an event from outside, given the current state of a run.

use std::sync::Arc;

use windlass_value::Value;

use crate::Program;
use crate::plan::{Net, NodeKind, Place};
use crate::reduce::frame_path;
use crate::state::{FrameBody, FrameId, NetFrame, PendingWait, Phase, State, WaitFrame};
use crate::tick::{MAIL_EVENT, START_EVENT};

/// The effect an event would have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalDelivery {
    /// A waiting node consumes the event immediately.
    Delivered,
    /// No node waits for it yet; it is buffered for the first node that does.
    Buffered,
    /// The event would be reported and would change nothing.
    Dropped,
}

/// Returns the effect an event would have if the run received it now. The result may change as the run proceeds.
pub fn predict_delivery(
    program: &Program,
    state: &State,
    name: &Arc<str>,
    payload: &Value,
    to: Option<&Arc<str>>,
) -> SignalDelivery {
    let buffered =
        |count: usize, max: usize| if count < max { SignalDelivery::Buffered } else { SignalDelivery::Dropped };
    match &state.phase {
        Phase::Ended(_) => return SignalDelivery::Dropped,
        _ if &**name == START_EVENT => return SignalDelivery::Dropped,
        Phase::Created => {
            let queued = state.held_start.as_ref().map_or(0, |held| held.events.len());
            return buffered(queued, program.limits.max_buffered_signals);
        }
        Phase::Running => {}
    }
    if &**name == MAIL_EVENT && to.is_none() && program.addresses().in_use() {
        return SignalDelivery::Delivered;
    }
    let waiting = match to {
        Some(to) => find_addressed_wait(program, state, name, to).filter(|frame| wait_accepts(state, *frame, payload)),
        None => find_wait(state, name, payload),
    };
    let mut nets = state.nets.iter().filter_map(|id| open_net(program, state, *id));
    if waiting.is_some() || nets.any(|(net, _)| is_open_to(net, name, to)) {
        return SignalDelivery::Delivered;
    }
    match to {
        Some(_) => SignalDelivery::Dropped,
        None => buffered(state.signals.get(name).map_or(0, |kept| kept.len()), max_buffered(program, state)),
    }
}

/// Returns the maximum number of buffered events of one name.
pub(crate) fn max_buffered(program: &Program, state: &State) -> usize {
    let mut nets = state.nets.iter().filter_map(|id| open_net(program, state, *id));
    match nets.any(|(net, _)| net.publishes_slots) {
        // A sender of such an event received a confirmation that it is accepted and relies on it.
        true => program.limits.max_buffered_step_events,
        false => program.limits.max_buffered_signals,
    }
}

/// Returns the oldest wait whose requirements the event meets.
pub(crate) fn find_wait(state: &State, name: &str, payload: &Value) -> Option<FrameId> {
    state.waits.get(name).into_iter().flatten().copied().find(|frame| wait_accepts(state, *frame, payload))
}

/// Returns the wait at this address.
pub(crate) fn find_addressed_wait(program: &Program, state: &State, name: &str, address: &str) -> Option<FrameId> {
    let mut waiting = state.waits.get(name).into_iter().flatten().copied();
    waiting.find(|id| match state.frames.get(*id).map(|frame| &frame.body) {
        Some(FrameBody::Wait(WaitFrame::Signal { form: Some(form), .. })) => *form.address == *address,
        Some(FrameBody::Wait(WaitFrame::Signal { form: None, .. })) => frame_path(program, state, *id) == address,
        _ => false,
    })
}

/// Returns true if a place of the net accepts the event from outside.
pub(crate) fn is_open_to(net: &Net, name: &Arc<str>, to: Option<&Arc<str>>) -> bool {
    !net.internal_only && net.places.iter().any(|place| place_accepts(place, name, to))
}

pub(crate) fn wait_accepts(state: &State, frame: FrameId, payload: &Value) -> bool {
    match state.frames.get(frame).map(|frame| &frame.body) {
        Some(FrameBody::Wait(WaitFrame::Signal { requirements, .. })) => meets_requirements(payload, requirements),
        Some(FrameBody::Pipeline(body)) => match body.pending_wait.as_deref() {
            Some(PendingWait::Event { requirements, .. }) => meets_requirements(payload, requirements),
            Some(PendingWait::Time | PendingWait::Child { .. } | PendingWait::Resolved) | None => false,
        },
        _ => false,
    }
}

/// Returns true if the payload contains every required property with an equal value.
pub(crate) fn meets_requirements(payload: &Value, requirements: &Value) -> bool {
    match requirements.as_map() {
        None => true,
        Some(required) => required.iter().all(|(key, value)| payload.get(key) == Some(value)),
    }
}

/// Returns a net that is not being cancelled.
pub(crate) fn open_net<'p, 's>(program: &'p Program, state: &'s State, id: FrameId) -> Option<(&'p Net, &'s NetFrame)> {
    let frame = state.frames.get(id).filter(|frame| frame.closing.is_none())?;
    match (&program.node(frame.node).kind, &frame.body) {
        (NodeKind::Net(net), FrameBody::Net(body)) => Some((net, body)),
        _ => None,
    }
}

/// Returns true if the place accepts a token of this kind, which may be addressed to one place only.
pub(crate) fn place_accepts(place: &Place, kind: &Arc<str>, to: Option<&Arc<str>>) -> bool {
    to.is_none_or(|to| place.name == *to) && place.accepts.contains(kind)
}
