//! Values during evaluation. Values from the scope are kept as they are, behind a reference count; types that CEL has
//! and JSON lacks are defined here.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_value::{Digits, EvalError, EvalErrorKind, Map, StoredValue, Value};

use super::eval::CelEvaluator;
use super::time::{CelDuration, CelTimestamp};

pub(super) type CelResult = Result<CelValue, EvalError>;

/// The maximum nesting depth of a value that is compared or returned.
const MAX_DEPTH: usize = 120;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CelType {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Str,
    Bytes,
    List,
    Map,
    Timestamp,
    Duration,
    Type,
}

impl CelType {
    /// Returns the name that `type(x)` uses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CelType::Null => "null_type",
            CelType::Bool => "bool",
            CelType::Int => "int",
            CelType::Uint => "uint",
            CelType::Double => "double",
            CelType::Str => "string",
            CelType::Bytes => "bytes",
            CelType::List => "list",
            CelType::Map => "map",
            CelType::Timestamp => "google.protobuf.Timestamp",
            CelType::Duration => "google.protobuf.Duration",
            CelType::Type => "type",
        }
    }

    /// Returns the name for use in messages.
    pub(crate) fn display_name(self) -> &'static str {
        match self {
            CelType::Null => "null",
            CelType::Timestamp => "timestamp",
            CelType::Duration => "duration",
            other => other.name(),
        }
    }

    pub(crate) fn is_number(self) -> bool {
        matches!(self, CelType::Int | CelType::Uint | CelType::Double)
    }
}

#[derive(Clone, Debug)]
pub(super) enum CelValue {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// May be infinite or NaN, unlike a [`Value`].
    Double(f64),
    /// A number from the scope that only its text represents exactly; it counts as a double.
    Big(Arc<str>),
    Str(Arc<str>),
    Bytes(Arc<[u8]>),
    /// A list from the scope.
    Items(Arc<Vec<Value>>),
    /// A list that the expression created.
    List(Arc<Vec<CelValue>>),
    /// An object from the scope.
    Object(Arc<Map>),
    /// A map that the expression created.
    Map(Arc<CelMap>),
    Time(CelTimestamp),
    Span(CelDuration),
    Type(CelType),
    /// Its content is loaded on access.
    Stored(Arc<StoredValue>),
}

/// A map that preserves insertion order and is indexed by key.
#[derive(Debug, Default)]
pub(super) struct CelMap {
    pub list: Vec<(CelValue, CelValue)>,
    index: BTreeMap<MapKey, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MapKey {
    Bool(bool),
    /// An int and a uint of the same value are the same key.
    Integer(i128),
    Str(Arc<str>),
}

impl MapKey {
    fn from_value(value: &CelValue) -> Option<MapKey> {
        Some(match value {
            CelValue::Bool(flag) => MapKey::Bool(*flag),
            CelValue::Int(number) => MapKey::Integer(i128::from(*number)),
            CelValue::Uint(number) => MapKey::Integer(i128::from(*number)),
            CelValue::Double(number) if number.fract() == 0.0 && number.abs() < 1e20 => {
                MapKey::Integer(*number as i128)
            }
            CelValue::Str(text) => MapKey::Str(text.clone()),
            _ => return None,
        })
    }
}

impl CelMap {
    pub(crate) fn insert(&mut self, key: CelValue, value: CelValue) -> Result<(), EvalError> {
        let found = match key.kind() {
            Some(CelType::Bool | CelType::Int | CelType::Uint | CelType::Str) => MapKey::from_value(&key),
            _ => None,
        };
        let Some(found) = found else {
            return Err(type_error(format!(
                "a key of a map is a string, a bool, an int or a uint, not {}",
                describe(&key)
            )));
        };
        if self.index.insert(found, self.list.len()).is_some() {
            return Err(type_error(format!("the map has the key {} twice", describe(&key))));
        }
        self.list.push((key, value));
        Ok(())
    }

    pub(crate) fn get(&self, key: &CelValue) -> Option<&CelValue> {
        self.index.get(&MapKey::from_value(key)?).map(|at| &self.list[*at].1)
    }

