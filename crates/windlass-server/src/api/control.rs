//! Control: pause, resume, cancel, signal, retry, restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_core::hearing;
use windlass_runtime::show::{Seen, loops_of, undelivered_signal_note};
use windlass_runtime::{Answer, Request, RestartRequest, RunHandle, RuntimeError, new_run_id};
use windlass_store::RunStatus;
use windlass_tools::approval;
use windlass_value::Value;

use super::approvals;
use super::models::row_of;
use super::take::{IdempotencyKey, Json, MaybeJson, RunId, is_new_run_id};
use crate::auth::{Allowed, Control, Identity};
use crate::problem::codes;
use crate::{App, Problem};

/// Letters of a reason, a name, a request id.
const MAX_TEXT_BYTES: usize = 1_024;

/// What became of a request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Answered {
    pub run: String,
    /// delivered: whoever has the run acts on it now; kept: it is acted on when the run goes on, or when something waits for it;
    /// dropped: it is for one place, which does not wait for it; repeated: the same was asked before
    pub delivery: &'static str,
    /// What that means for a signal that nothing waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plain {
    /// Makes repeats of this call one, as the header `Idempotency-Key` does.
    pub request_id: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelRequest {
    /// For whoever looks at the run later.
    pub reason: Option<String>,
    pub request_id: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signal {
    /// What the run waits for.
    pub name: String,
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub data: Value,
    /// Only the step of this name hears it.
    pub place: Option<String>,
    pub request_id: Option<String>,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryRequestBody {
    /// What the new run is to be called. The same id again is the same run.
    pub id: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestartRequestBody {
    /// A path as events show it: `sync[3].fetch`, or `sync[3]` for the whole turn.
    pub from: String,
    /// Which of its beginnings, counted from 1; the last if nothing is said.
    pub occurrence: Option<u64>,
    /// New values for variables that what begins there can see.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, serde_json::Value>)]
    pub set: BTreeMap<String, Value>,
    pub id: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetryResponse {
    /// The new run.
    pub run: String,
    pub retries: String,
    pub created: bool,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RestartResponse {
    /// The new run.
    pub run: String,
    pub restarts: String,
    pub from: String,
    pub created: bool,
}

/// Stops a run between two tasks.
#[utoipa::path(post, path = "/api/v1/runs/{run}/pause", tag = "control", request_body = Option<Plain>, params(("run" = String, Path)),
    responses((status = 202, description = "asked for, durably", body = Answered), (status = 404, description = "there is no such run", body = Problem), (status = 409, description = "it has ended, or waits for its turn", body = Problem)))]
pub(crate) async fn pause(
    allowed: Allowed<Control>,
    State(app): State<App>,
    RunId(run): RunId,
    IdempotencyKey(key): IdempotencyKey,
    MaybeJson(body): MaybeJson<Plain>,
) -> Result<Response, Problem> {
    let id = idempotency_id("pause", &allowed.who, key, body.request_id)?;
    let seen = run.clone();
    if app.at_store(move |app| Ok(row_of(app, &seen)?.status)).await? == RunStatus::Pending {
        // It stands still already, and goes on when its turn comes: nothing would come of it.
        let problem =
            Problem::new(StatusCode::CONFLICT, codes::CONFLICT, format!("the run `{run}` waits for its turn"));
        return Err(problem.hint("cancel it, or pause it when it has begun"));
    }
    answer(app, run, id, Request::Pause).await
}

/// Goes on with a run that was paused, or that nobody runs.
#[utoipa::path(post, path = "/api/v1/runs/{run}/resume", tag = "control", request_body = Option<Plain>, params(("run" = String, Path)),
    responses((status = 202, description = "asked for, durably", body = Answered), (status = 404, description = "there is no such run", body = Problem), (status = 409, description = "it has ended", body = Problem)))]
pub(crate) async fn resume(
    allowed: Allowed<Control>,
    State(app): State<App>,
    RunId(run): RunId,
    IdempotencyKey(key): IdempotencyKey,
    MaybeJson(body): MaybeJson<Plain>,
) -> Result<Response, Problem> {
    let id = idempotency_id("resume", &allowed.who, key, body.request_id)?;
    let told = ask(&app, &run, id, Request::Resume).await?;
    if told == Answer::Queued {
        // Nobody has it: it is brought back here, where it finds what it was asked.
        match app.engine.resume(&run).await {
            Ok(_) | Err(RuntimeError::Owned { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    answered(run, told)
}

/// Ends a run.
#[utoipa::path(post, path = "/api/v1/runs/{run}/cancel", tag = "control", request_body = Option<CancelRequest>, params(("run" = String, Path)),
    responses((status = 202, description = "asked for, durably", body = Answered), (status = 404, description = "there is no such run", body = Problem), (status = 409, description = "it has ended", body = Problem)))]
pub(crate) async fn cancel(
    allowed: Allowed<Control>,
    State(app): State<App>,
    RunId(run): RunId,
    IdempotencyKey(key): IdempotencyKey,
    MaybeJson(body): MaybeJson<CancelRequest>,
) -> Result<Response, Problem> {
    let id = idempotency_id("cancel", &allowed.who, key, body.request_id)?;
    let reason = body.reason.unwrap_or_else(|| format!("cancelled by {}", allowed.who.name));
    short("reason", &reason)?;
    answer(app, run, id, Request::Cancel { reason }).await
}

/// Tells a run what it waits for, or will wait for. What answers an open question must fit its schema, as its answer must.
#[utoipa::path(post, path = "/api/v1/runs/{run}/signal", tag = "control", request_body = Signal, params(("run" = String, Path)),
    responses((status = 202, description = "told, durably; `answer` says whether something waits for it", body = Answered), (status = 404, description = "there is no such run", body = Problem), (status = 409, description = "it has ended", body = Problem), (status = 422, description = "it answers a question and does not fit its schema", body = Problem)))]
pub(crate) async fn signal(
    allowed: Allowed<Control>,
    State(app): State<App>,
    RunId(run): RunId,
    IdempotencyKey(key): IdempotencyKey,
    Json(body): Json<Signal>,
) -> Result<Response, Problem> {
    let Signal { name, data: payload, place, request_id: own } = body;
    let id = idempotency_id("signal", &allowed.who, key, own)?;
    short("name", &name)?;
    place.iter().try_for_each(|place| short("place", place))?;
    let checked = approval::check_signal(&*app.store, &run, &name, place.as_deref(), Some(&payload)).await;
    checked.map_err(approvals::refused)?;
    let undelivered = undelivered_signal(&app, &run, &name, &payload, place.as_deref()).await?;
    let request = match place {
        Some(place) => Request::SignalTo { place, name, payload },
        None => Request::Signal { name, payload },
    };
    match (ask(&app, &run, id, request).await?, undelivered_signal_note) {
        (Answer::Delivered | Answer::Queued, Some((answer, note))) => {
            let answered = Answered { run, delivery, note: Some(note) };
            Ok((StatusCode::ACCEPTED, axum::Json(answered)).into_response())
        }
        (told, _) => answered(run, told),
    }
}

/// The answer to a signal that nothing waits for, as the run stands.
async fn undelivered_signal(
    app: &App,
    run: &str,
    name: &str,
    payload: &Value,
    place: Option<&str>,
) -> Result<Option<(&'static str, String)>, Problem> {
    let state = app.resident_state(run).await?;
    let (run, name, payload, place) = (run.to_owned(), Arc::from(name), payload.clone(), place.map(Arc::from));
    let look = move |app: &App| {
        let row = row_of(app, &run)?;
        // How one has ended, or why it was set aside, is told by what becomes of the request.
        if row.status.is_final() || row.status == RunStatus::Quarantined {
            return Ok(None);
        }
        // One that cannot be read is told all the same.
        let Ok(program) = app.engine.program(&row.plan) else { return Ok(None) };
        let stored = || Seen::load(app.store.as_ref(), row, program.clone()).ok().map(|seen| seen.image.state);
        let delivery = state.or_else(stored).map(|state| predict_delivery(&program, &state, &name, &payload, place.as_ref()));
        Ok(delivery.and_then(|delivery| undelivered_signal_note(delivery, &name, place.as_deref())))
    };
    app.at_store(look).await
}

/// Does again what has failed in a run, as a new run.
///
/// What had gone well is taken over, as long as it is asked for the same.
#[utoipa::path(post, path = "/api/v1/runs/{run}/retry", tag = "control", request_body = Option<RetryRequestBody>, params(("run" = String, Path)),
    responses((status = 202, description = "the new run is started", body = RetryResponse), (status = 404, description = "there is no such run", body = Problem), (status = 409, description = "it has not ended, or nothing in it has failed", body = Problem)))]
