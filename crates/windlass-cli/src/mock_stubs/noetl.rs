//! Stubs for the calls of NoETL playbooks.

use std::collections::BTreeMap;

use windlass_value::{Map, Value};

use super::Stub;
use super::reads::{ReadPlace, each_text, name_reads};
use super::shape::{ReadShape, ShapeKey};

/// Tools that call nothing outside of the run, or another definition whose own calls are mocked.
const LOCAL_KINDS: [&str; 6] = ["noop", "approval", "artifact", "playbook", "workbook", ""];

/// A task of a step.
struct FoundTask<'a> {
    step: String,
    label: Option<String>,
    kind: String,
    value: &'a Value,
    /// The task before it in its step.
    previous: Option<usize>,
    /// Its step is a loop.
    is_in_loop: bool,
}

/// The parts of a loop step that templates read.
const LOOP_FACTS: [&str; 2] = ["results", "stats"];

/// Reducers of shared variables that take numbers.
const NUMBER_REDUCERS: [&str; 4] = ["sum", "min", "max", "increment"];

pub(super) fn stubs(tree: &Value) -> Vec<Stub> {
    let steps = tree.get("workflow").and_then(Value::as_list).unwrap_or_default();
    let mut tasks = Vec::new();
    steps.iter().for_each(|step| collect(step, &mut tasks));
    let mut shapes: Vec<ReadShape> = tasks.iter().map(|_| ReadShape::default()).collect();
    let items = loop_items(steps, &tasks, &mut shapes);
    for (index, task) in tasks.iter().enumerate() {
        let mut reads = Vec::new();
        each_text(task.value, &mut |text| reads.extend(name_reads(text)));
        for read in reads {
            let place =
                own_place(&read, index, task).or_else(|| step_place(&read, &tasks)).or_else(|| items.place(&read));
            add(place, &read, &mut shapes);
        }
        each_number(task.value, &mut |text| {
            for read in name_reads(text) {
                if let Some((index, path)) = own_place(&read, index, task).or_else(|| step_place(&read, &tasks)) {
                    shapes[index].at(&path).set_sample(Value::Int(1));
                }
            }
        });
        add_collected(task.value, &mut shapes[index]);
    }
    for step in steps {
        for key in ["next", "loop", "sink", "set", "args"] {
            let part = step.get(key).cloned().unwrap_or_default();
            let mut reads = Vec::new();
            each_text(&part, &mut |text| reads.extend(name_reads(text)));
            reads.iter().for_each(|read| add(step_place(read, &tasks), read, &mut shapes));
        }
    }
    let calls = tasks.iter().zip(&shapes).filter(|(task, _)| !LOCAL_KINDS.contains(&&*task.kind));
    calls.map(|(task, shape)| stub(task, shape, &tasks)).collect()
}

fn collect<'a>(step: &'a Value, found: &mut Vec<FoundTask<'a>>) {
    let Some(name) = step.get("step").and_then(Value::as_str).map(str::to_owned) else { return };
    let mut push = |label: Option<String>, kind: &str, value: &'a Value, previous: bool| {
        let previous = found.len().checked_sub(1).filter(|_| previous);
        let is_in_loop = step.get("loop").is_some();
        found.push(FoundTask { step: name.clone(), label, kind: kind.to_owned(), value, previous, is_in_loop });
    };
    let kind = |tool: &'a Value| tool.get("kind").and_then(Value::as_str).unwrap_or_default();
    match step.get("tool") {
        // The retry form: the fields of the tool are those of the step. Its sinks come first, because the step's name
        // matches them too.
        Some(Value::Str(kind)) => {
            let policies = step.get("retry").and_then(Value::as_list).unwrap_or_default();
            let of_policies = policies.iter().filter_map(|policy| policy.get("then")?.get("sink"));
            let sink = step.get("sink").into_iter().chain(of_policies).next();
            if let Some((sink, kind)) = sink.and_then(|sink| Some((sink, sink.get("tool")?.as_str()?))) {
                push(Some("sink".to_owned()), kind, sink, false);
            }
            push(None, kind, step, false);
        }
        Some(tool @ Value::Map(_)) if tool.get("kind").is_some() => push(None, kind(tool), tool, false),
        Some(Value::List(tasks)) => {
            for (index, task) in tasks.iter().enumerate() {
                match task.get("kind").is_some() {
                    true => push(None, kind(task), task, index > 0),
                    false => task.as_map().into_iter().flat_map(Map::iter).for_each(|(label, tool)| {
                        push(Some(label.to_string()), kind(tool), tool, index > 0);
                    }),
                }
            }
        }
        _ => {}
    }
}

/// The items of loops, by the name of the iterator.
struct LoopSources(BTreeMap<String, (usize, Vec<ShapeKey>)>);

impl LoopSources {
    fn place(&self, read: &ReadPlace) -> Option<(usize, Vec<ShapeKey>)> {
        let (name, rest) = match (read.head.as_str(), read.path.first()) {
            ("iter", Some(ShapeKey::Field(name))) => (name.as_str(), &read.path[1..]),
            (name, _) => (name, read.path.as_slice()),
        };
        let (task, path) = self.0.get(name)?;
        Some((*task, path.iter().chain(rest).cloned().collect()))
    }
}

