//! Restate on the same machine and disk, with the same requests. Its handlers run in a Node.js process, as its users
//! write them; ours are in the definition.
//!
//! `npm install --prefix FOLDER @restatedev/restate-server @restatedev/restate-sdk`, then
//! `WINDLASS_PEERS=FOLDER cargo xtask bench w`.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::Command;
use tokio::task::JoinSet;
use windlass_tools::ProcessGroup;

use crate::disk::BenchFolder;
use crate::http::HttpConnection;
use crate::served::{BenchServer, TINY, hammer_at, with_server};

/// One handler that replies immediately, and one that loops over durable effects.
const HANDLERS: &str = include_str!("restate.cjs");

/// Iterations of a single loop, the number of concurrent loops, and the iterations of each of those.
const ITERATIONS: u64 = 2_000;
const CONCURRENT_RUNS: u64 = 64;
const ITERATIONS_EACH: u64 = 100;

/// The same loop as a definition.
const LOOP: &str = r#"{"parameters": {"iterations": {"type": "int"}}, "actions": {"work": {
    "type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), parameters('iterations'))",
    "limit": {"count": 100000, "timeout": "PT1H"},
    "actions": {"effect": {"type": "activity", "inputs": {"activityName": "noop", "input": "@variables('loopIndex')"}}}}}}"#;

pub(crate) fn restate() -> Vec<String> {
    let Some(folder) = std::env::var_os("WINDLASS_PEERS").map(PathBuf::from) else {
        return vec!["no peer is installed: see CONTRIBUTING.md for the comparison with Restate".to_owned()];
    };
    with_server("peers", async |server, bench_folder| {
        let ours = measure_windlass(&server).await?;
        drop(server);
        let theirs = measure_restate(&folder, bench_folder).await?;
        let line = |what: &str, ours: f64, theirs: f64| {
            format!("{what}: {ours:.0}/s, Restate {theirs:.0}/s: {:.1} times as many", ours / theirs)
        };
        Ok(vec![
            line("durable starts over 64 connections", ours.starts, theirs.starts),
            line("durable iterations of one run", ours.iterations, theirs.iterations),
            line("durable iterations of 64 concurrent runs", ours.concurrent_iterations, theirs.concurrent_iterations),
        ])
    })
}

struct PeerRates {
    starts: f64,
    iterations: f64,
    concurrent_iterations: f64,
}

/// Builds a request that is answered when a loop of this many iterations has ended.
type LoopRequestBuilder<'a> = &'a dyn Fn(u64) -> Vec<u8>;

async fn measure_rates(
    address: SocketAddr,
    start: Vec<u8>,
    looped: LoopRequestBuilder<'_>,
) -> Result<PeerRates, String> {
    // Warms everything up before it is measured.
    hammer_at(address, start.clone(), Duration::from_secs(2)).await?;
    time_loops(address, 1, looped(100)).await?;
    let mut best = PeerRates { starts: 0.0, iterations: 0.0, concurrent_iterations: 0.0 };
    for _ in 0..3 {
        best.iterations = best.iterations.max(ITERATIONS as f64 / time_loops(address, 1, looped(ITERATIONS)).await?);
        best.concurrent_iterations = best.concurrent_iterations.max(
            (CONCURRENT_RUNS * ITERATIONS_EACH) as f64
                / time_loops(address, CONCURRENT_RUNS, looped(ITERATIONS_EACH)).await?,
        );
    }
    for _ in 0..3 {
        best.starts = best.starts.max(hammer_at(address, start.clone(), Duration::from_secs(4)).await?);
    }
    Ok(best)
}

/// Returns the seconds until all requests are answered.
async fn time_loops(address: SocketAddr, count: u64, request: Vec<u8>) -> Result<f64, String> {
    let mut clients = JoinSet::new();
    let begun = Instant::now();
    for _ in 0..count {
        let request = request.clone();
        clients.spawn(async move {
            let mut connection = HttpConnection::open(address).await.map_err(|error| error.to_string())?;
            let answer = connection.call(&request).await.map_err(|error| error.to_string())?;
            match answer.status {
                200 => Ok(()),
                status => Err(format!("{status} {}", String::from_utf8_lossy(&answer.body))),
            }
        });
    }
    let done: Result<Vec<()>, String> = clients.join_all().await.into_iter().collect();
    done.map(|_| begun.elapsed().as_secs_f64())
}

async fn measure_windlass(server: &BenchServer) -> Result<PeerRates, String> {
    server.register("tiny", TINY).await?;
    server.register("loop", LOOP).await?;
    let looped = |iterations: u64| {
        server.start_request("loop", &format!(r#","input":{{"iterations":{iterations}}},"wait_ms":60000"#))
    };
    measure_rates(server.address, server.start_request("tiny", ""), &looped).await
}

async fn measure_restate(folder: &Path, bench_folder: &BenchFolder) -> Result<PeerRates, String> {
    let [ingress, admin, node, handlers] = [free_address()?, free_address()?, free_address()?, free_address()?];
    // The processes are started in another folder.
    let directory = bench_folder.path().canonicalize().map_err(|error| error.to_string())?;
    let script = directory.join("restate.cjs");
    std::fs::write(&script, HANDLERS).map_err(|error| error.to_string())?;
    // As a group: the server's command is a script that starts the server itself.
    let started = |mut command: Command| {
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        ProcessGroup::spawn(command).map_err(|error| format!("a peer's process does not start: {error}"))
    };
    let mut node_command = Command::new("node");
    node_command.arg(&script).arg(handlers.port().to_string());
    let _handlers = started(node_command)?;
    let mut server_command = Command::new(folder.join("node_modules/.bin/restate-server"));
    server_command
        .arg("--base-dir")
        .arg(directory.join("restate"))
        .env("RESTATE_INGRESS__BIND_ADDRESS", ingress.to_string())
        .env("RESTATE_ADMIN__BIND_ADDRESS", admin.to_string())
        .env("RESTATE_BIND_ADDRESS", node.to_string())
        .env("RESTATE_DISABLE_TELEMETRY", "true")
        .env("RUST_LOG", "error");
    let _server = started(server_command)?;
    let deploy = post("/deployments", &format!(r#"{{"uri":"http://{handlers}"}}"#));
    let looped = |iterations: u64| post("/tiny/loop", &iterations.to_string());
    // Both processes need a while until they listen and know each other.
    let begun = Instant::now();
    loop {
        let tried = async {
            let answer = HttpConnection::open(admin).await?.call(&deploy).await?;
            let ready = matches!(answer.status, 200..300);
            Ok::<_, std::io::Error>(ready && HttpConnection::open(ingress).await?.call(&looped(1)).await?.status == 200)
        };
        match tokio::time::timeout(Duration::from_secs(5), tried).await {
            Ok(Ok(true)) => break,
            _ if begun.elapsed() > Duration::from_secs(60) => return Err("Restate does not start".to_owned()),
            _ => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
    measure_rates(ingress, post("/tiny/say/send", "null"), &looped).await
}

fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Returns a local address that is currently unused.
fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map_err(|error| error.to_string())
}
