//! Approvals: open questions of runs, and their answers.

use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_runtime::{RequestOutcome, input_hash};
use windlass_tools::approval::{self, Approval, ApprovalError};
use windlass_value::Value;

use super::control::ControlResponse;
use super::extract::{self, IdempotencyKey, Query, RunId, page_size, path_parameter, resolve_run};
use crate::auth::{Allowed, Control, Read, Selecting, TokenIdentity};
use crate::problem::codes;
use crate::{ApiProblem, App};

/// An open approval.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApprovalFacts {
    /// The id of the run that waits.
    run: String,
    /// Name of the run's definition.
    definition: String,
    /// The name of the signal that answers it.
    name: String,
    /// Its path in the run; unique within the run.
    path: String,
    /// The title of the form; null if it has none.
    #[schema(value_type = serde_json::Value)]
    title: Option<Value>,
    /// The message of the form.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    message: Option<Value>,
    /// JSON Schema of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    schema: Option<Value>,
    /// The people that are to answer, as the definition names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    assignees: Option<Value>,
    /// RFC 3339
    since: String,
    /// The time at which the wait expires, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
}

impl From<Approval> for ApprovalFacts {
    fn from(approval: Approval) -> ApprovalFacts {
        let form_field = |name: &str| approval.form.get(name).filter(|value| !value.is_null()).cloned();
        ApprovalFacts {
            title: form_field("title"),
            message: form_field("message"),
            schema: form_field("schema"),
            assignees: form_field("assignees"),
            run: approval.run.to_string(),
            definition: approval.definition,
            name: approval.name.to_string(),
            path: approval.path.to_string(),
            since: approval.since.to_string(),
            deadline: approval.deadline.map(|at| at.to_string()),
        }
    }
}

/// A page of approvals.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ApprovalList {
    /// The approvals, oldest first.
    items: Vec<ApprovalFacts>,
    /// The value of `after` for the next page, if there may be one.
    next: Option<i64>,
}

/// The filter and the page of a list of approvals.
#[derive(Debug, Deserialize, ToSchema, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ApprovalQuery {
    /// Only approvals of this run.
    run: Option<String>,
    /// The value of `next` of the previous page.
    after: Option<i64>,
    /// Maximum number of entries; 100 by default, at most 1,000.
    limit: Option<u32>,
}

/// The answer to an approval.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalAnswer {
    /// The answer, which must match the form's schema.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    data: Value,
}

/// `{name}` of the path: the name of a signal, or a path in the run.
pub(crate) struct ApprovalName(String);

impl<S: Send + Sync> FromRequestParts<S> for ApprovalName {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<ApprovalName, ApiProblem> {
        path_parameter(parts, state, "name").await.map(ApprovalName)
    }
}

/// Lists open approvals, oldest first.
#[utoipa::path(get, path = "/api/v1/approvals", tag = "approvals", params(ApprovalQuery), 
    responses((status = 200, body = ApprovalList, description = "a page; `next` is the number for `after`")))]
pub(crate) async fn list(
    selecting: Selecting<Read>,
    State(app): State<App>,
    Query(query): Query<ApprovalQuery>,
) -> Result<axum::Json<ApprovalList>, ApiProblem> {
    let limit = page_size(query.limit, 100, 1_000)?;
    let run = resolve_run(&app, "run", query.run).await?;
    let after = query.after.unwrap_or(0);
    let read = app.read_store(move |app| Ok(approval::approvals(&*app.store, run.as_deref(), after, limit)?));
    let found = read.await?;
    let full = found.len() == limit as usize;
    let next = found.last().map(|last| last.position).filter(|_| full);
    let permitted = found.into_iter().filter(|approval| selecting.identity.is_for(&approval.definition));
    Ok(axum::Json(ApprovalList { items: permitted.map(Into::into).collect(), next }))
}

/// Answers an approval. An approval has one answer: the same answer again is `repeated`, another one is rejected.
/// After the run has taken the answer, only a call with the same `Idempotency-Key` is recognised as a repeat.
#[utoipa::path(
    post,
    path = "/api/v1/runs/{run}/approvals/{name}",
    tag = "approvals",
    params(("run" = String, Path), ("name" = String, Path, description = "The name of the approval, or its path if several have that name"),
        ("Idempotency-Key" = Option<String>, Header, description = "idempotency key: a repeat of this call has no further effect")),
    request_body = ApprovalAnswer,
    responses(
        (status = 202, body = ControlResponse, description = "the run has the answer, or already had it"),
        (status = 404, body = ApiProblem, description = "the run has no such open approval"),
        (status = 409, body = ApiProblem, description = "several approvals have this name, it has another answer already, or the run has ended"),
        (status = 422, body = ApiProblem, description = "the answer does not match the schema")
    )
)]
pub(crate) async fn answer(
    allowed: Allowed<Control>,
    State(app): State<App>,
    RunId(run): RunId,
    ApprovalName(name): ApprovalName,
    IdempotencyKey(key): IdempotencyKey,
    extract::Json(given): extract::Json<ApprovalAnswer>,
) -> Result<(StatusCode, axum::Json<ControlResponse>), ApiProblem> {
    let repeat_mark = key.map(|key| repeat_mark(&allowed.identity, &key, &name, &given.data));
    // Checked before looking up the approval: the run may have asked again since, and a repeated call must not answer
    // the new approval.
    if is_repeat(&app, &run, repeat_mark.as_ref()).await? {
        return Ok(accepted(run, "repeated"));
    }
    match send_answer(&app, &run, name, given.data, repeat_mark.clone()).await {
        Ok(delivery) => Ok(accepted(run, delivery)),
        // A concurrent identical call was faster.
        Err(_) if is_repeat(&app, &run, repeat_mark.as_ref()).await? => Ok(accepted(run, "repeated")),
        Err(problem) => Err(problem),
    }
}

