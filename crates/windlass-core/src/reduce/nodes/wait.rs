//! Waits for time, a signal or mail. A wait occupies an entry in the state and nothing else.
//!
//! | state | enter | signal | mail | alarm | close |
//! |---|---|---|---|---|---|
//! | new | waiting; ended if what it waits for is there; failed if an expression fails | – | – | – | ended |
//! | waiting for time | – | – | – | ended | ended |
//! | waiting for a signal | – | ended with its payload | – | timed out | ended |
//! | waiting for mail | – | – | ended with all mail there is | gives up on the other node becoming idle | ended |
//!
//! – is impossible and a fault. A wait has no children; its alarm and its index entries are removed with it.

use std::sync::Arc;

use windlass_value::{Timestamp, Value};

use crate::plan::Wait;
use crate::reduce::fault::{FaultResult, wrong_frame};
use crate::reduce::{ItemStop, Reducer};
use crate::signal_delivery::meets_requirements;
use crate::state::{ApprovalForm, FrameBody, FrameId, PendingWait, Timer, WaitFrame};
use crate::{ErrorInfo, EventKind, Status};

impl Reducer<'_> {
    pub(in crate::reduce) fn enter_wait(&mut self, id: FrameId, wait: &Wait) -> Result<(), ItemStop> {
        let scope = self.frame(id)?.scope;
        let (body, until) = match wait {
            Wait::Mail { blocks, after_idle } => return self.enter_mail(id, *blocks, after_idle.as_ref()),
            Wait::Delay(amount) => (WaitFrame::Time, Some(self.now() + self.duration(amount, scope)?)),
            Wait::Until(expression) => (WaitFrame::Time, Some(point_in_time(&self.eval(*expression, scope)?)?)),
            Wait::Signal { name, requirements, deadline, form } => {
                let requirements = requirements.map(|required| self.eval(required, scope)).transpose()?;
                let deadline = deadline.as_ref().map(|amount| self.duration(amount, scope)).transpose()?;
                let content = form
                    .map(|form| self.eval(form, scope).and_then(|asks| self.resolve_properties(asks)))
                    .transpose()?;
                let requirements = requirements.unwrap_or_default();
                let until = deadline.map(|after| self.now() + after);
                let form = content.map(|asks| self.new_form(id, asks, until)).transpose()?;
                let address = form.as_ref().map(|form| form.address.clone()).filter(|_| name.is_empty());
                let name = address.unwrap_or_else(|| name.clone());
                (WaitFrame::Signal { name, requirements, form }, until)
            }
        };
        self.publish_started(id)?;
        if let WaitFrame::Signal { name, form: Some(form), .. } = &body {
            self.publish_form(id, name, form);
        }
        let alarm = until.map(|at| self.set_timer(at.max(self.now()), Timer::Alarm(id)));
        let signal = if let WaitFrame::Signal { name, requirements, form } = &body {
            Some((name.clone(), requirements.clone(), form.is_some()))
        } else {
            None
        };
        let frame = self.frame_mut(id)?;
        frame.alarm = alarm;
        frame.body = FrameBody::Wait(body);
        match signal {
            Some((name, _, true)) => self.state.waits.entry(name).or_default().push_back(id),
            Some((name, requirements, false)) => self.wait_for_signal(id, name, &requirements)?,
            None => {}
        }
        Ok(())
    }

    /// Loads properties of the form that are stored elsewhere.
    fn resolve_properties(&self, content: Value) -> Result<Value, ItemStop> {
        let asks = self.resolve(&content)?;
        let Some(map) = asks.as_map() else { return Ok(asks) };
        let parts = map.iter().map(|(name, part)| Ok((name.clone(), self.resolve(part)?)));
        Ok(Value::object(parts.collect::<Result<Vec<_>, ItemStop>>()?))
    }

    /// Creates the form. Its content must be small enough for lists of the forms of all runs.
    fn new_form(
        &mut self,
        id: FrameId,
        content: Value,
        deadline: Option<Timestamp>,
    ) -> Result<Box<ApprovalForm>, ItemStop> {
        let max_bytes = self.program.limits.max_inline_bytes;
        if content.size_up_to(max_bytes) > max_bytes {
            let message = format!("the form has more than {max_bytes} bytes");
            let hint = "refer to the data instead of including all of it";
            return Err(ErrorInfo::new("FormTooLarge", "expression", message).hint(hint).into());
        }
        let path = self.path(id);
        let address = match self.entered_before(id)? {
            None => path,
            Some(generation) => format!("{path}#{generation}").into(),
        };
        Ok(Box::new(ApprovalForm { address, content, since: self.now(), deadline }))
    }

    fn publish_form(&mut self, id: FrameId, name: &Arc<str>, form: &ApprovalForm) {
        self.state.forms.open.insert(id);
        self.state.forms.changes += 1;
        let (name, address, deadline) = (name.clone(), form.address.clone(), form.deadline);
        self.publish_at(id, EventKind::ApprovalRequested { name, address, form: form.content.clone(), deadline });
    }

    pub(super) fn wait_for_signal(&mut self, id: FrameId, name: Arc<str>, requirements: &Value) -> FaultResult {
        let buffered = self.state.signals.get_mut(&name).and_then(|kept| {
            let at = kept.iter().position(|payload| meets_requirements(payload, requirements))?;
            kept.remove(at)
        });
        if self.state.signals.get(&name).is_some_and(|kept| kept.is_empty()) {
            self.state.signals.remove(&name);
        }
        match buffered {
            Some(payload) => self.signal_received(id, payload)?,
            None => self.state.waits.entry(name).or_default().push_back(id),
        }
        Ok(())
    }

    /// Ends the wait with a signal's payload. It leaves the indexes now, even if its end must be evaluated first.
    pub(in crate::reduce) fn signal_received(&mut self, id: FrameId, payload: Value) -> FaultResult {
        match &self.frame(id)?.body {
            FrameBody::Pipeline(body) if matches!(body.pending_wait.as_deref(), Some(PendingWait::Event { .. })) => {
                return self.resolve_wait(id, payload, None);
            }
            FrameBody::Wait(WaitFrame::Signal { .. }) => {}
            other @ (FrameBody::New
            | FrameBody::Backoff
            | FrameBody::Pipeline(_)
            | FrameBody::Graph(_)
            | FrameBody::Branch { .. }
            | FrameBody::Loop(_)
            | FrameBody::Net(_)
            | FrameBody::Wait(WaitFrame::Time | WaitFrame::Mail(_))
            | FrameBody::Call { .. }) => return Err(wrong_frame(id, "a wait for an event", other)),
        }
        self.clear_alarm(id)?;
        let body = self.frame(id)?.body.clone();
        self.remove_from_indexes(id, &body)?;
        self.end_with(id, Status::Succeeded, payload, None)
    }

    pub(in crate::reduce) fn wait_alarm(&mut self, id: FrameId) -> FaultResult {
        let wait = match &self.frame(id)?.body {
            FrameBody::Wait(wait) => wait,
            other => return Err(wrong_frame(id, "a wait", other)),
        };
        match wait {
            WaitFrame::Time => self.end_with(id, Status::Succeeded, Value::Null, None),
            WaitFrame::Signal { name, form, .. } => {
                let (message, hint) = match form {
                    None => (format!("`{name}` was not received in time"), "send it with `windlass signal RUN NAME`"),
                    Some(_) => {
                        (format!("`{name}` was not answered in time"), "answer with `windlass approve RUN NAME`")
                    }
                };
                let error = ErrorInfo::new("WaitTimedOut", "timeout", message).hint(hint);
                self.end_with(id, Status::TimedOut, Value::Null, Some(error))
            }
            WaitFrame::Mail(wait) => self.idle_wait_expired(id, *wait),
        }
    }

    pub(super) fn forget_wait(&mut self, id: FrameId, name: &str) {
        if let Some(waiting) = self.state.waits.get_mut(name) {
            waiting.retain(|frame| *frame != id);
            if waiting.is_empty() {
                self.state.waits.remove(name);
            }
        }
    }

    /// Removes the entries of a frame that ends from the state's indexes.
    pub(in crate::reduce) fn remove_from_indexes(&mut self, id: FrameId, body: &FrameBody) -> FaultResult {
        match body {
            FrameBody::Wait(WaitFrame::Signal { name, .. }) => {
                self.forget_wait(id, name);
                if self.state.forms.open.remove(&id) {
                    self.state.forms.changes += 1;
                }
            }
            FrameBody::Wait(WaitFrame::Mail(wait)) => self.forget_mail_wait(id, *wait),
            FrameBody::Call { call } => {
                self.state.calls.remove(call);
            }
            FrameBody::Net(_) => self.state.nets.retain(|frame| *frame != id),
            FrameBody::Loop(looping) => {
                if let Some(key) = looping.time_key {
                    self.state.timers.remove(&key);
                }
            }
            FrameBody::Pipeline(pipeline) => {
                self.forget_pending_wait(id, pipeline.pending_wait.as_deref());
                self.state.waiting_for_budget.retain(|frame| *frame != id);
                if let Some(job) = pipeline.job {
                    self.close_job(job)?;
                }
            }
            FrameBody::New
            | FrameBody::Backoff
            | FrameBody::Graph(_)
            | FrameBody::Branch { .. }
            | FrameBody::Wait(WaitFrame::Time) => {}
        }
        Ok(())
    }
}

/// Parses a point in time: epoch milliseconds, or RFC 3339 text.
fn point_in_time(value: &Value) -> Result<Timestamp, ErrorInfo> {
    let parsed = match value {
        Value::Int(ms) => ms.checked_mul(1_000).map(Timestamp),
        Value::Str(text) => Timestamp::parse_rfc3339(text),
        _ => None,
    };
    parsed.ok_or_else(|| {
        ErrorInfo::new("BadTimestamp", "expression", format!("{value:?} is not a point in time"))
            .hint("write it as 2026-11-15T09:30:00Z")
    })
}
