//! Quiescence: nothing is left to do. The net ends, has provably hung, or waits for input from outside.
//!
//! | end condition | no join holds tokens | a join holds tokens |
//! |---|---|---|
//! | any, while a body has not ended | continues | continues |
//! | any, while meetings wait only for each other | – | the first of them takes place |
//! | when quiescent | succeeded, with the output of the last body | failed: a hang |
//! | at a kind that events from outside could still lead to, directly or indirectly | continues | continues |
//! | at a kind that can no longer occur | failed: a hang | failed: a hang |

use std::collections::BTreeSet;
use std::sync::Arc;

use super::meetings::{held_meetings, missing_kinds};
use crate::plan::{FAILED_KIND, Join, Net, NetEnd, Place};
use crate::reduce::Reducer;
use crate::reduce::fault::FaultResult;
use crate::state::{FrameId, NetFrame, PlaceFrame};
use crate::{ErrorInfo, Status};

/// Maximum number of a join's sets that a message lists.
const MAX_SETS_LISTED: usize = 3;

impl Reducer<'_> {
    /// Returns the kinds that open nets accept from outside.
    pub(in crate::reduce) fn kinds_from_outside(&self) -> impl Iterator<Item = Arc<str>> {
        let nets = self.state.nets.iter().filter_map(|id| self.open_net(*id)).map(|(net, _)| net);
        nets.flat_map(|net| outside_kinds(net).cloned().collect::<Vec<_>>())
    }

    /// Returns true if a live net publishes its slots.
    pub(in crate::reduce) fn publishes_slots(&self) -> bool {
        self.state.nets.iter().filter_map(|id| self.open_net(*id)).any(|(net, _)| net.publishes_slots)
    }

    /// Returns true if no place has anything to do and nothing in the run will proceed by itself.
    pub(in crate::reduce) fn is_stalled(&self) -> bool {
        let is_inactive =
            |place: &PlaceFrame| place.running == 0 && place.queue.is_empty() && place.awaiting_slot.is_empty();
        let nets = self.state.nets.iter().filter_map(|id| self.open_net(*id));
        nets.into_iter().all(|(_, body)| body.places.iter().all(is_inactive)) && !self.state.moves_by_itself()
    }

    /// Returns the names of steps with unfinished bodies, in nets that publish their slots.
    pub(in crate::reduce) fn active_steps(&self) -> Vec<Arc<str>> {
        let nets = self.state.nets.iter().filter_map(|id| self.open_net(*id)).filter(|(net, _)| net.publishes_slots);
        let at_work = nets.flat_map(|(net, body)| {
            let places: BTreeSet<u32> = body.firings.values().map(|firing| firing.place).collect();
            places.into_iter().map(|at| net.places[at as usize].name.clone())
        });
        at_work.collect()
    }

    pub(super) fn check_quiescence(&mut self, id: FrameId, net: &Net) -> FaultResult {
        let (_, body) = self.net_frame(id)?;
        if !body.firings.is_empty() {
            return Ok(());
        }
        if self.release_meeting(id, net)? {
            self.schedule_fire(id);
            return Ok(());
        }
        let (_, body) = self.net_frame(id)?;
        let joins = net.places.iter().zip(&body.places);
        let held: Vec<(&Place, &PlaceFrame)> = joins.filter(|(_, state)| holds_tokens(state)).collect();
        match &net.end {
            NetEnd::Quiet if held.is_empty() => match self.meeting_error(id, net, body) {
                Some(error) => self.fail_net(id, error),
                None => {
                    let output = body.last_output.clone();
                    self.end_net(id, Status::Succeeded, output, None)
                }
            },
            NetEnd::Stop(kind) if net.publishes_slots && is_reachable(net, body, kind) => Ok(()),
            NetEnd::Quiet | NetEnd::Stop(_) if net.publishes_slots => {
                let error = self.program.plan.apply_hint(hang_error(net, body, &held));
                let path = held.first().map(|(place, _)| self.child_path(id, place.body)).unwrap_or_default();
                self.fail_net(id, ErrorInfo { path, ..error })
            }
            // A client outside may still send a kind that no place inside emits.
            NetEnd::Stop(_) if outside_kinds(net).next().is_some() => Ok(()),
            NetEnd::Stop(kind) if held.is_empty() => {
                let message = format!("nothing is left to do and no `{kind}` was emitted");
                self.fail_net(id, ErrorInfo::new("Hang", "hang", message))
            }
            NetEnd::Quiet | NetEnd::Stop(_) => {
                let waiting: Vec<String> =
                    held.iter().map(|(place, state)| describe_join_wait(net, place, state)).collect();
                let message = format!("nothing is left to do, and {}", waiting.join("; "));
                let hint = "the join needs one token of each on every path; add an arc that always fires for each, or \
                            use a join that does not wait for all";
                let at = held.first().map(|(place, _)| self.child_path(id, place.body));
                let error = ErrorInfo::new("Hang", "hang", message).hint(hint);
                let error = self.program.plan.apply_hint(error);
                self.fail_net(id, ErrorInfo { path: at.unwrap_or_default(), ..error })
            }
        }
    }
}

