//! A client may disconnect at any time: work started for it is counted until it ends, and is started once.

use crate::common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Poll;
use std::time::Duration;

use axum::http::Method;
use common::{HANG, HELLO, World, in_time, request};
use http_body_util::BodyExt;
use serde_json::json;
use windlass_store::{MemoryStore, RunFilter, RunStatus};

/// Holds threads until it is opened.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    inside: AtomicUsize,
}

impl Gate {
    fn pass(&self) {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let shut = self.open.lock().expect("whole");
        let waited = self.opened.wait_timeout_while(shut, HANG, |open| !*open).expect("whole");
        assert!(*waited.0, "the gate was never opened");
    }

    fn open(&self) {
        *self.open.lock().expect("whole") = true;
        self.opened.notify_all();
    }

    async fn wait_for_inside(&self, inside: usize) {
        while self.inside.load(Ordering::SeqCst) < inside {
            tokio::task::yield_now().await;
        }
    }
}

/// Polls the future once, then drops it. Returns whether it was ready.
async fn poll_once(future: impl Future) -> bool {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

/// A thread cannot be cancelled: its slot stays taken until it ends, or the number of threads would be unbounded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_computation_keeps_its_slot() {
    let world = World::new();
    let gate = Arc::new(Gate::default());
    let call = || {
        let (app, gate) = (world.app.clone(), gate.clone());
        tokio::spawn(async move {
            let called = move |_: &windlass_server::App| {
                gate.pass();
                Ok(())
            };
            app.compute(called).await.is_ok()
        })
    };
    for inside in 1..=2 {
        let gone = call();
        in_time(gate.wait_for_inside(inside)).await;
        gone.abort();
        assert!(gone.await.is_err(), "it was waiting");
    }
    let third = call();
    assert!(
        tokio::time::timeout(Duration::from_millis(100), gate.wait_for_inside(3)).await.is_err(),
        "there is room for two"
    );
    gate.open();
    assert!(in_time(third).await.expect("no panic"), "it is admitted");
}

/// Any client may request readiness; all requests together cause at most one store write per second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disconnected_readiness_requests_do_not_multiply_store_writes() {
    let store = Arc::new(MemoryStore::new());
    let world = World::on(store.clone());
    let (before, begun) = (store.syncs(), std::time::Instant::now());
    for _ in 0..20 {
        let _ = poll_once(world.send(request(Method::GET, "/readyz", None))).await;
    }
    in_time(async { while world.get("/readyz").await.status != 200 {} }).await;
    let (written, max_writes) = (store.syncs() - before, 1 + begun.elapsed().as_secs());
    assert!((1..=max_writes).contains(&written), "{written} times, not {max_writes}");
}

/// The removal of a run is published to list watchers, even if the client does not wait for the response.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_is_published_although_the_client_disconnected() {
    let world = World::new();
    world.register(HELLO).await;
    world.run("hello", "r").await;
    let (_, _, mut changes) = world.stream(request(Method::GET, "/api/v1/runs/changes", None)).await;
    let _ = poll_once(world.send(request(Method::DELETE, "/api/v1/runs/r", None))).await;
    let mut received = String::new();
    while !received.contains("event: removed") {
        let frame = in_time(changes.frame()).await.expect("more").expect("a frame");
        received.push_str(std::str::from_utf8(&frame.into_data().expect("data")).expect("text"));
    }
    world.get("/api/v1/runs/r").await.expect_status(404);
}

/// An admitted delivery is completed: a client that disconnects after sending it may never send it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_is_completed_although_the_client_disconnected() {
    for bounds in ["", r#", "runtimeConfiguration": {"concurrency": {"runs": 2}}"#] {
        let world = World::new();
        let source = r#"{"name": "orders", "triggers": {"new": {"type": "request", "splitOn": "@triggerBody()" BOUNDS}},
            "actions": {"one": {"type": "compose", "inputs": "@triggerBody()"}}}"#;
        world.register(&source.replace("BOUNDS", bounds)).await;
        tokio::spawn(windlass_server::triggers::queue::watch_run_changes(world.app.clone()));
        let items: Vec<usize> = (0..100).collect();
        let _ = poll_once(world.send(request(Method::POST, "/hooks/orders/new", Some(json!(items))))).await;
        in_time(async {
            let ended = RunFilter { status: Some(RunStatus::Succeeded), ..RunFilter::default() };
            while world.store.runs(&ended, None, 999).expect("readable").len() < items.len() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }
}