pub(crate) async fn retry(
    _: Allowed<Control>,
    State(app): State<App>,
    RunId(run): RunId,
    MaybeJson(body): MaybeJson<RetryRequestBody>,
) -> Result<Response, Problem> {
    let id = new_id(body.id)?;
    let old = run.clone();
    let handle = run_fork(&app, move |app| async move { app.engine.retry_failed(&old, id).await }).await?;
    let retried = RetryResponse { run: handle.run.to_string(), retries: run, created: handle.created };
    Ok((StatusCode::ACCEPTED, axum::Json(retried)).into_response())
}

/// Does a run again from a step or a turn on, as a new run.
#[utoipa::path(post, path = "/api/v1/runs/{run}/restart", tag = "control", request_body = RestartRequestBody, params(("run" = String, Path)),
    responses((status = 202, description = "the new run is started", body = RestartResponse), (status = 404, description = "there is no such run", body = Problem), (status = 422, description = "nothing has begun there, or it sees no such variable", body = Problem)))]
pub(crate) async fn restart(
    _: Allowed<Control>,
    State(app): State<App>,
    RunId(run): RunId,
    Json(body): Json<RestartRequestBody>,
) -> Result<Response, Problem> {
    let RestartRequestBody { from, occurrence, set, id } = body;
    short("from", &from)?;
    let restart = RestartRequest { from: from.clone(), occurrence, set: set.into_iter().collect(), id: new_id(id)? };
    let old = run.clone();
    let fork = move |app: App| async move {
        let made = app.engine.restart(&old, restart).await;
        made.map_err(|error| with_iteration_hint(&app, error))
    };
    let handle = run_fork(&app, fork).await?;
    let restarted = RestartResponse { run: handle.run.to_string(), restarts: run, from, created: handle.created };
    Ok((StatusCode::ACCEPTED, axum::Json(restarted)).into_response())
}

