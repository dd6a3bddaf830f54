//! The tool `python`: runs code in a warm interpreter of this machine.
//!
//! Interpreters are pooled: a call writes one line to an interpreter and reads one line back. Printed text is
//! captured separately. If a call is stopped, its interpreter is killed with everything it has started.

mod pool;
mod protocol;

use std::sync::Arc;

use windlass_core::{ErrorInfo, ProcessLimits, TaskOutcome};
use windlass_runtime::{TaskLog, Tool, ToolCall, ToolFuture};
use windlass_store::LogStream;
use windlass_value::{Duration, Value};

use crate::info::{ToolInfo, field, required};
use crate::input::{ToolInput, bad_input, run_with_limit};
use crate::process::basic_environment;
use crate::registry::ToolRegistration;
use crate::secret::call_redaction;
use pool::{InterpreterError, InterpreterPool};
use protocol::{PrintedText, PythonReply};

pub(crate) const INFO: ToolInfo = ToolInfo {
    name: "python",
    description: "Runs Python code with the python3 of this machine, in a pooled interpreter.",
    inputs: &[
        required("code", "text", "assigns `result`, returns, has `def main(...)`, or is one expression"),
        field("args", "object", "values, each a variable of the code; all together as `input_data`"),
        field("input", "object", "the same; a name in both has the value of `input`"),
        field(
            "libs",
            "object",
            "imports by their name in the code: {np: numpy}, {day: {from: datetime, import: date}}",
        ),
        field("timeout", "number | text", "seconds or PT30S; then the interpreter is killed"),
    ],
    outputs: &[field(
        "(the result)",
        "any",
        "as JSON; dates as text, Decimal as a number, bytes as base64, sets as arrays; printed text is in meta.stdout and meta.stderr",
    )],
    errors: &[
        ("python", "an exception: its type is the code; facts.py has exception, exception_type, line, traceback"),
        ("timeout", "the interpreter was killed"),
    ],
};

pub(crate) const REGISTRATION: ToolRegistration = ToolRegistration {
    info: &INFO,
    build: |setup| {
        setup.with_sealed_inputs(PythonTool::new(PythonOptions::from_limits(setup.limits, setup.environment)))
    },
};

/// Limits and environment of Python code.
#[derive(Clone, Debug)]
pub struct PythonOptions {
    pub program: String,
    /// The complete environment of the interpreters.
    pub env: Vec<(String, String)>,
    /// Maximum number of concurrent interpreters.
    pub max_interpreters: usize,
    pub default_timeout: Duration,
    pub max_print_chars: usize,
    pub max_result_bytes: usize,
    /// Maximum address space of each interpreter.
    pub max_memory_bytes: Option<u64>,
    /// An interpreter larger than this ends after its call.
    pub max_idle_bytes: u64,
}

impl Default for PythonOptions {
    fn default() -> PythonOptions {
        PythonOptions::from_limits(&ProcessLimits::default(), |_| None)
    }
}

impl PythonOptions {
    /// Uses the variables that a program usually needs: PATH, HOME and LANG.
    pub fn with_environment(lookup: impl Fn(&str) -> Option<String>) -> PythonOptions {
        PythonOptions::from_limits(&ProcessLimits::default(), lookup)
    }

    /// Uses the same variables with these limits.
    pub fn from_limits(limits: &ProcessLimits, lookup: impl Fn(&str) -> Option<String>) -> PythonOptions {
        let cores = || std::thread::available_parallelism().map_or(2, usize::from);
        PythonOptions {
            program: "python3".to_owned(),
            env: basic_environment(lookup),
            max_interpreters: match limits.max_python_interpreters {
                0 => cores(),
                count => count,
            },
            default_timeout: limits.default_tool_time,
            max_print_chars: limits.max_python_print_chars,
            max_result_bytes: limits.max_python_result_bytes,
            max_memory_bytes: None,
            max_idle_bytes: 512 << 20,
        }
    }
}

/// Runs Python code. Clones share their interpreters.
#[derive(Clone)]
pub struct PythonTool(Arc<InterpreterPool>);

impl PythonTool {
    pub fn new(options: PythonOptions) -> PythonTool {
        PythonTool(Arc::new(InterpreterPool::new(options)))
    }
}

impl Tool for PythonTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let pool = self.0.clone();
        Box::pin(async move {
            let outcome = run(&pool, &call).await.unwrap_or_else(TaskOutcome::failure);
            if outcome.facts.is_null() { protocol::with_empty_facts(outcome) } else { outcome }
        })
    }
}

async fn run(pool: &InterpreterPool, call: &ToolCall) -> Result<TaskOutcome, ErrorInfo> {
    let input = ToolInput::parse("python", &call.input)?;
    let code = input.text("code")?.filter(|code| !code.trim().is_empty());
    let code = code.ok_or_else(|| bad_input("`python` has no `code` to run"))?;
    let limit = input.time_limit(call, pool.options.default_timeout)?;
    let mark = protocol::CallToken::new();
    let request = protocol::request(&mark, code, input.object("libs")?, input.object("args")?, input.object("input")?);
    match run_with_limit(call, limit, pool.call(&mark, request)).await {
        Err(stopped) => Err(stopped.error("the Python code")),
        Ok(Ok(line)) => {
            let PythonReply { outcome, printed } = protocol::parse_reply(&line)?;
            log_output(&call.log, &printed, &outcome);
            Ok(outcome)
        }
        Ok(Err(broken)) => {
            if let InterpreterError::Died { stderr_tail, .. } = &broken {
                call.log.write(LogStream::Stderr, &call_redaction().redact_text(stderr_tail));
            }
            Err(interpreter_error_info(pool, broken))
        }
    }
}

/// Writes printed text and a traceback to the log of the call.
fn log_output(log: &TaskLog, printed: &PrintedText, outcome: &TaskOutcome) {
    let redaction = call_redaction();
    let traceback = outcome.facts.get("py").and_then(|facts| facts.get("traceback")).and_then(Value::as_str);
    let printed = printed.parts.iter().map(|(stream, text)| (*stream, text.as_str()));
    for (stream, text) in printed.chain(traceback.map(|text| (LogStream::Stderr, text))) {
        log.write(stream, &redaction.redact_text(text));
    }
}

fn interpreter_error_info(pool: &InterpreterPool, broken: InterpreterError) -> ErrorInfo {
    let program = &pool.options.program;
    match broken {
        InterpreterError::CannotStart(error) if error.kind() == std::io::ErrorKind::NotFound => {
            ErrorInfo::new("NoPython", "python", format!("there is no program `{program}` on this machine's PATH"))
                .hint("install Python 3.10 or later: `apt-get install python3`, `dnf install python3`, python.org")
        }
        InterpreterError::CannotStart(error) => {
            ErrorInfo::new("NoPython", "python", format!("`{program}` cannot be started: {error}"))
        }
        InterpreterError::UnexpectedOutput => {
            let message = "the interpreter wrote unexpected output instead of its reply and was killed";
            ErrorInfo::new("InterpreterProtocolError", "python", message)
                .hint("the code wrote to a file descriptor that it had not opened")
        }
        InterpreterError::Died { how, stderr_tail: last_words } => {
            let message = format!("the interpreter ended in the middle of the call ({how})");
            let words = last_words.trim();
            let message = if words.is_empty() { message } else { format!("{message}: {words}") };
            ErrorInfo::new("InterpreterDied", "python", message)
                .hint("the code ended it (`os._exit`), ran out of memory, or a library crashed")
        }
    }
}
