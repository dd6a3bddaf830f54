//! Loops of a run: the list, their iterations in pages, and an overview strip.

use std::collections::HashMap;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::plan::{Loop, Node, NodeKind, Plan, iteration_suffix};
use windlass_core::{FrameView, IterationRecord, LoopView, State as RunState, frame_tree, judged_iterations};
use windlass_runtime::RuntimeError;
use windlass_runtime::inspect::{
    IterationPage, LoopHistory, final_report, frame_path, history_strip as strip_of, iteration_value, iterations_page,
    loop_histories,
};
use windlass_store::RunRow;
use windlass_syntax::did_you_mean;
use windlass_value::{Map, Value};

use super::extract::{Query, RunId, page_size};
use super::models::{ListPage, SourcePosition, find_run};
use crate::auth::{Allowed, Read};
use crate::{ApiProblem, App};

/// Default and maximum number of loops per page; nested loops may be many.
const DEFAULT_LOOPS: u32 = 100;
const MAX_LOOPS: u32 = 1_000;

/// Default and maximum number of iterations per page.
const DEFAULT_ITERATIONS: u32 = 100;
const MAX_ITERATIONS: u32 = 5_000;

/// Default and maximum number of cells of a strip.
const DEFAULT_CELLS: u64 = 120;
const MAX_CELLS: u64 = 10_000;

/// A loop of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LoopInfo {
    /// Its path, as taken by `iterations` and `strip`.
    pub r#loop: String,
    /// The dialect's name of the loop: `until`, `foreach`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Number of iterations up to the newest that has ended.
    pub iterations: u64,
    /// Number of retained records: the first, the newest and the failed iterations.
    pub retained: u64,
    /// Number of iterations that failed.
    pub failed: u64,
    /// Reason of its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// Present while it is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LoopLive>,
    /// Usage of the loop, if it is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    pub cost: Option<Value>,
}

/// The progress of a running loop.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct LoopLive {
    /// Number of iterations that have begun.
    pub begun: u64,
    /// Number of iterations that have ended.
    pub ended: u64,
    /// Number of iterations that failed.
    pub failed: u64,
    /// Maximum number of iterations, if known.
    pub max_iterations: Option<u64>,
    /// The condition as written.
    #[schema(value_type = serde_json::Value)]
    pub condition: Option<Value>,
    /// Time of the next iteration or retry, if the loop waits for it, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<String>,
}

/// A page of a loop's iterations.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IterationList {
    /// The id of the run.
    pub run: String,
    /// The path of the loop.
    pub r#loop: String,
    /// As in `windlass iterations --json`: iteration, status, started_at, duration_ms, condition_result, result,
    /// error?, reason?, item?, verdict? (`{done, reason}` of the judge); and `path`, as taken by restarts and events. An error also has its `position` in the
    /// definition.
    #[schema(value_type = Vec<Object>)]
    pub iterations: Vec<Value>,
    /// Ranges that the page skips, because they are not retained.
    pub not_retained: Vec<IterationRange>,
    /// The start of the next page.
    pub next: Option<u64>,
    /// Number of iterations up to the newest that has ended.
    pub total: u64,
    /// Number of iterations that failed, over the whole loop.
    pub failed: u64,
}

/// A range of iterations.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IterationRange {
    /// Index of the first iteration.
    pub from: u64,
    /// Index of the last iteration, inclusive.
    pub to: u64,
}

/// All iterations of a loop, summed up in a bounded number of cells.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Strip {
    /// The path of the loop.
    pub r#loop: String,
    /// Number of iterations in all cells.
    pub iterations: u64,
    /// The cells, in order.
    pub cells: Vec<StripCell>,
}

/// A range of iterations with the number of each outcome.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StripCell {
    /// Index of the first iteration.
    pub from: u64,
    /// Index of the last iteration, inclusive.
    pub to: u64,
    /// Number of iterations that succeeded.
    pub succeeded: u64,
    /// Number of iterations that did not succeed.
    pub failed: u64,
    /// Not retained, or not ended.
    pub other: u64,
}

