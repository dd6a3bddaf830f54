//! The cost of one evaluation in the scope that the reducer provides.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::Status;
use windlass_expr::jinja::JinjaLanguage;
use windlass_expr::wdl::WdlLanguage;
use windlass_value::{
    EvalError, EvalScope, ExpressionMode, IterationView, Language, Level, Meter, NodeView, RunView, StoredValue,
    Timestamp, Value,
};

use crate::{definitions, reducer};

const TIMES: u64 = 100_000;
const ROUNDS: usize = 10;

const TEMPLATE: &str = "{{ ctx.count > 10 and iter.page in [10, 20, 30] }}";

pub(crate) fn condition() -> Vec<String> {
    let small = || Value::object([("a", Value::object([("b", "d")]))]);
    let cases = [
        ("small values only", [small(), small(), small()]),
        ("a variable of 10 MB", [large(), small(), small()]),
        ("another action's body of 10 MB", [small(), large(), small()]),
        ("the action's own body of 10 MB", [small(), small(), large()]),
    ];
    let mut lines = vec![
        format!(
            "{:>5.0} ns  the expression alone, small values",
            time_without_reducer(&WdlLanguage, definitions::CONDITION)
        ),
        format!(
            "{:>5.0} ns  a condition of the same size as a template",
            time_without_reducer(&JinjaLanguage, TEMPLATE)
        ),
    ];
    let mut first = None;
    for (what, [variable, other, body]) in cases {
        let payload = Value::object([("variable", variable), ("other", other), ("body", body)]);
        let nanos = time_in_reducer(&payload);
        let ratio = nanos / *first.get_or_insert(nanos);
        lines.push(format!("{nanos:>5.0} ns  {what} ({ratio:.2} x)"));
    }
    lines
}

/// An object of about 10 MB that has the field that the condition reads.
fn large() -> Value {
    let row = |number: u64| Value::object([("id", Value::from(number)), ("text", Value::from("x".repeat(80)))]);
    let rows = Value::list((0..100_000).map(row).collect());
    Value::object([("a", Value::object([("b", Value::from("d"))])), ("rows", rows)])
}

/// Returns the nanoseconds of one evaluation: a run with many of them compared with the same run with none. The best
/// time of each tick over all rounds counts; the tick with the largest difference is the one that evaluates.
fn time_in_reducer(payload: &Value) -> f64 {
    let (many, none) = (best_ticks(TIMES, payload), best_ticks(0, payload));
    let more = many.iter().zip(&none).map(|(many, none)| many.saturating_sub(*none)).max().unwrap_or_default();
    more.as_nanos() as f64 / TIMES as f64
}

fn best_ticks(times: u64, payload: &Value) -> Vec<Duration> {
    // One work item per tick separates storing the large value from evaluating.
    let mut limits = definitions::limits();
    limits.slice_items = 1;
    let program = reducer::program_within(definitions::condition(times), limits);
    let mut best: Vec<Duration> = Vec::new();
    for _ in 0..ROUNDS {
        let mut tick = 0;
        let state = reducer::compute_with(&program, payload.clone(), |_, took| {
            match best.get_mut(tick) {
                Some(known) => *known = took.min(*known),
                None => best.push(took),
            }
            tick += 1;
        });
        let result = state.result().expect("the run has ended");
        assert_eq!(result.status, Status::Succeeded, "{result:?}");
    }
    best
}

/// Returns the nanoseconds of one evaluation without the reducer.
fn time_without_reducer(language: &dyn Language, condition: &str) -> f64 {
    let expression = language.compile(&Value::from(condition), ExpressionMode::Condition);
    let Ok(expression) = expression else { panic!("the condition compiles") };
    let scope = FixedScope::new();
    let best = (0..ROUNDS).map(|_| {
        let begun = Instant::now();
        for _ in 0..TIMES {
            let mut meter = Meter::new(100_000, 1_000_000);
            black_box(expression.eval(black_box(&scope), &mut meter).expect("a value"));
        }
        begun.elapsed().as_nanos() as f64 / TIMES as f64
    });
    best.fold(f64::MAX, f64::min)
}

/// A scope with one variable and one node.
struct FixedScope {
    run: RunView,
    node: NodeView,
}

impl FixedScope {
    fn new() -> FixedScope {
        let start = Timestamp(0);
        let body = Value::object([("a", Value::object([("b", "d")]))]);
        FixedScope {
            run: RunView::new("r", "w", start),
            node: NodeView {
                name: "x".into(),
                status: "succeeded",
                inputs: Value::Null,
                output: Value::object([("body", body)]),
                error: Value::Null,
                attempts: 1,
                started_at: start,
                ended_at: start,
                iteration_records: Default::default(),
                body_nodes: None,
                usage: Value::Null,
            },
        }
    }
}

impl EvalScope for FixedScope {
    fn variable(&self, _level: Level, _name: &str) -> Option<Value> {
        Some(Value::Int(20))
    }

    fn node(&self, _name: &str) -> Option<NodeView> {
        Some(self.node.clone())
    }

    fn children(&self, _name: &str) -> Option<Vec<(Arc<str>, NodeView)>> {
        None
    }

    fn iteration(&self, _loop_name: Option<&str>) -> Option<IterationView> {
        None
    }

    fn run(&self) -> &RunView {
        &self.run
    }

    fn now(&self) -> Timestamp {
        Timestamp(0)
    }

    fn random(&self) -> u64 {
        0
    }

    fn blob(&self, stored: &StoredValue) -> Result<Value, EvalError> {
        Err(EvalError::need_blobs(vec![stored.hash]))
    }
}
