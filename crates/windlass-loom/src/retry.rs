//! Retries: `retry` on any action and the `retry` action of Loom, `retryPolicy` of Azure.

use std::sync::Arc;

use windlass_core::plan::{Amount, Backoff, Growth, Jitter, NodeKind, Pipeline, Retry, Task};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{
    Diagnostic, ObjectReader, Span, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_list, expect_text, format_names,
};
use windlass_value::{Duration, Value};

use crate::actions::CurrentAction;
use crate::codes;
use crate::compiler::{LoomCompiler, new_graph};
use crate::expr;
use crate::scopes::{ActionPosition, NameScopeId};

/// Azure retries only transient errors.
const AZURE_ON: &[&str] = &["408", "429", "5xx", "connection", "timeout"];

/// The kinds of errors.
const KINDS: &[&str] = &[
    "timeout",
    "connection",
    "http",
    "expression",
    "limit",
    "tool",
    "input",
    "call",
    "reply",
    "rule",
    "step",
    "lost",
    "hang",
    "cancelled",
    "skipped",
];

const TYPES: &[&str] = &["exponential", "fixed", "none", "default"];

/// Defaults for the fields that a policy leaves out.
struct RetryDefaults {
    count: u64,
    interval: Duration,
    min: Option<Duration>,
    max: Option<Duration>,
    jitter: Jitter,
    on: &'static [&'static str],
}

const SEED: RetryDefaults = RetryDefaults {
    count: 3,
    interval: Duration::from_secs(5),
    min: Some(Duration::from_secs(1)),
    max: Some(Duration::from_secs(60)),
    jitter: Jitter::Add(0.1),
    on: &[],
};

const AZURE: RetryDefaults = RetryDefaults {
    count: 4,
    interval: Duration::from_ms(7_500),
    min: Some(Duration::from_secs(5)),
    max: Some(Duration::from_secs(45)),
    jitter: Jitter::Spread,
    on: AZURE_ON,
};

/// Returns Azure's default policy for HTTP.
pub(crate) fn azure_default() -> Retry {
    exponential(&AZURE)
}

fn exponential(defaults: &RetryDefaults) -> Retry {
    Retry {
        attempts: Amount::Fixed(defaults.count + 1),
        backoff: Backoff {
            interval: Amount::Fixed(defaults.interval),
            growth: Growth::Exponential(2.0),
            min: defaults.min,
            max: defaults.max,
            jitter: defaults.jitter,
        },
        on: defaults.on.iter().map(|code| Arc::from(*code)).collect(),
        window: None,
    }
}

/// Returns the only task of a pipeline, apart from those that the compiler generated around it.
pub(crate) fn only_visible_task(pipeline: &mut Pipeline) -> Option<&mut Task> {
    let mut visible = pipeline.tasks.iter_mut().filter(|task| !task.hidden);
    visible.next().filter(|_| visible.next().is_none())
}

