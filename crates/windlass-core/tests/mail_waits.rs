//! Waits for mail: waiting until another node is idle, the end of waits that no node can satisfy, and the general
//! invariants with mail in flight.

use crate::support;

use proptest::prelude::*;
use support::check::check_nothing_left;
use support::mail::*;
use support::random_plan::tight_limits;
use support::rng::{digest, mix};
use support::sim::{decoded, encoded};
use support::values::MemoryValues;
use support::world::World;
use support::*;
use windlass_core::plan::*;
use windlass_core::{Job, Limits, Program, Status, TaskOutcome, Tick, TickKind};
use windlass_value::{Duration, Value};

// Waiting until another node is idle.

#[test]
fn waiting_for_idle_collects_the_mail_sent_meanwhile() {
    let program = actors(&["hub", "a"]).load();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "a", "settle");
    assert!(!has_job(&sim, "a"), "the hub is at work");
    post(&mut sim, "hub", "a", "one");
    post(&mut sim, "hub", "a", "two");
    assert!(!has_job(&sim, "a"), "and may have more to say");
    request_op(&mut sim, "hub", "listen");
    assert_eq!(texts(&last_input(&sim, "a")), ["one", "two"]);
    // The node is idle: there is nothing to wait for.
    request_op(&mut sim, "a", "settle");
    assert!(has_job(&sim, "a"));
    assert_eq!((texts(&last_input(&sim, "a")), sim.count("mail.hold_timeout")), (vec![], 0));
}

#[test]
fn pending_mail_keeps_a_node_from_being_idle() {
    let program = actors(&["hub", "a", "b"]).load();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "hub", "listen");
    post(&mut sim, "b", "hub", "wake up");
    request_op(&mut sim, "a", "settle");
    post(&mut sim, "b", "hub", "more");
    request_op(&mut sim, "hub", "listen");
    assert_eq!(texts(&last_input(&sim, "hub")), ["more"]);
    assert!(!has_job(&sim, "a"));
    request_op(&mut sim, "hub", "listen");
    assert!(has_job(&sim, "a"));
}

#[test]
fn an_ended_or_missing_node_counts_as_idle() {
    let program = actors(&["hub", "a"]).load();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "a", "settle");
    request_op(&mut sim, "hub", "end");
    assert!(has_job(&sim, "a"));
    request_op(&mut sim, "a", "settle");
    assert!(has_job(&sim, "a"));
    let program = actors(&["a"]).load();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "a", "settle");
    assert!(has_job(&sim, "a"));
    // The same holds for a node that waits for itself, and for one that has not started.
    for names in [["hub", "a"], ["a", "hub"]] {
        let program = chain(&names).load();
        let mut sim = start_actors(&program);
        request_op(&mut sim, names[0], "settle");
        assert!(has_job(&sim, names[0]));
    }
}

#[test]
fn waiting_for_idle_times_out() {
    let program = actors(&["hub", "a"]).load();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "a", "settle");
    post(&mut sim, "hub", "a", "slowly");
    sim.advance(secs(29));
    assert!(!has_job(&sim, "a"));
    sim.tick(TickKind::Restart { lived: windlass_value::Duration::ZERO });
    sim.advance(secs(1));
    assert_eq!(texts(&last_input(&sim, "a")), ["slowly"]);
    assert_eq!(events(&sim, "mail.hold_timeout", &["to"]), ["hub"]);
    // After the timeout the node may still wait for mail.
    request_op(&mut sim, "a", "both");
    sim.advance(secs(30));
    assert!(!has_job(&sim, "a"));
    post(&mut sim, "hub", "a", "at last");
    assert_eq!(texts(&last_input(&sim, "a")), ["at last"]);
}

