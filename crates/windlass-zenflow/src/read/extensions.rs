//! Reads `x-windlass`, the extensions of this engine.

use std::sync::Arc;

use windlass_dialect::{DiagnosticSink, LabelProblemCodes, label_entries};
use windlass_syntax::{SyntaxNode, SyntaxNodeKind, to_value};
use windlass_triggers::{TriggerExtension, TriggerProblemCodes};
use windlass_value::{Map, Value};

use super::DocumentReader;
use crate::codes;
use crate::document::{
    AgentDefinition, CallInput, CoordinatorMode, CoordinatorSettings, DefinitionCall, Extensions, ReplyStop, Spanned,
    ZenflowBudget,
};

/// The extensions of a step.
#[derive(Default)]
pub(super) struct StepExtensions {
    pub budget: Option<ZenflowBudget>,
    pub call: Option<DefinitionCall>,
    pub accept: Vec<Spanned<ReplyStop>>,
}

const MODES: [(&str, CoordinatorMode); 3] =
    [("auto", CoordinatorMode::Auto), ("on", CoordinatorMode::On), ("off", CoordinatorMode::Off)];

const CONTEXT_FILES: [(&str, bool); 2] = [("strict", false), ("lenient", true)];

/// The format has one code for all problems that its own test cases do not name.
const TRIGGERS: TriggerProblemCodes = TriggerProblemCodes {
    unknown_key: codes::UNKNOWN_KEY,
    missing_key: codes::MISSING_KEY,
    bad_value: codes::BAD_VALUE,
    conflict: codes::CONFLICT,
    over_limit: codes::VALIDATION,
};

const LABELS: LabelProblemCodes = LabelProblemCodes { bad_value: codes::BAD_VALUE, over_limit: codes::VALIDATION };

