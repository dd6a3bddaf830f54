//! One run in full detail.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::plan::Plan;
use windlass_core::{ErrorInfo, EventKind, Program, State, frame_tree, usage_so_far};
use windlass_runtime::inspect::{
    ListedStatus, LoopDetails, NextDue, StoredEvent, StoredEvents, StoredRun, final_report, live_owner, loop_details,
    mark_stopped, newest_event, run_time_now, status_name, tree_value, with_run_hint,
};
use windlass_runtime::{
    FinalReport, RunOptions, RuntimeError, StepReport, completed_steps, quarantine_reason, resolve_up_to,
};
use windlass_store::{ParentFilter, RunFilter, RunRow};
use windlass_value::{Map, Value};

use super::models::{RunError, RunSummary, SourcePosition, find_run, run_summaries};
use crate::triggers::{QueuePositionInfo, find_queue_position};
use crate::workers::QueueInfo;
use crate::{ApiProblem, App};

/// Maximum total size of stored values in one response; values beyond it stay references, to be fetched by hash.
const MAX_INLINE_BYTES: u64 = 1024 * 1024;

/// Maximum number of listed child runs; `GET /runs?parent=` lists all.
const MAX_CHILDREN: u32 = 50;

/// Maximum number of listed waits.
const MAX_WAITS: usize = 200;

/// A run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunDetail {
    /// The fields of a run in a list.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// The process that runs it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The run from which it was forked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<RunOrigin>,
    /// Child runs, newest first, up to the limit.
    pub children: Vec<RunSummary>,
    /// The input, redacted if the definition says so.
    #[schema(value_type = serde_json::Value)]
    pub input: Value,
    /// The output, once the run has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    pub output: Option<Value>,
    /// The reply it gave before it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    pub reply: Option<Value>,
    /// Signals it waits for.
    pub waits: Vec<WaitInfo>,
    /// Its tasks that no worker has leased yet, by required tool and labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waits_for_worker: Vec<QueueInfo>,
    /// While it is pending: its position in the queue of its trigger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_position: Option<QueuePositionInfo>,
    /// The resources used so far, by name; null if they are not counted.
    #[schema(value_type = serde_json::Value)]
    pub usage: Value,
    /// The next moment at which it continues by itself, if it waits for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_due: Option<NextDueInfo>,
    /// The number of events that it has published so far.
    pub events: u64,
    /// The current activity: a tree, as in `windlass status --json`.
    #[schema(value_type = Vec<Object>)]
    pub current: Value,
    /// The top-level steps that have ended, by name, as in `windlass run --json`.
    #[schema(value_type = Object)]
    pub steps: Value,
}

/// The next moment at which a run continues by itself.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NextDueInfo {
    /// The path of the node that continues.
    pub path: String,
    /// iteration, retry or timer
    pub what: &'static str,
    /// RFC 3339
    pub at: String,
}

impl NextDueInfo {
    fn from_due(due: NextDue) -> NextDueInfo {
        NextDueInfo { path: due.path, what: due.what, at: due.at.to_string() }
    }
}

/// The run from which another was forked, and the path.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RunOrigin {
    /// The id of the source run, if the run is a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<String>,
    /// The id of the source run, if the run is a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<String>,
    /// The restart point.
    pub from: String,
}

impl RunOrigin {
    fn from_row(row: &RunRow) -> Option<RunOrigin> {
        let options = RunOptions::from_row(row).ok()?;
        let from = options.from?;
        let run = Some(from.run.to_string());
        let (restarts, retries) = if from.retry { (None, run) } else { (run, None) };
        Some(RunOrigin { restarts, retries, from: from.path.to_string() })
    }
}

/// A wait of a run for a signal.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WaitInfo {
    /// The name of the signal that ends the wait.
    pub name: String,
    /// The path of the wait; only with a form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Time at which the form was opened, RFC 3339; only with a form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Time at which the wait expires, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The form shown to the user: `title`, `message`, `schema` of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    pub form: Option<Value>,
}

/// Loads a run, from memory if it is resident, otherwise from the store.
pub(crate) async fn load_detail(app: &App, run: String) -> Result<RunDetail, ApiProblem> {
    let live = app.resident_state(&run).await?;
    app.read_store(move |app| {
        let row = find_run(app, &run)?;
        if let Some(report) = final_report(&row)? {
            return ended_detail(app, &row, report);
        }
        if let Some(reason) = quarantine_reason(&row) {
            return quarantined_detail(app, &row, &reason);
        }
        let program = app.engine.program(&row.plan)?;
        match live {
            Some(state) => open_detail(app, &row, &program, &state),
            None => {
                let seen = StoredRun::load(app.store.as_ref(), row, program)?;
                match final_report(&seen.row)? {
                    Some(report) => ended_detail(app, &seen.row, report),
                    None => open_detail(app, &seen.row, &seen.program, &seen.image.state),
                }
            }
        }
    })
    .await
}

