//! `windlass restart RUN --from PATH` and `windlass retry RUN`: a new run that repeats a part of another.

use std::sync::Arc;

use windlass_runtime::{RestartRequest, RunHandle, RunOptions, RuntimeEngine, RuntimeError};
use windlass_store::{RunRow, Store};
use windlass_value::{Value, parse_json};

use super::run::{check_id, print_run_id, reject_terminal_options, report_interruption, stored_program};
use crate::agent_options::AgentRunOptions;
use crate::args::{self, GlobalArgs, SteeringArgs};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure};
use crate::follow::load_for_progress;
use crate::host::{self, Interrupts, WatchOutcome};
use crate::out::Paint;
use crate::progress::ProgressDisplay;
use crate::report::EndedRun;
use crate::runs::follow::{FollowOptions, follow_to_end};
use crate::runs::server::run_path;
use crate::runs::{self, Runs, ServerRuns, decode};
use crate::{agents, children, hints, mocks, out, stores, tools, trust};

pub(crate) fn restart(global: &GlobalArgs, args: &args::RestartArgs) -> Result<CliExit, CliFailure> {
    // An unset variable of a shell must not repeat everything.
    if args.from.is_empty() {
        let events = hints::command(global, &format!("events {}", args.run));
        return Err(
            CliFailure::usage("--from is empty").hint(format!("name a step or an iteration, as {events} shows it"))
        );
    }
    let restart = RestartRequest {
        from: args.from.clone(),
        occurrence: args.occurrence,
        set: args.set.iter().map(|pair| parse_assignment(pair)).collect::<Result<_, _>>()?,
        id: args.steering.id.clone(),
    };
    let body = restart_body(&restart);
    let set: String = args.set.iter().map(|pair| format!(" --set {}", hints::shell_quote(pair))).collect();
    let again = format!("restart {} --from {}{set}", args.run, hints::shell_quote(&args.from));
    start_derived_run(global, ("restart", &args.run, &again), &args.steering, &body, async |engine, run| {
        engine.restart(run, restart).await
    })
}

pub(crate) fn retry(global: &GlobalArgs, args: &args::RetryArgs) -> Result<CliExit, CliFailure> {
    let id = args.steering.id.clone();
    let body = Value::object(id.as_deref().map(|id| ("id", Value::from(id))));
    let again = format!("retry {}", args.run);
    start_derived_run(global, ("retry", &args.run, &again), &args.steering, &body, async |engine, run| {
        engine.retry_failed(run, id).await
    })
}

/// Returns the body of a restart for a server.
fn restart_body(restart: &RestartRequest) -> Value {
    let set = restart.set.iter().map(|(name, value)| (name.as_str(), value.clone()));
    let mut fields = vec![("from", Value::from(restart.from.as_str())), ("set", Value::object(set))];
    fields.extend(restart.occurrence.map(|number| ("occurrence", Value::from(number))));
    fields.extend(restart.id.as_deref().map(|id| ("id", Value::from(id))));
    Value::object(fields)
}

fn parse_assignment(pair: &str) -> Result<(String, Value), CliFailure> {
    let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        return Err(CliFailure::input(format!("--set takes name=value; `{pair}` has no name or no `=`")));
    };
    Ok((name.to_owned(), parse_json(value).unwrap_or_else(|_| Value::from(value))))
}

