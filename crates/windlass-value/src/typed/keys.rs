//! Map keys, which are strings: numbers, booleans and unit variants are written as strings and parsed again.

use std::sync::Arc;

use serde::de::{self, IntoDeserializer, Visitor};
use serde::ser::{self, Impossible, Serialize};

use super::ConvertError;

pub(super) struct ToKey;

fn not_a_key(what: &str) -> ConvertError {
    ConvertError::new(format!("{what} cannot be a key: keys are texts, numbers, flags or plain variants"))
}

macro_rules! written {
    ($($method:ident: $type:ty),+) => {
        $(fn $method(self, key: $type) -> Result<Arc<str>, ConvertError> {
            Ok(key.to_string().into())
        })+
    };
}

impl ser::Serializer for ToKey {
    type Ok = Arc<str>;
    type Error = ConvertError;
    type SerializeSeq = Impossible<Arc<str>, ConvertError>;
    type SerializeTuple = Impossible<Arc<str>, ConvertError>;
    type SerializeTupleStruct = Impossible<Arc<str>, ConvertError>;
    type SerializeTupleVariant = Impossible<Arc<str>, ConvertError>;
    type SerializeMap = Impossible<Arc<str>, ConvertError>;
    type SerializeStruct = Impossible<Arc<str>, ConvertError>;
    type SerializeStructVariant = Impossible<Arc<str>, ConvertError>;

    written!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_char: char
    );

    fn serialize_f32(self, key: f32) -> Result<Arc<str>, ConvertError> {
        if key.is_finite() { Ok(key.to_string().into()) } else { Err(not_a_key("a number that is not finite")) }
    }

    fn serialize_f64(self, key: f64) -> Result<Arc<str>, ConvertError> {
        if key.is_finite() { Ok(key.to_string().into()) } else { Err(not_a_key("a number that is not finite")) }
    }

    fn serialize_str(self, key: &str) -> Result<Arc<str>, ConvertError> {
        Ok(key.into())
    }

    fn serialize_bytes(self, _key: &[u8]) -> Result<Arc<str>, ConvertError> {
        Err(not_a_key("bytes"))
    }

    fn serialize_none(self) -> Result<Arc<str>, ConvertError> {
        Err(not_a_key("nothing"))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, key: &T) -> Result<Arc<str>, ConvertError> {
        key.serialize(self)
    }

    fn serialize_unit(self) -> Result<Arc<str>, ConvertError> {
        Err(not_a_key("nothing"))
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<Arc<str>, ConvertError> {
        Err(not_a_key(name))
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Arc<str>, ConvertError> {
        Ok(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        key: &T,
    ) -> Result<Arc<str>, ConvertError> {
        key.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _value: &T,
    ) -> Result<Arc<str>, ConvertError> {
        Err(not_a_key(variant))
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Self::SerializeSeq, ConvertError> {
        Err(not_a_key("a list"))
    }

    fn serialize_tuple(self, _len: usize) -> Result<Self::SerializeTuple, ConvertError> {
        Err(not_a_key("a tuple"))
    }

    fn serialize_tuple_struct(self, name: &'static str, _: usize) -> Result<Self::SerializeTupleStruct, ConvertError> {
        Err(not_a_key(name))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant, ConvertError> {
        Err(not_a_key(variant))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Self::SerializeMap, ConvertError> {
        Err(not_a_key("a map"))
    }

    fn serialize_struct(self, name: &'static str, _len: usize) -> Result<Self::SerializeStruct, ConvertError> {
        Err(not_a_key(name))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant, ConvertError> {
        Err(not_a_key(variant))
    }
}

/// A key, parsed as the requested type.
pub(super) struct FromKey<'de>(pub &'de str);

macro_rules! parsed {
    ($($method:ident: $visit:ident $type:ty),+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConvertError> {
            match self.0.parse::<$type>() {
                Ok(key) => visitor.$visit(key),
                Err(_) => visitor.visit_borrowed_str(self.0),
            }
        })+
    };
}

impl<'de> de::Deserializer<'de> for FromKey<'de> {
    type Error = ConvertError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConvertError> {
        visitor.visit_borrowed_str(self.0)
    }

    parsed!(
        deserialize_bool: visit_bool bool, deserialize_i8: visit_i8 i8, deserialize_i16: visit_i16 i16,
        deserialize_i32: visit_i32 i32, deserialize_i64: visit_i64 i64, deserialize_i128: visit_i128 i128,
        deserialize_u8: visit_u8 u8, deserialize_u16: visit_u16 u16, deserialize_u32: visit_u32 u32,
        deserialize_u64: visit_u64 u64, deserialize_u128: visit_u128 u128, deserialize_f32: visit_f32 f32,
        deserialize_f64: visit_f64 f64
    );

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConvertError> {
        visitor.visit_some(self)
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
        visitor.visit_enum(IntoDeserializer::<ConvertError>::into_deserializer(self.0))
    }

    serde::forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
