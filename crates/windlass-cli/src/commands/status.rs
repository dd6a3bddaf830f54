//! `windlass status RUN`

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use windlass_core::plan::Plan;
use windlass_core::{ErrorInfo, FrameView, frame_tree};
use windlass_runtime::inspect::{
    ListedStatus, LoopDetailsByStep, NextDue, StoredEvents, StoredRun, final_report, live_owner, mark_stopped,
    newest_event, run_time_now, status_name, tree_value, with_run_hint,
};
use windlass_runtime::{StepReport, completed_steps, resolve};
use windlass_server::triggers::{QueuePositionInfo, find_queue_position};
use windlass_store::{RunRow, Store};
use windlass_value::{Map, Timestamp, Value};

use super::retries::FailedAttempts;
use super::tree::{self, RunTree};
use crate::args::{self, GlobalArgs};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure, owner_name};
use crate::image;
use crate::out::{self, Paint};
use crate::report::{self, EndedRun};
use crate::runs::follow::ended_run;
use crate::runs::{Runs, ServerRuns, decode};
use crate::worker::ServerClient;
use crate::{host, stores, text};

/// Maximum time to wait for the server's reply.
const SERVER_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) fn status(global: &GlobalArgs, args: &args::StatusArgs) -> Result<CliExit, CliFailure> {
    let settings = CliSettings::load(global)?;
    let store = match Runs::open(global)? {
        Runs::Store(store) => store,
        Runs::Server(server) => return server_status(global, &server, &args.run),
    };
    // An ended run needs no state: its row holds everything.
    let row = stores::find(&*store, &args.run)?;
    if let Some(report) = final_report(&row)? {
        let program = image::program(&*store, &row, &settings.limits)?;
        let ended = EndedRun::new(&*store, &row.run, &program.plan, &report)?;
        return show_ended(global, &ended, &row);
    }
    if let Some(why) = windlass_runtime::quarantine_reason(&row) {
        // A rebuilt state of a quarantined run would be no more than a guess.
        return show_quarantined(global, &row, &why, &stores::resume_hint(global, &*store, &row)?);
    }
    let seen = image::load(&*store, &row.run, &settings.limits)?;
    let workers = fetch_waiting_tasks(global, &seen);
    let view = StatusView::from_store(global, &*store, seen, workers)?;
    view.print(global)
}

/// Shows a run of a server.
fn server_status(global: &GlobalArgs, server: &ServerRuns, run_ref: &str) -> Result<CliExit, CliFailure> {
    let detail = server.find(run_ref)?;
    let (_, row) = decode::listed_run(&detail)?;
    if row.status.is_final() {
        let plan = server.plan(&row)?;
        return show_ended(global, &ended_run(server, &row, &plan, &detail)?, &row);
    }
    if let Some(why) = windlass_runtime::quarantine_reason(&row) {
        let resume = stores::command(global, &format!("resume {}", row.run));
        return show_quarantined(global, &row, &why, &resume);
    }
    StatusView::from_server(server, row, &detail)?.print(global)
}

fn show_quarantined(global: &GlobalArgs, row: &RunRow, why: &ErrorInfo, resume: &str) -> Result<CliExit, CliFailure> {
    let (run, status) = (&row.run, row.status.as_str());
    if global.json {
        out::print_json(&Value::object([
            ("run", Value::from(run.clone())),
            ("execution_id", Value::from(row.execution_id.to_string())),
            ("definition", Value::from(row.definition.as_str())),
            ("status", Value::from(status)),
            ("labels", text::labels_value(&row.labels)),
            ("error", windlass_runtime::error_value(why)),
            ("ticks", Value::from(row.ticks)),
        ]))?;
        return Ok(CliExit::Success);
    }
    let look = stores::command(global, &format!("replay {run}"));
    out::print(&format!("Workflow: {}\nRun: {run}\nStatus: {status}\n  {}", row.definition, why.message))?;
    out::note(&format!("inspect it: {look}\nretry it: {resume}"));
    Ok(CliExit::Success)
}

