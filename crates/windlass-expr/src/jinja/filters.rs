//! Windlass's own filters, functions and methods. They replace those of the engine that would read the clock, create
//! a value of unbounded size, or change a value's type silently.

use std::sync::Arc;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, State, Value as Inner};
use windlass_value::{EvalError, EvalErrorKind, Value, parse_json, to_json, to_json_pretty};

use super::object::{binary_text, describe, from_engine, is_wrapped_value, text_bytes, to_engine, type_error};
use super::path::{JinjaStep, missing_error};
use super::session::{EvalSession, to_engine_error};
use super::truth::inner_is_true;
use crate::wdl::functions::encoding;

type FilterResult = Result<Inner, Error>;

pub(super) fn add(env: &mut Environment<'static>) {
    env.add_filter("int", int);
    env.add_filter("float", float);
    env.add_filter("bool", |value: Inner| inner_is_true(&value));
    env.add_filter("tojson", tojson);
    env.add_filter("fromjson", fromjson);
    env.add_filter("b64encode", b64encode);
    env.add_filter("b64decode", b64decode);
    env.add_filter("urlencode", urlencode);
    env.add_filter("identifier", identifier);
    env.add_filter("replace", replace);
    env.add_filter("join", join);
    env.add_filter("keys", keys);
    env.add_filter("values", values);
    env.add_filter("get", get);
    env.add_filter("present", present);
    env.add_filter("len", minijinja::filters::length);
    env.add_filter("safe", |value: Inner| value);
    env.add_filter("string", string);
    env.add_filter("__text", text_of_binary);
    env.add_filter("__truth", |value: Inner| inner_is_true(&value));
    env.add_filter("__null", |value: Inner| if value.is_undefined() { Inner::from(()) } else { value });
    env.add_filter("__need", require);
    env.add_filter("__attr", attribute);
    env.add_filter("__size", check_size);
    env.add_filter("__cost", charge_scan);
    env.add_filter("__walk", charge_walk);
    env.add_filter("__weigh", charge_comparison);
    env.add_filter("__number", number);
    env.add_filter("__factor", factor);
    env.add_function("now", now);
    env.add_function("uuid", uuid);
    add_methods(env);
    super::lists::add(env);
}

/// Converts a value to text, a binary value to its own.
fn string(value: Inner) -> FilterResult {
    let value = text_of_binary(value)?;
    Ok(if value.as_str().is_some() { value } else { Inner::from(value.to_string()) })
}

/// Returns the text of a binary value, and any other value unchanged.
fn text_of_binary(value: Inner) -> FilterResult {
    match binary_text(&value) {
        Some(text) => text.map(Inner::from).map_err(to_engine_error),
        None => Ok(value),
    }
}

fn add_methods(env: &mut Environment<'static>) {
    env.add_filter("__m_get", get);
    env.add_filter("__m_keys", keys);
    env.add_filter("__m_values", values);
    env.add_filter("__m_items", items);
    env.add_filter("__m_lower", |text: Inner| map_text("lower", &text, |text| text.to_lowercase().into()));
    env.add_filter("__m_upper", |text: Inner| map_text("upper", &text, |text| text.to_uppercase().into()));
    env.add_filter("__m_title", |state: &mut State, text: Inner| state.apply_filter("title", &[text]));
    env.add_filter("__m_capitalize", |state: &mut State, text: Inner| state.apply_filter("capitalize", &[text]));
    env.add_filter("__m_strip", |text: Inner, marks: Option<Arc<str>>| strip("strip", &text, marks, true, true));
    env.add_filter("__m_lstrip", |text: Inner, marks: Option<Arc<str>>| strip("lstrip", &text, marks, true, false));
    env.add_filter("__m_rstrip", |text: Inner, marks: Option<Arc<str>>| strip("rstrip", &text, marks, false, true));
    env.add_filter("__m_startswith", |text: Inner, part: Arc<str>| {
        map_text("startswith", &text, |text| text.starts_with(&*part).into())
    });
    env.add_filter("__m_endswith", |text: Inner, part: Arc<str>| {
        map_text("endswith", &text, |text| text.ends_with(&*part).into())
    });
    env.add_filter("__m_count", |text: Inner, part: Arc<str>| {
        map_text("count", &text, |text| text.matches(&*part).count().into())
    });
    env.add_filter("__m_find", |text: Inner, part: Arc<str>| {
        map_text("find", &text, |text| {
            text.find(&*part).map_or(Inner::from(-1), |at| Inner::from(text[..at].chars().count()))
        })
    });
    env.add_filter("__m_isdigit", |text: Inner| {
        map_text("isdigit", &text, |text| (!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())).into())
    });
    env.add_filter("__m_splitlines", |text: Inner| {
        map_text("splitlines", &text, |text| text.lines().map(Inner::from).collect())
    });
    env.add_filter("__m_split", |state: &mut State, text: Inner, separator: Option<Inner>, max_splits: Option<i64>| {
        if text.as_str().is_none() {
            return Err(wrong_argument("split", "a text", &text));
        }
        let max_splits = max_splits.map_or(Inner::from(()), Inner::from);
        state.apply_filter("split", &[text, separator.unwrap_or_else(|| Inner::from(())), max_splits])
    });
    env.add_filter("__m_replace", replace);
    env.add_filter("__m_join", |state: &mut State, separator: Inner, items: Inner| join(state, items, Some(separator)));
}

