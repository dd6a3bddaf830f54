//! All tests of this crate in one program, which links once. `cargo test -p windlass-expr --test suite NAME::` runs
//! one file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod caps;
mod cel;
mod cel_hostile;
mod common;
mod data;
mod jinja;
mod sql;
mod wdl;
mod xml;
