//! The tests of this crate in one program, which links once. `cargo test -p windlass-zenflow --test suite NAME::` runs one file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod cases;
mod crash_every_commit;
mod events;
mod hostile;
mod included_files;
mod large;
mod limits;
mod runs;
mod support;
mod world;
