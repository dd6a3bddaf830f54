//! The net node: a Petri net of places and tokens.
//!
//! A token goes to every place that accepts its kind, in declaration order. A place runs up to `max_concurrency`
//! bodies concurrently; further tokens wait in order. Every body runs in its own scope, which holds the token as
//! `args`.
//!
//! `joins`, `meetings`: how tokens are combined. `bodies`: a body's end and the tokens it emits. `fan_out`: open work. `slots`:
//! slots of a place. `quiescence`: the state in which nothing is left to do.
//!
//! | state | token | fire | body ends | close |
//! |---|---|---|---|---|
//! | new | – | – | – | ended |
//! | running | queued, held by a join, gathered by a fan-out; closing if its kind ends the net, or it exceeds `max_net_tokens` | a body begins or resumes; closing if nothing is left | its tokens move; closing if its failure is not handled | closing |
//! | closing | ignored | ignored | ended when none is live | closing |
//! | ended | ignored | ignored | – | ignored |
//!
//! – is impossible and a fault: so is a firing or a place that the net does not have. A net has no alarm; its bodies
//! may have one.

mod bodies;
mod fan_out;
mod joins;
mod meetings;
mod quiescence;
mod slots;

use std::sync::Arc;

use windlass_value::{Map, Value};

use crate::plan::{Net, NetEnd, NodeKind, Place};
use crate::reduce::eval::Locals;
use crate::reduce::fault::{FaultResult, no_frame, no_part, wrong_frame};
use crate::reduce::{ItemStop, Reducer};
use crate::signal_delivery::{self, is_open_to, place_accepts};
use crate::state::{
    AgendaItem, Closing, Firing, FrameBody, FrameId, NetFrame, NetToken, PlaceFrame, Scope, ScopeId, TokenContext,
};
use crate::{ErrorInfo, EventKind, Status};

/// The expectation named in faults about a net's frame.
const A_NET: &str = "a net with its places";

impl<'a> Reducer<'a> {
    pub(in crate::reduce) fn enter_net(&mut self, id: FrameId, net: &Net) -> Result<(), ItemStop> {
        let scope = self.frame(id)?.scope;
        let payload = match net.input {
            Some(input) => self.eval(input, scope)?,
            None => self.state.run.input.clone(),
        };
        self.load_keys(net, &net.start, &payload)?;
        let place =
            |place: &Place| PlaceFrame { held: vec![Default::default(); place.accepts.len()], ..PlaceFrame::default() };
        let body = NetFrame { places: net.places.iter().map(place).collect(), ..NetFrame::default() };
        self.frame_mut(id)?.body = FrameBody::Net(Box::new(body));
        self.state.nets.push(id);
        self.publish_started(id)?;
        self.deliver(id, NetToken { kind: net.start.clone(), payload, ..NetToken::default() }, false)?;
        self.schedule_fire(id);
        Ok(())
    }

    /// Returns an open net, for callers that iterate over all nets. None: it is being cancelled.
    fn open_net(&self, id: FrameId) -> Option<(&'a Net, &NetFrame)> {
        signal_delivery::open_net(self.program, self.state, id)
    }

