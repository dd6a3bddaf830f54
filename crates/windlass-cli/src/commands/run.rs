//! `windlass run FILE`

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::Program;
use windlass_runtime::{RunStartOptions, RuntimeError, is_run_id};
use windlass_store::{MemoryStore, RunStatus, Store};
use windlass_value::Value;

use super::{delivery, resume, start};
use crate::agent_options::{self, AgentRunOptions};
use crate::args::{self, GlobalArgs};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure, codes};
use crate::follow::load_for_progress;
use crate::host::{self, Interrupts, WatchOutcome};
use crate::out::{self, Paint};
use crate::progress::ProgressDisplay;
use crate::project::Project;
use crate::report::EndedRun;
use crate::{agents, children, definition, hints, inputs, mocks, runs, stores, text, trust};

pub(crate) fn run(global: &GlobalArgs, args: &args::RunArgs) -> Result<CliExit, CliFailure> {
    let settings = CliSettings { agent_options: AgentRunOptions::from_run_args(args)?, ..CliSettings::load(global)? };
    inputs::check_stdin(Some(&args.source.file), &args.input)?;
    if let Some(target) = runs::named_server(global)? {
        return start::run_on_server(global, &target.connect()?, args, &settings);
    }
    let settings = mocks::apply(settings, &args.mocking, args.virtual_time, Paint::stderr(global.no_color))?;
    agents::check_model(&settings)?;
    let source = definition::read(&args.source.file, &settings.limits)?;
    let paint = Paint::stderr(global.no_color);
    let project = Project::read(source, args.source.dialect.as_deref(), &settings).or_fail(paint)?;
    let input = inputs::gather(&args.input, &project.plan()?.parameters, &settings)?;
    let input = agent_options::with_context(input, args);
    inputs::unused_input_warnings(project.plan()?, &input).iter().for_each(|warning| out::note(warning));
    agents::unknown_permissions(&settings).iter().for_each(|warning| out::note(warning));
    check_id(args.id.as_deref())?;
    settings.mocks.iter().filter(|_| !args.quiet).for_each(|mocks| out::note(&mocks.describe()));
    if let Some(mocks) = &settings.mocks {
        let mut steps = BTreeSet::new();
        project.add_step_names(&mut steps);
        mocks.unknown_steps_warning(&steps).iter().for_each(|warning| out::note(warning));
    }
    let trigger = delivery::deciding_trigger(project.plan()?, args.trigger.as_deref())?;
    let store = store_for(global, args)?;
    if !args.ephemeral {
        settings.vault.attach(store.clone());
    }
    host::runtime()?.block_on(async {
        match trigger {
            Some(trigger) => delivery::deliver(global, args, &settings, store, project, &trigger, input).await,
            None => start_here(global, args, &settings, store, project, input).await,
        }
    })
}

/// Ids appear in paths, commands and keys: they contain no spaces and no invisible characters.
pub(crate) fn check_id(id: Option<&str>) -> Result<(), CliFailure> {
    match id {
        Some(id) if !is_run_id(id) => Err(CliFailure::usage(format!("`{id}` is not a valid run id"))
            .code(codes::RUN_ID)
            .hint("up to 128 letters, digits and -_.: but not `last` (the newest run), `changes`, `.` or `..`, and not 16 or \
                   more digits, which are an execution id")),
        _ => Ok(()),
    }
}

/// Rejects options that only a run in this process can have. Each is given with whether it was used.
pub(crate) fn reject_terminal_options(options: &[(&str, bool)]) -> Result<(), CliFailure> {
    match options.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => Err(CliFailure::usage(format!("{option} is for runs in this process, not on a server"))
            .hint("leave it out; the settings of the server decide")),
    }
}

fn store_for(global: &GlobalArgs, args: &args::RunArgs) -> Result<Arc<dyn Store>, CliFailure> {
    match args.ephemeral {
        true => Ok(Arc::new(MemoryStore::new())),
        false => stores::open_or_create(&stores::directory(global), host::sqlite_options(&args.testing)),
    }
}

