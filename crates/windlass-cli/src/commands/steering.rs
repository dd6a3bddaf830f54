//! `windlass restart RUN --from PATH` and `windlass retry RUN`: a new run that does a part of another again.

use std::sync::Arc;

use windlass_runtime::{Engine, RestartRequest, RunHandle, RunOptions, RuntimeError};
use windlass_store::{RunRow, Store};
use windlass_value::{Value, parse_json};

use super::run::{check_id, interrupted, stored_program, tell_id};
use crate::args::{self, Global, SteeringArgs};
use crate::config::Settings;
use crate::failure::{Exit, Failure};
use crate::flow::Flow;
use crate::host::{self, Interrupts, Watched};
use crate::progress::Progress;
use crate::report::Ended;
use crate::{agents, children, out, stores, tools, trust};

pub(crate) fn restart(global: &Global, args: &args::Restart) -> Result<Exit, Failure> {
    let restart = RestartRequest {
        from: args.from.clone(),
        occurrence: args.occurrence,
        set: args.set.iter().map(|pair| single(pair)).collect::<Result<_, _>>()?,
        id: args.steering.id.clone(),
    };
    start_derived_run(global, ("restart", &args.run), &args.steering, async |engine, run| engine.restart(run, restart).await)
}

pub(crate) fn retry(global: &Global, args: &args::Retry) -> Result<Exit, Failure> {
    let id = args.steering.id.clone();
    start_derived_run(global, ("retry", &args.run), &args.steering, async |engine, run| engine.retry_failed(run, id).await)
}

fn single(pair: &str) -> Result<(String, Value), Failure> {
    let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        return Err(Failure::usage(format!("--set takes name=value; `{pair}` has no name or no `=`")));
    };
    Ok((name.to_owned(), parse_json(value).unwrap_or_else(|_| Value::from(value))))
}

fn start_derived_run(
    global: &Global,
    (what, run): (&str, &str),
    steering: &SteeringArgs,
    make: impl AsyncFnOnce(&Engine, &str) -> Result<RunHandle, RuntimeError>,
) -> Result<Exit, Failure> {
    check_id(steering.id.as_deref())?;
    let settings = Settings { flow: Flow::from_steering_args(steering), ..Settings::load(global)? };
    let store = stores::open(global)?;
    let row = stores::find(&*store, run)?;
    if !steering.trust.trusted && trust::is_served(&*store, &row)? {
        return Err(trust::refusal(global, &row, what));
    }
    agents::unknown_permissions(&settings).iter().for_each(|warning| out::note(warning));
    host::runtime()?.block_on(watch(global, steering, &settings, &store, &row, make))
}

async fn watch(
    global: &Global,
    steering: &SteeringArgs,
    settings: &Settings,
    store: &Arc<dyn Store>,
    old: &RunRow,
    make: impl AsyncFnOnce(&Engine, &str) -> Result<RunHandle, RuntimeError>,
) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let program = stored_program(&**store, &old.run, settings)?;
    tools::check(&program.plan, settings)?;
    let engine = host::engine(store, settings, &steering.testing)?;
    let mut progress = Progress::new(steering.quiet, &program);
    let handle = make(&engine, &old.run).await?;
    let run = handle.run.clone();
    tell_id(global, &run)?;
    note_origin(&**store, &run)?;
    match host::watch(&engine, handle, &mut interrupts, &mut progress).await? {
        Watched::Ended(report) => {
            let exit = Ended::new(&**store, &run, &program.plan, &report)?.print(global, None)?;
            children::wait_for_open_children(global, &engine, &**store, (&run, &program), &mut interrupts).await?;
            Ok(exit)
        }
        Watched::Interrupted => Ok(interrupted(global, &run, false, &steering.trust.words(&steering.permissions))),
    }
}

/// What it does again, of which run.
fn note_origin(store: &dyn Store, run: &Arc<str>) -> Result<(), Failure> {
    let Some(row) = store.run(run)? else { return Ok(()) };
    let how = RunOptions::of(&row)?;
    if let Some(from) = how.from {
        let (what, old) = (if from.retry { "retries" } else { "restarts" }, &from.run);
        let place = if from.path.is_empty() { "its beginning".to_owned() } else { format!("`{}`", from.path) };
        out::note(&format!("it {what} {old} from {place}"));
    }
    Ok(())
}
