//! Stubs for the models of agent workflows.

use std::collections::BTreeMap;

use windlass_value::{Map, Value};

use super::Stub;
use super::reads::{each_text, name_reads};
use super::shape::{ReadShape, ShapeKey};

/// The parts of a step that conditions and later steps read.
#[derive(Default)]
struct StepReads {
    result: ReadShape,
    /// A text that a condition searches the reply for.
    contains: Option<String>,
}

pub(super) fn stubs(tree: &Value) -> Vec<Stub> {
    let mut reads: BTreeMap<String, StepReads> = BTreeMap::new();
    each_text(tree, &mut |text| collect_reads(text, &mut reads));
    let steps = tree.get("steps").and_then(Value::as_list).unwrap_or_default();
    let mut stubs = Vec::new();
    steps.iter().for_each(|step| add_step(step, "", tree, &reads, &mut stubs));
    stubs
}

fn collect_reads(text: &str, reads: &mut BTreeMap<String, StepReads>) {
    for read in name_reads(text).into_iter().filter(|read| read.head == "steps") {
        let [ShapeKey::Field(step), ShapeKey::Field(part), rest @ ..] = read.path.as_slice() else { continue };
        let known = reads.entry(step.clone()).or_default();
        match part.as_str() {
            "result" => {
                let place = known.result.at(rest);
                if let Some(value) = read.compared {
                    place.set_sample(value);
                }
            }
            "content" => known.contains = known.contains.take().or(read.contains),
            _ => {}
        }
    }
}

fn add_step(step: &Value, around: &str, tree: &Value, reads: &BTreeMap<String, StepReads>, stubs: &mut Vec<Stub>) {
    let Some(id) = step.get("id").and_then(Value::as_str) else { return };
    let path = if around.is_empty() { id.to_owned() } else { format!("{around}.{id}") };
    let looping = step.get("loop");
    let inner = looping.and_then(|looping| looping.get("steps")).and_then(Value::as_list).unwrap_or_default();
    inner.iter().for_each(|step| add_step(step, &path, tree, reads, stubs));
    let judge = looping.and_then(|looping| looping.get("untilAgent"));
    if inner.is_empty() && step.get("include").is_none() {
        let own = looping.and_then(|looping| looping.get("until")).and_then(Value::as_str);
        let own = own.and_then(searched_in_reply);
        stubs.push(agent_stub(step, id, &path, tree, (reads.get(id), own)));
    }
    if judge.is_some() {
        let verdict = [("done", Value::Bool(true)), ("reason", "It is good.".into())];
        let calls = submit(Value::object(verdict));
        let comment = "the judge, after every iteration; done: true ends the loop".to_owned();
        stubs.push(Stub { comment, step: format!("{path}.judge"), answer: ("calls", calls) });
    }
}

/// Returns the text that the condition of a step's own loop searches its reply for.
fn searched_in_reply(condition: &str) -> Option<String> {
    name_reads(condition).into_iter().find(|read| read.head == "content")?.contains
}

fn agent_stub(
    step: &Value,
    id: &str,
    path: &str,
    tree: &Value,
    (reads, searched): (Option<&StepReads>, Option<String>),
) -> Stub {
    let agent = step.get("agent").and_then(Value::as_str);
    let described = agent.and_then(|agent| tree.get("agents")?.get(agent));
    let schema = step.get("resultSchema").or_else(|| described.and_then(|agent| agent.get("resultSchema")));
    let mut shape = reads.map(|reads| reads.result.clone()).unwrap_or_default();
    if let Some(schema) = schema {
        shape.add_schema(schema, 0);
    }
    let searched = searched.or_else(|| reads.and_then(|reads| reads.contains.clone()));
    let answer = match (schema, searched) {
        (Some(_), _) if shape.is_empty() => ("calls", submit(Value::map(Map::new()))),
        (Some(_), _) => ("calls", submit(shape.sample("result"))),
        (None, Some(text)) => ("text", text.into()),
        (None, None) => ("text", Value::from(format!("The reply of {id}."))),
    };
    let instructions = step.get("instructions").and_then(Value::as_str).unwrap_or_default();
    let first: String = instructions.lines().next().unwrap_or_default().chars().take(80).collect();
    let comment = format!("{}: {first}", agent.unwrap_or("agent"));
    Stub { comment, step: path.to_owned(), answer }
}

/// The calls by which an agent submits its result.
fn submit(arguments: Value) -> Value {
    let call = Value::object([("name", Value::from("submit_result")), ("arguments", arguments)]);
    Value::list(vec![call])
}
