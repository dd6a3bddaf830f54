//! Figures for whoever watches the server.

#[derive(Default)]
pub struct Metrics {}
