//! The last tick yielded; the agenda is processed further.
//!
//! | run | effect |
//! |---|---|
//! | held, running | no own effect: every tick processes the agenda |

use crate::reduce::Reducer;

impl Reducer<'_> {
    pub(super) fn proceed(&mut self) {}
}
