//! Places and tokens: which place gets a token, in which order, and how the net ends.

use crate::support;

use support::world::echo;
use support::*;
use windlass_core::plan::*;
use windlass_core::{Command, Limits, Program, Status};
use windlass_value::{Level, Value};

const ARGS: &str = r#"{"$var": "args"}"#;

/// A net of these places, as the whole plan.
fn net(end: NetEnd, make: impl FnOnce(&mut Builder, Option<NodeId>) -> Vec<Place>) -> Builder {
    let mut b = Builder::new();
    b.node(None, "net", |b, id| {
        let places = make(b, Some(id));
        NodeKind::Net(Net::new(places, "start", end))
    });
    b
}

fn stop() -> NetEnd {
    NetEnd::Stop("stop".into())
}

fn begun(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, Box::new(|_, _, _| Reply::Never));
    sim.start_with(json(r#"{"who": "me"}"#)).drain_buffer();
    sim
}

fn ran(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, echo());
    sim.start_with(json(r#"{"who": "me"}"#)).run();
    sim
}

/// A place whose body is a job with its token as input.
fn worker_place(b: &mut Builder, id: Option<NodeId>, name: &str, accepts: &[&str]) -> Place {
    place(name, accepts, b.effect(id, name, ARGS))
}

/// A place whose body returns a value immediately.
fn returning_place(b: &mut Builder, id: Option<NodeId>, name: &str, accepts: &[&str], gives: &str) -> Place {
    place(name, accepts, b.evaluate(id, name, gives))
}

/// A place that emits every kind listed in its output.
fn emitting_place(b: &mut Builder, id: Option<NodeId>, name: &str, accepts: &[&str], gives: &str) -> Place {
    let kinds = gives.split(r#""kind": ""#).skip(1).filter_map(|rest| rest.split('"').next());
    let produces = kinds.chain(["none"]).map(Into::into).collect();
    Place { produces, ..returning_place(b, id, name, accepts, gives) }
}

fn arc_with_payload(kind: &str, payload: ExprId) -> NetArc {
    NetArc { payload: Some(payload), ..arc(kind) }
}

fn output_of(b: &mut Builder) -> ExprId {
    b.expr(r#"{"$var": "output"}"#)
}

fn inputs(sim: &Sim, path: &str) -> Vec<Value> {
    sim.dispatched.iter().filter(|job| &**job.path() == path).map(|job| job.input.clone()).collect()
}

fn code(sim: &Sim) -> String {
    sim.result().error.as_ref().map(|error| error.code.to_string()).unwrap_or_default()
}

#[test]
fn a_token_goes_to_every_accepting_place_in_declaration_order() {
    let program = net(NetEnd::Quiet, |b, id| {
        vec![
            worker_place(b, id, "one", &["start"]),
            worker_place(b, id, "other", &["else"]),
            worker_place(b, id, "two", &["else", "start"]),
            worker_place(b, id, "three", &["start"]),
        ]
    })
    .load();
    let sim = begun(&program);
    assert_eq!(sim.open_paths(), ["net.one", "net.two", "net.three"]);
    assert!(sim.dispatched.iter().all(|job| job.input == json(r#"{"who": "me"}"#)), "the payload is the run's input");
}

#[test]
fn tokens_beyond_the_place_concurrency_wait_in_order() {
    let program = net(NetEnd::Quiet, |b, id| {
        let tokens = r#"[{"kind": "item", "payload": 0}, {"kind": "item", "payload": 1}, {"kind": "item", "payload": 2},
                         {"kind": "item", "payload": 3}, {"kind": "item", "payload": 4}]"#;
        let source = emitting_place(b, id, "source", &["start"], tokens);
        vec![source, Place { max_concurrency: 2, ..worker_place(b, id, "work", &["item"]) }]
    })
    .load();
    let mut sim = begun(&program);
    assert_eq!(inputs(&sim, "net.work"), [Value::Int(0), Value::Int(1)]);
    let second = sim.flights[1].job.job;
    let outcome = windlass_core::TaskOutcome::success("b");
    sim.flights.remove(1);
    sim.tick(windlass_core::TickKind::StepResult { job: second, lease_epoch: 0, outcome }).drain_buffer();
    assert_eq!(inputs(&sim, "net.work"), (0..3).map(Value::Int).collect::<Vec<_>>());
    for _ in 0..4 {
        assert!(sim.flights.len() <= 2);
        sim.succeed("net.work", "done");
    }
    assert_eq!(inputs(&sim, "net.work"), (0..5).map(Value::Int).collect::<Vec<_>>(), "first in, first out");
    assert_eq!(sim.status(), Status::Succeeded);
    let keys: std::collections::BTreeSet<u32> = sim.dispatched.iter().map(|job| job.key.generation).collect();
    assert_eq!(keys.len(), 5, "each firing is an effect of its own");
}

/// All bodies of a place share one path; readers of the events distinguish them by their numbers.
#[test]
fn bodies_of_one_place_are_distinguished_by_number() {
    let mut b = net(stop(), |b, id| {
        let tokens = r#"[{"kind": "item", "payload": 0}, {"kind": "item", "payload": 1}]"#;
        let source = emitting_place(b, id, "source", &["start"], tokens);
        vec![
            source,
            Place { max_concurrency: 2, produces: vec!["stop".into()], ..worker_place(b, id, "work", &["item"]) },
        ]
    });
    if let NodeKind::Net(net) = &mut b.plan.nodes[0].kind {
        (net.publishes_slots, net.input_requests) = (true, vec!["stop".into()]);
    }
    let program = b.load();
    let mut sim = begun(&program);
    let second = sim.flights.remove(1).job.job;
    let outcome = windlass_core::TaskOutcome::success(json(r#"{"kind": "stop"}"#));
    sim.tick(windlass_core::TickKind::StepResult { job: second, lease_epoch: 0, outcome }).drain_buffer();
    sim.succeed("net.work", "too late");
    let firings = |kind: &str| -> Vec<Value> {
        let events = sim.events_of(kind).into_iter().filter(|event| &*event.path == "net.work");
        events.map(|event| event.data.get("firing").cloned().unwrap_or_default()).collect()
    };
    assert_eq!(firings("step.started"), [Value::Int(1), Value::Int(2)]);
    assert_eq!((firings("step.done"), firings("input.required")), (vec![Value::Int(2)], vec![Value::Int(2)]));
    assert_eq!(firings("step.failed"), [Value::Int(1)], "a step cancelled at the end also has its number");
}

/// The task behind a step in code is hidden; its retries are published as those of the step.
#[test]
fn retries_of_a_numbered_step_are_published() {
    let mut b = net(NetEnd::Quiet, |b, id| vec![worker_place(b, id, "work", &["start"])]);
    for node in &mut b.plan.nodes {
        match &mut node.kind {
            NodeKind::Net(net) => net.publishes_slots = true,
            NodeKind::Pipeline(pipeline) => {
                let interval = Amount::Fixed(windlass_value::Duration::from_secs(1));
                let backoff = Backoff { interval, growth: Growth::Fixed, min: None, max: None, jitter: Jitter::None };
                let retry = Retry { attempts: Amount::Fixed(2), backoff, on: Vec::new(), window: None };
                (pipeline.tasks[0].hidden, pipeline.tasks[0].retry) = (true, Some(retry));
            }
            _ => {}
        }
    }
    let program = b.load();
    let mut sim = begun(&program);
    let job = sim.flights.remove(0).job.job;
    let outcome = windlass_core::TaskOutcome::failure(windlass_core::ErrorInfo::new("Lost", "step", "lost"));
    sim.tick(windlass_core::TickKind::StepResult { job, lease_epoch: 0, outcome }).drain_buffer();
    let retries = sim.events_of("task.retrying");
    assert_eq!((retries.len(), &*retries[0].path), (1, "net.work"));
    assert_eq!(retries[0].data.get("firing"), Some(&Value::Int(0)));
}

#[test]
fn a_guard_that_is_false_consumes_the_token() {
    let program = net(NetEnd::Quiet, |b, id| {
        let tokens = r#"[{"kind": "item", "payload": 1}, {"kind": "item", "payload": 5}]"#;
        let source = emitting_place(b, id, "source", &["start"], tokens);
        let guard = Some(b.condition(json(r#"{"$lt": [{"$var": "args"}, 3]}"#)));
        vec![source, Place { guard, ..worker_place(b, id, "small", &["item"]) }]
    })
    .load();
    let sim = ran(&program);
    assert_eq!(inputs(&sim, "net.small"), [Value::Int(1)]);
    assert_eq!(sim.paths("step.skipped"), ["net.small"]);
    assert_eq!(sim.status(), Status::Succeeded);
}

#[test]
fn a_non_boolean_guard_fails_the_net() {
    let program = net(NetEnd::Quiet, |b, id| {
        let guard = Some(b.condition(json("7")));
        vec![Place { guard, ..worker_place(b, id, "never", &["start"]) }]
    })
    .load();
    let sim = ran(&program);
    assert_eq!((sim.status(), code(&sim)), (Status::Failed, "NotBoolean".to_owned()));
}

#[test]
fn a_join_of_all_waits_for_one_token_of_each_kind() {
    let program = net(NetEnd::Quiet, |b, id| {
        let payload = output_of(b);
        let left = Place { arcs: vec![arc_with_payload("l", payload)], ..worker_place(b, id, "left", &["start"]) };
        let right = Place { arcs: vec![arc_with_payload("r", payload)], ..worker_place(b, id, "right", &["start"]) };
        let both = Place { join: Join::All, ..worker_place(b, id, "both", &["l", "r"]) };
        vec![left, right, both]
    })
    .load();
    let mut sim = begun(&program);
    sim.succeed("net.right", "R");
    assert_eq!(sim.open_paths(), ["net.left"], "half is not enough");
    sim.succeed("net.left", "L");
    assert_eq!(inputs(&sim, "net.both"), [json(r#"{"l": "L", "r": "R"}"#)]);
    sim.succeed("net.both", "end");
    assert_eq!(sim.output(), Value::from("end"));
}

/// source → work (several) → joined, which ends the net.
fn fanned(tokens: &str) -> Program {
    net(NetEnd::Quiet, |b, id| {
        let payload = output_of(b);
        let source = emitting_place(b, id, "source", &["start"], tokens);
        let work = Place {
            max_concurrency: 9,
            arcs: vec![arc_with_payload("done", payload)],
            ..worker_place(b, id, "work", &["item"])
        };
        let joined = Place { join: Join::FanOut, ..worker_place(b, id, "joined", &["done"]) };
        vec![source, work, joined]
    })
    .load()
}

#[test]
fn a_fan_out_is_joined_once_when_all_members_have_arrived() {
    let program =
        fanned(r#"[{"kind": "item", "payload": 1}, {"kind": "item", "payload": 2}, {"kind": "item", "payload": 3}]"#);
    let mut sim = begun(&program);
    assert_eq!(sim.open_paths().len(), 3);
    sim.succeed("net.work", "a").succeed("net.work", "b");
    assert!(inputs(&sim, "net.joined").is_empty(), "one is missing");
    sim.succeed("net.work", "c");
    assert_eq!(inputs(&sim, "net.joined"), [json(r#"["a", "b", "c"]"#)], "in order of arrival, once");
    sim.succeed("net.joined", "all");
    assert_eq!(sim.output(), Value::from("all"));
}

#[test]
fn an_empty_fan_out_is_joined_immediately() {
    let program = fanned("[]");
    let sim = ran(&program);
    assert_eq!(inputs(&sim, "net.joined"), [json("[]")]);
    assert_eq!(sim.status(), Status::Succeeded);
}

#[test]
fn fan_outs_nest() {
    let program = net(NetEnd::Quiet, |b, id| {
        let payload = output_of(b);
        let outer = r#"[{"kind": "group", "payload": 0}, {"kind": "group", "payload": 10}]"#;
        let inner = r#"[{"kind": "item", "payload": {"$add": [{"$var": "args"}, 1]}},
                        {"kind": "item", "payload": {"$add": [{"$var": "args"}, 2]}}]"#;
        let source = emitting_place(b, id, "source", &["start"], outer);
        let group = emitting_place(b, id, "group", &["group"], inner);
        let item =
            Place { arcs: vec![arc_with_payload("item-done", payload)], ..worker_place(b, id, "item", &["item"]) };
        let inner_join = Place {
            join: Join::FanOut,
            arcs: vec![arc_with_payload("group-done", payload)],
            ..returning_place(b, id, "inner-join", &["item-done"], ARGS)
        };
        let outer_join = Place { join: Join::FanOut, ..worker_place(b, id, "outer-join", &["group-done"]) };
        vec![source, group, item, inner_join, outer_join]
    })
    .load();
    let sim = ran(&program);
    assert_eq!(inputs(&sim, "net.outer-join"), [json("[[1, 2], [11, 12]]")]);
    assert_eq!(sim.paths("step.done").iter().filter(|path| **path == "net.inner-join").count(), 2);
}

#[test]
fn a_fan_out_does_not_wait_for_a_member_consumed_by_a_guard() {
    let program = net(NetEnd::Quiet, |b, id| {
        let payload = output_of(b);
        let tokens =
            r#"[{"kind": "item", "payload": 1}, {"kind": "item", "payload": 9}, {"kind": "nowhere", "payload": 0}]"#;
        let source = emitting_place(b, id, "source", &["start"], tokens);
        let guard = Some(b.condition(json(r#"{"$lt": [{"$var": "args"}, 5]}"#)));
        let work =
            Place { guard, arcs: vec![arc_with_payload("done", payload)], ..worker_place(b, id, "work", &["item"]) };
        let joined = Place { join: Join::FanOut, ..worker_place(b, id, "joined", &["done"]) };
        vec![source, work, joined]
    })
    .load();
    let sim = ran(&program);
    assert_eq!(inputs(&sim, "net.joined"), [json("[1]")]);
    assert_eq!(sim.count("event.unhandled"), 1, "a token that no place accepts is reported");
}

#[test]
fn the_stop_kind_ends_the_net_and_cancels_the_other_bodies() {
    let program = net(stop(), |b, id| {
        let payload = output_of(b);
        let quick = Place { arcs: vec![arc_with_payload("stop", payload)], ..worker_place(b, id, "quick", &["start"]) };
        vec![quick, worker_place(b, id, "slow", &["start"])]
    })
    .load();
    let mut sim = begun(&program);
    sim.succeed("net.quick", "enough");
    assert!(!sim.ended(), "the other worker has its grace");
    assert!(sim.outputs.last().unwrap().commands.iter().any(|command| matches!(command, Command::CancelWorker { .. })));
    sim.advance(secs(10));
    assert_eq!((sim.status(), sim.output()), (Status::Succeeded, Value::from("enough")));
}

#[test]
fn after_the_stop_kind_no_token_moves() {
    // The net's output is an expression, which is evaluated after the other tokens were delivered.
    let mut b = net(stop(), |b, id| {
        let tokens = r#"[{"kind": "stop", "payload": 1}, {"kind": "more", "payload": 2}]"#;
        vec![emitting_place(b, id, "source", &["start"], tokens), worker_place(b, id, "more", &["more"])]
    });
    let output = b.expr(r#"{"it gave": {"$node": "net"}}"#);
    let root = b.plan.root;
    b.node_mut(root).output = Some(output);
    let program = b.load();
    let sim = ran(&program);
    assert_eq!(sim.output(), json(r#"{"it gave": 1}"#));
    assert!(sim.dispatched.is_empty());
}

#[test]
fn a_net_may_end_at_quiescence_with_the_last_output() {
    let program = net(NetEnd::Quiet, |b, id| {
        let first = Place { arcs: vec![arc("next")], ..returning_place(b, id, "first", &["start"], "1") };
        vec![first, returning_place(b, id, "second", &["next"], "2")]
    })
    .load();
    assert_eq!(ran(&program).output(), Value::Int(2));
}

#[test]
fn quiescence_without_the_stop_kind_is_a_proven_hang() {
    let program = net(stop(), |b, id| vec![returning_place(b, id, "only", &["start"], "1")]).load();
    let sim = ran(&program);
    assert_eq!((sim.status(), code(&sim)), (Status::Failed, "Hang".to_owned()));
    let program = net(stop(), |b, id| {
        let never = NetArc { on: ArcTrigger::Failed, ..arc("r") };
        let left =
            Place { inclusive: true, arcs: vec![arc("l"), never], ..returning_place(b, id, "left", &["start"], "1") };
        let both =
            Place { join: Join::All, arcs: vec![arc("stop")], ..returning_place(b, id, "meeting", &["l", "r"], "2") };
        vec![left, both]
    })
    .load();
    let sim = ran(&program);
    let error = sim.result().error.clone().unwrap();
    assert_eq!((&*error.code, error.message.contains("meeting")), ("Hang", true), "it says where: {error:?}");
}

#[test]
fn arcs_are_exclusive_or_inclusive() {
    for (inclusive, expected) in [(false, vec!["net.a"]), (true, vec!["net.a", "net.c"])] {
        let program = net(NetEnd::Quiet, |b, id| {
            let when = |b: &mut Builder, text: &str| Some(b.condition(json(text)));
            let arcs = vec![
                NetArc { when: when(b, "false"), ..arc("b") },
                NetArc { when: when(b, r#"{"$eq": [{"$var": "output"}, 1]}"#), ..arc("a") },
                arc("c"),
            ];
            let fork = Place { inclusive, arcs, ..returning_place(b, id, "fork", &["start"], "1") };
            let ends = ["a", "b", "c"].map(|kind| worker_place(b, id, kind, &[kind]));
            [fork].into_iter().chain(ends).collect()
        })
        .load();
        assert_eq!(begun(&program).open_paths(), expected);
    }
}

#[test]
fn an_arc_writes_before_its_token_is_evaluated() {
    let program = net(NetEnd::Quiet, |b, id| {
        let value = output_of(b);
        let write = VariableUpdate::new(Level::Run, "seen", WriteOp::Set, Some(value));
        let arcs = vec![NetArc { writes: vec![write], ..arc("next") }];
        let first = Place { arcs, ..returning_place(b, id, "first", &["start"], "7") };
        let guard = Some(b.condition(json(r#"{"$eq": [{"$var": "seen"}, 7]}"#)));
        vec![first, Place { guard, ..returning_place(b, id, "next", &["next"], r#"{"$var": "seen"}"#) }]
    })
    .load();
    let sim = ran(&program);
    assert_eq!(sim.result().output, Value::Int(7));
}

#[test]
fn a_failure_goes_along_its_arc_or_fails_the_net() {
    for handled in [true, false] {
        let program = net(NetEnd::Quiet, |b, id| {
            let payload = b.expr(r#"{"$get": [{"$var": "error"}, "code"]}"#);
            let on = if handled { ArcTrigger::Failed } else { ArcTrigger::Succeeded };
            let arcs = vec![NetArc { on, ..arc_with_payload("rescue", payload) }];
            let risky = Place { arcs, ..worker_place(b, id, "risky", &["start"]) };
            vec![risky, worker_place(b, id, "rescue", &["rescue"]), worker_place(b, id, "other", &["start"])]
        })
        .load();
        let mut sim = begun(&program);
        sim.fail("net.risky");
        if handled {
            assert_eq!(inputs(&sim, "net.rescue"), [Value::from("500")]);
            sim.succeed("net.rescue", "saved").succeed("net.other", "too");
            assert_eq!(sim.status(), Status::Succeeded);
        } else {
            sim.advance(secs(10));
            assert_eq!((sim.status(), code(&sim)), (Status::Failed, "500".to_owned()));
        }
    }
}

#[test]
fn a_net_waits_for_external_events() {
    let program = net(stop(), |b, id| {
        let payload = output_of(b);
        let first = Place { arcs: vec![arc("asked")], ..returning_place(b, id, "ask", &["start"], "1") };
        let second = Place {
            arcs: vec![arc_with_payload("stop", payload)],
            ..returning_place(b, id, "answer", &["approval"], ARGS)
        };
        vec![first, second]
    })
    .load();
    let mut sim = begun(&program);
    assert!(!sim.ended() && sim.state.is_idle());
    let idle = sim.events_of("workflow.idle");
    assert_eq!((idle.len(), idle[0].data.get("waits")), (1, Some(&json(r#"["approval"]"#))));
    sim.event("noise", "?").event("approval", "yes").drain_buffer();
    assert_eq!((sim.status(), sim.output()), (Status::Succeeded, Value::from("yes")));
    assert_eq!(sim.count("workflow.idle"), 1, "published once");
}

#[test]
fn a_cycle_of_arcs_reaches_the_limit() {
    let limits = Limits { max_net_tokens: 50, ..Limits::default() };
    let program = net(NetEnd::Quiet, |b, id| {
        vec![Place { arcs: vec![arc("start")], ..returning_place(b, id, "again", &["start"], "1") }]
    })
    .load_with(limits);
    let sim = ran(&program);
    assert_eq!((sim.status(), code(&sim)), (Status::Failed, "TokensExceeded".to_owned()));
    assert_eq!(sim.paths("step.done").len(), 50);
}

#[test]
fn a_step_must_return_events() {
    for (gives, expected) in [("5", "NotAnEvent"), (r#"[{"payload": 1}]"#, "NotAnEvent"), ("null", "")] {
        let program = net(NetEnd::Quiet, |b, id| vec![emitting_place(b, id, "only", &["start"], gives)]).load();
        assert_eq!(code(&ran(&program)), expected, "{gives}");
    }
}

#[test]
fn one_event_is_no_fan_out() {
    let program = net(NetEnd::Quiet, |b, id| {
        let single = emitting_place(b, id, "single", &["start"], r#"{"kind": "item", "payload": 4}"#);
        vec![single, Place { join: Join::FanOut, ..worker_place(b, id, "joined", &["item"]) }]
    })
    .load();
    assert_eq!(inputs(&ran(&program), "net.joined"), [json("[4]")]);
}

#[test]
fn a_body_sees_its_token_and_nothing_of_the_others() {
    let program = net(NetEnd::Quiet, |b, id| {
        let tokens = r#"[{"kind": "a", "payload": 1}, {"kind": "b", "payload": 2}]"#;
        let source = emitting_place(b, id, "source", &["start"], tokens);
        let body = b.sequence(id, "body", |b, id| {
            let seen = b.evaluate(id, "seen", r#"[{"$var": "kind"}, {"$var": "args"}, {"$var": "mine"}]"#);
            let set = b.node(id, "set", |b, _| {
                let write =
                    VariableUpdate { level: windlass_value::Level::Step, ..b.writes("mine", WriteOp::Set, "1") };
                NodeKind::single_task(Action::Write(write))
            });
            vec![seen, set]
        });
        vec![source, place("both", &["a", "b"], body)]
    })
    .load();
    let sim = ran(&program);
    let seen: Vec<Value> = sim
        .events_of("step.done")
        .into_iter()
        .filter(|event| event.path.ends_with("seen"))
        .filter_map(|event| event.data.get("output").cloned())
        .collect();
    assert_eq!(seen, [json(r#"["a", 1, null]"#), json(r#"["b", 2, null]"#)]);
}

#[test]
fn a_net_is_retried_after_its_bodies_have_ended() {
    let mut b = net(NetEnd::Quiet, |b, id| {
        vec![worker_place(b, id, "one", &["start"]), worker_place(b, id, "two", &["start"])]
    });
    let root = b.plan.root;
    b.node_mut(root).retry = Some(retry(2, secs(1)));
    b.node_mut(root).timeout = Some(NodeTimeout { after: Amount::Fixed(secs(30)), status: Status::TimedOut });
    let program = b.load();
    let mut sim = begun(&program);
    sim.fail("net.one");
    assert_eq!(sim.open_paths(), ["net.two"], "cancelled, not yet ended");
    sim.fail("net.two").advance(secs(1));
    assert_eq!(sim.open_paths(), ["net.one", "net.two"], "entered again");
    sim.advance(secs(40));
    assert_eq!(sim.status(), Status::TimedOut, "its time counts over all its tries");
}

#[test]
fn a_cancelled_net_leaves_nothing_behind() {
    let program = fanned(r#"[{"kind": "item", "payload": 1}, {"kind": "item", "payload": 2}]"#);
    let mut sim = begun(&program);
    sim.succeed("net.work", 1u32).cancel().advance(secs(10));
    assert_eq!(sim.status(), Status::Cancelled);
}

// Steps that are visited many times, and their inputs.

#[test]
fn the_first_token_may_be_computed() {
    for (input, args) in [(None, r#"{"who": "me"}"#), (Some(r#"{"empty": {"$input": "who"}}"#), r#"{"empty": "me"}"#)] {
        let mut b = net(NetEnd::Quiet, |b, id| vec![returning_place(b, id, "first", &["start"], ARGS)]);
        let input = input.map(|input| b.expr(input));
        let NodeKind::Net(net) = &mut b.plan.nodes[0].kind else { unreachable!("a net") };
        net.input = input;
        assert_eq!(ran(&b.load()).output(), json(args));
    }
}

#[test]
fn a_first_token_that_cannot_be_computed_fails_the_net() {
    let mut b = net(NetEnd::Quiet, |b, id| vec![returning_place(b, id, "first", &["start"], ARGS)]);
    let input = Some(b.expr(r#"{"$fail": "no token"}"#));
    let NodeKind::Net(net) = &mut b.plan.nodes[0].kind else { unreachable!("a net") };
    net.input = input;
    assert_eq!(code(&ran(&b.load())), "InvalidTemplate");
}

/// A step that returns to itself until its count reaches a limit.
#[test]
fn each_visit_of_a_step_is_a_separate_effect_with_its_own_events() {
    let program = net(NetEnd::Quiet, |b, id| {
        let mut step = worker_place(b, id, "step", &["start", "again"]);
        let again = b.guard(json(r#"{"$lt": [{"$var": "output"}, 3]}"#));
        step.arcs = vec![NetArc { when: Some(again), payload: Some(output_of(b)), ..arc("again") }];
        vec![step]
    })
    .load();
    let mut sim = begun(&program);
    for visit in 1..=3u32 {
        sim.succeed("net.step", visit);
    }
    assert_eq!((sim.status(), sim.output()), (Status::Succeeded, Value::Int(3)));
    let generations: Vec<u32> = sim.dispatched.iter().map(|job| job.key.generation).collect();
    assert!(generations.windows(2).all(|pair| pair[0] < pair[1]), "{generations:?}");
    let started = sim.events_of("step.started");
    let published: Vec<_> =
        started.iter().filter(|event| &*event.path == "net.step").map(|event| &event.data).collect();
    let field = |name: &str| published.iter().map(|data| data.get(name).cloned().unwrap()).collect::<Vec<_>>();
    assert_eq!(field("visit"), [Value::Int(1), Value::Int(2), Value::Int(3)]);
    assert_eq!(field("token"), ["start", "again", "again"].map(Value::from));
}

/// A join waits for one token per arc, so each arc has its own kind.
#[test]
fn a_join_takes_one_token_of_each_incoming_arc() {
    let program = net(NetEnd::Quiet, |b, id| {
        let mut first = returning_place(b, id, "first", &["start"], "1");
        (first.inclusive, first.arcs) = (true, vec![arc("left"), arc("right")]);
        let to_join =
            |b: &mut Builder, name: &str| NetArc { payload: Some(output_of(b)), ..arc(&format!("join@{name}")) };
        let mut left = worker_place(b, id, "left", &["left"]);
        left.arcs = vec![to_join(b, "left")];
        let mut right = worker_place(b, id, "right", &["right"]);
        right.arcs = vec![to_join(b, "right")];
        let mut join = returning_place(b, id, "join", &["join@left", "join@right"], ARGS);
        join.join = Join::All;
        vec![first, left, right, join]
    })
    .load();
    let mut sim = begun(&program);
    sim.succeed("net.right", 2u32);
    assert!(!sim.ended());
    sim.succeed("net.left", 1u32);
    assert_eq!(sim.output(), json(r#"{"join@left": 1, "join@right": 2}"#));
}

/// Guards and arcs may read missing values.
#[test]
fn a_place_guard_sees_its_token_and_missing_values_make_it_false() {
    let guarded = |source: &str| {
        let program = net(NetEnd::Quiet, |b, id| {
            let mut step = returning_place(b, id, "step", &["start"], "\"ran\"");
            step.guard = Some(b.guard(json(source)));
            vec![step]
        })
        .load();
        let sim = ran(&program);
        (sim.output(), sim.count("step.skipped"))
    };
    let mine = r#"{"$eq": [{"$get": [{"$var": "args"}, "who"]}, "me"]}"#;
    assert_eq!(guarded(mine), (Value::from("ran"), 0));
    assert_eq!(guarded(r#"{"$eq": [{"$node": "missing"}, 1]}"#), (Value::Null, 1));
}

/// An arc receives the failure of a step; without an arc that accepts it, the run fails with the step's error.
#[test]
fn a_step_failure_goes_to_an_arc_or_fails_the_run() {
    let program = |name: &str| {
        net(NetEnd::Quiet, |b, id| {
            let mut step = worker_place(b, id, "step", &["start"]);
            let when =
                b.condition(json(&format!(r#"{{"$eq": [{{"$get": [{{"$var": "event"}}, "name"]}}, "{name}"]}}"#)));
            let why = b.expr(r#"{"$get": [{"$var": "error"}, "code"]}"#);
            step.arcs = vec![
                arc("good"),
                NetArc { on: ArcTrigger::Either, when: Some(when), payload: Some(why), ..arc("bad") },
            ];
            vec![
                step,
                returning_place(b, id, "good", &["good"], "\"good\""),
                returning_place(b, id, "bad", &["bad"], ARGS),
            ]
        })
        .load()
    };
    let handled = program("step.failed");
    let mut sim = begun(&handled);
    sim.fail("net.step");
    assert_eq!((sim.status(), sim.output()), (Status::Succeeded, Value::from("500")));
    let unhandled = program("step.done");
    let mut sim = begun(&unhandled);
    sim.fail("net.step");
    assert_eq!((sim.status(), code(&sim)), (Status::Failed, "500".to_owned()));
}
