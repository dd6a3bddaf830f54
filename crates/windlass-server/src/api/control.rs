//! Control and steering of runs: pause, resume, cancel, signal, retry, restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::predict_delivery;
use windlass_runtime::inspect::{StoredRun, loop_histories, undelivered_signal_note};
use windlass_runtime::{RequestOutcome, RestartRequest, RunHandle, RunRequest, RuntimeError, new_run_id};
use windlass_store::RunStatus;
use windlass_tools::approval;
use windlass_value::Value;

use super::approvals;
use super::extract::{IdempotencyKey, Json, MaybeJson, RunId, is_new_run_id};
use super::models::find_run;
use crate::auth::{Allowed, Control, TokenIdentity};
use crate::problem::codes;
use crate::{ApiProblem, App};

/// Maximum length of a reason, a name or a request id.
const MAX_TEXT_BYTES: usize = 1_024;

/// The result of a control request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ControlResponse {
    /// The id of the run.
    pub run: String,
    /// delivered: the owner of the run acts on it now; buffered: it takes effect when the run resumes, or when a step
    /// waits for it; dropped: it is for one step, which does not wait for it; repeated: the same request was made
    /// before
    pub delivery: &'static str,
    /// Explanation for a signal that no step waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Options of a control request.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ControlRequest {
    /// Idempotency key of this call, like the header `Idempotency-Key`.
    pub request_id: Option<String>,
}

/// A request to cancel a run.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelRequest {
    /// Reason shown with the run.
    pub reason: Option<String>,
    /// Idempotency key of this call, like the header `Idempotency-Key`.
    pub request_id: Option<String>,
}

/// A signal to a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalRequest {
    /// The name of the signal.
    pub name: String,
    /// The payload of the signal.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub data: Value,
    /// Deliver only to the step of this name.
    pub step: Option<String>,
    /// Idempotency key of this call, like the header `Idempotency-Key`.
    pub request_id: Option<String>,
}

/// Options of a retry.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryRequestBody {
    /// Id of the new run. The same id again is the same run.
    pub id: Option<String>,
}

/// The restart point of a new run, and its changes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestartRequestBody {
    /// A path as in events: `sync[3].fetch`, or `sync[3]` for the whole iteration.
    pub from: String,
    /// The occurrence of the path, counted from 1; the last one by default.
    pub occurrence: Option<u64>,
    /// New values for variables that are visible at the restart point.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    pub set: BTreeMap<String, Value>,
    /// Id of the new run. The same id again is the same run.
    pub id: Option<String>,
}

/// The run that a retry created.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetryResponse {
    /// The new run.
    pub run: String,
    /// The id of the run that is retried.
    pub retries: String,
    /// Whether this call created the run; otherwise an earlier one did.
    pub created: bool,
}

/// The run that a restart created.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RestartResponse {
    /// The new run.
    pub run: String,
    /// The id of the source run.
    pub restarts: String,
    /// The path of the restart point.
    pub from: String,
    /// Whether this call created the run; otherwise an earlier one did.
    pub created: bool,
}

/// Pauses a run between two tasks.
#[utoipa::path(post, path = "/api/v1/runs/{run}/pause", tag = "control", request_body = Option<ControlRequest>, params(("run" = String, Path)),
    responses((status = 202, description = "the request is stored durably", body = ControlResponse), (status = 404, description = "there is no such run", body = ApiProblem), (status = 409, description = "the run has ended, or is queued", body = ApiProblem)))]
pub(crate) async fn pause(
    allowed: Allowed<Control>,
    State(app): State<App>,
    RunId(run): RunId,
    IdempotencyKey(key): IdempotencyKey,
    MaybeJson(body): MaybeJson<ControlRequest>,
) -> Result<Response, ApiProblem> {
    let id = idempotency_id("pause", &allowed.identity, key, body.request_id)?;
    let seen = run.clone();
    if app.read_store(move |app| Ok(find_run(app, &seen)?.status)).await? == RunStatus::Pending {
        // A queued run stands still already and starts when it is admitted, so pausing would have no effect.
        let problem = ApiProblem::new(StatusCode::CONFLICT, codes::CONFLICT, format!("the run `{run}` is queued"));
        return Err(problem.hint("cancel it, or pause it after it has started"));
    }
    respond(app, run, id, RunRequest::Pause).await
}

