//! Waiting for time or for somebody, and child runs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::Duration;

use super::{Amount, ExprId};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Wait {
    Delay(Amount<Duration>),
    /// A point in time, as RFC 3339 text.
    Until(ExprId),
    /// An outside event of this name.
    Signal {
        /// With a form it may be empty: then it is the address of the wait itself, its path, and every turn of a loop has its
        /// own.
        name: Arc<str>,
        /// An object; the event's payload must have equal properties.
        requirements: Option<ExprId>,
        /// Without an answer in this time, the wait ends as timed out.
        deadline: Option<Amount<Duration>>,
        /// What somebody is asked, as an object: `title`, `message`, `schema` (of the answer), `assignees`. Evaluated when the
        /// wait begins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<ExprId>,
    },
    /// All mail of the innermost node with a mailbox around it, or its own: a list, oldest first.
    Mail {
        /// Waits until there is some; else an empty list is an answer too. Nobody waits in vain: the list is empty when no
        /// more mail can come, because the mailbox was emptied as often as it may be, or because nothing else in the run
        /// moves, nor can anybody outside move it by an event. Of several such waits the oldest then goes on.
        blocks: bool,
        /// First lets the owner of the mailbox at this whole address come to rest: until it waits for mail (`blocks`) and has
        /// none, or it has ended, or nothing else in the run moves. Then what it had to say is said. After this time it is no
        /// longer waited for (`mail.hold_timeout {to}`). Who is not alive, and oneself, is not waited for.
        after_idle: Option<(Arc<str>, Duration)>,
    },
}

/// A child run. Its id comes from the parent's id, the path and the generation, so a repeat cannot make a second one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChildRunCall {
    /// The definition's name, to be resolved by whoever runs the engine.
    pub definition: ExprId,
    pub input: ExprId,
}
