//! `bash`: runs a shell command with limits on its time and on the kept output.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe::Receiver;
use tokio::process::Command;
use windlass_core::ProcessLimits;
use windlass_runtime::LogStream;
use windlass_tools::{ProcessGroup, Secret, basic_environment};

use crate::ToolSpec;
use crate::builtin::{ToolTimeouts, spec};
use crate::files::WorkFolder;
use crate::secrets;
use crate::tool::{AgentCall, AgentTool, ToolAnswer, ToolAnswerFuture};

/// The time the output may stay open after the shell has ended; then the remaining processes are killed.
const OUTPUT_GRACE: Duration = Duration::from_millis(100);

/// The environment of agents' programs.
#[derive(Clone, Debug)]
pub struct BashOptions {
    /// The complete environment.
    pub env: Vec<(String, String)>,
    /// Redacted from the answers of the registry's tools if they have 8 characters or more.
    pub secrets: Vec<Secret>,
}

impl Default for BashOptions {
    fn default() -> BashOptions {
        BashOptions { env: basic_environment(|_| None), secrets: Vec::new() }
    }
}

impl BashOptions {
    /// Uses these variables except those whose name suggests a secret or whose value is a URL with a login.
    pub fn with_environment(variables: impl IntoIterator<Item = (String, String)>) -> BashOptions {
        let (hidden, mut env): (Vec<_>, Vec<_>) =
            variables.into_iter().partition(|(name, value)| secrets::is_secret(name, value));
        let secrets = hidden.iter().flat_map(|(name, value)| secrets::secrets_of_variable(name, value)).collect();
        if !env.iter().any(|(name, _)| name == "PATH") {
            env.extend(basic_environment(|_| None));
        }
        BashOptions { env, secrets }
    }
}

/// Runs shell commands in the work folder. Nothing confines them, so permit this tool with care.
pub(crate) struct BashTool {
    options: Arc<BashOptions>,
    timeouts: ToolTimeouts,
    max_output_bytes: usize,
}

impl BashTool {
    pub(crate) fn new(options: BashOptions, limits: &ProcessLimits) -> BashTool {
        let (options, timeouts) = (Arc::new(options), ToolTimeouts::from_limits(limits));
        BashTool { options, timeouts, max_output_bytes: limits.max_agent_answer_bytes }
    }
}

impl AgentTool for BashTool {
    fn spec(&self) -> ToolSpec {
        spec(
            "bash",
            "Runs a command in a shell, in the work folder, and returns its combined output and errors, with the exit code \
             if it is not 0. It has no input; on timeout it is killed with all its child processes.",
            &r#"{"type": "object", "properties": {
                "command": {"type": "string", "minLength": 1, "description": "a text for the shell"},
                "timeout": TIMEOUT
            }, "required": ["command"], "additionalProperties": false}"#
                .replace("TIMEOUT", &self.timeouts.schema()),
        )
    }

    fn call(&self, call: AgentCall) -> ToolAnswerFuture {
        let (options, limit) = (self.options.clone(), call_timeout(&call, self.timeouts));
        let output = CapturedOutput::new(self.max_output_bytes);
        Box::pin(async move {
            match run(&options, &call, limit, output).await {
                Ok(answer) => answer,
                Err(error) => ToolAnswer::error(format!("the command cannot be run: {error}")),
            }
        })
    }
}

async fn run(
    options: &BashOptions,
    call: &AgentCall,
    limit: Duration,
    mut output: CapturedOutput,
) -> std::io::Result<ToolAnswer> {
    if let Err(problem) = WorkFolder::open(&call.folder, &call.protected) {
        return Ok(ToolAnswer::error(problem));
    }
    let (reader, writer) = std::io::pipe()?;
    let mut command = Command::new(shell(&options.env));
    command.arg("-c").arg(call.text("command").unwrap_or_default());
    command.env_clear().envs(options.env.iter().cloned()).current_dir(&call.folder);
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    // Drops the command and with it this process's write end of the pipe; otherwise the reader would never see the end.
    let mut group = ProcessGroup::spawn(command)?;
    let watching = watch(&mut group, Receiver::from_owned_fd(reader.into())?, &mut output);
    let ended = tokio::time::timeout(limit, watching).await;
    group.kill();
    let text = output.text();
    call.call.log.write(LogStream::Stdout, &text);
    Ok(match ended {
        Ok(status) => answer_from_status(status?, text),
        Err(_) => {
            let note = format!("killed: it did not end within {} seconds", limit.as_secs_f64());
            ToolAnswer::error(with_note(text, &note))
        }
    })
}

