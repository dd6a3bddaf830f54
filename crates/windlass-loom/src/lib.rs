//! The Loom dialect: definitions of Azure Logic Apps and of Loom, compiled to plans.
//!
//! One pass over the tree builds the plan and notes what every expression refers to; then the references are checked
//! against everything that was declared. Nothing stops at the first problem, and nothing panics on what a user wrote.
//!
//! - `definition` the file's layouts and outputs · `parameters`, `triggers`, `statics` the rest of a file · `actions` one
//!   action · `graph` runAfter · one file per family of actions: `loops`, `foreach`, `branches`, `blocks`, `data`, `http`,
//!   `activities`, `calls`, `replies`, `variables`, `timing`, `retry` · `connectors` what is not
//!   supported · `bounds` what any loop may have besides · `checks`,
//!   `order`, `records`, `unread`, `warnings` what can only be said at the end · `dialect` how the program knows Loom.

mod actions;
mod activities;
mod approvals;
mod blocks;
mod bounds;
mod branches;
mod calls;
mod checks;
mod codes;
mod compiler;
mod connectors;
mod data;
mod definition;
mod dialect;
mod expr;
mod fields;
mod foreach;
mod graph;
mod http;
mod loops;
mod order;
mod parameters;
mod records;
mod replies;
mod retry;
mod scopes;
mod secure;
mod statics;
mod timing;
mod triggers;
mod types;
mod unused_outputs;
mod variables;
mod warnings;

use std::collections::BTreeMap;

pub use dialect::Loom;
use windlass_core::Limits;
pub use windlass_dialect::{CompiledDefinition, RegisteredNames};
use windlass_dialect::{finish, parse_limits};
use windlass_syntax::{Diagnostics, SourceText, SyntaxNode, parse_json};
use windlass_value::Value;

/// What a definition is compiled against.
#[derive(Clone, Debug, Default)]
pub struct LoomOptions {
    pub limits: Limits,
    /// The workflow's name if the definition gives none: usually the file's stem.
    pub name: Option<String>,
    /// The tools that effects may use; `http` is one of them.
    pub tools: Vec<String>,
    /// What `activity` and `actor` actions may name, also in computed names.
    pub activities: Vec<LoomActivity>,
    /// What else an `activity` may name, and definitions that need not be found.
    pub registered: RegisteredNames,
    /// What `appsetting('x')` gives in the defaults of parameters.
    pub settings: BTreeMap<String, String>,
    /// Values from beside the file for parameters that it gives none itself.
    pub parameters: BTreeMap<String, Value>,
}

/// Something that a definition may ask for by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoomActivity {
    pub name: String,
    pub target: ActivityTarget,
}

/// Who does the work of an activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActivityTarget {
    /// The tool of the activity's name.
    Tool,
    /// A child run of the definition of this name.
    Workflow(String),
}

/// Reads JSON and compiles it. The error holds every problem of the file, warnings included, in the file's order.
pub fn compile(source: &SourceText, options: &LoomOptions) -> Result<CompiledDefinition, Diagnostics> {
    let mut diagnostics = Diagnostics::new();
    match parse_json(source, parse_limits(&options.limits), &mut diagnostics) {
        Some(tree) => compile_tree(source, &tree, diagnostics, options),
        None => Err(diagnostics.sorted()),
    }
}

/// Compiles a tree that was read already, whatever its format; `found` are the problems of the reading.
pub fn compile_tree(
    source: &SourceText,
    tree: &SyntaxNode,
    found: Diagnostics,
    options: &LoomOptions,
) -> Result<CompiledDefinition, Diagnostics> {
    let mut compiler = compiler::LoomCompiler::new(source, options, found);
    compiler.workflow(tree);
    compiler.check_references();
    compiler.warn();
    let compiler::LoomCompiler { plan, diagnostics, calls, .. } = compiler;
    finish(plan, diagnostics, calls)
}

/// Whether a tree looks like a definition of this dialect, right or wrong.
pub fn recognise(tree: &SyntaxNode) -> bool {
    definition::recognise(tree)
}
