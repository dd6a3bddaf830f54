//! Error messages and facts of all failures of a statement.

use tokio_postgres::Error;
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_value::Value;

use crate::input::with_facts;

/// SQLSTATE codes: unable to connect, and connection lost.
const UNREACHABLE: &str = "08001";
const LOST: &str = "08006";

pub(super) struct PgFailure {
    error: Box<ErrorInfo>,
    /// The SQLSTATE, if there is one.
    state: Option<String>,
    message: String,
    detail: Option<String>,
    constraint: Option<String>,
    /// A table changed under a cached plan; nothing has been executed.
    stale_plan: bool,
}

impl From<ErrorInfo> for PgFailure {
    fn from(error: ErrorInfo) -> PgFailure {
        let message = error.message.to_string();
        PgFailure { error: Box::new(error), state: None, message, detail: None, constraint: None, stale_plan: false }
    }
}

impl From<Error> for PgFailure {
    fn from(error: Error) -> PgFailure {
        let Some(refusal) = error.as_db_error() else { return PgFailure::lost(&cause(&error)) };
        let code = refusal.code().code().to_owned();
        // Such errors name the parameter only in their context.
        let context = refusal.where_().filter(|place| place.contains("parameter $")).map(|place| format!(" ({place})"));
        let message = format!("{}{}", refusal.message(), context.unwrap_or_default());
        let full_message = match refusal.detail() {
            Some(detail) => format!("{message}: {detail}"),
            None => message.clone(),
        };
        let kind = if code.starts_with("08") || code.starts_with("57P") { "connection" } else { "pg" };
        let mut info = ErrorInfo::new(code.clone(), kind, full_message).replied();
        if let Some(hint) = refusal.hint() {
            info = info.hint(hint.to_owned());
        }
        let (detail, constraint) = (refusal.detail().map(str::to_owned), refusal.constraint().map(str::to_owned));
        let stale_plan = refusal.routine() == Some("RevalidateCachedQuery");
        PgFailure { error: Box::new(info), state: Some(code), message, detail, constraint, stale_plan }
    }
}

/// Returns the innermost cause.
fn cause(error: &Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}

impl PgFailure {
    pub(super) fn lost(reason: &str) -> PgFailure {
        let message = format!("the connection to Postgres was lost: {reason}");
        PgFailure { state: Some(LOST.to_owned()), ..ErrorInfo::new("connection", "connection", message).into() }
    }

    pub(super) fn unreachable(server: &str, reason: &str) -> PgFailure {
        let message = format!("Postgres cannot be reached at {server}: {reason}");
        let error = ErrorInfo::new("connection", "connection", message)
            .hint("is the server running, and are host and port of the credential right?");
        PgFailure { state: Some(UNREACHABLE.to_owned()), ..error.into() }
    }

    /// Converts an error during connecting. A refusal of the server, such as for a wrong password, stays a refusal;
    /// anything else is a connection failure.
    pub(super) fn from_connecting(error: Error, server: &str) -> PgFailure {
        match error.as_db_error() {
            Some(_) => PgFailure::from(error).with_server(server),
            None => PgFailure::unreachable(server, &cause(&error)),
        }
    }

    pub(super) fn has_code(&self, code: &str) -> bool {
        self.state.as_deref() == Some(code)
    }

    pub(super) fn is_stale_plan(&self) -> bool {
        self.stale_plan
    }

    pub(super) fn is_lost(&self) -> bool {
        self.state.as_deref().is_some_and(|state| state == LOST || state.starts_with("57P"))
    }

    /// Returns true if the connection is still usable: the server refused the statement, or did not receive it.
    pub(super) fn leaves_connection_usable(&self) -> bool {
        !self.is_lost() && (self.state.is_some() || &*self.error.kind == "input")
    }

    /// Returns 3 for `could not determine data type of parameter $3`. Translated messages contain the number, too.
    pub(super) fn parameter_in_message(&self) -> Option<usize> {
        let (_, rest) = self.message.split_once('$')?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    }

    /// Adds the server to the message.
    fn with_server(mut self, server: &str) -> PgFailure {
        self.error.message = format!("{} at {server}", self.error.message).into();
        self
    }

    pub(super) fn map_text(mut self, change: impl Fn(&str) -> String) -> PgFailure {
        self.error.message = change(&self.error.message).into();
        self.error.hint = self.error.hint.take().map(|hint| change(&hint).into());
        self.message = change(&self.message);
        self.detail = self.detail.map(|detail| change(&detail));
        self
    }

    pub(super) fn outcome(self) -> TaskOutcome {
        let facts = build_facts(self.state, Some(self.message), self.detail, self.constraint);
        with_facts(TaskOutcome::failure(*self.error), "pg", facts)
    }
}

/// Adds empty facts to a success, so that they are always present.
pub(super) fn success_with_facts(outcome: TaskOutcome) -> TaskOutcome {
    with_facts(outcome, "pg", build_facts(None, None, None, None))
}

fn build_facts(
    state: Option<String>,
    message: Option<String>,
    detail: Option<String>,
    constraint: Option<String>,
) -> Value {
    Value::object([
        ("code", Value::from(state.clone())),
        ("sqlstate", state.into()),
        ("message", message.into()),
        ("detail", detail.into()),
        ("constraint", constraint.into()),
    ])
}
