//! The worker protocol over HTTP, and the list of workers.

use axum::Json as Answer;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;

use super::extract::Json;
use crate::auth::{Allowed, Control, Read, TokenIdentity, Work};
use crate::problem::codes;
use crate::workers::{
    CompleteRequest, DeregisterRequest, FailRequest, HeartbeatRequest, HeartbeatResponse, LeaseRequest, LeaseResponse,
    LogReport, ProgressReport, ReportAccepted, ReportRejection, WorkerKey, WorkerList,
};
use crate::{ApiProblem, App};

/// Maximum length of a worker's id.
const MAX_WORKER_ID_BYTES: usize = 128;
/// Maximum length of a worker's name, of a tool, and of a label and its value, as in definitions.
const MAX_LABEL_BYTES: usize = 256;

const MORE_ENTRIES: &str = "the operator can raise `server.max_worker_entries` in windlass.toml";

/// Leases jobs to a worker; waits up to `wait_ms` while there are none.
#[utoipa::path(post, path = "/api/v1/worker/lease", tag = "workers", request_body = LeaseRequest,
    responses((status = 200, body = LeaseResponse, description = "jobs, or none after `wait_ms`")))]
pub(crate) async fn lease(
    allowed: Allowed<Work>,
    State(app): State<App>,
    Json(request): Json<LeaseRequest>,
) -> Result<Answer<LeaseResponse>, ApiProblem> {
    let worker_key = parse_worker_key(&allowed.identity, &request.worker)?;
    let max_entries = app.options.limits.max_worker_entries;
    if request.tools.len().max(request.labels.len()) > max_entries {
        return Err(
            ApiProblem::bad_request(format!("a worker has at most {max_entries} tools and labels")).hint(MORE_ENTRIES)
        );
    }
    // The server keeps these texts for as long as it knows the worker.
    let labels = request.labels.iter().flat_map(|(name, value)| [name.len(), value.len()]);
    let longest =
        request.tools.iter().map(String::len).chain(labels).chain([request.name.len()]).max().unwrap_or_default();
    if longest > MAX_LABEL_BYTES {
        let detail = format!("names, tools and labels of a worker have at most {MAX_LABEL_BYTES} bytes");
        return Err(ApiProblem::bad_request(detail));
    }
    let mut leased = app.dispatcher.lease(&worker_key, &allowed.identity.name, &request).await;
    leased.jobs = app.with_credentials(leased.jobs).await;
    Ok(Answer(leased))
}

/// Renews a worker's leases. The worker must act on the response immediately.
#[utoipa::path(post, path = "/api/v1/worker/heartbeat", tag = "workers", request_body = HeartbeatRequest,
    responses((status = 200, body = HeartbeatResponse, description = "the state of its leases")))]
pub(crate) async fn heartbeat(
    allowed: Allowed<Work>,
    State(app): State<App>,
    Json(beat): Json<HeartbeatRequest>,
) -> Result<Answer<HeartbeatResponse>, ApiProblem> {
    let worker_key = parse_worker_key(&allowed.identity, &beat.worker)?;
    let max_entries = app.options.limits.max_worker_entries;
    if beat.jobs.len() > max_entries {
        return Err(ApiProblem::bad_request(format!("a worker has at most {max_entries} jobs")).hint(MORE_ENTRIES));
    }
    Ok(Answer(app.dispatcher.heartbeat(&worker_key, &beat).await))
}

/// Publishes an event of a running task. It counts as a heartbeat.
#[utoipa::path(post, path = "/api/v1/worker/progress", tag = "workers", request_body = ProgressReport,
    responses((status = 204, description = "the event is published"), (status = 409, body = ApiProblem, description = "the worker no longer holds the lease")))]
pub(crate) async fn progress(
    allowed: Allowed<Work>,
    State(app): State<App>,
    Json(mut progress): Json<ProgressReport>,
) -> Result<StatusCode, ApiProblem> {
    let worker_key = parse_worker_key(&allowed.identity, &progress.worker)?;
    let max_bytes = app.options.limits.max_worker_event_bytes;
    if progress.data.size_up_to(max_bytes) > max_bytes {
        return Err(ApiProblem::bad_request(format!("`data` has more than {max_bytes} bytes"))
            .hint("the operator can raise `server.max_worker_event_bytes` in windlass.toml"));
    }
    if let Some(problem) = progress.check() {
        return Err(ApiProblem::bad_request(problem));
    }
    app.dispatcher
        .progress(&worker_key, &progress)
        .map_err(|refused| rejection_problem(refused, progress.job, progress.lease_epoch))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Stores log lines of a running task: `log()` of a worker, or the output of its programs. It counts as a heartbeat.
#[utoipa::path(post, path = "/api/v1/worker/log", tag = "workers", request_body = LogReport,
    responses((status = 204, description = "the lines are stored, as far as the limits allow"), (status = 409, body = ApiProblem, description = "the worker no longer holds the lease")))]
