//! XPath 1.0 without variables. `lexer`: text to tokens · `parser`: tokens to syntax · `axes`: the nodes that a step
//! reaches · `eval`: evaluation · `functions`: the core library. Every visited node costs fuel.

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

/// A problem in an XPath expression, with a hint.
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

/// Evaluates the expression to an array for nodes, otherwise to a number, a text or a boolean.
pub(crate) fn evaluate(context: &mut WdlContext, document: &XmlDocument, path: &XPath) -> WdlResult {
    let value = XPathEvaluator::new(context, document).value(path)?;
    match value {
        XPathValue::Bool(flag) => Ok(Value::Bool(flag)),
        XPathValue::Text(text) => Ok(Value::from(text)),
        // JSON has no NaN and no infinity: their names represent them.
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

/// Converts a node: elements and the document itself to XML, anything else to its text.
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
