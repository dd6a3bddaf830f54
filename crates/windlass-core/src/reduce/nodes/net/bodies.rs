//! The end of a body: the tokens it emits, or the handler of its failure.
//!
//! | the body ends | effect |
//! |---|---|
//! | succeeded | the tokens that its tasks have sent, and those that its arcs and its output emit, are delivered |
//! | not succeeded, and an arc takes it | the tokens that the arcs emit are delivered |
//! | failed or timed out, and the place's handler may be used | a token goes to the handler |
//! | not succeeded, in any other case | the net fails |
//! | either, and an arc, a write or the output cannot be evaluated | the net fails |
//!
//! The end of a firing that the net does not have is impossible and a fault. A net that is being cancelled only
//! counts it.

use std::sync::Arc;

use windlass_value::{Map, Value};

use super::fan_out::member_order;
use crate::plan::{ArcTrigger, FAILED_KIND, Net, NodeKind, Place, VariableUpdate};
use crate::reduce::eval::Locals;
use crate::reduce::fault::{FaultResult, miscounted, no_part};
use crate::reduce::nodes::task_names::outcome_value;
use crate::reduce::{ItemStop, Reducer};
use crate::state::{Firing, FrameBody, FrameId, NetToken, ScopeId, TokenContext};
use crate::{ErrorInfo, EventKind, Outcome, SentToken, Status};

/// Tokens and writes of a body that has ended.
type BodyEmissions<'a> = (Vec<EmittedToken>, Vec<(&'a VariableUpdate, Value)>);

struct EmittedToken {
    kind: Arc<str>,
    payload: Value,
    fans_out: bool,
    to: Option<Arc<str>>,
}

impl<'a> Reducer<'a> {
    pub(in crate::reduce) fn body_ended(
        &mut self,
        id: FrameId,
        slot: u64,
        outcome: &Arc<Outcome>,
        scope: ScopeId,
    ) -> Result<(), ItemStop> {
        let (net, body) = self.net_frame(id)?;
        let firing = body.firings.get(&slot).ok_or_else(|| no_part(id, "firing", slot))?.clone();
        let place = net.places.get(firing.place as usize);
        let place = place.ok_or_else(|| no_part(id, "place", firing.place.into()))?;
        let tokens = match self.emissions_of(place, &firing, outcome, scope) {
            Ok((tokens, writes)) => {
                for token in &tokens {
                    self.load_keys(net, &token.kind, &token.payload)?;
                }
                self.apply_writes(id, &writes, scope)?.map(|()| tokens)
            }
            Err(stop) => match self.with_place_path(id, place, stop) {
                ItemStop::Failed(error) => Err(*error),
                stop @ (ItemStop::Need(_) | ItemStop::Impossible(_)) => return Err(stop),
            },
        };
        self.child_removed(id)?;
        let carried = self.state.scopes.remove(scope).and_then(|scope| scope.token);
        let body = self.net_frame_mut(id)?;
        body.firings.remove(&slot);
        if !body.places[firing.place as usize].body_removed(slot, &firing) {
            return Err(miscounted(id, "running bodies of a place").into());
        }
        body.last_output = outcome.output.clone();
        match tokens {
            Err(error) => self.fail_net(id, error)?,
            Ok(tokens) if tokens.is_empty() && outcome.status.is_bad() => {
                match failure_token(net, &firing, outcome, carried) {
                    Ok(failed) => {
                        let from = if net.publishes_slots { vec![slot] } else { Vec::new() };
                        self.deliver(id, NetToken { from, ..failed }, false)?;
                        self.work_done(id, &firing.lineage)?;
                        self.exit_regions(id, net, firing.place as usize, &firing.regions)?;
                        self.schedule_fire(id);
                    }
                    Err(error) => self.fail_net(id, error)?,
                }
            }
            Ok(tokens) => {
                self.emit(id, net, slot, &firing, tokens)?;
                self.work_done(id, &firing.lineage)?;
                self.exit_regions(id, net, firing.place as usize, &firing.regions)?;
                self.schedule_fire(id);
            }
        }
        Ok(())
    }