pub(crate) async fn log(
    allowed: Allowed<Work>,
    State(app): State<App>,
    Json(report): Json<LogReport>,
) -> Result<StatusCode, ApiProblem> {
    let worker_key = parse_worker_key(&allowed.identity, &report.worker)?;
    app.dispatcher
        .log(&worker_key, &report)
        .map_err(|refused| rejection_problem(refused, report.job, report.lease_epoch))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Reports the success of a task. Answered when it is durable, with the pipeline's next task if this worker can run
/// it.
#[utoipa::path(post, path = "/api/v1/worker/complete", tag = "workers", request_body = CompleteRequest,
    responses((status = 200, body = ReportAccepted, description = "the report is durable; `next` is the next task, if this worker can run it"), (status = 409, body = ApiProblem, description = "the worker no longer holds the lease")))]
pub(crate) async fn complete(
    allowed: Allowed<Work>,
    State(app): State<App>,
    Json(complete): Json<CompleteRequest>,
) -> Result<Answer<ReportAccepted>, ApiProblem> {
    let (report, outcome) = complete.into_parts();
    let worker_key = parse_worker_key(&allowed.identity, &report.worker)?;
    let reported = app.dispatcher.report(&worker_key, &report, outcome).await;
    let next = reported.map_err(|refused| rejection_problem(refused, report.job, report.lease_epoch))?;
    Ok(Answer(ReportAccepted { next: app.with_credentials(next.into_iter().collect()).await.pop() }))
}

/// Reports the failure of a task. Answered like `complete`; the next task may be a retry of the same one.
#[utoipa::path(post, path = "/api/v1/worker/fail", tag = "workers", request_body = FailRequest,
    responses((status = 200, body = ReportAccepted, description = "the report is durable; `next` is the next task, if this worker can run it"), (status = 409, body = ApiProblem, description = "the worker no longer holds the lease")))]
pub(crate) async fn fail(
    allowed: Allowed<Work>,
    State(app): State<App>,
    Json(fail): Json<FailRequest>,
) -> Result<Answer<ReportAccepted>, ApiProblem> {
    let (report, outcome) = fail.into_parts();
    let worker_key = parse_worker_key(&allowed.identity, &report.worker)?;
    let reported = app.dispatcher.report(&worker_key, &report, outcome).await;
    let next = reported.map_err(|refused| rejection_problem(refused, report.job, report.lease_epoch))?;
    Ok(Answer(ReportAccepted { next: app.with_credentials(next.into_iter().collect()).await.pop() }))
}

/// Deregisters a worker. Its jobs go to others immediately.
#[utoipa::path(post, path = "/api/v1/worker/deregister", tag = "workers", request_body = DeregisterRequest,
    responses((status = 204, description = "the worker is deregistered; its remaining jobs go to other workers")))]
pub(crate) async fn deregister(
    allowed: Allowed<Work>,
    State(app): State<App>,
    Json(request): Json<DeregisterRequest>,
) -> Result<StatusCode, ApiProblem> {
    app.dispatcher.deregister(&parse_worker_key(&allowed.identity, &request.worker)?);
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the workers, their leases and the queued jobs.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers",
    responses((status = 200, body = WorkerList, description = "workers, and the jobs queued for them")))]
pub(crate) async fn list(_: Allowed<Read>, State(app): State<App>) -> Answer<WorkerList> {
    Answer(app.dispatcher.list())
}

#[derive(Deserialize)]
pub(crate) struct WorkerParam {
    worker: String,
}

/// Asks a worker to stop when its jobs are done.
#[utoipa::path(post, path = "/api/v1/workers/{worker}/drain", tag = "workers", params(("worker" = String, Path)),
    responses((status = 202, description = "the worker learns of it with its next heartbeat"), (status = 404, body = ApiProblem, description = "there is no such worker")))]
pub(crate) async fn drain(
    _: Allowed<Control>,
    State(app): State<App>,
    Path(WorkerParam { worker }): Path<WorkerParam>,
) -> Result<StatusCode, ApiProblem> {
    match app.dispatcher.drain(&worker) {
        true => Ok(StatusCode::ACCEPTED),
        false => {
            Err(ApiProblem::not_found("there is no such worker").hint("GET /api/v1/workers lists the known workers"))
        }
    }
}

fn parse_worker_key(identity: &TokenIdentity, worker: &str) -> Result<WorkerKey, ApiProblem> {
    let fits =
        !worker.is_empty() && worker.len() <= MAX_WORKER_ID_BYTES && worker.bytes().all(|byte| byte.is_ascii_graphic());
    match fits {
        true => Ok(WorkerKey { token: identity.id.as_str().into(), worker: worker.into() }),
        false => Err(ApiProblem::bad_request(format!(
            "`worker` must be 1 to {MAX_WORKER_ID_BYTES} printable ASCII characters"
        ))),
    }
}

fn rejection_problem(rejection: ReportRejection, job: u64, lease_epoch: u32) -> ApiProblem {
    match rejection {
        ReportRejection::Stale => {
            let detail =
                format!("this worker does not hold job {job} under lease epoch {lease_epoch}; nothing was changed");
            let hint = "stop the job and send no more reports for it; a `heartbeat` with its `idempotency_key` may reclaim \
                        the lease";
            ApiProblem::new(StatusCode::CONFLICT, codes::STALE_LEASE, detail).hint(hint)
        }
        ReportRejection::ShuttingDown => {
            let detail =
                "the server is shutting down and evicting the run: it is unknown whether the report is durable";
            let problem = ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE, detail);
            problem.hint(
                "send `heartbeat` with the job and its `idempotency_key` until it is renewed or lost, then report again",
            )
        }
    }
}
