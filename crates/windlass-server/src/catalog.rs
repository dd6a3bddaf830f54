//! Registered definitions and their versions.

/// What is registered, in the store and at hand.
#[derive(Default)]
pub struct Definitions {}
