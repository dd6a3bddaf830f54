//! Meetings: tokens of one fan-out that come together again. See [`crate::net_regions`] for regions and activations.
//!
//! | meeting of an activation | a token arrives | a token or body leaves | nothing in the net moves |
//! |---|---|---|---|
//! | others can still arrive | held | held | the first in the net's order meets |
//! | no other can arrive | all held tokens are one | all held tokens are one | – |
//! | the same, and a step has sent none though all must | held | held | failed: a hang |
//!
//! An activation counts, for each of its meeting places, the tokens and bodies that can still lead there, so a move
//! costs as many steps as there are regions around the place, however many tokens there were before. Fewer than none is
//! impossible and a fault, and so is an activation that the net does not have.

use std::collections::BTreeMap;

use windlass_value::Value;

use super::fan_out::open_work;
use super::joins::merge_shallow;
use crate::net_regions::NetRegions;
use crate::plan::{Join, Net};
use crate::reduce::Reducer;
use crate::reduce::fault::{FaultResult, miscounted, no_part};
use crate::state::{FrameId, NetFrame, NetToken, RegionActivation};

/// The activation of each region that a token or a body belongs to.
type RegionTags = BTreeMap<u32, u64>;

impl<'a> Reducer<'a> {
    pub(super) fn regions(&self, id: FrameId) -> FaultResult<Option<&'a NetRegions>> {
        let node = self.frame(id)?.node;
        Ok(self.program.facts(node).net_regions.as_deref())
    }

    /// Counts a token that is queued at a place in the regions around the place.
    pub(super) fn enter_regions(&mut self, id: FrameId, at: usize, token: &mut NetToken) -> FaultResult {
        self.count_in(id, at, token, TokenState::Moving)
    }

    fn count_in(&mut self, id: FrameId, at: usize, token: &mut NetToken, state: TokenState) -> FaultResult {
        let before = std::mem::take(&mut token.regions);
        let Some(regions) = self.regions(id)? else { return Ok(()) };
        let body = self.net_frame_mut(id)?;
        for region in regions.containing(at) {
            let activation = match before.get(region) {
                Some(activation) => *activation,
                // It enters the region when it goes on from its head.
                None if state == TokenState::Held && regions.is_head(*region, at) => continue,
                None => new_activation(body, *region),
            };
            let entered = body.activations.get_mut(&activation).ok_or_else(|| no_part(id, "activation", activation))?;
            entered.live += 1;
            for place in state.counted(regions, *region, at) {
                *entered.pending.entry(place).or_default() += 1;
            }
            token.regions.insert(*region, activation);
        }
        Ok(())
    }

    /// Removes a token or a body at a place from its activations. Meetings for which it was the last that could still
    /// arrive take place.
    pub(super) fn exit_regions(&mut self, id: FrameId, net: &Net, at: usize, tags: &RegionTags) -> FaultResult {
        self.count_out(id, net, at, tags, TokenState::Moving)
    }

    fn count_out(&mut self, id: FrameId, net: &Net, at: usize, tags: &RegionTags, state: TokenState) -> FaultResult {
        // A token that ended the net has ended its activations.
        if tags.is_empty() || self.net_if_open(id)?.is_none() {
            return Ok(());
        }
        let Some(regions) = self.regions(id)? else { return Ok(()) };
        let activations = &mut self.net_frame_mut(id)?.activations;
        let mut due = Vec::new();
        for (region, activation) in tags {
            let left = activations.get_mut(activation).ok_or_else(|| no_part(id, "activation", *activation))?;
            left.live = left.live.checked_sub(1).ok_or_else(|| miscounted(id, "tokens of an activation"))?;
            for place in state.counted(regions, *region, at) {
                if left.no_longer_pending(place).ok_or_else(|| miscounted(id, "tokens before a meeting"))? {
                    due.push((*activation, place));
                }
            }
            if left.live == 0 {
                activations.remove(activation);
            }
        }
        due.into_iter().try_for_each(|(activation, place)| self.meet_if_complete(id, net, activation, place))
    }

    /// Holds a token at a meeting place; it meets the others at once if none can still arrive.
    pub(super) fn hold_for_meeting(&mut self, id: FrameId, net: &Net, at: usize, mut token: NetToken) -> FaultResult {
        self.count_in(id, at, &mut token, TokenState::Held)?;
        let region = self.regions(id)?.and_then(|regions| regions.met_at(at));
        let region = region.ok_or_else(|| no_part(id, "region of place", at as u64))?;
        let activation = token.regions.get(&region).copied();
        let activation = activation.ok_or_else(|| no_part(id, "activation of region", region.into()))?;
        let body = self.net_frame_mut(id)?;
        open_work(body, &token.lineage);
        let met = body.activations.get_mut(&activation).ok_or_else(|| no_part(id, "activation", activation))?;
        met.held.entry(at as u32).or_default().push(token);
        match met.pending.contains_key(&(at as u32)) {
            true => Ok(()),
            false => self.meet_if_complete(id, net, activation, at as u32),
        }
    }

    /// Combines the held tokens of a meeting into one, unless one of the steps that must send one has not.
    fn meet_if_complete(&mut self, id: FrameId, net: &Net, activation: u64, place: u32) -> FaultResult {
        let met = self.net_frame_mut(id)?.activations.get(&activation);
        let held = met.and_then(|met| met.held.get(&place)).map(Vec::as_slice).unwrap_or_default();
        match held.is_empty() || !is_complete(net, place, held) {
            true => Ok(()),
            false => self.meet(id, net, activation, place),
        }
    }

    fn meet(&mut self, id: FrameId, net: &Net, activation: u64, place: u32) -> FaultResult {
        let met = self.net_frame_mut(id)?.activations.get_mut(&activation);
        let parts = met.and_then(|met| met.held.remove(&place));
        let mut parts = parts.ok_or_else(|| no_part(id, "held token at place", place.into()))?;
        let accepts = &net.places[place as usize].accepts;
        // In the order of the steps; tokens of one step stay in order of arrival.
        parts.sort_by_key(|token| accepts.iter().position(|kind| *kind == token.kind));
        let tags: Vec<RegionTags> = parts.iter().map(|token| token.regions.clone()).collect();
        let regions = tags.iter().rev().flatten().map(|(region, activation)| (*region, *activation)).collect();
        let first = parts.first();
        let (lineage, order) = first.map(|token| (token.lineage.clone(), token.order.clone())).unwrap_or_default();
        self.join(id, net, place as usize, parts, |parts| {
            let payload = parts.into_iter().map(|token| token.payload).fold(Value::Null, merge_shallow);
            NetToken { payload, lineage, order, regions, ..NetToken::default() }
        })?;
        tags.iter().try_for_each(|tags| self.count_out(id, net, place as usize, tags, TokenState::Held))
    }

    /// Lets the first of the meetings that wait for each other take place. Nothing in the net moves, so no other token
    /// could let them. False: no meeting has all the tokens that it needs.
    pub(super) fn release_meeting(&mut self, id: FrameId, net: &Net) -> FaultResult<bool> {
        let Some(regions) = self.regions(id)? else { return Ok(false) };
        let (_, body) = self.net_frame(id)?;
        let complete = held_meetings(body).filter(|(_, place, held)| is_complete(net, *place, held));
        let first = complete.map(|(activation, place, _)| (regions.rank(place), activation, place)).min();
        match first {
            Some((_, activation, place)) => self.meet(id, net, activation, place).map(|()| true),
            None => Ok(false),
        }
    }
}

