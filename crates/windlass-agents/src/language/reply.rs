//! Decides what follows from a model's reply.

use std::sync::Arc;

use windlass_value::{EvalError, Value};

use super::CompiledFunction;
use super::caps::cut;
use super::config::Config;
use super::reader::ScopeReader;
use super::stop::{ReplyEnd, may_continue, reply_stop};
use super::tool_calls::{rejected_for, rejection};

/// The next action of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NextAction {
    /// The reply has a valid result and nothing else.
    Submitted,
    /// The agent calls tools.
    Act,
    /// The reply is cut off or empty: the model is asked to continue.
    Continue,
    /// The reply is no answer, and the step accepts that.
    Accept,
    /// The reply is no answer, and the step fails.
    NoAnswer,
    /// The required result is missing: the next request demands it, and the reply's other calls are not executed.
    Force,
    /// The required result is still missing after all demands, or was wrong too often.
    NoResult,
    /// There are calls, and no turn left to process their answers.
    TurnLimit,
    /// The agent is done.
    Over,
}

impl NextAction {
    fn parse(name: &str) -> Result<NextAction, String> {
        Ok(match name {
            "submitted" => NextAction::Submitted,
            "act" => NextAction::Act,
            "continue" => NextAction::Continue,
            "accept" => NextAction::Accept,
            "no_answer" => NextAction::NoAnswer,
            "force" => NextAction::Force,
            "no_result" => NextAction::NoResult,
            "turn_limit" => NextAction::TurnLimit,
            "over" => NextAction::Over,
            other => return Err(format!("unknown next action `{other}`")),
        })
    }
}

/// The settings of an agent that decide about its replies.
struct ReplyPolicy {
    turns: u64,
    /// The tool that submits the required result, if there is one.
    tool: Option<Arc<str>>,
    /// The stops that complete the step.
    accept: Vec<Arc<str>>,
    /// The number of replies with an invalid result after which the agent is not asked again.
    max_result_attempts: i64,
}

/// Returns whether this action follows from the reply. False if the model call has failed.
pub(super) fn next_action_is(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let is = NextAction::parse(&config.text("is")?)?;
    let policy = ReplyPolicy {
        turns: config.count("turns")?.ok_or("missing `turns`")? as u64,
        tool: config.optional_text("tool")?,
        accept: config.texts("accept")?,
        max_result_attempts: config.count("result_attempts")?.map_or(i64::MAX, |max| max as i64),
    };
    Ok(Box::new(move |reader| Ok(Value::Bool(!reader.has_failed() && policy.next_action(reader)? == is))))
}

impl ReplyPolicy {
    fn next_action(&self, reader: &mut ScopeReader<'_>) -> Result<NextAction, EvalError> {
        let calls = reply_calls(reader)?;
        let accepted = self.tool.as_ref().and_then(|tool| first_valid(&calls, tool)).is_some();
        let owed = self.tool.is_some() && !accepted;
        let demand_count = demand_count(reader)?;
        let stop = reply_stop(reader, &calls)?;
        let is_answer = match stop {
            ReplyEnd::Complete => true,
            ReplyEnd::Refusal | ReplyEnd::Filtered => false,
            // The calls before the cut are made; the next message names the one that was cut off.
            ReplyEnd::Length { .. } => !calls.is_empty() || demand_count > 0,
            // A missing result is demanded anyway.
            ReplyEnd::Empty => owed,
        };
        if !is_answer {
            return Ok(match may_continue(reader, stop)? {
                true => NextAction::Continue,
                false if self.accept.iter().any(|accepted| **accepted == *stop.name()) => NextAction::Accept,
                false => NextAction::NoAnswer,
            });
        }
        Ok(match calls.len() {
            1 if accepted => NextAction::Submitted,
            2.. if accepted => NextAction::Act,
            _ if owed && demand_count >= MAX_RESULT_DEMANDS => NextAction::NoResult,
            _ if owed && rejections(reader, self.tool.as_ref())? >= self.max_result_attempts => NextAction::NoResult,
            _ if owed && demand_count > 0 => NextAction::Force,
            1.. if reader.visit() < self.turns => NextAction::Act,
            _ if owed => NextAction::Force,
            1.. => NextAction::TurnLimit,
            _ => NextAction::Over,
        })
    }
}

/// The number of times a missing result is demanded.
const MAX_RESULT_DEMANDS: i64 = 2;

/// Returns how often the result was demanded.
pub(super) fn demand_count(reader: &mut ScopeReader<'_>) -> Result<i64, EvalError> {
    Ok(reader.own_variable("demands")?.as_int().unwrap_or(0))
}

/// Returns the number of demands including the current one.
pub(super) fn next_demand_count(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| demand_count(reader).map(|times| Value::Int(times.saturating_add(1)))))
}

/// Returns the number of replies with an invalid result, including the current one.
fn rejections(reader: &mut ScopeReader<'_>, tool: Option<&Arc<str>>) -> Result<i64, EvalError> {
    let calls = reply_calls(reader)?;
    let is_wrong = |tool: &Arc<str>| calls.iter().any(|call| is_call(call, tool) && has_problem(call));
    let before = reader.own_variable("rejections")?.as_int().unwrap_or(0);
    Ok(before.saturating_add(i64::from(tool.is_some_and(is_wrong))))
}

