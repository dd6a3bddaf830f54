//! Validation of answers to approvals. The command line and the server both check answers here.

use std::sync::Arc;

use thiserror::Error;
use windlass_core::TickKind;
use windlass_runtime::{RequestOutcome, RunRequest, RuntimeError, codec, neutralize_references, request};
use windlass_store::{OpenWait, Store};
use windlass_value::{Timestamp, Value};

use crate::schema::{CompiledSchema, SchemaViolation};

/// Maximum number of schema violations reported for one answer.
const MAX_REPORTED_VIOLATIONS: usize = 20;

/// An open approval: a question of a run to a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// The cursor of paged listings.
    pub position: i64,
    pub run: Arc<str>,
    pub definition: String,
    /// The name of the signal that answers it: the node's address, unless the definition gives another name.
    pub name: Arc<str>,
    /// The path inside the run; unique among the open approvals of a run.
    pub path: Arc<str>,
    /// `{title, message, schema, assignees}`, each present only if it was given.
    pub form: Value,
    pub since: Timestamp,
    pub deadline: Option<Timestamp>,
}

#[derive(Debug, Error)]
pub enum ApprovalError {
    #[error("the answer does not match the schema: {}", format_violations(.0))]
    SchemaViolations(Vec<SchemaViolation>),
    #[error("the answer cannot be validated: {0}")]
    ValidationFailed(String),
    #[error("the answer cannot be validated: the schema of the question cannot be used: {0}")]
    InvalidSchema(String),
    #[error("no answer given, but `{1}` of run `{0}` requires one")]
    MissingAnswer(String, String),
    #[error("run `{0}` does not ask for `{1}`")]
    NotFound(String, String),
    #[error("`{1}` of run `{0}` is ambiguous; open approvals: {2}")]
    Ambiguous(String, String, String),
    #[error("`{1}` of run `{0}` already has a different answer: the first answer counts")]
    Conflict(String, String),
    #[error("`{1}` of run `{0}` already has an answer: the first answer counts")]
    AlreadyAnswered(String, String),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

fn format_violations(misfits: &[SchemaViolation]) -> String {
    let one = |misfit: &SchemaViolation| match misfit.pointer.is_empty() {
        true => misfit.message.clone(),
        false => format!("{}: {}", misfit.pointer, misfit.message),
    };
    misfits.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Lists the open approvals of all runs or of one run, oldest first. `after` is the position of the last one seen.
pub fn approvals(store: &dyn Store, run: Option<&str>, after: i64, limit: u32) -> Result<Vec<Approval>, RuntimeError> {
    store.waits(run, after, limit)?.into_iter().map(read).collect()
}

fn read(open: OpenWait) -> Result<Approval, RuntimeError> {
    let OpenWait { position, run, definition, wait } = open;
    let form = codec::decode(&wait.body, "what a run asks")?;
    let (name, path) = (wait.name, wait.path);
    Ok(Approval { position, run, definition, name, path, form, since: wait.since, deadline: wait.deadline })
}

/// Finds an approval by its path, or by a name that only one has. Without a name the run must have exactly one.
pub fn find(store: &dyn Store, run: &str, name: Option<&str>) -> Result<Approval, ApprovalError> {
    select(approvals(store, Some(run), 0, u32::MAX)?, run, name)
}

/// Selects one of the open approvals of a run in the same way.
pub fn select(mut open: Vec<Approval>, run: &str, name: Option<&str>) -> Result<Approval, ApprovalError> {
    if let Some(at) = open.iter().position(|approval| name == Some(&*approval.path)) {
        return Ok(open.swap_remove(at));
    }
    open.retain(|approval| name.is_none_or(|name| *approval.name == *name));
    let requested = name.unwrap_or("anything").to_owned();
    match (open.pop(), open.is_empty()) {
        (Some(approval), true) => Ok(approval),
        (None, _) => Err(ApprovalError::NotFound(run.to_owned(), requested)),
        (Some(last), false) => {
            let paths = open.iter().chain([&last]).map(|approval| format!("`{}`", approval.path)).collect::<Vec<_>>();
            Err(ApprovalError::Ambiguous(run.to_owned(), requested, paths.join(", ")))
        }
    }
}

/// Checks a signal that may answer an open approval.
///
/// A signal with the name of open approvals (and their path, if it is addressed to one) answers one of them, so its
/// data must be a valid answer. The run decides only on delivery which approval receives it, so the data must match
/// the schemas of all candidates. An unusable schema does not block the signal; otherwise the run would wait forever.
pub async fn check_signal(
    store: &dyn Store,
    run: &str,
    name: &str,
    path: Option<&str>,
    data: Option<&Value>,
) -> Result<(), ApprovalError> {
    check_answers(approvals(store, Some(run), 0, u32::MAX)?, name, path, data).await
}

/// Checks a signal against the open approvals of its run in the same way.
pub async fn check_answers(
    open: Vec<Approval>,
    name: &str,
    path: Option<&str>,
    data: Option<&Value>,
) -> Result<(), ApprovalError> {
    for approval in
        open.into_iter().filter(|asked| *asked.name == *name && path.is_none_or(|place| *asked.path == *place))
    {
        match approval.check_optional_answer(data).await {
            Ok(()) | Err(ApprovalError::InvalidSchema(_)) => {}
            refused => return refused,
        }
    }
    Ok(())
}

impl Approval {
    /// Checks an answer that a person may have omitted. A missing answer counts as null only if the schema allows null.
    pub async fn check_optional_answer(&self, data: Option<&Value>) -> Result<(), ApprovalError> {
        self.check(data.unwrap_or(&Value::Null)).await?;
        let kinds = self.form.get("schema").and_then(|schema| schema.get("type"));
        let is_null = |kind: &Value| kind.as_str() == Some("null");
        let allows_null =
            kinds.is_some_and(|kinds| is_null(kinds) || kinds.as_list().is_some_and(|all| all.iter().any(is_null)));
        match data.is_some() || allows_null {
            true => Ok(()),
            false => Err(ApprovalError::MissingAnswer(self.run.to_string(), self.path.to_string())),
        }
    }

    /// Validates an answer against the schema.
    pub(crate) async fn check(&self, data: &Value) -> Result<(), ApprovalError> {
        let Some(schema) = self.form.get("schema").filter(|schema| !schema.is_null()) else { return Ok(()) };
        let schema = CompiledSchema::compile(schema, None).map_err(ApprovalError::InvalidSchema)?;
        match schema.violations(data, MAX_REPORTED_VIOLATIONS).await {
            Ok(misfits) if misfits.is_empty() => Ok(()),
            Ok(misfits) => Err(ApprovalError::SchemaViolations(misfits)),
            Err(why) => Err(ApprovalError::ValidationFailed(why)),
        }
    }

    /// Validates an answer and returns it as a request to the run, with the request id.
    ///
    /// An approval has one answer, no matter which client sends it or how often. Repeating the same answer yields
    /// `Duplicate` until the run has consumed it, and an answer never applies to a later approval.
    pub async fn build_answer_request(&self, data: Value) -> Result<(String, RunRequest), ApprovalError> {
        self.check(&data).await?;
        let id = format!("approve:{}@{}", self.path, self.since.0);
        Ok((id, RunRequest::SignalTo { place: self.path.to_string(), name: self.name.to_string(), payload: data }))
    }

    /// Validates the answer and puts it into the inbox of the run for its owner.
    pub async fn answer(&self, store: &dyn Store, data: Value) -> Result<RequestOutcome, ApprovalError> {
        let (id, signal) = self.build_answer_request(data.clone()).await?;
        let answer = request(store, &self.run, &id, signal)?;
        self.check_repeat(store, &id, &data, answer)
    }

    /// Returns the given result, or an error if an earlier, different answer exists.
    pub fn check_repeat(
        &self,
        store: &dyn Store,
        id: &str,
        data: &Value,
        answer: RequestOutcome,
    ) -> Result<RequestOutcome, ApprovalError> {
        if answer != RequestOutcome::Duplicate {
            return Ok(answer);
        }
        let waiting = store.inbox(&self.run, u32::MAX).map_err(RuntimeError::from)?;
        let first = waiting.iter().find(|row| &*row.request_id == id);
        let first = first.map(|row| codec::decode::<TickKind>(&row.body, "an answer")).transpose()?;
        match first {
            Some(TickKind::AddEvent { payload, .. }) if payload != neutralize_references(data.clone()) => {
                Err(ApprovalError::Conflict(self.run.to_string(), self.path.to_string()))
            }
            Some(_) => Ok(answer),
            // The run has consumed the answer in the meantime, so the approval is no longer open, as for any later
            // answer.
            None => Err(ApprovalError::AlreadyAnswered(self.run.to_string(), self.path.to_string())),
        }
    }
}