/// Finds loops over results of calls.
fn loop_items(steps: &[Value], tasks: &[FoundTask<'_>], shapes: &mut [ReadShape]) -> LoopSources {
    let mut items = BTreeMap::new();
    for looping in steps.iter().filter_map(|step| step.get("loop")) {
        let text = |names: [&str; 2]| names.iter().find_map(|name| looping.get(name)?.as_str());
        let (Some(source), Some(name)) = (text(["in", "collection"]), text(["iterator", "element"])) else { continue };
        for read in name_reads(source) {
            let Some((task, mut path)) = step_place(&read, tasks) else { continue };
            path.push(ShapeKey::Element);
            shapes[task].at(&path);
            items.insert(name.to_owned(), (task, path));
        }
    }
    LoopSources(items)
}

/// Returns the place that a name means inside of a task: its own result, or that of the task before.
fn own_place(read: &ReadPlace, index: usize, task: &FoundTask<'_>) -> Option<(usize, Vec<ShapeKey>)> {
    let strip = |parts: &[&str]| {
        let matches = parts.iter().zip(&read.path).all(|(part, key)| *key == ShapeKey::Field((*part).to_owned()));
        (matches && read.path.len() >= parts.len()).then(|| read.path[parts.len()..].to_vec())
    };
    match read.head.as_str() {
        "outcome" => strip(&["result"]).map(|path| (index, path)),
        "output" => Some((index, read.path.clone())),
        "response" => {
            let body = std::iter::once(ShapeKey::Field("data".to_owned()));
            Some((index, body.chain(read.path.iter().cloned()).collect()))
        }
        "_prev" => task.previous.map(|previous| (previous, read.path.clone())),
        _ => None,
    }
}

/// Calls this for every text that a reducer of numbers gets.
fn each_number(value: &Value, visit: &mut dyn FnMut(&str)) {
    match value {
        Value::List(items) => items.iter().for_each(|item| each_number(item, visit)),
        Value::Map(map) => map.iter().for_each(|(key, inner)| match inner {
            Value::Str(text) if NUMBER_REDUCERS.contains(&&**key) => visit(text),
            inner => each_number(inner, visit),
        }),
        _ => {}
    }
}

/// Returns the place that the name of a step or the label of a task means. The facts of a loop are no results of its
/// tasks.
fn step_place(read: &ReadPlace, tasks: &[FoundTask<'_>]) -> Option<(usize, Vec<ShapeKey>)> {
    let is_label = |task: &&FoundTask<'_>| task.label.as_ref() == Some(&read.head);
    let by_label = tasks.iter().position(|task| is_label(&task));
    // A step's result is that of its last task.
    let index = by_label.or_else(|| tasks.iter().rposition(|task| task.step == read.head))?;
    let is_fact = matches!(read.path.first(), Some(ShapeKey::Field(name)) if LOOP_FACTS.contains(&name.as_str()));
    if by_label.is_none() && tasks[index].is_in_loop && is_fact {
        return None;
    }
    Some((index, read.path.clone()))
}

fn add(place: Option<(usize, Vec<ShapeKey>)>, read: &ReadPlace, shapes: &mut [ReadShape]) {
    let Some((index, path)) = place.filter(|(_, path)| !path.is_empty()) else { return };
    let part = shapes[index].at(&path);
    if let Some(value) = &read.compared {
        part.set_sample(value.clone());
    }
}

/// Adds the lists that the policies of the retry form collect.
fn add_collected(step: &Value, shape: &mut ReadShape) {
    for policy in step.get("retry").and_then(Value::as_list).unwrap_or_default() {
        let path = policy.get("then").and_then(|then| then.get("collect")).and_then(|collect| collect.get("path"));
        let Some(path) = path.and_then(Value::as_str) else { continue };
        let fields = ["data"].into_iter().chain(path.split('.')).map(|name| ShapeKey::Field(name.to_owned()));
        shape.at(&fields.chain([ShapeKey::Element]).collect::<Vec<_>>());
    }
}

fn stub(task: &FoundTask<'_>, shape: &ReadShape, tasks: &[FoundTask<'_>]) -> Stub {
    let empty = || Value::map(Map::new());
    let answer = match task.kind.as_str() {
        "http" => {
            let body = shape.get("data").filter(|body| !body.is_empty());
            ("body", body.map_or_else(empty, |body| body.sample("data")))
        }
        _ if shape.is_empty() => ("output", empty()),
        _ => ("output", shape.sample("result")),
    };
    let is_alone = tasks.iter().filter(|other| other.step == task.step).count() == 1;
    let step = match &task.label {
        Some(label) if !is_alone => format!("{}.{label}", task.step),
        _ => task.step.clone(),
    };
    let text = |name: &str| task.value.get(name).and_then(Value::as_str);
    let what = text("url").or_else(|| text("endpoint")).or_else(|| text("command")).or_else(|| text("statement"));
    let comment = format!("{} {}", task.kind, what.unwrap_or_default().lines().next().unwrap_or_default());
    Stub { comment: comment.trim_end().to_owned(), step, answer }
}