fn wrong_argument(name: &str, expected: &str, value: &Inner) -> Error {
    type_error(format!("`{name}` needs {expected}, got {}", describe(value)), None)
}

fn map_text(name: &str, value: &Inner, run: impl FnOnce(&str) -> Inner) -> FilterResult {
    value.as_str().map(run).ok_or_else(|| wrong_argument(name, "a text", value))
}

fn strip(name: &str, value: &Inner, marks: Option<Arc<str>>, left: bool, right: bool) -> FilterResult {
    map_text(name, value, |text| {
        let is_stripped = |c: char| marks.as_ref().map_or(c.is_whitespace(), |marks| marks.contains(c));
        let text = if left { text.trim_start_matches(is_stripped) } else { text };
        Inner::from(if right { text.trim_end_matches(is_stripped) } else { text })
    })
}

fn session(state: &State) -> Result<Arc<EvalSession>, Error> {
    EvalSession::from_state(state).ok_or_else(|| type_error("this is not available here", None))
}

/// Converts to an integer: parses the digits of a string, truncates a float.
fn int(value: Inner, default: Option<Inner>) -> FilterResult {
    let text = value.as_str().map(str::trim);
    let found = match (value.kind(), text) {
        (ValueKind::Bool, _) => Some(Inner::from(i64::from(value.is_true()))),
        (ValueKind::Number, _) if value.is_integer() => Some(value.clone()),
        (ValueKind::Number, _) => f64::try_from(value.clone()).ok().and_then(truncate),
        (_, Some(text)) => {
            let digits = text.strip_prefix('+').unwrap_or(text).replace('_', "");
            let float = || digits.parse::<f64>().ok().and_then(truncate);
            digits.parse::<i128>().ok().map(integer_value).or_else(float)
        }
        _ => None,
    };
    match (found, default) {
        (Some(number), _) => Ok(number),
        (None, Some(default)) => Ok(default),
        (None, None) => {
            let hint = "`int(0)` gives 0 for a value that is not a number";
            Err(type_error(format!("`int` needs a number, got {}", describe(&value)), Some(hint)))
        }
    }
}

fn integer_value(number: i128) -> Inner {
    i64::try_from(number).map_or_else(|_| Inner::from(number), Inner::from)
}

fn truncate(number: f64) -> Option<Inner> {
    (number.is_finite() && number.abs() < 1e37).then(|| integer_value(number.trunc() as i128))
}

fn float(value: Inner, default: Option<Inner>) -> FilterResult {
    let found = match (value.kind(), value.as_str()) {
        (ValueKind::Bool, _) => Some(f64::from(u8::from(value.is_true()))),
        (ValueKind::Number, _) => f64::try_from(value.clone()).ok().or_else(|| value.to_string().parse().ok()),
        (_, Some(text)) => text.trim().parse::<f64>().ok().filter(|number| number.is_finite()),
        _ => None,
    };
    match (found, default) {
        (Some(number), _) => Ok(Inner::from(number)),
        (None, Some(default)) => Ok(default),
        (None, None) => {
            let hint = "`float(0)` gives 0 for a value that is not a number";
            Err(type_error(format!("`float` needs a number, got {}", describe(&value)), Some(hint)))
        }
    }
}

