//! Definitions that name functions and definitions registered by the embedding program.

use crate::world;

use windlass_core::TaskOutcome;
use windlass_noetl::{NoetlOptions, RegisteredNames, compile};
use windlass_runtime::ToolCall;
use windlass_syntax::{Colour, SourceText};
use windlass_value::Value;
use world::{replied, run_plans};

/// The function `add`: returns `a + b`, or an error if a number is missing.
fn answers(tool: &str, call: &ToolCall) -> TaskOutcome {
    let number = |name: &str| call.input.get(name).and_then(Value::as_int);
    match (tool, number("a"), number("b")) {
        ("add", Some(a), Some(b)) => TaskOutcome::success(Value::Int(a + b)),
        ("add", ..) => TaskOutcome::failure(windlass_core::ErrorInfo::new("NoNumber", "rust", "there is no number")),
        _ => replied(200, "null"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_are_called() {
    let table = [
        ("{kind: rust, name: add, args: {a: 1, b: '{{ n }}'}}", "4"),
        (
            "[{sum: {kind: rust, name: add, args: {a: 1, b: 1}}}, {more: {kind: rust, name: add, args: {a: '{{ _prev }}', b: '{{ sum }}'}}}]",
            "4",
        ),
        ("[{name: add, kind: rust, input: {a: 1, b: 2}}, {name: twice, kind: noop, result: '{{ add * 2 }}'}]", "6"),
        ("{kind: rust, name: '{{ which }}', args: {a: 1, b: 2}}", "3"),
        ("{kind: rust, name: '{{ n }}', args: {a: 1, b: 2}}", "failed NoSuchTool"),
        ("{kind: rust, name: add, args: {a: 1}}", "failed NoNumber"),
        ("{kind: rust, name: add}", "failed NoNumber"),
        (
            "{kind: rust, name: add, args: {a: 1}, eval: [{expr: \"{{ outcome.error.kind == 'rust' }}\", do: continue, set_prev: '{{ outcome.error.code }}'}]}",
            r#""NoNumber""#,
        ),
        ("rust\n    name: add\n    args: {a: '{{ n }}', b: 1}", "4"),
    ];
    for (tool, expected) in table {
        let text = format!("workload: {{n: 3, which: add}}\nworkflow:\n  - step: start\n    tool: {tool}\n");
        let ran = run_plans(&[&text], "{}", answers).await;
        assert_eq!(ran.output(), expected, "{tool} {:?}", ran.report.error);
    }
}

/// A definition that the engine has registered need not be found as a file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_go_by_name() {
    const ORDERS: &str = "metadata: {name: orders}\nworkload: {id: 0}\nworkflow: [{step: start, tool: {kind: noop, result: '{{ id + 1 }}'}}]\n";
    const CALLER: &str = "workflow: [{step: start, tool: {kind: playbook, path: orders, input: {id: 7}}}]\n";
    let ran = run_plans(&[ORDERS, CALLER], "{}", answers).await;
    assert_eq!(ran.output(), "8", "{:?}", ran.report.error);
    let source = SourceText::new("test.yaml", CALLER);
    let calls = |definitions: &[&str]| {
        let definitions = definitions.iter().map(|name| (*name).to_owned()).collect();
        let registered = RegisteredNames { definitions, ..RegisteredNames::default() };
        let compiled = compile(&source, &NoetlOptions { registered, ..NoetlOptions::default() }).unwrap();
        compiled.calls.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(calls(&[]), ["orders"]);
    assert_eq!(calls(&["orders"]), [""; 0]);
}

#[test]
fn a_program_without_functions_says_where_they_come_from() {
    let source = SourceText::new("test.yaml", "workflow: [{step: start, tool: {kind: rust, name: add}}]\n");
    let problems = compile(&source, &NoetlOptions::default()).unwrap_err().render(&source, Colour::Never);
    for part in ["test.yaml:1:51", "this program has none", "embeds the crate `windlass`", "docs/noetl.md"] {
        assert!(problems.contains(part), "{problems}");
    }
}
