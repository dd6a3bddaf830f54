//! Values while an expression is evaluated. What comes from the scope stays as it is, behind a reference count; what CEL
//! has and JSON has not, has its own kinds here.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_value::{Digits, EvalError, EvalErrorKind, Map, Stored, Value};

use super::eval::Eval;
use super::time::{Moment, Span};

pub(super) type Outcome = Result<Val, EvalError>;

/// How deep a value may nest that is compared or given back.
const MAX_DEPTH: usize = 120;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
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

impl Kind {
    /// As `type(x)` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Null => "null_type",
            Kind::Bool => "bool",
            Kind::Int => "int",
            Kind::Uint => "uint",
            Kind::Double => "double",
            Kind::Str => "string",
            Kind::Bytes => "bytes",
            Kind::List => "list",
            Kind::Map => "map",
            Kind::Timestamp => "google.protobuf.Timestamp",
            Kind::Duration => "google.protobuf.Duration",
            Kind::Type => "type",
        }
    }

    /// In a sentence.
    pub(crate) fn told(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Timestamp => "timestamp",
            Kind::Duration => "duration",
            other => other.name(),
        }
    }

    pub(crate) fn is_number(self) -> bool {
        matches!(self, Kind::Int | Kind::Uint | Kind::Double)
    }
}

#[derive(Clone, Debug)]
pub(super) enum Val {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// May be infinite or not a number, unlike a value outside.
    Double(f64),
    /// A number from outside that only its text holds exactly; it counts as a double.
    Big(Arc<str>),
    Str(Arc<str>),
    Bytes(Arc<[u8]>),
    /// A list from outside.
    Items(Arc<Vec<Value>>),
    /// A list that the expression has made.
    List(Arc<Vec<Val>>),
    /// An object from outside.
    Object(Arc<Map>),
    /// A map that the expression has made.
    Map(Arc<Entries>),
    Time(Moment),
    Span(Span),
    Type(Kind),
    /// Its content is loaded when somebody looks.
    Stored(Arc<Stored>),
}

/// A map in the order in which it was written, found by key.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub list: Vec<(Val, Val)>,
    index: BTreeMap<Key, usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Bool(bool),
    /// An int and a uint of the same value are the same key.
    Whole(i128),
    Str(Arc<str>),
}

impl Key {
    fn of(value: &Val) -> Option<Key> {
        Some(match value {
            Val::Bool(flag) => Key::Bool(*flag),
            Val::Int(number) => Key::Whole(i128::from(*number)),
            Val::Uint(number) => Key::Whole(i128::from(*number)),
            Val::Double(number) if number.fract() == 0.0 && number.abs() < 1e20 => Key::Whole(*number as i128),
            Val::Str(text) => Key::Str(text.clone()),
            _ => return None,
        })
    }
}

impl Entries {
    pub(crate) fn insert(&mut self, key: Val, value: Val) -> Result<(), EvalError> {
        let found = match key.kind() {
            Some(Kind::Bool | Kind::Int | Kind::Uint | Kind::Str) => Key::of(&key),
            _ => None,
        };
        let Some(found) = found else {
            return Err(type_error(format!(
                "a key of a map is a string, a bool, an int or a uint, not {}",
                tell(&key)
            )));
        };
        if self.index.insert(found, self.list.len()).is_some() {
            return Err(type_error(format!("the map has the key {} twice", tell(&key))));
        }
        self.list.push((key, value));
        Ok(())
    }

    pub(crate) fn get(&self, key: &Val) -> Option<&Val> {
        self.index.get(&Key::of(key)?).map(|at| &self.list[*at].1)
    }

    pub(crate) fn get_text(&self, key: &str) -> Option<&Val> {
        self.index.get(&Key::Str(key.into())).map(|at| &self.list[*at].1)
    }
}

