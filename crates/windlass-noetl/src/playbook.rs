//! The file around the steps: its name, its inputs, its workbook, and the Petri net of its steps.

use std::collections::BTreeSet;

use windlass_core::plan::{Net, NetEnd, Node as PlanNode, NodeKind, Parameter, Place, VariableKind};
use windlass_dialect::{DiagnosticSink, LabelProblemCodes, label_entries, source_span};
use windlass_syntax::{
    Diagnostic, ObjectReader, Span, SpannedKey, SyntaxNode, SyntaxNodeKind, expect_list, expect_text, to_value,
};

use windlass_triggers::{TriggerExtension, TriggerProblemCodes};
use windlass_value::ExpressionMode;

use crate::codes;
use crate::compiler::{NoetlCompiler, TemplateContext};
use crate::form::{NoetlStep, StepJoin};
use crate::key_support;
use crate::workload::has_template;

/// Reports whether a tree looks like a playbook, valid or not.
pub(crate) fn recognise(tree: &SyntaxNode) -> bool {
    let text = |name: &str| tree.get(name).and_then(SyntaxNode::as_str);
    let steps = tree.get("workflow").and_then(SyntaxNode::as_list).unwrap_or_default();
    text("apiVersion").is_some_and(|version| version.starts_with("noetl.io/"))
        || text("kind").is_some_and(|kind| kind == "Playbook")
        || steps.iter().any(|step| step.get("step").is_some())
}

const TRIGGERS: TriggerProblemCodes = TriggerProblemCodes {
    unknown_key: codes::UNKNOWN_KEY,
    missing_key: codes::MISSING_KEY,
    bad_value: codes::BAD_VALUE,
    conflict: codes::CONFLICT,
    over_limit: codes::OVER_LIMIT,
};

const LABELS: LabelProblemCodes = LabelProblemCodes { bad_value: codes::BAD_VALUE, over_limit: codes::OVER_LIMIT };

/// The contents of `executor`.
#[derive(Default)]
struct Executor<'n> {
    entry: Option<&'n SyntaxNode>,
}

impl<'a> NoetlCompiler<'a> {
    pub(crate) fn playbook(&mut self, tree: &'a SyntaxNode) {
        let root = self.plan.add_node(PlanNode::new("playbook", "playbook", None, NodeKind::Net(empty_net())));
        self.plan.nodes[0].hidden = true;
        self.plan.nodes[0].span = source_span(tree.span);
        self.plan.root = root;
        if !recognise(tree) {
            let hint = "a playbook has `apiVersion: noetl.io/v2`, `kind: Playbook` and a `workflow` of steps";
            self.error(codes::NOT_NOETL, Span::at(tree.span.start), "this is not a playbook", hint);
            return;
        }
        let Some(mut object) = ObjectReader::read(tree, "a playbook", &mut self.diagnostics) else { return };
        self.versions(&mut object);
        self.metadata(&mut object);
        if let Some(node) = object.take("workload") {
            self.workload(node);
        }
        if let Some(node) = object.take("vars") {
            self.root_vars(node);
        }
        if let Some(node) = object.take("workbook") {
            self.workbook(node);
        }
        if let Some(node) = object.take("keychain").filter(|node| !matches!(node.kind, SyntaxNodeKind::Null)) {
            self.keychain(node);
        }
        let executor = object.take("executor").map(|node| self.executor(node)).unwrap_or_default();
        if let Some(node) = object.take("x-windlass") {
            self.extensions(node);
        }
        let workflow = object.take("workflow");
        object.finish(codes::UNKNOWN_KEY, "a playbook", &mut self.diagnostics);
        match workflow {
            Some(workflow) => self.workflow(workflow, &executor),
            None => {
                let hint = "add `workflow` with a list of steps";
                self.error(codes::MISSING_KEY, Span::at(tree.span.start), "this playbook has no `workflow`", hint);
            }
        }
    }

    /// Reads `x-windlass`, this engine's extensions of the format.
    fn extensions(&mut self, node: &SyntaxNode) {
        let Some(mut object) = ObjectReader::read_exact(node, "`x-windlass`", &mut self.diagnostics) else { return };
        let triggers = TriggerExtension { schedule: object.take("schedule"), webhook: object.take("webhook") };
        if let Some(node) = object.take("labels") {
            self.labels(node);
        }
        object.finish(codes::UNKNOWN_KEY, "`x-windlass`", &mut self.diagnostics);
        self.plan.triggers = triggers.triggers(&self.options.limits, TRIGGERS, &mut self.diagnostics);
    }

