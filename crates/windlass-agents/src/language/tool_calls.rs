//! Tool calls, and the answers that the model gets.

use std::sync::Arc;

use windlass_value::{EvalError, Value, parse_json, to_json};

use super::CompiledFunction;
use super::config::Config;
use super::reader::ScopeReader;
use super::reply::{first_valid, has_problem, is_call, reply_calls};

/// A tool that the workflow itself offers: its text parameters, and whether each is required.
struct WorkflowTool {
    name: Arc<str>,
    texts: Vec<(Arc<str>, bool)>,
}

impl WorkflowTool {
    /// Reads the offered specification: `{name, description, parameters}`.
    fn read(offered: &Value) -> Result<WorkflowTool, String> {
        let name = offered.get("name").and_then(Value::as_str).ok_or("a tool has a `name`")?.into();
        let parameters = offered.get("parameters").cloned().unwrap_or_default();
        let needed = parameters.get("required").and_then(Value::as_list).unwrap_or_default();
        let needs = |name: &str| needed.iter().any(|needed| needed.as_str() == Some(name));
        let properties = parameters.get("properties").and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
        let is_text = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("string");
        let texts = properties.filter(|(_, schema)| is_text(schema)).map(|(name, _)| (name.clone(), needs(name)));
        Ok(WorkflowTool { name, texts: texts.collect() })
    }

    /// Returns a problem with the arguments of a call.
    fn problem(&self, reader: &mut ScopeReader<'_>, call: &Value) -> Result<Option<String>, EvalError> {
        let arguments = reader.part(call, "arguments")?;
        for (name, needed) in &self.texts {
            let problem = match reader.part(&arguments, name)? {
                Value::Str(text) if *needed && text.trim().is_empty() => format!("`{name}` is empty"),
                Value::Str(_) => continue,
                Value::Null if !needed => continue,
                Value::Null => format!("`{name}` is missing; it must be a text"),
                other => format!("`{name}` must be a text; it is {} {}", other.kind(), reader.json(&other)?),
            };
            return Ok(Some(problem));
        }
        Ok(None)
    }
}

/// Returns the calls of the reply, to be kept until they have run. Checks the arguments of the workflow's own tools,
/// which nothing else checks.
pub(super) fn calls(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let own = config.list("tools")?.iter().map(WorkflowTool::read).collect::<Result<Vec<WorkflowTool>, String>>()?;
    Ok(Box::new(move |reader| {
        let mut calls = reply_calls(reader)?;
        for call in &mut calls {
            let Some(tool) = own.iter().find(|tool| is_call(call, &tool.name)).filter(|_| !has_problem(call)) else {
                continue;
            };
            if let (Some(problem), Some(map)) = (tool.problem(reader, call)?, call.as_map()) {
                let mut map = map.clone();
                map.insert("problem", problem);
                *call = Value::map(map);
            }
        }
        Ok(Value::list(calls))
    }))
}

/// Returns the kept calls.
pub(super) fn pending_calls(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let kept = reader.own_variable("calls")?;
        Ok(if kept.is_null() { Value::list(Vec::new()) } else { kept })
    }))
}

/// Returns whether the current call is of one of these tools.
pub(super) fn is_call_of(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let tools = config.texts("tools")?;
    Ok(Box::new(move |reader| {
        let (call, _) = reader.item()?;
        Ok(Value::Bool(tools.iter().any(|tool| is_call(&call, tool))))
    }))
}

/// Returns whether the current call cannot be made because its arguments are invalid.
pub(super) fn is_malformed(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let except = config.optional_text("except")?;
    Ok(Box::new(move |reader| {
        let (call, _) = reader.item()?;
        let excepted = except.as_ref().is_some_and(|tool| is_call(&call, tool));
        Ok(Value::Bool(has_problem(&call) && !excepted))
    }))
}

/// Builds the answer to a malformed call.
pub(super) fn malformed_answer(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let (call, _) = reader.item()?;
        let problem = reader.text(&call, "problem")?;
        Ok(tool_answer(format!("the call was not made: {problem}"), true))
    }))
}

/// Builds the `agent_tool` input of the current call.
pub(super) fn tool_input(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let part = |key: &'static str| config.value(key).cloned().unwrap_or_default();
    let (allow, deny, folder) = (part("allow"), part("deny"), part("folder"));
    Ok(Box::new(move |reader| {
        let (call, _) = reader.item()?;
        Ok(Value::object([
            ("tool", call.get("name").cloned().unwrap_or_default()),
            ("arguments", reader.part(&call, "arguments")?),
            ("allow", allow.clone()),
            ("deny", deny.clone()),
            ("folder", folder.clone()),
        ]))
    }))
}

