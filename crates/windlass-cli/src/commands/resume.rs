//! `windlass resume RUN`

use std::sync::Arc;

use windlass_core::Program;
use windlass_runtime::inspect::{final_report, live_owner};
use windlass_runtime::{RunRequest, RuntimeError, new_run_id, open_descendants, request};
use windlass_store::{RunRow, RunStatus, Store};
use windlass_value::Value;

use super::run::{print_run_id, reject_terminal_options, report_interruption, stored_program};
use crate::agent_options::AgentRunOptions;
use crate::args::{self, GlobalArgs};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure, owner_name};
use crate::follow::{FollowOutcome, follow, load_for_progress};
use crate::host::{self, Interrupts, WatchOutcome};
use crate::out::Paint;
use crate::progress::ProgressDisplay;
use crate::report::EndedRun;
use crate::runs::follow::{FollowOptions, follow_to_end, print_ended};
use crate::runs::{self, Runs, ServerRuns, decode};
use crate::{agents, children, hints, image, mocks, out, stores, tools, trust};

pub(crate) fn resume(global: &GlobalArgs, args: &args::ResumeArgs) -> Result<CliExit, CliFailure> {
    let settings = CliSettings { agent_options: AgentRunOptions::from_resume_args(args), ..CliSettings::load(global)? };
    let settings = mocks::apply(settings, &args.mocking, false, Paint::stderr(global.no_color))?;
    let store = match Runs::open(global)? {
        Runs::Store(store) => store,
        Runs::Server(server) => {
            reject_terminal_options(&[("--static", args.mocking.static_file.is_some())])?;
            let row = decode::listed_run(&server.find(&args.run)?)?.1;
            return resume_on_server(global, &server, args, &settings, &row);
        }
    };
    settings.vault.attach(store.clone());
    let row = stores::find(&*store, &args.run)?;
    if let Some(report) = final_report(&row)? {
        let program = image::program(&*store, &row, &settings.limits)?;
        print_run_id(global, &row.run)?;
        note_ended(report.status.as_str());
        let exit = EndedRun::new(&*store, &row.run, &program.plan, &report)?.print(global, None)?;
        if children::has_open_children(&*store, &row.run, &program.plan)? {
            if !args.trust.trusted && trust::is_server_run(&*store, &row)? {
                let serve = hints::server_command(global);
                out::note(&format!("child runs are still open; a server resumes them: {serve}"));
                return Ok(exit);
            }
            host::runtime()?.block_on(finish_children(global, args, &settings, &store, (&row.run, &program)))?;
        }
        return Ok(exit);
    }
    agents::unknown_permissions(&settings).iter().for_each(|warning| out::note(warning));
    if !args.trust.trusted && trust::is_server_run(&*store, &row)? {
        if live_owner(&*store, &row)?.is_none()
            && let Some(server) = runs::local_server(global)?
        {
            mocks::check_local_server(global, &args.mocking, &format!("resume {}", row.run))?;
            return resume_on_server(global, &server, args, &settings, &row);
        }
        return host::runtime()?.block_on(delegate_to_server(global, args, &settings, &store, &row));
    }
    host::runtime()?.block_on(resume_here(global, args, &settings, &store, &row))
}

fn note_ended(status: &str) {
    out::note(&format!(
        "the run has already ended ({status}) and cannot be resumed; its result follows. To repeat it, start a new run: \
         windlass run FILE"
    ));
}

/// Resumes a run on its server and follows it.
fn resume_on_server(
    global: &GlobalArgs,
    server: &ServerRuns,
    args: &args::ResumeArgs,
    settings: &CliSettings,
    row: &RunRow,
) -> Result<CliExit, CliFailure> {
    let flags = args.permissions.to_flags();
    reject_terminal_options(&[
        ("--trusted", args.trust.trusted),
        ("--stream", args.stream),
        (flags.trim(), !flags.is_empty()),
    ])?;
    let interrupts = server.listen()?;
    print_run_id(global, &row.run)?;
    if row.status.is_final() {
        note_ended(row.status.as_str());
        return print_ended(global, server, &row.run, false);
    }
    let id = format!("resume-{}", new_run_id());
    server.request(&row.run, "resume", &Value::object([("request_id", Value::from(id))]))?;
    let options = FollowOptions { settings, interrupts, quiet: args.quiet, with_duration: false, from_now: true };
    follow_to_end(global, server, &row.run, options)
}

/// Runs the open children of an ended run to their end.
async fn finish_children(
    global: &GlobalArgs,
    args: &args::ResumeArgs,
    settings: &CliSettings,
    store: &Arc<dyn Store>,
    (run, program): (&Arc<str>, &Program),
) -> Result<(), CliFailure> {
    let mut interrupts = Interrupts::listen()?;
    let engine = host::engine(store, settings, &args.testing)?;
    engine.resume(run).await?;
    children::wait_for_open_children(global, &engine, &**store, (run, program), &mut interrupts).await
}

/// Resumes a run of a server by a request to its owner, and follows it; this process does not run it.
async fn delegate_to_server(
    global: &GlobalArgs,
    args: &args::ResumeArgs,
    settings: &CliSettings,
    store: &Arc<dyn Store>,
    row: &RunRow,
) -> Result<CliExit, CliFailure> {
    let refused = || trust::refusal(global, row, "resume");
    if let Some(owner) = live_owner(&**store, row)? {
        let mut interrupts = Interrupts::listen()?;
        print_run_id(global, &row.run)?;
        resume_if_paused(store, &row.run, &owner)?;
        let end = follow_once(global, store, &row.run, settings, args.quiet, &mut interrupts).await?;
        return end.ok_or_else(refused)?.show(global, store, &row.run, settings);
    }
    Err(refused())
}

