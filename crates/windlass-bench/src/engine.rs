//! Engines for the benchmarks.

use std::path::Path;
use std::sync::Arc;

use windlass_expr::wdl;
use windlass_runtime::{EngineOptions, RuntimeEngine};
use windlass_store::Store;
use windlass_store_sqlite::{SqliteOptions, SqliteStore, SyncMode};
use windlass_tools::{HttpOptions, Outbound, standard_tools};

use crate::definitions;

pub(crate) fn options() -> EngineOptions {
    EngineOptions {
        tools: standard_tools(HttpOptions { outbound: Outbound::open(), ..HttpOptions::default() }),
        languages: wdl::languages(),
        limits: definitions::limits(),
        ..EngineOptions::default()
    }
}

pub(crate) fn sqlite(folder: &Path, durability: SyncMode) -> Arc<dyn Store> {
    let options = SqliteOptions { durability, ..SqliteOptions::default() };
    Arc::new(SqliteStore::open(&folder.join("store"), options).expect("the store opens"))
}

pub(crate) fn engine(store: Arc<dyn Store>, options: EngineOptions) -> RuntimeEngine {
    RuntimeEngine::new(store, options).expect("the engine starts")
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime starts")
}
