//! The last tick yielded; the agenda goes on.

use crate::reduce::Reducer;

impl Reducer<'_> {
    pub(super) fn proceed(&mut self) {}
}
