//! Polling triggers: a 200 fires with the response, a 202 sets the time of the next poll, any other status does
//! nothing. Requests go through the engine's tool `http`, so the outbound rules are those of tasks.

use windlass_runtime::{ToolCall, Tools};
use windlass_tools::{follow_up_input, parse_retry_after};
use windlass_value::{Duration, Timestamp, Value};

/// Minimum interval between polls.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// The result of a poll.
pub(crate) enum PollResult {
    /// Fires with the input of the run and the other trigger outputs.
    Fires {
        body: Value,
        trigger_metadata: Value,
    },
    /// Nothing yet: poll again no earlier than this, perhaps at another address.
    Later {
        not_before: Option<Timestamp>,
        at: Option<String>,
    },
    Failed(String),
}

/// Polls with the `inputs` of the definition; `at` is the address requested by a 202, `max_wait` the longest delay it
/// may request.
pub(crate) async fn send_poll(
    tools: &Tools,
    inputs: &Value,
    at: Option<&str>,
    now: Timestamp,
    max_wait: Duration,
) -> PollResult {
    if let Some(name) = find_expression(inputs) {
        return PollResult::Failed(format!(
            "`{name}` of the trigger is an expression: it must be a literal in the definition"
        ));
    }
    let Some(tool) = tools.get("http") else { return PollResult::Failed("this engine has no tool `http`".to_owned()) };
    // Credentials are sent only to the origin that the definition names.
    let poll_inputs = at.map_or_else(|| Ok(inputs.clone()), |at| follow_up_input(inputs, at));
    let poll_inputs = match poll_inputs {
        Ok(poll_inputs) => poll_inputs,
        Err(error) => {
            return PollResult::Failed(format!("`Location` of the 202 is not a valid address: {}", error.message));
        }
    };
    let mut request = poll_inputs.as_map().cloned().unwrap_or_default();
    request.insert("async", false);
    let outcome = tool.call(ToolCall::for_test(Value::map(request))).await;
    if let Some(error) = outcome.error {
        return PollResult::Failed(error.message.to_string());
    }
    let header =
        |name: &str| outcome.output.get("headers").and_then(|headers| headers.get(name)).and_then(Value::as_str);
    match outcome.output.get("statusCode").and_then(Value::as_int) {
        Some(200) => {
            let body = outcome.output.get("body").cloned().unwrap_or_default();
            let mut headers = outcome.output.get("headers").and_then(Value::as_map).cloned().unwrap_or_default();
            // Credentials do not belong into a run.
            headers.remove("set-cookie");
            let trigger_metadata = Value::object([("statusCode", Value::Int(200)), ("headers", Value::map(headers))]);
            PollResult::Fires { body, trigger_metadata }
        }
        Some(202) => {
            let wait = header("retry-after").and_then(parse_retry_after).map(|wait| wait.min(max_wait).max(MIN_WAIT));
            let not_before = wait.map(|wait| now + wait);
            PollResult::Later { not_before, at: header("location").map(str::to_owned) }
        }
        Some(code) => PollResult::Failed(format!("the response has status {code}")),
        None => PollResult::Failed("the response has no status".to_owned()),
    }
}