/// Resumes a run that was paused, or that no process is running.
#[utoipa::path(post, path = "/api/v1/runs/{run}/resume", tag = "control", request_body = Option<ControlRequest>, params(("run" = String, Path)),
    responses((status = 202, description = "the request is stored durably", body = ControlResponse), (status = 404, description = "there is no such run", body = ApiProblem), (status = 409, description = "the run has ended", body = ApiProblem)))]
pub(crate) async fn resume(
    allowed: Allowed<Control>,
    State(app): State<App>,
    RunId(run): RunId,
    IdempotencyKey(key): IdempotencyKey,
    MaybeJson(body): MaybeJson<ControlRequest>,
) -> Result<Response, ApiProblem> {
    let id = idempotency_id("resume", &allowed.identity, key, body.request_id)?;
    let outcome = send_request(&app, &run, id, RunRequest::Resume).await?;
    if outcome == RequestOutcome::Queued {
        // No process owns the run: it is reloaded here, where it finds the request.
        match app.engine.resume(&run).await {
            Ok(_) | Err(RuntimeError::Owned { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    control_response(run, outcome)
}

/// Cancels a run.
#[utoipa::path(post, path = "/api/v1/runs/{run}/cancel", tag = "control", request_body = Option<CancelRequest>, params(("run" = String, Path)),
    responses((status = 202, description = "the request is stored durably", body = ControlResponse), (status = 404, description = "there is no such run", body = ApiProblem), (status = 409, description = "the run has ended", body = ApiProblem)))]
pub(crate) async fn cancel(
    allowed: Allowed<Control>,
    State(app): State<App>,
    RunId(run): RunId,
    IdempotencyKey(key): IdempotencyKey,
    MaybeJson(body): MaybeJson<CancelRequest>,
) -> Result<Response, ApiProblem> {
    let id = idempotency_id("cancel", &allowed.identity, key, body.request_id)?;
    let reason = body.reason.unwrap_or_else(|| format!("cancelled by {}", allowed.identity.name));
    check_length("reason", &reason)?;
    respond(app, run, id, RunRequest::Cancel { reason }).await
}

/// Sends a signal to a run, which may wait for it now or later. A signal that answers an open approval must match its
/// schema.
#[utoipa::path(post, path = "/api/v1/runs/{run}/signal", tag = "control", request_body = SignalRequest, params(("run" = String, Path)),
    responses((status = 202, description = "the signal is stored durably; `delivery` reports whether a step waits for it", body = ControlResponse), (status = 404, description = "there is no such run", body = ApiProblem), (status = 409, description = "the run has ended", body = ApiProblem), (status = 422, description = "it answers an approval and does not match its schema", body = ApiProblem)))]
pub(crate) async fn signal(
    allowed: Allowed<Control>,
    State(app): State<App>,
    RunId(run): RunId,
    IdempotencyKey(key): IdempotencyKey,
    Json(body): Json<SignalRequest>,
) -> Result<Response, ApiProblem> {
    let SignalRequest { name, data: payload, step, request_id: own } = body;
    let id = idempotency_id("signal", &allowed.identity, key, own)?;
    check_length("name", &name)?;
    step.iter().try_for_each(|step| check_length("step", step))?;
    let checked = approval::check_signal(&*app.store, &run, &name, step.as_deref(), Some(&payload)).await;
    checked.map_err(approvals::rejection_problem)?;
    let undelivered = undelivered_signal(&app, &run, &name, &payload, step.as_deref()).await?;
    let request = match step {
        Some(place) => RunRequest::SignalTo { place, name, payload },
        None => RunRequest::Signal { name, payload },
    };
    match (send_request(&app, &run, id, request).await?, undelivered) {
        (RequestOutcome::Delivered | RequestOutcome::Queued, Some((delivery, note))) => {
            let response = ControlResponse { run, delivery, note: Some(note) };
            Ok((StatusCode::ACCEPTED, axum::Json(response)).into_response())
        }
        (outcome, _) => control_response(run, outcome),
    }
}

