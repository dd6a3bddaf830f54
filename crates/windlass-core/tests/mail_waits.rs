//! Waits for mail: who lets whom come to rest, what happens when nobody is left who could write, and that mail obeys the
//! laws of everything else.

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

// Letting another come to rest.

#[test]
fn who_lets_another_rest_gets_what_it_had_to_say() {
    let program = actors(&["hub", "a"]).load();
    let mut sim = on(&program);
    says(&mut sim, "a", "settle");
    assert!(!works(&sim, "a"), "the hub is at work");
    post(&mut sim, "hub", "a", "one");
    post(&mut sim, "hub", "a", "two");
    assert!(!works(&sim, "a"), "and may have more to say");
    says(&mut sim, "hub", "listen");
    assert_eq!(texts(&heard(&sim, "a")), ["one", "two"]);
    // It rests: there is nothing to wait for.
    says(&mut sim, "a", "settle");
    assert!(works(&sim, "a"));
    assert_eq!((texts(&heard(&sim, "a")), sim.count("mail.hold_timeout")), (vec![], 0));
}

#[test]
fn mail_for_the_other_keeps_it_from_its_rest() {
    let program = actors(&["hub", "a", "b"]).load();
    let mut sim = on(&program);
    says(&mut sim, "hub", "listen");
    post(&mut sim, "b", "hub", "wake up");
    says(&mut sim, "a", "settle");
    post(&mut sim, "b", "hub", "more");
    says(&mut sim, "hub", "listen");
    assert_eq!(texts(&heard(&sim, "hub")), ["more"]);
    assert!(!works(&sim, "a"));
    says(&mut sim, "hub", "listen");
    assert!(works(&sim, "a"));
}

#[test]
fn who_has_ended_or_is_not_there_is_not_waited_for() {
    let program = actors(&["hub", "a"]).load();
    let mut sim = on(&program);
    says(&mut sim, "a", "settle");
    says(&mut sim, "hub", "end");
    assert!(works(&sim, "a"));
    says(&mut sim, "a", "settle");
    assert!(works(&sim, "a"));
    let program = actors(&["a"]).load();
    let mut sim = on(&program);
    says(&mut sim, "a", "settle");
    assert!(works(&sim, "a"));
    // Nor is one that waits for itself, nor one that has not begun.
    for names in [["hub", "a"], ["a", "hub"]] {
        let program = chain(&names).load();
        let mut sim = on(&program);
        says(&mut sim, names[0], "settle");
        assert!(works(&sim, names[0]));
    }
}

#[test]
fn nobody_is_waited_for_without_end() {
    let program = actors(&["hub", "a"]).load();
    let mut sim = on(&program);
    says(&mut sim, "a", "settle");
    post(&mut sim, "hub", "a", "slowly");
    sim.pass(secs(29));
    assert!(!works(&sim, "a"));
    sim.tick(TickKind::Restart);
    sim.pass(secs(1));
    assert_eq!(texts(&heard(&sim, "a")), ["slowly"]);
    assert_eq!(events(&sim, "mail.hold_timeout", &["to"]), ["hub"]);
    // After that it may still wait for mail.
    says(&mut sim, "a", "both");
    sim.pass(secs(30));
    assert!(!works(&sim, "a"));
    post(&mut sim, "hub", "a", "at last");
    assert_eq!(texts(&heard(&sim, "a")), ["at last"]);
}

#[test]
fn a_node_cancelled_while_waiting_leaves_nothing_behind() {
    for op in ["settle", "both", "listen"] {
        let mut b = actors(&["hub", "a"]);
        let a = b.plan.nodes.iter().position(|node| &*node.name == "a").unwrap();
        b.plan.nodes[a].timeout = Some(Timeout { after: Amount::Fixed(secs(5)), status: Status::TimedOut });
        let program = b.load();
        let mut sim = on(&program);
        says(&mut sim, "a", op);
        sim.pass(secs(5));
        assert_eq!(sim.end_of("a").unwrap().0, Value::from("timed_out"));
        assert_eq!(
            (sim.state.mail.settling.len(), sim.state.mail.blocked.len(), sim.state.mail.boxes.len()),
            (0, 0, 1)
        );
        says(&mut sim, "hub", "end");
        check_nothing_left(&sim.state);
    }
}

