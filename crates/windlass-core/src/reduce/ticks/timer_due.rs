//! Time has passed. Timers fire at the beginning of every tick, so there is nothing left to do.

use crate::reduce::Reducer;

impl Reducer<'_> {
    pub(super) fn timer_due(&mut self) {
        debug_assert!(self.state.next_due().is_none_or(|due| due > self.state.now));
    }
}
