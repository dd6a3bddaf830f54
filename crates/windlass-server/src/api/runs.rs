//! Runs: start, list, read.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_dialect::InputWarning;
use windlass_runtime::inspect::{ListedCount, ListedStatus, count_by_status, filter_by_status, listed_status};
use windlass_runtime::{RunHandle, RunOptions, RunStartOptions, RuntimeError, input_hash, removed_start};
use windlass_store::{ParentFilter, RunFilter, RunLabels, RunStatus};
use windlass_syntax::did_you_mean;
use windlass_value::{BlobHash, Map, Timestamp, Value};

use super::definitions::find;
use super::detail::{RunDetail, load_detail};
use super::extract::{
    IdempotencyKey, Json, Query, RunId, is_new_run_id, page_size, printable, resolve_execution_id, resolve_run,
};
use super::models::{ListPage, RunSummary, damaged_runs, find_run, run_summaries};
use crate::auth::{Allowed, Read, Run, Selecting, TokenIdentity};
use crate::problem::codes;
use crate::{ApiProblem, App};

/// Default and maximum number of runs per page.
const DEFAULT_PAGE_SIZE: u32 = 50;
const MAX_PAGE_SIZE: u32 = 500;

/// Maximum number of runs counted per status.
const MAX_COUNTED: u32 = 1_000;

/// The start of a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartRequest {
    /// The name of a registered definition.
    pub definition: String,
    /// The version; the current one by default.
    pub version: Option<u64>,
    /// Values for the definition's parameters.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub input: Value,
    /// Id of the run. The same id again is the same run.
    pub id: Option<String>,
    /// Time to wait for the run's end in milliseconds; at most 60,000.
    pub wait_ms: Option<u64>,
    /// Labels of the run, in addition to those of its definition.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A started run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StartResponse {
    /// The id of the run.
    pub run: String,
    /// Name of the definition.
    pub definition: String,
    /// Version of the definition, if it was registered here.
    pub version: Option<u64>,
    /// The status, as in a list of runs.
    pub status: String,
    /// Whether this call created the run; otherwise an earlier one did.
    pub created: bool,
    /// The run was started by an earlier call, has ended and was removed: only its id is still known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// Unused inputs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<StartWarning>,
}

/// An input that has no effect.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StartWarning {
    /// The problem, with the name of the input.
    pub message: String,
    /// A similar name, or the inputs that the definition declares.
    pub hint: String,
}

/// A run that ended while its start request waited.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EndedRunResponse {
    /// The run as `GET /api/v1/runs/{run}` returns it.
    #[serde(flatten)]
    pub run: RunDetail,
    /// Unused inputs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<StartWarning>,
}

impl IntoResponse for StartResponse {
    fn into_response(self) -> Response {
        // Every run id is valid in a header and in a path.
        let location = HeaderValue::try_from(format!("/api/v1/runs/{}", self.run));
        let mut answer = (StatusCode::ACCEPTED, axum::Json(self)).into_response();
        if let Ok(location) = location {
            answer.headers_mut().insert(header::LOCATION, location);
        }
        answer
    }
}

/// The filter and the page of a list of runs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunListQuery {
    /// One status, or several separated by commas.
    status: Option<String>,
    /// Only runs of this definition.
    definition: Option<String>,
    /// Only runs of this dialect.
    dialect: Option<String>,
    /// Part of the run's id or of its definition's name.
    search: Option<String>,
    /// Only runs with this label, `name=value`; several are separated by commas. A part without `=` belongs to the
    /// value before it.
    label: Option<String>,
    /// Only child runs of this run.
    parent: Option<String>,
    /// Include child runs.
    #[serde(default)]
    children: bool,
    /// Created at this time or later, RFC 3339.
    since: Option<String>,
    /// Created before this time, RFC 3339.
    until: Option<String>,
    /// The last number of the previous page.
    before: Option<i64>,
    /// Maximum number of entries; 50 by default, at most 500.
    limit: Option<u32>,
}

/// Starts a run.
///
/// The run is durable when this is answered. With the header `Idempotency-Key`, the same call again returns the same
/// run; another body under the same key is rejected.
#[utoipa::path(post, path = "/api/v1/runs", tag = "runs", request_body = StartRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "idempotency key: a repeat of this call has no further effect")),
    responses((status = 202, description = "started, or already started by the same call", body = StartResponse,
            headers(("Location" = String, description = "the address of the run"))),
        (status = 200, description = "the run has ended within `wait_ms`", body = EndedRunResponse),
        (status = 404, description = "there is no such definition", body = ApiProblem),
        (status = 409, description = "the id or key was used for a different call", body = ApiProblem),
        (status = 422, description = "the input does not match the definition", body = ApiProblem)))]
