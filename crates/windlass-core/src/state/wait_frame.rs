//! Running waits, and the forms that they show to people.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Timestamp, Value};

use super::MailWait;

/// A running wait.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum WaitFrame {
    /// A wait for time. The alarm of the frame ends it.
    Time,
    /// A wait for an outside event.
    Signal {
        /// The name of the event.
        name: Arc<str>,
        /// An object; the event's payload must have equal properties.
        requirements: Value,
        /// The form that it shows to people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        form: Option<Box<ApprovalForm>>,
    },
    /// A wait for mail.
    Mail(MailWait),
}

/// A form to be answered by a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalForm {
    /// The wait's path; with `#` and a number if that path was used before, so that no two waits of a run share an
    /// address.
    pub address: Arc<str>,
    /// `{title, message, schema, assignees}`, as far as they were supplied.
    pub content: Value,
    /// The time at which the form was opened.
    pub since: Timestamp,
    /// The time at which the wait expires, if it does.
    pub deadline: Option<Timestamp>,
}
