//! The NoETL dialect: playbooks, compiled to plans.
//!
//! Three ways of writing a step are read into one form: a guard, a loop, labelled tasks with rules, arcs. The form is found
//! from the keys of each step. One pass over the tree builds the plan and notes which names the templates use; then the
//! names are checked against all that is declared. Nothing stops at the first problem.
//!
//! - `playbook` the file around the steps, `workload` its inputs · `steps` one step and its way of writing · `form` what all of them become
//! - `eval`, `policy`, `retry` the rules of the three ways · `sinks` · `loops`, `arcs`, `writes`, `amounts` what they share
//! - `tasks` one task · `tools` its kind and its inputs, one file per family
//! - `keychain` secrets by name · `outputs` what of a result is seen later · `fates` keys that work, do nothing or are refused
//! - `emit` from the form to nodes · `names` what templates refer to · `dialect` how the program knows NoETL

mod amounts;
mod arcs;
mod codes;
mod compiler;
mod dialect;
mod emit;
mod eval;
mod expr;
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
mod tasks;
mod tools;
mod workload;
mod writes;

pub use dialect::Noetl;
use windlass_core::Limits;
pub use windlass_dialect::{CompiledDefinition, RegisteredNames};
use windlass_dialect::{finish, parse_limits};
use windlass_syntax::{Diagnostics, ScalarRules, SourceText, Span, SyntaxNode, parse_json, parse_yaml};

/// What a playbook is compiled against.
#[derive(Clone, Debug, Default)]
pub struct NoetlOptions {
    pub limits: Limits,
    /// The playbook's name if it gives none: usually the file's stem.
    pub name: Option<String>,
    /// The tools that tasks may use; `http` is one of them.
    pub tools: Vec<String>,
    /// The credentials that are known, by name. None: nobody has looked.
    pub aliases: Option<Vec<String>>,
    /// What `kind: rust` may name, and definitions that need not be found.
    pub registered: RegisteredNames,
}

/// Reads YAML or JSON and compiles it. The error holds every problem of the file, warnings included, in the file's order.
pub fn compile(source: &SourceText, options: &NoetlOptions) -> Result<CompiledDefinition, Diagnostics> {
    let mut diagnostics = Diagnostics::new();
    match read(source, &options.limits, &mut diagnostics) {
        Some(tree) => compile_tree(source, &tree, diagnostics, options),
        None => Err(diagnostics.sorted()),
    }
}

/// The tree of a file, whatever it is written in.
pub fn read(source: &SourceText, limits: &Limits, diagnostics: &mut Diagnostics) -> Option<SyntaxNode> {
    let limits = parse_limits(limits);
    match source.text.trim_start().starts_with('{') {
        true => parse_json(source, limits, diagnostics),
        false => parse_yaml(source, limits, ScalarRules::Yaml11, diagnostics),
    }
}

/// Compiles a tree that was read already; `found` are the problems of the reading.
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

/// The playbooks that a file calls, itself left out, whatever else is wrong with it.
pub(crate) fn find_calls(source: &SourceText, options: &NoetlOptions) -> Vec<(String, Span)> {
    let mut diagnostics = Diagnostics::new();
    let Some(tree) = read(source, &options.limits, &mut diagnostics).filter(recognise) else { return Vec::new() };
    let mut compiler = compiler::NoetlCompiler::new(source, options, diagnostics);
    compiler.playbook(&tree);
    let own = compiler.plan.name;
    compiler.calls.into_iter().filter(|(name, _)| *name != *own).collect()
}

/// Whether a tree looks like a playbook, right or wrong.
pub fn recognise(tree: &SyntaxNode) -> bool {
    playbook::recognise(tree)
}

/// The tool kinds that compile, as the documentation writes them.
pub fn tool_kinds() -> Vec<&'static str> {
    tools::supported_names().collect()
}
