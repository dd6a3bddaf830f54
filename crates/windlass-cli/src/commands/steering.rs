//! `windlass restart RUN --from PATH` and `windlass retry RUN`: a new run that repeats a part of another.

use std::sync::Arc;

use windlass_runtime::{RestartRequest, RunHandle, RunOptions, RuntimeEngine, RuntimeError};
use windlass_store::{RunRow, Store};
use windlass_value::{Value, parse_json};

use super::run::{check_id, print_run_id, report_interruption, stored_program};
use crate::agent_options::AgentRunOptions;
use crate::args::{self, GlobalArgs, SteeringArgs};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure};
use crate::host::{self, Interrupts, WatchOutcome};
use crate::out::Paint;
use crate::progress::ProgressDisplay;
use crate::report::EndedRun;
use crate::{agents, children, mocks, out, stores, tools, trust};

pub(crate) fn restart(global: &GlobalArgs, args: &args::RestartArgs) -> Result<CliExit, CliFailure> {
    let restart = RestartRequest {
        from: args.from.clone(),
        occurrence: args.occurrence,
        set: args.set.iter().map(|pair| parse_assignment(pair)).collect::<Result<_, _>>()?,
        id: args.steering.id.clone(),
    };
    start_derived_run(global, ("restart", &args.run), &args.steering, async |engine, run| {
        engine.restart(run, restart).await
    })
}

pub(crate) fn retry(global: &GlobalArgs, args: &args::RetryArgs) -> Result<CliExit, CliFailure> {
    let id = args.steering.id.clone();
    start_derived_run(global, ("retry", &args.run), &args.steering, async |engine, run| {
        engine.retry_failed(run, id).await
    })
}

fn parse_assignment(pair: &str) -> Result<(String, Value), CliFailure> {
    let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        return Err(CliFailure::input(format!("--set takes name=value; `{pair}` has no name or no `=`")));
    };
    Ok((name.to_owned(), parse_json(value).unwrap_or_else(|_| Value::from(value))))
}

fn start_derived_run(
    global: &GlobalArgs,
    (what, run): (&str, &str),
    steering: &SteeringArgs,
    start_run: impl AsyncFnOnce(&RuntimeEngine, &str) -> Result<RunHandle, RuntimeError>,
) -> Result<CliExit, CliFailure> {
    check_id(steering.id.as_deref())?;
    let settings =
        CliSettings { agent_options: AgentRunOptions::from_steering_args(steering), ..CliSettings::load(global)? };
    let settings = mocks::apply(settings, &steering.mocking, false, Paint::stderr(global.no_color))?;
    let store = stores::open(global)?;
    let row = stores::find(&*store, run)?;
    if !steering.trust.trusted && trust::is_server_run(&*store, &row)? {
        return Err(trust::refusal(global, &row, what));
    }
    agents::unknown_permissions(&settings).iter().for_each(|warning| out::note(warning));
    host::runtime()?.block_on(watch(global, steering, &settings, &store, &row, start_run))
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
    match host::watch(&engine, handle, &mut interrupts, &mut progress).await? {
        WatchOutcome::Ended(report) => {
            let exit = EndedRun::new(&**store, &run, &program.plan, &report)?.print(global, None)?;
            children::wait_for_open_children(global, &engine, &**store, (&run, &program), &mut interrupts).await?;
            Ok(exit)
        }
        WatchOutcome::Interrupted => Ok(report_interruption(
            global,
            &run,
            false,
            &(steering.trust.to_flags(&steering.permissions) + &steering.mocking.to_flags()),
        )),
    }
}

/// Prints which run this one repeats, and from where.
fn note_origin(store: &dyn Store, run: &Arc<str>) -> Result<(), CliFailure> {
    let Some(row) = store.run(run)? else { return Ok(()) };
    let options = RunOptions::from_row(&row)?;
    if let Some(from) = options.from {
        let (what, old) = (if from.retry { "retries" } else { "restarts" }, &from.run);
        let origin = if from.path.is_empty() { "its beginning".to_owned() } else { format!("`{}`", from.path) };
        out::note(&format!("it {what} {old} from {origin}"));
    }
    Ok(())
}