async fn start_here(
    global: &GlobalArgs,
    args: &args::RunArgs,
    settings: &CliSettings,
    store: Arc<dyn Store>,
    project: Project,
    input: Value,
) -> Result<CliExit, CliFailure> {
    let mut interrupts = Interrupts::listen()?;
    let engine = host::engine(&store, settings, &args.testing)?;
    let (hash, program) = project.add_to(&engine, settings)?;
    let options = RunStartOptions {
        id: args.id.clone(),
        virtual_time: args.virtual_time,
        watch: !args.quiet,
        labels: args.labels.iter().cloned().collect(),
        ..RunStartOptions::default()
    };
    let mut progress = ProgressDisplay::new(args.quiet, &program);
    let known = args.id.as_deref().map(|id| store.run(id)).transpose()?.flatten();
    let begun = known.and_then(|row| load_for_progress(&*store, &row.run, &settings.limits, &progress));
    let handle = match engine.start(hash, input, options).await {
        Err(RuntimeError::Owned { run, owner }) => {
            let run: Arc<str> = run.into();
            print_run_id(global, &run)?;
            return resume::follow_owner(global, &store, &run, &owner, args, &mut interrupts).await;
        }
        other => other?,
    };
    let run = handle.run.clone();
    print_run_id(global, &run)?;
    note_if_paused(global, args, &*store, &run)?;
    progress.set_run(global, &run);
    progress.seed(begun.as_ref());
    match host::watch(&engine, handle, &mut interrupts, &mut progress).await? {
        WatchOutcome::Ended(report) => {
            // The run's own times, as `status` shows them: virtual time differs from the clock.
            let took = store.run(&run)?.map(|row| text::format_duration(row.changed_at.since(row.created_at)));
            let exit =
                EndedRun::new(&*store, &run, &program.plan, &report)?.ephemeral(args.ephemeral).print(global, took)?;
            children::wait_for_open_children(global, &engine, &*store, (&run, &program), &mut interrupts).await?;
            Ok(exit)
        }
        WatchOutcome::Interrupted if args.ephemeral => Ok(report_lost_run()),
        WatchOutcome::Interrupted => report_interruption(global, &*store, &run),
    }
}

/// Prints the run id before anything else, so that the user can inspect the run whatever happens next.
pub(crate) fn print_run_id(global: &GlobalArgs, run: &Arc<str>) -> Result<(), CliFailure> {
    match global.json {
        true => {
            out::note(&format!("run {run}"));
            Ok(())
        }
        false => out::print(&format!("run {run}")),
    }
}

/// Only a run that existed before can already be paused. Waiting for it without a message would look like a hang.
fn note_if_paused(
    global: &GlobalArgs,
    args: &args::RunArgs,
    store: &dyn Store,
    run: &Arc<str>,
) -> Result<(), CliFailure> {
    let known = if args.id.is_some() { store.run(run)? } else { None };
    if known.is_some_and(|row| row.status == RunStatus::Paused) {
        out::note(&format!("the run is paused; resume it: {}", stores::command(global, &format!("resume {run}"))));
    }
    Ok(())
}

pub(crate) fn report_interruption(
    global: &GlobalArgs,
    store: &dyn Store,
    run: &Arc<str>,
) -> Result<CliExit, CliFailure> {
    let is_server_run = store.run(run)?.map(|row| trust::is_server_run(store, &row)).transpose()?.unwrap_or_default();
    let command = hints::host_command(global, &format!("resume {run}"), is_server_run);
    out::note(&format!("interrupted; the run is stored. Resume it:\n  {command}"));
    Ok(CliExit::Interrupted)
}

/// Reports the interruption of a run without a store.
pub(crate) fn report_lost_run() -> CliExit {
    out::note("interrupted; the run was in memory only (--ephemeral)");
    CliExit::Interrupted
}

/// Loads the program of a stored run, for display.
pub(crate) fn stored_program(store: &dyn Store, run: &str, settings: &CliSettings) -> Result<Arc<Program>, CliFailure> {
    let row = store.run(run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_owned()))?;
    Ok(Arc::new(crate::image::program(store, &row, &settings.limits)?))
}