/// Returns the result of a signal that no step of the run currently waits for.
async fn undelivered_signal(
    app: &App,
    run: &str,
    name: &str,
    payload: &Value,
    step: Option<&str>,
) -> Result<Option<(&'static str, String)>, ApiProblem> {
    let state = app.resident_state(run).await?;
    let (run, name, payload, step) = (run.to_owned(), Arc::from(name), payload.clone(), step.map(Arc::from));
    let inspect = move |app: &App| {
        let row = find_run(app, &run)?;
        // For an ended or quarantined run, the request itself reports the problem.
        if row.status.is_final() || row.status == RunStatus::Quarantined {
            return Ok(None);
        }
        // A run whose plan cannot be read gets the signal all the same.
        let Ok(program) = app.engine.program(&row.plan) else { return Ok(None) };
        let stored = || StoredRun::load(app.store.as_ref(), row, program.clone()).ok().map(|seen| seen.image.state);
        Ok(state.or_else(stored).and_then(|state| {
            let delivery = predict_delivery(&program, &state, &name, &payload, step.as_ref());
            undelivered_signal_note(delivery, &name, step.as_deref(), state.waits.keys())
        }))
    };
    app.read_store(inspect).await
}

/// Retries the failed parts of a run as a new run.
///
/// Successful results are reused as long as their inputs are the same.
#[utoipa::path(post, path = "/api/v1/runs/{run}/retry", tag = "control", request_body = Option<RetryRequestBody>, params(("run" = String, Path)),
    responses((status = 202, description = "the new run has been started", body = RetryResponse), (status = 404, description = "there is no such run", body = ApiProblem), (status = 409, description = "the run has not ended, or nothing in it has failed", body = ApiProblem)))]
pub(crate) async fn retry(
    _: Allowed<Control>,
    State(app): State<App>,
    RunId(run): RunId,
    MaybeJson(body): MaybeJson<RetryRequestBody>,
) -> Result<Response, ApiProblem> {
    let id = check_new_id(body.id)?;
    let old = run.clone();
    let handle = run_fork(&app, move |app| async move { app.engine.retry_failed(&old, id).await }).await?;
    let retried = RetryResponse { run: handle.run.to_string(), retries: run, created: handle.created };
    Ok((StatusCode::ACCEPTED, axum::Json(retried)).into_response())
}

/// Restarts a run from a step or an iteration, as a new run.
#[utoipa::path(post, path = "/api/v1/runs/{run}/restart", tag = "control", request_body = RestartRequestBody, params(("run" = String, Path)),
    responses((status = 202, description = "the new run has been started", body = RestartResponse), (status = 404, description = "there is no such run", body = ApiProblem), (status = 422, description = "nothing has started at the restart point, or the variable is not visible there", body = ApiProblem)))]
pub(crate) async fn restart(
    _: Allowed<Control>,
    State(app): State<App>,
    RunId(run): RunId,
    Json(body): Json<RestartRequestBody>,
) -> Result<Response, ApiProblem> {
    let RestartRequestBody { from, occurrence, set, id } = body;
    check_length("from", &from)?;
    let restart =
        RestartRequest { from: from.clone(), occurrence, set: set.into_iter().collect(), id: check_new_id(id)? };
    let old = run.clone();
    let fork = move |app: App| async move {
        let made = app.engine.restart(&old, restart).await;
        made.map_err(|error| with_iteration_hint(&app, error))
    };
    let handle = run_fork(&app, fork).await?;
    let restarted = RestartResponse { run: handle.run.to_string(), restarts: run, from, created: handle.created };
    Ok((StatusCode::ACCEPTED, axum::Json(restarted)).into_response())
}

