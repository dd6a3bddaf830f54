//! Conversion of rows to values. Rows come in binary form; columns of types not decoded here are requested as text.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_core::Stream;
use tokio_postgres::types::{FromSql, Kind, Type};
use tokio_postgres::{Column, RowStream};
use windlass_value::{Map, Value, parse_json};

use super::failure::PgFailure;
use super::pool::PreparedStatement;
use crate::sql::cells::{self, float, infinity, number, short_float};
use crate::sql::{StatementResult, too_large, unreadable};

/// Offset from the Unix epoch to 2000, the epoch of Postgres.
const EPOCH_MICROS: i64 = EPOCH_DAYS * 86_400 * MICROS;
const EPOCH_DAYS: i64 = 10_957;
const MICROS: i64 = 1_000_000;

/// Reads the rows of one statement: the column names and types, built once.
pub(super) struct RowReader {
    names: Vec<Arc<str>>,
    kinds: Vec<Type>,
}

impl RowReader {
    /// Creates a reader. The names are those of the original statement.
    pub(super) fn new(names: Vec<Arc<str>>, columns: &[Column]) -> RowReader {
        RowReader { names, kinds: columns.iter().map(|column| base_type(column.type_()).clone()).collect() }
    }
}

pub(super) async fn read_rows(
    rows: RowStream,
    prepared: &PreparedStatement,
    max_bytes: usize,
) -> Result<StatementResult, PgFailure> {
    tokio::pin!(rows);
    let reader = &prepared.reader;
    let (mut table, mut bytes) = (StatementResult::default(), 0);
    while let Some(row) = std::future::poll_fn(|cx| rows.as_mut().poll_next(cx)).await {
        let row = row?;
        bytes += row.raw_size_bytes();
        if bytes > max_bytes {
            return Err(too_large(max_bytes).into());
        }
        let mut map = Map::with_capacity(reader.names.len());
        for (index, (name, kind)) in reader.names.iter().zip(&reader.kinds).enumerate() {
            let raw: Option<RawBytes<'_>> = row.try_get(index)?;
            let value = match raw {
                None => Value::Null,
                Some(RawBytes(bytes)) => {
                    decode_value(bytes, kind).ok_or_else(|| unreadable("pg", name, kind.name()))?
                }
            };
            map.insert(name.clone(), value);
        }
        table.rows.push(Value::map(map));
    }
    let affected = Pin::as_ref(&rows).rows_affected();
    table.count = affected.unwrap_or(table.rows.len() as u64);
    table.columns = reader.names.iter().cloned().map(Value::from).collect();
    Ok(table)
}

/// The bytes of a column as received.
struct RawBytes<'a>(&'a [u8]);

