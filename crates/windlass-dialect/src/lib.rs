//! The trait that every dialect implements, the registry of dialects, and code shared by their compilers.
//!
//! A dialect is a compiler: it turns a source into a plan or diagnostics, and defines the few things that differ
//! afterwards: which inputs a definition reads and how its result is presented. The program, the server and the
//! crate `windlass` know dialects only through a [`DialectRegistry`], so a new dialect is a crate that implements
//! [`Dialect`] and one line that registers it.
//!
//! - `registry` dialects by name, detection of a source's dialect · `parsed_source` a source, parsed once for all
//! - `context` the compile context: limits, names, options · `files` the files next to a definition
//! - `compiler` code shared by compilers: diagnostics, limits, expressions of a plan
//! - `self_calls` definitions that call themselves without a condition
//! - `inputs` unused inputs of a definition · `report` the presentation of a run's result
//! - `rust` the dialect of workflows in Rust, which have no source
//!
//! This crate contains no concrete syntax, stores, workers or terminal output.

#![deny(missing_docs)]

mod compiler;
mod context;
mod files;
mod inputs;
mod labels;
mod parsed_source;
mod registered_names;
mod registry;
mod report;
mod rust;
mod self_calls;

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_syntax::{Diagnostics, SourceText, Span};
use windlass_value::{Language, Value};

pub use compiler::{DiagnosticSink, add_expression, finish, parse_limits, source_span};
pub use context::{CompileContext, DialectOptions, is_mocked_step};
pub use files::{DiskFiles, FileReadProblem, FileReader, NoFiles};
pub use inputs::{InputWarning, unused_inputs, written_expressions};
pub use labels::{LabelProblemCodes, label_entries};
pub use parsed_source::{ParsedSource, ParsedTree};
pub use registered_names::RegisteredNames;
pub use registry::{DialectRegistry, UNKNOWN_DIALECT};
pub use report::{ReportDetail, ReportEntry, ReportSection, output_sections};
pub use rust::RustDialect;

/// A language in which definitions are written.
pub trait Dialect: Send + Sync {
    /// The name used in plans, rows and `--dialect`.
    fn name(&self) -> &'static str;

    /// A phrase that describes a source, for the error when no dialect matches: "YAML with a `name` and `steps`".
    fn describe(&self) -> &'static str;

    /// Returns whether a source is written in this dialect, valid or not.
    fn detect(&self, reading: &ParsedSource<'_>) -> Detection;

    /// Compiles a source. The error holds every problem, warnings included.
    fn compile(
        &self,
        reading: &ParsedSource<'_>,
        context: &CompileContext,
    ) -> Result<CompiledDefinition, CompileProblems>;

    /// Returns the definitions that an invalid source calls, as far as it can be parsed, so that a missing one is
    /// reported together with the source's other problems.
    fn calls(&self, _reading: &ParsedSource<'_>, _context: &CompileContext) -> Vec<(String, Span)> {
        Vec::new()
    }

    /// Returns the expression languages of its plans.
    fn languages(&self) -> Vec<Arc<dyn Language>> {
        Vec::new()
    }

    /// Finds unused inputs, which most likely are typos.
    ///
    /// By default a definition reads the inputs it declares, and any input if it declares none.
    fn check_input(&self, plan: &Plan, input: &Value) -> Vec<InputWarning> {
        match plan.parameters.is_empty() {
            true => Vec::new(),
            false => unused_inputs(plan, input, |_| false),
        }
    }

    /// Presents the output of a finished run.
    fn report(&self, plan: &Plan, output: &Value) -> Vec<ReportSection> {
        output_sections(plan, output)
    }

    /// Returns whether steps may be agents. If so, the events of a finished run are searched for denied tool calls,
    /// missing verdicts and failed coordinators.
    fn has_agents(&self) -> bool {
        false
    }

    /// Returns whether definitions include other files of this dialect at compile time.
    fn includes_files(&self) -> bool {
        false
    }

    /// Returns whether definitions are sources. Otherwise they are code inside a program, and only that program can run
    /// them.
    fn has_sources(&self) -> bool {
        true
    }

    /// Returns a small definition that compiles with default settings.
    fn sample(&self) -> &'static str;

    /// Returns the JSON Schema of its sources, for editors.
    fn schema(&self) -> Option<&'static str> {
        None
    }
}

/// The result of detecting a dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detection {
    /// The source is in another language.
    No,
    /// The source cannot be parsed but looks like a broken definition of this dialect.
    Broken,
    /// The source is a definition of this dialect, valid or not.
    Yes,
}

/// A definition that can run.
#[derive(Clone, Debug)]
pub struct CompiledDefinition {
    /// The plan, complete except for the definitions in `calls`.
    pub plan: Plan,
    /// Problems that do not prevent it from running.
    pub warnings: Diagnostics,
    /// Definitions that it calls by a literal name, with the spans of the calls: to be resolved, compiled and pinned.
    /// [Registered](CompileContext::registered) definitions are not included.
    pub calls: Vec<(String, Span)>,
    /// Files that are part of it, with their own warnings.
    pub included_files: Vec<(SourceText, Diagnostics)>,
}

/// Every problem of a definition, warnings included, in the order of the files.
#[derive(Clone, Debug, Default)]
pub struct CompileProblems {
    /// Problems of the source itself.
    pub own: Diagnostics,
    /// Problems of the included files.
    pub included_files: Vec<(SourceText, Diagnostics)>,
}

impl From<Diagnostics> for CompileProblems {
    fn from(own: Diagnostics) -> CompileProblems {
        CompileProblems { own, included_files: Vec::new() }
    }
}
