//! A world to run workflows in: definitions as text, tools that keep a ledger, engines on a store that can crash.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod audit;
pub(crate) mod nets;
pub(crate) mod plans;
pub(crate) mod shop;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use windlass_core::plan::Plan;
use windlass_core::{ErrorInfo, Limits, TaskOutcome};
use windlass_expr::wdl;
use windlass_loom::{ActivityTarget, LoomActivity};
use windlass_runtime::{EngineOptions, RunStartOptions, RuntimeEngine, ToolCall, Tools};
use windlass_store::{MemoryStore, Store};
use windlass_syntax::{Colour, SourceText};
use windlass_value::{Value, parse_json, to_json};

/// No test takes this long; a longer wait is a hang.
const HANG_TIMEOUT: Duration = Duration::from_secs(120);

pub(crate) fn json(text: &str) -> Value {
    parse_json(text).expect("a test's own JSON")
}

/// Limits wide enough for long loops.
pub(crate) fn limits() -> Limits {
    Limits {
        max_loop_iterations: 10_000_000,
        max_loop_time: windlass_value::Duration::from_secs(7 * 86_400),
        ..Limits::default()
    }
}

pub(crate) fn loom(text: &str) -> Plan {
    let source = SourceText::new("test.json", text);
    let tools = ["noop", "http", "count", "flaky", "gate", "panic", "never", "big"].map(str::to_owned);
    let options = windlass_loom::LoomOptions {
        limits: limits(),
        name: Some("test".to_owned()),
        tools: tools.to_vec(),
        activities: vec![
            LoomActivity { name: "count".to_owned(), target: ActivityTarget::Tool },
            LoomActivity { name: "flaky".to_owned(), target: ActivityTarget::Tool },
            LoomActivity { name: "helper".to_owned(), target: ActivityTarget::Workflow("child".to_owned()) },
        ],
        ..Default::default()
    };
    match windlass_loom::compile(&source, &options) {
        Ok(compiled) => compiled.plan,
        Err(problems) => panic!("{}", problems.render(&source, Colour::Never)),
    }
}

/// One call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Effect {
    pub tool: &'static str,
    pub key: Arc<str>,
    pub path: Arc<str>,
    pub attempt: u32,
    pub input: String,
}

/// The environment of a run: the recorded tool calls, and the gates that hold them.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Shared>);

#[derive(Default)]
struct Shared {
    ledger: Mutex<Vec<Effect>>,
    /// Paths at which a tool saw that it was cancelled.
    cancelled: Mutex<Vec<Arc<str>>>,
    inside: Mutex<CallCounts>,
    gates: watch::Sender<BTreeSet<String>>,
}

/// The number of calls in flight, and its maximum.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct CallCounts {
    pub in_flight: usize,
    pub max_concurrency: usize,
}

impl World {
    pub(crate) fn new() -> World {
        windlass_testing::log::install();
        World::default()
    }

    pub(crate) fn ledger(&self) -> Vec<Effect> {
        locked(&self.0.ledger).clone()
    }

    pub(crate) fn keys(&self) -> BTreeMap<Arc<str>, Vec<Effect>> {
        let mut keys: BTreeMap<Arc<str>, Vec<Effect>> = BTreeMap::new();
        for effect in self.ledger() {
            keys.entry(effect.key.clone()).or_default().push(effect);
        }
        keys
    }

    pub(crate) fn cancelled(&self) -> Vec<Arc<str>> {
        locked(&self.0.cancelled).clone()
    }

    pub(crate) fn call_counts(&self) -> CallCounts {
        *locked(&self.0.inside)
    }

    /// Opens a gate for all calls that wait at it, now and later.
    pub(crate) fn open(&self, gate: &str) {
        self.0.gates.send_modify(|open| {
            open.insert(gate.to_owned());
        });
    }

    pub(crate) async fn calls(&self, at_least: usize) {
        until(|| self.ledger().len() >= at_least).await;
    }

    fn enter(&self, tool: &'static str, call: &ToolCall) -> CallGuard {
        locked(&self.0.ledger).push(Effect {
            tool,
            key: call.key.clone(),
            path: call.path.clone(),
            attempt: call.attempt,
            input: to_json(&call.input),
        });
        let mut counts = locked(&self.0.inside);
        counts.in_flight += 1;
        counts.max_concurrency = counts.max_concurrency.max(counts.in_flight);
        CallGuard(self.clone())
    }

