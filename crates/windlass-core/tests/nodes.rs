//! Pipelines, graphs, branches, and the common node settings: retries, timeout, output expression.

use crate::support;

use support::values::MemoryValues;
use support::world::{echo, refusal};
use support::*;
use windlass_core::plan::*;
use windlass_core::{ErrorInfo, Limits, Program, Status, StatusSet, TaskOutcome, TickKind};
use windlass_value::{Duration, Level, Value};

fn begun(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, Box::new(|_, _, _| Reply::Never));
    sim.start().drain_buffer();
    sim
}

fn ran(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, echo());
    sim.start().run();
    sim
}

fn pipeline(make: impl FnOnce(&mut Builder) -> Vec<Task>) -> Program {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, _| NodeKind::Pipeline(Pipeline { tasks: make(b) }));
    b.load()
}

fn lost() -> TaskOutcome {
    TaskOutcome::failure(ErrorInfo::new("lost", "connection", "no reply"))
}

fn code(sim: &Sim) -> String {
    sim.result().error.as_ref().map(|error| error.code.to_string()).unwrap_or_default()
}

fn failed_rule(b: &mut Builder, directive: Directive) -> TaskRule {
    let failed = b.condition(json(r#"{"$eq": [{"$get": [{"$var": "outcome"}, "status"]}, "error"]}"#));
    rule(Some(failed), directive)
}

// Pipelines.

#[test]
fn tasks_run_in_order_and_see_what_came_before() {
    let program = pipeline(|b| {
        let first = task("first", Action::Evaluate(b.expr("1")));
        let second = task("second", b.action(r#"[{"$var": "_prev"}, {"$var": "_task"}, {"$var": "_attempt"}]"#));
        let third = task("third", Action::Evaluate(b.expr(r#"{"got": {"$var": "_prev"}}"#)));
        vec![first, second, third]
    });
    let sim = ran(&program);
    assert_eq!(sim.output(), json(r#"{"got": [1, "second", 1]}"#));
    assert_eq!(&*sim.dispatched[0].key.path, "pipe.second");
}

/// One effect with a rule for its failure, then a task that returns what it can read.
fn with_rule(directive: Directive) -> Program {
    pipeline(|b| {
        let rule = TaskRule { previous: Some(b.expr("\"ruled\"")), ..failed_rule(b, directive) };
        let first = Task { rules: vec![rule], ..task("first", b.action("0")) };
        vec![first, task("second", Action::Evaluate(b.expr(r#"{"after": {"$var": "_prev"}}"#)))]
    })
}

#[test]
fn a_rule_decides_the_effect_of_a_failure() {
    let after = json(r#"{"after": "ruled"}"#);
    let ruled = Value::from("ruled");
    let cases = [
        (Directive::Continue, Status::Succeeded, after),
        (Directive::Break, Status::Succeeded, ruled.clone()),
        (Directive::Fail { status: Status::Failed, error: None }, Status::Failed, ruled),
    ];
    for (directive, status, output) in cases {
        let program = with_rule(directive);
        let mut sim = begun(&program);
        sim.fail("pipe.first");
        assert_eq!((sim.status(), sim.output()), (status, output));
    }
}

#[test]
fn without_a_rule_success_continues_and_an_error_fails() {
    let program = pipeline(|b| vec![task("a", b.action("1")), task("b", b.action("2"))]);
    let mut sim = begun(&program);
    sim.succeed("pipe.a", 1u32).fail("pipe.b");
    assert_eq!((sim.status(), code(&sim)), (Status::Failed, "500".to_owned()));
}

#[test]
fn a_jump_makes_each_visit_a_separate_effect() {
    let program = pipeline(|b| {
        let again = json(r#"{"$lt": [{"$get": [{"$var": "outcome"}, "result"]}, 3]}"#);
        let back = rule(Some(b.condition(again)), Directive::Jump(0));
        let first = task("first", b.action("0"));
        vec![first, Task { rules: vec![back], ..task("second", b.action("0")) }]
    });
    let mut sim = begun(&program);
    for visit in 1..=3u32 {
        sim.succeed("pipe.first", 0u32).succeed("pipe.second", visit);
    }
    assert_eq!(sim.output(), Value::Int(3));
    let visits: Vec<u32> = sim.dispatched.iter().map(|job| job.key.visit).collect();
    assert_eq!(visits, [0, 0, 1, 1, 2, 2]);
}

#[test]
fn an_endless_jump_reaches_the_limit() {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, _| {
        let forever = rule(None, Directive::Jump(0));
        let only = Task { rules: vec![forever], ..task("only", Action::Evaluate(b.expr("0"))) };
        NodeKind::Pipeline(Pipeline { tasks: vec![only] })
    });
    let program = b.load_with(Limits { max_pipeline_task_runs: 40, ..Limits::default() });
    assert_eq!(code(&ran(&program)), "TaskRunsExceeded");
}

#[test]
fn a_retry_waits_and_fails_after_its_attempts() {
    let program = pipeline(|b| {
        let mut policy = retry(3, secs(2));
        policy.backoff.growth = Growth::Exponential(3.0);
        vec![Task { retry: Some(policy), ..Task::new(b.action("0")) }]
    });
    let mut sim = begun(&program);
    sim.fail("pipe").advance(Duration::from_ms(1_999));
    assert!(sim.flights.is_empty());
    sim.advance(Duration::from_ms(1)).fail("pipe").advance(secs(5));
    assert!(sim.flights.is_empty());
    sim.advance(secs(1)).fail("pipe");
    assert_eq!((sim.status(), sim.dispatched.len(), sim.count("task.retrying")), (Status::Failed, 3, 2));
    assert_eq!(sim.dispatched.iter().map(|job| job.attempt).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn only_named_errors_are_retried() {
    for (on, tries) in [("500", 2), ("5xx", 2), ("http", 2), ("503", 1), ("timeout", 1), ("4xx", 1)] {
        let program = pipeline(|b| {
            let policy = Retry { on: vec![on.into()], ..retry(2, Duration::ZERO) };
            vec![Task { retry: Some(policy), ..Task::new(b.action("0")) }]
        });
        let mut sim = Sim::new(&program, Box::new(|_, _, _| Reply::fail()));
        sim.start().run();
        assert_eq!(sim.dispatched.len(), tries, "{on}");
    }
}

#[test]
fn an_attempt_under_the_same_key_sends_the_same_input() {
    let program = pipeline(|b| {
        let input = r#"{"try": {"$var": "_attempt"}, "at": {"$now": true}, "dice": {"$random": 1000000}}"#;
        let only = Task { retry: Some(retry(4, secs(1))), ..task("only", b.action(input)) };
        vec![only, task("end", Action::Evaluate(b.expr("0")))]
    });
    let mut sim = begun(&program);
    sim.reply("pipe.only", lost())
        .advance(secs(1))
        .reply("pipe.only", TaskOutcome::failure(refusal()))
        .advance(secs(1));
    let [first, second, third] = &sim.dispatched[..] else { panic!("three tries") };
    assert_eq!((&first.key, &first.input), (&second.key, &second.input), "no answer: the same key and input");
    assert_eq!((third.key.group, third.attempt), (1, 3), "a refusal is an answer");
    assert_ne!(third.input, first.input);
}

#[test]
fn an_input_that_cannot_be_evaluated_fails_the_task() {
    let program = pipeline(|b| {
        let go_on = failed_rule(b, Directive::Continue);
        let first = Task { rules: vec![go_on], ..task("first", b.action(r#"{"$fail": "no input"}"#)) };
        vec![first, task("second", Action::Evaluate(b.expr("\"went on\"")))]
    });
    let sim = ran(&program);
    assert_eq!((sim.output(), sim.dispatched.len()), (Value::from("went on"), 0));
}

#[test]
fn an_end_action_ends_the_whole_run() {
    for status in [Status::Succeeded, Status::Failed, Status::Cancelled] {
        let mut b = Builder::new();
        b.parallel(None, "root", |b, id| {
            let end = b.node(id, "end", |b, _| {
                let error = Some(b.expr(r#"{"code": "Because", "message": "so"}"#));
                NodeKind::single_task(Action::End { status, error })
            });
            vec![b.effect(id, "work", "0"), end]
        });
        let program = b.load();
        let mut sim = begun(&program);
        sim.advance(secs(10));
        assert_eq!(sim.status(), status);
        assert_eq!(code(&sim), if status == Status::Succeeded { "" } else { "Because" });
    }
}

// Variables, and values stored outside the state.

#[test]
fn writes_change_variables_by_their_own_rules() {
    let cases = [
        (WriteOp::Declare(VariableKind::Integer), "null", "0"),
        (WriteOp::Set, "\"a\"", "\"a\""),
        (WriteOp::AppendItem, "1", "[1]"),
        (WriteOp::AppendText, "\"a\"", "\"a\""),
        (WriteOp::Max, "4", "4"),
        (WriteOp::Min, "4", "4"),
        (WriteOp::Merge, r#"{"a": 1}"#, r#"{"a": 1}"#),
    ];
    for (op, value, expected) in cases {
        let mut b = Builder::new();
        b.write(None, "write", "x", op, value);
        let program = b.load();
        let sim = ran(&program);
        assert_eq!(sim.output().get("value"), Some(&json(expected)), "{op:?}");
    }
    for (op, value) in [(WriteOp::Add, "\"a\""), (WriteOp::Merge, "5"), (WriteOp::Declare(VariableKind::Boolean), "7")]
    {
        let mut b = Builder::new();
        b.write(None, "write", "x", op, value);
        let program = b.load();
        assert_eq!(code(&ran(&program)), "VariableKind", "{op:?}");
    }
}

#[test]
fn counting_defaults_to_one_and_rejects_null() {
    let counted = |value: Option<&str>| {
        let mut b = Builder::new();
        b.sequence(None, "root", |b, id| {
            let zero = b.write(id, "zero", "count", WriteOp::Set, "5");
            let write =
                VariableUpdate { value: value.map(|value| b.expr(value)), ..b.writes("count", WriteOp::Subtract, "0") };
            vec![zero, b.node(id, "less", |_, _| NodeKind::single_task(Action::Write(write)))]
        });
        let program = b.load();
        let sim = ran(&program);
        let error = sim.result().error.as_ref().map(|error| error.message.to_string());
        error.unwrap_or_else(|| format!("{:?}", sim.output().get("less").and_then(|less| less.get("value"))))
    };
    assert_eq!(counted(None), "Some(4)");
    assert_eq!(counted(Some("2")), "Some(3)");
    assert_eq!(counted(Some("null")), "the variable `count` must be changed by a number; found null");
}

#[test]
fn rule_writes_are_applied_once_even_if_a_value_must_be_loaded() {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| {
        let zero = b.write(id, "zero", "count", WriteOp::Set, "0");
        let large = b.evaluate(id, "large", r#"{"text": {"$text": 500}}"#);
        let write_map = b.write(id, "keep", "map", WriteOp::Set, r#"{"$node": "large"}"#);
        let count = b.node(id, "count", |b, _| {
            let writes = vec![b.writes("count", WriteOp::Add, "1"), b.writes("map", WriteOp::Merge, r#"{"more": 1}"#)];
            let rules = vec![TaskRule { writes, ..rule(None, Directive::Continue) }];
            NodeKind::Pipeline(Pipeline { tasks: vec![Task { rules, ..Task::new(b.action("0")) }] })
        });
        let length = r#"{"$len": {"$get": [{"$var": "map"}, "text"]}}"#;
        let last = b.evaluate(id, "last", &format!(r#"[{{"$var": "count"}}, {length}]"#));
        vec![zero, large, write_map, count, last]
    });
    let program = b.load_with(Limits { max_inline_bytes: 100, ..Limits::default() });
    let mut sim = Sim::new(&program, echo());
    sim.values = MemoryValues::forgetful();
    sim.start().run();
    assert!(sim.values.loads > 0);
    assert_eq!(sim.output().get("last"), Some(&json("[1, 500]")));
}

#[test]
fn equal_chunks_are_loaded_once() {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| {
        let looping = b.looping(id, "loop", |b, id| {
            let items = b.expr(r#"{"$range": 6}"#);
            each(items, 1, b.evaluate(id, "same", "2"))
        });
        vec![looping, b.write(id, "keep", "list", WriteOp::AppendItem, r#"{"$node": "loop"}"#)]
    });
    let program = b.load_with(Limits { loop_chunk_items: 2, ..Limits::default() });
    let mut sim = Sim::new(&program, echo());
    // The values refuse a load of what is resident, or of one chunk twice.
    sim.values = MemoryValues::forgetful();
    sim.start().run();
    assert_eq!(sim.output().get("loop"), Some(&json("[2, 2, 2, 2, 2, 2]")));
}

#[test]
fn levels_select_the_run_or_the_iteration() {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| {
        let looping = b.looping(id, "loop", |b, id| {
            let body = b.sequence(id, "body", |b, id| {
                let write = |b: &mut Builder, name: &str, level| {
                    let write = VariableUpdate { level, ..b.writes(name, WriteOp::Set, r#"{"$iteration": "index"}"#) };
                    b.node(id, name, |_, _| NodeKind::single_task(Action::Write(write)))
                };
                vec![write(b, "run", Level::Run), write(b, "iteration", Level::Iteration)]
            });
            repeat(3, body)
        });
        vec![looping, b.evaluate(id, "last", r#"[{"$var": "run"}, {"$var": "iteration"}]"#)]
    });
    let program = b.load();
    assert_eq!(ran(&program).output().get("last"), Some(&json("[2, null]")));
}

// Graphs and branches.

struct Wiring {
    after: &'static [(u32, &'static [Status])],
    fails: bool,
}

/// Runs a graph of children `c0`, `c1`, … with this wiring; returns the graph's status and the children that ran.
fn wired(ending: GraphStatusRule, wiring: &[Wiring]) -> (Status, Vec<String>) {
    let mut b = Builder::new();
    b.node(None, "graph", |b, id| {
        let child = |(at, wiring): (usize, &Wiring)| {
            let gives = if wiring.fails { r#"{"$fail": "as planned"}"# } else { "0" };
            let node = b.evaluate(Some(id), &format!("c{at}"), gives);
            let accepts = |statuses: &[Status]| StatusSet::from_statuses(statuses.iter().copied());
            let after = wiring
                .after
                .iter()
                .map(|(child, on)| GraphDependency { child: *child, accepts: accepts(on) })
                .collect();
            GraphChild { node, after, condition: None, group: None }
        };
        let children = wiring.iter().enumerate().map(child).collect();
        NodeKind::Graph(Graph { ending, ..graph(children) })
    });
    let program = b.load();
    let sim = ran(&program);
    (
        sim.status(),
        sim.paths("step.started").iter().filter_map(|path| path.strip_prefix("graph.")).map(str::to_owned).collect(),
    )
}

#[test]
fn a_skipped_node_names_the_unsuccessful_dependency() {
    let mut b = Builder::new();
    b.node(None, "graph", |b, id| {
        let (good, bad) = (Status::Succeeded, Status::Failed);
        let after =
            |child, on: &[Status]| GraphDependency { child, accepts: StatusSet::from_statuses(on.iter().copied()) };
        let child = |node, after| GraphChild { node, after, condition: None, group: None };
        let id = Some(id);
        NodeKind::Graph(graph(vec![
            child(b.evaluate(id, "fine", "0"), vec![]),
            child(b.evaluate(id, "fetch", r#"{"$fail": "as planned"}"#), vec![]),
            child(b.evaluate(id, "use", "0"), vec![after(0, &[good]), after(1, &[good, Status::TimedOut])]),
            child(b.evaluate(id, "store", "0"), vec![after(2, &[good, bad])]),
            child(
                b.evaluate(id, "seen", r#"[{"$error": "use"}, {"$error": "store"}]"#),
                vec![after(3, &[Status::Skipped])],
            ),
        ]))
    });
    let program = b.load();
    let output = ran(&program).output();
    let seen = output.get("seen").and_then(Value::as_list).unwrap();
    let message = |at: usize| seen[at].get("message").and_then(Value::as_str).unwrap().to_owned();
    assert_eq!(message(0), "`fetch` ended as Failed, and this runs only after Succeeded or TimedOut");
    assert_eq!(message(1), "`use` ended as Skipped, and this runs only after Succeeded or Failed");
}

#[test]
fn dependencies_decide_what_runs_and_leaves_decide_how_it_ends() {
    const OK: &[Status] = &[Status::Succeeded];
    const BAD: &[Status] = &[Status::Failed];
    const SKIPPED: &[Status] = &[Status::Skipped];
    let fine = Wiring { after: &[], fails: false };
    let broken = Wiring { after: &[], fails: true };
    let (good, failed) = (Status::Succeeded, Status::Failed);
    let ran = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let table = [
        // An unhandled failure.
        (vec![fine, broken], failed, failed, ran(&["c0", "c1"])),
        // A handled failure.
        (
            vec![Wiring { after: &[], fails: true }, Wiring { after: &[(0, BAD)], fails: false }],
            good,
            failed,
            ran(&["c0", "c1"]),
        ),
        // A skipped leaf passes the decision to its dependencies.
        (
            vec![Wiring { after: &[], fails: true }, Wiring { after: &[(0, OK)], fails: false }],
            failed,
            failed,
            ran(&["c0"]),
        ),
        // Skipping propagates, and can be depended on.
        (
            vec![
                Wiring { after: &[], fails: false },
                Wiring { after: &[(0, BAD)], fails: false },
                Wiring { after: &[(1, OK)], fails: false },
                Wiring { after: &[(2, SKIPPED), (0, OK)], fails: false },
            ],
            good,
            good,
            ran(&["c0", "c3"]),
        ),
        // A dependency that is declared twice counts once.
        (
            vec![Wiring { after: &[], fails: false }, Wiring { after: &[(0, OK), (0, OK)], fails: false }],
            good,
            good,
            ran(&["c0", "c1"]),
        ),
    ];
    for (number, (wiring, by_leaves, by_any, names)) in table.into_iter().enumerate() {
        assert_eq!(wired(GraphStatusRule::Leaves, &wiring), (by_leaves, names.clone()), "case {number}");
        assert_eq!(wired(GraphStatusRule::Any, &wiring), (by_any, names), "case {number}");
    }
}

#[test]
fn a_graph_respects_its_concurrency_limit_and_zero_means_one() {
    for (limit, in_flight) in [(0, 1), (1, 1), (2, 2)] {
        let mut b = Builder::new();
        let id = b.parallel(None, "graph", |b, id| ["a", "b", "c"].map(|name| b.effect(id, name, "0")).to_vec());
        if let NodeKind::Graph(graph) = &mut b.node_mut(id).kind {
            graph.max_concurrency = Some(limit);
        }
        let program = b.load();
        let mut sim = begun(&program);
        assert_eq!(sim.flights.len(), in_flight);
        for name in ["a", "b", "c"] {
            sim.succeed(&format!("graph.{name}"), name);
        }
        assert_eq!(sim.status(), Status::Succeeded);
    }
}

fn cancelling_graph(tries: u64) -> Program {
    let mut b = Builder::new();
    let id = b.parallel(None, "graph", |b, id| vec![b.effect(id, "a", "0"), b.effect(id, "b", "0")]);
    if let NodeKind::Graph(graph) = &mut b.node_mut(id).kind {
        graph.on_failure = GraphFailurePolicy::CancelRest;
    }
    b.node_mut(id).retry = Some(retry(tries, secs(1)));
    b.load()
}

#[test]
fn a_graph_that_cancels_its_other_children_can_be_retried() {
    let program = cancelling_graph(2);
    let mut sim = begun(&program);
    sim.fail("graph.a");
    assert_eq!(sim.open_paths(), ["graph.b"], "cancelled, not yet ended");
    sim.fail("graph.b").advance(secs(1));
    assert_eq!(sim.open_paths(), ["graph.a", "graph.b"], "entered again");
    sim.succeed("graph.a", 1u32).succeed("graph.b", 2u32);
    assert_eq!((sim.status(), sim.output()), (Status::Succeeded, json(r#"{"a": 1, "b": 2}"#)));
}

#[test]
fn a_cancelled_run_outranks_the_graphs_own_end() {
    let program = cancelling_graph(5);
    let mut sim = begun(&program);
    sim.fail("graph.a").cancel().fail("graph.b");
    assert_eq!((sim.status(), sim.dispatched.len()), (Status::Cancelled, 2));
}

#[test]
fn a_condition_skips_a_child_or_fails_it() {
    for (condition, status, ran_it) in
        [("true", Status::Succeeded, 1), ("false", Status::Succeeded, 0), ("7", Status::Failed, 0)]
    {
        let mut b = Builder::new();
        b.node(None, "graph", |b, id| {
            let condition = Some(b.condition(json(condition)));
            let node = b.effect(Some(id), "child", "0");
            NodeKind::Graph(graph(vec![GraphChild { node, after: Vec::new(), condition, group: None }]))
        });
        let program = b.load();
        let sim = ran(&program);
        assert_eq!((sim.status(), sim.dispatched.len()), (status, ran_it), "{condition}");
    }
}

fn choosing(on: Option<&str>, tests: &[&str], otherwise: bool) -> Vec<String> {
    let mut b = Builder::new();
    b.node(None, "branch", |b, id| {
        let on = on.map(|text| b.expr(text));
        let case = |(at, text): (usize, &&str)| {
            let test =
                if on.is_some() { BranchTest::Equals(b.expr(text)) } else { BranchTest::When(b.condition(json(text))) };
            BranchCase { test, node: b.evaluate(Some(id), &format!("case{at}"), "0") }
        };
        let cases = tests.iter().enumerate().map(case).collect();
        let otherwise = otherwise.then(|| b.evaluate(Some(id), "otherwise", "0"));
        NodeKind::Branch(Branch { on, cases, otherwise })
    });
    let program = b.load();
    let sim = ran(&program);
    assert_eq!(sim.status(), Status::Succeeded);
    sim.paths("step.done").iter().filter_map(|path| path.strip_prefix("branch.")).map(str::to_owned).collect()
}

#[test]
fn a_branch_takes_the_first_case_that_holds() {
    assert_eq!(choosing(None, &["false", "true", "true"], true), ["case1"]);
    assert_eq!(choosing(None, &["false"], true), ["otherwise"]);
    assert_eq!(choosing(None, &["false"], false), [""; 0]);
    assert_eq!(choosing(Some("2"), &["1", "2.0", "2"], true), ["case1"], "numbers compare by what they mean");
    assert_eq!(choosing(Some("\"2\""), &["2"], true), ["otherwise"], "nothing is converted");
}

// Common node settings.

#[test]
fn an_output_expression_sees_the_outcome_of_its_node() {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| {
        let work = b.effect(id, "work", "5");
        let output = b.expr(r#"{"it": {"$node": "work"}, "was": {"$status": "work"}, "tries": {"$attempts": "work"}}"#);
        b.node_mut(work).output = Some(output);
        vec![work, b.evaluate(id, "reader", r#"{"$get": [{"$node": "work"}, "it"]}"#)]
    });
    let program = b.load();
    let expected = r#"{"work": {"it": 5, "was": "succeeded", "tries": 1}, "reader": 5}"#;
    assert_eq!(ran(&program).output(), json(expected));
}

#[test]
fn a_node_timeout_sets_the_configured_status_without_a_retry() {
    for (status, answered) in [(Status::TimedOut, false), (Status::Failed, false), (Status::Succeeded, true)] {
        let mut b = Builder::new();
        let id = b.effect(None, "work", "0");
        let timeout_status = if answered { Status::TimedOut } else { status };
        b.node_mut(id).timeout = Some(NodeTimeout { after: Amount::Fixed(secs(5)), status: timeout_status });
        b.node_mut(id).retry = Some(retry(3, secs(1)));
        let program = b.load();
        let mut sim = begun(&program);
        sim.advance(secs(4));
        if answered {
            sim.succeed("work", 1u32);
        }
        sim.advance(secs(11));
        assert_eq!(sim.status(), status, "a node out of time is not tried again");
        assert_eq!(sim.dispatched.len(), 1);
    }
}

#[test]
fn a_node_timeout_covers_all_attempts() {
    let mut b = Builder::new();
    let id = b.effect(None, "work", "0");
    b.node_mut(id).timeout = Some(NodeTimeout { after: Amount::Fixed(secs(10)), status: Status::TimedOut });
    b.node_mut(id).retry = Some(retry(100, secs(3)));
    let program = b.load();
    let mut sim = Sim::new(&program, Box::new(|_, _, _| Reply::fail()));
    sim.start().run();
    assert_eq!((sim.status(), sim.dispatched.len(), sim.now.0), (Status::TimedOut, 4, 10_000_000));
}

#[test]
fn a_node_that_ends_on_entry_leaves_no_timer() {
    let timeout = || Some(NodeTimeout { after: Amount::Fixed(secs(500)), status: Status::TimedOut });
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| {
        let empty = b.parallel(id, "empty", |_, _| Vec::new());
        let untaken =
            b.node(id, "untaken", |_, _| NodeKind::Branch(Branch { on: None, cases: Vec::new(), otherwise: None }));
        let answered = b.signal(id, "answered", "go");
        for node in [empty, untaken, answered] {
            b.node_mut(node).timeout = timeout();
        }
        vec![b.effect(id, "work", "0"), empty, untaken, answered, b.effect(id, "last", "0")]
    });
    let program = b.load();
    let mut sim = begun(&program);
    sim.event("go", "now").succeed("root.work", 0u32);
    assert_eq!(sim.open_paths(), ["root.last"]);
    assert!(sim.state.timers.is_empty(), "{:?}", sim.state.timers);
}

#[test]
fn a_retry_of_a_node_enters_it_as_a_new_generation() {
    let mut b = Builder::new();
    let id = b.sequence(None, "root", |b, id| vec![b.effect(id, "a", "0"), b.effect(id, "b", "0")]);
    b.node_mut(id).retry = Some(retry(3, secs(1)));
    let program = b.load();
    let mut sim = begun(&program);
    sim.succeed("root.a", 1u32).fail("root.b").advance(secs(1));
    sim.succeed("root.a", 1u32).succeed("root.b", 2u32);
    assert_eq!(sim.output(), json(r#"{"a": 1, "b": 2}"#));
    let keys: Vec<(String, u32)> =
        sim.dispatched.iter().map(|job| (job.key.path.to_string(), job.key.generation)).collect();
    let expected = [("root.a", 0), ("root.b", 0), ("root.a", 1), ("root.b", 1)];
    assert_eq!(keys, expected.map(|(path, generation)| (path.to_owned(), generation)));
    assert_eq!(sim.paths("step.started").iter().filter(|path| **path == "root").count(), 1, "published once");
}

#[test]
fn a_node_cancelled_at_its_retry_is_not_entered() {
    for cancelled in [true, false] {
        let mut b = Builder::new();
        let id = b.parallel(None, "root", |b, id| vec![b.parallel(id, "a", |b, id| vec![b.effect(id, "work", "0")])]);
        b.node_mut(id).retry = Some(retry(3, secs(4)));
        b.node_mut(id).timeout = Some(NodeTimeout { after: Amount::Fixed(secs(5)), status: Status::TimedOut });
        b.node_mut(id).output = Some(b.expr("1"));
        let program = b.load();
        let mut sim = begun(&program);
        sim.fail("root.a.work");
        // One tick delivers both the retry timer and the tick after it.
        sim.now = sim.now + secs(if cancelled { 4 } else { 9 });
        match cancelled {
            true => sim.cancel(),
            false => sim.tick(TickKind::TimerDue),
        };
        sim.drain_buffer();
        assert_eq!(sim.status(), if cancelled { Status::Cancelled } else { Status::TimedOut });
        assert_eq!((sim.output(), sim.state.frames.iter().count()), (Value::Int(1), 0));
    }
}

#[test]
fn outputs_and_parameters_belong_to_the_run() {
    let mut b = Builder::new();
    b.evaluate(None, "work", r#"{"$input": "n"}"#);
    let output = b.expr(r#"{"$add": [{"$node": "work"}, 1]}"#);
    b.plan.outputs = Some(vec![("sum".into(), output)]);
    let kind = VariableKind::Integer;
    b.plan.parameters = vec![Parameter::new("n", kind)];
    let program = b.load();
    assert_eq!(ran(&program).output(), json(r#"{"sum": 4}"#));
    let mut sim = Sim::new(&program, echo());
    sim.start_with(json(r#"{"n": "three"}"#));
    assert_eq!((sim.status(), code(&sim)), (Status::Failed, "InvalidInput".to_owned()));
}

#[test]
fn an_ended_run_accepts_no_ticks() {
    let mut b = Builder::new();
    b.evaluate(None, "work", "1");
    let program = b.load();
    let mut sim = ran(&program);
    sim.event("go", 1u32)
        .cancel()
        .tick(TickKind::Restart { lived: windlass_value::Duration::ZERO })
        .tick(TickKind::Timeout);
    assert_eq!((sim.status(), sim.count("event.unhandled"), sim.count("workflow.finished")), (Status::Succeeded, 4, 1));
}

#[test]
fn a_plan_that_can_never_end_or_run_is_rejected() {
    let refused = |kind: NodeKind| {
        let mut b = Builder::new();
        b.node(None, "root", |b, id| {
            b.evaluate(Some(id), "a", "0");
            b.evaluate(Some(id), "b", "0");
            kind
        });
        Program::load(b.plan, &[&support::language::TestLanguage], Limits::default()).is_err()
    };
    let child = |node: u32, after: &[u32]| {
        let after = after.iter().map(|child| GraphDependency { child: *child, accepts: StatusSet::all() }).collect();
        GraphChild { node: NodeId(node), after, condition: None, group: None }
    };
    let of = |children: Vec<GraphChild>| NodeKind::Graph(graph(children));
    assert!(!refused(of(vec![child(1, &[]), child(2, &[0])])));
    assert!(!refused(of(vec![child(1, &[1]), child(2, &[])])), "order of writing does not matter");
    assert!(refused(of(vec![child(1, &[1]), child(2, &[0])])), "a cycle");
    assert!(refused(of(vec![child(1, &[0])])), "waits for itself");
    assert!(refused(of(vec![child(1, &[7])])), "waits for a missing child");
    let jump = |to: u32| {
        let rules = vec![rule(None, Directive::Jump(to))];
        NodeKind::Pipeline(Pipeline { tasks: vec![Task { rules, ..Task::new(Action::Evaluate(ExprId(0))) }] })
    };
    assert!(refused(jump(1)) && !refused(jump(0)));
    assert!(refused(NodeKind::Pipeline(Pipeline { tasks: Vec::new() })));
}