/// Returns the first input that contains an expression: there is no run yet in which it could be evaluated.
fn find_expression(inputs: &Value) -> Option<String> {
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
    use windlass_value::{parse_json, to_json};

    use super::*;

    /// Responds by the last segment of the address; `/echo` returns the request.
    fn tools() -> Tools {
        Tools::new().with_fn("http", |call| async move {
            let uri = call.input.get("uri").and_then(Value::as_str).unwrap_or_default().to_owned();
            let reply = match uri.rsplit('/').next() {
                Some("down") => return TaskOutcome::failure(ErrorInfo::new("503", "http", "not now")),
                Some("large") => {
                    return TaskOutcome::failure(ErrorInfo::new("ReplyTooLarge", "limit", "more than 16 MiB"));
                }
                Some("news") => r#"{"statusCode": 200, "headers": {"set-cookie": "a=b", "etag": "7"}, "body": [1]}"#,
                Some("busy") => r#"{"statusCode": 202, "headers": {"retry-after": "30", "location": "/there"}}"#,
                Some("hasty") => r#"{"statusCode": 202, "headers": {"retry-after": "0"}}"#,
                Some("never") => r#"{"statusCode": 202, "headers": {"retry-after": "4000000000"}}"#,
                Some("past") => r#"{"statusCode": 202, "headers": {"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}}"#,
                Some("odd") => r#"{"statusCode": 202, "headers": {"retry-after": "soon"}}"#,
                Some("none") => r#"{"statusCode": 204}"#,
                _ => {
                    return TaskOutcome::success(Value::object([
                        ("statusCode", Value::Int(200)),
                        ("body", call.input),
                    ]));
                }
            };
            TaskOutcome::success(parse_json(reply).expect("JSON"))
        })
    }

    async fn poll_with(inputs: &str, at: Option<&str>) -> PollResult {
        send_poll(
            &tools(),
            &parse_json(inputs).expect("JSON"),
            at,
            Timestamp(5_000_000),
            Duration::from_secs(7 * 86_400),
        )
        .await
    }

    async fn poll_path(name: &str) -> PollResult {
        poll_with(&format!(r#"{{"uri": "http://x/{name}"}}"#), None).await
    }

    #[tokio::test]
    async fn only_a_200_fires() {
        match poll_path("news").await {
            PollResult::Fires { body, trigger_metadata } => {
                assert_eq!(to_json(&body), "[1]");
                assert_eq!(to_json(&trigger_metadata), r#"{"statusCode":200,"headers":{"etag":"7"}}"#);
            }
            _ => panic!("a 200 fires"),
        }
        for (name, why) in [("none", "204"), ("down", "not now"), ("large", "16 MiB")] {
            assert!(matches!(poll_path(name).await, PollResult::Failed(message) if message.contains(why)), "{name}");
        }
        let with_expression = poll_with(r#"{"uri": "http://x/", "headers": {"k": "@parameters('k')"}}"#, None).await;
        assert!(matches!(with_expression, PollResult::Failed(why) if why.contains("`headers`")));
    }

    #[tokio::test]
    async fn a_202_sets_time_and_address_of_the_next_poll() {
        let week = 7 * 86_400;
        for (name, seconds, location) in [
            ("busy", Some(30), Some("/there")),
            ("hasty", Some(1), None),
            ("never", Some(week), None),
            ("past", Some(1), None),
            ("odd", None, None),
        ] {
            match poll_path(name).await {
                PollResult::Later { not_before, at } => {
                    let expected = seconds.map(|seconds: i64| Timestamp(5_000_000 + seconds * 1_000_000));
                    assert_eq!((not_before, at.as_deref()), (expected, location), "{name}");
                }
                _ => panic!("{name}: a 202 is for later"),
            }
        }
    }

    /// Credentials for one server are not sent to another.
    #[tokio::test]
    async fn credentials_are_not_sent_to_another_origin() {
        let inputs = r#"{"uri": "http://x/a/b?c=1", "method": "POST", "body": {"n": 1},
            "headers": {"Authorization": "Bearer s", "Accept": "text/plain", "Content-Type": "application/json"},
            "authentication": {"type": "Basic", "username": "u", "password": "p"}}"#;
        for (at, uri, proves) in [
            ("echo", "http://x/a/echo", true),
            ("/echo", "http://x/echo", true),
            ("http://x:80/echo", "http://x:80/echo", true),
            ("http://y/echo", "http://y/echo", false),
            ("https://x/echo", "https://x/echo", false),
        ] {
            let PollResult::Fires { body, .. } = poll_with(inputs, Some(at)).await else { panic!("{at}: it answers") };
            let text =
                |path: &[&str]| path.iter().try_fold(&body, |value, name| value.get(name)).and_then(Value::as_str);
            assert_eq!((text(&["uri"]), text(&["method"])), (Some(uri), Some("GET")), "{at}");
            assert_eq!(text(&["headers", "Accept"]), Some("text/plain"), "{at}");
            let has_credentials = [text(&["headers", "Authorization"]).is_some(), body.get("authentication").is_some()];
            assert_eq!(has_credentials, [proves, proves], "{at}: {}", to_json(&body));
            assert!(body.get("body").is_none() && text(&["headers", "Content-Type"]).is_none(), "{at}");
        }
        assert!(
            matches!(poll_with(inputs, Some("http://")).await, PollResult::Failed(why) if why.contains("`Location`"))
        );
    }
}
