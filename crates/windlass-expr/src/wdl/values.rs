//! Operations on values: text, JSON, equality, order, and loading of stored values. Every walk over a value is
//! metered and limited in depth.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::Arc;

use windlass_value::{BlobHash, Digits, EvalError, EvalErrorKind, EvalScope, Meter, StoredValue, Value, format_float};

use super::functions::{binary_text, is_binary};

pub(crate) type WdlResult = Result<Value, EvalError>;

/// The maximum nesting depth of a value that an expression walks or creates.
pub(crate) const MAX_DEPTH: usize = 120;

/// The state of one evaluation.
pub(crate) struct WdlContext<'a> {
    pub scope: &'a dyn EvalScope,
    pub meter: &'a mut Meter,
    /// Set in a loop's own condition: nodes that have not run are null.
    pub lenient: bool,
    /// The current element within a data operation, which `item()` returns.
    pub item: Option<Value>,
}

impl<'a> WdlContext<'a> {
    pub(crate) fn new(scope: &'a dyn EvalScope, meter: &'a mut Meter) -> WdlContext<'a> {
        WdlContext { scope, meter, lenient: false, item: None }
    }
}

impl WdlContext<'_> {
    /// Charges for one node. Inlined because this is the hottest path.
    #[inline(always)]
    pub(crate) fn charge_node(&mut self) -> Result<(), EvalError> {
        match self.meter.fuel {
            0 => self.meter.spend(1),
            _ => {
                self.meter.fuel -= 1;
                Ok(())
            }
        }
    }

    /// Charges for handling the given number of items.
    pub(crate) fn charge_items(&mut self, count: usize) -> Result<(), EvalError> {
        self.meter.spend(count as u64)
    }

    /// Charges for handling the given number of bytes of text.
    pub(crate) fn charge_bytes(&mut self, count: usize) -> Result<(), EvalError> {
        self.meter.spend(count as u64 / 32)
    }

    /// Charges for a list of the given length, and rejects one that is too large before it is created.
    pub(crate) fn reserve_items(&mut self, count: usize) -> Result<(), EvalError> {
        self.meter.check_size(count.saturating_mul(2))?;
        self.charge_items(count)
    }

    /// Charges for a text of the given length, and rejects one that is too large before it is created.
    pub(crate) fn reserve_bytes(&mut self, count: usize) -> Result<(), EvalError> {
        self.meter.check_size(count)?;
        self.charge_bytes(count)
    }

    /// Returns the content of a stored value; any other value is returned unchanged.
    pub(crate) fn content(&mut self, value: Value) -> WdlResult {
        match &value {
            Value::Stored(stored) => self.load(stored),
            _ => Ok(value),
        }
    }

    pub(crate) fn load(&mut self, stored: &StoredValue) -> WdlResult {
        self.charge_items(stored.items as usize)?;
        self.charge_bytes(stored.size as usize)?;
        let content = self.scope.blob(stored)?;
        match &content {
            Value::List(chunks) if stored.chunked && is_chunk_table(stored, chunks) => self.join_chunks(chunks),
            _ => Ok(content),
        }
    }

    /// Loads the content of a value for a lookup of one property; the cost does not depend on the size of the content.
    pub(crate) fn load_for_lookup(&mut self, stored: &StoredValue) -> WdlResult {
        if stored.chunked {
            return self.load(stored);
        }
        self.charge_items(1)?;
        self.scope.blob(stored)
    }

    /// Joins the chunks of a list. Requests all missing chunks together, so that they are fetched in one step.
    fn join_chunks(&mut self, chunks: &[Value]) -> WdlResult {
        let (mut items, mut missing) = (Vec::new(), Vec::new());
        for chunk in chunks {
            let Value::Stored(stored) = chunk else { continue };
            match self.scope.blob(stored) {
                Ok(Value::List(part)) => items.extend(part.iter().cloned()),
                Ok(other) => items.push(other),
                Err(error) if error.kind == EvalErrorKind::NeedBlobs => missing.extend(error.blobs),
                Err(error) => return Err(error),
            }
        }
        match missing.is_empty() {
            true => Ok(Value::list(items)),
            false => Err(EvalError::need_blobs(missing)),
        }
    }

    /// Returns one item of a stored list, fetching only the chunk that holds it.
    pub(crate) fn stored_item(&mut self, stored: &StoredValue, index: usize) -> Result<Option<Value>, EvalError> {
        let content = self.scope.blob(stored)?;
        let Value::List(entries) = &content else { return Ok(None) };
        self.charge_items(1)?;
        if !(stored.chunked && is_chunk_table(stored, entries)) {
            return Ok(entries.get(index).cloned());
        }
        let mut left = index;
        for entry in entries.iter() {
            let Value::Stored(chunk) = entry else { continue };
            self.charge_items(1)?;
            match left.checked_sub(chunk.items as usize) {
                Some(beyond) => left = beyond,
                None => {
                    let part = self.scope.blob(chunk)?;
                    return Ok(part.as_list().and_then(|items| items.get(left)).cloned());
                }
            }
        }
        Ok(None)
    }
}

