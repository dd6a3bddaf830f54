//! The last tick yielded; the agenda goes on.
//!
//! | run | effect |
//! |---|---|
//! | held, running | none of its own: every tick works the agenda off |

use crate::reduce::Reducer;

impl Reducer<'_> {
    pub(super) fn proceed(&mut self) {}
}
