//! The only module that uses the expression language.

use std::sync::Arc;

pub(crate) use windlass_expr::cel::CelReference;
use windlass_expr::cel::{self, CelLanguage, CelReferences};
use windlass_value::{CompileError, ExpressionMode, Language, Value};

/// Returns the compile errors of an expression.
pub(crate) fn errors(source: &Value, mode: ExpressionMode) -> Vec<CompileError> {
    CelLanguage.compile(source, mode).err().unwrap_or_default()
}

/// Returns the steps, and the parts of other names, that an expression refers to, in its order, including unknown
/// ones. Where several names match, the longest is meant, since a hyphen may be part of one.
pub(crate) fn referenced_names(text: &str, known: &[&str]) -> CelReferences {
    let known: Vec<Arc<str>> = known.iter().map(|id| Arc::from(*id)).collect();
    cel::references(text, &known)
}
