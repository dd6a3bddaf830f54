//! Child runs that are still open when their parent has ended: those that have answered and continue on their own,
//! and those that the parent has cancelled and that have not ended yet.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::plan::{NodeKind, Plan};
use windlass_core::{Limits, Program};
use windlass_runtime::{RuntimeEngine, RuntimeError, open_descendants};
use windlass_store::{RunRow, Store};

use crate::args::GlobalArgs;
use crate::failure::CliFailure;
use crate::host::Interrupts;
use crate::{image, out, stores};

/// Keeps the process alive until the open children have ended or the user interrupts: they run in this process.
pub(crate) async fn wait_for_open_children(
    global: &GlobalArgs,
    engine: &RuntimeEngine,
    store: &dyn Store,
    (run, program): (&Arc<str>, &Program),
    interrupts: &mut Interrupts,
) -> Result<(), CliFailure> {
    if !calls_workflows(&program.plan) {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    loop {
        let below = unawaited_children(store, run)?;
        let new: Vec<RunRow> = below.into_iter().filter(|row| seen.insert(row.run.clone())).collect();
        if new.is_empty() {
            return Ok(());
        }
        for child in new {
            if !wait_for_child(global, engine, store, (&child, &program.limits), interrupts).await? {
                return Ok(());
            }
        }
    }
}

/// Returns whether the run has open children to wait for.
pub(crate) fn has_open_children(store: &dyn Store, run: &str, plan: &Plan) -> Result<bool, CliFailure> {
    Ok(calls_workflows(plan) && !open_descendants(store, run)?.is_empty())
}

fn calls_workflows(plan: &Plan) -> bool {
    plan.nodes.iter().any(|node| matches!(node.kind, NodeKind::Call(_)))
}

/// Returns the open descendants of a run whose parent is not open itself: an open parent waits for its own children.
fn unawaited_children(store: &dyn Store, run: &str) -> Result<Vec<RunRow>, CliFailure> {
    let open = open_descendants(store, run)?;
    let ids: BTreeSet<Arc<str>> = open.iter().map(|row| row.run.clone()).collect();
    let waited_for = |row: &RunRow| row.parent.as_ref().is_some_and(|parent| ids.contains(parent));
    Ok(open.into_iter().filter(|row| !waited_for(row)).collect())
}

/// Waits for one child. Returns false if the user interrupts.
async fn wait_for_child(
    global: &GlobalArgs,
    engine: &RuntimeEngine,
    store: &dyn Store,
    (child, limits): (&RunRow, &Limits),
    interrupts: &mut Interrupts,
) -> Result<bool, CliFailure> {
    let run = &child.run;
    let answered = image::load(store, run, limits)?.image.state.reply.is_some();
    let mut handle = match engine.resume(run).await {
        // Another process runs the child.
        Err(RuntimeError::Owned { .. }) => return Ok(true),
        other => other?,
    };
    if store.run(run)?.is_some_and(|row| !row.status.is_final()) {
        let why = if answered { "which has answered and is still running" } else { "which is being cancelled" };
        out::note(&format!("waiting for the child run {run}, {why}"));
    }
    tokio::select! {
        ended = handle.wait() => {
            ended?;
            Ok(true)
        }
        () = interrupts.next() => {
            let command = stores::command(global, &format!("resume {run}"));
            out::note(&format!("interrupted; the child run is stored. Resume it:\n  {command}"));
            engine.close().await;
            Ok(false)
        }
    }
}
