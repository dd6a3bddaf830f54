//! Slots of a place: which bodies hold one, which have given theirs up while they wait, and which need one to resume.
//!
//! | body | yield slot | request slot | a slot is free | ends |
//! |---|---|---|---|---|
//! | running | suspended: its slot is free | resumes | – | its slot is free |
//! | suspended | suspended | awaiting slot | – | gone |
//! | awaiting slot | awaiting slot | awaiting slot | running, and resumes | gone, also from the slot queue |
//! | ended, its end on the agenda | – | – | no longer needs one | gone |
//!
//! – is impossible and a fault. A body of a place without `yields_slot` is always running.

use std::sync::Arc;

use crate::plan::Net;
use crate::reduce::Reducer;
use crate::reduce::fault::{FaultResult, miscounted, no_part, wrong_frame};
use crate::state::{AgendaItem, Firing, FrameBody, FrameId, NetFrame, PlaceFrame, SlotState};
use crate::{EventKind, IdleReason};

impl Reducer<'_> {
    /// Gives up the slot and the worker of a place's body that waits from now on; its wait has been recorded. Another
    /// body may use them.
    pub(in crate::reduce) fn yield_slot(&mut self, id: FrameId) -> FaultResult {
        let (net, slot) = match self.slot_of(id)? {
            Some((net, slot, SlotState::Running)) => (net, slot),
            // It has no slot to give up.
            Some((_, _, SlotState::Suspended | SlotState::AwaitingSlot)) | None => return Ok(()),
        };
        if matches!(self.frame(id)?.body, FrameBody::Pipeline(_)) {
            self.return_worker(id)?;
        }
        let body = self.net_frame_mut(net)?;
        let firing = body.firings.get_mut(&slot).ok_or_else(|| no_part(net, "firing", slot))?;
        let (worker, place) = (firing.worker.take(), firing.place);
        firing.slot_state = SlotState::Suspended;
        let place = body.places.get_mut(place as usize).ok_or_else(|| no_part(net, "place", place.into()))?;
        if !place.free_slot(worker) {
            return Err(miscounted(net, "running bodies of a place"));
        }
        if let Some(worker) = worker {
            let reason = self.suspend_reason(id)?;
            self.publish_slot(id, EventKind::StepIdle { reason, worker: Some(worker), firing: Some(slot) })?;
        }
        self.schedule_fire(net);
        Ok(())
    }

    /// Continues a frame whose wait is over. A suspended body of a place needs a slot first; it precedes the tokens in
    /// the queue.
    pub(in crate::reduce) fn request_slot(&mut self, id: FrameId) -> FaultResult {
        let (net, slot) = match self.slot_of(id)? {
            None | Some((_, _, SlotState::Running)) => return self.schedule_resume(id),
            Some((_, _, SlotState::AwaitingSlot)) => return Ok(()),
            Some((net, slot, SlotState::Suspended)) => (net, slot),
        };
        let body = self.net_frame_mut(net)?;
        let firing = body.firings.get_mut(&slot).ok_or_else(|| no_part(net, "firing", slot))?;
        firing.slot_state = SlotState::AwaitingSlot;
        let place = body.places.get_mut(firing.place as usize);
        place.ok_or_else(|| no_part(net, "place", firing.place.into()))?.awaiting_slot.push_back(slot);
        self.schedule_fire(net);
        Ok(())
    }

    /// Gives a free slot to the first of the bodies that wait for one.
    pub(super) fn resume_with_slot(&mut self, id: FrameId, net: &Net, at: usize) -> FaultResult {
        let NetFrame { places, firings, .. } = self.net_frame_mut(id)?;
        let slot = places[at].awaiting_slot.pop_front();
        let slot = slot.ok_or_else(|| no_part(id, "body that waits to resume at place", at as u64))?;
        let firing = firings.get(&slot).ok_or_else(|| no_part(id, "firing", slot))?;
        let frame = firing.frame;
        // The body has already ended without a slot, and the item that removes it is still on the agenda.
        if self.state.frames.get(frame).is_none() {
            return Ok(());
        }
        let NetFrame { places, firings, .. } = self.net_frame_mut(id)?;
        let firing = firings.get_mut(&slot).ok_or_else(|| no_part(id, "firing", slot))?;
        firing.slot_state = SlotState::Running;
        firing.worker = places[at].take_slot(net.publishes_slots);
        let worker = firing.worker;
        if let Some(worker) = worker {
            self.publish_slot(frame, EventKind::StepRunning { worker, firing: slot })?;
        }
        self.schedule_resume(frame)
    }

    fn schedule_resume(&mut self, id: FrameId) -> FaultResult {
        let is_new = matches!(self.frame(id)?.body, FrameBody::New);
        self.state.agenda.push_back(if is_new { AgendaItem::Enter(id) } else { AgendaItem::Task(id) });
        Ok(())
    }

    /// Returns the net, the slot and the slot state of a body whose place has `yields_slot`. None: it is no such body,
    /// or its net is being cancelled.
    fn slot_of(&self, id: FrameId) -> FaultResult<Option<(FrameId, u64, SlotState)>> {
        let frame = self.frame(id)?;
        let Some(above) = frame.parent else { return Ok(None) };
        let parent = self.frame(above)?;
        if parent.closing.is_some() || !matches!(parent.body, FrameBody::Net(_)) {
            return Ok(None);
        }
        let (net, body) = self.net_frame(above)?;
        let firing = body.firings.get(&frame.slot).ok_or_else(|| no_part(above, "firing", frame.slot))?;
        let place = net.places.get(firing.place as usize);
        let place = place.ok_or_else(|| no_part(above, "place", firing.place.into()))?;
        Ok(place.yields_slot.then_some((above, frame.slot, firing.slot_state)))
    }

    fn suspend_reason(&self, id: FrameId) -> FaultResult<IdleReason> {
        match &self.frame(id)?.body {
            FrameBody::Pipeline(body) if body.pending_wait.is_some() || body.next_call_input.is_some() => {
                Ok(IdleReason::Wait)
            }
            FrameBody::Pipeline(_) | FrameBody::Backoff => Ok(IdleReason::Retry),
            other @ (FrameBody::New
            | FrameBody::Graph(_)
            | FrameBody::Branch { .. }
            | FrameBody::Loop(_)
            | FrameBody::Net(_)
            | FrameBody::Wait(_)
            | FrameBody::Call { .. }) => Err(wrong_frame(id, "a body that waits", other)),
        }
    }

    fn publish_slot(&mut self, id: FrameId, kind: EventKind) -> FaultResult {
        if !self.frame(id)?.quiet {
            self.publish_at(id, kind);
        }
        Ok(())
    }

    /// Publishes a queued token. `waiting`: how many wait for a slot there, this one included.
    pub(super) fn publish_queued(
        &mut self,
        id: FrameId,
        net: &Net,
        at: usize,
        kind: Arc<str>,
        waiting: usize,
    ) -> FaultResult {
        if !self.frame(id)?.quiet {
            let path = self.child_path(id, net.places[at].body);
            self.publish(path, EventKind::StepQueued { event: kind, waiting: waiting as u64 });
        }
        Ok(())
    }
}

impl PlaceFrame {
    /// Takes a slot for one more body and returns the smallest unused number. If `free` is empty, that is `running`:
    /// the numbers in use and those in `free` together are always 0, 1, 2, … without a gap.
    pub(super) fn take_slot(&mut self, numbered: bool) -> Option<u32> {
        let number = numbered.then(|| self.free.pop_first().unwrap_or(self.running));
        self.running += 1;
        number
    }

    /// Returns a slot. False: no body was running.
    #[must_use]
    fn free_slot(&mut self, number: Option<u32>) -> bool {
        let Some(running) = self.running.checked_sub(1) else { return false };
        self.running = running;
        self.free.extend(number);
        if self.running == 0 {
            self.free.clear();
        }
        true
    }

    /// Removes a body that has ended, whatever its slot state. False: it should have had a slot, and no body was
    /// running.
    #[must_use]
    pub(super) fn body_removed(&mut self, slot: u64, firing: &Firing) -> bool {
        match firing.slot_state {
            SlotState::Running => return self.free_slot(firing.worker),
            SlotState::Suspended => {}
            SlotState::AwaitingSlot => self.awaiting_slot.retain(|other| *other != slot),
        }
        true
    }
}
