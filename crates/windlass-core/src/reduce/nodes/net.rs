//! Places and tokens.
//!
//! A token goes to every place that accepts its kind, in declaration order. A place runs as many bodies at once as it has
//! workers; further tokens wait in order. Every body runs in a scope of its own that holds the token as `args`.

use std::sync::Arc;

use windlass_value::{Map, Value};

use super::names::ended_value;
use crate::plan::{ArcOn, Join, Net, NetEnd, NodeKind, Place, Write};
use crate::reduce::eval::Locals;
use crate::reduce::{Reducer, Stop};
use crate::state::{
    Body, Carried, Closing, FanOut, Firing, FrameId, Item, NetFrame, PlaceFrame, Scope, ScopeId, Token,
};
use crate::{ErrorInfo, Outcome, Status};

impl<'a> Reducer<'a> {
    pub(in crate::reduce) fn enter_net(&mut self, id: FrameId, net: &Net) -> Result<(), Stop> {
        let Some(scope) = self.state.frames.get(id).map(|frame| frame.scope) else { return Ok(()) };
        let payload = match net.input {
            Some(input) => self.eval(input, scope)?,
            None => self.state.run.input.clone(),
        };
        let place =
            |place: &Place| PlaceFrame { held: vec![Default::default(); place.accepts.len()], ..PlaceFrame::default() };
        let body = NetFrame { places: net.places.iter().map(place).collect(), ..NetFrame::default() };
        let Some(frame) = self.state.frames.get_mut(id) else { return Ok(()) };
        frame.body = Body::Net(Box::new(body));
        self.state.nets.push(id);
        self.tell_started(id);
        self.deliver(id, Token { kind: net.start.clone(), payload, ..Token::default() });
        self.settle_net(id);
        Ok(())
    }

    /// A body that waits gives its slot to the next.
    pub(in crate::reduce) fn park(&mut self, _id: FrameId) {}

    pub(in crate::reduce) fn unpark(&mut self, id: FrameId) {
        self.state.agenda.push_back(Item::Task(id));
    }