/// An old run is replayed first: that is long, and computes.
async fn run_fork<F, E: Into<Problem>>(
    app: &App,
    fork: impl FnOnce(App) -> F + Send + 'static,
) -> Result<RunHandle, Problem>
where
    F: Future<Output = Result<RunHandle, E>>,
{
    let handle = tokio::runtime::Handle::current();
    app.at_length(move |app| handle.block_on(fork(app.clone())).map_err(Into::into)).await
}

/// Whoever names a turn that never was is told how many there were.
fn with_iteration_hint(app: &App, error: RuntimeError) -> Problem {
    let loop_path = match &error {
        RuntimeError::NoSuchPath { run, path, .. } => path.rfind('[').map(|end| (run.clone(), path[..end].to_owned())),
        _ => None,
    };
    let problem = Problem::from(error);
    let Some((run, path)) = loop_path else { return problem };
    let seen = loops_of(app.store.as_ref(), &run, vec![path.clone()], None).unwrap_or_default();
    match seen.first().filter(|seen| seen.iterations > 0) {
        Some(seen) => {
            let iterations = if seen.iterations == 1 { "one turn".to_owned() } else { format!("{} turns", seen.iterations) };
            problem.hint(format!("`{path}` has had {iterations}: GET /api/v1/runs/{run}/turns?loop={path} lists them"))
        }
        None => problem,
    }
}

async fn answer(app: App, run: String, id: String, request: Request) -> Result<Response, Problem> {
    let told = ask(&app, &run, id, request).await?;
    answered(run, told)
}

async fn ask(app: &App, run: &str, id: String, request: Request) -> Result<Answer, Problem> {
    let run = run.to_owned();
    app.to_store(move |app| Ok(app.engine.request(&run, &id, request)?)).await
}

fn answered(run: String, told: Answer) -> Result<Response, Problem> {
    let answer = match told {
        Answer::Delivered => "delivered",
        Answer::Queued => "kept",
        Answer::Duplicate => "repeated",
        Answer::Ended => {
            let problem = Problem::new(StatusCode::CONFLICT, codes::RUN_ENDED, format!("the run `{run}` has ended"));
            return Err(problem.hint(format!("GET /api/v1/runs/{run} shows how")));
        }
    };
    Ok((StatusCode::ACCEPTED, axum::Json(Answered { run, delivery: answer, note: None })).into_response())
}

/// What makes repeats of one call one: for each kind of call and each token apart.
fn idempotency_id(kind: &str, who: &Identity, key: Option<String>, body_id: Option<String>) -> Result<String, Problem> {
    let given = match (key, body_id) {
        (Some(_), Some(_)) => {
            return Err(Problem::bad_request("`request_id` and `Idempotency-Key` are both given")
                .hint("each of them makes repeats one: leave one out"));
        }
        (key, own) => key.or(own),
    };
    given.iter().try_for_each(|id| short("request_id", id))?;
    Ok(match given {
        Some(id) => format!("{kind}:{}:{id}", who.id),
        None => format!("{kind}:{}", new_run_id()),
    })
}

fn new_id(id: Option<String>) -> Result<Option<String>, Problem> {
    match id {
        Some(id) if !is_new_run_id(&id) => {
            Err(Problem::bad_request(format!("`{}` cannot be the id of a run", id.escape_debug())).hint(
                "up to 128 letters, digits and -_.: but not `last`, `changes` or `counts`, which mean something else",
            ))
        }
        id => Ok(id),
    }
}

fn short(what: &str, text: &str) -> Result<(), Problem> {
    match text.is_empty() || text.len() > MAX_TEXT_BYTES {
        true => Err(Problem::bad_request(format!("`{what}` must have 1 to {MAX_TEXT_BYTES} bytes"))),
        false => Ok(()),
    }
}