    pub(crate) fn tools(&self) -> Tools {
        let [count, flaky, gate, never, big, slow] = [(); 6].map(|()| self.clone());
        Tools::new()
            .with_fn("noop", |_| async { TaskOutcome::success(Value::Null) })
            .with_fn("count", move |call| {
                let inside = count.enter("count", &call);
                async move {
                    tokio::task::yield_now().await;
                    drop(inside);
                    TaskOutcome::success(Value::object([("saw", call.input)]))
                }
            })
            .with_fn("flaky", move |call| {
                let inside = flaky.enter("flaky", &call);
                async move {
                    drop(inside);
                    let times = call.input.get("fail").and_then(Value::as_int).unwrap_or(0);
                    match i64::from(call.attempt) <= times {
                        true => TaskOutcome::failure(ErrorInfo::new("503", "http", "not now").replied()),
                        false => TaskOutcome::success(Value::from(call.attempt)),
                    }
                }
            })
            .with_fn("gate", move |call| {
                let inside = gate.enter("gate", &call);
                gate.clone().hold(call, inside)
            })
            .with_fn("slow", move |call| {
                drop(slow.enter("slow", &call));
                async move {
                    // This many calls are still to come, ten minutes apart.
                    match call.input.get("left").and_then(Value::as_int).unwrap_or(0) {
                        0 => TaskOutcome::success("finished"),
                        left => {
                            let input = Value::object([("left", Value::Int(left - 1))]);
                            TaskOutcome::call_again(input, windlass_value::Duration::from_secs(600))
                        }
                    }
                }
            })
            .with_fn("panic", |_| async { panic!("a tool that panics") })
            .with_fn("never", move |call| {
                let inside = never.enter("never", &call);
                async move {
                    let _inside = inside;
                    std::future::pending().await
                }
            })
            .with_fn("big", move |call| {
                drop(big.enter("big", &call));
                async move {
                    let bytes = call.input.as_int().unwrap_or(0) as usize;
                    TaskOutcome::success(Value::from("x".repeat(bytes)))
                }
            })
    }

    /// Waits until the gate named by the input is open.
    async fn hold(self, mut call: ToolCall, inside: CallGuard) -> TaskOutcome {
        let _inside = inside;
        let name = call.input.as_str().unwrap_or("gate").to_owned();
        let mut gates = self.0.gates.subscribe();
        tokio::select! {
            biased;
            () = call.cancelled.wait() => {
                locked(&self.0.cancelled).push(call.path.clone());
                TaskOutcome::failure(ErrorInfo::new("Cancelled", "cancelled", "cancelled"))
            }
            _ = gates.wait_for(|open| open.contains(&name)) => TaskOutcome::success(Value::from(name)),
        }
    }
}

struct CallGuard(World);

impl Drop for CallGuard {
    fn drop(&mut self) {
        locked(&self.0.0.inside).in_flight -= 1;
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polls a condition until a background task makes it true.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < HANG_TIMEOUT, "the condition never became true");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG_TIMEOUT, future).await.expect("it hangs")
}

pub(crate) fn options(world: &World) -> EngineOptions {
    EngineOptions {
        tools: world.tools(),
        languages: wdl::languages(),
        limits: limits(),
        poll_every: Duration::from_millis(2),
        ..EngineOptions::default()
    }
}

pub(crate) fn engine(store: &Arc<MemoryStore>, world: &World) -> RuntimeEngine {
    engine_with(store, options(world))
}

pub(crate) fn engine_with(store: &Arc<MemoryStore>, options: EngineOptions) -> RuntimeEngine {
    let store: Arc<dyn Store> = store.clone();
    RuntimeEngine::new(store, options).expect("an engine")
}

pub(crate) fn named(id: &str) -> RunStartOptions {
    RunStartOptions { id: Some(id.to_owned()), ..RunStartOptions::default() }
}

pub(crate) fn in_virtual_time(id: &str) -> RunStartOptions {
    RunStartOptions { virtual_time: true, ..named(id) }
}