impl From<Value> for Val {
    fn from(value: Value) -> Val {
        match value {
            Value::Null => Val::Null,
            Value::Bool(flag) => Val::Bool(flag),
            Value::Int(number) => Val::Int(number),
            Value::Float(number) => Val::Double(number),
            Value::Big(text) => match text.parse() {
                Ok(number) => Val::Uint(number),
                Err(_) => Val::Big(text),
            },
            Value::Str(text) => Val::Str(text),
            Value::List(items) => Val::Items(items),
            Value::Map(map) => Val::Object(map),
            Value::Stored(stored) => Val::Stored(stored),
        }
    }
}

impl Val {
    /// None for a stored value, which may be anything.
    pub(crate) fn kind(&self) -> Option<Kind> {
        Some(match self {
            Val::Null => Kind::Null,
            Val::Bool(_) => Kind::Bool,
            Val::Int(_) => Kind::Int,
            Val::Uint(_) => Kind::Uint,
            Val::Double(_) | Val::Big(_) => Kind::Double,
            Val::Str(_) => Kind::Str,
            Val::Bytes(_) => Kind::Bytes,
            Val::Items(_) | Val::List(_) => Kind::List,
            Val::Object(_) | Val::Map(_) => Kind::Map,
            Val::Time(_) => Kind::Timestamp,
            Val::Span(_) => Kind::Duration,
            Val::Type(_) => Kind::Type,
            Val::Stored(_) => return None,
        })
    }

    /// A number that counts can be made with.
    pub(crate) fn number(&self) -> Option<Number> {
        Some(match self {
            Val::Int(number) => Number::Int(*number),
            Val::Uint(number) => Number::Uint(*number),
            Val::Double(number) => Number::Double(*number),
            Val::Big(text) => Number::Double(text.parse().ok()?),
            _ => return None,
        })
    }

    /// How many items a list has.
    pub(crate) fn items(&self) -> Option<usize> {
        match self {
            Val::Items(items) => Some(items.len()),
            Val::List(items) => Some(items.len()),
            _ => None,
        }
    }

    pub(crate) fn item(&self, at: usize) -> Option<Val> {
        match self {
            Val::Items(items) => items.get(at).cloned().map(Val::from),
            Val::List(items) => items.get(at).cloned(),
            _ => None,
        }
    }

    /// How many entries a map has.
    pub(crate) fn entries(&self) -> Option<usize> {
        match self {
            Val::Object(map) => Some(map.len()),
            Val::Map(map) => Some(map.list.len()),
            _ => None,
        }
    }

    /// What a map has under a key.
    pub(crate) fn under(&self, key: &Val) -> Option<Val> {
        match (self, key) {
            (Val::Object(map), Val::Str(key)) => map.get(key).cloned().map(Val::from),
            (Val::Map(map), key) => map.get(key).cloned(),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(i64),
    Uint(u64),
    Double(f64),
}

impl Number {
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Number::Int(number) => number as f64,
            Number::Uint(number) => number as f64,
            Number::Double(number) => number,
        }
    }

    fn whole(self) -> Option<i128> {
        match self {
            Number::Int(number) => Some(i128::from(number)),
            Number::Uint(number) => Some(i128::from(number)),
            Number::Double(_) => None,
        }
    }

    /// By what they mean, exactly; None if one is not a number.
    pub(crate) fn compare(self, other: Number) -> Option<Ordering> {
        match (self.whole(), other.whole()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            (Some(a), None) => whole_with_float(a, other.as_f64()),
            (None, Some(b)) => whole_with_float(b, self.as_f64()).map(Ordering::reverse),
            (None, None) => self.as_f64().partial_cmp(&other.as_f64()),
        }
    }
}

