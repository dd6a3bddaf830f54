//! All tests of this crate in one program, which links once. `cargo test -p windlass --test suite NAME::` runs one
//! file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod agents;
mod basics;
mod checks;
mod context;
mod control_loop;
mod decorators;
mod engine;
mod error_examples;
mod formats;
mod matrix;
mod mixing;
mod named;
mod regressions;
mod restarts;
mod steering;
mod support;
mod waits;
