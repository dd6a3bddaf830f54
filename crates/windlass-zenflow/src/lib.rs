//! Workflows of agents: from a file to a plan.
//!
//! A file is read into a tree, the tree into a [`document::Document`] with everything checked, the document into a plan.
//! Nothing stops at the first problem. Files that a workflow includes or refers to are read through [`Files`].
//!
//! - `document` what a workflow is · `options` what it is compiled against · `paths` what is read beside it
//! - `recognise` whether a tree is a workflow · `read` from the tree to the document · `check` what it says about itself ·
//!   `include` the files that belong to it · `schemas`, `expr` the only places that know JSON Schema and CEL
//! - `plan` from the document to the plan · `dialect` how the program knows these workflows

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
use windlass_dialect::parse_limits;
pub use windlass_dialect::{CompileProblems, CompiledDefinition, DiskFiles, FileReadProblem, FileReader, NoFiles};
use windlass_syntax::{Diagnostics, Severity, SourceText, SyntaxNode, YamlRules, parse_json, parse_yaml};

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
    /// Warnings of the files that it includes.
    pub others: Vec<(SourceText, Diagnostics)>,
}

/// Reads YAML or JSON and compiles it.
pub fn compile(source: &SourceText, options: &ZenflowOptions) -> Result<CompiledDefinition, CompileProblems> {
    let mut found = Diagnostics::new();
    match read(source, &options.limits, &mut found) {
        Some(tree) => compile_tree(source, &tree, found, options),
        None => Err(CompileProblems { own: normalize_codes(found), included_files: Vec::new() }),
    }
}

/// The tree of a file, whatever it is written in.
pub fn read(source: &SourceText, limits: &Limits, diagnostics: &mut Diagnostics) -> Option<SyntaxNode> {
    let limits = parse_limits(limits);
    let mut found = Diagnostics::new();
    let tree = match is_json(source) {
        true => parse_json(source, limits, &mut found),
        false => parse_yaml(source, limits, YamlRules::GO, &mut found),
    };
    diagnostics.extend(normalize_codes(found));
    tree
}

/// Whether a text can be read as a workflow and looks like one: its YAML knows more than that of other formats.
pub fn looks_like_workflow(source: &SourceText, limits: &Limits) -> bool {
    read(source, limits, &mut Diagnostics::new()).is_some_and(|tree| recognise(&tree))
}

/// By the file's name; a text without one is JSON if it begins as only JSON does.
fn is_json(source: &SourceText) -> bool {
    let ends = |ending: &str| source.name.to_ascii_lowercase().ends_with(ending);
    let text = source.text.trim_start_matches('\u{feff}').trim_start();
    let quoted = || text.strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with('"'));
    ends(".json") || (!ends(".yaml") && !ends(".yml") && quoted())
}

/// Compiles a tree that was read already; `found` are the problems of the reading.
pub(crate) fn compile_tree(
    source: &SourceText,
    tree: &SyntaxNode,
    found: Diagnostics,
    options: &ZenflowOptions,
) -> Result<CompiledDefinition, CompileProblems> {
    let CheckedWorkflow { document, warnings, others } = check(source, tree, found, options)?;
    let mut diagnostics = warnings;
    let (plan, calls) = plan::compile(&document, options, &mut diagnostics);
    let diagnostics = diagnostics.sorted();
    match diagnostics.has_errors() {
        true => Err(CompileProblems { own: diagnostics, included_files: others }),
        false => Ok(CompiledDefinition { plan, warnings: diagnostics, included_files: others, calls }),
    }
}

/// Checks a tree that was read already; `found` are the problems of the reading.
pub fn check(
    source: &SourceText,
    tree: &SyntaxNode,
    found: Diagnostics,
    options: &ZenflowOptions,
) -> Result<CheckedWorkflow, CompileProblems> {
    let mut loader = include::Loader::new(options);
    let (document, found) = loader.root(source, tree, found);
    let (own, mut others) = (normalize_codes(found), loader.others);
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

/// In the order of the file, with the codes of this format: what the reading of the text calls by another one has none
/// of its own.
fn normalize_codes(found: Diagnostics) -> Diagnostics {
    let mut all = Diagnostics::new();
    for mut problem in found {
        if problem.code.starts_with("WND-") {
            problem.code = match problem.severity {
                Severity::Error => codes::VALIDATION,
                Severity::Warning => codes::NO_EFFECT,
            };
        }
        all.push(problem);
    }
    all.sorted()
}
