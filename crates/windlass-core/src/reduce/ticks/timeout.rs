//! The run's own timeout may be due.
//!
//! | run | effect |
//! |---|---|
//! | has no timeout | none |
//! | was alive for less than its timeout | the timer is armed anew |
//! | was alive for its timeout | its end is decided as timed out; all that is alive is called off |
//! | its end is decided | none: the first decision counts |

use crate::reduce::Reducer;
use crate::reduce::impossible::Checked;

impl Reducer<'_> {
    pub(super) fn timeout(&mut self) -> Checked {
        self.run_time_over()
    }
}
