//! The tests of this crate in one program, which links once. `cargo test -p windlass-server --test suite NAME::` runs one file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod approvals;
mod common;
mod control;
mod definitions;
mod docs;
mod events;
mod held_up;
mod hung_up;
mod limits_page;
mod loops;
mod openapi;
mod queues;
mod removal;
mod runs;
mod secured;
mod traces;
mod triggers;
mod triggers_in_time;
