//! What agents do that people want to see while it happens: what is said, judged, refused and lost.

use windlass_core::Event;
use windlass_value::Value;

use crate::text;

/// Letters of what is said.
const SAID_MAX: usize = 160;

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
        "loop.judged" => Some(match field("done").and_then(Value::as_bool) {
            Some(done) => {
                let why = field("verdict").and_then(|verdict| verdict.get("result")?.get("reason").cloned());
                let why = why.map(|why| format!(": {}", text::short(&why, SAID_MAX))).unwrap_or_default();
                format!("{} is judged {}{why}", event.path, if done { "done" } else { "not done" })
            }
            None => format!("{}: the judge gave no verdict", event.path),
        }),
        "agent.permission" if word("decision") != "allowed" => {
            Some(format!("{}: {} is {}", event.path, word("tool"), word("decision")))
        }
        "agent.warning" => Some(format!("{}: {}", event.path, word("message"))),
        _ => None,
    }
}
