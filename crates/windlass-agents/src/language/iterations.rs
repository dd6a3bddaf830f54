//! What a turn of a loop leaves behind, for the turns after it, for the judge and for whoever waits for the loop.

use std::sync::Arc;

use windlass_value::{EvalError, Map, Value};

use super::CompiledFunction;
use super::config::Config;
use super::prompt::Sections;
use super::reader::{EndedStep, ScopeReader};

/// Between iterations of a text that has all of them.
pub(super) const ITERATION_SEPARATOR: &str = "\n\n---\n\n";

/// What a turn gives: `{content, result, status}`, of a body with steps also `steps`.
pub(super) fn iteration_output(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let steps = config.texts("steps")?;
    Ok(Box::new(move |reader| match steps.is_empty() {
        true => single_step_output(reader),
        false => steps_output(reader, &steps),
    }))
}

fn single_step_output(reader: &mut ScopeReader<'_>) -> Result<Value, EvalError> {
    let status = if reader.has_failed() { "failed" } else { "completed" };
    let given = reader.task_result()?;
    Ok(Value::object([
        ("content", Value::Str(reader.text(&given, "content")?)),
        ("result", reader.part(&given, "result")?),
        ("status", Value::from(status)),
    ]))
}

/// Content and result are those of the last step, as they are written down, that has completed.
fn steps_output(reader: &mut ScopeReader<'_>, ids: &[Arc<str>]) -> Result<Value, EvalError> {
    let status = if reader.has_failed() { "failed" } else { "completed" };
    let mut steps = Map::with_capacity(ids.len());
    let mut last = EndedStep::default();
    for id in ids {
        let Some(ended) = reader.step(0, id)? else { continue };
        steps.insert(id.clone(), step_value(&ended));
        if ended.is_completed() {
            last = ended;
        }
    }
    Ok(Value::object([
        ("content", Value::Str(last.content)),
        ("result", last.result),
        ("status", Value::from(status)),
        ("steps", Value::map(steps)),
    ]))
}

fn step_value(ended: &EndedStep) -> Value {
    Value::object([
        ("content", Value::Str(ended.content.clone())),
        ("result", ended.result.clone()),
        ("status", Value::from(ended.status)),
    ])
}

/// What is remembered of a turn for the judge, and for a text of all turns.
pub(super) fn history_entry(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let steps = config.texts("steps")?;
    Ok(Box::new(move |reader| {
        let index = reader.iteration(None).map_or(0, |iteration| iteration.iteration_index);
        let mut entry = vec![("iteration", Value::from(index + 1))];
        match steps.is_empty() {
            true => {
                let given = reader.task_result()?;
                entry.push(("content", Value::Str(reader.text(&given, "content")?)));
            }
            false => {
                let mut parts = Vec::new();
                for id in &steps {
                    let Some(ended) = reader.step(0, id)?.filter(EndedStep::is_completed) else { continue };
                    parts.push(Value::object([("id", Value::Str(id.clone())), ("content", Value::Str(ended.content))]));
                }
                entry.push(("steps", Value::list(parts)));
            }
        }
        Ok(Value::object(entry))
    }))
}

/// What the loop asks its judge for: the result; nothing if there is none, but why.
pub(super) fn judge_verdict(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        // A judge that has failed has no say, whatever it submitted before.
        if reader.has_failed() {
            return Ok(Value::object([("error", reader.task_error()?)]));
        }
        let given = reader.task_result()?;
        let result = reader.part(&given, "result")?;
        Ok(if result.is_null() { Value::map(Map::new()) } else { result })
    }))
}

/// Whether a model cannot be asked at all, now or ever: then trying on is of no use.
pub(super) fn model_unavailable(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let error = reader.task_error()?;
        let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        Ok(Value::Bool(reader.has_failed() && (word("kind") == "input" || word("code") == "ScriptUnmatched")))
    }))
}

/// What the judge has said, for the next turn.
pub(super) fn feedback(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let (iteration, text) = judge_feedback(reader)?;
        Ok(Value::object([("iteration", iteration), ("text", Value::from(text))]))
    }))
}

