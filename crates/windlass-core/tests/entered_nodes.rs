//! Tasks that enter nodes: pipelines with loops, waits, calls and graphs among their tasks.

use crate::support;

use support::looped::{begun, error_code as code, ran};
use support::values::MemoryValues;
use support::*;
use windlass_core::plan::*;
use windlass_core::{Command, ErrorInfo, Program, Status, TaskOutcome, TickKind, frame_tree};
use windlass_value::{Level, Value};

const PREV: &str = r#"{"$var": "_prev"}"#;

/// A pipeline named `pipe`; `make` builds its tasks with its id.
fn pipeline(make: impl FnOnce(&mut Builder, Option<NodeId>) -> Vec<Task>) -> Program {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, id| NodeKind::Pipeline(Pipeline { tasks: make(b, Some(id)) }));
    b.load()
}

fn enters(label: &str, node: NodeId) -> Task {
    task(label, Action::Node(node))
}

/// A loop over three items, whose body is a job with the item.
fn three(b: &mut Builder, id: Option<NodeId>, name: &str, in_flight: u64) -> NodeId {
    b.looping(id, name, |b, id| {
        let items = b.expr(r#"{"$range": 3}"#);
        each(items, in_flight, b.effect(id, "body", r#"{"$iteration": "item"}"#))
    })
}

/// The loop, followed by a sink that receives its results.
fn loop_then_sink(hidden: bool) -> Program {
    pipeline(|b, id| {
        let looping = three(b, id, "all", 3);
        b.node_mut(looping).hidden = hidden;
        vec![enters("fetch", looping), task("sink", b.action(PREV))]
    })
}

#[test]
fn the_output_of_an_entered_node_is_the_task_result() {
    let program = loop_then_sink(false);
    let sim = ran(&program);
    let sink = sim.dispatched.last().unwrap();
    assert_eq!((&**sink.path(), &sink.input), ("pipe.sink", &json("[0, 1, 2]")));
    assert_eq!(sim.end_of("pipe.all").unwrap().0, Value::from("succeeded"));
    assert_eq!(sim.paths("loop.done"), ["pipe.all"]);
}

/// A hidden node adds no name to a path: the label of its task stands there instead.
#[test]
fn a_hidden_node_is_addressed_by_its_task_label() {
    let program = loop_then_sink(true);
    let sim = ran(&program);
    assert_eq!(&**sim.dispatched[1].path(), "pipe.fetch[1].body");
    assert_eq!(sim.paths("loop.done"), ["pipe.fetch"]);
    let mut done = sim.paths("step.done");
    done.sort();
    assert_eq!(done, ["pipe", "pipe.fetch[0].body", "pipe.fetch[1].body", "pipe.fetch[2].body"]);
}

#[test]
fn a_task_that_enters_a_node_publishes_the_usual_events() {
    let program = loop_then_sink(true);
    let sim = ran(&program);
    let started: Vec<&str> = sim.paths("task.started").into_iter().filter(|path| !path.contains('[')).collect();
    assert_eq!(started, ["pipe.fetch", "pipe.sink"]);
    let processed = sim.events_of("task.processed");
    let of = |label: &str| processed.iter().find(|event| event.data.get("task") == Some(&label.into())).unwrap();
    assert_eq!(of("fetch").data.get("outcome").unwrap().get("result"), Some(&json("[0, 1, 2]")));
}

/// A reader of the step sees its loop, both while it runs and after it has ended.
#[test]
fn a_hidden_loop_is_shown_as_the_pipelines_loop() {
    let program = loop_then_sink(true);
    let mut sim = begun(&program);
    sim.succeed("pipe.fetch[0].body", 1u32);
    let tree = frame_tree(&program, &sim.state);
    let looping = tree[0].looping.as_ref().unwrap();
    assert_eq!((looping.begun, looping.ended, looping.max_iterations), (3, 1, Some(3)));
    let iterations: Vec<Option<u64>> = tree[0].children.iter().map(|child| child.iteration).collect();
    assert_eq!(iterations, [Some(1), Some(2)]);
    sim.succeed("pipe.fetch[1].body", 1u32).succeed("pipe.fetch[2].body", 1u32).succeed("pipe.sink", 1u32);
    let scope = sim.state.scopes.get(sim.state.root_scope).unwrap();
    let ended = scope.outcomes[0].1.loop_summary.as_ref().unwrap();
    assert_eq!((ended.iterations, ended.reason.as_str()), (3, "items"));
}

/// Two concurrent hidden nodes have the same paths inside; their effect keys must still differ.
#[test]
fn no_two_entries_share_an_effect() {
    let program = pipeline(|b, id| {
        let nodes = [three(b, id, "one", 1), three(b, id, "two", 1)];
        nodes.iter().for_each(|node| b.node_mut(*node).hidden = true);
        vec![enters("", nodes[0]), enters("", nodes[1])]
    });
    let sim = ran(&program);
    let mut keys: Vec<_> = sim.dispatched.iter().map(|job| (job.path().to_string(), job.key.generation)).collect();
    assert_eq!(keys.len(), 6);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 6, "{keys:?}");
}

/// The result of a visible node is stored under its name, for later tasks and for nodes after the pipeline.
#[test]
fn the_end_of_a_visible_node_can_be_read_by_its_name() {
    let mut b = Builder::new();
    b.sequence(None, "root", |b, id| {
        let pipe = b.node(id, "pipe", |b, id| {
            let inner = b.evaluate(Some(id), "inner", "5");
            let read = task("read", Action::Evaluate(b.expr(r#"{"$node": "inner"}"#)));
            NodeKind::Pipeline(Pipeline { tasks: vec![enters("enter", inner), read] })
        });
        vec![pipe, b.evaluate(id, "after", r#"[{"$node": "inner"}, {"$node": "pipe"}, {"$status": "inner"}]"#)]
    });
    let program = b.load();
    assert_eq!(ran(&program).output().get("after"), Some(&json(r#"[5, 5, "succeeded"]"#)));
}

/// One task that enters a job, with additional settings from `make`; then one that returns what it can read.
fn entering_a_job(make: impl FnOnce(&mut Builder, &mut Task, NodeId)) -> Program {
    pipeline(|b, id| {
        let job = b.effect(id, "job", "0");
        let mut enter = enters("enter", job);
        make(b, &mut enter, job);
        vec![enter, task("end", Action::Evaluate(b.expr(PREV)))]
    })
}

#[test]
fn the_error_of_a_node_is_the_task_error_and_a_rule_can_handle_it() {
    let program = entering_a_job(|_, _, _| {});
    let mut sim = begun(&program);
    sim.fail("pipe.job");
    assert_eq!((sim.status(), code(&sim)), (Status::Failed, "500".to_owned()));
    assert_eq!(&*sim.result().error.as_ref().unwrap().path, "pipe.job", "where it happened first");

    let program = entering_a_job(|b, enter, _| {
        let code = b.expr(r#"{"$get": [{"$get": [{"$var": "outcome"}, "error"]}, "code"]}"#);
        enter.rules = vec![TaskRule { previous: Some(code), ..TaskRule::new(Directive::Continue) }];
    });
    let mut sim = begun(&program);
    sim.fail("pipe.job");
    assert_eq!((sim.status(), sim.output()), (Status::Succeeded, Value::from("500")));
}

/// For every way a node can end, the task either succeeds or has an error with a code.
#[test]
fn every_unsuccessful_end_is_an_error_with_a_code() {
    let ended = |status: Status, error: Option<ErrorInfo>| {
        let mut b = Builder::new();
        b.node(None, "pipe", |b, id| {
            let (definition, input) = (b.expr("\"child\""), b.expr("1"));
            let call = b.node(Some(id), "call", |_, _| NodeKind::Call(ChildRunCall { definition, input }));
            NodeKind::Pipeline(Pipeline { tasks: vec![enters("call", call)] })
        });
        let program = b.load();
        let mut sim = begun(&program);
        let outcome = TaskOutcome { error, ..TaskOutcome::success(7u32) };
        sim.tick(TickKind::CallResult { call: 0, status, outcome });
        (sim.status(), code(&sim), sim.output())
    };
    let failed = |code: &str| (Status::Failed, code.to_owned(), Value::Int(7));
    assert_eq!(ended(Status::Succeeded, None), (Status::Succeeded, String::new(), Value::Int(7)));
    assert_eq!(ended(Status::Failed, None), failed("NodeFailed"));
    assert_eq!(ended(Status::Skipped, None), failed("Skipped"));
    assert_eq!(ended(Status::Cancelled, None), failed("Cancelled"));
    assert_eq!(ended(Status::TimedOut, None), failed("TimedOut"));
    assert_eq!(ended(Status::TimedOut, Some(ErrorInfo::new("Late", "timeout", "too late"))), failed("Late"));
}

#[test]
fn a_task_retry_enters_the_node_again() {
    let program = entering_a_job(|_, enter, _| enter.retry = Some(retry(3, secs(5))));
    let mut sim = begun(&program);
    sim.fail("pipe.job");
    assert_eq!(sim.open_paths(), Vec::<String>::new(), "it waits");
    let doing: Vec<&str> = frame_tree(&program, &sim.state).iter().map(|frame| frame.activity).collect();
    assert_eq!(doing, ["retrying"]);
    sim.advance(secs(5)).fail("pipe.job").advance(secs(5)).succeed("pipe.job", 3u32);
    assert_eq!((sim.status(), sim.output(), sim.dispatched.len()), (Status::Succeeded, Value::Int(3), 3));
    let generations: Vec<u32> = sim.dispatched.iter().map(|job| job.key.generation).collect();
    assert!(generations.windows(2).all(|pair| pair[0] < pair[1]), "{generations:?}");
    assert_eq!(sim.count("task.retrying"), 2);
}

#[test]
fn a_jump_back_enters_the_node_again() {
    let program = pipeline(|b, id| {
        let looping = three(b, id, "all", 1);
        let again = b.condition(json(r#"{"$lt": [{"$var": "_visit"}, 3]}"#));
        let back = rule(Some(again), Directive::Jump(0));
        let count = b.expr(r#"{"$len": {"$var": "_prev"}}"#);
        vec![enters("fetch", looping), Task { rules: vec![back], ..task("look", Action::Evaluate(count)) }]
    });
    let sim = ran(&program);
    assert_eq!((sim.output(), sim.dispatched.len()), (Value::Int(3), 9));
    assert_eq!(sim.count("loop.done"), 3);
    let mut histories: Vec<&str> = sim.iterations.iter().map(|iteration| &*iteration.loop_path).collect();
    histories.dedup();
    assert_eq!(histories.len(), 3, "each entry has a history of its own: {histories:?}");
    assert_eq!(histories[0], "pipe.all");
}

#[test]
fn cancelling_a_pipeline_cancels_its_entered_node() {
    let program = loop_then_sink(false);
    let mut sim = begun(&program);
    sim.cancel();
    let is_cancellation = |command: &&Command| matches!(command, Command::CancelWorker { .. });
    assert_eq!(sim.outputs.last().unwrap().commands.iter().filter(is_cancellation).count(), 3);
    sim.advance(secs(3600));
    assert_eq!((sim.status(), sim.loop_end("pipe.all").0), (Status::Cancelled, "cancelled".to_owned()));
    support::check::check_nothing_left(&sim.state);
}

#[test]
fn the_pipeline_timeout_ends_the_node_and_the_node_timeout_is_a_task_error() {
    let slow = |on_node: bool| {
        let mut b = Builder::new();
        b.node(None, "pipe", |b, id| {
            let job = b.effect(Some(id), "job", "0");
            let timeout = Some(NodeTimeout { after: Amount::Fixed(secs(5)), status: Status::TimedOut });
            b.node_mut(if on_node { job } else { id }).timeout = timeout;
            let go_on = TaskRule::new(Directive::Continue);
            let enter = Task { rules: vec![go_on], ..enters("enter", job) };
            NodeKind::Pipeline(Pipeline { tasks: vec![enter, task("end", Action::Evaluate(b.expr("\"went on\"")))] })
        });
        b.load()
    };
    let program = slow(false);
    let mut sim = begun(&program);
    sim.advance(secs(5)).advance(secs(3600));
    assert_eq!((sim.status(), code(&sim)), (Status::TimedOut, "ActionTimedOut".to_owned()));

    let program = slow(true);
    let mut sim = begun(&program);
    sim.advance(secs(5)).advance(secs(3600));
    assert_eq!((sim.status(), sim.output()), (Status::Succeeded, Value::from("went on")));
}

#[test]
fn a_pause_holds_between_the_node_and_the_next_task() {
    let program = loop_then_sink(false);
    let mut sim = begun(&program);
    sim.succeed("pipe.all[0].body", 1u32).succeed("pipe.all[1].body", 1u32).tick(TickKind::Pause { request: None });
    sim.succeed("pipe.all[2].body", 1u32);
    assert_eq!(sim.open_paths(), Vec::<String>::new());
    sim.tick(TickKind::Resume { request: None }).drain_buffer();
    assert_eq!(sim.open_paths(), ["pipe.sink"]);
}

#[test]
fn a_wait_among_tasks_takes_its_signal() {
    let program = pipeline(|b, id| {
        let wait = b.signal(id, "wait", "go");
        vec![enters("wait", wait), task("end", Action::Evaluate(b.expr(PREV)))]
    });
    let mut sim = begun(&program);
    assert_eq!(sim.count("workflow.idle"), 1);
    sim.event("go", 9u32).drain_buffer();
    assert_eq!(sim.output(), Value::Int(9));
}

/// The step of a net is a pipeline that contains a loop: iterations see the step's variables, and the step ends once.
#[test]
fn a_place_whose_body_enters_a_loop_is_one_step() {
    let mut b = Builder::new();
    b.node(None, "net", |b, id| {
        let body = b.node(Some(id), "step", |b, id| {
            let base = VariableUpdate { level: Level::Step, ..b.writes("base", WriteOp::Set, "10") };
            let looping = b.looping(Some(id), "step#loop", |b, id| {
                let items = b.expr(r#"{"$range": 3}"#);
                let body = b.node(id, "step#body", |b, _| {
                    let sum = r#"{"$add": [{"$step": "base"}, {"$iteration": "item"}]}"#;
                    let work = Task { label: "work".into(), ..Task::new(b.action(sum)) };
                    let total = VariableUpdate {
                        level: Level::Step,
                        ignores_input: true,
                        ..b.writes("total", WriteOp::Add, "1")
                    };
                    let count = TaskRule { writes: vec![total], ..TaskRule::new(Directive::Continue) };
                    NodeKind::Pipeline(Pipeline { tasks: vec![Task { rules: vec![count], ..work }] })
                });
                b.node_mut(body).hidden = true;
                Loop { collect: CollectMode::Stats, ..each(items, 3, body) }
            });
            b.node_mut(looping).hidden = true;
            let set = Task { hidden: true, ..task("set", Action::Write(base)) };
            let sink = task("sink", b.action(r#"[{"$get": [{"$var": "_prev"}, "results"]}, {"$step": "total"}]"#));
            NodeKind::Pipeline(Pipeline { tasks: vec![set, enters("each", looping), sink] })
        });
        let mut step = place("step", &["start"], body);
        step.done_event = Some("loop.done".into());
        let summary = b.expr(r#"[{"$get": [{"$var": "event"}, "name"]}, {"$var": "output"}, {"$var": "total"}]"#);
        step.arcs = vec![NetArc { payload: Some(summary), ..arc("next") }];
        let next = place("next", &["next"], b.evaluate(Some(id), "next", r#"{"$var": "args"}"#));
        NodeKind::Net(Net::new(vec![step, next], "start", NetEnd::Quiet))
    });
    b.node_mut(NodeId(0)).hidden = true;
    let program = b.load();
    let sim = ran(&program);
    assert_eq!(sim.output(), json(r#"["loop.done", [[10, 11, 12], 3], 3]"#));
    assert_eq!(sim.paths("step.done"), ["step", "next"]);
    assert_eq!(&**sim.dispatched[1].path(), "step.each[1].work");
    assert!(sim.events_of("task.started").iter().all(|event| event.data.get("task") != Some(&"set".into())));
}

#[test]
fn a_pipeline_with_nodes_that_only_compute_only_computes() {
    let inner = |b: &mut Builder, id, wait: bool| match wait {
        true => b.signal(id, "inner", "go"),
        false => b.evaluate(id, "inner", "1"),
    };
    for wait in [false, true] {
        let program = pipeline(|b, id| vec![enters("enter", inner(b, id, wait))]);
        assert_eq!(program.facts(NodeId(0)).computes_only, !wait);
    }
}

/// The results are the same when few values are resident.
#[test]
fn a_node_output_may_be_stored_outside_the_state() {
    let program = {
        let mut b = Builder::new();
        b.node(None, "pipe", |b, id| {
            let large = b.evaluate(Some(id), "large", r#"{"$text": 500}"#);
            let length = b.expr(r#"{"$len": {"$var": "_prev"}}"#);
            NodeKind::Pipeline(Pipeline { tasks: vec![enters("a", large), task("b", Action::Evaluate(length))] })
        });
        b.load_with(windlass_core::Limits { max_inline_bytes: 100, ..Default::default() })
    };
    let mut sim = Sim::new(&program, support::world::echo());
    sim.values = MemoryValues::forgetful();
    sim.start().run();
    assert_eq!((sim.output(), sim.values.loads), (Value::Int(500), 1));
}

#[test]
fn a_task_that_enters_a_node_has_the_node_timeout() {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, id| {
        let inner = b.evaluate(Some(id), "inner", "1");
        let enter = Task { timeout: Some(Amount::Fixed(secs(1))), ..enters("enter", inner) };
        NodeKind::Pipeline(Pipeline { tasks: vec![enter] })
    });
    let refused = Program::load(b.plan, &[&support::language::TestLanguage], Default::default());
    assert!(refused.err().unwrap().to_string().contains("that enters a node has its own timeout"));
}
