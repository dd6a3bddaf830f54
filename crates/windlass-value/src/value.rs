//! The value type.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Digits, Map};

/// The hash of a value's canonical encoding: the address of a blob.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
pub struct BlobHash(pub [u8; 32]);

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobHash({self})")
    }
}

/// A reference to a value in the blob store; its content must be loaded from the blob first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredValue {
    pub hash: BlobHash,
    /// Bytes of the canonical encoding, including everything inside that is itself stored elsewhere.
    pub size: u64,
    /// For a list: the number of items. Zero for other kinds.
    pub items: u64,
    /// The list is split into chunks: the blob holds a list of stored chunks, each a list of items.
    pub chunked: bool,
    /// The content as a client of the API gets it.
    pub summary: ContentSummary,
}

/// A description of a stored value's JSON, by which a client can verify what it gets. Values inside that are themselves
/// stored are references in that JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentSummary {
    /// The BLAKE3 hash of the JSON.
    pub checksum: BlobHash,
    /// Bytes of the JSON.
    pub size: u64,
    /// The type of the JSON: `object`, `array`, `string` and so on.
    pub kind: ContentKind,
    /// The first keys of an object.
    pub keys: Vec<Arc<str>>,
    /// The number of further keys.
    pub more_keys: u64,
}

/// The JSON type of a stored value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContentKind {
    #[default]
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl ContentKind {
    /// All kinds, in the order of their codes.
    pub(crate) const ALL: [ContentKind; 6] = [
        ContentKind::Null,
        ContentKind::Boolean,
        ContentKind::Number,
        ContentKind::String,
        ContentKind::Array,
        ContentKind::Object,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ContentKind::Null => "null",
            ContentKind::Boolean => "boolean",
            ContentKind::Number => "number",
            ContentKind::String => "string",
            ContentKind::Array => "array",
            ContentKind::Object => "object",
        }
    }
}

/// The maximum number of an object's keys that a summary lists, and the maximum length of a listed key.
const MAX_LISTED_KEYS: usize = 32;
const MAX_LISTED_KEY_BYTES: usize = 128;

impl ContentSummary {
    /// Describes a value whose JSON has this checksum and size.
    pub fn new(value: &Value, checksum: BlobHash, size: u64) -> ContentSummary {
        let (kind, keys) = match value {
            Value::Null => (ContentKind::Null, 0),
            Value::Bool(_) => (ContentKind::Boolean, 0),
            Value::Int(_) | Value::Float(_) | Value::Big(_) => (ContentKind::Number, 0),
            Value::Str(_) => (ContentKind::String, 0),
            Value::List(_) => (ContentKind::Array, 0),
            Value::Map(map) => (ContentKind::Object, map.len()),
            Value::Stored(stored) => (stored.summary.kind, 0),
        };
        let listed = value.as_map().into_iter().flat_map(Map::keys).filter(|key| key.len() <= MAX_LISTED_KEY_BYTES);
        let listed: Vec<Arc<str>> = listed.take(MAX_LISTED_KEYS).cloned().collect();
        ContentSummary { checksum, size, kind, more_keys: (keys - listed.len()) as u64, keys: listed }
    }
}

#[derive(Clone, Default)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    /// Always finite.
    Float(f64),
    /// An exact number as its text: one that neither i64 nor f64 can hold, or a decimal.
    Big(Arc<str>),
    Str(Arc<str>),
    List(Arc<Vec<Value>>),
    Map(Arc<Map>),
    Stored(Arc<StoredValue>),
}

impl Value {
    /// Returns `None` when the number is NaN or infinite: such values do not exist.
    pub fn float(number: f64) -> Option<Value> {
        number.is_finite().then_some(Value::Float(number))
    }

    pub fn list(items: Vec<Value>) -> Value {
        Value::List(Arc::new(items))
    }

    pub fn map(map: Map) -> Value {
        Value::Map(Arc::new(map))
    }

    pub fn object<K: Into<Arc<str>>, V: Into<Value>>(entries: impl IntoIterator<Item = (K, V)>) -> Value {
        Value::map(entries.into_iter().collect())
    }

