//! Choices: `if` and `switch`.

use std::sync::Arc;

use windlass_core::plan::{Branch, BranchCase, BranchTest, NodeId, NodeKind};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, ObjectReader, Span, SpannedKey, SyntaxNode, to_value};
use windlass_value::{ExpressionMode, Value};

use crate::actions::CurrentAction;
use crate::codes;
use crate::compiler::LoomCompiler;
use crate::graph::StartOrder;
use crate::scopes::ActionPosition;

impl LoomCompiler<'_> {
    pub(crate) fn if_action(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        let scope = current.position.scope;
        let condition = current.fields.take_any(&["expression", "condition"], &mut self.diagnostics);
        if condition.is_none() {
            current.fields.missing("expression", &mut self.diagnostics);
        }
        let condition = condition.map(|(_, node)| self.expression(node, ExpressionMode::Condition, scope));
        let actions = current.fields.take("actions", &mut self.diagnostics);
        let otherwise = current.fields.take("else", &mut self.diagnostics);
        if actions.is_none() && otherwise.is_none() {
            current.fields.missing("actions", &mut self.diagnostics);
        }
        let nothing = SyntaxNode::object(Span::at(current.fields.span().start), []);
        let then = self.arm(current, "then", actions.unwrap_or(&nothing));
        let otherwise = otherwise.map(|node| self.arm(current, "else", actions_within(node)));
        let case = BranchCase { test: BranchTest::When(condition?), node: then };
        Some(NodeKind::Branch(Branch { on: None, cases: vec![case], otherwise }))
    }

    fn arm(&mut self, current: &CurrentAction, which: &str, actions: &SyntaxNode) -> NodeId {
        let name = format!("{}#{which}", current.name);
        self.body((name, which), current.id, actions, current.position.scope, StartOrder::Together)
    }

    pub(crate) fn switch(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        let on = current.fields.take_any(&["expression", "on"], &mut self.diagnostics);
        if on.is_none() {
            current.fields.missing("expression", &mut self.diagnostics);
        }
        let on = on.map(|(_, node)| self.value(node, current.position.scope));
        let cases = current.fields.take("cases", &mut self.diagnostics);
        let cases = cases.and_then(|node| ObjectReader::read(node, "`cases`", &mut self.diagnostics));
        let mut seen = Vec::new();
        let cases: Vec<BranchCase> = match cases {
            Some(cases) => {
                cases.unread_entries().filter_map(|(key, node)| self.case(current, key, node, &mut seen)).collect()
            }
            None => Vec::new(),
        };
        let otherwise = current.fields.take("default", &mut self.diagnostics);
        let otherwise = otherwise.map(|node| self.outcome(current, "default", node));
        on.map(|on| NodeKind::Branch(Branch { on: Some(on), cases, otherwise }))
    }

    /// Compiles a case. Azure names its cases and gives the value next to the actions; in Loom the key is the value.
    fn case(
        &mut self,
        current: &CurrentAction,
        key: &SpannedKey,
        node: &SyntaxNode,
        seen: &mut Vec<(Value, Span)>,
    ) -> Option<BranchCase> {
        let mut object = ObjectReader::read(node, "a case", &mut self.diagnostics)?;
        let azure = object.peek("case").is_some() || object.peek("type").is_none();
        let (value, body) = match azure {
            true => {
                let value = object.take("case");
                if value.is_none() {
                    let hint = "add `case`: the value that chooses it";
                    self.error(codes::MISSING_KEY, key.span, format!("the case `{}` has no `case`", key.text), hint);
                }
                let nothing = SyntaxNode::object(Span::at(node.span.start), []);
                let actions = object.take("actions").cloned().unwrap_or(nothing);
                object.finish(codes::UNKNOWN_KEY, "a case", &mut self.diagnostics);
                let name = format!("case:{}", key.text);
                (value?.clone(), self.arm(current, &name, &actions))
            }
            false => (SyntaxNode::text(key.text.as_str(), key.span), self.outcome(current, &key.text, node)),
        };
        self.check_case(&value, seen);
        let test = BranchTest::Equals(self.value(&value, current.position.scope));
        Some(BranchCase { test, node: body })
    }

    fn check_case(&mut self, node: &SyntaxNode, seen: &mut Vec<(Value, Span)>) {
        let value = to_value(node);
        if let Some((_, first)) = seen.iter().find(|(other, _)| *other == value) {
            let message = format!("two cases have the value {value:?}; the second can never be chosen");
            let problem = Diagnostic::error(codes::CONFLICT, node.span, message);
            self.push(problem.with_label(*first, "the first").with_hint("remove one of them"));
        }
        seen.push((value, node.span));
    }

    /// Compiles a single action, whose output is then the switch's, or a block of actions.
    fn outcome(&mut self, current: &CurrentAction, which: &str, node: &SyntaxNode) -> NodeId {
        if node.get("type").and_then(SyntaxNode::as_str).is_none() {
            return self.arm(current, which, actions_within(node));
        }
        let name: Arc<str> = format!("{}_{which}", current.name).into();
        let position = ActionPosition { parent: current.id, scope: current.position.scope, top: false };
        self.register(position.scope, &name, node.span);
        let id = self.action(&name, node.span, node, &position);
        if self.skipped.contains(&id) {
            let message = "a static result that skips the only action of a case is not supported";
            let at = Span::new(node.span.start, node.span.start + 1);
            self.error(codes::NOT_SUPPORTED, at, message, "write the case with `case` and `actions`");
        }
        id
    }
}

/// Returns the actions of `{"actions": {…}}`, or the node itself if it holds the actions.
fn actions_within(node: &SyntaxNode) -> &SyntaxNode {
    match node.get("actions") {
        Some(actions) if actions.get("type").and_then(SyntaxNode::as_str).is_none() => actions,
        _ => node,
    }
}
