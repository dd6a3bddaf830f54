//! A run as a graph and as a timeline.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::plan::Plan;
use windlass_runtime::inspect::StoredRun;
use windlass_value::{Timestamp, Value};

use super::extract::{Query, RunId, page_size};
use super::locations::check_path;
use super::models::{RunError, SourcePosition, find_run};
use crate::auth::{Allowed, Read};
use crate::run_drawings;
use crate::timeline::{Timeline, TimelineEntry, name_of};
use crate::{ApiProblem, App};

/// Default and maximum number of steps per page.
const DEFAULT_STEPS: u32 = 200;
const MAX_STEPS: u32 = 2_000;

/// A page of executed steps.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StepList {
    /// The entries of the page, in order of their start.
    pub items: Vec<StepInfo>,
    /// The start of the next page.
    pub next: Option<u64>,
    /// Number of entries of early iterations that are no longer cached; the iterations themselves are in `iterations`.
    pub dropped: u64,
    /// The run has more events than have been read so far: these are the first entries, and `next` continues.
    pub partial: bool,
}

/// One execution of a step or iteration.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StepInfo {
    /// The path in the run: `sync[3].fetch`.
    pub path: String,
    /// The last part of the path.
    pub name: String,
    /// The dialect's name of the kind; `iteration` for a loop iteration.
    pub kind: String,
    /// `running`, or the final status.
    pub status: String,
    /// RFC 3339
    pub started_at: String,
    /// Until now, if it is still running.
    pub duration_ms: u64,
    /// The number of attempts so far.
    pub attempts: u32,
    /// Present if it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
}

/// The parent and the page of a list of steps.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StepsQuery {
    /// Only entries directly inside this path; the run's own steps by default.
    #[serde(default)]
    parent: String,
    /// The start of the page, as returned by the previous page.
    #[serde(default)]
    from: u64,
    /// Maximum number of entries; 200 by default, at most 2,000.
    limit: Option<u32>,
}

/// Returns the progress of a run as a graph.
#[utoipa::path(get, path = "/api/v1/runs/{run}/graph", tag = "runs", params(("run" = String, Path)),
    responses((status = 200, description = "nodes with their state in this run, and edges", body = Object), (status = 404, description = "there is no such run", body = ApiProblem)))]
pub(crate) async fn graph(
    _: Allowed<Read>,
    State(app): State<App>,
    RunId(run): RunId,
) -> Result<axum::Json<Value>, ApiProblem> {
    app.read_store(move |app| {
        let row = find_run(app, &run)?;
        let program = app.engine.program(&row.plan)?;
        let state = || Ok(StoredRun::load(app.store.as_ref(), row.clone(), program.clone())?.image.state);
        let drawing = run_drawings::run_drawing(app, &row, &program, state)?;
        Ok(axum::Json(drawing.to_value()))
    })
    .await
}

/// Lists the executions of steps and iterations in a run, in order.
#[utoipa::path(get, path = "/api/v1/runs/{run}/steps", tag = "runs", params(("run" = String, Path), StepsQuery),
    responses((status = 200, description = "a page; `next` is the number for `from`", body = StepList), (status = 404, description = "there is no such run, or no such `parent` in it", body = ApiProblem)))]
pub(crate) async fn steps(
    _: Allowed<Read>,
    State(app): State<App>,
    RunId(run): RunId,
    Query(query): Query<StepsQuery>,
) -> Result<axum::Json<StepList>, ApiProblem> {
    let limit = page_size(query.limit, DEFAULT_STEPS, MAX_STEPS)? as usize;
    app.read_store(move |app| {
        let row = find_run(app, &run)?;
        let program = app.engine.program(&row.plan)?;
        let has_ended = row.status.is_final();
        let found = run_drawings::run_timeline(app, &row, &program.plan, |timeline, now, is_whole| {
            let now = if has_ended { row.changed_at } else { now };
            let mut inside = timeline.inside(&query.parent, query.from);
            let found: Vec<(u64, &TimelineEntry)> = inside.by_ref().take(limit).collect();
            let last = found.last().map(|(seq, _)| *seq);
            let next = match is_whole {
                true => last.filter(|_| inside.next().is_some()),
                false => last.or(Some(query.from)),
            };
            let items = found.iter().map(|(_, entry)| step_info(timeline, entry, &program.plan, now)).collect();
            StepList { items, next, dropped: timeline.dropped, partial: !is_whole }
        })?;
        if !query.parent.is_empty() && found.as_ref().is_some_and(|found| found.items.is_empty() && !found.partial) {
            check_path(app, &row, &query.parent)?;
        }
        Ok(axum::Json(found.unwrap_or(StepList {
            items: Vec::new(),
            next: Some(query.from),
            dropped: 0,
            partial: true,
        })))
    })
    .await
}

fn step_info(timeline: &Timeline, entry: &TimelineEntry, plan: &Plan, now: Timestamp) -> StepInfo {
    let error = entry.error.as_ref().map(|error| RunError {
        code: error.code.to_string(),
        kind: None,
        reference: error.reference,
        message: error.message.to_string(),
        path: entry.path.to_string(),
        hint: None,
        position: SourcePosition::locate(plan, &entry.path),
        child: None,
    });
    StepInfo {
        path: entry.path.to_string(),
        name: name_of(&entry.path).to_owned(),
        kind: timeline.kind(entry).to_owned(),
        status: entry.status.to_string(),
        started_at: entry.started_at.to_string(),
        duration_ms: entry.ended_at.unwrap_or(now).since(entry.started_at).as_ms(),
        attempts: entry.attempts,
        error,
    }
}
