//! Steps that send each other events: Petri nets whose step bodies are one instant effect each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::plan::{
    Action, Amount, Effect, ExprId, ExpressionSource, Join, Net, NetEnd, Node, NodeId, NodeKind, Pipeline, Place, Plan,
    SourceSpan, Task, Wait,
};
use windlass_core::{Status, TaskOutcome};
use windlass_runtime::{Durability, EngineOptions, RunStartOptions, RuntimeEngine, ToolCall, Tools};
use windlass_store::MemoryStore;
use windlass_store_sqlite::SyncMode;
use windlass_value::{
    CompileError, EvalError, EvalScope, Expression, ExpressionMode, Language, Level, Meter, Value, interned,
};

use crate::disk::{self, BenchFolder};
use crate::engine::{engine, runtime, sqlite};

/// The only expression of these plans: the token that a body runs for.
pub(crate) struct TokenLanguage;

struct TokenExpression;

impl Language for TokenLanguage {
    fn name(&self) -> &'static str {
        "token"
    }

    fn compile(&self, _source: &Value, _mode: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        Ok(Box::new(TokenExpression))
    }
}

impl Expression for TokenExpression {
    fn eval(&self, scope: &dyn EvalScope, _meter: &mut Meter) -> Result<Value, EvalError> {
        let named = |name: &str| scope.variable(Level::Any, name).unwrap_or_default();
        Ok(Value::object([(interned("kind"), named("kind")), (interned("payload"), named("args"))]))
    }
}

