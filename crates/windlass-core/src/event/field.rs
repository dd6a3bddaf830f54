//! Conversion of event fields to and from the wire.
//!
//! An event has two forms. The journal contains the derived, externally tagged form, which is written and read
//! directly. The wire form is `{"type": …, …fields}`, whose fields are [`Value`]s: references to stored values stay
//! references, and large values are shared instead of copied, which no serde serializer can do. The macros below
//! generate both forms from one declaration, together with the description from which `docs/events.md`, the JSON
//! Schema and the types of the web UI are written. A schema crate would describe the derived form instead of the wire
//! form, so none is used.

use std::sync::Arc;

use windlass_value::{Duration, Map, Timestamp, Value, interned};

use crate::{LoopEndReason, Status};

/// The wire's form of a field, as documentation and schemas describe it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldShape {
    /// Any JSON; a value over the inline limit is a reference `{"ref": {…}}`.
    Any,
    /// True or false.
    Bool,
    /// A whole number, not negative.
    Integer,
    /// A text of any length.
    Text,
    /// A point in time, RFC 3339 in UTC.
    Time,
    /// A span of time in milliseconds.
    Milliseconds,
    /// One of a fixed set of words.
    OneOf(&'static [&'static str]),
    /// A list of elements of this shape.
    List(&'static FieldShape),
    /// This shape, or null.
    OrNull(&'static FieldShape),
    /// An object with known fields.
    Object(&'static ObjectShape),
}

/// An object inside an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectShape {
    /// The name of the type in schemas.
    pub name: &'static str,
    /// Lines of documentation.
    pub docs: &'static [&'static str],
    /// The fields, in the order of declaration.
    pub fields: &'static [FieldDoc],
    /// Further fields with any value may follow.
    pub open: bool,
}

/// The description of one field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldDoc {
    /// The name on the wire.
    pub name: &'static str,
    /// Lines of documentation.
    pub docs: &'static [&'static str],
    /// The field is omitted when it is empty.
    pub optional: bool,
    /// The form of its value.
    pub shape: FieldShape,
}

/// The description of one event type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventDoc {
    /// The `type` on the wire.
    pub type_name: &'static str,
    /// Lines of documentation.
    pub docs: &'static [&'static str],
    /// The fields, in the order of declaration, without those that every event has.
    pub fields: &'static [FieldDoc],
}

/// A type that can be a field of an event.
pub(crate) trait EventField: Sized {
    const SHAPE: FieldShape;

    fn to_wire(&self) -> Value;

    /// Returns None when the value is not of this type.
    fn from_wire(value: &Value) -> Option<Self>;

    /// Visits every value of any shape inside.
    fn each_value(&mut self, _visit: &mut dyn FnMut(&mut Value)) {}
}

impl EventField for Value {
    const SHAPE: FieldShape = FieldShape::Any;

    fn to_wire(&self) -> Value {
        self.clone()
    }

    fn from_wire(value: &Value) -> Option<Value> {
        Some(value.clone())
    }

    fn each_value(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        visit(self);
    }
}

impl EventField for Arc<str> {
    const SHAPE: FieldShape = FieldShape::Text;

    fn to_wire(&self) -> Value {
        Value::Str(self.clone())
    }

