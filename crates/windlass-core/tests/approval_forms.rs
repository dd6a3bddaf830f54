//! Waits that request human input: the approval form, its address, and the handling of answers.

use crate::support;

use support::sim::{decoded, encoded};
use support::*;
use windlass_core::plan::*;
use windlass_core::{Program, Status, TickKind, frame_tree};
use windlass_value::Value;

fn begun(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, Box::new(|_, _, _| Reply::Never));
    sim.start().drain_buffer();
    sim
}

fn ask(b: &mut Builder, name: &str, asks: &str, deadline: Option<u64>) -> NodeKind {
    let deadline = deadline.map(|after| Amount::Fixed(secs(after)));
    NodeKind::Wait(Wait::Signal { name: name.into(), requirements: None, deadline, form: Some(b.expr(asks)) })
}

/// One concurrent input request for each of three items.
fn ask_per_item(name: &str) -> Program {
    let mut b = Builder::new();
    let looping = b.node(None, "each", |_, _| NodeKind::Wait(Wait::Delay(Amount::Fixed(secs(0)))));
    let body = b.node(Some(looping), "ask", |b, _| ask(b, name, r#"{"title": [{"$iteration": "item"}]}"#, None));
    let items = b.expr(r#"["a", "b", "c"]"#);
    b.node_mut(looping).kind = NodeKind::Loop(Box::new(each(items, 3, body)));
    b.load()
}

fn signal_to(sim: &mut Sim<'_>, address: &str, name: &str, payload: &str) {
    let (name, to) = (name.into(), Some(address.into()));
    sim.tick(TickKind::AddEvent {
        name,
        payload: payload.into(),
        request: None,
        origin: None,
        to,
        trigger_metadata: Value::Null,
        defaults: Value::Null,
    })
    .drain_buffer();
}

fn addresses(sim: &Sim<'_>) -> Vec<String> {
    sim.state.open_forms().map(|(name, form)| format!("{name} at {}", form.address)).collect()
}

#[test]
fn the_form_is_evaluated_when_the_wait_begins_and_is_visible() {
    let mut b = Builder::new();
    let asks = r#"{"title": {"$input": "what"}, "schema": {"type": "object"}}"#;
    b.node(None, "ask", |b, _| ask(b, "", asks, Some(60)));
    let program = b.load();
    let mut sim = Sim::new(&program, Box::new(|_, _, _| Reply::Never));
    sim.start_with(json(r#"{"what": "Ship it?"}"#)).drain_buffer();
    let expected = json(r#"{"title": "Ship it?", "schema": {"type": "object"}}"#);
    let request = sim.events_of("approval.requested")[0];
    assert_eq!((&*request.path, request.data.get("form")), ("ask", Some(&expected)));
    let views = frame_tree(&program, &sim.state);
    let (name, form) = views[0].open_form.as_ref().unwrap();
    assert_eq!((&**name, &*form.address, &form.content), ("ask", "ask", &expected));
    assert_eq!(form.deadline.map(|at| at.0 - form.since.0), Some(60_000_000));
    sim.event("ask", "yes").drain_buffer();
    assert_eq!((sim.output(), addresses(&sim)), ("yes".into(), vec![]));
}

#[test]
fn every_iteration_has_a_distinct_address() {
    let program = ask_per_item("");
    let mut sim = begun(&program);
    assert_eq!(
        addresses(&sim),
        ["each[0].ask at each[0].ask", "each[1].ask at each[1].ask", "each[2].ask at each[2].ask"]
    );
    sim.event("each[1].ask", "two").event("each[2].ask", "three").drain_buffer();
    assert_eq!(addresses(&sim), ["each[0].ask at each[0].ask"]);
    sim.event("each[0].ask", "one").drain_buffer();
    assert_eq!(sim.output(), json(r#"["one", "two", "three"]"#));
}

#[test]
fn requests_with_one_name_are_distinguished_by_address() {
    let program = ask_per_item("ok");
    let mut sim = begun(&program);
    assert_eq!(addresses(&sim), ["ok at each[0].ask", "ok at each[1].ask", "ok at each[2].ask"]);
    signal_to(&mut sim, "each[2].ask", "ok", "three");
    sim.event("ok", "one").drain_buffer();
    assert_eq!(addresses(&sim), ["ok at each[1].ask"], "without an address the oldest gets it");
    signal_to(&mut sim, "each[2].ask", "ok", "again");
    assert_eq!(sim.count("event.unhandled"), 1, "a signal that arrives too late for its address is unhandled");
    assert!(sim.state.signals.is_empty(), "and not buffered for the next question");
    signal_to(&mut sim, "each[1].ask", "ok", "two");
    assert_eq!(sim.output(), json(r#"["one", "two", "three"]"#));
}

#[test]
fn an_unanswered_request_times_out() {
    let mut b = Builder::new();
    b.node(None, "ask", |b, _| ask(b, "", "{}", Some(5)));
    let program = b.load();
    let mut sim = begun(&program);
    sim.advance(secs(5));
    assert_eq!((sim.status(), addresses(&sim)), (Status::TimedOut, vec![]));
    let error = sim.result().error.clone().unwrap();
    assert!(
        error.message.contains("answered") && error.hint.unwrap().contains("windlass approve"),
        "{}",
        error.message
    );
}

#[test]
fn a_repeated_request_has_another_address() {
    let mut b = Builder::new();
    let root = b.sequence(None, "root", |b, id| {
        vec![b.node(id, "ask", |b, _| ask(b, "", "{}", None)), b.effect(id, "work", "0")]
    });
    b.node_mut(root).retry = Some(retry(2, secs(1)));
    let program = b.load();
    let mut sim = begun(&program);
    sim.event("root.ask", "yes").drain_buffer().fail("root.work").advance(secs(1));
    let again = addresses(&sim);
    assert!(again.len() == 1 && again[0].contains("root.ask#"), "{again:?}");
    signal_to(&mut sim, "root.ask", "root.ask", "late");
    assert!(!sim.ended(), "an answer to the first question is not one to the second");
}

#[test]
fn a_form_is_small_and_is_removed_with_its_run() {
    let mut b = Builder::new();
    b.parallel(None, "root", |b, id| {
        let asks = b.node(id, "ask", |b, _| ask(b, "", r#"{"message": {"$input": "text"}}"#, None));
        vec![asks, b.effect(id, "work", "0")]
    });
    let program = b.load_with(windlass_core::Limits { max_inline_bytes: 1_000, ..windlass_core::Limits::default() });
    let mut sim = Sim::new(&program, Box::new(|_, _, _| Reply::Never));
    sim.start_with(Value::object([("text", "x".repeat(2_000))])).drain_buffer();
    assert_eq!(addresses(&sim), Vec::<String>::new());
    assert_eq!(
        sim.events_of("step.failed")[0].data.get("error").and_then(|e| e.get("code")),
        Some(&"FormTooLarge".into())
    );
    let mut sim = begun(&program);
    assert_eq!(addresses(&sim).len(), 1);
    let (before, copy) = (sim.state.forms.changes, decoded(&encoded(&sim.state)));
    assert_eq!(copy.open_forms().count(), 1, "a snapshot keeps it");
    sim.cancel().drain_buffer();
    assert_eq!(addresses(&sim), Vec::<String>::new());
    assert!(sim.state.forms.changes > before);
}
