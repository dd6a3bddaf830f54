//! JSON, for programs.

use windlass_core::Status;
use windlass_value::{Map, Value};

use crate::model::{ActivityState, Arrow, ArrowReason, Drawing, DrawingItem, ItemShape, IterationCounts, NodeActivity};

pub(crate) fn value(drawing: &Drawing) -> Value {
    let mut nodes = Vec::new();
    drawing.items.iter().for_each(|item| add_item(item, None, &mut nodes));
    let edges = drawing.arrows.iter().map(edge).collect();
    let mut map = Map::new();
    if let Some(run) = &drawing.activity {
        map.insert("run", passage(run));
        map.insert("notes", Value::list(drawing.notes.iter().map(|note| Value::from(note.as_str())).collect()));
    }
    map.insert("nodes", Value::list(nodes));
    map.insert("edges", Value::list(edges));
    Value::map(map)
}

fn add_item(item: &DrawingItem, parent: Option<&str>, into: &mut Vec<Value>) {
    let mut map = Map::new();
    map.insert("id", item.id.as_str());
    map.insert("name", item.title.as_str());
    map.insert("kind", item.kind.as_str());
    map.insert("parent", Value::from(parent.map(str::to_owned)));
    if !item.detail.is_empty() {
        map.insert("detail", item.detail.as_str());
    }
    if let Some(path) = &item.path {
        map.insert("path", path.as_str());
    }
    if item.is_loop {
        map.insert("loop", true);
    }
    if let ItemShape::Event(role) = item.shape {
        map.insert("event", role.as_str());
    }
    if let Some(run) = &item.activity {
        map.insert("run", passage(run));
    }
    into.push(Value::map(map));
    item.items.iter().for_each(|inner| add_item(inner, Some(&item.id), into));
}

/// Serializes the activity; unknown fields are omitted.
fn passage(run: &NodeActivity) -> Value {
    let mut map = Map::new();
    map.insert("status", run.state.as_str());
    map.insert("runs", run.runs);
    let ended: u64 = run.ends.iter().sum();
    if run.runs > 1 {
        let ends = Status::ALL.iter().zip(run.ends).filter(|(_, times)| *times > 0);
        let mut counts: Map = ends.map(|(status, times)| (status.as_str(), Value::from(times))).collect();
        if run.runs > ended {
            counts.insert("open", run.runs - ended);
        }
        map.insert("counts", Value::map(counts));
    }
    let mut add = |key: &'static str, value: Option<Value>| {
        if let Some(value) = value {
            map.insert(key, value);
        }
    };
    add("started_at", run.started_at.map(|at| at.to_string().into()));
    add("duration_ms", run.took.map(|took| took.as_ms().into()));
    add("attempts", (run.attempts > 0).then(|| run.attempts.into()));
    add("iterations", run.iterations.as_ref().map(iterations));
    add("error", run.error.clone().map(Value::Str));
    add("firing", run.firing.map(Value::from));
    add("worker", run.worker.map(Value::from));
    add("event", run.event.clone().map(Value::Str));
    add("in_progress", (!matches!(run.state, ActivityState::Ended(_))).then_some(Value::Bool(true)));
    Value::map(map)
}

fn iterations(counts: &IterationCounts) -> Value {
    let mut map = Map::new();
    map.insert("ended", counts.ended);
    map.insert("failed", counts.failed);
    map.insert("entries", counts.entries);
    map.insert("max_iterations", Value::from(counts.max));
    map.insert("reason", Value::from(counts.reason.as_ref().map(ToString::to_string)));
    Value::map(map)
}

/// Serializes an arrow. An arrow out of a choice waits for no status, but has a condition.
fn edge(arrow: &Arrow) -> Value {
    let mut map = Map::new();
    map.insert("from", arrow.from.as_str());
    map.insert("to", arrow.to.as_str());
    let accepts = if let ArrowReason::After(accepts) = arrow.reason { accepts } else { Default::default() };
    map.insert("statuses", Value::list(accepts.iter().map(|status| Value::from(status.as_str())).collect()));
    match &arrow.reason {
        ArrowReason::After(_) => {}
        ArrowReason::When if arrow.label.is_empty() => {}
        ArrowReason::When => {
            map.insert("when", arrow.label.as_str());
        }
        ArrowReason::Event if arrow.label.is_empty() => {}
        ArrowReason::Event => {
            map.insert("tokens", arrow.label.as_str());
        }
        ArrowReason::Failure => {
            map.insert("on", "failure");
        }
        ArrowReason::CausedBy { event, times } => {
            map.insert("event", Value::Str(event.clone()));
            map.insert("times", *times);
        }
    }
    Value::map(map)
}
