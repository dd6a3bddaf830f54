//! Functions that create XML and evaluate XPath.

use windlass_value::Value;

use super::{BadArgument, PreparedFunction, WdlFunction, pure, wrong_argument};
use crate::wdl::node::WdlNode;
use crate::wdl::values::{WdlContext, WdlResult, describe, type_error};
use crate::wdl::xml::document::ROOT;
use crate::wdl::xml::xpath::{XPath, evaluate};
use crate::wdl::xml::{self as markup, XmlDocument, json, outer_xml, xml_value};

pub(crate) const FUNCTIONS: &[WdlFunction] =
    &[pure("xml", 1, 1, xml), pure("xpath", 2, 2, xpath).preparing(prepare_xpath)];

/// Creates XML from a text, an object with one property, or binary content, which is taken as XML unchanged.
fn xml(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    match &arguments[0] {
        Value::Str(text) => {
            let document = XmlDocument::parse(context, text)?;
            xml_value(context, &outer_xml(&document, ROOT))
        }
        Value::Map(map) if map.contains_key("$content") => {
            let content = map.get("$content").cloned().unwrap_or_default();
            Ok(Value::object([("$content-type", Value::from(markup::CONTENT_TYPE)), ("$content", content)]))
        }
        Value::Map(map) => {
            let text = json::from_json(context, map)?;
            xml_value(context, &text)
        }
        Value::List(_) => Err(type_error(format!("`xml` cannot convert {} to XML", describe(&arguments[0])))
            .with_hint("put the array into an object: xml(json(concat('{\"root\":{\"item\":', …, '}}')))")),
        _ => Err(wrong_argument("xml", arguments, 0, "a text or an object")),
    }
}

fn prepare_xpath(arguments: &[WdlNode]) -> Result<Option<PreparedFunction>, BadArgument> {
    let Some(WdlNode::Constant(Value::Str(text))) = arguments.get(1) else { return Ok(None) };
    match XPath::parse(text) {
        Ok(path) => Ok(Some(Box::new(move |context, arguments| evaluate_xpath(context, &arguments[0], &path)))),
        Err(error) => Err(BadArgument { index: 1, message: format!("`xpath`: {}", error.message), hint: error.hint }),
    }
}

/// Evaluates an XPath expression that is known only at run time.
fn xpath(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let Value::Str(text) = &arguments[1] else { return Err(wrong_argument("xpath", arguments, 1, "a string")) };
    let path = XPath::parse(text).map_err(|error| {
        let bad = type_error(format!("`xpath`: {}", error.message));
        error.hint.into_iter().fold(bad, windlass_value::EvalError::with_hint)
    })?;
    evaluate_xpath(context, &arguments[0], &path)
}

fn evaluate_xpath(context: &mut WdlContext, value: &Value, path: &XPath) -> WdlResult {
    let text = markup::xml_text("xpath", context, value)?;
    let document = XmlDocument::parse(context, &text)?;
    evaluate(context, &document, path)
}
