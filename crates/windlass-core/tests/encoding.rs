//! Encodings of what journals, snapshots and plans hold: everything reads back as it was written, and fields that say
//! nothing take no room.

use crate::support;

use serde::Serialize;
use serde::de::DeserializeOwned;
use support::{each, place};
use windlass_core::plan::{
    Action, Directive, Effect, ExprId, Name, Net, NetEnd, NodeId, Parameter, Plan, Rule, Task, VariableKind, Write,
    WriteOp,
};
use windlass_core::{EffectKey, ErrorInfo, RunResult, Status, TaskOutcome, TickKind};
use windlass_value::Value;

fn named(value: &impl Serialize) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("it can be written")
}

fn comes_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: T) {
    let read: T = rmp_serde::from_slice(&named(&value)).expect("it can be read");
    assert_eq!(read, value);
}

#[test]
fn ticks_keys_and_results_read_back_as_they_were_written() {
    for call in [0, 4] {
        comes_back(EffectKey { path: "a.b".into(), generation: 1, visit: 2, group: 3, call });
    }
    let error = ErrorInfo::new("Refused", "http", "not now").hint("later");
    for error in [None, Some(error)] {
        let (status, output) = (Status::Succeeded, Value::Int(7));
        comes_back(RunResult { status, output, error, reply: None, usage: Value::Null });
    }
    comes_back(TaskOutcome::success(7i64));
    for by_caller in [false, true] {
        comes_back(TickKind::CancelRun { reason: "enough".into(), request: None, by_caller });
    }
    comes_back(TickKind::Progress { job: 1, lease_epoch: 2, data: Value::Int(3) });
    comes_back(TickKind::AddEvent {
        name: "start".into(),
        payload: Value::Int(1),
        request: Some("one".into()),
        origin: None,
        to: Some("a".into()),
        beside: Value::Null,
        defaults: Value::Int(2),
    });
}

#[test]
fn a_tool_that_is_written_down_is_a_plain_text() {
    #[derive(Serialize)]
    struct Plain {
        tool: &'static str,
        input: ExprId,
    }
    let plain = named(&Plain { tool: "http", input: ExprId(3) });
    let read: Effect = rmp_serde::from_slice(&plain).expect("read");
    assert_eq!((&read.tool, read.input), (&Name::from("http"), ExprId(3)));
    assert_eq!(named(&read), plain);
    comes_back(Name::Computed { computed: ExprId(4), among: vec!["a".into(), "b".into()] });
}

#[test]
fn a_plan_without_pins_does_not_speak_of_them() {
    let bytes = named(&Plan::new("p", "test", ""));
    assert!(!bytes.windows(4).any(|word| word == b"pins"));
    assert!(rmp_serde::from_slice::<Plan>(&bytes).expect("read").pins.is_empty());
}

/// Fields at their default are left out of a plan's bytes: plans stay small.
#[test]
fn a_plan_does_not_speak_of_what_it_does_not_use() {
    let words = ["hidden", "times", "fresh", "entry", "item", "merge", "done", "input", "facts", "origin"];
    let spoken = |bytes: Vec<u8>, known: &[&str]| {
        let said = |word: &&str| {
            // A name is written as its length and its letters.
            let name: Vec<u8> = [0xa0 | word.len() as u8].into_iter().chain(word.bytes()).collect();
            bytes.windows(name.len()).any(|part| part == name)
        };
        words.into_iter().filter(said).filter(|word| !known.contains(word)).collect::<Vec<_>>()
    };
    let write = Write::new(windlass_value::Level::Run, "x", WriteOp::Set, None);
    let rule = Rule { writes: vec![write.clone()], ..Rule::new(Directive::Break) };
    let task = Task { rules: vec![rule], ..Task::new(Action::Write(write)) };
    assert_eq!(spoken(named(&task), &[]), Vec::<&str>::new());
    assert_eq!(spoken(named(&Parameter::new("x", VariableKind::Any)), &[]), Vec::<&str>::new());
    let place = place("p", &["start"], NodeId(1));
    let net = Net::new(vec![place], "start", NetEnd::Quiet);
    assert_eq!(spoken(named(&net), &[]), Vec::<&str>::new());
    assert_eq!(spoken(named(&each(ExprId(0), 1, NodeId(1))), &[]), Vec::<&str>::new());
}
