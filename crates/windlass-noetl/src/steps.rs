//! One step: its spelling and its parts.

use std::sync::Arc;

use windlass_core::plan::{Amount, ExprId};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, ObjectReader, Span, SyntaxNode, SyntaxNodeKind, expect_text};
use windlass_value::{Duration, ExpressionMode};

use crate::codes;
use crate::compiler::{NoetlCompiler, TemplateContext, TemplatePosition};
use crate::failure_arcs::FailureWrites;
use crate::form::{NoetlLoop, NoetlRule, NoetlStep, NoetlTask, RuleAction, StepJoin};
use crate::key_support;
use crate::retry::REASON;
use crate::tools::TaskInputs;

/// The spellings of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StepForm {
    /// No key is specific to a spelling.
    Plain,
    Eval,
    V10,
    Retry,
}

impl StepForm {
    fn name(self) -> &'static str {
        match self {
            StepForm::Plain => "any form",
            StepForm::Eval => "the canonical form",
            StepForm::V10 => "the v10 form",
            StepForm::Retry => "the retry form",
        }
    }
}

/// The contents of a step's `spec`.
#[derive(Default)]
struct StepSpec {
    inclusive: Option<bool>,
    timeout: Option<Amount<Duration>>,
    join: StepJoin,
    admit: Option<ExprId>,
}

/// Keys that are inputs of a tool, so that a step that has them needs one.
const TOOL_INPUTS: [&str; 12] =
    ["kind", "url", "endpoint", "method", "command", "query", "statement", "code", "cmds", "params", "headers", "path"];

impl<'a> NoetlCompiler<'a> {
    pub(crate) fn step(&mut self, node: &'a SyntaxNode) -> Option<NoetlStep> {
        let mut object = ObjectReader::read(node, "a step", &mut self.diagnostics)?;
        let name: Arc<str> = object.take("step").and_then(SyntaxNode::as_str)?.trim().into();
        self.context = TemplateContext { step: Some(name.clone()), ..TemplateContext::default() };
        object.ignore(&["desc", "description", "title", "labels", "tags"]);
        self.old_step_keys(&mut object);
        let form = self.detect_form(node);
        let when = object.take_entry("when");
        let spec = object.take("spec").map(|spec| self.step_spec(spec)).unwrap_or_default();
        let guard = match (when, spec.admit) {
            (Some((key, _)), Some(_)) => {
                let hint = "keep one of the two";
                self.error(codes::MIXED, key.span, "`when` and `spec.policy.admit` exclude each other", hint);
                None
            }
            (Some((_, when)), None) => {
                self.context.position = TemplatePosition::Guard;
                let guard = self.expression(when, ExpressionMode::Condition);
                self.context.position = TemplatePosition::Elsewhere;
                Some(guard)
            }
            (None, admit) => admit,
        };
        let next = object.take("next");
        let (tool, looping) = (object.take_entry("tool"), object.take_entry("loop"));
        let (retry, sink, set) = (object.take_entry("retry"), object.take("sink"), object.take_entry("set"));
        let vars = object.take_entry("vars");
        let selection = self.selection(&mut object);
        let looped = looping.and_then(|(_, node)| self.looping(node, form));
        let (tool_node, retry_node) = (tool.map(|(_, tool)| tool), retry.map(|(_, retry)| retry));
        let (mut tasks, mut object) = self.body(object, tool_node, retry_node, node.span);
        if tool.is_none() {
            self.report_missing_tool(
                &mut object,
                [looping, retry].into_iter().flatten().map(|(key, _)| key.span).next(),
                node,
            );
        }
        let misplaced: Vec<_> =
            object.unread_entries().filter(|(key, _)| TOOL_INPUTS.contains(&key.text.as_str())).collect();
        for (key, _) in &misplaced {
            let message = format!("`{}` is an input of the tool, not of the step", key.text);
            self.error(codes::UNKNOWN_KEY, key.span, message, "move it under `tool`");
        }
        if !misplaced.is_empty() {
            object.take_rest();
        }
        object.finish(codes::UNKNOWN_KEY, "a step", &mut self.diagnostics);
        let looped = looped.map(|looped| self.with_entry(looped, form));
        self.context.in_iteration = false;
        let mut after = Vec::new();
        after.extend(selection.map(|selection| self.selection_task(&selection)));
        after.extend(sink.and_then(|sink| self.sink("sink", sink)));
        after.extend(set.and_then(|(_, writes)| self.set_task(writes, false)));
        after.extend(vars.and_then(|(_, writes)| self.set_task(writes, true)));
        self.context.position = TemplatePosition::Arc;
        self.failure_writes = FailureWrites::collect(tasks.iter().chain(&after));
        let next = next.map(|next| self.next(next)).unwrap_or_default();
        let inclusive = next.inclusive.or(spec.inclusive).unwrap_or(false);
        self.note_failure_writes(&mut tasks, &next.arcs);
        self.note_failure_writes(&mut after, &next.arcs);
        self.unreachable_arcs(&next.arcs, inclusive);
        if !tasks.is_empty() {
            self.warn_blind_arcs(&next.arcs);
        }
        Some(NoetlStep {
            name,
            span: node.span,
            guard,
            form,
            join: spec.join,
            timeout: spec.timeout,
            inclusive,
            looping: looped,
            tasks,
            after,
            arcs: next.arcs,
        })
    }

