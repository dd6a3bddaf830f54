//! Read-only views of runs: objects of the public contract, read from the store without owning the run.
//!
//! - `image` a run as the store has it
//! - `listed_status` the status under which users see it
//! - `tree` its live part
//! - `events` its events
//! - `inherited_events` those of the runs that it continues
//! - `iterations` the paged history of its loops
//! - `facts` loop details that the final report lacks
//! - `source_location` maps a path to its location in the definition

mod events;
mod facts;
mod image;
mod inherited_events;
mod iterations;
mod listed_status;
mod source_location;
mod tree;

pub use events::fill_run_id;
pub use events::{StoredEvent, StoredEvents, event_value, last_before, newest_event};
pub use facts::{LoopDetails, LoopDetailsByStep, defined_max_iterations, loop_details, started_max_iterations};
pub use image::{StoredRun, final_report, live_owner, run_duration, run_error, run_time_now, status_name};
pub use inherited_events::InheritedEvents;
pub use iterations::{
    HistoryCell, IterationPage, LoopHistory, history_strip, iteration_value, iterations_page, loop_histories,
};
pub use listed_status::{ListedCount, ListedStatus, OwnerProbe, count_by_status, filter_by_status, listed_status};
pub use source_location::source_span;
pub use tree::{NextDue, due_kind, frame_path, mark_stopped, running_iterations, tree_value};

use std::sync::Arc;

use windlass_core::{ErrorInfo, START_EVENT, SignalDelivery};

/// Returns a note for a signal that no node waits for, as far as that is known when the signal is stored. `delivery`
/// reflects the run's state before the signal, and `waits` are the names of the signals that it waits for.
pub fn undelivered_signal_note<'a>(
    delivery: SignalDelivery,
    name: &str,
    step: Option<&str>,
    waits: impl IntoIterator<Item = &'a Arc<str>>,
) -> Option<(&'static str, String)> {
    let others: Vec<String> =
        waits.into_iter().filter(|other| ***other != *name).map(|one| format!("`{one}`")).collect();
    let others = if others.is_empty() { String::new() } else { format!("; it waits for {}", others.join(", ")) };
    match (delivery, step) {
        (SignalDelivery::Delivered, _) => None,
        (SignalDelivery::Buffered, _) => {
            Some(("buffered", format!("no node waits for `{name}` yet; the signal is buffered{others}")))
        }
        (SignalDelivery::Dropped, Some(step)) => {
            Some(("dropped", format!("`{step}` does not wait for `{name}`; the signal was dropped{others}")))
        }
        (SignalDelivery::Dropped, None) if name == START_EVENT => {
            let note = format!("`{name}` starts a run, and this run has already started; the signal was dropped");
            Some(("dropped", note))
        }
        (SignalDelivery::Dropped, None) => {
            Some(("dropped", format!("no node waits for `{name}` and its buffer is full; the signal was dropped")))
        }
    }
}

/// Returns the error with this run's id in its hint, in place of the placeholder `RUN`.
pub fn with_run_hint(error: ErrorInfo, run: &str) -> ErrorInfo {
    let hint = error.hint.as_ref().map(|hint| fill_run_id(hint, run).into());
    ErrorInfo { hint, ..error }
}
