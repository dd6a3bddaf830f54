//! Encodings of journals, snapshots and plans: every value reads back as it was written, and fields at their
//! default take no space.

use crate::support;

use serde::Serialize;
use serde::de::DeserializeOwned;
use support::{each, place};
use windlass_core::plan::{
    Action, Directive, Effect, ExprId, Net, NetEnd, NodeId, Parameter, Plan, Task, TaskRule, ToolName, VariableKind,
    VariableUpdate, WriteOp,
};
use windlass_core::{EffectKey, ErrorInfo, RunResult, Status, TaskOutcome, TickKind};
use windlass_value::Value;

fn encode_named(value: &impl Serialize) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("it can be written")
}

fn assert_round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: T) {
    let read: T = rmp_serde::from_slice(&encode_named(&value)).expect("it can be read");
    assert_eq!(read, value);
}

#[test]
fn ticks_keys_and_results_read_back_as_they_were_written() {
    for call in [0, 4] {
        assert_round_trip(EffectKey { path: "a.b".into(), generation: 1, visit: 2, group: 3, call });
    }
    let error = ErrorInfo::new("Refused", "http", "not now").hint("later");
    for error in [None, Some(error)] {
        let (status, output) = (Status::Succeeded, Value::Int(7));
        assert_round_trip(RunResult { status, output, error, reply: None, usage: Value::Null });
    }
    assert_round_trip(TaskOutcome::success(7i64));
    for by_caller in [false, true] {
        assert_round_trip(TickKind::CancelRun { reason: "enough".into(), request: None, by_caller });
    }
    assert_round_trip(TickKind::Progress { job: 1, lease_epoch: 2, data: Value::Int(3) });
    assert_round_trip(TickKind::AddEvent {
        name: "start".into(),
        payload: Value::Int(1),
        request: Some("one".into()),
        origin: None,
        to: Some("a".into()),
        trigger_metadata: Value::Null,
        defaults: Value::Int(2),
    });
}

#[test]
fn a_fixed_tool_name_is_encoded_as_plain_text() {
    #[derive(Serialize)]
    struct Plain {
        tool: &'static str,
        input: ExprId,
    }
    let plain = encode_named(&Plain { tool: "http", input: ExprId(3) });
    let read: Effect = rmp_serde::from_slice(&plain).expect("read");
    assert_eq!((&read.tool, read.input), (&ToolName::from("http"), ExprId(3)));
    assert_eq!(encode_named(&read), plain);
    assert_round_trip(ToolName::Computed { computed: ExprId(4), among: vec!["a".into(), "b".into()] });
}

#[test]
fn a_plan_without_pins_omits_the_field() {
    let bytes = encode_named(&Plan::new("p", "test", ""));
    assert!(!bytes.windows(4).any(|window| window == b"pins"));
    assert!(rmp_serde::from_slice::<Plan>(&bytes).expect("read").pins.is_empty());
}

/// Fields at their default are omitted from a plan's bytes, which keeps plans small.
#[test]
fn a_plan_omits_unused_fields() {
    let names = [
        "hidden",
        "max_matches",
        "reevaluates_input",
        "ignores_input",
        "entry",
        "item",
        "merge",
        "done_event",
        "input",
        "facts",
        "origin",
    ];
    let encoded_names = |bytes: Vec<u8>, known: &[&str]| {
        let is_encoded = |name_text: &&str| {
            // A name is encoded as its length followed by its characters.
            let name: Vec<u8> = [0xa0 | name_text.len() as u8].into_iter().chain(name_text.bytes()).collect();
            bytes.windows(name.len()).any(|part| part == name)
        };
        names.into_iter().filter(is_encoded).filter(|name_text| !known.contains(name_text)).collect::<Vec<_>>()
    };
    let write = VariableUpdate::new(windlass_value::Level::Run, "x", WriteOp::Set, None);
    let rule = TaskRule { writes: vec![write.clone()], ..TaskRule::new(Directive::Break) };
    let task = Task { rules: vec![rule], ..Task::new(Action::Write(write)) };
    assert_eq!(encoded_names(encode_named(&task), &[]), Vec::<&str>::new());
    assert_eq!(encoded_names(encode_named(&Parameter::new("x", VariableKind::Any)), &[]), Vec::<&str>::new());
    let place = place("p", &["start"], NodeId(1));
    let net = Net::new(vec![place], "start", NetEnd::Quiet);
    assert_eq!(encoded_names(encode_named(&net), &[]), Vec::<&str>::new());
    assert_eq!(encoded_names(encode_named(&each(ExprId(0), 1, NodeId(1))), &[]), Vec::<&str>::new());
}
