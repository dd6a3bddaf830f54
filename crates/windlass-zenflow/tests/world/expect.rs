//! The expectations of a case:
//!
//! ```yaml
//! status: completed                      # of the run, in workflow terms
//! error: NoResult                        # the code of the run's error
//! steps: {design: completed, review: failed}
//! contents: {design: the plan}
//! output: {…}                            # a part of the run's output
//! report: {error: {path: review}}        # a part of the `--json` report
//! calls: {design: 1, review: 2}          # all model requests, by path
//! tools: [bash, read]                    # tool calls, in any order
//! requests: [{of: design, turn: 1, has: [a text], lacks: [another], is: {model: m}}]
//! events: {coordinator.narration: 1}
//! hidden: [a text]                       # no event and no report has it
//! seconds: 20                            # the duration
//! ```

use std::collections::BTreeMap;

use windlass_value::{Map, Value, to_json};

use super::RunResult;

/// Returns every unmet expectation.
pub(crate) fn check(ran: &RunResult, expect: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, expected) in expect.as_map().into_iter().flat_map(Map::iter) {
        let found = match &**key {
            "status" => compare("status", expected, &output(ran, "status")),
            "error" => compare("error", expected, &error_code(ran)),
            "steps" => parts(ran, expected, "status"),
            "contents" => parts(ran, expected, "content"),
            "report" => contains("report", expected, &Value::map(ran.report.to_value())),
            "output" => contains("output", expected, &ran.report.output),
            "calls" => counts(
                "calls",
                expected,
                ran.calls.iter().filter(|call| call.tool == "agent_model").map(|call| call.step()),
            ),
            "tools" => tools(ran, expected),
            "requests" => {
                expected.as_list().unwrap_or_default().iter().flat_map(|wanted| request(ran, wanted)).collect()
            }
            "events" => events(ran, expected),
            "hidden" => hidden(ran, expected),
            "seconds" => compare("seconds", expected, &Value::from(seconds(ran))),
            other => vec![format!("unknown expectation `{other}`")],
        };
        wrong.extend(found);
    }
    let unmatched = ran
        .event_lines()
        .lines()
        .filter(|line| line.contains("MockUnmatched") && line.starts_with("task.processed"))
        .map(str::to_owned)
        .next();
    wrong.extend(unmatched.filter(|_| expect.get("error").and_then(Value::as_str) != Some("MockUnmatched")));
    wrong
}

fn output(ran: &RunResult, key: &str) -> Value {
    ran.report.output.get(key).cloned().unwrap_or_default()
}

fn error_code(ran: &RunResult) -> Value {
    ran.report.error.as_ref().map_or(Value::Null, |error| Value::Str(error.code.clone()))
}

fn compare(what: &str, expected: &Value, found: &Value) -> Vec<String> {
    match expected == found {
        true => Vec::new(),
        false => vec![format!("{what}: wanted {}, got {}", to_json(expected), to_json(found))],
    }
}

fn parts(ran: &RunResult, expected: &Value, part: &str) -> Vec<String> {
    let steps = output(ran, "steps");
    let one = |(id, expected): (&std::sync::Arc<str>, &Value)| {
        let found = steps.get(id).and_then(|step| step.get(part)).cloned().unwrap_or_default();
        compare(&format!("{part} of {id}"), expected, &found)
    };
    expected.as_map().into_iter().flat_map(Map::iter).flat_map(one).collect()
}

/// Checks that every expected part is there; objects may contain more.
fn contains(what: &str, expected: &Value, found: &Value) -> Vec<String> {
    match (expected, found) {
        (Value::Map(expected), Value::Map(found)) => expected
            .iter()
            .flat_map(|(key, expected)| {
                contains(&format!("{what}.{key}"), expected, found.get(key).unwrap_or(&Value::Null))
            })
            .collect(),
        (Value::List(expected), Value::List(found)) if expected.len() == found.len() => {
            let pairs = expected.iter().zip(found.iter()).enumerate();
            pairs.flat_map(|(at, (wanted, found))| contains(&format!("{what}[{at}]"), wanted, found)).collect()
        }
        _ => compare(what, expected, found),
    }
}

