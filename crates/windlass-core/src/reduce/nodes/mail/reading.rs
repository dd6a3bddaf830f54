//! Waits for mail: when they begin, what they bring, and what is done when nobody is left who could write.
//!
//! | wait | the other rests or ends | alarm | mail comes | nothing else moves | close |
//! |---|---|---|---|---|---|
//! | new, and lets another come to rest | – | – | – | – | ended |
//! | new | – | – | ended with what there is; else blocked, or ended with nothing | – | ended |
//! | settling (lets another come to rest) | as new | as new, and an event tells of it | settling | as new | ended |
//! | blocked | – | – | ended with all that is there | ended with nothing | ended |
//! | ended | ignored | – | ignored | – | ignored |
//!
//! – is impossible and a fault. *Ignored* is legitimate: whoever lets several waits go on may end some of them with others.

use std::sync::Arc;

use windlass_value::{Duration, Value};

use super::text_property;
use crate::reduce::fault::{FaultResult, no_frame, no_part, wrong_frame};
use crate::reduce::{ItemStop, Reducer};
use crate::state::{FrameBody, FrameId, MailWait, MailboxFrame, Phase, Timer, WaitFrame};
use crate::{ErrorInfo, EventKind, Status};

/// What an access to a wait for mail expects.
const A_MAIL_WAIT: &str = "a wait for mail";

impl Reducer<'_> {
    pub(in crate::reduce::nodes) fn enter_mail(
        &mut self,
        id: FrameId,
        blocks: bool,
        after_idle: Option<&(Arc<str>, Duration)>,
    ) -> Result<(), ItemStop> {
        let owner = self.mailbox_around(id).ok_or_else(|| {
            let message = "it waits for mail, and nothing around it has a mailbox";
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

    /// The wait, unless it has already ended: those who let one go on may have ended others of their list.
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

    /// The mailbox of a node that is alive and has one.
    pub(super) fn mailbox_mut(&mut self, owner: FrameId) -> FaultResult<&mut MailboxFrame> {
        self.state.mail.boxes.get_mut(&owner).ok_or_else(|| no_part(owner, "mailbox", 0))
    }

    /// Whoever is alive at this address and has something left to do. Nobody waits for himself.
    fn busy_owner_at(&self, address: &str, owner: FrameId) -> Option<FrameId> {
        let other = self.live_owner_at(address).filter(|other| *other != owner)?;
        self.state.mail.boxes.get(&other).filter(|open| !open.is_idle()).map(|_| other)
    }

    /// The other has come to rest, or is gone, or is waited for no longer.
    pub(super) fn idle_reached(&mut self, id: FrameId) -> FaultResult {
        let Some(wait) = self.mail_wait_if_live(id)? else { return Ok(()) };
        self.clear_alarm(id)?;
        self.forget_mail_wait(id, wait);
        let wait = MailWait { idle_target: None, ..wait };
        self.set_mail_wait(id, wait)?;
        self.take_mail(id, wait)
    }

    /// The time in which the other should have come to rest is over.
    pub(in crate::reduce::nodes) fn idle_wait_expired(&mut self, id: FrameId, wait: MailWait) -> FaultResult {
        if let Some(other) = wait.idle_target {
            let to = self.address_of(other);
            self.publish_at(id, EventKind::MailHoldTimeout { to });
        }
        self.idle_reached(id)
    }

    /// All that is there, or whatever comes next.
    fn take_mail(&mut self, id: FrameId, wait: MailWait) -> FaultResult {
        let max_wakes = self.max_wakes(wait.owner);
        // The owner is around the wait, or is the wait: its mailbox is open as long as the wait lives.
        let open = self.mailbox_mut(wait.owner)?;
        if !open.waiting.is_empty() {
            return self.deliver_to_reader(id, wait.owner);
        }
        // Who will be given no more mail need not wait for it.
        if !wait.blocks || open.wakes >= max_wakes {
            return self.finish_mail_wait(id, wait, Vec::new());
        }
        open.readers.push_back(id);
        self.state.mail.blocked.insert(wait.number, id);
        self.mailbox_idle(wait.owner)
    }

    /// How often it may be given mail.
    pub(super) fn max_wakes(&self, owner: FrameId) -> u64 {
        let frame = self.state.frames.get(owner);
        frame.and_then(|frame| self.program.node(frame.node).mailbox.as_ref()).map_or(0, |mailbox| mailbox.wakes)
    }

    fn mailbox_idle(&mut self, owner: FrameId) -> FaultResult {
        let waiters = std::mem::take(&mut self.mailbox_mut(owner)?.idle_waiters);
        waiters.into_iter().try_for_each(|settler| self.idle_reached(settler))
    }

    /// Whoever waits for mail that has come is given it. True: there is something to do again.
    pub(in crate::reduce) fn deliver_ready_mail(&mut self) -> FaultResult<bool> {
        if self.state.paused || self.state.mail.ready.is_empty() {
            return Ok(false);
        }
        for owner in std::mem::take(&mut self.state.mail.ready) {
            // What one of the others has read may have ended this one.
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

    /// All that waits. What an earlier try was given already is told of as such, and counts for nothing.
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
        // Once, when four fifths are used up.
        if wakes == max_wakes - max_wakes / 5 && !new.is_empty() {
            self.publish(address.clone(), EventKind::MailWakesWarning { to: address.clone(), wakes, max: max_wakes });
        }
        self.finish_mail_wait(id, wait, mails)
    }

    /// From here on the wait is nobody's any more, even if its end has to be worked out first.
    fn finish_mail_wait(&mut self, id: FrameId, wait: MailWait, mails: Vec<Value>) -> FaultResult {
        self.forget_mail_wait(id, wait);
        self.end_with(id, Status::Succeeded, Value::list(mails), None)
    }

    pub(in crate::reduce::nodes) fn forget_mail_wait(&mut self, id: FrameId, wait: MailWait) {
        self.state.mail.waiting_for_idle.remove(&wait.number);
        self.state.mail.blocked.remove(&wait.number);
        // A wait that is its own mailbox's owner closes it before it leaves the indexes; the other may have ended.
        if let Some(open) = self.state.mail.boxes.get_mut(&wait.owner) {
            open.readers.retain(|other| *other != id);
        }
        if let Some(open) = wait.idle_target.and_then(|other| self.state.mail.boxes.get_mut(&other)) {
            open.idle_waiters.retain(|other| *other != id);
        }
    }

    /// Nothing in the run moves, nor can anybody outside move it but by writing: whoever waits for mail waits in vain. The
    /// oldest wait that lets another come to rest goes on; when there is none, the oldest wait for mail ends without any.
    /// What they then do may help the others. True: there is something to do again.
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