/// The same, to be remembered among the turns.
pub(super) fn feedback_entry(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let (iteration, text) = judge_feedback(reader)?;
        Ok(Value::object([("feedback", iteration), ("text", Value::from(text))]))
    }))
}

/// The judge's text and its reason, or its whole result if it gives none.
fn judge_feedback(reader: &mut ScopeReader<'_>) -> Result<(Value, String), EvalError> {
    let index = reader.iteration(None).map_or(0, |iteration| iteration.iteration_index);
    let given = reader.task_result()?;
    let mut text = Sections::default();
    let content = reader.text(&given, "content")?;
    if !content.trim().is_empty() {
        text.plain(content.trim());
    }
    let result = reader.part(&given, "result")?;
    let reason = reader.text(&result, "reason")?;
    if !reason.trim().is_empty() {
        if reason.trim() != content.trim() {
            text.plain(reason.trim());
        }
    } else if result.as_map().is_some_and(|result| result.keys().any(|key| &**key != "done")) {
        let result = reader.json(&result)?;
        text.plain(&result);
    }
    Ok((Value::from(index + 1), text.0))
}

/// All that is remembered of a loop's turns, as a text.
pub(super) fn history_text(reader: &mut ScopeReader<'_>, entries: &Value) -> Result<String, EvalError> {
    newest_history(reader, entries, usize::MAX)
}

/// The newest of what is remembered, as far as there is room. Costs no more than what is told, however many turns there were.
pub(super) fn newest_history(reader: &mut ScopeReader<'_>, entries: &Value, room: usize) -> Result<String, EvalError> {
    let entries = reader.load(entries)?;
    let entries = entries.as_list().unwrap_or_default();
    let mut parts: Vec<String> = Vec::new();
    let mut bytes = 0;
    for entry in entries.iter().rev() {
        if bytes > room {
            break;
        }
        let entry = reader.load(entry)?;
        let text = match entry.get("feedback").and_then(Value::as_int) {
            Some(iteration) => {
                let feedback = reader.text(&entry, "text")?;
                if feedback.is_empty() {
                    continue;
                }
                format!("## Judge Feedback (Iteration {iteration})\n\n{}", feedback.trim_end())
            }
            None => iteration_text(reader, &entry)?,
        };
        reader.pay(text.len())?;
        let after = parts
            .last()
            .map_or("", |next| if next.starts_with("## Iteration ") { ITERATION_SEPARATOR } else { "\n\n" });
        bytes += text.len() + after.len();
        parts.push(after.to_owned());
        parts.push(text);
    }
    parts.reverse();
    Ok(parts.concat())
}

fn iteration_text(reader: &mut ScopeReader<'_>, entry: &Value) -> Result<String, EvalError> {
    let iteration = entry.get("iteration").and_then(Value::as_int).unwrap_or(1);
    let mut inside = Sections::default();
    match entry.get("steps") {
        None => inside.plain(reader.text(entry, "content")?.trim_end()),
        Some(steps) => {
            for step in reader.list(steps)? {
                let (id, content) = (reader.text(&step, "id")?, reader.text(&step, "content")?);
                inside.part(&id, content.trim_end());
            }
        }
    }
    Ok(format!("## Iteration {iteration}\n\n{}", inside.0))
}

/// What a loop over items keeps of a turn.
pub(super) fn iteration_entry(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let name = config.text("name")?;
    Ok(Box::new(move |reader| {
        let iteration = reader.iteration(None);
        let (index, item) = iteration
            .as_ref()
            .map_or((0, Value::Null), |iteration| (iteration.iteration_index, iteration.item.clone()));
        let good = reader.local("status")?.as_str() == Some("success");
        let output = reader.local("output")?;
        Ok(Value::object([
            ("id", Value::from(format!("{name}[{index}]"))),
            ("index", Value::from(index)),
            ("item", item),
            ("content", Value::Str(reader.text(&output, "content")?)),
            ("status", Value::from(if good { "completed" } else { "failed" })),
        ]))
    }))
}
