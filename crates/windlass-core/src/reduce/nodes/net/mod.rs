//! Places and tokens.
//!
//! A token goes to every place that accepts its kind, in declaration order. A place runs as many bodies at once as it has
//! workers; further tokens wait in order. Every body runs in a scope of its own that holds the token as `args`.
//!
//! `joins`: how tokens come together. `bodies`: a body's end, and what it emits. `fan_out`: open work. `parking`: slots.
//! `quiet`: when nothing is left to do.

mod bodies;
mod fan_out;
mod joins;
mod parking;
mod quiet;

use std::sync::Arc;

use windlass_value::{Map, Value};

use crate::hearing::{self, is_open_to, takes};
use crate::plan::{Net, NetEnd, Place};
use crate::reduce::eval::Locals;
use crate::reduce::{Reducer, Stop};
use crate::state::{Body, Carried, Closing, Firing, FrameId, Item, NetFrame, PlaceFrame, Scope, ScopeId, Token};
use crate::{ErrorInfo, Status};

impl<'a> Reducer<'a> {
    pub(in crate::reduce) fn enter_net(&mut self, id: FrameId, net: &Net) -> Result<(), Stop> {
        let Some(scope) = self.state.frames.get(id).map(|frame| frame.scope) else { return Ok(()) };
        let payload = match net.input {
            Some(input) => self.eval(input, scope)?,
            None => self.state.run.input.clone(),
        };
        self.fetch_keys(net, &net.start, &payload)?;
        let place =
            |place: &Place| PlaceFrame { held: vec![Default::default(); place.accepts.len()], ..PlaceFrame::default() };
        let body = NetFrame { places: net.places.iter().map(place).collect(), ..NetFrame::default() };
        let Some(frame) = self.state.frames.get_mut(id) else { return Ok(()) };
        frame.body = Body::Net(Box::new(body));
        self.state.nets.push(id);
        self.tell_started(id);
        self.deliver(id, Token { kind: net.start.clone(), payload, ..Token::default() }, false);
        self.settle_net(id);
        Ok(())
    }

    fn net_of(&self, id: FrameId) -> Option<(&'a Net, &NetFrame)> {
        hearing::net_of(self.program, self.state, id)
    }

    fn net_mut(&mut self, id: FrameId) -> Option<&mut NetFrame> {
        match &mut self.state.frames.get_mut(id)?.body {
            Body::Net(body) => Some(body),
            _ => None,
        }
    }

    /// An outside event for whichever net accepts its kind: anywhere, or at the place that it is for.
    pub(in crate::reduce) fn offer_to_nets(&mut self, kind: &Arc<str>, payload: &Value, to: Option<&Arc<str>>) -> bool {
        let mut nets = self.state.nets.iter().copied();
        let accepting = nets.find(|id| self.net_of(*id).is_some_and(|(net, _)| is_open_to(net, kind, to)));
        let Some((id, (net, _))) = accepting.and_then(|id| Some((id, self.net_of(id)?))) else { return false };
        let token = Token { kind: kind.clone(), payload: payload.clone(), to: to.cloned(), ..Token::default() };
        match self.fetch_keys(net, kind, payload) {
            Ok(()) => {
                self.deliver(id, token, false);
                self.settle_net(id);
            }
            // A tick itself cannot wait for values; an item can.
            Err(_) => self.state.agenda.push_back(Item::Token(id, Box::new(token))),
        }
        true
    }

    pub(in crate::reduce) fn token_fetched(&mut self, id: FrameId, token: &Token) -> Result<(), Stop> {
        let Some((net, _)) = self.net_of(id) else { return Ok(()) };
        self.fetch_keys(net, &token.kind, &token.payload)?;
        self.deliver(id, token.clone(), false);
        self.settle_net(id);
        Ok(())
    }

    /// Whatever else its emitter has to give: `more` says whether there is any.
    fn deliver(&mut self, id: FrameId, token: Token, more: bool) {
        let Some((net, body)) = self.net_of(id) else { return };
        if body.tokens >= self.program.limits.net_tokens_max {
            let message = format!("the run has made {} tokens without coming to an end", body.tokens);
            let error = ErrorInfo::new("TokensExceeded", "limit", message).hint("look at the arcs that form a circle");
            return self.fail_net(id, error);
        }
        if net.end == NetEnd::Stop(token.kind.clone()) {
            return self.end_net(id, Status::Succeeded, token.payload, None);
        }
        let to = token.to.as_ref();
        let accepting = net.places.iter().enumerate().filter(|(_, place)| takes(place, &token.kind, to));
        let mut accepting: Vec<usize> = accepting.map(|(at, _)| at).collect();
        if let Some(body) = self.net_mut(id) {
            body.tokens += 1;
        }
        let answered = self.answer_body(id, &token);
        // Who was waiting for it has it now, and does not begin anew with it.
        accepting.retain(|at| answered != Some(*at));
        if accepting.is_empty() && answered.is_none() && !net.asks.contains(&token.kind) {
            if to.is_none() && net.waits.contains(&token.kind) {
                return self.keep_for_later(&token.kind, &token.payload);
            }
            let reason = match to {
                None => "no step accepts it".to_owned(),
                Some(to) if net.places.iter().any(|place| place.name == *to) => format!("`{to}` does not accept it"),
                Some(to) => format!("there is no step `{to}`"),
            };
            self.tell_untaken(id, net, &token, reason, more);
        }
        let last = accepting.pop();
        for place in accepting {
            self.arrive(id, net, place, token.clone(), more);
        }
        if let Some(last) = last {
            self.arrive(id, net, last, token, more);
        }
    }

