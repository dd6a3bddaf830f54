//! The NoETL dialect: playbooks, compiled to plans.
//!
//! Three spellings of a step are read into one form: a guard, a loop, labelled tasks with rules, arcs. The spelling
//! is detected from the keys of each step. One pass over the tree builds the plan and records which names the
//! templates use; then the names are checked against all declarations. Compilation continues after a problem.
//!
//! - `playbook`: the file around the steps; `workload`: its inputs; `steps`: one step; `form`: the common form
//! - `eval`, `policy`, `retry`: the rules of the three spellings; `sinks`; `loops`, `arcs`, `failure_arcs`, `writes`,
//!   `amounts`: shared parts
//! - `tasks`: one task; `tools`: its kind and its inputs, one module per kind
//! - `keychain`: secrets by name; `outputs`: selection of results; `key_support`: supported, ineffective and
//!   unsupported keys
//! - `emit`: from the form to nodes; `task_results`: results of tasks by label; `names`: names in templates; `dialect`: registration of the dialect

mod amounts;
mod arcs;
mod codes;
mod compiler;
mod dialect;
mod emit;
mod eval;
mod expr;
mod failure_arcs;
mod form;
mod joins;
mod key_support;
mod keychain;
mod loops;
mod names;
mod outputs;
mod playbook;
mod policy;
mod retry;
mod sinks;
mod steps;
mod task_results;
mod tasks;
mod tools;
mod workload;
mod writes;

pub use dialect::Noetl;
use windlass_core::Limits;
pub use windlass_dialect::{CompiledDefinition, RegisteredNames};
use windlass_dialect::{finish, parse_limits};
use windlass_syntax::{Diagnostics, ScalarRules, SourceText, Span, SyntaxNode, parse_json, parse_yaml};

/// Compile options of a playbook.
#[derive(Clone, Debug, Default)]
pub struct NoetlOptions {
    pub limits: Limits,
    /// The playbook's name if it has none: usually the file's stem.
    pub name: Option<String>,
    /// The tools that tasks may use; `http` is one of them.
    pub tools: Vec<String>,
    /// The known credentials by name; `None` if they were not looked up.
    pub aliases: Option<Vec<String>>,
    /// Functions that `kind: rust` may name, and definitions that need not be found as files.
    pub registered: RegisteredNames,
    /// Names of steps and tasks whose calls are answered by mocks: a playbook that they call need not exist.
    pub mocked_steps: Vec<String>,
}

/// Parses YAML or JSON and compiles it. The error contains every problem of the file, including warnings, in file
/// order.
pub fn compile(source: &SourceText, options: &NoetlOptions) -> Result<CompiledDefinition, Diagnostics> {
    let mut diagnostics = Diagnostics::new();
    match read(source, &options.limits, &mut diagnostics) {
        Some(tree) => compile_tree(source, &tree, diagnostics, options),
        None => Err(diagnostics.sorted()),
    }
}

/// Parses a file of either format into a tree.
pub fn read(source: &SourceText, limits: &Limits, diagnostics: &mut Diagnostics) -> Option<SyntaxNode> {
    let limits = parse_limits(limits);
    match source.text.trim_start().starts_with('{') {
        true => parse_json(source, limits, diagnostics),
        false => parse_yaml(source, limits, ScalarRules::Yaml11, diagnostics),
    }
}

/// Compiles a parsed tree; `found` are the problems of parsing.
pub(crate) fn compile_tree(
    source: &SourceText,
    tree: &SyntaxNode,
    found: Diagnostics,
    options: &NoetlOptions,
) -> Result<CompiledDefinition, Diagnostics> {
    let mut compiler = compiler::NoetlCompiler::new(source, options, found);
    compiler.playbook(tree);
    compiler.check_names();
    let compiler::NoetlCompiler { plan, diagnostics, calls, .. } = compiler;
    finish(plan, diagnostics, calls)
}

/// Returns the playbooks that a file calls, except itself, even if the file has problems.
pub(crate) fn find_calls(source: &SourceText, options: &NoetlOptions) -> Vec<(String, Span)> {
    let mut diagnostics = Diagnostics::new();
    let Some(tree) = read(source, &options.limits, &mut diagnostics).filter(recognise) else { return Vec::new() };
    let mut compiler = compiler::NoetlCompiler::new(source, options, diagnostics);
    compiler.playbook(&tree);
    let own = compiler.plan.name;
    compiler.calls.into_iter().filter(|(name, _)| *name != *own).collect()
}

/// Reports whether a tree looks like a playbook, valid or not.
pub fn recognise(tree: &SyntaxNode) -> bool {
    playbook::recognise(tree)
}

/// Returns the supported tool kinds, in their documented spelling.
pub fn tool_kinds() -> Vec<&'static str> {
    tools::supported_names().collect()
}
