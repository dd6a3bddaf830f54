//! What is shown of runs, whoever shows it: objects of the contract, read from the store without owning the run.
//!
//! - `image` where a run stands · `tree` its live part · `events` what it tells · `turns` the history of its loops, page by
//!   page · `facts` what its end does not tell of its loops · `places` from a path to its place in the definition.

mod events;
mod facts;
mod image;
mod places;
mod tree;
mod iterations;

use events::hint_of_run;
pub use events::{StoredEvent, StoredEvents, event_value, last_before, newest_event};
pub use facts::{LoopFact, LoopFacts, loop_facts, defined_max_iterations, started_max_iterations};
pub use image::{Seen, duration_of, error_of, live_owner, now_of, report_of, status_of};
pub use places::span_of;
pub use tree::{path_of_frame, pause_tree, running_iterations, tree_value};
pub use iterations::{Cell, LoopSeen, IterationPage, loops_of, strip, iteration_value, iterations_page};

use windlass_core::{ErrorInfo, SignalDelivery, START_EVENT};

/// What became of a signal, as far as it can be told when it was left for the run: the sentence where nobody waits for it. `how`
/// is how the run stood before.
pub fn undelivered_signal_note(delivery: SignalDelivery, name: &str, place: Option<&str>) -> Option<(&'static str, String)> {
    match (delivery, place) {
        (SignalDelivery::Delivered, _) => None,
        (SignalDelivery::Buffered, _) => {
            Some(("kept", format!("nothing waits for `{name}` now: it is kept until something does")))
        }
        (SignalDelivery::Dropped, Some(place)) => Some((
            "dropped",
            format!("`{place}` does not wait for `{name}` now, and nobody else hears it: it changes nothing"),
        )),
        (SignalDelivery::Dropped, None) if name == START_EVENT => {
            Some(("dropped", format!("`{name}` is how a run begins, and this one has: it changes nothing")))
        }
        (SignalDelivery::Dropped, None) => Some((
            "dropped",
            format!("nothing waits for `{name}` now, and too many of them are kept already: it changes nothing"),
        )),
    }
}

/// An error with what to type for this run: the engine writes `RUN`.
pub fn error_of_run(error: ErrorInfo, run: &str) -> ErrorInfo {
    let hint = error.hint.as_ref().map(|hint| hint_of_run(hint, run).into());
    ErrorInfo { hint, ..error }
}
