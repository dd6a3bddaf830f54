//! A trigger that asks somebody again and again: a 200 fires with what was said, a 202 says when to ask again, anything else
//! is nothing. Requests go through the engine's tool `http`, so the rules for what may be reached are those of tasks.

use windlass_runtime::{ToolCall, Tools};
use windlass_value::{Duration, Timestamp, Value};

/// What came of asking.
pub enum Asked {
    /// With what the run begins, and what came with it.
    Fires {
        body: Value,
        beside: Value,
    },
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
        Some(200) => {
            let body = outcome.output.get("body").cloned().unwrap_or_default();
            let mut headers = outcome.output.get("headers").and_then(Value::as_map).cloned().unwrap_or_default();
            // What proves who somebody is does not belong into a run.
            headers.remove("set-cookie");
            let beside = Value::object([("statusCode", Value::Int(200)), ("headers", Value::map(headers))]);
            Asked::Fires { body, beside }
        }
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

#[cfg(test)]
mod tests {
    use windlass_core::{ErrorInfo, TaskOutcome};
    use windlass_value::parse_json;

    use super::*;

    /// Answers with what the query of the address says.
    fn tools() -> Tools {
        Tools::new().with_fn("http", |call| async move {
            let uri = call.input.get("uri").and_then(Value::as_str).unwrap_or_default().to_owned();
            match uri.strip_prefix("http://x/") {
                Some("down") => TaskOutcome::failure(ErrorInfo::new("503", "http", "not now")),
                Some(reply) => TaskOutcome::success(parse_json(reply).expect("JSON")),
                None => TaskOutcome::success(call.input),
            }
        })
    }

    async fn asked(inputs: &str, at: Option<&str>) -> Asked {
        ask(&tools(), &parse_json(inputs).expect("JSON"), at, Timestamp(5_000_000)).await
    }

    #[tokio::test]
    async fn only_a_200_fires() {
        let answer = |reply: &str| format!(r#"{{"uri": {:?}}}"#, format!("http://x/{reply}"));
        let headers = r#"{"set-cookie": "a=b", "etag": "7"}"#;
        match asked(&answer(&format!(r#"{{"statusCode": 200, "headers": {headers}, "body": [1]}}"#)), None).await {
            Asked::Fires { body, beside } => {
                assert_eq!(body, parse_json("[1]").expect("JSON"));
                assert_eq!(beside, parse_json(r#"{"statusCode": 200, "headers": {"etag": "7"}}"#).expect("JSON"));
            }
            _ => panic!("a 200 fires"),
        }
        let later = r#"{"statusCode": 202, "headers": {"retry-after": "30", "location": "http://x/there"}}"#;
        match asked(&answer(later), None).await {
            Asked::Later { not_before, at } => {
                assert_eq!((not_before, at.as_deref()), (Some(Timestamp(35_000_000)), Some("http://x/there")));
            }
            _ => panic!("a 202 is for later"),
        }
        assert!(
            matches!(asked(&answer(r#"{"statusCode": 204}"#), None).await, Asked::Failed(why) if why.contains("204"))
        );
        assert!(matches!(asked(&answer("down"), None).await, Asked::Failed(why) if why == "not now"));
        let moved = asked(&answer("down"), Some(r#"http://x/{"statusCode": 200, "body": 7}"#)).await;
        assert!(matches!(moved, Asked::Fires { body: Value::Int(7), .. }));
        let computed = asked(r#"{"uri": "http://x/", "headers": {"k": "@parameters('k')"}}"#, None).await;
        assert!(matches!(computed, Asked::Failed(why) if why.contains("`headers`")));
    }
}
