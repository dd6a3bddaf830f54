//! `windlass resume RUN`

use std::sync::Arc;

use windlass_core::Program;
use windlass_runtime::show::{live_owner, report_of};
use windlass_runtime::{Request, RuntimeError, new_run_id, open_descendants, request};
use windlass_store::{RunRow, RunStatus, Store};

use super::requests;
use super::run::{interrupted, stored_program, tell_id};
use crate::args::{self, Global};
use crate::config::Settings;
use crate::failure::{Exit, Failure, owner_name};
use crate::flow::Flow;
use crate::follow::{Followed, follow, look};
use crate::host::{self, Interrupts, Watched};
use crate::progress::Progress;
use crate::report::Ended;
use crate::{agents, children, image, out, stores, tools, trust};

pub(crate) fn resume(global: &Global, args: &args::Resume) -> Result<Exit, Failure> {
    let settings = Settings { flow: Flow::of_resume(args), ..Settings::load(global)? };
    let store = stores::open(global)?;
    let row = stores::find(&*store, &args.run)?;
    if let Some(report) = report_of(&row)? {
        let program = image::program(&*store, &row, &settings.limits)?;
        tell_id(global, &row.run)?;
        out::note(&format!(
            "the run has ended already ({}) and cannot go on; this is how it ended. To do it again, start a new run: \
             windlass run FILE",
            report.status.as_str()
        ));
        let exit = Ended::new(&*store, &row.run, &program.plan, &report)?.print(global, None)?;
        if children::has_open_children(&*store, &row.run, &program.plan)? {
            if !args.trust.trusted && trust::is_served(&*store, &row)? {
                let serve = stores::command(global, "serve");
                out::note(&format!("runs that it has called are still open; a server goes on with them: {serve}"));
                return Ok(exit);
            }
            host::runtime()?.block_on(finish_children(global, args, &settings, &store, (&row.run, &program)))?;
        }
        return Ok(exit);
    }
    agents::unknown_permissions(&settings).iter().for_each(|warning| out::note(warning));
    if !args.trust.trusted && trust::is_served(&*store, &row)? {
        return host::runtime()?.block_on(leave_to_server(global, args, &settings, &store, &row));
    }
    host::runtime()?.block_on(go_on(global, args, &settings, &store, &row))
}

/// The run itself has ended; what it has left open below it goes on here.
async fn finish_children(
    global: &Global,
    args: &args::Resume,
    settings: &Settings,
    store: &Arc<dyn Store>,
    (run, program): (&Arc<str>, &Program),
) -> Result<(), Failure> {
    let mut interrupts = Interrupts::listen()?;
    let engine = host::engine(store, settings, &args.testing)?;
    engine.resume(run).await?;
    children::wait_for_open_children(global, &engine, &**store, (run, program), &mut interrupts).await
}

/// A run of a server: whoever has it is asked to go on, and watched; here it does not go on.
async fn leave_to_server(
    global: &Global,
    args: &args::Resume,
    settings: &Settings,
    store: &Arc<dyn Store>,
    row: &RunRow,
) -> Result<Exit, Failure> {
    let refused = || trust::refusal(global, row, "resume");
    if let Some(owner) = live_owner(&**store, row)? {
        let mut interrupts = Interrupts::listen()?;
        tell_id(global, &row.run)?;
        wake_if_paused(store, &row.run, &owner)?;
        let end = follow_once(store, &row.run, settings, args.quiet, &mut interrupts).await?;
        return end.ok_or_else(refused)?.show(global, store, &row.run, settings);
    }
    if row.status != RunStatus::Paused || stores::server_for(global, row).is_none() {
        return Err(refused());
    }
    let id = format!("resume-{}", new_run_id());
    let answer = request(&**store, &row.run, &id, Request::Resume)?;
    requests::tell(global, &**store, row, &id, "resume", &answer)
}

