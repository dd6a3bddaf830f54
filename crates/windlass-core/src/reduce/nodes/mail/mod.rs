//! Mail between nodes of a run: it is written, finds its way, lies in a mailbox, and is read.
//!
//! Whatever becomes of a mail is told once: it is delivered, or it is dropped for a reason.
//!
//! `ways`: whom an address means. `life`: mailboxes open and close. `reading`: waits for mail.
//!
//! | the receiver | mail |
//! |---|---|
//! | is alive, and its mailbox has room | lies in the mailbox |
//! | is alive, and its mailbox is full, or was emptied as often as it may be | dropped |
//! | has not begun, and is in no loop | kept until it begins; dropped if too many are kept |
//! | has ended, will never begin, is the sender, or is not the only one that could be meant | dropped |
//!
//! A live node that can be written to and has no mailbox is impossible and a fault.

mod lifecycle;
mod reading;
mod routing;

use std::sync::Arc;

use windlass_value::{Map, Value};

use crate::plan::SendMail;
use crate::reduce::eval::Locals;
use crate::reduce::fault::FaultResult;
use crate::reduce::{ItemStop, Reducer};
use crate::state::{FrameId, ScopeId};
use crate::{ErrorInfo, EventKind};
use routing::{MailRoute, Undeliverable};

/// Nobody can be written to under this address, or several can.
const UNKNOWN_STEP: &str = "unknown-step";
const MAILBOX_FULL: &str = "mailbox-full";
const MAX_WAKES: &str = "max-wake-cycles";
/// The run has ended, or this part of it.
const TARGET_TERMINAL: &str = "target-terminal";
/// The run is called off, whatever the mailbox would say.
const WORKFLOW_CANCELLED: &str = "workflow-cancelled";

/// A mail that is on its way.
struct OutgoingMail {
    id: Arc<str>,
    from: Arc<str>,
    /// What the receiver gets.
    mail: Value,
}

