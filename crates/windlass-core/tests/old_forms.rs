//! What older programs have written is read, and what has nothing new to say is written as they wrote it: the digest of a
//! journaled tick must stay what it was.

mod support;

use std::collections::BTreeMap;

use serde::Serialize;
use support::{each, place};
use windlass_core::plan::{
    Action, Directive, Effect, ExprId, Name, Net, NetEnd, NodeId, Parameter, Plan, Rule, Task, VariableKind, Write,
    WriteOp,
};
use windlass_core::state::PipelineFrame;
use windlass_core::{EffectKey, RunResult, Status, TaskOutcome, TickKind};
use windlass_value::{RunView, Timestamp, Value};

fn named(value: &impl Serialize) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("it can be written")
}

/// The old form's bytes are the new form's, in both ways of writing.
macro_rules! same_bytes {
    ($new:expr, $old:expr) => {
        assert_eq!(named(&$new), named(&$old));
        assert_eq!(rmp_serde::to_vec(&$new).expect("written"), rmp_serde::to_vec(&$old).expect("written"));
        assert_eq!(rmp_serde::from_slice(&named(&$old)).map_err(|error| error.to_string()), Ok($new));
    };
}

#[test]
fn keys_results_and_reports_are_written_as_before() {
    #[derive(Serialize)]
    struct Key {
        path: &'static str,
        generation: u32,
        visit: u32,
        group: u32,
    }
    same_bytes!(
        EffectKey { path: "a.b".into(), generation: 1, visit: 2, group: 3, call: 0 },
        Key { path: "a.b", generation: 1, visit: 2, group: 3 }
    );

    #[derive(Serialize)]
    struct Result {
        status: Status,
        output: Value,
        error: Option<()>,
    }
    same_bytes!(
        RunResult { status: Status::Succeeded, output: Value::Int(7), error: None, reply: None, usage: Value::Null },
        Result { status: Status::Succeeded, output: Value::Int(7), error: None }
    );

    #[derive(Serialize)]
    struct Outcome {
        output: Value,
        error: Option<()>,
        meta: Value,
    }
    same_bytes!(TaskOutcome::success(7i64), Outcome { output: Value::Int(7), error: None, meta: Value::Null });

    #[derive(Serialize)]
    enum Tick {
        CancelRun { reason: &'static str, request: Option<()> },
    }
    same_bytes!(
        TickKind::CancelRun { reason: "enough".into(), request: None, by_caller: false },
        Tick::CancelRun { reason: "enough", request: None }
    );
}

#[test]
fn a_tool_that_is_written_down_is_a_plain_text() {
    #[derive(Serialize)]
    struct Old {
        tool: &'static str,
        input: ExprId,
    }
    let old = named(&Old { tool: "http", input: ExprId(3) });
    let read: Effect = rmp_serde::from_slice(&old).expect("read");
    assert_eq!((&read.tool, read.input), (&Name::from("http"), ExprId(3)));
    assert_eq!(named(&read), old);
    let computed = Name::Computed { computed: ExprId(4), among: vec!["a".into(), "b".into()] };
    assert_eq!(rmp_serde::from_slice::<Name>(&named(&computed)).expect("read"), computed);
}

#[test]
fn a_plan_without_pins_does_not_speak_of_them() {
    let plan = Plan::new("p", "test", "");
    let bytes = named(&plan);
    assert!(!bytes.windows(4).any(|word| word == b"pins"), "an old plan keeps its hash");
    assert!(rmp_serde::from_slice::<Plan>(&bytes).expect("read").pins.is_empty());
}

#[test]
fn an_old_snapshot_knows_nothing_of_calls() {
    #[derive(Serialize)]
    struct Old {
        pc: u32,
        runs: u64,
        attempt: u32,
        visits: BTreeMap<u32, u32>,
        group: u32,
        task_started_at: Timestamp,
        previous: Value,
        inputs: Value,
        sent: bool,
        job: Option<u64>,
    }
    let old = Old {
        pc: 1,
        runs: 2,
        attempt: 3,
        visits: BTreeMap::new(),
        group: 4,
        task_started_at: Timestamp(5),
        previous: Value::Null,
        inputs: Value::Int(6),
        sent: true,
        job: Some(7),
    };
    let read: PipelineFrame = rmp_serde::from_slice(&named(&old)).expect("read");
    assert_eq!((read.inputs, read.sent, read.job), (Value::Int(6), true, Some(7)));
    assert_eq!((&read.tool, &read.again, read.call), (&None, &None, 0));
    assert_eq!((read.child, read.rounds, read.tries_before, read.matched.len()), (None, 0, 0, 0));
}

/// What a plan does not use is not written into it, so an old plan keeps its hash.
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

#[test]
fn a_start_without_a_parent_is_written_as_before() {
    #[derive(Serialize)]
    enum Tick {
        AddEvent { name: &'static str, payload: Value, request: Option<()> },
    }
    same_bytes!(
        TickKind::AddEvent {
            name: "start".into(),
            payload: Value::Int(1),
            request: None,
            origin: None,
            to: None,
            beside: Value::Null,
            defaults: Value::Null
        },
        Tick::AddEvent { name: "start", payload: Value::Int(1), request: None }
    );
}

#[test]
fn a_run_without_a_parent_is_kept_as_before() {
    #[derive(Serialize)]
    struct Old {
        id: &'static str,
        name: &'static str,
        input: Value,
        parameters: Value,
        started_at: Timestamp,
    }
    let old = Old { id: "r", name: "p", input: Value::Null, parameters: Value::Null, started_at: Timestamp(7) };
    same_bytes!(RunView::new("r", "p", Timestamp(7)), old);
}
