//! Cancelled calls, and deltas published while an answer arrives.

use std::sync::Mutex;

use windlass_testing::test_service::TestService;
use windlass_value::{parse_json, to_json};

use super::deltas::DeltaBuffer;
use super::*;
use windlass_tools::{HttpOptions, Outbound};

const HOUR: Duration = Duration::from_secs(3_600);

fn http() -> HttpTool {
    HttpTool::new(HttpOptions { outbound: Outbound::open(), ..HttpOptions::default() })
}

fn options(base_url: String) -> ChatOptions {
    let service = ModelService { name: "test".to_owned(), base_url: Some(base_url), ..ModelService::default() };
    ChatOptions { services: vec![service], ..ChatOptions::default() }
}

const INPUT: &str = r#"{"model": "test/m", "messages": [{"role": "user", "content": "x"}]}"#;

#[tokio::test]
async fn a_cancelled_question_ends_at_once() {
    let service = TestService::from_mocks(r#"{"mocks": [{"fault": "hang"}]}"#).unwrap();
    let call = ToolCall::for_test(parse_json(INPUT).unwrap());
    let question = ChatRequest::parse(&call.input).unwrap();
    let chosen = service::choose(&options(service.model_url()), "test/m").unwrap();
    let http = http();
    let exchange =
        Exchange { http: &http, call: &call, endpoint: &chosen, request: &question, tools: &[], max_retry_after: HOUR };
    let seen = async {
        while service.model_requests() == 0 {
            tokio::task::yield_now().await;
        }
    };
    let outcome = exchange.run(Duration::from_secs(60), false, seen).await.unwrap_err().outcome(None);
    assert_eq!(&*outcome.error.unwrap().code, "Cancelled");
}

#[tokio::test]
async fn published_deltas_add_up_to_the_reply() {
    let reply_text = "a long text of many words. ".repeat(20);
    let script = format!(r#"{{"mocks": [{{"text": "{reply_text}"}}]}}"#);
    let service = TestService::from_mocks(&script).unwrap();
    let call = ToolCall::for_test(parse_json(INPUT).unwrap());
    let question = ChatRequest::parse(&call.input).unwrap();
    for (streams, max_events) in [(true, 5), (false, 1)] {
        let mut options = options(service.model_url());
        options.services[0].stream = Some(streams);
        let chosen = service::choose(&options, "test/m").unwrap();
        let http = http();
        let exchange = Exchange {
            http: &http,
            call: &call,
            endpoint: &chosen,
            request: &question,
            tools: &[],
            max_retry_after: HOUR,
        };
        let published = Mutex::new(Vec::new());
        let publish = |data: Value| published.lock().unwrap().push(data);
        let answer = exchange.ask(DeltaBuffer::new(Some(&publish), &chosen.redaction)).await.unwrap();
        let published = published.into_inner().unwrap();
        let whole: String = published.iter().filter_map(|data| data.get("delta").and_then(Value::as_str)).collect();
        assert_eq!((whole.as_str(), answer.content.as_str()), (reply_text.as_str(), reply_text.as_str()));
        assert!(published.len() <= max_events, "{} events: {}", published.len(), to_json(&published[0]));
    }
}
