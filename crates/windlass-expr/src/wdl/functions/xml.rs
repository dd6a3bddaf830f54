//! XML: making it, and asking for parts of it.

use windlass_value::Value;

use super::{BadArgument, Function, Prepared, pure, wrong};
use crate::wdl::node::Node;
use crate::wdl::values::{Context, Outcome, describe, type_error};
use crate::wdl::xml::document::ROOT;
use crate::wdl::xml::xpath::{XPath, evaluate};
use crate::wdl::xml::{self as markup, Document, json, outer, value_of};

pub(crate) const FUNCTIONS: &[Function] =
    &[pure("xml", 1, 1, xml), pure("xpath", 2, 2, xpath).preparing(prepare_xpath)];

/// Of a text, of an object with one property, or of binary content, which is taken for XML as it is.
fn xml(context: &mut Context, arguments: &[Value]) -> Outcome {
    match &arguments[0] {
        Value::Str(text) => {
            let document = Document::parse(context, text)?;
            value_of(context, &outer(&document, ROOT))
        }
        Value::Map(map) if map.contains_key("$content") => {
            let content = map.get("$content").cloned().unwrap_or_default();
            Ok(Value::object([("$content-type", Value::from(markup::CONTENT_TYPE)), ("$content", content)]))
        }
        Value::Map(map) => {
            let text = json::from_json(context, map)?;
            value_of(context, &text)
        }
        Value::List(_) => Err(type_error(format!("`xml` cannot make XML of {}", describe(&arguments[0])))
            .hint("put the array into an object: xml(json(concat('{\"root\":{\"item\":', …, '}}')))")),
        _ => Err(wrong("xml", arguments, 0, "a text or an object")),
    }
}

fn prepare_xpath(arguments: &[Node]) -> Result<Option<Prepared>, BadArgument> {
    let Some(Node::Constant(Value::Str(text))) = arguments.get(1) else { return Ok(None) };
    match XPath::parse(text) {
        Ok(path) => Ok(Some(Box::new(move |context, arguments| ask(context, &arguments[0], &path)))),
        Err(error) => Err(BadArgument { index: 1, message: format!("`xpath`: {}", error.message), hint: error.hint }),
    }
}

/// With an expression that is known only now.
fn xpath(context: &mut Context, arguments: &[Value]) -> Outcome {
    let Value::Str(text) = &arguments[1] else { return Err(wrong("xpath", arguments, 1, "a string")) };
    let path = XPath::parse(text).map_err(|error| {
        let bad = type_error(format!("`xpath`: {}", error.message));
        error.hint.into_iter().fold(bad, windlass_value::EvalError::hint)
    })?;
    ask(context, &arguments[0], &path)
}

fn ask(context: &mut Context, value: &Value, path: &XPath) -> Outcome {
    let text = markup::text_at("xpath", context, value)?;
    let document = Document::parse(context, &text)?;
    evaluate(context, &document, path)
}
