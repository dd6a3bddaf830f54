//! Who did what: one line for every changing call.

/// Written before such a call is answered.
#[derive(Default)]
pub struct Audit {}
