//! Tokens and their events: their run, their target, their payload; and the events of a run.

use crate::world;

use windlass_core::Event;
use windlass_value::{Value, to_json};
use world::{obliging, run, run_plans, run_with};

/// Returns kind and path of each event.
fn event_lines(events: &[Event]) -> Vec<String> {
    let shown = |event: &Event| format!("{} {}", event.type_name(), event.path);
    events.iter().map(|event| shown(event).trim_end().to_owned()).collect()
}

fn data(events: &[Event], kind: &str, path: &str) -> String {
    let found = events.iter().find(|event| event.type_name() == kind && &*event.path == path);
    found.map(|event| to_json(&Value::map(event.fields()))).unwrap_or_default()
}

/// All events, in order, of a run with a task, a guard, a loop and a write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_of_a_run() {
    const TEXT: &str = "
workload: {n: 1}
workflow:
  - step: start
    tool: [{fetch: {kind: http, url: 'http://x', eval: [{else: {do: continue, set_ctx: {c: '{{ outcome.result.status_code }}'}}}]}}]
    next: [{step: each, args: {x: '{{ ctx.c }}'}}]
  - step: each
    loop: {in: [1, 2], iterator: n}
    tool: [{one: {kind: python, code: x}}]
    next: [{step: never}]
  - {step: never, when: '{{ false }}'}
";
    let ran = run(TEXT, "{}").await;
    assert_eq!(
        event_lines(&ran.events),
        [
            "playbook.execution_requested",
            "workflow.started",
            "step.started start",
            "task.started start.fetch",
            "ctx.patched start",
            "task.processed start.fetch",
            "step.done start",
            "step.started each",
            "loop.started each",
            "loop.iteration.started each[0]",
            "task.started each[0].one",
            "task.processed each[0].one",
            "loop.iteration.done each[0]",
            "loop.iteration.started each[1]",
            "task.started each[1].one",
            "task.processed each[1].one",
            "loop.iteration.done each[1]",
            "loop.done each",
            "step.done each",
            "step.skipped never",
            "workflow.finished",
        ]
    );
    // A change of `ctx` contains only the change.
    assert_eq!(data(&ran.events, "ctx.patched", "start"), r#"{"scope":"run","patch":{"c":200}}"#);
    // An outcome has its task, its attempt and everything that the specification promises.
    let processed = data(&ran.events, "task.processed", "start.fetch");
    for part in [r#""task":"fetch""#, r#""attempt":1"#, r#""status":"success""#, r#""http":{"status":200"#] {
        assert!(processed.contains(part), "{part} in {processed}");
    }
}

/// A step's start event contains the values of its token; the first token carries the run's input.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_started_events_carry_the_token_args() {
    const TEXT: &str = "
workload: {n: 1, m: 2}
workflow:
  - step: start
    next: [{step: work, args: {x: '{{ n }}'}}]
  - step: work
    tool: {kind: noop, result: '{{ args.x }}'}
    next: [{step: work, when: '{{ args.x < 3 }}', args: {x: '{{ args.x + 1 }}'}}]
";
    let ran = run(TEXT, r#"{"n": 2}"#).await;
    let started: Vec<String> = ran
        .events
        .iter()
        .filter(|event| event.type_name() == "step.started")
        .map(|event| to_json(&Value::map(event.fields())))
        .collect();
    assert_eq!(
        started,
        [
            r#"{"kind":"route","token":"start","visit":1,"args":{"n":2,"m":2}}"#,
            r#"{"kind":"noop","token":"work","visit":1,"args":{"x":2}}"#,
            r#"{"kind":"noop","token":"work","visit":2,"args":{"x":3}}"#,
        ]
    );
}

/// Two concurrent tokens in one step have their own arguments and variables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_tokens_in_one_step() {
    const TEXT: &str = "
workflow:
  - step: start
    spec: {next_mode: inclusive}
    next: [{step: work, args: {x: 1}}, {step: work, args: {x: 2}}]
  - step: work
    tool:
      - keep: {kind: python, code: x, args: {gives: '{{ args.x }}'}, eval: [{else: {do: continue, set_vars: {mine: '{{ outcome.result }}'}}}]}
      - give: {kind: noop, result: '{{ [args.x, vars.mine] }}', eval: [{else: {do: continue, set_shared: {ctx.pairs: {append: '{{ outcome.result }}'}}}}]}
    next: [{step: end, when: '{{ ctx.pairs | length == 2 }}'}]
  - step: end
    tool: {kind: noop, result: '{{ ctx.pairs | sort }}'}
";
    assert_eq!(run(TEXT, "{}").await.output(), "[[1,1],[2,2]]");
}

