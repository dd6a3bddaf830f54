//! Waits that ask somebody something: what is asked, how it is addressed, what becomes of answers.

use crate::support;

use support::sim::{decoded, encoded};
use support::*;
use windlass_core::plan::*;
use windlass_core::{Program, Status, TickKind, frame_tree};
use windlass_value::Value;

fn begun(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, Box::new(|_, _, _| Reply::Never));
    sim.start().settle();
    sim
}

fn ask(b: &mut Builder, name: &str, asks: &str, deadline: Option<u64>) -> NodeKind {
    let deadline = deadline.map(|after| Amount::Fixed(secs(after)));
    NodeKind::Wait(Wait::Signal { name: name.into(), requirements: None, deadline, form: Some(b.expr(asks)) })
}

/// One question for each of three items, all at once.
fn of_each(name: &str) -> Program {
    let mut b = Builder::new();
    let looping = b.node(None, "each", |_, _| NodeKind::Wait(Wait::Delay(Amount::Fixed(secs(0)))));
    let body = b.node(Some(looping), "ask", |b, _| ask(b, name, r#"{"title": [{"$turn": "item"}]}"#, None));
    let items = b.expr(r#"["a", "b", "c"]"#);
    b.at(looping).kind = NodeKind::Loop(Box::new(each(items, 3, body)));
    b.load()
}

fn to(sim: &mut Sim<'_>, address: &str, name: &str, payload: &str) {
    let (name, to) = (name.into(), Some(address.into()));
    sim.tick(TickKind::AddEvent {
        name,
        payload: payload.into(),
        request: None,
        origin: None,
        to,
        beside: Value::Null,
        defaults: Value::Null,
    })
    .settle();
}

fn addresses(sim: &Sim<'_>) -> Vec<String> {
    sim.state.open_forms().map(|(name, form)| format!("{name} at {}", form.address)).collect()
}

#[test]
fn what_is_asked_is_computed_when_the_wait_begins_and_can_be_seen() {
    let mut b = Builder::new();
    let asks = r#"{"title": {"$input": "what"}, "schema": {"type": "object"}}"#;
    b.node(None, "ask", |b, _| ask(b, "", asks, Some(60)));
    let program = b.load();
    let mut sim = Sim::new(&program, Box::new(|_, _, _| Reply::Never));
    sim.start_with(json(r#"{"what": "Ship it?"}"#)).settle();
    let expected = json(r#"{"title": "Ship it?", "schema": {"type": "object"}}"#);
    let asked = sim.events_of("approval.requested")[0];
    assert_eq!((&*asked.path, asked.data.get("form")), ("ask", Some(&expected)));
    let views = frame_tree(&program, &sim.state);
    let (name, form) = views[0].asks.as_ref().unwrap();
    assert_eq!((&**name, &*form.address, &form.asks), ("ask", "ask", &expected));
    assert_eq!(form.deadline.map(|at| at.0 - form.since.0), Some(60_000_000));
    sim.event("ask", "yes").settle();
    assert_eq!((sim.output(), addresses(&sim)), ("yes".into(), vec![]));
}

#[test]
fn every_iteration_has_a_distinct_address() {
    let program = of_each("");
    let mut sim = begun(&program);
    assert_eq!(
        addresses(&sim),
        ["each[0].ask at each[0].ask", "each[1].ask at each[1].ask", "each[2].ask at each[2].ask"]
    );
    sim.event("each[1].ask", "two").event("each[2].ask", "three").settle();
    assert_eq!(addresses(&sim), ["each[0].ask at each[0].ask"]);
    sim.event("each[0].ask", "one").settle();
    assert_eq!(sim.output(), json(r#"["one", "two", "three"]"#));
}

#[test]
fn a_shared_name_is_told_apart_by_the_address() {
    let program = of_each("ok");
    let mut sim = begun(&program);
    assert_eq!(addresses(&sim), ["ok at each[0].ask", "ok at each[1].ask", "ok at each[2].ask"]);
    to(&mut sim, "each[2].ask", "ok", "three");
    sim.event("ok", "one").settle();
    assert_eq!(addresses(&sim), ["ok at each[1].ask"], "without an address the oldest gets it");
    to(&mut sim, "each[2].ask", "ok", "again");
    assert_eq!(sim.count("event.unhandled"), 1, "what comes too late for its address is for nobody");
    assert!(sim.state.signals.is_empty(), "and not kept for the next question");
    to(&mut sim, "each[1].ask", "ok", "two");
    assert_eq!(sim.output(), json(r#"["one", "two", "three"]"#));
}

#[test]
fn nobody_answers_in_time() {
    let mut b = Builder::new();
    b.node(None, "ask", |b, _| ask(b, "", "{}", Some(5)));
    let program = b.load();
    let mut sim = begun(&program);
    sim.pass(secs(5));
    assert_eq!((sim.status(), addresses(&sim)), (Status::TimedOut, vec![]));
    let error = sim.result().error.clone().unwrap();
    assert!(
        error.message.contains("answered") && error.hint.unwrap().contains("windlass approve"),
        "{}",
        error.message
    );
}

#[test]
fn a_question_that_is_put_again_has_another_address() {
    let mut b = Builder::new();
    let root = b.sequence(None, "root", |b, id| {
        vec![b.node(id, "ask", |b, _| ask(b, "", "{}", None)), b.effect(id, "work", "0")]
    });
    b.at(root).retry = Some(retry(2, secs(1)));
    let program = b.load();
    let mut sim = begun(&program);
    sim.event("root.ask", "yes").settle().fail("root.work").pass(secs(1));
    let again = addresses(&sim);
    assert!(again.len() == 1 && again[0].contains("root.ask#"), "{again:?}");
    to(&mut sim, "root.ask", "root.ask", "late");
    assert!(!sim.ended(), "an answer to the first question is not one to the second");
}

#[test]
fn a_form_is_small_and_goes_with_its_run() {
    let mut b = Builder::new();
    b.together(None, "root", |b, id| {
        let asks = b.node(id, "ask", |b, _| ask(b, "", r#"{"message": {"$input": "text"}}"#, None));
        vec![asks, b.effect(id, "work", "0")]
    });
    let program = b.load_with(windlass_core::Limits { max_inline_bytes: 1_000, ..windlass_core::Limits::default() });
    let mut sim = Sim::new(&program, Box::new(|_, _, _| Reply::Never));
    sim.start_with(Value::object([("text", "x".repeat(2_000))])).settle();
    assert_eq!(addresses(&sim), Vec::<String>::new());
    assert_eq!(
        sim.events_of("step.failed")[0].data.get("error").and_then(|e| e.get("code")),
        Some(&"FormTooLarge".into())
    );
    let mut sim = begun(&program);
    assert_eq!(addresses(&sim).len(), 1);
    let (before, copy) = (sim.state.forms.changes, decoded(&encoded(&sim.state)));
    assert_eq!(copy.open_forms().count(), 1, "a snapshot keeps it");
    sim.cancel().settle();
    assert_eq!(addresses(&sim), Vec::<String>::new());
    assert!(sim.state.forms.changes > before);
}
