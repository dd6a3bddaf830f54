//! Decodes MessagePack with names, as [`encode`](super::encode) writes it.
//!
//! Hand-written although `rmp-serde` has a decoder: that one compiles a copy of its whole state machine for each of the
//! several hundred types of a journal, which was two fifths of this crate's code. Here the bytes are read to a token by one
//! function, and each type has only the few lines that it needs. It reads exactly what the encoder writes: structs are
//! maps, variants have names, and nothing follows the value.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};

/// Maximum nesting depth: deeper data would overflow the stack.
const MAX_DEPTH: usize = 1_024;

/// The reason why bytes cannot be decoded.
#[derive(Debug)]
pub(super) struct DecodeFailure(String);

impl fmt::Display for DecodeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DecodeFailure {}

impl serde::de::Error for DecodeFailure {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> DecodeFailure {
        DecodeFailure(message.to_string())
    }
}

/// The next value in the bytes: a scalar, or the header of a list or map.
#[derive(Clone, Copy)]
enum Token<'de> {
    Nil,
    Bool(bool),
    /// Integers from zero on, however they are encoded.
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    /// A text whose encoding has not been checked: names are compared as bytes, and skipped texts are not looked at.
    Text(&'de [u8]),
    Bytes(&'de [u8]),
    Array(usize),
    Map(usize),
}

impl Token<'_> {
    #[cold]
    fn unexpected(self) -> Unexpected<'static> {
        match self {
            Token::Nil => Unexpected::Unit,
            Token::Bool(value) => Unexpected::Bool(value),
            Token::Unsigned(number) => Unexpected::Unsigned(number),
            Token::Negative(number) => Unexpected::Signed(number),
            Token::Float(number) => Unexpected::Float(number),
            Token::Text(_) => Unexpected::Other("a text"),
            Token::Bytes(_) => Unexpected::Other("bytes"),
            Token::Array(_) => Unexpected::Seq,
            Token::Map(_) => Unexpected::Map,
        }
    }
}

/// Reads values from bytes.
pub(super) struct Decoder<'de> {
    /// The bytes that are left.
    bytes: &'de [u8],
    /// The number of bytes at the beginning.
    total: usize,
    depth: usize,
}

impl<'de> Decoder<'de> {
    pub(super) fn new(bytes: &'de [u8]) -> Decoder<'de> {
        Decoder { bytes, total: bytes.len(), depth: 0 }
    }

    /// Requires that all bytes were read.
    pub(super) fn finish(self) -> Result<(), DecodeFailure> {
        match self.bytes.len() {
            0 => Ok(()),
            more => Err(self.failure(&format!("the value is followed by {more} more bytes"))),
        }
    }

    #[cold]
    fn failure(&self, why: &str) -> DecodeFailure {
        DecodeFailure(format!("{why}, at byte {}", self.total - self.bytes.len()))
    }

    fn take(&mut self, count: usize) -> Result<&'de [u8], DecodeFailure> {
        match self.bytes.split_at_checked(count) {
            Some((bytes, rest)) => {
                self.bytes = rest;
                Ok(bytes)
            }
            None => Err(self.failure("the bytes end early")),
        }
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], DecodeFailure> {
        let mut number = [0; N];
        number.copy_from_slice(self.take(N)?);
        Ok(number)
    }

