//! The real program as a server, with clients on the same machine: both share its cores.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use windlass_value::{Value, parse_json, to_json};

use crate::disk::{self, BenchFolder};
use crate::http::HttpConnection;

pub(crate) const CONNECTIONS: usize = 64;
const TARGET_RATE: f64 = 5_000.0;

/// A workflow with one computing step: the start is measured.
pub(crate) const TINY: &str = r#"{"actions": {"say": {"type": "compose", "inputs": "hello"}}}"#;

/// Workflows that wait for a timer, are in the middle of a loop, and wait for a slow call.
const ACTIVE_WORKFLOWS: [(&str, &str); 3] = [
    ("waits", r#"{"actions": {"wait": {"type": "wait", "inputs": {"interval": {"count": 1, "unit": "hour"}}}}}"#),
    (
        "loops",
        r#"{"type": "until", "name": "polls", "condition": "@equals(1, 2)", "delay": "PT10S",
        "limit": {"count": 100000, "timeout": "PT6H"}, "actions": {"look": {"type": "activity", "inputs": {"activityName": "noop", "input": 1}}}}"#,
    ),
    ("calls", r#"{"actions": {"call": {"type": "http", "inputs": {"uri": "SERVICE/slow?ms=600000"}}}}"#),
];

/// A server process that is killed when it is dropped.
pub(crate) struct BenchServer {
    child: Child,
    pub address: SocketAddr,
    token: String,
    pub store: PathBuf,
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl BenchServer {
    fn start(store: &Path) -> Result<BenchServer, String> {
        let program = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("windlass")));
        let program =
            program.filter(|program| program.exists()).ok_or("the program is not built: cargo build --release")?;
        let settings = store.with_extension("toml");
        let rules = "[limits]\nmax_loop_iterations = 1000000\n[server]\nrate_per_second = 1000000\n[server.outbound]\nallow = [\"127.0.0.1\"]\n";
        std::fs::write(&settings, rules).map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.args(["serve", "--json", "--bind", "127.0.0.1:0", "--store"]).arg(store).arg("--config").arg(settings);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.map_err(|error| error.to_string())?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("the server has no stdout")?;
        BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        let startup = parse_json(&line).map_err(|_| format!("the server does not start: {line}"))?;
        let text = |name: &str| startup.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let address = text("address").trim_start_matches("http://").parse().map_err(|_| line.clone())?;
        let token = std::fs::read_to_string(store.join("token")).map_err(|error| error.to_string())?.trim().to_owned();
        Ok(BenchServer { child, address, token, store: store.to_owned() })
    }

    fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
        let (address, token, length) = (self.address, &self.token, body.len());
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n{headers}\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    pub(crate) async fn request_json(&self, method: &str, path: &str, body: &str) -> Result<Value, String> {
        let mut connection = HttpConnection::open(self.address).await.map_err(|error| error.to_string())?;
        let answer = connection.call(&self.request(method, path, "", body)).await.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        match answer.status {
            200..300 => parse_json(&text).map_err(|_| text),
            status => Err(format!("{method} {path}: {status} {text}")),
        }
    }

    pub(crate) async fn register(&self, name: &str, source: &str) -> Result<(), String> {
        let body = Value::object([("name", Value::from(name)), ("source", Value::from(source))]);
        self.request_json("POST", "/api/v1/definitions", &to_json(&body)).await.map(drop)
    }

    pub(crate) fn start_request(&self, name: &str, rest: &str) -> Vec<u8> {
        self.request("POST", "/api/v1/runs", "", &format!(r#"{{"definition":"{name}"{rest}}}"#))
    }
}

pub(crate) fn with_server(
    name: &str,
    measure: impl AsyncFnOnce(BenchServer, &BenchFolder) -> Result<Vec<String>, String>,
) -> Vec<String> {
    let folder = BenchFolder::new(name);
    crate::engine::runtime().block_on(async {
        let server = match BenchServer::start(&folder.path().join("store")) {
            Ok(server) => server,
            Err(why) => return vec![why],
        };
        measure(server, &folder).await.unwrap_or_else(|why| vec![format!("failed: {why}")])
    })
}

/// Measures starts: every connection starts a run, waits for the response and starts the next.
pub(crate) fn starts() -> Vec<String> {
    with_server("starts", async |server, folder| {
        server.register("tiny", TINY).await?;
        let server = Arc::new(server);
        hammer(&server, Duration::from_secs(2)).await?;
        let mut best = (0.0, 0.0);
        for _ in 0..3 {
            let disk = disk::sync_rate(folder.path(), Duration::from_millis(500));
            let rate = hammer(&server, Duration::from_secs(4)).await?;
            if rate > best.0 {
                best = (rate, disk);
            }
        }
        let (rate, disk) = best;
        Ok(vec![format!(
            "{rate:.0} starts/s = {:.2} x the target = {:.1} for each of {disk:.0} syncs/s of the disk",
            rate / TARGET_RATE,
            rate / disk
        )])
    })
}

/// Returns the starts per second of a new server over this duration.
pub(crate) fn start_rate(time: Duration) -> Result<f64, String> {
    let folder = BenchFolder::new("start-rate");
    crate::engine::runtime().block_on(async {
        let server = BenchServer::start(&folder.path().join("store"))?;
        server.register("tiny", TINY).await?;
        hammer(&server, Duration::from_millis(500)).await?;
        hammer(&server, time).await
    })
}

async fn hammer(server: &BenchServer, time: Duration) -> Result<f64, String> {
    hammer_at(server.address, server.start_request("tiny", ""), time).await
}

/// Returns how many requests per second are accepted over all connections.
pub(crate) async fn hammer_at(address: SocketAddr, request: Vec<u8>, time: Duration) -> Result<f64, String> {
    let request = Arc::new(request);
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let request = request.clone();
        clients.spawn(async move {
            let mut connection = HttpConnection::open(address).await.map_err(|error| error.to_string())?;
            let mut count = 0_u64;
            while begun.elapsed() < time {
                let answer = connection.call(&request).await.map_err(|error| error.to_string())?;
                if answer.status != 202 {
                    return Err(format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body)));
                }
                count += 1;
            }
            Ok(count)
        });
    }
    let counts: Result<Vec<u64>, String> = clients.join_all().await.into_iter().collect();
    Ok(counts?.into_iter().sum::<u64>() as f64 / begun.elapsed().as_secs_f64())
}

