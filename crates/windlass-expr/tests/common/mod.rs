//! The fixed scope that all cases are evaluated in.
//!
//! - time of the tick: 2026-11-15T09:30:00.125Z; random numbers 1·C, 2·C, … of an odd constant C
//! - variables: `name` "Ada", `count` 5, `ratio` 2.5, `tags` ["a","b","c"], `done` false, `yes` "True", `nothing` null,
//!   `person` {"name","Age","address":{"city"}}, `big` 12345678901234567890, `stored` a stored list [10,20,30],
//!   `chunked` a stored list [1,2,3,4,5] in two chunks, `storedobject` a stored {"city":"Paris"},
//!   `absent` a stored value whose blob is not loaded
//! - nodes: `http` succeeded {"statusCode":200,"body":{"items":[{"id":1},{"id":2}],"status":"done"}}, `compose` 42,
//!   `broken` failed {"code":"Timeout","message":"too late"}, `passed` skipped, `large` the stored object,
//!   `scope` whose children are `http` and `broken`; `form`, `binaryform`, `formdata`, `parts`, `multipart` and
//!   `image`, whose bodies are forms, see below
//! - loops that have ended: `until` and `never` with the last iteration's records; `foreach`, `emptyforeach` and
//!   `longforeach` (stored) with every iteration's; `mixed` with one entry that is listed and one that is not;
//!   `plain` with none. Inside them: `last`, `neverinside`, `each`, `none`, `long`, `deep`, and `skippedloop` in a loop
//!   that was skipped
//! - loops: innermost `inner` at iteration 2, item {"id":7}, previous {"think":"x"}, started one second before the
//!   tick; around it `Outer` at iteration 9, item "o"
//! - run: id "run-1", name "orders", input {"customer":"Bob","Limit":3},
//!   parameters {"Region":"eu","retries":4,"appsetting:Port":"80"}

use std::cell::Cell;
use std::sync::Arc;

use windlass_value::{
    BlobHash, ContentSummary, EvalError, EvalScope, IterationRecords, IterationView, Level, LoopInnerNode, NodeView,
    RunView, StoredValue, Timestamp, Value, parse_json,
};

pub(crate) const NOW: Timestamp = Timestamp(1_794_735_000_125_000);

pub(crate) fn json(text: &str) -> Value {
    parse_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) struct MockScope {
    run: RunView,
    in_loop: bool,
    drawn: Cell<u64>,
}