pub(crate) async fn start(
    selecting: Selecting<Run>,
    State(app): State<App>,
    IdempotencyKey(key): IdempotencyKey,
    Json(body): Json<StartRequest>,
) -> Result<Response, ApiProblem> {
    let StartRequest { definition, version, input, id, wait_ms, labels } = body;
    selecting.identity.check_definition(&definition)?;
    let id = run_id(id, key, &selecting.identity)?;
    let max_wait_ms = app.options.limits.max_start_wait.to_std().as_millis();
    if let Some(ms) = wait_ms.filter(|ms| u128::from(*ms) > max_wait_ms) {
        let problem = ApiProblem::bad_request(format!("`wait_ms` is {ms}; it must be 0 to {max_wait_ms}"));
        return Err(problem.hint(
            "GET /api/v1/runs/{run}/events reports the end of a run, however long it takes; the operator can raise \
             `server.max_start_wait` in windlass.toml",
        ));
    }
    // Without parameters, null and an empty object are equivalent.
    let input = if input.is_null() { Value::map(Map::new()) } else { input };
    let repeated_start =
        |id: String, input: Value| RepeatedStart { id, definition: definition.clone(), version, input, wait_ms };
    let (plan, number) = match (resolve_plan(&app, &definition, version).await, &id) {
        (Ok(found), _) => found,
        // A removed definition cannot be started, but a repeated call still returns the run that was started before.
        (Err(gone), Some(id)) if gone.code == codes::NOT_FOUND => {
            return match find_repeated_start(app, repeated_start(id.clone(), input)).await? {
                Some(answer) => Ok(answer),
                None => Err(gone),
            };
        }
        (Err(problem), _) => return Err(problem),
    };
    let options = RunStartOptions { id: id.clone(), watch: false, labels, ..RunStartOptions::default() };
    let program = app.engine.program(&plan)?;
    let unused = app.compiler.dialects().for_plan(&program.plan).check_input(&program.plan, &input);
    let warnings = unused.into_iter().map(|InputWarning { message, hint }| StartWarning { message, hint }).collect();
    let handle = match (app.engine.start(plan, input.clone(), options).await, id) {
        (Ok(handle), _) => handle,
        (
            Err(error @ (RuntimeError::RunExists(_) | RuntimeError::RunRemoved(_) | RuntimeError::Owned { .. })),
            Some(id),
        ) => {
            return find_repeated_start(app, repeated_start(id, input)).await?.ok_or_else(|| error.into());
        }
        (Err(error), _) => return Err(start_problem(error, &definition)),
    };
    if let Some(ms) = wait_ms {
        return wait_for_end(app, handle, &definition, ms, Some(number), warnings).await;
    }
    let run = handle.run.to_string();
    let status = match (handle.ended(), handle.created) {
        (Some(report), _) => report.status.as_str(),
        (None, true) => RunStatus::Running.as_str(),
        // The run existed before this call and may be waiting or paused by now.
        (None, false) => {
            let run = run.clone();
            app.read_store(move |app| Ok(listed_status(app.store.as_ref(), &find_run(app, &run)?)?.as_str())).await?
        }
    };
    let status = status.to_owned();
    let (version, created) = (Some(number), handle.created);
    let started = StartResponse { run, definition, version, status, created, removed: false, warnings };
    Ok(started.into_response())
}

/// Returns the run id that makes repeated calls idempotent.
fn run_id(id: Option<String>, key: Option<String>, identity: &TokenIdentity) -> Result<Option<String>, ApiProblem> {
    match (id, key) {
        (Some(_), Some(_)) => Err(ApiProblem::bad_request("`id` and `Idempotency-Key` are both given")
            .hint("both are idempotency keys: send only one of them")),
        (Some(id), None) if !is_new_run_id(&id) => {
            Err(ApiProblem::bad_request(format!("`{}` cannot be the id of a run", id.escape_debug()))
                .hint("up to 128 letters, digits and -_.: but not `last`, `changes` or `counts`, which are reserved, and not 16 or more digits, which are an execution id"))
        }
        (Some(id), None) => Ok(Some(id)),
        (None, Some(key)) => {
            // Idempotency keys are scoped to a token.
            let text = format!("{}\0{key}", identity.id);
            Ok(Some(format!("idem-{}", &blake3::hash(text.as_bytes()).to_hex()[..32])))
        }
        (None, None) => Ok(None),
    }
}

