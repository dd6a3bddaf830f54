//! The SQLite store passes the conformance suite.

mod common;

use common::SqliteSubject;
use windlass_store::conformance::run_all;

#[test]
fn sqlite_store_passes_the_conformance_suite() {
    run_all(|| Box::new(SqliteSubject::new()));
}
