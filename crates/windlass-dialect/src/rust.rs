//! Workflows in Rust: the program that has their steps creates their plans, never a source.

use windlass_core::plan::Plan;
use windlass_syntax::{Diagnostic, Diagnostics, Span};
use windlass_value::Value;

use crate::{
    CompileContext, CompileProblems, CompiledDefinition, Detection, Dialect, InputWarning, ParsedSource,
    UNKNOWN_DIALECT,
};

/// The dialect of workflows in Rust.
#[derive(Clone, Copy, Debug, Default)]
pub struct RustDialect;

impl RustDialect {
    /// The name that their plans carry.
    pub const NAME: &'static str = "rust";
}

impl Dialect for RustDialect {
    fn name(&self) -> &'static str {
        RustDialect::NAME
    }

    fn describe(&self) -> &'static str {
        "a program that embeds the crate `windlass`"
    }

    fn detect(&self, _: &ParsedSource<'_>) -> Detection {
        Detection::No
    }

    fn compile(&self, _: &ParsedSource<'_>, _: &CompileContext) -> Result<CompiledDefinition, CompileProblems> {
        let mut found = Diagnostics::new();
        let problem = Diagnostic::error(UNKNOWN_DIALECT, Span::at(0), "a workflow in Rust has no definition file");
        found.push(problem.with_hint("start the program that has its steps"));
        Err(found.into())
    }

    /// The type of the start event checks the input.
    fn check_input(&self, _: &Plan, _: &Value) -> Vec<InputWarning> {
        Vec::new()
    }

    fn has_sources(&self) -> bool {
        false
    }

    fn sample(&self) -> &'static str {
        ""
    }
}
