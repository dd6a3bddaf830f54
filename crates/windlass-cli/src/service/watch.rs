//! Workers that come and go, as lines of the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use windlass_server::workers::{Dispatcher, WorkerState};
use windlass_value::Value;

use super::Log;

/// Nobody needs to know it sooner.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub async fn workers(dispatcher: Weak<Dispatcher>, log: Log) {
    let mut known: BTreeMap<Arc<str>, (String, bool)> = BTreeMap::new();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(there) = dispatcher.upgrade().map(|dispatcher| dispatcher.list().items) else { return };
        let now: BTreeMap<Arc<str>, (String, bool)> =
            there.into_iter().map(|one| (one.worker, (one.name, one.state != WorkerState::Lost))).collect();
        let say = |event: &str, worker: &Arc<str>, name: &str| {
            log.say(event, &[("worker", Value::from(worker.clone())), ("name", Value::from(name))]);
        };
        for (worker, (name, alive)) in &now {
            let before = known.get(worker).is_some_and(|(_, alive)| *alive);
            match (before, alive) {
                (false, true) => say("worker came", worker, name),
                (true, false) => say("worker lost", worker, name),
                _ => {}
            }
        }
        for (worker, (name, alive)) in known.iter().filter(|(worker, _)| !now.contains_key(*worker)) {
            if *alive {
                say("worker left", worker, name);
            }
        }
        known = now;
    }
}
