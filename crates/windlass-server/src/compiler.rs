//! What the server needs of whoever knows dialects.

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_syntax::Report;
use windlass_value::{BlobHash, Value};

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

    /// The dialects there are. None are told: any name may be one.
    fn dialects(&self) -> Vec<&str> {
        Vec::new()
    }

    /// What is given to a start and never read, each with a hint: most likely a slip.
    fn slips(&self, _plan: &Plan, _input: &Value) -> Vec<(String, String)> {
        Vec::new()
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