fn accepted(run: String, delivery: &'static str) -> (StatusCode, axum::Json<ControlResponse>) {
    (StatusCode::ACCEPTED, axum::Json(ControlResponse { run, delivery, note: None }))
}

/// Returns the mark by which a repeated call is recognised while its run exists; another body is another call.
fn repeat_mark(identity: &TokenIdentity, key: &str, name: &str, data: &Value) -> String {
    let text = format!("{key}\0{name}\0{}", input_hash(data));
    format!("answered:{}:{}", identity.id, &blake3::hash(text.as_bytes()).to_hex()[..32])
}

async fn is_repeat(app: &App, run: &str, mark: Option<&String>) -> Result<bool, ApiProblem> {
    let Some(mark) = mark.cloned() else { return Ok(false) };
    let run = run.to_owned();
    app.read_store(move |app| Ok(app.store.knows_request(&run, &mark)?)).await
}

async fn send_answer(
    app: &App,
    run: &str,
    name: String,
    data: Value,
    mark: Option<String>,
) -> Result<&'static str, ApiProblem> {
    let ended =
        |run: &str| ApiProblem::new(StatusCode::CONFLICT, codes::RUN_ENDED, format!("the run `{run}` has ended"));
    let (id, run) = (run.to_owned(), run.to_owned());
    let find = move |app: &App| match approval::find(&*app.store, &id, Some(&name)) {
        Err(ApprovalError::NotFound(..)) if app.store.run(&id)?.is_some_and(|row| row.status.is_final()) => {
            Err(ended(&id))
        }
        found => found.map_err(rejection_problem),
    };
    let found = app.read_store(find).await?;
    let (id, request) = found.build_answer_request(data.clone()).await.map_err(rejection_problem)?;
    let send = move |app: &App| {
        let outcome = app.engine.request(&run, &id, request)?;
        let delivery = match found.check_repeat(&*app.store, &id, &data, outcome).map_err(rejection_problem)? {
            RequestOutcome::Delivered => "delivered",
            RequestOutcome::Queued => "buffered",
            RequestOutcome::Duplicate => "repeated",
            RequestOutcome::Ended => return Err(ended(&run)),
        };
        // Recorded after the answer: a repeated call must not be reported as done if it was not.
        if let Some(mark) = mark {
            app.store.note_request(&run, &mark)?;
        }
        Ok(delivery)
    };
    app.write_store(send).await
}

#[derive(Serialize)]
struct SchemaMismatch<'m> {
    pointer: &'m str,
    message: &'m str,
}

pub(crate) fn rejection_problem(rejection: ApprovalError) -> ApiProblem {
    let detail = rejection.to_string();
    match rejection {
        ApprovalError::SchemaViolations(misfits) => {
            let facts: Vec<_> =
                misfits.iter().map(|one| SchemaMismatch { pointer: &one.pointer, message: &one.message }).collect();
            let problem = ApiProblem::new(StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_INPUT, detail);
            problem.hint("GET /api/v1/approvals returns the schema").problems(&facts)
        }
        ApprovalError::ValidationFailed(_) => {
            ApiProblem::new(StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_INPUT, detail)
                .hint("send a smaller answer, or correct the schema in the definition")
        }
        ApprovalError::MissingAnswer(..) => {
            ApiProblem::new(StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_INPUT, detail)
                .hint("for an empty answer, send `\"data\": null`")
        }
        ApprovalError::InvalidSchema(_) => {
            ApiProblem::new(StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_INPUT, detail).hint(
                "correct the schema in the definition; this run can be answered with POST /api/v1/runs/RUN/signal",
            )
        }
        ApprovalError::NotFound(..) => {
            ApiProblem::not_found(detail).hint("GET /api/v1/approvals lists the open approvals")
        }
        ApprovalError::Conflict(..) | ApprovalError::AlreadyAnswered(..) => {
            ApiProblem::conflict(detail).hint("GET /api/v1/runs/RUN/events shows when the run consumes it")
        }
        ApprovalError::Ambiguous(..) => ApiProblem::conflict(detail).hint("select one by its path"),
        ApprovalError::Runtime(error) => error.into(),
    }
}
