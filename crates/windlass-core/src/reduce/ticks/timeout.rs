//! The run's own timeout may be due.

use crate::reduce::Reducer;

impl Reducer<'_> {
    pub(super) fn timeout(&mut self) {
        self.run_time_over();
    }
}