    /// Compiles the labels of runs. They are computed when a run is created, like the defaults of the workload.
    fn labels(&mut self, node: &SyntaxNode) {
        for (name, value) in label_entries(node, &self.options.limits, LABELS, &mut self.diagnostics) {
            let computed = self.at_start(value);
            self.plan.labels.push((name, computed));
        }
    }

    fn versions(&mut self, object: &mut ObjectReader) {
        if let Some(node) = object.take("kind")
            && node.as_str() != Some("Playbook")
        {
            let found = node.as_str().unwrap_or_default().to_owned();
            let message = format!("the kind `{found}` is not supported");
            self.error(codes::NOT_SUPPORTED, node.span, message, "a definition is a `Playbook`");
        }
        if let Some(node) = object.take("apiVersion")
            && !node.as_str().is_some_and(|version| version.starts_with("noetl.io/"))
        {
            let message = format!("`apiVersion` is {}", node.describe());
            self.error(codes::BAD_VALUE, node.span, message, "write noetl.io/v2");
        }
    }

    fn metadata(&mut self, object: &mut ObjectReader) {
        let mut name = None;
        if let Some(node) = object.take("metadata") {
            name = node.get("name").and_then(SyntaxNode::as_str).map(str::to_owned);
            if ObjectReader::read(node, "`metadata`", &mut self.diagnostics).is_some() {
                self.plan.metadata = to_value(node);
            }
        }
        let other = object.take("name").and_then(SyntaxNode::as_str).map(str::to_owned);
        object.ignore(&["path", "version", "description"]);
        let name = name.or(other).or_else(|| self.options.name.clone()).filter(|name| !name.trim().is_empty());
        let name = name.unwrap_or_else(|| "playbook".to_owned());
        self.plan.name = name.as_str().into();
        self.plan.nodes[0].name = name.into();
    }

    /// Reads the variables of the whole run, with their initial values.
    fn root_vars(&mut self, node: &SyntaxNode) {
        let Some(object) = ObjectReader::read(node, "`vars`", &mut self.diagnostics) else { return };
        self.run_vars = object.unread_entries().map(|(key, _)| key.text.clone()).collect();
        let parameter = Parameter::new("vars", VariableKind::Any);
        let parameter = match has_template(node) {
            true => Parameter { computed: Some(self.at_start(node)), merge: true, ..parameter },
            false => Parameter { default: Some(to_value(node)), merge: true, ..parameter },
        };
        self.plan.parameters.push(parameter);
    }

    fn workbook(&mut self, node: &SyntaxNode) {
        let Some(items) = expect_list(node, "`workbook`", &mut self.diagnostics) else { return };
        for item in items {
            let Some(mut object) = ObjectReader::read(item, "a workbook task", &mut self.diagnostics) else { continue };
            let (name, tool) = (object.take("name"), object.take("tool"));
            object.ignore(&["desc", "description", "title", "labels"]);
            if let Some((key, _)) = object.take_entry("assert") {
                let hint = "check with a rule: `eval: [{expr: …, do: fail}]`";
                self.no_effect(key.span, "`assert` has no effect", hint);
            }
            let tool = tool.map(|tool| match tool.as_str() {
                // A kind alone has its inputs next to it.
                Some(_) => {
                    let kind = SpannedKey { text: "kind".to_owned(), span: tool.span };
                    let siblings = object.unread_entries().map(|(key, node)| (key.clone(), node.clone()));
                    let inputs = std::iter::once((kind, tool.clone())).chain(siblings).collect();
                    object.take_rest();
                    SyntaxNode::new(item.span, SyntaxNodeKind::Map(inputs))
                }
                None => tool.clone(),
            });
            object.finish(codes::UNKNOWN_KEY, "a workbook task", &mut self.diagnostics);
            if let Some(tool) = tool.as_ref().filter(|tool| tool.as_map().is_none()) {
                let message = format!("the tool of a workbook task is one object, found {}", tool.describe());
                self.error(codes::WRONG_KIND, tool.span, message, "a step has several tasks: list them there");
                continue;
            }
            let (Some(name), Some(tool)) = (name, tool) else {
                let hint = "write `- name: …` with `tool: {kind: …}`";
                self.error(codes::MISSING_KEY, item.span, "a workbook task needs `name` and `tool`", hint);
                continue;
            };
            let Some(text) = expect_text(name, "`name`", &mut self.diagnostics) else { continue };
            if self.workbook.insert(text.text.trim().to_owned(), tool).is_some() {
                let message = format!("the workbook has two tasks `{}`", text.text);
                self.error(codes::DUPLICATE, name.span, message, "give one of them another name");
            }
        }
    }

