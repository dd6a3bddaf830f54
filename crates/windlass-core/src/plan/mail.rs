//! Mail between nodes of a run.
//!
//! A mail is an object: the content that was sent, with `id` (`msg-7`), `from` (the address of the innermost node
//! with a mailbox around the sending task; empty for mail from outside) and `at`. Sending it publishes `message.sent
//! {id, from, to}`. Each mail is then delivered once or dropped once, which publishes `message.delivered {to, ids}`
//! or `message.dropped {id, from, to, reason}`.
//!
//! Reasons: `unknown-step` (no node, several nodes, or a node that only wraps others), the mailbox's own
//! [`closed`](Mailbox::closed), `mailbox-full`, `max-wake-cycles`, `workflow-cancelled` when the run is cancelled.
//!
//! A node that [reports](super::Node::reports_to) sends `{kind: "started", step}` and `{kind: "ended", step, status,
//! attempts, duration_ms, usage?, error?}` from its own path, also when it ends without having begun. No
//! `message.sent` is published for these.
//!
//! A client outside the run sends mail with the event `mail` and the payload `{to, text, …}`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ExprId;

/// A node that can receive mail, from its start to its end, over its retries: mail that was delivered to a failed
/// attempt is delivered `again` to the next one. Its address is its path; any suffix of it (`worker`, `0.worker`) is
/// accepted while only one live node with a mailbox has an address with that suffix. Mail to a node outside of loops
/// and nets that has not begun yet is kept for it, under its complete address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mailbox {
    /// The maximum number of mail deliveries, not counting empty ones; further mail is dropped as `max-wake-cycles`.
    /// When four fifths are used up, `mail.wakes_warning {to, wakes, max}` is published.
    pub wakes: u64,
    /// The reason for dropping mail that arrives after the node's end or is unread by then: `target-terminal`.
    pub closed: Arc<str>,
}

/// Sends mail. The task's output is `{status: "queued", id}`, or `{status: "dropped", id, reason, message, known}`
/// when the mail will not be read. `known` then lists up to 20 addresses that could be used instead, and `wraps:
/// true` is added if the address is that of a node that only wraps others. Dropped mail does not fail the task. A
/// node cannot send mail to itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SendMail {
    /// The address, a text. Iterations may be written `loop[0].inner` or `loop.0.inner`.
    pub to: ExprId,
    /// The content, an object; the receiver gets it together with `id`, `from` and `at`.
    pub mail: ExprId,
}
