//! Mail between nodes of a run: how addresses resolve, what happens to unread mail, and which reports a hub receives.

use crate::support;

use support::mail::*;
use support::values::MemoryValues;
use support::*;
use windlass_core::plan::*;
use windlass_core::{Limits, PlanError, Program, Status, TickKind};
use windlass_value::Value;

// Sending and reading.

#[test]
fn mail_is_read_once_and_oldest_first_with_its_number_sender_and_time() {
    let program = actors(&["a", "b", "c"]).load();
    let mut sim = start_actors(&program);
    sim.advance(secs(5));
    assert_eq!(post(&mut sim, "a", "b", "one"), json(r#"{"status": "queued", "id": "msg-1"}"#));
    post(&mut sim, "c", "b", "two");
    post(&mut sim, "a", "b", "three");
    request_op(&mut sim, "b", "read");
    let mails = last_input(&sim, "b");
    assert_eq!(texts(&mails), ["one", "two", "three"]);
    let second = r#"{"text": "two", "id": "msg-2", "from": "c", "at": "1970-01-01T00:00:05.000Z"}"#;
    assert_eq!(mails.as_list().unwrap()[1], json(second));
    assert_eq!(read_mail(&mut sim, "b"), [""; 0]);
    assert_eq!(events(&sim, "message.sent", &["id", "from", "to"]), ["msg-1 a b", "msg-2 c b", "msg-3 a b"]);
    assert_eq!(events(&sim, "message.delivered", &["to", "ids"]), ["b msg-1,msg-2,msg-3"]);
    assert_eq!(drops(&sim), [""; 0]);
}

#[test]
fn a_waiting_node_gets_mail_immediately() {
    let program = actors(&["a", "b"]).load();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "b", "listen");
    assert!(!has_job(&sim, "b"));
    post(&mut sim, "a", "b", "wake up");
    assert_eq!(texts(&last_input(&sim, "b")), ["wake up"]);
    // The node does not wait for mail that is already there.
    post(&mut sim, "a", "b", "again");
    request_op(&mut sim, "b", "listen");
    assert_eq!(texts(&last_input(&sim, "b")), ["again"]);
}

#[test]
fn large_mail_and_large_addresses_are_loaded() {
    let program = actors(&["a", "b"]).load_with(Limits { max_inline_bytes: 20, ..Limits::default() });
    let mut sim = start_actors(&program);
    sim.values = MemoryValues::forgetful();
    let text = "x".repeat(100);
    assert_eq!(delivery_result(&post(&mut sim, "a", "b", &text)), "queued");
    assert_eq!(read_mail(&mut sim, "b"), [text]);
}

#[test]
fn invalid_mail_fails_its_task() {
    for (to, mail) in [("7", r#"{"text": "x"}"#), (r#""a""#, "[1]")] {
        let mut b = Builder::new();
        let lone = b.node(None, "a", |b, _| {
            let (to, mail) = (b.expr(to), b.expr(mail));
            NodeKind::single_task(Action::Post(SendMail { to, mail }))
        });
        b.node_mut(lone).mailbox = Some(mailbox(1));
        let program = b.load();
        let sim = start_actors(&program);
        assert_eq!(sim.result().error.as_ref().map(|error| &*error.code), Some("BadMail"), "{to}");
    }
}

#[test]
fn waiting_for_mail_requires_a_mailbox() {
    let mut b = Builder::new();
    b.node(None, "wait", |_, _| NodeKind::Wait(Wait::Mail { blocks: false, after_idle: None }));
    let PlanError(why) = Program::load(b.plan, &[&support::language::TestLanguage], Limits::default()).err().unwrap();
    assert!(why.contains("`wait` waits for mail"), "{why}");
}

#[test]
fn a_mailbox_survives_the_retries_of_its_node() {
    let mut b = actors(&["a", "b"]);
    b.node_mut(NodeId(1)).retry = Some(retry(2, secs(10)));
    let program = b.load();
    let mut sim = start_actors(&program);
    post(&mut sim, "b", "a", "before");
    sim.fail("a.do");
    post(&mut sim, "b", "a", "between");
    sim.advance(secs(10));
    post(&mut sim, "b", "a", "after");
    assert_eq!(read_mail(&mut sim, "a"), ["before", "between", "after"]);
    assert_eq!(drops(&sim), [""; 0]);
}

#[test]
fn delivered_mail_is_redelivered_to_the_next_attempt() {
    let mut b = actors(&["a", "b"]);
    b.node_mut(NodeId(1)).retry = Some(retry(3, secs(10)));
    b.node_mut(NodeId(1)).mailbox = Some(mailbox(2));
    let program = b.load();
    let mut sim = start_actors(&program);
    post(&mut sim, "b", "a", "one");
    assert_eq!(read_mail(&mut sim, "a"), ["one"]);
    sim.fail("a.do");
    post(&mut sim, "b", "a", "two");
    sim.tick(TickKind::Restart { lived: windlass_value::Duration::ZERO });
    sim.advance(secs(10));
    assert_eq!(read_mail(&mut sim, "a"), ["one", "two"]);
    assert_eq!(read_mail(&mut sim, "a"), [""; 0]);
    sim.fail("a.do").advance(secs(10));
    assert_eq!(read_mail(&mut sim, "a"), ["one", "two"]);
    let expected = ["msg-1 null", "msg-1 true", "msg-2 null", "msg-1,msg-2 true"];
    assert_eq!(events(&sim, "message.delivered", &["ids", "again"]), expected);
    sim.fail("a.do");
    // The node has failed for good, and its deliveries have been published.
    assert_eq!(drops(&sim), [""; 0]);
    assert_every_mail_is_settled_once(&sim);
}

#[test]
fn a_node_cannot_write_to_itself() {
    let program = actors(&["a", "b"]).load();
    let mut sim = start_actors(&program);
    let answer = post(&mut sim, "a", "a", "hello");
    assert_eq!(delivery_result(&answer), "unknown-step");
    assert_eq!(
        answer.get("message").and_then(Value::as_str),
        Some("`a` is the sender: a node cannot send mail to itself")
    );
    assert_eq!(drops(&sim), ["msg-1 a unknown-step"]);
}

// Address resolution.

#[test]
fn an_unknown_address_is_rejected_with_a_reason() {
    let program = crew();
    let mut sim = start_actors(&program);
    for (to, why) in [
        ("", "the address is empty"),
        (" ", "the address is empty"),
        ("boss.", "`boss.` is not a valid address"),
        (".boss", "is not a valid address"),
        ("loop[0]..worker", "is not a valid address"),
        ("loop[7].worker", "there are only 3 iterations"),
        ("loop[2].worker", "has not begun"),
    ] {
        let answer = post(&mut sim, "loop[0].other", to, "hello");
        let message = answer.get("message").and_then(Value::as_str).unwrap_or_default();
        assert!(delivery_result(&answer) == "unknown-step" && message.contains(why), "{to}: {answer:?}");
        let whole = ["boss", "loop[0].other", "loop[0].worker", "loop[1].other", "loop[1].worker"];
        assert_eq!(known_addresses(&answer), whole, "{to}");
    }
}

/// `boss` next to a loop with two concurrent iterations, each with an actor `worker` and an actor `other`.
fn crew() -> Program {
    let mut b = Builder::new();
    let root = b.parallel(None, "root", |b, id| {
        let boss = actor(b, id, "boss");
        let looping = b.looping(id, "loop", |b, id| {
            let items = b.expr(r#"{"$range": 3}"#);
            let body = b.parallel(id, "body", |b, id| vec![actor(b, id, "worker"), actor(b, id, "other")]);
            b.node_mut(body).hidden = true;
            each(items, 2, body)
        });
        vec![boss, looping]
    });
    b.node_mut(root).hidden = true;
    b.load()
}

/// Addresses may be written in zenflow's own style, `loop.1.worker`; they are shown as every path is.
#[test]
fn iterations_may_be_written_in_either_style() {
    let program = crew();
    let mut sim = start_actors(&program);
    for to in ["loop[1].worker", "loop.1.worker", "1.worker", " loop [1] . worker "] {
        let answer = post(&mut sim, "boss", to, to);
        assert_eq!(delivery_result(&answer), "queued", "{to} {answer:?}");
    }
    let sent: Vec<String> = events(&sim, "message.sent", &["to"]);
    assert!(sent.iter().all(|to| to.ends_with("loop[1].worker")), "{sent:?}");
}

#[test]
fn a_bare_name_resolves_while_it_is_unique() {
    let program = crew();
    let mut sim = start_actors(&program);
    let answer = post(&mut sim, "boss", "worker", "who?");
    assert_eq!(
        (delivery_result(&answer), known_addresses(&answer)),
        ("unknown-step".into(), vec!["loop[0].worker", "loop[1].worker"])
    );
    for actor in ["loop[0].worker", "loop[0].other", "loop[1].worker"] {
        request_op(&mut sim, actor, "end");
    }
    // The third iteration has started in the slot of the first.
    request_op(&mut sim, "loop[2].worker", "end");
    assert_eq!(post_result(&mut sim, "boss", "worker"), "unknown-step", "none is left");
    let answer = post(&mut sim, "boss", "other", "who?");
    assert_eq!(known_addresses(&answer), ["loop[1].other", "loop[2].other"]);
    request_op(&mut sim, "loop[1].other", "end");
    assert_eq!(post_result(&mut sim, "boss", "other"), "queued");
    assert_eq!(read_mail(&mut sim, "loop[2].other"), ["hello"]);
    // A path segment must be given in full.
    assert_eq!(post_result(&mut sim, "boss", "ther"), "unknown-step");
}

#[test]
fn ended_and_unstarted_iterations_get_no_mail() {
    let program = crew();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "loop[0].worker", "end");
    assert_eq!(post_result(&mut sim, "boss", "loop[0].worker"), CLOSED);
    let answer = post(&mut sim, "boss", "loop.2.worker", "soon?");
    assert_eq!(delivery_result(&answer), "unknown-step");
    assert!(answer.get("message").unwrap().as_str().unwrap().contains("has not begun"), "{answer:?}");
    assert_eq!(known_addresses(&answer), ["boss", "loop[0].other", "loop[1].other", "loop[1].worker"]);
    request_op(&mut sim, "loop[0].other", "end");
    assert_eq!(post_result(&mut sim, "boss", "loop.2.worker"), "queued");
    assert_eq!(post_result(&mut sim, "boss", "loop.0.other"), CLOSED);
}

#[test]
fn a_wrapper_address_lists_the_addresses_inside_it() {
    let program = crew();
    let mut sim = start_actors(&program);
    let answer = post(&mut sim, "boss", "loop", "all of you");
    assert_eq!(delivery_result(&answer), "unknown-step");
    assert_eq!(known_addresses(&answer), ["loop[0].other", "loop[0].worker", "loop[1].other", "loop[1].worker"]);
    let message = answer.get("message").unwrap().as_str().unwrap();
    assert!(message.contains("wraps other steps") && message.contains("`loop[0].other`"), "{message}");
    for actor in ["loop[0].worker", "loop[0].other", "loop[1].worker", "loop[1].other"] {
        request_op(&mut sim, actor, "end");
    }
    request_op(&mut sim, "loop[2].worker", "end");
    request_op(&mut sim, "loop[2].other", "end");
    let answer = post(&mut sim, "boss", "loop", "anybody");
    assert_eq!(
        (delivery_result(&answer), known_addresses(&answer)),
        ("unknown-step".into(), vec!["loop[N].worker", "loop[N].other"])
    );
}

#[test]
fn an_unknown_address_is_answered_with_the_known_ones() {
    let program = actors(&["a", "b"]).load();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "b", "end");
    let answer = post(&mut sim, "a", "missing", "hello");
    assert_eq!((delivery_result(&answer), known_addresses(&answer)), ("unknown-step".into(), vec!["a"]));
    assert_eq!(post_result(&mut sim, "a", ""), "unknown-step");
    assert_eq!(drops(&sim), ["msg-1 missing unknown-step", "msg-2  unknown-step"]);
    let names: Vec<String> = (0..30).map(|at| format!("a{at:02}")).collect();
    let program = actors(&names.iter().map(String::as_str).collect::<Vec<_>>()).load();
    let mut sim = start_actors(&program);
    let answer = post(&mut sim, "a00", "missing", "hello");
    assert_eq!(known_addresses(&answer), names[..20]);
}

// Recipients that have not started, and recipients that have ended.

#[test]
fn mail_to_an_unstarted_node_is_buffered() {
    let mut b = Builder::new();
    let root = b.sequence(None, "root", |b, id| {
        let first = actor(b, id, "first");
        let inner = b.sequence(id, "inner", |b, id| vec![actor(b, id, "one"), actor(b, id, "two")]);
        vec![first, inner]
    });
    b.node_mut(root).hidden = true;
    let program = b.load();
    let mut sim = start_actors(&program);
    for to in ["inner.two", "inner.one", "inner.two"] {
        assert_eq!(post_result(&mut sim, "first", to), "queued", "{to}");
    }
    let answer = post(&mut sim, "first", "two", "not the whole name");
    assert_eq!((delivery_result(&answer), known_addresses(&answer)), ("unknown-step".into(), vec!["inner.two"]));
    request_op(&mut sim, "first", "end");
    assert_eq!(read_mail(&mut sim, "inner.one"), ["hello"]);
    assert_eq!(post_result(&mut sim, "inner.one", "inner.two"), "queued");
    request_op(&mut sim, "inner.one", "end");
    assert_eq!(read_mail(&mut sim, "inner.two"), ["hello"; 3]);
    assert_eq!(events(&sim, "message.delivered", &["to", "ids"]), ["inner.one msg-2", "inner.two msg-1,msg-3,msg-5"]);
    request_op(&mut sim, "inner.two", "end");
    assert_eq!((sim.status(), drops(&sim).len()), (Status::Succeeded, 1));
}

#[test]
fn a_node_entered_by_a_task_is_addressable() {
    let mut b = Builder::new();
    b.node(None, "pipe", |b, id| {
        let first = actor(b, Some(id), "first");
        let second = actor(b, Some(id), "second");
        b.node_mut(second).hidden = true;
        let tasks = vec![task("one", Action::Node(first)), task("two", Action::Node(second))];
        NodeKind::Pipeline(Pipeline { tasks })
    });
    let program = b.load();
    let mut sim = start_actors(&program);
    // A hidden node is addressed by the label of its task.
    assert_eq!(post_result(&mut sim, "pipe.first", "pipe.two"), "queued");
    assert_eq!(post_result(&mut sim, "pipe.first", "pipe.second"), "unknown-step");
    request_op(&mut sim, "pipe.first", "end");
    assert_eq!(read_mail(&mut sim, "pipe.two"), ["hello"]);
    assert_eq!(post_result(&mut sim, "pipe.two", "pipe.first"), CLOSED);
}

#[test]
fn an_ended_node_gets_no_mail_and_the_reason_is_reported() {
    let mut b = chain(&["a", "b"]);
    b.node_mut(NodeId(1)).mailbox = Some(Mailbox { closed: "gone".into(), ..mailbox(9) });
    let program = b.load();
    let mut sim = start_actors(&program);
    request_op(&mut sim, "a", "end");
    assert_eq!(post_result(&mut sim, "b", "a"), "gone");
    assert_eq!(drops(&sim), ["msg-1 a gone"]);
}

#[test]
fn unread_mail_is_dropped_individually_when_its_node_ends() {
    let program = actors(&["a", "b"]).load();
    let mut sim = start_actors(&program);
    post(&mut sim, "a", "b", "one");
    post(&mut sim, "a", "b", "two");
    request_op(&mut sim, "b", "end");
    assert_eq!(drops(&sim), ["msg-1 b target-terminal", "msg-2 b target-terminal"]);
    assert_eq!(sim.paths("message.dropped"), ["b", "b"]);
}

/// `first`, then `second` under a condition, then `third`, which runs only if `second` has succeeded.
fn conditional(unmet: Status) -> Builder {
    let mut b = Builder::new();
    let root = b.node(None, "root", |b, id| {
        let nodes: Vec<NodeId> = ["first", "second", "third"].map(|name| actor(b, Some(id), name)).into();
        let condition = Some(b.condition(Value::from(false)));
        let after = |child| {
            vec![GraphDependency { child, accepts: windlass_core::StatusSet::from_statuses([Status::Succeeded]) }]
        };
        NodeKind::Graph(Graph {
            unmet,
            ..graph(vec![
                GraphChild { node: nodes[0], after: Vec::new(), condition: None, group: None },
                GraphChild { node: nodes[1], after: after(0), condition, group: None },
                GraphChild { node: nodes[2], after: after(1), condition: None, group: None },
            ])
        })
    });
    b.node_mut(root).hidden = true;
    b
}

#[test]
fn mail_buffered_for_a_node_that_never_starts_is_dropped() {
    let program = conditional(Status::Skipped).load();
    let mut sim = start_actors(&program);
    post(&mut sim, "first", "second", "one");
    post(&mut sim, "first", "third", "two");
    request_op(&mut sim, "first", "end");
    assert!(sim.ended());
    assert_eq!(drops(&sim), ["msg-1 second target-terminal", "msg-2 third target-terminal"]);
    // The same if the graph is cancelled before the node starts.
    let mut b = Builder::new();
    let root = b.node(None, "root", |b, id| {
        let inner = b.node(Some(id), "inner", |b, id| {
            let nodes = [actor(b, Some(id), "one"), actor(b, Some(id), "two")];
            let child = |node| GraphChild { node, after: Vec::new(), condition: None, group: None };
            let on_failure = GraphFailurePolicy::CancelRest;
            NodeKind::Graph(Graph { max_concurrency: Some(1), on_failure, ..graph(nodes.map(child).into()) })
        });
        let child = |node| GraphChild { node, after: Vec::new(), condition: None, group: None };
        let other = actor(b, Some(id), "other");
        NodeKind::Graph(graph(vec![child(inner), child(other)]))
    });
    b.node_mut(root).hidden = true;
    let program = b.load();
    let mut sim = start_actors(&program);
    assert_eq!(post_result(&mut sim, "other", "inner.two"), "queued");
    sim.fail("inner.one.do");
    assert_eq!(drops(&sim), ["msg-1 inner.two target-terminal"]);
    assert_eq!(post_result(&mut sim, "other", "inner.two"), CLOSED);
}

#[test]
fn a_retried_graph_keeps_the_mail_for_its_nodes() {
    let mut b = Builder::new();
    let root = b.parallel(None, "root", |b, id| {
        let inner = b.node(id, "inner", |b, id| {
            let (one, two) = (actor(b, Some(id), "one"), actor(b, Some(id), "two"));
            let accepts = windlass_core::StatusSet::from_statuses([Status::Succeeded]);
            NodeKind::Graph(Graph {
                unmet: Status::Failed,
                ..graph(vec![
                    GraphChild { node: one, after: Vec::new(), condition: None, group: None },
                    GraphChild {
                        node: two,
                        after: vec![GraphDependency { child: 0, accepts }],
                        condition: None,
                        group: None,
                    },
                ])
            })
        });
        b.node_mut(inner).retry = Some(retry(2, secs(10)));
        vec![inner, actor(b, id, "other")]
    });
    b.node_mut(root).hidden = true;
    let program = b.load();
    let mut sim = start_actors(&program);
    sim.fail("inner.one.do");
    assert_eq!(post_result(&mut sim, "other", "inner.two"), "queued", "it is to come once more");
    sim.advance(secs(10));
    request_op(&mut sim, "inner.one", "end");
    assert_eq!(read_mail(&mut sim, "inner.two"), ["hello"]);
}

#[test]
fn cancelling_a_run_drops_all_mail_with_that_reason() {
    for times_out in [false, true] {
        let mut b = Builder::new();
        let root = b.sequence(None, "root", |b, id| {
            let both = b.parallel(id, "both", |b, id| vec![actor(b, id, "a"), actor(b, id, "b")]);
            b.node_mut(both).hidden = true;
            vec![both, actor(b, id, "later")]
        });
        b.node_mut(root).hidden = true;
        b.plan.timeout = times_out.then(|| secs(60));
        let program = b.load();
        let mut sim = start_actors(&program);
        post(&mut sim, "a", "b", "one");
        post(&mut sim, "a", "later", "two");
        match times_out {
            true => _ = sim.advance(secs(60)),
            false => _ = sim.cancel(),
        }
        sim.event("mail", json(r#"{"to": "b", "text": "too late"}"#)).drain_buffer();
        sim.run_until_idle();
        let mut dropped = drops(&sim);
        dropped.sort();
        let expected = ["msg-1 b workflow-cancelled", "msg-2 later workflow-cancelled", "msg-3 b workflow-cancelled"];
        assert_eq!(dropped, expected, "{times_out}");
    }
}

// Limits.

#[test]
fn a_full_mailbox_rejects_mail() {
    let mut b = Builder::new();
    let root = b.sequence(None, "root", |b, id| {
        let both = b.parallel(id, "both", |b, id| vec![actor(b, id, "a"), actor(b, id, "c")]);
        b.node_mut(both).hidden = true;
        vec![both, actor(b, id, "b")]
    });
    b.node_mut(root).hidden = true;
    let program = b.load_with(Limits { max_mailbox_messages: 2, ..Limits::default() });
    let mut sim = start_actors(&program);
    for to in ["a", "b"] {
        let results: Vec<String> = (0..3).map(|_| post_result(&mut sim, "c", to)).collect();
        assert_eq!(results, ["queued", "queued", "mailbox-full"], "{to}");
    }
    assert_eq!(read_mail(&mut sim, "a").len(), 2);
    assert_eq!(post_result(&mut sim, "c", "a"), "queued");
    assert_eq!(drops(&sim), ["msg-3 a mailbox-full", "msg-6 b mailbox-full"]);
}

#[test]
fn a_node_gets_no_mail_after_its_wake_limit() {
    let mut b = actors(&["a", "b"]);
    b.node_mut(NodeId(1)).mailbox = Some(mailbox(5));
    let program = b.load();
    let mut sim = start_actors(&program);
    for round in 1..=5 {
        assert_eq!(read_mail(&mut sim, "a"), [""; 0], "nothing is not a delivery");
        assert_eq!(
            (post_result(&mut sim, "b", "a"), post_result(&mut sim, "b", "a")),
            ("queued".into(), "queued".into())
        );
        assert_eq!(read_mail(&mut sim, "a").len(), 2);
        assert_eq!(sim.count("mail.wakes_warning"), usize::from(round >= 4));
    }
    assert_eq!(events(&sim, "mail.wakes_warning", &["to", "wakes", "max"]), ["a 4 5"]);
    assert_eq!(post_result(&mut sim, "b", "a"), "max-wake-cycles");
    // A wait for mail that cannot come ends immediately.
    request_op(&mut sim, "a", "listen");
    assert!(has_job(&sim, "a"));
    assert_eq!(texts(&last_input(&sim, "a")), [""; 0]);
}

// Mail from outside the run.

#[test]
fn mail_can_be_sent_from_outside() {
    let program = chain(&["a", "b"]).load();
    let mut sim = start_actors(&program);
    sim.event("mail", json(r#"{"to": "a", "text": "hi", "kind": "cancel"}"#)).drain_buffer();
    request_op(&mut sim, "a", "read");
    let expected = r#"[{"text": "hi", "kind": "cancel", "id": "msg-1", "from": "", "at": "1970-01-01T00:00:00.000Z"}]"#;
    assert_eq!(last_input(&sim, "a"), json(expected));
    sim.event("mail", json(r#"{"to": "b", "text": "later"}"#)).drain_buffer();
    sim.event("mail", json(r#"{"to": "c", "text": "lost"}"#)).drain_buffer();
    sim.event("mail", "no object").drain_buffer();
    request_op(&mut sim, "a", "end");
    assert_eq!(read_mail(&mut sim, "b"), ["later"]);
    assert_eq!(drops(&sim), ["msg-3 c unknown-step", "msg-4  unknown-step"]);
    assert_eq!(sim.count("event.unhandled"), 0);
}

#[test]
fn mail_from_outside_waits_while_the_run_is_paused() {
    let program = actors(&["a"]).load();
    let mut sim = start_actors(&program);
    sim.tick(TickKind::Pause { request: None });
    sim.event("mail", json(r#"{"to": "a", "text": "hi"}"#)).drain_buffer();
    sim.tick(TickKind::Resume { request: None }).drain_buffer();
    assert_eq!(read_mail(&mut sim, "a"), ["hi"]);
}

#[test]
fn without_mailboxes_an_event_named_mail_is_an_ordinary_event() {
    let mut b = Builder::new();
    b.signal(None, "wait", "mail");
    let program = b.load();
    let mut sim = start_actors(&program);
    sim.event("mail", 7i64);
    assert_eq!((sim.status(), sim.output()), (Status::Succeeded, Value::Int(7)));
}

// Reports.

/// Returns the reports that the hub has received, one line each.
fn reported(sim: &mut Sim) -> Vec<String> {
    request_op(sim, "hub", "read");
    let mails = last_input(sim, "hub");
    let line = |mail: &Value| {
        let field = |name: &str| mail.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let line = format!("{} {} {}", field("step"), field("kind"), field("status"));
        line.trim_end().to_owned()
    };
    mails.as_list().unwrap().iter().map(line).collect()
}

/// A hub next to a graph named `flow` with these children, which report to the hub.
fn reporting(flow: impl FnOnce(&mut Builder, NodeId) -> Graph) -> Builder {
    let mut b = Builder::new();
    let root = b.parallel(None, "root", |b, id| {
        let hub = actor(b, id, "hub");
        let flow = b.node(id, "flow", |b, id| NodeKind::Graph(flow(b, id)));
        for node in &mut b.plan.nodes[flow.0 as usize..] {
            node.reports_to = (!node.hidden).then(|| "hub".into());
        }
        vec![hub, flow]
    });
    b.node_mut(root).hidden = true;
    b
}

#[test]
fn the_hub_gets_a_report_of_every_start_and_end() {
    let mut b = reporting(|b, id| {
        let nodes: Vec<NodeId> = ["one", "two", "three", "four"].map(|name| b.effect(Some(id), name, "1")).into();
        let accepts = windlass_core::StatusSet::from_statuses([Status::Succeeded, Status::Skipped]);
        let condition = Some(b.condition(Value::from(false)));
        let after = |child| vec![GraphDependency { child, accepts }];
        let child = |node, after| GraphChild { node, after, condition: None, group: None };
        let skipped = GraphChild { condition, ..child(nodes[1], Vec::new()) };
        graph(vec![child(nodes[0], Vec::new()), skipped, child(nodes[2], after(1)), child(nodes[3], after(2))])
    });
    let one = b.plan.nodes.iter().position(|node| &*node.name == "one").unwrap();
    b.plan.nodes[one].retry = Some(retry(2, secs(1)));
    let program = b.load();
    let mut sim = start_actors(&program);
    let begun = ["flow started", "flow.one started", "flow.two ended skipped", "flow.three started"];
    assert_eq!(reported(&mut sim), begun);
    sim.fail("flow.one").advance(secs(1));
    sim.fail("flow.three").advance(secs(1));
    sim.succeed("flow.one", 1i64);
    request_op(&mut sim, "hub", "read");
    let mails = last_input(&sim, "hub");
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
        let child = |node| GraphChild { node, after: Vec::new(), condition: None, group: None };
        let on_failure = GraphFailurePolicy::CancelRest;
        Graph { max_concurrency: Some(2), on_failure, ..graph(nodes.map(child).into()) }
    });
    let program = b.load();
    let mut sim = start_actors(&program);
    reported(&mut sim);
    sim.fail("flow.one").advance(secs(60));
    let ended =
        ["flow.one ended failed", "flow.two ended cancelled", "flow.three ended cancelled", "flow ended failed"];
    assert_eq!(reported(&mut sim), ended);
}

#[test]
fn no_reports_are_sent_after_the_hub_has_ended() {
    let program = reporting(|b, id| {
        let one = b.effect(Some(id), "one", "1");
        graph(vec![GraphChild { node: one, after: Vec::new(), condition: None, group: None }])
    })
    .load();
    let mut sim = start_actors(&program);
    reported(&mut sim);
    request_op(&mut sim, "hub", "end");
    let numbers = sim.state.mail.numbers;
    sim.succeed("flow.one", 1i64);
    assert_eq!((sim.status(), drops(&sim).len()), (Status::Succeeded, 0));
    assert_eq!(sim.state.mail.numbers, numbers);
}
