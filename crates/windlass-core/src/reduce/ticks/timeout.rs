//! The run's own timeout may be due.

use crate::reduce::Reducer;
use crate::reduce::impossible::Checked;

impl Reducer<'_> {
    pub(super) fn timeout(&mut self) -> Checked {
        self.run_time_over()
    }
}
