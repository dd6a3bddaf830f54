//! Runs as traces, received by a small collector.
#![cfg(feature = "otel")]

use crate::common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json as Body;
use axum::routing::post;
use common::{BROKEN, World, counting, in_time};
use opentelemetry::trace::{Span as _, Tracer as _};
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use windlass_core::ServerLimits;
use windlass_server::ServerOptions;
use windlass_server::trace::{EngineSpans, RunTraces};
use windlass_store::MemoryStore;

/// Receives the exported spans.
struct Collector {
    endpoint: String,
    sent: mpsc::UnboundedReceiver<Json>,
}

impl Collector {
    async fn new() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let (sender, sent) = mpsc::unbounded_channel();
        let take = move |Body(body): Body<Json>| async move {
            sender.send(body).unwrap();
            Body(json!({}))
        };
        let routes: axum::Router = axum::Router::new().route("/v1/traces", post(take));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Collector { endpoint, sent }
    }

    /// Returns all spans of the next run, which is complete when its root span has arrived.
    async fn run(&mut self) -> Vec<Json> {
        let mut spans = Vec::new();
        loop {
            let body = in_time(self.sent.recv()).await.expect("spans");
            for resource in body["resourceSpans"].as_array().unwrap() {
                for scope in resource["scopeSpans"].as_array().unwrap() {
                    assert_eq!(scope["scope"]["name"], "windlass");
                    spans.extend(scope["spans"].as_array().unwrap().iter().cloned());
                }
            }
            if spans.iter().any(|span| attribute(span, "windlass.definition").is_some()) {
                return spans;
            }
        }
    }
}

fn attribute<'a>(span: &'a Json, name: &str) -> Option<&'a Json> {
    let found = span["attributes"].as_array()?.iter().find(|one| one["key"] == name)?;
    found["value"].as_object()?.values().next()
}

/// Returns each span's name with the names of its enclosing spans.
fn tree(spans: &[Json]) -> Vec<String> {
    let by_id: BTreeMap<&str, &Json> = spans.iter().map(|span| (span["spanId"].as_str().unwrap(), span)).collect();
    let mut paths: Vec<String> = spans
        .iter()
        .map(|span| {
            let mut names = vec![span["name"].as_str().unwrap()];
            let mut at = span;
            while let Some(above) = at["parentSpanId"].as_str().and_then(|id| by_id.get(id)) {
                names.insert(0, above["name"].as_str().unwrap());
                at = above;
            }
            names.join("/")
        })
        .collect();
    paths.sort();
    paths
}

#[tokio::test]
async fn a_run_is_a_trace_with_steps_iterations_and_tasks() {
    let mut collector = Collector::new().await;
    let world = World::new();
    let traces = RunTraces::start(&world.app, &collector.endpoint).unwrap();
    world.register(&counting("counting", 2)).await;
    world.run("counting", "one").await;
    let spans = collector.run().await;
    let expected = [
        "counting",
        "counting/count",
        "counting/count/count[0]",
        "counting/count/count[0]/add",
        "counting/count/count[1]",
        "counting/count/count[1]/add",
        "counting/n",
    ];
    assert_eq!(tree(&spans), expected);
    let root = spans.iter().find(|span| span["name"] == "counting").unwrap();
    assert_eq!(attribute(root, "windlass.run"), Some(&json!("one")));
    assert_eq!(root["status"]["code"], 1);
    let count = spans.iter().find(|span| span["name"] == "count").unwrap();
    assert!(attribute(count, "windlass.iterations").is_some() && attribute(count, "windlass.reason").is_some());
    assert!(spans.iter().all(|span| span["traceId"] == root["traceId"]));
    traces.stop(Duration::from_secs(1)).await;

    // The same run is the same trace, no matter which server exports it.
    let other = World::new();
    let again = RunTraces::start(&other.app, &collector.endpoint).unwrap();
    other.register(&counting("counting", 2)).await;
    other.run("counting", "one").await;
    let mut exported = collector.run().await;
    let ids = |spans: &[Json]| {
        let mut ids: Vec<String> = spans.iter().map(|span| span["spanId"].to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&exported), ids(&spans));
    assert_eq!(exported.pop().unwrap()["traceId"], root["traceId"]);
    again.stop(Duration::from_secs(1)).await;
}

/// Steps and tasks beyond the limit are counted, not exported.
#[tokio::test]
async fn the_spans_of_a_trace_are_limited() {
    let mut collector = Collector::new().await;
    let limits = ServerLimits { max_trace_spans: 2, ..ServerLimits::default() };
    let options = ServerOptions { limits, ..ServerOptions::default() };
    let world = World::with(Arc::new(MemoryStore::new()), options);
    let traces = RunTraces::start(&world.app, &collector.endpoint).unwrap();
    world.register(&counting("counting", 2)).await;
    world.run("counting", "one").await;
    assert_eq!(collector.run().await.len(), 3, "the run itself, and two of its steps");
    traces.stop(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn failures_have_codes_and_no_messages_and_retries_link_back() {
    let mut collector = Collector::new().await;
    let world = World::new();
    let traces = RunTraces::start(&world.app, &collector.endpoint).unwrap();
    world.register(BROKEN).await;
    world.run("broken", "bad").await;
    let spans = collector.run().await;
    let task = spans.iter().find(|span| span["name"] == "fail").unwrap();
    assert_eq!((&task["status"]["code"], attribute(task, "error.type")), (&json!(2), Some(&json!("503"))));
    assert!(!json!(spans).to_string().contains("not now"), "messages stay here");
    let root = spans.iter().find(|span| attribute(span, "windlass.run").is_some()).unwrap();

    let retried = world.post("/api/v1/runs/bad/retry", json!({ "id": "again" })).await;
    assert!(retried.status.is_success(), "{retried:?}");
    let again = collector.run().await;
    let link = again.iter().find_map(|span| span["links"].as_array()?.first()).expect("a link");
    assert_eq!((&link["traceId"], &link["spanId"]), (&root["traceId"], &root["spanId"]));
    traces.stop(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn an_unreachable_collector_delays_no_run() {
    let world = World::new();
    let traces = RunTraces::start(&world.app, "http://127.0.0.1:1").unwrap();
    world.register(&counting("counting", 1)).await;
    world.run("counting", "one").await;
    let lost = async {
        while traces.counts() != (0, 1) {
            tokio::task::yield_now().await;
        }
    };
    in_time(lost).await;
    assert!(RunTraces::start(&world.app, "no address").is_err());
    traces.stop(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn engine_spans_are_exported_when_they_end_and_before_shutdown() {
    let mut collector = Collector::new().await;
    let (tracer, spans) = EngineSpans::new();
    // Before the exporter runs, while it runs, and just before the end.
    tracer.start("request").end();
    let traces = spans.send_to(&collector.endpoint).unwrap();
    let mut names = Vec::new();
    let mut sent = async |names: &mut Vec<String>| {
        let body = in_time(collector.sent.recv()).await.expect("spans");
        let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        names.extend(spans.iter().map(|span| span["name"].as_str().unwrap().to_owned()));
    };
    sent(&mut names).await;
    tracer.start("job").end();
    tracer.start("commit").end();
    traces.stop(Duration::from_secs(5)).await;
    while names.len() < 3 {
        sent(&mut names).await;
    }
    assert_eq!(names, ["request", "job", "commit"]);
}
