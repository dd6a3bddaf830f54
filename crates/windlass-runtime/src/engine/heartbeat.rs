//! Heartbeats of this engine: the proof that its process was up, for the timeouts of its runs. They are written while a
//! run with a timeout is open, also while it is evicted.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tracing::warn;
use windlass_store::Owner;

use crate::clock::real_now;

/// The time between two heartbeats: half of the time that a kill may leave uncounted, for a busy machine.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(250);

/// The owner of this engine, with its heartbeats.
pub(crate) struct EngineOwner {
    owner: Arc<Owner>,
    timed_runs: Arc<TimedRuns>,
}

/// The open runs with a timeout.
#[derive(Default)]
struct TimedRuns(Mutex<HeartbeatState>);

#[derive(Default)]
struct HeartbeatState {
    runs: HashSet<Arc<str>>,
    has_thread: bool,
}

impl TimedRuns {
    fn lock(&self) -> MutexGuard<'_, HeartbeatState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the thread if there is no run. A run that is added later starts another one.
    fn ends_thread(&self) -> bool {
        let mut state = self.lock();
        state.has_thread = !state.runs.is_empty();
        !state.has_thread
    }
}

impl EngineOwner {
    pub(super) fn new(owner: Owner) -> EngineOwner {
        EngineOwner { owner: Arc::new(owner), timed_runs: Arc::default() }
    }

    pub(crate) fn name(&self) -> &String {
        &self.owner.name
    }

    /// Sends heartbeats for a run with a timeout, until it has ended or the engine is gone. They have their own thread: a
    /// step that blocks the runtime's threads does not stop them.
    pub(super) fn add_timed_run(&self, run: &Arc<str>) {
        let mut state = self.timed_runs.lock();
        state.runs.insert(run.clone());
        if std::mem::replace(&mut state.has_thread, true) {
            return;
        }
        drop(state);
        beat(&self.owner);
        let (owner, runs) = (Arc::downgrade(&self.owner), self.timed_runs.clone());
        let thread = std::thread::Builder::new().name("windlass-heartbeat".to_owned());
        if let Err(error) = thread.spawn(move || keep(&owner, &runs)) {
            self.timed_runs.lock().has_thread = false;
            warn!(%error, "no heartbeats: after a kill, run timeouts do not count the time since the last tick");
        }
    }

    /// Sends no more heartbeats for a run, which has ended or is elsewhere.
    pub(super) fn remove_timed_run(&self, run: &str) {
        self.timed_runs.lock().runs.remove(run);
    }

    pub(super) fn sends_heartbeats(&self) -> bool {
        self.timed_runs.lock().has_thread
    }
}

fn keep(owner: &Weak<Owner>, runs: &TimedRuns) {
    loop {
        std::thread::sleep(HEARTBEAT_INTERVAL);
        match owner.upgrade() {
            Some(_) if runs.ends_thread() => return,
            Some(owner) => beat(&owner),
            None => return,
        }
    }
}

fn beat(owner: &Owner) {
    if let Err(error) = owner.beat(real_now()) {
        warn!(%error, "a heartbeat was not written");
    }
}