impl Reducer<'_> {
    /// Returns the error of a net in which a meeting waits for a token that can no longer come.
    fn meeting_error(&self, id: FrameId, net: &Net, body: &NetFrame) -> Option<ErrorInfo> {
        let (_, at, held) = held_meetings(body).next()?;
        let place = net.places.get(at as usize)?;
        let sender = |kind: &Arc<str>| senders(net, kind).unwrap_or_else(|| quoted(kind));
        let missing: Vec<String> = missing_kinds(net, at, held).map(sender).collect();
        let message =
            format!("nothing is left to do, and `{}` waits for a token of {}", place.name, missing.join(", "));
        let error = self.program.plan.apply_hint(ErrorInfo::new("Hang", "hang", message));
        Some(ErrorInfo { path: self.child_path(id, place.body), ..error })
    }
}

fn holds_tokens(state: &PlaceFrame) -> bool {
    !state.sets.is_empty() || state.held.iter().any(|held| !held.is_empty())
}

/// Describes the tokens that a join still waits for and their declared sources.
fn describe_join_wait(net: &Net, place: &Place, state: &PlaceFrame) -> String {
    let (needs, key) = match &place.join {
        Join::Each { needs, key, .. } => (needs, key),
        Join::None | Join::All | Join::Merged | Join::FanOut | Join::Meeting { .. } => {
            let missing = place.accepts.iter().zip(&state.held).filter(|(_, held)| held.is_empty());
            let from: Vec<String> =
                missing.map(|(kind, _)| senders(net, kind).unwrap_or_else(|| quoted(kind))).collect();
            return format!("`{}` waits for a token of {}", place.name, from.join(", "));
        }
    };
    let sets = state.sets.iter().take(MAX_SETS_LISTED).map(|(value, set)| {
        let missing = needs.iter().zip(set).filter(|(_, held)| held.is_empty());
        let missing: Vec<String> = missing.map(|(kind, _)| describe_kind(net, kind)).collect();
        let whose = key.as_ref().map(|key| format!(" where `{key}` is {value}")).unwrap_or_default();
        format!("{}{whose}", missing.join(" and "))
    });
    let sets = sets.collect::<Vec<_>>().join(", for ");
    let more = match state.sets.len().saturating_sub(MAX_SETS_LISTED) {
        0 => String::new(),
        more => format!(", and {more} more sets are not complete"),
    };
    format!("`{}` waits for {sets}{more}", place.name)
}

/// Returns the error of a hung net that publishes its slots: what it waits for, join by join.
fn hang_error(net: &Net, body: &NetFrame, held: &[(&Place, &PlaceFrame)]) -> ErrorInfo {
    let mut waiting: Vec<String> = held.iter().map(|(place, state)| describe_join_wait(net, place, state)).collect();
    let open: BTreeSet<u32> = body.fan_outs.values().filter_map(|fan| fan.place).collect();
    for place in open.into_iter().filter_map(|at| net.places.get(at as usize)) {
        waiting.push(format!("the fan-out of `{}` stays open", place.name));
    }
    if let NetEnd::Stop(kind) = &net.end
        && held.is_empty()
    {
        waiting.push(format!("no {} was emitted", describe_kind(net, kind)));
    }
    let outside: BTreeSet<&Arc<str>> = outside_kinds(net).collect();
    if !outside.is_empty() {
        let kinds = outside.into_iter().map(|kind| quoted(kind)).collect::<Vec<_>>().join(", ");
        waiting.push(format!("no outside event ({kinds}) can resolve this"));
    }
    let hint = match held.is_empty() {
        true => "a step that returns no event ends its branch; at least one branch must reach the stop event",
        false => "a join needs all of its events on every path that the run can take",
    };
    ErrorInfo::new("Hang", "hang", format!("nothing is left to do, and {}", waiting.join("; "))).hint(hint)
}

fn quoted(kind: &str) -> String {
    format!("`{kind}`")
}

