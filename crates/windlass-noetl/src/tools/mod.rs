//! Kinds of tasks, and the translation of their inputs to those of a tool.

mod approval;
mod calls;
mod http;
mod python;
mod rust;
mod shell;
mod sql;

use windlass_core::plan::Amount;
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, ObjectReader, Span, SpannedKey, SyntaxNode, did_you_mean, format_names};
use windlass_value::Duration;

use crate::codes;
use crate::compiler::NoetlCompiler;
use crate::form::TaskWork;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ToolKind {
    Http,
    Postgres,
    Sqlite,
    Duckdb,
    Python,
    Shell,
    Noop,
    Playbook,
    Rust,
    Artifact,
    Approval,
}

/// Kinds as playbooks write them.
const KINDS: [(&str, ToolKind); 11] = [
    ("http", ToolKind::Http),
    ("postgres", ToolKind::Postgres),
    ("sqlite", ToolKind::Sqlite),
    ("duckdb", ToolKind::Duckdb),
    ("python", ToolKind::Python),
    ("shell", ToolKind::Shell),
    ("noop", ToolKind::Noop),
    ("playbook", ToolKind::Playbook),
    ("rust", ToolKind::Rust),
    ("artifact", ToolKind::Artifact),
    ("approval", ToolKind::Approval),
];

/// Kinds that exist elsewhere, each with an alternative.
const UNSUPPORTED_KINDS: [(&str, &str); 20] = [
    ("agent", "call the agent's service with `http`"),
    ("container", "start it with `shell`: `docker run …`"),
    ("ducklake", "use `duckdb`, or `postgres`"),
    ("gateway", "call it with `http`"),
    ("gcs", "use `shell` with its command line, or `http`"),
    ("iterator", "give the step a `loop`"),
    ("mcp", "call the server with `http`"),
    ("nats", "use `shell` with its command line, or `python`"),
    ("provider", "name a credential with `auth: alias`"),
    ("result_fetch", "templates load stored results automatically"),
    ("rhai", "use `python`"),
    ("script", "use `shell` or `python`"),
    ("secrets", "name a credential with `auth: alias`; it is looked up on the worker"),
    ("sink", "a sink is a task that writes: `kind: postgres`"),
    ("snowflake", "use `http` with its SQL interface, or `python`"),
    ("subscription", "start a run for each message from outside"),
    ("task_sequence", "write a list of tasks under `tool`"),
    ("transfer", "read in one task, write in the next"),
    ("wasm", "use `python` or `shell`"),
    ("gcp", "use `shell` with its command line, or `http`"),
];

pub(crate) fn supported_names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(name, _)| *name).chain(["workbook"])
}

/// A task's inputs while they are parsed.
pub(crate) struct TaskInputs<'n> {
    pub object: ObjectReader<'n>,
    /// `input` or `args` of the step, for each of its tasks.
    pub step_input: Option<&'n SyntaxNode>,
    pub span: Span,
    /// The timeout of an attempt, if the inputs set one.
    pub timeout: Option<Amount<Duration>>,
    /// A mock answers the call.
    pub is_mocked: bool,
}

