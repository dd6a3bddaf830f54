//! The trait that every dialect implements, the registry of dialects, and what their compilers share.
//!
//! A dialect is a compiler: a source in, a plan or diagnostics out, and the little that differs afterwards: which inputs a
//! definition reads and how people read its result. The program, the server and the crate `windlass` know dialects only
//! through a [`Registry`], so a new dialect is a crate that implements [`Dialect`] and one line that registers it.
//!
//! - `registry` dialects by name, detection of a source's dialect · `reading` a source, parsed once for all of them
//! - `context` what a definition is compiled against: limits, names, options · `files` the files beside it
//! - `compiler` what compilers share: diagnostics, limits, expressions of a plan
//! - `inputs` inputs that a definition does not read · `report` the result of a run as people read it
//! - `rust` the dialect of workflows in Rust, which have no source
//!
//! What is absent here: any concrete syntax, stores, workers, the terminal.

mod compiler;
mod context;
mod files;
mod inputs;
mod parsed_source;
mod registered_names;
mod registry;
mod report;
mod rust;

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_syntax::{Diagnostics, SourceText, Span};
use windlass_value::{Language, Value};

pub use compiler::{DiagnosticSink, add_expression, finish, parse_limits, source_span};
pub use context::{CompileContext, DialectOptions};
pub use files::{DiskFiles, FileReadProblem, FileReader, NoFiles};
pub use inputs::{InputWarning, unused_inputs, written_expressions};
pub use parsed_source::{ParsedSource, ParsedTree};
pub use registered_names::RegisteredNames;
pub use registry::{DialectRegistry, UNKNOWN_DIALECT};
pub use report::{ReportDetail, ReportEntry, ReportSection, output_sections};
pub use rust::RustDialect;

/// One language that definitions are written in.
pub trait Dialect: Send + Sync {
    /// The name that plans, rows and `--dialect` carry.
    fn name(&self) -> &'static str;

    /// One phrase that says how a source looks, for the error when no dialect matches: "YAML with a `name` and `steps`".
    fn describe(&self) -> &'static str;

    /// Tells whether a source is written in this dialect, right or wrong.
    fn detect(&self, reading: &ParsedSource<'_>) -> Detection;

    /// Compiles a source. The error holds every problem, warnings included.
    fn compile(
        &self,
        reading: &ParsedSource<'_>,
        context: &CompileContext,
    ) -> Result<CompiledDefinition, CompileProblems>;

    /// The definitions that a source with problems calls, as far as it can be read: one that is missing is one problem
    /// more.
    fn calls(&self, _reading: &ParsedSource<'_>, _context: &CompileContext) -> Vec<(String, Span)> {
        Vec::new()
    }

    /// The expression languages of its plans.
    fn languages(&self) -> Vec<Arc<dyn Language>> {
        Vec::new()
    }

    /// Finds inputs that the definition does not read, most likely slips. By default a definition reads what it declares,
    /// and anything if it declares nothing.
    fn check_input(&self, plan: &Plan, input: &Value) -> Vec<InputWarning> {
        match plan.parameters.is_empty() {
            true => Vec::new(),
            false => unused_inputs(plan, input, |_| false),
        }
    }

    /// The output of a finished run as people read it.
    fn report(&self, plan: &Plan, output: &Value) -> Vec<ReportSection> {
        output_sections(plan, output)
    }

    /// Whether steps may be agents. Then the events of a finished run are searched for refused tool calls, missing
    /// verdicts and coordinators that failed.
    fn has_agents(&self) -> bool {
        false
    }

    /// Whether definitions read others of this dialect as files while they are compiled, to become a part of them.
    fn includes_files(&self) -> bool {
        false
    }

    /// Whether definitions are sources. Otherwise they are code inside a program, and only that program can run them.
    fn has_sources(&self) -> bool {
        true
    }

    /// A small definition that compiles with default settings.
    fn sample(&self) -> &'static str;

    /// The JSON Schema of its sources, for editors.
    fn schema(&self) -> Option<&'static str> {
        None
    }
}

/// The verdict of a dialect on a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detection {
    /// Another language.
    No,
    /// It cannot be read, yet it looks like a broken definition of this dialect.
    Broken,
    /// A definition of this dialect, right or wrong.
    Yes,
}

/// A definition that can run.
#[derive(Clone, Debug)]
pub struct CompiledDefinition {
    pub plan: Plan,
    /// Nothing that stops it from running.
    pub warnings: Diagnostics,
    /// Definitions that it calls by a literal name, and where it does: to be found, compiled and pinned. Those that are
    /// [registered](Context::registered) are not among them.
    pub calls: Vec<(String, Span)>,
    /// Files that are part of it, with warnings of their own.
    pub included_files: Vec<(SourceText, Diagnostics)>,
}

/// Every problem of a definition, warnings included, in the order of the files.
#[derive(Clone, Debug, Default)]
pub struct CompileProblems {
    /// Of the source itself.
    pub own: Diagnostics,
    /// Of the files that would be part of it.
    pub included_files: Vec<(SourceText, Diagnostics)>,
}

impl From<Diagnostics> for CompileProblems {
    fn from(own: Diagnostics) -> CompileProblems {
        CompileProblems { own, included_files: Vec::new() }
    }
}
