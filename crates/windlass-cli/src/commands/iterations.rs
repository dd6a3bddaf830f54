//! `windlass iterations RUN [LOOP]`

use windlass_core::{FrameView, IterationRecord, IterationVerdict, frame_tree, judged_iterations};
use windlass_runtime::inspect::{
    IterationPage, LoopHistory, final_report, frame_path, iteration_value, iterations_page, loop_histories,
    run_time_now,
};
use windlass_store::{RunRow, RunStatus};
use windlass_syntax::nearest;
use windlass_value::{Timestamp, Value};

use super::tree;
use crate::args::{self, GlobalArgs};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure};
use crate::runs::{Runs, decode};
use crate::{image, out, stores, text};

/// Maximum number of characters of a judge's verdict.
const MAX_VERDICT_CHARS: usize = 80;

/// Maximum number of characters of an error among other iterations.
const MAX_ERROR_CHARS: usize = 100;

pub(crate) fn iterations(global: &GlobalArgs, args: &args::IterationsArgs) -> Result<CliExit, CliFailure> {
    let runs = Runs::open(global)?;
    let row = match &runs {
        Runs::Store(store) => stores::find(&**store, &args.run)?,
        Runs::Server(server) => decode::listed_run(&server.find(&args.run)?)?.1,
    };
    match (&args.r#loop, &runs) {
        (None, Runs::Store(store)) => {
            let report = final_report(&row)?;
            let judged = LiveLoops::load(global, &runs, &row)?.judged;
            let mut paths = store.loops(&row.run)?;
            paths.extend(judged.iter().map(|one| one.loop_path.to_string()));
            paths.sort_unstable();
            paths.dedup();
            print_loops(global, loop_histories(&**store, &row.run, paths, report.as_ref(), &judged)?)
        }
        (None, Runs::Server(server)) => print_loops(global, server.loops(&row.run)?),
        (Some(path), _) => print_page(global, &runs, &row, path, args),
    }
}

/// The live part of a run's loops. Empty for a run that has ended.
#[derive(Default)]
struct LiveLoops {
    frames: Vec<FrameView>,
    /// The run's current time.
    now: Timestamp,
    /// The iterations whose judge runs. A server adds them to its answers itself.
    judged: Vec<IterationRecord>,
}

impl LiveLoops {
    fn load(global: &GlobalArgs, runs: &Runs, row: &RunRow) -> Result<LiveLoops, CliFailure> {
        if row.status.is_final() || row.status == RunStatus::Quarantined {
            return Ok(LiveLoops::default());
        }
        Ok(match runs {
            Runs::Store(store) => {
                let seen = image::load(&**store, &row.run, &CliSettings::load(global)?.limits)?;
                let state = &seen.image.state;
                LiveLoops {
                    frames: frame_tree(&seen.program, state),
                    now: run_time_now(&seen.row, state.now),
                    judged: judged_iterations(state).cloned().collect(),
                }
            }
            Runs::Server(server) => {
                let detail = server.detail(&row.run)?;
                let current = detail.get("current").map(decode::frames).transpose()?;
                let now = windlass_runtime::real_now();
                LiveLoops { frames: current.unwrap_or_default(), now, judged: Vec::new() }
            }
        })
    }

    /// Returns when a loop begins its next iteration, with the run's current time.
    fn next_iteration(&self, path: &str) -> Option<(Timestamp, Timestamp)> {
        find_loop(&self.frames, "", path).and_then(|view| view.due).map(|due| (due, self.now))
    }
}

fn find_loop<'v>(views: &'v [FrameView], above: &str, wanted: &str) -> Option<&'v FrameView> {
    views.iter().find_map(|view| {
        let path = frame_path(above, view);
        let is_wanted = path == wanted && view.looping.is_some();
        if is_wanted { Some(view) } else { find_loop(&view.children, &path, wanted) }
    })
}

fn print_loops(global: &GlobalArgs, found: Vec<LoopHistory>) -> Result<CliExit, CliFailure> {
    if global.json {
        let entry = |seen: &LoopHistory| {
            Value::object([
                ("loop", Value::from(seen.path.as_str())),
                ("iterations", Value::from(seen.iterations)),
                ("retained", Value::from(seen.kept)),
                ("failed", Value::from(seen.failed)),
                ("reason", Value::from(seen.reason.map(|reason| reason.as_str()))),
            ])
        };
        out::print_json(&Value::list(found.iter().map(entry).collect()))?;
        return Ok(CliExit::Success);
    }
    if found.is_empty() {
        out::print("no loop has completed an iteration")?;
        return Ok(CliExit::Success);
    }
    let head = ["LOOP", "ITERATIONS", "RETAINED", "FAILED", "ENDED BY"].map(str::to_owned).to_vec();
    let line = |seen: LoopHistory| {
        let reason = seen.reason.map(|reason| reason.as_str().to_owned()).unwrap_or_default();
        vec![seen.path, seen.iterations.to_string(), seen.kept.to_string(), seen.failed.to_string(), reason]
    };
    out::print(&text::table(&std::iter::once(head).chain(found.into_iter().map(line)).collect::<Vec<_>>()))?;
    Ok(CliExit::Success)
}