/// The branches of a v10 fan-out meet once, after the last has ended; one that ends on the way has arrived.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn branches_of_a_v10_playbook_meet_once() {
    for (arc, guard, report, expected) in [
        ("true", "true", "", r#"[["report"],[1,2]]"#),
        ("false", "true", "", r#"[["report"],[1,null]]"#),
        ("true", "false", "", r#"[["report"],[1,null]]"#),
        ("true", "true", "spec: {join: none}, ", r#"[["report","report"],[1,2]]"#),
    ] {
        let text = format!(
            "
workflow:
  - step: start
    next: {{spec: {{mode: inclusive}}, arcs: [{{step: users}}, {{step: orders}}]}}
  - step: users
    tool: {{kind: noop, result: 1}}
    next: {{arcs: [{{step: report, set: {{users: '{{{{ users }}}}'}}}}]}}
  - step: orders
    next: {{arcs: [{{step: slow, when: '{{{{ {arc} }}}}'}}]}}
  - step: slow
    spec: {{policy: {{admit: {{rules: [{{when: '{{{{ true }}}}', then: {{allow: {guard}}}}}]}}}}}}
    tool: {{kind: python, code: x, input: {{gives: 2}}}}
    next: {{arcs: [{{step: report, set: {{orders: '{{{{ slow }}}}'}}}}]}}
  - {{step: report, {report}tool: {{kind: noop, result: ['{{{{ users | default(none) }}}}', '{{{{ slow | default(none) }}}}']}}}}
"
        );
        let ran = run(&text, "{}").await;
        let started = ran.events.iter().filter(|event| event.type_name() == "step.started");
        let reports: Vec<Value> =
            started.filter(|event| &*event.path == "report").map(|event| Value::from(&*event.path)).collect();
        let output = to_json(&Value::list(vec![Value::list(reports), world::json(&ran.output())]));
        assert_eq!(output, expected, "{:?}", ran.report.error);
    }
}

/// `join: all` waits for every token, also if they come from one step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_counts_tokens() {
    const TEXT: &str = "
workflow:
  - step: start
    spec: {next_mode: inclusive}
    next: [{step: work, args: {x: 1}}, {step: work, args: {x: 2}}]
  - step: work
    tool: {kind: python, code: x, args: {gives: '{{ args.x }}'}}
    next: [{step: end, args: {got: '{{ work }}'}}]
  - step: end
    spec: {join: all}
    tool: {kind: noop, eval: [{else: {do: continue, set_ctx: {n: '{{ (ctx.n | default(0)) + 1 }}'}, set_prev: '{{ (ctx.n | default(0)) + 1 }}'}}]}
";
    let ran = run(TEXT, "{}").await;
    assert_eq!(ran.output(), "1", "{:?}", ran.report.error);
}

/// A child run knows its parent, by its number, and the root run; its definition has a name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_runs_know_their_parent_and_trace() {
    const IDS: &str = "{kind: noop, result: ['{{ execution_id }}', '{{ parent_execution_id }}', '{{ trace_id }}', '{{ catalog_id }}']}";
    let alone = format!("metadata: {{name: alone}}\nworkflow: [{{step: start, tool: {IDS}}}]\n");
    let output = run(&alone, "{}").await.output();
    let (number, rest) = output.trim_start_matches('[').split_once(',').expect("several ids");
    assert!(number.len() >= 16 && number.parse::<i64>().is_ok(), "a number, not text: {output}");
    assert_eq!(rest, r#"null,"r","alone"]"#);
    let child = format!("metadata: {{name: child}}\nworkflow: [{{step: start, tool: {IDS}}}]\n");
    const MIDDLE: &str = "metadata: {name: middle}\nworkflow: [{step: start, tool: [{call: {kind: playbook, path: child}}, {both: {kind: noop, result: ['{{ execution_id }}', '{{ _prev[0] }}', '{{ _prev[1] }}', '{{ _prev[2] }}', '{{ _prev[3] }}']}}]}]\n";
    const TOP: &str = "workflow: [{step: start, tool: {kind: playbook, path: middle}}]\n";
    let output = run_plans(&[&child, MIDDLE, TOP], "{}", obliging).await.output();
    let ids: Vec<&str> = output.trim_matches(['[', ']']).split(',').map(|id| id.trim_matches('"')).collect();
    let [middle, child, parent, trace, definition] = ids[..] else { panic!("{output}") };
    assert_eq!((parent, trace, definition), (middle, "r", "child"), "{output}");
    assert!(
        child.parse::<i64>().unwrap() > parent.parse::<i64>().unwrap(),
        "later runs have greater numbers: {output}"
    );
}

/// The event of a failed task contains all facts of the call, the same as `outcome`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_in_events() {
    const TEXT: &str = "workflow: [{step: start, tool: [{a: {kind: http, url: 'http://x', eval: [{else: {do: continue, set_prev: ['{{ outcome.status }}', '{{ outcome.error.kind }}', '{{ outcome.error.retryable }}', '{{ outcome.http.status }}', '{{ outcome.pg.code }}', '{{ outcome.py.exception }}', '{{ outcome.meta.attempt }}']}}]}}]}]\n";
    let ran = run_with(TEXT, "{}", |_, _| world::replied(503, "null")).await;
    assert_eq!(ran.output(), r#"["error","server_error",true,503,null,null,1]"#, "{:?}", ran.report.error);
    let processed = data(&ran.events, "task.processed", "start.a");
    assert!(processed.contains(r#""status":"error""#) && processed.contains("503"), "{processed}");
}
