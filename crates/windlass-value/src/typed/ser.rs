//! Serialization of Rust types into values.

use std::cell::Cell;
use std::sync::Arc;

use serde::ser::{self, Serialize};

use super::ConvertError;
use super::keys::ToKey;
use crate::json::number_from_text;
use crate::{Map, Value, interned};

/// The name under which serde_json passes a number of arbitrary precision.
pub(super) const NUMBER: &str = "$serde_json::private::Number";

#[derive(Clone, Copy)]
pub(super) struct ToValue;

/// Maximum nesting depth, checked during serialization: neither the stack nor the journal can hold unlimited depth.
const MAX_LEVELS: usize = 200;

thread_local! {
    static LEVELS: Cell<usize> = const { Cell::new(0) };
}

/// Counts one nesting level while it lives.
struct DepthGuard;

impl Drop for DepthGuard {
    fn drop(&mut self) {
        LEVELS.set(LEVELS.get() - 1);
    }
}

fn nested<T: Serialize + ?Sized>(value: &T) -> Result<Value, ConvertError> {
    if LEVELS.get() >= MAX_LEVELS {
        return Err(ser::Error::custom(format!("there are more than {MAX_LEVELS} levels of nesting")));
    }
    LEVELS.set(LEVELS.get() + 1);
    let _level = DepthGuard;
    value.serialize(ToValue)
}

impl ser::Serializer for ToValue {
    type Ok = Value;
    type Error = ConvertError;
    type SerializeSeq = ListSerializer;
    type SerializeTuple = ListSerializer;
    type SerializeTupleStruct = ListSerializer;
    type SerializeTupleVariant = VariantSerializer<ListSerializer>;
    type SerializeMap = MapSerializer;
    type SerializeStruct = StructSerializer;
    type SerializeStructVariant = VariantSerializer<StructSerializer>;

    fn serialize_bool(self, flag: bool) -> Result<Value, ConvertError> {
        Ok(Value::Bool(flag))
    }

    fn serialize_i8(self, number: i8) -> Result<Value, ConvertError> {
        Ok(Value::Int(number.into()))
    }

    fn serialize_i16(self, number: i16) -> Result<Value, ConvertError> {
        Ok(Value::Int(number.into()))
    }

    fn serialize_i32(self, number: i32) -> Result<Value, ConvertError> {
        Ok(Value::Int(number.into()))
    }

    fn serialize_i64(self, number: i64) -> Result<Value, ConvertError> {
        Ok(Value::Int(number))
    }

    fn serialize_i128(self, number: i128) -> Result<Value, ConvertError> {
        Ok(i64::try_from(number).map_or_else(|_| Value::Big(number.to_string().into()), Value::Int))
    }

    fn serialize_u8(self, number: u8) -> Result<Value, ConvertError> {
        Ok(Value::Int(number.into()))
    }

    fn serialize_u16(self, number: u16) -> Result<Value, ConvertError> {
        Ok(Value::Int(number.into()))
    }

    fn serialize_u32(self, number: u32) -> Result<Value, ConvertError> {
        Ok(Value::Int(number.into()))
    }

    fn serialize_u64(self, number: u64) -> Result<Value, ConvertError> {
        Ok(Value::from(number))
    }

    fn serialize_u128(self, number: u128) -> Result<Value, ConvertError> {
        Ok(i64::try_from(number).map_or_else(|_| Value::Big(number.to_string().into()), Value::Int))
    }

    /// Writes the shortest digits: 0.1, not all the digits of the wider number.
    fn serialize_f32(self, number: f32) -> Result<Value, ConvertError> {
        let short = number.to_string().parse::<f64>().ok().filter(|wide| *wide as f32 == number);
        self.serialize_f64(short.unwrap_or(number.into()))
    }

    fn serialize_f64(self, number: f64) -> Result<Value, ConvertError> {
        Value::float(number)
            .ok_or_else(|| ConvertError::new(format!("{number} cannot be represented: only finite numbers can")))
    }

    fn serialize_char(self, one: char) -> Result<Value, ConvertError> {
        Ok(Value::from(&*one.encode_utf8(&mut [0; 4])))
    }