/// Forks a run. The old run is replayed first, which is a long computation.
async fn run_fork<F, E: Into<ApiProblem>>(
    app: &App,
    fork: impl FnOnce(App) -> F + Send + 'static,
) -> Result<RunHandle, ApiProblem>
where
    F: Future<Output = Result<RunHandle, E>>,
{
    let handle = tokio::runtime::Handle::current();
    app.compute(move |app| handle.block_on(fork(app.clone())).map_err(Into::into)).await
}

/// Adds the number of iterations to the error about an iteration that does not exist.
fn with_iteration_hint(app: &App, error: RuntimeError) -> ApiProblem {
    let loop_path = match &error {
        RuntimeError::NoSuchPath { run, path, .. } => path.rfind('[').map(|end| (run.clone(), path[..end].to_owned())),
        _ => None,
    };
    let problem = ApiProblem::from(error);
    let Some((run, path)) = loop_path else { return problem };
    let seen = loop_histories(app.store.as_ref(), &run, vec![path.clone()], None, &[]).unwrap_or_default();
    match seen.first().filter(|seen| seen.iterations > 0) {
        Some(seen) => {
            let iterations = if seen.iterations == 1 {
                "one iteration".to_owned()
            } else {
                format!("{} iterations", seen.iterations)
            };
            problem.hint(format!("`{path}` has {iterations}: GET /api/v1/runs/{run}/iterations?loop={path} lists them"))
        }
        None => problem,
    }
}

async fn respond(app: App, run: String, id: String, request: RunRequest) -> Result<Response, ApiProblem> {
    let outcome = send_request(&app, &run, id, request).await?;
    control_response(run, outcome)
}

async fn send_request(app: &App, run: &str, id: String, request: RunRequest) -> Result<RequestOutcome, ApiProblem> {
    let run = run.to_owned();
    app.write_store(move |app| Ok(app.engine.request(&run, &id, request)?)).await
}

fn control_response(run: String, outcome: RequestOutcome) -> Result<Response, ApiProblem> {
    let delivery = match outcome {
        RequestOutcome::Delivered => "delivered",
        RequestOutcome::Queued => "buffered",
        RequestOutcome::Duplicate => "repeated",
        RequestOutcome::Ended => {
            let problem = ApiProblem::new(StatusCode::CONFLICT, codes::RUN_ENDED, format!("the run `{run}` has ended"));
            return Err(problem.hint(format!("GET /api/v1/runs/{run} shows its outcome")));
        }
    };
    Ok((StatusCode::ACCEPTED, axum::Json(ControlResponse { run, delivery, note: None })).into_response())
}

/// Returns the idempotency id of a call. The scope of an idempotency key is one operation and one token.
fn idempotency_id(
    kind: &str,
    identity: &TokenIdentity,
    key: Option<String>,
    body_id: Option<String>,
) -> Result<String, ApiProblem> {
    let given = match (key, body_id) {
        (Some(_), Some(_)) => {
            return Err(ApiProblem::bad_request("`request_id` and `Idempotency-Key` are both given")
                .hint("both are idempotency keys: send only one of them"));
        }
        (key, own) => key.or(own),
    };
    given.iter().try_for_each(|id| check_length("request_id", id))?;
    Ok(match given {
        Some(id) => format!("{kind}:{}:{id}", identity.id),
        None => format!("{kind}:{}", new_run_id()),
    })
}

fn check_new_id(id: Option<String>) -> Result<Option<String>, ApiProblem> {
    match id {
        Some(id) if !is_new_run_id(&id) => {
            Err(ApiProblem::bad_request(format!("`{}` cannot be the id of a run", id.escape_debug()))
                .hint("up to 128 letters, digits and -_.: but not `last`, `changes` or `counts`, which are reserved, and not 16 or more digits, which are an execution id"))
        }
        id => Ok(id),
    }
}

fn check_length(what: &str, text: &str) -> Result<(), ApiProblem> {
    match text.is_empty() || text.len() > MAX_TEXT_BYTES {
        true => Err(ApiProblem::bad_request(format!("`{what}` must have 1 to {MAX_TEXT_BYTES} bytes"))),
        false => Ok(()),
    }
}
