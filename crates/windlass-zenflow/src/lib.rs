//! The zenflow dialect, workflows of agents: compiles a file to a plan.
//!
//! A file is parsed to a tree, the tree is read and checked to a [`document::WorkflowDocument`], and the document is
//! compiled to a plan. No stage stops at the first problem. Included and referenced files are read through
//! [`FileReader`].
//!
//! - `document`: the parsed workflow · `options`: the compile options · `paths`: files next to the workflow
//! - `recognise`: detects workflows · `read`: from the tree to the document · `check`: internal consistency ·
//!   `include`: included files · `schemas`, `expr`: the only modules that use JSON Schema and CEL
//! - `plan`: from the document to the plan · `dialect`: the registration as a dialect

mod check;
mod codes;
mod dialect;
pub mod document;
mod expr;
mod include;
mod options;
mod paths;
mod plan;
mod read;
mod recognise;
mod schemas;

use windlass_core::Limits;
pub use windlass_dialect::{CompileProblems, CompiledDefinition, DiskFiles, FileReadProblem, FileReader, NoFiles};
use windlass_dialect::{finish, parse_limits};
use windlass_syntax::{Diagnostics, SourceText, SyntaxNode, YamlRules, parse_json, parse_yaml};

pub use dialect::Zenflow;
pub use document::CoordinatorMode;
use document::WorkflowDocument;
pub use options::{ContextFiles, ModelPrice, ModelProblem, Models, ZenflowOptions};
pub use recognise::recognise;

/// A workflow that was read and checked.
#[derive(Clone, Debug)]
pub struct CheckedWorkflow {
    pub document: WorkflowDocument,
    pub warnings: Diagnostics,
    /// Warnings of the included files.
    pub others: Vec<(SourceText, Diagnostics)>,
}

/// Parses YAML or JSON and compiles it.
pub fn compile(source: &SourceText, options: &ZenflowOptions) -> Result<CompiledDefinition, CompileProblems> {
    let mut found = Diagnostics::new();
    match read(source, &options.limits, &mut found) {
        Some(tree) => compile_tree(source, &tree, found, options),
        None => Err(CompileProblems { own: with_conformance_names(found), included_files: Vec::new() }),
    }
}

/// Parses a file, YAML or JSON, to a tree.
pub fn read(source: &SourceText, limits: &Limits, diagnostics: &mut Diagnostics) -> Option<SyntaxNode> {
    let limits = parse_limits(limits);
    let mut found = Diagnostics::new();
    let tree = match is_json(source) {
        true => parse_json(source, limits, &mut found),
        false => parse_yaml(source, limits, YamlRules::GO, &mut found),
    };
    diagnostics.extend(with_conformance_names(found));
    tree
}

/// Returns whether a text can be read as a workflow and looks like one. Its YAML accepts more than other dialects'.
pub fn looks_like_workflow(source: &SourceText, limits: &Limits) -> bool {
    read(source, limits, &mut Diagnostics::new()).is_some_and(|tree| recognise(&tree))
}

/// Decides by the file name. A text without one is JSON if it begins as only JSON does.
fn is_json(source: &SourceText) -> bool {
    let ends = |ending: &str| source.name.to_ascii_lowercase().ends_with(ending);
    let text = source.text.trim_start_matches('\u{feff}').trim_start();
    let quoted = || text.strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with('"'));
    ends(".json") || (!ends(".yaml") && !ends(".yml") && quoted())
}

/// Compiles a parsed tree; `found` are the problems of parsing.
pub(crate) fn compile_tree(
    source: &SourceText,
    tree: &SyntaxNode,
    found: Diagnostics,
    options: &ZenflowOptions,
) -> Result<CompiledDefinition, CompileProblems> {
    let CheckedWorkflow { document, warnings, others } = check(source, tree, found, options)?;
    let mut diagnostics = warnings;
    let (plan, calls) = plan::compile(&document, options, &mut diagnostics);
    match finish(plan, diagnostics, calls) {
        Err(own) => Err(CompileProblems { own, included_files: others }),
        Ok(compiled) => Ok(CompiledDefinition { included_files: others, ..compiled }),
    }
}

/// Checks a parsed tree; `found` are the problems of parsing.
pub fn check(
    source: &SourceText,
    tree: &SyntaxNode,
    found: Diagnostics,
    options: &ZenflowOptions,
) -> Result<CheckedWorkflow, CompileProblems> {
    let mut loader = include::Loader::new(options);
    let (document, found) = loader.root(source, tree, found);
    let (own, mut others) = (with_conformance_names(found), loader.others);
    others.retain(|(_, found)| !found.is_empty());
    match document {
        Some(document) if !own.has_errors() => Ok(CheckedWorkflow { document, warnings: own, others }),
        _ => Err(CompileProblems { own, included_files: others }),
    }
}

/// The JSON Schema of workflows.
pub fn schema() -> &'static str {
    include_str!("schema.json")
}

/// Sorts the problems in file order and adds the names that the format's own test cases use.
fn with_conformance_names(found: Diagnostics) -> Diagnostics {
    let mut all = Diagnostics::new();
    for mut problem in found {
        problem.name = Some(codes::conformance_name(problem.code, problem.severity));
        all.push(problem);
    }
    all.sorted()
}
