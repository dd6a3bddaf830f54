//! The tests of this crate in one program, which links once. `cargo test -p windlass-cli --test suite NAME::` runs
//! one file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod approvals;
mod backup;
mod calls;
mod check;
mod clean;
mod client;
mod config;
mod credentials;
mod damage;
mod dev;
mod documents;
mod error_examples;
mod explain;
mod file_limit;
mod first_steps;
mod formats;
mod full_disk;
mod golden_store;
mod graph;
mod hints;
mod history;
mod interrupted;
mod judges;
mod lost_store;
mod mocks;
mod models;
mod output;
mod packaging;
mod pages;
mod playbooks;
mod projects;
mod read_only;
mod register;
mod restart_and_retry;
mod retention;
mod run;
mod seed_examples;
mod steer;
mod support;
mod tls;
mod token;
mod triggers;
mod version;
mod worker;
mod worker_secrets;
