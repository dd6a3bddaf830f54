//! Actions as one: `scope`, `parallel`; and `terminate`, which ends everything.

use windlass_core::Status;
use windlass_core::plan::{Action, Branch, Case, Directive, ExprId, NodeKind, Pipeline, Rule, Task, Test};
use windlass_dialect::Findings;
use windlass_syntax::{Kind, Node, Object, did_you_mean, expect_text};
use windlass_value::Value;

use crate::actions::Current;
use crate::codes;
use crate::compiler::Compiler;
use crate::expr;
use crate::graph::Order;
use crate::scopes::Place;

const RUN_STATUSES: &[(&str, Status)] =
    &[("Succeeded", Status::Succeeded), ("Failed", Status::Failed), ("Cancelled", Status::Cancelled)];

impl Compiler<'_> {
    /// In both, actions that do not wait for each other run side by side.
    pub(crate) fn block(&mut self, current: &mut Current) -> Option<NodeKind> {
        let actions = current.fields.require("actions", &mut self.diagnostics)?;
        let place = Place { parent: current.id, scope: current.place.scope, top: false };
        Some(NodeKind::Graph(self.children(actions, &place, Order::Together)))
    }

    pub(crate) fn terminate(&mut self, current: &mut Current) -> Option<NodeKind> {
        let around = self.scopes.loops(current.place.scope).next().map(|frame| frame.name.clone());
        if let Some(name) = around {
            let message = format!("`terminate` is not allowed inside a loop; this one is inside `{name}`");
            let hint = "set a variable in the loop, and terminate after it";
            self.error(codes::TERMINATE_INSIDE, current.fields.span(), message, hint);
        }
        let status = current.fields.require("runStatus", &mut self.diagnostics);
        let error = current.fields.take("runError", &mut self.diagnostics);
        let error = error.and_then(|node| self.run_error(node)).map(|node| self.value(&node, current.place.scope));
        let status = status?;
        match status.as_str().is_some_and(expr::is_expression) {
            true => Some(self.computed_end(current, status, error)),
            false => Some(NodeKind::lone(Action::End { status: self.run_status(status)?, error })),
        }
    }

    /// One end for each status, chosen by the computed name; any other name fails the action.
    fn computed_end(&mut self, current: &Current, node: &Node, error: Option<ExprId>) -> NodeKind {
        let folded = match &node.kind {
            Kind::Str(text) if expr::is_whole_expression(&text.text) => {
                Kind::Str(text.wrapped("@toLower(string(", 1, "))"))
            }
            other => other.clone(),
        };
        let whole = matches!(&folded, Kind::Str(text) if text.text.starts_with("@toLower("));
        let on = self.value(&Node::new(node.span, folded), current.place.scope);
        let mut cases = Vec::new();
        for (name, status) in RUN_STATUSES {
            let id = self.reserve_hidden(format!("{}#{name}", current.name), "end", current.id, node.span);
            // Only a failed run has an error.
            let error = error.filter(|_| *status == Status::Failed);
            self.node(id).kind = NodeKind::lone(Action::End { status: *status, error });
            let name = if whole { name.to_lowercase() } else { (*name).to_owned() };
            cases.push(Case { test: Test::Equals(self.constant(name.into(), node.span)), node: id });
        }
        let otherwise = self.reserve_hidden(format!("{}#otherwise", current.name), "end", current.id, node.span);
        let message = "`runStatus` is none of Succeeded, Failed and Cancelled";
        let error = Value::object([("code", "BadRunStatus"), ("message", message)]);
        let mut task = Task::new(Action::Evaluate(on));
        let directive = Directive::Fail { status: Status::Failed, error: Some(self.constant(error, node.span)) };
        task.rules.push(Rule::new(directive));
        self.node(otherwise).kind = NodeKind::Pipeline(Pipeline { tasks: vec![task] });
        NodeKind::Branch(Branch { on: Some(on), cases, otherwise: Some(otherwise) })
    }

    fn run_status(&mut self, node: &Node) -> Option<Status> {
        let text = &expect_text(node, "`runStatus`", &mut self.diagnostics)?.text;
        if let Some((_, status)) = RUN_STATUSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            return Some(*status);
        }
        let hint = did_you_mean(text, RUN_STATUSES.iter().map(|(name, _)| *name));
        let hint = hint.unwrap_or_else(|| "a run ends as Succeeded, Failed or Cancelled".to_owned());
        self.error(codes::UNKNOWN_STATUS, node.span, format!("a run cannot end as `{text}`"), hint);
        None
    }

    /// `{code, message}`, both there even if only one was given.
    fn run_error(&mut self, node: &Node) -> Option<Node> {
        let mut object = Object::read(node, "`runError`", &mut self.diagnostics)?;
        let (code, message) = (object.take("code"), object.take("message"));
        object.finish(codes::UNKNOWN_KEY, "`runError`", &mut self.diagnostics);
        let or_default = |node: Option<&Node>, text: &str| match node {
            Some(node) => node.clone(),
            None => Node::text(text, object_span(code, message)),
        };
        let entries = [("code", or_default(code, "Terminated")), ("message", or_default(message, ""))];
        Some(Node::object(node.span, entries))
    }
}

fn object_span(code: Option<&Node>, message: Option<&Node>) -> windlass_syntax::Span {
    code.or(message).map(|node| node.span).unwrap_or_default()
}
