//! Joins: how tokens are combined before a body runs.
//!
//! | join | a token arrives |
//! |---|---|
//! | none | queued |
//! | all, merged | held; combined and queued with the last kind that was missing |
//! | each | held in the set of its key; combined and queued with the last of the set; a surplus token is held, dropped, or fails the net |
//! | meeting | held; see `meetings` |
//! | fan-out | collected by the innermost fan-out that closes here; queued alone, if there is none |
//!
//! A place, a queue of a join or a fan-out that the net does not have is impossible and a fault.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use windlass_value::{Value, to_json};

use super::fan_out::open_work;
use crate::ErrorInfo;
use crate::plan::{Join, Net, Place, SurplusPolicy};
use crate::reduce::fault::{FaultResult, no_part};
use crate::reduce::{ItemStop, Reducer};
use crate::state::{FanOutMember, FrameId, NetToken};

impl Reducer<'_> {
    pub(super) fn arrive(
        &mut self,
        id: FrameId,
        net: &Net,
        at: usize,
        mut token: NetToken,
        more_pending: bool,
    ) -> FaultResult {
        token.to = None;
        match &net.places[at].join {
            Join::None => {
                self.add_open_work(id, &token.lineage)?;
                self.enter_regions(id, at, &mut token)?;
                self.enqueue(id, net, at, token)
            }
            Join::Meeting { .. } => self.hold_for_meeting(id, net, at, token),
            Join::All | Join::Merged => self.hold_for_all(id, net, at, token),
            Join::Each { needs, key, surplus } => {
                let join = EachJoin { needs, key: key.as_ref(), surplus: *surplus };
                self.hold_for_set(id, net, at, &join, token, more_pending)
            }
            Join::FanOut => self.add_to_fan_out(id, net, at, token),
        }
    }

    fn add_open_work(&mut self, id: FrameId, lineage: &[u64]) -> FaultResult {
        open_work(self.net_frame_mut(id)?, lineage);
        Ok(())
    }

    /// Queues a token for a body; it already counts as open work.
    pub(super) fn enqueue(&mut self, id: FrameId, net: &Net, at: usize, token: NetToken) -> FaultResult {
        let places = &mut self.net_frame_mut(id)?.places;
        let place = places.get_mut(at).ok_or_else(|| no_part(id, "place", at as u64))?;
        let kind = net.publishes_slots.then(|| token.kind.clone());
        place.queue.push_back(token);
        let free = net.places[at].max_concurrency.max(1).saturating_sub(place.running) as usize;
        let waiting = (place.queue.len() + place.awaiting_slot.len()).saturating_sub(free);
        if let Some(kind) = kind.filter(|_| waiting > 0) {
            self.publish_queued(id, net, at, kind, waiting)?;
        }
        Ok(())
    }

    /// Holds tokens until there is one of each accepted kind.
    fn hold_for_all(&mut self, id: FrameId, net: &Net, at: usize, token: NetToken) -> FaultResult {
        let place = &net.places[at];
        let body = self.net_frame_mut(id)?;
        let slot = place.accepts.iter().position(|kind| *kind == token.kind).unwrap_or(0);
        open_work(body, &token.lineage);
        let held = &mut body.places.get_mut(at).ok_or_else(|| no_part(id, "place", at as u64))?.held;
        held.get_mut(slot).ok_or_else(|| no_part(id, "queue of a join", slot as u64))?.push_back(token);
        if held.iter().any(VecDeque::is_empty) {
            return Ok(());
        }
        let parts: Vec<NetToken> = held.iter_mut().filter_map(VecDeque::pop_front).collect();
        let lineage = parts.first().map(|token| token.lineage.clone()).unwrap_or_default();
        let order = parts.first().map(|token| token.order.clone()).unwrap_or_default();
        self.join(id, net, at, parts, |parts| {
            let payload = match place.join == Join::Merged {
                true => parts.into_iter().map(|token| token.payload).fold(Value::Null, merge_shallow),
                false => Value::object(parts.into_iter().map(|token| (token.kind, token.payload))),
            };
            NetToken { payload, lineage, order, ..NetToken::default() }
        })
    }

    /// Holds tokens until there is one for each need, among those with the same key. A need that several tokens could
    /// meet gets the oldest.
    fn hold_for_set(
        &mut self,
        id: FrameId,
        net: &Net,
        at: usize,
        join: &EachJoin<'_>,
        token: NetToken,
        more_pending: bool,
    ) -> FaultResult {
        let key = match join.key {
            Some(key) => self.key_of(&token.payload, key).unwrap_or_else(|_| "null".into()),
            None => "".into(),
        };
        // A place may accept kinds that its join does not need: those are dropped here.
        if !join.needs.contains(&token.kind) {
            return Ok(());
        }
        let body = self.net_frame_mut(id)?;
        let sets = &mut body.places.get_mut(at).ok_or_else(|| no_part(id, "place", at as u64))?.sets;
        let empty = || vec![VecDeque::new(); join.needs.len()];
        let set = sets.entry(key.clone()).or_insert_with(empty);
        let fitting = join.needs.iter().zip(set.iter()).enumerate().filter(|(_, (need, _))| **need == token.kind);
        // The need with the fewest waiting tokens, so that tokens that arrive first are combined.
        let Some((need, ahead)) = fitting.map(|(need, (_, held))| (need, held.len())).min_by_key(|(_, held)| *held)
        else {
            return Err(no_part(id, "queue of a join at place", at as u64));
        };
        if ahead > 0 && join.surplus != SurplusPolicy::Keep {
            return self.handle_surplus(id, net, at, join, &key, &token, more_pending);
        }
        let lineage = token.lineage.clone();
        set[need].push_back(token);
        let complete = set.iter().all(|held| !held.is_empty());
        let parts: Vec<NetToken> = match complete {
            true => set.iter_mut().filter_map(VecDeque::pop_front).collect(),
            false => Vec::new(),
        };
        if complete && set.iter().all(VecDeque::is_empty) {
            sets.remove(&key);
        }
        open_work(body, &lineage);
        if !complete {
            return Ok(());
        }
        // A member of a fan-out that is combined with a token from further out stays a member.
        let deepest = parts.iter().rev().max_by_key(|token| token.lineage.len());
        let (lineage, order) = deepest.map(|token| (token.lineage.clone(), token.order.clone())).unwrap_or_default();
        self.join(id, net, at, parts, |parts| {
            let part = |token: NetToken| Value::object([("kind", Value::Str(token.kind)), ("payload", token.payload)]);
            NetToken {
                payload: Value::list(parts.into_iter().map(part).collect()),
                lineage,
                order,
                ..NetToken::default()
            }
        })
    }

    /// Combines several tokens into one: one piece of work replaces several.
    pub(super) fn join(
        &mut self,
        id: FrameId,
        net: &Net,
        at: usize,
        parts: Vec<NetToken>,
        joined: impl FnOnce(Vec<NetToken>) -> NetToken,
    ) -> FaultResult {
        let kind = parts.first().map(|token| token.kind.clone()).unwrap_or_default();
        let from = parts.iter().flat_map(|token| token.from.iter().copied()).collect();
        let handled = parts.iter().fold(BTreeMap::new(), |all, token| max_handled(all, &token.handled));
        let lineages: Vec<Vec<u64>> = parts.iter().map(|token| token.lineage.clone()).collect();
        let mut token = NetToken { kind, from, handled, ..joined(parts) };
        self.enter_regions(id, at, &mut token)?;
        self.add_open_work(id, &token.lineage)?;
        self.enqueue(id, net, at, token)?;
        lineages.iter().try_for_each(|lineage| self.work_done(id, lineage))
    }

    #[allow(clippy::too_many_arguments, reason = "the token, its join and its net")]
    fn handle_surplus(
        &mut self,
        id: FrameId,
        net: &Net,
        at: usize,
        join: &EachJoin<'_>,
        key: &str,
        token: &NetToken,
        more_pending: bool,
    ) -> FaultResult {
        let place = &net.places[at];
        let whose = join.key.map(|name| format!(" where `{name}` is {key}")).unwrap_or_default();
        let reason =
            format!("the join `{}` already has all the `{}` tokens that its set needs{whose}", place.name, token.kind);
        if join.surplus == SurplusPolicy::Drop {
            self.publish_unhandled_token(id, net, token, format!("{reason}; this one is dropped"), more_pending);
            return Ok(());
        }
        let hint = "the join's `surplus` setting can keep surplus events for the next set, or drop them";
        let error = ErrorInfo::new("SurplusEvent", "join", format!("{reason}, and another has arrived")).hint(hint);
        let error = self.program.plan.apply_hint(error);
        let path = self.child_path(id, place.body);
        self.fail_net(id, ErrorInfo { path, ..error })
    }

    /// Adds the token to the innermost of its fan-outs that closes into this join; queues it alone, if there is none.
    fn add_to_fan_out(&mut self, id: FrameId, net: &Net, at: usize, token: NetToken) -> FaultResult {
        let body = self.net_frame_mut(id)?;
        let place = at as u32;
        let closes_here = |fan: &u64| body.fan_outs.get(fan).is_some_and(|fan| closes_into(net, fan.place, place));
        let Some(depth) = token.lineage.iter().rposition(closes_here) else {
            let payload = Value::list(vec![token.payload]);
            self.add_open_work(id, &token.lineage)?;
            return self.enqueue(id, net, at, NetToken { payload, ..token });
        };
        let number = token.lineage[depth];
        let fan = body.fan_outs.get_mut(&number).ok_or_else(|| no_part(id, "fan-out", number))?;
        let NetToken { payload, from, handled, order, .. } = token;
        let at = order.get(depth).copied().unwrap_or(0);
        fan.members.entry(place).or_default().push(FanOutMember { at, payload, from, handled });
        Ok(())
    }

    /// Returns the key of a token's set, as compact JSON.
    fn key_of(&self, payload: &Value, key: &str) -> Result<Arc<str>, ItemStop> {
        let whole = self.resolve(payload)?;
        let property = whole.get(key).cloned().unwrap_or_default();
        Ok(to_json(&self.resolve(&property)?).into())
    }

    /// Loads all values that the routing of a token depends on, before the token is taken.
    pub(super) fn load_keys(&self, net: &Net, kind: &Arc<str>, payload: &Value) -> Result<(), ItemStop> {
        if self.state.waits.contains_key(kind) {
            self.resolve(payload)?;
        }
        let accepting = net.places.iter().filter(|place| place.accepts.contains(kind));
        for key in accepting.filter_map(key_name) {
            self.key_of(payload, key)?;
        }
        Ok(())
    }
}