    fn net_of(&self, id: FrameId) -> Option<(&'a Net, &NetFrame)> {
        let frame = self.state.frames.get(id).filter(|frame| frame.closing.is_none())?;
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Net(net), Body::Net(body)) => Some((net, body)),
            _ => None,
        }
    }

    fn net_mut(&mut self, id: FrameId) -> Option<&mut NetFrame> {
        match &mut self.state.frames.get_mut(id)?.body {
            Body::Net(body) => Some(body),
            _ => None,
        }
    }

    /// An outside event for whichever net accepts its kind.
    pub(in crate::reduce) fn offer_to_nets(&mut self, kind: &Arc<str>, payload: &Value) -> bool {
        let accepting = self.state.nets.iter().copied().find(|id| {
            self.net_of(*id).is_some_and(|(net, _)| net.places.iter().any(|place| place.accepts.contains(kind)))
        });
        let Some(id) = accepting else { return false };
        self.deliver(id, Token { kind: kind.clone(), payload: payload.clone(), ..Token::default() });
        self.settle_net(id);
        true
    }

    fn deliver(&mut self, id: FrameId, token: Token) {
        let Some((net, body)) = self.net_of(id) else { return };
        if body.tokens >= self.program.limits.net_tokens_max {
            let message = format!("the run has made {} tokens without coming to an end", body.tokens);
            let error = ErrorInfo::new("TokensExceeded", "limit", message).hint("look at the arcs that form a circle");
            return self.fail_net(id, error);
        }
        if net.end == NetEnd::Stop(token.kind.clone()) {
            return self.end_net(id, Status::Succeeded, token.payload, None);
        }
        let accepting: Vec<usize> = net
            .places
            .iter()
            .enumerate()
            .filter(|(_, place)| place.accepts.contains(&token.kind))
            .map(|(at, _)| at)
            .collect();
        if let Some(body) = self.net_mut(id) {
            body.tokens += 1;
        }
        if accepting.is_empty() {
            let fields = [("event", Value::Str(token.kind.clone())), ("reason", "no step accepts it".into())];
            self.publish_at(id, "event.unhandled", fields);
        }
        for place in accepting {
            self.arrive(id, net, place, token.clone());
        }
    }

    fn arrive(&mut self, id: FrameId, net: &Net, at: usize, token: Token) {
        let place = &net.places[at];
        let Some(body) = self.net_mut(id) else { return };
        match place.join {
            Join::None => {
                open_work(body, &token.lineage);
                body.places[at].queue.push_back(token);
            }
            Join::All | Join::Merged => {
                let slot = place.accepts.iter().position(|kind| *kind == token.kind).unwrap_or(0);
                open_work(body, &token.lineage);
                body.places[at].held[slot].push_back(token);
                if body.places[at].held.iter().all(|held| !held.is_empty()) {
                    let parts: Vec<Token> =
                        body.places[at].held.iter_mut().filter_map(|held| held.pop_front()).collect();
                    let joined = join_tokens(parts, place.join == Join::Merged, body);
                    body.places[at].queue.push_back(joined);
                }
            }
            Join::Each { .. } => {}
            Join::FanOut => match token.lineage.last().and_then(|fan| body.fan_outs.get_mut(fan)) {
                Some(fan) => fan.gathered.entry(at as u32).or_default().push(token.payload),
                None => {
                    open_work(body, &token.lineage);
                    let payload = Value::list(vec![token.payload]);
                    body.places[at].queue.push_back(Token { payload, ..token });
                }
            },
        }
    }

    /// Fires what can, closes fan-outs that have no work left, and ends the net when it is quiet.
    fn settle_net(&mut self, id: FrameId) {
        self.state.agenda.push_back(Item::Fire(id));
    }

    pub(in crate::reduce) fn fire(&mut self, id: FrameId) -> Result<(), Stop> {
        let Some((net, body)) = self.net_of(id) else { return Ok(()) };
        let next = net.places.iter().enumerate().find(|(at, place)| {
            let state = &body.places[*at];
            state.running < place.workers.max(1) && !state.queue.is_empty()
        });
        let Some((at, place)) = next else {
            self.quiet_net(id, net);
            return Ok(());
        };
        let Some(token) = body.places[at].queue.front().cloned() else { return Ok(()) };
        let Some(outer) = self.state.frames.get(id).map(|frame| frame.scope) else { return Ok(()) };
        let holds = place.guard.map(|guard| {
            let names = Map::from_iter([("args", token.payload.clone()), ("kind", Value::Str(token.kind.clone()))]);
            self.condition(guard, outer, Locals { names: Some(&names), ..Locals::default() })
        });
        let holds = holds.transpose();
        let holds = holds.map_err(|stop| self.at_place(id, place, stop))?.unwrap_or(true);
        if let Some(body) = self.net_mut(id) {
            body.places[at].queue.pop_front();
        }
        match holds {
            true => self.begin_body(id, at, place, token, outer),
            false => {
                self.record_skipped(id, place.body, "GuardFalse");
                self.work_done(id, &token.lineage);
            }
        }
        self.settle_net(id);
        Ok(())
    }

    fn begin_body(&mut self, id: FrameId, at: usize, place: &Place, token: Token, outer: ScopeId) {
        let mut scope = Scope::new(Some(outer), Some(place.body));
        scope.carried = Some(Carried { kind: token.kind.clone(), args: token.payload.clone() });
        let scope = self.state.scopes.insert(scope);
        let Some(body) = self.net_mut(id) else { return };
        let slot = body.next_slot;
        body.next_slot += 1;
        body.places[at].running += 1;
        body.places[at].visits += 1;
        let visit = body.places[at].visits;
        let frame = self.begin_child(id, place.body, slot, scope, false);
        // Each firing is another entry of the same path, so its effects have keys of their own.
        self.state.next_generation += 1;
        let generation = self.state.next_generation;
        if let Some(frame) = self.state.frames.get_mut(frame) {
            frame.generation = generation;
        }
        if let Some(body) = self.net_mut(id) {
            let (place, Token { kind: token, lineage, from, handled, .. }) = (at as u32, token);
            let (worker, sends) = (None, Vec::new());
            body.firings.insert(slot, Firing { place, frame, lineage, visit, token, from, handled, worker, sends });
        }
    }

    pub(in crate::reduce) fn body_ended(
        &mut self,
        id: FrameId,
        slot: u64,
        outcome: &Arc<Outcome>,
        scope: ScopeId,
    ) -> Result<(), Stop> {
        let Some((net, body)) = self.net_of(id) else { return Ok(()) };
        let Some(firing) = body.firings.get(&slot).cloned() else { return Ok(()) };
        let place = &net.places[firing.place as usize];
        let tokens = match self.tokens_of(place, outcome, scope) {
            Ok((tokens, writes)) => self.write_all(id, &writes, scope)?.map(|()| tokens),
            Err(stop) => match self.at_place(id, place, stop) {
                Stop::Failed(error) => Err(*error),
                need => return Err(need),
            },
        };
        self.child_gone(id);
        self.state.scopes.remove(scope);
        if let Some(body) = self.net_mut(id) {
            body.firings.remove(&slot);
            body.places[firing.place as usize].running -= 1;
            body.last_output = outcome.output.clone();
        }
        match tokens {
            Err(error) => self.fail_net(id, error),
            Ok(tokens) if tokens.is_empty() && outcome.status.is_bad() => {
                let error = outcome.error.clone();
                let error =
                    error.unwrap_or_else(|| ErrorInfo::new("StepFailed", "step", format!("`{}` failed", place.name)));
                self.fail_net(id, error);
            }
            Ok(returned) => {
                let sent = firing.sends.iter().filter(|_| !outcome.status.is_bad());
                let sent = sent.map(|sent| Emitted {
                    kind: sent.kind.clone(),
                    payload: sent.payload.clone(),
                    fans_out: false,
                });
                let tokens = sent.chain(returned).collect();
                self.emit(id, tokens, &firing.lineage);
                self.work_done(id, &firing.lineage);
                self.settle_net(id);
            }
        }
        Ok(())
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

    /// What the arcs write, worked out before the first is written.
    fn write_all(
        &mut self,
        id: FrameId,
        writes: &[(&Write, Value)],
        scope: ScopeId,
    ) -> Result<Result<(), ErrorInfo>, Stop> {
        for (write, value) in writes {
            self.fetch_for(write, scope, value)?;
        }
        for (write, value) in writes {
            match self.write(write, scope, value.clone()) {
                Ok(written) => self.tell_patched(id, write, &written),
                Err(Stop::Failed(error)) => return Ok(Err(*error)),
                Err(need) => return Err(need),
            }
        }
        Ok(Ok(()))
    }

    /// What a body that has ended emits: from its arcs, and from its own output; and what the arcs write.
    fn tokens_of(&mut self, place: &'a Place, outcome: &Outcome, scope: ScopeId) -> Result<Ended<'a>, Stop> {
        let bad = outcome.status.is_bad();
        // What the body's own end is called in its events.
        let event = match (&self.program.node(place.body).kind, &place.done) {
            _ if bad => "step.failed",
            (_, Some(done)) => done,
            (NodeKind::Loop(_), None) => "loop.done",
            (_, None) => "step.done",
        };
        // Only arcs look at these.
        let names = || {
            Map::from_iter([
                ("event", Value::object([("name", Value::from(event))])),
                ("output", outcome.output.clone()),
                ("error", outcome.error.as_ref().map_or(Value::Null, ErrorInfo::to_value)),
                ("outcome", ended_value(outcome)),
            ])
        };
        let names = if place.arcs.is_empty() { Map::new() } else { names() };
        let locals = Locals { names: Some(&names), ..Locals::default() };
        let (mut emitted, mut writes) = (Vec::new(), Vec::new());
        for arc in &place.arcs {
            let applies = match arc.on {
                ArcOn::Succeeded => !bad,
                ArcOn::Failed => bad,
                ArcOn::Either => true,
            };
            if !applies || !arc.when.map(|when| self.condition(when, scope, locals)).transpose()?.unwrap_or(true) {
                continue;
            }
            let payload = arc.payload.map(|payload| self.eval_with(payload, scope, locals)).transpose()?;
            for write in &arc.writes {
                let value = write.value.map(|value| self.eval_with(value, scope, locals)).transpose()?;
                writes.push((write, value.unwrap_or_default()));
            }
            emitted.push(Emitted { kind: arc.emits.clone(), payload: payload.unwrap_or_default(), fans_out: false });
            if !place.inclusive {
                break;
            }
        }
        if !place.produces.is_empty() && !bad {
            let output = self.resolve(&outcome.output)?;
            emitted.extend(returned(&output)?);
        }
        Ok((emitted, writes))
    }

    fn emit(&mut self, id: FrameId, tokens: Vec<Emitted>, lineage: &[u64]) {
        let fans_out = tokens.iter().any(|token| token.fans_out);
        let mut inner = lineage.to_vec();
        if fans_out && let Some(body) = self.net_mut(id) {
            let fan = body.next_fan_out;
            body.next_fan_out += 1;
            // The fan-out itself is open work until all its members have been delivered.
            body.fan_outs.insert(fan, FanOut { open: 1, gathered: Default::default(), parent: lineage.to_vec() });
            open_work(body, lineage);
            inner.push(fan);
        }
        for token in tokens.into_iter().filter(|token| !token.kind.is_empty()) {
            let lineage = if token.fans_out { inner.clone() } else { lineage.to_vec() };
            self.deliver(id, Token { kind: token.kind, payload: token.payload, lineage, ..Token::default() });
        }
        if fans_out {
            self.work_done(id, &inner);
        }
    }

    /// One piece of a fan-out's work is done; at zero its joins fire, once, with all members.
    fn work_done(&mut self, id: FrameId, lineage: &[u64]) {
        let Some(fan) = lineage.last() else { return };
        let Some((net, _)) = self.net_of(id) else { return };
        let Some(body) = self.net_mut(id) else { return };
        let Some(open) = body.fan_outs.get_mut(fan) else { return };
        open.open -= 1;
        if open.open > 0 {
            return;
        }
        let Some(closed) = body.fan_outs.remove(fan) else { return };
        for (at, place) in net.places.iter().enumerate().filter(|(_, place)| place.join == Join::FanOut) {
            let members = closed.gathered.get(&(at as u32)).cloned();
            if members.is_none() && !closed.gathered.is_empty() {
                continue;
            }
            open_work(body, &closed.parent);
            let kind = place.accepts.first().cloned().unwrap_or_default();
            let payload = Value::list(members.unwrap_or_default());
            body.places[at].queue.push_back(Token {
                kind,
                payload,
                lineage: closed.parent.clone(),
                ..Token::default()
            });
        }
        self.work_done(id, &closed.parent);
    }

    fn fail_net(&mut self, id: FrameId, error: ErrorInfo) {
        self.end_net(id, Status::Failed, Value::Null, Some(error));
    }

    /// From here on no token moves; bodies that still run are called off.
    fn end_net(&mut self, id: FrameId, status: Status, output: Value, error: Option<ErrorInfo>) {
        self.close(id, Closing { status, error, output, own: true });
    }

    /// What open nets accept from outside.
    pub(in crate::reduce) fn kinds_from_outside(&self) -> impl Iterator<Item = Arc<str>> {
        let nets = self.state.nets.iter().filter_map(|id| self.net_of(*id)).map(|(net, _)| net);
        nets.flat_map(|net| {
            let outside = |kind: &&Arc<str>| !emitted_inside(net, kind);
            net.places.iter().flat_map(|place| &place.accepts).filter(outside).cloned().collect::<Vec<_>>()
        })
    }

    fn quiet_net(&mut self, id: FrameId, net: &Net) {
        let Some((_, body)) = self.net_of(id) else { return };
        if !body.firings.is_empty() {
            return;
        }
        let joins = net.places.iter().zip(&body.places);
        let held: Vec<(&Place, &PlaceFrame)> =
            joins.filter(|(_, state)| state.held.iter().any(|held| !held.is_empty())).collect();
        match &net.end {
            NetEnd::Quiet if held.is_empty() => {
                let output = body.last_output.clone();
                self.end_net(id, Status::Succeeded, output, None);
            }
            // Somebody outside may still send what a place accepts from nobody inside.
            NetEnd::Stop(_) if net.places.iter().any(|place| waits_for_outside(net, place)) => {}
            NetEnd::Stop(kind) if held.is_empty() => {
                let message = format!("nothing is left to do and no `{kind}` was emitted");
                self.fail_net(id, ErrorInfo::new("Hang", "hang", message));
            }
            NetEnd::Quiet | NetEnd::Stop(_) if !self.program.plan.tells_places() => {
                let names: Vec<&str> = held.iter().map(|(place, _)| &*place.name).collect();
                let message = format!("nothing is left to do; the joins at {} can never complete", names.join(", "));
                self.fail_net(id, ErrorInfo::new("Hang", "hang", message));
            }
            NetEnd::Quiet | NetEnd::Stop(_) => {
                let waiting: Vec<String> = held.iter().map(|(place, state)| waits_for(net, place, state)).collect();
                let message = format!("nothing is left to do, and {}", waiting.join("; "));
                let hint = "a join needs a token of each of them, whichever way the run takes: give them all an arc that \
                            fires, or do not wait for all";
                let at = held.first().map(|(place, _)| self.child_path(id, place.body));
                let error = ErrorInfo::new("Hang", "hang", message).hint(hint);
                let error = self.program.plan.advised(error);
                self.fail_net(id, ErrorInfo { path: at.unwrap_or_default(), ..error });
            }
        }
    }
}

/// A join that has some of its tokens, and where the others were to come from.
fn waits_for(net: &Net, place: &Place, state: &PlaceFrame) -> String {
    let missing = place.accepts.iter().zip(&state.held).filter(|(_, held)| held.is_empty());
    let from = missing.map(|(kind, _)| {
        let sends = |from: &&Place| from.produces.contains(kind) || from.arcs.iter().any(|arc| arc.emits == *kind);
        let senders: Vec<String> = net.places.iter().filter(sends).map(|from| format!("`{}`", from.name)).collect();
        if senders.is_empty() { format!("`{kind}`") } else { senders.join(" or ") }
    });
    format!("`{}` waits for a token of {}", place.name, from.collect::<Vec<_>>().join(", "))
}

/// Tokens and writes of a body that has ended.
type Ended<'a> = (Vec<Emitted>, Vec<(&'a Write, Value)>);

