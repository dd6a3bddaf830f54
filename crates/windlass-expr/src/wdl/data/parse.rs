//! Parses content as JSON and validates it against a schema.

use serde_json::Value as Json;
use windlass_value::{EvalError, EvalErrorKind, EvalScope, Expression, Meter, PathPart, Value, parse_json};

use super::schema::WdlSchema;
use super::{OperationParts, body};
use crate::wdl::functions::binary_text;
use crate::wdl::node::{WdlNode, eval};
use crate::wdl::values::{MAX_DEPTH, WdlContext, WdlResult, preview, too_deep, type_error};

pub(super) fn parse(parts: &mut OperationParts) -> Option<Box<dyn Expression>> {
    let content = parts.tree("content");
    let schema = parts.part("schema", |compiler, source| {
        let node = compiler.tree(source);
        let WdlNode::Constant(value) = &node else { return Some(SchemaSource::Computed(node)) };
        if !compiler.errors.is_empty() {
            return None;
        }
        match serde_json::to_value(value).map(|schema| WdlSchema::compile(&schema)) {
            Ok(Ok(schema)) => Some(SchemaSource::Fixed(Box::new(schema))),
            Ok(Err(bad)) => {
                report_bad_schema(compiler, source, &bad.pointer, bad.message);
                None
            }
            Err(error) => {
                compiler.error(format!("the schema cannot be read: {error}"), None, 0..0);
                None
            }
        }
    });
    Some(Box::new(Parse { content: content?, schema: schema.flatten()? }))
}

/// Reports the error at its location in the schema.
fn report_bad_schema(compiler: &mut crate::wdl::compile::WdlCompiler, source: &Value, pointer: &str, message: String) {
    fn descend(
        compiler: &mut crate::wdl::compile::WdlCompiler,
        at: &Value,
        mut rest: std::str::Split<char>,
        message: String,
    ) {
        let Some(step) = rest.next() else { return compiler.error(message, None, 0..0) };
        let step = step.replace("~1", "/").replace("~0", "~");
        let inner = match at {
            Value::Map(map) => map.iter().find(|(key, _)| ***key == *step),
            _ => None,
        };
        match (at, inner) {
            (Value::Map(_), Some((key, value))) => {
                compiler.inside(PathPart::Key(key.clone()), |compiler| descend(compiler, value, rest, message));
            }
            (Value::List(items), _) => {
                match step.parse().ok().and_then(|index: usize| Some((index, items.get(index)?))) {
                    Some((index, value)) => {
                        compiler.inside(PathPart::Index(index), |compiler| descend(compiler, value, rest, message))
                    }
                    None => compiler.error(message, None, 0..0),
                }
            }
            _ => compiler.error(message, None, 0..0),
        }
    }
    let mut steps = pointer.split('/');
    steps.next();
    descend(compiler, source, steps, message);
}

enum SchemaSource {
    /// A literal schema, compiled with the expression.
    Fixed(Box<WdlSchema>),
    Computed(WdlNode),
}

struct Parse {
    content: WdlNode,
    schema: SchemaSource,
}

impl Expression for Parse {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        let mut context = WdlContext::new(scope, meter);
        let value = eval(&self.content, &mut context)?;
        let value = read_content(&mut context, value)?;
        let json = to_json(&mut context, &value, 0)?;
        match &self.schema {
            SchemaSource::Fixed(schema) => check(&mut context, schema, &json)?,
            SchemaSource::Computed(node) => {
                let schema = eval(node, &mut context)?;
                let schema = to_json(&mut context, &schema, 0)?;
                let schema = WdlSchema::compile(&schema)
                    .map_err(|bad| type_error(format!("{} (at `schema{}`)", bad.message, bad.pointer)))?;
                check(&mut context, &schema, &json)?;
            }
        }
        body(&context, value)
    }
}

/// Validates the content. The cost is charged first, so that no schema takes more than the evaluation has left.
fn check(context: &mut WdlContext, schema: &WdlSchema, json: &Json) -> Result<(), EvalError> {
    let Some(effort) = schema.validation_cost(json, context.meter.fuel) else {
        context.meter.fuel = 0;
        let message = "validating the content against its schema takes more steps than one evaluation may take";
        return Err(EvalError::new(EvalErrorKind::Limit, message).with_hint(
            "branches (`anyOf`, `oneOf`, `allOf`) that lead to the same schema again multiply with each level",
        ));
    };
    context.meter.spend(effort.steps)?;
    schema.check(json, effort).map_err(|problems| {
        EvalError::new(EvalErrorKind::Invalid, format!("the content does not match the schema: {problems}"))
            .with_hint("a property that may be null has the type [\"string\", \"null\"]; one that may be missing is not `required`")
    })
}

/// Parses text and binary content as JSON; any other value is returned unchanged.
fn read_content(context: &mut WdlContext, value: Value) -> WdlResult {
    let value = context.content(value)?;
    let text = match &value {
        Value::Null => {
            return Err(type_error("`content` is null").with_hint("let the action run only when there is content"));
        }
        Value::Str(text) => text.to_string(),
        Value::Map(map) if map.contains_key("$content") && map.contains_key("$content-type") => {
            binary_text("the content", context, &value)?
        }
        _ => return Ok(value),
    };
    context.reserve_bytes(text.len())?;
    context.charge_items(text.len() / 8)?;
    parse_json(&text).map_err(|error| {
        type_error(format!("`content` cannot be read as JSON: {error}; it is {}", preview(&Value::from(text.as_str()))))
    })
}

/// Converts a value for the JSON Schema crate, with all stored content loaded.
fn to_json(context: &mut WdlContext, value: &Value, depth: usize) -> Result<Json, EvalError> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    context.charge_items(1)?;
    Ok(match value {
        Value::List(items) => {
            Json::Array(items.iter().map(|item| to_json(context, item, depth + 1)).collect::<Result<_, _>>()?)
        }
        Value::Map(map) => {
            let each = map.iter().map(|(key, item)| Ok((key.to_string(), to_json(context, item, depth + 1)?)));
            Json::Object(each.collect::<Result<_, EvalError>>()?)
        }
        Value::Stored(stored) => {
            let content = context.load(stored)?;
            to_json(context, &content, depth + 1)?
        }
        Value::Str(text) => {
            context.charge_bytes(text.len())?;
            Json::String(text.to_string())
        }
        other => serde_json::to_value(other).unwrap_or_default(),
    })
}
