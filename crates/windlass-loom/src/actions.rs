//! One action: its type, the fields common to all actions, and the dispatch to the module of its type.

use std::sync::Arc;

use windlass_core::Status;
use windlass_core::plan::{Action, Effect, NodeId, NodeKind, NodeTimeout, Redaction, Retry};
use windlass_dialect::{DiagnosticSink, is_mocked_step};
use windlass_syntax::{
    Diagnostic, ObjectReader, Span, SpannedKey, SyntaxNode, did_you_mean, expect_text, format_names, nearest,
};

use crate::codes;
use crate::compiler::LoomCompiler;
use crate::connectors;
use crate::fields::ActionFields;
use crate::pages::PolicyEntry;
use crate::retry;
use crate::scopes::ActionPosition;
use crate::statics::StaticResult;
use crate::types::{self, ActionType};

/// Options that change how an action runs. Options that only concern Azure's internals are accepted and have no
/// effect.
const OPERATION_OPTIONS: &[&str] = &[
    "DisableAsyncPattern",
    "DisableAutomaticDecompression",
    "EnableSchemaValidation",
    "FailWhenLimitsReached",
    "IncludeAuthorizationHeadersInOutputs",
    "Sequential",
    "SuppressWorkflowHeaders",
    "SuppressWorkflowHeadersOnResponse",
];

/// An action that is being compiled.
pub(crate) struct CurrentAction<'a> {
    pub name: Arc<str>,
    pub kind: ActionType,
    pub id: NodeId,
    pub position: ActionPosition,
    pub fields: ActionFields<'a>,
    pub common: CommonFields<'a>,
    /// The number of definitions called before this action.
    pub calls_before: usize,
}

/// Fields that every action may have besides those of its type.
#[derive(Default)]
pub(crate) struct CommonFields<'a> {
    /// Operation options, in lower case.
    options: Vec<String>,
    /// `runtimeConfiguration.concurrency.repetitions`
    pub repetitions: Option<&'a SyntaxNode>,
    pub timeout: Option<NodeTimeout>,
    pub retry: Option<Retry>,
    /// The action has a retry policy, possibly `none`.
    pub retry_given: bool,
    /// `runtimeConfiguration.paginationPolicy`
    pub pagination: Option<PolicyEntry<'a>>,
    /// The result that replaces running the action.
    pub static_result: Option<StaticResult>,
    /// The parts of the action that are redacted.
    pub redaction: Redaction,
}

impl CommonFields<'_> {
    pub(crate) fn has_option(&self, name: &str) -> bool {
        self.options.iter().any(|option| option.eq_ignore_ascii_case(name))
    }
}