impl Reducer<'_> {
    /// Address and content of what a task sends; nothing has changed so far.
    pub(super) fn evaluate_mail(
        &mut self,
        post: &SendMail,
        scope: ScopeId,
        locals: Locals<'_>,
    ) -> Result<(Arc<str>, Map), ItemStop> {
        let to = self.eval_with(post.to, scope, locals)?;
        let mail = self.eval_with(post.mail, scope, locals)?;
        let (to, mail) = (self.resolve(&to)?, self.resolve(&mail)?);
        let wrong = |what: &str, value: &Value, kind: &str| {
            let message = format!("{what} must be {kind}; it is {} {value:?}", value.kind());
            ErrorInfo::new("BadMail", "mail", message)
        };
        match (&to, &mail) {
            (Value::Str(to), Value::Map(mail)) => Ok((to.clone(), Map::clone(mail))),
            (Value::Str(_), other) => Err(wrong("what is sent", other, "an object").into()),
            (other, _) => Err(wrong("the address of mail", other, "a text").into()),
        }
    }

    /// Sends what a task has written. The answer is the task's output.
    pub(super) fn post(&mut self, id: FrameId, to: &Arc<str>, mail: Map) -> FaultResult<Value> {
        let sender = self.mailbox_around(id);
        let from = sender.map_or_else(|| "".into(), |sender| self.address_of(sender));
        let path = self.path(id);
        let route = match self.route_to(to)? {
            // It could go on with that for ever.
            MailRoute::Live(owner) if Some(owner) == sender => {
                let message = format!("`{to}` is the writer: nobody writes to itself");
                MailRoute::Undeliverable(Undeliverable::new(UNKNOWN_STEP, message))
            }
            route @ (MailRoute::Live(_) | MailRoute::Early(_) | MailRoute::Undeliverable(_)) => route,
        };
        self.send(path, from, (to, route), mail)
    }

    /// Mail that somebody outside has written: `{to, text, kind?}`.
    pub(in crate::reduce) fn mail_from_outside(&mut self, payload: &Value) -> Result<(), ItemStop> {
        let payload = self.resolve(payload)?;
        let to = payload.get("to").map(|to| self.resolve(to)).transpose()?;
        let to: Arc<str> = to.as_ref().and_then(Value::as_str).unwrap_or_default().into();
        let mut mail = payload.as_map().cloned().unwrap_or_default();
        mail.remove("to");
        let route = self.route_to(&to)?;
        self.send("".into(), "".into(), (&to, route), mail)?;
        Ok(())
    }

    /// `{status: "queued", id}`, or `{status: "dropped", id, reason, message, known, wraps?}`.
    fn send(
        &mut self,
        path: Arc<str>,
        from: Arc<str>,
        (to, route): (&Arc<str>, MailRoute),
        mail: Map,
    ) -> FaultResult<Value> {
        let outgoing = self.new_mail(from, mail);
        let sent = |to: Arc<str>| EventKind::MessageSent { id: outgoing.id.clone(), from: outgoing.from.clone(), to };
        let answer = |status: &str| [("status", Value::from(status)), ("id", Value::Str(outgoing.id.clone()))];
        let rejection = match &route {
            MailRoute::Live(owner) => self.rejection(*owner),
            MailRoute::Early(node) => {
                let waiting = self.state.mail.early.get(node).map_or(0, |early| early.len() as u64);
                (waiting >= self.program.limits.max_mailbox_messages).then(|| mailbox_full(to, waiting))
            }
            MailRoute::Undeliverable(_) => None,
        };
        match rejection.map_or(route, MailRoute::Undeliverable) {
            MailRoute::Live(owner) => {
                self.publish(path, sent(self.address_of(owner)));
                self.deliver_mail(owner, outgoing.mail.clone())?;
            }
            MailRoute::Early(node) => {
                let address = self.program.addresses().display_address(node).unwrap_or(to).clone();
                self.publish(path, sent(address));
                self.state.mail.early.entry(node).or_default().push_back(outgoing.mail.clone());
            }
            MailRoute::Undeliverable(Undeliverable { reason, message, known, wraps }) => {
                let message: Arc<str> = message.into();
                let dropped = EventKind::MessageDropped {
                    id: outgoing.id.clone(),
                    from: outgoing.from.clone(),
                    to: to.clone(),
                    reason: reason.clone(),
                    message: Some(message.clone()),
                    known: Some(known.clone()),
                };
                self.publish(path, dropped);
                let known = Value::list(known.into_iter().map(Value::Str).collect());
                let why = [("reason", Value::Str(reason)), ("message", Value::Str(message)), ("known", known)];
                let wraps = wraps.then_some(("wraps", Value::Bool(true)));
                return Ok(Value::object(answer("dropped").into_iter().chain(why).chain(wraps)));
            }
        }
        Ok(Value::object(answer("queued")))
    }

    /// A number, a sender and a time for what was written. Large parts of it are kept elsewhere.
    fn new_mail(&mut self, from: Arc<str>, mail: Map) -> OutgoingMail {
        self.state.mail.numbers += 1;
        let id: Arc<str> = format!("msg-{}", self.state.mail.numbers).into();
        let mut complete: Map =
            mail.iter().map(|(name, value)| (name.clone(), self.to_reference(value.clone()))).collect();
        complete.insert("id", id.clone());
        complete.insert("from", from.clone());
        complete.insert("at", self.now().to_string());
        OutgoingMail { id, from, mail: Value::map(complete) }
    }

    /// Why a living mailbox takes no mail.
    fn rejection(&self, owner: FrameId) -> Option<Undeliverable> {
        let open = self.state.mail.boxes.get(&owner)?;
        let waiting = (open.waiting.len() as u64).saturating_sub(open.redelivered);
        if open.wakes >= self.max_wakes(owner) {
            let message = format!("`{}` was given mail {} times, and may be no more often", open.address, open.wakes);
            return Some(Undeliverable::new(MAX_WAKES, message));
        }
        (waiting >= self.program.limits.max_mailbox_messages).then(|| mailbox_full(&open.address, waiting))
    }

    /// Into a mailbox that takes it. Who waits for it gets it when nothing else is left to do: what belongs together, such as
    /// the end of one step and the start of the next, is read together.
    fn deliver_mail(&mut self, owner: FrameId, mail: Value) -> FaultResult {
        let open = self.mailbox_mut(owner)?;
        let idle = open.is_idle();
        open.waiting.push_back(mail);
        if idle {
            self.state.mail.ready.push_back(owner);
        }
        Ok(())
    }

    /// One that was sent and will not be read.
    fn drop_mail(&mut self, path: &Arc<str>, to: &Arc<str>, mail: &Value, reason: &Arc<str>) {
        let (id, from) = (text_property(mail, "id"), text_property(mail, "from"));
        let (to, reason) = (to.clone(), reason.clone());
        let dropped = EventKind::MessageDropped { id, from, to, reason, message: None, known: None };
        self.publish(path.clone(), dropped);
    }

    fn address_of(&self, owner: FrameId) -> Arc<str> {
        self.state.mail.boxes.get(&owner).map(|open| open.address.clone()).unwrap_or_default()
    }

    /// The innermost node with a mailbox around a frame, itself included.
    fn mailbox_around(&self, id: FrameId) -> Option<FrameId> {
        let mut around = Some(id);
        while let Some(id) = around {
            let frame = self.state.frames.get(id)?;
            if self.program.node(frame.node).mailbox.is_some() {
                return Some(id);
            }
            around = frame.parent;
        }
        None
    }
}

fn mailbox_full(to: &str, waiting: u64) -> Undeliverable {
    Undeliverable::new(MAILBOX_FULL, format!("{waiting} mails wait for `{to}` already"))
}

/// A text of a message; empty if it has none.
fn text_property(mail: &Value, name: &str) -> Arc<str> {
    match mail.get(name) {
        Some(Value::Str(text)) => text.clone(),
        _ => Arc::default(),
    }
}
