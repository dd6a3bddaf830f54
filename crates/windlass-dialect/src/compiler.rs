//! Code shared by the compilers of dialects.

use windlass_core::Limits;
use windlass_core::plan::{ExprId, ExpressionSource, Plan, SourceSpan};
use windlass_syntax::{Diagnostic, Diagnostics, ParseLimits, Span};
use windlass_value::{ExpressionMode, Value};

use crate::CompiledDefinition;
use crate::self_calls::self_call_warning;

/// A compiler that collects diagnostics and continues.
pub trait DiagnosticSink {
    /// Returns the diagnostics of the file that is being compiled.
    fn diagnostics(&mut self) -> &mut Diagnostics;

    /// Adds a diagnostic.
    fn push(&mut self, diagnostic: Diagnostic) {
        self.diagnostics().push(diagnostic);
    }

    /// Adds an error with a hint.
    fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        self.push(Diagnostic::error(code, span, message).with_hint(hint));
    }

    /// Adds a warning with a hint.
    fn warning(&mut self, code: &'static str, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        self.push(Diagnostic::warning(code, span, message).with_hint(hint));
    }
}

/// Returns the limits on the size and depth of a definition.
pub fn parse_limits(limits: &Limits) -> ParseLimits {
    ParseLimits { bytes: limits.max_definition_bytes, depth: limits.max_definition_depth }
}

/// Converts a span into the form that plans hold.
pub fn source_span(span: Span) -> SourceSpan {
    SourceSpan { start: span.start as u32, end: span.end as u32 }
}

/// Adds an expression to a plan.
pub fn add_expression(plan: &mut Plan, language: &str, source: Value, mode: ExpressionMode, span: Span) -> ExprId {
    plan.add_expression(ExpressionSource { language: language.into(), source, mode, span: source_span(span) })
}

/// Finishes a compilation: a definition without errors can run. Diagnostics are sorted into the order of the file.
pub fn finish(
    plan: Plan,
    mut found: Diagnostics,
    calls: Vec<(String, Span)>,
) -> Result<CompiledDefinition, Diagnostics> {
    if !found.has_errors()
        && let Some(warning) = self_call_warning(&plan)
    {
        found.push(warning);
    }
    let found = found.sorted();
    match found.has_errors() {
        true => Err(found),
        false => Ok(CompiledDefinition { plan, warnings: found, calls, included_files: Vec::new() }),
    }
}
