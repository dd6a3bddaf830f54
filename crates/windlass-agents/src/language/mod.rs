//! The language `agent`: the logic of agents as pure functions over a scope. Prompts, requests, transcripts and step
//! outputs are computed here, so that all of it is journaled and nothing is done twice.
//!
//! A source is an object `{"agent": FUNCTION, …}` with the settings that the compiler of a workflow knows beforehand.
//!
//! - `config`: the settings of a source · `reader`: the contents of a scope in workflow terms
//! - `prompt`: the first message · `judge`: the prompt of a judge · `caps`: maximum lengths of texts
//! - `reply`: the next action after a model's reply · `stop`: replies that are no answer
//! - `request`: requests to a model · `tool_calls`: tool calls and answers · `repeats`: agents that make no progress
//! - `mail`: messages between agents · `iterations`: results of loop iterations · `outputs`: outputs of steps, loops,
//!   includes and runs

mod caps;
mod config;
mod iterations;
mod judge;
mod mail;
mod outputs;
mod prompt;
mod reader;
mod repeats;
mod reply;
mod request;
mod stop;
mod tool_calls;

use windlass_value::{CompileError, EvalError, EvalScope, Expression, ExpressionMode, Language, Meter, Value};

use config::Config;
use reader::ScopeReader;

/// The language `agent`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgentLanguage;

/// A compiled function of the language.
type CompiledFunction = Box<dyn Fn(&mut ScopeReader<'_>) -> Result<Value, EvalError> + Send + Sync>;

/// Compiles the settings of a source, once.
type FunctionCompiler = fn(&Config<'_>) -> Result<CompiledFunction, String>;

/// Every function, by name.
const FUNCTIONS: &[(&str, FunctionCompiler)] = &[
    ("value", constant),
    ("task_succeeded", task_succeeded),
    ("task_result", task_result),
    ("first_message", prompt::first_message),
    ("judge_prompt", judge::judge_prompt),
    ("request", request::request),
    ("reserve", request::reserve),
    ("next_action_is", reply::next_action_is),
    ("assistant", reply::assistant),
    ("submitted_result", reply::submitted_result),
    ("demand_result", reply::demand_result),
    ("missing_result_error", reply::missing_result_error),
    ("next_demand_count", reply::next_demand_count),
    ("rejection_count", reply::rejection_count),
    ("repeat_count", repeats::repeat_count),
    ("is_stalled", repeats::is_stalled),
    ("stalled_error", repeats::stalled_error),
    ("next_continuation", stop::next_continuation),
    ("continue_reply", stop::continue_reply),
    ("stop_name", stop::stop_name),
    ("no_answer_error", stop::no_answer_error),
    ("calls", tool_calls::calls),
    ("pending_calls", tool_calls::pending_calls),
    ("is_call_of", tool_calls::is_call_of),
    ("is_malformed", tool_calls::is_malformed),
    ("malformed_answer", tool_calls::malformed_answer),
    ("tool_input", tool_calls::tool_input),
    ("verdict", tool_calls::verdict),
    ("fixed_answer", tool_calls::fixed_answer),
    ("answer_record", tool_calls::answer_record),
    ("answers_message", tool_calls::answers_message),
    ("has_valid_call", tool_calls::has_valid_call),
    ("comes_after", tool_calls::comes_after),
    ("argument", tool_calls::argument),
    ("arguments", tool_calls::arguments),
    ("outgoing_message", mail::outgoing_message),
    ("delivery_answer", mail::delivery_answer),
    ("addresses_a_wrapper", mail::addresses_a_wrapper),
    ("incoming_messages", mail::incoming_messages),
    ("mail_is", mail::mail_is),
    ("coordinator_next_is", mail::coordinator_next_is),
    ("turns_used_up", mail::turns_used_up),
    ("steps_have_ended", mail::steps_have_ended),
    ("coordinator_welcome", mail::coordinator_welcome),
    ("iteration_output", iterations::iteration_output),
    ("history_entry", iterations::history_entry),
    ("judge_verdict", iterations::judge_verdict),
    ("model_unavailable", iterations::model_unavailable),
    ("task_error", task_error),
    ("coordinator_failure", mail::coordinator_failure),
    ("feedback", iterations::feedback),
    ("feedback_entry", iterations::feedback_entry),
    ("iteration_entry", iterations::iteration_entry),
    ("agent_output", outputs::agent_output),
    ("for_each_output", outputs::for_each_output),
    ("repeat_output", outputs::repeat_output),
    ("include_output", outputs::include_output),
    ("call_output", outputs::call_output),
    ("run_output", outputs::run_output),
];

struct AgentExpression {
    name: &'static str,
    evaluate: CompiledFunction,
}

impl Language for AgentLanguage {
    fn name(&self) -> &'static str {
        "agent"
    }

    fn compile(&self, source: &Value, _mode: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        let refuse = |message: String| vec![CompileError { message, hint: None, pointer: Vec::new(), range: 0..0 }];
        let config = Config::new(source)
            .ok_or_else(|| refuse(format!("{source:?} is not an expression of the language `agent`")))?;
        let name = config.text("agent").map_err(refuse)?;
        let Some((name, compile)) = FUNCTIONS.iter().find(|(known, _)| *known == &*name) else {
            return Err(refuse(format!("agents have no function `{name}`")));
        };
        let compiled = compile(&config).and_then(|compiled| config.check_all_read().map(|()| compiled));
        match compiled {
            Ok(evaluate) => Ok(Box::new(AgentExpression { name, evaluate })),
            Err(problem) => Err(refuse(format!("{name}: {problem}"))),
        }
    }
}

impl Expression for AgentExpression {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        meter.spend(1)?;
        let mut reader = ScopeReader::new(scope, meter);
        let value = (self.evaluate)(&mut reader).map_err(|error| error.with_expression(self.name))?;
        let max_bytes = meter.max_output_bytes;
        meter.check_size(value.size_up_to(max_bytes))?;
        Ok(value)
    }
}

/// A constant.
fn constant(config: &Config<'_>) -> Result<CompiledFunction, String> {
    let value = config.value("value").cloned().ok_or("missing `value`")?;
    Ok(Box::new(move |_| Ok(value.clone())))
}

/// Returns whether a task has succeeded.
fn task_succeeded(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| Ok(Value::Bool(!reader.has_failed()))))
}

/// Returns why a task has failed.
fn task_error(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| reader.task_error()))
}

/// Returns the result of a task. A stored value stays a reference.
fn task_result(_: &Config<'_>) -> Result<CompiledFunction, String> {
    Ok(Box::new(|reader| Ok(reader.raw_task_result())))
}
