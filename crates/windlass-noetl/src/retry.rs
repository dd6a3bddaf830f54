//! The retry form: `tool: http` with its inputs next to it, `retry` policies with `when` and `then`, sinks.
//!
//! A step of this form becomes one pipeline: `call`, then the tasks of its policies. A policy that retries becomes a
//! rule that retries. A policy that continues with another page becomes a rule that jumps back to `call` with changed
//! inputs, which are stored in a variable. A policy that only has a sink leads to the sink.

use windlass_core::plan::{Amount, Growth, WriteOp};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{
    ObjectReader, Span, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_list, expect_text, format_names,
};
use windlass_value::{Duration, ExpressionMode, Level};

use crate::amounts::new_retry;
use crate::codes;
use crate::compiler::NoetlCompiler;
use crate::form::{NoetlRule, NoetlTask, RuleAction, TaskWork};
use crate::outputs::attribute_path;
use crate::tools::TaskInputs;

/// The variable with the inputs of the next call.
const CALL: &str = "_call";
/// The variable with the collected pages if no name is given.
const PAGES: &str = "_pages";
/// The variable with the reason why a continuation ended early: `count`.
pub(crate) const REASON: &str = "_reason";
const DEFAULT_ATTEMPTS: u64 = 3;

struct RetryPolicy<'n> {
    node: &'n SyntaxNode,
    when: windlass_core::plan::ExprId,
    attempts: Option<&'n SyntaxNode>,
    delay: Option<&'n SyntaxNode>,
    factor: Option<&'n SyntaxNode>,
    next_call: Option<&'n SyntaxNode>,
    collect: Option<&'n SyntaxNode>,
    sink: Option<&'n SyntaxNode>,
}

impl RetryPolicy<'_> {
    fn continues(&self) -> bool {
        self.next_call.is_some() || self.collect.is_some()
    }

    fn retries(&self) -> bool {
        !self.continues() && (self.sink.is_none() || self.attempts.or(self.delay).or(self.factor).is_some())
    }
}

/// The variable that collects pages, and the operation.
struct PageCollection {
    name: String,
    op: WriteOp,
    value: String,
}

