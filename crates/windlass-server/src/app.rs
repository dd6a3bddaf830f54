//! What all handlers share.

use std::ops::Deref;
use std::sync::Arc;

use windlass_core::Limits;
use windlass_runtime::Engine;
use windlass_store::Store;

use crate::audit::Audit;
use crate::auth::Keys;
use crate::catalog::Definitions;
use crate::metrics::Metrics;
use crate::workers::Dispatcher;
use crate::{Compiler, ServerOptions};

/// Cheap to clone: every handler has one.
#[derive(Clone)]
pub struct App(Arc<Parts>);

pub struct Parts {
    pub engine: Engine,
    pub store: Arc<dyn Store>,
    pub limits: Limits,
    pub options: ServerOptions,
    pub compiler: Arc<dyn Compiler>,
    pub definitions: Definitions,
    pub keys: Keys,
    pub audit: Audit,
    /// Made before the engine: the engine's remote tools wait in it.
    pub dispatcher: Arc<Dispatcher>,
    pub metrics: Metrics,
}

impl App {
    pub fn new(parts: Parts) -> App {
        App(Arc::new(parts))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
