//! All tests of this crate in one program, which links once. `cargo test -p windlass-noetl --test suite NAME::` runs
//! one file.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod advice;
mod cases;
mod documented;
mod meaning;
mod playbook_parts;
mod registered;
mod retry_form;
mod runs;
mod selected;
mod support;
mod tokens;
mod world;
