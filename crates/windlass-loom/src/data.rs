//! Actions that only give a value: `compose`, and the operations on texts and whole lists.

use windlass_core::plan::NodeKind;
use windlass_syntax::{Node, Span};
use windlass_value::Mode;

use crate::actions::Current;
use crate::compiler::Compiler;
use crate::expr::Tongue;
use crate::types::ActionType;

/// The fields of an operation, and whether they must be there.
type Shape = &'static [(&'static str, bool)];

const PARSE: Shape = &[("content", true), ("schema", false)];
const QUERY: Shape = &[("from", true), ("where", true)];
const SELECT: Shape = &[("from", true), ("select", true)];
const JOIN: Shape = &[("from", true), ("joinWith", true)];
const TABLE: Shape = &[("from", true), ("format", true), ("columns", false)];

impl Compiler<'_> {
    pub(crate) fn compose(&mut self, current: &mut Current) -> Option<NodeKind> {
        self.pure.push(current.id);
        let inputs = current.fields.require("inputs", &mut self.diagnostics)?;
        Some(NodeKind::evaluate(self.value(inputs, current.place.scope)))
    }

    /// Each operation is a language of its own: its source is the action's input, its value `{"body": result}`.
    pub(crate) fn data(&mut self, current: &mut Current, kind: ActionType) -> Option<NodeKind> {
        self.pure.push(current.id);
        let scope = current.place.scope;
        let (tongue, shape) = operation(kind)?;
        let (mut entries, mut complete) = (Vec::new(), true);
        for (name, needed) in shape {
            match current.fields.take(name, &mut self.diagnostics) {
                Some(node) => entries.push((*name, node.clone())),
                None if *needed => {
                    current.fields.missing(name, &mut self.diagnostics);
                    complete = false;
                }
                None => {}
            }
        }
        let span = current.fields.span();
        if kind == ActionType::ParseJson && !entries.iter().any(|(name, _)| *name == "schema") {
            // No schema allows everything.
            entries.push(("schema", Node::object(Span::at(span.start), [])));
        }
        let source = Node::object(span, entries);
        Some(NodeKind::evaluate(match complete {
            true => self.expression_in(tongue, &source, Mode::Value, scope),
            false => {
                let before = self.uses.len();
                self.look_at(Tongue::Wdl, &source, Mode::Value, scope);
                self.uses[before..].iter_mut().for_each(|found| found.element = tongue.has_element(&[]));
                return None;
            }
        }))
    }
}

fn operation(kind: ActionType) -> Option<(Tongue, Shape)> {
    Some(match kind {
        ActionType::Join => (Tongue::Join, JOIN),
        ActionType::ParseJson => (Tongue::Parse, PARSE),
        ActionType::Query => (Tongue::Query, QUERY),
        ActionType::Select => (Tongue::Select, SELECT),
        ActionType::Table => (Tongue::Table, TABLE),
        _ => return None,
    })
}