fn ended_detail(app: &App, row: &RunRow, report: FinalReport) -> Result<RunDetail, ApiProblem> {
    // The report is readable even if the plan is not.
    let program = app.engine.program(&row.plan).ok();
    let plan = program.as_ref().map(|program| &program.plan);
    let mut left = MAX_INLINE_BYTES;
    let output = resolve_up_to(app.store.as_ref(), &report.output, &mut left)?;
    let mut summary = RunSummary::from_row(app, row, ListedStatus::Stored(row.status));
    let error = report.error.clone().map(|error| with_run_hint(error, &row.run));
    summary.error = error.map(|error| RunError::from_error(&error, plan));
    Ok(RunDetail {
        summary,
        owner: None,
        origin: RunOrigin::from_row(row),
        children: children(app, row)?,
        input: first_input(app, row, &mut left)?,
        output: Some(output),
        reply: report
            .reply
            .as_ref()
            .map(|reply| Value::object([("value", reply.value.clone()), ("success", Value::Bool(reply.success))])),
        waits: Vec::new(),
        waits_for_worker: Vec::new(),
        queue_position: None,
        usage: report.usage.clone(),
        next_due: None,
        events: report.events,
        current: Value::list(Vec::new()),
        steps: with_loop_details(
            app,
            row,
            plan,
            &report,
            steps_value(app, row, plan, report.steps.clone(), &mut left)?,
        )?,
    })
}

/// Adds to the loops of an ended run what its report lacks: the computed maximum number of iterations, and the number
/// of iterations that were cut off.
fn with_loop_details(
    app: &App,
    row: &RunRow,
    plan: Option<&Plan>,
    report: &FinalReport,
    steps: Value,
) -> Result<Value, RuntimeError> {
    let (Some(plan), Value::Map(map)) = (plan, &steps) else { return Ok(steps) };
    let details = loop_details(app.store.as_ref(), &row.run, plan, report)?;
    let mut map = Map::clone(map);
    for (name, LoopDetails { max_iterations, cancelled }) in details {
        let Some(Value::Map(step)) = map.get(&name).cloned() else { continue };
        let Some(Value::Map(looping)) = step.get("loop").cloned() else { continue };
        let (mut step, mut looping) = (Map::clone(&step), Map::clone(&looping));
        looping.insert("max_iterations", max_iterations);
        looping.insert("cancelled", cancelled);
        step.insert("loop", Value::map(looping));
        map.insert(name, Value::map(step));
    }
    Ok(Value::map(map))
}

/// Describes a quarantined run as far as it is readable; the unreadable part is most likely the reason.
fn quarantined_detail(app: &App, row: &RunRow, reason: &ErrorInfo) -> Result<RunDetail, ApiProblem> {
    let mut summary = RunSummary::from_row(app, row, ListedStatus::Stored(row.status));
    summary.error = Some(RunError::from_error(&with_run_hint(reason.clone(), &row.run), None));
    let mut left = MAX_INLINE_BYTES;
    Ok(RunDetail {
        summary,
        owner: None,
        origin: RunOrigin::from_row(row),
        children: children(app, row)?,
        input: first_input(app, row, &mut left).unwrap_or_default(),
        output: None,
        reply: None,
        waits: Vec::new(),
        waits_for_worker: Vec::new(),
        queue_position: None,
        usage: Value::Null,
        next_due: None,
        events: newest_event(app.store.as_ref(), row).unwrap_or_default(),
        current: Value::list(Vec::new()),
        steps: Value::map(Map::new()),
    })
}

