//! Workflows in Rust: their plans are made by the program that has their steps, never from a source.

use windlass_core::plan::Plan;
use windlass_syntax::{Diagnostic, Diagnostics, Span};
use windlass_value::Value;

use crate::{Compiled, Context, Detection, Dialect, InputWarning, Problems, Reading, UNKNOWN_DIALECT};

/// The dialect of workflows in Rust.
#[derive(Clone, Copy, Debug, Default)]
pub struct RustCode;

impl RustCode {
    /// The name that their plans carry.
    pub const NAME: &'static str = "rust";
}

impl Dialect for RustCode {
    fn name(&self) -> &'static str {
        RustCode::NAME
    }

    fn describe(&self) -> &'static str {
        "a program that embeds the crate `windlass`"
    }

    fn detect(&self, _: &Reading<'_>) -> Detection {
        Detection::No
    }

    fn compile(&self, _: &Reading<'_>, _: &Context) -> Result<Compiled, Problems> {
        let mut found = Diagnostics::new();
        let problem = Diagnostic::error(UNKNOWN_DIALECT, Span::at(0), "a workflow in Rust has no definition file");
        found.push(problem.hint("start the program that has its steps"));
        Err(found.into())
    }

    /// A start event is checked by its type.
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