/// Quotes the name of a table or a column for SQL, if it is one of those allowed. A dot separates a schema from its
/// table. A name cannot end its quotes: they are doubled inside it.
fn identifier(value: Inner, allowed: Vec<String>, kwargs: Kwargs) -> FilterResult {
    let quote: Option<String> = kwargs.get("quote")?;
    kwargs.assert_all_used()?;
    let quote = quote.unwrap_or_else(|| "\"".to_owned());
    let name = value.as_str().filter(|name| allowed.iter().any(|one| one == name));
    let Some(name) = name else {
        let names = allowed.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let message = format!("{} is not a name that is allowed here: {names}", describe(&value));
        let hint = "pass one of them, or add the name to the list of `identifier`";
        return Err(type_error(message, Some(hint)));
    };
    let quoted = |part: &str| format!("{quote}{}{quote}", part.replace(&*quote, &quote.repeat(2)));
    Ok(Inner::from(name.split('.').map(quoted).collect::<Vec<_>>().join(".")))
}

/// Renders JSON without whitespace, with keys in their order; with `indent`, over several lines.
fn tojson(state: &mut State, value: Inner, indent: Option<Inner>, kwargs: Kwargs) -> FilterResult {
    let session = session(state)?;
    let named: Option<Inner> = kwargs.get("indent")?;
    kwargs.assert_all_used()?;
    let value = from_engine(&value, &session).map_err(to_engine_error)?;
    let value = run_numbers_as_text(load_all(&value, &session).map_err(to_engine_error)?, session.run_numbers);
    session.reserve_text(value.size_up_to(usize::MAX / 2)).map_err(to_engine_error)?;
    let pretty = indent.or(named).is_some_and(|indent| !indent.is_none() && !indent.is_undefined());
    Ok(Inner::from(if pretty { to_json_pretty(&value) } else { to_json(&value) }))
}

/// The smallest number of a run that is written as text in JSON: many readers round larger integers than 2^53.
const MIN_RUN_NUMBER: i64 = 1 << 40;

/// Returns the value with the numbers of the run and its parent as decimal texts.
fn run_numbers_as_text(value: Value, numbers: [i64; 2]) -> Value {
    let inner = |value: &Value| run_numbers_as_text(value.clone(), numbers);
    match &value {
        Value::Int(number) if *number >= MIN_RUN_NUMBER && numbers.contains(number) => Value::from(number.to_string()),
        Value::List(items) if items.iter().any(|item| has_run_number(item, numbers)) => {
            Value::list(items.iter().map(inner).collect())
        }
        Value::Map(map) if map.iter().any(|(_, item)| has_run_number(item, numbers)) => {
            Value::map(map.iter().map(|(key, item)| (key.clone(), inner(item))).collect())
        }
        _ => value,
    }
}

fn has_run_number(value: &Value, numbers: [i64; 2]) -> bool {
    match value {
        Value::Int(number) => *number >= MIN_RUN_NUMBER && numbers.contains(number),
        Value::List(items) => items.iter().any(|item| has_run_number(item, numbers)),
        Value::Map(map) => map.iter().any(|(_, item)| has_run_number(item, numbers)),
        _ => false,
    }
}

/// Returns the value with all stored values inside it loaded.
fn load_all(value: &Value, session: &EvalSession) -> Result<Value, EvalError> {
    if value.stored_bytes() == 0 && !matches!(value, Value::Stored(_)) {
        return Ok(value.clone());
    }
    match value {
        Value::Stored(stored) => load_all(&session.load(stored)?, session),
        Value::List(items) => {
            let mut all = Ok(Vec::with_capacity(items.len()));
            for item in items.iter() {
                session.spend(1)?;
                // All missing blobs are requested together.
                match (load_all(item, session), &mut all) {
                    (Ok(item), Ok(list)) => list.push(item),
                    (Err(error), _) => all = Err(error),
                    (Ok(_), Err(_)) => {}
                }
            }
            all.map(Value::list)
        }
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| Ok((key.clone(), load_all(value, session)?)));
            Ok(Value::object(entries.collect::<Result<Vec<_>, EvalError>>()?))
        }
        other => Ok(other.clone()),
    }
}

