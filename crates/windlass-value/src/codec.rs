//! The canonical binary encoding: blobs are hashed by it, and snapshots and journals hold it.
//!
//! One tag byte, then lengths as variable-length integers. Unlike JSON it can hold a [`StoredValue`] reference, so a
//! document or a reply can never forge one.

use std::sync::Arc;

use crate::{BlobHash, ContentKind, ContentSummary, Map, StoredValue, Value};

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const FLOAT: u8 = 4;
const BIG: u8 = 5;
const STR: u8 = 6;
const LIST: u8 = 7;
const MAP: u8 = 8;
const STORED: u8 = 9;

/// Maximum nesting depth on decoding; documents and replies are limited earlier.
const MAX_DEPTH: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stored value is damaged at byte {at}: {what}")]
pub struct DecodeError {
    pub at: usize,
    pub what: &'static str,
}

pub fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    encode_into(value, &mut out);
    out
}

pub(crate) fn encode_into(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(false) => out.push(FALSE),
        Value::Bool(true) => out.push(TRUE),
        Value::Int(number) => {
            out.push(INT);
            put_uint(((number << 1) ^ (number >> 63)) as u64, out);
        }
        Value::Float(number) => {
            out.push(FLOAT);
            out.extend_from_slice(&number.to_le_bytes());
        }
        Value::Big(text) => put_text(BIG, text, out),
        Value::Str(text) => put_text(STR, text, out),
        Value::List(items) => {
            out.push(LIST);
            put_uint(items.len() as u64, out);
            items.iter().for_each(|item| encode_into(item, out));
        }
        Value::Map(map) => {
            out.push(MAP);
            put_uint(map.len() as u64, out);
            for (key, value) in map.iter() {
                put_uint(key.len() as u64, out);
                out.extend_from_slice(key.as_bytes());
                encode_into(value, out);
            }
        }
        Value::Stored(stored) => {
            out.push(STORED);
            out.extend_from_slice(&stored.hash.0);
            put_uint(stored.size, out);
            put_uint(stored.items, out);
            out.push(u8::from(stored.chunked));
            encode_summary(&stored.summary, out);
        }
    }
}

fn encode_summary(summary: &ContentSummary, out: &mut Vec<u8>) {
    out.extend_from_slice(&summary.checksum.0);
    put_uint(summary.size, out);
    out.push(summary.kind as u8);
    put_uint(summary.more_keys, out);
    put_uint(summary.keys.len() as u64, out);
    for key in &summary.keys {
        put_uint(key.len() as u64, out);
        out.extend_from_slice(key.as_bytes());
    }
}

fn put_text(tag: u8, text: &str, out: &mut Vec<u8>) {
    out.push(tag);
    put_uint(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

fn put_uint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub fn decode(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut reader = ValueDecoder { bytes, at: 0 };
    let value = reader.value(0)?;
    match reader.at == bytes.len() {
        true => Ok(value),
        false => Err(reader.fail("bytes follow the value")),
    }
}

struct ValueDecoder<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ValueDecoder<'a> {
    fn fail(&self, what: &'static str) -> DecodeError {
        DecodeError { at: self.at, what }
    }

    fn value(&mut self, depth: usize) -> Result<Value, DecodeError> {
        if depth > MAX_DEPTH {
            return Err(self.fail("nested too deeply"));
        }
        Ok(match self.byte()? {
            NULL => Value::Null,
            FALSE => Value::Bool(false),
            TRUE => Value::Bool(true),
            INT => {
                let raw = self.uint()?;
                Value::Int((raw >> 1) as i64 ^ -((raw & 1) as i64))
            }
            FLOAT => {
                let number = f64::from_le_bytes(self.array()?);
                Value::float(number).ok_or_else(|| self.fail("a float that is not finite"))?
            }
            BIG => Value::Big(self.text()?),
            STR => Value::Str(self.text()?),
            LIST => {
                let count = self.count()?;
                let items = (0..count).map(|_| self.value(depth + 1)).collect::<Result<Vec<_>, _>>()?;
                Value::list(items)
            }
            MAP => {
                let count = self.count()?;
                let mut map = Map::with_capacity(count.min(1024));
                for _ in 0..count {
                    let key = self.text()?;
                    map.insert(key, self.value(depth + 1)?);
                }
                Value::map(map)
            }
            STORED => {
                let hash = BlobHash(self.array()?);
                let (size, items, chunked) = (self.uint()?, self.uint()?, self.byte()? != 0);
                let summary = self.summary()?;
                Value::Stored(Arc::new(StoredValue { hash, size, items, chunked, summary }))
            }
            _ => return Err(self.fail("an unknown tag")),
        })
    }

    fn summary(&mut self) -> Result<ContentSummary, DecodeError> {
        let (checksum, size, kind) = (BlobHash(self.array()?), self.uint()?, self.byte()?);
        let kind = ContentKind::ALL.get(usize::from(kind)).copied().ok_or_else(|| self.fail("an unknown type"))?;
        let (more_keys, count) = (self.uint()?, self.count()?);
        let keys = (0..count).map(|_| self.text()).collect::<Result<Vec<_>, _>>()?;
        Ok(ContentSummary { checksum, size, kind, keys, more_keys })
    }

    fn byte(&mut self) -> Result<u8, DecodeError> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.fail("it ends too early"))?;
        self.at += 1;
        Ok(byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let slice = self.take(N)?;
        slice.try_into().map_err(|_| self.fail("it ends too early"))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(count).ok_or_else(|| self.fail("a length too large"))?;
        let slice = self.bytes.get(self.at..end).ok_or_else(|| self.fail("it ends too early"))?;
        self.at = end;
        Ok(slice)
    }

    fn text(&mut self) -> Result<Arc<str>, DecodeError> {
        let count = self.uint()? as usize;
        let slice = self.take(count)?;
        std::str::from_utf8(slice).map(Arc::from).map_err(|_| self.fail("text that is not UTF-8"))
    }

    /// Reads a number of elements, each at least a byte long: a larger number is damage and must not cause an allocation.
    fn count(&mut self) -> Result<usize, DecodeError> {
        let count = self.uint()? as usize;
        match count <= self.bytes.len() - self.at {
            true => Ok(count),
            false => Err(self.fail("a length too large")),
        }
    }

    fn uint(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.fail("an integer too long"))
    }
}
