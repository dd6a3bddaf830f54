//! Pauses the run between tasks: jobs in flight may end, nothing new begins. A run that is paused before it has
//! started is held: it starts when it is resumed.
//!
//! | run | effect |
//! |---|---|
//! | created | paused: its start, which comes next, is held |
//! | running | paused; resting workers are returned |
//! | paused, held, or its end is decided | none |

use crate::EventKind;
use crate::reduce::Reducer;
use crate::reduce::fault::FaultResult;
use crate::state::Phase;

impl Reducer<'_> {
    pub(super) fn pause(&mut self) -> FaultResult {
        if !self.state.paused && self.state.decided_end.is_none() {
            self.state.paused = true;
            if self.state.phase == Phase::Created {
                // The start comes next and publishes that it is held.
                return Ok(());
            }
            self.return_resting_leases()?;
            self.publish("".into(), EventKind::WorkflowPaused {});
        }
        Ok(())
    }
}
