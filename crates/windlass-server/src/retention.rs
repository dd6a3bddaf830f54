//! Automatic retention: a task that removes ended runs beside the other work, in short steps.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tracing::{info, warn};
use windlass_runtime::{CleanupReport, RetentionPass, RetentionPolicy, real_now};

use crate::App;

/// Time between the end of a pass and the next one.
const PASS_INTERVAL: Duration = Duration::from_secs(60);

/// Pause between two steps, so that a pass takes a small part of the processor and of the disk.
const STEP_PAUSE: Duration = Duration::from_millis(20);

/// Makes passes until the server stops.
pub(crate) async fn run(app: App) {
    let Some(policy) = app.options.retention.clone().filter(|policy| !policy.keeps_all()) else { return };
    let mut draining = app.draining();
    loop {
        let wait = async {
            if let Some(report) = pass(&app, policy.clone()).await
                && report.runs > 0
            {
                let CleanupReport { runs, blobs, bytes } = report;
                info!(runs, blobs, bytes, "retention");
            }
            tokio::time::sleep(PASS_INTERVAL).await;
        };
        tokio::select! {
            _ = draining.wait_for(|draining| *draining) => return,
            () = wait => {}
        }
    }
}

/// Makes one pass. An error ends it; the next one tries again.
async fn pass(app: &App, policy: RetentionPolicy) -> Option<CleanupReport> {
    let pass = Arc::new(Mutex::new(RetentionPass::new(policy, real_now())));
    loop {
        let own = pass.clone();
        let step = app.write_store(move |app| Ok(own.blocking_lock().step(&*app.store)?)).await;
        match step {
            Ok(step) => {
                step.removed.iter().for_each(|run| app.views.changes.publish_removal(run, None));
                if step.done {
                    return Some(pass.lock().await.report);
                }
            }
            Err(problem) => {
                warn!(reason = problem.detail, "retention failed");
                return None;
            }
        }
        tokio::time::sleep(STEP_PAUSE).await;
    }
}