async fn go_on(
    global: &Global,
    args: &args::Resume,
    settings: &Settings,
    store: &Arc<dyn Store>,
    row: &RunRow,
) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::listen()?;
    tell_id(global, &row.run)?;
    tools::check(&stored_program(&**store, &row.run, settings)?.plan, settings)?;
    for below in open_descendants(&**store, &row.run)? {
        tools::check(&stored_program(&**store, &below.run, settings)?.plan, settings)?;
    }
    outweigh_kept_pauses(store, &row.run)?;
    let engine = host::engine(store, settings, &args.testing)?;
    loop {
        let program = stored_program(&**store, &row.run, settings)?;
        let mut progress = Progress::new(args.quiet, &program);
        // Looked at while nobody runs it: afterwards it may be over before it was looked at.
        let begun = look(&**store, &row.run, &settings.limits, &progress);
        let handle = match engine.resume(&row.run).await {
            Err(RuntimeError::Owned { owner, .. }) => {
                wake_if_paused(store, &row.run, &owner)?;
                match follow_once(store, &row.run, settings, args.quiet, &mut interrupts).await? {
                    Some(end) => return end.show(global, store, &row.run, settings),
                    // Its owner has let go of it: now it is ours to go on with.
                    None => continue,
                }
            }
            other => other?,
        };
        progress.seed(begun.as_ref());
        return match host::watch(&engine, handle, &mut interrupts, &mut progress).await? {
            Watched::Ended(report) => {
                let exit = Ended::new(&**store, &row.run, &program.plan, &report)?.print(global, None)?;
                children::wait_for_open_children(global, &engine, &**store, (&row.run, &program), &mut interrupts).await?;
                Ok(exit)
            }
            Watched::Interrupted => Ok(interrupted(global, &row.run, false, &args.trust.words(&args.permissions))),
        };
    }
}

/// A pause that was kept while nobody ran it is older than this resume, and must not stop it: messages keep their order.
fn outweigh_kept_pauses(store: &Arc<dyn Store>, run: &Arc<str>) -> Result<(), Failure> {
    if !store.inbox(run, 1)?.is_empty() {
        ask_to_resume(store, run)?;
    }
    Ok(())
}

fn ask_to_resume(store: &Arc<dyn Store>, run: &Arc<str>) -> Result<(), Failure> {
    request(&**store, run, &format!("resume-{}", new_run_id()), Request::Resume)?;
    Ok(())
}

/// A run with a live owner is asked to go on, if it is paused; then we only watch.
fn wake_if_paused(store: &Arc<dyn Store>, run: &Arc<str>, owner: &str) -> Result<(), Failure> {
    out::note(&format!("{} runs it; following", owner_name(owner)));
    let paused = store.run(run)?.is_some_and(|row| row.status == RunStatus::Paused);
    if paused { ask_to_resume(store, run) } else { Ok(()) }
}

/// How following ended, for those who print it.
struct FollowEnd(Followed);

async fn follow_once(
    store: &Arc<dyn Store>,
    run: &Arc<str>,
    settings: &Settings,
    quiet: bool,
    interrupts: &mut Interrupts,
) -> Result<Option<FollowEnd>, Failure> {
    let program = stored_program(&**store, run, settings)?;
    let mut progress = Progress::new(quiet, &program);
    Ok(match follow(&**store, run, &settings.limits, interrupts, &mut progress).await? {
        Followed::Orphaned => None,
        end => Some(FollowEnd(end)),
    })
}

impl FollowEnd {
    fn show(
        &self,
        global: &Global,
        store: &Arc<dyn Store>,
        run: &Arc<str>,
        settings: &Settings,
    ) -> Result<Exit, Failure> {
        match &self.0 {
            Followed::Ended(report) => {
                let program = stored_program(&**store, run, settings)?;
                Ended::new(&**store, run, &program.plan, report)?.print(global, None)
            }
            Followed::Interrupted | Followed::Orphaned => {
                out::note("no longer following; the run goes on in its own process");
                Ok(Exit::Interrupted)
            }
        }
    }
}

/// `run --id X` while another process runs X: the same run, so its end is our end.
pub(crate) async fn follow_owner(
    global: &Global,
    store: &Arc<dyn Store>,
    run: &Arc<str>,
    owner: &str,
    args: &args::Run,
    interrupts: &mut Interrupts,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global)?;
    out::note(&format!("{} runs it already; following", owner_name(owner)));
    match follow_once(store, run, &settings, args.quiet, interrupts).await? {
        Some(end) => end.show(global, store, run, &settings),
        None => {
            out::note("its process has let go of the run");
            Ok(interrupted(global, run, false, &args.permissions.words()))
        }
    }
}
