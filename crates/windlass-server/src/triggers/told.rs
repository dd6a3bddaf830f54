//! What triggers do, for whoever keeps a log: names, counts and reasons, never what was delivered.

use windlass_value::Timestamp;

/// One thing that a trigger has done.
#[derive(Clone, Debug)]
pub struct Told {
    pub definition: String,
    pub trigger: String,
    /// As the definition calls it: `request`, `recurrence`, `schedule`.
    pub kind: String,
    pub what: What,
    /// The time at which it was due, if it fires by itself.
    pub due: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub enum What {
    /// Runs were made; so many of them wait for their turn.
    Fired {
        runs: Vec<String>,
        waiting: usize,
    },
    /// The same delivery was made before.
    Repeated {
        run: String,
    },
    Skipped {
        why: String,
    },
    /// Times that were missed and are not made up for.
    Missed {
        times: usize,
    },
    Failed {
        why: String,
    },
}

impl What {
    pub fn word(&self) -> &'static str {
        match self {
            What::Fired { .. } => "fired",
            What::Repeated { .. } => "repeated",
            What::Skipped { .. } => "skipped",
            What::Missed { .. } => "missed",
            What::Failed { .. } => "failed",
        }
    }
}
