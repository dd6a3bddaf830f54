//! The meaning of names: the author's own, those of the position, and those that tokens carry.

use crate::world;

use world::{json, replied, run, run_with};

/// Internal names of the engine are no names of the language and hide none of the author's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_authors_names() {
    for (text, output) in [
        ("workload: {kind: mine}\nworkflow: [{step: start, tool: {kind: noop, result: '{{ kind }}'}}]", r#""mine""#),
        (
            "workflow: [{step: start, next: [{step: b, args: {kind: 1}}]}, {step: b, tool: {kind: noop, result: '{{ kind }}'}}]",
            "1",
        ),
        (
            "workflow: [{step: start, loop: {in: [7], iterator: kind}, tool: [{a: {kind: noop, result: '{{ kind }}'}}]}]",
            r#"{"results":[7],"stats":{"total":1,"success":1,"failed":0}}"#,
        ),
        (
            "workflow: [{step: start, tool: [{a: {kind: noop, eval: [{else: {do: continue, set_vars: {kind: 3, args: 4}, set_ctx: {event: 5}}}]}}, {b: {kind: noop, result: ['{{ kind }}', '{{ vars.kind }}', '{{ vars.args }}', '{{ args }}', '{{ vars }}', '{{ ctx.event }}']}}]}]",
            r#"[3,3,4,{"x":1},{"args":4,"kind":3},5]"#,
        ),
        // The position's names take precedence over a key of the same name, which `workload.` still reaches.
        (
            "workload: {outcome: w, output: w, error: w, response: w, result: w, this: w, args: w, event: w}\nworkflow: [{step: start, tool: [{a: {kind: noop, result: {n: 1}, eval: [{else: {do: continue, set_prev: ['{{ outcome.status }}', '{{ output.n }}', '{{ error | default(0) }}', '{{ response.n }}', '{{ this.data.n }}', '{{ workload.output }}', '{{ workload.args }}']}}]}}]}]",
            r#"["success",1,0,1,1,"w","w"]"#,
        ),
        // At positions without such a name, the key is read.
        (
            "workload: {event: w, output: w}\nworkflow: [{step: start, tool: {kind: noop, result: ['{{ event }}', '{{ output }}']}}]",
            r#"["w","w"]"#,
        ),
        (
            "vars: {v: 1}\nworkload: {n: 2}\nworkflow: [{step: start, tool: {kind: noop, result: ['{{ workload }}', '{{ vars.v }}']}}]",
            r#"[{"n":2,"x":1},1]"#,
        ),
    ] {
        let ran = run(text, r#"{"x": 1}"#).await;
        assert_eq!(ran.output(), output, "{text}\n{:?}", ran.report.error);
    }
}

/// After a join, the values of all tokens are available; for a duplicate name, the later step's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn args_after_a_join() {
    const TEXT: &str = "
workflow:
  - {step: start, next: [a, b, c]}
  - {step: a, next: [{step: j, args: {x: 1, both: a}}]}
  - {step: b, next: [{step: j, args: {y: 2, both: b}}]}
  - {step: c, next: [j]}
  - {step: j, spec: {join: all}, tool: {kind: noop, result: ['{{ args.x }}', '{{ y }}', '{{ args.both }}']}}
";
    assert_eq!(run(TEXT, "{}").await.output(), r#"[1,2,"b"]"#);
}

/// An error has the same fields in an arc as in a rule.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_in_arcs() {
    const WORDS: &str = "['{{ error.kind }}', '{{ error.code }}', '{{ error.status }}', '{{ error.retryable }}', '{{ outcome.error.kind }}', '{{ output.error.status }}', '{{ output.http.status }}', '{{ outcome.http.status }}', '{{ outcome.pg.code }}', '{{ output.status }}', '{{ output.data.why }}']";
    let call = "kind: http, url: 'http://x'";
    let in_rule = format!(
        "workflow: [{{step: start, tool: [{{a: {{{call}, eval: [{{else: {{do: continue, set_prev: {WORDS}}}}}]}}}}]}}]"
    );
    let in_arc = format!(
        "workflow: [{{step: start, tool: {{{call}}}, next: [{{step: b, when: '{{{{ error.status == 503 and error.retryable }}}}', args: {{words: {WORDS}}}}}]}}, {{step: b, tool: {{kind: noop, result: '{{{{ words }}}}'}}}}]"
    );
    let refused = |_: &str, _: &windlass_runtime::ToolCall| replied(503, r#"{"why": "busy"}"#);
    let rule = run_with(&in_rule, "{}", refused).await;
    let arc = run_with(&in_arc, "{}", refused).await;
    assert_eq!(arc.output(), rule.output(), "{:?} {:?}", arc.report.error, rule.report.error);
    assert_eq!(
        json(&arc.output()),
        json(r#"["server_error","503",503,true,"server_error",503,503,503,null,"error","busy"]"#)
    );
}

/// An error in an arc, a guard or a join, outside of any task, names the step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_name_their_step() {
    for (text, path, says) in [
        (
            "workload: {n: 1}\nworkflow: [{step: start, next: [{step: b, args: {x: '{{ n.no.such }}'}}]}, {step: b}]",
            "start",
            "has no property `no`",
        ),
        (
            "workload: {n: 1}\nworkflow: [{step: start, next: [b]}, {step: b, when: '{{ n.no }}'}]",
            "b",
            "has no property `no`",
        ),
        (
            "workload: {n: 1}\nworkflow: [{step: start, next: [a, b]}, {step: a, next: [j]}, {step: b, next: [{step: j, when: '{{ n == 2 }}'}]}, {step: j, spec: {join: all}}]",
            "j",
            "`j` waits for a token of `b`",
        ),
    ] {
        let ran = run(text, "{}").await;
        let error = ran.report.error.clone().unwrap();
        assert_eq!(&*error.path, path, "{error:?}");
        assert!(error.message.contains(says), "{error:?}");
    }
}
