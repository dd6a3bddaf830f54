//! Filters, functions and methods that are ours: those of the engine that would take the clock, make a value without
//! bound or change a value's kind in silence are replaced.

use std::sync::Arc;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, State, Value as Inner};
use windlass_value::{EvalError, EvalErrorKind, Value, parse_json, to_json, to_json_pretty};

use super::object::{complaint, describe, enter, is_ours, leave, text_bytes};
use super::path::{Step, missing};
use super::session::{Session, carry};
use super::truth::inner_is_true;
use crate::wdl::functions::encoding;

type Made = Result<Inner, Error>;

pub(super) fn add(env: &mut Environment<'static>) {
    env.add_filter("int", int);
    env.add_filter("float", float);
    env.add_filter("bool", |value: Inner| inner_is_true(&value));
    env.add_filter("tojson", tojson);
    env.add_filter("fromjson", fromjson);
    env.add_filter("b64encode", b64encode);
    env.add_filter("b64decode", b64decode);
    env.add_filter("urlencode", urlencode);
    env.add_filter("replace", replace);
    env.add_filter("join", join);
    env.add_filter("keys", keys);
    env.add_filter("values", values);
    env.add_filter("get", get);
    env.add_filter("present", present);
    env.add_filter("len", minijinja::filters::length);
    env.add_filter("safe", |value: Inner| value);
    env.add_filter("__truth", |value: Inner| inner_is_true(&value));
    env.add_filter("__null", |value: Inner| if value.is_undefined() { Inner::from(()) } else { value });
    env.add_filter("__need", need);
    env.add_filter("__attr", attribute);
    env.add_filter("__size", size);
    env.add_filter("__cost", cost);
    env.add_filter("__walk", walk);
    env.add_filter("__weigh", weigh);
    env.add_filter("__number", number);
    env.add_filter("__factor", factor);
    env.add_function("now", now);
    env.add_function("uuid", uuid);
    add_methods(env);
    super::lists::add(env);
}

fn add_methods(env: &mut Environment<'static>) {
    env.add_filter("__m_get", get);
    env.add_filter("__m_keys", keys);
    env.add_filter("__m_values", values);
    env.add_filter("__m_items", items);
    env.add_filter("__m_lower", |text: Inner| on_text("lower", &text, |text| text.to_lowercase().into()));
    env.add_filter("__m_upper", |text: Inner| on_text("upper", &text, |text| text.to_uppercase().into()));
    env.add_filter("__m_title", |state: &mut State, text: Inner| state.apply_filter("title", &[text]));
    env.add_filter("__m_capitalize", |state: &mut State, text: Inner| state.apply_filter("capitalize", &[text]));
    env.add_filter("__m_strip", |text: Inner, marks: Option<Arc<str>>| strip("strip", &text, marks, true, true));
    env.add_filter("__m_lstrip", |text: Inner, marks: Option<Arc<str>>| strip("lstrip", &text, marks, true, false));
    env.add_filter("__m_rstrip", |text: Inner, marks: Option<Arc<str>>| strip("rstrip", &text, marks, false, true));
    env.add_filter("__m_startswith", |text: Inner, part: Arc<str>| {
        on_text("startswith", &text, |text| text.starts_with(&*part).into())
    });
    env.add_filter("__m_endswith", |text: Inner, part: Arc<str>| {
        on_text("endswith", &text, |text| text.ends_with(&*part).into())
    });
    env.add_filter("__m_count", |text: Inner, part: Arc<str>| {
        on_text("count", &text, |text| text.matches(&*part).count().into())
    });
    env.add_filter("__m_find", |text: Inner, part: Arc<str>| {
        on_text("find", &text, |text| {
            text.find(&*part).map_or(Inner::from(-1), |at| Inner::from(text[..at].chars().count()))
        })
    });
    env.add_filter("__m_isdigit", |text: Inner| {
        on_text("isdigit", &text, |text| (!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())).into())
    });
    env.add_filter("__m_splitlines", |text: Inner| {
        on_text("splitlines", &text, |text| text.lines().map(Inner::from).collect())
    });
    env.add_filter("__m_split", |state: &mut State, text: Inner, separator: Option<Inner>, max_splits: Option<i64>| {
        if text.as_str().is_none() {
            return Err(wrong("split", "a text", &text));
        }
        let max_splits = max_splits.map_or(Inner::from(()), Inner::from);
        state.apply_filter("split", &[text, separator.unwrap_or_else(|| Inner::from(())), max_splits])
    });
    env.add_filter("__m_replace", replace);
    env.add_filter("__m_join", |state: &mut State, separator: Inner, items: Inner| join(state, items, Some(separator)));
}