/// Whether a token waits for a meeting at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenState {
    Moving,
    Held,
}

impl TokenState {
    /// Returns the meeting places for which a token at `at` counts as one that can still arrive: a token that is held
    /// at a meeting has arrived there.
    fn counted(self, regions: &NetRegions, region: u32, at: usize) -> impl Iterator<Item = u32> {
        let own = (self == TokenState::Held).then_some(at as u32);
        regions.reachable(region, at).iter().copied().filter(move |place| Some(*place) != own)
    }
}

impl RegionActivation {
    /// Counts one token less that can still reach a meeting place. True: it was the last. None: there was none.
    fn no_longer_pending(&mut self, place: u32) -> Option<bool> {
        let pending = self.pending.get_mut(&place)?;
        *pending = pending.checked_sub(1)?;
        let last = *pending == 0;
        if last {
            self.pending.remove(&place);
        }
        Some(last)
    }
}

/// Returns the tokens that wait for a meeting: activation, place, tokens.
pub(super) fn held_meetings(body: &NetFrame) -> impl Iterator<Item = (u64, u32, &[NetToken])> {
    let activations = body.activations.iter();
    activations.flat_map(|(number, met)| met.held.iter().map(|(place, held)| (*number, *place, held.as_slice())))
}

/// Returns the kinds that a meeting still needs.
pub(super) fn missing_kinds<'n>(
    net: &'n Net,
    place: u32,
    held: &[NetToken],
) -> impl Iterator<Item = &'n std::sync::Arc<str>> {
    let place = &net.places[place as usize];
    let needs_all = place.join == Join::Meeting { needs_all: true };
    let arrived: Vec<_> = held.iter().map(|token| token.kind.clone()).collect();
    place.accepts.iter().filter(move |kind| needs_all && !arrived.contains(*kind))
}

fn is_complete(net: &Net, place: u32, held: &[NetToken]) -> bool {
    missing_kinds(net, place, held).next().is_none()
}

fn new_activation(body: &mut NetFrame, region: u32) -> u64 {
    body.next_activation += 1;
    body.activations.insert(body.next_activation, RegionActivation { region, ..RegionActivation::default() });
    body.next_activation
}