    fn body(
        &mut self,
        mut object: ObjectReader<'a>,
        tool: Option<&'a SyntaxNode>,
        retry: Option<&'a SyntaxNode>,
        span: Span,
    ) -> (Vec<NoetlTask>, ObjectReader<'a>) {
        let Some(tool) = tool else { return (Vec::new(), object) };
        if let Some(kind) = tool.as_str() {
            let is_mocked = self.has_mock(kind);
            let mut inputs = TaskInputs { object, step_input: None, span, timeout: None, is_mocked };
            let tasks = self.retry_tasks(tool, retry, &mut inputs);
            return (tasks, inputs.object);
        }
        if let Some(retry) = retry {
            let hint = "write `tool: http` with its inputs next to it, or a rule on the task";
            self.error(codes::MIXED, retry.span, "`retry` requires a tool that is named by a text", hint);
        }
        let given = match (object.take("input"), object.take("args")) {
            (Some(input), _) => Some(input),
            (None, args) => args,
        };
        (self.tasks(tool, given), object)
    }

    /// Reports a missing tool. A step without a tool only routes; one with keys that only tools have has lost its tool.
    fn report_missing_tool(&mut self, object: &mut ObjectReader, needing: Option<Span>, node: &SyntaxNode) {
        let input =
            object.unread_entries().find(|(key, _)| TOOL_INPUTS.contains(&key.text.as_str())).map(|(key, _)| key.span);
        if let Some(span) = needing.or(input) {
            let hint = "add `tool: {kind: …}` and put the inputs inside";
            let problem = Diagnostic::error(codes::MISSING_KEY, span, "this step has no `tool`");
            self.push(problem.with_label(Span::new(node.span.start, node.span.start + 1), "the step").with_hint(hint));
            object.take_rest();
        }
    }

    /// Sets the entry of an iteration in the retry form, which contains its item and its status.
    fn with_entry(&mut self, mut looping: NoetlLoop, form: StepForm) -> NoetlLoop {
        if form == StepForm::Retry {
            let item = looping.item.as_ref().map(|item| format!("'{item}': iter.{item}, ")).unwrap_or_default();
            let entry = |name: &str, value: &str| format!("{{{item}'status': _status, '{name}': {value}}}");
            let (mut good, bad) = (entry("data", "output"), entry("error", "error"));
            let step = self.context.step.as_deref().unwrap_or_default();
            // The entry of an iteration whose continuation ended early contains the reason.
            if self.declared_names.iteration.get(step).is_some_and(|names| names.contains(REASON)) {
                let cut = format!("{}, 'reason': iter.{REASON}}}", good.trim_end_matches('}'));
                good = format!("({cut} if iter.{REASON} is defined else {good})");
            }
            let text = format!("{{{{ {good} if _status == 'success' else {bad} }}}}");
            looping.entry = Some(self.synthetic_template(text, ExpressionMode::Value, looping.span));
        }
        looping
    }

