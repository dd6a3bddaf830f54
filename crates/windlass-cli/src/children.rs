//! Child runs that have answered their caller and go on without it.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::plan::{NodeKind, Plan};
use windlass_runtime::{Engine, RuntimeError};
use windlass_store::{RunFilter, Store};

use crate::args::Global;
use crate::failure::Failure;
use crate::host::Interrupts;
use crate::{out, stores};

/// The process would take them with it: it stays until they have ended, or until somebody is in a hurry.
pub async fn outlast(
    global: &Global,
    engine: &Engine,
    store: &dyn Store,
    (run, plan): (&Arc<str>, &Plan),
    interrupts: &mut Interrupts,
) -> Result<(), Failure> {
    if !plan.nodes.iter().any(|node| matches!(node.kind, NodeKind::Call(_))) {
        return Ok(());
    }
    let mut family = BTreeSet::from([run.clone()]);
    loop {
        let mut open = None;
        stores::each_run(store, &RunFilter { unfinished: true, ..RunFilter::default() }, |row| {
            let ours = row.parent.as_ref().is_some_and(|parent| family.contains(parent));
            if ours && !family.contains(&row.run) {
                open = Some(row.run);
            }
            open.is_none()
        })?;
        let Some(child) = open else { return Ok(()) };
        family.insert(child.clone());
        let mut handle = match engine.resume(&child).await {
            // Somebody else looks after it.
            Err(RuntimeError::Owned { .. }) => continue,
            other => other?,
        };
        out::note(&format!("waiting for the child run {child}, which has answered and goes on"));
        tokio::select! {
            ended = handle.wait() => {
                ended?;
            }
            () = interrupts.next() => {
                let command = stores::command(global, &format!("resume {child}"));
                out::note(&format!("interrupted; the child run is kept. Go on with it:\n  {command}"));
                engine.close().await;
                return Ok(());
            }
        }
    }
}
