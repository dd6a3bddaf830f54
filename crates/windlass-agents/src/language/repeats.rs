//! Agents that make the same calls with the same results turn after turn.

use windlass_value::{EvalError, Value};

use super::CompiledFunction;
use super::config::Config;
use super::reader::ScopeReader;
use super::reply::is_call;

/// Returns the number of turns in a row with the same calls and answers, including the one that has just ended.
pub(super) fn repeat_count(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| repeats(reader).map(Value::Int)))
}

/// Returns whether the agent is stalled: it has made the same calls with the same results for `turns` turns. Calls of
/// the tool `except` have their own limit.
pub(super) fn is_stalled(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let turns = config.count("turns")?.ok_or("missing `turns`")? as i64;
    let except = config.optional_text("except")?;
    Ok(Box::new(move |reader| {
        let calls = reader.own_variable("calls")?;
        let is_excepted = |call: &Value| except.as_ref().is_some_and(|tool| is_call(call, tool));
        let counts = !reader.has_failed() && !reader.list(&calls)?.iter().any(is_excepted);
        Ok(Value::Bool(counts && repeats(reader)? >= turns))
    }))
}

/// Builds the error of a stalled agent.
pub(super) fn stalled_error(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let turns = config.count("turns")?.ok_or("missing `turns`")?;
    Ok(Box::new(move |reader| {
        let calls = reader.own_variable("calls")?;
        let calls = reader.list(&calls)?;
        let mut tools: Vec<&str> =
            calls.iter().filter_map(|call| call.get("name").and_then(Value::as_str)).take(MAX_NAMES).collect();
        tools.dedup();
        let tools = tools.iter().map(|tool| format!("`{tool}`")).collect::<Vec<_>>().join(", ");
        let message =
            format!("the agent called {tools} in {turns} turns in a row, with the same arguments and the same result");
        Ok(Value::object([("code", Value::from("AgentStalled")), ("message", Value::from(message))]))
    }))
}

/// The maximum number of tools named in an error.
const MAX_NAMES: usize = 5;

fn repeats(reader: &mut ScopeReader<'_>) -> Result<i64, EvalError> {
    let before = reader.own_variable("repeats")?.as_int().unwrap_or(0);
    Ok(if repeats_previous_turn(reader)? { before.saturating_add(1) } else { 1 })
}

/// Compares the calls and answers of this turn with those of the turn before. Mail in between changes nothing; a reply
/// without calls does.
fn repeats_previous_turn(reader: &mut ScopeReader<'_>) -> Result<bool, EvalError> {
    let conversation = reader.own_variable("conversation")?;
    let messages = conversation.as_list().unwrap_or_default();
    reader.spend(1)?;
    let mut earlier = messages.iter().rev();
    let Some(current) = earlier.next() else { return Ok(false) };
    let mut before = earlier.skip_while(|message| has_role(message, "user"));
    let (Some(answers), Some(calls)) = (before.next(), before.next()) else { return Ok(false) };
    let (answers, calls, current) = (reader.load(answers)?, reader.load(calls)?, reader.load(current)?);
    if !has_role(&answers, "tool") || !has_role(&calls, "assistant") {
        return Ok(false);
    }
    let now = reader.task_result()?;
    let before = reader.part(&answers, "results")?;
    let (calls, current) = (reader.part(&calls, "calls")?, reader.part(&current, "calls")?);
    let (call, answer) = (["name", "arguments"], ["content", "error"]);
    Ok(parts(reader, &calls, &call)? == parts(reader, &current, &call)?
        && parts(reader, &before, &answer)? == parts(reader, &now, &answer)?)
}

/// Returns these properties of all items of a list.
fn parts(reader: &mut ScopeReader<'_>, list: &Value, keys: &[&str]) -> Result<Vec<Value>, EvalError> {
    let mut found = Vec::new();
    for item in reader.list(list)? {
        for key in keys {
            found.push(item.get(key).cloned().unwrap_or_default());
        }
    }
    Ok(found)
}

fn has_role(message: &Value, role: &str) -> bool {
    message.get("role").and_then(Value::as_str) == Some(role)
}
