//! XPath 1.0, all of it that needs no variables: `lexer` text to tokens, `parser` tokens to syntax, `axes` which nodes a step
//! reaches, `eval` values of expressions, `functions` the core library. Every node that is looked at costs fuel.

mod axes;
mod eval;
mod functions;
mod lexer;
mod parser;

use windlass_value::{EvalError, Value};

use super::document::{Document, Kind, NodeId};
use super::{outer, value_of};
use crate::wdl::values::{Context, Outcome, whole};

use eval::{Evaluator, XValue, number_text};

pub(crate) use parser::XPath;

/// What is wrong with an expression, and where.
#[derive(Debug)]
pub(crate) struct XPathError {
    pub message: String,
    pub hint: Option<String>,
}

impl XPathError {
    fn new(message: impl Into<String>) -> XPathError {
        XPathError { message: message.into(), hint: None }
    }
}

/// The value of the expression: an array for nodes, otherwise a number, a text or a boolean.
pub(crate) fn evaluate(context: &mut Context, document: &Document, path: &XPath) -> Outcome {
    let value = Evaluator::new(context, document).value(path)?;
    match value {
        XValue::Bool(flag) => Ok(Value::Bool(flag)),
        XValue::Text(text) => Ok(Value::from(text)),
        // There are no such values as NaN and infinity: their names stand for them.
        XValue::Number(number) => Ok(match whole(number) {
            Some(int) => Value::Int(int),
            None => Value::float(number).unwrap_or_else(|| Value::from(number_text(number))),
        }),
        XValue::Nodes(nodes) => {
            context.room_for_items(nodes.len())?;
            let each = nodes.into_iter().map(|id| node_value(context, document, id));
            each.collect::<Result<Vec<Value>, EvalError>>().map(Value::list)
        }
    }
}

/// Elements and the document itself are XML again; anything else is its text.
fn node_value(context: &mut Context, document: &Document, id: NodeId) -> Outcome {
    match &document.node(id).kind {
        Kind::Element { .. } | Kind::Root => {
            let inside = document.node(id).end - id;
            context.items(inside as usize)?;
            let text = outer(document, id);
            value_of(context, &text)
        }
        _ => Evaluator::new(context, document).string(id).map(Value::from),
    }
}
