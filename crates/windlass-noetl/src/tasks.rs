//! One task: its label, its kind with its inputs, its settings, its rules.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::plan::{Amount, Growth, Retry};
use windlass_dialect::{DiagnosticSink, is_mocked_step};
use windlass_syntax::{Diagnostic, ObjectReader, Span, SpannedKey, SyntaxNode, SyntaxNodeKind, expect_text};
use windlass_value::Duration;

use crate::amounts::new_retry;
use crate::codes;
use crate::compiler::{NoetlCompiler, TemplatePosition};
use crate::form::{NoetlRule, NoetlTask, TaskWork};
use crate::key_support;
use crate::tools::TaskInputs;

/// The maximum nesting depth of workbook tasks that name another.
const MAX_INLINE_DEPTH: u32 = 8;

/// The label of a task and its span.
type Label = (Arc<str>, Span);

/// The contents of a task's `spec`.
#[derive(Default)]
struct TaskSpec {
    rules: Vec<NoetlRule>,
    retry: Option<Retry>,
    timeout: Option<Amount<Duration>>,
}

impl<'a> NoetlCompiler<'a> {
    /// Compiles a step's `tool`: one mapping, or a list of tasks.
    pub(crate) fn tasks(&mut self, node: &SyntaxNode, given: Option<&SyntaxNode>) -> Vec<NoetlTask> {
        let Some(items) = node.as_list() else {
            return self.task(None, node, given).into_iter().collect();
        };
        if items.is_empty() {
            self.error(
                codes::BAD_VALUE,
                node.span,
                "the list of tasks is empty",
                "leave `tool` out of a step that only routes",
            );
        }
        let mut labels: BTreeMap<Arc<str>, Span> = BTreeMap::new();
        let mut tasks = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let Some((label, body)) = self.parse_label(index, item) else { continue };
            if let Some(first) = labels.insert(label.0.clone(), label.1) {
                let message = format!("there are two tasks called `{}` in this step", label.0);
                let problem = Diagnostic::error(codes::DUPLICATE, label.1, message);
                self.push(problem.with_label(first, "the other").with_hint("give one of them another name"));
            }
            let level = self.own_level();
            self.declare(level, &label.0);
            let step = self.context.step.as_deref().unwrap_or_default().to_owned();
            self.declared_names.labels.entry(step).or_default().insert(label.0.to_string());
            tasks.extend(self.task(Some(label), &body, given));
        }
        tasks
    }

    /// Parses `- fetch: {kind: …}`, `- {name: fetch, kind: …}`, or a task without a name.
    fn parse_label<'n>(&mut self, index: usize, item: &'n SyntaxNode) -> Option<(Label, Cow<'n, SyntaxNode>)> {
        let Some(entries) = item.as_map() else {
            let message = format!("a task must be an object, found {}", item.describe());
            self.error(codes::WRONG_KIND, item.span, message, "write `- fetch: {kind: http, …}`");
            return None;
        };
        if item.get("kind").is_none()
            && let [(key, body)] = entries
        {
            if body.as_map().is_none() {
                let message = format!("the task `{}` must be an object, found {}", key.text, body.describe());
                self.error(codes::WRONG_KIND, body.span, message, "give it a `kind` and its inputs");
                return None;
            }
            return Some(((key.text.as_str().into(), key.span), Cow::Borrowed(body)));
        }
        if let [(key, SyntaxNode { kind: SyntaxNodeKind::Null, .. }), siblings @ ..] = entries
            && siblings.iter().any(|(key, _)| key.text == "kind")
            && key.text != "kind"
        {
            let message = format!("`{}` is empty: the keys after it are siblings, not children", key.text);
            self.error(codes::WRONG_KIND, key.span, message, format!("indent the keys after it under `{}`", key.text));
            let body = SyntaxNode::new(item.span, SyntaxNodeKind::Map(siblings.to_vec()));
            return Some(((key.text.as_str().into(), key.span), Cow::Owned(body)));
        }
        match item.get("name") {
            Some(name) if item.get("kind").and_then(SyntaxNode::as_str) != Some("workbook") => {
                let text = expect_text(name, "`name`", &mut self.diagnostics)?;
                Some(((text.text.trim().into(), name.span), Cow::Borrowed(item)))
            }
            _ => Some(((format!("task_{index}").into(), item.span), Cow::Borrowed(item))),
        }
    }

    /// Returns whether a mock answers this task, or all tasks of its step.
    pub(crate) fn has_mock(&self, task: &str) -> bool {
        let names = self.context.step.as_deref().into_iter().chain([task]);
        names.into_iter().any(|name| is_mocked_step(&self.options.mocked_steps, name))
    }

    pub(crate) fn task(
        &mut self,
        label: Option<(Arc<str>, Span)>,
        node: &SyntaxNode,
        given: Option<&SyntaxNode>,
    ) -> Option<NoetlTask> {
        let what = label.as_ref().map_or("`tool`".to_owned(), |(label, _)| format!("the task `{label}`"));
        let mut object = ObjectReader::read(node, &what, &mut self.diagnostics)?;
        let Some(kind) = object.take("kind") else {
            let hint = "add `kind`: http, python, postgres, shell, noop, …";
            self.error(
                codes::MISSING_KEY,
                Span::new(node.span.start, node.span.start + 1),
                format!("{what} has no `kind`"),
                hint,
            );
            return None;
        };
        let kind_name = expect_text(kind, "`kind`", &mut self.diagnostics)?.text.trim().to_owned();
        if kind_name == "workbook" {
            return self.inline_workbook_task(label, &mut object, given);
        }
        let named = label.is_some();
        let (name, span) = label.unwrap_or_else(|| (kind_name.as_str().into(), kind.span));
        // For a function, `name` is the function's name, unless `function` is given.
        if kind_name != "rust" && (kind_name != "playbook" || named) {
            object.ignore(&["name"]);
        }
        object.ignore(&["desc", "description"]);
        if kind_name != "approval" {
            object.ignore(&["title"]);
        }
        self.old_task_keys(&mut object);
        let spec = object.take("spec").map(|spec| self.task_spec(spec)).unwrap_or_default();
        let mut rules = spec.rules;
        if let Some(eval) = object.take("eval") {
            rules = self.eval_rules(eval);
        }
        let writes = object.take("set").map(|set| self.scoped_writes(set)).unwrap_or_default();
        let selection = self.selection(&mut object);
        let select = selection.map(|selection| self.selection_expression(&selection));
        let is_mocked = self.has_mock(&name);
        let mut inputs = TaskInputs { object, step_input: given, span: node.span, timeout: None, is_mocked };
        self.context.position = TemplatePosition::Input;
        let work = self.work(&kind_name, kind.span, &mut inputs);
        self.context.position = TemplatePosition::Elsewhere;
        let timeout = inputs.timeout.or(spec.timeout);
        inputs.object.finish(codes::UNKNOWN_KEY, &format!("a task of kind `{kind_name}`"), &mut self.diagnostics);
        let task = NoetlTask::new(name, work?, span);
        Some(NoetlTask { labelled: named, rules, retry: spec.retry, timeout, writes, select, ..task })
    }

    /// Reports spellings of earlier versions, which would otherwise be lost silently.
    fn old_task_keys(&mut self, object: &mut ObjectReader) {
        for (old, hint) in [
            ("pipe", "a list of tasks under `tool` is the pipeline: write `tool: [{fetch: {…}}, {save: {…}}]`"),
            ("case", "write rules on the task: `eval: [{expr: …, do: …}]`"),
            ("on_error", "write a rule: `eval: [{expr: \"{{ outcome.status == 'error' }}\", do: …}]`"),
            ("on_success", "write a rule: `eval: [{else: {do: …}}]`"),
            ("retry", "write a rule: `eval: [{expr: \"{{ outcome.status == 'error' }}\", do: retry, attempts: 3}]`"),
            ("sink", "add a task after this one: a sink is a task that writes"),
            ("next", "`next` belongs to the step, at the level of `tool`"),
            ("loop", "`loop` belongs to the step, at the level of `tool`"),
        ] {
            if object.peek(old).is_some()
                && let Some((key, _)) = object.take_entry(old)
            {
                self.error(codes::OLD_SPELLING, key.span, format!("a task has no `{old}`"), hint);
            }
        }
    }

    fn task_spec(&mut self, node: &SyntaxNode) -> TaskSpec {
        let Some(mut spec) = ObjectReader::read(node, "`spec`", &mut self.diagnostics) else {
            return TaskSpec::default();
        };
        let timeout = spec.take("timeout").and_then(|node| self.timeout(node));
        let rules = spec.take("policy").map(|policy| self.policy_rules(policy)).unwrap_or_default();
        let retry = spec.take("retry").and_then(|node| self.spec_retry(node));
        key_support::check_keys(self, spec, &key_support::TASK_SPEC, "the `spec` of a task");
        TaskSpec { rules, retry, timeout }
    }

    /// Reads seconds, or `{connect, read}`, which are added up; if one of them is computed, it alone is the timeout.
    pub(crate) fn timeout(&mut self, node: &SyntaxNode) -> Option<Amount<Duration>> {
        let SyntaxNodeKind::Map(_) = &node.kind else { return self.duration(node, "timeout") };
        let mut object = ObjectReader::read(node, "`timeout`", &mut self.diagnostics)?;
        let parts = [object.take("connect"), object.take("read")];
        object.finish(codes::UNKNOWN_KEY, "`timeout`", &mut self.diagnostics);
        let mut total = Duration(0);
        for part in parts.into_iter().flatten() {
            match self.duration(part, "timeout")? {
                Amount::Fixed(time) => total = Duration(total.0 + time.0),
                computed => return Some(computed),
            }
        }
        Some(Amount::Fixed(total))
    }

    /// Reads the tool's own retries, which happen before any rule sees an outcome.
    fn spec_retry(&mut self, node: &SyntaxNode) -> Option<Retry> {
        if node.as_map().is_none() {
            let message = format!("`retry` of a task's `spec` must be an object, found {}", node.describe());
            let hint = "write `retry: {attempts: 3, delay: 1, backoff: exponential}`";
            self.error(codes::WRONG_KIND, node.span, message, hint);
            return None;
        }
        let mut object = ObjectReader::read(node, "`retry`", &mut self.diagnostics)?;
        let attempts = object.take("attempts").or(object.take("max_attempts"));
        let delay = object.take("delay").or(object.take("initial_delay"));
        let (backoff, factor) = (object.take("backoff"), object.take("backoff_multiplier"));
        object.finish(codes::UNKNOWN_KEY, "`retry`", &mut self.diagnostics);
        let mut retry = self.retry_policy(attempts, backoff, delay);
        if let Some(factor) = factor.and_then(|node| self.factor(node)) {
            retry = new_retry(retry.attempts, retry.backoff.interval, Growth::Exponential(factor));
        }
        Some(retry)
    }

    pub(crate) fn factor(&mut self, node: &SyntaxNode) -> Option<f64> {
        let number = match &node.kind {
            SyntaxNodeKind::Number(number) => number.as_f64().filter(|factor| (1.0..=100.0).contains(factor)),
            _ => None,
        };
        if number.is_none() {
            let message = format!("`backoff_multiplier` is a number from 1 to 100, found {}", node.describe());
            self.error(codes::BAD_VALUE, node.span, message, "such as 2.0");
        }
        number
    }

    /// Compiles a task of the workbook in place, with these inputs.
    fn inline_workbook_task(
        &mut self,
        label: Option<(Arc<str>, Span)>,
        call: &mut ObjectReader,
        given: Option<&SyntaxNode>,
    ) -> Option<NoetlTask> {
        let name = match (call.take("task"), call.take("name")) {
            (Some(task), _) => Some(task),
            (None, name) => name,
        };
        let Some(name) = name else {
            let hint = "add `name` with a task of the workbook";
            self.error(codes::MISSING_KEY, call.span(), "this task does not name a task of the workbook", hint);
            return None;
        };
        let text = expect_text(name, "`name`", &mut self.diagnostics)?.text.trim();
        let Some(tool) = self.workbook.get(text).cloned() else {
            let names = || self.workbook.keys().map(String::as_str);
            let hint = windlass_syntax::did_you_mean(text, names()).unwrap_or_else(|| match self.workbook.is_empty() {
                true => "add it under `workbook`, next to `workflow`".to_owned(),
                false => format!("the workbook has {}", windlass_syntax::format_names(names())),
            });
            self.error(codes::UNKNOWN_WORKBOOK, name.span, format!("the workbook has no task `{text}`"), hint);
            return None;
        };
        if self.context.inlined > MAX_INLINE_DEPTH {
            let hint = "name a task that has a tool of its own";
            self.error(codes::CONFLICT, name.span, "tasks of the workbook refer to each other in a cycle", hint);
            return None;
        }
        let label = label.unwrap_or_else(|| (text.into(), name.span));
        let mut own: Vec<(SpannedKey, SyntaxNode)> =
            call.unread_entries().map(|(key, node)| (key.clone(), node.clone())).collect();
        call.take_rest();
        // The workbook's values are defaults: those of the step override them, and those of the task override both.
        match (own.iter_mut().find(|(key, _)| is_input(&key.text)), given) {
            (Some((_, mine)), Some(given)) => *mine = overlay_object(given, mine),
            (None, Some(given)) => own.push((SpannedKey { text: "input".to_owned(), span: given.span }, given.clone())),
            (_, None) => {}
        }
        let inherited = tool.as_map().unwrap_or_default();
        for (key, node) in inherited {
            match own
                .iter_mut()
                .find(|(mine, _)| mine.text == key.text || (is_input(&mine.text) && is_input(&key.text)))
            {
                Some((_, mine)) if is_input(&key.text) => *mine = overlay_object(node, mine),
                Some(_) => {}
                None => own.push((key.clone(), node.clone())),
            }
        }
        let merged = SyntaxNode::new(call.span(), SyntaxNodeKind::Map(own));
        self.context.inlined += 1;
        let task = self.task(Some(label), &merged, None);
        self.context.inlined -= 1;
        task
    }

    /// Returns a task that only evaluates a template.
    pub(crate) fn evaluate_task(&mut self, label: &str, text: impl Into<String>, span: Span) -> NoetlTask {
        let value = self.synthetic_template(text, windlass_value::ExpressionMode::Value, span);
        NoetlTask { hidden: true, ..NoetlTask::new(label, TaskWork::Evaluate(value), span) }
    }
}

fn is_input(key: &str) -> bool {
    matches!(key, "input" | "args")
}

/// Overlays one object on another: its keys take precedence.
pub(crate) fn overlay_object(under: &SyntaxNode, over: &SyntaxNode) -> SyntaxNode {
    let (Some(below), Some(above)) = (under.as_map(), over.as_map()) else { return over.clone() };
    let left = below.iter().filter(|(key, _)| !above.iter().any(|(other, _)| other.text == key.text));
    SyntaxNode::new(over.span, SyntaxNodeKind::Map(left.chain(above).cloned().collect()))
}