#[test]
fn a_node_cancelled_while_waiting_leaves_nothing_behind() {
    for op in ["settle", "both", "listen"] {
        let mut b = actors(&["hub", "a"]);
        let a = b.plan.nodes.iter().position(|node| &*node.name == "a").unwrap();
        b.plan.nodes[a].timeout = Some(NodeTimeout { after: Amount::Fixed(secs(5)), status: Status::TimedOut });
        let program = b.load();
        let mut sim = start_actors(&program);
        request_op(&mut sim, "a", op);
        sim.advance(secs(5));
        assert_eq!(sim.end_of("a").unwrap().0, Value::from("timed_out"));
        assert_eq!(
            (sim.state.mail.waiting_for_idle.len(), sim.state.mail.blocked.len(), sim.state.mail.boxes.len()),
            (0, 0, 1)
        );
        request_op(&mut sim, "hub", "end");
        check_nothing_left(&sim.state);
    }
}

/// `a`, `b` and `c` wait for each other to be idle, in a cycle.
fn cycle() -> Program {
    let mut b = Builder::new();
    let root = b.parallel(None, "root", |b, id| {
        [("a", "b"), ("b", "c"), ("c", "a")].map(|(one, other)| settling_actor(b, id, one, other, secs(30))).into()
    });
    b.node_mut(root).hidden = true;
    b.load()
}

#[test]
fn a_cycle_of_idle_waits_ends_when_nothing_else_moves() {
    let program = cycle();
    let mut sim = start_actors(&program);
    post(&mut sim, "c", "a", "hello");
    for actor in ["a", "b"] {
        request_op(&mut sim, actor, "settle");
        assert!(!has_job(&sim, actor));
    }
    request_op(&mut sim, "c", "settle");
    // The first waiter continues; the others wait until it is idle.
    assert_eq!((has_job(&sim, "a"), has_job(&sim, "b"), has_job(&sim, "c")), (true, false, false));
    assert_eq!(
        (texts(&last_input(&sim, "a")), sim.now.0, sim.count("mail.hold_timeout")),
        (vec!["hello".into()], 0, 0)
    );
    request_op(&mut sim, "a", "listen");
    assert_eq!(
        (has_job(&sim, "a"), has_job(&sim, "b"), has_job(&sim, "c")),
        (false, false, true),
        "c no longer keeps a busy"
    );
    request_op(&mut sim, "c", "end");
    assert!(has_job(&sim, "b"));
}

#[test]
fn a_cycle_of_idle_waits_lasts_until_its_timeout_while_something_else_moves() {
    let mut b = Builder::new();
    let root = b.parallel(None, "root", |b, id| {
        let pair = [("a", "b"), ("b", "a")].map(|(one, other)| settling_actor(b, id, one, other, secs(30)));
        pair.into_iter().chain([b.effect(id, "long", "1")]).collect()
    });
    b.node_mut(root).hidden = true;
    let program = b.load();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "a", "settle");
    sim.advance(secs(1));
    request_op(&mut sim, "b", "settle");
    assert!(!has_job(&sim, "a") && !has_job(&sim, "b"));
    sim.advance(secs(29));
    assert!(has_job(&sim, "a"), "its time is over");
    request_op(&mut sim, "a", "listen");
    assert!(has_job(&sim, "b"), "a rests");
    assert_eq!(sim.count("mail.hold_timeout"), 1);
}

/// Wait nodes that have their own mailbox and wait for each other to be idle.
#[test]
fn a_timed_out_wait_ends_and_the_other_continues_without_mail() {
    let mut b = Builder::new();
    let root = b.parallel(None, "root", |b, id| {
        let wait = |b: &mut Builder, name: &str, other: &str| {
            let settles = Some((other.into(), secs(60)));
            let node = b.node(id, name, |_, _| NodeKind::Wait(Wait::Mail { blocks: true, after_idle: settles }));
            b.node_mut(node).mailbox = Some(mailbox(3));
            node
        };
        let (one, two) = (wait(b, "one", "two"), wait(b, "two", "one"));
        b.node_mut(one).timeout = Some(NodeTimeout { after: Amount::Fixed(secs(5)), status: Status::TimedOut });
        vec![one, two, b.effect(id, "long", "1")]
    });
    b.node_mut(root).hidden = true;
    let program = b.load();
    let mut sim = start_actors(&program);
    assert_eq!(sim.state.mail.waiting_for_idle.len(), 2);
    sim.advance(secs(5));
    assert_eq!((sim.paths("step.failed"), sim.end_of("one").unwrap().0), (vec!["one"], Value::from("timed_out")));
    sim.succeed("long", 1i64);
    assert_eq!(sim.end_of("two").unwrap(), (Value::from("succeeded"), json("[]")));
}

