//! The tool `shell`: runs one program or one shell script and returns its output and exit code.
//!
//! Values are passed to the script as environment variables and never become part of its text.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration as StdDuration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use windlass_core::{ErrorInfo, ProcessLimits, TaskOutcome};
use windlass_runtime::{TaskLog, Tool, ToolCall, ToolFuture};
use windlass_store::LogStream;
use windlass_value::{Duration, Map, Value};

use crate::info::{ToolInfo, field};
use crate::input::{CallStopReason, ToolInput, bad_input, plain_text, run_with_limit};
use crate::log_lines::LogLines;
use crate::process::{ProcessGroup, StreamCapture, basic_environment};
use crate::registry::ToolRegistration;
use crate::secret::call_redaction;

pub(crate) const INFO: ToolInfo = ToolInfo {
    name: "shell",
    description: "Runs a shell command or a program and returns its output.",
    inputs: &[
        field("command", "text", "a shell command; values come as \"$NAME\" from `values`"),
        field("cmds", "array of text", "several shell commands, run in order until one fails"),
        field("argv", "array", "a program and its arguments, without a shell"),
        field(
            "values",
            "object",
            "values for the text, each an environment variable; a value that is not text is passed as JSON",
        ),
        field(
            "env",
            "object",
            "more variables; otherwise there are PATH, HOME, LANG and WINDLASS_KEY, _RUN, _ATTEMPT, _PROCESS_MARK",
        ),
        field("shell", "text", "the shell that runs the command: `sh` if not given"),
        field("cwd", "text", "the folder to run in"),
        field("stdin", "any", "the standard input; a value that is not text is passed as JSON"),
        field("timeout", "number | text", "seconds or PT30S; then the process and its children are killed"),
    ],
    outputs: &[
        field("stdout", "text", "its standard output, up to the limit"),
        field("stderr", "text", "its standard error, up to the limit"),
        field("exit_code", "number", "0 is success; 128 and the signal's number if a signal ended it"),
    ],
    errors: &[
        ("shell", "`exit_N`: it ended with N; the output is kept"),
        ("timeout", "it was killed"),
        ("input", "the input cannot be run"),
    ],
};

pub(crate) const REGISTRATION: ToolRegistration = ToolRegistration {
    info: &INFO,
    build: |setup| setup.with_sealed_inputs(ShellTool::new(ShellOptions::from_limits(setup.limits, setup.environment))),
};

/// Limits and environment of started programs.
#[derive(Clone, Debug)]
pub struct ShellOptions {
    /// The environment of every program, before the additions of its call.
    pub env: Vec<(String, String)>,
    /// Applies to stdout and stderr separately.
    pub max_output_bytes: usize,
    pub default_timeout: Duration,
}

impl Default for ShellOptions {
    fn default() -> ShellOptions {
        ShellOptions::from_limits(&ProcessLimits::default(), |_| None)
    }
}

impl ShellOptions {
    /// Uses the variables that a program usually needs: PATH, HOME and LANG.
    pub fn with_environment(lookup: impl Fn(&str) -> Option<String>) -> ShellOptions {
        ShellOptions::from_limits(&ProcessLimits::default(), lookup)
    }

    /// Uses the same variables with these limits.
    pub fn from_limits(limits: &ProcessLimits, lookup: impl Fn(&str) -> Option<String>) -> ShellOptions {
        ShellOptions {
            env: basic_environment(lookup),
            max_output_bytes: limits.max_shell_output_bytes,
            default_timeout: limits.default_tool_time,
        }
    }
}

/// Runs programs.
#[derive(Clone)]
pub struct ShellTool(Arc<ShellOptions>);

impl ShellTool {
    pub fn new(options: ShellOptions) -> ShellTool {
        ShellTool(Arc::new(options))
    }
}

impl Tool for ShellTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let options = self.0.clone();
        Box::pin(async move { run(&options, &call).await.unwrap_or_else(TaskOutcome::failure) })
    }
}

/// How long output may stay open after the program has ended; then its remaining child processes are killed.
const OUTPUT_GRACE: StdDuration = StdDuration::from_millis(100);