fn wrong(name: &str, wanted: &str, value: &Inner) -> Error {
    complaint(format!("`{name}` needs {wanted}, got {}", describe(value)), None)
}

fn on_text(name: &str, value: &Inner, run: impl FnOnce(&str) -> Inner) -> Made {
    value.as_str().map(run).ok_or_else(|| wrong(name, "a text", value))
}

fn strip(name: &str, value: &Inner, marks: Option<Arc<str>>, left: bool, right: bool) -> Made {
    on_text(name, value, |text| {
        let goes = |c: char| marks.as_ref().map_or(c.is_whitespace(), |marks| marks.contains(c));
        let text = if left { text.trim_start_matches(goes) } else { text };
        Inner::from(if right { text.trim_end_matches(goes) } else { text })
    })
}

fn session(state: &State) -> Result<Arc<Session>, Error> {
    Session::of(state).ok_or_else(|| complaint("this is no place for it", None))
}

/// A whole number: of a text by its digits, of a float without its fraction.
fn int(value: Inner, default: Option<Inner>) -> Made {
    let text = value.as_str().map(str::trim);
    let found = match (value.kind(), text) {
        (ValueKind::Bool, _) => Some(Inner::from(i64::from(value.is_true()))),
        (ValueKind::Number, _) if value.is_integer() => Some(value.clone()),
        (ValueKind::Number, _) => f64::try_from(value.clone()).ok().and_then(truncated),
        (_, Some(text)) => {
            let digits = text.strip_prefix('+').unwrap_or(text).replace('_', "");
            let float = || digits.parse::<f64>().ok().and_then(truncated);
            digits.parse::<i128>().ok().map(whole).or_else(float)
        }
        _ => None,
    };
    match (found, default) {
        (Some(number), _) => Ok(number),
        (None, Some(default)) => Ok(default),
        (None, None) => {
            let hint = "`int(0)` gives 0 for what is no number";
            Err(complaint(format!("`int` needs a number, got {}", describe(&value)), Some(hint)))
        }
    }
}

fn whole(number: i128) -> Inner {
    i64::try_from(number).map_or_else(|_| Inner::from(number), Inner::from)
}

fn truncated(number: f64) -> Option<Inner> {
    (number.is_finite() && number.abs() < 1e37).then(|| whole(number.trunc() as i128))
}

fn float(value: Inner, default: Option<Inner>) -> Made {
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
            let hint = "`float(0)` gives 0 for what is no number";
            Err(complaint(format!("`float` needs a number, got {}", describe(&value)), Some(hint)))
        }
    }
}

/// JSON without blanks, keys in their order; with `indent` over several lines.
fn tojson(state: &mut State, value: Inner, indent: Option<Inner>, kwargs: Kwargs) -> Made {
    let session = session(state)?;
    let named: Option<Inner> = kwargs.get("indent")?;
    kwargs.assert_all_used()?;
    let value = leave(&value, &session).map_err(carry)?;
    let value = loaded(&value, &session).map_err(carry)?;
    session.room_for(value.size_up_to(usize::MAX / 2)).map_err(carry)?;
    let pretty = indent.or(named).is_some_and(|indent| !indent.is_none() && !indent.is_undefined());
    Ok(Inner::from(if pretty { to_json_pretty(&value) } else { to_json(&value) }))
}