/// A place: its name, the event it accepts, its concurrency, its join, and the events it may emit.
type NetStep<'a> = (&'a str, &'a str, u32, Join, &'a [&'a str]);

fn net(name: &str, steps: &[NetStep<'_>]) -> Plan {
    let mut plan = Plan::new(name, "rust", "");
    let placeholder = NodeKind::Wait(Wait::Delay(Amount::Fixed(windlass_value::Duration::ZERO)));
    let root = plan.add_node(Node::new(name, "net", None, placeholder));
    let places = steps.iter().map(|step| place(&mut plan, root, name, step)).collect();
    plan.nodes[0].kind = NodeKind::Net(Net::new(places, "start", NetEnd::Stop("done".into())));
    plan
}

fn place(plan: &mut Plan, root: NodeId, workflow: &str, step: &NetStep<'_>) -> Place {
    let (name, accepts, workers, join, produces) = step;
    let tool = format!("{workflow}/{name}");
    let action = Action::Effect(Effect::new(&*tool, token(plan)));
    let tasks = vec![Task { hidden: true, ..Task::new(action) }];
    let body = plan.add_node(Node::new(*name, "step", Some(root), NodeKind::Pipeline(Pipeline { tasks })));
    Place {
        max_concurrency: *workers,
        join: join.clone(),
        produces: produces.iter().map(|kind| (*kind).into()).collect(),
        ..Place::new(*name, vec![(*accepts).into()], body)
    }
}

fn token(plan: &mut Plan) -> ExprId {
    let (mode, span) = (ExpressionMode::Value, SourceSpan::default());
    plan.add_expression(ExpressionSource { language: "token".into(), source: Value::Null, mode, span })
}

/// Two steps that pass a number back and forth until it reaches zero.
pub(crate) fn ping_pong() -> Plan {
    let kinds = ["ping", "pong", "done"];
    net(
        "loop",
        &[
            ("begin", "start", 1, Join::None, &kinds),
            ("ping", "ping", 1, Join::None, &kinds),
            ("pong", "pong", 1, Join::None, &kinds),
        ],
    )
}

fn event(kind: &'static str, payload: Value) -> TaskOutcome {
    TaskOutcome::success(Value::object([
        (interned("kind"), Value::Str(interned(kind))),
        (interned("payload"), payload),
    ]))
}

fn forward(call: &ToolCall, to: &'static str) -> TaskOutcome {
    reply_with(&call.input, to)
}

/// Returns the reply of one of the two steps, by its tool.
pub(crate) fn step_reply(tool: &str, input: &Value) -> TaskOutcome {
    reply_with(input, if tool == "loop/ping" { "pong" } else { "ping" })
}

fn reply_with(input: &Value, to: &'static str) -> TaskOutcome {
    let left = input.get("payload").and_then(|payload| payload.get("left")).and_then(Value::as_int).unwrap_or(0);
    let kind = if left > 0 { to } else { "done" };
    event(kind, Value::object([(interned("left"), left - 1)]))
}

fn options(tools: Tools) -> EngineOptions {
    EngineOptions { tools, languages: vec![Arc::new(TokenLanguage)], ..EngineOptions::default() }
}

fn loop_tools() -> Tools {
    Tools::new()
        .with_fn("loop/begin", |call| async move { forward(&call, "ping") })
        .with_fn("loop/ping", |call| async move { forward(&call, "pong") })
        .with_fn("loop/pong", |call| async move { forward(&call, "ping") })
}

async fn run_once(engine: &RuntimeEngine, plan: windlass_value::BlobHash, input: Value) -> Duration {
    let begun = Instant::now();
    let options = RunStartOptions { watch: false, ..RunStartOptions::default() };
    let mut handle = engine.start(plan, input, options).await.expect("the run starts");
    let report = handle.wait().await.expect("the run ends");
    assert_eq!(report.status, Status::Succeeded, "{:?}", report.error);
    begun.elapsed()
}

fn in_memory(tools: Tools) -> RuntimeEngine {
    engine(
        Arc::new(MemoryStore::new()),
        EngineOptions { durability: Durability::InMemory, commit_here: true, ..options(tools) },
    )
}

/// Measures the control loop's own cost: the run is in memory, and the tool replies immediately.
pub(crate) fn loop_in_memory() -> Vec<String> {
    const STEPS: [i64; 3] = [10_000, 100_000, 1_000_000];
    runtime().block_on(async {
        let engine = in_memory(loop_tools());
        let (plan, _) = engine.add_plan(ping_pong()).expect("the plan loads");
        let (mut lines, mut rates) = (Vec::new(), Vec::new());
        for steps in STEPS {
            let before = disk::resident();
            let mut best = f64::MAX;
            // Short runs are disturbed more easily and quickly repeated.
            for _ in 0..(1_000_000 / steps).clamp(3, 30) {
                let input = Value::object([("left", steps - 1)]);
                best = best.min(run_once(&engine, plan, input).await.as_secs_f64());
            }
            let rate = steps as f64 / best;
            rates.push(rate);
            let grown = disk::resident().saturating_sub(before) >> 20;
            lines.push(format!("{steps} steps: {rate:.0} steps/s = {:.2} us a step; {grown} MB more", 1e6 / rate));
        }
        lines.push(format!("a step of the longest costs {:.2} x one of the shortest", rates[0] / rates[2]));
        lines
    })
}

/// Measures one step that sends a thousand events, a hundred concurrent workers, and a join.
pub(crate) fn fan_out_in_memory() -> Vec<String> {
    const MEMBERS: i64 = 1_000;
    const ROUNDS: usize = 30;
    let steps: [NetStep<'_>; 3] = [
        ("fan", "start", 1, Join::None, &["work"]),
        ("work", "work", 100, Join::None, &["part"]),
        ("gather", "part", 1, Join::FanOut, &["done"]),
    ];
    let parts = |_: ToolCall| async {
        let part = |at: i64| Value::object([("kind", Value::from("work")), ("payload", Value::Int(at))]);
        TaskOutcome::success(Value::list((0..MEMBERS).map(part).collect()))
    };
    let gathered = |call: ToolCall| async move {
        let parts = call.input.get("payload").and_then(|parts| parts.as_list().map(<[Value]>::len));
        event("done", Value::from(parts.unwrap_or(0) as i64))
    };
    let tools = Tools::new()
        .with_fn("fan/fan", parts)
        .with_fn("fan/work", |_| async { event("part", Value::Null) })
        .with_fn("fan/gather", gathered);
    runtime().block_on(async {
        let engine = in_memory(tools);
        let (plan, _) = engine.add_plan(net("fan", &steps)).expect("the plan loads");
        let mut best = f64::MAX;
        for _ in 0..ROUNDS {
            best = best.min(run_once(&engine, plan, Value::Null).await.as_secs_f64());
        }
        vec![format!("{:.2} ms (best of {ROUNDS}) = {:.2} us a member", best * 1e3, best * 1e6 / MEMBERS as f64)]
    })
}

/// Measures a hundred concurrent runs on a real disk, each a loop of steps.
pub(crate) fn durable_loops() -> Vec<String> {
    let best = (0..3).map(|_| durable_rate(100, 300)).fold(0.0_f64, f64::max);
    vec![format!("{best:.0} steps/s = {:.2} x the target", best / 10_000.0)]
}

/// Returns the steps per second of this many concurrent runs with this many steps each.
pub(crate) fn durable_rate(runs: i64, steps: i64) -> f64 {
    let folder = BenchFolder::new("step-loops");
    let took = runtime().block_on(async {
        let engine = engine(sqlite(folder.path(), SyncMode::Full), options(loop_tools()));
        let (plan, _) = engine.add_plan(ping_pong()).expect("the plan loads");
        let begun = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..runs {
            let engine = engine.clone();
            tasks.spawn(async move { run_once(&engine, plan, Value::object([("left", steps - 1)])).await });
        }
        while tasks.join_next().await.is_some() {}
        begun.elapsed()
    });
    (runs * steps) as f64 / took.as_secs_f64()
}

/// Returns the steps per second of one run of this many steps, in memory.
pub(crate) fn memory_rate(steps: i64) -> f64 {
    runtime().block_on(async {
        let engine = in_memory(loop_tools());
        let (plan, _) = engine.add_plan(ping_pong()).expect("the plan loads");
        let input = Value::object([("left", steps - 1)]);
        steps as f64 / run_once(&engine, plan, input).await.as_secs_f64()
    })
}

/// Leaves a run after this many ticks and measures the time to reload it.
pub(crate) fn reload() -> Vec<String> {
    const TICKS: u64 = 100_000;
    let folder = BenchFolder::new("reload");
    let run = runtime().block_on(async {
        // The run itself need not be durable against power loss; the measured reload is the same.
        let store = sqlite(folder.path(), SyncMode::Off);
        let engine = engine(store.clone(), EngineOptions { commit_here: true, ..options(loop_tools()) });
        let (plan, _) = engine.add_plan(ping_pong()).expect("the plan loads");
        let options = RunStartOptions { watch: false, ..RunStartOptions::default() };
        let handle = engine.start(plan, Value::object([("left", i64::MAX)]), options).await.expect("the run starts");
        let ticks = || store.run(&handle.run).expect("the run can be read").map_or(0, |row| row.ticks);
        while ticks() < TICKS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        engine.close().await;
        handle.run.clone()
    });
    let mut best = f64::MAX;
    for _ in 0..5 {
        let took = runtime().block_on(async {
            let store = sqlite(folder.path(), SyncMode::Full);
            let engine = engine(store, EngineOptions { commit_here: true, ..options(loop_tools()) });
            let begun = Instant::now();
            let _handle = engine.resume(&run).await.expect("the run resumes");
            let took = begun.elapsed();
            engine.close().await;
            took
        });
        best = best.min(took.as_secs_f64());
    }
    vec![format!("{:.1} ms to reload (best of 5)", best * 1e3)]
}