    pub(crate) fn get_text(&self, key: &str) -> Option<&CelValue> {
        self.index.get(&MapKey::Str(key.into())).map(|at| &self.list[*at].1)
    }
}

impl From<Value> for CelValue {
    fn from(value: Value) -> CelValue {
        match value {
            Value::Null => CelValue::Null,
            Value::Bool(flag) => CelValue::Bool(flag),
            Value::Int(number) => CelValue::Int(number),
            Value::Float(number) => CelValue::Double(number),
            Value::Big(text) => match text.parse() {
                Ok(number) => CelValue::Uint(number),
                Err(_) => CelValue::Big(text),
            },
            Value::Str(text) => CelValue::Str(text),
            Value::List(items) => CelValue::Items(items),
            Value::Map(map) => CelValue::Object(map),
            Value::Stored(stored) => CelValue::Stored(stored),
        }
    }
}

impl CelValue {
    /// Returns the type, or None for a stored value, which may be of any type.
    pub(crate) fn kind(&self) -> Option<CelType> {
        Some(match self {
            CelValue::Null => CelType::Null,
            CelValue::Bool(_) => CelType::Bool,
            CelValue::Int(_) => CelType::Int,
            CelValue::Uint(_) => CelType::Uint,
            CelValue::Double(_) | CelValue::Big(_) => CelType::Double,
            CelValue::Str(_) => CelType::Str,
            CelValue::Bytes(_) => CelType::Bytes,
            CelValue::Items(_) | CelValue::List(_) => CelType::List,
            CelValue::Object(_) | CelValue::Map(_) => CelType::Map,
            CelValue::Time(_) => CelType::Timestamp,
            CelValue::Span(_) => CelType::Duration,
            CelValue::Type(_) => CelType::Type,
            CelValue::Stored(_) => return None,
        })
    }

    /// Returns the numeric value, if the value is a number.
    pub(crate) fn number(&self) -> Option<CelNumber> {
        Some(match self {
            CelValue::Int(number) => CelNumber::Int(*number),
            CelValue::Uint(number) => CelNumber::Uint(*number),
            CelValue::Double(number) => CelNumber::Double(*number),
            CelValue::Big(text) => CelNumber::Double(text.parse().ok()?),
            _ => return None,
        })
    }

    /// Returns the number of items, if the value is a list.
    pub(crate) fn list_len(&self) -> Option<usize> {
        match self {
            CelValue::Items(items) => Some(items.len()),
            CelValue::List(items) => Some(items.len()),
            _ => None,
        }
    }

    pub(crate) fn item(&self, at: usize) -> Option<CelValue> {
        match self {
            CelValue::Items(items) => items.get(at).cloned().map(CelValue::from),
            CelValue::List(items) => items.get(at).cloned(),
            _ => None,
        }
    }

    /// Returns the number of entries, if the value is a map.
    pub(crate) fn map_len(&self) -> Option<usize> {
        match self {
            CelValue::Object(map) => Some(map.len()),
            CelValue::Map(map) => Some(map.list.len()),
            _ => None,
        }
    }

