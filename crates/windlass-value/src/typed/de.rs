//! Deserialization of values into Rust types.

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};

use super::ConvertError;
use super::keys::FromKey;
use super::ser::NUMBER;
use crate::{Map, Value};

#[derive(Clone, Copy)]
pub(super) struct FromValue<'de>(pub &'de Value);

impl<'de> FromValue<'de> {
    fn unexpected(self) -> Unexpected<'de> {
        match self.0 {
            Value::Null => Unexpected::Other("null"),
            Value::Bool(flag) => Unexpected::Bool(*flag),
            Value::Int(number) => Unexpected::Signed(*number),
            Value::Float(number) => Unexpected::Float(*number),
            Value::Big(_) => Unexpected::Other("a large number"),
            Value::Str(text) => Unexpected::Str(text),
            Value::List(_) => Unexpected::Seq,
            Value::Map(_) => Unexpected::Map,
            Value::Stored(_) => Unexpected::Other("a value that is stored elsewhere"),
        }
    }

    fn refuse<V: Visitor<'de>>(self, visitor: &V) -> ConvertError {
        de::Error::invalid_type(self.unexpected(), visitor)
    }
}

/// Parses a number that is kept as text into the requested type, if it fits.
macro_rules! numbers {
    ($($method:ident: $visit:ident $type:ty),+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConvertError> {
            match self.0 {
                Value::Big(text) => match text.parse::<$type>() {
                    Ok(number) => visitor.$visit(number),
                    Err(_) => Err(ConvertError::new(format!("the number {text} does not fit, expected {}", stringify!($type)))),
                },
                _ => self.deserialize_any(visitor),
            }
        })+
    };
}

impl<'de> de::Deserializer<'de> for FromValue<'de> {
    type Error = ConvertError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConvertError> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Int(number) => match u64::try_from(*number) {
                Ok(number) => visitor.visit_u64(number),
                Err(_) => visitor.visit_i64(*number),
            },
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Big(text) => match text.parse::<u64>() {
                Ok(number) => visitor.visit_u64(number),
                Err(_) => visitor.visit_map(NumberText(Some(text))),
            },
            Value::Str(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visit_items(items, visitor),
            Value::Map(map) => visit_entries(map, visitor),
            Value::Stored(_) => Err(self.refuse(&visitor)),
        }
    }

    numbers!(
        deserialize_i8: visit_i8 i8, deserialize_i16: visit_i16 i16, deserialize_i32: visit_i32 i32,
        deserialize_i64: visit_i64 i64, deserialize_u8: visit_u8 u8, deserialize_u16: visit_u16 u16,
        deserialize_u32: visit_u32 u32, deserialize_u64: visit_u64 u64, deserialize_f32: visit_f32 f32,
        deserialize_f64: visit_f64 f64
    );

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConvertError> {
        match self.0 {
            Value::Int(number) => visitor.visit_i128((*number).into()),
            Value::Big(text) => match text.parse() {
                Ok(number) => visitor.visit_i128(number),
                Err(_) => Err(self.refuse(&visitor)),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConvertError> {
        match self.0 {
            Value::Int(number) => match u128::try_from(*number) {
                Ok(number) => visitor.visit_u128(number),
                Err(_) => Err(de::Error::invalid_value(self.unexpected(), &visitor)),
            },
            Value::Big(text) => match text.parse() {
                Ok(number) => visitor.visit_u128(number),
                Err(_) => Err(self.refuse(&visitor)),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConvertError> {
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConvertError> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ConvertError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ConvertError> {
        match self.0 {
            Value::Str(text) => visitor.visit_enum(BorrowedStrDeserializer::<ConvertError>::new(text)),
            Value::Map(map) => match (map.len(), map.iter().next()) {
                (1, Some((variant, value))) => visitor.visit_enum(VariantAccessor { variant, value }),
                _ => Err(ConvertError::new("invalid value: an object, expected one with a variant as its only key")),
            },
            _ => Err(de::Error::invalid_type(self.unexpected(), &"a variant: a string, or an object with one key")),
        }
    }

    /// Skips ignored values without walking through them.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConvertError> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool char str string byte_buf unit unit_struct seq tuple tuple_struct map struct identifier
    }
}

fn visit_items<'de, V: Visitor<'de>>(items: &'de [Value], visitor: V) -> Result<V::Value, ConvertError> {
    let mut access = Items { items, at: 0 };
    let read = visitor.visit_seq(&mut access)?;
    match access.at == items.len() {
        true => Ok(read),
        false => Err(ConvertError::new(format!("a list of {} items, expected {}", items.len(), access.at))),
    }
}

fn visit_entries<'de, V: Visitor<'de>>(map: &'de Map, visitor: V) -> Result<V::Value, ConvertError> {
    visitor.visit_map(Entries { entries: map.iter(), value: None })
}

struct Items<'de> {
    items: &'de [Value],
    at: usize,
}

impl<'de> SeqAccess<'de> for &mut Items<'de> {
    type Error = ConvertError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ConvertError> {
        let Some(item) = self.items.get(self.at) else { return Ok(None) };
        let at = self.at;
        self.at += 1;
        seed.deserialize(FromValue(item)).map(Some).map_err(|error| error.within_item(at))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len() - self.at)
    }
}

struct Entries<'de, I> {
    entries: I,
    value: Option<(&'de str, &'de Value)>,
}

impl<'de, I> MapAccess<'de> for Entries<'de, I>
where
    I: ExactSizeIterator<Item = (&'de std::sync::Arc<str>, &'de Value)>,
{
    type Error = ConvertError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ConvertError> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        self.value = Some((key, value));
        seed.deserialize(FromKey(key)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ConvertError> {
        let (key, value) = self.value.take().ok_or_else(|| ConvertError::new("a value without a key"))?;
        seed.deserialize(FromValue(value)).map_err(|error| error.within_field(key))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A number that no Rust type holds, in serde_json's form: an object with one private key.
struct NumberText<'de>(Option<&'de str>);

impl<'de> MapAccess<'de> for NumberText<'de> {
    type Error = ConvertError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ConvertError> {
        match self.0 {
            Some(_) => seed.deserialize(StrDeserializer::new(NUMBER)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ConvertError> {
        let text = self.0.take().ok_or_else(|| ConvertError::new("a number without digits"))?;
        seed.deserialize(text.into_deserializer())
    }
}

/// A variant with content.
struct VariantAccessor<'de> {
    variant: &'de str,
    value: &'de Value,
}

impl<'de> EnumAccess<'de> for VariantAccessor<'de> {
    type Error = ConvertError;
    type Variant = VariantAccessor<'de>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, VariantAccessor<'de>), ConvertError> {
        let variant = seed.deserialize(BorrowedStrDeserializer::<ConvertError>::new(self.variant))?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for VariantAccessor<'de> {
    type Error = ConvertError;

    fn unit_variant(self) -> Result<(), ConvertError> {
        match self.value {
            Value::Null => Ok(()),
            _ => Err(ConvertError::new("a plain variant has nothing in it").within_field(self.variant)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, ConvertError> {
        seed.deserialize(FromValue(self.value)).map_err(|error| error.within_field(self.variant))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, ConvertError> {
        let read = match self.value {
            Value::List(items) => visit_items(items, visitor),
            other => Err(FromValue(other).refuse(&visitor)),
        };
        read.map_err(|error| error.within_field(self.variant))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ConvertError> {
        let read = match self.value {
            Value::Map(map) => visit_entries(map, visitor),
            other => Err(FromValue(other).refuse(&visitor)),
        };
        read.map_err(|error| error.within_field(self.variant))
    }
}