impl MockScope {
    pub(crate) fn new() -> MockScope {
        let run = RunView {
            input: json(r#"{"customer":"Bob","Limit":3}"#),
            parameters: json(r#"{"Region":"eu","retries":4,"appsetting:Port":"80"}"#),
            ..RunView::new("run-1", "orders", NOW)
        };
        MockScope { run, in_loop: true, drawn: Cell::new(0) }
    }

    #[allow(dead_code)]
    pub(crate) fn without_loop() -> MockScope {
        MockScope { in_loop: false, ..MockScope::new() }
    }
}

impl MockScope {
    #[allow(dead_code)]
    pub(crate) fn with_input(input: Value) -> MockScope {
        let run = RunView { input, ..MockScope::new().run };
        MockScope { run, ..MockScope::new() }
    }
}

const FIELDS: &str = "name=Ada+L%C3%B6we&tag=a&tag=b&empty=";
const PARTS: &str = "--b1\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nHello\r\n--b1\r\n\
    Content-Disposition: form-data; name=\"data\"\r\nContent-Type: application/json\r\n\r\n{\"a\":1}\r\n--b1\r\n\
    Content-Disposition: form-data; name=\"file\"; filename=\"x.bin\"\r\nContent-Type: image/png\r\n\r\nPNG\r\n--b1--\r\n";

/// Bodies of forms; the base64 of `binaryform` is that of `name=Ada&tag=a`.
fn form(name: &str) -> Option<Value> {
    let body = match name {
        "form" => Value::from(FIELDS),
        "binaryform" => json(
            r#"{"$content-type":"application/x-www-form-urlencoded; charset=utf-8","$content":"bmFtZT1BZGEmdGFnPWE="}"#,
        ),
        "formdata" => {
            json(r#"{"$formdata":[{"key":"name","value":"Ada"},{"key":"tag","value":"a"},{"key":"tag","value":"b"}]}"#)
        }
        "parts" => Value::from(PARTS),
        "multipart" => json(
            r#"{"$multipart":[{"headers":{"Content-Disposition":"form-data; name=\"title\""},"body":"Hello"},
                {"body":{"$content-type":"image/png","$content":"UE5H"}}]}"#,
        ),
        "image" => json(r#"{"$content-type":"image/png","$content":"/w=="}"#),
        _ => return None,
    };
    Some(Value::object([("body", body)]))
}

fn stored(mark: u8, items: u64, chunked: bool) -> Value {
    Value::Stored(Arc::new(StoredValue {
        hash: BlobHash([mark; 32]),
        size: 1000,
        items,
        chunked,
        summary: ContentSummary::default(),
    }))
}

/// The records that the loops kept of their iterations.
fn records(name: &str) -> IterationRecords {
    match name {
        "until" => {
            IterationRecords::Last(json(r#"[{"name":"a","status":"Succeeded"},{"name":"b","status":"Failed"}]"#))
        }
        "never" => IterationRecords::Last(Value::Null),
        "foreach" => IterationRecords::All(json(
            r#"[[{"name":"a","status":"Succeeded","startTime":"t0","endTime":"t1","inputs":1,"outputs":10},
                 {"name":"b","status":"Skipped","startTime":"t1","endTime":"t1","inputs":null,"outputs":null}],
                null,
                [{"name":"a","status":"Failed","startTime":"t2","endTime":"t3","inputs":3,"outputs":null},
                 {"name":"b","status":"Skipped","startTime":"t3","endTime":"t3","inputs":null,"outputs":null}]]"#,
        )),
        "mixed" => IterationRecords::All(json(
            r#"[[{"name":"a","status":"Succeeded","outputs":10},{"name":"deep","outputs":{"body":{"n":1},"statusCode":200}}],
                null,
                [{"name":"a","status":"Succeeded","outputs":30},{"name":"deep","outputs":3}]]"#,
        )),
        "emptyforeach" => IterationRecords::All(json("[]")),
        "longforeach" => IterationRecords::All(stored(6, 2, true)),
        _ => IterationRecords::None,
    }
}

impl EvalScope for MockScope {
    fn variable(&self, level: Level, name: &str) -> Option<Value> {
        assert_eq!(level, Level::Any);
        Some(match name {
            "name" => Value::from("Ada"),
            "count" => Value::Int(5),
            "ratio" => Value::Float(2.5),
            "tags" => json(r#"["a","b","c"]"#),
            "done" => Value::Bool(false),
            "yes" => Value::from("True"),
            "nothing" => Value::Null,
            "person" => json(r#"{"name":"Ada","Age":36,"address":{"city":"London"}}"#),
            "big" => json("12345678901234567890"),
            "stored" => stored(1, 3, false),
            "chunked" => stored(2, 5, true),
            "storedobject" => stored(3, 0, false),
            "absent" => stored(9, 7, false),
            _ => return None,
        })
    }

    fn variable_ignoring_case(&self, lower: &str) -> Option<Value> {
        self.variable(Level::Any, lower)
    }

    fn node(&self, name: &str) -> Option<NodeView> {
        let (status, output, error) = match name {
            "http" => (
                "succeeded",
                json(r#"{"statusCode":200,"body":{"items":[{"id":1},{"id":2}],"status":"done"}}"#),
                Value::Null,
            ),
            "compose" => ("succeeded", Value::Int(42), Value::Null),
            "large" => ("succeeded", stored(3, 0, false), Value::Null),
            "broken" => ("failed", Value::Null, json(r#"{"code":"Timeout","message":"too late"}"#)),
            "missing" => ("failed", Value::Null, json(r#"{"code":"404","kind":"http","path":"each[3].missing"}"#)),
            "around" => ("failed", Value::Null, json(r#"{"code":"404","kind":"http","path":"around[3].missing"}"#)),
            "spent" => ("failed", Value::Null, json(r#"{"code":"LoopTimeout","kind":"timeout","path":"spent"}"#)),
            "passed" => ("skipped", Value::Null, Value::Null),
            "until" | "never" | "foreach" | "mixed" | "emptyforeach" | "longforeach" => {
                ("succeeded", Value::Int(0), Value::Null)
            }
            name => ("succeeded", form(name)?, Value::Null),
        };
        Some(NodeView {
            name: name.into(),
            status,
            inputs: json(r#"{"uri":"http://x"}"#),
            output,
            error,
            attempts: 1,
            started_at: NOW,
            ended_at: NOW,
            iteration_records: records(name),
            body_nodes: (name == "mixed").then_some(1),
            usage: Value::Null,
        })
    }

    fn node_in_loop(&self, name: &str) -> Option<LoopInnerNode> {
        let (around, at) = match name {
            "last" => ("until", 1),
            "neverinside" => ("never", 0),
            "each" => ("foreach", 0),
            "deep" => ("mixed", 1),
            "none" => ("emptyforeach", 0),
            "long" => ("longforeach", 0),
            "skippedloop" => ("passed", 0),
            _ => return None,
        };
        Some(LoopInnerNode { name: name.into(), loop_node: self.node(around)?, record_index: at })
    }

    fn children(&self, name: &str) -> Option<Vec<(Arc<str>, NodeView)>> {
        let names: &[&str] = if name == "scope" {
            &["http", "broken"]
        } else if name == "plain" {
            &[]
        } else {
            return None;
        };
        Some(names.iter().filter_map(|name| Some((Arc::from(*name), self.node(name)?))).collect())
    }

    fn iteration(&self, loop_name: Option<&str>) -> Option<IterationView> {
        let outer = loop_name.is_some_and(|name| name.eq_ignore_ascii_case("outer"));
        let inner = loop_name.is_none_or(|name| name.eq_ignore_ascii_case("inner"));
        if !self.in_loop || !(outer || inner) {
            return None;
        }
        Some(IterationView {
            loop_name: if outer { "Outer" } else { "inner" }.into(),
            iteration_index: if outer { 9 } else { 2 },
            item: if outer { Value::from("o") } else { json(r#"{"id":7}"#) },
            previous: if outer { Value::Null } else { json(r#"{"think":"x"}"#) },
            loop_started_at: Timestamp(NOW.0 - 1_000_000),
            item_name: None,
            count: None,
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
        let chunk = |mark: u8, items: u64| {
            Value::Stored(Arc::new(StoredValue {
                hash: BlobHash([mark; 32]),
                size: 10,
                items,
                chunked: false,
                summary: ContentSummary::default(),
            }))
        };
        match stored.hash.0[0] {
            1 => Ok(json("[10,20,30]")),
            2 => Ok(Value::list(vec![chunk(4, 3), chunk(5, 2)])),
            3 => Ok(json(r#"{"city":"Paris"}"#)),
            4 => Ok(json("[1,2,3]")),
            5 => Ok(json("[4,5]")),
            6 => Ok(Value::list(vec![chunk(7, 2)])),
            7 => Ok(Value::list(vec![json(r#"[{"name":"a","status":"Succeeded"}]"#), chunk(8, 1)])),
            8 => Ok(json(r#"[{"name":"a","status":"TimedOut"}]"#)),
            _ => Err(EvalError::need_blobs(vec![stored.hash])),
        }
    }
}
