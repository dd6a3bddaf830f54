//! Conversion of our values to engine values and back. Lists and objects are passed by reference count; untouched
//! values cost nothing. A stored value is requested on access.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{Error, Value as Inner};
use windlass_value::{EvalError, EvalErrorKind, Map, Value};

use super::session::{EvalSession, from_engine_error, to_engine_error};
use crate::wdl::functions::encoding::content_text;
use crate::wdl::values::MAX_DEPTH;

/// Converts a value to an engine value.
pub(super) fn to_engine(value: &Value, session: &Arc<EvalSession>) -> Inner {
    match value {
        Value::Null => Inner::from(()),
        Value::Bool(flag) => Inner::from(*flag),
        Value::Int(number) => Inner::from(*number),
        Value::Float(number) => Inner::from(*number),
        Value::Big(text) => match text.parse::<i128>() {
            Ok(number) => Inner::from(number),
            Err(_) => Inner::from_object(ExactNumber(text.clone())),
        },
        Value::Str(text) => Inner::from(text.clone()),
        Value::List(items) => Inner::from_object(ListObject { items: items.clone(), session: session.clone() }),
        Value::Map(map) => Inner::from_object(MapObject { map: map.clone(), session: session.clone() }),
        Value::Stored(stored) => match session.load(stored) {
            Ok(content) => to_engine(&content, session),
            Err(error) => Inner::from(to_engine_error(error)),
        },
    }
}

/// A number that the engine cannot compute with: it passes through and prints unchanged.
#[derive(Debug)]
struct ExactNumber(Arc<str>);

impl Object for ExactNumber {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug)]
struct ListObject {
    items: Arc<Vec<Value>>,
    session: Arc<EvalSession>,
}

impl Object for ListObject {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Inner) -> Option<Inner> {
        let value = self.items.get(key.as_usize()?)?;
        Some(
            self.session
                .spend(1)
                .map_or_else(|error| Inner::from(to_engine_error(error)), |()| to_engine(value, &self.session)),
        )
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }
}

#[derive(Debug)]
struct MapObject {
    map: Arc<Map>,
    session: Arc<EvalSession>,
}

impl Object for MapObject {
    fn get_value(self: &Arc<Self>, key: &Inner) -> Option<Inner> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Inner> {
        let value = self.map.get(key)?;
        Some(
            self.session
                .spend(1)
                .map_or_else(|error| Inner::from(to_engine_error(error)), |()| to_engine(value, &self.session)),
        )
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match self.session.spend(self.map.len() as u64) {
            Ok(()) => Enumerator::Values(self.map.keys().map(|key| Inner::from(key.clone())).collect()),
            Err(error) => Enumerator::Values(vec![Inner::from(to_engine_error(error))]),
        }
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.map.len())
    }
}

/// Returns the text of a binary value; none for any other value. Bytes that are not text fail.
pub(super) fn binary_text(value: &Inner) -> Option<Result<String, EvalError>> {
    const HINT: &str = "`{{ x['$content'] }}` is the content as base64; a template without text around it, `\"{{ x }}\"`, \
                        passes the value on as it is";
    let map = &value.downcast_object_ref::<MapObject>()?.map;
    let part = |key: &str| map.get(key).and_then(Value::as_str);
    let (content, content_type) = (part("$content")?, part("$content-type")?);
    Some(content_text("a binary value in a text", content, content_type).map_err(|error| error.with_hint(HINT)))
}

/// Returns whether the value is one of our lists or objects, unchanged.
pub(super) fn is_wrapped_value(value: &Inner) -> bool {
    value.downcast_object_ref::<ListObject>().is_some() || value.downcast_object_ref::<MapObject>().is_some()
}

/// Returns the number of string bytes in a list: comparing its items reads them.
pub(super) fn text_bytes(list: &Inner) -> usize {
    if let Some(ours) = list.downcast_object_ref::<ListObject>() {
        return ours.items.iter().filter_map(Value::as_str).map(str::len).sum();
    }
    // Any other iterable may allow only one traversal.
    let items = (list.kind() == ValueKind::Seq).then(|| list.try_iter().ok()).flatten();
    items.into_iter().flatten().filter_map(|item| item.as_str().map(str::len)).sum()
}

