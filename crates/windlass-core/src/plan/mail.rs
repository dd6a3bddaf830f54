//! Mail between nodes of a run.
//!
//! A mail is an object: what was sent, with `id` (`msg-7`), `from` (the address of the innermost node with a mailbox around
//! the task that sent it; empty for mail from outside) and `at`. Each is delivered once or dropped once, and told of as
//! `message.delivered {to, ids}` or `message.dropped {id, from, to, reason}`; when it is sent, as `message.sent {id, from, to}`.
//!
//! Reasons: `unknown-step` (nobody, or several, or a node that only wraps others), the mailbox's own
//! [`closed`](Mailbox::closed), `mailbox-full`, `max-wake-cycles`, `workflow-cancelled` when the run is called off.
//!
//! A node that [reports](super::Node::reports_to) sends `{kind: "started", step}` and `{kind: "ended", step, status, attempts,
//! duration_ms, usage?, error?}`, from its own path, also when it ends without having begun. That is not told of as sent.
//!
//! People outside write with the event `mail` and the payload `{to, text, …}`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ExprId;

/// A node that mail can be sent to, from the moment it begins to its end, over its retries: what was delivered to a try that
/// has failed is delivered `again` to the next. Its address is its path; while
/// only one living node with a mailbox has an address that ends so, any end of it will do: `worker`, `0.worker`. Mail to a node
/// outside of loops and nets that has not begun yet is kept for it, under its whole address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mailbox {
    /// How often it may be given mail, not counting when there was none; after that mail to it is dropped as
    /// `max-wake-cycles`. When four fifths are used up, `mail.wakes_warning {to, wakes, most}` tells of it.
    pub wakes: u64,
    /// Why mail is dropped that comes after its end, or that it has not read by then: `target-terminal`.
    pub closed: Arc<str>,
}

/// Sends mail. The task gives `{status: "queued", id}`, or `{status: "dropped", id, reason, message, known}` when nobody will
/// read it, with up to 20 addresses that are known instead, and `wraps: true` if there is such a node that only wraps others;
/// that is no failure. Nobody writes to itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SendMail {
    /// A text: the address. Turns may be written `loop[0].inner` or `loop.0.inner`.
    pub to: ExprId,
    /// An object: what the receiver gets, beside `id`, `from` and `at`.
    pub mail: ExprId,
}