/// Collects missing blobs while an evaluation continues, so that all of them are requested together.
#[derive(Default)]
pub(crate) struct MissingBlobs(Vec<BlobHash>);

impl MissingBlobs {
    /// Returns the value, or null in place of a value whose blobs are missing.
    #[inline]
    pub(crate) fn defer(&mut self, outcome: WdlResult) -> WdlResult {
        match outcome {
            Err(error) if error.kind == EvalErrorKind::NeedBlobs => {
                self.0.extend(error.blobs);
                Ok(Value::Null)
            }
            outcome => outcome,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails if any blob is missing.
    pub(crate) fn finish(self) -> Result<(), EvalError> {
        if self.0.is_empty() { Ok(()) } else { Err(EvalError::need_blobs(self.0)) }
    }
}

/// Returns whether a chunked list's blob holds the chunks; a scope may also return the items themselves.
fn is_chunk_table(stored: &StoredValue, entries: &[Value]) -> bool {
    let mut total = 0u64;
    for entry in entries {
        match entry {
            Value::Stored(chunk) => total = total.saturating_add(chunk.items),
            _ => return false,
        }
    }
    total == stored.items
}

/// Returns whether a stored value is known to be a list without loading it.
pub(crate) fn is_stored_list(stored: &StoredValue) -> bool {
    stored.chunked || stored.items > 0
}

pub(crate) fn type_error(message: impl Into<String>) -> EvalError {
    EvalError::new(EvalErrorKind::Type, message)
}

pub(crate) fn too_deep() -> EvalError {
    EvalError::new(EvalErrorKind::Limit, format!("a value nests deeper than {MAX_DEPTH}"))
}

/// Describes a value by its kind and a preview, for messages.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Big(text) => format!("decimal {text}"),
        _ => format!("{} {}", value.kind(), preview(value)),
    }
}

/// Returns the beginning of a text that a message quotes.
pub(crate) fn truncate(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(60) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]).into(),
    }
}

/// Returns the beginning of the value's JSON.
pub(crate) fn preview(value: &Value) -> String {
    let mut out = String::new();
    let whole = write_json(value, &mut out, 0, &mut PreviewSink).is_ok();
    if whole && out.chars().count() <= 80 {
        return out;
    }
    let mut short: String = out.chars().take(77).collect();
    short.push('…');
    short
}

/// A destination of JSON, which checks the size before each write and loads stored values.
trait JsonSink {
    fn reserve(&mut self, so_far: usize, more: usize) -> Result<(), EvalError>;
    fn load_stored(&mut self, stored: &StoredValue) -> Result<Option<Value>, EvalError>;
}

struct PreviewSink;

impl JsonSink for PreviewSink {
    fn reserve(&mut self, so_far: usize, _more: usize) -> Result<(), EvalError> {
        if so_far > 320 { Err(too_deep()) } else { Ok(()) }
    }

    fn load_stored(&mut self, _stored: &StoredValue) -> Result<Option<Value>, EvalError> {
        Ok(None)
    }
}

impl JsonSink for WdlContext<'_> {
    fn reserve(&mut self, so_far: usize, more: usize) -> Result<(), EvalError> {
        self.meter.spend(1 + more as u64 / 32)?;
        self.meter.check_size(so_far + more)
    }

    fn load_stored(&mut self, stored: &StoredValue) -> Result<Option<Value>, EvalError> {
        self.load(stored).map(Some)
    }
}

/// Renders compact JSON, including the content of stored values.
pub(crate) fn json_text(context: &mut WdlContext, value: &Value) -> Result<String, EvalError> {
    let mut out = String::new();
    write_json(value, &mut out, 0, context)?;
    Ok(out)
}

