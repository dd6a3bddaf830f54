//! A server that is a program: one message per line, over standard input and output.

use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use windlass_tools::{ProcessGroup, Secret};

/// The time a program has to end by itself after its input was closed.
const GRACE: Duration = Duration::from_secs(2);
const MAX_STDERR_BYTES: usize = 2 << 10;
const STDERR_WAIT: Duration = Duration::from_millis(200);

pub(super) struct McpProgram {
    lines: AsyncRwTransport<RoleClient, ChildStdout, ChildStdin>,
    /// Dropping it kills the program and all its children.
    group: ProcessGroup,
}

pub(super) fn start(
    command: &str,
    args: &[String],
    env: &[(String, Secret)],
    folder: Option<&Path>,
    stderr_tail: StderrTail,
) -> std::io::Result<McpProgram> {
    let mut program = Command::new(command);
    program.args(args).env_clear().envs(env.iter().map(|(name, value)| (name, value.reveal())));
    if let Some(folder) = folder {
        program.current_dir(folder);
    }
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut group = ProcessGroup::spawn(program)?;
    let missing = || std::io::Error::other("it has no input or output");
    let (input, output) = (group.child.stdin.take(), group.child.stdout.take());
    let lines = AsyncRwTransport::new(output.ok_or_else(missing)?, input.ok_or_else(missing)?);
    if let Some(errors) = group.child.stderr.take() {
        stderr_tail.reading.send_replace(true);
        tokio::spawn(stderr_tail.read_to_end(errors));
    }
    Ok(McpProgram { lines, group })
}

impl Transport<RoleClient> for McpProgram {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.lines.send(item)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.lines.receive()
    }

    /// Closes the program's input, which asks it to end.
    async fn close(&mut self) -> Result<(), Self::Error> {
        let closed = self.lines.close().await;
        let _ = tokio::time::timeout(GRACE, self.group.child.wait()).await;
        self.group.kill();
        closed
    }
}

/// The end of a program's standard error: often the only hint at the cause of a failure.
#[derive(Clone, Default)]
pub(super) struct StderrTail {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Whether standard error is still being read.
    reading: Arc<watch::Sender<bool>>,
}

impl StderrTail {
    async fn read_to_end(self, mut errors: impl AsyncRead + Unpin) {
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = errors.read(&mut buffer).await {
            let mut tail = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
            tail.extend_from_slice(&buffer[..count]);
            let surplus = tail.len().saturating_sub(MAX_STDERR_BYTES);
            tail.drain(..surplus);
        }
        self.reading.send_replace(false);
    }

    /// Returns the text as the end of a sentence. Waits for the remaining output of a program that has just ended.
    pub(super) async fn as_suffix(&self) -> String {
        let mut reading = self.reading.subscribe();
        let _ = tokio::time::timeout(STDERR_WAIT, reading.wait_for(|is_reading| !is_reading)).await;
        let tail = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let tail = String::from_utf8_lossy(&tail);
        if tail.trim().is_empty() { String::new() } else { format!("; its last error output: {}", tail.trim()) }
    }
}
