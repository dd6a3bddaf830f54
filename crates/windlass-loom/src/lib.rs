//! The Loom dialect: definitions of Azure Logic Apps and of Loom, compiled to plans.
//!
//! One pass over the tree builds the plan and notes what every expression refers to; then the references are checked
//! against everything that was declared. Nothing stops at the first problem, and nothing panics on what a user wrote.
//!
//! - `definition` the file's layouts, parameters, outputs · `actions` one action · `graph` runAfter · one file per family
//!   of actions: `loops`, `foreach`, `branches`, `blocks`, `data`, `variables`, `timing`, `retry` · `checks`,
//!   `order`, `warnings` what can only be said at the end.

mod actions;
mod blocks;
mod branches;
mod checks;
mod codes;
mod compiler;
mod data;
mod definition;
mod expr;
mod fields;
mod foreach;
mod graph;
mod loops;
mod order;
mod retry;
mod scopes;
mod timing;
mod types;
mod variables;
mod warnings;

use windlass_core::Limits;
use windlass_core::plan::Plan;
use windlass_syntax::{Diagnostics, Node, ParseLimits, Source, parse_json};

/// What a definition is compiled against.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub limits: Limits,
    /// The workflow's name if the definition gives none: usually the file's stem.
    pub name: Option<String>,
    /// The tools that effects may use; `http` is one of them.
    pub tools: Vec<String>,
}

/// A definition that can run.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub plan: Plan,
    /// Nothing that stops it from running.
    pub warnings: Diagnostics,
}

/// Reads JSON and compiles it. The error holds every problem of the file, warnings included, in the file's order.
pub fn compile(source: &Source, options: &Options) -> Result<Compiled, Diagnostics> {
    let mut diagnostics = Diagnostics::new();
    let limits = &options.limits;
    let parse_limits = ParseLimits { bytes: limits.definition_bytes_max, depth: limits.definition_depth_max };
    match parse_json(source, parse_limits, &mut diagnostics) {
        Some(tree) => compile_tree(source, &tree, diagnostics, options),
        None => Err(diagnostics.sorted()),
    }
}

/// Compiles a tree that was read already, whatever its format; `found` are the problems of the reading.
pub fn compile_tree(
    source: &Source,
    tree: &Node,
    found: Diagnostics,
    options: &Options,
) -> Result<Compiled, Diagnostics> {
    let mut compiler = compiler::Compiler::new(source, options, found);
    compiler.workflow(tree);
    compiler.check_references();
    compiler.warn();
    let (plan, diagnostics) = compiler.finish();
    let diagnostics = diagnostics.sorted();
    match diagnostics.has_errors() {
        true => Err(diagnostics),
        false => Ok(Compiled { plan, warnings: diagnostics }),
    }
}

/// Whether a tree looks like a definition of this dialect, right or wrong.
pub fn recognise(tree: &Node) -> bool {
    definition::recognise(tree)
}

/// The action types that compile, as the documentation writes them.
pub fn action_types() -> Vec<&'static str> {
    types::supported_names().collect()
}
