//! The environment of an expression: the steps and names that it may use. A dialect's compiler stores it next to the
//! text, so that a plan can be loaded again without the definition.

use std::sync::Arc;

use windlass_value::{CompileError, Map, PathPart, Value};

use super::lower::variable_from_name;
use super::node::CelVariable;
use super::syntax::CelProblem;

#[derive(Clone, Debug, Default)]
pub(super) struct CelEnvironment {
    pub steps: Vec<Arc<str>>,
    /// The loop that `iteration`, `item` and `index` refer to; None means the innermost loop.
    pub loop_name: Option<Arc<str>>,
    pub binds: Vec<CelVariable>,
}

/// Builds the source of an expression: its text, the ids of the steps that it may refer to, the enclosing loop, and
/// which of `iteration`, `item`, `index`, `content`, `result`, `status`, `stop` and `inputs` are bound.
pub fn source<'a>(
    text: &str,
    steps: impl IntoIterator<Item = &'a str>,
    loop_name: Option<&str>,
    binds: impl IntoIterator<Item = &'a str>,
) -> Value {
    let name_list = |names: &mut dyn Iterator<Item = &'a str>| Value::list(names.map(Value::from).collect());
    let mut object = Map::new();
    object.insert("cel", text);
    object.insert("steps", name_list(&mut steps.into_iter()));
    object.insert("loop", loop_name.map(Value::from));
    object.insert("binds", name_list(&mut binds.into_iter()));
    Value::map(object)
}

/// Parses a source into its text and environment; a plain string has an empty environment.
pub(super) fn parse_source(source: &Value) -> Result<(Arc<str>, CelEnvironment), CompileError> {
    let error = |message: String, key: Option<&str>| CompileError {
        message,
        hint: Some(
            "the source is a text, or {\"cel\": text, \"steps\": […], \"loop\": name, \"binds\": […]}".to_owned(),
        ),
        pointer: key.map(|key| PathPart::Key(key.into())).into_iter().collect(),
        range: 0..0,
    };
    let object = match source {
        Value::Str(text) => return Ok((text.clone(), CelEnvironment::default())),
        Value::Map(object) => object,
        other => return Err(error(format!("an expression is a text, got {}", other.kind()), None)),
    };
    let Some(Value::Str(text)) = object.get("cel") else {
        return Err(error("the source has no text `cel`".to_owned(), None));
    };
    let names = |key: &'static str| match object.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::List(items)) => {
            let name = |item: &Value| match item {
                Value::Str(name) => Ok(name.clone()),
                other => Err(error(format!("`{key}` holds names, got {}", other.kind()), Some(key))),
            };
            items.iter().map(name).collect::<Result<Vec<Arc<str>>, CompileError>>()
        }
        Some(other) => Err(error(format!("`{key}` is a list of names, got {}", other.kind()), Some(key))),
    };
    let binds = names("binds")?.into_iter().map(|name| {
        variable_from_name(&name)
            .ok_or_else(|| error(format!("`{name}` is not a name that can be bound"), Some("binds")))
    });
    let loop_name = match object.get("loop") {
        None | Some(Value::Null) => None,
        Some(Value::Str(name)) => Some(name.clone()),
        Some(other) => return Err(error(format!("`loop` is a name, got {}", other.kind()), Some("loop"))),
    };
    let env = CelEnvironment { steps: names("steps")?, loop_name, binds: binds.collect::<Result<_, _>>()? };
    Ok((text.clone(), env))
}

/// Converts a problem in the text to a [`CompileError`].
pub(super) fn to_compile_error(problem: CelProblem, source: &Value) -> CompileError {
    let pointer = match source {
        Value::Map(_) => vec![PathPart::Key("cel".into())],
        _ => Vec::new(),
    };
    CompileError { message: problem.message, hint: problem.hint, pointer, range: problem.range }
}
