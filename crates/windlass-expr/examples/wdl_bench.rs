//! How long evaluations take: `cargo run --release -p windlass-expr --example wdl_bench`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use windlass_expr::wdl::Wdl;
use windlass_value::{
    EvalError, Language, Level, Meter, Mode, NodeView, RunView, Scope, Stored, Timestamp, TurnView, Value, parse_json,
};

const ROUNDS: u32 = 1_000_000;

/// A scope that gives what it has, as the engine's does.
struct BenchScope {
    run: RunView,
    turn: TurnView,
    node: NodeView,
    name: Value,
    time: Value,
}

impl Scope for BenchScope {
    fn variable(&self, _level: Level, name: &str) -> Option<Value> {
        Some(if name == "time" { self.time.clone() } else { self.name.clone() })
    }

    fn node(&self, _name: &str) -> Option<NodeView> {
        Some(self.node.clone())
    }

    fn children(&self, _name: &str) -> Option<Vec<(Arc<str>, NodeView)>> {
        None
    }

    fn turn(&self, _loop_name: Option<&str>) -> Option<TurnView> {
        Some(self.turn.clone())
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

    fn blob(&self, stored: &Stored) -> Result<Value, EvalError> {
        Err(EvalError::need_blobs(vec![stored.hash]))
    }
}

fn main() {
    let start = Timestamp(0);
    let scope = BenchScope {
        run: RunView {
            id: "r".into(),
            name: "w".into(),
            input: Value::Null,
            parameters: Value::Null,
            started_at: start,
        },
        turn: TurnView {
            loop_name: "loop".into(),
            index: 12_345,
            item: Value::Null,
            previous: Value::Null,
            loop_started_at: start,
        },
        node: NodeView {
            name: "think".into(),
            status: "succeeded",
            inputs: Value::Null,
            output: Value::object([("body", Value::object([("action", Value::object([("b", "c")]))]))]),
            error: Value::Null,
            attempts: 1,
            started_at: start,
            ended_at: start,
            records: Default::default(),
        },
        name: Value::from("Ada"),
        time: Value::from("2026-11-15T09:30:00Z"),
    };
    let cases = [
        (r#""@greaterOrEquals(variables('loopIndex'), 1000000)""#, Mode::LoopCondition),
        (r#"{"index": "@variables('loopIndex')"}"#, Mode::Value),
        (r#""@variables('name')""#, Mode::Value),
        (r#""@variables('loopIndex')""#, Mode::Value),
        (r#""@greater(variables('name'), 'x')""#, Mode::Condition),
        (r#""@body('think').action.b""#, Mode::Value),
        (r#""Hello @{variables('name')}, this is turn @{variables('loopIndex')}""#, Mode::Value),
        (
            r#"{"and": [{"equals": ["@body('think')?['action']['b']", "c"]}, {"less": ["@variables('loopIndex')", 9]}]}"#,
            Mode::Condition,
        ),
        (r#""@{concat('a', 'b')} constant""#, Mode::Value),
        (r#""@and(greater(variables('loopIndex'), 10), equals(body('think')?['action']['b'], 'c'))""#, Mode::Condition),
        (r#""@formatDateTime('2026-11-15T09:30:00Z', concat('yyyy', variables('name')))""#, Mode::Value),
        (r#""@convertFromUtc(variables('time'), 'W. Europe Standard Time')""#, Mode::Value),
        (r#""@formatNumber(variables('loopIndex'), '#,##0.00', 'de-de')""#, Mode::Value),
        (r#""@add(decimal('0.1'), variables('loopIndex'))""#, Mode::Value),
    ];
    for (source, mode) in cases {
        let tree = parse_json(source).expect("a source");
        let expression = Wdl.compile(&tree, mode).unwrap_or_else(|errors| panic!("{errors:?}"));
        let mut begun = Instant::now();
        for round in 0..2 * ROUNDS {
            // The first half warms up.
            if round == ROUNDS {
                begun = Instant::now();
            }
            let mut meter = Meter::new(100_000, 1_000_000);
            black_box(expression.eval(black_box(&scope), &mut meter).expect("a value"));
        }
        println!("{:>6.1} ns  {source}", begun.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
}
