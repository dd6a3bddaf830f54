//! Run starts: parameters merged with their defaults, and the origin of a run.

use crate::support;

use support::values::MemoryValues;
use support::world::echo;
use support::*;
use windlass_core::plan::*;
use windlass_core::{CallOrigin, Limits, Program, Status, TickKind};
use windlass_value::Value;

/// A run that returns its parameter `p`.
fn with_parameter(default: Option<&str>, kind: VariableKind, merge: bool, limits: Limits) -> Program {
    let mut b = Builder::new();
    b.evaluate(None, "show", r#"{"$run": "p"}"#);
    b.plan.parameters = vec![Parameter { default: default.map(json), merge, ..Parameter::new("p", kind) }];
    b.load_with(limits)
}

fn output_for(program: &Program, input: &str) -> Value {
    let mut sim = Sim::new(program, echo());
    sim.start_with(json(input)).run();
    sim.output()
}

#[test]
fn an_object_is_merged_with_its_default_level_by_level() {
    const DEFAULT: &str = r#"{"db": {"host": "here", "port": 5432}, "tags": ["a"], "n": 1}"#;
    let program = with_parameter(Some(DEFAULT), VariableKind::Object, true, Limits::default());
    let cases = [
        ("{}", DEFAULT),
        (r#"{"p": {"db": {"host": "there"}}}"#, r#"{"db": {"host": "there", "port": 5432}, "tags": ["a"], "n": 1}"#),
        (
            r#"{"p": {"tags": ["b"], "new": 2}}"#,
            r#"{"db": {"host": "here", "port": 5432}, "tags": ["b"], "n": 1, "new": 2}"#,
        ),
        (r#"{"p": {"db": null}}"#, r#"{"db": null, "tags": ["a"], "n": 1}"#),
    ];
    for (input, expected) in cases {
        assert_eq!(output_for(&program, input), json(expected), "{input}");
    }
    let replaced = with_parameter(Some(DEFAULT), VariableKind::Object, false, Limits::default());
    assert_eq!(output_for(&replaced, r#"{"p": {"n": 2}}"#), json(r#"{"n": 2}"#));
}

#[test]
fn a_non_object_replaces_the_default() {
    let program = with_parameter(Some(r#"{"a": 1}"#), VariableKind::Any, true, Limits::default());
    assert_eq!(output_for(&program, r#"{"p": [2]}"#), json("[2]"));
    let program = with_parameter(Some("[1]"), VariableKind::Any, true, Limits::default());
    assert_eq!(output_for(&program, r#"{"p": {"a": 2}}"#), json(r#"{"a": 2}"#));
    let program = with_parameter(None, VariableKind::Any, true, Limits::default());
    assert_eq!(output_for(&program, r#"{"p": {"a": 2}}"#), json(r#"{"a": 2}"#));
}

/// The merge of two objects may be too large for the state.
#[test]
fn a_large_merged_parameter_is_stored_outside_the_state() {
    let default = r#"{"a": "0123456789012345678901234567890123456789"}"#;
    let limits = Limits { max_inline_bytes: 60, ..Limits::default() };
    let program = with_parameter(Some(default), VariableKind::Object, true, limits);
    let mut sim = Sim::new(&program, echo());
    sim.values = MemoryValues::forgetful();
    sim.start_with(json(r#"{"p": {"b": "0123456789012345678901234567890123456789"}}"#)).run();
    assert!(matches!(sim.state.run.parameters.get("p"), Some(Value::Stored(_))));
    assert_eq!(sim.output().as_map().unwrap().len(), 2);
}

/// Snapshots contain the state: the run input must not be part of each of them.
#[test]
fn a_large_input_for_a_merged_parameter_is_stored_outside_the_state() {
    let limits = Limits { max_inline_bytes: 60, ..Limits::default() };
    let program = with_parameter(Some(r#"{"a": 1}"#), VariableKind::Object, true, limits);
    let mut sim = Sim::new(&program, echo());
    sim.values = MemoryValues::forgetful();
    let large = "0123456789".repeat(100);
    sim.start_with(Value::object([("p", Value::object([("b", Value::from(large.as_str()))]))])).run();
    assert!(matches!(sim.state.run.input.get("p"), Some(Value::Stored(_))));
    assert!(!format!("{:?}{:?}", sim.state, sim.events).contains(&large));
    assert_eq!(sim.output().get("b"), Some(&Value::from(large.as_str())));
}

/// A default may be computed from the input and the preceding parameters; a provided value is not evaluated.
#[test]
fn a_default_may_be_computed() {
    let program = |q: &str| {
        let mut b = Builder::new();
        b.evaluate(None, "show", r#"[{"$run": "p"}, {"$run": "q"}]"#);
        let computed = Some(b.expr(q));
        let q = Parameter { computed, merge: true, ..Parameter::new("q", VariableKind::Any) };
        b.plan.parameters = vec![Parameter { default: Some(json("1")), ..Parameter::new("p", VariableKind::Any) }, q];
        b.load()
    };
    for (q, input, expected) in [
        (r#"{"$add": [{"$run": "p"}, 1]}"#, "{}", "[1, 2]"),
        (r#"{"$add": [{"$run": "p"}, 1]}"#, r#"{"p": 5}"#, "[5, 6]"),
        (r#"{"$add": [{"$run": "p"}, 1]}"#, r#"{"q": 7}"#, "[1, 7]"),
        (r#"{"$input": "r"}"#, r#"{"r": 3}"#, "[1, 3]"),
        (r#"{"a": {"$run": "p"}, "b": 2}"#, r#"{"q": {"b": 3}}"#, r#"[1, {"a": 1, "b": 3}]"#),
        (r#"{"a": {"$fail": "x"}}"#, r#"{"q": 3}"#, "[1, 3]"),
    ] {
        assert_eq!(output_for(&program(q), input), json(expected), "{q} {input}");
    }
    let program = program(r#"{"$fail": "x"}"#);
    let mut sim = Sim::new(&program, echo());
    sim.start_with(json("{}")).run();
    assert_eq!(sim.status(), Status::Failed);
}

/// A caller may request the output of a single node.
#[test]
fn a_caller_selects_the_output_node() {
    let mut b = Builder::new();
    b.evaluate(None, "show", "1");
    let program = b.load();
    for (output_node, status, output) in [
        (None, Status::Succeeded, "1"),
        (Some("show"), Status::Succeeded, "1"),
        (Some("other"), Status::Failed, "null"),
    ] {
        let output_node = output_node.map(Into::into);
        let origin = Some(Box::new(CallOrigin {
            parent: "above".into(),
            parent_execution_id: 6,
            trace: "top".into(),
            output_node,
        }));
        let mut sim = Sim::new(&program, echo());
        sim.tick(TickKind::AddEvent {
            name: "start".into(),
            payload: Value::Null,
            request: None,
            origin,
            to: None,
            trigger_metadata: Value::Null,
            defaults: Value::Null,
        });
        assert_eq!((sim.run().status(), sim.output()), (status, json(output)));
    }
}

#[test]
fn a_child_run_knows_its_parent_and_root() {
    let mut b = Builder::new();
    b.evaluate(None, "show", r#"[{"$run": "parent"}, {"$run": "trace"}]"#);
    let program = b.load();
    let shown = |origin: Option<CallOrigin>| {
        let mut sim = Sim::new(&program, echo());
        let origin = origin.map(Box::new);
        sim.tick(TickKind::AddEvent {
            name: "start".into(),
            payload: Value::Null,
            request: None,
            origin,
            to: None,
            trigger_metadata: Value::Null,
            defaults: Value::Null,
        });
        assert_eq!(sim.run().status(), Status::Succeeded);
        sim.output()
    };
    assert_eq!(shown(None), json(r#"[null, "run"]"#), "its own master");
    let origin = CallOrigin { parent: "above".into(), parent_execution_id: 6, trace: "top".into(), output_node: None };
    assert_eq!(shown(Some(origin)), json(r#"["above", "top"]"#));
}

/// A value nested too deeply could be written, but never read again.
#[test]
fn the_depth_of_a_value_is_limited() {
    let program = |limit: usize| {
        let mut b = Builder::new();
        b.evaluate(None, "show", "[[[1]]]");
        b.load_with(Limits { max_value_depth: limit, ..Limits::default() })
    };
    for (limit, fails) in [(3, false), (2, true)] {
        let program = program(limit);
        let mut sim = Sim::new(&program, echo());
        sim.start_with(json("{}")).run();
        assert_eq!(sim.result().error.as_ref().map(|error| &*error.code), fails.then_some("ExpressionLimit"));
    }
}
