//! Helpers shared by several test files.
#![allow(dead_code, reason = "not every test file needs all of it")]

pub(crate) mod flawed;

use std::sync::Arc;

use windlass_store::conformance::ConformanceSubject;
use windlass_store::{MemoryStore, Store};
use windlass_value::BlobHash;

pub(crate) struct MemorySubject(pub Arc<MemoryStore>);

impl MemorySubject {
    pub(crate) fn new() -> MemorySubject {
        MemorySubject(Arc::new(MemoryStore::new()))
    }
}

impl ConformanceSubject for MemorySubject {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn crash(&mut self) {
        self.0 = Arc::new(self.0.crash());
    }

    fn damage_journal(&mut self, run: &str, tick: u64) {
        assert!(self.0.damage_journal(run, tick), "there is a row to damage");
    }

    fn damage_blob(&mut self, hash: &BlobHash) {
        assert!(self.0.damage_blob(hash), "there is a blob to damage");
    }

    fn damage_run(&mut self, run: &str) {
        assert!(self.0.damage_run(run), "there is a run to damage");
    }

    fn damage_record(&mut self, kind: &str, key: &str) {
        assert!(self.0.damage_record(kind, key), "there is a record to damage");
    }

    fn syncs(&self) -> Option<u64> {
        Some(self.0.syncs())
    }
}
