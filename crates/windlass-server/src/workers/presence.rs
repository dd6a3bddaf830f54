//! Logs workers that join and leave.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tracing::{info, warn};

use super::{Dispatcher, WorkerState};

/// Interval of the check; faster detection is not needed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Logs workers that join, leave or fall silent, until the dispatcher is dropped. A worker is lost when it has sent
/// nothing for a lease. No call reports this, so the workers are polled.
pub(crate) async fn watch_workers(dispatcher: Weak<Dispatcher>) {
    let mut known: BTreeMap<Arc<str>, (String, bool)> = BTreeMap::new();
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let Some(workers) = dispatcher.upgrade().map(|dispatcher| dispatcher.list().items) else { return };
        let now: BTreeMap<Arc<str>, (String, bool)> =
            workers.into_iter().map(|one| (one.worker, (one.name, one.state != WorkerState::Lost))).collect();
        for (worker, (name, alive)) in &now {
            let before = known.get(worker).is_some_and(|(_, alive)| *alive);
            match (before, alive) {
                (false, true) => info!(worker = &**worker, name, "worker joined"),
                (true, false) => warn!(worker = &**worker, name, "worker lost"),
                _ => {}
            }
        }
        for (worker, (name, alive)) in known.iter().filter(|(worker, _)| !now.contains_key(*worker)) {
            if *alive {
                info!(worker = &**worker, name, "worker left");
            }
        }
        known = now;
    }
}