fn show_ended(global: &GlobalArgs, ended: &EndedRun<'_>, row: &RunRow) -> Result<CliExit, CliFailure> {
    let took = text::format_duration(row.changed_at.since(row.created_at));
    if global.json {
        let mut map = Map::new();
        if let Value::Map(object) = ended.to_value() {
            object.iter().for_each(|(key, value)| {
                map.insert(key.clone(), value.clone());
                if &**key == "status" {
                    map.insert("labels", text::labels_value(&row.labels));
                    map.insert("current", Value::list(Vec::new()));
                }
            });
        }
        out::print_json(&Value::map(map))?;
        return Ok(CliExit::Success);
    }
    let labels = labels_line(row).map(|line| format!("{line}\n")).unwrap_or_default();
    let run = format!("{} (execution id {})", ended.run, row.execution_id);
    let head = format!("Workflow: {}\nRun: {run}\n{labels}Status: ", ended.plan.name);
    out::print(&format!("{head}{}", ended.summary(global, Some(took))))?;
    Ok(CliExit::Success)
}

/// An open run as `status` shows it.
struct StatusView {
    row: RunRow,
    plan: Plan,
    status: &'static str,
    owner: Option<String>,
    /// The process that runs it, or how to resume it.
    owner_note: String,
    frames: Vec<FrameView>,
    /// The last failed attempts of tasks that are retried.
    retries: FailedAttempts,
    now: Timestamp,
    /// The position in the trigger queue, while the run is pending.
    queue_position: Option<QueuePositionInfo>,
    /// The worker requirements of tasks that no worker has leased, as the server reports them.
    waiting_tasks: Vec<Json>,
    /// The names of the signals that the run waits for.
    waits: Vec<Arc<str>>,
    /// Name and path of the open forms.
    forms: Vec<(Arc<str>, Arc<str>)>,
    /// The run's usage so far, or null if the run does not count it.
    usage: Value,
    ticks: u64,
    /// The top-level steps that have ended.
    steps: Vec<(Arc<str>, StepReport)>,
}

impl StatusView {
    fn from_store(
        global: &GlobalArgs,
        store: &dyn Store,
        seen: StoredRun,
        waiting_tasks: Vec<Json>,
    ) -> Result<StatusView, CliFailure> {
        let StoredRun { row, program, image } = seen;
        let state = &image.state;
        let owner = live_owner(store, &row)?;
        let status = status_name(&row, state, owner.as_deref());
        let mut frames = frame_tree(&program, state);
        mark_stopped(&mut frames, status);
        let owner_note = match &owner {
            Some(owner) => format!(" ({})", owner_name(owner)),
            None => match stores::server_address(global, &row) {
                Some(address) => format!(" (no process owns it now; the server at {address} takes it over)"),
                None => format!(" (no process runs it: {})", stores::resume_hint(global, store, &row)?),
            },
        };
        let mut steps = completed_steps(&program, state);
        for (_, step) in &mut steps {
            step.output = resolve(store, &step.output)?;
            step.error = step.error.take().map(|error| with_run_hint(error, &row.run));
        }
        let mut events = None;
        let retries = FailedAttempts::read(
            &frames,
            || Ok(newest_event(store, &row)?),
            |after| {
                let events = events.get_or_insert_with(|| StoredEvents::new(row.run.clone(), after));
                Ok(events.read(store)?)
            },
        )?;
        let live_usage = || windlass_core::usage_so_far(state);
        Ok(StatusView {
            queue_position: find_queue_position(store, &row, &program.plan)?,
            now: run_time_now(&row, state.now),
            waits: state.waits.keys().cloned().collect(),
            forms: state.open_forms().map(|(name, form)| (name.clone(), form.address.clone())).collect(),
            usage: state.result().map_or_else(live_usage, |result| result.usage.clone()),
            ticks: state.ticks,
            plan: program.plan.clone(),
            row,
            status,
            owner,
            owner_note,
            frames,
            retries,
            waiting_tasks,
            steps,
        })
    }

