//! Actions as one: `scope`, `parallel`; and `terminate`, which ends everything.

use windlass_core::Status;
use windlass_core::plan::{Action, NodeKind};
use windlass_syntax::{Diagnostic, Node, Object, did_you_mean, expect_text};

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
    pub fn block(&mut self, current: &mut Current) -> Option<NodeKind> {
        let actions = current.fields.require("actions", &mut self.diagnostics)?;
        let place = Place { parent: current.id, scope: current.place.scope, top: false };
        Some(NodeKind::Graph(self.children(actions, &place, Order::Together)))
    }

    pub fn terminate(&mut self, current: &mut Current) -> Option<NodeKind> {
        let around = self.scopes.loops(current.place.scope).next().map(|frame| frame.name.clone());
        if let Some(name) = around {
            let message = format!("`terminate` is not allowed inside a loop; this one is inside `{name}`");
            let hint = "set a variable in the loop, and terminate after it";
            self.error(codes::TERMINATE_INSIDE, current.fields.span(), message, hint);
        }
        let status = current.fields.require("runStatus", &mut self.diagnostics);
        let status = status.and_then(|node| self.run_status(node));
        let error = current.fields.take("runError", &mut self.diagnostics);
        let error = error.and_then(|node| self.run_error(node)).map(|node| self.value(&node, current.place.scope));
        Some(NodeKind::lone(Action::End { status: status?, error }))
    }

    fn run_status(&mut self, node: &Node) -> Option<Status> {
        let text = &expect_text(node, "`runStatus`", &mut self.diagnostics)?.text;
        if let Some((_, status)) = RUN_STATUSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            return Some(*status);
        }
        let problem = match expr::is_expression(text) {
            true => Diagnostic::error(codes::NOT_SUPPORTED, node.span, "a computed `runStatus` is not supported")
                .hint("use a `switch` with one `terminate` for each status"),
            false => {
                let hint = did_you_mean(text, RUN_STATUSES.iter().map(|(name, _)| *name));
                let all = "a run ends as Succeeded, Failed or Cancelled".to_owned();
                Diagnostic::error(codes::UNKNOWN_STATUS, node.span, format!("a run cannot end as `{text}`"))
                    .hint(hint.unwrap_or(all))
            }
        };
        self.push(problem);
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
