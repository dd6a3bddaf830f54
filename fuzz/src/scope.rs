//! A small scope that every language can read: a few variables of each kind, nodes, a loop, a run.

use std::cell::Cell;
use std::sync::Arc;

use windlass_value::{
    EvalError, EvalErrorKind, EvalScope, IterationRecords, IterationView, Level, NodeView, RunView, StoredValue,
    Timestamp, Value, parse_json,
};

const NOW: Timestamp = Timestamp(1_794_735_000_125_000);

pub(crate) struct FuzzScope {
    run: RunView,
    drawn: Cell<u64>,
    has_variables: bool,
}

fn json(text: &str) -> Value {
    parse_json(text).unwrap_or(Value::Null)
}

impl FuzzScope {
    pub(crate) fn new() -> FuzzScope {
        let run = RunView {
            input: json(r#"{"customer": "Bob", "limit": 3, "items": [1, 2.5, "x", null]}"#),
            parameters: json(r#"{"region": "eu", "retries": 4}"#),
            ..RunView::new("run-1", "orders", NOW)
        };
        FuzzScope { run, drawn: Cell::new(0), has_variables: true }
    }

    /// The same without variables.
    pub(crate) fn empty() -> FuzzScope {
        FuzzScope { has_variables: false, ..FuzzScope::new() }
    }
}

impl EvalScope for FuzzScope {
    fn variable(&self, _: Level, name: &str) -> Option<Value> {
        if !self.has_variables {
            return None;
        }
        Some(match name {
            "a" | "name" => Value::from("Ada"),
            "b" | "count" => Value::Int(5),
            "c" | "ratio" => Value::Float(2.5),
            "d" | "tags" => json(r#"["a", "b", "c"]"#),
            "e" | "person" => json(r#"{"name": "Ada", "Age": 36, "address": {"city": "London"}}"#),
            "f" | "nothing" => Value::Null,
            "g" | "big" => json("12345678901234567890"),
            "messages" => json(r#"[{"role": "user", "content": "hi"}]"#),
            _ => return None,
        })
    }

    fn local(&self, name: &str) -> Option<Value> {
        let outcome = r#"{"status": "ok", "result": {"data": [1, 2]}, "error": null}"#;
        (name == "outcome").then(|| json(outcome))
    }

    fn node(&self, name: &str) -> Option<NodeView> {
        let (status, output) = match name {
            "http" => ("succeeded", json(r#"{"statusCode": 200, "body": {"items": [{"id": 1}]}}"#)),
            "broken" => ("failed", Value::Null),
            _ => return None,
        };
        Some(NodeView {
            name: name.into(),
            status,
            inputs: Value::Null,
            output,
            error: if status == "failed" { json(r#"{"code": "Timeout", "message": "late"}"#) } else { Value::Null },
            attempts: 1,
            started_at: NOW,
            ended_at: NOW,
            iteration_records: IterationRecords::None,
            body_nodes: None,
            usage: Value::Null,
        })
    }

    fn children(&self, name: &str) -> Option<Vec<(Arc<str>, NodeView)>> {
        (name == "scope").then(|| self.node("http").map(|node| ("http".into(), node)).into_iter().collect())
    }

    fn iteration(&self, loop_name: Option<&str>) -> Option<IterationView> {
        loop_name.is_none_or(|name| name == "inner").then(|| IterationView {
            loop_name: "inner".into(),
            iteration_index: 2,
            item: json(r#"{"id": 7}"#),
            previous: json(r#"{"think": "x"}"#),
            loop_started_at: NOW,
            item_name: Some("item".into()),
            count: Some(4),
            concurrent: false,
        })
    }

    fn run(&self) -> &RunView {
        &self.run
    }

    fn now(&self) -> Timestamp {
        NOW
    }

    fn random(&self) -> u64 {
        self.drawn.set(self.drawn.get() + 1);
        self.drawn.get().wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn blob(&self, stored: &StoredValue) -> Result<Value, EvalError> {
        Err(EvalError { kind: EvalErrorKind::NeedBlobs, ..EvalError::need_blobs(vec![stored.hash]) })
    }

    fn variables(&self, _: Level) -> Vec<(Arc<str>, Value)> {
        let names = ["name", "count", "tags", "person", "nothing"];
        names.into_iter().filter_map(|name| Some((name.into(), self.variable(Level::Any, name)?))).collect()
    }
}
