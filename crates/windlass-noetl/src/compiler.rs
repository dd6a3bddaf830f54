//! The state of the compiler, and the compilation of templates.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::Limits;
use windlass_core::plan::{ExprId, Plan};
use windlass_dialect::{DiagnosticSink, add_expression};
use windlass_syntax::{Diagnostic, Diagnostics, SourceText, Span, SyntaxNode, span_at_pointer, to_value};
use windlass_value::{ExpressionMode, Value};

use crate::failure_arcs::FailureWrites;
use crate::keychain::KeychainEntry;
use crate::names::TemplateNameUse;
use crate::{NoetlOptions, codes, expr};

pub(crate) struct NoetlCompiler<'a> {
    pub options: &'a NoetlOptions,
    pub diagnostics: Diagnostics,
    pub plan: Plan,
    /// Playbooks that are called by a literal name, each once.
    pub calls: Vec<(String, Span)>,
    /// Every step of the file by its name, collected before the first is compiled.
    pub steps: BTreeMap<String, Span>,
    /// The keys of `workload` with their values; `None` if the file declares none.
    pub workload: Option<BTreeMap<String, Value>>,
    /// Names under the root's `vars`: variables of the run, whichever step writes them.
    pub run_vars: BTreeSet<String>,
    /// Tasks of the workbook, in the form of a step's `tool`.
    pub workbook: BTreeMap<String, SyntaxNode>,
    /// Keychain entries by name; `None` for an invalid entry.
    pub keys: BTreeMap<String, Option<KeychainEntry>>,
    /// Names used in templates, checked after the whole file is read.
    pub uses: Vec<TemplateNameUse>,
    pub declared_names: DeclaredNames,
    /// Names that `do: fail` rules of the current step write.
    pub failure_writes: FailureWrites,
    /// Inputs of tools, collected here instead of being added to the plan, if set.
    pub deferred_inputs: Option<Vec<SyntaxNode>>,
    /// Whether the default alias of a database was already checked; it is reported once.
    pub default_alias_checked: bool,
    /// The context of the step that is being compiled.
    pub context: TemplateContext,
}

/// Hints for errors of the engine, in the terms of a playbook.
const HINTS: [(&str, &str); 4] = [
    (
        "NotAnArray",
        "a loop iterates over a list: write `{{ x | default([]) }}` if it may be missing, `{{ [x] }}` for a single value",
    ),
    (
        "LoopCountExceeded",
        "raise `max_iterations` under `loop.spec`, or find out why its condition stays true: `windlass events RUN`",
    ),
    (
        "LoopTimeout",
        "raise `limits.default_loop_time` in windlass.toml, or find out why its condition stays true: `windlass events RUN`",
    ),
    (
        "Hang",
        "`join: all` needs a token of each step with an arc to it: let them all fire (`next_mode: inclusive`), or leave `join` out",
    ),
];

const ON_SUCCESS: &str = "{{ outcome.status == 'success' }}";

/// The context of a template.
#[derive(Clone, Debug, Default)]
pub(crate) struct TemplateContext {
    pub step: Option<Arc<str>>,
    /// The loop's item; an empty name in a loop without items.
    pub iterator: Option<Arc<str>>,
    /// The step has a loop, whichever part of it is being compiled.
    pub looped: bool,
    /// Iterations of the loop run concurrently.
    pub parallel: bool,
    /// Inside an iteration of the step's loop.
    pub in_iteration: bool,
    /// The position, which decides about the available names.
    pub position: TemplatePosition,
    /// Before the first step: a computed default.
    pub at_start: bool,
    /// The nesting depth of workbook tasks, which are compiled where they are used.
    pub inlined: u32,
}

/// Positions with a fixed set of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TemplatePosition {
    #[default]
    Elsewhere,
    /// The condition of a step: no part of it has run.
    Guard,
    /// The inputs of a task: it has no outcome yet.
    Input,
    /// After a step.
    Arc,
}

