//! `paginationPolicy` of an `http` action: the pages of a list, collected into one reply.
//!
//! The action becomes one pipeline. `first` stores the inputs of the first call in a variable, `page` calls, and
//! `collected` builds the output: the reply of the last page with the items of all pages. While a page names a next
//! one and fewer than `minimumItemCount` items are collected, a rule of `page` jumps back to it with that link. So each
//! page is journaled before the next is called, and the retry of the action is that of a page. A list of more than
//! `max_pages` pages fails the action: a service may name a next page for ever.

use windlass_core::Status;
use windlass_core::plan::{
    Action, Directive, Effect, ExprId, NodeKind, Pipeline, Task, TaskRule, VariableUpdate, WriteOp,
};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{ObjectReader, Span, SpannedKey, SyntaxNode, SyntaxNodeKind};
use windlass_value::{ExpressionMode, Level, Map, Value};

use crate::actions::CurrentAction;
use crate::codes;
use crate::compiler::LoomCompiler;
use crate::expr::{self, ExprLanguage};
use crate::types::ActionType;

/// The policy as written.
pub(crate) type PolicyEntry<'a> = (&'a SpannedKey, &'a SyntaxNode);

/// The index of the task that calls.
const PAGE: u32 = 1;

const OUTCOME: &str = "variables('outcome')";

/// The variables of one action with pages. A loop around the action has them once per iteration.
struct PageVariables {
    call: String,
    items: String,
    /// The addresses of the pages so far.
    seen: String,
    /// The number of pages, that of the current call included.
    count: String,
    /// The property that holds the items of a page; null if the page is an array, empty if a mock has no items.
    key: String,
}

impl PageVariables {
    fn new(action: &str) -> PageVariables {
        let name = |part: &str| format!("{action}#{part}");
        let (call, items, seen) = (name("call"), name("items"), name("seen"));
        PageVariables { call, items, seen, count: name("count"), key: name("key") }
    }
}

fn read(variable: &str) -> String {
    format!("variables({})", expr::quote(variable))
}

