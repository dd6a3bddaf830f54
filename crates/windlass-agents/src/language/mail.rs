//! Messages between agents and their coordinator.

use windlass_value::{EvalError, Value};

use super::CompiledFunction;
use super::config::Config;
use super::prompt::{Sections, flow_context};
use super::reader::{ScopeReader, status_name};
use super::reply::reply_calls;
use super::stop::{CONTINUES, ReplyEnd, may_continue, reply_stop};
use super::tool_calls::tool_answer;

/// Kinds of messages; any other kind is treated as the first.
const MESSAGE_KINDS: [&str; 3] = ["info", "context_update", "cancel"];

/// Builds the message that the current call sends.
pub(super) fn outgoing_message(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let (call, _) = reader.item()?;
        let arguments = reader.part(&call, "arguments")?;
        let text = reader.text(&arguments, "text")?;
        let kind = reader.text(&arguments, "kind")?;
        let kind = MESSAGE_KINDS.iter().find(|known| **known == &*kind).unwrap_or(&MESSAGE_KINDS[0]);
        Ok(Value::object([("text", Value::Str(text)), ("kind", Value::from(*kind))]))
    }))
}

/// Returns whether a message was addressed to a step that only wraps others.
pub(super) fn addresses_a_wrapper(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let wraps = reader.task_result()?.get("wraps").and_then(Value::as_bool);
        Ok(Value::Bool(wraps == Some(true)))
    }))
}

/// Builds the answer to a sent message from its delivery result, which is the previous task's result or a kept
/// variable.
pub(super) fn delivery_answer(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let kept = config.optional_text("variable")?;
    Ok(Box::new(move |reader| {
        let given = match &kept {
            Some(kept) => reader.own_variable(kept)?,
            None => reader.local("_prev")?,
        };
        let text = |key: &str| given.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("status") == "queued" {
            return Ok(tool_answer(format!("queued: {}", text("id")), false));
        }
        let mut answer = format!("dropped: {}", text("reason"));
        if !text("message").is_empty() {
            answer.push_str(&format!(": {}", text("message")));
        }
        let known = given.get("known").and_then(Value::as_list).unwrap_or_default();
        if !known.is_empty() {
            let known: Vec<&str> = known.iter().filter_map(Value::as_str).collect();
            answer.push_str(&format!("; known recipients: {}", known.join(", ")));
        }
        Ok(tool_answer(answer, true))
    }))
}

/// Converts received messages to messages of the conversation.
pub(super) fn incoming_messages(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let mail = reader.task_result()?;
        let mut messages = Vec::new();
        for letter in reader.list(&mail)? {
            let letter = reader.load(&letter)?;
            let text = message_text(reader, &letter)?;
            messages.push(Value::object([("role", Value::from("user")), ("content", Value::from(text))]));
        }
        Ok(Value::list(messages))
    }))
}

fn message_text(reader: &mut ScopeReader<'_>, letter: &Value) -> Result<String, EvalError> {
    let from = reader.text(letter, "from")?;
    if is_report(letter) {
        return report(reader, letter, &from);
    }
    let from = if from.is_empty() { "user" } else { &*from };
    let text = reader.text(letter, "text")?;
    reader.pay(text.len())?;
    Ok(format!("[{from}]: {text}"))
}

/// Returns whether a message is a node's report about itself, which has no text.
fn is_report(letter: &Value) -> bool {
    letter.get("text").is_none() && letter.get("step").is_some()
}

/// Formats a report: counters only, never the output of a step.
fn report(reader: &mut ScopeReader<'_>, letter: &Value, from: &str) -> Result<String, EvalError> {
    let (sender, what) = if from.is_empty() { ("workflow", "the workflow") } else { (from, "the step") };
    if &*reader.text(letter, "kind")? == "started" {
        return Ok(format!("[{sender}]: {what} has started"));
    }
    let mut line = format!("[{sender}]: {what} has ended as {}", status_name(&reader.text(letter, "status")?));
    for (key, name) in [("attempts", "attempts"), ("duration_ms", "milliseconds")] {
        if let Some(amount) = letter.get(key).and_then(Value::as_int) {
            line.push_str(&format!(", {name}: {amount}"));
        }
    }
    let usage = reader.part(letter, "usage")?;
    if let Some(tokens) = usage.get("tokens").and_then(Value::as_int) {
        line.push_str(&format!(", tokens: {tokens}"));
    }
    let error = reader.part(letter, "error")?;
    if !error.is_null() {
        line.push_str(&format!(", error: {}", reader.text(&error, "message")?));
    }
    Ok(line)
}

