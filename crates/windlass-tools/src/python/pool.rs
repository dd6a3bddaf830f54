//! The pool of interpreters.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use windlass_value::{Value, to_json};

use super::PythonOptions;
use super::protocol::CallToken;
use crate::process::ProcessGroup;
use crate::secret::call_redaction;

const DRIVER: &str = include_str!("driver.py");
/// Number of calls after which an interpreter is replaced, to bound leaks.
const MAX_CALLS: u32 = 100_000;
const STDERR_TAIL_BYTES: usize = 2000;
/// Maximum wait for the stderr of an ended interpreter: a process that left its group may hold the pipe open.
const STDERR_WAIT: Duration = Duration::from_secs(1);

pub(super) struct InterpreterPool {
    pub(super) options: PythonOptions,
    slots: Semaphore,
    idle: Mutex<Vec<Interpreter>>,
}

/// The reason why there is no reply.
pub(super) enum InterpreterError {
    CannotStart(io::Error),
    Died {
        how: String,
        stderr_tail: String,
    },
    /// Something other than the reply to this call was received.
    UnexpectedOutput,
}

impl InterpreterPool {
    pub(super) fn new(options: PythonOptions) -> InterpreterPool {
        let slots = Semaphore::new(options.max_interpreters.max(1));
        InterpreterPool { options, slots, idle: Mutex::default() }
    }

    /// Sends one line and returns one line. Dropping the future in between kills the interpreter.
    pub(super) async fn call(&self, mark: &CallToken, request: String) -> Result<String, InterpreterError> {
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let usable = match &mut idle {
            Some(interpreter) => interpreter.is_idle().await,
            None => false,
        };
        let mut interpreter = match idle.filter(|_| usable) {
            Some(interpreter) => interpreter,
            None => Interpreter::start(&self.options).map_err(InterpreterError::CannotStart)?,
        };
        match interpreter.exchange(&request).await {
            // Additional output would be mistaken for the reply to the next call.
            Ok(line) if !mark.matches(&line) || interpreter.has_more_output().await => {
                Err(InterpreterError::UnexpectedOutput)
            }
            Ok(line) => {
                interpreter.calls += 1;
                if interpreter.calls < MAX_CALLS && !line.ends_with(",\"retire\":true}\n") {
                    self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(interpreter);
                }
                Ok(line)
            }
            Err(error) => Err(interpreter.into_died(&error).await),
        }
    }
}

struct Interpreter {
    group: ProcessGroup,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
    stderr_tail: Arc<Mutex<VecDeque<u8>>>,
    stderr_reader: JoinHandle<()>,
    ended: Arc<std::sync::atomic::AtomicBool>,
    calls: u32,
}

impl Interpreter {
    fn start(options: &PythonOptions) -> io::Result<Interpreter> {
        let limits = Value::object([
            ("print", Value::from(options.max_print_chars)),
            ("result", options.max_result_bytes.into()),
            ("memory", options.max_memory_bytes.into()),
            ("grown", (options.max_idle_bytes >> 10).into()),
        ]);
        let mut command = Command::new(&options.program);
        // Isolated: the working directory, user packages and PYTHON variables do not affect the code.
        command.args(["-I", "-u", "-c", DRIVER, &to_json(&limits)]);
        command.env_clear().envs(options.env.iter().map(|(name, value)| (name, value)));
        let mut group = ProcessGroup::spawn_piped(command)?;
        let pipes = (group.child.stdin.take(), group.child.stdout.take(), group.child.stderr.take());
        let (Some(requests), Some(replies), Some(errors)) = pipes else {
            return Err(io::Error::other("it has no pipes"));
        };
        let (stderr_tail, ended) = (Arc::default(), Arc::default());
        let stderr_reader = tokio::spawn(read_stderr_tail(errors, Arc::clone(&stderr_tail), Arc::clone(&ended)));
        Ok(Interpreter {
            group,
            requests,
            replies: BufReader::new(replies),
            stderr_tail,
            stderr_reader,
            ended,
            calls: 0,
        })
    }

    /// Returns true if the interpreter runs and has no unread output.
    async fn is_idle(&mut self) -> bool {
        // A closed stderr pipe means that the interpreter has ended.
        let has_ended = self.ended.load(std::sync::atomic::Ordering::Acquire);
        !has_ended
            && tokio::select! {
                biased;
                _ = self.replies.fill_buf() => false,
                () = std::future::ready(()) => true,
            }
    }

    async fn has_more_output(&mut self) -> bool {
        tokio::select! {
            biased;
            more = self.replies.fill_buf() => more.is_ok_and(|more| !more.is_empty()),
            () = std::future::ready(()) => false,
        }
    }

    async fn exchange(&mut self, request: &str) -> io::Result<String> {
        self.requests.write_all(request.as_bytes()).await?;
        let mut line = String::new();
        match self.replies.read_line(&mut line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }

    async fn into_died(mut self, error: &io::Error) -> InterpreterError {
        self.group.kill();
        let how = match self.group.child.wait().await {
            Ok(status) => status.to_string(),
            Err(_) => error.to_string(),
        };
        let _ = tokio::time::timeout(STDERR_WAIT, &mut self.stderr_reader).await;
        let tail = self.stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
        let text = tail.iter().copied().collect::<Vec<_>>();
        let text = String::from_utf8_lossy(&text);
        let stderr_tail =
            if tail.len() < STDERR_TAIL_BYTES { text.into() } else { call_redaction().redact_truncated_start(&text) };
        InterpreterError::Died { how, stderr_tail }
    }
}

/// Reads what child processes of the code or a dying interpreter write to stderr, and keeps the end of it.
async fn read_stderr_tail(
    mut errors: ChildStderr,
    tail: Arc<Mutex<VecDeque<u8>>>,
    ended: Arc<std::sync::atomic::AtomicBool>,
) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let mut words = tail.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend(&buffer[..count]);
        let surplus = words.len().saturating_sub(STDERR_TAIL_BYTES);
        words.drain(..surplus);
    }
    ended.store(true, std::sync::atomic::Ordering::Release);
}
