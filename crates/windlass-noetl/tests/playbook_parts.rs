//! Parts of a playbook around the steps: computed defaults, child runs, the workbook.

use crate::world;

use world::{obliging, run, run_plans};

/// A `workload`, the run's input, and the resulting value of the key `x`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn computed_defaults() {
    for (workload, input, expected) in [
        ("{host: h, x: 'http://{{ host }}/v1'}", "{}", r#""http://h/v1""#),
        ("{x: '{{ workload.n + 1 }}', n: 2}", "{}", "3"),
        // One computed default reads another, wherever it is.
        ("{x: '{{ b }}{{ a }}', b: '{{ a }}-', a: '{{ c }}', c: 1}", "{}", r#""1-1""#),
        // The run's input takes precedence, both for the key itself and for defaults that read it.
        ("{host: h, x: 'http://{{ host }}/v1'}", r#"{"x": "given"}"#, r#""given""#),
        ("{host: h, x: 'http://{{ host }}/v1'}", r#"{"host": "other"}"#, r#""http://other/v1""#),
        // Objects are merged.
        ("{n: 1, x: {a: '{{ n }}', b: 2}}", r#"{"x": {"b": 3}}"#, r#"{"a":1,"b":3}"#),
        ("{x: '{{ execution_id is integer }} {{ job.uuid }}'}", "{}", r#""True r""#),
        ("{x: '{{ payload.who | default(\"anonymous\") }}'}", r#"{"who": "me"}"#, r#""me""#),
        ("{x: '{{ payload.who | default(\"anonymous\") }}'}", "{}", r#""anonymous""#),
        ("{x: '{{ payload.who }}'}", "{}", "failed InvalidTemplate"),
        ("{x: '{{ 1 / 0 }}'}", "{}", "failed InvalidTemplate"),
    ] {
        let text =
            format!("workload: {workload}\nworkflow: [{{step: start, tool: {{kind: noop, result: '{{{{ x }}}}'}}}}]\n");
        let ran = run(&text, input).await;
        assert_eq!(ran.output(), expected, "{workload} {input} {:?}", ran.report.error);
    }
}

const CHILD: &str = "metadata: {name: child}\nworkload: {n: 1}\nworkflow: [{step: start, tool: {kind: noop, result: '{{ n * 10 }}'}, next: [{step: middle}]}, {step: middle, tool: {kind: noop, result: '{{ start + 1 }}'}, next: [{step: end, when: '{{ n < 5 }}'}]}, {step: end, tool: {kind: noop, result: done}}]\n";
const OTHER: &str = "metadata: {name: other}\nworkflow: [{step: start, tool: {kind: noop, result: other}}]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children() {
    for (call, expected) in [
        ("path: child", r#""done""#),
        ("path: child, return_step: middle", "11"),
        ("path: child, return_step: start, input: {n: 3}", "30"),
        // A step that has not run has no result.
        ("path: child, return_step: end, input: {n: 7}", "null"),
        ("path: child, return_step: nowhere", "failed NoSuchStep"),
        ("path: '{{ workload.which }}'", r#""done""#),
        ("path: '{{ \"other\" if workload.which == \"child\" else \"child\" }}'", r#""other""#),
        ("path: '{{ which }}', return_step: middle", "11"),
        ("path: '{{ which ~ which }}'", "failed ChildNotStarted"),
        ("path: '{{ 1 }}'", "failed BadDefinition"),
    ] {
        let text = format!(
            "workload: {{which: child}}\nworkflow: [{{step: start, tool: [{{call: {{kind: playbook, {call}}}}}]}}]\n"
        );
        let ran = run_plans(&[CHILD, OTHER, &text], "{}", obliging).await;
        assert_eq!(ran.output(), expected, "{call} {:?}", ran.report.error);
    }
}

/// The workbook's values are defaults, overridden by those of the step, which are overridden by those of the task.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_workbook() {
    const WORKBOOK: &str = "
workbook:
  - {name: add, tool: {kind: python, code: x, input: {a: 1, b: 2}}}
  - {name: parallel, tool: python, code: x, args: {a: 5}}
  - {name: through, tool: {kind: workbook, name: add, input: {b: 9}}}
";
    for (step, expected) in [
        ("tool: {kind: workbook, name: add}", r#"{"a":1,"b":2}"#),
        ("input: {a: 3}, tool: {kind: workbook, name: add, input: {b: 4}}", r#"{"a":3,"b":4}"#),
        ("tool: [{one: {kind: workbook, name: parallel}}]", r#"{"a":5}"#),
        ("tool: {kind: workbook, name: through}", r#"{"a":1,"b":9}"#),
    ] {
        let ran = run(&format!("{WORKBOOK}workflow: [{{step: start, {step}}}]\n"), "{}").await;
        assert_eq!(ran.output(), expected, "{step} {:?}", ran.report.error);
    }
}