/// Names that the file writes, by where they can be read.
#[derive(Debug, Default)]
pub(crate) struct DeclaredNames {
    pub ctx: BTreeSet<String>,
    /// By step: labels, `vars`, bare names, and the variables of its iterations.
    pub step: BTreeMap<String, BTreeSet<String>>,
    pub iteration: BTreeMap<String, BTreeSet<String>>,
    /// By step and name: the scope, `iter` or `vars`, under which concurrent iterations write a variable.
    pub iteration_scopes: BTreeMap<(String, String), &'static str>,
    /// By step: the labels of its tasks.
    pub labels: BTreeMap<String, BTreeSet<String>>,
    /// By step: the names that arcs and `input` pass; `None` if some arc computes them.
    pub args: BTreeMap<String, Option<BTreeSet<String>>>,
}

impl DiagnosticSink for NoetlCompiler<'_> {
    fn diagnostics(&mut self) -> &mut Diagnostics {
        &mut self.diagnostics
    }
}

impl<'a> NoetlCompiler<'a> {
    pub(crate) fn new(
        source: &'a SourceText,
        options: &'a NoetlOptions,
        diagnostics: Diagnostics,
    ) -> NoetlCompiler<'a> {
        let mut plan = Plan::new("playbook", "noetl", source.text.clone());
        plan.hints = HINTS.map(|(code, hint)| (code.into(), hint.into())).to_vec();
        NoetlCompiler {
            options,
            diagnostics,
            plan,
            calls: Vec::new(),
            steps: BTreeMap::new(),
            workload: None,
            run_vars: BTreeSet::new(),
            workbook: BTreeMap::new(),
            keys: BTreeMap::new(),
            uses: Vec::new(),
            declared_names: DeclaredNames::default(),
            failure_writes: FailureWrites::default(),
            deferred_inputs: None,
            default_alias_checked: false,
            context: TemplateContext::default(),
        }
    }

    pub(crate) fn limits(&self) -> &'a Limits {
        &self.options.limits
    }

    /// Warns about a setting that is accepted and has no effect here.
    pub(crate) fn no_effect(&mut self, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        self.warning(codes::NO_EFFECT, span, message, hint);
    }

    /// Adds a template, reports its problems and records the names it uses.
    pub(crate) fn expression(&mut self, node: &SyntaxNode, mode: ExpressionMode) -> ExprId {
        let source = self.check_template(node, mode);
        self.add_expression(source, mode, node.span)
    }

    pub(crate) fn value(&mut self, node: &SyntaxNode) -> ExprId {
        self.expression(node, ExpressionMode::Value)
    }

    /// Adds the inputs of a tool to the plan, or defers them so that the caller can change them first.
    pub(crate) fn input(&mut self, node: &SyntaxNode) -> ExprId {
        if let Some(deferred) = &mut self.deferred_inputs {
            deferred.push(node.clone());
            return ExprId(0);
        }
        let node = self.seal_secrets(node);
        self.value(&node)
    }

    /// Reports the problems and records the names of a template without adding it.
    pub(crate) fn check_template(&mut self, node: &SyntaxNode, mode: ExpressionMode) -> Value {
        let source = to_value(node);
        for error in expr::errors(&source, mode) {
            let span = span_at_pointer(node, &error.pointer, error.range);
            self.push(Diagnostic::error(codes::BAD_TEMPLATE, span, error.message).with_optional_hint(error.hint));
        }
        for found in expr::references(&source) {
            let span = span_at_pointer(node, &found.pointer, found.range);
            // The language has rejected it already.
            if found.name == "keychain" {
                continue;
            }
            let context = self.context.clone();
            self.uses.push(TemplateNameUse {
                name: found.name,
                path: found.path,
                guarded: found.guarded,
                span,
                context,
            });
        }
        source
    }

    pub(crate) fn add_expression(&mut self, source: Value, mode: ExpressionMode, span: Span) -> ExprId {
        add_expression(&mut self.plan, "jinja", source, mode, span)
    }

    /// Adds a template that the author did not write, at the position that it is for.
    pub(crate) fn synthetic_template(&mut self, text: impl Into<String>, mode: ExpressionMode, span: Span) -> ExprId {
        self.add_expression(Value::from(text.into()), mode, span)
    }

    pub(crate) fn on_success(&mut self, span: Span) -> ExprId {
        self.synthetic_template(ON_SUCCESS, ExpressionMode::Condition, span)
    }

    pub(crate) fn is_on_success(&self, id: ExprId) -> bool {
        self.plan.expressions[id.0 as usize].source.as_str() == Some(ON_SUCCESS)
    }
}