impl DocumentReader<'_> {
    pub(crate) fn extensions(&mut self, node: &SyntaxNode) -> Extensions {
        let Some(mut object) = self.object(node, "`x-windlass`") else { return Extensions::default() };
        let files = object.take("contextFiles");
        let triggers = TriggerExtension { schedule: object.take("schedule"), webhook: object.take("webhook") };
        let triggers = triggers.triggers(&self.options.limits, TRIGGERS, &mut self.found);
        let extensions = Extensions {
            budget: object.take("budget").and_then(|node| self.budget(node)),
            inputs: object.take("inputs").map(|node| self.inputs(node)).unwrap_or_default(),
            coordinator: object.take("coordinator").map(|node| self.coordinator(node)).unwrap_or_default(),
            lenient_files: files
                .and_then(|node| self.one_of(node, "contextFiles", &CONTEXT_FILES, codes::VALIDATION))
                .is_some_and(|lenient| lenient.value),
            triggers,
            labels: object.take("labels").map(|node| self.labels(node)).unwrap_or_default(),
        };
        object.finish(codes::UNKNOWN_KEY, "`x-windlass`", &mut self.found);
        extensions
    }

    /// Reads the labels of runs: texts are expressions over the inputs, as in `input` of a call.
    fn labels(&mut self, node: &SyntaxNode) -> Vec<(Arc<str>, CallInput)> {
        let entries = label_entries(node, &self.options.limits, LABELS, &mut self.found);
        let value = |node: &SyntaxNode, found: &mut Self| match node.kind {
            SyntaxNodeKind::Str(_) => found.cel(node, "labels").map(CallInput::Cel),
            _ => Some(CallInput::Literal(Spanned::new(to_value(node), node.span))),
        };
        entries.into_iter().filter_map(|(name, node)| Some((name, value(node, self)?))).collect()
    }

    /// Reads the extensions of a step: a budget, the stops that it accepts, or a call of another definition.
    pub(super) fn step_extensions(&mut self, node: &SyntaxNode) -> StepExtensions {
        let Some(mut object) = self.object(node, "`x-windlass`") else { return StepExtensions::default() };
        let extensions = StepExtensions {
            budget: object.take("budget").and_then(|node| self.budget(node)),
            call: object.take("call").and_then(|node| self.call(node)),
            accept: object.take("accept").map(|node| self.accept(node)).unwrap_or_default(),
        };
        object.finish(codes::UNKNOWN_KEY, "`x-windlass` of a step", &mut self.found);
        extensions
    }

    /// Reads the extensions of an agent: how often it may be wrong, or do the same again.
    pub(crate) fn agent_extensions(&mut self, node: &SyntaxNode, agent: &mut AgentDefinition) {
        let Some(mut object) = self.object(node, "`x-windlass`") else { return };
        let attempts = object.take("maxResultAttempts");
        agent.max_result_attempts =
            attempts.and_then(|node| self.count(node, "maxResultAttempts", 1, codes::VALIDATION));
        let repeated = object.take("maxRepeatedCalls");
        agent.max_repeated_calls = repeated.and_then(|node| self.count(node, "maxRepeatedCalls", 0, codes::VALIDATION));
        object.finish(codes::UNKNOWN_KEY, "`x-windlass` of an agent", &mut self.found);
        if let Some(attempts) = agent.max_result_attempts.filter(|_| agent.result_schema.is_none()) {
            let message = "`maxResultAttempts` has no effect: the agent has no `resultSchema`";
            self.warning(codes::NO_EFFECT, attempts.span, message, "add a `resultSchema`, or remove it");
        }
    }

    /// Reads the stops of replies that complete the step.
    fn accept(&mut self, node: &SyntaxNode) -> Vec<Spanned<ReplyStop>> {
        let Some(items) = node.as_list() else {
            self.wrong_type(node, "accept", "a list of stops", "such as [length, empty]");
            return Vec::new();
        };
        items.iter().filter_map(|item| self.one_of(item, "accept", &ReplyStop::ALL, codes::VALIDATION)).collect()
    }

    /// Reads a call: a name alone, or a name with an input.
    fn call(&mut self, node: &SyntaxNode) -> Option<DefinitionCall> {
        let nothing = || CallInput::Literal(Spanned::new(Value::map(Map::new()), node.span));
        if node.as_map().is_none() {
            let definition = self.non_empty_text(node, "call")?;
            return Some(DefinitionCall { span: node.span, definition, input: nothing() });
        }
        let mut object = self.object(node, "`call`")?;
        let definition = object.take("definition");
        let input = object.take("input").map(|node| self.call_input(node));
        object.finish(codes::UNKNOWN_KEY, "`call`", &mut self.found);
        let Some(definition) = definition else {
            let hint = "add `definition:` with the name of the definition to run";
            self.error(codes::VALIDATION, node.span, "`call` has no `definition`", hint);
            return None;
        };
        let definition = self.non_empty_text(definition, "definition")?;
        Some(DefinitionCall { span: node.span, definition, input: input.unwrap_or_else(|| Some(nothing()))? })
    }

    fn call_input(&mut self, node: &SyntaxNode) -> Option<CallInput> {
        match &node.kind {
            SyntaxNodeKind::Str(_) => self.cel(node, "input").map(CallInput::Cel),
            SyntaxNodeKind::Map(_) => Some(CallInput::Literal(Spanned::new(to_value(node), node.span))),
            SyntaxNodeKind::Null => Some(CallInput::Literal(Spanned::new(Value::map(Map::new()), node.span))),
            _ => {
                let hint = "such as {pieces: 3} or \"{'pieces': steps.count.result.n}\"";
                self.wrong_type(node, "input", "an object, or an expression that gives one", hint);
                None
            }
        }
    }

    /// Reads the extensions of a loop: a budget, and the number of iterations that may have no verdict.
    pub(crate) fn loop_extensions(&mut self, node: &SyntaxNode) -> (Option<ZenflowBudget>, Option<Spanned<u64>>) {
        let Some(mut object) = self.object(node, "`x-windlass`") else { return (None, None) };
        let budget = object.take("budget").and_then(|node| self.budget(node));
        let unjudged = object.take("maxUnjudged");
        let unjudged = unjudged.and_then(|node| self.count(node, "maxUnjudged", 0, codes::VALIDATION));
        object.finish(codes::UNKNOWN_KEY, "`x-windlass` of a loop", &mut self.found);
        (budget, unjudged)
    }

    fn budget(&mut self, node: &SyntaxNode) -> Option<ZenflowBudget> {
        let mut object = self.object(node, "`budget`")?;
        let budget = ZenflowBudget {
            span: node.span,
            tokens: object.take("tokens").and_then(|node| self.count(node, "tokens", 1, codes::VALIDATION)),
            money: object.take("money").and_then(|node| self.money(node)),
            calls: object.take("calls").and_then(|node| self.count(node, "calls", 1, codes::VALIDATION)),
            time: object.take("time").and_then(|node| self.duration(node, "time")),
            reply: object.take("reply").and_then(|node| self.count(node, "reply", 1, codes::VALIDATION)),
        };
        let limits = |key: &str| key != "reply";
        let empty = node.as_map().is_some_and(|entries| !entries.iter().any(|(key, _)| limits(&key.text)));
        object.finish(codes::UNKNOWN_KEY, "`budget`", &mut self.found);
        if empty {
            let hint = "set at least one of `tokens`, `money`, `calls`, `time`";
            self.error(codes::VALIDATION, node.span, "this budget limits nothing", hint);
        }
        Some(budget)
    }

    /// Reads an amount of money in millionths.
    fn money(&mut self, node: &SyntaxNode) -> Option<Spanned<u64>> {
        let text = match &node.kind {
            SyntaxNodeKind::Str(text) => Some(text.text.trim().to_owned()),
            SyntaxNodeKind::Number(Value::Float(number)) => Some(format!("{number}")),
            SyntaxNodeKind::Number(number) => Some(windlass_value::to_json(number)),
            _ => None,
        };
        match text.as_deref().and_then(millionths).filter(|amount| *amount > 0) {
            Some(amount) => Some(Spanned::new(amount, node.span)),
            None => {
                let hint = "more than 0, with at most six digits after the point";
                self.wrong_type(node, "money", "an amount such as \"2.50\"", hint);
                None
            }
        }
    }

    fn inputs(&mut self, node: &SyntaxNode) -> Vec<(Spanned<String>, Value)> {
        let Some(object) = self.object(node, "`inputs`") else { return Vec::new() };
        let mut inputs = Vec::new();
        for (key, node) in object.unread_entries() {
            let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let good = key.text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
            if !(good && key.text.len() <= 64 && key.text.chars().all(letter)) {
                let message = format!("`{}` cannot be the name of an input", key.text);
                let hint = "a letter first, then letters, digits and `_`; at most 64 characters: expressions refer to it as `inputs.name`";
                self.error(codes::VALIDATION, key.span, message, hint);
            }
            inputs.push((Spanned::new(key.text.clone(), key.span), to_value(node)));
        }
        inputs
    }

    fn coordinator(&mut self, node: &SyntaxNode) -> CoordinatorSettings {
        let Some(mut object) = self.object(node, "`coordinator`") else { return CoordinatorSettings::default() };
        let coordinator = CoordinatorSettings {
            mode: object.take("mode").and_then(|node| self.one_of(node, "mode", &MODES, codes::VALIDATION)),
            model: object.take("model").and_then(|node| self.non_empty_text(node, "model")),
            prompt: object.take("prompt").and_then(|node| self.model_text(node, "prompt", false)),
        };
        object.finish(codes::UNKNOWN_KEY, "`coordinator`", &mut self.found);
        coordinator
    }
}

/// Parses an amount of money to millionths: `2.50` is 2,500,000.
fn millionths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 6 {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<6}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction)
}