/// A join over kinds, as its place declares it.
struct EachJoin<'p> {
    needs: &'p [Arc<str>],
    key: Option<&'p Arc<str>>,
    surplus: SurplusPolicy,
}

fn key_name(place: &Place) -> Option<&Arc<str>> {
    match &place.join {
        Join::Each { key, .. } => key.as_ref(),
        Join::None | Join::All | Join::Merged | Join::FanOut | Join::Meeting { .. } => None,
    }
}

/// Returns true if a fan-out of a body of `made_by` closes into the join at `place`.
fn closes_into(net: &Net, made_by: Option<u32>, place: u32) -> bool {
    let joins = made_by.and_then(|made_by| net.places.get(made_by as usize)?.fan_out_joins.as_ref());
    joins.is_none_or(|joins| joins.contains(&place))
}

/// Returns the maximum per handler: a token combined from several has reached each handler as often as any of them.
pub(super) fn max_handled(mut all: BTreeMap<u32, u32>, more: &BTreeMap<u32, u32>) -> BTreeMap<u32, u32> {
    for (handler, times) in more {
        let known = all.entry(*handler).or_default();
        *known = (*known).max(*times);
    }
    all
}

/// Merges two objects key by key; a value that is not an object replaces the other.
pub(super) fn merge_shallow(under: Value, over: Value) -> Value {
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