    /// Compiles `set` of a step, which runs after its body and before its arcs.
    fn set_task(&mut self, node: &SyntaxNode, plain: bool) -> Option<NoetlTask> {
        let writes = match plain {
            true => {
                let object = ObjectReader::read(node, "`vars`", &mut self.diagnostics)?;
                object.unread_entries().filter_map(|(key, value)| self.vars_write(key, &key.text, value)).collect()
            }
            false => self.scoped_writes(node),
        };
        let mut task = self.evaluate_task("set", "{{ _prev }}", node.span);
        let rule = NoetlRule { writes, ..NoetlRule::new(None, RuleAction::Continue) };
        task.rules.push(rule);
        Some(task)
    }

    fn step_spec(&mut self, node: &SyntaxNode) -> StepSpec {
        let Some(mut object) = ObjectReader::read(node, "`spec`", &mut self.diagnostics) else {
            return StepSpec::default();
        };
        let mut spec = StepSpec {
            inclusive: object.take("next_mode").and_then(|node| self.next_mode(node)),
            timeout: object.take("timeout").and_then(|node| self.duration(node, "timeout")),
            ..StepSpec::default()
        };
        if let Some(join) = object.take("join") {
            spec.join = self.step_join(join);
        }
        if let Some(policy) = object.take("policy")
            && let Some(mut policy) = ObjectReader::read(policy, "`policy`", &mut self.diagnostics)
        {
            spec.admit = policy.take("admit").and_then(|admit| self.admit(admit));
            if let Some((key, _)) = policy.take_entry("rules") {
                let hint = "put them under `spec` of the task";
                self.error(codes::OLD_SPELLING, key.span, "a step has no `rules`; only tasks do", hint);
            }
            key_support::check_keys(self, policy, &key_support::STEP_POLICY, "the `policy` of a step");
        }
        key_support::check_keys(self, object, &key_support::STEP_SPEC, "the `spec` of a step");
        spec
    }

    fn step_join(&mut self, node: &SyntaxNode) -> StepJoin {
        match node.as_str() {
            Some("all") => StepJoin::All,
            Some("none") => StepJoin::None,
            _ => {
                let message = format!("`join` is {}", node.describe());
                let hint =
                    "`all` waits for a token of every step that leads here; with `none` each token runs the step";
                self.error(codes::BAD_VALUE, node.span, message, hint);
                StepJoin::Unset
            }
        }
    }

    fn old_step_keys(&mut self, object: &mut ObjectReader) {
        for (old, hint) in [
            ("pipe", "a list of tasks under `tool` is the pipeline: write `tool: [{fetch: {…}}, {save: {…}}]`"),
            (
                "case",
                "write rules on the tasks (`eval: [{expr: …, do: …}]`) and conditions on arcs (`next: [{step: …, when: …}]`)",
            ),
            ("cond", "a step's condition is `when`"),
            (
                "on_error",
                "write `retry: [{when: \"{{ error.status >= 500 }}\", then: {…}}]`, or an arc with `when: \"{{ event.name == 'step.failed' }}\"`",
            ),
            ("on_success", "write an arc: `next: [{step: …}]`"),
            ("eval", "`eval` belongs to a task, under `tool`"),
            ("type", "the kind of work is `tool: {kind: …}`"),
            ("call", "the kind of work is `tool: {kind: …}`"),
            ("steps", "steps are a flat list under `workflow`"),
        ] {
            if object.peek(old).is_some()
                && let Some((key, _)) = object.take_entry(old)
            {
                self.error(codes::OLD_SPELLING, key.span, format!("a step has no `{old}`"), hint);
            }
        }
    }

