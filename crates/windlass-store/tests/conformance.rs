//! The memory store keeps every promise.

mod common;

use common::MemorySubject;
use windlass_store::conformance::run_all;

#[test]
fn memory_keeps_every_promise() {
    run_all(|| Box::new(MemorySubject::new()));
}