async fn run(options: &ShellOptions, call: &ToolCall) -> Result<TaskOutcome, ErrorInfo> {
    let input = ToolInput::parse("shell", &call.input)?;
    let limit = input.time_limit(call, options.default_timeout)?;
    let (mut command, shown) = build_command(&input)?;
    command.env_clear().envs(build_environment(options, call, &input)?);
    if let Some(folder) = input.text("cwd")? {
        command.current_dir(folder);
    }
    let mut group = ProcessGroup::spawn_piped(command).map_err(|error| cannot_start(&shown, &error))?;
    let stdin = input.get("stdin").map(plain_text).unwrap_or_default();
    let (mut out, mut err) = (StreamCapture::default(), StreamCapture::default());
    let streams = CapturedStreams { out: &mut out, err: &mut err, max_bytes: options.max_output_bytes, log: &call.log };
    let ended = run_with_limit(call, limit, run_to_end(&mut group, stdin, streams)).await;
    group.kill();
    let (status, error) = match ended {
        Ok(Ok(status)) => (Some(status), exit_error(status, &shown, &err)),
        Ok(Err(error)) => (None, Some(cannot_start(&shown, &error))),
        Err(stopped @ (CallStopReason::Timeout(_) | CallStopReason::Cancelled)) => (None, Some(stopped.error(&shown))),
    };
    let mut output = Map::with_capacity(3);
    output.insert("stdout", out.text());
    output.insert("stderr", err.text());
    output.insert("exit_code", status.map(|status| i64::from(exit_code(status))));
    let meta = match out.truncated || err.truncated {
        true => Value::object([("stdout_truncated", out.truncated), ("stderr_truncated", err.truncated)]),
        false => Value::Null,
    };
    Ok(TaskOutcome { error, meta, ..TaskOutcome::success(Value::map(output)) })
}

/// The outputs of a program, where they go, and their limit.
struct CapturedStreams<'c> {
    out: &'c mut StreamCapture,
    err: &'c mut StreamCapture,
    max_bytes: usize,
    log: &'c TaskLog,
}

/// Writes stdin, captures the output, and waits for the program to end.
async fn run_to_end(
    group: &mut ProcessGroup,
    stdin: String,
    CapturedStreams { out, err, max_bytes, log }: CapturedStreams<'_>,
) -> std::io::Result<ExitStatus> {
    let (input, stdout, stderr) = (group.child.stdin.take(), group.child.stdout.take(), group.child.stderr.take());
    let feed = async {
        if let Some(mut input) = input {
            // A program need not read its stdin.
            let _ = input.write_all(stdin.as_bytes()).await;
        }
    };
    let read_out = async {
        if let Some(stdout) = stdout {
            out.read(stdout, max_bytes, LogLines::new(log.clone(), LogStream::Stdout)).await;
        }
    };
    let read_err = async {
        if let Some(stderr) = stderr {
            err.read(stderr, max_bytes, LogLines::new(log.clone(), LogStream::Stderr)).await;
        }
    };
    let streams = async { tokio::join!(feed, read_out, read_err) };
    tokio::pin!(streams);
    let status = tokio::select! {
        status = group.child.wait() => status?,
        _ = &mut streams => {
            let status = group.child.wait().await?;
            group.mark_ended();
            return Ok(status);
        }
    };
    if tokio::time::timeout(OUTPUT_GRACE, &mut streams).await.is_ok() {
        group.mark_ended();
        return Ok(status);
    }
    group.kill();
    // Only a process that deliberately left the group can still hold the output.
    let _ = tokio::time::timeout(OUTPUT_GRACE, &mut streams).await;
    Ok(status)
}

fn build_command(input: &ToolInput<'_>) -> Result<(Command, String), ErrorInfo> {
    if let Some(argv) = input.list("argv")? {
        let mut words = argv.iter().map(plain_text);
        let program = words.next().filter(|program| !program.is_empty());
        let program = program.ok_or_else(|| bad_input("`argv` of `shell` has no program"))?;
        let mut command = Command::new(&program);
        command.args(words);
        return Ok((command, format!("`{}`", first_line(&program))));
    }
    let text = shell_text(input)?;
    let shell = input.text("shell")?.unwrap_or("sh");
    let mut command = Command::new(shell);
    // `-e` stops at the first command that fails, as a list of commands requires.
    command.args(["-e", "-c", &text]);
    Ok((command, format!("`{}`", first_line(&display_command(text, input)?))))
}