impl LoomCompiler<'_> {
    /// Compiles an action whose name is registered already. Always creates a node, so that the ids of its neighbours do
    /// not change.
    pub(crate) fn action(
        &mut self,
        name: &Arc<str>,
        name_span: Span,
        node: &SyntaxNode,
        position: &ActionPosition,
    ) -> NodeId {
        if !self.count_action(name_span) {
            return self.reserve(name.clone(), "unknown", position, node.span);
        }
        let found = ObjectReader::read(node, "an action", &mut self.diagnostics)
            .and_then(|mut object| self.action_type(&mut object, name, name_span).map(|kind| (object, kind)));
        let Some((object, (label, kind))) = found else {
            return self.reserve(name.clone(), "unknown", position, node.span);
        };
        let id = self.reserve(name.clone(), label, position, node.span);
        if let Some(named) = self.scopes.get_mut(position.scope).names.get_mut(&name.to_lowercase()) {
            named.node = Some(id);
        }
        let around = self.current.replace(id);
        let fields = match kind {
            ActionType::Compose | ActionType::Mocked => ActionFields::without_inputs(object, label),
            _ => ActionFields::open(object, label, &mut self.diagnostics),
        };
        let (place, common, calls_before) = (*position, CommonFields::default(), self.calls.len());
        let mut current = CurrentAction { name: name.clone(), kind, id, position: place, fields, common, calls_before };
        self.common(&mut current, kind);
        self.check_pagination(&current, kind);
        let made = self.kind(&mut current, kind);
        self.complete(current, made);
        self.current = around;
        id
    }

    /// Counts an action and reports whether it is within the limit. Actions beyond the limit are not compiled, so that
    /// the compile time is bounded for any input.
    fn count_action(&mut self, span: Span) -> bool {
        self.actions += 1;
        let max = self.limits().max_definition_actions;
        if self.actions == max + 1 {
            let message = format!("the definition has more than {max} actions");
            self.error(codes::OVER_LIMIT, span, message, "raise `limits.max_definition_actions` in windlass.toml");
        }
        self.actions <= max
    }

    fn action_type(
        &mut self,
        object: &mut ObjectReader,
        name: &str,
        name_span: Span,
    ) -> Option<(&'static str, ActionType)> {
        let Some(node) = object.take("type") else {
            let hint = format!("types: {}", format_names(types::supported_names()));
            self.error(codes::MISSING_KEY, name_span, "this action has no `type`", hint);
            return None;
        };
        let written = &expect_text(node, "`type`", &mut self.diagnostics)?.text;
        let has_mock = self.has_mock(name);
        if let Some((label, kind)) = types::find(written.trim()) {
            // A definition that is called needs no file if its answer is mocked.
            let is_mocked = has_mock && matches!(kind, ActionType::Workflow);
            return Some((label, if is_mocked { ActionType::Mocked } else { kind }));
        }
        if let Some(label) = types::mockable(written.trim()).filter(|_| has_mock || self.is_mocked(object)) {
            return Some((label, ActionType::Mocked));
        }
        if let Some(instead) = types::alternative_for(written.trim()) {
            let message = connectors::not_supported(name, written.trim(), object);
            self.error(codes::NOT_SUPPORTED, node.span, message, instead);
            return None;
        }
        let message = format!("there is no action type `{written}`");
        let close = nearest(written, types::all_names());
        let known = || format!("types: {}", format_names(types::supported_names()));
        let hint = close.map(|name| format!("did you mean `{name}`?"));
        self.push(Diagnostic::error(codes::UNKNOWN_TYPE, node.span, message).with_hint(hint.unwrap_or_else(known)));
        // Compiled as the type that was probably meant, so that problems inside it are found as well.
        close.and_then(types::find)
    }

    /// Returns whether a mock answers the action of this name.
    pub(crate) fn has_mock(&self, name: &str) -> bool {
        is_mocked_step(&self.options.mocked_actions, name)
    }

    fn kind(&mut self, current: &mut CurrentAction, kind: ActionType) -> Option<NodeKind> {
        match kind {
            ActionType::Activity | ActionType::Actor => self.activity(current, kind),
            ActionType::Ai => self.ai(current),
            ActionType::AppendToArray
            | ActionType::AppendToString
            | ActionType::Decrement
            | ActionType::Increment
            | ActionType::Set => self.change_variable(current, kind),
            ActionType::Approval => self.approval(current),
            ActionType::Compose => self.compose(current),
            ActionType::DoUntil | ActionType::Until | ActionType::While => self.condition_loop(current, kind),
            ActionType::Foreach => self.foreach(current),
            ActionType::Http => self.http(current),
            ActionType::If => self.if_action(current),
            ActionType::Initialize => self.initialize_variable(current),
            ActionType::Join | ActionType::ParseJson | ActionType::Query | ActionType::Select | ActionType::Table => {
                self.data(current, kind)
            }
            ActionType::Mocked => self.mocked(current),
            ActionType::Parallel | ActionType::Scope => self.block(current),
            ActionType::Response => self.response(current),
            ActionType::Retry => self.retry_action(current),
            ActionType::Switch => self.switch(current),
            ActionType::Terminate => self.terminate(current),
            ActionType::Wait => self.wait(current),
            ActionType::Workflow => self.workflow_action(current),
        }
    }

    /// Compiles a mocked action. Its inputs are checked like any others, but its valid fields are unknown. Without a
    /// static result it is a call of a tool of its type's name, which a mock answers.
    fn mocked(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        let inputs = current.fields.action().take("inputs").cloned();
        let inputs = inputs.unwrap_or_else(|| SyntaxNode::object(Span::at(current.fields.span().start), []));
        let input = self.value(&inputs, current.position.scope);
        if current.common.static_result.is_some() {
            return Some(NodeKind::evaluate(input));
        }
        Some(NodeKind::single_task(Action::Effect(Effect::new(current.fields.label, input))))
    }

    /// Assembles the node. The retry of a single visible task is set on the task; any other node is retried as a whole. Loom's
    /// `timeout` of an effect applies to each attempt; Azure's `limit.timeout` applies to all attempts together.
    fn complete(&mut self, current: CurrentAction, made: Option<NodeKind>) {
        self.node(current.id).redaction = current.common.redaction;
        let replaced = current.common.static_result.clone().filter(|_| made.is_some());
        if let Some(result) = replaced {
            let kind = self.replace_with_static_result(&current, &result);
            current.fields.finish(&mut self.diagnostics);
            if let Some(kind) = kind {
                self.node(current.id).kind = kind;
            }
            return;
        }
        let CurrentAction { id, fields, common, .. } = current;
        fields.finish(&mut self.diagnostics);
        let Some(mut kind) = made else { return };
        let (mut retry, mut timeout) = (common.retry, common.timeout);
        if let NodeKind::Pipeline(pipeline) = &mut kind
            && let Some(task) = retry::only_visible_task(pipeline)
        {
            task.retry = retry.take();
            let each_try = |timeout: &mut NodeTimeout| timeout.status == Status::TimedOut;
            if matches!(task.action, Action::Effect(_)) {
                task.timeout = timeout.take_if(each_try).map(|timeout| timeout.after);
            }
        }
        let node = self.node(id);
        (node.kind, node.retry, node.timeout) = (kind, retry, timeout);
    }

    fn common(&mut self, current: &mut CurrentAction, kind: ActionType) {
        let action = current.fields.action();
        action.ignore(&["description", "metadata", "correlation", "kind", "runAfter"]);
        if let Some((key, _)) = action.take_entry("trackedProperties") {
            self.warn_no_effect(key);
        }
        let scope = current.position.scope;
        if let Some(options) = action.take("operationOptions") {
            current.common.options = self.operation_options(options);
        }
        if let Some(configuration) = action.take("runtimeConfiguration") {
            self.runtime_configuration(configuration, &mut current.common);
        }
        current.common.timeout = self.action_timeout(current, kind);
        if !matches!(kind, ActionType::Retry)
            && let Some(policy) = current.fields.action().take("retry")
        {
            current.common.retry = self.seed_retry(policy, scope);
            current.common.retry_given = true;
        }
        if !takes_name(kind) {
            self.check_name(current);
        }
    }

    /// Checks a `name` field: an action is named by its key, so the field can only repeat it.
    fn check_name(&mut self, current: &mut CurrentAction) {
        if let Some(node) = current.fields.action().take("name")
            && let Some(text) = expect_text(node, "`name`", &mut self.diagnostics)
            && text.text != *current.name
        {
            let message = format!("the action is called `{}` by its key; this `name` has no effect", current.name);
            let hint = "remove the `name`, or make it the key";
            self.push(Diagnostic::warning(codes::NO_EFFECT, node.span, message).with_hint(hint));
        }
    }

    fn warn_no_effect(&mut self, key: &SpannedKey) {
        let message = format!("`{}` has no effect here", key.text);
        self.warning(codes::NO_EFFECT, key.span, message, "remove it, or implement it with actions");
    }

    fn operation_options(&mut self, node: &SyntaxNode) -> Vec<String> {
        let Some(text) = expect_text(node, "`operationOptions`", &mut self.diagnostics) else { return Vec::new() };
        let options: Vec<&str> = text.text.split(',').map(str::trim).filter(|option| !option.is_empty()).collect();
        for option in &options {
            if !OPERATION_OPTIONS.iter().any(|known| known.eq_ignore_ascii_case(option)) {
                let hint = did_you_mean(option, OPERATION_OPTIONS.iter().copied());
                let known = || format!("supported: {}", format_names(OPERATION_OPTIONS.iter().copied()));
                let message = format!("the operation option `{option}` is not supported");
                self.error(codes::NOT_SUPPORTED, node.span, message, hint.unwrap_or_else(known));
            }
        }
        options.into_iter().map(str::to_lowercase).collect()
    }

    fn runtime_configuration<'n>(&mut self, node: &'n SyntaxNode, common: &mut CommonFields<'n>) {
        let Some(mut object) = ObjectReader::read(node, "`runtimeConfiguration`", &mut self.diagnostics) else {
            return;
        };
        common.pagination = object.take_entry("paginationPolicy");
        for name in ["contentTransfer", "requestOptions", "lifetime"] {
            if let Some((key, _)) = object.take_entry(name) {
                self.warn_no_effect(key);
            }
        }
        common.redaction = object.take("secureData").map(|node| self.secure_data(node)).unwrap_or_default();
        common.static_result = object.take("staticResult").and_then(|node| self.requested_static_result(node));
        let concurrency = object.take("concurrency");
        object.finish(codes::UNKNOWN_KEY, "`runtimeConfiguration`", &mut self.diagnostics);
        let concurrency = concurrency.and_then(|node| ObjectReader::read(node, "`concurrency`", &mut self.diagnostics));
        let Some(mut concurrency) = concurrency else { return };
        common.repetitions = concurrency.take("repetitions");
        concurrency.ignore(&["runs", "maximumWaitingRuns"]);
        concurrency.finish(codes::UNKNOWN_KEY, "`concurrency`", &mut self.diagnostics);
    }

    /// Reports whether a static result is enabled, for actions that could not run otherwise.
    fn is_mocked(&self, object: &ObjectReader) -> bool {
        let configuration = object.peek("runtimeConfiguration").and_then(|(_, node)| node.get("staticResult"));
        configuration.is_some_and(|requested| {
            let options = requested.get("staticResultOptions").and_then(SyntaxNode::as_str);
            options.is_none_or(|text| !text.eq_ignore_ascii_case("disabled"))
        })
    }
}

/// Reports whether the `name` of the action is that of a variable.
fn takes_name(kind: ActionType) -> bool {
    matches!(
        kind,
        ActionType::AppendToArray
            | ActionType::AppendToString
            | ActionType::Decrement
            | ActionType::Increment
            | ActionType::Initialize
            | ActionType::Set
    )
}
