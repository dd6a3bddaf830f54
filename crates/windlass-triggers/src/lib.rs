//! What starts runs by itself, as definitions write it.
//!
//! - `schedule` when a trigger fires: a recurrence or a cron expression, and a time, give the next time
//! - `extension` triggers of dialects that have none of their own: `schedule` and `webhook` under `x-windlass`

mod extension;
pub mod schedule;

pub use extension::{TriggerExtension, TriggerProblemCodes};
pub use schedule::Schedule;
