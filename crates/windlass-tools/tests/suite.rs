//! All tests of this crate in one program, which links once. `cargo test -p windlass-tools --test suite NAME::` runs
//! one file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod destinations;
mod endpoint;
mod http_call;
mod leaks;
mod limits;
mod mock;
mod model;
mod outbound;
mod pages;
mod polling;
mod postgres;
mod python;
mod shell;
mod sqlite;
mod support;
mod truncation;
