//! The interface for compiling registered definitions, implemented by the program around the server.

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_dialect::DialectRegistry;
use windlass_syntax::DiagnosticReport;
use windlass_value::BlobHash;

/// A definition as submitted for registration.
#[derive(Clone, Debug)]
pub struct DefinitionDraft {
    /// The name to register it under, which overrides the name in the text.
    pub name: Option<String>,
    pub dialect: Option<String>,
    pub text: String,
}

/// A compiled definition that can run.
pub struct CompiledDraft {
    /// The plan; the definitions it calls are pinned already.
    pub plan: Plan,
    pub warnings: Vec<DiagnosticReport>,
}

/// Compiles definitions. Called and included definitions come from the catalog, never from a disk.
pub trait DefinitionCompiler: Send + Sync {
    /// Compiles a draft, or returns all of its problems at once.
    fn compile(
        &self,
        draft: &DefinitionDraft,
        catalog: &dyn DefinitionCatalog,
    ) -> Result<CompiledDraft, Vec<DiagnosticReport>>;

    /// Returns the dialects in which definitions may be written and runs may exist. An empty registry allows any name.
    fn dialects(&self) -> &DialectRegistry {
        static NONE: DialectRegistry = DialectRegistry::new();
        &NONE
    }
}

/// The registered definitions as visible to a compiler.
pub trait DefinitionCatalog: Send + Sync {
    fn newest(&self, name: &str) -> Option<RegisteredVersion>;
    /// Returns all names, for hints.
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
