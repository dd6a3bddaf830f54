//! Actions that only compute a value: `compose`, and the operations on texts and lists.

use windlass_core::plan::NodeKind;
use windlass_syntax::{Span, SyntaxNode};
use windlass_value::ExpressionMode;

use crate::actions::CurrentAction;
use crate::compiler::LoomCompiler;
use crate::expr::ExprLanguage;
use crate::types::ActionType;

/// The fields of an operation, and whether each is required.
type OperationFields = &'static [(&'static str, bool)];

const PARSE: OperationFields = &[("content", true), ("schema", false)];
const QUERY: OperationFields = &[("from", true), ("where", true)];
const SELECT: OperationFields = &[("from", true), ("select", true)];
const JOIN: OperationFields = &[("from", true), ("joinWith", true)];
const TABLE: OperationFields = &[("from", true), ("format", true), ("columns", false)];

impl LoomCompiler<'_> {
    pub(crate) fn compose(&mut self, current: &mut CurrentAction) -> Option<NodeKind> {
        self.pure.push(current.id);
        let inputs = current.fields.require("inputs", &mut self.diagnostics)?;
        Some(NodeKind::evaluate(self.value(inputs, current.position.scope)))
    }

    /// Compiles an operation. Each operation is a separate language: its source is the action's input, its value
    /// `{"body": result}`.
    pub(crate) fn data(&mut self, current: &mut CurrentAction, kind: ActionType) -> Option<NodeKind> {
        self.pure.push(current.id);
        let scope = current.position.scope;
        let (language, shape) = operation(kind)?;
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
            // Without a schema every value is valid.
            entries.push(("schema", SyntaxNode::object(Span::at(span.start), [])));
        }
        let source = SyntaxNode::object(span, entries);
        Some(NodeKind::evaluate(match complete {
            true => self.expression_in(language, &source, ExpressionMode::Value, scope),
            false => {
                let before = self.uses.len();
                self.check_expression(ExprLanguage::Wdl, &source, ExpressionMode::Value, scope);
                self.uses[before..].iter_mut().for_each(|found| found.element = language.has_element(&[]));
                return None;
            }
        }))
    }
}

fn operation(kind: ActionType) -> Option<(ExprLanguage, OperationFields)> {
    Some(match kind {
        ActionType::Join => (ExprLanguage::Join, JOIN),
        ActionType::ParseJson => (ExprLanguage::Parse, PARSE),
        ActionType::Query => (ExprLanguage::Query, QUERY),
        ActionType::Select => (ExprLanguage::Select, SELECT),
        ActionType::Table => (ExprLanguage::Table, TABLE),
        _ => return None,
    })
}
