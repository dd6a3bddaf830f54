//! Answers to what runs ask of people. Whoever takes them, on the command line or over the network, checks them here.

use std::sync::Arc;

use thiserror::Error;
use windlass_core::TickKind;
use windlass_runtime::{RequestOutcome, RunRequest, RuntimeError, codec, neutralize_references, request};
use windlass_store::{OpenWait, Store};
use windlass_value::{Timestamp, Value};

use crate::schema::{CompiledSchema, SchemaViolation};

/// Problems of one answer that are told.
const MAX_REPORTED_VIOLATIONS: usize = 20;

/// What a run asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// The page mark of listings.
    pub position: i64,
    pub run: Arc<str>,
    pub definition: String,
    /// The name of the signal that answers it: the address, unless the definition gives another.
    pub name: Arc<str>,
    /// Where in the run. No two of a run have the same.
    pub path: Arc<str>,
    /// `{title, message, schema, assignees}`, as far as they were given.
    pub form: Value,
    pub since: Timestamp,
    pub deadline: Option<Timestamp>,
}

#[derive(Debug, Error)]
pub enum ApprovalError {
    #[error("the answer does not fit what is asked: {}", format_violations(.0))]
    SchemaViolations(Vec<SchemaViolation>),
    #[error("whether the answer fits cannot be found out: {0}")]
    ValidationFailed(String),
    #[error("whether the answer fits cannot be found out: the schema of the question cannot be used: {0}")]
    InvalidSchema(String),
    #[error("there is no answer, and run `{0}` does not say that `{1}` needs none")]
    MissingAnswer(String, String),
    #[error("run `{0}` does not ask for `{1}`")]
    NotFound(String, String),
    #[error("run `{0}` asks for `{1}` at several places: {2}")]
    Ambiguous(String, String, String),
    #[error("`{1}` of run `{0}` is answered already, and not so: the first answer counts")]
    Conflict(String, String),
    #[error("`{1}` of run `{0}` is answered already: the first answer counts")]
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

/// What runs ask, or one of them, in the order in which they began to. `after` is the position of the last one seen.
pub fn approvals(store: &dyn Store, run: Option<&str>, after: i64, limit: u32) -> Result<Vec<Approval>, RuntimeError> {
    store.waits(run, after, limit)?.into_iter().map(read).collect()
}

fn read(open: OpenWait) -> Result<Approval, RuntimeError> {
    let OpenWait { position, run, definition, wait } = open;
    let form = codec::decode(&wait.body, "what a run asks")?;
    let (name, path) = (wait.name, wait.path);
    Ok(Approval { position, run, definition, name, path, form, since: wait.since, deadline: wait.deadline })
}

/// The one that is meant: by its path, or by a name that only one has. Without a name it must be the only one.
pub fn find(store: &dyn Store, run: &str, name: Option<&str>) -> Result<Approval, ApprovalError> {
    let mut open = approvals(store, Some(run), 0, u32::MAX)?;
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

/// A signal that has the name of questions (and their place, if it is for one) answers one of them, so it must fit as an answer
/// does. Which of them gets it is known only when the run takes it: it must fit them all. A schema that nothing can be checked
/// against holds no signal up, or the run would wait for ever.
pub async fn check_signal(
    store: &dyn Store,
    run: &str,
    name: &str,
    path: Option<&str>,
    data: Option<&Value>,
) -> Result<(), ApprovalError> {
    let open = approvals(store, Some(run), 0, u32::MAX)?.into_iter();
    for approval in open.filter(|asked| *asked.name == *name && path.is_none_or(|place| *asked.path == *place)) {
        match approval.check_optional_answer(data).await {
            Ok(()) | Err(ApprovalError::InvalidSchema(_)) => {}
            refused => return refused,
        }
    }
    Ok(())
}

impl Approval {
    /// The same for people, who may forget to say anything. That counts as null only where the schema speaks of null.
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

    /// What is wrong with an answer, if anything is.
    pub(crate) async fn check(&self, data: &Value) -> Result<(), ApprovalError> {
        let Some(schema) = self.form.get("schema").filter(|schema| !schema.is_null()) else { return Ok(()) };
        let schema = CompiledSchema::compile(schema, None).map_err(ApprovalError::InvalidSchema)?;
        match schema.violations(data, MAX_REPORTED_VIOLATIONS).await {
            Ok(misfits) if misfits.is_empty() => Ok(()),
            Ok(misfits) => Err(ApprovalError::SchemaViolations(misfits)),
            Err(why) => Err(ApprovalError::ValidationFailed(why)),
        }
    }

    /// An answer that fits, as a request to the run with its name. One question has one answer, whoever gives it and however
    /// often: the same again is `Repeated` until the run has taken it. It never counts for a later question.
    pub async fn build_answer_request(&self, data: Value) -> Result<(String, RunRequest), ApprovalError> {
        self.check(&data).await?;
        let id = format!("approve:{}@{}", self.path, self.since.0);
        Ok((id, RunRequest::SignalTo { place: self.path.to_string(), name: self.name.to_string(), payload: data }))
    }

    /// Checks the answer and leaves it for whoever has the run.
    pub async fn answer(&self, store: &dyn Store, data: Value) -> Result<RequestOutcome, ApprovalError> {
        let (id, signal) = self.build_answer_request(data.clone()).await?;
        let answer = request(store, &self.run, &id, signal)?;
        self.check_repeat(store, &id, &data, answer)
    }

    /// What became of an answer, unless there was another one before that says otherwise.
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
            // The run has it since, so the question is no longer open, as it is for whoever comes later.
            None => Err(ApprovalError::AlreadyAnswered(self.run.to_string(), self.path.to_string())),
        }
    }
}