/// `a`, `b` and `c` let each other come to rest, in a circle.
fn circle() -> Program {
    let mut b = Builder::new();
    let root = b.together(None, "root", |b, id| {
        [("a", "b"), ("b", "c"), ("c", "a")].map(|(one, other)| settling_actor(b, id, one, other, secs(30))).into()
    });
    b.at(root).hidden = true;
    b.load()
}

#[test]
fn those_who_wait_for_each_others_rest_do_not_wait_when_nothing_else_moves() {
    let program = circle();
    let mut sim = on(&program);
    post(&mut sim, "c", "a", "hello");
    for who in ["a", "b"] {
        says(&mut sim, who, "settle");
        assert!(!works(&sim, who));
    }
    says(&mut sim, "c", "settle");
    // The first to wait goes on; the others let it come to rest.
    assert_eq!((works(&sim, "a"), works(&sim, "b"), works(&sim, "c")), (true, false, false));
    assert_eq!((texts(&heard(&sim, "a")), sim.now.0, sim.count("mail.hold_timeout")), (vec!["hello".into()], 0, 0));
    says(&mut sim, "a", "listen");
    assert_eq!((works(&sim, "a"), works(&sim, "b"), works(&sim, "c")), (false, false, true), "c has let a rest");
    says(&mut sim, "c", "end");
    assert!(works(&sim, "b"));
}

#[test]
fn those_who_wait_for_each_others_rest_wait_for_a_time_when_something_else_moves() {
    let mut b = Builder::new();
    let root = b.together(None, "root", |b, id| {
        let pair = [("a", "b"), ("b", "a")].map(|(one, other)| settling_actor(b, id, one, other, secs(30)));
        pair.into_iter().chain([b.effect(id, "long", "1")]).collect()
    });
    b.at(root).hidden = true;
    let program = b.load();
    let mut sim = on(&program);
    says(&mut sim, "a", "settle");
    sim.pass(secs(1));
    says(&mut sim, "b", "settle");
    assert!(!works(&sim, "a") && !works(&sim, "b"));
    sim.pass(secs(29));
    assert!(works(&sim, "a"), "its time is over");
    says(&mut sim, "a", "listen");
    assert!(works(&sim, "b"), "a rests");
    assert_eq!(sim.count("mail.hold_timeout"), 1);
}

/// Waits that have their mailbox themselves, and let each other come to rest.
#[test]
fn a_wait_that_is_called_off_goes_on_with_nothing() {
    let mut b = Builder::new();
    let root = b.together(None, "root", |b, id| {
        let wait = |b: &mut Builder, name: &str, other: &str| {
            let settles = Some((other.into(), secs(60)));
            let node = b.node(id, name, |_, _| NodeKind::Wait(Wait::Mail { blocks: true, settles }));
            b.at(node).mailbox = Some(mailbox(3));
            node
        };
        let (one, two) = (wait(b, "one", "two"), wait(b, "two", "one"));
        b.at(one).timeout = Some(Timeout { after: Amount::Fixed(secs(5)), status: Status::TimedOut });
        vec![one, two, b.effect(id, "long", "1")]
    });
    b.at(root).hidden = true;
    let program = b.load();
    let mut sim = on(&program);
    assert_eq!(sim.state.mail.settling.len(), 2);
    sim.pass(secs(5));
    assert_eq!((sim.paths("step.failed"), sim.end_of("one").unwrap().0), (vec!["one"], Value::from("timed_out")));
    sim.succeed("long", 1i64);
    assert_eq!(sim.end_of("two").unwrap(), (Value::from("succeeded"), json("[]")));
}

