//! Log entries of triggers: names, counts and reasons, never delivered data.

use tracing::field::display;
use tracing::{info, warn};
use windlass_value::Timestamp;

/// One action of a trigger.
#[derive(Clone, Debug)]
pub(crate) struct TriggerLogEntry {
    pub definition: String,
    pub trigger: String,
    /// The kind as named in the definition: `request`, `recurrence`, `schedule`.
    pub kind: String,
    pub outcome: TriggerLogOutcome,
    /// The due time, if the trigger fires by the clock.
    pub due: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub(crate) enum TriggerLogOutcome {
    /// Runs were created; `waiting` of them wait for admission.
    Fired {
        runs: Vec<String>,
        waiting: usize,
    },
    /// The same delivery was made before.
    Repeated {
        run: String,
    },
    Skipped {
        reason: String,
    },
    /// Missed times that are not caught up.
    Missed {
        times: usize,
    },
    Failed {
        reason: String,
    },
}

impl TriggerLogEntry {
    /// Writes the entry to the log.
    pub(crate) fn log(&self) {
        let TriggerLogEntry { definition, trigger, kind, outcome: what, due } = self;
        let kind = Some(kind.as_str()).filter(|kind| !kind.is_empty());
        let due = due.map(display);
        match what {
            TriggerLogOutcome::Fired { runs, waiting } => {
                let (run, waiting) = (runs.first().map(String::as_str), Some(*waiting).filter(|waiting| *waiting > 0));
                info!(definition, trigger, kind, due, run, runs = runs.len(), waiting, "trigger fired");
            }
            TriggerLogOutcome::Repeated { run } => info!(definition, trigger, kind, due, run, "trigger repeated"),
            TriggerLogOutcome::Skipped { reason } => info!(definition, trigger, kind, due, reason, "trigger skipped"),
            TriggerLogOutcome::Missed { times } => warn!(definition, trigger, kind, due, times, "trigger missed"),
            TriggerLogOutcome::Failed { reason } => warn!(definition, trigger, kind, due, reason, "trigger failed"),
        }
    }
}
