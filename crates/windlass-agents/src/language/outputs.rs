//! The outputs of steps, loops, includes and runs.

use std::sync::Arc;

use windlass_value::{EvalError, Map, Value};

use super::CompiledFunction;
use super::config::Config;
use super::iterations::{ITERATION_SEPARATOR, history_text};
use super::reader::{EndedStep, ScopeReader};

/// The separator between the texts of an agent's turns.
const PARAGRAPH: &str = "\n\n";

/// The output of an agent: `{content, result, stop?}`.
pub(super) fn agent_output(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        if reader.own_variable("cancelled")?.as_bool() == Some(true) {
            return Ok(output(Value::from("cancelled"), Value::Null, &Value::Null));
        }
        let stop = reader.own_variable("stop")?;
        Ok(output(Value::from(agent_text(reader)?), reader.own_variable("result")?, &stop))
    }))
}

/// Builds an output. `stop` is part of it only if the agent's last reply was no complete answer.
fn output(content: Value, result: Value, stop: &Value) -> Value {
    let stop = (!stop.is_null()).then(|| ("stop", stop.clone()));
    Value::object([("content", content), ("result", result)].into_iter().chain(stop))
}

/// Returns the texts of all turns of the agent.
fn agent_text(reader: &mut ScopeReader<'_>) -> Result<String, EvalError> {
    let conversation = reader.own_variable("conversation")?;
    let (mut text, mut is_cut) = (String::new(), false);
    for message in reader.list(&conversation)? {
        if message.get("role").and_then(Value::as_str) != Some("assistant") {
            continue;
        }
        let content = reader.text(&message, "content")?;
        if content.is_empty() {
            continue;
        }
        reader.pay(content.len())?;
        if !text.is_empty() && !is_cut {
            text.push_str(PARAGRAPH);
        }
        text.push_str(&content);
        is_cut = message.get("cut").and_then(Value::as_bool) == Some(true);
    }
    Ok(text)
}

/// The output of a loop over items: the content of the last completed iteration, or of all of them. Its `stop` is the
/// last one of a completed iteration: an item without a complete answer is a part of the loop's result.
pub(super) fn for_each_output(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let (name, cumulative) = (config.text("name")?, config.flag("cumulative")?);
    Ok(Box::new(move |reader| {
        let kept = reader.own_output(&name)?;
        let mut iterations = Vec::new();
        let (mut contents, mut stop): (Vec<Arc<str>>, Value) = (Vec::new(), Value::Null);
        let entries = reader.list(&kept)?;
        let items = all_items(reader)?;
        for entry in entries {
            let entry = reader.load(&entry)?;
            let Some(map) = entry.as_map() else { continue };
            let index = map.get("index").and_then(Value::as_int).and_then(|index| usize::try_from(index).ok());
            fill_cancelled(&mut iterations, &name, index.unwrap_or(0), &items);
            if map.get("status").and_then(Value::as_str) == Some("completed") {
                let content = reader.text(&entry, "content")?;
                reader.pay(content.len())?;
                contents.push(content);
                stop = map.get("stop").cloned().unwrap_or(stop);
            }
            iterations.push(entry);
        }
        fill_cancelled(&mut iterations, &name, items.len(), &items);
        reader.spend(iterations.len())?;
        let content = match cumulative {
            true => Value::from(contents.join(ITERATION_SEPARATOR)),
            false => contents.pop().map_or(Value::from(""), Value::Str),
        };
        Ok(output(content, Value::object([("iterations", Value::list(iterations))]), &stop))
    }))
}

/// Returns the items of the loop, including those of iterations that never began.
fn all_items(reader: &mut ScopeReader<'_>) -> Result<Vec<Value>, EvalError> {
    let lists = reader.local("_items")?;
    let mut items = Vec::new();
    for list in reader.list(&lists)? {
        items.extend(reader.list(&list)?);
    }
    Ok(items)
}

/// Adds entries for iterations that never began.
fn fill_cancelled(iterations: &mut Vec<Value>, name: &str, count: usize, items: &[Value]) {
    while iterations.len() < count {
        let index = iterations.len();
        iterations.push(Value::object([
            ("id", Value::from(format!("{name}[{index}]"))),
            ("index", Value::from(index)),
            ("item", items.get(index).cloned().unwrap_or_default()),
            ("content", Value::from("")),
            ("status", Value::from("cancelled")),
        ]));
    }
}

