//! Waits for mail: how they begin, what they return, and how they end when no sender is left.
//!
//! | wait | the other becomes idle or ends | alarm | mail arrives | nothing else proceeds | close |
//! |---|---|---|---|---|---|
//! | new, and waits for another node to become idle | – | – | – | – | ended |
//! | new | – | – | ended with the mail there is; else blocked, or ended with none | – | ended |
//! | waiting for idle | as new | as new, and an event reports it | waiting for idle | as new | ended |
//! | blocked | – | – | ended with all mail there is | ended with none | ended |
//! | ended | ignored | – | ignored | – | ignored |
//!
//! – is impossible and a fault. *Ignored* is legitimate: ending one wait of a list may end others of it.

use std::sync::Arc;

use windlass_value::{Duration, Value};

use super::text_property;
use crate::reduce::fault::{FaultResult, no_frame, no_part, wrong_frame};
use crate::reduce::{ItemStop, Reducer};
use crate::state::{FrameBody, FrameId, MailWait, MailboxFrame, Phase, Timer, WaitFrame};
use crate::{ErrorInfo, EventKind, Status};

/// The expectation named in faults about a wait for mail.
const A_MAIL_WAIT: &str = "a wait for mail";

impl Reducer<'_> {
    pub(in crate::reduce::nodes) fn enter_mail(
        &mut self,
        id: FrameId,
        blocks: bool,
        after_idle: Option<&(Arc<str>, Duration)>,
    ) -> Result<(), ItemStop> {
        let owner = self.mailbox_around(id).ok_or_else(|| {
            let message = "it waits for mail, but neither it nor an enclosing node has a mailbox";
            ErrorInfo::new("NoMailbox", "mail", message)
        })?;
        self.publish_started(id)?;
        self.state.mail.waits += 1;
        let number = self.state.mail.waits;
        let busy_target = after_idle.and_then(|(address, time)| Some((self.busy_owner_at(address, owner)?, *time)));
        let wait = MailWait { number, owner, blocks, idle_target: busy_target.map(|(other, _)| other) };
        self.set_mail_wait(id, wait)?;
        let Some((other, time)) = busy_target else {
            self.take_mail(id, wait)?;
            return Ok(());
        };
        let alarm = self.set_timer(self.now() + time, Timer::Alarm(id));
        self.frame_mut(id)?.alarm = Some(alarm);
        self.state.mail.waiting_for_idle.insert(number, id);
        self.mailbox_mut(other)?.idle_waiters.push_back(id);
        Ok(())
    }

    fn set_mail_wait(&mut self, id: FrameId, wait: MailWait) -> FaultResult {
        self.frame_mut(id)?.body = FrameBody::Wait(WaitFrame::Mail(wait));
        Ok(())
    }

    /// Returns the wait, unless it has already ended: ending one wait of a list may have ended others of it.
    fn mail_wait_if_live(&self, id: FrameId) -> FaultResult<Option<MailWait>> {
        let Some(frame) = self.frame_if_live(id) else { return Ok(None) };
        match &frame.body {
            FrameBody::Wait(WaitFrame::Mail(wait)) => Ok(Some(*wait)),
            other @ (FrameBody::New
            | FrameBody::Backoff
            | FrameBody::Pipeline(_)
            | FrameBody::Graph(_)
            | FrameBody::Branch { .. }
            | FrameBody::Loop(_)
            | FrameBody::Net(_)
            | FrameBody::Wait(WaitFrame::Time | WaitFrame::Signal { .. })
            | FrameBody::Call { .. }) => Err(wrong_frame(id, A_MAIL_WAIT, other)),
        }
    }

    /// Returns the mailbox of a live node that has one.
    pub(super) fn mailbox_mut(&mut self, owner: FrameId) -> FaultResult<&mut MailboxFrame> {
        self.state.mail.boxes.get_mut(&owner).ok_or_else(|| no_part(owner, "mailbox", 0))
    }

    /// Returns the live owner of this address if it is not idle. A node does not wait for itself.
    fn busy_owner_at(&self, address: &str, owner: FrameId) -> Option<FrameId> {
        let other = self.live_owner_at(address).filter(|other| *other != owner)?;
        self.state.mail.boxes.get(&other).filter(|open| !open.is_idle()).map(|_| other)
    }

    /// Continues a wait whose target is idle, has ended, or is no longer waited for.
    pub(super) fn idle_reached(&mut self, id: FrameId) -> FaultResult {
        let Some(wait) = self.mail_wait_if_live(id)? else { return Ok(()) };
        self.clear_alarm(id)?;
        self.forget_mail_wait(id, wait);
        let wait = MailWait { idle_target: None, ..wait };
        self.set_mail_wait(id, wait)?;
        self.take_mail(id, wait)
    }

    /// Handles the expiry of the time in which the other node should have become idle.
    pub(in crate::reduce::nodes) fn idle_wait_expired(&mut self, id: FrameId, wait: MailWait) -> FaultResult {
        if let Some(other) = wait.idle_target {
            let to = self.address_of(other);
            self.publish_at(id, EventKind::MailHoldTimeout { to });
        }
        self.idle_reached(id)
    }

    /// Takes all mail there is, or waits for the next.
    fn take_mail(&mut self, id: FrameId, wait: MailWait) -> FaultResult {
        let max_wakes = self.max_wakes(wait.owner);
        // The owner is around the wait, or is the wait: its mailbox is open as long as the wait lives.
        let open = self.mailbox_mut(wait.owner)?;
        if !open.waiting.is_empty() {
            return self.deliver_to_reader(id, wait.owner);
        }
        // A reader that will get no more mail need not wait for it.
        if !wait.blocks || open.wakes >= max_wakes {
            return self.finish_mail_wait(id, wait, Vec::new());
        }
        open.readers.push_back(id);
        self.state.mail.blocked.insert(wait.number, id);
        self.mailbox_idle(wait.owner)
    }

    /// Returns the maximum number of mail deliveries.
    pub(super) fn max_wakes(&self, owner: FrameId) -> u64 {
        let frame = self.state.frames.get(owner);
        frame.and_then(|frame| self.program.node(frame.node).mailbox.as_ref()).map_or(0, |mailbox| mailbox.wakes)
    }

    fn mailbox_idle(&mut self, owner: FrameId) -> FaultResult {
        let waiters = std::mem::take(&mut self.mailbox_mut(owner)?.idle_waiters);
        waiters.into_iter().try_for_each(|settler| self.idle_reached(settler))
    }

    /// Delivers mail to the readers that wait for it. Returns true if there is new work.
    pub(in crate::reduce) fn deliver_ready_mail(&mut self) -> FaultResult<bool> {
        if self.state.paused || self.state.mail.ready.is_empty() {
            return Ok(false);
        }
        for owner in std::mem::take(&mut self.state.mail.ready) {
            // A reader that got mail before may have ended this one.
            let Some(open) = self.state.mail.boxes.get_mut(&owner) else { continue };
            if let Some(reader) = open.readers.front().copied().filter(|_| !open.waiting.is_empty()) {
                self.deliver_to_reader(reader, owner)?;
            }
            if self.state.mail.boxes.get(&owner).is_some_and(MailboxFrame::is_idle) {
                self.mailbox_idle(owner)?;
            }
        }
        Ok(true)
    }

    /// Delivers all waiting mail. Mail that an earlier attempt already got is published as such and does not count as a
    /// delivery.
    fn deliver_to_reader(&mut self, id: FrameId, owner: FrameId) -> FaultResult {
        let Some(wait) = self.mail_wait_if_live(id)? else { return Ok(()) };
        let max_wakes = self.max_wakes(owner);
        let has_retry = self.state.frames.get(owner).is_some_and(|frame| self.program.node(frame.node).retry.is_some());
        let open = self.mailbox_mut(owner)?;
        let mails: Vec<Value> = std::mem::take(&mut open.waiting).into();
        if has_retry {
            open.delivered.extend(mails.iter().cloned());
        }
        let (old, new) = mails.split_at(mails.len().min(std::mem::take(&mut open.redelivered) as usize));
        open.wakes += u64::from(!new.is_empty());
        let (address, wakes) = (open.address.clone(), open.wakes);
        for (mails, again) in [(old, true), (new, false)] {
            if !mails.is_empty() {
                let ids = mails.iter().map(|mail| text_property(mail, "id")).collect();
                self.publish(address.clone(), EventKind::MessageDelivered { to: address.clone(), ids, again });
            }
        }
        // Published once, when four fifths are used up.
        if wakes == max_wakes - max_wakes / 5 && !new.is_empty() {
            self.publish(address.clone(), EventKind::MailWakesWarning { to: address.clone(), wakes, max: max_wakes });
        }
        self.finish_mail_wait(id, wait, mails)
    }

    /// Ends the wait. It leaves the indexes now, even if its end must be evaluated first.
    fn finish_mail_wait(&mut self, id: FrameId, wait: MailWait, mails: Vec<Value>) -> FaultResult {
        self.forget_mail_wait(id, wait);
        self.end_with(id, Status::Succeeded, Value::list(mails), None)
    }

    pub(in crate::reduce::nodes) fn forget_mail_wait(&mut self, id: FrameId, wait: MailWait) {
        self.state.mail.waiting_for_idle.remove(&wait.number);
        self.state.mail.blocked.remove(&wait.number);
        // A wait that owns its mailbox closes it before it leaves the indexes; the other node may have ended.
        if let Some(open) = self.state.mail.boxes.get_mut(&wait.owner) {
            open.readers.retain(|other| *other != id);
        }
        if let Some(open) = wait.idle_target.and_then(|other| self.state.mail.boxes.get_mut(&other)) {
            open.idle_waiters.retain(|other| *other != id);
        }
    }

    /// Ends a wait that can never get mail, because nothing in the run proceeds and a client outside could only send
    /// mail. The oldest wait for another node to become idle continues; if there is none, the oldest wait for mail ends
    /// without any. The consequences may help the others. Returns true if there is new work.
    pub(in crate::reduce) fn end_hopeless_mail_wait(&mut self) -> FaultResult<bool> {
        let mail = &self.state.mail;
        let oldest = mail.waiting_for_idle.first_key_value().or(mail.blocked.first_key_value());
        let Some(id) = oldest.map(|(_, id)| *id) else { return Ok(false) };
        let halted = self.state.agenda.is_empty() && !self.state.paused && self.state.phase == Phase::Running;
        if !halted || self.state.moves_without_mail() || !self.state.waits.is_empty() {
            return Ok(false);
        }
        if self.kinds_from_outside().next().is_some() {
            return Ok(false);
        }
        // A wait leaves the indexes when it ends.
        let wait = self.mail_wait_if_live(id)?.ok_or_else(|| no_frame(id, A_MAIL_WAIT))?;
        match wait.idle_target {
            Some(_) => self.idle_reached(id)?,
            None => self.finish_mail_wait(id, wait, Vec::new())?,
        }
        Ok(true)
    }
}