    fn from_server(server: &ServerRuns, row: RunRow, detail: &Value) -> Result<StatusView, CliFailure> {
        let listed = ListedStatus::parse(decode::text(detail, "status")?);
        let owner_note = match &row.owner {
            Some(owner) => format!(" ({})", owner_name(owner)),
            None => format!(" (no process owns it now; the server at {} takes it over)", server.api.url),
        };
        let mut steps = decode::steps(detail)?;
        for (_, step) in &mut steps {
            step.output = server.resolve(&row.run, &step.output)?;
        }
        let (waits, forms) = decode::waits(detail)?;
        let frames = decode::frames(detail.get("current").unwrap_or(&Value::Null))?;
        let newest = || Ok(decode::optional_number(detail, "events").unwrap_or_default());
        let retries = FailedAttempts::read(&frames, newest, |after| server.events(&row.run, after))?;
        let waiting_tasks = detail.get("waits_for_worker").map(|tasks| serde_json::to_value(tasks).unwrap_or_default());
        Ok(StatusView {
            plan: server.plan(&row)?,
            status: listed.map_or("running", ListedStatus::as_str),
            owner: row.owner.clone(),
            owner_note,
            frames,
            retries,
            now: windlass_runtime::real_now(),
            queue_position: detail.get("queue_position").and_then(decode::queue_position),
            waiting_tasks: waiting_tasks.and_then(|tasks| tasks.as_array().cloned()).unwrap_or_default(),
            waits,
            forms,
            usage: detail.get("usage").cloned().unwrap_or_default(),
            ticks: row.ticks,
            steps,
            row,
        })
    }

    fn print(&self, global: &GlobalArgs) -> Result<CliExit, CliFailure> {
        match global.json {
            true => out::print_json(&self.to_value())?,
            false => out::print(&self.show(global))?,
        }
        Ok(CliExit::Success)
    }

    fn show(&self, global: &GlobalArgs) -> String {
        let row = &self.row;
        let paint = Paint::stdout(global.no_color);
        let status = paint.status(self.status, &text::sentence_case(self.status));
        let owner_note = &self.owner_note;
        let mut lines = vec![
            format!("Workflow: {}", row.definition),
            format!("Run: {} (execution id {})", row.run, row.execution_id),
            format!("Status: {status}{owner_note}"),
        ];
        lines.extend(labels_line(row));
        lines.extend(tree::current(&self.frames).map(|view| self.current(view)));
        let since_start = text::format_duration(self.now.since(row.created_at));
        lines.push(match self.status == ListedStatus::Interrupted.as_str() {
            true => format!("Started: {since_start} ago"),
            false => format!("Running for: {since_start}"),
        });
        lines.extend(NextDue::earliest(&self.frames).map(|next| {
            format!("Next: {}: {} ({})", next.path, tree::format_due(next.what, next.at, self.now), next.at)
        }));
        lines.extend(text::usage(&self.usage).map(|used| format!("Used: {used}")));
        lines.extend(
            self.queue_position.iter().map(|queue_position| queue_position.note.replacen("queued", "Queued", 1)),
        );
        lines.extend(self.waiting_tasks.iter().map(worker_line));
        lines.extend(self.waits(global));
        if !self.frames.is_empty() {
            lines.push(String::new());
            let tree = RunTree { plan: &self.plan, now: self.now, paint, retries: &self.retries };
            lines.extend(tree.lines(&self.frames));
        }
        if let Some(table) = report::steps_table(&self.plan, &LoopDetailsByStep::new(), &self.steps, paint) {
            lines.extend([String::new(), table]);
        }
        lines.join("\n")
    }

    /// Lists the waits with the command that resolves each: a form is answered with `approve`, any other wait with
    /// `signal`.
    fn waits(&self, global: &GlobalArgs) -> Vec<String> {
        let run = &self.row.run;
        let forms: Vec<(&str, &str)> = self.forms.iter().map(|(name, path)| (&**name, &**path)).collect();
        let plain = |name: &&str| !forms.iter().any(|(form_name, _)| form_name == name);
        let plain: Vec<&str> = self.waits.iter().map(|name| &**name).filter(plain).collect();
        let line = |names: &[&str], command: String| {
            let command = stores::command(global, &command);
            format!("Waiting for: {}  ({command})", names.join(", "))
        };
        let paths: Vec<&str> = forms.iter().map(|(_, path)| *path).collect();
        let answer = paths.first().map(|first| match paths.len() {
            1 => line(&paths, format!("approve {run}")),
            _ => line(&paths, format!("approve {run} '{first}'")),
        });
        answer.into_iter().chain(plain.first().map(|first| line(&plain, format!("signal {run} {first}")))).collect()
    }