impl NoetlCompiler<'_> {
    /// Compiles the body of a step in this form. `inputs` are the step's own keys.
    pub(crate) fn retry_tasks(
        &mut self,
        tool: &SyntaxNode,
        retry: Option<&SyntaxNode>,
        inputs: &mut TaskInputs,
    ) -> Vec<NoetlTask> {
        let Some(kind) = expect_text(tool, "`tool`", &mut self.diagnostics).map(|text| text.text.trim()) else {
            return Vec::new();
        };
        let policies = retry.map(|retry| self.policies(retry)).unwrap_or_default();
        let continues = policies.iter().find(|policy| policy.next_call.is_some());
        let mut tasks = Vec::new();
        let work = match continues.and_then(|policy| policy.next_call) {
            Some(next) => self.prepare_first_call((kind, tool.span), next, inputs, &mut tasks),
            None => self.work(kind, tool.span, inputs).map(|work| (work, None)),
        };
        let Some((work, next_input)) = work else { return Vec::new() };
        let call = NoetlTask { timeout: inputs.timeout.take(), ..NoetlTask::new("call", work, tool.span) };
        tasks.push(call);
        self.policy_tasks(policies, next_input, kind == "http", tool.span, &mut tasks);
        tasks
    }

    /// Stores the inputs of the first call in a variable, so that a policy can change them for the next call. The keys
    /// of `next_call` override those of the step, key by key, and are parsed like the step's.
    fn prepare_first_call(
        &mut self,
        (kind, span): (&str, Span),
        next: &SyntaxNode,
        inputs: &mut TaskInputs,
        tasks: &mut Vec<NoetlTask>,
    ) -> Option<(TaskWork, Option<SyntaxNode>)> {
        let own: Vec<_> = inputs.object.unread_entries().map(|(key, node)| (key.clone(), node.clone())).collect();
        let own = SyntaxNode::new(inputs.span, SyntaxNodeKind::Map(own));
        let (work, first) = self.deferred_work(kind, span, inputs)?;
        let changed = overlay(&own, next, is_same_input);
        let object = ObjectReader::read(&changed, "`next_call`", &mut self.diagnostics)?;
        let mut again =
            TaskInputs { object, step_input: None, span: inputs.span, timeout: None, is_mocked: inputs.is_mocked };
        let (_, next_input) = self.deferred_work(kind, span, &mut again)?;
        again.object.finish(codes::UNKNOWN_KEY, "`next_call`", &mut self.diagnostics);
        let (Some(first), Some(next_input)) = (first, next_input) else {
            let message = format!("`next_call` of kind `{kind}` is not supported");
            self.error(codes::NOT_SUPPORTED, next.span, message, "it has no inputs that another call could change");
            return None;
        };
        let first = self.input(&first);
        let level = self.own_level();
        let given = self.synthetic_template("{{ outcome.result }}", ExpressionMode::Value, span);
        let keep = self.hidden_write(level, CALL, WriteOp::Set, given);
        let success = self.on_success(span);
        let rule = NoetlRule { writes: vec![keep], ..NoetlRule::new(Some(success), RuleAction::Continue) };
        let task = NoetlTask::new("prepare", TaskWork::Evaluate(first), span);
        tasks.push(NoetlTask { hidden: true, keeps_previous: true, rules: vec![rule], ..task });
        let input =
            self.synthetic_template(format!("{{{{ {}.{CALL} }}}}", self.own_scope()), ExpressionMode::Value, span);
        let work = match work {
            TaskWork::Effect { tool, .. } => TaskWork::Effect { tool, input },
            TaskWork::Call { definition, .. } => TaskWork::Call { definition, input },
            work @ (TaskWork::Evaluate(_) | TaskWork::Ask { .. }) => work,
        };
        Some((work, Some(next_input)))
    }

    /// Compiles a tool's work and returns its inputs separately.
    fn deferred_work(
        &mut self,
        kind: &str,
        span: Span,
        inputs: &mut TaskInputs,
    ) -> Option<(TaskWork, Option<SyntaxNode>)> {
        let before = self.deferred_inputs.replace(Vec::new());
        let work = self.work(kind, span, inputs);
        let deferred = std::mem::replace(&mut self.deferred_inputs, before);
        work.map(|work| (work, deferred.and_then(|mut held| held.pop())))
    }

    fn own_scope(&self) -> &'static str {
        if self.own_level() == Level::Iteration { "iter" } else { "vars" }
    }

    /// Adds the rules of `call` and the tasks after it.
    fn policy_tasks(
        &mut self,
        policies: Vec<RetryPolicy>,
        next_input: Option<SyntaxNode>,
        is_http: bool,
        span: Span,
        tasks: &mut Vec<NoetlTask>,
    ) {
        let at = tasks.len() - 1;
        let collected = policies.iter().find_map(|policy| policy.collect).and_then(|node| self.page_collection(node));
        let only_sinks: Vec<&RetryPolicy> = policies
            .iter()
            .filter(|policy| policy.sink.is_some() && !policy.continues() && !policy.retries())
            .collect();
        let mut rules = Vec::new();
        let mut sinks: Vec<NoetlTask> = Vec::new();
        for policy in &policies {
            let rule = if policy.continues() {
                self.continuation(policy, at, next_input.as_ref(), collected.as_ref())
            } else if policy.retries() {
                self.error_policy(policy)
            } else {
                let number = sinks.len() + 1;
                let label = if only_sinks.len() > 1 { format!("sink_{number}") } else { "sink".to_owned() };
                let to = at + number;
                let sink = policy.sink.and_then(|node| self.sink(label, node));
                if collected.is_some() {
                    let message = "a policy that only has a sink next to one that collects is not supported";
                    let hint = "put the sink under the policy that collects";
                    self.error(codes::NOT_SUPPORTED, policy.node.span, message, hint);
                }
                sinks.extend(sink);
                let previous = self.response_body(is_http, policy.node.span);
                Some(NoetlRule { previous, ..NoetlRule::new(Some(policy.when), RuleAction::JumpToIndex(to)) })
            };
            rules.extend(rule);
            if policy.continues() && policy.attempts.is_some() {
                let spent = self.exhausted_rule(policy, collected.as_ref(), is_http, only_sinks.is_empty());
                rules.push(spent);
            }
        }
        if is_http || collected.is_some() || !sinks.is_empty() {
            let success = self.on_success(span);
            let writes = collected.as_ref().map(|collected| self.collect_write(collected, span)).into_iter().collect();
            let then = if sinks.is_empty() { RuleAction::Continue } else { RuleAction::Break };
            let previous = self.response_body(is_http, span);
            rules.push(NoetlRule { writes, previous, ..NoetlRule::new(Some(success), then) });
        }
        tasks[at].rules = rules;
        if let Some(collected) = &collected {
            let text = format!("{{{{ {}.{} }}}}", self.own_scope(), collected.name);
            tasks.push(self.evaluate_task("collected", text, span));
        }
        // The sink of a continuing policy runs once, after the last call, whether the policy collects pages or not.
        if let Some(node) = policies.iter().find(|policy| policy.continues()).and_then(|policy| policy.sink) {
            let sink = self.sink("sink", node);
            match sinks.is_empty() {
                true => tasks.extend(sink),
                false => {
                    let message = "a sink next to a policy that only has a sink is not supported";
                    self.error(codes::NOT_SUPPORTED, node.span, message, "put all writes into one of them");
                }
            }
        }
        let lone = sinks.len() == 1;
        for mut sink in sinks {
            if !lone {
                let success = self.on_success(span);
                sink.rules.push(NoetlRule::new(Some(success), RuleAction::Break));
            }
            tasks.push(sink);
        }
    }

    /// Returns the expression of the response body, without the surrounding response.
    fn response_body(&mut self, is_http: bool, span: Span) -> Option<windlass_core::plan::ExprId> {
        is_http.then(|| self.synthetic_template("{{ response }}", ExpressionMode::Value, span))
    }

    /// Compiles a continuation: another call with changed inputs, as often as the policy allows.
    fn continuation(
        &mut self,
        policy: &RetryPolicy,
        call: usize,
        next_input: Option<&SyntaxNode>,
        collected: Option<&PageCollection>,
    ) -> Option<NoetlRule> {
        let span = policy.node.span;
        for (name, node) in [("initial_delay", policy.delay), ("backoff_multiplier", policy.factor)] {
            if let Some(node) = node {
                let hint = "the next call follows immediately";
                self.no_effect(
                    node.span,
                    format!("`{name}` has no effect in a policy with `next_call` or `collect`"),
                    hint,
                );
            }
        }
        let attempts = policy.attempts.and_then(|node| self.count(node, "max_attempts", 1));
        let times = attempts.map(|attempts| self.subtract(attempts, 1, span));
        let mut writes = Vec::new();
        writes.extend(collected.map(|collected| self.collect_write(collected, span)));
        if let Some(input) = next_input {
            let value = self.input(input);
            let level = self.own_level();
            writes.push(self.hidden_write(level, CALL, WriteOp::Set, value));
        }
        Some(NoetlRule { writes, times, ..NoetlRule::new(Some(policy.when), RuleAction::JumpToIndex(call)) })
    }

    /// Compiles the end of a continuation whose calls are used up although there would be more. It records the reason.
    fn exhausted_rule(
        &mut self,
        policy: &RetryPolicy,
        collected: Option<&PageCollection>,
        is_http: bool,
        last: bool,
    ) -> NoetlRule {
        let span = policy.node.span;
        let mut writes: Vec<_> = collected.map(|collected| self.collect_write(collected, span)).into_iter().collect();
        let level = self.own_level();
        let count = self.synthetic_template("count", ExpressionMode::Value, span);
        let reason = self.hidden_write(level, REASON, WriteOp::Set, count);
        writes.push(windlass_core::plan::VariableUpdate { hidden: false, ..reason });
        let previous = self.response_body(is_http, span);
        let then = if last { RuleAction::Continue } else { RuleAction::Break };
        NoetlRule { writes, previous, ..NoetlRule::new(Some(policy.when), then) }
    }

    fn error_policy(&mut self, policy: &RetryPolicy) -> Option<NoetlRule> {
        if let Some(sink) = policy.sink {
            let hint = "put the sink under a policy of its own: `when: \"{{ error is not defined }}\"`";
            self.error(
                codes::NOT_SUPPORTED,
                sink.span,
                "a policy that retries cannot have a `sink`: it has no result",
                hint,
            );
        }
        let attempts = policy.attempts.and_then(|node| self.attempts(node, "max_attempts"));
        let attempts = attempts.unwrap_or(Amount::Fixed(DEFAULT_ATTEMPTS));
        let growth = policy.factor.and_then(|node| self.factor(node)).map(Growth::Exponential);
        let delay = policy.delay.and_then(|node| self.duration(node, "initial_delay"));
        let none = Duration(if growth.is_some() { 1_000_000 } else { 0 });
        let retry = new_retry(attempts.clone(), delay.unwrap_or(Amount::Fixed(none)), growth.unwrap_or(Growth::Fixed));
        let rule = NoetlRule::new(Some(policy.when), RuleAction::Retry(retry));
        Some(NoetlRule { times: Some(attempts), ..rule })
    }

    fn policies<'n>(&mut self, node: &'n SyntaxNode) -> Vec<RetryPolicy<'n>> {
        if let Some(entries) = node.as_map() {
            for (key, _) in entries {
                let hint = match key.text.as_str() {
                    "on_error" => {
                        "write `retry: [{when: \"{{ error.status in [500, 503] }}\", then: {max_attempts: 3}}]`"
                    }
                    "on_success" => {
                        "write `retry: [{when: \"{{ response.paging.hasMore }}\", then: {next_call: …, collect: …}}]`"
                    }
                    _ => "write a list of policies: `retry: [{when: …, then: {…}}]`",
                };
                let message = format!("`retry` has no `{}`: it is a list of policies", key.text);
                self.error(codes::OLD_SPELLING, key.span, message, hint);
            }
            return Vec::new();
        }
        let items = expect_list(node, "`retry`", &mut self.diagnostics).unwrap_or_default();
        let policies: Vec<RetryPolicy> = items.iter().filter_map(|item| self.policy(item)).collect();
        for more in policies.iter().filter(|policy| policy.continues()).skip(1) {
            let hint = "keep one policy with `next_call` and `collect`";
            self.error(
                codes::NOT_SUPPORTED,
                more.node.span,
                "a second policy with `next_call` or `collect` is not supported",
                hint,
            );
        }
        policies
    }

    fn policy<'n>(&mut self, node: &'n SyntaxNode) -> Option<RetryPolicy<'n>> {
        let mut object = ObjectReader::read(node, "a policy", &mut self.diagnostics)?;
        for old in ["on_error", "on_success", "cond", "while"] {
            if object.peek(old).is_some()
                && let Some((key, _)) = object.take_entry(old)
            {
                let hint = "write `when: \"{{ … }}\"` and `then: {…}`";
                self.error(codes::OLD_SPELLING, key.span, format!("a policy has no `{old}`"), hint);
            }
        }
        let (when, then) = (object.take("when"), object.take("then"));
        object.finish(codes::UNKNOWN_KEY, "a policy", &mut self.diagnostics);
        for (name, missing) in [("when", when.is_none()), ("then", then.is_none())] {
            if missing {
                let hint = format!("add `{name}`");
                self.error(codes::MISSING_KEY, node.span, format!("this policy has no `{name}`"), hint);
            }
        }
        let when = when.map(|when| self.expression(when, ExpressionMode::Guard));
        let mut then = ObjectReader::read(then?, "`then`", &mut self.diagnostics)?;
        let [attempts, delay, factor] =
            ["max_attempts", "initial_delay", "backoff_multiplier"].map(|name| then.take(name));
        let [next_call, collect, sink] = ["next_call", "collect", "sink"].map(|name| then.take(name));
        then.finish(codes::UNKNOWN_KEY, "`then`", &mut self.diagnostics);
        Some(RetryPolicy { node, when: when?, attempts, delay, factor, next_call, collect, sink })
    }

    fn page_collection(&mut self, node: &SyntaxNode) -> Option<PageCollection> {
        let mut object = ObjectReader::read(node, "`collect`", &mut self.diagnostics)?;
        let [strategy, path, into] = ["strategy", "path", "into"].map(|name| object.take(name));
        object.finish(codes::UNKNOWN_KEY, "`collect`", &mut self.diagnostics);
        let op = match strategy {
            None => WriteOp::Extend,
            Some(node) => {
                let names = ["append", "extend", "replace", "merge"];
                match expect_text(node, "`strategy`", &mut self.diagnostics)?.text.trim() {
                    "append" | "extend" => WriteOp::Extend,
                    "replace" => WriteOp::Set,
                    "merge" => WriteOp::Merge,
                    other => {
                        let hint =
                            did_you_mean(other, names).unwrap_or_else(|| format!("one of {}", format_names(names)));
                        self.error(codes::BAD_VALUE, node.span, format!("there is no strategy `{other}`"), hint);
                        return None;
                    }
                }
            }
        };
        let value = match path {
            Some(node) => {
                let text = expect_text(node, "`path`", &mut self.diagnostics)?.text.trim();
                let Some(steps) = attribute_path(text) else {
                    let message = format!("`{text}` is not a path into the response");
                    self.error(codes::BAD_VALUE, node.span, message, "write names with dots between: data.items");
                    return None;
                };
                format!("{{{{ response{steps} }}}}")
            }
            None => "{{ response }}".to_owned(),
        };
        let name = match into {
            Some(node) => expect_text(node, "`into`", &mut self.diagnostics)?.text.trim().to_owned(),
            None => PAGES.to_owned(),
        };
        Some(PageCollection { name, op, value })
    }

    fn collect_write(&mut self, collected: &PageCollection, span: Span) -> windlass_core::plan::VariableUpdate {
        let value = self.synthetic_template(collected.value.clone(), ExpressionMode::Value, span);
        let level = self.own_level();
        self.hidden_write(level, &collected.name, collected.op, value)
    }
}

/// Inputs with several names.
const INPUT_ALIASES: [&[&str]; 5] = [
    &["url", "endpoint", "uri"],
    &["json", "data", "payload", "body", "form"],
    &["command", "query", "statement", "commands", "sql"],
    &["input", "args"],
    &["timeout", "timeout_seconds"],
];

fn is_same_input(one: &str, other: &str) -> bool {
    one == other || INPUT_ALIASES.iter().any(|names| names.contains(&one) && names.contains(&other))
}

/// Overlays one tree on another: objects key by key, anything else as a whole. `same` compares the outermost keys.
fn overlay(under: &SyntaxNode, over: &SyntaxNode, same: fn(&str, &str) -> bool) -> SyntaxNode {
    let (Some(below), Some(above)) = (under.as_map(), over.as_map()) else { return over.clone() };
    let mut entries: Vec<_> = below.to_vec();
    for (key, node) in above {
        match entries.iter_mut().find(|(other, _)| same(&other.text, &key.text)) {
            Some((mine, below)) => {
                *below = overlay(below, node, |one, other| one == other);
                *mine = key.clone();
            }
            None => entries.push((key.clone(), node.clone())),
        }
    }
    SyntaxNode::new(under.span, SyntaxNodeKind::Map(entries))
}