/// Returns the number of replies with an invalid result, including the current one.
pub(super) fn rejection_count(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let tool = config.text("tool")?;
    Ok(Box::new(move |reader| rejections(reader, Some(&tool)).map(Value::Int)))
}

pub(super) fn reply_calls(reader: &mut ScopeReader<'_>) -> Result<Vec<Value>, EvalError> {
    let reply = reader.task_result()?;
    let calls = reader.part(&reply, "calls")?;
    reader.list(&calls)
}

/// Returns the first call of the tool whose arguments are valid.
pub(super) fn first_valid(calls: &[Value], tool: &str) -> Option<usize> {
    calls.iter().position(|call| is_call(call, tool) && !has_problem(call))
}

pub(super) fn is_call(call: &Value, tool: &str) -> bool {
    call.get("name").and_then(Value::as_str) == Some(tool)
}

pub(super) fn has_problem(call: &Value) -> bool {
    call.get("problem").is_some_and(|problem| !problem.is_null())
}

fn problem_of(call: &Value) -> Option<Arc<str>> {
    match call.get("problem") {
        Some(Value::Str(problem)) => Some(problem.clone()),
        _ => None,
    }
}

/// Builds the conversation message of the reply.
pub(super) fn assistant(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(message_of_reply))
}

pub(super) fn message_of_reply(reader: &mut ScopeReader<'_>) -> Result<Value, EvalError> {
    let reply = reader.task_result()?;
    let content = reader.text(&reply, "content")?;
    let mut message = vec![("role", Value::from("assistant")), ("content", Value::Str(content))];
    let calls = reply_calls(reader)?;
    if !calls.is_empty() {
        let plain = |call: &Value| {
            let part = |key: &str| call.get(key).cloned().unwrap_or_default();
            let arguments = Some(part("arguments")).filter(|arguments| matches!(arguments, Value::Map(_)));
            Value::object([
                ("id", part("id")),
                ("name", part("name")),
                ("arguments", arguments.unwrap_or_else(|| Value::map(Default::default()))),
            ])
        };
        message.push(("calls", Value::list(calls.iter().map(plain).collect())));
    }
    message.extend(reader.raw_task_state().map(|state| ("state", state)));
    Ok(Value::object(message))
}

/// Returns the result that the reply submits; null if it submits none.
pub(super) fn submitted_result(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let tool = config.text("tool")?;
    Ok(Box::new(move |reader| {
        let calls = reply_calls(reader)?;
        let accepted = first_valid(&calls, &tool).and_then(|at| calls[at].get("arguments").cloned());
        Ok(accepted.unwrap_or_default())
    }))
}

/// Builds the reply and the demand for the missing result. Calls that are no longer executed are answered, because a
/// conversation cannot continue with open calls. An invalid result is answered with the reason.
pub(super) fn demand_result(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let tool = config.text("tool")?;
    Ok(Box::new(move |reader| {
        let mut messages = vec![message_of_reply(reader)?];
        let calls = reply_calls(reader)?;
        if !calls.is_empty() {
            let mut results = Vec::with_capacity(calls.len());
            for call in &calls {
                let content = match is_call(call, &tool) && has_problem(call) {
                    true => rejection(reader.text(call, "problem")?),
                    false => "not run: there are no turns left".to_owned(),
                };
                let part = |key: &str| call.get(key).cloned().unwrap_or_default();
                results.push(Value::object([
                    ("id", part("id")),
                    ("name", part("name")),
                    ("content", Value::from(content)),
                    ("error", Value::Bool(true)),
                ]));
            }
            messages.push(Value::object([("role", Value::from("tool")), ("results", Value::list(results))]));
        }
        let demand = format!("Your result is still missing. Call the tool `{tool}` with it now; nothing else counts.");
        messages.push(Value::object([("role", Value::from("user")), ("content", Value::from(demand))]));
        Ok(Value::list(messages))
    }))
}

/// The maximum length of a result problem in an error.
const MAX_PROBLEM_BYTES: usize = 600;

/// The error of an agent without a result: how often it tried, and the last problem.
pub(super) fn missing_result_error(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let (code, tool) = (config.text("code")?, config.text("tool")?);
    Ok(Box::new(move |reader| {
        let calls = reply_calls(reader)?;
        let tries = calls.iter().filter(|call| is_call(call, &tool));
        let (mut times, mut last) = (tries.clone().count(), tries.filter_map(problem_of).next_back());
        // The reply itself is not yet part of the conversation.
        let conversation = reader.own_variable("conversation")?;
        for message in reader.list(&conversation)?.iter().rev() {
            let (called, answers) = (reader.part(message, "calls")?, reader.part(message, "results")?);
            times += reader.list(&called)?.iter().filter(|call| is_call(call, &tool)).count();
            if last.is_none() {
                let answers = reader.list(&answers)?;
                let answer = answers.iter().rev().find(|answer| is_call(answer, &tool));
                last = answer.map(|answer| reader.text(answer, "content")).transpose()?;
                last = last.and_then(|content| rejected_for(&content));
            }
        }
        let message = match times {
            0 => format!("the agent never called `{tool}`, even when its result was demanded"),
            _ => {
                let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
                let why = last.map(|why| format!("; the last: {}", cut(&why, MAX_PROBLEM_BYTES))).unwrap_or_default();
                format!("the agent called `{tool}` {times}, and its arguments were never valid{why}")
            }
        };
        Ok(Value::object([("code", Value::Str(code.clone())), ("message", Value::from(message))]))
    }))
}
