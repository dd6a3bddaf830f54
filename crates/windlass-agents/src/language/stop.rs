//! Replies that are no answer: cut off, refused, withheld or empty.

use std::sync::Arc;

use windlass_value::{EvalError, Value};

use super::CompiledFunction;
use super::caps::cut;
use super::config::Config;
use super::reader::ScopeReader;
use super::reply::{message_of_reply, reply_calls};

/// The number of times in a row that a model is asked to continue.
const MAX_CONTINUATIONS: i64 = 3;
/// The maximum length of a refusal in an error.
const MAX_REFUSAL_BYTES: usize = 600;

/// Marks the request to continue in a conversation: it is no mail.
pub(super) const CONTINUES: &str = "continues";

/// How a reply ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReplyEnd {
    /// With an answer or calls.
    Complete,
    /// Cut off at the maximum number of tokens; with a full context there is no room to continue.
    Length { context_full: bool },
    /// The model refuses.
    Refusal,
    /// The service withholds the reply or the rest of it.
    Filtered,
    /// Neither text nor calls.
    Empty,
}

impl ReplyEnd {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ReplyEnd::Complete => "end",
            ReplyEnd::Length { .. } => "length",
            ReplyEnd::Refusal => "refusal",
            ReplyEnd::Filtered => "filtered",
            ReplyEnd::Empty => "empty",
        }
    }

    /// Returns the code of the error that fails the step.
    fn code(self) -> &'static str {
        match self {
            ReplyEnd::Complete | ReplyEnd::Length { .. } => "AnswerCutOff",
            ReplyEnd::Refusal => "AnswerRefused",
            ReplyEnd::Filtered => "AnswerFiltered",
            ReplyEnd::Empty => "AnswerEmpty",
        }
    }
}

/// Returns how the reply ended. An empty reply is recognised even if the tool that called the model does not say so.
pub(super) fn reply_stop(reader: &mut ScopeReader<'_>, calls: &[Value]) -> Result<ReplyEnd, EvalError> {
    let reply = reader.task_result()?;
    let context_full = reply.get("context_full").and_then(Value::as_bool) == Some(true);
    Ok(match &*reader.text(&reply, "stop")? {
        "length" => ReplyEnd::Length { context_full },
        "refusal" => ReplyEnd::Refusal,
        "filtered" => ReplyEnd::Filtered,
        _ if calls.is_empty() && reader.text(&reply, "content")?.trim().is_empty() => ReplyEnd::Empty,
        _ => ReplyEnd::Complete,
    })
}

/// Returns whether the model is asked to continue: after a cut reply up to three times in a row, after an empty one
/// once.
pub(super) fn may_continue(reader: &mut ScopeReader<'_>, stop: ReplyEnd) -> Result<bool, EvalError> {
    let (times, last) = continuations(reader)?;
    Ok(match stop {
        ReplyEnd::Length { context_full } => !context_full && times < MAX_CONTINUATIONS,
        ReplyEnd::Empty => &*last != "empty" && times < MAX_CONTINUATIONS,
        ReplyEnd::Complete | ReplyEnd::Refusal | ReplyEnd::Filtered => false,
    })
}

/// Returns how often in a row the model was asked to continue, and the last reason. The variable names the turn, so
/// that another reply in between ends the row.
fn continuations(reader: &mut ScopeReader<'_>) -> Result<(i64, Arc<str>), EvalError> {
    let continued = reader.own_variable("continued")?;
    let number = |key: &str| continued.get(key).and_then(Value::as_int).unwrap_or(0);
    match i64::try_from(reader.visit()).is_ok_and(|visit| number("visit") + 1 == visit) {
        true => Ok((number("times"), reader.text(&continued, "stop")?)),
        false => Ok((0, "".into())),
    }
}

/// Returns the number of continuations including this one.
pub(super) fn next_continuation(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let (times, _) = continuations(reader)?;
        let calls = reply_calls(reader)?;
        let stop = reply_stop(reader, &calls)?;
        Ok(Value::object([
            ("visit", Value::from(reader.visit())),
            ("times", Value::Int(times.saturating_add(1))),
            ("stop", Value::from(stop.name())),
        ]))
    }))
}

/// Builds the incomplete reply, if it has text, and the request to continue. The text of the next reply is appended to
/// that of a reply with `cut`.
pub(super) fn continue_reply(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let reply = message_of_reply(reader)?;
        let has_text = !reader.text(&reply, "content")?.is_empty();
        let calls = reply_calls(reader)?;
        let stop = reply_stop(reader, &calls)?;
        let request = match (stop, has_text) {
            (ReplyEnd::Length { .. }, true) => {
                "Your reply was cut off at its maximum length. Continue exactly where it stopped, and repeat nothing."
            }
            (ReplyEnd::Length { .. }, false) => {
                "Your reply reached its maximum length before it had any text. Answer now, and keep it short."
            }
            _ => "Your reply was empty. Continue with the task: call a tool, or answer with text.",
        };
        let mut messages = Vec::new();
        if let (true, Some(message)) = (has_text && stop != ReplyEnd::Empty, reply.as_map()) {
            let mut message = message.clone();
            message.insert("cut", true);
            messages.push(Value::map(message));
        }
        let request = [("role", Value::from("user")), ("content", Value::from(request)), (CONTINUES, true.into())];
        messages.push(Value::object(request));
        Ok(Value::list(messages))
    }))
}

/// Returns how the reply ended, for the output of the step.
pub(super) fn stop_name(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let calls = reply_calls(reader)?;
        Ok(Value::from(reply_stop(reader, &calls)?.name()))
    }))
}

/// Builds the error of a step whose agent gave no answer.
pub(super) fn no_answer_error(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let calls = reply_calls(reader)?;
        let stop = reply_stop(reader, &calls)?;
        let reply = reader.task_result()?;
        let content = reader.text(&reply, "content")?;
        let message = match stop {
            ReplyEnd::Length { context_full: true } => {
                "the model's answer was cut off because its context is full".to_owned()
            }
            ReplyEnd::Complete | ReplyEnd::Length { .. } => format!(
                "the model's answer was cut off at its maximum length, and {MAX_CONTINUATIONS} continuations did not \
                 complete it"
            ),
            ReplyEnd::Refusal if content.trim().is_empty() => "the model refuses to answer".to_owned(),
            ReplyEnd::Refusal => {
                format!("the model refuses to answer: {}", cut(content.trim(), MAX_REFUSAL_BYTES))
            }
            ReplyEnd::Filtered => "the model service withholds the answer: its content filter stopped it".to_owned(),
            ReplyEnd::Empty => "the model's answer is empty, also after it was asked once more".to_owned(),
        };
        Ok(Value::object([("code", Value::from(stop.code())), ("message", Value::from(message))]))
    }))
}