fn counts<'c>(what: &str, expected: &Value, found: impl Iterator<Item = &'c str>) -> Vec<String> {
    let mut counted: BTreeMap<String, i64> = BTreeMap::new();
    found.for_each(|path| *counted.entry(path.to_owned()).or_default() += 1);
    let expected: BTreeMap<String, i64> = expected
        .as_map()
        .into_iter()
        .flat_map(Map::iter)
        .map(|(path, count)| (path.to_string(), count.as_int().unwrap_or(-1)))
        .collect();
    if counted == expected { Vec::new() } else { vec![format!("{what}: wanted {expected:?}, got {counted:?}")] }
}

fn tools(ran: &RunResult, expected: &Value) -> Vec<String> {
    let name = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let tools = ran.calls.iter().filter(|call| call.tool == "agent_tool");
    let mut found: Vec<String> = tools.map(|call| name(call.input.get("tool"))).collect();
    let mut expected: Vec<String> =
        expected.as_list().unwrap_or_default().iter().map(|tool| name(Some(tool))).collect();
    found.sort();
    expected.sort();
    if found == expected { Vec::new() } else { vec![format!("tools: wanted {expected:?}, got {found:?}")] }
}

fn request(ran: &RunResult, expected: &Value) -> Vec<String> {
    let of = expected.get("of").and_then(Value::as_str).unwrap_or_default();
    let turn = expected.get("turn").and_then(Value::as_int).unwrap_or(1);
    let calls = ran.model_requests(of);
    let Some(call) = usize::try_from(turn - 1).ok().and_then(|at| calls.get(at)) else {
        return vec![format!("`{of}` did not ask {turn} times")];
    };
    let text = text_of(call.input.get("messages").unwrap_or(&Value::Null));
    let listed = |key: &str| -> Vec<String> {
        let list = expected.get(key).and_then(Value::as_list).unwrap_or_default();
        list.iter().map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
    };
    let mut wrong = Vec::new();
    let mut rest = text.as_str();
    for part in listed("has") {
        // In this order.
        match rest.find(&part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => {
                wrong.push(format!("turn {turn} of `{of}` lacks {part:?}, in its order:\n{text}"));
                break;
            }
        }
    }
    for part in listed("lacks").into_iter().filter(|part| text.contains(part)) {
        wrong.push(format!("turn {turn} of `{of}` should lack {part:?}:\n{text}"));
    }
    if let Some(is) = expected.get("is") {
        wrong.extend(contains(&format!("turn {turn} of `{of}`"), is, &call.input));
    }
    wrong
}

/// Returns all texts of a conversation.
fn text_of(messages: &Value) -> String {
    match messages {
        Value::Str(text) => format!("{text}\n"),
        Value::List(items) => items.iter().map(text_of).collect(),
        Value::Map(map) => {
            let text = |key: &str| map.get(key).map(text_of).unwrap_or_default();
            format!("{}{}{}", text("content"), text("text"), text("results"))
        }
        _ => String::new(),
    }
}

fn events(ran: &RunResult, expected: &Value) -> Vec<String> {
    let one = |(kind, expected): (&std::sync::Arc<str>, &Value)| {
        let count = ran.events.iter().filter(|event| *event.type_name() == **kind).count();
        compare(&format!("events {kind}"), expected, &Value::from(count))
    };
    expected.as_map().into_iter().flat_map(Map::iter).flat_map(one).collect()
}

fn hidden(ran: &RunResult, expected: &Value) -> Vec<String> {
    let events = ran.events.iter().map(|event| to_json(&Value::map(event.fields())));
    let shown: Vec<String> = events.chain([to_json(&Value::map(ran.report.to_value()))]).collect();
    let texts = expected.as_list().unwrap_or_default().iter().filter_map(Value::as_str);
    let found = texts.filter(|text| shown.iter().any(|shown| shown.contains(text)));
    found.map(|text| format!("{text:?} is shown")).collect()
}

fn seconds(ran: &RunResult) -> u64 {
    match (ran.events.first(), ran.events.last()) {
        (Some(first), Some(last)) => last.at.since(first.at).as_ms() / 1_000,
        _ => 0,
    }
}
