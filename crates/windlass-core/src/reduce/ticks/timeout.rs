//! The run's own timeout may be due.
//!
//! | run | effect |
//! |---|---|
//! | has no timeout | none |
//! | was alive for less than its timeout | the timer is armed anew |
//! | was alive for its timeout | its end is decided as timed out; all that is alive is called off |
//! | its end is decided | none: the first decision counts |

use crate::reduce::Reducer;
use crate::reduce::fault::FaultResult;

impl Reducer<'_> {
    pub(super) fn timeout(&mut self) -> FaultResult {
        self.run_timeout_due()
    }
}