struct Emitted {
    kind: Arc<str>,
    payload: Value,
    fans_out: bool,
}

/// A place that accepts a kind no place and no arc inside is declared to emit.
fn waits_for_outside(net: &Net, place: &Place) -> bool {
    place.accepts.iter().any(|kind| !emitted_inside(net, kind))
}

fn emitted_inside(net: &Net, kind: &Arc<str>) -> bool {
    let emits = |place: &Place| place.produces.contains(kind) || place.arcs.iter().any(|arc| arc.emits == *kind);
    *kind == net.start || net.places.iter().any(emits)
}

fn open_work(body: &mut NetFrame, lineage: &[u64]) {
    if let Some(fan) = lineage.last().and_then(|fan| body.fan_outs.get_mut(fan)) {
        fan.open += 1;
    }
}

/// One token from many: `{kind: payload}`, or all payloads in one. The joined token is one piece of work where there were
/// several.
fn join_tokens(parts: Vec<Token>, merged: bool, body: &mut NetFrame) -> Token {
    let lineage = parts.first().map(|token| token.lineage.clone()).unwrap_or_default();
    for extra in parts.iter().skip(1) {
        if let Some(fan) = extra.lineage.last().and_then(|fan| body.fan_outs.get_mut(fan)) {
            fan.open = fan.open.saturating_sub(1).max(1);
        }
    }
    let kind = parts.first().map(|token| token.kind.clone()).unwrap_or_default();
    let payload = match merged {
        true => parts.into_iter().map(|token| token.payload).fold(Value::Null, laid_over),
        false => Value::object(parts.into_iter().map(|token| (token.kind, token.payload))),
    };
    Token { kind, payload, lineage, ..Token::default() }
}

