//! The tests of this crate in one program, which links once. `cargo test -p windlass-runtime --test suite NAME::`
//! runs one file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod children;
mod clock;
mod concurrent_starts;
mod continued_operations;
mod control_loop;
mod crash_every_commit;
mod damage;
mod definitions;
mod engine;
mod events;
mod forms;
mod held_runs;
mod in_memory;
mod iteration_records;
mod leases;
mod loom_actions;
mod loom_loops;
mod ordering;
mod portable_snapshots;
mod recovery;
mod references;
mod residency;
mod run_timeout;
mod run_trees;
mod seed_as_written;
mod steering;
mod stored_values;
mod support;
mod triggers;
mod waiting;