/// Measures the start latency at a fixed rate, whether or not earlier starts were answered: queueing counts.
pub(crate) fn start_latency() -> Vec<String> {
    const SECONDS: u64 = 5;
    let rate = TARGET_RATE / 2.0;
    with_server("latency", async |server, _| {
        server.register("tiny", TINY).await?;
        let server = Arc::new(server);
        hammer(&server, Duration::from_secs(2)).await?;
        let mut best: Option<(f64, Vec<f64>)> = None;
        for _ in 0..3 {
            let mut times = open_loop(&server, rate, (rate * SECONDS as f64) as u64).await?;
            times.sort_by(f64::total_cmp);
            let p99 = times[times.len() * 99 / 100];
            if best.as_ref().is_none_or(|(before, _)| p99 < *before) {
                best = Some((p99, times));
            }
        }
        let Some((p99, times)) = best else { return Ok(Vec::new()) };
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        Ok(vec![format!(
            "{rate:.0} starts/s: p50 {:.2} ms, p99 {p99:.2} ms = {:.2} x the target, longest {:.1} ms",
            at(0.5),
            p99 / 20.0,
            at(1.0)
        )])
    })
}

async fn open_loop(server: &Arc<BenchServer>, rate: f64, count: u64) -> Result<Vec<f64>, String> {
    let request = Arc::new(server.start_request("tiny", ""));
    let next = Arc::new(AtomicU64::new(0));
    let begun = Instant::now() + Duration::from_millis(50);
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (request, next, address) = (request.clone(), next.clone(), server.address);
        clients.spawn(async move {
            let mut connection = HttpConnection::open(address).await.map_err(|error| error.to_string())?;
            let mut times = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(times);
                }
                let due = begun + Duration::from_secs_f64(number as f64 / rate);
                tokio::time::sleep_until(due.into()).await;
                let answer = connection.call(&request).await.map_err(|error: std::io::Error| error.to_string())?;
                if answer.status != 202 {
                    return Err(format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body)));
                }
                // The runtime's clock is coarse: a late wake-up is the client's fault, and counts all the same.
                times.push(due.elapsed().as_secs_f64() * 1e3);
            }
        });
    }
    let times: Result<Vec<Vec<f64>>, String> = clients.join_all().await.into_iter().collect();
    Ok(times?.concat())
}

/// Kills a server with a thousand active runs and measures the start of its successor.
pub(crate) fn recovery() -> Vec<String> {
    const RUNS: usize = 1_000;
    let service = windlass_testing::test_service::TestService::start().expect("the service starts");
    let base = service.url("");
    with_server("recovery", async |server, _| {
        for (name, source) in ACTIVE_WORKFLOWS {
            server.register(name, &source.replace("SERVICE", base.trim_end_matches('/'))).await?;
        }
        let mut connection = HttpConnection::open(server.address).await.map_err(|error| error.to_string())?;
        for number in 0..RUNS {
            let request = server.start_request(ACTIVE_WORKFLOWS[number % ACTIVE_WORKFLOWS.len()].0, "");
            let answer = connection.call(&request).await.map_err(|error| error.to_string())?;
            if answer.status != 202 {
                return Err(format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body)));
            }
        }
        let store = server.store.clone();
        // The calls that were in flight when the server died.
        let calls = service.requests();
        drop(server);
        let begun = Instant::now();
        let server = BenchServer::start(&store)?;
        let listening = begun.elapsed();
        while server.request_json("GET", "/readyz", "").await.is_err() {
            if begun.elapsed() > Duration::from_secs(60) {
                return Err("the server does not become ready".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let ready = begun.elapsed();
        // Calls up to the concurrency limit; the others stay queued, as they were before.
        while service.requests() < 2 * calls && begun.elapsed() < Duration::from_secs(60) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Ok(vec![format!(
            "{RUNS} active runs: listens after {:.0} ms, ready after {:.0} ms = {:.2} of the target, the {calls} calls in flight are repeated after {:.0} ms",
            ms(listening),
            ms(ready),
            ready.as_secs_f64() / 5.0,
            ms(begun.elapsed())
        )])
    })
}