/// Returns whether mail of a kind has arrived. `cancel`: a cancellation; `some`: mail without a cancellation; `any`:
/// any mail. With `turns`, mail counts only while the agent has had fewer turns.
pub(super) fn mail_is(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let (is, turns) = (config.text("is")?, config.count("turns")?);
    if !["cancel", "some", "any"].contains(&&*is) {
        return Err(format!("unknown kind of mail `{is}`"));
    }
    Ok(Box::new(move |reader| {
        if reader.has_failed() {
            return Ok(Value::Bool(false));
        }
        let mail = reader.task_result()?;
        let mail = reader.list(&mail)?;
        let cancels = mail.iter().any(|letter| letter.get("kind").and_then(Value::as_str) == Some("cancel"));
        let is = match &*is {
            "cancel" => cancels,
            "some" => !mail.is_empty() && !cancels,
            _ => !mail.is_empty(),
        };
        Ok(Value::Bool(is && turns_left(reader, turns)?))
    }))
}

fn turns_left(reader: &mut ScopeReader<'_>, turns: Option<usize>) -> Result<bool, EvalError> {
    let Some(turns) = turns else { return Ok(true) };
    let conversation = reader.own_variable("conversation")?;
    let replies = |message: &&Value| message.get("role").and_then(Value::as_str) == Some("assistant");
    Ok(reader.list(&conversation)?.iter().filter(replies).count() < turns)
}

/// Returns whether this is the coordinator's next action: `act`, `continue`, `no_answer`, `over`, `wait`.
pub(super) fn coordinator_next_is(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let is = config.text("is")?;
    if !["act", "continue", "no_answer", "over", "wait"].contains(&&*is) {
        return Err(format!("unknown next action of a coordinator: `{is}`"));
    }
    Ok(Box::new(move |reader| Ok(Value::Bool(!reader.has_failed() && coordinator_next(reader)? == &*is))))
}

/// Returns the coordinator's next action. A reply that is no answer has the same consequences as that of a step's agent.
fn coordinator_next(reader: &mut ScopeReader<'_>) -> Result<&'static str, EvalError> {
    let calls = reply_calls(reader)?;
    let stop = reply_stop(reader, &calls)?;
    let is_answer = match stop {
        ReplyEnd::Complete => true,
        ReplyEnd::Length { .. } | ReplyEnd::Empty => !calls.is_empty(),
        ReplyEnd::Refusal | ReplyEnd::Filtered => false,
    };
    if !is_answer {
        return Ok(if may_continue(reader, stop)? { "continue" } else { "no_answer" });
    }
    let ending = reader.own_variable("ending")?.as_bool() == Some(true);
    Ok(match (calls.is_empty(), ending) {
        (false, _) => "act",
        (true, true) => "over",
        (true, false) => "wait",
    })
}

/// Returns the event data of a failed coordinator.
pub(super) fn coordinator_failure(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| Ok(Value::object([("error", reader.own_variable("failure")?)]))))
}

/// Returns whether the coordinator has had `turns` turns since its last mail. It then waits for mail, or is over if all
/// steps have ended; `ending` selects which of the two cases is asked for.
pub(super) fn turns_used_up(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let turns = config.count("turns")?.ok_or("missing `turns`")?;
    let ending = config.flag("ending")?;
    Ok(Box::new(move |reader| {
        let conversation = reader.own_variable("conversation")?;
        let has_role = |message: &Value, role: &str| message.get("role").and_then(Value::as_str) == Some(role);
        let is_mail = |message: &Value| has_role(message, "user") && message.get(CONTINUES).is_none();
        let since = conversation.as_list().unwrap_or_default().iter().rev().take_while(|message| !is_mail(message));
        let turns_had = since.filter(|message| has_role(message, "assistant")).count();
        reader.spend(turns_had)?;
        let over = reader.own_variable("ending")?.as_bool() == Some(true);
        Ok(Value::Bool(!reader.has_failed() && turns_had >= turns && over == ending))
    }))
}

/// Returns whether this or earlier mail reports that all steps have ended.
pub(super) fn steps_have_ended(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let before = reader.own_variable("ending")?.as_bool() == Some(true);
        let mail = reader.task_result()?;
        let text = |letter: &Value, key: &str| letter.get(key).and_then(Value::as_str).map(str::to_owned);
        // The report of the steps as a whole has no name.
        let ends = |letter: &Value| {
            let whole = text(letter, "from").is_none_or(|from| from.is_empty());
            is_report(letter) && whole && text(letter, "kind").as_deref() == Some("ended")
        };
        let ended = reader.list(&mail)?.iter().any(ends);
        Ok(Value::Bool(before || ended))
    }))
}

/// Builds the first message to a coordinator.
pub(super) fn coordinator_welcome(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let text = config.text("text")?;
    Ok(Box::new(move |reader| {
        let mut sections = Sections::default();
        if let Some(context) = flow_context(reader) {
            sections.plain(&context);
        }
        sections.plain(&text);
        reader.pay(sections.0.len())?;
        let message = Value::object([("role", Value::from("user")), ("content", Value::from(sections.0))]);
        Ok(Value::list(vec![message]))
    }))
}
