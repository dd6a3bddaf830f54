//! Conversion of DuckDB rows to values. Rows are Arrow arrays; DuckDB's logical types supply what Arrow types lack.

use std::sync::Arc;

use ::duckdb::arrow::array::{Array, ArrayRef, AsArray};
use ::duckdb::arrow::datatypes::{
    DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, Time64NanosecondType,
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type, UnionMode,
};
use ::duckdb::core::{LogicalTypeHandle, LogicalTypeId};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use windlass_value::{Map, Value, parse_json};

use crate::input::plain_text;
use crate::sql::cells::{date, date_time, float, infinity, instant, number, short_float, time};

const MICROS: i64 = 1_000_000;
const NANOS: i64 = 1_000_000_000;

pub(super) struct Column {
    pub(super) name: Arc<str>,
    kind: ColumnType,
}

/// Type information that an Arrow array does not contain.
struct ColumnType {
    id: LogicalTypeId,
    is_json: bool,
    inner: Vec<ColumnType>,
}

impl ColumnType {
    fn new(logical: &LogicalTypeHandle) -> ColumnType {
        let id = logical.id();
        let is_json = id == LogicalTypeId::Varchar && logical.get_alias().as_deref() == Some("JSON");
        let inner = (0..logical.num_children()).map(|index| ColumnType::new(&logical.child(index))).collect();
        ColumnType { id, is_json, inner }
    }
}

impl Column {
    pub(super) fn new(name: &str, logical: &LogicalTypeHandle) -> Column {
        Column { name: name.into(), kind: ColumnType::new(logical) }
    }

    /// Returns the value of a row, or `None` if its type cannot be read.
    pub(super) fn value(&self, array: &ArrayRef, row: usize) -> Option<Value> {
        value(array, row, Some(&self.kind))
    }
}

fn value(array: &ArrayRef, row: usize, kind: Option<&ColumnType>) -> Option<Value> {
    if array.is_null(row) {
        return Some(Value::Null);
    }
    // These come without their zone, or as internal bytes of DuckDB, so a decoded value would be wrong.
    if kind.is_some_and(|kind| matches!(kind.id, LogicalTypeId::TimeTZ | LogicalTypeId::Bignum)) {
        return None;
    }
    let inner = |index: usize| kind.and_then(|kind| kind.inner.get(index));
    match array.data_type() {
        DataType::Null => Some(Value::Null),
        DataType::Boolean => Some(Value::Bool(array.as_boolean().value(row))),
        DataType::Int8 => Some(i64::from(array.as_primitive::<Int8Type>().value(row)).into()),
        DataType::Int16 => Some(i64::from(array.as_primitive::<Int16Type>().value(row)).into()),
        DataType::Int32 => Some(i64::from(array.as_primitive::<Int32Type>().value(row)).into()),
        DataType::Int64 => Some(array.as_primitive::<Int64Type>().value(row).into()),
        DataType::UInt8 => Some(i64::from(array.as_primitive::<UInt8Type>().value(row)).into()),
        DataType::UInt16 => Some(i64::from(array.as_primitive::<UInt16Type>().value(row)).into()),
        DataType::UInt32 => Some(i64::from(array.as_primitive::<UInt32Type>().value(row)).into()),
        DataType::UInt64 => Some(number(array.as_primitive::<UInt64Type>().value(row).to_string())),
        DataType::Float32 => Some(short_float(array.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => Some(float(array.as_primitive::<Float64Type>().value(row))),
        DataType::Decimal32(..) => Some(number(array.as_primitive::<Decimal32Type>().value_as_string(row))),
        DataType::Decimal64(..) => Some(number(array.as_primitive::<Decimal64Type>().value_as_string(row))),
        DataType::Decimal128(_, scale) => {
            let array = array.as_primitive::<Decimal128Type>();
            // Huge integers come as decimals; unsigned ones with the same bits.
            Some(number(match (kind.map(|kind| kind.id), scale) {
                (Some(LogicalTypeId::UHugeint), _) => (array.value(row) as u128).to_string(),
                (_, 0) => array.value(row).to_string(),
                _ => array.value_as_string(row),
            }))
        }
        DataType::Utf8 => text(array.as_string::<i32>().value(row), kind),
        DataType::LargeUtf8 => text(array.as_string::<i64>().value(row), kind),
        DataType::Utf8View => text(array.as_string_view().value(row), kind),
        DataType::Binary => Some(blob(array.as_binary::<i32>().value(row), kind)),
        DataType::LargeBinary => Some(blob(array.as_binary::<i64>().value(row), kind)),
        DataType::BinaryView => Some(blob(array.as_binary_view().value(row), kind)),
        DataType::FixedSizeBinary(_) => Some(blob(array.as_fixed_size_binary().value(row), kind)),
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().value(row);
            infinity(days == i32::MAX, days == -i32::MAX).or_else(|| date(days.into()))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            time(array.as_primitive::<Time64MicrosecondType>().value(row), MICROS)
        }
        DataType::Time64(TimeUnit::Nanosecond) => time(array.as_primitive::<Time64NanosecondType>().value(row), NANOS),
        DataType::Timestamp(unit, zone) => {
            let (units, per_second) = match unit {
                TimeUnit::Second => (array.as_primitive::<TimestampSecondType>().value(row), 1),
                TimeUnit::Millisecond => (array.as_primitive::<TimestampMillisecondType>().value(row), 1000),
                TimeUnit::Microsecond => (array.as_primitive::<TimestampMicrosecondType>().value(row), MICROS),
                TimeUnit::Nanosecond => (array.as_primitive::<TimestampNanosecondType>().value(row), NANOS),
            };
            infinity(units == i64::MAX, units == -i64::MAX).or_else(|| match zone {
                Some(_) => instant(units, per_second),
                None => date_time(units, per_second),
            })
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let span = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            Some(interval(span.months, span.days, span.nanoseconds).into())
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(row), inner(0)),
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row), inner(0)),
        DataType::ListView(_) => list(&array.as_list_view::<i32>().value(row), inner(0)),
        DataType::LargeListView(_) => list(&array.as_list_view::<i64>().value(row), inner(0)),
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(row), inner(0)),
        DataType::Struct(fields) => {
            let mut map = Map::with_capacity(fields.len());
            for (index, (field, column)) in fields.iter().zip(array.as_struct().columns()).enumerate() {
                map.insert(field.name().as_str(), value(column, row, inner(index))?);
            }
            Some(Value::map(map))
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let mut map = Map::with_capacity(entries.len());
            for at in 0..entries.len() {
                map.insert(plain_text(&value(keys, at, inner(0))?), value(values, at, inner(1))?);
            }
            Some(Value::map(map))
        }
        DataType::Union(fields, mode) => {
            let union = array.as_union();
            let tag = union.type_id(row);
            let at = if *mode == UnionMode::Dense { union.value_offset(row) } else { row };
            let (index, (_, field)) = fields.iter().enumerate().find(|(_, (id, _))| *id == tag)?;
            Some(Value::object([(field.name().as_str(), value(union.child(tag), at, inner(index))?)]))
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            value(dictionary.values(), *dictionary.normalized_keys().get(row)?, None)
        }
        _ => None,
    }
}