fn print_page(
    global: &GlobalArgs,
    runs: &Runs,
    row: &RunRow,
    path: &str,
    args: &args::IterationsArgs,
) -> Result<CliExit, CliFailure> {
    let run = &*row.run;
    let live = LiveLoops::load(global, runs, row)?;
    let upcoming = live.next_iteration(path);
    let IterationPage { iterations, missing, next } = match runs {
        Runs::Store(store) => iterations_page(&**store, run, path, args.from, args.limit, args.failed, &live.judged)?,
        Runs::Server(server) => server.iterations(run, path, args.from, args.limit, args.failed)?,
    };
    if iterations.is_empty() && upcoming.is_none() {
        check_loop_exists(runs, run, path)?;
    }
    if global.json {
        let facts = [
            ("run", Value::from(run)),
            ("loop", Value::from(path)),
            ("iterations", Value::list(iterations.iter().map(|iteration| iteration_value(run, iteration)).collect())),
            ("not_retained", Value::list(missing.iter().map(range_value).collect())),
            ("next", Value::from(next)),
        ];
        let due = upcoming.map(|(due, _)| ("next_iteration_at", Value::from(due.to_string())));
        out::print_json(&Value::object(facts.into_iter().chain(due)))?;
        return Ok(CliExit::Success);
    }
    out::print(&match (iterations.is_empty(), args.failed, args.from) {
        (false, ..) => show(&iterations, args.failed),
        // Failed iterations are always retained.
        (true, true, 0) => "no iteration has failed".to_owned(),
        (true, true, from) => format!("no iteration from {from} on has failed"),
        (true, false, from) => format!("no iteration from {from} on is retained"),
    })?;
    if !missing.is_empty() {
        out::note(&format!("not retained: {}", missing.iter().map(format_range).collect::<Vec<_>>().join(", ")));
    }
    if let Some((due, now)) = upcoming {
        out::note(&format!("{} ({due})", tree::format_due("iteration", due, now)));
    }
    if let Some(next) = next {
        let failed = if args.failed { " --failed" } else { "" };
        let is_usual = args.limit == args::DEFAULT_LIMIT as usize;
        let limit = if is_usual { String::new() } else { format!(" --limit {}", args.limit) };
        let path = stores::shell_quote(path);
        let command = stores::command(global, &format!("iterations {run} {path} --from {next}{limit}{failed}"));
        out::note(&format!("more: {command}"));
    }
    Ok(CliExit::Success)
}

fn range_value(&(from, to): &(u64, u64)) -> Value {
    Value::object([("from", Value::from(from)), ("to", Value::from(to))])
}

fn format_range(&(from, to): &(u64, u64)) -> String {
    if from == to { format!("iteration {from}") } else { format!("iterations {from} to {to}") }
}

/// Rejects a loop path without any history: it is probably a typo.
fn check_loop_exists(runs: &Runs, run: &str, path: &str) -> Result<(), CliFailure> {
    let paths = match runs {
        Runs::Store(store) => store.loops(run)?,
        Runs::Server(server) => server.loops(run)?.into_iter().map(|seen| seen.path).collect(),
    };
    if paths.iter().any(|known| known == path) {
        return Ok(());
    }
    let failure = CliFailure::usage(format!("no loop `{path}` has completed an iteration in this run"));
    Err(match nearest(path, paths.iter().map(String::as_str)) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint(format!("`windlass iterations {run}` shows the loops")),
    })
}

/// Formats a judge's verdict: `not done: tests are missing`.
fn format_verdict(verdict: &IterationVerdict) -> String {
    let done = match verdict.done {
        Some(true) => "done",
        Some(false) => "not done",
        None => "no verdict",
    };
    let reason = verdict.reason.as_ref().map(|reason| text::one_line(reason));
    let reason = reason.filter(|reason| !reason.is_empty());
    text::truncate(&reason.map_or_else(|| done.to_owned(), |reason| format!("{done}: {reason}")), MAX_VERDICT_CHARS)
}

/// Formats iterations as a table. Of failed ones only, the whole errors are shown: they are what the user looks for.
fn show(iterations: &[IterationRecord], whole_errors: bool) -> String {
    let max_error_chars = if whole_errors { usize::MAX } else { MAX_ERROR_CHARS };
    // Only loops over items have items.
    let items = iterations.iter().any(|iteration| iteration.item.is_some());
    // Only judged loops have verdicts, and they have no condition.
    let judged = iterations.iter().any(|iteration| iteration.verdict.is_some());
    let check = if judged { "JUDGE" } else { "CONDITION" };
    let mut head = ["ITERATION", "STATUS", "DURATION", check, "RESULT"].map(str::to_owned).to_vec();
    if items {
        head.insert(3, "ITEM".to_owned());
    }
    let line = |iteration: &IterationRecord| {
        let result = iteration.error.as_ref().map_or_else(
            || text::format_value(&iteration.result, 100),
            |error| format!("[{}] {}", error.code, text::truncate(&text::one_line(&error.message), max_error_chars)),
        );
        let condition = iteration.condition.map(|met| met.to_string());
        let verdict = iteration.verdict.as_ref().map(format_verdict);
        let mut line = vec![
            iteration.index.to_string(),
            iteration.status.as_str().to_owned(),
            text::format_duration(iteration.duration),
            verdict.or(condition).unwrap_or_default(),
            result,
        ];
        if items {
            line.insert(3, iteration.item.as_ref().map(|item| text::format_value(item, 40)).unwrap_or_default());
        }
        line
    };
    let table = text::table(&std::iter::once(head).chain(iterations.iter().map(line)).collect::<Vec<_>>());
    // The reason is stored with the iteration that ended last, which need not be the last of the list.
    match iterations.iter().find_map(|iteration| iteration.reason) {
        Some(reason) => format!("{table}\nended by: {}", reason.as_str()),
        None => table,
    }
}
