//! Triggers of runs, as definitions declare them.
//!
//! - `schedule` fire times: computes the next time from a recurrence or a cron expression and a time
//! - `extension` triggers for dialects that have none: `schedule` and `webhook` under `x-windlass`

mod extension;
pub mod schedule;

pub use extension::{TriggerExtension, TriggerProblemCodes};
pub use schedule::Schedule;
