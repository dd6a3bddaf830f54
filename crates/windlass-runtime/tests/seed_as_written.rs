//! The use cases of the first seed exactly as written there, with tools that answer. Four of them never change the
//! variable that they test: they end with the reason `count`. A new case is a new row.

use crate::support;

use std::sync::Arc;

use support::{World, engine_with, in_time, in_virtual_time, json, options};
use windlass_core::TaskOutcome;
use windlass_core::plan::Plan;
use windlass_loom::{ActivityTarget, LoomActivity};
use windlass_runtime::Tools;
use windlass_store::MemoryStore;
use windlass_syntax::{Colour, SourceText};
use windlass_value::Value;

struct Case {
    file: &'static str,
    input: &'static str,
    /// The replies of `http`, then those of the model; the last one repeats.
    pages: &'static [&'static str],
    thoughts: &'static [&'static str],
    /// The expected end of the loop.
    iterations: i64,
    reason: &'static str,
    status: &'static str,
}

const CASES: &[Case] = &[
    Case {
        file: "1-retry-until-success",
        input: r#"{"status": "new"}"#,
        pages: &[r#"{"status": "complete"}"#],
        thoughts: &[],
        iterations: 10,
        reason: "count",
        status: "failed",
    },
    Case {
        file: "2-queue-until-empty",
        input: r#"{"queue": [1, 2]}"#,
        pages: &[],
        thoughts: &[],
        iterations: 60,
        reason: "count",
        status: "failed",
    },
    Case {
        file: "3-pages",
        input: r#"{"nextPage": "http://h/1"}"#,
        pages: &[r#"{"nextPageUrl": null}"#],
        thoughts: &[],
        iterations: 60,
        reason: "count",
        status: "failed",
    },
    Case {
        file: "4-agent",
        input: r#"{"agentStatus": "THINKING"}"#,
        pages: &[],
        thoughts: &[r#"{"action": "search", "actionInput": "sails"}"#],
        iterations: 5,
        reason: "count",
        status: "failed",
    },
    Case {
        file: "5-polling",
        input: r#"{"jobId": 42}"#,
        pages: &[r#"{"status": "running"}"#, r#"{"status": "complete"}"#],
        thoughts: &[],
        iterations: 2,
        reason: "condition",
        status: "succeeded",
    },
    Case {
        file: "6-agent-with-tools",
        input: r#"{"observations": "none"}"#,
        pages: &[],
        thoughts: &[
            r#"{"action": "SEARCH", "input": "sails"}"#,
            r#"{"action": "CALCULATE", "input": "3 * 14"}"#,
            r#"{"action": "FINAL_ANSWER", "input": "42"}"#,
        ],
        iterations: 3,
        reason: "condition",
        status: "succeeded",
    },
    Case {
        file: "7-batches",
        input: r#"{"nextPageToken": "first"}"#,
        pages: &[r#"{"items": [1, 2], "nextPageToken": "second"}"#, r#"{"items": [3], "nextPageToken": null}"#],
        thoughts: &[],
        iterations: 2,
        reason: "condition",
        status: "succeeded",
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_seed_loop_ends_for_its_reason() {
    for case in CASES {
        let store = Arc::new(MemoryStore::new());
        let engine =
            engine_with(&store, windlass_runtime::EngineOptions { tools: tools(case), ..options(&World::new()) });
        let (hash, _) = engine.add_plan(plan(case.file)).expect("a plan");
        let mut handle = engine.start(hash, json(case.input), in_virtual_time("r")).await.expect("started");
        let report = in_time(handle.wait()).await.expect("an end");
        let step = report.steps[0].1.to_value();
        let looping = step.get("loop").expect("a loop");
        let ended = (looping.get("iterations").cloned(), looping.get("reason").cloned(), step.get("status").cloned());
        let expected = (Value::from(case.iterations), Value::from(case.reason), Value::from(case.status));
        assert_eq!(ended, (Some(expected.0), Some(expected.1), Some(expected.2)), "{}: {step:?}", case.file);
    }
}

fn plan(name: &str) -> Plan {
    let path = format!("{}/../../examples/loom/seed/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let source = SourceText::new(format!("{name}.json"), std::fs::read_to_string(path).expect("the example"));
    let activity = |name: &str| LoomActivity { name: name.to_owned(), target: ActivityTarget::Tool };
    let options = windlass_loom::LoomOptions {
        tools: ["http", "model"].map(str::to_owned).to_vec(),
        activities: ["processor", "search", "calculator"].map(activity).to_vec(),
        ..Default::default()
    };
    match windlass_loom::compile(&source, &options) {
        Ok(compiled) => compiled.plan,
        Err(problems) => panic!("{}", problems.render(&source, Colour::Never)),
    }
}

fn tools(case: &'static Case) -> Tools {
    let answers = |list: &'static [&'static str]| {
        let calls = std::sync::atomic::AtomicUsize::new(0);
        move |_| {
            let at = calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst).min(list.len().saturating_sub(1));
            let body = list.get(at).map_or(Value::Null, |text| json(text));
            std::future::ready(TaskOutcome::success(Value::object([("statusCode", Value::Int(200)), ("body", body)])))
        }
    };
    let done = |_| std::future::ready(TaskOutcome::success(Value::object([("did", Value::Bool(true))])));
    Tools::new()
        .with_fn("http", answers(case.pages))
        .with_fn("model", answers(case.thoughts))
        .with_fn("processor", done)
        .with_fn("search", done)
        .with_fn("calculator", done)
}
