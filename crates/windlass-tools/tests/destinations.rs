//! Servers that fail: calls to them are refused for a while, and their retries are bounded.

use crate::support;

use windlass_core::{ProcessLimits, TaskOutcome};
use windlass_runtime::{Tool, ToolCall};
use windlass_tools::{Destinations, Endpoint, EndpointTool, HttpOptions, HttpTool};
use windlass_value::Duration;

use support::{call, class, error, options, service};

fn tool(max_failures: u64, pause: Duration, retries: u64) -> (HttpTool, Destinations) {
    let destinations = Destinations::from_limits(&ProcessLimits {
        max_destination_failures: max_failures,
        destination_pause: pause,
        max_destination_retries_per_minute: retries,
        ..ProcessLimits::default()
    });
    (HttpTool::new(HttpOptions { destinations: destinations.clone(), ..options() }), destinations)
}

async fn attempt(tool: &impl Tool, uri: &str, attempt: u32) -> TaskOutcome {
    tool.call(ToolCall { attempt, ..call(&format!(r#"{{"uri": "{uri}"}}"#)) }).await
}

const LONG: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn a_server_that_fails_is_left_alone_and_tried_again() {
    let service = service();
    let (tool, destinations) = tool(3, LONG, 0);
    for _ in 0..3 {
        assert_eq!(class(&attempt(&tool, &service.url("/status/503"), 1).await), ("503", "http", true));
    }
    // Other tools of the process share what is known, and other paths are the same server.
    let endpoint = Endpoint { url: service.url("/any"), method: "POST".into(), headers: Vec::new(), timeout: None };
    let endpoint = EndpointTool::new(endpoint, tool.with_trusted([service.url("/any").as_str()]));
    for refused in [attempt(&tool, &service.url("/any"), 1).await, endpoint.call(call("{}")).await] {
        // It fails like a connection that could not be made: nothing was sent, and it may be retried.
        assert_eq!(class(&refused), ("connection", "connection", false));
        let error = error(&refused);
        assert!(error.message.contains("paused after 3 failures in a row"), "{}", error.message);
        assert!(error.hint.as_ref().is_some_and(|hint| hint.contains("destination_pause")), "{error:?}");
    }
    assert_eq!((service.requests(), destinations.paused(), destinations.refused().paused), (3, 1, 2));
}

#[tokio::test]
async fn a_server_that_answers_again_is_called_again() {
    let service = service();
    let (tool, destinations) = tool(2, Duration::ZERO, 0);
    for status in [502, 504, 503] {
        // The pause is over at once, so the third call tries the server.
        attempt(&tool, &service.url(&format!("/status/{status}")), 1).await;
    }
    assert_eq!((service.requests(), destinations.paused()), (3, 1));
    // An error of the service itself is an answer.
    assert_eq!(class(&attempt(&tool, &service.url("/status/500"), 1).await).0, "500");
    assert_eq!((service.requests(), destinations.paused()), (4, 0));
}

#[tokio::test]
async fn broken_connections_count_and_addresses_that_are_not_allowed_do_not() {
    let closed = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap() };
    let (tool, destinations) = tool(2, LONG, 0);
    for _ in 0..2 {
        let outcome = attempt(&tool, &format!("http://{closed}/"), 1).await;
        assert!(!error(&outcome).message.contains("not sent"), "{outcome:?}");
    }
    let outcome = attempt(&tool, &format!("http://{closed}/"), 1).await;
    assert!(error(&outcome).message.contains("not sent"), "{outcome:?}");
    assert_eq!(destinations.paused(), 1);
    let public = HttpOptions { outbound: windlass_tools::Outbound::default(), ..options() };
    let (_, destinations) = self::tool(1, LONG, 0);
    let tool = HttpTool::new(HttpOptions { destinations: destinations.clone(), ..public });
    assert_eq!(class(&attempt(&tool, "http://10.0.0.1/", 1).await).0, "BlockedAddress");
    assert_eq!(destinations.paused(), 0);
}

#[tokio::test]
async fn retries_are_bounded_and_first_attempts_are_not() {
    let service = service();
    let (tool, destinations) = tool(0, LONG, 2);
    let failing = service.url("/status/503");
    for _ in 0..2 {
        assert_eq!(class(&attempt(&tool, &failing, 2).await).0, "503");
    }
    let refused = attempt(&tool, &failing, 3).await;
    assert_eq!(class(&refused), ("connection", "connection", false));
    assert!(error(&refused).message.contains("more than 2 retries per minute"), "{refused:?}");
    assert_eq!(class(&attempt(&tool, &failing, 1).await).0, "503");
    assert_eq!((service.requests(), destinations.refused().retries), (3, 1));
}