    /// Returns the name of the value's kind, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "integer",
            Value::Float(_) => "float",
            Value::Big(_) => "large number",
            Value::Str(_) => "string",
            Value::List(_) => "array",
            Value::Map(_) => "object",
            Value::Stored(stored) if stored.items > 0 || stored.chunked => "array (stored)",
            Value::Stored(_) => "value (stored)",
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns a property of an object; `None` for any other kind.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_map().and_then(|map| map.get(key))
    }

    /// Returns the bytes of everything inside that is stored elsewhere.
    pub fn stored_bytes(&self) -> u64 {
        match self {
            Value::Stored(stored) => stored.size,
            Value::List(items) => items.iter().fold(0, |sum, item| sum.saturating_add(item.stored_bytes())),
            Value::Map(map) => map.values().fold(0, |sum, value| sum.saturating_add(value.stored_bytes())),
            _ => 0,
        }
    }

    /// Returns whether lists and objects are nested more than `levels` deep.
    pub fn is_deeper_than(&self, levels: usize) -> bool {
        match self {
            Value::List(items) => levels == 0 || items.iter().any(|item| item.is_deeper_than(levels - 1)),
            Value::Map(map) => levels == 0 || map.values().any(|item| item.is_deeper_than(levels - 1)),
            _ => false,
        }
    }

    /// Returns roughly how many bytes the value's encoding has; stops counting beyond `cap`.
    pub fn size_up_to(&self, cap: usize) -> usize {
        match self {
            Value::Null | Value::Bool(_) => 1,
            Value::Int(_) | Value::Float(_) => 9,
            Value::Big(text) | Value::Str(text) => text.len() + 5,
            Value::Stored(_) => 50,
            Value::List(items) => sum_up_to(cap, items.iter().map(|item| (0, item))),
            Value::Map(map) => sum_up_to(cap, map.iter().map(|(key, value)| (key.len() + 2, value))),
        }
    }
}

fn sum_up_to<'a>(cap: usize, parts: impl Iterator<Item = (usize, &'a Value)>) -> usize {
    let mut total = 5;
    for (extra, value) in parts {
        if total > cap {
            break;
        }
        total += extra + value.size_up_to(cap - total.min(cap));
    }
    total
}

/// Numbers compare by their numeric value: `1 == 1.0`. No other comparison crosses kinds.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a == b,
            (Value::Int(a), Value::Float(b)) | (Value::Float(b), Value::Int(a)) => int_equals_float(*a, *b),
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::Big(a), Value::Big(b)) if a == b => true,
            (Value::Big(_), Value::Int(_) | Value::Float(_) | Value::Big(_))
            | (Value::Int(_) | Value::Float(_), Value::Big(_)) => Digits::from_value(self) == Digits::from_value(other),
            (Value::List(a), Value::List(b)) => Arc::ptr_eq(a, b) || a == b,
            (Value::Map(a), Value::Map(b)) => Arc::ptr_eq(a, b) || a == b,
            (Value::Stored(a), Value::Stored(b)) => a == b,
            _ => false,
        }
    }
}

fn int_equals_float(int: i64, float: f64) -> bool {
    // The range is slightly wider than that of i64, and every whole float in it fits i128 exactly, so that the ends of
    // i64's range compare correctly, too.
    float.fract() == 0.0 && (-9.3e18..9.3e18).contains(&float) && float as i128 == i128::from(int)
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::to_json(self))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Bool(flag)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Int(i64::from(number))
    }
}

/// Numbers beyond i64 are kept exactly, as text.
impl From<u64> for Value {
    fn from(number: u64) -> Value {
        i64::try_from(number).map_or_else(|_| Value::Big(number.to_string().into()), Value::Int)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Value {
        Value::from(number as u64)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Str(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Str(text.into())
    }
}

impl From<Arc<str>> for Value {
    fn from(text: Arc<str>) -> Value {
        Value::Str(text)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Value {
        Value::list(items)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Value {
        Value::map(map)
    }
}

impl<V: Into<Value>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}