    /// Whether the net of a body that waits for such an event has places that begin with one.
    pub(in crate::reduce) fn is_wanted_beside(&self, frame: FrameId, kind: &Arc<str>) -> bool {
        let net = self.awaiting(frame).and_then(|_| self.net_of(self.state.frames.get(frame)?.parent?));
        net.is_some_and(|(net, _)| net.places.iter().any(|place| takes(place, kind, None)))
    }

    /// The oldest body of this net that waits for such a token goes on with it: its place.
    fn answer_body(&mut self, id: FrameId, token: &Token) -> Option<usize> {
        let waiting = self.state.waits.get(&token.kind).filter(|_| token.to.is_none())?;
        let payload = self.resolve(&token.payload).unwrap_or_default();
        let found = waiting.iter().find_map(|frame| {
            let (above, slot) = self.state.frames.get(*frame).map(|frame| (frame.parent, frame.slot))?;
            let body = self.net_of(id).filter(|_| above == Some(id))?.1;
            let place = body.firings.get(&slot)?.place as usize;
            self.accepts(*frame, &payload).then_some((*frame, place))
        });
        let (frame, place) = found?;
        self.signalled(frame, token.payload.clone());
        Some(place)
    }

    fn tell_untaken(&mut self, id: FrameId, net: &Net, token: &Token, reason: String, more: bool) {
        let mut fields = vec![("event", Value::Str(token.kind.clone())), ("reason", Value::from(reason))];
        if net.tells_slots {
            // A fan-out that it belongs to has yet to close.
            let idle = !more && token.lineage.is_empty() && self.nothing_goes_on();
            fields.push(("idle", Value::from(idle)));
        }
        self.publish_at(id, "event.unhandled", fields);
    }

    /// Fires what can, closes fan-outs that have no work left, and ends the net when it is quiet.
    fn settle_net(&mut self, id: FrameId) {
        self.state.agenda.push_back(Item::Fire(id));
    }

    pub(in crate::reduce) fn fire(&mut self, id: FrameId) -> Result<(), Stop> {
        let Some((net, body)) = self.net_of(id) else { return Ok(()) };
        let next = net.places.iter().enumerate().find(|(at, place)| {
            let state = &body.places[*at];
            state.running < place.workers.max(1) && !(state.queue.is_empty() && state.returning.is_empty())
        });
        let Some((at, place)) = next else {
            self.quiet_net(id, net);
            return Ok(());
        };
        if !body.places[at].returning.is_empty() {
            self.come_back(id, net, at);
            self.settle_net(id);
            return Ok(());
        }
        let Some(token) = body.places[at].queue.front().cloned() else { return Ok(()) };
        let Some(outer) = self.state.frames.get(id).map(|frame| frame.scope) else { return Ok(()) };
        let holds = place.guard.map(|guard| {
            let names = Map::from_iter([("args", token.payload.clone()), ("kind", Value::Str(token.kind.clone()))]);
            self.condition(guard, outer, Locals { names: Some(&names), ..Locals::default() })
        });
        let holds = holds.transpose().map_err(|stop| self.at_place(id, place, stop))?.unwrap_or(true);
        if let Some(body) = self.net_mut(id) {
            body.places[at].queue.pop_front();
        }
        match holds {
            true => self.begin_body(id, net, at, token, outer),
            false => {
                self.record_skipped(id, place.body, "GuardFalse");
                self.work_done(id, &token.lineage);
            }
        }
        self.settle_net(id);
        Ok(())
    }

    fn begin_body(&mut self, id: FrameId, net: &Net, at: usize, token: Token, outer: ScopeId) {
        let node = net.places[at].body;
        let mut scope = Scope::new(Some(outer), Some(node));
        scope.carried = Some(Carried { kind: token.kind.clone(), args: token.payload });
        let scope = self.state.scopes.insert(scope);
        let Some(body) = self.net_mut(id) else { return };
        let slot = body.next_slot;
        body.next_slot += 1;
        let worker = body.places[at].take_slot(net.tells_slots);
        body.places[at].visits += 1;
        let visit = body.places[at].visits;
        let frame = self.begin_child(id, node, slot, scope, false);
        // Each firing is another entry of the same path, so its effects have keys of their own.
        self.state.next_generation += 1;
        let generation = self.state.next_generation;
        if let Some(frame) = self.state.frames.get_mut(frame) {
            frame.generation = generation;
        }
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
            standing: Default::default(),
        };
        if let Some(body) = self.net_mut(id) {
            body.firings.insert(slot, Box::new(firing));
        }
    }

    /// What fails at a place, and not inside its body, is told with the body's path.
    fn at_place(&self, id: FrameId, place: &Place, stop: Stop) -> Stop {
        match stop {
            Stop::Failed(mut error) if error.path.is_empty() && self.program.plan.tells_places() => {
                error.path = self.child_path(id, place.body);
                Stop::Failed(error)
            }
            other => other,
        }
    }

    fn fail_net(&mut self, id: FrameId, error: ErrorInfo) {
        self.end_net(id, Status::Failed, Value::Null, Some(error));
    }

    /// From here on no token moves; bodies that still run are called off.
    fn end_net(&mut self, id: FrameId, status: Status, output: Value, error: Option<ErrorInfo>) {
        self.close(id, Closing { status, error, output, own: true });
    }
}
