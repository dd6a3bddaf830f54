//! The tests of this crate in one program, linked once.
//! `cargo test -p windlass-server --test suite NAME::` runs one file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod approvals;
mod client_disconnects;
mod common;
mod control;
mod damage;
mod definition_tokens;
mod definitions;
mod docs;
mod events;
mod limits_page;
mod loops;
mod openapi;
mod queues;
mod removal;
mod runs;
mod secured;
mod store_locked;
mod traces;
mod trigger_timing;
mod triggers;