    /// Reads a length of one, two or four bytes.
    fn length(&mut self, width: usize) -> Result<usize, DecodeFailure> {
        let digits = self.take(width)?.iter();
        Ok(digits.fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    fn text(&self, bytes: &'de [u8]) -> Result<&'de str, DecodeFailure> {
        std::str::from_utf8(bytes).map_err(|_| self.failure("a text is not UTF-8"))
    }

    fn signed(number: i64) -> Token<'de> {
        u64::try_from(number).map_or(Token::Negative(number), Token::Unsigned)
    }

    fn token(&mut self) -> Result<Token<'de>, DecodeFailure> {
        let Some((&marker, rest)) = self.bytes.split_first() else {
            return Err(self.failure("the bytes end early"));
        };
        self.bytes = rest;
        Ok(match marker {
            0x00..=0x7f => Token::Unsigned(marker.into()),
            0x80..=0x8f => Token::Map(usize::from(marker & 0x0f)),
            0x90..=0x9f => Token::Array(usize::from(marker & 0x0f)),
            0xa0..=0xbf => Token::Text(self.take(usize::from(marker & 0x1f))?),
            0xc0 => Token::Nil,
            0xc2 => Token::Bool(false),
            0xc3 => Token::Bool(true),
            0xc4..=0xc6 => {
                let length = self.length(1 << (marker - 0xc4))?;
                Token::Bytes(self.take(length)?)
            }
            0xca => Token::Float(f32::from_be_bytes(self.number()?).into()),
            0xcb => Token::Float(f64::from_be_bytes(self.number()?)),
            0xcc => Token::Unsigned(u8::from_be_bytes(self.number()?).into()),
            0xcd => Token::Unsigned(u16::from_be_bytes(self.number()?).into()),
            0xce => Token::Unsigned(u32::from_be_bytes(self.number()?).into()),
            0xcf => Token::Unsigned(u64::from_be_bytes(self.number()?)),
            0xd0 => Decoder::signed(i8::from_be_bytes(self.number()?).into()),
            0xd1 => Decoder::signed(i16::from_be_bytes(self.number()?).into()),
            0xd2 => Decoder::signed(i32::from_be_bytes(self.number()?).into()),
            0xd3 => Decoder::signed(i64::from_be_bytes(self.number()?)),
            0xd9..=0xdb => {
                let length = self.length(1 << (marker - 0xd9))?;
                Token::Text(self.take(length)?)
            }
            0xdc | 0xdd => Token::Array(self.length(2 << (marker - 0xdc))?),
            0xde | 0xdf => Token::Map(self.length(2 << (marker - 0xde))?),
            0xe0..=0xff => Token::Negative(i64::from(marker.cast_signed())),
            // 0xc1 is no marker, and the encoder writes no extensions.
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => return Err(self.failure("unknown marker")),
        })
    }

    /// Reads past a value without recursion.
    fn skip(&mut self) -> Result<(), DecodeFailure> {
        let mut left = 1_usize;
        while left > 0 {
            left -= 1;
            left += match self.token()? {
                Token::Array(length) => length,
                Token::Map(length) => length * 2,
                _ => 0,
            };
        }
        Ok(())
    }

    fn enter(&mut self) -> Result<(), DecodeFailure> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.failure("the data nests too deep")) } else { Ok(()) }
    }

    fn list<V: Visitor<'de>>(&mut self, length: usize, visitor: V) -> Result<V::Value, DecodeFailure> {
        self.enter()?;
        let mut parts = Parts { decoder: self, left: length };
        let value = visitor.visit_seq(&mut parts)?;
        parts.end()?;
        Ok(value)
    }

    fn map<V: Visitor<'de>>(&mut self, length: usize, visitor: V) -> Result<V::Value, DecodeFailure> {
        self.enter()?;
        let mut parts = Parts { decoder: self, left: length };
        let value = visitor.visit_map(&mut parts)?;
        parts.end()?;
        Ok(value)
    }

    fn is_nil(&self) -> bool {
        self.bytes.first() == Some(&0xc0)
    }
}

#[cold]
fn mismatch<'de, V: Visitor<'de>>(token: Token<'de>, visitor: &V) -> DecodeFailure {
    DecodeFailure::invalid_type(token.unexpected(), visitor)
}

macro_rules! integers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFailure> {
            match self.token()? {
                Token::Unsigned(number) => visitor.visit_u64(number),
                Token::Negative(number) => visitor.visit_i64(number),
                other => Err(mismatch(other, &visitor)),
            }
        })*
    };
}

