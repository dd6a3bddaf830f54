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
        name: Arc<str>,
        /// An object; the event's payload must have equal properties.
        requirements: Option<ExprId>,
        /// Without an answer in this time, the wait ends as timed out.
        deadline: Option<Amount<Duration>>,
    },
    /// All mail of the node with a mailbox around it: a list, oldest first.
    Mail {
        /// Waits until there is some; else an empty list is an answer too.
        blocks: bool,
        /// First lets this mailbox's owner come to rest: until it waits for mail and has none, or this time is over. Then what
        /// it had to say is said.
        settles: Option<(Arc<str>, Duration)>,
    },
}

/// A child run. Its id comes from the parent's id, the path and the generation, so a repeat cannot make a second one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    /// The definition's name, to be resolved by whoever runs the engine.
    pub definition: ExprId,
    pub input: ExprId,
}