impl LoomCompiler<'_> {
    /// Refuses a policy on an action that has no pages; one that a static result replaces is never called.
    pub(crate) fn check_pagination(&mut self, current: &CurrentAction, kind: ActionType) {
        let Some((key, _)) = current.common.pagination else { return };
        if !matches!(kind, ActionType::Http | ActionType::Mocked) {
            let message = format!("`{}` is supported on `http` actions only", key.text);
            self.error(codes::NOT_SUPPORTED, key.span, message, "remove it, or get the pages in a loop");
        }
    }

    /// Returns the pipeline that collects the pages of an `http` call with this input.
    pub(crate) fn pages(&mut self, current: &CurrentAction, policy: &SyntaxNode, input: ExprId) -> Option<NodeKind> {
        let minimum = self.minimum_items(policy, current)?;
        let (names, span) = (PageVariables::new(&current.name), policy.span);
        let tasks =
            vec![self.first_call(&names, input, span), self.page(&names, minimum, span), self.collected(&names, span)];
        Some(NodeKind::Pipeline(Pipeline { tasks }))
    }

    /// Returns the number of items as an expression; none if all pages are requested.
    fn minimum_items(&mut self, policy: &SyntaxNode, current: &CurrentAction) -> Option<Option<String>> {
        let mut object = ObjectReader::read(policy, "`paginationPolicy`", &mut self.diagnostics)?;
        let node = object.take("minimumItemCount");
        object.finish(codes::UNKNOWN_KEY, "`paginationPolicy`", &mut self.diagnostics);
        let Some(node) = node else { return Some(None) };
        match &node.kind {
            SyntaxNodeKind::Number(Value::Int(count)) if *count >= 1 => Some(Some(count.to_string())),
            SyntaxNodeKind::Str(text) if expr::is_whole_expression(&text.text) => {
                self.check_expression(ExprLanguage::Wdl, node, ExpressionMode::Value, current.position.scope);
                Some(Some(format!("int({})", &text.text[1..])))
            }
            _ => {
                let message = format!("`minimumItemCount` cannot be {}", node.describe());
                self.error(codes::BAD_VALUE, node.span, message, "give a number from 1, or an expression");
                None
            }
        }
    }

    fn first_call(&mut self, names: &PageVariables, input: ExprId, span: Span) -> Task {
        let input_of = self.synthetic(format!("@{OUTCOME}.result"), ExpressionMode::Value, span);
        let none = self.constant(Value::list(Vec::new()), span);
        let no_names = self.constant(Value::map(Map::new()), span);
        let one = self.constant(Value::Int(1), span);
        let writes = vec![
            write(&names.call, WriteOp::Set, input_of),
            write(&names.items, WriteOp::Set, none),
            write(&names.seen, WriteOp::Set, no_names),
            write(&names.count, WriteOp::Set, one),
        ];
        let rule = TaskRule { when: Some(self.on_success(span)), writes, ..TaskRule::new(Directive::Continue) };
        hidden_task("first", Action::Evaluate(input), rule)
    }

    fn page(&mut self, names: &PageVariables, minimum: Option<String>, span: Span) -> Task {
        let input = self.synthetic(format!("@{}", read(&names.call)), ExpressionMode::Value, span);
        let cycle = self.cycle_rule(names, minimum.as_deref(), span);
        let limit = self.limit_rule(names, minimum.as_deref(), span);
        let next = self.next_rule(names, minimum.as_deref(), span);
        let last = self.last_rule(names, span);
        let task = Task::new(Action::Effect(Effect::new("http", input)));
        Task { label: "page".into(), rules: vec![cycle, limit, next, last], ..task }
    }

    /// Fails if the next page was fetched already: its items would be collected twice, for ever.
    fn cycle_rule(&mut self, names: &PageVariables, minimum: Option<&str>, span: Span) -> TaskRule {
        let seen = format!(
            "or(equals({OUTCOME}.page.next, {OUTCOME}.page.uri), contains({}, {OUTCOME}.page.next))",
            read(&names.seen)
        );
        let when = self.synthetic(wants_next(names, minimum, Some(&seen)), ExpressionMode::Condition, span);
        let link = format!("{OUTCOME}.page.next");
        let message = format!(
            "the next link of a page leads back to a page that was fetched before: \
             @{{first(split({link}, '?'))}} (after @{{add(length({}), {OUTCOME}.page.items)}} items)",
            read(&names.items)
        );
        self.failing_rule(when, "PaginationCycle", message, span)
    }

    /// Fails if the list has more pages than the engine allows: the items so far are not the list.
    fn limit_rule(&mut self, names: &PageVariables, minimum: Option<&str>, span: Span) -> TaskRule {
        let max_pages = self.limits().max_pages;
        let is_reached = format!("greaterOrEquals({}, {max_pages})", read(&names.count));
        let when = self.synthetic(wants_next(names, minimum, Some(&is_reached)), ExpressionMode::Condition, span);
        let message = format!(
            "the list has more than {max_pages} pages, the limit `max_pages` (after @{{add(length({}), {OUTCOME}.page.items)}} items); give a lower \
             `minimumItemCount`, or raise `max_pages` under [limits] in windlass.toml",
            read(&names.items)
        );
        self.failing_rule(when, "PaginationLimit", message, span)
    }

    fn failing_rule(&mut self, when: ExprId, code: &str, message: String, span: Span) -> TaskRule {
        let error = Value::object([("code", Value::from(code)), ("message", Value::from(message))]);
        let error = self.add_expression(ExprLanguage::Wdl, error, ExpressionMode::Value, span);
        let fail = Directive::Fail { status: Status::Failed, error: Some(error) };
        TaskRule { when: Some(when), ..TaskRule::new(fail) }
    }

    fn next_rule(&mut self, names: &PageVariables, minimum: Option<&str>, span: Span) -> TaskRule {
        let when = self.synthetic(wants_next(names, minimum, None), ExpressionMode::Condition, span);
        let call = format!("@setProperty({}, 'link', {OUTCOME}.page.next)", read(&names.call));
        let call = self.synthetic(call, ExpressionMode::Value, span);
        let seen = format!("@setProperty(json('{{}}'), {OUTCOME}.page.uri, true)");
        let seen = self.synthetic(seen, ExpressionMode::Value, span);
        let writes = vec![
            self.collect_items(names, span),
            write(&names.call, WriteOp::Set, call),
            write(&names.seen, WriteOp::Merge, seen),
            VariableUpdate { value: None, ..write(&names.count, WriteOp::Add, call) },
        ];
        TaskRule { when: Some(when), writes, ..TaskRule::new(Directive::Jump(PAGE)) }
    }

    fn last_rule(&mut self, names: &PageVariables, span: Span) -> TaskRule {
        let key = format!("@if({}, {OUTCOME}.page.key, {})", is_page(), mocked_key());
        let key = self.synthetic(key, ExpressionMode::Value, span);
        let writes = vec![self.collect_items(names, span), write(&names.key, WriteOp::Set, key)];
        TaskRule { when: Some(self.on_success(span)), writes, ..TaskRule::new(Directive::Continue) }
    }

    fn collect_items(&mut self, names: &PageVariables, span: Span) -> VariableUpdate {
        let (body, key) = (format!("{OUTCOME}.result.body"), format!("{OUTCOME}.page.key"));
        let page = format!("if(equals({key}, null), {body}, {body}?['value'])");
        let mocked = format!(
            "if(equals({key}, ''), json('[]'), if(equals({key}, null), {body}, {body}?['value']))",
            key = mocked_key()
        );
        let items = format!("@if({}, {page}, {mocked})", is_page());
        write(&names.items, WriteOp::Extend, self.synthetic(items, ExpressionMode::Value, span))
    }

    /// Builds the output, and empties the variables, which would otherwise live as long as the run.
    fn collected(&mut self, names: &PageVariables, span: Span) -> Task {
        let (reply, items) = ("variables('_prev')", read(&names.items));
        let output = format!(
            "@if(equals({key}, ''), {reply}, \
             setProperty({reply}, 'body', if(equals({key}, null), {items}, setProperty({reply}.body, {key}, {items}))))",
            key = read(&names.key)
        );
        let output = self.synthetic(output, ExpressionMode::Value, span);
        let nothing = self.constant(Value::Null, span);
        let all = [&names.call, &names.items, &names.seen, &names.count, &names.key];
        let writes = all.map(|name| write(name, WriteOp::Set, nothing)).to_vec();
        let rule = TaskRule { writes, ..TaskRule::new(Directive::Continue) };
        let rule = TaskRule { when: Some(self.on_success(span)), ..rule };
        hidden_task("collected", Action::Evaluate(output), rule)
    }

    fn on_success(&mut self, span: Span) -> ExprId {
        self.synthetic(format!("@equals({OUTCOME}.status, 'success')"), ExpressionMode::Condition, span)
    }

    /// Adds an expression of the compiler. It may read what the position of the expression defines.
    fn synthetic(&mut self, source: String, mode: ExpressionMode, span: Span) -> ExprId {
        self.add_expression(ExprLanguage::Wdl, Value::from(source), mode, span)
    }
}

