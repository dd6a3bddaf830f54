//! Waits for time, signals or mail, and child runs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::Duration;

use super::{Amount, ExprId};

/// The thing that a wait waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Wait {
    /// An amount of time from the beginning of the wait.
    Delay(Amount<Duration>),
    /// A point in time, as RFC 3339 text.
    Until(ExprId),
    /// An outside event of this name.
    Signal {
        /// May be empty if there is a form: the name is then the address of the wait, its path, so that every iteration
        /// of a loop has its own.
        name: Arc<str>,
        /// An object; the event's payload must have equal properties.
        requirements: Option<ExprId>,
        /// Without an answer in this time, the wait ends as timed out.
        deadline: Option<Amount<Duration>>,
        /// The form to be answered, as an object: `title`, `message`, `schema` (of the answer), `assignees`. Evaluated
        /// when the wait begins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<ExprId>,
    },
    /// All mail of the innermost node with a mailbox around it, or its own: a list, oldest first.
    Mail {
        /// Waits until there is mail; otherwise an empty list is a valid result too. The wait never hangs: it ends with
        /// an empty list when no more mail can arrive, because the mailbox was emptied as often as allowed, or because
        /// nothing else in the run makes progress and no event from outside can change that. Of several such waits the
        /// oldest then ends.
        blocks: bool,
        /// First waits until the owner of the mailbox at this complete address is idle: until it waits for mail
        /// (`blocks`) and has none, or has ended, or nothing else in the run makes progress. By then it has sent its
        /// messages. After this time the wait gives up on it (`mail.hold_timeout {to}`). A node that is not alive, and
        /// the waiting node itself, are not waited for.
        after_idle: Option<(Arc<str>, Duration)>,
    },
}

/// A child run. Its id is derived from the parent's id, the path and the generation, so a repeat cannot create a
/// second one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChildRunCall {
    /// The definition's name, which the runtime resolves.
    pub definition: ExprId,
    /// The input of the child run.
    pub input: ExprId,
}