fn list(items: &ArrayRef, kind: Option<&ColumnType>) -> Option<Value> {
    (0..items.len()).map(|at| value(items, at, kind)).collect::<Option<Vec<_>>>().map(Value::list)
}

fn text(text: &str, kind: Option<&ColumnType>) -> Option<Value> {
    match kind.is_some_and(|kind| kind.is_json) {
        true => parse_json(text).ok(),
        false => Some(text.into()),
    }
}

/// Converts bytes to base64. Bit strings become text: the first byte is the number of padding bits, the bits follow.
fn blob(bytes: &[u8], kind: Option<&ColumnType>) -> Value {
    match (kind.map(|kind| kind.id), bytes.split_first()) {
        (Some(LogicalTypeId::Bit), Some((padding, bits))) => {
            let bits: String = bits.iter().map(|byte| format!("{byte:08b}")).collect();
            bits.get(usize::from(*padding)..).unwrap_or_default().into()
        }
        _ => BASE64.encode(bytes).into(),
    }
}

/// Formats an interval as `P1Y2M3DT4H5M6.5S`. Parts may differ in sign, as they do in the database.
fn interval(months: i32, days: i32, nanos: i64) -> String {
    let part = |amount: i64, unit: &str| if amount == 0 { String::new() } else { format!("{amount}{unit}") };
    let mut text = String::from("P");
    for (amount, unit) in [(months / 12, "Y"), (months % 12, "M"), (days, "D")] {
        text.push_str(&part(amount.into(), unit));
    }
    let seconds = nanos / NANOS;
    if nanos != 0 {
        text.push('T');
        text.push_str(&part(seconds / 3600, "H"));
        text.push_str(&part(seconds / 60 % 60, "M"));
    }
    if nanos % (60 * NANOS) != 0 {
        let sign = if nanos < 0 { "-" } else { "" };
        let whole = format!("{}.{:09}", (seconds % 60).abs(), (nanos % NANOS).abs());
        text.push_str(&format!("{sign}{}S", whole.trim_end_matches('0').trim_end_matches('.')));
    }
    if text == "P" { "PT0S".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_iso() {
        let table = [
            ((0, 0, 0), "PT0S"),
            ((14, 3, 4 * 3600 * NANOS), "P1Y2M3DT4H"),
            ((0, 0, 6_500_000_000), "PT6.5S"),
            ((0, -1, 90 * NANOS), "P-1DT1M30S"),
            ((-1, 0, -500_000_000), "P-1MT-0.5S"),
            ((0, 0, 60 * NANOS + 1), "PT1M0.000000001S"),
        ];
        for ((months, days, nanos), expected) in table {
            assert_eq!(interval(months, days, nanos), expected);
        }
    }
}