impl NoetlCompiler<'_> {
    pub(crate) fn work(&mut self, kind: &str, span: Span, inputs: &mut TaskInputs) -> Option<TaskWork> {
        let Some((name, found)) = KINDS.iter().find(|(name, _)| *name == kind) else {
            self.report_unknown_tool_kind(kind, span);
            inputs.object.take_rest();
            return None;
        };
        match found {
            ToolKind::Noop => Some(self.noop(inputs)),
            ToolKind::Playbook => self.playbook_call(inputs),
            ToolKind::Rust => self.rust(inputs),
            ToolKind::Artifact => self.artifact(inputs),
            ToolKind::Approval => self.approval(inputs),
            ToolKind::Http => self.http(inputs, span),
            ToolKind::Python => self.python(inputs, span),
            ToolKind::Shell => self.shell(inputs, span),
            ToolKind::Postgres | ToolKind::Sqlite | ToolKind::Duckdb => self.sql(*found, name, inputs, span),
        }
    }

    fn report_unknown_tool_kind(&mut self, kind: &str, span: Span) {
        if let Some((_, instead)) = UNSUPPORTED_KINDS.iter().find(|(name, _)| *name == kind) {
            self.error(codes::NOT_SUPPORTED, span, format!("the tool kind `{kind}` is not supported"), *instead);
            return;
        }
        let hint = did_you_mean(kind, supported_names())
            .unwrap_or_else(|| format!("kinds here: {}", format_names(supported_names())));
        self.push(
            Diagnostic::error(codes::UNKNOWN_TOOL_KIND, span, format!("there is no tool kind `{kind}`"))
                .with_hint(hint),
        );
    }

    /// Compiles an effect of a tool, which the engine must have.
    pub(crate) fn effect(&mut self, tool: &str, span: Span, input: &SyntaxNode) -> Option<TaskWork> {
        let input = self.input(input);
        if !self.options.tools.iter().any(|name| name == tool) {
            let names = self.options.tools.iter().map(String::as_str);
            let message = format!("this engine has no tool `{tool}`");
            let mut hint = format!("it has {}", format_names(names));
            // Supported, but not part of the default build.
            if tool == "duckdb" {
                hint = format!("build the program with it: cargo build --release --features duckdb; {hint}");
            }
            self.error(codes::UNKNOWN_TOOL, span, message, hint);
            return None;
        }
        Some(TaskWork::Effect { tool: tool.into(), input })
    }

    /// Compiles a task that does nothing, not even to `_prev`, unless it sets a result.
    fn noop(&mut self, inputs: &mut TaskInputs) -> TaskWork {
        let (result, message) = (inputs.object.take("result"), inputs.object.take_entry("message"));
        for name in ["input", "args"] {
            inputs.object.take(name);
        }
        let value = match (result, message) {
            (Some(result), _) => self.value(result),
            (None, Some((_, message))) => {
                let node = SyntaxNode::object(message.span, [("message", message.clone())]);
                self.value(&node)
            }
            (None, None) => self.synthetic_template("{{ _prev }}", windlass_value::ExpressionMode::Value, inputs.span),
        };
        TaskWork::Evaluate(value)
    }

    /// Compiles `{action: get, input: {result_ref}}`: the value behind a reference, which templates read like any other.
    fn artifact(&mut self, inputs: &mut TaskInputs) -> Option<TaskWork> {
        let action = inputs.object.take("action");
        let input = self.one_of(inputs, &["input", "args"]).map(|(_, node)| node).or(inputs.step_input);
        if let Some(action) = action.filter(|action| action.as_str() != Some("get")) {
            let message = format!("the action {} of an artifact is not supported", action.describe());
            self.error(
                codes::NOT_SUPPORTED,
                action.span,
                message,
                "results are stored automatically; only `get` is supported",
            );
            return None;
        }
        let found = input.and_then(|input| input.get("result_ref").or_else(|| input.get("ref")));
        let Some(reference) = found else {
            self.missing_input("artifact", "input: {result_ref}", inputs.span);
            return None;
        };
        Some(TaskWork::Evaluate(self.value(reference)))
    }

    /// Reads `auth: alias`, `credential: alias`, or `{type, credential}`. An alias stays a name.
    pub(crate) fn auth<'n>(&mut self, inputs: &mut TaskInputs<'n>) -> Option<SyntaxNode> {
        let auth = self.one_of(inputs, &["auth", "credential"])?;
        if let Some(alias) = self.key_alias(auth.1) {
            return Some(alias);
        }
        let node = match auth.1.as_map() {
            Some([]) => return None,
            // Its fields come from the keychain.
            Some(_) if crate::keychain::mentions_secret(auth.1) => return Some(auth.1.clone()),
            Some(_) => match auth.1.get("credential").or_else(|| auth.1.get("alias")) {
                Some(alias) => alias,
                None => {
                    let hint = "write `auth: alias`, and give the alias its values outside of the file";
                    self.error(codes::NOT_SUPPORTED, auth.1.span, "`auth` names no credential", hint);
                    return None;
                }
            },
            None => auth.1,
        };
        self.check_alias(node);
        Some(node.clone())
    }

    /// Reads the credential of a database; the default alias is `postgres`.
    pub(crate) fn database_auth(&mut self, inputs: &mut TaskInputs<'_>, span: Span) -> SyntaxNode {
        self.auth(inputs).unwrap_or_else(|| {
            let usual = SyntaxNode::text("postgres", span);
            if !std::mem::replace(&mut self.default_alias_checked, true) {
                self.check_alias(&usual);
            }
            usual
        })
    }

    /// Returns the default of a workload key, if the template is nothing but that key: it is equivalent to a literal.
    pub(crate) fn workload_text(&self, text: &str) -> Option<String> {
        let name = crate::expr::single_expression(text)?;
        let key = name.strip_prefix("workload.").unwrap_or(name);
        self.workload.as_ref()?.get(key)?.as_str().map(str::to_owned)
    }

    pub(crate) fn check_alias(&mut self, node: &SyntaxNode) {
        let Some(text) = node.as_str() else {
            let message = format!("the alias of a credential is a text, found {}", node.describe());
            self.error(codes::WRONG_KIND, node.span, message, "write its name, or a template that evaluates to it");
            return;
        };
        let alias = match (self.workload_text(text), crate::expr::is_template(text)) {
            (Some(alias), _) => alias,
            (None, true) => return,
            (None, false) => text.to_owned(),
        };
        let Some(known) = &self.options.aliases else { return };
        // Compared in the spelling of environment variables: `pg-main` and `PG_MAIN` are the same.
        let spelled = |name: &str| name.to_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let variable = spelled(&alias);
        if known.iter().any(|name| spelled(name) == variable) {
            return;
        }
        let hint = did_you_mean(&alias, known.iter().map(String::as_str)).unwrap_or_else(|| {
            let variable = crate::keychain::env_variable(&alias);
            format!("store it: `windlass credentials set {alias}`; or set {variable} before the run reaches it")
        });
        self.push(
            Diagnostic::warning(codes::UNKNOWN_ALIAS, node.span, format!("the credential `{alias}` is not configured"))
                .with_hint(hint),
        );
    }

    /// Takes a field that has several names; giving two of them is a problem.
    pub(crate) fn one_of<'n>(
        &mut self,
        inputs: &mut TaskInputs<'n>,
        names: &[&'static str],
    ) -> Option<(&'n SpannedKey, &'n SyntaxNode)> {
        let found: Vec<_> = names.iter().filter_map(|name| inputs.object.take_entry(name)).collect();
        if let [first, second, ..] = found.as_slice() {
            let message = format!("`{}` and `{}` exclude each other", first.0.text, second.0.text);
            let problem = Diagnostic::error(codes::CONFLICT, second.0.span, message);
            self.push(problem.with_label(first.0.span, "the other").with_hint("keep one of the two"));
        }
        found.first().copied()
    }

    pub(crate) fn input_timeout(&mut self, inputs: &mut TaskInputs) {
        if let Some((_, node)) = self.one_of(inputs, &["timeout", "timeout_seconds"]) {
            inputs.timeout = self.timeout(node);
        }
    }

    pub(crate) fn missing_input(&mut self, kind: &str, name: &str, span: Span) {
        let message = format!("a task of kind `{kind}` needs `{name}`");
        self.error(codes::MISSING_KEY, span, message, format!("add `{name}`"));
    }
}
