//! The run's own timeout may be due.
//!
//! | run | effect |
//! |---|---|
//! | has no timeout | none |
//! | was alive for less than its timeout | the timer is armed again |
//! | was alive for its timeout | its end is decided as timed out; everything alive is cancelled |
//! | its end is decided | none: the first decision counts |

use crate::reduce::Reducer;
use crate::reduce::fault::FaultResult;

impl Reducer<'_> {
    pub(super) fn timeout(&mut self) -> FaultResult {
        self.run_timeout_due()
    }
}