    fn current(&self, view: &FrameView) -> String {
        let mut lines = vec![format!("Current Action: {} ({})", view.name, view.label)];
        if let Some(looping) = &view.looping {
            lines.push(format!("  Iteration: {}", tree::format_loop_progress(&self.plan, view, looping)));
            lines.extend(tree::short_condition(looping).map(|condition| format!("  Condition: {condition}")));
        }
        lines.push(format!("  Duration: {}", text::format_duration(self.now.since(view.started_at))));
        if let Some(looping) = view.looping.as_ref().filter(|looping| looping.ended > 0) {
            lines.push(format!("  Last Result: {}", text::format_value(&looping.last, 200)));
        }
        lines.join("\n")
    }

    fn to_value(&self) -> Value {
        let row = &self.row;
        let steps = self.steps.iter().map(|(name, step)| (name.clone(), step.to_value()));
        let queue_position = self.queue_position.as_ref().map(|info| ("queue_position", queue_position_value(info)));
        let facts = [
            ("run", Value::from(row.run.clone())),
            ("execution_id", Value::from(row.execution_id.to_string())),
            ("definition", Value::from(row.definition.as_str())),
            ("dialect", Value::from(row.dialect.as_str())),
            ("status", Value::from(self.status)),
            ("labels", text::labels_value(&row.labels)),
            ("owner", Value::from(self.owner.clone())),
            ("waits", Value::list(self.waits.iter().map(|name| Value::from(name.clone())).collect())),
            ("ticks", Value::from(self.ticks)),
            ("usage", self.usage.clone()),
            ("current", tree_value(&self.frames, self.now)),
            ("steps", Value::object(steps)),
        ];
        let next_due = NextDue::earliest(&self.frames).map(|next| ("next_due", next_due_value(&next)));
        let workers = windlass_value::to_value(&self.waiting_tasks).unwrap_or_default();
        let workers = Some(("waits_for_worker", workers)).filter(|_| !self.waiting_tasks.is_empty());
        Value::object(facts.into_iter().chain(next_due).chain(queue_position).chain(workers))
    }
}

/// Formats the labels of a run, if it has any.
fn labels_line(row: &RunRow) -> Option<String> {
    (!row.labels.is_empty()).then(|| format!("Labels: {}", text::labels(&row.labels, usize::MAX)))
}

/// Asks the store's server which tasks no worker has leased: only the server knows. A server that does not reply in
/// time is ignored.
fn fetch_waiting_tasks(global: &GlobalArgs, seen: &StoredRun) -> Vec<Json> {
    if seen.image.state.jobs.is_empty() {
        return Vec::new();
    }
    let Some(address) = stores::server_address(global, &seen.row) else { return Vec::new() };
    let Ok(client) = ServerClient::for_store(&address, &stores::directory(global)) else { return Vec::new() };
    let Ok(runtime) = host::runtime() else { return Vec::new() };
    let path = format!("runs/{}", seen.row.run);
    let response: Result<Json, _> = runtime.block_on(client.get(&path, SERVER_TIMEOUT));
    let waits = response.ok().and_then(|body| body.get("waits_for_worker").and_then(Json::as_array).cloned());
    waits.unwrap_or_default()
}

fn worker_line(waits: &Json) -> String {
    let labels = waits["labels"].as_object().into_iter().flatten();
    let labels: Vec<String> =
        labels.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
    let labels = if labels.is_empty() { String::new() } else { format!(" and {}", labels.join(", ")) };
    let tool = waits["tool"].as_str().unwrap_or_default();
    let tasks = match waits["jobs"].as_u64().unwrap_or_default() {
        1 => "1 task".to_owned(),
        more => format!("{more} tasks"),
    };
    let since = waits["oldest_at"].as_str().unwrap_or_default();
    format!("Waiting for a worker with `{tool}`{labels}: {tasks}, since {since}")
}

fn next_due_value(next: &NextDue) -> Value {
    let (path, at) = (Value::from(next.path.as_str()), Value::from(next.at.to_string()));
    Value::object([("path", path), ("what", Value::from(next.what)), ("at", at)])
}

fn queue_position_value(queue_position: &QueuePositionInfo) -> Value {
    Value::object([
        ("trigger", Value::from(queue_position.trigger.as_str())),
        ("in_flight", Value::from(queue_position.in_flight)),
        ("max_concurrency", Value::from(queue_position.max_concurrency)),
        ("position", Value::from(queue_position.position)),
        ("note", Value::from(queue_position.note.as_str())),
    ])
}