/// Starts and watches the new run. `again` is the command itself, for hints.
fn start_derived_run(
    global: &GlobalArgs,
    (what, run, again): (&str, &str, &str),
    steering: &SteeringArgs,
    body: &Value,
    start_run: impl AsyncFnOnce(&RuntimeEngine, &str) -> Result<RunHandle, RuntimeError>,
) -> Result<CliExit, CliFailure> {
    check_id(steering.id.as_deref())?;
    let settings =
        CliSettings { agent_options: AgentRunOptions::from_steering_args(steering), ..CliSettings::load(global)? };
    let settings = mocks::apply(settings, &steering.mocking, false, Paint::stderr(global.no_color))?;
    let store = match Runs::open(global)? {
        Runs::Store(store) => store,
        Runs::Server(server) => {
            let row = decode::listed_run(&server.find(run)?)?.1;
            reject_terminal_options(&[("--static", steering.mocking.static_file.is_some())])?;
            return derive_on_server(global, &server, (what, &row.run), steering, (body, &settings));
        }
    };
    settings.vault.attach(store.clone());
    let row = stores::find(&*store, run)?;
    if !steering.trust.trusted && trust::is_server_run(&*store, &row)? {
        let server = runs::local_server(global)?.ok_or_else(|| trust::refusal(global, &row, what))?;
        mocks::check_local_server(global, &steering.mocking, again)?;
        return derive_on_server(global, &server, (what, &row.run), steering, (body, &settings));
    }
    mocks::check_continued(global, &row, &settings, again)?;
    agents::unknown_permissions(&settings).iter().for_each(|warning| out::note(warning));
    host::runtime()?.block_on(watch(global, steering, &settings, &store, &row, start_run))
}

/// Retries or restarts a run on its server, and follows the new run.
fn derive_on_server(
    global: &GlobalArgs,
    server: &ServerRuns,
    (what, run): (&str, &str),
    steering: &SteeringArgs,
    (body, settings): (&Value, &CliSettings),
) -> Result<CliExit, CliFailure> {
    reject_terminal_options(&[
        ("--trusted", steering.trust.trusted),
        ("--stream", steering.stream),
        (steering.permissions.to_flags().trim(), !steering.permissions.to_flags().is_empty()),
    ])?;
    let interrupts = server.listen()?;
    let started = server.post(&run_path(run, what), body)?;
    let new: Arc<str> = decode::text(&started, "run")?.into();
    print_run_id(global, &new)?;
    if let Some(origin) = server.detail(&new)?.get("origin") {
        let (what, old) = match decode::optional_text(origin, "retries") {
            Some(old) => ("retries", old),
            None => ("restarts", decode::text(origin, "restarts")?),
        };
        print_origin(what, old, decode::text(origin, "from")?);
    }
    let options = FollowOptions { settings, interrupts, quiet: steering.quiet, with_duration: false, from_now: true };
    follow_to_end(global, server, &new, options)
}

async fn watch(
    global: &GlobalArgs,
    steering: &SteeringArgs,
    settings: &CliSettings,
    store: &Arc<dyn Store>,
    old: &RunRow,
    start_run: impl AsyncFnOnce(&RuntimeEngine, &str) -> Result<RunHandle, RuntimeError>,
) -> Result<CliExit, CliFailure> {
    let mut interrupts = Interrupts::listen()?;
    let program = stored_program(&**store, &old.run, settings)?;
    tools::check_tools(&program.plan, settings)?;
    let engine = host::engine(store, settings, &steering.testing)?;
    let mut progress = ProgressDisplay::new(steering.quiet, &program);
    let handle = start_run(&engine, &old.run).await?;
    let run = handle.run.clone();
    print_run_id(global, &run)?;
    note_origin(&**store, &run)?;
    progress.set_run(global, &run);
    // It continues the loops of the run that it repeats.
    progress.seed(load_for_progress(&**store, &run, &settings.limits, &progress).as_ref());
    match host::watch(&engine, handle, &mut interrupts, &mut progress).await? {
        WatchOutcome::Ended(report) => {
            let exit = EndedRun::new(&**store, &run, &program.plan, &report)?.print(global, None)?;
            children::wait_for_open_children(global, &engine, &**store, (&run, &program), &mut interrupts).await?;
            Ok(exit)
        }
        WatchOutcome::Interrupted => report_interruption(global, &**store, &run),
    }
}

/// Prints which run this one repeats, and from where.
fn note_origin(store: &dyn Store, run: &Arc<str>) -> Result<(), CliFailure> {
    let Some(row) = store.run(run)? else { return Ok(()) };
    let options = RunOptions::from_row(&row)?;
    if let Some(from) = options.from {
        print_origin(if from.retry { "retries" } else { "restarts" }, &from.run, &from.path);
    }
    Ok(())
}

fn print_origin(what: &str, old: &str, path: &str) {
    let origin = if path.is_empty() { "its beginning".to_owned() } else { format!("`{path}`") };
    out::note(&format!("it {what} {old} from {origin}"));
}
