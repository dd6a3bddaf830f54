//! Tests that need internals of the tool: cancellation during a call.

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use windlass_value::Value;

use super::*;

fn call(uri: String) -> ToolCall {
    ToolCall::for_test(Value::object([("uri", uri)]))
}

fn inner() -> Inner {
    let options = HttpOptions { outbound: Outbound::open(), ..HttpOptions::default() };
    let tool = HttpTool::new(options);
    Arc::try_unwrap(tool.0).ok().unwrap()
}

#[tokio::test]
async fn a_call_ends_when_cancelled_while_waiting_for_the_reply() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let call = call(format!("http://{}/x", listener.local_addr().unwrap()));
    let (cancel, cancelled) = oneshot::channel();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        stream.readable().await.unwrap();
        cancel.send(()).unwrap();
        stream
    });
    let inner = inner();
    let request = HttpRequest::from_call(&call, &inner.defaults);
    let error = inner.run(request, async { cancelled.await.unwrap() }).await.outcome.error.unwrap();
    assert_eq!((&*error.code, &*error.kind, error.replied), ("Cancelled", "cancelled", false));
    drop(server.await.unwrap());
}

#[tokio::test]
async fn a_call_cancelled_before_it_starts_sends_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let call = call(format!("http://{}/x", listener.local_addr().unwrap()));
    let inner = inner();
    let request = HttpRequest::from_call(&call, &inner.defaults);
    let outcome = inner.run(request, std::future::ready(())).await.outcome;
    assert_eq!(&*outcome.error.unwrap().code, "Cancelled");
    let accepted = tokio::time::timeout(std::time::Duration::from_millis(20), listener.accept()).await;
    assert!(accepted.is_err());
}
