//! Compiles registered definitions: what the server needs of the program around it.

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_dialect::Registry;
use windlass_syntax::Report;
use windlass_value::BlobHash;

/// A definition as somebody hands it in.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The name to register it under, whatever the text calls itself.
    pub name: Option<String>,
    pub dialect: Option<String>,
    pub text: String,
}

/// A definition that can run.
pub struct Compiled {
    /// What it calls is pinned already.
    pub plan: Plan,
    pub warnings: Vec<Report>,
}

/// Compiles definitions. What they call or include comes from the catalog, never from a disk.
pub trait Compiler: Send + Sync {
    /// Every problem at once, if there is one.
    fn compile(&self, draft: &Draft, catalog: &dyn Catalog) -> Result<Compiled, Vec<Report>>;

    /// The dialects that definitions may be written in, and runs may have. None: any name may be one.
    fn dialects(&self) -> &Registry {
        static NONE: Registry = Registry::new();
        &NONE
    }
}

/// What is registered, as far as a compiler may look.
pub trait Catalog: Send + Sync {
    fn newest(&self, name: &str) -> Option<Registered>;
    /// For hints.
    fn names(&self) -> Vec<String>;
}

/// One version of a definition.
#[derive(Clone, Debug)]
pub struct Registered {
    pub name: Arc<str>,
    pub version: u64,
    pub dialect: Arc<str>,
    pub plan: BlobHash,
    pub source: Arc<str>,
}