fn call_timeout(call: &AgentCall, timeouts: ToolTimeouts) -> Duration {
    let seconds = call.arguments().get("timeout").and_then(windlass_value::Value::as_f64);
    let seconds = seconds.unwrap_or(timeouts.default).min(timeouts.max).max(0.001);
    let own = Duration::from_secs_f64(seconds);
    call.call.timeout.map_or(own, |timeout| own.min(timeout.to_std()))
}

/// Returns `bash` if it exists, else `sh`.
fn shell(env: &[(String, String)]) -> &'static str {
    let path = env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value.as_str());
    let has_bash = std::env::split_paths(path).any(|folder| folder.join("bash").is_file());
    if has_bash { "bash" } else { "sh" }
}

/// Reads the output and waits for the end. Processes left running in the group are killed.
async fn watch(
    group: &mut ProcessGroup,
    reader: impl AsyncRead + Unpin,
    output: &mut CapturedOutput,
) -> std::io::Result<ExitStatus> {
    let reading = output.read(reader);
    tokio::pin!(reading);
    let status = tokio::select! {
        status = group.child.wait() => status?,
        () = &mut reading => {
            let status = group.child.wait().await?;
            group.mark_ended();
            return Ok(status);
        }
    };
    if tokio::time::timeout(OUTPUT_GRACE, &mut reading).await.is_ok() {
        group.mark_ended();
        return Ok(status);
    }
    group.kill();
    // Only processes that left the group on purpose can still hold the output open.
    let _ = tokio::time::timeout(OUTPUT_GRACE, &mut reading).await;
    Ok(status)
}

fn answer_from_status(status: ExitStatus, text: String) -> ToolAnswer {
    if status.success() {
        return ToolAnswer::success(if text.is_empty() { "(no output)".to_owned() } else { text });
    }
    let note = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended with unknown status".to_owned(),
    };
    ToolAnswer::error(with_note(text, &note))
}

fn with_note(mut text: String, note: &str) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    format!("{text}[{note}]")
}

/// The beginning and the end of the output. The bytes between are counted.
struct CapturedOutput {
    max_bytes: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted_bytes: u64,
}

impl CapturedOutput {
    fn new(max_bytes: usize) -> CapturedOutput {
        CapturedOutput { max_bytes, head: Vec::new(), tail: VecDeque::new(), omitted_bytes: 0 }
    }

    async fn read(&mut self, mut from: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            self.add(&buffer[..count]);
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = (self.max_bytes / 2).saturating_sub(self.head.len());
        let (head, tail) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let surplus = self.tail.len().saturating_sub(self.max_bytes / 2);
        self.tail.drain(..surplus);
        self.omitted_bytes += surplus as u64;
    }

    fn text(mut self) -> String {
        let tail = self.tail.make_contiguous();
        if self.omitted_bytes == 0 {
            self.head.extend_from_slice(tail);
            return String::from_utf8_lossy(&self.head).into_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(tail));
        format!("{head}\n[… {} bytes left out …]\n{tail}", self.omitted_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_variables_are_not_passed_to_programs() {
        let all = [("PATH", "/bin"), ("X_API_KEY", "y"), ("A", "b"), ("U", "http://a:b@c/")];
        let options = BashOptions::with_environment(all.map(|(a, b)| (a.to_owned(), b.to_owned())));
        let names: Vec<&str> = options.env.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, options.secrets.len()), (vec!["PATH", "A"], 4));
    }

    #[test]
    fn long_output_keeps_both_ends() {
        let mut output = CapturedOutput::new(10_000);
        for _ in 0..30 {
            output.add(&[b'x'; 1000]);
        }
        output.add(b"end");
        let text = output.text();
        assert!(text.starts_with('x') && text.ends_with("xend") && text.contains("bytes left out"));
        assert!(text.len() < 10_100);
    }
}