impl LoomCompiler<'_> {
    pub(crate) fn seed_retry(&mut self, node: &SyntaxNode, scope: NameScopeId) -> Option<Retry> {
        self.policy(node, &SEED, scope)
    }

    pub(crate) fn azure_retry(&mut self, node: &SyntaxNode, scope: NameScopeId) -> Option<Retry> {
        // An explicit Azure policy has interval bounds only if it sets them.
        let explicit =
            node.get("type").and_then(SyntaxNode::as_str).is_some_and(|text| !text.eq_ignore_ascii_case("default"));
        let defaults = if explicit { RetryDefaults { min: None, max: None, ..AZURE } } else { AZURE };
        self.policy(node, &defaults, scope)
    }

    fn policy(&mut self, node: &SyntaxNode, defaults: &RetryDefaults, scope: NameScopeId) -> Option<Retry> {
        let mut object = ObjectReader::read(node, "a retry policy", &mut self.diagnostics)?;
        let kind = object.take("type").map_or(Some("exponential"), |node| self.policy_type(node));
        let mut retry = exponential(defaults);
        if let Some(attempts) = object.take("count").and_then(|count| self.attempts(count, scope)) {
            retry.attempts = attempts;
        }
        if let Some(interval) = object.take("interval").and_then(|node| self.duration(node, "`interval`", scope)) {
            retry.backoff.interval = interval;
        }
        let mut bound = |this: &mut Self, names: [&'static str; 2]| {
            let found = names.into_iter().filter_map(|name| object.take(name)).next();
            found.and_then(|node| this.literal_duration(node, &format!("`{}`", names[0])).map(|time| (time, node.span)))
        };
        let max = bound(self, ["maxInterval", "maximumInterval"]);
        let min = bound(self, ["minimumInterval", "minInterval"]);
        if let Some(on) = object.take("on") {
            retry.on = self.retry_on(on);
        }
        object.finish(codes::UNKNOWN_KEY, "a retry policy", &mut self.diagnostics);
        self.retry_bounds(&mut retry, min, max);
        match kind? {
            "none" => None,
            "fixed" => {
                retry.backoff =
                    Backoff { growth: Growth::Fixed, min: None, max: None, jitter: Jitter::None, ..retry.backoff };
                Some(retry)
            }
            _ => Some(retry),
        }
    }

    fn retry_bounds(&mut self, retry: &mut Retry, min: Option<(Duration, Span)>, max: Option<(Duration, Span)>) {
        if let (Some((shortest, span)), Some((longest, other))) = (min, max)
            && shortest > longest
        {
            let message = format!("the shortest interval {shortest} is longer than the longest, {longest}");
            let problem = Diagnostic::error(codes::CONFLICT, span, message);
            self.push(problem.with_label(other, "the longest").with_hint("swap them"));
        }
        if let Some((longest, _)) = max {
            retry.backoff.max = Some(longest);
            // A default must not contradict an explicit value.
            retry.backoff.min = retry.backoff.min.map(|shortest| shortest.min(longest));
        }
        if let Some((shortest, _)) = min {
            retry.backoff.min = Some(shortest);
            retry.backoff.max = retry.backoff.max.map(|longest| longest.max(shortest));
        }
    }

    fn policy_type(&mut self, node: &SyntaxNode) -> Option<&'static str> {
        let text = &expect_text(node, "`type`", &mut self.diagnostics)?.text;
        let found = TYPES.iter().find(|known| known.eq_ignore_ascii_case(text)).copied();
        if found.is_none() {
            let hint = did_you_mean(text, TYPES.iter().copied());
            let all = || format!("types: {}", format_names(TYPES.iter().copied()));
            let message = format!("there is no retry policy `{text}`");
            self.error(codes::BAD_VALUE, node.span, message, hint.unwrap_or_else(all));
        }
        found
    }

    /// Reads the number of attempts. `count` is the number of retries; the first attempt is added.
    fn attempts(&mut self, node: &SyntaxNode, scope: NameScopeId) -> Option<Amount<u64>> {
        if let SyntaxNodeKind::Str(text) = &node.kind
            && expr::is_whole_expression(&text.text)
        {
            let plus_one = SyntaxNode::new(node.span, SyntaxNodeKind::Str(text.wrap("@add(", 1, ", 1)")));
            return Some(Amount::Computed(self.value(&plus_one, scope)));
        }
        let Amount::Fixed(count) = self.whole_number(node, "`count`", scope)? else { return None };
        let max = self.limits().max_retry_attempts.saturating_sub(1);
        if count == 0 {
            let hint = "for no retries write \"type\": \"none\", or leave the policy out";
            self.error(codes::BAD_VALUE, node.span, "`count` cannot be 0", hint);
        }
        if count > max {
            let message = format!("`count` is {count}, more than the {max} retries that the engine allows");
            self.over_limit(node.span, message, "max_retry_attempts");
        }
        Some(Amount::Fixed(count.saturating_add(1)))
    }

    /// Reads the errors to retry: codes (503 or "503"), classes ("5xx") and kinds ("timeout").
    fn retry_on(&mut self, node: &SyntaxNode) -> Vec<Arc<str>> {
        let items = expect_list(node, "`on`", &mut self.diagnostics).unwrap_or_default();
        if items.is_empty() && node.as_list().is_some() {
            self.error(codes::BAD_VALUE, node.span, "`on` is empty", "leave it out to retry every error");
        }
        items.iter().filter_map(|item| self.retry_code(item)).collect()
    }

    fn retry_code(&mut self, node: &SyntaxNode) -> Option<Arc<str>> {
        match &node.kind {
            SyntaxNodeKind::Number(Value::Int(code)) if (100..600).contains(code) => Some(code.to_string().into()),
            SyntaxNodeKind::Str(text) if !text.text.trim().is_empty() && !expr::is_expression(&text.text) => {
                let name = text.text.trim();
                if !may_be_an_error(name) {
                    self.warn_of_unknown_error(name, node.span);
                }
                Some(name.to_lowercase().into())
            }
            _ => {
                let message = format!("`on` lists codes and kinds of errors, found {}", node.describe());
                self.error(
                    codes::BAD_VALUE,
                    node.span,
                    message,
                    "such as \"timeout\", \"503\", \"5xx\", \"connection\"",
                );
                None
            }
        }
    }

    fn warn_of_unknown_error(&mut self, name: &str, span: Span) {
        let message = format!("no error is called `{name}`: this never causes a retry");
        let hint = did_you_mean(name, KINDS.iter().copied());
        let all =
            || format!("codes such as 503, classes such as \"5xx\", or kinds: {}", format_names(KINDS.iter().copied()));
        self.push(Diagnostic::warning(codes::UNKNOWN_ERROR, span, message).with_hint(hint.unwrap_or_else(all)));
    }

    /// Compiles a `retry` action: one inner action that is retried. The output reports the result.
    pub(crate) fn retry_action(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        let scope = current.position.scope;
        let policy = current.fields.take_any(&["retryPolicy", "retry"], &mut self.diagnostics);
        let retry = match policy {
            Some((_, node)) => self.seed_retry(node, scope),
            None => Some(exponential(&SEED)),
        };
        let action = current.fields.require("action", &mut self.diagnostics)?;
        self.refuse_inner_retry(action);
        let name = self.inner_name(current, action);
        self.register(scope, &name, action.span);
        let child = self.action(&name, action.span, action, &ActionPosition { parent: current.id, scope, top: false });
        self.put_retry(child, retry);
        let output = self.retry_output(&name, current.fields.span(), scope);
        self.node(current.id).output = Some(output);
        Some(NodeKind::Graph(new_graph(vec![self.child(child, Vec::new())])))
    }

    fn inner_name(&self, current: &CurrentAction, action: &SyntaxNode) -> Arc<str> {
        let variable = action
            .get("type")
            .and_then(SyntaxNode::as_str)
            .is_some_and(|text| text.to_lowercase().contains("variable"));
        let own = action.get("name").and_then(SyntaxNode::as_str).filter(|name| !variable && !name.is_empty());
        own.map_or_else(|| format!("{}_action", current.name).into(), Arc::from)
    }

    fn refuse_inner_retry(&mut self, action: &SyntaxNode) {
        let inner = action.as_map().into_iter().flatten();
        for (key, _) in
            inner.filter(|(key, _)| ["retry", "runAfter"].iter().any(|name| key.text.eq_ignore_ascii_case(name)))
        {
            let message = format!("the action inside a `retry` action cannot have a `{}` of its own", key.text);
            self.error(codes::CONFLICT, key.span, message, "write it on the `retry` action");
        }
    }

    /// Sets the retry policy of a node: on its task if it has one visible task, otherwise on the node.
    pub(crate) fn put_retry(&mut self, child: windlass_core::plan::NodeId, retry: Option<Retry>) {
        let node = self.node(child);
        if let NodeKind::Pipeline(pipeline) = &mut node.kind
            && let Some(task) = only_visible_task(pipeline)
        {
            task.retry = retry;
            return;
        }
        node.retry = retry;
    }

    fn retry_output(&mut self, child: &str, span: Span, scope: NameScopeId) -> windlass_core::plan::ExprId {
        let quoted = expr::quote(child);
        let at = Span::at(span.start);
        let (end, attempts) = (format!("actions({quoted})"), format!("actions({quoted})?['attempts']"));
        let report = |status: &str, name: &str, value: String| {
            let start = format!(r#"json('{{"status":"{status}"}}')"#);
            format!("addProperty(addProperty({start}, 'attempts', {attempts}), '{name}', {value})")
        };
        let succeeded = report("success", "result", format!("outputs({quoted})"));
        let failed = report("failed", "error", format!("{end}?['error']"));
        let text = format!("@if(equals({end}?['status'], 'Succeeded'), {succeeded}, {failed})");
        self.value(&SyntaxNode::text(text, at), scope)
    }
}

/// Reports whether a name can be an error: an HTTP code or a class of them, a kind, or a code of the engine or of a
/// tool, which are all in PascalCase.
fn may_be_an_error(name: &str) -> bool {
    let status = name.parse().is_ok_and(|code: u16| (100..600).contains(&code));
    let class =
        name.to_lowercase().strip_suffix("xx").is_some_and(|hundred| matches!(hundred, "1" | "2" | "3" | "4" | "5"));
    let pascal = name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.contains(|letter: char| letter.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    status || class || pascal || KINDS.iter().any(|kind| kind.eq_ignore_ascii_case(name))
}