/// Converts an engine value to one of ours without loss: integers beyond 64 bits are kept as their text.
pub(super) fn from_engine(value: &Inner, session: &EvalSession) -> Result<Value, EvalError> {
    from_engine_at_depth(value, session, 0)
}

fn from_engine_at_depth(value: &Inner, session: &EvalSession, depth: usize) -> Result<Value, EvalError> {
    if depth > MAX_DEPTH {
        return Err(EvalError::new(EvalErrorKind::Limit, format!("a value nests deeper than {MAX_DEPTH}")));
    }
    if let Some(items) = value.downcast_object_ref::<ListObject>() {
        return Ok(Value::List(items.items.clone()));
    }
    if let Some(entries) = value.downcast_object_ref::<MapObject>() {
        return Ok(Value::Map(entries.map.clone()));
    }
    if let Some(ExactNumber(text)) = value.downcast_object_ref::<ExactNumber>() {
        return Ok(Value::Big(text.clone()));
    }
    let to_error = |error: Error| from_engine_error(&error);
    match value.kind() {
        ValueKind::Undefined => Err(EvalError::new(EvalErrorKind::Missing, "the expression has no value")
            .with_hint("`| default(…)` provides a value for that case")),
        ValueKind::None => Ok(Value::Null),
        ValueKind::Bool => Ok(Value::Bool(value.is_true())),
        ValueKind::Number => number(value),
        ValueKind::String => Ok(value.to_str().map_or(Value::Null, Value::Str)),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(to_error)?.checked();
            let items = items.map(|item| {
                session.spend(1)?;
                from_engine_at_depth(&item.map_err(to_error)?, session, depth + 1)
            });
            Ok(Value::list(items.collect::<Result<_, _>>()?))
        }
        ValueKind::Map => {
            let mut map = Map::new();
            for key in value.try_iter().map_err(to_error)?.checked() {
                let key = key.map_err(to_error)?;
                let item = value.get_item(&key).map_err(to_error)?;
                session.spend(1)?;
                map.insert(key.to_string(), from_engine_at_depth(&item, session, depth + 1)?);
            }
            Ok(Value::map(map))
        }
        ValueKind::Invalid => Err(value.try_iter().map(|_| ()).map_or_else(to_error, |()| no_value(value))),
        _ => Err(no_value(value)),
    }
}

/// Converts a constant written in a template; None for lists and objects.
pub(super) fn constant(value: &Inner) -> Option<Value> {
    match value.kind() {
        ValueKind::None => Some(Value::Null),
        ValueKind::Bool => Some(Value::Bool(value.is_true())),
        ValueKind::Number => number(value).ok(),
        ValueKind::String => value.to_str().map(Value::Str),
        _ => None,
    }
}

fn no_value(value: &Inner) -> EvalError {
    EvalError::new(EvalErrorKind::Type, format!("the expression gives a {}, which is not a value", value.kind()))
}

fn number(value: &Inner) -> Result<Value, EvalError> {
    if value.is_integer() {
        if let Some(number) = value.as_i64() {
            return Ok(Value::Int(number));
        }
        return Ok(Value::Big(value.to_string().into()));
    }
    let float = f64::try_from(value.clone()).ok().and_then(Value::float);
    float.ok_or_else(|| {
        EvalError::new(EvalErrorKind::Type, format!("the expression gives {value}, which is not a number"))
    })
}

/// Returns the type error of a filter.
pub(super) fn type_error(message: impl Into<String>, hint: Option<&str>) -> Error {
    let error = EvalError::new(EvalErrorKind::Type, message);
    to_engine_error(match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    })
}

/// Describes a value by its type and a preview, for messages.
pub(super) fn describe(value: &Inner) -> String {
    match value.kind() {
        ValueKind::None => "null".to_owned(),
        ValueKind::String => {
            format!("the text {:?}", value.as_str().map(crate::wdl::values::truncate).unwrap_or_default())
        }
        ValueKind::Number | ValueKind::Bool => format!("the {} {value}", value.kind()),
        kind => format!("a {kind}"),
    }
}
