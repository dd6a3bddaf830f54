//! Services that reject the maximum tokens of a request: what a budget leaves may be more than the model can answer.

use windlass_agents::chat::{ChatOptions, ModelProtocol, NoTools};
use windlass_core::TaskOutcome;
use windlass_runtime::{EventPublisher, ToolCall};
use windlass_value::{Value, parse_json};

use crate::support::canned::CannedService;
use crate::support::models::{BOTH, options, turn_call, turn_with};
use crate::support::{class, error, part};

const ANSWER: &str = r#"{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}],
    "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"}"#;
const REJECTED: &str =
    r#"{"error": {"message": "max_tokens: 9000 > 8192, which is the maximum", "type": "invalid_request_error"}}"#;

fn ask(max_tokens: Option<u64>) -> String {
    let max_tokens = max_tokens.map(|max| format!(r#", "max_tokens": {max}"#)).unwrap_or_default();
    format!(r#"{{"messages": [{{"role": "user", "content": "hello"}}]{max_tokens}}}"#)
}

/// Makes a call and returns its outcome with the number of its warnings.
async fn ask_with_warnings(options: ChatOptions, max_tokens: Option<u64>) -> (TaskOutcome, usize) {
    let (publish, mut events) = EventPublisher::channel();
    let call = ToolCall { publish, ..turn_call(&ask(max_tokens)) };
    let outcome = turn_with(options, std::sync::Arc::new(NoTools), call).await;
    let mut warnings = 0;
    while events.try_recv().is_ok() {
        warnings += 1;
    }
    (outcome, warnings)
}

/// Returns the maximum tokens of each request.
fn sent(service: &CannedService) -> Vec<Option<i64>> {
    let requests = service.requests();
    let bodies = requests.iter().map(|request| parse_json(request.split_once("\r\n\r\n").unwrap().1).unwrap());
    bodies.map(|body| body.get("max_tokens").and_then(Value::as_int)).collect()
}

fn keys(service: &CannedService) -> Vec<String> {
    let key = |request: &String| {
        let keys: Vec<&str> = request.lines().filter_map(|line| line.strip_prefix("idempotency-key: ")).collect();
        keys.join(" and ")
    };
    service.requests().iter().map(key).collect()
}

#[tokio::test]
async fn a_rejected_maximum_is_lowered_once() {
    for protocol in BOTH {
        for status in [400, 422] {
            let service = CannedService::json_sequence(&[(status, REJECTED), (200, ANSWER)]).await;
            let (outcome, warnings) = ask_with_warnings(options(&service.url, protocol, false), Some(9_000)).await;
            assert_eq!(outcome.error, None, "{protocol:?} {status}");
            assert_eq!(part(&outcome, "content"), r#""hi""#);
            assert_eq!(sent(&service), [Some(9_000), Some(4_096)], "{protocol:?} {status}");
            // A service that remembers keys must not take the second request for the first.
            assert_eq!(keys(&service), ["wl-1", "wl-1-4096"]);
            assert_eq!(warnings, 1);
        }
    }
}

#[tokio::test]
async fn a_maximum_that_is_rejected_again_fails_the_call() {
    for protocol in BOTH {
        let service = CannedService::json_sequence(&[(400, REJECTED)]).await;
        let (outcome, _) = ask_with_warnings(options(&service.url, protocol, false), Some(9_000)).await;
        assert_eq!(class(&outcome), ("400", "http", true));
        assert!(error(&outcome).hint.as_deref().is_some_and(|hint| hint.contains("`reply`")), "{outcome:?}");
        assert_eq!(sent(&service), [Some(9_000), Some(4_096)]);
    }
}

/// Without a budget, with little enough, or for another reason, nothing is repeated.
#[tokio::test]
async fn other_refusals_are_not_repeated() {
    let other = r#"{"error": {"message": "temperature: too hot"}}"#;
    for (status, body, max_tokens) in [
        (400, REJECTED, Some(4_096)),
        (400, REJECTED, None),
        (400, other, Some(9_000)),
        (500, REJECTED, Some(9_000)),
        (429, REJECTED, Some(9_000)),
    ] {
        let service = CannedService::json_sequence(&[(status, body), (200, ANSWER)]).await;
        let (outcome, warnings) =
            ask_with_warnings(options(&service.url, ModelProtocol::OpenAi, false), max_tokens).await;
        assert_eq!(class(&outcome), (&*status.to_string(), "http", true), "{body} {max_tokens:?}");
        assert_eq!((service.requests().len(), warnings), (1, 0), "{status} {body} {max_tokens:?}");
    }
}
