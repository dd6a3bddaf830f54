//! The canonical form and the v10 form executed by the engine: one playbook and its result per row.

use crate::world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::Tools;
use windlass_value::{Value, to_json};
use world::{json, obliging, replied, run, run_plans, run_tools, run_with};

/// A step's tasks, and the result of the run.
type Row = (&'static str, &'static str);

async fn check_tasks(rows: &[Row]) {
    for (tasks, expected) in rows {
        let text = format!("workload: {{n: 3}}\nworkflow:\n  - step: start\n    tool: {tasks}\n");
        let ran = run(&text, "{}").await;
        assert_eq!(ran.output(), *expected, "{tasks} {:?}", ran.report.error);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directives() {
    check_tasks(&[
        // Without rules: the result of the last task.
        ("{kind: noop, result: {a: '{{ n }}'}}", r#"{"a":3}"#),
        ("[{a: {kind: noop, result: 1}}, {b: {kind: noop}}]", "1"),
        ("[{a: {kind: noop, result: 1}}, {b: {kind: noop, result: '{{ _prev + 1 }}'}}]", "2"),
        ("[{a: {kind: noop, result: 1}}, {b: {kind: noop, result: 5}}, {c: {kind: noop, result: '{{ a + b }}'}}]", "6"),
        // break, jump, fail, continue with another `_prev`
        ("[{a: {kind: noop, result: 1, eval: [{else: {do: break}}]}}, {b: {kind: noop, result: 2}}]", "1"),
        ("[{a: {kind: noop, result: 1, eval: [{else: {do: jump, to: c}}]}}, {b: {kind: noop, result: 2}}, {c: {kind: noop}}]", "1"),
        ("[{a: {kind: noop, result: 1, eval: [{else: {do: continue, set_prev: 7}}]}}, {b: {kind: noop}}]", "7"),
        ("[{a: {kind: noop, eval: [{else: {do: fail}}]}}]", "failed RuleFailed"),
        // The first match wins; without a match, a success continues.
        ("[{a: {kind: noop, result: 1, eval: [{expr: '{{ outcome.result == 2 }}', do: fail}]}}]", "1"),
        ("[{a: {kind: noop, result: 1, eval: [{expr: '{{ true }}', do: continue, set_prev: 1}, {expr: '{{ true }}', do: fail}]}}]", "1"),
        // A failing template is the task's error, which rules see.
        ("[{a: {kind: noop, result: '{{ 1 / 0 }}'}}]", "failed InvalidTemplate"),
        ("[{a: {kind: noop, result: '{{ 1 / 0 }}', eval: [{expr: \"{{ outcome.status == 'error' }}\", do: continue, set_prev: '{{ outcome.error.code }}'}]}}]", r#""InvalidTemplate""#),
        // Types survive.
        ("{kind: noop, result: ['007', '1e5', 'null', 'True', '[1]', '{{ none }}', '{{ n }} of {{ n }}', '{{ [n] }}']}", r#"["007","1e5","null","True","[1]",null,"3 of 3",[3]]"#),
        ("{kind: noop, result: '{{ nothing_here | default(5) }}'}", "5"),
        // Names of the pipeline.
        ("[{a: {kind: noop, result: ['{{ _task }}', '{{ _attempt }}']}}]", r#"["a",1]"#),
        ("[{a: {kind: noop, eval: [{else: {do: continue, set_vars: {x: 1}, set_ctx: {y: 2}}}]}}, {b: {kind: noop, result: ['{{ vars.x }}', '{{ ctx.y }}', '{{ y }}']}}]", "[1,2,2]"),
    ])
    .await;
}

/// Fails a number of times, then returns the number of attempts.
fn failing(times: u32) -> impl Fn(&str, &windlass_runtime::ToolCall) -> TaskOutcome + Send + Sync + 'static {
    let tries = AtomicU32::new(0);
    move |_, _| match tries.fetch_add(1, Ordering::SeqCst) {
        tried if tried < times => replied(503, "null"),
        tried => replied(200, &format!("{}", tried + 1)),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries() {
    let fetch = |eval: &str| {
        format!(
            "workflow:\n  - step: start\n    tool:\n      - fetch: {{kind: http, url: 'http://x', eval: {eval}}}\n      - got: {{kind: noop, result: '{{{{ _prev.data }}}}'}}\n"
        )
    };
    const RETRY: &str =
        "[{expr: \"{{ outcome.status == 'error' and outcome.http.status == 503 }}\", do: retry, attempts: 3, delay: 5}";
    for (eval, fails, expected, tries) in [
        (format!("{RETRY}]"), 2, "3", 3),
        // `attempts` is the total number of attempts; then nothing matches, and an error fails.
        (format!("{RETRY}]"), 3, "failed 503", 3),
        // After the last attempt, the next entry applies.
        (
            format!(
                "{RETRY}, {{expr: \"{{{{ outcome.status == 'error' }}}}\", do: continue, set_prev: {{data: spent}}}}]"
            ),
            9,
            r#""spent""#,
            3,
        ),
        ("[]".to_owned(), 1, "failed 503", 1),
        ("[{expr: \"{{ outcome.error.code == '404' }}\", do: retry}]".to_owned(), 1, "failed 503", 1),
    ] {
        let ran = run_with(&fetch(&eval), "{}", failing(fails)).await;
        assert_eq!((ran.output().as_str(), ran.calls.len()), (expected, tries), "{eval}");
    }
}

/// A delay without a backoff is constant; linear and exponential ones grow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delays() {
    for (how, seconds) in [
        ("delay: 5", 15),
        ("delay: 5, backoff: none", 15),
        ("delay: 5, backoff: linear", 30),
        ("delay: 5, backoff: exponential", 35),
        ("backoff: exponential", 7),
        ("attempts: 4", 0),
    ] {
        let text = format!(
            "workflow:\n  - step: start\n    tool:\n      - f: {{kind: http, url: 'http://x', eval: [{{expr: \"{{{{ outcome.status == 'error' }}}}\", do: retry, {} {how}}}]}}\n",
            if how.contains("attempts") { "" } else { "attempts: 4," }
        );
        let ran = run_with(&text, "{}", failing(3)).await;
        let (first, last) = (ran.events.first().unwrap().at, ran.events.last().unwrap().at);
        assert_eq!(last.since(first).as_ms() / 1_000, seconds, "{how}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes() {
    for (text, expected) in [
        // Exclusive: the first match; an arc without `when` always matches.
        (
            "[{step: start, next: [{step: a, when: '{{ 1 == 2 }}'}, {step: b, args: {n: 4}}]}, {step: a}, {step: b, tool: {kind: noop, result: '{{ args.n }}'}}]",
            "4",
        ),
        // No arc matches: the token ends here.
        (
            "[{step: start, tool: {kind: noop, result: 1}, next: [{step: a, when: '{{ false }}'}]}, {step: a, tool: {kind: noop, result: 2}}]",
            "1",
        ),
        // A guard that is false consumes the token.
        (
            "[{step: start, tool: {kind: noop, result: 1}, next: [a]}, {step: a, when: '{{ start == 2 }}', tool: {kind: noop, result: 2}}]",
            "1",
        ),
        (
            "[{step: start, tool: {kind: noop, result: 1}, next: [a]}, {step: a, when: '{{ start == 1 }}', tool: {kind: noop, result: 2}}]",
            "2",
        ),
        // Inclusive: all arcs fire, and a join waits for both.
        (
            "[{step: start, spec: {next_mode: inclusive}, next: [{step: a}, {step: b}]}, {step: a, tool: {kind: noop, result: 1}, next: [{step: c}]}, {step: b, tool: {kind: noop, result: 2}, next: [{step: c}]}, {step: c, spec: {join: all}, tool: {kind: noop, result: ['{{ a }}', '{{ b }}']}}]",
            "[1,2]",
        ),
        // A failed step: only arcs with a condition count, and a missing value means false.
        (
            "[{step: start, tool: {kind: noop, eval: [{else: {do: fail}}]}, next: [{step: a}]}, {step: a}]",
            "failed RuleFailed",
        ),
        (
            "[{step: start, tool: {kind: noop, eval: [{else: {do: fail}}]}, next: [{step: a, when: \"{{ event.name == 'step.failed' }}\"}]}, {step: a, tool: {kind: noop, result: rescued}}]",
            r#""rescued""#,
        ),
        (
            "[{step: start, tool: {kind: noop, eval: [{else: {do: fail}}]}, next: [{step: a, when: '{{ start.x.y > 1 }}'}, {step: b, when: '{{ error.code == \"RuleFailed\" }}'}]}, {step: a}, {step: b, tool: {kind: noop, result: b}}]",
            r#""b""#,
        ),
        (
            "[{step: start, tool: {kind: noop, result: 1}, next: [{step: a, when: '{{ start.x.y > 1 }}'}]}, {step: a}]",
            "failed InvalidTemplate",
        ),
        // Arcs that lead back: paging by tokens.
        (
            "[{step: start, tool: {kind: noop, result: '{{ (ctx.n | default(0)) + 1 }}', eval: [{else: {do: continue, set_ctx: {n: '{{ outcome.result }}'}}}]}, next: [{step: start, when: '{{ ctx.n < 5 }}'}]}]",
            "5",
        ),
        // A step without a tool only routes; without a step called start, the first step is the entry.
        (
            "[{step: first, next: second}, {step: second, tool: {kind: noop, result: '{{ execution_id is integer }}'}}]",
            "true",
        ),
    ] {
        let ran = run(&format!("workflow: {text}\n"), "{}").await;
        assert_eq!(ran.output(), expected, "{text} {:?}", ran.report.error);
    }
}

/// A condition that says nothing about the failure must not turn it into a success.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_step_takes_only_arcs_that_look_at_the_failure() {
    const BREAKS: &str = "eval: [{else: {do: fail, set_ctx: {why: late}}}]";
    for (arcs, expected) in [
        ("[{step: a, when: \"{{ workload.mode == 'full' }}\"}]", "failed RuleFailed"),
        ("[{step: a, when: '{{ true }}'}]", "failed RuleFailed"),
        ("[{step: a, when: \"{{ workload.mode == 'full' }}\"}, {step: b, when: '{{ error is defined }}'}]", "b"),
        ("[{step: a, when: \"{{ event.name == 'step.failed' and workload.mode == 'full' }}\"}]", "a"),
        ("[{step: a, when: \"{{ outcome.status == 'error' }}\"}]", "a"),
        ("[{step: a, when: \"{{ output.status == 'error' }}\"}]", "a"),
        ("[{step: a, when: \"{{ output.status != 'ready' }}\"}]", "failed RuleFailed"),
        ("[{step: a, when: '{{ output is none or output != 1 }}'}]", "failed RuleFailed"),
        ("[{step: a, when: \"{{ ctx.why == 'late' }}\"}]", "a"),
        ("[{step: a, when: \"{{ why == 'late' }}\"}]", "a"),
        ("[{step: a, spec: {on: [failed]}}]", "a"),
        ("[{step: a}, {step: b, spec: {on: [failed]}}]", "b"),
        ("[{step: a, when: \"{{ workload.mode == 'full' }}\", spec: {on: [done, failed]}}]", "a"),
        ("[{step: a, when: \"{{ error.code == 'RuleFailed' }}\", spec: {on: [done]}}]", "failed RuleFailed"),
        ("[{step: a, when: \"{{ workload.mode == 'part' }}\", spec: {on: [failed]}}]", "failed RuleFailed"),
    ] {
        for mode in ["exclusive", "inclusive"] {
            let text = format!(
                "workload: {{mode: full}}\nworkflow: [{{step: start, spec: {{next_mode: {mode}}}, tool: {{kind: noop, {BREAKS}}}, next: {arcs}}}, {{step: a, tool: {{kind: noop, result: a}}}}, {{step: b, tool: {{kind: noop, result: b}}}}]\n"
            );
            let ran = run(&text, "{}").await;
            assert_eq!(ran.output().trim_matches('"'), expected, "{mode} {arcs} {:?}", ran.report.error);
        }
    }
}

/// A rule that fails the step may set its result, and an arc may look at that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_arc_reads_the_result_that_a_failing_rule_sets() {
    const TEXT: &str = "workflow: [{step: start, tool: {kind: noop, eval: [{else: {do: fail, set_prev: {reason: late}}}]}, next: [{step: a, when: \"{{ output.reason == 'late' }}\"}]}, {step: a, tool: {kind: noop, result: a}}]\n";
    let ran = run(TEXT, "{}").await;
    assert_eq!(ran.output(), r#""a""#, "{:?}", ran.report.error);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workloads() {
    const TEXT: &str = "workload: {a: {x: 1, y: 2}, b: 3}\nworkflow: [{step: start, tool: {kind: noop, result: ['{{ workload.a.x }}', '{{ a.y }}', '{{ b }}', '{{ workload.c | default(0) }}']}}]\n";
    assert_eq!(run(TEXT, "{}").await.output(), "[1,2,3,0]");
    assert_eq!(run(TEXT, r#"{"a": {"y": 9}, "c": 4}"#).await.output(), "[1,9,3,4]");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loops_in_order() {
    const TEXT: &str = "
workload: {items: [5, 6, 7]}
workflow:
  - step: start
    loop: {in: '{{ workload.items }}', iterator: n}
    tool:
      - init: {kind: noop, eval: [{else: {do: continue, set_iter: {seen: '{{ iter.seen | default(0) + 1 }}'}, set_vars: {sum: '{{ vars.sum | default(0) + iter.n }}'}}}]}
      - give: {kind: noop, result: ['{{ iter.index }}', '{{ iter.n }}', '{{ n }}', '{{ iter.seen }}', '{{ _loop.count }}']}
    next: [{step: end, when: \"{{ event.name == 'loop.done' }}\", args: {sum: '{{ vars.sum }}'}}]
  - step: end
    tool: {kind: noop, result: ['{{ start.results }}', '{{ start.stats }}', '{{ sum }}']}
";
    let ran = run(TEXT, "{}").await;
    assert_eq!(ran.output(), r#"[[[0,5,5,1,3],[1,6,6,1,3],[2,7,7,1,3]],{"total":3,"success":3,"failed":0},18]"#);
    assert_eq!(ran.event_paths("loop.iteration.done").len(), 3);
    assert_eq!(ran.event_paths("step.done"), ["start", "end"]);
    assert_eq!((ran.event_paths("loop.started"), ran.event_paths("loop.done")), (vec!["start"], vec!["start"]));
}

/// `break` ends the iteration, `fail` the step; iterations that have not started do not start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loops_that_stop() {
    for (rule, expected, iterations) in [
        (
            "{expr: '{{ iter.n == 2 }}', do: break, set_prev: stopped}",
            r#"{"results":[1,"stopped",3],"stats":{"total":3,"success":3,"failed":0}}"#,
            3,
        ),
        ("{expr: '{{ iter.n == 2 }}', do: fail}", "failed RuleFailed", 2),
    ] {
        let text = format!(
            "workflow: [{{step: start, loop: {{in: [1, 2, 3], iterator: n}}, tool: [{{a: {{kind: noop, result: '{{{{ iter.n }}}}', eval: [{rule}]}}}}, {{b: {{kind: noop}}}}]}}]\n"
        );
        let ran = run(&text, "{}").await;
        assert_eq!((ran.output().as_str(), ran.event_paths("loop.iteration.started").len()), (expected, iterations));
    }
}

/// Iterations run concurrently, exactly as many as allowed; they have their own variables, and shared ones need a
/// reducer.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_loops() {
    const TEXT: &str = "
workload: {items: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]}
workflow:
  - step: start
    loop: {spec: {mode: parallel, max_in_flight: 4}, in: '{{ items }}', iterator: n}
    tool:
      - keep: {kind: noop, eval: [{else: {do: continue, set_iter: {mine: '{{ iter.n }}'}, set_vars: {last: '{{ iter.n }}'}}}]}
      - work: {kind: shell, command: 'true', input: {n: '{{ iter.n }}'}}
      - give:
          kind: noop
          result: ['{{ iter.mine }}', '{{ last }}', '{{ iter.index + 1 }}']
          eval: [{else: {do: continue, set_shared: {total: {sum: '{{ iter.n }}'}, highest: {max: '{{ iter.n }}'}, all: {append: '{{ iter.n }}'}, ctx.count: {sum: 1}}}}]
    next: [{step: end, args: {total: '{{ vars.total }}', highest: '{{ vars.highest }}', all: '{{ vars.all | sort }}', last: '{{ vars.last | default(none) }}'}}]
  - step: end
    tool: {kind: noop, result: ['{{ start.results }}', '{{ args.total }}', '{{ args.highest }}', '{{ args.all | length }}', '{{ args.last }}', '{{ ctx.count }}']}
";
    let (inside, max_in_flight) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // No call returns before four are in flight: the loop reaches its limit, or it hangs.
    let barrier = Arc::new(tokio::sync::Barrier::new(4));
    let (counted, peak) = (inside.clone(), max_in_flight.clone());
    let tools = Tools::new().with_fn("shell", move |_| {
        let (counted, peak, barrier) = (counted.clone(), peak.clone(), barrier.clone());
        async move {
            peak.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            barrier.wait().await;
            counted.fetch_sub(1, Ordering::SeqCst);
            TaskOutcome::success(Value::Null)
        }
    });
    let (report, _) = run_tools(&[TEXT], "{}", tools).await;
    let results: Vec<String> = (1..=12).map(|n| format!("[{n},{n},{n}]")).collect();
    let expected = format!("[[{}],78,12,12,null,12]", results.join(","));
    assert_eq!(to_json(&report.output), expected, "{:?}", report.error);
    assert_eq!(max_in_flight.load(Ordering::SeqCst), 4);
}

/// The example of the specification: paging by a jump, each page saved, with a deadlock of the database in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_by_jump() {
    const TEXT: &str = include_str!("cases/ok/seed_pagination.yaml");
    let saves = AtomicU32::new(0);
    let ran = run_with(
        TEXT,
        r#"{"endpoints": [{"path": "/a", "page_size": 2}, {"path": "/b", "page_size": 2}]}"#,
        move |tool, call| match tool {
            "http_call" => {
                let page = call.input.get("params").unwrap().get("page").unwrap().as_int().unwrap();
                replied(
                    200,
                    &format!(
                        r#"{{"data": [{page}, "O'Neil"], "paging": {{"hasMore": {}, "page": {page}}}}}"#,
                        page < 3
                    ),
                )
            }
            _ if saves.fetch_add(1, Ordering::SeqCst) == 1 => {
                let facts = json(r#"{"pg": {"code": "40P01", "message": "deadlock"}}"#);
                TaskOutcome { facts, ..TaskOutcome::failure(ErrorInfo::new("40P01", "pg", "deadlock")) }
            }
            _ => obliging(tool, call),
        },
    )
    .await;
    assert_eq!(ran.report.status.as_str(), "succeeded", "{:?}", ran.report.error);
    assert_eq!(
        ran.inputs_at("http_call", &["url"])[..4],
        [
            r#""http://api.example.com/a""#,
            r#""http://api.example.com/a""#,
            r#""http://api.example.com/a""#,
            r#""http://api.example.com/b""#
        ]
    );
    assert_eq!(ran.inputs_at("http_call", &["params", "page"]), ["1", "2", "3", "1", "2", "3"]);
    // Six pages and one retry; values are parameters of the statement, never part of it.
    assert_eq!(ran.calls.iter().filter(|call| call.tool == "postgres").count(), 7);
    assert_eq!(ran.inputs_at("postgres", &["statements", "0", "params", "1"])[0], r#""[1,\"O'Neil\"]""#);
    assert!(ran.inputs_at("postgres", &["statements", "0", "sql"]).iter().all(|sql| !sql.contains("Neil")));
    assert_eq!(ran.event_paths("step.done"), ["fetch_all_endpoints", "validate_results"]);
    assert_eq!(ran.paths()[0], "fetch_all_endpoints[0].fetch_page");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_loop_takes_its_arc() {
    const TEXT: &str = include_str!("cases/ok/seed_pagination.yaml");
    let ran = run_with(TEXT, "{}", |tool, call| match tool {
        "http_call" => replied(404, "null"),
        _ => obliging(tool, call),
    })
    .await;
    assert_eq!((ran.report.status.as_str(), ran.calls.len()), ("succeeded", 1));
    assert_eq!(
        (ran.event_paths("step.failed"), ran.event_paths("step.done")),
        (vec!["fetch_all_endpoints"], vec!["cleanup"])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_v10_form() {
    const TEXT: &str = include_str!("cases/ok/v10.yaml");
    let ran = run_with(TEXT, "{}", |tool, call| match tool {
        "http_call" => replied(200, r#"{"total": 2}"#),
        "python" if call.path.starts_with("fetch.") => {
            let more = call.path.starts_with("fetch.") && call.input.get("args").is_some();
            TaskOutcome::success(Value::object([
                ("next", Value::Int(9)),
                ("more", Value::Bool(more)),
                ("items", json("[1, 2]")),
            ]))
        }
        "python" if call.path.starts_with("each") => {
            let n = call.input.get("args").and_then(|args| args.get("n")).and_then(Value::as_int).unwrap();
            TaskOutcome::success(Value::Int(n * 2))
        }
        _ => obliging(tool, call),
    })
    .await;
    assert_eq!(ran.report.status.as_str(), "succeeded", "{:?}", ran.report.error);
    assert_eq!(ran.inputs_at("http_call", &["url"]), [r#""http://api/1""#]);
    assert_eq!(ran.inputs_at("python", &["args"]).last().unwrap(), r#"{"why":"none","round":null}"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_of_arcs_and_steps() {
    const TEXT: &str = "
workflow:
  - step: start
    tool: {kind: noop, result: {n: 1}}
    set: {ctx.a: '{{ start.n }}', step.b: 2}
    next:
      arcs:
        - {step: end, when: '{{ ctx.a == 1 and vars.b == 2 }}', set: {ctx.c: '{{ ctx.a + 2 }}', d: '{{ output.n }}'}}
  - step: end
    tool: {kind: noop, result: ['{{ ctx.a }}', '{{ ctx.c }}', '{{ d }}', '{{ input.d }}']}
";
    let ran = run(TEXT, "{}").await;
    assert_eq!(ran.output(), "[1,3,1,1]", "{:?}", ran.report.error);
    assert_eq!(ran.event_paths("ctx.patched").len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn children() {
    const CHILD: &str = "metadata: {name: child}\nworkload: {n: 1}\nworkflow: [{step: start, tool: {kind: noop, result: '{{ n * 10 }}'}}]\n";
    const TEXT: &str = "workflow: [{step: start, loop: {spec: {mode: parallel}, in: [1, 2], iterator: n}, tool: [{child: {kind: playbook, path: child, input: {n: '{{ iter.n }}'}}}, {more: {kind: noop, result: '{{ _prev + 1 }}'}}]}]\n";
    let ran = run_plans(&[CHILD, TEXT], "{}", obliging).await;
    assert_eq!(
        ran.output(),
        r#"{"results":[11,21],"stats":{"total":2,"success":2,"failed":0}}"#,
        "{:?}",
        ran.report.error
    );
}

/// Large results are references in events, and templates read through them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_results() {
    const TEXT: &str = "workflow: [{step: start, tool: [{get: {kind: http, url: 'http://x'}}, {count: {kind: noop, result: '{{ _prev.data.text | length }}'}}]}]\n";
    let ran = run_with(TEXT, "{}", |_, _| replied(200, &format!(r#"{{"text": "{}"}}"#, "x".repeat(200_000)))).await;
    assert_eq!(ran.output(), "200000");
    assert!(ran.events.iter().all(|event| to_json(&Value::map(event.fields())).len() < 10_000));
}

/// A loop in SQL passes the values of every item, typed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loops_in_sql() {
    const TEXT: &str = "
workload: {rows: [{a: 1, b: \"O'Neil }}\"}, {a: null, b: '007'}]}
workflow:
  - step: start
    tool:
      kind: postgres
      command: |
        {% for row in rows %}
        INSERT INTO t VALUES ({{ row.a }}, '{{ row.b | replace(\"'\", \"''\") }}', '{{ \"}}\" }}');
        {% endfor %}
";
    let ran = run(TEXT, "{}").await;
    let each = ran.inputs_at("postgres", &["statements", "0", "each"]);
    assert_eq!(
        each,
        [to_json(&Value::from(r#"[[[1,"O'Neil }}","}}"]],[[null,"007","}}"]]]"#))],
        "{:?}",
        ran.report.error
    );
}
