//! The SQLite store keeps every promise.

mod common;

use common::SqliteSubject;
use windlass_store::conformance::run_all;

#[test]
fn sqlite_keeps_every_promise() {
    run_all(|| Box::new(SqliteSubject::new()));
}
