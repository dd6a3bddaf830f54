//! Work under a name that the operator configures: `activity`, `actor`, and `ai`.

use std::sync::Arc;

use windlass_core::Status;
use windlass_core::plan::{
    Action, Branch, BranchCase, BranchTest, Effect, ExprId, NodeId, NodeKind, Pipeline, ToolName,
};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{
    Span, SpannedKey, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_text, format_names, to_value,
};
use windlass_value::{ExpressionMode, Value};

use crate::actions::CurrentAction;
use crate::calls::call_input;
use crate::compiler::LoomCompiler;
use crate::expr::{self, ExprLanguage};
use crate::types::ActionType;
use crate::{ActivityTarget, RegisteredNames, codes};

const NAMES: &[&str] = &["activityName", "activityType", "actorType"];

/// Inputs of a model call.
const MODEL_INPUTS: &[&str] =
    &["prompt", "systemPrompt", "messages", "model", "temperature", "topP", "maxTokens", "responseFormat", "accept"];

impl LoomCompiler<'_> {
    pub(crate) fn activity(&mut self, current: &mut CurrentAction, kind: ActionType) -> Option<NodeKind> {
        let name = current.fields.take_any(NAMES, &mut self.diagnostics);
        self.effect_retry(current);
        let input = self.activity_input(current);
        let Some((key, node)) = name else {
            let missing = if kind == ActionType::Actor { "actorType" } else { "activityName" };
            current.fields.missing(missing, &mut self.diagnostics);
            self.check_expression(ExprLanguage::Wdl, &input, ExpressionMode::Value, current.position.scope);
            return None;
        };
        let text = &expect_text(node, &format!("`{}`", key.text), &mut self.diagnostics)?.text;
        match expr::is_expression(text) {
            true => Some(self.computed_activity(current, node, &input)),
            false => self.named_activity(current, kind, (text, node.span), &input),
        }
    }

    fn named_activity(
        &mut self,
        current: &CurrentAction,
        kind: ActionType,
        (name, span): (&str, Span),
        input: &SyntaxNode,
    ) -> Option<NodeKind> {
        let scope = current.position.scope;
        let options = self.options;
        let found = options.activities.iter().find(|activity| activity.name == name).map(|activity| &activity.target);
        let tool = options.registered.has_function(name)
            || kind == ActionType::Activity && options.tools.iter().any(|tool| tool == name);
        let definition = match found {
            Some(ActivityTarget::Workflow(definition)) => Some(definition.as_str()),
            Some(ActivityTarget::Tool) => None,
            None => (!tool && options.registered.has_definition(name)).then_some(name),
        };
        let is_mocked = self.has_mock(&current.name);
        if let Some(definition) = definition.filter(|_| !is_mocked) {
            let input = self.value(&call_input(Some(input), span), scope);
            return Some(self.call((definition, span), input));
        }
        let input = self.value(input, scope);
        if found.is_some() || tool || is_mocked {
            return Some(NodeKind::single_task(Action::Effect(Effect::new(name, input))));
        }
        let tools = options.tools.iter().filter(|_| kind == ActionType::Activity);
        let RegisteredNames { functions, definitions } = &options.registered;
        let known = || {
            let activities = options.activities.iter().map(|activity| activity.name.as_str());
            let registered = functions.iter().chain(definitions).map(String::as_str);
            activities.chain(registered).chain(tools.clone().map(String::as_str))
        };
        self.unknown_tool(name, span, known);
        None
    }

    /// Compiles an activity with a computed name. The name may come from a model, so it can reach the activities and
    /// nothing else. A branch selects the activities that are workflows; the remaining names go to the effect.
    fn computed_activity(&mut self, current: &mut CurrentAction, node: &SyntaxNode, input: &SyntaxNode) -> NodeKind {
        let scope = current.position.scope;
        let computed = self.value(node, scope);
        // A mock also answers in place of workflows, so they are called like tools.
        let is_mocked = self.has_mock(&current.name);
        let activities = &self.options.activities;
        let functions = &self.options.registered.functions;
        if activities.is_empty() && functions.is_empty() && !is_mocked {
            let message = "no activity is configured: the action fails for every name that this computes";
            self.warning(codes::NO_ACTIVITIES, node.span, message, "add it under `[activities]` in windlass.toml");
        }
        let of_tools = activities.iter().filter(|activity| is_mocked || activity.target == ActivityTarget::Tool);
        let functions = functions.iter().filter(|name| !activities.iter().any(|activity| activity.name == **name));
        let names = of_tools.map(|activity| &activity.name).chain(functions);
        let among: Vec<Arc<str>> = names.map(|name| Arc::from(name.as_str())).collect();
        // Not checked here: it is the input of the effect with one addition, and that input is checked below.
        let call_input = to_value(&call_input(Some(input), node.span));
        let call_input = self.add_expression(ExprLanguage::Wdl, call_input, ExpressionMode::Value, node.span);
        let mut cases = Vec::new();
        for activity in activities.iter().filter(|_| !is_mocked) {
            if let ActivityTarget::Workflow(definition) = &activity.target {
                let test = BranchTest::Equals(self.constant(activity.name.as_str().into(), node.span));
                let name = format!("{}#{}", current.name, activity.name);
                let id = self.reserve_hidden(name, "call", current.id, node.span);
                let kind = self.call((definition, node.span), call_input);
                self.node(id).kind = kind;
                cases.push(BranchCase { test, node: id });
            }
        }
        let input = self.value(input, scope);
        let tool = match is_mocked && among.is_empty() {
            // The mock answers, whatever the name is.
            true => ToolName::from(current.fields.label),
            false => ToolName::Computed { computed, among },
        };
        let effect = NodeKind::single_task(Action::Effect(Effect::new(tool, input)));
        if cases.is_empty() {
            return effect;
        }
        let otherwise = self.reserve_hidden(format!("{}#tool", current.name), "tool", current.id, node.span);
        self.node(otherwise).kind = effect;
        let tried = cases.iter().map(|case| case.node).chain([otherwise]).collect();
        self.apply_retry_to_each(current, tried);
        NodeKind::Branch(Branch { on: Some(computed), cases, otherwise: Some(otherwise) })
    }

    /// Moves retries and the timeout of an attempt to the nodes that are retried, so that their idempotency keys stay the
    /// same from attempt to attempt.
    fn apply_retry_to_each(&mut self, current: &mut CurrentAction, tried: Vec<NodeId>) {
        let retry = current.common.retry.take();
        let timeout = current.common.timeout.take_if(|timeout| timeout.status == Status::TimedOut);
        for id in tried {
            self.put_retry(id, retry.clone());
            let node = self.node(id);
            match &mut node.kind {
                NodeKind::Pipeline(Pipeline { tasks }) => {
                    tasks.iter_mut().for_each(|task| task.timeout = timeout.clone().map(|timeout| timeout.after));
                }
                _ => node.timeout = timeout.clone(),
            }
        }
    }

    /// Adds a constant.
    pub(crate) fn constant(&mut self, value: Value, span: Span) -> ExprId {
        self.add_expression(ExprLanguage::Wdl, expr::literal(&value), ExpressionMode::Value, span)
    }

    /// Returns the input of an activity: `input` alone is passed as it is; other inputs are passed under their names.
    fn activity_input(&mut self, current: &mut CurrentAction) -> SyntaxNode {
        let span = current.fields.span();
        let input = current.fields.take_entry("input", &mut self.diagnostics);
        let Some(inputs) = current.fields.inputs() else {
            return input.map_or(SyntaxNode::new(Span::at(span.start), SyntaxNodeKind::Null), |(_, node)| node.clone());
        };
        let others: Vec<(SpannedKey, SyntaxNode)> =
            inputs.unread_entries().map(|(key, node)| (key.clone(), node.clone())).collect();
        inputs.take_rest();
        match (input, others.is_empty()) {
            (Some((_, node)), true) => node.clone(),
            (None, true) => SyntaxNode::new(Span::at(span.start), SyntaxNodeKind::Null),
            (input, false) => {
                let input = input.map(|(key, node)| (key.clone(), node.clone()));
                SyntaxNode::new(span, SyntaxNodeKind::Map(input.into_iter().chain(others).collect()))
            }
        }
    }

    pub(crate) fn ai(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        let mut entries = Vec::new();
        for name in MODEL_INPUTS {
            if let Some(node) = current.fields.take(name, &mut self.diagnostics) {
                entries.push((*name, node.clone()));
            }
        }
        if !entries.iter().any(|(name, _)| matches!(*name, "prompt" | "messages")) {
            current.fields.missing("prompt", &mut self.diagnostics);
        }
        self.effect_retry(current);
        let span = current.fields.span();
        let input = self.value(&SyntaxNode::object(span, entries), current.position.scope);
        if !self.options.tools.iter().any(|tool| tool == "model") {
            let at = Span::new(span.start, span.start + 1);
            self.error(
                codes::UNKNOWN_TOOL,
                at,
                "no model is configured",
                "add `[model]` with its `base_url` to windlass.toml",
            );
            return None;
        }
        Some(NodeKind::single_task(Action::Effect(Effect::new("model", input))))
    }

    pub(crate) fn check_tool(&mut self, tool: &str, span: Span) -> Option<()> {
        let tools = &self.options.tools;
        if tools.iter().any(|known| known == tool) {
            return Some(());
        }
        self.unknown_tool(tool, span, || tools.iter().map(String::as_str));
        None
    }

    fn unknown_tool<'n, I: Iterator<Item = &'n str>>(&mut self, name: &str, span: Span, known: impl Fn() -> I) {
        let hint = did_you_mean(name, known()).unwrap_or_else(|| match known().next() {
            Some(_) => {
                format!("configured: {}; add others under `[activities]` in windlass.toml", format_names(known()))
            }
            None => "add it under `[activities]` in windlass.toml".to_owned(),
        });
        self.error(codes::UNKNOWN_TOOL, span, format!("no activity or tool `{name}` is configured"), hint);
    }
}