/// Key by key; what is no object takes the place of what was there.
fn laid_over(under: Value, over: Value) -> Value {
    match (under.as_map(), over.as_map()) {
        (Some(below), Some(above)) => {
            let mut all = below.clone();
            above.iter().for_each(|(key, value)| _ = all.insert(key.clone(), value.clone()));
            Value::map(all)
        }
        _ if over.is_null() => under,
        _ => over,
    }
}

/// Tokens that a body returns: one `{kind, payload}`, or a list of them, which is a fan-out.
fn returned(output: &Value) -> Result<Vec<Emitted>, ErrorInfo> {
    let one = |value: &Value, fans_out: bool| match value.get("kind").and_then(Value::as_str) {
        Some(kind) => {
            Ok(Emitted { kind: kind.into(), payload: value.get("payload").cloned().unwrap_or_default(), fans_out })
        }
        None => Err(ErrorInfo::new("NotAnEvent", "step", format!("a step returned {value:?}, which is not an event"))),
    };
    match output {
        Value::Null => Ok(Vec::new()),
        Value::List(items) if items.is_empty() => {
            Ok(vec![Emitted { kind: "".into(), payload: Value::Null, fans_out: true }])
        }
        Value::List(items) => items.iter().map(|item| one(item, true)).collect(),
        single => one(single, false).map(|token| vec![token]),
    }
}