    fn serialize_str(self, text: &str) -> Result<Value, ConvertError> {
        Ok(Value::from(text))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Value, ConvertError> {
        Ok(Value::list(bytes.iter().map(|byte| Value::Int((*byte).into())).collect()))
    }

    fn serialize_none(self) -> Result<Value, ConvertError> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, ConvertError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Value, ConvertError> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<Value, ConvertError> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<Value, ConvertError> {
        Ok(Value::from(variant))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Value, ConvertError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, ConvertError> {
        let inner = value.serialize(self).map_err(|error| error.within_field(variant))?;
        Ok(Value::object([(variant, inner)]))
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<ListSerializer, ConvertError> {
        Ok(ListSerializer(Vec::with_capacity(len.unwrap_or(0).min(1 << 16))))
    }

    fn serialize_tuple(self, len: usize) -> Result<ListSerializer, ConvertError> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_struct(self, _name: &'static str, len: usize) -> Result<ListSerializer, ConvertError> {
        self.serialize_seq(Some(len))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<VariantSerializer<ListSerializer>, ConvertError> {
        Ok(VariantSerializer { variant, inner: self.serialize_seq(Some(len))? })
    }

    fn serialize_map(self, len: Option<usize>) -> Result<MapSerializer, ConvertError> {
        Ok(MapSerializer { map: Map::with_capacity(len.unwrap_or(0).min(1 << 16)), key: None })
    }

    fn serialize_struct(self, name: &'static str, len: usize) -> Result<StructSerializer, ConvertError> {
        Ok(match name {
            NUMBER => StructSerializer::Number(None),
            _ => StructSerializer::Map(Map::with_capacity(len)),
        })
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<VariantSerializer<StructSerializer>, ConvertError> {
        Ok(VariantSerializer { variant, inner: StructSerializer::Map(Map::with_capacity(len)) })
    }
}

/// Collects the items of a list.
pub(super) struct ListSerializer(Vec<Value>);

impl ListSerializer {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ConvertError> {
        let at = self.0.len();
        self.0.push(nested(value).map_err(|error| error.within_item(at))?);
        Ok(())
    }
}

impl ser::SerializeSeq for ListSerializer {
    type Ok = Value;
    type Error = ConvertError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ConvertError> {
        self.push(value)
    }

    fn end(self) -> Result<Value, ConvertError> {
        Ok(Value::list(self.0))
    }
}

impl ser::SerializeTuple for ListSerializer {
    type Ok = Value;
    type Error = ConvertError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ConvertError> {
        self.push(value)
    }

    fn end(self) -> Result<Value, ConvertError> {
        Ok(Value::list(self.0))
    }
}

impl ser::SerializeTupleStruct for ListSerializer {
    type Ok = Value;
    type Error = ConvertError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ConvertError> {
        self.push(value)
    }

    fn end(self) -> Result<Value, ConvertError> {
        Ok(Value::list(self.0))
    }
}

/// Collects the entries of an object.
pub(super) struct MapSerializer {
    map: Map,
    key: Option<Arc<str>>,
}

impl ser::SerializeMap for MapSerializer {
    type Ok = Value;
    type Error = ConvertError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), ConvertError> {
        self.key = Some(key.serialize(ToKey)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ConvertError> {
        let key = self.key.take().ok_or_else(|| ConvertError::new("a value without a key"))?;
        let value = nested(value).map_err(|error| error.within_field(&key))?;
        self.map.insert(key, value);
        Ok(())
    }

    fn end(self) -> Result<Value, ConvertError> {
        Ok(Value::map(self.map))
    }
}

/// Collects the fields of a struct, or a number that serde_json passes as a struct.
pub(super) enum StructSerializer {
    Map(Map),
    Number(Option<Value>),
}

impl ser::SerializeStruct for StructSerializer {
    type Ok = Value;
    type Error = ConvertError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), ConvertError> {
        let value = nested(value).map_err(|error| error.within_field(name))?;
        match self {
            StructSerializer::Map(map) => _ = map.insert(interned(name), value),
            StructSerializer::Number(number) => *number = value.as_str().and_then(number_from_text),
        }
        Ok(())
    }

    fn end(self) -> Result<Value, ConvertError> {
        match self {
            StructSerializer::Map(map) => Ok(Value::map(map)),
            StructSerializer::Number(number) => number.ok_or_else(|| ConvertError::new("a number without digits")),
        }
    }
}

/// Serializes an enum variant: an object with its name as the only key.
pub(super) struct VariantSerializer<I> {
    variant: &'static str,
    inner: I,
}

impl ser::SerializeTupleVariant for VariantSerializer<ListSerializer> {
    type Ok = Value;
    type Error = ConvertError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ConvertError> {
        self.inner.push(value).map_err(|error| error.within_field(self.variant))
    }

    fn end(self) -> Result<Value, ConvertError> {
        Ok(Value::object([(self.variant, Value::list(self.inner.0))]))
    }
}

impl ser::SerializeStructVariant for VariantSerializer<StructSerializer> {
    type Ok = Value;
    type Error = ConvertError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), ConvertError> {
        ser::SerializeStruct::serialize_field(&mut self.inner, name, value)
            .map_err(|error| error.within_field(self.variant))
    }

    fn end(self) -> Result<Value, ConvertError> {
        let inner = ser::SerializeStruct::end(self.inner)?;
        Ok(Value::object([(self.variant, inner)]))
    }
}
