//! Both stores keep every promise.

mod common;

use common::{MemorySubject, SqliteSubject};
use windlass_store::conformance::run_all;

#[test]
fn memory_keeps_every_promise() {
    run_all(|| Box::new(MemorySubject::new()));
}

#[test]
fn sqlite_keeps_every_promise() {
    run_all(|| Box::new(SqliteSubject::new()));
}
