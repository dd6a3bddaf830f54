//! The tests of this crate in one program, which links once. `cargo test -p windlass-runtime --test suite NAME::` runs one file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod concurrent_starts;
mod portable_snapshots;
mod children;
mod control_loop;
mod crash_every_commit;
mod definitions;
mod engine;
mod events;
mod forms;
mod held_runs;
mod leases;
mod loom_actions;
mod loom_loops;
mod steering;
mod iteration_records;
mod recovery;
mod references;
mod seed_as_written;
mod support;
mod triggers;
mod continued_operations;
mod in_memory;
mod waiting;
