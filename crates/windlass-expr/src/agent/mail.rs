//! Letters between agents and their coordinator.

use windlass_value::{EvalError, Value, to_json};

use super::Made;
use super::acts::told;
use super::config::Config;
use super::prompt::{Sections, flow_context};
use super::read::Reader;
use super::reply::replied_calls;

/// Kinds of letters; any other is one of the first.
const KINDS: [&str; 3] = ["info", "context_update", "cancel"];

/// The letter that the call at hand asks to send.
pub(super) fn letter(_: &Config<'_>) -> Result<Made, String> {
    Ok(Box::new(|reader| {
        let (call, _) = reader.item()?;
        let arguments = reader.part(&call, "arguments")?;
        let text = reader.text(&arguments, "text")?;
        let kind = reader.text(&arguments, "kind")?;
        let kind = KINDS.iter().find(|known| **known == &*kind).unwrap_or(&KINDS[0]);
        Ok(Value::object([("text", Value::Str(text)), ("kind", Value::from(*kind))]))
    }))
}

/// What the model is told of a letter that it has sent.
pub(super) fn posted(_: &Config<'_>) -> Result<Made, String> {
    Ok(Box::new(|reader| {
        let given = reader.local("_prev")?;
        let text = |key: &str| given.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("status") == "queued" {
            return Ok(told(format!("queued: {}", text("id")), false));
        }
        let known = given.get("known").filter(|known| known.as_list().is_some_and(|known| !known.is_empty()));
        let known = known.map(|known| format!("; there are: {}", to_json(known))).unwrap_or_default();
        Ok(told(format!("dropped: {}{known}", text("reason")), true))
    }))
}

/// Letters that have come, as messages of the conversation.
pub(super) fn letters(_: &Config<'_>) -> Result<Made, String> {
    Ok(Box::new(|reader| {
        let mail = reader.given()?;
        let mut messages = Vec::new();
        for letter in reader.list(&mail)? {
            let letter = reader.whole(&letter)?;
            let text = written(reader, &letter)?;
            messages.push(Value::object([("role", Value::from("user")), ("content", Value::from(text))]));
        }
        Ok(Value::list(messages))
    }))
}

fn written(reader: &mut Reader<'_>, letter: &Value) -> Result<String, EvalError> {
    let from = reader.text(letter, "from")?;
    let text = reader.text(letter, "text")?;
    if !text.is_empty() {
        reader.pay(text.len())?;
        return Ok(format!("[{from}]: {text}"));
    }
    // What nodes say of themselves has no text: all that is known of it.
    let mut facts = letter.as_map().cloned().unwrap_or_default();
    facts.remove("id");
    facts.remove("from");
    let facts = reader.json(&Value::map(facts))?;
    Ok(format!("[{from}]: {facts}"))
}

/// What kind of mail has come: `cancel`, `some`, `none`.
pub(super) fn mailed(config: &Config<'_>) -> Result<Made, String> {
    let is = config.text("is")?;
    if !["cancel", "some", "none"].contains(&&*is) {
        return Err(format!("there is no mail that is `{is}`"));
    }
    Ok(Box::new(move |reader| {
        if reader.has_failed() {
            return Ok(Value::Bool(false));
        }
        let mail = reader.given()?;
        let mail = reader.list(&mail)?;
        let cancels = mail.iter().any(|letter| letter.get("kind").and_then(Value::as_str) == Some("cancel"));
        let kind = match (mail.is_empty(), cancels) {
            (true, _) => "none",
            (_, true) => "cancel",
            _ => "some",
        };
        Ok(Value::Bool(kind == &*is))
    }))
}

/// Whether the letter at hand goes to one of these.
pub(super) fn goes_to(config: &Config<'_>) -> Result<Made, String> {
    let steps = config.texts("steps")?;
    Ok(Box::new(move |reader| {
        let (call, _) = reader.item()?;
        let arguments = reader.part(&call, "arguments")?;
        let target = reader.text(&arguments, "target_step_id")?;
        Ok(Value::Bool(steps.iter().any(|step| **step == *target)))
    }))
}

/// What the coordinator does next: `act`, `over`, `wait`.
pub(super) fn coordinated(config: &Config<'_>) -> Result<Made, String> {
    let is = config.text("is")?;
    if !["act", "over", "wait"].contains(&&*is) {
        return Err(format!("a coordinator does not `{is}`"));
    }
    Ok(Box::new(move |reader| {
        if reader.has_failed() {
            return Ok(Value::Bool(false));
        }
        let acts = !replied_calls(reader)?.is_empty();
        let ending = reader.own("ending")?.as_bool() == Some(true);
        let next = match (acts, ending) {
            (true, _) => "act",
            (false, true) => "over",
            (false, false) => "wait",
        };
        Ok(Value::Bool(next == &*is))
    }))
}

/// Whether the mail, or mail before it, says that the steps have all ended.
pub(super) fn ending(config: &Config<'_>) -> Result<Made, String> {
    let flow = config.text("flow")?;
    Ok(Box::new(move |reader| {
        let before = reader.own("ending")?.as_bool() == Some(true);
        let mail = reader.given()?;
        let ends = |letter: &Value| {
            let text = |key: &str| letter.get(key).and_then(Value::as_str);
            text("from") == Some(&*flow) && text("kind").is_some_and(|kind| kind.ends_with("ended"))
        };
        let ended = reader.list(&mail)?.iter().any(ends);
        Ok(Value::Bool(before || ended))
    }))
}

/// The first message to a coordinator.
pub(super) fn welcome(config: &Config<'_>) -> Result<Made, String> {
    let text = config.text("text")?;
    Ok(Box::new(move |reader| {
        let mut said = Sections::default();
        if let Some(context) = flow_context(reader) {
            said.plain(&context);
        }
        said.plain(&text);
        reader.pay(said.0.len())?;
        let message = Value::object([("role", Value::from("user")), ("content", Value::from(said.0))]);
        Ok(Value::list(vec![message]))
    }))
}
