//! Time has passed. Timers fire at the beginning of every tick, so there is nothing left to do.
//!
//! | run | effect |
//! |---|---|
//! | held | none: timers fire only in a run that has started |
//! | running | no own effect: every due timer has fired |

use crate::reduce::Reducer;

impl Reducer<'_> {
    pub(super) fn timer_due(&mut self) {
        debug_assert!(self.state.next_due().is_none_or(|due| due > self.state.now));
    }
}
