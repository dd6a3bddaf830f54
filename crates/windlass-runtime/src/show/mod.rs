//! What is shown of runs, whoever shows it: objects of the contract, read from the store without owning the run.
//!
//! - `image` where a run stands · `tree` its live part · `events` what it tells · `turns` the history of its loops, page by
//!   page · `facts` what its end does not tell of its loops · `places` from a path to its place in the definition.

mod events;
mod facts;
mod image;
mod places;
mod tree;
mod turns;

pub use events::{Piece, StoredEvents, event_of_run, event_value, hint_of_run, last_before, newest_event};
pub use facts::{LoopFact, LoopFacts, loop_facts, turns_most, turns_of};
pub use image::{Seen, duration_of, error_of, live_owner, now_of, report_of, status_of};
pub use places::span_of;
pub use tree::{path_of_frame, pause_tree, running_turns, tree_value};
pub use turns::{Cell, LoopSeen, TurnPage, loops_of, strip, turn_value, turns_page};

use windlass_core::ErrorInfo;

/// An error with what to type for this run: the engine writes `RUN`.
pub fn error_of_run(error: ErrorInfo, run: &str) -> ErrorInfo {
    let hint = error.hint.as_ref().map(|hint| hint_of_run(hint, run).into());
    ErrorInfo { hint, ..error }
}
