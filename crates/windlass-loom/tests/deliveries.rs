//! Deliveries to a trigger and their results, one line per case.

#![allow(clippy::unwrap_used)]

use windlass_core::{AdmissionError, Limits, Program, TriggerDelivery, Values, admit};
use windlass_expr::wdl;
use windlass_loom::{LoomOptions, compile};
use windlass_syntax::{Colour, SourceText};
use windlass_value::{BlobHash, Language, StoredValue, Timestamp, Value, parse_json};

/// A store without values.
struct Nothing;

impl Values for Nothing {
    fn get(&self, _hash: &BlobHash) -> Option<Value> {
        None
    }

    fn put(&mut self, _value: &Value) -> StoredValue {
        panic!("nothing is stored")
    }
}

/// Returns `ok`, `unmet`, or the code and the message of the refusal.
fn delivered(trigger: &str, input: &str) -> String {
    let text =
        format!(r#"{{"triggers": {{"in": {trigger}}}, "actions": {{"a": {{"type": "compose", "inputs": 1}}}}}}"#);
    let source = SourceText::new("t.json", text);
    let compiled = compile(&source, &LoomOptions::default());
    let plan = compiled.map_err(|problems| problems.render(&source, Colour::Never)).unwrap().plan;
    let languages = wdl::languages();
    let languages: Vec<&dyn Language> = languages.iter().map(|language| &**language).collect();
    let program = Program::load(plan, &languages, Limits::default()).unwrap();
    let delivery = TriggerDelivery { input: &parse_json(input).unwrap(), metadata: &Value::Null };
    match admit(&program, &program.plan.triggers[0], delivery, Timestamp(0), 1, &mut Nothing) {
        Ok(admitted) if admitted.unmet.is_some() => "unmet".to_owned(),
        Ok(_) => "ok".to_owned(),
        Err(AdmissionError::Rejected(error)) => format!("{}: {}", error.code, error.message),
        Err(AdmissionError::NeedBlobs(_)) => panic!("nothing is stored"),
    }
}

#[test]
fn deliveries_are_validated_against_the_schema_on_request() {
    let checked = r#"{"type": "Request", "operationOptions": "EnableSchemaValidation", "conditions": [{"expression": "@equals(triggerBody().n, 1)"}],
        "inputs": {"schema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}, "@odata.id": {"type": "string"}, "@@odata.tag": {"type": "string"}}}}}"#;
    let free = r#"{"type": "Request", "inputs": {"schema": {"type": "object", "required": ["n"]}}}"#;
    let without = r#"{"type": "Request", "operationOptions": "EnableSchemaValidation", "inputs": {}}"#;
    for (trigger, input, expected) in [
        (checked, r#"{"n": 1, "@odata.id": "x"}"#, "ok"),
        (checked, r#"{"n": 2}"#, "unmet"),
        (
            checked,
            r#"{"n": "1"}"#,
            r#"ValidationFailed: the content does not match the schema: /n: found string "1", expected integer"#,
        ),
        (
            checked,
            r#"{"n": 1, "@odata.id": 5}"#,
            "ValidationFailed: the content does not match the schema: /@odata.id: found number 5",
        ),
        (
            checked,
            r#"{"n": 1, "@odata.tag": 5}"#,
            "ValidationFailed: the content does not match the schema: /@odata.tag: found number 5",
        ),
        (checked, "[]", "ValidationFailed: the content does not match the schema: the content: found an array of 0"),
        (checked, "null", "ValidationFailed: `content` is null"),
        (free, "{}", "ok"),
        (without, "5", "ok"),
    ] {
        let result = delivered(trigger, input);
        assert!(result.starts_with(expected), "{input}: {result}");
    }
}

#[test]
fn the_only_trigger_is_known_by_its_name() {
    let named = |name: &str| format!(r#"{{"conditions": [{{"expression": "@equals(trigger().name, '{name}')"}}]}}"#);
    assert_eq!(delivered(&named("in"), "null"), "ok");
    assert_eq!(delivered(&named("manual"), "null"), "unmet");
    let with_another = format!(r#"{}, "other": {{}}"#, named("manual"));
    assert_eq!(delivered(&with_another, "null"), "ok");
}