/// The shape of a coordinator: it goes round until it has read that the flow has ended.
#[test]
fn a_coordinator_hears_all_and_ends_with_the_flow() {
    let mut b = Builder::new();
    let root = b.together(None, "root", |b, id| {
        let hub = b.node(id, "hub", |b, id| {
            let wait = b.node(Some(id), "wait", |_, _| NodeKind::Wait(Wait::Mail { blocks: true, settles: None }));
            b.at(wait).hidden = true;
            let mut ask = task("ask", b.action(r#"{"$var": "_prev"}"#));
            let over = b.condition(json(r#"{"$eq": [{"$get": [{"$var": "outcome"}, "result"]}, "over"]}"#));
            ask.rules = vec![rule(Some(over), Directive::Break), rule(None, Directive::Jump(0))];
            NodeKind::Pipeline(Pipeline { tasks: vec![task("mail", Action::Node(wait)), ask] })
        });
        b.at(hub).mailbox = Some(Mailbox { closed: "mailbox-closed-by-finalize".into(), ..mailbox(100) });
        let flow = b.sequence(id, "flow", |b, id| {
            ["one", "two"].map(|name| settling_actor(b, id, name, "hub", secs(30))).into()
        });
        b.at(flow).hidden = true;
        for node in &mut b.plan.nodes[flow.0 as usize..] {
            let visible = !node.hidden || &*node.name == "flow";
            node.reports_to = visible.then(|| "hub".into());
        }
        vec![hub, flow]
    });
    b.at(root).hidden = true;
    let program = b.load();
    let mut sim = on(&program);
    let read = |sim: &Sim| {
        let job = sim.dispatched.iter().rfind(|job| &**job.path() == "hub.ask").unwrap();
        let field = |mail: &Value, name: &str| mail.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
        let line = |mail: &Value| format!("{} {} {}", field(mail, "kind"), field(mail, "step"), field(mail, "text"));
        job.input.as_list().unwrap().iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(read(&sim), ["started  -", "started one -"]);
    says(&mut sim, "one", "settle");
    assert!(!works(&sim, "one"), "the coordinator thinks");
    sim.succeed("hub.ask", 1i64);
    assert!(works(&sim, "one"), "it rests");
    post(&mut sim, "one", "hub", "tell two");
    assert_eq!(read(&sim), ["- - tell two"]);
    says(&mut sim, "one", "end");
    says(&mut sim, "two", "settle");
    sim.succeed("hub.ask", 1i64);
    assert_eq!(read(&sim), ["ended one -", "started two -"]);
    sim.event("mail", json(r#"{"to": "two", "text": "from one"}"#)).settle();
    sim.succeed("hub.ask", 1i64);
    assert_eq!(texts(&heard(&sim, "two")), ["from one"]);
    says(&mut sim, "two", "end");
    assert_eq!(read(&sim), ["ended two -", "ended  -"]);
    sim.succeed("hub.ask", "over");
    assert_eq!((sim.status(), drops(&sim).len()), (Status::Succeeded, 0));
}

// Nobody is left who could write.

#[test]
fn who_waits_for_mail_that_nobody_can_write_is_given_none() {
    let program = actors(&["hub", "a"]).load();
    let mut sim = on(&program);
    says(&mut sim, "hub", "listen");
    assert!(!works(&sim, "hub"));
    says(&mut sim, "a", "end");
    assert_eq!(texts(&heard(&sim, "hub")), [""; 0]);
    says(&mut sim, "hub", "end");
    assert_eq!(sim.status(), Status::Succeeded);
}

#[test]
fn of_several_the_first_goes_on_and_may_write_to_the_others() {
    let program = actors(&["a", "b", "c"]).load();
    let mut sim = on(&program);
    for who in ["b", "c", "a"] {
        says(&mut sim, who, "listen");
    }
    assert_eq!((works(&sim, "a"), works(&sim, "b"), works(&sim, "c")), (false, true, false));
    post(&mut sim, "b", "c", "go on");
    assert_eq!(texts(&heard(&sim, "c")), ["go on"]);
    assert!(!works(&sim, "a"));
    assert_eq!(sim.count("workflow.idle"), 0);
}

#[test]
fn what_may_still_write_is_waited_for() {
    // A delay, a retry, somebody outside, a child run: each may lead to mail.
    let kinds: [fn(&mut Builder) -> NodeKind; 3] = [
        |_| NodeKind::Wait(Wait::Delay(Amount::Fixed(secs(9)))),
        |_| NodeKind::Wait(Wait::Signal { name: "go".into(), requirements: None, deadline: None, form: None }),
        |b| NodeKind::Call(Call { definition: b.expr("\"child\""), input: b.expr("1") }),
    ];
    for (at, kind) in kinds.into_iter().enumerate() {
        let mut b = Builder::new();
        let root = b.together(None, "root", |b, id| {
            let other = b.node(id, "other", |b, _| kind(b));
            vec![actor(b, id, "a"), other]
        });
        b.at(root).hidden = true;
        let program = b.load();
        let mut sim = on(&program);
        says(&mut sim, "a", "listen");
        assert!(!works(&sim, "a"), "kind {at}");
        assert_eq!((sim.state.is_idle(), sim.count("workflow.idle")), (at == 1, usize::from(at == 1)));
        sim.event("mail", json(r#"{"to": "a", "text": "from outside"}"#)).settle();
        assert_eq!(texts(&heard(&sim, "a")), ["from outside"], "kind {at}");
        says(&mut sim, "a", "listen");
        match at {
            1 => _ = sim.event("go", 1i64).settle(),
            _ => _ = sim.run_until_quiet(),
        }
        assert_eq!(texts(&heard(&sim, "a")), [""; 0], "kind {at}");
    }
}

#[test]
fn a_deadline_is_not_somebody_who_writes() {
    let mut b = actors(&["a"]);
    b.at(NodeId(1)).timeout = Some(Timeout { after: Amount::Fixed(secs(3_600)), status: Status::TimedOut });
    b.plan.timeout = Some(secs(7_200));
    let program = b.load();
    let mut sim = on(&program);
    says(&mut sim, "a", "listen");
    assert!(works(&sim, "a"));
}

#[test]
fn while_the_run_is_paused_nobody_gives_up() {
    let program = actors(&["a", "b"]).load();
    let mut sim = on(&program);
    says(&mut sim, "a", "listen");
    sim.tick(TickKind::Pause { request: None });
    says(&mut sim, "b", "end");
    assert!(!works(&sim, "a"));
    sim.event("mail", json(r#"{"to": "a", "text": "in time"}"#)).settle();
    sim.tick(TickKind::Resume { request: None }).settle();
    assert_eq!(texts(&heard(&sim, "a")), ["in time"]);
}

#[test]
fn what_comes_with_more_to_come_is_not_the_last_word() {
    let program = actors(&["a", "b"]).load();
    let mut sim = on(&program);
    says(&mut sim, "a", "listen");
    let Job { job, lease_epoch: dispatch, .. } = sim.flights[0].job;
    let kind = TickKind::StepResult { job, lease_epoch: dispatch, outcome: TaskOutcome::success(word("end")) };
    sim.reduce(Tick { at: sim.now, seed: 1, kind, more: true }).unwrap();
    assert!(!sim.state.mail.blocked.is_empty());
    sim.event("mail", json(r#"{"to": "a", "text": "just in time"}"#)).settle();
    assert_eq!(texts(&heard(&sim, "a")), ["just in time"]);
}

// The laws, with mail on its way.

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
    "nobody",
];

/// A hub beside a flow: two actors, one after the other; a loop of actors, two at a time; a last one after all.
fn bustle(seed: u64, tight: bool) -> Program {
    let mut b = Builder::new();
    let root = b.together(None, "root", |b, id| {
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
            let accepts = windlass_core::StatusSet::of([Status::Succeeded]);
            let after = |child| After { child, accepts };
            let child = |node, after| Child { node, after, condition: None, group: None };
            let children = vec![
                child(one, Vec::new()),
                child(two, vec![after(0)]),
                child(looping, Vec::new()),
                child(last, vec![after(1), after(2)]),
            ];
            let on_failure = if seed.is_multiple_of(3) { OnFailure::CancelRest } else { OnFailure::Continue };
            NodeKind::Graph(Graph { on_failure, max_concurrency: Some(2), ..graph(children) })
        });
        for node in &mut b.plan.nodes[flow.0 as usize..] {
            node.reports_to = (!node.hidden).then(|| "hub".into());
        }
        b.at(flow).retry = seed.is_multiple_of(5).then(|| retry(2, secs(1)));
        vec![hub, flow]
    });
    b.at(root).hidden = true;
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

/// Actors that do anything, a few times.
fn busy<'p>(seed: u64) -> World<'p> {
    Box::new(move |_, which, rng| {
        let dice = mix(digest(seed, which.path.as_bytes()) ^ (which.entry * 100 + which.run) as u64);
        let outcome = match (dice >> 8) % 16 {
            _ if which.run > 9 => TaskOutcome::success(word("end")),
            0..7 => {
                let text = "x".repeat((dice >> 24 & 63) as usize);
                TaskOutcome::success(posting(ADDRESSES[(dice >> 16) as usize % ADDRESSES.len()], &text))
            }
            7 | 8 => TaskOutcome::success(word("read")),
            9 | 10 => TaskOutcome::success(word("listen")),
            11 | 12 => TaskOutcome::success(word("settle")),
            13 => TaskOutcome::success(word("both")),
            14 => TaskOutcome::success(word("end")),
            _ => TaskOutcome::failure(world::refusal()),
        };
        Reply::After(Duration::from_ms(rng.below(4) * rng.below(900)), outcome)
    })
}

fn bustling(program: &Program, seed: u64) -> Sim<'_> {
    let mut sim = Sim::with_seed(program, seed, busy(seed));
    sim.disturbance = 5;
    sim.start();
    // Somebody outside writes now and then.
    for round in 0..1_000 {
        if sim.ended() {
            break;
        }
        if round % 7 == 3 {
            let to = ADDRESSES[(seed >> 8) as usize % ADDRESSES.len()];
            sim.event("mail", Value::object([("to", to), ("text", "a word from somebody who looks on")]));
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
        let program = bustle(seed, tight);
        let live = bustling(&program, seed);
        every_mail_has_one_fate(&live);
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
    fn mail_outlives_the_process_at_any_moment(seed: u64, tight: bool, cancels: bool) {
        let program = bustle(seed, tight);
        let live = bustling(&program, seed);
        let stride = (live.journal.len() / 8).max(1);
        for moment in (1..live.journal.len()).step_by(stride) {
            let mut sim = Sim::restarted(&program, seed, &live.journal[..moment], busy(seed));
            if cancels && !sim.ended() {
                sim.cancel();
            }
            sim.run();
            check_nothing_left(&sim.state);
            every_mail_has_one_fate(&sim);
        }
    }
}

/// The laws are worth something only if mail goes everywhere.
#[test]
fn actors_by_chance_reach_every_corner() {
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    for seed in 0..300 {
        let program = bustle(seed, seed % 2 == 0);
        let sim = bustling(&program, seed);
        for kind in ["message.sent", "message.delivered", "mail.hold_timeout", "mail.wakes_warning"] {
            *seen.entry(kind.to_owned()).or_default() += sim.count(kind);
        }
        for reason in events(&sim, "message.dropped", &["reason"]) {
            *seen.entry(reason).or_default() += 1;
        }
    }
    let wanted = ["unknown-step", "target-terminal", "mailbox-full", "max-wake-cycles"];
    for corner in wanted.into_iter().chain(["message.sent", "mail.hold_timeout", "mail.wakes_warning"]) {
        assert!(seen.get(corner).is_some_and(|times| *times >= 10), "`{corner}` is reached too rarely: {seen:?}");
    }
}

// Nothing is left behind.

/// A hub beside a loop of so many turns, each a node with a mailbox that reports to the hub, writes to it, is written to by a
/// node inside, and reads; the hub reads now and then.
fn long(iterations: u64) -> Program {
    let mut b = Builder::new();
    let root = b.together(None, "root", |b, id| {
        let hub = b.looping(id, "hub", |b, id| {
            let reads = b.node(id, "reads", |_, _| NodeKind::Wait(Wait::Mail { blocks: true, settles: None }));
            b.at(reads).hidden = true;
            let empty = b.condition(json(r#"{"$eq": [{"$len": {"$turn": "previous"}}, 0]}"#));
            Loop { check: Check::After { condition: empty, stop_when: true }, ..repeat(20 * iterations, reads) }
        });
        b.at(hub).mailbox = Some(mailbox(20 * iterations));
        let looping = b.looping(id, "loop", |b, id| {
            let body = b.node(id, "worker", |b, id| {
                let post = |b: &mut Builder, label: &str, to: &str| {
                    let (to, mail) = (b.value(Value::from(to)), b.expr(r#"{"text": "hello"}"#));
                    task(label, Action::Post(Post { to, mail }))
                };
                let read = b.node(Some(id), "read", |_, _| NodeKind::Wait(Wait::Mail { blocks: false, settles: None }));
                b.at(read).hidden = true;
                let inner = b.node(Some(id), "inner", |b, _| {
                    let tasks = vec![post(b, "", "worker")];
                    NodeKind::Pipeline(Pipeline { tasks })
                });
                b.at(inner).mailbox = Some(mailbox(1));
                let inner = task("two", Action::Node(inner));
                let tasks = vec![post(b, "one", "hub"), inner, task("read", Action::Node(read))];
                NodeKind::Pipeline(Pipeline { tasks })
            });
            b.at(body).mailbox = Some(mailbox(3));
            b.at(body).reports_to = Some("hub".into());
            Loop { limits: LoopLimits { iterations: Some(Amount::Fixed(iterations)), ..no_limits() }, ..repeat(iterations, body) }
        });
        vec![hub, looping]
    });
    b.at(root).hidden = true;
    b.load_with(Limits { max_loop_results: 5, ..Limits::default() })
}

#[test]
fn iterations_with_mail_leave_nothing_behind() {
    let iterations = 20_000;
    let program = long(iterations);
    let mut sim = Sim::new(&program, support::world::echo());
    sim.start();
    let mut sizes = Vec::new();
    while !sim.ended() {
        assert!(sim.step(), "it goes on by itself");
        sizes.push(encoded(&sim.state).len());
        sim.outputs.clear();
        sim.journal.clear();
    }
    assert!(sim.state.mail.numbers >= 4 * iterations, "{} mails", sim.state.mail.numbers);
    assert_eq!((sim.loop_end("hub").0.as_str(), sim.loop_end("loop").1), ("condition", iterations as i64));
    assert_eq!(drops(&sim), [""; 0], "it is read as the turns go on");
    let (early, late) = (sizes[1], sizes[sizes.len() - 3]);
    assert!(sizes.len() >= 5 && late < early + 2_000, "the state grows: {sizes:?}");
    check_nothing_left(&sim.state);
}

// Who holds nobody up.

#[test]
fn who_lingers_has_its_time_when_all_others_have_ended() {
    for (ends_by_itself, ending) in [(false, Ending::Any), (true, Ending::Any), (false, Ending::Leaves)] {
        let mut b = actors(&["hub", "a"]);
        b.at(NodeId(1)).lingers = Some(secs(60));
        if let NodeKind::Graph(graph) = &mut b.at(b.plan.root).kind {
            graph.ending = ending;
        }
        assert_eq!(&*b.at(NodeId(1)).name, "hub");
        let program = b.load();
        let mut sim = on(&program);
        sim.pass(secs(500));
        says(&mut sim, "a", "end");
        sim.pass(secs(59));
        assert!(works(&sim, "hub") && sim.state.result().is_none());
        match ends_by_itself {
            // However it ends.
            true => sim.fail("hub.do"),
            // Its job is given some time to stop.
            false => sim.pass(secs(1)).pass(Limits::default().cancel_grace),
        };
        sim.settle();
        assert_eq!((sim.status(), sim.result().error.is_none()), (Status::Succeeded, true), "{ending:?}");
    }
}