/// The page of a list of loops.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LoopsQuery {
    /// Maximum number of entries; 100 by default, at most 1,000.
    limit: Option<u32>,
    /// The last path of the previous page.
    after: Option<String>,
}

/// The loop, the filter and the page of a list of iterations.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct IterationsQuery {
    /// The path of a loop.
    r#loop: String,
    /// Index of the first iteration of the page, counted from 0.
    #[serde(default)]
    from: u64,
    /// Maximum number of entries; 100 by default, at most 5,000.
    limit: Option<u32>,
    /// Only iterations that did not succeed.
    #[serde(default)]
    failed: bool,
}

/// The loop and the resolution of a strip.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StripQuery {
    /// The path of a loop.
    r#loop: String,
    /// Maximum number of cells; 120 by default, at most 10,000.
    cells: Option<u64>,
}

/// Lists the loops of a run.
#[utoipa::path(get, path = "/api/v1/runs/{run}/loops", tag = "loops", params(("run" = String, Path), LoopsQuery),
    responses((status = 200, description = "a page; `next` is the path for `after`", body = ListPage<LoopInfo>), (status = 404, description = "there is no such run", body = ApiProblem)))]
pub(crate) async fn list(
    _: Allowed<Read>,
    State(app): State<App>,
    RunId(run): RunId,
    Query(query): Query<LoopsQuery>,
) -> Result<axum::Json<ListPage<LoopInfo>>, ApiProblem> {
    let limit = page_size(query.limit, DEFAULT_LOOPS, MAX_LOOPS)? as usize;
    let state = app.resident_state(&run).await?;
    app.read_store(move |app| {
        let row = find_run(app, &run)?;
        let judged = judged_of(state.as_ref());
        let live = match state {
            Some(state) => live_loops(&frame_tree(&*app.engine.program(&row.plan)?, &state)),
            None => Vec::new(),
        };
        let mut paths = app.store.loops(&run)?;
        paths.extend(live.iter().map(|live| live.0.clone()));
        paths.extend(judged.iter().map(|one| one.loop_path.to_string()));
        paths.sort_unstable();
        paths.dedup();
        let after = query.after.unwrap_or_default();
        paths.retain(|path| **path > *after);
        let more = paths.len() > limit;
        paths.truncate(limit);
        let next = paths.last().filter(|_| more).map(|last| Value::from(last.as_str()));
        Ok(axum::Json(ListPage { items: loop_infos(app, &row, paths, &live, &judged)?, next }))
    })
    .await
}

type LiveLoop = (String, String, LoopLive, Value);

/// Returns the iterations of a run whose judge runs. Only a live run of a definition with judges is asked for its state.
async fn judged_now(app: &App, run: &str) -> Result<Vec<IterationRecord>, ApiProblem> {
    let id = run.to_owned();
    let may_judge = app.read_store(move |app| {
        let row = find_run(app, &id)?;
        Ok(!row.status.is_final() && app.engine.program(&row.plan).is_ok_and(|program| has_judge(&program.plan)))
    });
    let state = if may_judge.await? { app.resident_state(run).await? } else { None };
    Ok(judged_of(state.as_ref()))
}

fn has_judge(plan: &Plan) -> bool {
    plan.nodes.iter().any(|node| matches!(&node.kind, NodeKind::Loop(looping) if looping.judge.is_some()))
}

/// Returns the iterations whose judge runs.
fn judged_of(state: Option<&RunState>) -> Vec<IterationRecord> {
    state.into_iter().flat_map(judged_iterations).cloned().collect()
}

/// Returns the running loops with their paths.
fn live_loops(frames: &[FrameView]) -> Vec<LiveLoop> {
    let mut found = Vec::new();
    collect_live_loops(frames, "", &mut found);
    found
}