fn write_json(value: &Value, out: &mut String, depth: usize, sink: &mut dyn JsonSink) -> Result<(), EvalError> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let more = if let Value::Str(text) = value { text.len() } else { 8 };
    sink.reserve(out.len(), more)?;
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Int(number) => push(out, format_args!("{number}")),
        Value::Float(number) => push(out, format_args!("{number:?}")),
        Value::Big(text) => out.push_str(text),
        Value::Str(text) => push_quoted(out, text),
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write_json(item, out, depth + 1, sink)?;
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                push_quoted(out, key);
                out.push(':');
                write_json(item, out, depth + 1, sink)?;
            }
            out.push('}');
        }
        Value::Stored(stored) => match sink.load_stored(stored)? {
            Some(content) => write_json(&content, out, depth + 1, sink)?,
            None => push(out, format_args!("<stored, {} bytes>", stored.size)),
        },
    }
    Ok(())
}

/// Appends formatted text. Writing to a string cannot fail; this is the one place that ignores the result.
pub(crate) fn push(out: &mut String, arguments: std::fmt::Arguments) {
    let _ = out.write_fmt(arguments);
}

fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => push(out, format_args!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Converts a value to text, as interpolation, `concat`, `join` and `string` do. A binary value becomes its text.
pub(crate) fn to_text(context: &mut WdlContext, value: &Value) -> Result<Arc<str>, EvalError> {
    Ok(match value {
        Value::Null => "".into(),
        Value::Bool(flag) => if *flag { "True" } else { "False" }.into(),
        Value::Int(number) => number.to_string().into(),
        Value::Float(number) => format_float(*number).into(),
        Value::Big(text) | Value::Str(text) => text.clone(),
        Value::Map(map) if is_binary(map) => binary_text("a binary value", context, value)?.into(),
        Value::List(_) | Value::Map(_) => json_text(context, value)?.into(),
        Value::Stored(stored) => {
            let content = context.load(stored)?;
            match content {
                // A blob that holds another reference would be a fault of the store; it is not followed.
                Value::Stored(_) => return Err(type_error("a stored value holds another stored value")),
                content => to_text(context, &content)?,
            }
        }
    })
}

/// Compares two values as `equals` does: a binary value equals the text that it holds. Bytes that are no text fail.
pub(crate) fn equal_values(context: &mut WdlContext, left: &Value, right: &Value) -> Result<bool, EvalError> {
    if let (Value::Stored(a), Value::Stored(b)) = (left, right)
        && a.hash == b.hash
    {
        return Ok(true);
    }
    let (left, right) = (loaded_text(context, left)?, loaded_text(context, right)?);
    match (&left, &right) {
        (Value::Str(text), binary @ Value::Map(map)) | (binary @ Value::Map(map), Value::Str(text))
            if is_binary(map) =>
        {
            Ok(binary_text("a binary value", context, binary)? == **text)
        }
        (left, right) => deep_equal(context, left, right),
    }
}

/// Returns the content of a stored value that may be a text or a binary value.
fn loaded_text(context: &mut WdlContext, value: &Value) -> WdlResult {
    match value {
        Value::Stored(stored) if !is_stored_list(stored) => context.load(stored),
        value => Ok(value.clone()),
    }
}

/// Compares deeply: numbers by value, objects regardless of the order of their keys.
pub(crate) fn deep_equal(context: &mut WdlContext, left: &Value, right: &Value) -> Result<bool, EvalError> {
    deep_equal_at_depth(context, left, right, 0)
}

fn deep_equal_at_depth(context: &mut WdlContext, left: &Value, right: &Value, depth: usize) -> Result<bool, EvalError> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    context.charge_items(1)?;
    match (left, right) {
        (Value::Stored(a), Value::Stored(b)) if a.hash == b.hash => Ok(true),
        (Value::Stored(stored), other) | (other, Value::Stored(stored)) => {
            if is_stored_list(stored) && !matches!(other, Value::List(_) | Value::Stored(_)) {
                return Ok(false);
            }
            let content = context.load(stored)?;
            deep_equal_at_depth(context, &content, other, depth + 1)
        }
        (Value::List(a), Value::List(b)) => {
            if Arc::ptr_eq(a, b) {
                return Ok(true);
            }
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b.iter()) {
                if !deep_equal_at_depth(context, a, b, depth + 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Map(a), Value::Map(b)) => {
            if Arc::ptr_eq(a, b) {
                return Ok(true);
            }
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, a) in a.iter() {
                match b.get(key) {
                    Some(b) if deep_equal_at_depth(context, a, b, depth + 1)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        _ => Ok(left == right),
    }
}

/// Returns a text that two values share exactly when they are [`deep_equal`]: lets sets of values be found by hash.
pub(crate) fn fingerprint(context: &mut WdlContext, value: &Value) -> Result<String, EvalError> {
    let mut out = String::new();
    write_fingerprint(context, value, &mut out, 0)?;
    Ok(out)
}

fn write_fingerprint(context: &mut WdlContext, value: &Value, out: &mut String, depth: usize) -> Result<(), EvalError> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value {
        Value::Float(number) => match exact_int(*number) {
            Some(int) => push(out, format_args!("{int}")),
            None => push(out, format_args!("{number:?}")),
        },
        Value::List(items) => {
            context.charge_items(items.len())?;
            out.push('[');
            for item in items.iter() {
                write_fingerprint(context, item, out, depth + 1)?;
                out.push(',');
            }
            out.push(']');
        }
        Value::Map(map) => {
            context.charge_items(map.len())?;
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (key, item) in entries {
                push_quoted(out, key);
                write_fingerprint(context, item, out, depth + 1)?;
            }
            out.push('}');
        }
        Value::Stored(stored) => {
            let content = context.load(stored)?;
            write_fingerprint(context, &content, out, depth + 1)?;
        }
        // Written as the float of the same digits if there is one: equal numbers must have equal fingerprints.
        Value::Big(text) => match (exact_int_from_decimal(text), text.parse::<f64>().ok().and_then(Value::float)) {
            (Some(int), _) => push(out, format_args!("{int}")),
            (None, Some(Value::Float(number))) if Value::Float(number) == *value => {
                push(out, format_args!("{number:?}"))
            }
            _ => push(out, format_args!("big {:?}", Digits::parse(text))),
        },
        _ => write_json(value, out, depth, context)?,
    }
    context.meter.check_size(out.len() / 2)
}

/// Returns the integer that a float represents exactly.
pub(crate) fn exact_int(number: f64) -> Option<i64> {
    let within = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    (within && number.fract() == 0.0).then_some(number as i64)
}

/// Returns the integer that a decimal represents exactly.
pub(crate) fn exact_int_from_decimal(text: &str) -> Option<i64> {
    let digits = Digits::parse(text)?;
    if digits.is_zero() {
        return Some(0);
    }
    let places = usize::try_from(digits.point).ok().filter(|places| (digits.digits.len()..=19).contains(places))?;
    let size = (0..places).fold(0i128, |sum, at| sum * 10 + i128::from(digits.digits.get(at).copied().unwrap_or(0)));
    i64::try_from(if digits.negative { -size } else { size }).ok()
}

/// Compares numbers or texts in a total order; None for anything else.
pub(crate) fn compare_values(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Float(b)) => Some(order_int_float(*a, *b)),
        (Value::Float(a), Value::Int(b)) => Some(order_int_float(*b, *a).reverse()),
        (Value::Str(a), Value::Str(b)) => Some(a.cmp(b)),
        (Value::Big(_), _) | (_, Value::Big(_)) => Some(Digits::from_value(left)?.cmp(&Digits::from_value(right)?)),
        _ => None,
    }
}

