//! The retry form executed by the engine: policies, pages, sinks.

use crate::world;

use std::sync::atomic::{AtomicU32, Ordering};

use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::ToolCall;
use windlass_value::{Value, to_json};
use world::{obliging, replied, run_with};

const SEED: &str = include_str!("cases/ok/retry_seed.yaml");

/// Serves two pages for every patient.
fn pages(call: &ToolCall) -> TaskOutcome {
    let url = call.input.get("url").and_then(Value::as_str).unwrap().to_owned();
    let patient = url.split('/').nth(4).unwrap().to_owned();
    let page = call.input.get("params").unwrap().get("page").unwrap().as_int().unwrap();
    let paging = format!(r#"{{"hasMore": {}, "page": {page}, "pageSize": 50}}"#, page < 2);
    replied(200, &format!(r#"{{"data": ["{patient}-{page}a", "{patient}-{page}b"], "paging": {paging}}}"#))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_example() {
    let ran = run_with(SEED, "{}", |tool, call| match tool {
        "http_call" => pages(call),
        _ => obliging(tool, call),
    })
    .await;
    assert_eq!(ran.report.status.as_str(), "succeeded", "{:?}", ran.report.error);
    // For each patient: both pages, then its own sink; at the end the step's sink.
    let kinds: Vec<&str> = ran.calls.iter().map(|call| call.tool).collect();
    assert_eq!(
        kinds,
        ["http_call", "http_call", "postgres", "http_call", "http_call", "postgres", "postgres", "python"]
    );
    assert_eq!(ran.inputs_at("http_call", &["params", "page"]), ["1", "2", "1", "2"]);
    assert_eq!(ran.inputs_at("http_call", &["params", "pageSize"]), ["100", "50", "100", "50"]);
    let params = ran.inputs_at("postgres", &["statements", "0", "params"]);
    assert_eq!(
        params[0],
        r#"["p1","[\"p1-1a\",\"p1-1b\",\"p1-2a\",\"p1-2b\"]","[\"p1-1a\",\"p1-1b\",\"p1-2a\",\"p1-2b\"]"]"#
    );
    let (number, rest) = params[2].trim_start_matches('[').split_once(',').expect("several parameters");
    assert!(number.parse::<i64>().is_ok(), "`execution_id` is a number: {number}");
    assert_eq!(rest, "2,2,0]");
    assert!(ran.inputs_at("postgres", &["auth"]).iter().all(|alias| alias == r#""pg_main""#));
    // One `step.done` per step, none per iteration.
    assert_eq!(ran.event_paths("step.done"), ["fetch_medications", "validate_results"]);
    assert_eq!(ran.event_paths("loop.iteration.done").len(), 2);
    assert_eq!(ran.output(), r#"{"got":{"total":2,"success":2,"failed":0}}"#);
}

fn step(rest: &str) -> String {
    format!(
        "workload: {{ids: [a, b, c]}}\nworkflow:\n  - step: start\n    tool: http\n    url: http://x/{{{{ id | default('-') }}}}\n    params: {{page: 1}}\n{rest}\n"
    )
}

const EACH: &str = "    loop: {collection: '{{ ids }}', element: id}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_name_their_item() {
    let ran = run_with(&step(EACH), "{}", |_, call| {
        let url = to_json(call.input.get("url").unwrap());
        if url.contains("/b") { replied(404, "null") } else { replied(200, r#"{"n": 1}"#) }
    })
    .await;
    // A failed iteration is counted; the loop continues.
    let results = r#"{"id":"a","status":"success","data":{"n":1}},{"id":"b","status":"error","error":{"#;
    assert!(ran.output().starts_with(&format!(r#"{{"results":[{results}"#)), "{}", ran.output());
    assert!(ran.output().ends_with(r#""stats":{"total":3,"success":2,"failed":1}}"#), "{}", ran.output());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies() {
    const RETRY: &str = "    retry:\n      - {when: '{{ error.status == 429 }}', then: {max_attempts: 3, initial_delay: 60}}\n      - {when: '{{ error.status >= 500 }}', then: {max_attempts: 2, backoff_multiplier: 2.0}}\n";
    // The server's replies in order, the result of the run, and the number of calls.
    for (statuses, expected, calls) in [
        (&[200][..], "200", 1),
        (&[429, 429, 200], "200", 3),
        (&[429, 429, 429, 200], "failed 429", 3),
        // Attempts count separately for each policy.
        (&[429, 503, 429, 200], "200", 4),
        (&[503, 429, 503, 200], "failed 503", 3),
        (&[404, 200], "failed 404", 1),
    ] {
        let (next_call, all) = (AtomicU32::new(0), statuses.to_vec());
        let ran = run_with(&step(RETRY), "{}", move |_, _| {
            let status = all[next_call.fetch_add(1, Ordering::SeqCst) as usize];
            replied(status, &status.to_string())
        })
        .await;
        assert_eq!((ran.output().as_str(), ran.calls.len()), (expected, calls), "{statuses:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_without_a_loop() {
    let text = |max_attempts: u32, rest: &str| {
        step(&format!(
            "    retry:\n      - when: '{{{{ response.more }}}}'\n        then:\n          max_attempts: {max_attempts}\n          next_call: {{params: {{page: '{{{{ response.page + 1 }}}}'}}}}\n          collect: {{strategy: append, path: items}}\n{rest}"
        ))
    };
    let serve = |last: i64| {
        move |tool: &str, call: &ToolCall| match tool {
            "http_call" => {
                let page = call.input.get("params").unwrap().get("page").unwrap().as_int().unwrap();
                replied(200, &format!(r#"{{"items": [{page}], "page": {page}, "more": {}}}"#, page < last))
            }
            _ => obliging(tool, call),
        }
    };
    // The collected list is the step's result, also after a single page, and when the policy's calls are used up.
    for (max_attempts, last, expected) in [(100, 3, "[1,2,3]"), (100, 1, "[1]"), (2, 9, "[1,2]"), (1, 9, "[1]")] {
        let ran = run_with(&text(max_attempts, ""), "{}", serve(last)).await;
        assert_eq!(ran.output(), expected, "{max_attempts} of {last}: {:?}", ran.report.error);
    }
    let ran =
        run_with(&text(100, "    sink: {tool: postgres, statement: 'SELECT {{ result | length }}'}\n"), "{}", serve(3))
            .await;
    assert_eq!(
        (ran.output().as_str(), ran.inputs_at("postgres", &["statements", "0", "params"])),
        ("[1,2,3]", vec!["[3]".to_owned()])
    );
    assert_eq!(ran.event_paths("step.done"), ["start"]);
}

/// A failed page is retried by its own policy; the pages collected so far stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flaky_page() {
    const RETRY: &str = "    retry:\n      - {when: '{{ error.status >= 500 }}', then: {max_attempts: 2}}\n      - {when: '{{ response.more }}', then: {max_attempts: 9, next_call: {params: {page: '{{ response.page + 1 }}'}}, collect: {path: items}, sink: {tool: postgres, table: pages}}}\n";
    let failed = AtomicU32::new(0);
    let ran = run_with(&step(RETRY), "{}", move |tool, call| match tool {
        "http_call" => {
            let page = call.input.get("params").unwrap().get("page").unwrap().as_int().unwrap();
            match page == 2 && failed.fetch_add(1, Ordering::SeqCst) == 0 {
                true => replied(500, "null"),
                false => {
                    replied(200, &format!(r#"{{"items": [{{"n": {page}}}], "page": {page}, "more": {}}}"#, page < 3))
                }
            }
        }
        _ => obliging(tool, call),
    })
    .await;
    assert_eq!(ran.output(), r#"[{"n":1},{"n":2},{"n":3}]"#, "{:?}", ran.report.error);
    assert_eq!(ran.inputs_at("http_call", &["params", "page"]), ["1", "2", "2", "3"]);
    let params = ran.inputs_at("postgres", &["statements", "0", "params", "0"]);
    assert_eq!(params, [r#""[{\"n\":1},{\"n\":2},{\"n\":3}]""#]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sinks_that_fail() {
    let broken = || TaskOutcome::failure(ErrorInfo::new("23505", "pg", "twice"));
    const OWN: &str = "    retry: [{when: '{{ error is not defined }}', then: {sink: {tool: postgres, statement: 'SELECT {{ id }}'}}}]\n";
    // A sink of an iteration fails the iteration; the loop continues.
    let ran = run_with(&step(&format!("{EACH}{OWN}")), "{}", move |tool, call| match tool {
        "postgres" if to_json(&call.input).contains("\"b\"") => broken(),
        _ => obliging(tool, call),
    })
    .await;
    assert!(ran.output().ends_with(r#""stats":{"total":3,"success":2,"failed":1}}"#), "{}", ran.output());
    // The step's own sink fails the step, after all iterations.
    let ran = run_with(
        &step(&format!("{EACH}    sink: {{tool: postgres, statement: SELECT 1}}\n")),
        "{}",
        move |tool, call| match tool {
            "postgres" => broken(),
            _ => obliging(tool, call),
        },
    )
    .await;
    assert_eq!((ran.output().as_str(), ran.calls.len()), ("failed 23505", 4));
    assert_eq!(ran.event_paths("step.failed"), ["start"]);
}

/// The first matching policy applies: one sink for one kind, another for the rest, none after an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sinks_by_condition() {
    const SINKS: &str = "    retry:\n      - {when: \"{{ response.kind == 'a' }}\", then: {sink: {tool: postgres, statement: SELECT 'a'}}}\n      - {when: '{{ error is not defined }}', then: {sink: {tool: postgres, statement: SELECT 'b'}}}\n";
    for (status, body, sql) in [
        (200, r#"{"kind": "a"}"#, &["\"SELECT 'a'\""][..]),
        (200, r#"{"kind": "c"}"#, &["\"SELECT 'b'\""]),
        (404, "{}", &[]),
    ] {
        let ran = run_with(&step(SINKS), "{}", move |tool, call| match tool {
            "http_call" => replied(status, body),
            _ => obliging(tool, call),
        })
        .await;
        assert_eq!(ran.inputs_at("postgres", &["statements", "0", "sql"]), sql);
        if status == 200 {
            assert_eq!(ran.output(), body.replace(": ", ":"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_condition_holds() {
    let ran = run_with(&step("    loop: {while: '{{ _loop.index < 3 }}'}\n"), "{}", obliging).await;
    assert_eq!(ran.calls.len(), 3, "{:?}", ran.report.error);
    assert!(ran.output().ends_with(r#""stats":{"total":3,"success":3,"failed":0}}"#), "{}", ran.output());
    let ran = run_with(&step("    loop: {while: '{{ true }}'}\n"), "{}", obliging).await;
    assert_eq!((ran.output().as_str(), ran.calls.len()), ("failed LoopCountExceeded", 60));
}

/// An event, the variable and the entry report that the calls are used up before the last page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exhausted_continuations_are_reported() {
    let serve = |tool: &str, call: &ToolCall| match tool {
        "http_call" => {
            let url = to_json(call.input.get("url").unwrap());
            let page = call.input.get("params").unwrap().get("page").unwrap().as_int().unwrap();
            let last = if url.contains("/b") { 2 } else { 9 };
            replied(200, &format!(r#"{{"items": [{page}], "page": {page}, "more": {}}}"#, page < last))
        }
        _ => obliging(tool, call),
    };
    const PAGES: &str = "    retry: [{when: '{{ response.more }}', then: {max_attempts: 2, next_call: {params: {page: '{{ response.page + 1 }}'}}, collect: {path: items}}}]\n";
    let ran = run_with(&step(&format!("{EACH}{PAGES}")), "{}", serve).await;
    let entry = |id: &str, more: &str| format!(r#"{{"id":"{id}","status":"success","data":[1,2]{more}}}"#);
    let cut = r#","reason":"count""#;
    let results = [entry("a", cut), entry("b", ""), entry("c", cut)].join(",");
    assert_eq!(ran.output(), format!(r#"{{"results":[{results}],"stats":{{"total":3,"success":3,"failed":0}}}}"#));
    let count_reasons = |ran: &world::RunOutcome| {
        let patches = ran.events.iter().filter(|event| event.type_name() == "ctx.patched");
        patches.filter(|event| to_json(&Value::map(event.fields())).contains("_reason")).count()
    };
    assert_eq!(count_reasons(&ran), 2);
    // Without a loop, arcs see it.
    let next = "    next: [{step: cut, when: \"{{ vars._reason is defined and vars._reason == 'count' }}\"}, {step: whole}]\n  - step: cut\n  - step: whole\n";
    let ran = run_with(&step(&format!("{PAGES}{next}")), "{}", serve).await;
    assert_eq!(
        (ran.event_paths("step.done"), count_reasons(&ran)),
        (vec!["start", "cut"], 1),
        "{:?}",
        ran.report.error
    );
}

/// Any tool can be called again with other inputs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_calls_of_other_tools() {
    const THEN: &str = "when: '{{ response.more }}', then: {max_attempts: 9, collect: {path: items}, next_call: ";
    for (tool, step, next, expected) in [
        (
            "python",
            "code: x\n    args: {n: 1, keep: 7}",
            "{args: {n: '{{ response.n + 1 }}'}}",
            r#"{"n":1,"keep":7} {"n":2,"keep":7} {"n":3,"keep":7}"#,
        ),
        ("python", "code: x\n    input: {n: 1}", "{args: {n: '{{ response.n + 1 }}'}}", r#"{"n":1} {"n":2} {"n":3}"#),
        (
            "postgres",
            "auth: pg\n    command: 'SELECT * FROM t WHERE id > {{ 0 }}'",
            "{query: 'SELECT * FROM t WHERE id > {{ response.n }}'}",
            "0 1 2",
        ),
        ("shell", "command: 'next {{ 0 }}'", "{command: 'next {{ response.n }}'}", "0 1 2"),
    ] {
        let text =
            format!("workflow:\n  - step: start\n    tool: {tool}\n    {step}\n    retry: [{{{THEN}{next}}}}}]\n");
        let calls = AtomicU32::new(0);
        let ran = run_with(&text, "{}", move |_, _| {
            let n = calls.fetch_add(1, Ordering::SeqCst) + 1;
            TaskOutcome::success(world::json(&format!(r#"{{"n": {n}, "items": [{n}], "more": {}}}"#, n < 3)))
        })
        .await;
        assert_eq!(ran.output(), "[1,2,3]", "{text} {:?}", ran.report.error);
        let path: &[&str] = match tool {
            "python" => &["args"],
            "postgres" => &["statements", "0", "params", "0"],
            _ => &["values", "WINDLASS_VALUE_1"],
        };
        assert_eq!(ran.inputs_at(tool, path).join(" "), expected, "{text}");
    }
}

/// Also child runs: each call is a separate child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_calls_of_children() {
    const CHILD: &str = "metadata: {name: child}\nworkload: {n: 0}\nworkflow: [{step: start, tool: {kind: noop, result: {n: '{{ n }}', more: '{{ n < 3 }}'}}}]\n";
    const TEXT: &str = "workflow:\n  - step: start\n    tool: playbook\n    path: child\n    input: {n: 1}\n    retry: [{when: '{{ response.more }}', then: {next_call: {input: {n: '{{ response.n + 1 }}'}}, collect: {path: n}}}]\n";
    let ran = world::run_plans(&[CHILD, TEXT], "{}", obliging).await;
    assert_eq!(ran.output(), "[1,2,3]", "{:?}", ran.report.error);
}