fn fromjson(state: &mut State, text: Inner) -> FilterResult {
    let session = session(state)?;
    let Some(json) = text.as_str() else { return Err(wrong_argument("fromjson", "a text", &text)) };
    session.spend(json.len() as u64 / 32).map_err(to_engine_error)?;
    match parse_json(json) {
        Ok(value) => Ok(to_engine(&value, &session)),
        Err(error) => Err(type_error(
            format!(
                "`fromjson`: {} at line {} column {} of {}",
                error.message,
                error.line,
                error.column,
                describe(&text)
            ),
            None,
        )),
    }
}

fn b64encode(state: &mut State, text: Inner) -> FilterResult {
    let session = session(state)?;
    let bytes = text.to_string();
    session.reserve_text(bytes.len() / 3 * 4).map_err(to_engine_error)?;
    Ok(Inner::from(encoding::to_base64(bytes.as_bytes())))
}

fn b64decode(text: Inner) -> FilterResult {
    let bytes = text.as_str().and_then(encoding::decode);
    let decoded = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.map(Inner::from).ok_or_else(|| wrong_argument("b64decode", "base64 of a UTF-8 text", &text))
}

/// Percent-encodes everything but letters, digits and `-._~/`, as Jinja does.
fn urlencode(state: &mut State, value: Inner) -> FilterResult {
    let session = session(state)?;
    if value.kind() == ValueKind::Map {
        let mut parts = Vec::new();
        for key in value.try_iter()?.checked() {
            let key = key?;
            let item = value.get_item(&key)?;
            parts.push(format!("{}={}", percent_encode(&key.to_string(), ""), percent_encode(&item.to_string(), "")));
        }
        return Ok(Inner::from(parts.join("&")));
    }
    let text = value.to_string();
    session.reserve_text(text.len() * 3).map_err(to_engine_error)?;
    Ok(Inner::from(percent_encode(&text, "/")))
}

fn percent_encode(text: &str, safe: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if byte.is_ascii_alphanumeric() || "-._~".contains(c) || safe.contains(c) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn replace(state: &mut State, value: Inner, from: Inner, to: Inner) -> FilterResult {
    let (text, from, to) = (value.to_string(), from.to_string(), to.to_string());
    let found = if from.is_empty() { text.chars().count() + 1 } else { text.matches(&from).count() };
    let length = text.len().saturating_add(found.saturating_mul(to.len()));
    session(state)?.reserve_text(length).map_err(to_engine_error)?;
    Ok(Inner::from(text.replace(&from, &to)))
}

fn join(state: &mut State, items: Inner, separator: Option<Inner>) -> FilterResult {
    let session = session(state)?;
    let separator = separator.map(|separator| separator.to_string()).unwrap_or_default();
    let mut out = String::new();
    for (index, item) in items.try_iter()?.checked().enumerate() {
        let text = item?.to_string();
        session.spend(1).map_err(to_engine_error)?;
        session.reserve_text(out.len() + separator.len() + text.len()).map_err(to_engine_error)?;
        if index > 0 {
            out.push_str(&separator);
        }
        out.push_str(&text);
    }
    Ok(Inner::from(out))
}

fn keys(map: Inner) -> FilterResult {
    match map.kind() {
        ValueKind::Map => Ok(map.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?.into()),
        _ => Err(wrong_argument("keys", "an object", &map)),
    }
}

fn values(map: Inner) -> FilterResult {
    if map.kind() != ValueKind::Map {
        return Err(wrong_argument("values", "an object", &map));
    }
    let each = map.try_iter()?.checked().map(|key| map.get_item(&key?));
    Ok(each.collect::<Result<Vec<_>, _>>()?.into())
}

fn items(state: &mut State, map: Inner) -> FilterResult {
    match map.kind() {
        ValueKind::Map => state.apply_filter("items", &[map]),
        _ => Err(wrong_argument("items", "an object", &map)),
    }
}

/// Returns an object without the properties that are null.
fn present(state: &mut State, map: Inner) -> FilterResult {
    let session = session(state)?;
    let Value::Map(all) = from_engine(&map, &session).map_err(to_engine_error)? else {
        return Err(wrong_argument("present", "an object", &map));
    };
    let kept = all.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), value.clone()));
    Ok(to_engine(&Value::map(kept.collect()), &session))
}