    fn from_wire(value: &Value) -> Option<Arc<str>> {
        match value {
            Value::Str(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl EventField for bool {
    const SHAPE: FieldShape = FieldShape::Bool;

    fn to_wire(&self) -> Value {
        Value::Bool(*self)
    }

    fn from_wire(value: &Value) -> Option<bool> {
        value.as_bool()
    }
}

impl EventField for u64 {
    const SHAPE: FieldShape = FieldShape::Integer;

    fn to_wire(&self) -> Value {
        Value::from(*self)
    }

    fn from_wire(value: &Value) -> Option<u64> {
        match value {
            Value::Int(number) => u64::try_from(*number).ok(),
            Value::Big(text) => text.parse().ok(),
            _ => None,
        }
    }
}

impl EventField for u32 {
    const SHAPE: FieldShape = FieldShape::Integer;

    fn to_wire(&self) -> Value {
        Value::from(*self)
    }

    fn from_wire(value: &Value) -> Option<u32> {
        u64::from_wire(value).and_then(|number| u32::try_from(number).ok())
    }
}

impl EventField for Duration {
    const SHAPE: FieldShape = FieldShape::Milliseconds;

    fn to_wire(&self) -> Value {
        Value::from(self.as_ms())
    }

    fn from_wire(value: &Value) -> Option<Duration> {
        u64::from_wire(value).map(Duration::from_ms)
    }
}

impl EventField for Timestamp {
    const SHAPE: FieldShape = FieldShape::Time;

    fn to_wire(&self) -> Value {
        Value::from(self.to_string())
    }

    fn from_wire(value: &Value) -> Option<Timestamp> {
        value.as_str().and_then(Timestamp::parse_rfc3339)
    }
}

/// Null when there is none. An optional field is omitted instead.
impl<T: EventField + 'static> EventField for Option<T> {
    const SHAPE: FieldShape = FieldShape::OrNull(&T::SHAPE);

    fn to_wire(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::to_wire)
    }

    fn from_wire(value: &Value) -> Option<Option<T>> {
        // A null that is a valid value of the type stays a value.
        T::from_wire(value).map(Some).or_else(|| value.is_null().then_some(None))
    }

    fn each_value(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        if let Some(inner) = self {
            inner.each_value(visit);
        }
    }
}

impl<T: EventField + 'static> EventField for Vec<T> {
    const SHAPE: FieldShape = FieldShape::List(&T::SHAPE);

    fn to_wire(&self) -> Value {
        Value::list(self.iter().map(T::to_wire).collect())
    }

    fn from_wire(value: &Value) -> Option<Vec<T>> {
        value.as_list()?.iter().map(T::from_wire).collect()
    }

    fn each_value(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        self.iter_mut().for_each(|item| item.each_value(visit));
    }
}

/// For a part that several holders share. It has no values to visit.
impl<T: EventField + 'static> EventField for Arc<T> {
    const SHAPE: FieldShape = T::SHAPE;

    fn to_wire(&self) -> Value {
        T::to_wire(self)
    }

    fn from_wire(value: &Value) -> Option<Arc<T>> {
        T::from_wire(value).map(Arc::new)
    }
}

/// Implements [`EventField`] for enums that are a single word on the wire.
macro_rules! word_fields {
    ($($type:ty),+) => {$(
        impl EventField for $type {
            const SHAPE: FieldShape = FieldShape::OneOf(&{
                let mut words = [""; <$type>::ALL.len()];
                let mut at = 0;
                while at < words.len() {
                    words[at] = <$type>::ALL[at].as_str();
                    at += 1;
                }
                words
            });

            fn to_wire(&self) -> Value {
                Value::Str(interned(self.as_str()))
            }

            fn from_wire(value: &Value) -> Option<$type> {
                let text = value.as_str()?;
                <$type>::ALL.into_iter().find(|one| one.as_str() == text)
            }
        }
    )+};
}
pub(super) use word_fields;

word_fields!(Status, LoopEndReason);

pub(super) fn is_default<T: Default + PartialEq>(field: &T) -> bool {
    *field == T::default()
}

/// Returns the shape of an optional field that is present.
pub(super) const fn present(shape: FieldShape) -> FieldShape {
    match shape {
        FieldShape::OrNull(inner) => *inner,
        other => other,
    }
}

pub(super) fn put(map: &mut Map, name: &'static str, field: &impl EventField) {
    map.insert(interned(name), field.to_wire());
}

/// Adds the missing fields that cannot be omitted.
pub(super) fn fill(fields: &[FieldDoc], map: &mut Map) {
    for field in fields {
        match (map.get_mut(field.name), field.shape) {
            (Some(Value::Map(inner)), FieldShape::Object(object)) => fill(object.fields, Arc::make_mut(inner)),
            (None, shape) if !field.optional => _ = map.insert(field.name, empty(shape)),
            _ => {}
        }
    }
}

fn empty(shape: FieldShape) -> Value {
    match shape {
        FieldShape::Any | FieldShape::OrNull(_) => Value::Null,
        FieldShape::Bool => Value::Bool(false),
        FieldShape::Integer | FieldShape::Milliseconds => Value::Int(0),
        FieldShape::Text => Value::from(""),
        FieldShape::Time => Value::from(Timestamp::default().to_string()),
        FieldShape::OneOf(words) => Value::from(words.first().copied()),
        FieldShape::List(_) => Value::list(Vec::new()),
        FieldShape::Object(object) => {
            let mut map = Map::new();
            fill(object.fields, &mut map);
            Value::map(map)
        }
    }
}
