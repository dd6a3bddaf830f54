//! The measured workflows, as users would write them.

use windlass_core::Limits;
use windlass_core::plan::Plan;
use windlass_syntax::SourceText;
use windlass_value::{Duration, Value};

/// Limits raised far enough for the long loops.
pub(crate) fn limits() -> Limits {
    Limits {
        max_loop_iterations: u64::MAX / 2,
        max_loop_items: 10_000_000,
        max_loop_concurrency: 1_000,
        max_loop_concurrency_azure: 1_000,
        max_loop_time: Duration::from_secs(7 * 86_400),
        ..Limits::default()
    }
}

/// A loop with a condition and a compose, nothing else.
pub(crate) fn counting_loop(iterations: u64) -> Plan {
    compile(&format!(
        r#"{{"type": "until", "name": "count", "condition": "@greaterOrEquals(variables('loopIndex'), {iterations})",
            "limit": {{"count": {max}, "timeout": "P6D"}},
            "actions": {{"note": {{"type": "compose", "inputs": {{"index": "@variables('loopIndex')"}}}}}}}}"#,
        max = iterations + 1
    ))
}

/// A loop with one effect per iteration.
pub(crate) fn effect_loop(iterations: u64, action: &str) -> Plan {
    compile(&format!(
        r#"{{"type": "until", "name": "work", "condition": "@greaterOrEquals(variables('loopIndex'), {iterations})",
            "limit": {{"count": {max}, "timeout": "P6D"}}, "actions": {{"effect": {action}}}}}"#,
        max = iterations + 1
    ))
}

pub(crate) const NOOP: &str =
    r#"{"type": "activity", "inputs": {"activityName": "noop", "input": "@variables('loopIndex')"}}"#;

pub(crate) fn http(uri: &str) -> String {
    format!(r#"{{"type": "http", "inputs": {{"uri": "{uri}"}}}}"#)
}

/// Five sequential effects.
pub(crate) fn five_steps() -> Plan {
    let step = |number: u32| {
        let after =
            if number > 1 { format!(r#""runAfter": {{"s{}": ["Succeeded"]}},"#, number - 1) } else { String::new() };
        format!(
            r#""s{number}": {{"type": "activity", {after} "inputs": {{"activityName": "noop", "input": {number}}}}}"#
        )
    };
    let steps: Vec<String> = (1..=5).map(step).collect();
    compile(&format!(r#"{{"name": "five", "triggers": {{}}, "actions": {{{}}}}}"#, steps.join(",")))
}

/// A compose for each of many items, with a concurrency of one hundred.
pub(crate) fn items(count: u64) -> Plan {
    compile(&format!(
        r#"{{"type": "foreach", "name": "all", "foreach": "@range(0, {count})",
            "runtimeConfiguration": {{"concurrency": {{"repetitions": 100}}}},
            "actions": {{"double": {{"type": "compose", "inputs": "@mul(item(), 2)"}}}}}}"#
    ))
}

/// One condition, evaluated for each of many items in the run's own scope. It never holds, so that no item is kept.
/// Large values come with the run's input: `{variable, other, body}`.
pub(crate) fn condition(times: u64) -> Plan {
    let mut plan = compile(
        r#"{"name": "condition", "triggers": {}, "actions": {
            "i": {"type": "initializeVariable", "inputs": {"variables": [{"name": "i", "type": "integer", "value": 20}]}},
            "large": {"type": "initializeVariable", "runAfter": {"i": ["Succeeded"]},
                "inputs": {"variables": [{"name": "large", "type": "object", "value": "@triggerBody()['variable']"}]}},
            "other": {"type": "compose", "runAfter": {"large": ["Succeeded"]},
                "inputs": {"body": "@triggerBody()['other']"}},
            "x": {"type": "compose", "runAfter": {"other": ["Succeeded"]}, "inputs": {"body": "@triggerBody()['body']"}},
            "measured": {"type": "compose", "runAfter": {"x": ["Succeeded"]}, "inputs": "@add(variables('i'), 77)"}}}"#,
    );
    let measured = plan.expressions.iter_mut().find(|one| one.source.as_str() == Some("@add(variables('i'), 77)"));
    let measured = measured.expect("the expression that is replaced");
    measured.language = "wdl.query".into();
    measured.source =
        Value::object([("from", Value::from(format!("@range(0, {times})"))), ("where", CONDITION.into())]);
    plan
}

pub(crate) const CONDITION: &str = "@and(greater(variables('i'), 10), equals(body('x')?['a']['b'], 'c'))";

/// Waits for a day.
pub(crate) fn waiting() -> Plan {
    compile(r#"{"type": "wait", "name": "sleep", "inputs": {"interval": {"count": 24, "unit": "hour"}}}"#)
}

/// The same under another name.
pub(crate) fn waiting_named(name: &str) -> Plan {
    Plan { name: name.into(), ..waiting() }
}

/// Calls another definition many times concurrently.
pub(crate) fn caller(name: &str, called: &str, times: u64) -> Plan {
    let plan = compile(&format!(
        r#"{{"type": "foreach", "name": "each", "foreach": "@range(0, {times})",
            "runtimeConfiguration": {{"concurrency": {{"repetitions": {times}}}}},
            "actions": {{"call": {{"type": "workflow", "inputs": {{"name": "{called}", "body": {{}}}}}}}}}}"#
    ));
    Plan { name: name.into(), ..plan }
}

fn compile(text: &str) -> Plan {
    let source = SourceText::new("bench.json", text);
    let options = windlass_loom::LoomOptions {
        limits: limits(),
        name: Some("bench".to_owned()),
        tools: vec!["http".to_owned(), "noop".to_owned()],
        ..Default::default()
    };
    match windlass_loom::compile(&source, &options) {
        Ok(compiled) => compiled.plan,
        Err(diagnostics) => panic!("{}", diagnostics.render(&source, windlass_syntax::Colour::Never)),
    }
}
