//! Jobs for workers on other machines.

/// Where jobs wait for a worker, and who has which.
#[derive(Default)]
pub struct Dispatcher {}
