//! The tests of this crate in one program, linked once.
//! `cargo test -p windlass-core --test suite NAME::` runs one file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod admission;
mod against_naive;
mod approval_forms;
mod breaks;
mod budget;
mod effects;
mod encoding;
mod entered_nodes;
mod event_round_trip;
mod forks;
mod impossible;
mod invariants;
mod judges;
mod lease;
mod limits_page;
mod loops;
mod mail;
mod mail_waits;
mod meetings;
mod net;
mod nodes;
mod records;
mod rules;
mod scopes;
mod slots;
mod start;
mod steps;
mod support;
mod suspension;
mod waits;
