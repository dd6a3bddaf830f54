//! Measures calls per second of the python tool: `cargo run --release --features python --example python_rate
//! [callers]`.

use std::time::{Duration, Instant};

use windlass_runtime::{Tool, ToolCall};
use windlass_tools::{PythonOptions, PythonTool};
use windlass_value::Value;

const MEASURED: Duration = Duration::from_secs(3);
const CODE: &str = "def main(item):\n    return {'id': item['id'], 'total': sum(item['values'])}";

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let callers: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(16);
    let tool = PythonTool::new(PythonOptions::with_environment(|name| std::env::var(name).ok()));
    // Two interpreters are started before the measurement.
    call_all(2, &tool, Instant::now(), Duration::from_millis(500)).await?;
    let alone = Instant::now();
    for _ in 0..1000 {
        let _ = tool.call(call()).await;
    }
    println!("one after the other: {:.0} µs a call", alone.elapsed().as_secs_f64() * 1e3);
    let started = Instant::now();
    let calls = call_all(callers, &tool, started, MEASURED).await?;
    println!("{callers} callers: {calls} calls, {:.0} a second", f64::from(calls) / started.elapsed().as_secs_f64());
    Ok(())
}

async fn call_all(callers: usize, tool: &PythonTool, started: Instant, span: Duration) -> std::io::Result<u32> {
    let tasks: Vec<_> = (0..callers).map(|_| tokio::spawn(repeat(tool.clone(), started, span))).collect();
    let mut calls = 0;
    for task in tasks {
        calls += task.await?;
    }
    Ok(calls)
}

async fn repeat(tool: PythonTool, started: Instant, span: Duration) -> u32 {
    let mut calls = 0;
    while started.elapsed() < span {
        let outcome = tool.call(call()).await;
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        calls += 1;
    }
    calls
}

fn call() -> ToolCall {
    let values = Value::list((0..10).map(Value::Int).collect());
    let item = Value::object([("id", Value::Int(7)), ("values", values)]);
    ToolCall::for_test(Value::object([("code", Value::from(CODE)), ("args", Value::object([("item", item)]))]))
}