    /// Applies the writes of the arcs; all of them are evaluated before the first is applied.
    fn apply_writes(
        &mut self,
        id: FrameId,
        writes: &[(&VariableUpdate, Value)],
        scope: ScopeId,
    ) -> Result<Result<(), ErrorInfo>, ItemStop> {
        for (write, value) in writes {
            self.load_for_write(write, scope, value)?;
        }
        for (write, value) in writes {
            match self.write(write, scope, value.clone()) {
                Ok(written) => self.publish_patch(id, write, &written),
                Err(ItemStop::Failed(error)) => return Ok(Err(*error)),
                Err(stop @ (ItemStop::Need(_) | ItemStop::Impossible(_))) => return Err(stop),
            }
        }
        Ok(Ok(()))
    }

    /// Returns the tokens that an ended body emits (those that its tasks have sent, those of its arcs, and those of its
    /// output) and the writes of the arcs.
    fn emissions_of(
        &mut self,
        place: &'a Place,
        firing: &Firing,
        outcome: &Outcome,
        scope: ScopeId,
    ) -> Result<BodyEmissions<'a>, ItemStop> {
        let bad = outcome.status.is_bad();
        // The name of the body's own end in its events.
        let event = match (bad, &place.done_event) {
            (true, _) => EventKind::STEP_FAILED,
            (false, Some(done)) => done,
            (false, None) => success_event(&self.program.node(place.body).kind),
        };
        let sent = firing.sends.iter().filter(|_| !bad).map(EmittedToken::from_sent);
        let (mut emitted, mut writes): (Vec<EmittedToken>, _) = (sent.collect(), Vec::new());
        if !place.arcs.is_empty() {
            let names = Map::from_iter([
                ("event", Value::object([("name", Value::from(event))])),
                ("output", outcome.output.clone()),
                ("error", outcome.error.as_ref().map_or(Value::Null, ErrorInfo::to_value)),
                ("outcome", outcome_value(outcome)),
            ]);
            let locals = Locals { names: Some(&names), ..Locals::default() };
            for arc in &place.arcs {
                let applies = match arc.on {
                    ArcTrigger::Succeeded => !bad,
                    ArcTrigger::Failed => bad,
                    ArcTrigger::Either => true,
                };
                if !applies || !arc.when.map(|when| self.condition(when, scope, locals)).transpose()?.unwrap_or(true) {
                    continue;
                }
                let payload = arc.payload.map(|payload| self.eval_with(payload, scope, locals)).transpose()?;
                for write in &arc.writes {
                    let value = write.value.map(|value| self.eval_with(value, scope, locals)).transpose()?;
                    writes.push((write, value.unwrap_or_default()));
                }
                emitted.push(EmittedToken::single(arc.emits.clone(), payload.unwrap_or_default()));
                if !place.inclusive {
                    break;
                }
            }
        }
        if !place.produces.is_empty() && !bad {
            let output = self.resolve(&outcome.output)?;
            emitted.extend(parse_returned(&output)?);
        }
        Ok((emitted, writes))
    }

    /// Removes the tokens that a body has sent, because it is entered again.
    pub(in crate::reduce) fn clear_sent_tokens(&mut self, id: FrameId) -> FaultResult {
        let frame = self.frame(id)?;
        // The root has no parent.
        let (slot, Some(above)) = (frame.slot, frame.parent) else { return Ok(()) };
        if matches!(self.frame(above)?.body, FrameBody::Net(_)) {
            let firing = self.net_frame_mut(above)?.firings.get_mut(&slot);
            firing.ok_or_else(|| no_part(above, "firing", slot))?.sends.clear();
        }
        Ok(())
    }

    fn emit(&mut self, id: FrameId, net: &Net, slot: u64, firing: &Firing, tokens: Vec<EmittedToken>) -> FaultResult {
        let fans_out = tokens.iter().any(|token| token.fans_out);
        let keeps_order = net.places[firing.place as usize].fan_out_joins.is_some();
        let inner = if fans_out { self.open_fan_out(id, net, firing)? } else { Vec::new() };
        let (mut members, mut left) = (0, tokens.len());
        for token in tokens {
            left -= 1;
            if token.kind.is_empty() {
                continue;
            }
            let (lineage, order) = match token.fans_out {
                true if keeps_order => (inner.clone(), member_order(firing, members)),
                true => (inner.clone(), firing.order.clone()),
                false => (firing.lineage.clone(), firing.order.clone()),
            };
            members += u64::from(token.fans_out);
            if net.input_requests.contains(&token.kind) && self.open_net(id).is_some() {
                let place = &net.places[firing.place as usize];
                let (event, payload, step) = (token.kind.clone(), token.payload.clone(), place.name.clone());
                let firing = net.publishes_slots.then_some(slot);
                let path = self.child_path(id, place.body);
                self.publish(path, EventKind::InputRequired { event, payload, step, firing });
            }
            let EmittedToken { kind, payload, to, .. } = token;
            let from = if net.publishes_slots { vec![slot] } else { Vec::new() };
            let (handled, regions) = (firing.handled.clone(), firing.regions.clone());
            self.deliver(id, NetToken { kind, payload, lineage, to, from, handled, order, regions }, left > 0)?;
        }
        if fans_out {
            self.work_done(id, &inner)?;
        }
        Ok(())
    }
}

