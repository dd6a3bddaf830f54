//! Clients that read the events of a busy run live. They are a separate process with the lowest priority: in practice
//! they run on other machines, and their cost is not the server's.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use windlass_value::Value;

use crate::http::{HttpConnection, find};
use crate::served::{BenchServer, with_server};

const ITERATIONS: u64 = 5_000;

/// Starts when all readers listen: one instant effect per iteration.
const BUSY: &str = r#"{"actions": {
    "go": {"type": "wait", "inputs": {"signal": {"name": "go"}}},
    "busy": {"type": "until", "condition": "@greaterOrEquals(variables('loopIndex'), ITERATIONS)", "runAfter": {"go": ["Succeeded"]},
        "limit": {"count": 100000, "timeout": "PT1H"},
        "actions": {"work": {"type": "activity", "inputs": {"activityName": "noop", "input": "@variables('loopIndex')"}}}}}}"#;

/// Measures one busy run with an increasing number of readers.
pub(crate) fn readers() -> Vec<String> {
    with_server("readers", async |server, _| {
        server.register("busy", &BUSY.replace("ITERATIONS", &ITERATIONS.to_string())).await?;
        // The first run is a warm-up.
        read_while_running(&server, "first", 0).await?;
        let mut lines = Vec::new();
        for readers in [1_usize, 100, 1_000] {
            // Measured right before and after as well: the load of a shared machine keeps changing.
            let (before, _) = read_while_running(&server, &format!("before-{readers}"), 0).await?;
            let (rate, read) = read_while_running(&server, &format!("read-{readers}"), readers).await?;
            let (after, _) = read_while_running(&server, &format!("after-{readers}"), 0).await?;
            let alone = (before + after) / 2.0;
            lines.push(format!(
                "{readers} readers: {rate:.0} iterations/s = {:.2} of {alone:.0} without; {read}",
                rate / alone
            ));
        }
        Ok(lines)
    })
}

/// Returns the iterations per second and the report of the readers.
async fn read_while_running(server: &BenchServer, run: &str, readers: usize) -> Result<(f64, String), String> {
    server.request_json("POST", "/api/v1/runs", &format!(r#"{{"definition":"busy","id":"{run}"}}"#)).await?;
    let begun = Instant::now();
    let mut clients = (readers > 0).then(|| start(server, run, readers)).transpose()?;
    // The run waits until all readers listen.
    if let Some(clients) = &mut clients {
        read_report_line(clients).await?;
    }
    let go = r#"{"name":"go","data":{}}"#;
    server.request_json("POST", &format!("/api/v1/runs/{run}/signal"), go).await?;
    loop {
        let list = server.request_json("GET", &format!("/api/v1/runs?search={run}&limit=1"), "").await?;
        let item = list.get("items").and_then(Value::as_list).and_then(<[Value]>::first);
        match item.and_then(|item| item.get("status")).and_then(Value::as_str) {
            Some("succeeded") => break,
            Some("failed") => return Err(format!("{run} fails")),
            _ if begun.elapsed() > Duration::from_secs(300) => return Err(format!("{run} does not end")),
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    let ended = Instant::now();
    let read = match &mut clients {
        Some(clients) => {
            let read = read_report_line(clients).await?;
            format!("{read}, the last {:.1} s after the end", ended.elapsed().as_secs_f64())
        }
        None => String::new(),
    };
    let ms = loop {
        let steps = server.request_json("GET", &format!("/api/v1/runs/{run}/steps"), "").await?;
        let found = steps.get("items").and_then(Value::as_list).unwrap_or_default().iter().find(|step| {
            let is = |key, value| step.get(key).and_then(Value::as_str) == Some(value);
            is("name", "busy") && is("status", "succeeded")
        });
        match found.and_then(|step| step.get("duration_ms")).and_then(Value::as_int) {
            Some(ms) => break ms.max(1),
            // The events of a long run are read in pages.
            None if begun.elapsed() < Duration::from_secs(300) => {}
            None => return Err(format!("{run} has no loop")),
        }
    };
    Ok((ITERATIONS as f64 * 1e3 / ms as f64, read))
}

fn start(server: &BenchServer, run: &str, readers: usize) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(program).arg("--readers").arg(server.address.to_string());
    command.arg(server.store.join("token")).arg(run).arg(readers.to_string());
    command.stdout(Stdio::piped()).kill_on_drop(true).spawn().map_err(|error| format!("no readers: {error}"))
}

async fn read_report_line(clients: &mut Child) -> Result<String, String> {
    let mut line = String::new();
    let mut byte = BufReader::with_capacity(1, clients.stdout.as_mut().ok_or("the readers have no stdout")?);
    byte.read_line(&mut line).await.map_err(|error| error.to_string())?;
    match line.trim() {
        "" => Err("the readers have ended".to_owned()),
        report => Ok(report.to_owned()),
    }
}

/// The reader process: reports when all readers listen, and how many events they received.
pub(crate) fn child(arguments: &[String]) -> Result<(), String> {
    let [address, token, run, count] = arguments else { return Err("ADDRESS TOKEN_FILE RUN COUNT".to_owned()) };
    let address: SocketAddr = address.parse().map_err(|_| "no address".to_owned())?;
    let token = std::fs::read_to_string(token).map_err(|error| error.to_string())?;
    let count: usize = count.parse().map_err(|_| "no number".to_owned())?;
    let request = format!(
        "GET /api/v1/runs/{run}/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\naccept: text/event-stream\r\n\r\n",
        token.trim()
    );
    crate::engine::runtime().block_on(async {
        let (ready_sender, mut ready_receiver) = tokio::sync::mpsc::channel(count);
        let mut clients = JoinSet::new();
        for _ in 0..count {
            clients.spawn(read(address, request.clone(), ready_sender.clone()));
        }
        drop(ready_sender);
        for _ in 0..count {
            ready_receiver.recv().await.ok_or("a reader could not listen")?;
        }
        println!("all listen");
        let counts: Result<Vec<u64>, String> = clients.join_all().await.into_iter().collect();
        let counts = counts?;
        match (counts.iter().min(), counts.iter().max()) {
            (Some(min), Some(max)) if min == max => println!("each received all {max} events"),
            (min, max) => println!("they received {min:?} to {max:?} events"),
        }
        Ok(())
    })
}

/// Returns the number of events that one reader receives until the run has ended.
async fn read(address: SocketAddr, request: String, ready: tokio::sync::mpsc::Sender<()>) -> Result<u64, String> {
    let connection = HttpConnection::open(address).await.map_err(|error| error.to_string())?;
    let (mut count, mut rest, mut ready) = (0_u64, Vec::new(), Some(ready));
    let on_chunk = |piece: &[u8]| {
        if let Some(ready) = ready.take() {
            let _ = ready.try_send(());
        }
        rest.extend_from_slice(piece);
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = &rest[..whole];
        count += lines.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"id:")).count() as u64;
        let ended = find(lines, b"event: end").is_some();
        rest.drain(..whole);
        ended
    };
    connection.stream(request.as_bytes(), on_chunk).await.map_err(|error| error.to_string())?;
    Ok(count)
}
