//! Fan-outs: a body that returns a list opens one. Everything that results from its members counts as its open work.
//! At zero it closes, and the joins that it closes into fire.
//!
//! | fan-out | work begins | work is done |
//! |---|---|---|
//! | open | one piece more | one piece less; at zero closed, and one piece less of the fan-out around it |
//! | closed, or its net has ended | ignored | ignored |
//!
//! Less open work than none is impossible and a fault. *Ignored* is legitimate: tokens may outlive the fan-out they
//! come from.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use windlass_value::Value;

use super::joins::max_handled;
use crate::plan::{Join, Net};
use crate::reduce::Reducer;
use crate::reduce::fault::{FaultResult, miscounted, no_part};
use crate::state::{FanOut, Firing, FrameId, NetFrame, NetToken};

impl Reducer<'_> {
    /// Opens a fan-out and returns the lineage of its members. The fan-out itself is open work until all members have
    /// been delivered.
    pub(super) fn open_fan_out(&mut self, id: FrameId, net: &Net, firing: &Firing) -> FaultResult<Vec<u64>> {
        let mut inner = firing.lineage.clone();
        let body = self.net_frame_mut(id)?;
        let fan = body.next_fan_out;
        body.next_fan_out += 1;
        let tracks_place = net.publishes_slots || net.places[firing.place as usize].fan_out_joins.is_some();
        let opened = FanOut {
            open: 1,
            parent: firing.lineage.clone(),
            place: tracks_place.then_some(firing.place),
            order: firing.order.clone(),
            handled: firing.handled.clone(),
            ..FanOut::default()
        };
        body.fan_outs.insert(fan, opened);
        open_work(body, &firing.lineage);
        inner.push(fan);
        Ok(inner)
    }

    /// Completes one piece of a fan-out's work; at zero the fan-out closes and completes one piece of the one around
    /// it.
    pub(super) fn work_done(&mut self, id: FrameId, lineage: &[u64]) -> FaultResult {
        let mut lineage = lineage.to_vec();
        while let Some(fan) = lineage.last() {
            // A token that ended the net has ended its fan-outs.
            let Some((net, _)) = self.net_if_open(id)? else { return Ok(()) };
            let fan_outs = &mut self.net_frame_mut(id)?.fan_outs;
            let Entry::Occupied(mut open) = fan_outs.entry(*fan) else {
                // The fan-out has already closed; the join that this piece belongs to has fired with it.
                return Ok(());
            };
            let left = open.get().open.checked_sub(1).ok_or_else(|| miscounted(id, "open work of a fan-out"))?;
            open.get_mut().open = left;
            if left > 0 {
                return Ok(());
            }
            let closed = open.remove();
            lineage = closed.parent.clone();
            self.fan_out_closed(id, net, closed)?;
        }
        Ok(())
    }

    fn fan_out_closed(&mut self, id: FrameId, net: &Net, mut closed: FanOut) -> FaultResult {
        let own = closed.place.and_then(|place| net.places[place as usize].fan_out_joins.as_ref());
        let joins: Vec<u32> = match own {
            Some(joins) => joins.clone(),
            None => {
                let joins = net.places.iter().enumerate().filter(|(_, place)| place.join == Join::FanOut);
                let (all, met) = (closed.members.is_empty(), &closed.members);
                joins.map(|(at, _)| at as u32).filter(|at| all || met.contains_key(at)).collect()
            }
        };
        for at in joins {
            let place = net.places.get(at as usize).ok_or_else(|| no_part(id, "place", at.into()))?;
            let mut members = closed.members.remove(&at).unwrap_or_default();
            // Members that come from the same member, or have no order, stay in order of arrival.
            members.sort_by_key(|member| member.at);
            let handled = members.iter().fold(closed.handled.clone(), |all, member| max_handled(all, &member.handled));
            let from = members.iter().flat_map(|member| member.from.iter().copied()).collect();
            let token = NetToken {
                kind: place.accepts.first().cloned().unwrap_or_default(),
                payload: Value::list(members.into_iter().map(|member| member.payload).collect()),
                lineage: closed.parent.clone(),
                order: closed.order.clone(),
                from,
                handled,
                to: None,
                regions: BTreeMap::new(),
            };
            open_work(self.net_frame_mut(id)?, &closed.parent);
            self.enqueue(id, net, at as usize, token)?;
        }
        Ok(())
    }
}

pub(super) fn open_work(body: &mut NetFrame, lineage: &[u64]) {
    if let Some(fan) = lineage.last().and_then(|fan| body.fan_outs.get_mut(fan)) {
        fan.open += 1;
    }
}

/// Returns the member order of a token that a body returns: the body's position in each of its fan-outs, then `index`,
/// the token's position in the fan-out that the body opens.
pub(super) fn member_order(firing: &Firing, index: u64) -> Vec<u64> {
    let mut order = firing.order.clone();
    order.resize(firing.lineage.len(), 0);
    order.push(index);
    order
}
