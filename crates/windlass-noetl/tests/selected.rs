//! `output_select`: the part of a result that later templates see, and the access to the rest.

use crate::world;

use windlass_core::TaskOutcome;
use windlass_value::{Value, to_json};
use world::{json, replied, run, run_with};

/// Checks the result of a playbook whose step `start` is given.
async fn check(rows: &[(&str, &str, &str)]) {
    for (start, end, expected) in rows {
        let text = format!(
            "workflow:\n  - {{step: start, {start}, next: [{{step: end}}]}}\n  - step: end\n    tool: {{kind: noop, result: {end}}}\n"
        );
        let ran = run(&text, "{}").await;
        assert_eq!(ran.output(), *expected, "{start} {:?}", ran.report.error);
    }
}

const GIVES: &str = "{kind: noop, result: {id: 7, data: {items: [{n: 1}, {n: 2}], total: 2}}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_of_a_step() {
    let (plain, renamed) = (
        format!("tool: {GIVES}}}, output_select: [id]"),
        format!(
            "tool: {GIVES}}}, output: {{select: [{{path: data.items.1.n, as: second}}, {{path: '$.data.total'}}, 'data.items[0]']}}"
        ),
    );
    let looped = "loop: {in: [1, 2], iterator: n}, tool: {kind: noop, result: '{{ iter.n }}'}, output: {output_select: [stats.total]}";
    let broken = format!(
        "tool: [{{a: {GIVES}, eval: [{{else: {{do: break}}}}]}}}}, {{b: {{kind: noop, result: 1}}}}], output_select: [id]"
    );
    check(&[
        // The selected fields are inline; the full result is still available.
        (
            &plain,
            "['{{ start.id }}', '{{ start.data.total is defined }}', '{{ start._ref.data.total }}']",
            "[7,false,2]",
        ),
        (&renamed, "['{{ start.second }}', '{{ start.total }}', '{{ start.items.n }}']", "[2,2,1]"),
        (looped, "['{{ start.total }}', '{{ start._ref.results }}']", "[2,[1,2]]"),
        // Also after a break.
        (&broken, "['{{ start.id }}', '{{ start._ref.id }}']", "[7,7]"),
        // A missing field is an error, not a gap.
        ("tool: {kind: noop, result: {a: 1}}, output_select: [b]", "1", "failed InvalidTemplate"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_of_a_task() {
    let text = format!(
        "workflow:\n  - step: start\n    tool:\n      - a: {GIVES}, output_select: [id], eval: [{{expr: '{{{{ outcome.result.data.total == 2 }}}}', do: continue}}]}}\n      - b: {{kind: noop, result: ['{{{{ _prev.id }}}}', '{{{{ a.id }}}}', '{{{{ a.data is defined }}}}', '{{{{ a._ref.data.items | length }}}}']}}\n"
    );
    assert_eq!(run(&text, "{}").await.output(), "[7,7,false,2]");
}

/// A step's own `set` sees the selected fields.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selection_happens_before_set() {
    let text = format!(
        "workflow:\n  - step: start\n    tool: {GIVES}}}\n    output: {{output_select: [id]}}\n    set: {{ctx.a: '{{{{ start.id }}}}', ctx.b: '{{{{ start.data is defined }}}}'}}\n    next: {{arcs: [{{step: end}}]}}\n  - step: end\n    tool: {{kind: noop, result: ['{{{{ ctx.a }}}}', '{{{{ ctx.b }}}}']}}\n"
    );
    let ran = run(&text, "{}").await;
    assert_eq!(ran.output(), "[7,false]", "{:?}", ran.report.error);
}

/// For a large result, the fields are inline; the rest is a reference that templates read through and a task can
/// fetch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_of_a_large_result() {
    const TEXT: &str = "
workflow:
  - step: start
    tool: {kind: http, url: 'http://x', output_select: [data.count]}
    next: [{step: fetch}]
  - step: fetch
    tool: {kind: artifact, action: get, input: {result_ref: '{{ start._ref }}'}}
    next: [{step: end}]
  - step: end
    tool: {kind: noop, result: ['{{ start.count }}', '{{ start._ref.data.text | length }}', '{{ fetch.data.text | length }}']}
";
    let large = format!(r#"{{"count": 3, "text": "{}"}}"#, "x".repeat(200_000));
    let ran = run_with(TEXT, "{}", move |_, _| replied(200, &large)).await;
    assert_eq!(ran.output(), "[3,200000,200000]", "{:?}", ran.report.error);
    assert!(ran.events.iter().all(|event| to_json(&Value::map(event.fields())).len() < 10_000));
    let done = ran.events.iter().find(|event| event.type_name() == "step.done").unwrap();
    assert_eq!(done.fields().get("output").unwrap().get("count"), Some(&Value::Int(3)), "{done:?}");
}

/// An error is not selected from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_not_selected_from() {
    const TEXT: &str = "workflow: [{step: start, tool: {kind: http, url: 'http://x', output_select: [data.id], eval: [{expr: \"{{ outcome.status == 'error' }}\", do: fail}]}}]\n";
    let ran = run_with(TEXT, "{}", |_, _| replied(404, "null")).await;
    assert_eq!(ran.output(), "failed 404");
    let ran = run_with(TEXT, "{}", |_, _| TaskOutcome::success(json(r#"{"data": {"id": 5}}"#))).await;
    assert_eq!(ran.output(), r#"{"id":5,"_ref":{"data":{"id":5}}}"#);
}
