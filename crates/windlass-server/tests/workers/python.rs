//! The Python example against a listening server: work, kill -9 in the middle, hand-over, cancellation, drain.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::process::{Child, Command};
use windlass_core::{Event, Status};
use windlass_runtime::RunRequest;
use windlass_server::RunningServer;
use windlass_value::{Map, Value};

use crate::support::{Server, TOKEN, counts, ended, server_with_lease, succeeded, until};

/// Short, because the test waits for it in real time after a worker was killed. Not shorter, because a live worker
/// must send a heartbeat within it, even on a busy machine.
const LEASE: Duration = Duration::from_secs(5);

fn worker(running: &RunningServer, name: &str, pause: &str) -> Child {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/workers/worker.py");
    let mut command = Command::new("python3");
    command.arg("-B").arg(file).args(["--name", name, "--pause", pause]);
    command.args(["--server", &format!("http://{}", running.address)]);
    command.env("WINDLASS_TOKEN", TOKEN).stdin(Stdio::null()).kill_on_drop(true);
    command.spawn().expect("python3")
}

fn progressed(events: &[Event]) -> usize {
    events.iter().filter(|event| event.type_name() == "task.progress").count()
}

async fn listening() -> (Server, RunningServer) {
    let server = server_with_lease(LEASE);
    let running = windlass_server::serve(server.app.clone()).await.expect("it listens");
    (server, running)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_worker_finishes_the_job_of_a_killed_one() {
    let (server, running) = listening().await;
    let mut run = server.start("r", counts(&[2, 3])).await;
    let mut first = worker(&running, "first", "600");
    until(|| progressed(&server.events("r")) > 0).await;
    let leases = server.app.dispatcher.list();
    let held = leases.items[0].leases[0].clone();
    assert_eq!((held.lease_epoch, &*held.tool), (0, "count"));
    first.kill().await.expect("killed with -9");
    let mut second = worker(&running, "second", "0");
    let output = succeeded(&mut run).await;
    let output_field = |name: &str| output.get("step0").and_then(|step| step.get(name)).cloned();
    assert_eq!(
        (output_field("by"), output_field("counted")),
        (Some("second".into()), Some(Value::from(3u32))),
        "{output:?}"
    );
    let events = server.events("r");
    let results: Vec<Map> =
        events.iter().filter(|event| event.type_name() == "task.processed").map(Event::fields).collect();
    assert_eq!(results.len(), 2, "each task counted once");
    let progress = events.iter().filter(|event| event.type_name() == "task.progress");
    let keys = progress
        .map(|event| event.fields().get("progress").and_then(|progress_data| progress_data.get("key")).cloned());
    let mut keys: Vec<Option<Value>> = keys.collect();
    assert_eq!(keys.len(), 6, "one of the first, five of the second");
    keys.dedup();
    assert_eq!(keys.len(), 2, "the second has the key of the first: {keys:?}");
    // A graceful stop.
    let pid = second.id().expect("alive").to_string();
    Command::new("kill").args(["-TERM", &pid]).status().await.expect("kill");
    let status =
        tokio::time::timeout(Duration::from_secs(300), second.wait()).await.expect("it stops").expect("a status");
    assert!(status.success(), "{status}");
    until(|| server.app.dispatcher.list().items.iter().all(|worker| worker.name != "second")).await;
    running.stop().await.expect("stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_stops_a_worker_and_a_drain_lets_it_finish() {
    let (server, running) = listening().await;
    let mut run = server.start("c", counts(&[9])).await;
    let mut child = worker(&running, "w", "600");
    until(|| progressed(&server.events("c")) > 0).await;
    server.app.engine.request("c", "x", RunRequest::Cancel { reason: "enough".to_owned() }).expect("asked");
    assert_eq!(ended(&mut run).await.status, Status::Cancelled);
    until(|| server.app.dispatcher.list().items[0].leases.is_empty()).await;
    child.kill().await.expect("killed");

    let mut run = server.start("d", counts(&[3])).await;
    let mut child = worker(&running, "slow", "0.2");
    until(|| progressed(&server.events("d")) > 0).await;
    let (_, listed) = server.request("GET", "/workers", TOKEN, &Json::Null).await;
    let busy = listed["items"].as_array().into_iter().flatten().find(|worker| worker["name"] == json!("slow"));
    let id = busy.expect("listed")["worker"].as_str().expect("an id").to_owned();
    server.post(&format!("/workers/{id}/drain"), json!({})).await;
    let output = succeeded(&mut run).await;
    assert_eq!(output.get("step0").and_then(|step| step.get("by")), Some(&Value::from("slow")));
    let status =
        tokio::time::timeout(Duration::from_secs(300), child.wait()).await.expect("it stops").expect("a status");
    assert!(status.success(), "{status}");
    running.stop().await.expect("stopped");
}
