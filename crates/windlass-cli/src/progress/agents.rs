//! What agents do that people want to see while it happens: what is said, judged, refused and lost.

use windlass_core::Event;
use windlass_value::Value;

use crate::text;

/// Letters of what is said.
const SAID_MAX: usize = 160;

/// Letters of what went wrong.
const REASON_MAX: usize = 300;

/// A line for an event of agents; none for those that say nothing by themselves.
pub fn line(event: &Event) -> Option<String> {
    let field = |name: &str| event.data.get(name).filter(|value| !value.is_null());
    let word = |name: &str| field(name).and_then(Value::as_str).unwrap_or_default();
    let said = |name: &str| field(name).map(|value| text::short(value, SAID_MAX)).unwrap_or_default();
    match &*event.kind {
        "coordinator.narration" => Some(format!("coordinator: {}", said("text"))),
        "coordinator.synthesis" => Some(format!("coordinator sums up: {}", said("summary"))),
        "message.sent" => Some(format!("message {} from {} to {}", word("id"), word("from"), word("to"))),
        "message.dropped" => Some(format!("message {} to {} is dropped: {}", word("id"), word("to"), word("reason"))),
        "coordinator.failed" => Some(format!("the coordinator has failed: {}", error(event))),
        "loop.judged" => {
            let verdict = field("verdict").cloned().unwrap_or_default();
            let said = |why: Option<&Value>| {
                let why = why.filter(|why| !why.is_null());
                why.map(|why| format!(": {}", text::short(why, SAID_MAX))).unwrap_or_default()
            };
            Some(match field("done").and_then(Value::as_bool) {
                Some(done) => {
                    let judged = if done { "done" } else { "not done" };
                    format!("{} is judged {judged}{}", event.path, said(verdict.get("reason")))
                }
                None => {
                    let why = verdict.get("error").and_then(|error| error.get("message"));
                    format!("{}: the judge gave no verdict{}", event.path, said(why))
                }
            })
        }
        "agent.permission" => match word("decision") {
            "allowed" => None,
            "always" => Some(format!("{} is allowed from now on", word("tool"))),
            _ => Some(format!("{}: {}", event.path, refusal(event))),
        },
        "agent.warning" => Some(format!("{}: {}", event.path, word("message"))),
        _ => None,
    }
}

/// What an event says of why something has failed.
pub fn error(event: &Event) -> String {
    let message = event.data.get("error").and_then(|error| error.get("message"));
    message.map(|message| text::short(message, REASON_MAX)).unwrap_or_default()
}

/// Why a call of a tool was refused.
pub fn refusal(event: &Event) -> String {
    let word = |name: &str| event.data.get(name).and_then(Value::as_str);
    match word("reason") {
        Some(reason) => text::cut(&text::one_line(reason), REASON_MAX),
        None => format!("the tool `{}` is refused", word("tool").unwrap_or_default()),
    }
}