/// The output of a repeat loop: content and result of the last iteration, or the text of all iterations.
pub(super) fn repeat_output(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let (name, cumulative) = (config.text("name")?, config.flag("cumulative")?);
    Ok(Box::new(move |reader| {
        let last = reader.own_output(&name)?;
        let content = match cumulative {
            true => {
                let history = reader.own_variable("history")?;
                Value::from(history_text(reader, &history)?)
            }
            false => Value::Str(reader.text(&last, "content")?),
        };
        let stop = reader.part(&last, "stop")?;
        Ok(output(content, reader.part(&last, "result")?, &stop))
    }))
}

/// The output of an included workflow: content and result of the last completed step, with content and status of all
/// steps under `innerSteps`.
pub(super) fn include_output(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let (name, steps) = (config.text("name")?, config.texts("steps")?);
    Ok(Box::new(move |reader| {
        let mut inner = Map::with_capacity(steps.len());
        let mut last = EndedStep::default();
        for id in &steps {
            let ended = ended_or_cancelled(reader, id)?;
            let inner_step = [("content", Value::Str(ended.content.clone())), ("status", Value::from(ended.status))];
            inner.insert(format!("{name}.{id}"), Value::object(inner_step.into_iter().chain(ended.stop_entry())));
            if ended.is_completed() {
                last = ended;
            }
        }
        let mut result = match &last.result {
            Value::Map(result) => Map::clone(result),
            Value::Null => Map::new(),
            other => Map::from_iter([("value", other.clone())]),
        };
        result.insert("innerSteps", Value::map(inner));
        Ok(output(Value::Str(last.content), Value::map(result), &last.stop))
    }))
}

/// The output of a called definition: as it is, and as text.
pub(super) fn call_output(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let name = config.text("name")?;
    Ok(Box::new(move |reader| {
        let given = reader.own_output(&name)?;
        let content = match reader.load(&given)? {
            Value::Null => Value::from(""),
            Value::Str(text) => Value::Str(text),
            other => Value::from(reader.json(&other)?),
        };
        Ok(output(content, given, &Value::Null))
    }))
}

/// Returns an ended step. A step that never began was cancelled with the rest.
fn ended_or_cancelled(reader: &mut ScopeReader<'_>, id: &str) -> Result<EndedStep, EvalError> {
    Ok(reader.step(0, id)?.unwrap_or(EndedStep { status: "cancelled", ..EndedStep::default() }))
}

/// The output of a run: its status, all steps, the coordinator's summary, and the usage.
pub(super) fn run_output(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let (ids, coordinator) = (config.texts("steps")?, config.optional_text("coordinator")?);
    Ok(Box::new(move |reader| {
        let mut steps = Map::with_capacity(ids.len());
        let mut used = Map::new();
        let (mut completed, mut bad) = (false, false);
        for id in &ids {
            let ended = ended_or_cancelled(reader, id)?;
            completed |= ended.is_completed();
            bad |= matches!(ended.status, "failed" | "cancelled");
            add_up(&mut used, &ended.usage);
            let stop = ended.stop_entry();
            let mut entry = vec![
                ("status", Value::from(ended.status)),
                ("content", Value::Str(ended.content)),
                ("result", ended.result),
            ];
            entry.extend(stop);
            entry.extend((!ended.usage.is_null()).then_some(("usage", ended.usage)));
            steps.insert(id.clone(), Value::object(entry));
        }
        if let Some(name) = &coordinator
            && let Some(ended) = reader.step(0, name)?
        {
            add_up(&mut used, &ended.usage);
        }
        let status = match (completed, bad) {
            (_, false) => "completed",
            (true, true) => "partial",
            (false, true) => "failed",
        };
        let mut given = vec![("status", Value::from(status)), ("steps", Value::map(steps))];
        let summary = reader.run_variable("summary")?;
        given.extend((!summary.is_null()).then_some(("summary", summary)));
        given.push(("usage", Value::map(used)));
        Ok(Value::object(given))
    }))
}

fn add_up(used: &mut Map, more: &Value) {
    for (name, amount) in more.as_map().into_iter().flat_map(Map::iter) {
        let Some(amount) = amount.as_int() else { continue };
        let before = used.get(name).and_then(Value::as_int).unwrap_or(0);
        used.insert(name.clone(), before.saturating_add(amount));
    }
}
