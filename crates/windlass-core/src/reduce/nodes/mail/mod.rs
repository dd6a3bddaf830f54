//! Mail between nodes of a run: it is sent, routed, kept in a mailbox, and read.
//!
//! The fate of each mail is published once: it is delivered, or it is dropped for a reason.
//!
//! `routing`: the receiver of an address. `lifecycle`: mailboxes open and close. `reading`: waits for mail.
//!
//! | the receiver | mail |
//! |---|---|
//! | is alive, and its mailbox has room | kept in the mailbox |
//! | is alive, and its mailbox is full, or was emptied as often as allowed | dropped |
//! | has not begun, and is in no loop | kept until it begins; dropped if too many are kept |
//! | has ended, will never begin, is the sender, or is ambiguous | dropped |
//!
//! A live node that can receive mail and has no mailbox is impossible and a fault.

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

/// No node can receive mail under this address, or several can.
const UNKNOWN_STEP: &str = "unknown-step";
const MAILBOX_FULL: &str = "mailbox-full";
const MAX_WAKES: &str = "max-wake-cycles";
/// The run has ended, or this part of it.
const TARGET_TERMINAL: &str = "target-terminal";
/// The run is cancelled; this takes precedence over the mailbox's own reason.
const WORKFLOW_CANCELLED: &str = "workflow-cancelled";

/// A mail in transit.
struct OutgoingMail {
    id: Arc<str>,
    from: Arc<str>,
    /// The content that the receiver gets.
    mail: Value,
}

impl Reducer<'_> {
    /// Evaluates address and content of the mail that a task sends; nothing has changed so far.
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
            (Value::Str(_), other) => Err(wrong("mail", other, "an object").into()),
            (other, _) => Err(wrong("the address of mail", other, "a text").into()),
        }
    }

    /// Sends the mail of a task. The result is the task's output.
    pub(super) fn post(&mut self, id: FrameId, to: &Arc<str>, mail: Map) -> FaultResult<Value> {
        let sender = self.mailbox_around(id);
        let from = sender.map_or_else(|| "".into(), |sender| self.address_of(sender));
        let path = self.path(id);
        let route = match self.route_to(to)? {
            // It could loop forever.
            MailRoute::Live(owner) if Some(owner) == sender => {
                let message = format!("`{to}` is the sender: a node cannot send mail to itself");
                MailRoute::Undeliverable(Undeliverable::new(UNKNOWN_STEP, message))
            }
            route @ (MailRoute::Live(_) | MailRoute::Early(_) | MailRoute::Undeliverable(_)) => route,
        };
        self.send(path, from, (to, route), mail)
    }

    /// Sends mail from outside the run: `{to, text, kind?}`.
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

    /// Returns `{status: "queued", id}`, or `{status: "dropped", id, reason, message, known, wraps?}`.
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

    /// Adds a number, a sender and a time to the content. Large parts of it are stored as references.
    fn new_mail(&mut self, from: Arc<str>, mail: Map) -> OutgoingMail {
        self.state.mail.numbers += 1;
        let id: Arc<str> = format!("msg-{}", self.state.mail.numbers).into();
        let mut complete: Map =
            mail.iter().map(|(name, value)| (name.clone(), self.move_to_blob(value.clone()))).collect();
        complete.insert("id", id.clone());
        complete.insert("from", from.clone());
        complete.insert("at", self.now().to_string());
        OutgoingMail { id, from, mail: Value::map(complete) }
    }

    /// Returns the reason why a live mailbox accepts no mail.
    fn rejection(&self, owner: FrameId) -> Option<Undeliverable> {
        let open = self.state.mail.boxes.get(&owner)?;
        let waiting = (open.waiting.len() as u64).saturating_sub(open.redelivered);
        if open.wakes >= self.max_wakes(owner) {
            let message =
                format!("mail was delivered to `{}` {} times, which is its maximum", open.address, open.wakes);
            return Some(Undeliverable::new(MAX_WAKES, message));
        }
        (waiting >= self.program.limits.max_mailbox_messages).then(|| mailbox_full(&open.address, waiting))
    }

    /// Puts mail into a mailbox that accepts it. A waiting reader gets it when no other work is left, so that related
    /// mail, such as the end of one step and the start of the next, is read together.
    fn deliver_mail(&mut self, owner: FrameId, mail: Value) -> FaultResult {
        let open = self.mailbox_mut(owner)?;
        let idle = open.is_idle();
        open.waiting.push_back(mail);
        if idle {
            self.state.mail.ready.push_back(owner);
        }
        Ok(())
    }

    /// Publishes that a sent mail will not be read.
    fn drop_mail(&mut self, path: &Arc<str>, to: &Arc<str>, mail: &Value, reason: &Arc<str>) {
        let (id, from) = (text_property(mail, "id"), text_property(mail, "from"));
        let (to, reason) = (to.clone(), reason.clone());
        let dropped = EventKind::MessageDropped { id, from, to, reason, message: None, known: None };
        self.publish(path.clone(), dropped);
    }

    fn address_of(&self, owner: FrameId) -> Arc<str> {
        self.state.mail.boxes.get(&owner).map(|open| open.address.clone()).unwrap_or_default()
    }

    /// Returns the innermost node with a mailbox around a frame, itself included.
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
    let messages =
        if waiting == 1 { "1 message already waits".to_owned() } else { format!("{waiting} messages already wait") };
    Undeliverable::new(MAILBOX_FULL, format!("{messages} for `{to}`"))
}

/// Returns a text property of a mail; empty if it has none.
fn text_property(mail: &Value, name: &str) -> Arc<str> {
    match mail.get(name) {
        Some(Value::Str(text)) => text.clone(),
        _ => Arc::default(),
    }
}