    /// Detects the spelling from the keys; a second spelling in the same step is rejected.
    fn detect_form(&mut self, node: &SyntaxNode) -> StepForm {
        let mut marks: Vec<(StepForm, &'static str, Span)> = Vec::new();
        let mut mark = |form, name, found: Option<&SyntaxNode>| marks.extend(found.map(|node| (form, name, node.span)));
        let tool = node.get("tool");
        mark(StepForm::Retry, "tool: <name>", tool.filter(|tool| tool.as_str().is_some()));
        mark(StepForm::Retry, "retry", node.get("retry"));
        mark(StepForm::Retry, "sink", node.get("sink"));
        for name in ["collection", "element"] {
            mark(StepForm::Retry, "loop.collection", node.get("loop").and_then(|looping| looping.get(name)));
        }
        mark(StepForm::Eval, "spec.next_mode", node.get("spec").and_then(|spec| spec.get("next_mode")));
        mark(StepForm::V10, "spec.policy", node.get("spec").and_then(|spec| spec.get("policy")));
        mark(StepForm::V10, "set", node.get("set"));
        mark(StepForm::V10, "next.arcs", node.get("next").and_then(|next| next.get("arcs")));
        for task in bodies(tool) {
            mark(StepForm::Eval, "eval", task.get("eval"));
            mark(StepForm::V10, "spec.policy", task.get("spec").and_then(|spec| spec.get("policy")));
            mark(StepForm::V10, "set", task.get("set"));
        }
        let Some((form, name, span)) = marks.first().copied() else { return StepForm::Plain };
        if let Some((other, second, at)) = marks.iter().find(|(other, ..)| *other != form) {
            let message = format!("`{second}` belongs to {}, `{name}` to {}", other.name(), form.name());
            let problem = Diagnostic::error(codes::MIXED, *at, message);
            self.push(
                problem
                    .with_label(span, "the other")
                    .with_hint("write one step in one form; steps of a file may differ"),
            );
        }
        form
    }

    /// Collects the names of all steps before any is compiled.
    pub(crate) fn declare_steps(&mut self, items: &[SyntaxNode]) {
        for item in items {
            let Some(entries) = item.as_map() else {
                let message = format!("a step must be an object, found {}", item.describe());
                self.error(codes::WRONG_KIND, item.span, message, "write `- step: name`");
                continue;
            };
            let Some(node) = item.get("step") else {
                let at = entries.first().map_or(item.span, |(key, _)| key.span);
                self.error(codes::MISSING_KEY, at, "this step has no name", "add `step: name`");
                continue;
            };
            let Some(name) = expect_text(node, "`step`", &mut self.diagnostics).map(|text| text.text.trim()) else {
                continue;
            };
            if let Some(first) = self.steps.insert(name.to_owned(), node.span) {
                let problem = Diagnostic::error(codes::DUPLICATE, node.span, format!("there are two steps `{name}`"));
                self.push(problem.with_label(first, "the other").with_hint("give one of them another name"));
            }
        }
    }
}

/// Returns the mappings that contain tasks.
fn bodies(tool: Option<&SyntaxNode>) -> Vec<&SyntaxNode> {
    match tool.map(|tool| (tool, &tool.kind)) {
        Some((tool, SyntaxNodeKind::Map(_))) => vec![tool],
        Some((_, SyntaxNodeKind::List(items))) => {
            let body = |item: &'_ SyntaxNode| -> bool { item.get("kind").is_none() };
            items
                .iter()
                .map(|item| match item.as_map() {
                    Some([(_, inner)]) if body(item) => inner,
                    _ => item,
                })
                .collect()
        }
        _ => Vec::new(),
    }
}