/// Methods with one accepted token.
macro_rules! scalars {
    ($($method:ident $token:ident $visit:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFailure> {
            match self.token()? {
                Token::$token(value) => visitor.$visit(value),
                other => Err(mismatch(other, &visitor)),
            }
        })*
    };
}

macro_rules! texts {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFailure> {
            match self.token()? {
                Token::Text(text) => visitor.visit_borrowed_str(self.text(text)?),
                other => Err(mismatch(other, &visitor)),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Decoder<'de> {
    type Error = DecodeFailure;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFailure> {
        match self.token()? {
            Token::Nil => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Unsigned(number) => visitor.visit_u64(number),
            Token::Negative(number) => visitor.visit_i64(number),
            Token::Float(number) => visitor.visit_f64(number),
            Token::Text(text) => visitor.visit_borrowed_str(self.text(text)?),
            Token::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Token::Array(length) => self.list(length, visitor),
            Token::Map(length) => self.map(length, visitor),
        }
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    texts! { deserialize_char deserialize_str deserialize_string }

    scalars! {
        deserialize_bool Bool visit_bool
        deserialize_f32 Float visit_f64
        deserialize_f64 Float visit_f64
        // Names of fields and variants are compared as bytes.
        deserialize_identifier Text visit_borrowed_bytes
        deserialize_bytes Bytes visit_borrowed_bytes
        deserialize_byte_buf Bytes visit_borrowed_bytes
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFailure> {
        if self.is_nil() {
            self.bytes = &self.bytes[1..];
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFailure> {
        match self.token()? {
            Token::Nil => visitor.visit_unit(),
            other => Err(mismatch(other, &visitor)),
        }
    }

    /// The encoder writes an empty list.
    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, DecodeFailure> {
        match self.token()? {
            Token::Array(0) => visitor.visit_unit(),
            other => Err(mismatch(other, &visitor)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeFailure> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFailure> {
        match self.token()? {
            Token::Array(length) => self.list(length, visitor),
            other => Err(mismatch(other, &visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, DecodeFailure> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeFailure> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFailure> {
        match self.token()? {
            Token::Map(length) => self.map(length, visitor),
            other => Err(mismatch(other, &visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeFailure> {
        self.deserialize_map(visitor)
    }

    /// A variant without content is its name; any other is a map from its name to its content.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeFailure> {
        match self.token()? {
            Token::Text(name) => {
                let name = self.text(name)?;
                visitor.visit_enum(IntoDeserializer::<DecodeFailure>::into_deserializer(name))
            }
            Token::Map(1) => {
                self.enter()?;
                let value = visitor.visit_enum(Variant { decoder: self })?;
                self.depth -= 1;
                Ok(value)
            }
            other => Err(mismatch(other, &visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeFailure> {
        self.skip()?;
        visitor.visit_unit()
    }
}

/// The rest of a list or map.
struct Parts<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
    left: usize,
}

impl Parts<'_, '_> {
    /// Requires that every part was read.
    fn end(&mut self) -> Result<(), DecodeFailure> {
        self.decoder.depth -= 1;
        if self.left > 0 { Err(self.decoder.failure("a list has too many items")) } else { Ok(()) }
    }
}

impl<'de> SeqAccess<'de> for &mut Parts<'_, 'de> {
    type Error = DecodeFailure;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DecodeFailure> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.decoder).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> MapAccess<'de> for &mut Parts<'_, 'de> {
    type Error = DecodeFailure;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeFailure> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.decoder).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeFailure> {
        seed.deserialize(&mut *self.decoder)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// A variant with content.
struct Variant<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = DecodeFailure;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), DecodeFailure> {
        let name = seed.deserialize(&mut *self.decoder)?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = DecodeFailure;

    fn unit_variant(self) -> Result<(), DecodeFailure> {
        Err(self.decoder.failure("a variant has content that it should not have"))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DecodeFailure> {
        seed.deserialize(self.decoder)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, DecodeFailure> {
        self.decoder.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeFailure> {
        self.decoder.deserialize_map(visitor)
    }
}

#[cfg(test)]
mod tests;
