//! Values that are too large to be passed inline: replies, tool results, outputs of steps and iterations.

use crate::world;

use windlass_value::{Value, to_json};
use world::Case;

const LARGE: usize = 100_000;

/// Returns a large text that ends in the given word.
fn large(end: &str) -> String {
    format!("{}{end}", "x".repeat(LARGE))
}

fn case(document: &str, script: Value) -> Case {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runs/none.yaml");
    Case { name: "large".to_owned(), path, document: document.to_owned(), script, expect: Value::Null }
}

fn texts(entries: &[(&str, String)]) -> Value {
    Value::object(entries.iter().map(|(key, text)| (*key, Value::from(text.as_str()))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_replies_and_tool_results_are_stored_and_cut() {
    let calls = Value::list(vec![Value::list(vec![Value::from("bash"), Value::object([("a", Value::Int(1))])])]);
    let first = Value::object([("say", Value::from(large("FIRST"))), ("calls", calls)]);
    let replies = Value::object([
        ("a", Value::list(vec![first, Value::from(large("SECOND"))])),
        ("b", Value::from("done")),
        ("each[0]", Value::from(large("ZERO"))),
        ("each[1]", Value::from(large("ONE"))),
        ("again[0]", Value::from(large("TURN"))),
        ("again[1]", Value::from("last")),
        ("after", Value::from("done")),
    ]);
    let script = Value::object([("replies", replies), ("tools", texts(&[("bash", large("FILES"))]))]);
    let document = "
name: large
steps:
  - {id: a}
  - {id: b, dependsOn: [a]}
  - {id: each, loop: {forEach: [1, 2], outputMode: cumulative}}
  - {id: again, loop: {maxIterations: 2, outputMode: cumulative}}
  - {id: after, dependsOn: [each, again], condition: \"steps.each.content.endsWith('ONE')\"}
";
    let ran = case(document, script).run().await;
    assert_eq!(ran.report.status.as_str(), "succeeded", "{:?}", ran.report.error);
    let request = |path: &str, turn: usize| to_json(&ran.model_requests(path)[turn].input);
    assert!(request("a", 1).contains("FIRST") && request("a", 1).contains("FILES"));
    assert!(request("b", 0).contains("more bytes]") && !request("b", 0).contains("SECOND"));
    assert!(request("again[1]", 0).contains("more bytes]"));
    // A step that requests a whole output gets all of it.
    assert!(
        request("after", 0).contains("ZERO")
            && request("after", 0).contains("ONE")
            && request("after", 0).contains("TURN")
    );
    assert!(ran.events.iter().all(|event| to_json(&Value::map(event.fields())).len() < 2 * LARGE));
}
