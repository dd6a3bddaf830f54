//! Slots of a place: who has one, who has given his away while he waits, and who wants one back.

use std::sync::Arc;

use windlass_value::Value;

use crate::plan::Net;
use crate::reduce::Reducer;
use crate::state::{Body, Firing, FrameId, Item, NetFrame, PlaceFrame, Standing};

impl Reducer<'_> {
    /// A place's body waits from here on: what it waits for has been noted. Another may have its slot, and its worker.
    pub(in crate::reduce) fn park(&mut self, id: FrameId) {
        let Some((net, slot, Standing::Running)) = self.parking(id) else { return };
        self.leave_worker(id);
        let Some(body) = self.net_mut(net) else { return };
        let Some(firing) = body.firings.get_mut(&slot) else { return };
        let (worker, place) = (firing.worker.take(), firing.place as usize);
        firing.standing = Standing::Parked;
        body.places[place].leave_slot(worker);
        if let Some(worker) = worker {
            let because = Value::from(self.why_parked(id));
            let fields = [("worker", Value::from(worker)), ("firing", Value::from(slot)), ("because", because)];
            self.tell_slot(id, "step.idle", fields);
        }
        self.settle_net(net);
    }

    /// What the frame has waited for is there. A place's body that has parked needs a slot first: it comes before those
    /// in the queue.
    pub(in crate::reduce) fn unpark(&mut self, id: FrameId) {
        let Some((net, slot, standing)) = self.parking(id).filter(|(_, _, standing)| !standing.has_slot()) else {
            return self.goes_on(id);
        };
        if standing == Standing::Returning {
            return;
        }
        if let Some(body) = self.net_mut(net)
            && let Some(firing) = body.firings.get_mut(&slot)
        {
            firing.standing = Standing::Returning;
            body.places[firing.place as usize].returning.push_back(slot);
        }
        self.settle_net(net);
    }

    /// The first of those that want to go on has a slot.
    pub(super) fn come_back(&mut self, id: FrameId, net: &Net, at: usize) {
        let Some(NetFrame { places, firings, .. }) = self.net_mut(id) else { return };
        let Some(slot) = places[at].returning.pop_front() else { return };
        let Some(firing) = firings.get_mut(&slot) else { return };
        firing.standing = Standing::Running;
        firing.worker = places[at].take_slot(net.tells_slots);
        let (frame, worker) = (firing.frame, firing.worker);
        if let Some(worker) = worker {
            let fields = [("worker", Value::from(worker)), ("firing", Value::from(slot))];
            self.tell_slot(frame, "step.running", fields);
        }
        self.goes_on(frame);
    }

    fn goes_on(&mut self, id: FrameId) {
        let anew = self.state.frames.get(id).is_some_and(|frame| matches!(frame.body, Body::New));
        self.state.agenda.push_back(if anew { Item::Enter(id) } else { Item::Task(id) });
    }

    /// The net, the slot and the standing of a body of a place that lets bodies park.
    fn parking(&self, id: FrameId) -> Option<(FrameId, u64, Standing)> {
        let frame = self.state.frames.get(id)?;
        let above = frame.parent?;
        let (net, body) = self.net_of(above)?;
        let firing = body.firings.get(&frame.slot)?;
        net.places[firing.place as usize].parks.then_some((above, frame.slot, firing.standing))
    }

    fn why_parked(&self, id: FrameId) -> &'static str {
        match self.state.frames.get(id).map(|frame| &frame.body) {
            Some(Body::Pipeline(body)) if body.awaits.is_some() || body.again.is_some() => "wait",
            _ => "retry",
        }
    }

    fn tell_slot<const N: usize>(&mut self, id: FrameId, kind: &'static str, fields: [(&'static str, Value); N]) {
        let told = |id| self.state.frames.get(id).is_some_and(|frame| !frame.quiet);
        if told(id) {
            self.publish_at(id, kind, fields);
        }
    }

    /// `waiting`: how many wait for a slot there, this one included.
    pub(super) fn tell_queued(&mut self, id: FrameId, net: &Net, at: usize, kind: Arc<str>, waiting: usize) {
        if self.state.frames.get(id).is_some_and(|frame| !frame.quiet) {
            let path = self.child_path(id, net.places[at].body);
            self.publish(path, "step.queued", [("event", Value::Str(kind)), ("waiting", Value::from(waiting))]);
        }
    }
}

impl PlaceFrame {
    /// One more body. Its number is the smallest that is free: those in use and those in `free` are all below their count.
    pub(super) fn take_slot(&mut self, numbered: bool) -> Option<u32> {
        let number = numbered.then(|| self.free.pop_first().unwrap_or(self.running));
        self.running += 1;
        number
    }

    fn leave_slot(&mut self, number: Option<u32>) {
        self.running -= 1;
        self.free.extend(number);
        if self.running == 0 {
            self.free.clear();
        }
    }

    /// A body has ended, wherever it stood.
    pub(super) fn body_gone(&mut self, slot: u64, firing: &Firing) {
        match firing.standing {
            Standing::Running => self.leave_slot(firing.worker),
            Standing::Parked => {}
            Standing::Returning => self.returning.retain(|other| *other != slot),
        }
    }
}