fn whole_with_float(whole: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // Beyond this no int and no uint is; below, the cast is exact.
    if float.abs() >= 1e20 {
        return Some(if float > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    Some(whole.cmp(&(float.floor() as i128)).then(match float.fract() == 0.0 {
        true => Ordering::Equal,
        false => Ordering::Less,
    }))
}

pub(super) fn type_error(message: impl Into<String>) -> EvalError {
    EvalError::new(EvalErrorKind::Type, message)
}

pub(super) fn missing(message: impl Into<String>) -> EvalError {
    EvalError::new(EvalErrorKind::Missing, message)
}

/// Kind and a glimpse, for messages.
pub(super) fn tell(value: &Val) -> String {
    let Some(kind) = value.kind() else { return "a stored value".to_owned() };
    let shown = glimpse(value);
    match kind {
        Kind::Null => "null".to_owned(),
        Kind::Bool => format!("the bool {shown}"),
        Kind::Int => format!("the int {shown}"),
        kind => format!("the {} {shown}", kind.told()),
    }
}

fn glimpse(value: &Val) -> String {
    match value {
        Val::Null => "null".to_owned(),
        Val::Bool(flag) => flag.to_string(),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => format!("{number}u"),
        Val::Double(number) => number.to_string(),
        Val::Big(text) => short(text),
        Val::Str(text) => format!("{:?}", short(text)),
        Val::Bytes(bytes) => format!("of {} bytes", bytes.len()),
        Val::Items(items) => json(&Value::List(items.clone())),
        Val::Object(map) => json(&Value::Map(map.clone())),
        Val::List(items) => {
            let shown: Vec<String> = items.iter().take(3).map(briefly).collect();
            format!("[{}{}]", shown.join(", "), if items.len() > 3 { ", …" } else { "" })
        }
        Val::Map(map) => {
            let shown = map.list.iter().take(3).map(|(key, value)| format!("{}: {}", briefly(key), briefly(value)));
            let shown: Vec<String> = shown.collect();
            format!("{{{}{}}}", shown.join(", "), if map.list.len() > 3 { ", …" } else { "" })
        }
        Val::Time(moment) => moment.to_string(),
        Val::Span(span) => span.to_string(),
        Val::Type(kind) => kind.name().to_owned(),
        Val::Stored(_) => "…".to_owned(),
    }
}

/// A part of a value that is shown itself: lists in lists are not, they could be large.
fn briefly(value: &Val) -> String {
    match value {
        Val::List(_) | Val::Items(_) => "[…]".to_owned(),
        Val::Map(_) | Val::Object(_) => "{…}".to_owned(),
        other => glimpse(other),
    }
}

fn json(value: &Value) -> String {
    crate::wdl::values::preview(value)
}

pub(super) fn short(text: &str) -> String {
    crate::wdl::values::short(text).into_owned()
}

pub(super) fn too_deep() -> EvalError {
    EvalError::new(EvalErrorKind::Limit, format!("a value nests deeper than {MAX_DEPTH}"))
}

impl Eval<'_> {
    /// Whether two values are the same. Numbers of all kinds compare by what they mean, nothing else crosses kinds.
    pub(crate) fn equal(&mut self, a: &Val, b: &Val) -> Result<bool, EvalError> {
        self.equal_within(a, b, 0)
    }

    fn equal_within(&mut self, a: &Val, b: &Val, depth: usize) -> Result<bool, EvalError> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        match (a, b) {
            // The same bytes at the same place: nothing need be loaded.
            (Val::Stored(one), Val::Stored(other)) if one == other => return Ok(true),
            (Val::Stored(_), _) | (_, Val::Stored(_)) => {
                let (a, b) = (self.content(a.clone())?, self.content(b.clone())?);
                return self.equal_within(&a, &b, depth + 1);
            }
            _ => {}
        }
        Ok(match (a, b) {
            (Val::Null, Val::Null) => true,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::Str(a), Val::Str(b)) => {
                self.reads(a.len().min(b.len()))?;
                a == b
            }
            (Val::Bytes(a), Val::Bytes(b)) => {
                self.reads(a.len().min(b.len()))?;
                a == b
            }
            (Val::Time(a), Val::Time(b)) => a == b,
            (Val::Span(a), Val::Span(b)) => a == b,
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Big(text), other) | (other, Val::Big(text)) if other.number().is_some() => {
                let number = match other {
                    Val::Big(other) => Digits::read(other),
                    other => self.outside(other).ok().as_ref().and_then(Digits::of),
                };
                number == Digits::read(text)
            }
            (Val::Items(_) | Val::List(_), Val::Items(_) | Val::List(_)) => {
                let (Some(length), Some(other)) = (a.items(), b.items()) else { return Ok(false) };
                if length != other {
                    return Ok(false);
                }
                if let (Val::Items(a), Val::Items(b)) = (a, b)
                    && Arc::ptr_eq(a, b)
                {
                    return Ok(true);
                }
                self.spend(1)?;
                self.items(length)?;
                for at in 0..length {
                    if let (Some(a), Some(b)) = (a.item(at), b.item(at))
                        && !self.equal_within(&a, &b, depth + 1)?
                    {
                        return Ok(false);
                    }
                }
                true
            }
            (Val::Object(_) | Val::Map(_), Val::Object(_) | Val::Map(_)) => {
                if a.entries() != b.entries() {
                    return Ok(false);
                }
                self.spend(1)?;
                self.items(a.entries().unwrap_or(0))?;
                for (key, value) in pairs(a) {
                    match b.under(&key) {
                        Some(other) if self.equal_within(&value, &other, depth + 1)? => {}
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

    /// The value as those outside have it.
    pub(crate) fn outside(&mut self, value: &Val) -> Result<Value, EvalError> {
        self.outside_within(value, 0)
    }

    fn outside_within(&mut self, value: &Val, depth: usize) -> Result<Value, EvalError> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        // A list that holds another twice is small here, and large outside: what is handed over is counted.
        self.gives(2)?;
        Ok(match value {
            Val::Null => Value::Null,
            Val::Bool(flag) => Value::Bool(*flag),
            Val::Int(number) => Value::Int(*number),
            Val::Uint(number) => Value::from(*number),
            Val::Double(number) => Value::float(*number)
                .ok_or_else(|| type_error(format!("the number {number} is not finite: it cannot be a result")))?,
            Val::Big(text) => Value::Big(text.clone()),
            Val::Str(text) => Value::Str(text.clone()),
            Val::Bytes(bytes) => Value::from(self.base64(bytes)?),
            Val::Items(items) => Value::List(items.clone()),
            Val::Object(map) => Value::Map(map.clone()),
            Val::Stored(stored) => Value::Stored(stored.clone()),
            Val::Time(moment) => Value::from(moment.to_string()),
            Val::Span(span) => Value::from(span.to_string()),
            Val::Type(kind) => Value::from(kind.name()),
            Val::List(items) => {
                let items = items.iter().map(|item| self.outside_within(item, depth + 1));
                Value::list(items.collect::<Result<_, _>>()?)
            }
            Val::Map(map) => {
                let mut object = Map::with_capacity(map.list.len());
                for (key, value) in &map.list {
                    let value = self.outside_within(value, depth + 1)?;
                    match key {
                        Val::Str(key) => object.insert(key.clone(), value),
                        Val::Uint(key) => object.insert(key.to_string(), value),
                        key => object.insert(glimpse(key), value),
                    };
                }
                Value::map(object)
            }
        })
    }
}

/// The entries of a map. Whoever asks has paid for them.
fn pairs(map: &Val) -> Vec<(Val, Val)> {
    match map {
        Val::Object(map) => map.iter().map(|(key, value)| (Val::Str(key.clone()), Val::from(value.clone()))).collect(),
        Val::Map(map) => map.list.clone(),
        _ => Vec::new(),
    }
}

/// The keys of a map. Whoever asks has paid for them.
pub(super) fn keys(map: &Val) -> Vec<Val> {
    match map {
        Val::Object(map) => map.keys().map(|key| Val::Str(key.clone())).collect(),
        Val::Map(map) => map.list.iter().map(|(key, _)| key.clone()).collect(),
        _ => Vec::new(),
    }
}
