//! Trigger deliveries: which runs a delivery starts.

use crate::support;

use support::language::TestLanguage;
use support::values::MemoryValues;
use support::*;
use windlass_core::plan::*;
use windlass_core::{Admission, AdmissionError, ErrorInfo, Limits, Program, TriggerDelivery, admit};
use windlass_value::{Timestamp, Value};

/// A plan with one trigger: its conditions and its split, as JSON.
fn triggered(conditions: &[&str], split: Option<&str>) -> Program {
    let mut b = Builder::new();
    b.evaluate(None, "work", "1");
    let conditions = conditions.iter().map(|source| b.condition(json(source))).collect();
    let split = split.map(|source| b.expr(source));
    let span = SourceSpan::default();
    b.plan.triggers.push(Trigger {
        name: "manual".into(),
        kind: "request".into(),
        validation: None,
        conditions,
        split,
        settings: Value::Null,
        span,
    });
    b.load_with(Limits { max_loop_items: 3, ..Limits::default() })
}

fn deliver(program: &Program, input: &str) -> Result<Admission, ErrorInfo> {
    let mut values = MemoryValues::default();
    let delivery = TriggerDelivery { input: &json(input), metadata: &Value::Null };
    match admit(program, &program.plan.triggers[0], delivery, Timestamp(5_000), 7, &mut values) {
        Ok(admitted) => Ok(admitted),
        Err(AdmissionError::Rejected(error)) => Err(*error),
        Err(AdmissionError::NeedBlobs(_)) => panic!("everything is at hand"),
    }
}

fn inputs(program: &Program, input: &str) -> Value {
    Value::list(deliver(program, input).unwrap().inputs)
}

#[test]
fn without_conditions_and_split_the_delivery_is_the_run_input() {
    assert_eq!(inputs(&triggered(&[], None), r#"{"a": 1}"#), json(r#"[{"a": 1}]"#));
    assert_eq!(inputs(&triggered(&[], None), "null"), json("[null]"));
}

#[test]
fn all_conditions_must_hold() {
    let program = triggered(&[r#"{"$eq": [{"$input": "a"}, 1]}"#, r#"{"$lt": [{"$input": "b"}, 5]}"#], None);
    assert_eq!(inputs(&program, r#"{"a": 1, "b": 2}"#), json(r#"[{"a": 1, "b": 2}]"#));
    for (input, which) in [(r#"{"a": 2, "b": 2}"#, 0), (r#"{"a": 1, "b": 9}"#, 1), (r#"{"a": 2, "b": 9}"#, 0)] {
        let Admission { inputs, unmet } = deliver(&program, input).unwrap();
        assert!(inputs.is_empty());
        let unmet = unmet.unwrap();
        let source = &program.plan.expressions[program.plan.triggers[0].conditions[which].0 as usize].source;
        assert_eq!((unmet.condition, &unmet.source), (which, source));
    }
}

#[test]
fn a_list_is_split_into_runs() {
    let program = triggered(&[], Some(r#"{"$input": "items"}"#));
    assert_eq!(inputs(&program, r#"{"items": [1, {"b": 2}, "c"]}"#), json(r#"[1, {"b": 2}, "c"]"#));
    let nothing = deliver(&program, r#"{"items": []}"#).unwrap();
    assert_eq!((nothing.inputs.len(), nothing.unmet), (0, None));
}

#[test]
fn a_delivery_that_cannot_be_evaluated_is_rejected() {
    for (conditions, split, input, code) in [
        (&[][..], Some(r#"{"$input": "items"}"#), r#"{"items": 5}"#, "NotAnArray"),
        (&[], Some(r#"{"$input": "items"}"#), r#"{"items": [1, 2, 3, 4]}"#, "TooManyItems"),
        (&[], Some(r#"{"$fail": "no list"}"#), "null", "InvalidTemplate"),
        (&["3"], None, "null", "NotBoolean"),
        (&[r#"{"$fail": "no condition"}"#], None, "null", "InvalidTemplate"),
    ] {
        let error = deliver(&triggered(conditions, split), input).expect_err("refused");
        assert_eq!(&*error.code, code);
    }
}

#[test]
fn an_invalid_delivery_is_rejected_before_the_conditions() {
    let program = |validates: &str| {
        let mut plan = triggered(&["false"], None).plan;
        let id = ExprId(plan.expressions.len() as u32);
        plan.expressions.push(ExpressionSource { source: json(validates), ..plan.expressions[0].clone() });
        plan.triggers[0].validation = Some(id);
        Program::load(plan, &[&TestLanguage], Limits::default()).unwrap()
    };
    let error = deliver(&program(r#"{"$fail": "n is missing"}"#), "null").expect_err("not valid");
    assert_eq!((&*error.code, &*error.message), ("ValidationFailed", "n is missing"));
    assert!(deliver(&program(r#"{"$input": "n"}"#), r#"{"n": 1}"#).unwrap().unmet.is_some());
}

#[test]
fn conditions_are_checked_before_the_list_is_split() {
    let program = triggered(&["false"], Some(r#"{"$fail": "never asked"}"#));
    assert!(deliver(&program, "null").unwrap().unmet.is_some());
}

#[test]
fn inputs_are_checked_against_the_parameters_before_any_run_starts() {
    let with = |split: Option<&str>| {
        let mut program = triggered(&[], split);
        let parameter = Parameter::new("n", VariableKind::Integer);
        program.plan.parameters.push(parameter);
        program
    };
    let whole = with(None);
    assert!(deliver(&whole, r#"{"n": 1}"#).is_ok());
    assert_eq!(&*deliver(&whole, "{}").expect_err("no n").code, "InvalidInput");
    let split = with(Some(r#"{"$input": "items"}"#));
    assert_eq!(inputs(&split, r#"{"items": [{"n": 1}, {"n": 2}]}"#), json(r#"[{"n": 1}, {"n": 2}]"#));
    let error = deliver(&split, r#"{"items": [{"n": 1}, {"n": "x"}]}"#).expect_err("one does not fit");
    assert!(error.message.starts_with("item 1: "), "{}", error.message);
}

#[test]
fn admission_is_deterministic_for_delivery_and_time() {
    let program = triggered(&[], Some(r#"[{"$random": 1000000}, {"$now": null}]"#));
    let first = inputs(&program, "null");
    assert_eq!(first, inputs(&program, "null"));
    assert_eq!(first.as_list().unwrap()[1], Value::Int(5), "the time is the caller's");
}

#[test]
fn a_plan_with_a_dangling_trigger_is_not_loaded() {
    let load = |change: fn(&mut Plan)| {
        let mut plan = triggered(&["true"], None).plan;
        change(&mut plan);
        Program::load(plan, &[&TestLanguage], Limits::default()).err().map(|error| error.to_string())
    };
    assert_eq!(load(|_| {}), None);
    let nowhere = |text: Option<String>| assert!(text.unwrap().contains("an expression that does not exist"));
    nowhere(load(|plan| plan.triggers[0].conditions.push(ExprId(99))));
    nowhere(load(|plan| plan.triggers[0].split = Some(ExprId(99))));
    nowhere(load(|plan| plan.triggers[0].validation = Some(ExprId(99))));
    assert!(load(|plan| plan.triggers.push(plan.triggers[0].clone())).unwrap().contains("two triggers"));
}
