//! Heartbeats of this engine: the proof that its process was up, for the timeouts of its runs. They are written from
//! the first run with a timeout on, also while such a run is evicted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tracing::warn;
use windlass_store::Owner;

use crate::clock::real_now;

/// The time between two heartbeats: half of the time that a kill may leave uncounted, for a busy machine.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(250);

/// The owner of this engine, with its heartbeats.
pub(crate) struct EngineOwner {
    owner: Arc<Owner>,
    beats: AtomicBool,
}

impl EngineOwner {
    pub(super) fn new(owner: Owner) -> EngineOwner {
        EngineOwner { owner: Arc::new(owner), beats: AtomicBool::new(false) }
    }

    pub(crate) fn name(&self) -> &String {
        &self.owner.name
    }

    /// Sends heartbeats from now on, until the engine is gone. They have their own thread: a step that blocks the
    /// runtime's threads does not stop them.
    pub(super) fn start_heartbeat(&self) {
        if self.beats.swap(true, Ordering::Relaxed) {
            return;
        }
        beat(&self.owner);
        let owner = Arc::downgrade(&self.owner);
        let spawned = std::thread::Builder::new().name("windlass-heartbeat".to_owned()).spawn(move || keep(&owner));
        if let Err(error) = spawned {
            warn!(%error, "no heartbeats: after a kill, run timeouts do not count the time since the last tick");
        }
    }
}

fn keep(owner: &Weak<Owner>) {
    loop {
        std::thread::sleep(HEARTBEAT_INTERVAL);
        match owner.upgrade() {
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
