//! Workflows of agents: from a file to a plan.
//!
//! A file is read into a tree, the tree into a [`document::Document`] with everything checked, the document into a plan.
//! Nothing stops at the first problem. Files that a workflow includes or refers to are read through [`Files`].
//!
//! - `document` what a workflow is · `options` what it is compiled against · `files` what is read beside it
//! - `plan` from the document to the plan

pub mod document;
mod files;
mod options;
mod plan;

use windlass_core::Limits;
use windlass_core::plan::Plan;
use windlass_syntax::{Diagnostics, Node, ParseLimits, Scalars, Source, Span, parse_json, parse_yaml};

pub use document::CoordinatorMode;
use document::Document;
pub use files::{Disk, FileProblem, Files, NoFiles};
pub use options::{Options, Price};

/// A workflow that can run.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub plan: Plan,
    /// Nothing that stops it from running.
    pub warnings: Diagnostics,
    /// Warnings of the files that it includes.
    pub others: Vec<(Source, Diagnostics)>,
    /// Definitions that it calls: none, since what it includes is part of the plan.
    pub calls: Vec<(String, Span)>,
}

/// A workflow that was read and checked.
#[derive(Clone, Debug)]
pub struct Checked {
    pub document: Document,
    pub warnings: Diagnostics,
    /// Warnings of the files that it includes.
    pub others: Vec<(Source, Diagnostics)>,
}

/// Every problem of a workflow, warnings included, in the order of the files.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// Of the file itself.
    pub own: Diagnostics,
    /// Of the files that it includes.
    pub others: Vec<(Source, Diagnostics)>,
}

/// Reads YAML or JSON and compiles it.
pub fn compile(source: &Source, options: &Options) -> Result<Compiled, Problems> {
    let mut found = Diagnostics::new();
    match read(source, &options.limits, &mut found) {
        Some(tree) => compile_tree(source, &tree, found, options),
        None => Err(Problems { own: found.sorted(), others: Vec::new() }),
    }
}

/// The tree of a file, whatever it is written in.
pub fn read(source: &Source, limits: &Limits, diagnostics: &mut Diagnostics) -> Option<Node> {
    let limits = ParseLimits { bytes: limits.definition_bytes_max, depth: limits.definition_depth_max };
    match source.text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        true => parse_json(source, limits, diagnostics),
        false => parse_yaml(source, limits, Scalars::Core, diagnostics),
    }
}

/// Compiles a tree that was read already; `found` are the problems of the reading.
pub fn compile_tree(source: &Source, tree: &Node, found: Diagnostics, options: &Options) -> Result<Compiled, Problems> {
    let Checked { document, warnings, others } = check(source, tree, found, options)?;
    let mut diagnostics = warnings;
    let plan = plan::compile(&document, options, &mut diagnostics);
    let diagnostics = diagnostics.sorted();
    match diagnostics.has_errors() {
        true => Err(Problems { own: diagnostics, others }),
        false => Ok(Compiled { plan, warnings: diagnostics, others, calls: Vec::new() }),
    }
}

/// Checks a tree that was read already; `found` are the problems of the reading.
pub fn check(_source: &Source, _tree: &Node, found: Diagnostics, _options: &Options) -> Result<Checked, Problems> {
    Err(Problems { own: found.sorted(), others: Vec::new() })
}

/// Whether a tree looks like a workflow of agents, right or wrong.
pub fn recognise(_tree: &Node) -> bool {
    false
}

/// The JSON Schema of its files.
pub fn schema() -> &'static str {
    "{}"
}