    fn executor(&mut self, node: &'a SyntaxNode) -> Executor<'a> {
        let mut found = Executor::default();
        let Some(mut object) = ObjectReader::read(node, "`executor`", &mut self.diagnostics) else { return found };
        object.ignore(&["profile", "version", "requires"]);
        if let Some(spec) = object.take("spec")
            && let Some(mut spec) = ObjectReader::read(spec, "`executor.spec`", &mut self.diagnostics)
        {
            found.entry = spec.take("entry_step");
            key_support::check_keys(self, spec, &key_support::EXECUTOR_SPEC, "`executor.spec`");
        }
        object.finish(codes::UNKNOWN_KEY, "`executor`", &mut self.diagnostics);
        found
    }

    fn workflow(&mut self, node: &'a SyntaxNode, executor: &Executor) {
        let Some(items) = expect_list(node, "`workflow`", &mut self.diagnostics) else { return };
        if items.is_empty() {
            self.error(codes::BAD_VALUE, node.span, "the workflow has no steps", "add `- step: start`");
            return;
        }
        let max = self.limits().max_definition_actions;
        if items.len() > max {
            let message = format!("the workflow has {} steps; the limit is {max}", items.len());
            self.error(codes::OVER_LIMIT, node.span, message, "raise `limits.max_definition_actions` in windlass.toml");
        }
        self.declare_steps(items);
        let entry = self.entry(executor, items);
        if let Some(entry) = &entry {
            // The first token carries the run's input.
            self.record_args(entry, None);
        }
        let steps: Vec<NoetlStep> = items.iter().filter_map(|item| self.step(item)).collect();
        self.context = TemplateContext::default();
        let Some(entry) = entry else { return };
        self.warn_unreachable_steps(&steps, &entry);
        self.net(steps, &entry);
    }

    fn entry(&mut self, executor: &Executor, items: &[SyntaxNode]) -> Option<String> {
        if let Some(node) = executor.entry {
            let name = expect_text(node, "`entry_step`", &mut self.diagnostics)?.text.trim();
            return self.find_step(name, node.span).map(|name| name.to_string());
        }
        if self.steps.contains_key("start") {
            return Some("start".to_owned());
        }
        items.iter().find_map(|item| item.get("step").and_then(SyntaxNode::as_str)).map(|name| name.trim().to_owned())
    }

    fn warn_unreachable_steps(&mut self, steps: &[NoetlStep], entry: &str) {
        let mut reached: BTreeSet<&str> = BTreeSet::from([entry]);
        let mut open = vec![entry];
        while let Some(name) = open.pop() {
            let arcs = steps.iter().filter(|step| *step.name == *name).flat_map(|step| &step.arcs);
            open.extend(arcs.map(|arc| &*arc.step).filter(|to| reached.insert(to)));
        }
        let unreached: Vec<_> = steps.iter().filter(|step| !reached.contains(&*step.name)).collect();
        for step in unreached {
            let span = self.steps.get(&*step.name).copied().unwrap_or(step.span);
            let message = format!("no arc leads to the step `{}`", step.name);
            self.warning(codes::NEVER_REACHED, span, message, format!("add `- step: {}` to some `next`", step.name));
        }
    }

    fn net(&mut self, steps: Vec<NoetlStep>, entry: &str) {
        if let Some(step) = steps.iter().find(|step| step.join == StepJoin::All && *step.name == *entry) {
            let message = format!("the first step `{entry}` cannot wait for others");
            let problem = Diagnostic::error(codes::CONFLICT, step.span, message);
            self.push(problem.with_hint("leave `join` out, or make another step the first"));
        }
        let joins = self.meetings(&steps, entry);
        self.check_joins(&steps, &joins);
        let root = self.plan.root;
        let places: Vec<Place> = steps.into_iter().map(|step| self.place(step, root, &joins)).collect();
        // The first token carries the run's input, merged over the defaults.
        let input = (!self.plan.parameters.is_empty())
            .then(|| self.synthetic_template("{{ workload }}", ExpressionMode::Value, Span::at(0)));
        let net = Net { places, start: entry.into(), input, ..empty_net() };
        self.plan.nodes[root.0 as usize].kind = NodeKind::Net(net);
    }
}

/// Returns the kind of a token for a step at which tokens meet: its source and its target. The kind of any other
/// token is the name of its target.
pub(crate) fn token_kind(from: &str, to: &str) -> String {
    format!("{from}>{to}")
}

fn empty_net() -> Net {
    Net { internal_only: true, ..Net::new(Vec::new(), "start", NetEnd::Quiet) }
}
