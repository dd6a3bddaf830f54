//! The Loom dialect: definitions of Azure Logic Apps and of Loom, compiled to plans.
//!
//! One pass over the tree builds the plan and records what every expression refers to; then the references are
//! checked against all declarations. Compilation continues after a problem and never panics on user input.
//!
//! - `definition`: layouts and outputs of a file
//! - `parameters`, `triggers`, `statics`: the other parts of a file
//! - `actions`: one action; `graph`: runAfter
//! - one module per group of actions: `loops`, `foreach`, `branches`, `blocks`, `data`, `http`, `activities`,
//!   `calls`, `replies`, `variables`, `timing`, `retry`
//! - `connectors`: unsupported services
//! - `bounds`: extensions of loops
//! - `checks`, `order`, `records`, `unused_outputs`, `warnings`: checks after the whole file is read
//! - `dialect`: registration of the dialect

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
mod pages;
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

/// Compile options of a definition.
#[derive(Clone, Debug, Default)]
pub struct LoomOptions {
    pub limits: Limits,
    /// The workflow's name if the definition has none: usually the file's stem.
    pub name: Option<String>,
    /// The tools that effects may use; `http` is one of them.
    pub tools: Vec<String>,
    /// The names that `activity` and `actor` actions may use, also in computed names.
    pub activities: Vec<LoomActivity>,
    /// Functions that an `activity` may also name, and definitions that need not be found as files.
    pub registered: RegisteredNames,
    /// The values of `appsetting('x')` in the defaults of parameters.
    pub settings: BTreeMap<String, String>,
    /// Values from outside of the file for parameters that have none in it.
    pub parameters: BTreeMap<String, Value>,
    /// The names of actions whose calls are answered by mocks: their types need not be supported.
    pub mocked_actions: Vec<String>,
}

/// An activity that a definition may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoomActivity {
    pub name: String,
    pub target: ActivityTarget,
}

/// The executor of an activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActivityTarget {
    /// The tool of the activity's name.
    Tool,
    /// A child run of the definition of this name.
    Workflow(String),
}

/// Parses JSON and compiles it. The error contains every problem of the file, including warnings, in file order.
pub fn compile(source: &SourceText, options: &LoomOptions) -> Result<CompiledDefinition, Diagnostics> {
    let mut diagnostics = Diagnostics::new();
    match parse_json(source, parse_limits(&options.limits), &mut diagnostics) {
        Some(tree) => compile_tree(source, &tree, diagnostics, options),
        None => Err(diagnostics.sorted()),
    }
}

/// Compiles a parsed tree of any format; `found` are the problems of parsing.
pub fn compile_tree(
    source: &SourceText,
    tree: &SyntaxNode,
    found: Diagnostics,
    options: &LoomOptions,
) -> Result<CompiledDefinition, Diagnostics> {
    let mut compiler = compiler::LoomCompiler::new(source, options, found);
    compiler.workflow(tree);
    compiler.check_references();
    compiler.unify_variable_names();
    compiler.warn();
    let compiler::LoomCompiler { plan, diagnostics, calls, .. } = compiler;
    finish(plan, diagnostics, calls)
}

/// Reports whether a tree looks like a definition of this dialect, valid or not.
pub fn recognise(tree: &SyntaxNode) -> bool {
    definition::recognise(tree)
}
