//! Agent events worth showing while they happen: messages, verdicts, denied permissions and dropped messages.

use windlass_core::{Event, EventKind, PermissionDecision};
use windlass_value::Value;

use crate::text;

/// Maximum number of characters of a message to show.
const MAX_MESSAGE_CHARS: usize = 160;

/// Maximum number of characters of an error or a reason to show.
const MAX_REASON_CHARS: usize = 300;

/// Formats an agent event as a line; returns `None` for events that need no line.
pub(crate) fn line(event: &Event) -> Option<String> {
    let excerpt = |value: Option<&Value>| {
        value
            .filter(|value| !value.is_null())
            .map(|value| text::format_value(value, MAX_MESSAGE_CHARS))
            .unwrap_or_default()
    };
    match &event.kind {
        EventKind::CoordinatorNarration { text } => Some(format!("coordinator: {}", excerpt(Some(text)))),
        EventKind::CoordinatorSynthesis { summary } => {
            Some(format!("coordinator summary: {}", excerpt(summary.as_ref())))
        }
        EventKind::MessageSent { id, from, to } => Some(format!("message {id} from {from} to {to}")),
        EventKind::MessageDropped { id, to, reason, .. } => Some(format!("message {id} to {to} was dropped: {reason}")),
        EventKind::CoordinatorFailed { error } => Some(format!("the coordinator failed: {}", message_of(error))),
        EventKind::LoopJudged { done, verdict, .. } => {
            let excerpt = |why: Option<&Value>| {
                let why = why.filter(|why| !why.is_null());
                why.map(|why| format!(": {}", text::format_value(why, MAX_MESSAGE_CHARS))).unwrap_or_default()
            };
            Some(match done {
                Some(done) => {
                    let judged = if *done { "done" } else { "not done" };
                    format!("{} is judged {judged}{}", event.path, excerpt(verdict.get("reason")))
                }
                None => {
                    let why = verdict.get("error").and_then(|error| error.get("message"));
                    format!("{}: the judge gave no verdict{}", event.path, excerpt(why))
                }
            })
        }
        EventKind::AgentPermission { tool, decision, reason } => match decision {
            PermissionDecision::Allowed => None,
            PermissionDecision::Always => Some(format!("{tool} is allowed from now on")),
            _ => Some(format!("{}: {}", event.path, refusal(tool, reason.as_deref()))),
        },
        EventKind::AgentStopped { stop } => Some(format!("{}: {}", event.path, incomplete_reply(stop))),
        EventKind::AgentWarning { message } => Some(format!("{}: {message}", event.path)),
        _ => None,
    }
}

/// Describes a reply that is no complete answer.
fn incomplete_reply(stop: &str) -> String {
    match stop {
        "length" => "the model's reply was cut off at its maximum length".to_owned(),
        "refusal" => "the model refuses to answer".to_owned(),
        "filtered" => "the model service withholds the reply".to_owned(),
        "empty" => "the model's reply is empty".to_owned(),
        other => format!("the model's reply is no answer: {other}"),
    }
}

/// The message of an error.
pub(crate) fn message_of(error: &Value) -> String {
    let message = error.get("message");
    message.map(|message| text::format_value(message, MAX_REASON_CHARS)).unwrap_or_default()
}

/// Formats why a tool call was denied.
pub(crate) fn refusal(tool: &str, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => text::truncate(&text::one_line(reason), MAX_REASON_CHARS),
        None => format!("permission denied: tool `{tool}`"),
    }
}
