//! Hints of failed runs, in the terms of a playbook; and limits that a file may set.

use crate::world;

use windlass_value::to_json;
use world::{replied, run, run_with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_runs_give_hints() {
    for (text, message, hint) in [
        (
            "workload: {n: 3}\nworkflow: [{step: start, loop: {in: '{{ n }}', iterator: i}, tool: {kind: noop}}]",
            "needs an array",
            "default([])",
        ),
        (
            "workflow: [{step: start, loop: {while: '{{ true }}', spec: {max_iterations: 2}}, tool: {kind: noop}}]",
            "2 iterations",
            "`max_iterations` under `loop.spec`",
        ),
        (
            "workflow: [{step: start, tool: {kind: noop, result: {a: 1, b: 2}, output_select: [c]}}]",
            "`output_select` selects `c`, but the result has no such property; it has `a`, `b`",
            "leave it out",
        ),
        (
            "workload: {n: 1}\nworkflow: [{step: start, next: [a, b]}, {step: a, next: [j]}, {step: b, next: [{step: j, when: '{{ n == 2 }}'}]}, {step: j, spec: {join: all}}]",
            "`j` waits for a token of `b`",
            "`next_mode: inclusive`",
        ),
    ] {
        let error = run(text, "{}").await.report.error.clone().unwrap();
        assert!(error.message.contains(message), "{error:?}");
        assert!(error.hint.as_ref().is_some_and(|text| text.contains(hint)), "{error:?}");
    }
}

/// A `while` may have more iterations than the default.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn max_iterations_may_exceed_the_default() {
    const TEXT: &str = "
workload: {limit: 100}
workflow:
  - step: start
    loop: {while: '{{ iter.index < 80 }}', spec: {max_iterations: '{{ limit }}'}}
    tool: [{one: {kind: noop, result: 1}}]
    next: [{step: end, when: '{{ event.name == \"loop.done\" }}', args: {n: '{{ output.stats.total }}'}}]
  - {step: end, tool: {kind: noop, result: '{{ n }}'}}
";
    let ran = run(TEXT, "{}").await;
    assert_eq!(ran.output(), "80", "{:?}", ran.report.error);
}

/// The root's `vars` are computed like `workload`, from the input of the run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn templates_in_the_roots_vars() {
    const TEXT: &str = "
workload: {n: 2}
vars: {a: '{{ n + 1 }}', b: {c: 'n is {{ workload.n }}'}, d: 4}
workflow: [{step: start, tool: {kind: noop, result: '{{ [vars.a, vars.b.c, vars.d] }}'}}]
";
    for (input, expected) in [("{}", r#"[3,"n is 2",4]"#), (r#"{"n": 7}"#, r#"[8,"n is 7",4]"#)] {
        let ran = run(TEXT, input).await;
        assert_eq!(ran.output(), expected, "{:?}", ran.report.error);
    }
}

/// A computed number of attempts ends at the limit, with an error that says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_are_limited() {
    for task in [
        "eval: [{expr: '{{ outcome.status == \"error\" }}', do: retry, attempts: '{{ n }}', delay: 0}]",
        "spec: {retry: {attempts: '{{ n }}', delay: 0}}",
    ] {
        let text = format!(
            "workload: {{n: 5000}}\nworkflow: [{{step: start, tool: [{{t: {{kind: shell, cmd: x, {task}}}}}]}}]"
        );
        let ran = run_with(&text, "{}", |_, _| replied(503, "null")).await;
        let error = ran.report.error.clone().unwrap();
        assert_eq!((ran.calls.len(), &*error.code), (1_000, "RetryCountExceeded"), "{error:?}");
        assert!(error.hint.is_some_and(|hint| hint.contains("max_retry_attempts")));
    }
}

/// A literal that contains values is one parameter, so the database converts it to the column's type: a time is no
/// text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn literals_in_sql() {
    const TEXT: &str = "
workload: {day: '2026-01-02', h: 10}
workflow:
  - step: start
    tool: {kind: postgres, auth: pg, command: \"INSERT INTO t (at) VALUES ('{{ day }}T{{ h }}:00:00Z')\"}
";
    let ran = run(TEXT, "{}").await;
    let statements = to_json(ran.calls[0].input.get("statements").unwrap());
    assert_eq!(statements, r#"[{"sql":"INSERT INTO t (at) VALUES ($1)","params":["2026-01-02T10:00:00Z"]}]"#);
}

/// The sink of a continuing policy runs once, when there are no more pages, even if nothing is collected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sinks_of_policies_that_do_not_collect() {
    const TEXT: &str = "
workload: {n: 1}
workflow:
  - step: start
    tool: http
    url: 'http://x'
    retry:
      - when: '{{ response.more }}'
        then: {max_attempts: 5, next_call: {params: {p: 2}}, sink: {tool: postgres, statement: \"INSERT INTO t VALUES ({{ result.n }})\"}}
";
    let ran = run_with(TEXT, "{}", |tool, call| match (tool, call.input.get("params").is_some()) {
        ("http_call", false) => replied(200, r#"{"more": true, "n": 1}"#),
        ("http_call", true) => replied(200, r#"{"more": false, "n": 2}"#),
        _ => world::obliging(tool, call),
    })
    .await;
    let written: Vec<String> = ran
        .calls
        .iter()
        .filter(|call| call.tool == "postgres")
        .map(|call| to_json(call.input.get("statements").unwrap()))
        .collect();
    assert_eq!(written, [r#"[{"sql":"INSERT INTO t VALUES ($1)","params":[2]}]"#], "{:?}", ran.report.error);
}