/// Returns the places that are declared to emit a kind.
fn senders(net: &Net, kind: &Arc<str>) -> Option<String> {
    let names: Vec<String> =
        net.places.iter().filter(|from| emits(from, kind)).map(|from| quoted(&from.name)).collect();
    (!names.is_empty()).then(|| names.join(" or "))
}

fn describe_kind(net: &Net, kind: &Arc<str>) -> String {
    match senders(net, kind) {
        Some(senders) => format!("`{kind}` of {senders}"),
        None => quoted(kind),
    }
}

fn emits(place: &Place, kind: &Arc<str>) -> bool {
    place.produces.contains(kind) || place.arcs.iter().any(|arc| arc.emits == *kind)
}

/// Returns the kinds that places accept and that no place or arc inside is declared to emit.
fn outside_kinds(net: &Net) -> impl Iterator<Item = &Arc<str>> {
    net.places.iter().flat_map(|place| &place.accepts).filter(|kind| !emitted_inside(net, kind))
}

fn emitted_inside(net: &Net, kind: &Arc<str>) -> bool {
    let failures = &**kind == FAILED_KIND && net.places.iter().any(|place| place.handler.is_some());
    *kind == net.start || failures || net.places.iter().any(|place| emits(place, kind))
}

/// Returns true if tokens of this kind could still occur. The search assumes that clients send every kind that only
/// they can send, starts with these and with the tokens that the joins hold, and follows everything that places are
/// declared to emit. A place that declares nothing may emit anything.
fn is_reachable(net: &Net, body: &NetFrame, kind: &Arc<str>) -> bool {
    let mut reachable =
        ReachableKinds { net, body, kinds: outside_kinds(net).map(|kind| &**kind).collect(), joins: BTreeSet::new() };
    let mut fired = vec![false; net.places.len()];
    loop {
        let next = (0..net.places.len()).find(|at| !fired[*at] && reachable.can_fire(*at));
        let Some(at) = next else { return false };
        fired[at] = true;
        let place = &net.places[at];
        if place.produces.is_empty() && place.arcs.is_empty() {
            return true;
        }
        reachable
            .kinds
            .extend(place.produces.iter().chain(place.arcs.iter().map(|arc| &arc.emits)).map(|kind| &**kind));
        if place.handler.is_some() {
            reachable.kinds.insert(FAILED_KIND);
        }
        if !place.produces.is_empty() {
            reachable.close_fan_out(Some(at as u32));
        }
        if holds_tokens(&body.places[at]) {
            // The tokens it holds move on, and with them the fan-outs that they belong to.
            body.fan_outs.values().for_each(|fan| reachable.close_fan_out(fan.place));
        }
        if reachable.kinds.contains(&**kind) {
            return true;
        }
    }
}

/// The token kinds and fan-outs that could still occur.
struct ReachableKinds<'n> {
    net: &'n Net,
    body: &'n NetFrame,
    kinds: BTreeSet<&'n str>,
    /// Joins that a fan-out could close into.
    joins: BTreeSet<u32>,
}

impl ReachableKinds<'_> {
    fn can_fire(&self, at: usize) -> bool {
        let (place, state) = (&self.net.places[at], &self.body.places[at]);
        let is_available = |kind: &Arc<str>| self.kinds.contains(&**kind);
        match &place.join {
            Join::Meeting { needs_all: false } => place.accepts.iter().any(is_available),
            Join::Meeting { needs_all: true } => {
                let mut held = held_meetings(self.body).filter(|(_, place, _)| *place as usize == at);
                place.accepts.iter().all(is_available)
                    || held.any(|(_, place, held)| missing_kinds(self.net, place, held).all(is_available))
            }
            Join::None => place.accepts.iter().any(is_available),
            Join::All | Join::Merged => {
                place.accepts.iter().zip(&state.held).all(|(kind, held)| !held.is_empty() || is_available(kind))
            }
            Join::FanOut => self.joins.contains(&(at as u32)) || place.accepts.iter().any(is_available),
            Join::Each { needs, .. } => {
                needs.iter().all(is_available)
                    || state
                        .sets
                        .values()
                        .any(|set| needs.iter().zip(set).all(|(need, held)| !held.is_empty() || is_available(need)))
            }
        }
    }

    fn close_fan_out(&mut self, made_by: Option<u32>) {
        let own = made_by.and_then(|at| self.net.places.get(at as usize)?.fan_out_joins.as_ref());
        match own {
            Some(joins) => self.joins.extend(joins),
            None => self.joins.extend(0..self.net.places.len() as u32),
        }
    }
}