/// A coordinator: it repeats until it has read that the flow has ended.
#[test]
fn a_coordinator_gets_all_reports_and_ends_with_the_flow() {
    let mut b = Builder::new();
    let root = b.parallel(None, "root", |b, id| {
        let hub = b.node(id, "hub", |b, id| {
            let wait = b.node(Some(id), "wait", |_, _| NodeKind::Wait(Wait::Mail { blocks: true, after_idle: None }));
            b.node_mut(wait).hidden = true;
            let mut ask = task("ask", b.action(r#"{"$var": "_prev"}"#));
            let over = b.condition(json(r#"{"$eq": [{"$get": [{"$var": "outcome"}, "result"]}, "over"]}"#));
            ask.rules = vec![rule(Some(over), Directive::Break), rule(None, Directive::Jump(0))];
            NodeKind::Pipeline(Pipeline { tasks: vec![task("mail", Action::Node(wait)), ask] })
        });
        b.node_mut(hub).mailbox = Some(Mailbox { closed: "mailbox-closed-by-finalize".into(), ..mailbox(100) });
        let flow = b.sequence(id, "flow", |b, id| {
            ["one", "two"].map(|name| settling_actor(b, id, name, "hub", secs(30))).into()
        });
        b.node_mut(flow).hidden = true;
        for node in &mut b.plan.nodes[flow.0 as usize..] {
            let visible = !node.hidden || &*node.name == "flow";
            node.reports_to = visible.then(|| "hub".into());
        }
        vec![hub, flow]
    });
    b.node_mut(root).hidden = true;
    let program = b.load();
    let mut sim = start_actors(&program);
    let read = |sim: &Sim| {
        let job = sim.dispatched.iter().rfind(|job| &**job.path() == "hub.ask").unwrap();
        let field = |mail: &Value, name: &str| mail.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
        let line = |mail: &Value| format!("{} {} {}", field(mail, "kind"), field(mail, "step"), field(mail, "text"));
        job.input.as_list().unwrap().iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(read(&sim), ["started  -", "started one -"]);
    request_op(&mut sim, "one", "settle");
    assert!(!has_job(&sim, "one"), "the coordinator thinks");
    sim.succeed("hub.ask", 1i64);
    assert!(has_job(&sim, "one"), "it rests");
    post(&mut sim, "one", "hub", "tell two");
    assert_eq!(read(&sim), ["- - tell two"]);
    request_op(&mut sim, "one", "end");
    request_op(&mut sim, "two", "settle");
    sim.succeed("hub.ask", 1i64);
    assert_eq!(read(&sim), ["ended one -", "started two -"]);
    sim.event("mail", json(r#"{"to": "two", "text": "from one"}"#)).drain_buffer();
    sim.succeed("hub.ask", 1i64);
    assert_eq!(texts(&last_input(&sim, "two")), ["from one"]);
    request_op(&mut sim, "two", "end");
    assert_eq!(read(&sim), ["ended two -", "ended  -"]);
    sim.succeed("hub.ask", "over");
    assert_eq!((sim.status(), drops(&sim).len()), (Status::Succeeded, 0));
}

// No node is left that could write.

#[test]
fn a_wait_for_mail_that_no_node_can_send_ends_empty() {
    let program = actors(&["hub", "a"]).load();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "hub", "listen");
    assert!(!has_job(&sim, "hub"));
    request_op(&mut sim, "a", "end");
    assert_eq!(texts(&last_input(&sim, "hub")), [""; 0]);
    request_op(&mut sim, "hub", "end");
    assert_eq!(sim.status(), Status::Succeeded);
}

#[test]
fn among_several_waiting_nodes_the_first_continues_and_may_write_to_the_others() {
    let program = actors(&["a", "b", "c"]).load();
    let mut sim = start_actors(&program);
    for actor in ["b", "c", "a"] {
        request_op(&mut sim, actor, "listen");
    }
    assert_eq!((has_job(&sim, "a"), has_job(&sim, "b"), has_job(&sim, "c")), (false, true, false));
    post(&mut sim, "b", "c", "go on");
    assert_eq!(texts(&last_input(&sim, "c")), ["go on"]);
    assert!(!has_job(&sim, "a"));
    assert_eq!(sim.count("workflow.idle"), 0);
}

#[test]
fn a_wait_continues_while_a_potential_sender_exists() {
    // A delay, a retry, an external client, a child run: each may lead to mail.
    let kinds: [fn(&mut Builder) -> NodeKind; 3] = [
        |_| NodeKind::Wait(Wait::Delay(Amount::Fixed(secs(9)))),
        |_| NodeKind::Wait(Wait::Signal { name: "go".into(), requirements: None, deadline: None, form: None }),
        |b| NodeKind::Call(ChildRunCall { definition: b.expr("\"child\""), input: b.expr("1") }),
    ];
    for (at, kind) in kinds.into_iter().enumerate() {
        let mut b = Builder::new();
        let root = b.parallel(None, "root", |b, id| {
            let other = b.node(id, "other", |b, _| kind(b));
            vec![actor(b, id, "a"), other]
        });
        b.node_mut(root).hidden = true;
        let program = b.load();
        let mut sim = start_actors(&program);
        request_op(&mut sim, "a", "listen");
        assert!(!has_job(&sim, "a"), "kind {at}");
        assert_eq!((sim.state.is_idle(), sim.count("workflow.idle")), (at == 1, usize::from(at == 1)));
        sim.event("mail", json(r#"{"to": "a", "text": "from outside"}"#)).drain_buffer();
        assert_eq!(texts(&last_input(&sim, "a")), ["from outside"], "kind {at}");
        request_op(&mut sim, "a", "listen");
        match at {
            1 => _ = sim.event("go", 1i64).drain_buffer(),
            _ => _ = sim.run_until_idle(),
        }
        assert_eq!(texts(&last_input(&sim, "a")), [""; 0], "kind {at}");
    }
}

#[test]
fn a_deadline_is_not_a_potential_sender() {
    let mut b = actors(&["a"]);
    b.node_mut(NodeId(1)).timeout = Some(NodeTimeout { after: Amount::Fixed(secs(3_600)), status: Status::TimedOut });
    b.plan.timeout = Some(secs(7_200));
    let program = b.load();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "a", "listen");
    assert!(has_job(&sim, "a"));
}

#[test]
fn mail_waits_do_not_end_while_the_run_is_paused() {
    let program = actors(&["a", "b"]).load();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "a", "listen");
    sim.tick(TickKind::Pause { request: None });
    request_op(&mut sim, "b", "end");
    assert!(!has_job(&sim, "a"));
    sim.event("mail", json(r#"{"to": "a", "text": "in time"}"#)).drain_buffer();
    sim.tick(TickKind::Resume { request: None }).drain_buffer();
    assert_eq!(texts(&last_input(&sim, "a")), ["in time"]);
}

#[test]
fn a_tick_with_more_pending_does_not_end_mail_waits() {
    let program = actors(&["a", "b"]).load();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "a", "listen");
    let Job { job, lease_epoch, .. } = sim.flights[0].job;
    let kind = TickKind::StepResult { job, lease_epoch, outcome: TaskOutcome::success(operation("end")) };
    sim.reduce(Tick { at: sim.now, seed: 1, kind, more_pending: true, clock_step: 0 }).unwrap();
    assert!(!sim.state.mail.blocked.is_empty());
    sim.event("mail", json(r#"{"to": "a", "text": "just in time"}"#)).drain_buffer();
    assert_eq!(texts(&last_input(&sim, "a")), ["just in time"]);
}

// The invariants, with mail in flight.

const ADDRESSES: [&str; 12] = [
    "hub",
    "hub",
    "hub",
    "flow.one",
    "flow.two",
    "flow.last",
    "loop[0].worker",
    "flow.loop.1.worker",
    "worker",
    "flow.loop",
    "one",
    "missing",
];

/// A hub next to a flow: two sequential actors; a loop of actors with two in flight; a last actor after all of them.
fn busy_plan(seed: u64, tight: bool) -> Program {
    let mut b = Builder::new();
    let root = b.parallel(None, "root", |b, id| {
        let hub = settling_actor(b, id, "hub", "flow.one", secs(2));
        let flow = b.node(id, "flow", |b, id| {
            let one = settling_actor(b, Some(id), "one", "hub", secs(3));
            let two = settling_actor(b, Some(id), "two", "flow.one", secs(3));
            let looping = b.looping(Some(id), "loop", |b, id| {
                let items = b.expr(r#"{"$range": 4}"#);
                let worker = settling_actor(b, id, "worker", "hub", secs(1));
                Loop { on_iteration_failure: IterationFailure::Count, ..each(items, 2, worker) }
            });
            let last = settling_actor(b, Some(id), "last", "hub", secs(3));
            let accepts = windlass_core::StatusSet::from_statuses([Status::Succeeded]);
            let after = |child| GraphDependency { child, accepts };
            let child = |node, after| GraphChild { node, after, condition: None, group: None };
            let children = vec![
                child(one, Vec::new()),
                child(two, vec![after(0)]),
                child(looping, Vec::new()),
                child(last, vec![after(1), after(2)]),
            ];
            let on_failure =
                if seed.is_multiple_of(3) { GraphFailurePolicy::CancelRest } else { GraphFailurePolicy::Continue };
            NodeKind::Graph(Graph { on_failure, max_concurrency: Some(2), ..graph(children) })
        });
        for node in &mut b.plan.nodes[flow.0 as usize..] {
            node.reports_to = (!node.hidden).then(|| "hub".into());
        }
        b.node_mut(flow).retry = seed.is_multiple_of(5).then(|| retry(2, secs(1)));
        vec![hub, flow]
    });
    b.node_mut(root).hidden = true;
    for node in &mut b.plan.nodes {
        let wakes = 3 + seed % 4;
        node.mailbox = node.mailbox.take().map(|mailbox| Mailbox { wakes, ..mailbox });
        if &*node.name == "two" {
            node.retry = Some(retry(2, Duration::from_ms(700)));
        }
    }
    let limits = if tight { tight_limits(seed) } else { Limits::default() };
    b.load_with(Limits { max_mailbox_messages: 2 + seed % 4, ..limits })
}

/// Actors that perform random operations, a few times each.
fn busy_world<'p>(seed: u64) -> World<'p> {
    Box::new(move |_, which, rng| {
        let dice = mix(digest(seed, which.path.as_bytes()) ^ (which.entry * 100 + which.run) as u64);
        let outcome = match (dice >> 8) % 16 {
            _ if which.run > 9 => TaskOutcome::success(operation("end")),
            0..7 => {
                let text = "x".repeat((dice >> 24 & 63) as usize);
                TaskOutcome::success(post_operation(ADDRESSES[(dice >> 16) as usize % ADDRESSES.len()], &text))
            }
            7 | 8 => TaskOutcome::success(operation("read")),
            9 | 10 => TaskOutcome::success(operation("listen")),
            11 | 12 => TaskOutcome::success(operation("settle")),
            13 => TaskOutcome::success(operation("both")),
            14 => TaskOutcome::success(operation("end")),
            _ => TaskOutcome::failure(world::refusal()),
        };
        Reply::After(Duration::from_ms(rng.below(4) * rng.below(900)), outcome)
    })
}

fn run_busy_plan(program: &Program, seed: u64) -> Sim<'_> {
    let mut sim = Sim::with_seed(program, seed, busy_world(seed));
    sim.disturbance = 5;
    sim.start();
    // An external client writes occasionally.
    for round in 0..1_000 {
        if sim.ended() {
            break;
        }
        if round % 7 == 3 {
            let to = ADDRESSES[(seed >> 8) as usize % ADDRESSES.len()];
            sim.event("mail", Value::object([("to", to), ("text", "a message from outside")]));
        }
        sim.step();
    }
    sim.run();
    sim
}

proptest! {
    #![proptest_config(support::cases(80))]

    #[test]
    fn a_replay_of_mail_equals_the_run(seed: u64, tight: bool) {
        let program = busy_plan(seed, tight);
        let live = run_busy_plan(&program, seed);
        assert_every_mail_is_settled_once(&live);
        let never = || Box::new(|_: &Job, _: &_, _: &mut _| Reply::Never);
        let mut again = Sim::with_seed(&program, seed, never());
        let mut forgetful = Sim::with_seed(&program, seed, never());
        forgetful.values = MemoryValues::forgetful();
        for (number, tick) in live.journal.iter().enumerate() {
            let snapshot = encoded(&again.state);
            again.state = decoded(&snapshot);
            prop_assert_eq!(encoded(&again.state), snapshot, "what was read is what was written");
            for sim in [&mut again, &mut forgetful] {
                sim.now = tick.at;
                sim.reduce(tick.clone()).unwrap();
                prop_assert_eq!(&sim.outputs[number], &live.outputs[number]);
            }
        }
        prop_assert_eq!(encoded(&again.state), encoded(&live.state));
        prop_assert_eq!(encoded(&forgetful.state), encoded(&live.state));
    }

    #[test]
    fn mail_survives_a_restart_at_any_tick(seed: u64, tight: bool, cancels: bool) {
        let program = busy_plan(seed, tight);
        let live = run_busy_plan(&program, seed);
        let stride = (live.journal.len() / 8).max(1);
        for moment in (1..live.journal.len()).step_by(stride) {
            let mut sim = Sim::restarted(&program, seed, &live.journal[..moment], busy_world(seed));
            if cancels && !sim.ended() {
                sim.cancel();
            }
            sim.run();
            check_nothing_left(&sim.state);
            assert_every_mail_is_settled_once(&sim);
        }
    }
}

/// The invariants are useful only if mail reaches every code path.
#[test]
fn random_actors_reach_every_outcome() {
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    for seed in 0..300 {
        let program = busy_plan(seed, seed % 2 == 0);
        let sim = run_busy_plan(&program, seed);
        for kind in ["message.sent", "message.delivered", "mail.hold_timeout", "mail.wakes_warning"] {
            *seen.entry(kind.to_owned()).or_default() += sim.count(kind);
        }
        for reason in events(&sim, "message.dropped", &["reason"]) {
            *seen.entry(reason).or_default() += 1;
        }
    }
    let expected = ["unknown-step", "target-terminal", "mailbox-full", "max-wake-cycles"];
    for corner in expected.into_iter().chain(["message.sent", "mail.hold_timeout", "mail.wakes_warning"]) {
        assert!(seen.get(corner).is_some_and(|times| *times >= 10), "`{corner}` is reached too rarely: {seen:?}");
    }
}

// No state is left behind.

/// A hub next to a loop of `iterations` iterations. Each iteration is a node with a mailbox that reports to the hub,
/// writes to it, gets mail from a node inside, and reads; the hub reads occasionally.
fn long_loop(iterations: u64) -> Program {
    let mut b = Builder::new();
    let root = b.parallel(None, "root", |b, id| {
        let hub = b.looping(id, "hub", |b, id| {
            let reads = b.node(id, "reads", |_, _| NodeKind::Wait(Wait::Mail { blocks: true, after_idle: None }));
            b.node_mut(reads).hidden = true;
            let empty = b.condition(json(r#"{"$eq": [{"$len": {"$iteration": "previous"}}, 0]}"#));
            Loop { check: LoopCheck::After { condition: empty, stop_when: true }, ..repeat(20 * iterations, reads) }
        });
        b.node_mut(hub).mailbox = Some(mailbox(20 * iterations));
        let looping = b.looping(id, "loop", |b, id| {
            let body = b.node(id, "worker", |b, id| {
                let post = |b: &mut Builder, label: &str, to: &str| {
                    let (to, mail) = (b.value(Value::from(to)), b.expr(r#"{"text": "hello"}"#));
                    task(label, Action::Post(SendMail { to, mail }))
                };
                let read =
                    b.node(Some(id), "read", |_, _| NodeKind::Wait(Wait::Mail { blocks: false, after_idle: None }));
                b.node_mut(read).hidden = true;
                let inner = b.node(Some(id), "inner", |b, _| {
                    let tasks = vec![post(b, "", "worker")];
                    NodeKind::Pipeline(Pipeline { tasks })
                });
                b.node_mut(inner).mailbox = Some(mailbox(1));
                let inner = task("two", Action::Node(inner));
                let tasks = vec![post(b, "one", "hub"), inner, task("read", Action::Node(read))];
                NodeKind::Pipeline(Pipeline { tasks })
            });
            b.node_mut(body).mailbox = Some(mailbox(3));
            b.node_mut(body).reports_to = Some("hub".into());
            Loop {
                limits: LoopLimits { iterations: Some(Amount::Fixed(iterations)), ..no_limits() },
                ..repeat(iterations, body)
            }
        });
        vec![hub, looping]
    });
    b.node_mut(root).hidden = true;
    b.load_with(Limits { max_loop_results: 5, ..Limits::default() })
}

#[test]
fn iterations_with_mail_leave_nothing_behind() {
    let iterations = 20_000;
    let program = long_loop(iterations);
    let mut sim = Sim::new(&program, support::world::echo());
    sim.start();
    let mut sizes = Vec::new();
    while !sim.ended() {
        assert!(sim.step(), "it continues by itself");
        sizes.push(encoded(&sim.state).len());
        sim.outputs.clear();
        sim.journal.clear();
    }
    assert!(sim.state.mail.numbers >= 4 * iterations, "{} mails", sim.state.mail.numbers);
    assert_eq!((sim.loop_end("hub").0.as_str(), sim.loop_end("loop").1), ("condition", iterations as i64));
    assert_eq!(drops(&sim), [""; 0], "it is read by later iterations");
    let (early, late) = (sizes[1], sizes[sizes.len() - 3]);
    assert!(sizes.len() >= 5 && late < early + 2_000, "the state grows: {sizes:?}");
    check_nothing_left(&sim.state);
}

// Lingering nodes, which no other node waits for.

#[test]
fn a_lingering_node_gets_its_time_after_all_others_have_ended() {
    for (ends_by_itself, ending) in
        [(false, GraphStatusRule::Any), (true, GraphStatusRule::Any), (false, GraphStatusRule::Leaves)]
    {
        let mut b = actors(&["hub", "a"]);
        b.node_mut(NodeId(1)).linger_time = Some(secs(60));
        if let NodeKind::Graph(graph) = &mut b.node_mut(b.plan.root).kind {
            graph.ending = ending;
        }
        assert_eq!(&*b.node_mut(NodeId(1)).name, "hub");
        let program = b.load();
        let mut sim = start_actors(&program);
        sim.advance(secs(500));
        request_op(&mut sim, "a", "end");
        sim.advance(secs(59));
        assert!(has_job(&sim, "hub") && sim.state.result().is_none());
        match ends_by_itself {
            // The way it ends does not matter.
            true => sim.fail("hub.do"),
            // Its job gets the cancellation grace period.
            false => sim.advance(secs(1)).advance(Limits::default().cancel_grace),
        };
        sim.drain_buffer();
        assert_eq!((sim.status(), sim.result().error.is_none()), (Status::Succeeded, true), "{ending:?}");
    }
}
