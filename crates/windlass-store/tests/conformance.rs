//! The memory store passes the conformance suite.

mod common;

use common::MemorySubject;
use windlass_store::conformance::run_all;

#[test]
fn memory_store_passes_the_conformance_suite() {
    run_all(|| Box::new(MemorySubject::new()));
}