fn open_detail(app: &App, row: &RunRow, program: &Arc<Program>, state: &State) -> Result<RunDetail, ApiProblem> {
    let mut summary = RunSummary::from_row(app, row, ListedStatus::Stored(row.status));
    let owner = live_owner(app.store.as_ref(), row)?;
    let status = status_name(row, state, owner.as_deref());
    summary.status = status.to_owned();
    summary.ticks = state.ticks;
    let mut frames = frame_tree(program, state);
    mark_stopped(&mut frames, status);
    let mut left = MAX_INLINE_BYTES;
    Ok(RunDetail {
        summary,
        owner,
        origin: RunOrigin::from_row(row),
        children: children(app, row)?,
        input: match program.plan.redaction.inputs {
            true => windlass_core::redacted_value(),
            false => resolve_up_to(app.store.as_ref(), &state.run.input, &mut left)?,
        },
        output: None,
        reply: None,
        waits: waits(state),
        waits_for_worker: app.dispatcher.queued_jobs_of(&row.run),
        queue_position: find_queue_position(app.store.as_ref(), row, &newest_program(app, row, program)?.plan)?,
        usage: usage_so_far(state),
        next_due: NextDue::earliest(&frames).map(NextDueInfo::from_due),
        events: state.events,
        current: tree_value(&frames, run_time_now(row, state.now)),
        steps: steps_value(app, row, Some(&program.plan), completed_steps(program, state), &mut left)?,
    })
}

/// Returns the program of the definition's current version, whose concurrency limits apply; the run's own program if
/// the definition was removed.
fn newest_program(app: &App, row: &RunRow, run_program: &Arc<Program>) -> Result<Arc<Program>, ApiProblem> {
    match app.definitions.get(&row.definition) {
        Some(definition) => Ok(app.engine.program(&definition.current.plan())?),
        None => Ok(run_program.clone()),
    }
}

fn children(app: &App, row: &RunRow) -> Result<Vec<RunSummary>, ApiProblem> {
    let filter = RunFilter { parent: Some(ParentFilter::Run(row.run.clone())), ..RunFilter::default() };
    let rows = app.store.runs(&filter, None, MAX_CHILDREN)?;
    Ok(run_summaries(app, &rows)?)
}

/// Returns the input of an ended run, from its first event if that is retained, otherwise from its state.
fn first_input(app: &App, row: &RunRow, left: &mut u64) -> Result<Value, ApiProblem> {
    if app.engine.program(&row.plan).is_ok_and(|program| program.plan.redaction.inputs) {
        return Ok(windlass_core::redacted_value());
    }
    let store = app.store.as_ref();
    let first = StoredEvents::new(row.run.clone(), 0).read_rows(store, 1)?.into_iter().next();
    let input = match first {
        Some(StoredEvent::Event(event)) if event.seq == 1 => match event.kind {
            EventKind::ExecutionRequested { input, .. } | EventKind::WorkflowHeld { input, .. } => Some(input),
            _ => None,
        },
        _ => None,
    };
    let input = match input {
        Some(input) => Some(input),
        None => {
            let snapshot = store.oldest_snapshot(&row.run)?;
            let state = snapshot.map(|snapshot| windlass_runtime::decode_state(&snapshot.body)).transpose()?;
            state.map(|state| state.run.input)
        }
    };
    Ok(resolve_up_to(store, &input.unwrap_or_default(), left)?)
}

fn waits(state: &State) -> Vec<WaitInfo> {
    let mut waits: Vec<WaitInfo> = state
        .open_forms()
        .take(MAX_WAITS)
        .map(|(name, form)| WaitInfo {
            name: name.to_string(),
            path: Some(form.address.to_string()),
            since: Some(form.since.to_string()),
            deadline: form.deadline.map(|at| at.to_string()),
            form: Some(form.content.clone()),
        })
        .collect();
    let plain = state.waits.keys().filter(|name| !waits.iter().any(|wait| *wait.name == ***name));
    let plain: Vec<WaitInfo> = plain
        .take(MAX_WAITS)
        .map(|name| WaitInfo { name: name.to_string(), path: None, since: None, deadline: None, form: None })
        .collect();
    waits.extend(plain);
    waits
}

fn steps_value(
    app: &App,
    row: &RunRow,
    plan: Option<&Plan>,
    steps: Vec<(Arc<str>, StepReport)>,
    left: &mut u64,
) -> Result<Value, RuntimeError> {
    let mut values = Map::new();
    for (name, mut step) in steps {
        step.output = resolve_up_to(app.store.as_ref(), &step.output, left)?;
        step.error = step.error.map(|error| with_run_hint(error, &row.run));
        let position = step.error.as_ref().and_then(|error| SourcePosition::locate(plan?, &error.path));
        let mut value = step.to_value();
        if let (Some(position), Value::Map(map)) = (position, &value)
            && let Some(Value::Map(error)) = map.get("error")
        {
            let (mut map, mut error) = (Map::clone(map), Map::clone(error));
            error.insert("position", windlass_value::to_value(&position).unwrap_or_default());
            map.insert("error", Value::map(error));
            value = Value::map(map);
        }
        values.insert(name, value);
    }
    Ok(Value::map(values))
}
