//! A trigger that asks somebody again and again: a 200 fires with what was said, a 202 says when to ask again, anything else
//! is nothing. Requests go through the engine's tool `http`, so the rules for what may be reached are those of tasks.

use windlass_runtime::{ToolCall, Tools};
use windlass_value::{Duration, Timestamp, Value};

/// What came of asking.
pub enum Asked {
    /// With what the run begins.
    Fires(Value),
    /// Not yet: no earlier than this, and perhaps elsewhere.
    Later {
        not_before: Option<Timestamp>,
        at: Option<String>,
    },
    Failed(String),
}

/// `inputs` as the definition has them; `at` is where a 202 wants to be asked.
pub async fn ask(tools: &Tools, inputs: &Value, at: Option<&str>, now: Timestamp) -> Asked {
    if let Some(name) = computed(inputs) {
        return Asked::Failed(format!("`{name}` of the trigger is computed: write it down in the definition"));
    }
    let Some(tool) = tools.get("http") else { return Asked::Failed("this engine has no tool `http`".to_owned()) };
    let mut request = inputs.as_map().cloned().unwrap_or_default();
    request.insert("async", false);
    if let Some(at) = at {
        request.insert("uri", at);
        request.insert("method", "GET");
    }
    let outcome = tool.call(ToolCall::alone(Value::map(request))).await;
    if let Some(error) = outcome.error {
        return Asked::Failed(error.message.to_string());
    }
    let header =
        |name: &str| outcome.output.get("headers").and_then(|headers| headers.get(name)).and_then(Value::as_str);
    match outcome.output.get("statusCode").and_then(Value::as_int) {
        Some(200) => Asked::Fires(outcome.output.get("body").cloned().unwrap_or_default()),
        Some(202) => {
            let seconds = header("retry-after").and_then(|text| text.trim().parse::<u64>().ok());
            let not_before = seconds.map(|seconds| now + Duration::from_secs(seconds.min(7 * 86_400)));
            Asked::Later { not_before, at: header("location").map(str::to_owned) }
        }
        Some(code) => Asked::Failed(format!("the answer was {code}")),
        None => Asked::Failed("the answer had no status".to_owned()),
    }
}

/// The first part of the inputs that is an expression: there is no run yet that it could be computed in.
fn computed(inputs: &Value) -> Option<String> {
    fn has(value: &Value) -> bool {
        match value {
            Value::Str(text) => (text.starts_with('@') && !text.starts_with("@@")) || text.contains("@{"),
            Value::List(items) => items.iter().any(has),
            Value::Map(map) => map.values().any(has),
            _ => false,
        }
    }
    inputs.as_map()?.iter().find(|(_, value)| has(value)).map(|(name, _)| name.to_string())
}