async fn resume_here(
    global: &GlobalArgs,
    args: &args::ResumeArgs,
    settings: &CliSettings,
    store: &Arc<dyn Store>,
    row: &RunRow,
) -> Result<CliExit, CliFailure> {
    let mut interrupts = Interrupts::listen()?;
    print_run_id(global, &row.run)?;
    mocks::check_continued(global, row, settings, &format!("resume {}", row.run))?;
    tools::check_tools(&stored_program(&**store, &row.run, settings)?.plan, settings)?;
    for below in open_descendants(&**store, &row.run)? {
        tools::check_tools(&stored_program(&**store, &below.run, settings)?.plan, settings)?;
    }
    supersede_buffered_pauses(store, &row.run)?;
    let engine = host::engine(store, settings, &args.testing)?;
    loop {
        let program = stored_program(&**store, &row.run, settings)?;
        let mut progress = ProgressDisplay::new(args.quiet, &program);
        progress.set_run(global, &row.run);
        // Read before the run is resumed: afterwards it may end before it was read.
        let begun = load_for_progress(&**store, &row.run, &settings.limits, &progress);
        let handle = match engine.resume(&row.run).await {
            Err(RuntimeError::Owned { owner, .. }) => {
                resume_if_paused(store, &row.run, &owner)?;
                match follow_once(global, store, &row.run, settings, args.quiet, &mut interrupts).await? {
                    Some(end) => return end.show(global, store, &row.run, settings),
                    // Its owner has released the run: this process resumes it.
                    None => continue,
                }
            }
            other => other?,
        };
        progress.seed(begun.as_ref());
        return match host::watch(&engine, handle, &mut interrupts, &mut progress).await? {
            WatchOutcome::Ended(report) => {
                let exit = EndedRun::new(&**store, &row.run, &program.plan, &report)?.print(global, None)?;
                children::wait_for_open_children(global, &engine, &**store, (&row.run, &program), &mut interrupts)
                    .await?;
                Ok(exit)
            }
            WatchOutcome::Interrupted => report_interruption(global, &**store, &row.run),
        };
    }
}

/// A pause that was buffered while no process ran the run is older than this resume and must not stop it. The inbox
/// keeps its order, so a resume request behind the pause supersedes it.
fn supersede_buffered_pauses(store: &Arc<dyn Store>, run: &Arc<str>) -> Result<(), CliFailure> {
    if !store.inbox(run, 1)?.is_empty() {
        request_resume(store, run)?;
    }
    Ok(())
}

fn request_resume(store: &Arc<dyn Store>, run: &Arc<str>) -> Result<(), CliFailure> {
    request(&**store, run, &format!("resume-{}", new_run_id()), RunRequest::Resume)?;
    Ok(())
}

/// Asks the live owner of a paused run to resume it; this process then only follows.
fn resume_if_paused(store: &Arc<dyn Store>, run: &Arc<str>, owner: &str) -> Result<(), CliFailure> {
    out::note(&format!("{} runs it; following", owner_name(owner)));
    let paused = store.run(run)?.is_some_and(|row| row.status == RunStatus::Paused);
    if paused { request_resume(store, run) } else { Ok(()) }
}

/// The outcome of following, for printing.
struct FollowEnd(FollowOutcome);

async fn follow_once(
    global: &GlobalArgs,
    store: &Arc<dyn Store>,
    run: &Arc<str>,
    settings: &CliSettings,
    quiet: bool,
    interrupts: &mut Interrupts,
) -> Result<Option<FollowEnd>, CliFailure> {
    let program = stored_program(&**store, run, settings)?;
    let mut progress = ProgressDisplay::new(quiet, &program);
    progress.set_run(global, run);
    Ok(match follow(&**store, run, &settings.limits, interrupts, &mut progress).await? {
        FollowOutcome::Orphaned => None,
        end => Some(FollowEnd(end)),
    })
}

impl FollowEnd {
    fn show(
        &self,
        global: &GlobalArgs,
        store: &Arc<dyn Store>,
        run: &Arc<str>,
        settings: &CliSettings,
    ) -> Result<CliExit, CliFailure> {
        match &self.0 {
            FollowOutcome::Ended(report) => {
                let program = stored_program(&**store, run, settings)?;
                EndedRun::new(&**store, run, &program.plan, report)?.print(global, None)
            }
            FollowOutcome::Interrupted | FollowOutcome::Orphaned => {
                out::note("no longer following; the run continues in its process");
                Ok(CliExit::Interrupted)
            }
        }
    }
}

/// `run --id X` while another process runs X: this command follows that run and ends as it ends.
pub(crate) async fn follow_owner(
    global: &GlobalArgs,
    store: &Arc<dyn Store>,
    run: &Arc<str>,
    owner: &str,
    args: &args::RunArgs,
    interrupts: &mut Interrupts,
) -> Result<CliExit, CliFailure> {
    let settings = CliSettings::load(global)?;
    out::note(&format!("{} runs it already; following", owner_name(owner)));
    match follow_once(global, store, run, &settings, args.quiet, interrupts).await? {
        Some(end) => end.show(global, store, run, &settings),
        None => {
            out::note("its process has released the run");
            report_interruption(global, &**store, run)
        }
    }
}