/// Returns the condition that the call reported a page. A mock reports none: its body is the whole list.
fn is_page() -> String {
    format!("not(equals({OUTCOME}?['page'], null))")
}

/// Returns the key of the items in the body of a mock: null for an array, an empty text for a body without items.
fn mocked_key() -> String {
    let body = format!("{OUTCOME}?['result']?['body']");
    let begins = |letter: char| format!("startsWith(string({body}), '{letter}')");
    let in_object = format!("if(equals({body}?['value'], null), '', 'value')");
    format!("if({}, null, if({}, {in_object}, ''))", begins('['), begins('{'))
}

/// Returns the condition that another page exists and is wanted.
fn wants_next(names: &PageVariables, minimum: Option<&str>, also: Option<&str>) -> String {
    let mut all = vec![format!("not(equals({OUTCOME}?['page']?['next'], null))")];
    all.extend(
        minimum.map(|minimum| format!("less(add(length({}), {OUTCOME}.page.items), {minimum})", read(&names.items))),
    );
    all.extend(also.map(str::to_owned));
    format!("@and({})", all.join(", "))
}

fn write(name: &str, op: WriteOp, value: ExprId) -> VariableUpdate {
    VariableUpdate { ignores_input: true, hidden: true, ..VariableUpdate::new(Level::Iteration, name, op, Some(value)) }
}

fn hidden_task(label: &str, action: Action, rule: TaskRule) -> Task {
    Task { label: label.into(), rules: vec![rule], hidden: true, ..Task::new(action) }
}