    /// Returns the value of a map under a key.
    pub(crate) fn get_key(&self, key: &CelValue) -> Option<CelValue> {
        match (self, key) {
            (CelValue::Object(map), CelValue::Str(key)) => map.get(key).cloned().map(CelValue::from),
            (CelValue::Map(map), key) => map.get(key).cloned(),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CelNumber {
    Int(i64),
    Uint(u64),
    Double(f64),
}

impl CelNumber {
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            CelNumber::Int(number) => number as f64,
            CelNumber::Uint(number) => number as f64,
            CelNumber::Double(number) => number,
        }
    }

    fn as_integer(self) -> Option<i128> {
        match self {
            CelNumber::Int(number) => Some(i128::from(number)),
            CelNumber::Uint(number) => Some(i128::from(number)),
            CelNumber::Double(_) => None,
        }
    }

    /// Compares two numbers exactly by value; None if one is NaN.
    pub(crate) fn compare(self, other: CelNumber) -> Option<Ordering> {
        match (self.as_integer(), other.as_integer()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            (Some(a), None) => compare_integer_with_float(a, other.as_f64()),
            (None, Some(b)) => compare_integer_with_float(b, self.as_f64()).map(Ordering::reverse),
            (None, None) => self.as_f64().partial_cmp(&other.as_f64()),
        }
    }
}

fn compare_integer_with_float(integer: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // No int or uint reaches this magnitude; below it, the cast is exact.
    if float.abs() >= 1e20 {
        return Some(if float > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    Some(integer.cmp(&(float.floor() as i128)).then(match float.fract() == 0.0 {
        true => Ordering::Equal,
        false => Ordering::Less,
    }))
}

pub(super) fn type_error(message: impl Into<String>) -> EvalError {
    EvalError::new(EvalErrorKind::Type, message)
}

pub(super) fn missing_error(message: impl Into<String>) -> EvalError {
    EvalError::new(EvalErrorKind::Missing, message)
}

/// Describes a value by its type and a preview, for messages.
pub(super) fn describe(value: &CelValue) -> String {
    let Some(kind) = value.kind() else { return "a stored value".to_owned() };
    let shown = preview(value);
    match kind {
        CelType::Null => "null".to_owned(),
        CelType::Bool => format!("the bool {shown}"),
        CelType::Int => format!("the int {shown}"),
        kind => format!("the {} {shown}", kind.display_name()),
    }
}

fn preview(value: &CelValue) -> String {
    match value {
        CelValue::Null => "null".to_owned(),
        CelValue::Bool(flag) => flag.to_string(),
        CelValue::Int(number) => number.to_string(),
        CelValue::Uint(number) => format!("{number}u"),
        CelValue::Double(number) => number.to_string(),
        CelValue::Big(text) => truncate(text),
        CelValue::Str(text) => format!("{:?}", truncate(text)),
        CelValue::Bytes(bytes) => format!("of {} bytes", bytes.len()),
        CelValue::Items(items) => preview_json(&Value::List(items.clone())),
        CelValue::Object(map) => preview_json(&Value::Map(map.clone())),
        CelValue::List(items) => {
            let shown: Vec<String> = items.iter().take(3).map(preview_element).collect();
            format!("[{}{}]", shown.join(", "), if items.len() > 3 { ", …" } else { "" })
        }
        CelValue::Map(map) => {
            let shown = map
                .list
                .iter()
                .take(3)
                .map(|(key, value)| format!("{}: {}", preview_element(key), preview_element(value)));
            let shown: Vec<String> = shown.collect();
            format!("{{{}{}}}", shown.join(", "), if map.list.len() > 3 { ", …" } else { "" })
        }
        CelValue::Time(moment) => moment.to_string(),
        CelValue::Span(span) => span.to_string(),
        CelValue::Type(kind) => kind.name().to_owned(),
        CelValue::Stored(_) => "…".to_owned(),
    }
}

/// Previews an element of a value. Nested lists and maps are abbreviated, since they could be large.
fn preview_element(value: &CelValue) -> String {
    match value {
        CelValue::List(_) | CelValue::Items(_) => "[…]".to_owned(),
        CelValue::Map(_) | CelValue::Object(_) => "{…}".to_owned(),
        other => preview(other),
    }
}

fn preview_json(value: &Value) -> String {
    crate::wdl::values::preview(value)
}

pub(super) fn truncate(text: &str) -> String {
    crate::wdl::values::truncate(text).into_owned()
}

pub(super) fn too_deep() -> EvalError {
    EvalError::new(EvalErrorKind::Limit, format!("a value nests deeper than {MAX_DEPTH}"))
}

impl CelEvaluator<'_> {
    /// Returns whether two values are equal. Numbers of all types compare by value; all other types are only equal to
    /// values of the same type.
    pub(crate) fn equal(&mut self, a: &CelValue, b: &CelValue) -> Result<bool, EvalError> {
        self.equal_at_depth(a, b, 0)
    }

    fn equal_at_depth(&mut self, a: &CelValue, b: &CelValue, depth: usize) -> Result<bool, EvalError> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        match (a, b) {
            // The same blob and the same location: nothing needs to be loaded.
            (CelValue::Stored(one), CelValue::Stored(other)) if one == other => return Ok(true),
            (CelValue::Stored(_), _) | (_, CelValue::Stored(_)) => {
                let (a, b) = (self.content(a.clone())?, self.content(b.clone())?);
                return self.equal_at_depth(&a, &b, depth + 1);
            }
            _ => {}
        }
        Ok(match (a, b) {
            (CelValue::Null, CelValue::Null) => true,
            (CelValue::Bool(a), CelValue::Bool(b)) => a == b,
            (CelValue::Str(a), CelValue::Str(b)) => {
                self.charge_read(a.len().min(b.len()))?;
                a == b
            }
            (CelValue::Bytes(a), CelValue::Bytes(b)) => {
                self.charge_read(a.len().min(b.len()))?;
                a == b
            }
            (CelValue::Time(a), CelValue::Time(b)) => a == b,
            (CelValue::Span(a), CelValue::Span(b)) => a == b,
            (CelValue::Type(a), CelValue::Type(b)) => a == b,
            (CelValue::Big(text), other) | (other, CelValue::Big(text)) if other.number().is_some() => {
                let number = match other {
                    CelValue::Big(other) => Digits::parse(other),
                    other => self.convert(other).ok().as_ref().and_then(Digits::from_value),
                };
                number == Digits::parse(text)
            }
            (CelValue::Items(_) | CelValue::List(_), CelValue::Items(_) | CelValue::List(_)) => {
                let (Some(length), Some(other)) = (a.list_len(), b.list_len()) else { return Ok(false) };
                if length != other {
                    return Ok(false);
                }
                if let (CelValue::Items(a), CelValue::Items(b)) = (a, b)
                    && Arc::ptr_eq(a, b)
                {
                    return Ok(true);
                }
                self.spend(1)?;
                self.charge_items(length)?;
                for at in 0..length {
                    if let (Some(a), Some(b)) = (a.item(at), b.item(at))
                        && !self.equal_at_depth(&a, &b, depth + 1)?
                    {
                        return Ok(false);
                    }
                }
                true
            }
            (CelValue::Object(_) | CelValue::Map(_), CelValue::Object(_) | CelValue::Map(_)) => {
                if a.map_len() != b.map_len() {
                    return Ok(false);
                }
                self.spend(1)?;
                self.charge_items(a.map_len().unwrap_or(0))?;
                for (key, value) in pairs(a) {
                    match b.get_key(&key) {
                        Some(other) if self.equal_at_depth(&value, &other, depth + 1)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            _ => match (a.number(), b.number()) {
                (Some(a), Some(b)) => a.compare(b) == Some(Ordering::Equal),
                _ => false,
            },
        })
    }

    /// Converts the value to a [`Value`].
    pub(crate) fn convert(&mut self, value: &CelValue) -> Result<Value, EvalError> {
        self.convert_at_depth(value, 0)
    }

    fn convert_at_depth(&mut self, value: &CelValue, depth: usize) -> Result<Value, EvalError> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        // A list that holds another list twice is small here but large when converted: count the converted bytes.
        self.charge_output(2)?;
        Ok(match value {
            CelValue::Null => Value::Null,
            CelValue::Bool(flag) => Value::Bool(*flag),
            CelValue::Int(number) => Value::Int(*number),
            CelValue::Uint(number) => Value::from(*number),
            CelValue::Double(number) => Value::float(*number)
                .ok_or_else(|| type_error(format!("the number {number} is not finite: it cannot be a result")))?,
            CelValue::Big(text) => Value::Big(text.clone()),
            CelValue::Str(text) => Value::Str(text.clone()),
            CelValue::Bytes(bytes) => Value::from(self.base64(bytes)?),
            CelValue::Items(items) => Value::List(items.clone()),
            CelValue::Object(map) => Value::Map(map.clone()),
            CelValue::Stored(stored) => Value::Stored(stored.clone()),
            CelValue::Time(moment) => Value::from(moment.to_string()),
            CelValue::Span(span) => Value::from(span.to_string()),
            CelValue::Type(kind) => Value::from(kind.name()),
            CelValue::List(items) => {
                let items = items.iter().map(|item| self.convert_at_depth(item, depth + 1));
                Value::list(items.collect::<Result<_, _>>()?)
            }
            CelValue::Map(map) => {
                let mut object = Map::with_capacity(map.list.len());
                for (key, value) in &map.list {
                    let value = self.convert_at_depth(value, depth + 1)?;
                    match key {
                        CelValue::Str(key) => object.insert(key.clone(), value),
                        CelValue::Uint(key) => object.insert(key.to_string(), value),
                        key => object.insert(preview(key), value),
                    };
                }
                Value::map(object)
            }
        })
    }
}

/// Returns the entries of a map. The caller has already charged for them.
fn pairs(map: &CelValue) -> Vec<(CelValue, CelValue)> {
    match map {
        CelValue::Object(map) => {
            map.iter().map(|(key, value)| (CelValue::Str(key.clone()), CelValue::from(value.clone()))).collect()
        }
        CelValue::Map(map) => map.list.clone(),
        _ => Vec::new(),
    }
}

/// Returns the keys of a map. The caller has already charged for them.
pub(super) fn keys(map: &CelValue) -> Vec<CelValue> {
    match map {
        CelValue::Object(map) => map.keys().map(|key| CelValue::Str(key.clone())).collect(),
        CelValue::Map(map) => map.list.iter().map(|(key, _)| key.clone()).collect(),
        _ => Vec::new(),
    }
}