/// Returns the command for messages, with variables of templates displayed as templates. Their values may be private.
fn display_command(mut text: String, input: &ToolInput<'_>) -> Result<String, ErrorInfo> {
    for (name, _) in input.object("values")?.into_iter().flat_map(Map::iter) {
        for spelled in [format!("'\"${{{name}}}\"'"), format!("\"${{{name}}}\""), format!("${{{name}}}")] {
            text = text.replace(&spelled, "{{ … }}");
        }
    }
    Ok(text)
}

fn shell_text(input: &ToolInput<'_>) -> Result<String, ErrorInfo> {
    let hint = "give `command` (a text), `cmds` (several texts) or `argv` (a program and its arguments)";
    let text = match (input.text("command")?, input.list("cmds")?) {
        (Some(command), _) => command.to_owned(),
        (None, Some(commands)) => {
            let lines: Option<Vec<&str>> = commands.iter().map(Value::as_str).collect();
            lines.ok_or_else(|| bad_input("`cmds` of `shell` has an entry that is not a string"))?.join("\n")
        }
        (None, None) => String::new(),
    };
    if text.trim().is_empty() { Err(bad_input("`shell` has nothing to run").hint(hint)) } else { Ok(text) }
}

/// Returns the first line, for messages.
fn first_line(text: &str) -> String {
    let text = call_redaction().redact_text(text);
    let line = text.trim().lines().next().unwrap_or_default();
    let cut: String = line.chars().take(60).collect();
    if cut.len() < text.trim().len() { format!("{cut}…") } else { cut }
}

fn build_environment(
    options: &ShellOptions,
    call: &ToolCall,
    input: &ToolInput<'_>,
) -> Result<BTreeMap<String, String>, ErrorInfo> {
    let mut all: BTreeMap<String, String> = options.env.iter().cloned().collect();
    all.insert("WINDLASS_KEY".to_owned(), call.key.to_string());
    all.insert("WINDLASS_RUN".to_owned(), call.run.to_string());
    all.insert("WINDLASS_ATTEMPT".to_owned(), call.attempt.to_string());
    for field in ["env", "values"] {
        for (name, value) in input.object(field)?.into_iter().flat_map(Map::iter) {
            let usable = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let text = plain_text(value);
            if !usable || name.as_bytes()[0].is_ascii_digit() {
                return Err(bad_input(format!("`{name}` in `{field}` cannot name a variable"))
                    .hint("letters, digits and `_`, no digit first"));
            }
            if text.contains('\0') {
                return Err(bad_input(format!(
                    "`{name}` in `{field}` contains a NUL character, which a variable cannot"
                )));
            }
            all.insert(name.to_string(), text);
        }
    }
    Ok(all)
}

fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

fn exit_error(status: ExitStatus, shown: &str, err: &StreamCapture) -> Option<ErrorInfo> {
    if status.success() {
        return None;
    }
    let code = exit_code(status);
    let how = match status.signal() {
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("ended with exit code {code}"),
    };
    let stderr = err.text();
    let last = stderr.trim().lines().last().map(first_line).filter(|line| !line.is_empty());
    let message = last.map_or_else(|| format!("{shown} {how}"), |last| format!("{shown} {how}: {last}"));
    let error = ErrorInfo::new(format!("exit_{code}"), "shell", message);
    // An exit code is a reply; a program that was killed has given none.
    Some(if status.code().is_some() { error.replied() } else { error })
}

fn cannot_start(shown: &str, error: &std::io::Error) -> ErrorInfo {
    let info = ErrorInfo::new("CannotStart", "shell", format!("{shown} cannot be run: {error}"));
    match error.kind() {
        std::io::ErrorKind::NotFound => info.hint("is the program installed, and is `cwd` a folder that exists?"),
        std::io::ErrorKind::ArgumentListTooLong => {
            info.hint("one value may have 128 KiB: give large values as `stdin`")
        }
        _ => info,
    }
}