/// Returns a property, or the default, or null.
fn get(map: Inner, key: Inner, default: Option<Inner>) -> FilterResult {
    if map.kind() != ValueKind::Map {
        return Err(wrong_argument("get", "an object", &map));
    }
    let found = map.get_item(&key)?;
    Ok(match found.is_undefined() {
        true => default.unwrap_or_else(|| Inner::from(())),
        false => found,
    })
}

fn require(value: Inner, name: Arc<str>) -> FilterResult {
    match value.is_undefined() {
        false => Ok(value),
        true => {
            let error =
                EvalError::new(EvalErrorKind::Missing, format!("`{name}` has no result: there is no such value"));
            Err(to_engine_error(error.with_hint("`| default(…)` provides a value for that case")))
        }
    }
}

/// Returns a property or an item that must exist.
fn attribute(state: &mut State, base: Inner, key: Inner, path_text: Arc<str>) -> FilterResult {
    let found = match base.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number => Inner::UNDEFINED,
        _ => base.get_item(&key)?,
    };
    if !found.is_undefined() {
        return Ok(found);
    }
    let step = match key.as_str() {
        Some(name) => JinjaStep::Key(name.into()),
        None => JinjaStep::Index(key.as_i64().unwrap_or_default()),
    };
    let value = from_engine(&base, &*session(state)?).unwrap_or_default();
    Err(to_engine_error(missing_error(&path_text, &value, &step)))
}

/// Checks the size of a string or list that has just grown.
fn check_size(state: &mut State, value: Inner) -> FilterResult {
    match value.as_str() {
        Some(text) if text.len() > SHORT_BYTES => session(state)?.reserve_text(text.len()).map_err(to_engine_error)?,
        Some(_) => {}
        None => return charge_scan(state, value),
    }
    Ok(value)
}

/// Shorter strings are not charged separately: the engine's own fuel covers them.
const SHORT_BYTES: usize = 1_000;

/// Charges for a value that is about to be traversed once by an operation that spends no fuel itself. Our own list
/// objects charge for every item.
fn charge_scan(state: &mut State, value: Inner) -> FilterResult {
    let amount = match (value.as_str(), value.kind()) {
        (Some(text), _) => text.len() / 16,
        (None, ValueKind::Seq | ValueKind::Iterable) if !is_wrapped_value(&value) => value.len().unwrap_or_default(),
        _ => 0,
    };
    charge(state, value, amount)
}

/// Charges for a value that is about to be compared with another, including everything inside it.
fn charge_comparison(state: &mut State, value: Inner) -> FilterResult {
    let texts = text_bytes(&value) / 16;
    let value = charge(state, value, texts)?;
    charge_scan(state, value)
}

/// Charges for a value that is about to be split into characters or items, and perhaps sorted.
fn charge_walk(state: &mut State, value: Inner) -> FilterResult {
    let amount = match (value.as_str(), value.kind()) {
        (Some(text), _) => text.len(),
        (None, ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) => value.len().unwrap_or_default() * 4,
        _ => 0,
    };
    let amount = amount + text_bytes(&value) / 16;
    charge(state, value, amount)
}

fn charge(state: &mut State, value: Inner, amount: usize) -> FilterResult {
    if amount > SHORT_BYTES / 16 {
        session(state)?.spend(amount as u64).map_err(to_engine_error)?;
    } else if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
        session(state)?.check_fuel().map_err(to_engine_error)?;
    }
    Ok(value)
}

fn number(value: Inner) -> FilterResult {
    match value.kind() {
        ValueKind::Number | ValueKind::Bool => Ok(value),
        _ => Err(wrong_argument("%", "numbers", &value)),
    }
}

fn factor(value: Inner) -> FilterResult {
    match value.kind() {
        ValueKind::Number | ValueKind::Bool | ValueKind::String => Ok(value),
        _ => Err(wrong_argument("*", "numbers", &value)),
    }
}

/// Returns the time of the tick, as ISO 8601.
fn now(state: &mut State) -> FilterResult {
    Ok(Inner::from(session(state)?.now.to_string()))
}

fn uuid(state: &mut State) -> FilterResult {
    let session = session(state)?;
    let high = (session.random() & !0xf000) | 0x4000;
    let low = (session.random() & !(0b11 << 62)) | (0b10 << 62);
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
    let (d, e) = (low >> 48, low & 0xffff_ffff_ffff);
    Ok(Inner::from(format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")))
}
