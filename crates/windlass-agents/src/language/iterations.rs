//! The results of a loop iteration, for later iterations, for the judge and for the steps after the loop.

use std::sync::Arc;

use windlass_value::{EvalError, Map, Value};

use super::CompiledFunction;
use super::config::Config;
use super::prompt::Sections;
use super::reader::{EndedStep, ScopeReader};

/// The separator between iterations in a text of all of them.
pub(super) const ITERATION_SEPARATOR: &str = "\n\n---\n\n";

/// The output of an iteration: `{content, result, status, stop?}`, and `steps` if the body has steps.
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
    let step = EndedStep {
        status,
        content: reader.text(&given, "content")?,
        result: reader.part(&given, "result")?,
        stop: reader.part(&given, "stop")?,
        usage: Value::Null,
    };
    Ok(step_value(&step))
}

/// Content and result are those of the last completed step in document order.
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
    let stop = last.stop_entry();
    let entries = [
        ("content", Value::Str(last.content)),
        ("result", last.result),
        ("status", Value::from(status)),
        ("steps", Value::map(steps)),
    ];
    Ok(Value::object(entries.into_iter().chain(stop)))
}

fn step_value(ended: &EndedStep) -> Value {
    let entries = [
        ("content", Value::Str(ended.content.clone())),
        ("result", ended.result.clone()),
        ("status", Value::from(ended.status)),
    ];
    Value::object(entries.into_iter().chain(ended.stop_entry()))
}

/// The history entry of an iteration, for the judge and for a text of all iterations.
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

/// The verdict of a judge: its result; an empty object if there is none; the error if it failed.
pub(super) fn judge_verdict(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        // A failed judge has no vote, whatever it submitted before.
        if reader.has_failed() {
            return Ok(Value::object([("error", reader.task_error()?)]));
        }
        let given = reader.task_result()?;
        let result = reader.part(&given, "result")?;
        Ok(if result.is_null() { Value::map(Map::new()) } else { result })
    }))
}

/// Returns whether the model can never be called; then retrying is useless.
pub(super) fn model_unavailable(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let error = reader.task_error()?;
        let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        Ok(Value::Bool(reader.has_failed() && (word("kind") == "input" || word("code") == "MockUnmatched")))
    }))
}

/// The feedback of the judge, for the next iteration.
pub(super) fn feedback(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let (iteration, text) = judge_feedback(reader)?;
        Ok(Value::object([("iteration", iteration), ("text", Value::from(text))]))
    }))
}

/// The feedback of the judge, as a history entry.
pub(super) fn feedback_entry(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let (iteration, text) = judge_feedback(reader)?;
        Ok(Value::object([("feedback", iteration), ("text", Value::from(text))]))
    }))
}

/// Returns the judge's text and reason, or its whole result if it gives no reason.
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

/// Formats the whole history of a loop.
pub(super) fn history_text(reader: &mut ScopeReader<'_>, entries: &Value) -> Result<String, EvalError> {
    newest_history(reader, entries, usize::MAX)
}

/// Formats the newest history entries that fit into `room`. The cost depends on the returned text, not on the number
/// of iterations.
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

/// The entry that a loop over items keeps of an iteration.
pub(super) fn iteration_entry(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let name = config.text("name")?;
    Ok(Box::new(move |reader| {
        let iteration = reader.iteration(None);
        let (index, item) = iteration
            .as_ref()
            .map_or((0, Value::Null), |iteration| (iteration.iteration_index, iteration.item.clone()));
        let good = reader.local("status")?.as_str() == Some("success");
        let output = reader.local("output")?;
        let stop = reader.part(&output, "stop")?;
        let entries = [
            ("id", Value::from(format!("{name}[{index}]"))),
            ("index", Value::from(index)),
            ("item", item),
            ("content", Value::Str(reader.text(&output, "content")?)),
            ("status", Value::from(if good { "completed" } else { "failed" })),
        ];
        Ok(Value::object(entries.into_iter().chain((!stop.is_null()).then_some(("stop", stop)))))
    }))
}