/// Builds the answer to a submitted result: accepted if it is the first valid one of the reply, otherwise rejected.
pub(super) fn verdict(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let tool = config.text("tool")?;
    Ok(Box::new(move |reader| {
        let (call, index) = reader.item()?;
        let calls = reader.own_variable("calls")?;
        let counts = first_valid(calls.as_list().unwrap_or_default(), &tool).map(|at| at as u64);
        if counts == Some(index) {
            return Ok(tool_answer(r#"{"status":"accepted"}"#.to_owned(), false));
        }
        let why = match has_problem(&call) {
            true => reader.text(&call, "problem")?,
            false => "another result of the same reply was accepted: the first valid one counts".into(),
        };
        Ok(tool_answer(rejection(why), true))
    }))
}

/// Builds the answer to a rejected result.
pub(super) fn rejection(why: Arc<str>) -> String {
    let errors = Value::list(vec![Value::Str(why)]);
    to_json(&Value::object([("status", Value::from("rejected")), ("errors", errors)]))
}

/// Returns the reason from a rejection.
pub(super) fn rejected_for(answer: &str) -> Option<Arc<str>> {
    match parse_json(answer).ok()?.get("errors")?.as_list()?.first()? {
        Value::Str(why) => Some(why.clone()),
        _ => None,
    }
}

/// Builds a constant answer.
pub(super) fn fixed_answer(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let text = config.text("text")?;
    let error = config.flag("error")?;
    Ok(Box::new(move |_| Ok(tool_answer(text.to_string(), error))))
}

pub(super) fn tool_answer(content: String, error: bool) -> Value {
    Value::object([("content", Value::from(content)), ("error", Value::Bool(error))])
}

/// Builds the record of a call that has ended, well or badly: `{id, name, content, error}`.
pub(super) fn answer_record(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let (call, _) = reader.item()?;
        let (content, error) = call_answer(reader)?;
        let part = |key: &str| call.get(key).cloned().unwrap_or_default();
        Ok(Value::object([
            ("id", part("id")),
            ("name", part("name")),
            ("content", content),
            ("error", Value::Bool(error)),
        ]))
    }))
}

fn call_answer(reader: &mut ScopeReader<'_>) -> Result<(Value, bool), EvalError> {
    let failed = reader.local("status")?.as_str() == Some("error");
    if failed {
        let error = reader.local("error")?;
        let message = reader.text(&error, "message")?;
        return Ok((Value::from(format!("the tool failed: {message}")), true));
    }
    let output = reader.local("output")?;
    let error = output.get("error").and_then(Value::as_bool).unwrap_or(false);
    let content = match reader.part(&output, "content")? {
        text @ Value::Str(_) => text,
        Value::Null => Value::from(""),
        other => Value::from(reader.json(&other)?),
    };
    Ok((content, error))
}

/// Builds the conversation message with the answers to all calls.
pub(super) fn answers_message(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let results = reader.task_result()?;
        let results = reader.list(&results)?;
        Ok(Value::object([("role", Value::from("tool")), ("results", Value::list(results))]))
    }))
}

/// Returns whether the kept calls contain a valid call of this tool, which ends the work.
pub(super) fn has_valid_call(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let tool = config.text("tool")?;
    Ok(Box::new(move |reader| {
        let calls = reader.own_variable("calls")?;
        let called = first_valid(calls.as_list().unwrap_or_default(), &tool).is_some();
        Ok(Value::Bool(called && !reader.has_failed()))
    }))
}

/// Returns whether the current call comes after the first valid call of this tool, which ends the work.
pub(super) fn comes_after(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let tool = config.text("tool")?;
    Ok(Box::new(move |reader| {
        let (_, index) = reader.item()?;
        let calls = reader.own_variable("calls")?;
        let ends = first_valid(calls.as_list().unwrap_or_default(), &tool);
        Ok(Value::Bool(ends.is_some_and(|at| index > at as u64)))
    }))
}

/// Returns one argument of the current call, or of the first valid call of a tool among the kept calls.
pub(super) fn argument(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let (name, of) = (config.text("name")?, config.optional_text("of")?);
    Ok(Box::new(move |reader| argument_of(reader, &name, of.as_ref())))
}

fn argument_of(reader: &mut ScopeReader<'_>, name: &str, of: Option<&Arc<str>>) -> Result<Value, EvalError> {
    let call = match of {
        None => reader.item()?.0,
        Some(tool) => {
            let calls = reader.own_variable("calls")?;
            let calls = calls.as_list().unwrap_or_default();
            first_valid(calls, tool).map(|at| calls[at].clone()).unwrap_or_default()
        }
    };
    let arguments = reader.part(&call, "arguments")?;
    reader.part(&arguments, name)
}

/// Returns all arguments of the current call.
pub(super) fn arguments(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| {
        let (call, _) = reader.item()?;
        match reader.part(&call, "arguments")? {
            arguments @ Value::Map(_) => Ok(arguments),
            _ => Ok(Value::map(Default::default())),
        }
    }))
}
