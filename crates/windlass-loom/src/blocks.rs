//! Groups of actions: `scope`, `parallel`; and `terminate`, which ends the run.

use windlass_core::Status;
use windlass_core::plan::{
    Action, Branch, BranchCase, BranchTest, Directive, ExprId, NodeKind, Pipeline, Task, TaskRule,
};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{ObjectReader, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_text};
use windlass_value::Value;

use crate::actions::CurrentAction;
use crate::codes;
use crate::compiler::LoomCompiler;
use crate::expr;
use crate::graph::StartOrder;
use crate::scopes::ActionPosition;

const RUN_STATUSES: &[(&str, Status)] =
    &[("Succeeded", Status::Succeeded), ("Failed", Status::Failed), ("Cancelled", Status::Cancelled)];

impl LoomCompiler<'_> {
    /// Compiles a block. Actions that do not wait for each other run concurrently.
    pub(crate) fn block(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        let actions = current.fields.require("actions", &mut self.diagnostics)?;
        let position = ActionPosition { parent: current.id, scope: current.position.scope, top: false };
        Some(NodeKind::Graph(self.children(actions, &position, StartOrder::Together)))
    }

    pub(crate) fn terminate(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        let around = self.scopes.loops(current.position.scope).next().map(|frame| frame.name.clone());
        if let Some(name) = around {
            let message = format!("`terminate` is not allowed inside a loop; this one is inside `{name}`");
            let hint = "set a variable in the loop, and terminate after it";
            self.error(codes::TERMINATE_INSIDE, current.fields.span(), message, hint);
        }
        let status = current.fields.require("runStatus", &mut self.diagnostics);
        let error = current.fields.take("runError", &mut self.diagnostics);
        let error = error.and_then(|node| self.run_error(node)).map(|node| self.value(&node, current.position.scope));
        let status = status?;
        match status.as_str().is_some_and(expr::is_expression) {
            true => Some(self.computed_end(current, status, error)),
            false => Some(NodeKind::single_task(Action::End { status: self.run_status(status)?, error })),
        }
    }

    /// Compiles one end for each status, chosen by the computed name; any other name fails the action.
    fn computed_end(&mut self, current: &CurrentAction, node: &SyntaxNode, error: Option<ExprId>) -> NodeKind {
        let folded = match &node.kind {
            SyntaxNodeKind::Str(text) if expr::is_whole_expression(&text.text) => {
                SyntaxNodeKind::Str(text.wrap("@toLower(string(", 1, "))"))
            }
            other => other.clone(),
        };
        let whole = matches!(&folded, SyntaxNodeKind::Str(text) if text.text.starts_with("@toLower("));
        let on = self.value(&SyntaxNode::new(node.span, folded), current.position.scope);
        let mut cases = Vec::new();
        for (name, status) in RUN_STATUSES {
            let id = self.reserve_hidden(format!("{}#{name}", current.name), "end", current.id, node.span);
            // Only a failed run has an error.
            let error = error.filter(|_| *status == Status::Failed);
            self.node(id).kind = NodeKind::single_task(Action::End { status: *status, error });
            let name = if whole { name.to_lowercase() } else { (*name).to_owned() };
            cases.push(BranchCase { test: BranchTest::Equals(self.constant(name.into(), node.span)), node: id });
        }
        let otherwise = self.reserve_hidden(format!("{}#otherwise", current.name), "end", current.id, node.span);
        let message = "`runStatus` is none of Succeeded, Failed and Cancelled";
        let error = Value::object([("code", "BadRunStatus"), ("message", message)]);
        let mut task = Task::new(Action::Evaluate(on));
        let directive = Directive::Fail { status: Status::Failed, error: Some(self.constant(error, node.span)) };
        task.rules.push(TaskRule::new(directive));
        self.node(otherwise).kind = NodeKind::Pipeline(Pipeline { tasks: vec![task] });
        NodeKind::Branch(Branch { on: Some(on), cases, otherwise: Some(otherwise) })
    }

    fn run_status(&mut self, node: &SyntaxNode) -> Option<Status> {
        let text = &expect_text(node, "`runStatus`", &mut self.diagnostics)?.text;
        if let Some((_, status)) = RUN_STATUSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            return Some(*status);
        }
        let hint = did_you_mean(text, RUN_STATUSES.iter().map(|(name, _)| *name));
        let hint = hint.unwrap_or_else(|| "a run ends as Succeeded, Failed or Cancelled".to_owned());
        self.error(codes::UNKNOWN_STATUS, node.span, format!("a run cannot end as `{text}`"), hint);
        None
    }

    /// Returns `{code, message}`, both present even if only one was given.
    fn run_error(&mut self, node: &SyntaxNode) -> Option<SyntaxNode> {
        let mut object = ObjectReader::read(node, "`runError`", &mut self.diagnostics)?;
        let (code, message) = (object.take("code"), object.take("message"));
        object.finish(codes::UNKNOWN_KEY, "`runError`", &mut self.diagnostics);
        let or_default = |node: Option<&SyntaxNode>, text: &str| match node {
            Some(node) => node.clone(),
            None => SyntaxNode::text(text, object_span(code, message)),
        };
        let entries = [("code", or_default(code, "Terminated")), ("message", or_default(message, ""))];
        Some(SyntaxNode::object(node.span, entries))
    }
}

fn object_span(code: Option<&SyntaxNode>, message: Option<&SyntaxNode>) -> windlass_syntax::Span {
    code.or(message).map(|node| node.span).unwrap_or_default()
}
