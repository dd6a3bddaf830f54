//! The tests of this crate in one program, which links once. `cargo test -p windlass-agents --test suite NAME::` runs one file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod calls;
mod chat;
mod chat_hostile;
mod chat_reasoning;
mod chat_reply_limit;
mod chat_requests;
mod chat_stops;
mod common;
mod files;
mod language;
mod limits;
mod support;
