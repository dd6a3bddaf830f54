//! XPath 1.0, all of it that needs no variables: `lexer` text to tokens, `parser` tokens to syntax, `axes` which nodes a step
//! reaches, `eval` values of expressions, `functions` the core library. Every node that is looked at costs fuel.

mod axes;
mod eval;
mod functions;
mod lexer;
mod parser;

use windlass_value::{EvalError, Value};

use super::document::{XmlDocument, XmlNodeId, XmlNodeKind};
use super::{outer_xml, xml_value};
use crate::wdl::values::{WdlContext, WdlResult, exact_int};

use eval::{XPathEvaluator, XPathValue, number_text};

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
pub(crate) fn evaluate(context: &mut WdlContext, document: &XmlDocument, path: &XPath) -> WdlResult {
    let value = XPathEvaluator::new(context, document).value(path)?;
    match value {
        XPathValue::Bool(flag) => Ok(Value::Bool(flag)),
        XPathValue::Text(text) => Ok(Value::from(text)),
        // There are no such values as NaN and infinity: their names stand for them.
        XPathValue::Number(number) => Ok(match exact_int(number) {
            Some(int) => Value::Int(int),
            None => Value::float(number).unwrap_or_else(|| Value::from(number_text(number))),
        }),
        XPathValue::Nodes(nodes) => {
            context.reserve_items(nodes.len())?;
            let each = nodes.into_iter().map(|id| node_value(context, document, id));
            each.collect::<Result<Vec<Value>, EvalError>>().map(Value::list)
        }
    }
}

/// Elements and the document itself are XML again; anything else is its text.
fn node_value(context: &mut WdlContext, document: &XmlDocument, id: XmlNodeId) -> WdlResult {
    match &document.node(id).kind {
        XmlNodeKind::Element { .. } | XmlNodeKind::Root => {
            let inside = document.node(id).end - id;
            context.charge_items(inside as usize)?;
            let text = outer_xml(document, id);
            xml_value(context, &text)
        }
        _ => XPathEvaluator::new(context, document).string(id).map(Value::from),
    }
}