async fn resolve_plan(app: &App, name: &str, version: Option<u64>) -> Result<(BlobHash, u64), ApiProblem> {
    let definition = find(app, name)?;
    match version {
        None => Ok((definition.current.plan(), definition.current.version)),
        Some(number) if number == definition.current.version => Ok((definition.current.plan(), number)),
        Some(number) => {
            let name = name.to_owned();
            let read = move |app: &App| {
                let (_, version, _) = super::definitions::find_version(app, &name, Some(number))?;
                Ok((version.plan(), number))
            };
            app.read_store(read).await
        }
    }
}

fn start_problem(error: RuntimeError, definition: &str) -> ApiProblem {
    let input = matches!(error, RuntimeError::Input(_));
    let problem = ApiProblem::from(error);
    match input {
        true => problem.hint(format!("GET /api/v1/definitions/{definition} lists its parameters")),
        false => problem,
    }
}

/// A start request with a run id that may have been used before.
struct RepeatedStart {
    id: String,
    definition: String,
    version: Option<u64>,
    input: Value,
    wait_ms: Option<u64>,
}

/// Returns the response if a run of this id exists. It is the same call if the request was the same, whatever was
/// registered or removed since.
async fn find_repeated_start(app: App, repeat: RepeatedStart) -> Result<Option<Response>, ApiProblem> {
    let RepeatedStart { id, definition, version, input, wait_ms } = repeat;
    let given = input.clone();
    let (run, name, wanted, stored) = (id.clone(), definition.clone(), version, input.clone());
    let removed = app.read_store(move |app| find_removed_start(app, run, &name, wanted, stored)).await?;
    if removed.is_some() {
        return Ok(removed.map(IntoResponse::into_response));
    }
    let found = app.read_store(move |app| {
        let Some(row) = app.store.run(&id)? else { return Ok(None) };
        let options = RunOptions::from_row(&row)?;
        let before = app.definitions.version_of_plan(&row.plan).map(|(_, version)| version);
        let same_version = version.is_none() || version == before;
        let stored_input = app.engine.stored_input(&row, given)?;
        if row.definition != definition || !same_version || options.input != input_hash(&stored_input) {
            return Err(other_start(&id));
        }
        let status = listed_status(app.store.as_ref(), &row)?;
        Ok(Some((row, before, status)))
    });
    let Some((row, version, status)) = found.await? else { return Ok(None) };
    if let Some(ms) = wait_ms {
        let options = RunStartOptions { id: Some(row.run.to_string()), watch: false, ..RunStartOptions::default() };
        // If this process cannot wait for the run, the response has the run's current status.
        if let Ok(handle) = app.engine.start(row.plan, input, options).await {
            return wait_for_end(app, handle, &row.definition, ms, version, Vec::new()).await.map(Some);
        }
    }
    let (run, status) = (row.run.to_string(), status.as_str().to_owned());
    let (definition, warnings) = (row.definition, Vec::new());
    let started = StartResponse { run, definition, version, status, created: false, removed: false, warnings };
    Ok(Some(started.into_response()))
}

/// Returns the response for a run that retention has removed and whose id is still known. A run of that id counts
/// first.
fn find_removed_start(
    app: &App,
    run: String,
    definition: &str,
    version: Option<u64>,
    input: Value,
) -> Result<Option<StartResponse>, ApiProblem> {
    let Some(removed) = removed_start(&*app.store, &run)? else { return Ok(None) };
    if app.store.run(&run)?.is_some() {
        return Ok(None);
    }
    let before = app.definitions.version_of_plan(&removed.plan).map(|(_, version)| version);
    let options = removed.options()?;
    let same_input = options.input == input_hash(&app.engine.stored_input_for(&removed.plan, &options, input)?);
    if removed.definition != definition || !(version.is_none() || version == before) || !same_input {
        return Err(other_start(&run));
    }
    let (definition, status, warnings) = (removed.definition, removed.status.as_str().to_owned(), Vec::new());
    Ok(Some(StartResponse { run, definition, version: before, status, created: false, removed: true, warnings }))
}

fn other_start(id: &str) -> ApiProblem {
    let detail = format!("the run `{id}` exists already, with another definition, version or input");
    ApiProblem::conflict(detail).hint("use another id or `Idempotency-Key` for another call")
}