/// The value with everything inside at hand.
fn loaded(value: &Value, session: &Session) -> Result<Value, EvalError> {
    if value.stored_bytes() == 0 && !matches!(value, Value::Stored(_)) {
        return Ok(value.clone());
    }
    match value {
        Value::Stored(stored) => loaded(&session.stored(stored)?, session),
        Value::List(items) => {
            let mut all = Ok(Vec::with_capacity(items.len()));
            for item in items.iter() {
                session.paid(1)?;
                // All that miss are asked for at once.
                match (loaded(item, session), &mut all) {
                    (Ok(item), Ok(list)) => list.push(item),
                    (Err(error), _) => all = Err(error),
                    (Ok(_), Err(_)) => {}
                }
            }
            all.map(Value::list)
        }
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| Ok((key.clone(), loaded(value, session)?)));
            Ok(Value::object(entries.collect::<Result<Vec<_>, EvalError>>()?))
        }
        other => Ok(other.clone()),
    }
}

fn fromjson(state: &mut State, text: Inner) -> Made {
    let session = session(state)?;
    let Some(json) = text.as_str() else { return Err(wrong("fromjson", "a text", &text)) };
    session.paid(json.len() as u64 / 32).map_err(carry)?;
    match parse_json(json) {
        Ok(value) => Ok(enter(&value, &session)),
        Err(error) => Err(complaint(
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

fn b64encode(state: &mut State, text: Inner) -> Made {
    let session = session(state)?;
    let bytes = text.to_string();
    session.room_for(bytes.len() / 3 * 4).map_err(carry)?;
    Ok(Inner::from(encoding::to_base64(bytes.as_bytes())))
}

fn b64decode(text: Inner) -> Made {
    let bytes = text.as_str().and_then(encoding::decode);
    let decoded = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.map(Inner::from).ok_or_else(|| wrong("b64decode", "base64 of a UTF-8 text", &text))
}

/// Percent-encoding of everything but letters, digits and `-._~/`, as Jinja does.
fn urlencode(state: &mut State, value: Inner) -> Made {
    let session = session(state)?;
    if value.kind() == ValueKind::Map {
        let mut parts = Vec::new();
        for key in value.try_iter()?.checked() {
            let key = key?;
            let item = value.get_item(&key)?;
            parts.push(format!("{}={}", percent(&key.to_string(), ""), percent(&item.to_string(), "")));
        }
        return Ok(Inner::from(parts.join("&")));
    }
    let text = value.to_string();
    session.room_for(text.len() * 3).map_err(carry)?;
    Ok(Inner::from(percent(&text, "/")))
}

fn percent(text: &str, kept: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if byte.is_ascii_alphanumeric() || "-._~".contains(c) || kept.contains(c) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn replace(state: &mut State, value: Inner, from: Inner, to: Inner) -> Made {
    let (text, from, to) = (value.to_string(), from.to_string(), to.to_string());
    let found = if from.is_empty() { text.chars().count() + 1 } else { text.matches(&from).count() };
    let length = text.len().saturating_add(found.saturating_mul(to.len()));
    session(state)?.room_for(length).map_err(carry)?;
    Ok(Inner::from(text.replace(&from, &to)))
}

fn join(state: &mut State, items: Inner, separator: Option<Inner>) -> Made {
    let session = session(state)?;
    let separator = separator.map(|separator| separator.to_string()).unwrap_or_default();
    let mut out = String::new();
    for (index, item) in items.try_iter()?.checked().enumerate() {
        let text = item?.to_string();
        session.paid(1).map_err(carry)?;
        session.room_for(out.len() + separator.len() + text.len()).map_err(carry)?;
        if index > 0 {
            out.push_str(&separator);
        }
        out.push_str(&text);
    }
    Ok(Inner::from(out))
}

fn keys(map: Inner) -> Made {
    match map.kind() {
        ValueKind::Map => Ok(map.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?.into()),
        _ => Err(wrong("keys", "an object", &map)),
    }
}

fn values(map: Inner) -> Made {
    if map.kind() != ValueKind::Map {
        return Err(wrong("values", "an object", &map));
    }
    let each = map.try_iter()?.checked().map(|key| map.get_item(&key?));
    Ok(each.collect::<Result<Vec<_>, _>>()?.into())
}

fn items(state: &mut State, map: Inner) -> Made {
    match map.kind() {
        ValueKind::Map => state.apply_filter("items", &[map]),
        _ => Err(wrong("items", "an object", &map)),
    }
}

/// An object without the properties that are null.
fn present(state: &mut State, map: Inner) -> Made {
    let session = session(state)?;
    let Value::Map(all) = leave(&map, &session).map_err(carry)? else {
        return Err(wrong("present", "an object", &map));
    };
    let kept = all.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.clone(), value.clone()));
    Ok(enter(&Value::map(kept.collect()), &session))
}

/// A property, or the default, or null.
fn get(map: Inner, key: Inner, default: Option<Inner>) -> Made {
    if map.kind() != ValueKind::Map {
        return Err(wrong("get", "an object", &map));
    }
    let found = map.get_item(&key)?;
    Ok(match found.is_undefined() {
        true => default.unwrap_or_else(|| Inner::from(())),
        false => found,
    })
}

fn need(value: Inner, name: Arc<str>) -> Made {
    match value.is_undefined() {
        false => Ok(value),
        true => {
            let error =
                EvalError::new(EvalErrorKind::Missing, format!("`{name}` gives nothing: there is no such value"));
            Err(carry(error.hint("`| default(…)` says what it is then")))
        }
    }
}

/// A property or an item that must be there.
fn attribute(state: &mut State, base: Inner, key: Inner, shown: Arc<str>) -> Made {
    let found = match base.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number => Inner::UNDEFINED,
        _ => base.get_item(&key)?,
    };
    if !found.is_undefined() {
        return Ok(found);
    }
    let step = match key.as_str() {
        Some(name) => Step::Key(name.into()),
        None => Step::Index(key.as_i64().unwrap_or_default()),
    };
    let value = leave(&base, &*session(state)?).unwrap_or_default();
    Err(carry(missing(&shown, &value, &step)))
}

/// A text or list that has just been made longer.
fn size(state: &mut State, value: Inner) -> Made {
    match value.as_str() {
        Some(text) if text.len() > SHORT => session(state)?.room_for(text.len()).map_err(carry)?,
        Some(_) => {}
        None => return cost(state, value),
    }
    Ok(value)
}

/// What is shorter is not worth counting: the engine's own fuel covers it.
const SHORT: usize = 1_000;

/// A value that is about to be gone through once by something that takes no fuel itself. Our own lists take it for every
/// item.
fn cost(state: &mut State, value: Inner) -> Made {
    let amount = match (value.as_str(), value.kind()) {
        (Some(text), _) => text.len() / 16,
        (None, ValueKind::Seq | ValueKind::Iterable) if !is_ours(&value) => value.len().unwrap_or_default(),
        _ => 0,
    };
    paid(state, value, amount)
}

/// A value that is about to be compared with another, with all that is in it.
fn weigh(state: &mut State, value: Inner) -> Made {
    let texts = text_bytes(&value) / 16;
    let value = paid(state, value, texts)?;
    cost(state, value)
}

/// A value that is about to be taken apart, letter by letter or item by item, perhaps sorted.
fn walk(state: &mut State, value: Inner) -> Made {
    let amount = match (value.as_str(), value.kind()) {
        (Some(text), _) => text.len(),
        (None, ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) => value.len().unwrap_or_default() * 4,
        _ => 0,
    };
    let amount = amount + text_bytes(&value) / 16;
    paid(state, value, amount)
}

fn paid(state: &mut State, value: Inner, amount: usize) -> Made {
    if amount > SHORT / 16 {
        session(state)?.paid(amount as u64).map_err(carry)?;
    } else if matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) {
        session(state)?.overspent().map_err(carry)?;
    }
    Ok(value)
}

fn number(value: Inner) -> Made {
    match value.kind() {
        ValueKind::Number | ValueKind::Bool => Ok(value),
        _ => Err(wrong("%", "numbers", &value)),
    }
}

fn factor(value: Inner) -> Made {
    match value.kind() {
        ValueKind::Number | ValueKind::Bool | ValueKind::String => Ok(value),
        _ => Err(wrong("*", "numbers", &value)),
    }
}

/// The time of the tick, as ISO 8601.
fn now(state: &mut State) -> Made {
    Ok(Inner::from(session(state)?.now.to_string()))
}

fn uuid(state: &mut State) -> Made {
    let session = session(state)?;
    let high = (session.random() & !0xf000) | 0x4000;
    let low = (session.random() & !(0b11 << 62)) | (0b10 << 62);
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
    let (d, e) = (low >> 48, low & 0xffff_ffff_ffff);
    Ok(Inner::from(format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")))
}