    /// Returns the net and its frame, which must exist and be a net's, with a state for each of its places.
    fn net_frame(&self, id: FrameId) -> FaultResult<(&'a Net, &NetFrame)> {
        let Some(frame) = self.state.frames.get(id) else { return Err(no_frame(id, A_NET)) };
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Net(net), FrameBody::Net(body)) if net.places.len() == body.places.len() => Ok((net, body)),
            (_, other) => Err(wrong_frame(id, A_NET, other)),
        }
    }

    pub(super) fn net_frame_mut(&mut self, id: FrameId) -> FaultResult<&mut NetFrame> {
        match self.state.frames.get_mut(id).map(|frame| &mut frame.body) {
            Some(FrameBody::Net(body)) => Ok(body),
            Some(other) => Err(wrong_frame(id, A_NET, other)),
            None => Err(no_frame(id, A_NET)),
        }
    }

    /// Returns the same for agenda items and tokens in transit: None if the net has already ended, is being cancelled,
    /// or is about to be entered again. A net that has ended by itself is being cancelled: from then on no token moves.
    fn net_if_open(&self, id: FrameId) -> FaultResult<Option<(&'a Net, &NetFrame)>> {
        match self.frame_if_open(id).map(|frame| &frame.body) {
            None | Some(FrameBody::New | FrameBody::Backoff) => Ok(None),
            Some(_) => self.net_frame(id).map(Some),
        }
    }

    /// Delivers an outside event to the first net that accepts its kind: anywhere, or at the place that it is addressed
    /// to.
    pub(in crate::reduce) fn deliver_to_nets(
        &mut self,
        kind: &Arc<str>,
        payload: &Value,
        to: Option<&Arc<str>>,
    ) -> FaultResult<bool> {
        let mut nets = self.state.nets.iter().copied();
        let accepting = nets.find(|id| self.open_net(*id).is_some_and(|(net, _)| is_open_to(net, kind, to)));
        let Some(id) = accepting else { return Ok(false) };
        let (net, _) = self.net_frame(id)?;
        let token = NetToken { kind: kind.clone(), payload: payload.clone(), to: to.cloned(), ..NetToken::default() };
        match self.load_keys(net, kind, payload) {
            Ok(()) => {
                self.deliver(id, token, false)?;
                self.schedule_fire(id);
            }
            Err(ItemStop::Impossible(fault)) => return Err(fault),
            // A tick itself cannot wait for values; an item can.
            Err(ItemStop::Need(_) | ItemStop::Failed(_)) => {
                self.state.agenda.push_back(AgendaItem::Token(id, Box::new(token)))
            }
        }
        Ok(true)
    }

    pub(in crate::reduce) fn token_loaded(&mut self, id: FrameId, token: &NetToken) -> Result<(), ItemStop> {
        let Some((net, _)) = self.net_if_open(id)? else { return Ok(()) };
        self.load_keys(net, &token.kind, &token.payload)?;
        self.deliver(id, token.clone(), false)?;
        self.schedule_fire(id);
        Ok(())
    }

    /// Delivers a token. `more_pending`: its emitter has further tokens to deliver.
    fn deliver(&mut self, id: FrameId, token: NetToken, more_pending: bool) -> FaultResult {
        // An earlier token of the same body may have ended the net.
        let Some((net, body)) = self.net_if_open(id)? else { return Ok(()) };
        if body.tokens >= self.program.limits.max_net_tokens {
            let message = format!("the run has created {} tokens without ending", body.tokens);
            let error = ErrorInfo::new("TokensExceeded", "limit", message).hint("check the arcs that form a cycle");
            return self.fail_net(id, error);
        }
        if net.end == NetEnd::Stop(token.kind.clone()) {
            return self.end_net(id, Status::Succeeded, token.payload, None);
        }
        let to = token.to.as_ref();
        let accepting = net.places.iter().enumerate().filter(|(_, place)| place_accepts(place, &token.kind, to));
        let mut accepting: Vec<usize> = accepting.map(|(at, _)| at).collect();
        self.net_frame_mut(id)?.tokens += 1;
        let resumed_place = self.resume_body(id, &token)?;
        // The place whose body waited for the token has it now and does not begin again with it.
        accepting.retain(|at| resumed_place != Some(*at));
        if accepting.is_empty() && resumed_place.is_none() && !net.input_requests.contains(&token.kind) {
            if to.is_none() && net.awaited_kinds.contains(&token.kind) {
                self.buffer_signal(&token.kind, &token.payload);
                return Ok(());
            }
            let reason = match to {
                None => "no step accepts it".to_owned(),
                Some(to) if net.places.iter().any(|place| place.name == *to) => format!("`{to}` does not accept it"),
                Some(to) => format!("there is no step `{to}`"),
            };
            self.publish_unhandled_token(id, net, &token, reason, more_pending);
        }
        let last = accepting.pop();
        for place in accepting {
            if self.frame_if_live(id).is_none() {
                // A surplus token has failed the net, and nothing was alive in it.
                return Ok(());
            }
            self.arrive(id, net, place, token.clone(), more_pending)?;
        }
        match last {
            Some(last) if self.frame_if_live(id).is_some() => self.arrive(id, net, last, token, more_pending),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns true if the net of a body that waits for such an event has places that begin with one.
    pub(in crate::reduce) fn is_accepted_by_places(&self, frame: FrameId, kind: &Arc<str>) -> FaultResult<bool> {
        let (Some(_), Some(above)) = (self.pending_wait(frame)?, self.frame(frame)?.parent) else { return Ok(false) };
        Ok(self.open_net(above).is_some_and(|(net, _)| net.places.iter().any(|place| place_accepts(place, kind, None))))
    }

    /// Resumes the oldest body of this net that waits for such a token, and returns its place.
    fn resume_body(&mut self, id: FrameId, token: &NetToken) -> FaultResult<Option<usize>> {
        let Some(waiting) = self.state.waits.get(&token.kind).filter(|_| token.to.is_none()) else { return Ok(None) };
        let payload = self.resolve(&token.payload).unwrap_or_default();
        let found = waiting.iter().find_map(|frame| {
            let (above, slot) = self.state.frames.get(*frame).map(|frame| (frame.parent, frame.slot))?;
            let body = self.open_net(id).filter(|_| above == Some(id))?.1;
            let place = body.firings.get(&slot)?.place as usize;
            self.wait_accepts(*frame, &payload).then_some((*frame, place))
        });
        let Some((frame, place)) = found else { return Ok(None) };
        self.signal_received(frame, token.payload.clone())?;
        Ok(Some(place))
    }

    fn publish_unhandled_token(
        &mut self,
        id: FrameId,
        net: &Net,
        token: &NetToken,
        reason: String,
        more_pending: bool,
    ) {
        // A token of a fan-out is never the last activity: its fan-out has not closed yet.
        let idle = net.publishes_slots.then(|| !more_pending && token.lineage.is_empty() && self.is_stalled());
        let (event, reason) = (token.kind.clone(), reason.into());
        self.publish_at(id, EventKind::EventUnhandled { event, reason, idle });
    }

    /// Schedules the firing of the next token. Firing also completes the work of tokens that a guard rejects, which
    /// closes fan-outs without work left, and ends the net when it is quiescent.
    fn schedule_fire(&mut self, id: FrameId) {
        self.state.agenda.push_back(AgendaItem::Fire(id));
    }

    pub(in crate::reduce) fn fire(&mut self, id: FrameId) -> Result<(), ItemStop> {
        let Some((net, body)) = self.net_if_open(id)? else { return Ok(()) };
        let next = net.places.iter().enumerate().find(|(at, place)| {
            let state = &body.places[*at];
            state.running < place.max_concurrency.max(1) && !(state.queue.is_empty() && state.awaiting_slot.is_empty())
        });
        let Some((at, place)) = next else {
            self.check_quiescence(id, net)?;
            return Ok(());
        };
        if !body.places[at].awaiting_slot.is_empty() {
            self.resume_with_slot(id, net, at)?;
            self.schedule_fire(id);
            return Ok(());
        }
        let token = body.places[at].queue.front().ok_or_else(|| no_part(id, "token at place", at as u64))?.clone();
        let outer = self.frame(id)?.scope;
        let holds = place.guard.map(|guard| {
            let names = Map::from_iter([("args", token.payload.clone()), ("kind", Value::Str(token.kind.clone()))]);
            self.condition(guard, outer, Locals { names: Some(&names), ..Locals::default() })
        });
        let holds = holds.transpose().map_err(|stop| self.with_place_path(id, place, stop))?.unwrap_or(true);
        self.net_frame_mut(id)?.places[at].queue.pop_front();
        match holds {
            true => self.begin_body(id, net, at, token, outer)?,
            false => {
                self.record_skipped(id, place.body, "GuardFalse")?;
                self.work_done(id, &token.lineage)?;
                self.exit_regions(id, net, at, &token.regions)?;
            }
        }
        self.schedule_fire(id);
        Ok(())
    }

    fn begin_body(&mut self, id: FrameId, net: &Net, at: usize, token: NetToken, outer: ScopeId) -> FaultResult {
        let node = net.places[at].body;
        let mut scope = Scope::new(Some(outer), Some(node));
        scope.token = Some(TokenContext { kind: token.kind.clone(), args: token.payload });
        let scope = self.state.scopes.insert(scope);
        let body = self.net_frame_mut(id)?;
        let slot = body.next_slot;
        body.next_slot += 1;
        let worker = body.places[at].take_slot(net.publishes_slots);
        body.places[at].visits += 1;
        let visit = body.places[at].visits;
        let frame = self.begin_child(id, node, slot, scope, false)?;
        // Each firing is a separate entry of the same path, so its effects have their own keys.
        self.state.next_generation += 1;
        let generation = self.state.next_generation;
        self.frame_mut(frame)?.generation = generation;
        let firing = Firing {
            place: at as u32,
            frame,
            lineage: token.lineage,
            visit,
            token: token.kind,
            from: token.from,
            handled: token.handled,
            worker,
            sends: Vec::new(),
            order: token.order,
            regions: token.regions,
            slot_state: Default::default(),
        };
        self.net_frame_mut(id)?.firings.insert(slot, Box::new(firing));
        Ok(())
    }

    /// Adds the body's path to an error that occurred at a place, outside of its body.
    fn with_place_path(&self, id: FrameId, place: &Place, mut stop: ItemStop) -> ItemStop {
        if let ItemStop::Failed(error) = &mut stop
            && error.path.is_empty()
        {
            error.path = self.child_path(id, place.body);
        }
        stop
    }

    fn fail_net(&mut self, id: FrameId, error: ErrorInfo) -> FaultResult {
        self.end_net(id, Status::Failed, Value::Null, Some(error))
    }

    /// Ends the net: from here on no token moves, and running bodies are cancelled.
    fn end_net(&mut self, id: FrameId, status: Status, output: Value, error: Option<ErrorInfo>) -> FaultResult {
        self.close(id, Closing { status, error, output, own_end: true })
    }
}
