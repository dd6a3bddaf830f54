//! Mail between nodes of a run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ExprId;

/// A node that mail can be sent to. Its address is its path; while only one such node of its name is alive, its name will do.
/// Mail to a node outside of loops that has not begun yet is kept for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mailbox {
    /// How often it may be given mail; after that mail to it is dropped as `max-wake-cycles`.
    pub wakes: u64,
    /// Why mail is dropped that comes after its end: `target-terminal`.
    pub closed: Arc<str>,
}

/// Sends mail. The task gives `{status: "queued", id}`, or `{status: "dropped", id, reason, known}` when nobody will read it;
/// that is no failure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Post {
    /// A text: the address. Turns may be written `loop[0].inner` or `loop.0.inner`.
    pub to: ExprId,
    /// An object: what the receiver gets, beside `id` and `from`.
    pub mail: ExprId,
}