fn collect_live_loops(frames: &[FrameView], above: &str, found: &mut Vec<LiveLoop>) {
    for frame in frames {
        let path = frame_path(above, frame);
        if let Some(LoopView { begun, ended, failed, max_iterations, condition, .. }) = &frame.looping {
            let (begun, ended, failed, max_iterations) = (*begun, *ended, *failed, *max_iterations);
            let due_at = frame.due.map(|due| due.to_string());
            let live = LoopLive { begun, ended, failed, max_iterations, condition: condition.clone(), due_at };
            found.push((path.clone(), frame.label.to_string(), live, frame.usage.clone()));
        }
        collect_live_loops(&frame.children, &path, found);
    }
}

fn loop_infos(
    app: &App,
    row: &RunRow,
    paths: Vec<String>,
    live: &[LiveLoop],
    judged: &[IterationRecord],
) -> Result<Vec<LoopInfo>, RuntimeError> {
    let report = final_report(row)?;
    let seen = loop_histories(app.store.as_ref(), &row.run, paths, report.as_ref(), judged)?;
    let one = |seen: LoopHistory| {
        let going = live.iter().find(|live| live.0 == seen.path);
        let ended = report.as_ref().and_then(|report| {
            let step = report.steps.iter().find(|(name, _)| **name == *seen.path);
            step.map(|(_, step)| step)
        });
        let summary = ended.and_then(|step| step.looping.as_ref());
        let usage = going.map(|live| live.3.clone()).or_else(|| ended.map(|step| step.usage.clone()));
        LoopInfo {
            kind: going.map(|live| live.1.clone()).or_else(|| summary.map(|summary| summary.kind.to_string())),
            iterations: seen.iterations.max(going.map_or(0, |live| live.2.ended)),
            retained: seen.kept,
            failed: seen.failed.max(going.map_or(0, |live| live.2.failed)),
            reason: seen.reason.map(|reason| reason.as_str()),
            live: going.map(|live| live.2.clone()),
            cost: usage.filter(|used| !used.is_null()),
            r#loop: seen.path,
        }
    };
    Ok(seen.into_iter().map(one).collect())
}

/// Lists the iterations of a loop.
#[utoipa::path(get, path = "/api/v1/runs/{run}/iterations", tag = "loops", params(("run" = String, Path), IterationsQuery),
    responses((status = 200, description = "a page; `next` is the iteration for `from`", body = IterationList), (status = 404, description = "there is no such run or loop", body = ApiProblem)))]
pub(crate) async fn iterations(
    _: Allowed<Read>,
    State(app): State<App>,
    RunId(run): RunId,
    Query(query): Query<IterationsQuery>,
) -> Result<axum::Json<IterationList>, ApiProblem> {
    let limit = page_size(query.limit, DEFAULT_ITERATIONS, MAX_ITERATIONS)? as usize;
    let judged = judged_now(&app, &run).await?;
    app.read_store(move |app| {
        let row = find_run(app, &run)?;
        let (store, path) = (app.store.as_ref(), query.r#loop);
        let seen = loop_histories(store, &run, vec![path.clone()], None, &judged)?.into_iter().next();
        let (total, failed) = seen.map_or((0, 0), |seen| (seen.iterations, seen.failed));
        if total == 0 {
            check_loop_exists(app, &row, &path)?;
        }
        let IterationPage { iterations, missing: not_retained, next } =
            iterations_page(store, &run, &path, query.from, limit, query.failed, &judged)?;
        // Iterations are readable even if the plan is not.
        let program = app.engine.program(&row.plan).ok();
        let mut locations = IterationLocations::new(program.as_ref().map(|program| &program.plan), &path);
        Ok(axum::Json(IterationList {
            iterations: iterations
                .iter()
                .map(|iteration| locations.add_location(iteration.index, iteration_value(&run, iteration)))
                .collect(),
            not_retained: not_retained.into_iter().map(|(from, to)| IterationRange { from, to }).collect(),
            next,
            total,
            failed,
            r#loop: path,
            run,
        }))
    })
    .await
}

/// Adds locations to iterations: the path in the run, and for failures the position in the definition. Failures
/// usually occur at few positions, so each is looked up once.
struct IterationLocations<'a> {
    plan: Option<&'a Plan>,
    /// The loop's path, without the `~` suffix of a loop that is entered repeatedly.
    path: &'a str,
    positions: HashMap<String, Option<Value>>,
}