/// Returns the event that reports a successful end.
fn success_event(kind: &NodeKind) -> &'static str {
    match kind {
        NodeKind::Loop(_) => EventKind::LOOP_DONE,
        NodeKind::Pipeline(_)
        | NodeKind::Graph(_)
        | NodeKind::Branch(_)
        | NodeKind::Net(_)
        | NodeKind::Wait(_)
        | NodeKind::Call(_) => EventKind::STEP_DONE,
    }
}

/// Returns the token that passes a failure to the place's handler; or the error, if no handler applies.
fn failure_token(
    net: &Net,
    firing: &Firing,
    outcome: &Outcome,
    carried: Option<TokenContext>,
) -> Result<NetToken, ErrorInfo> {
    let place = &net.places[firing.place as usize];
    let error = outcome.error.clone();
    let mut error = error.unwrap_or_else(|| ErrorInfo::new("StepFailed", "step", format!("`{}` failed", place.name)));
    let covered = matches!(outcome.status, Status::Failed | Status::TimedOut);
    let handler = place.handler.filter(|_| covered);
    let Some((handler, by)) = handler.and_then(|handler| Some((handler, net.places.get(handler.place as usize)?)))
    else {
        return Err(error);
    };
    let times = firing.handled.get(&handler.place).copied().unwrap_or(0);
    if times >= handler.max_uses {
        let spent = format!("`{}` has already handled {times} failures of this line of events", by.name);
        error.hint = Some(match &error.hint {
            Some(hint) => format!("{hint}; {spent}").into(),
            None => spent.into(),
        });
        return Err(error);
    }
    let args = carried.map(|carried| carried.args).unwrap_or_default();
    let event = Value::object([("kind", Value::Str(firing.token.clone())), ("payload", args)]);
    let payload = Value::object([
        ("step", Value::Str(place.name.clone())),
        ("error", error.to_value()),
        ("attempts", Value::from(outcome.attempts)),
        ("event", event),
    ]);
    let mut handled = firing.handled.clone();
    handled.insert(handler.place, times + 1);
    Ok(NetToken {
        kind: FAILED_KIND.into(),
        payload,
        lineage: firing.lineage.clone(),
        to: Some(by.name.clone()),
        from: Vec::new(),
        handled,
        order: firing.order.clone(),
        regions: firing.regions.clone(),
    })
}

impl EmittedToken {
    fn single(kind: Arc<str>, payload: Value) -> EmittedToken {
        EmittedToken { kind, payload, fans_out: false, to: None }
    }

    fn from_sent(sent: &SentToken) -> EmittedToken {
        EmittedToken { to: sent.to.clone(), ..EmittedToken::single(sent.kind.clone(), sent.payload.clone()) }
    }
}

/// Parses the tokens that a body returns: one `{kind, payload}`, or a list of them, which is a fan-out.
fn parse_returned(output: &Value) -> Result<Vec<EmittedToken>, ErrorInfo> {
    let one = |value: &Value, fans_out: bool| match value.get("kind") {
        Some(Value::Str(kind)) => {
            let payload = value.get("payload").cloned().unwrap_or_default();
            Ok(EmittedToken { fans_out, ..EmittedToken::single(kind.clone(), payload) })
        }
        _ => Err(ErrorInfo::new("NotAnEvent", "step", format!("a step returned {value:?}, which is not an event"))),
    };
    match output {
        Value::Null => Ok(Vec::new()),
        Value::List(items) if items.is_empty() => {
            Ok(vec![EmittedToken { fans_out: true, ..EmittedToken::single("".into(), Value::Null) }])
        }
        Value::List(items) => items.iter().map(|item| one(item, true)).collect(),
        single => one(single, false).map(|token| vec![token]),
    }
}