async fn wait_for_end(
    app: App,
    mut handle: RunHandle,
    definition: &str,
    ms: u64,
    version: Option<u64>,
    warnings: Vec<StartWarning>,
) -> Result<Response, ApiProblem> {
    let timeout = Duration::from_millis(ms);
    let ended = tokio::time::timeout(timeout, handle.wait()).await.is_ok_and(|ended| ended.is_ok());
    let created = handle.created;
    if ended {
        match load_detail(&app, handle.run.to_string()).await {
            Ok(run) => return Ok(axum::Json(EndedRunResponse { run, warnings }).into_response()),
            // The run exists: an error would say that nothing has happened.
            Err(problem) if !created => return Err(problem),
            Err(_) => {}
        }
    }
    let run = handle.run.to_string();
    let name = run.clone();
    let read = app.read_store(move |app| {
        let row = find_run(app, &name)?;
        let status = listed_status(app.store.as_ref(), &row)?.as_str().to_owned();
        Ok((row.definition, status))
    });
    let (definition, status) = match read.await {
        Err(_) if created => (definition.to_owned(), RunStatus::Running.as_str().to_owned()),
        read => read?,
    };
    let started = StartResponse { run, definition, version, status, created, removed: false, warnings };
    Ok(started.into_response())
}

/// Lists runs, newest first. Runs whose rows are damaged lead the first page, whatever the other filters: what they are
/// compared with may be part of the damage.
#[utoipa::path(get, path = "/api/v1/runs", tag = "runs", params(RunListQuery),
    responses((status = 200, description = "a page; `next` is the number for `before`", body = ListPage<RunSummary>),
        (status = 400, description = "a filter is invalid", body = ApiProblem)))]
pub(crate) async fn list(
    selecting: Selecting<Read>,
    State(app): State<App>,
    Query(query): Query<RunListQuery>,
) -> Result<axum::Json<ListPage<RunSummary>>, ApiProblem> {
    let limit = page_size(query.limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
    let before = query.before;
    let statuses = parse_statuses(query.status.as_deref())?;
    let filters = selecting.identity.permitted_filters(parse_filter(&app, query).await?)?;
    app.read_store(move |app| {
        let mut rows = Vec::new();
        for filter in filters {
            let filter = filter_by_status(app.store.as_ref(), filter, &statuses)?;
            rows.append(&mut app.store.runs(&filter, before, limit + 1)?);
        }
        // One filter lists runs in this order already.
        rows.sort_by_key(|row| std::cmp::Reverse(row.number));
        let more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let next = rows.last().filter(|_| more).map(|last| Value::Int(last.number));
        // The definition of a damaged run is unknown.
        let is_for_all = !selecting.identity.is_for_single_definitions();
        let mut items = if before.is_none() && is_for_all { damaged_runs(app, &statuses)? } else { Vec::new() };
        items.extend(run_summaries(app, &rows)?);
        Ok(axum::Json(ListPage { items, next }))
    })
    .await
}

/// The filter of the counted runs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CountsQuery {
    /// Only runs of this definition.
    definition: Option<String>,
    /// Only runs of this dialect.
    dialect: Option<String>,
    /// Part of the run's id or of its definition's name.
    search: Option<String>,
    /// Only runs with these labels, as in a list of runs.
    label: Option<String>,
    /// Only child runs of this run.
    parent: Option<String>,
    /// Include child runs.
    #[serde(default)]
    children: bool,
    /// Created at this time or later, RFC 3339.
    since: Option<String>,
    /// Created before this time, RFC 3339.
    until: Option<String>,
}

/// Numbers of runs by status.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatusCounts {
    /// Only statuses that occur.
    pub items: Vec<StatusCountInfo>,
}

/// The number of runs with one status.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatusCountInfo {
    /// The status, as in a list of runs.
    pub status: &'static str,
    /// The number of runs.
    pub runs: u64,
    /// Older runs were not counted: the number is a lower bound.
    pub more: bool,
}

/// Counts runs by status.
///
/// Considers the newest 1,000 runs of each status, or the newest 10,000 of the given definition or parent: the cost
/// does not depend on the total number of runs.
#[utoipa::path(get, path = "/api/v1/runs/counts", tag = "runs", params(CountsQuery),
    responses((status = 200, description = "by status", body = StatusCounts),
        (status = 400, description = "a filter is invalid", body = ApiProblem)))]