impl<'a> FromSql<'a> for RawBytes<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<RawBytes<'a>, Box<dyn Error + Sync + Send>> {
        Ok(RawBytes(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Returns the statement with every column of an unsupported type cast to text; `None` if there is none.
pub(super) fn as_text(sql: &str, columns: &[Column]) -> Option<String> {
    if columns.iter().all(|column| is_decoded(base_type(column.type_()))) {
        return None;
    }
    let names: Vec<String> = (0..columns.len()).map(|index| format!("c{index}")).collect();
    let expressions = names.iter().zip(columns).map(|(name, column)| match is_decoded(base_type(column.type_())) {
        true => name.clone(),
        false => format!("{name}::text"),
    });
    let expressions: Vec<String> = expressions.collect();
    // The line break ends a trailing line comment of the statement.
    Some(format!(
        "WITH windlass_rows ({}) AS ({sql}\n) SELECT {} FROM windlass_rows",
        names.join(", "),
        expressions.join(", ")
    ))
}

/// Returns the base type of a domain.
fn base_type(kind: &Type) -> &Type {
    match kind.kind() {
        Kind::Domain(inner) => base_type(inner),
        _ => kind,
    }
}

fn is_decoded(kind: &Type) -> bool {
    match kind.kind() {
        Kind::Array(item) => is_decoded(base_type(item)),
        Kind::Enum(_) => true,
        _ => is_text(kind) || DECODED_TYPES.contains(kind),
    }
}

const DECODED_TYPES: [Type; 17] = [
    Type::BOOL,
    Type::INT2,
    Type::INT4,
    Type::INT8,
    Type::OID,
    Type::FLOAT4,
    Type::FLOAT8,
    Type::NUMERIC,
    Type::JSON,
    Type::JSONB,
    Type::TIMESTAMP,
    Type::TIMESTAMPTZ,
    Type::DATE,
    Type::TIME,
    Type::UUID,
    Type::BYTEA,
    Type::VOID,
];

fn is_text(kind: &Type) -> bool {
    let texts = [Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::NAME, Type::UNKNOWN, Type::XML, Type::CHAR];
    texts.contains(kind) || kind.name() == "citext"
}

/// Decodes a value; `None` if the bytes do not match the type.
fn decode_value(raw: &[u8], kind: &Type) -> Option<Value> {
    if is_text(kind) || matches!(kind.kind(), Kind::Enum(_)) {
        return Some(String::from_utf8_lossy(raw).into_owned().into());
    }
    if let Kind::Array(item) = kind.kind() {
        return array(raw, base_type(item));
    }
    match *kind {
        Type::BOOL => Some(Value::Bool(raw.first()? != &0)),
        Type::INT2 => Some(i64::from(i16::from_be_bytes(raw.try_into().ok()?)).into()),
        Type::INT4 => Some(i64::from(i32::from_be_bytes(raw.try_into().ok()?)).into()),
        Type::INT8 => Some(i64::from_be_bytes(raw.try_into().ok()?).into()),
        Type::OID => Some(u32::from_be_bytes(raw.try_into().ok()?).into()),
        Type::FLOAT4 => Some(short_float(f32::from_be_bytes(raw.try_into().ok()?))),
        Type::FLOAT8 => Some(float(f64::from_be_bytes(raw.try_into().ok()?))),
        Type::NUMERIC => numeric(raw),
        Type::JSON => json(raw),
        Type::JSONB => json(raw.strip_prefix(&[1])?),
        Type::TIMESTAMPTZ => instant(i64::from_be_bytes(raw.try_into().ok()?)),
        Type::TIMESTAMP => date_time(i64::from_be_bytes(raw.try_into().ok()?)),
        Type::DATE => date(i32::from_be_bytes(raw.try_into().ok()?)),
        Type::TIME => cells::time(i64::from_be_bytes(raw.try_into().ok()?), MICROS),
        Type::UUID => uuid(raw),
        Type::BYTEA => Some(BASE64.encode(raw).into()),
        Type::VOID => Some(Value::Null),
        _ => None,
    }
}

fn json(raw: &[u8]) -> Option<Value> {
    parse_json(std::str::from_utf8(raw).ok()?).ok()
}

/// Decodes groups of four digits. The first has the weight 10000^weight; the scale is the number of decimal places.
fn numeric(raw: &[u8]) -> Option<Value> {
    let mut words = raw.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let (count, weight, sign, scale) = (words.next()?, words.next()? as i16, words.next()?, words.next()?);
    let special = match sign {
        0x0000 | 0x4000 => None,
        0xD000 => Some("Infinity"),
        0xF000 => Some("-Infinity"),
        _ => Some("NaN"),
    };
    if let Some(name) = special {
        return Some(name.into());
    }
    let groups: Vec<u16> = words.take(usize::from(count)).collect();
    let group = |position: i32| usize::try_from(position).ok().and_then(|at| groups.get(at)).copied().unwrap_or(0);
    let weight = i32::from(weight);
    let mut text: String = (0..=weight).map(|position| format!("{:04}", group(position))).collect();
    text = text.trim_start_matches('0').to_owned();
    if text.is_empty() {
        text.push('0');
    }
    if scale > 0 {
        let groups_after = (i32::from(scale) + 3) / 4;
        let after: String = (1..=groups_after).map(|step| format!("{:04}", group(weight + step))).collect();
        text.push('.');
        text.push_str(after.get(..usize::from(scale))?);
    }
    if sign == 0x4000 {
        text.insert(0, '-');
    }
    Some(number(text))
}

fn instant(micros: i64) -> Option<Value> {
    infinity(micros == i64::MAX, micros == i64::MIN)
        .or_else(|| cells::instant(micros.checked_add(EPOCH_MICROS)?, MICROS))
}

fn date_time(micros: i64) -> Option<Value> {
    infinity(micros == i64::MAX, micros == i64::MIN)
        .or_else(|| cells::date_time(micros.checked_add(EPOCH_MICROS)?, MICROS))
}

fn date(days: i32) -> Option<Value> {
    infinity(days == i32::MAX, days == i32::MIN).or_else(|| cells::date(i64::from(days) + EPOCH_DAYS))
}

fn uuid(raw: &[u8]) -> Option<Value> {
    let hex: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [hex.get(..8)?, hex.get(8..12)?, hex.get(12..16)?, hex.get(16..20)?, hex.get(20..32)?];
    Some(parts.join("-").into())
}

/// Decodes an array: dimensions, each with a length and a lower bound, then the items in order.
fn array(raw: &[u8], item: &Type) -> Option<Value> {
    let mut rest = raw;
    let dimensions = read_i32(&mut rest)?;
    let (_, _) = (read_i32(&mut rest)?, read_i32(&mut rest)?);
    let mut lengths = Vec::new();
    for _ in 0..dimensions {
        lengths.push(usize::try_from(read_i32(&mut rest)?).ok()?);
        read_i32(&mut rest)?;
    }
    if lengths.is_empty() {
        return Some(Value::list(Vec::new()));
    }
    items(&mut rest, &lengths, item)
}

fn items(rest: &mut &[u8], lengths: &[usize], item: &Type) -> Option<Value> {
    let (length, inner) = lengths.split_first()?;
    // The length comes from the server and is not trusted: no capacity is reserved.
    let mut list = Vec::new();
    for _ in 0..*length {
        if !inner.is_empty() {
            list.push(items(rest, inner, item)?);
            continue;
        }
        let size = read_i32(rest)?;
        list.push(match usize::try_from(size) {
            Err(_) => Value::Null,
            Ok(size) => {
                let (raw, after) = rest.split_at_checked(size)?;
                *rest = after;
                decode_value(raw, item)?
            }
        });
    }
    Some(Value::list(list))
}

fn read_i32(rest: &mut &[u8]) -> Option<i32> {
    let (raw, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(i32::from_be_bytes(*raw))
}
