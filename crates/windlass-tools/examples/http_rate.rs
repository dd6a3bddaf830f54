//! Measures calls per second to a local service: `cargo run --release --example http_rate [callers]`.

use std::time::{Duration, Instant};

use windlass_runtime::{Tool, ToolCall};
use windlass_testing::test_service::TestService;
use windlass_tools::{HttpOptions, HttpTool, Outbound};
use windlass_value::Value;

const MEASURED: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let callers = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(64);
    let service = TestService::start()?;
    let tool = HttpTool::new(HttpOptions { outbound: Outbound::open(), ..HttpOptions::default() });
    let started = Instant::now();
    let tasks: Vec<_> =
        (0..callers).map(|_| tokio::spawn(repeat(tool.clone(), service.url("/jobs/1"), started))).collect();
    let mut calls = 0;
    for task in tasks {
        calls += task.await?;
    }
    let rate = f64::from(calls) / started.elapsed().as_secs_f64();
    println!("{callers} callers: {calls} calls, {rate:.0} a second, {} connections", service.connections());
    Ok(())
}

async fn repeat(tool: HttpTool, uri: String, started: Instant) -> u32 {
    let input = Value::object([("uri", uri)]);
    let mut calls = 0;
    while started.elapsed() < MEASURED {
        let outcome = tool.call(call(input.clone())).await;
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        calls += 1;
    }
    calls
}

fn call(input: Value) -> ToolCall {
    ToolCall::for_test(input)
}