fn order_int_float(int: i64, float: f64) -> Ordering {
    if float >= 9_223_372_036_854_775_808.0 {
        return Ordering::Less;
    }
    if float < -9_223_372_036_854_775_808.0 {
        return Ordering::Greater;
    }
    let floor = float.floor();
    int.cmp(&(floor as i64)).then(if float > floor { Ordering::Less } else { Ordering::Equal })
}

/// Rejects a result that is too large or nests too deep, before it is stored.
pub(crate) fn check_result(meter: &Meter, value: &Value) -> Result<(), EvalError> {
    if !matches!(value, Value::List(_) | Value::Map(_)) {
        return Ok(());
    }
    let mut left = meter.max_output_bytes;
    check_part(meter, value, 0, &mut left)
}

fn check_part(meter: &Meter, value: &Value, depth: usize, left: &mut usize) -> Result<(), EvalError> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let own = match value {
        Value::Str(text) | Value::Big(text) => text.len() + 1,
        _ => 1,
    };
    take_bytes(meter, left, own)?;
    match value {
        Value::List(items) => items.iter().try_for_each(|item| check_part(meter, item, depth + 1, left)),
        Value::Map(map) => map.iter().try_for_each(|(key, item)| {
            take_bytes(meter, left, key.len())?;
            check_part(meter, item, depth + 1, left)
        }),
        _ => Ok(()),
    }
}

fn take_bytes(meter: &Meter, left: &mut usize, bytes: usize) -> Result<(), EvalError> {
    match left.checked_sub(bytes) {
        Some(rest) => {
            *left = rest;
            Ok(())
        }
        None => meter.check_size(usize::MAX),
    }
}