pub(crate) async fn counts(
    selecting: Selecting<Read>,
    State(app): State<App>,
    Query(query): Query<CountsQuery>,
) -> Result<axum::Json<StatusCounts>, ApiProblem> {
    let CountsQuery { definition, dialect, search, label, parent, children, since, until } = query;
    let page = RunListQuery::default();
    let query = RunListQuery { definition, dialect, search, label, parent, children, since, until, ..page };
    let filters = selecting.identity.permitted_filters(parse_filter(&app, query).await?)?;
    app.read_store(move |app| {
        let mut items: Vec<StatusCountInfo> = Vec::new();
        for filter in filters {
            for ListedCount { status, runs, more } in count_by_status(app.store.as_ref(), &filter, MAX_COUNTED)? {
                let status = status.as_str();
                match items.iter_mut().find(|item| item.status == status) {
                    Some(item) => (item.runs, item.more) = (item.runs + runs, item.more || more),
                    None => items.push(StatusCountInfo { status, runs, more }),
                }
            }
        }
        Ok(axum::Json(StatusCounts { items }))
    })
    .await
}

async fn parse_filter(app: &App, query: RunListQuery) -> Result<RunFilter, ApiProblem> {
    let parent = resolve_run(app, "parent", query.parent).await?;
    let search = match query.search.filter(|search| !search.is_empty()) {
        Some(search) => Some(resolve_execution_id(app, search).await?),
        None => None,
    };
    check_dialect(app, query.dialect.as_deref())?;
    let parent = match (parent, query.children) {
        (Some(parent), _) => Some(ParentFilter::Run(parent.into())),
        (None, false) => Some(ParentFilter::TopLevel),
        (None, true) => None,
    };
    Ok(RunFilter {
        definition: query.definition,
        dialect: query.dialect,
        search,
        parent,
        since: parse_time("since", query.since)?,
        until: parse_time("until", query.until)?,
        labels: parse_labels(query.label.as_deref())?,
        ..RunFilter::default()
    })
}

/// Parses `name=value,name=value`. A part without `=` belongs to the value before it.
fn parse_labels(text: Option<&str>) -> Result<RunLabels, ApiProblem> {
    let mut labels: Vec<(String, String)> = Vec::new();
    for part in text.iter().flat_map(|text| text.split(',')) {
        match (part.split_once('='), labels.last_mut()) {
            (Some((name, value)), _) => labels.push((name.trim().to_owned(), value.to_owned())),
            (None, Some((_, value))) => *value = format!("{value},{part}"),
            (None, None) => {
                let problem = ApiProblem::bad_request(format!("`label` is `{}`", printable(part)));
                return Err(problem.hint("expected name=value, such as customer=acme"));
            }
        }
    }
    Ok(labels.into_iter().collect())
}

fn check_dialect(app: &App, given: Option<&str>) -> Result<(), ApiProblem> {
    let (Some(given), known) = (given, app.compiler.dialects().names()) else { return Ok(()) };
    if known.is_empty() || known.contains(&given) {
        return Ok(());
    }
    let problem = ApiProblem::bad_request(format!("`{}` is not a dialect", printable(given)));
    Err(problem.hint(did_you_mean(given, known.iter().copied()).unwrap_or_else(|| known.join(", "))))
}

fn parse_statuses(words: Option<&str>) -> Result<Vec<ListedStatus>, ApiProblem> {
    words.iter().flat_map(|words| words.split(',')).map(parse_status).collect()
}

fn parse_status(word: &str) -> Result<ListedStatus, ApiProblem> {
    ListedStatus::parse(word.trim()).ok_or_else(|| {
        let words: Vec<&str> = ListedStatus::all().map(ListedStatus::as_str).collect();
        let problem = ApiProblem::bad_request(format!("`{}` is not a run status", word.escape_debug()));
        problem.hint(did_you_mean(word, words.iter().copied()).unwrap_or_else(|| words.join(", ")))
    })
}

pub(crate) fn parse_time(name: &str, text: Option<String>) -> Result<Option<Timestamp>, ApiProblem> {
    let Some(text) = text else { return Ok(None) };
    let time = Timestamp::parse_rfc3339(&text);
    time.map(Some).ok_or_else(|| {
        ApiProblem::bad_request(format!("`{name}` is not a valid time"))
            .hint("expected RFC 3339, such as 2026-11-16T09:30:00Z")
    })
}

/// Returns one run.
#[utoipa::path(get, path = "/api/v1/runs/{run}", tag = "runs", params(("run" = String, Path)),
    responses((status = 200, description = "its input, output, errors and current activity", body = RunDetail), (status = 404, description = "there is no such run", body = ApiProblem)))]
pub(crate) async fn get(
    _: Allowed<Read>,
    State(app): State<App>,
    RunId(run): RunId,
) -> Result<axum::Json<RunDetail>, ApiProblem> {
    load_detail(&app, run).await.map(axum::Json)
}