impl<'a> IterationLocations<'a> {
    fn new(plan: Option<&'a Plan>, path: &'a str) -> IterationLocations<'a> {
        let path = path.split('~').next().unwrap_or(path);
        IterationLocations { plan, path, positions: HashMap::new() }
    }

    fn add_location(&mut self, index: u64, iteration: Value) -> Value {
        let Value::Map(map) = &iteration else { return iteration };
        let mut map = Map::clone(map);
        map.insert("path", format!("{}{}", self.path, iteration_suffix(index)));
        if let Some(Value::Map(error)) = map.get("error").cloned()
            && let Some(position) = error.get("path").and_then(Value::as_str).and_then(|path| self.position(path))
        {
            let mut error = Map::clone(&error);
            error.insert("position", position);
            map.insert("error", Value::map(error));
        }
        Value::map(map)
    }

    fn position(&mut self, path: &str) -> Option<Value> {
        let plan = self.plan?;
        // `pages[3].save` and `pages[4].save` are the same position.
        let location: String =
            path.split('[').map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit())).collect();
        let found = || SourcePosition::locate(plan, path).and_then(|position| windlass_value::to_value(&position).ok());
        self.positions.entry(location).or_insert_with(found).clone()
    }
}

/// Returns the name of the loop at the end of a path.
fn name_of(path: &str) -> &str {
    let last = path.rsplit('.').next().unwrap_or(path);
    last.split(['[', '~']).next().unwrap_or(last)
}

fn loop_named<'a>(node: &'a Node, name: &str) -> Option<&'a Loop> {
    match &node.kind {
        NodeKind::Loop(looping) if *node.name == *name => Some(looping),
        _ => None,
    }
}

/// Returns an overview of all iterations of a loop.
#[utoipa::path(get, path = "/api/v1/runs/{run}/strip", tag = "loops", params(("run" = String, Path), StripQuery),
    responses((status = 200, description = "cells of equal size, one per iteration if there is room", body = Strip), (status = 404, description = "there is no such run or loop", body = ApiProblem)))]
pub(crate) async fn strip(
    _: Allowed<Read>,
    State(app): State<App>,
    RunId(run): RunId,
    Query(query): Query<StripQuery>,
) -> Result<axum::Json<Strip>, ApiProblem> {
    let cells = query.cells.unwrap_or(DEFAULT_CELLS);
    if !(1..=MAX_CELLS).contains(&cells) {
        return Err(ApiProblem::bad_request(format!("`cells` is {cells}; it must be 1 to {MAX_CELLS}")));
    }
    app.read_store(move |app| {
        let row = find_run(app, &run)?;
        let found = strip_of(app.store.as_ref(), &run, &query.r#loop, cells)?;
        if found.is_empty() {
            check_loop_exists(app, &row, &query.r#loop)?;
        }
        let cells: Vec<StripCell> = found
            .into_iter()
            .map(|cell| StripCell {
                from: cell.from,
                to: cell.to,
                succeeded: cell.succeeded,
                failed: cell.failed,
                other: cell.other,
            })
            .collect();
        let iterations = cells.last().map_or(0, |last| last.to + 1);
        Ok(axum::Json(Strip { r#loop: query.r#loop, iterations, cells }))
    })
    .await
}

/// Checks that a loop without history exists in the plan: it may not have finished an iteration yet, or be a typo.
fn check_loop_exists(app: &App, row: &RunRow, path: &str) -> Result<(), ApiProblem> {
    let names = app.store.loops(&row.run)?;
    let program = app.engine.program(&row.plan)?;
    if program.plan.nodes.iter().any(|node| loop_named(node, name_of(path)).is_some()) {
        return Ok(());
    }
    let problem = ApiProblem::not_found(format!("the run `{}` has no loop `{path}`", row.run));
    let hint = did_you_mean(path, names.iter().map(String::as_str));
    Err(problem.hint(hint.unwrap_or_else(|| format!("GET /api/v1/runs/{}/loops lists them", row.run))))
}
