//! Mail between nodes of a run: whom an address means, what becomes of what nobody reads, who is told of what.

use crate::support;

use support::mail::*;
use support::values::MemoryValues;
use support::*;
use windlass_core::plan::*;
use windlass_core::{Limits, PlanError, Program, Status, TickKind};
use windlass_value::Value;

// What is sent, and what is read.

#[test]
fn mail_is_read_once_and_oldest_first_with_its_number_sender_and_time() {
    let program = actors(&["a", "b", "c"]).load();
    let mut sim = on(&program);
    sim.pass(secs(5));
    assert_eq!(post(&mut sim, "a", "b", "one"), json(r#"{"status": "queued", "id": "msg-1"}"#));
    post(&mut sim, "c", "b", "two");
    post(&mut sim, "a", "b", "three");
    says(&mut sim, "b", "read");
    let mails = heard(&sim, "b");
    assert_eq!(texts(&mails), ["one", "two", "three"]);
    let second = r#"{"text": "two", "id": "msg-2", "from": "c", "at": "1970-01-01T00:00:05.000Z"}"#;
    assert_eq!(mails.as_list().unwrap()[1], json(second));
    assert_eq!(reads(&mut sim, "b"), [""; 0]);
    assert_eq!(events(&sim, "message.sent", &["id", "from", "to"]), ["msg-1 a b", "msg-2 c b", "msg-3 a b"]);
    assert_eq!(events(&sim, "message.delivered", &["to", "ids"]), ["b msg-1,msg-2,msg-3"]);
    assert_eq!(drops(&sim), [""; 0]);
}

#[test]
fn who_waits_for_mail_gets_it_at_once() {
    let program = actors(&["a", "b"]).load();
    let mut sim = on(&program);
    says(&mut sim, "b", "listen");
    assert!(!works(&sim, "b"));
    post(&mut sim, "a", "b", "wake up");
    assert_eq!(texts(&heard(&sim, "b")), ["wake up"]);
    // What is there already is not waited for.
    post(&mut sim, "a", "b", "again");
    says(&mut sim, "b", "listen");
    assert_eq!(texts(&heard(&sim, "b")), ["again"]);
}

#[test]
fn large_mail_and_large_addresses_are_fetched() {
    let program = actors(&["a", "b"]).load_with(Limits { max_inline_bytes: 20, ..Limits::default() });
    let mut sim = on(&program);
    sim.values = MemoryValues::forgetful();
    let text = "x".repeat(100);
    assert_eq!(fate(&post(&mut sim, "a", "b", &text)), "queued");
    assert_eq!(reads(&mut sim, "b"), [text]);
}

#[test]
fn what_is_no_mail_fails_its_task() {
    for (to, mail) in [("7", r#"{"text": "x"}"#), (r#""a""#, "[1]")] {
        let mut b = Builder::new();
        let lone = b.node(None, "a", |b, _| {
            let (to, mail) = (b.expr(to), b.expr(mail));
            NodeKind::lone(Action::Post(Post { to, mail }))
        });
        b.at(lone).mailbox = Some(mailbox(1));
        let program = b.load();
        let sim = on(&program);
        assert_eq!(sim.result().error.as_ref().map(|error| &*error.code), Some("BadMail"), "{to}");
    }
}

#[test]
fn who_waits_for_mail_needs_a_mailbox() {
    let mut b = Builder::new();
    b.node(None, "wait", |_, _| NodeKind::Wait(Wait::Mail { blocks: false, settles: None }));
    let PlanError(why) = Program::load(b.plan, &[&support::language::TestLanguage], Limits::default()).err().unwrap();
    assert!(why.contains("`wait` waits for mail"), "{why}");
}

#[test]
fn a_mailbox_lives_through_the_retries_of_its_node() {
    let mut b = actors(&["a", "b"]);
    b.at(NodeId(1)).retry = Some(retry(2, secs(10)));
    let program = b.load();
    let mut sim = on(&program);
    post(&mut sim, "b", "a", "before");
    sim.fail("a.do");
    post(&mut sim, "b", "a", "between");
    sim.pass(secs(10));
    post(&mut sim, "b", "a", "after");
    assert_eq!(reads(&mut sim, "a"), ["before", "between", "after"]);
    assert_eq!(drops(&sim), [""; 0]);
}

#[test]
fn what_a_try_was_given_is_given_to_the_next() {
    let mut b = actors(&["a", "b"]);
    b.at(NodeId(1)).retry = Some(retry(3, secs(10)));
    b.at(NodeId(1)).mailbox = Some(mailbox(2));
    let program = b.load();
    let mut sim = on(&program);
    post(&mut sim, "b", "a", "one");
    assert_eq!(reads(&mut sim, "a"), ["one"]);
    sim.fail("a.do");
    post(&mut sim, "b", "a", "two");
    sim.tick(TickKind::Restart);
    sim.pass(secs(10));
    assert_eq!(reads(&mut sim, "a"), ["one", "two"]);
    assert_eq!(reads(&mut sim, "a"), [""; 0]);
    sim.fail("a.do").pass(secs(10));
    assert_eq!(reads(&mut sim, "a"), ["one", "two"]);
    let told = ["msg-1 null", "msg-1 true", "msg-2 null", "msg-1,msg-2 true"];
    assert_eq!(events(&sim, "message.delivered", &["ids", "again"]), told);
    sim.fail("a.do");
    // It has failed for good, and what it was given has been told of.
    assert_eq!(drops(&sim), [""; 0]);
    every_mail_has_one_fate(&sim);
}

#[test]
fn nobody_writes_to_itself() {
    let program = actors(&["a", "b"]).load();
    let mut sim = on(&program);
    let answer = post(&mut sim, "a", "a", "hello");
    assert_eq!(fate(&answer), "unknown-step");
    assert_eq!(answer.get("message").and_then(Value::as_str), Some("`a` is the writer: nobody writes to itself"));
    assert_eq!(drops(&sim), ["msg-1 a unknown-step"]);
}

// Whom an address means.

#[test]
fn who_is_nowhere_is_told_why() {
    let program = crew(IterationPath::Brackets);
    let mut sim = on(&program);
    for (to, why) in [
        ("", "missing"),
        (" ", "missing"),
        ("boss.", "`boss.` is no address"),
        (".boss", "is no address"),
        ("loop[0]..worker", "is no address"),
        ("loop[7].worker", "there are only 3 turns"),
        ("loop[2].worker", "has not begun"),
    ] {
        let answer = post(&mut sim, "loop[0].other", to, "hello");
        let said = answer.get("message").and_then(Value::as_str).unwrap_or_default();
        assert!(fate(&answer) == "unknown-step" && said.contains(why), "{to}: {answer:?}");
        let whole = ["boss", "loop[0].other", "loop[0].worker", "loop[1].other", "loop[1].worker"];
        assert_eq!(known(&answer), whole, "{to}");
    }
}

/// `boss` beside a loop with two turns at once, each an actor `worker` and an actor `other`.
fn crew(iteration_path: IterationPath) -> Program {
    let mut b = Builder::new();
    let root = b.together(None, "root", |b, id| {
        let boss = actor(b, id, "boss");
        let looping = b.looping(id, "loop", |b, id| {
            let items = b.expr(r#"{"$range": 3}"#);
            let body = b.together(id, "body", |b, id| vec![actor(b, id, "worker"), actor(b, id, "other")]);
            b.at(body).hidden = true;
            Loop { iteration_path: turn_path: iteration_path, ..each(items, 2, body) }
        });
        vec![boss, looping]
    });
    b.at(root).hidden = true;
    b.load()
}

#[test]
fn iterations_may_be_written_in_either_style() {
    for shown in [IterationPath::Brackets, IterationPath::Dots] {
        let program = crew(shown);
        let mut sim = on(&program);
        for to in ["loop[1].worker", "loop.1.worker", "1.worker", " loop [1] . worker "] {
            let answer = post(&mut sim, "boss", to, to);
            assert_eq!(fate(&answer), "queued", "{to} {answer:?}");
        }
        let sent: Vec<String> = events(&sim, "message.sent", &["to"]);
        assert!(sent.iter().all(|to| *to == sent[0] && to.ends_with("worker")), "{sent:?}");
    }
}

#[test]
fn a_bare_name_is_enough_while_only_one_has_it() {
    let program = crew(IterationPath::Brackets);
    let mut sim = on(&program);
    let answer = post(&mut sim, "boss", "worker", "who?");
    assert_eq!((fate(&answer), known(&answer)), ("unknown-step".into(), vec!["loop[0].worker", "loop[1].worker"]));
    for who in ["loop[0].worker", "loop[0].other", "loop[1].worker"] {
        says(&mut sim, who, "end");
    }
    // The third turn has begun where the first was.
    says(&mut sim, "loop[2].worker", "end");
    assert_eq!(posted(&mut sim, "boss", "worker"), "unknown-step", "none is left");
    let answer = post(&mut sim, "boss", "other", "who?");
    assert_eq!(known(&answer), ["loop[1].other", "loop[2].other"]);
    says(&mut sim, "loop[1].other", "end");
    assert_eq!(posted(&mut sim, "boss", "other"), "queued");
    assert_eq!(reads(&mut sim, "loop[2].other"), ["hello"]);
    // The whole name of a part is needed.
    assert_eq!(posted(&mut sim, "boss", "ther"), "unknown-step");
}

#[test]
fn ended_and_unstarted_iterations_get_no_mail() {
    for iteration_path in [IterationPath::Brackets, IterationPath::Dots] {
        let program = crew(iteration_path);
        let mut sim = on(&program);
        let at = |iteration: u64, who: &str| match iteration_path {
            IterationPath::Brackets => format!("loop[{iteration}].{who}"),
            IterationPath::Dots => format!("loop.{iteration}.{who}"),
        };
        says(&mut sim, &at(0, "worker"), "end");
        assert_eq!(posted(&mut sim, "boss", "loop[0].worker"), CLOSED);
        let answer = post(&mut sim, "boss", "loop.2.worker", "soon?");
        assert_eq!(fate(&answer), "unknown-step");
        assert!(answer.get("message").unwrap().as_str().unwrap().contains("has not begun"), "{answer:?}");
        let alive = [at(0, "other"), at(1, "other"), at(1, "worker")];
        assert_eq!(known(&answer), ["boss", &alive[0], &alive[1], &alive[2]]);
        says(&mut sim, &at(0, "other"), "end");
        assert_eq!(posted(&mut sim, "boss", "loop.2.worker"), "queued");
        assert_eq!(posted(&mut sim, "boss", "loop.0.other"), CLOSED);
    }
}

#[test]
fn what_wraps_others_says_whom_to_write_to() {
    let program = crew(IterationPath::Brackets);
    let mut sim = on(&program);
    let answer = post(&mut sim, "boss", "loop", "all of you");
    assert_eq!(fate(&answer), "unknown-step");
    assert_eq!(known(&answer), ["loop[0].other", "loop[0].worker", "loop[1].other", "loop[1].worker"]);
    let message = answer.get("message").unwrap().as_str().unwrap();
    assert!(message.contains("wraps other steps") && message.contains("`loop[0].other`"), "{message}");
    for who in ["loop[0].worker", "loop[0].other", "loop[1].worker", "loop[1].other"] {
        says(&mut sim, who, "end");
    }
    says(&mut sim, "loop[2].worker", "end");
    says(&mut sim, "loop[2].other", "end");
    let answer = post(&mut sim, "boss", "loop", "anybody");
    assert_eq!((fate(&answer), known(&answer)), ("unknown-step".into(), vec!["loop[N].worker", "loop[N].other"]));
}

#[test]
fn who_writes_to_nobody_is_told_of_those_who_are_there() {
    let program = actors(&["a", "b"]).load();
    let mut sim = on(&program);
    says(&mut sim, "b", "end");
    let answer = post(&mut sim, "a", "nobody", "hello");
    assert_eq!((fate(&answer), known(&answer)), ("unknown-step".into(), vec!["a"]));
    assert_eq!(posted(&mut sim, "a", ""), "unknown-step");
    assert_eq!(drops(&sim), ["msg-1 nobody unknown-step", "msg-2  unknown-step"]);
    let names: Vec<String> = (0..30).map(|at| format!("a{at:02}")).collect();
    let program = actors(&names.iter().map(String::as_str).collect::<Vec<_>>()).load();
    let mut sim = on(&program);
    let answer = post(&mut sim, "a00", "nobody", "hello");
    assert_eq!(known(&answer), names[..20]);
}

// Who has not begun, and who has ended.

#[test]
fn mail_to_who_has_not_begun_is_kept_for_it() {
    let mut b = Builder::new();
    let root = b.sequence(None, "root", |b, id| {
        let first = actor(b, id, "first");
        let inner = b.sequence(id, "inner", |b, id| vec![actor(b, id, "one"), actor(b, id, "two")]);
        vec![first, inner]
    });
    b.at(root).hidden = true;
    let program = b.load();
    let mut sim = on(&program);
    for to in ["inner.two", "inner.one", "inner.two"] {
        assert_eq!(posted(&mut sim, "first", to), "queued", "{to}");
    }
    let answer = post(&mut sim, "first", "two", "not the whole name");
    assert_eq!((fate(&answer), known(&answer)), ("unknown-step".into(), vec!["inner.two"]));
    says(&mut sim, "first", "end");
    assert_eq!(reads(&mut sim, "inner.one"), ["hello"]);
    assert_eq!(posted(&mut sim, "inner.one", "inner.two"), "queued");
    says(&mut sim, "inner.one", "end");
    assert_eq!(reads(&mut sim, "inner.two"), ["hello"; 3]);
    assert_eq!(events(&sim, "message.delivered", &["to", "ids"]), ["inner.one msg-2", "inner.two msg-1,msg-3,msg-5"]);
    says(&mut sim, "inner.two", "end");
    assert_eq!((sim.status(), drops(&sim).len()), (Status::Succeeded, 1));
}

#[test]
fn a_node_that_a_task_enters_is_in_the_plan_too() {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, id| {
        let first = actor(b, Some(id), "first");
        let second = actor(b, Some(id), "second");
        b.at(second).hidden = true;
        let tasks = vec![task("one", Action::Node(first)), task("two", Action::Node(second))];
        NodeKind::Pipeline(Pipeline { tasks })
    });
    let program = b.load();
    let mut sim = on(&program);
    // Machinery goes by the label of its task.
    assert_eq!(posted(&mut sim, "pipe.first", "pipe.two"), "queued");
    assert_eq!(posted(&mut sim, "pipe.first", "pipe.second"), "unknown-step");
    says(&mut sim, "pipe.first", "end");
    assert_eq!(reads(&mut sim, "pipe.two"), ["hello"]);
    assert_eq!(posted(&mut sim, "pipe.two", "pipe.first"), CLOSED);
}

#[test]
fn who_has_ended_gets_nothing_and_says_why() {
    let mut b = chain(&["a", "b"]);
    b.at(NodeId(1)).mailbox = Some(Mailbox { closed: "gone".into(), ..mailbox(9) });
    let program = b.load();
    let mut sim = on(&program);
    says(&mut sim, "a", "end");
    assert_eq!(posted(&mut sim, "b", "a"), "gone");
    assert_eq!(drops(&sim), ["msg-1 a gone"]);
}

#[test]
fn what_nobody_has_read_is_dropped_one_by_one_when_its_node_ends() {
    let program = actors(&["a", "b"]).load();
    let mut sim = on(&program);
    post(&mut sim, "a", "b", "one");
    post(&mut sim, "a", "b", "two");
    says(&mut sim, "b", "end");
    assert_eq!(drops(&sim), ["msg-1 b target-terminal", "msg-2 b target-terminal"]);
    assert_eq!(sim.paths("message.dropped"), ["b", "b"]);
}

/// `first`, then `second` under a condition, then `third` after it, only if it has succeeded.
fn conditional(unmet: Status) -> Builder {
    let mut b = Builder::new();
    let root = b.node(None, "root", |b, id| {
        let nodes: Vec<NodeId> = ["first", "second", "third"].map(|name| actor(b, Some(id), name)).into();
        let condition = Some(b.condition(Value::from(false)));
        let after = |child| vec![After { child, accepts: windlass_core::StatusSet::of([Status::Succeeded]) }];
        NodeKind::Graph(Graph {
            unmet,
            ..graph(vec![
                Child { node: nodes[0], after: Vec::new(), condition: None, group: None },
                Child { node: nodes[1], after: after(0), condition, group: None },
                Child { node: nodes[2], after: after(1), condition: None, group: None },
            ])
        })
    });
    b.at(root).hidden = true;
    b
}

#[test]
fn what_was_kept_for_a_node_that_never_begins_is_dropped() {
    let program = conditional(Status::Skipped).load();
    let mut sim = on(&program);
    post(&mut sim, "first", "second", "one");
    post(&mut sim, "first", "third", "two");
    says(&mut sim, "first", "end");
    assert!(sim.ended());
    assert_eq!(drops(&sim), ["msg-1 second target-terminal", "msg-2 third target-terminal"]);
    // Nor when the graph is called off before it begins.
    let mut b = Builder::new();
    let root = b.node(None, "root", |b, id| {
        let inner = b.node(Some(id), "inner", |b, id| {
            let nodes = [actor(b, Some(id), "one"), actor(b, Some(id), "two")];
            let child = |node| Child { node, after: Vec::new(), condition: None, group: None };
            let on_failure = OnFailure::CancelRest;
            NodeKind::Graph(Graph { max_concurrency: Some(1), on_failure, ..graph(nodes.map(child).into()) })
        });
        let child = |node| Child { node, after: Vec::new(), condition: None, group: None };
        let other = actor(b, Some(id), "other");
        NodeKind::Graph(graph(vec![child(inner), child(other)]))
    });
    b.at(root).hidden = true;
    let program = b.load();
    let mut sim = on(&program);
    assert_eq!(posted(&mut sim, "other", "inner.two"), "queued");
    sim.fail("inner.one.do");
    assert_eq!(drops(&sim), ["msg-1 inner.two target-terminal"]);
    assert_eq!(posted(&mut sim, "other", "inner.two"), CLOSED);
}

#[test]
fn a_graph_that_is_tried_again_keeps_what_has_come_for_those_inside() {
    let mut b = Builder::new();
    let root = b.together(None, "root", |b, id| {
        let inner = b.node(id, "inner", |b, id| {
            let (one, two) = (actor(b, Some(id), "one"), actor(b, Some(id), "two"));
            let accepts = windlass_core::StatusSet::of([Status::Succeeded]);
            NodeKind::Graph(Graph {
                unmet: Status::Failed,
                ..graph(vec![
                    Child { node: one, after: Vec::new(), condition: None, group: None },
                    Child { node: two, after: vec![After { child: 0, accepts }], condition: None, group: None },
                ])
            })
        });
        b.at(inner).retry = Some(retry(2, secs(10)));
        vec![inner, actor(b, id, "other")]
    });
    b.at(root).hidden = true;
    let program = b.load();
    let mut sim = on(&program);
    sim.fail("inner.one.do");
    assert_eq!(posted(&mut sim, "other", "inner.two"), "queued", "it is to come once more");
    sim.pass(secs(10));
    says(&mut sim, "inner.one", "end");
    assert_eq!(reads(&mut sim, "inner.two"), ["hello"]);
}

#[test]
fn cancelling_a_run_drops_all_mail_with_that_reason() {
    for times_out in [false, true] {
        let mut b = Builder::new();
        let root = b.sequence(None, "root", |b, id| {
            let both = b.together(id, "both", |b, id| vec![actor(b, id, "a"), actor(b, id, "b")]);
            b.at(both).hidden = true;
            vec![both, actor(b, id, "later")]
        });
        b.at(root).hidden = true;
        b.plan.timeout = times_out.then(|| secs(60));
        let program = b.load();
        let mut sim = on(&program);
        post(&mut sim, "a", "b", "one");
        post(&mut sim, "a", "later", "two");
        match times_out {
            true => _ = sim.pass(secs(60)),
            false => _ = sim.cancel(),
        }
        sim.event("mail", json(r#"{"to": "b", "text": "too late"}"#)).settle();
        sim.run_until_quiet();
        let mut dropped = drops(&sim);
        dropped.sort();
        let expected = ["msg-1 b workflow-cancelled", "msg-2 later workflow-cancelled", "msg-3 b workflow-cancelled"];
        assert_eq!(dropped, expected, "{times_out}");
    }
}

// Too much.

#[test]
fn a_full_mailbox_takes_no_more() {
    let mut b = Builder::new();
    let root = b.sequence(None, "root", |b, id| {
        let both = b.together(id, "both", |b, id| vec![actor(b, id, "a"), actor(b, id, "c")]);
        b.at(both).hidden = true;
        vec![both, actor(b, id, "b")]
    });
    b.at(root).hidden = true;
    let program = b.load_with(Limits { max_mailbox_messages: 2, ..Limits::default() });
    let mut sim = on(&program);
    for to in ["a", "b"] {
        let fates: Vec<String> = (0..3).map(|_| posted(&mut sim, "c", to)).collect();
        assert_eq!(fates, ["queued", "queued", "mailbox-full"], "{to}");
    }
    assert_eq!(reads(&mut sim, "a").len(), 2);
    assert_eq!(posted(&mut sim, "c", "a"), "queued");
    assert_eq!(drops(&sim), ["msg-3 a mailbox-full", "msg-6 b mailbox-full"]);
}

#[test]
fn who_was_given_mail_often_enough_is_given_no_more() {
    let mut b = actors(&["a", "b"]);
    b.at(NodeId(1)).mailbox = Some(mailbox(5));
    let program = b.load();
    let mut sim = on(&program);
    for round in 1..=5 {
        assert_eq!(reads(&mut sim, "a"), [""; 0], "nothing is not a delivery");
        assert_eq!((posted(&mut sim, "b", "a"), posted(&mut sim, "b", "a")), ("queued".into(), "queued".into()));
        assert_eq!(reads(&mut sim, "a").len(), 2);
        assert_eq!(sim.count("mail.wakes_warning"), usize::from(round >= 4));
    }
    assert_eq!(events(&sim, "mail.wakes_warning", &["to", "wakes", "most"]), ["a 4 5"]);
    assert_eq!(posted(&mut sim, "b", "a"), "max-wake-cycles");
    // Nobody waits for what will not come.
    says(&mut sim, "a", "listen");
    assert!(works(&sim, "a"));
    assert_eq!(texts(&heard(&sim, "a")), [""; 0]);
}

// From outside.

#[test]
fn people_outside_can_write() {
    let program = chain(&["a", "b"]).load();
    let mut sim = on(&program);
    sim.event("mail", json(r#"{"to": "a", "text": "hi", "kind": "cancel"}"#)).settle();
    says(&mut sim, "a", "read");
    let expected = r#"[{"text": "hi", "kind": "cancel", "id": "msg-1", "from": "", "at": "1970-01-01T00:00:00.000Z"}]"#;
    assert_eq!(heard(&sim, "a"), json(expected));
    sim.event("mail", json(r#"{"to": "b", "text": "later"}"#)).settle();
    sim.event("mail", json(r#"{"to": "c", "text": "lost"}"#)).settle();
    sim.event("mail", "no object").settle();
    says(&mut sim, "a", "end");
    assert_eq!(reads(&mut sim, "b"), ["later"]);
    assert_eq!(drops(&sim), ["msg-3 c unknown-step", "msg-4  unknown-step"]);
    assert_eq!(sim.count("event.unhandled"), 0);
}

#[test]
fn mail_from_outside_waits_while_the_run_is_paused() {
    let program = actors(&["a"]).load();
    let mut sim = on(&program);
    sim.tick(TickKind::Pause { request: None });
    sim.event("mail", json(r#"{"to": "a", "text": "hi"}"#)).settle();
    sim.tick(TickKind::Resume { request: None }).settle();
    assert_eq!(reads(&mut sim, "a"), ["hi"]);
}

#[test]
fn without_mailboxes_an_event_named_mail_is_an_event() {
    let mut b = Builder::new();
    b.signal(None, "wait", "mail");
    let program = b.load();
    let mut sim = on(&program);
    sim.event("mail", 7i64);
    assert_eq!((sim.status(), sim.output()), (Status::Succeeded, Value::Int(7)));
}

// Reports.

/// What the hub has been told, a line each.
fn reported(sim: &mut Sim) -> Vec<String> {
    says(sim, "hub", "read");
    let mails = heard(sim, "hub");
    let line = |mail: &Value| {
        let field = |name: &str| mail.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let line = format!("{} {} {}", field("step"), field("kind"), field("status"));
        line.trim_end().to_owned()
    };
    mails.as_list().unwrap().iter().map(line).collect()
}

/// A hub beside a graph named `flow` with these children, which report to the hub.
fn reporting(flow: impl FnOnce(&mut Builder, NodeId) -> Graph) -> Builder {
    let mut b = Builder::new();
    let root = b.together(None, "root", |b, id| {
        let hub = actor(b, id, "hub");
        let flow = b.node(id, "flow", |b, id| NodeKind::Graph(flow(b, id)));
        for node in &mut b.plan.nodes[flow.0 as usize..] {
            node.reports_to = (!node.hidden).then(|| "hub".into());
        }
        vec![hub, flow]
    });
    b.at(root).hidden = true;
    b
}

#[test]
fn the_hub_hears_of_every_start_and_end() {
    let mut b = reporting(|b, id| {
        let nodes: Vec<NodeId> = ["one", "two", "three", "four"].map(|name| b.effect(Some(id), name, "1")).into();
        let accepts = windlass_core::StatusSet::of([Status::Succeeded, Status::Skipped]);
        let condition = Some(b.condition(Value::from(false)));
        let after = |child| vec![After { child, accepts }];
        let child = |node, after| Child { node, after, condition: None, group: None };
        let skipped = Child { condition, ..child(nodes[1], Vec::new()) };
        graph(vec![child(nodes[0], Vec::new()), skipped, child(nodes[2], after(1)), child(nodes[3], after(2))])
    });
    let one = b.plan.nodes.iter().position(|node| &*node.name == "one").unwrap();
    b.plan.nodes[one].retry = Some(retry(2, secs(1)));
    let program = b.load();
    let mut sim = on(&program);
    let begun = ["flow started", "flow.one started", "flow.two ended skipped", "flow.three started"];
    assert_eq!(reported(&mut sim), begun);
    sim.fail("flow.one").pass(secs(1));
    sim.fail("flow.three").pass(secs(1));
    sim.succeed("flow.one", 1i64);
    says(&mut sim, "hub", "read");
    let mails = heard(&sim, "hub");
    let mails = mails.as_list().unwrap();
    let expected =
        r#"{"kind": "ended", "step": "flow.one", "status": "succeeded", "attempts": 1, "duration_ms": 2000}"#;
    for (name, value) in json(expected).as_map().unwrap().iter().filter(|(name, _)| &***name != "attempts") {
        assert_eq!(mails[2].get(name), Some(value), "{name} of {:?}", mails[2]);
    }
    assert_eq!(mails[0].get("error").and_then(|error| error.get("code")), Some(&Value::from("500")));
    assert_eq!(mails[2].get("from"), Some(&Value::from("flow.one")));
    assert_eq!(texts(&Value::list(mails.to_vec())), ["ended"; 4]);
    assert_eq!(mails[1].get("step"), Some(&Value::from("flow.four")));
    assert_eq!((sim.count("message.sent"), drops(&sim).len()), (0, 0), "the events of the steps tell enough");
    assert_eq!(sim.count("message.delivered"), 2);
}

#[test]
fn the_hub_gets_a_report_of_cancelled_nodes() {
    let b = reporting(|b, id| {
        let nodes = ["one", "two", "three"].map(|name| b.effect(Some(id), name, "1"));
        let child = |node| Child { node, after: Vec::new(), condition: None, group: None };
        let on_failure = OnFailure::CancelRest;
        Graph { max_concurrency: Some(2), on_failure, ..graph(nodes.map(child).into()) }
    });
    let program = b.load();
    let mut sim = on(&program);
    reported(&mut sim);
    sim.fail("flow.one").pass(secs(60));
    let ended =
        ["flow.one ended failed", "flow.two ended cancelled", "flow.three ended cancelled", "flow ended failed"];
    assert_eq!(reported(&mut sim), ended);
}

#[test]
fn nobody_is_told_when_the_hub_is_gone() {
    let program = reporting(|b, id| {
        let one = b.effect(Some(id), "one", "1");
        graph(vec![Child { node: one, after: Vec::new(), condition: None, group: None }])
    })
    .load();
    let mut sim = on(&program);
    reported(&mut sim);
    says(&mut sim, "hub", "end");
    let numbers = sim.state.mail.numbers;
    sim.succeed("flow.one", 1i64);
    assert_eq!((sim.status(), drops(&sim).len()), (Status::Succeeded, 0));
    assert_eq!(sim.state.mail.numbers, numbers);
}
