//! Compiles registered definitions: what the server needs of the program around it.

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_dialect::DialectRegistry;
use windlass_syntax::DiagnosticReport;
use windlass_value::BlobHash;

/// A definition as somebody hands it in.
#[derive(Clone, Debug)]
pub struct DefinitionDraft {
    /// The name to register it under, whatever the text calls itself.
    pub name: Option<String>,
    pub dialect: Option<String>,
    pub text: String,
}

/// A definition that can run.
pub struct CompiledDraft {
    /// What it calls is pinned already.
    pub plan: Plan,
    pub warnings: Vec<DiagnosticReport>,
}

/// Compiles definitions. What they call or include comes from the catalog, never from a disk.
pub trait DefinitionCompiler: Send + Sync {
    /// Every problem at once, if there is one.
    fn compile(
        &self,
        draft: &DefinitionDraft,
        catalog: &dyn DefinitionCatalog,
    ) -> Result<CompiledDraft, Vec<DiagnosticReport>>;

    /// The dialects that definitions may be written in, and runs may have. None: any name may be one.
    fn dialects(&self) -> &DialectRegistry {
        static NONE: DialectRegistry = DialectRegistry::new();
        &NONE
    }
}

/// What is registered, as far as a compiler may look.
pub trait DefinitionCatalog: Send + Sync {
    fn newest(&self, name: &str) -> Option<RegisteredVersion>;
    /// For hints.
    fn names(&self) -> Vec<String>;
}

/// One version of a definition.
#[derive(Clone, Debug)]
pub struct RegisteredVersion {
    pub name: Arc<str>,
    pub version: u64,
    pub dialect: Arc<str>,
    pub plan: BlobHash,
    pub source: Arc<str>,
}
