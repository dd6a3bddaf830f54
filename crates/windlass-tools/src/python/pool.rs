//! Interpreters that are kept.

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
use crate::process::Group;
use crate::secret::call_redaction;

const DRIVER: &str = include_str!("driver.py");
/// After so many calls an interpreter is replaced: whatever leaks, leaks a little.
const MAX_CALLS: u32 = 100_000;
const LAST_WORDS: usize = 2000;
/// How long the last words of one that has ended are waited for: who has left its group may hold the pipe open.
const LAST_WORDS_WAIT: Duration = Duration::from_secs(1);

pub(super) struct Pool {
    pub(super) options: PythonOptions,
    slots: Semaphore,
    idle: Mutex<Vec<Interpreter>>,
}

/// Why there is no answer.
pub(super) enum Broken {
    CannotStart(io::Error),
    Died {
        how: String,
        last_words: String,
    },
    /// Something else came than the answer to this call.
    Strayed,
}

impl Pool {
    pub(super) fn new(options: PythonOptions) -> Pool {
        let slots = Semaphore::new(options.max_interpreters.max(1));
        Pool { options, slots, idle: Mutex::default() }
    }

    /// One line there, one line back. When this is dropped in between, the interpreter is killed.
    pub(super) async fn ask(&self, mark: &CallToken, request: String) -> Result<String, Broken> {
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let usable = match &mut idle {
            Some(interpreter) => interpreter.is_silent().await,
            None => false,
        };
        let mut interpreter = match idle.filter(|_| usable) {
            Some(interpreter) => interpreter,
            None => Interpreter::start(&self.options).map_err(Broken::CannotStart)?,
        };
        match interpreter.ask(&request).await {
            // Whatever else it sent would be taken for the answer to the next call.
            Ok(line) if !mark.is_on(&line) || interpreter.says_more().await => Err(Broken::Strayed),
            Ok(line) => {
                interpreter.calls += 1;
                if interpreter.calls < MAX_CALLS && !line.ends_with(",\"retire\":true}\n") {
                    self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(interpreter);
                }
                Ok(line)
            }
            Err(error) => Err(interpreter.died(&error).await),
        }
    }
}

struct Interpreter {
    group: Group,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
    last_words: Arc<Mutex<VecDeque<u8>>>,
    listening: JoinHandle<()>,
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
        // Isolated: neither the folder nor the user's own packages nor PYTHON variables change what code means.
        command.args(["-I", "-u", "-c", DRIVER, &to_json(&limits)]);
        command.env_clear().envs(options.env.iter().map(|(name, value)| (name, value)));
        let mut group = Group::start(command)?;
        let pipes = (group.child.stdin.take(), group.child.stdout.take(), group.child.stderr.take());
        let (Some(requests), Some(replies), Some(errors)) = pipes else {
            return Err(io::Error::other("it has no pipes"));
        };
        let (last_words, ended) = (Arc::default(), Arc::default());
        let listening = tokio::spawn(listen(errors, Arc::clone(&last_words), Arc::clone(&ended)));
        Ok(Interpreter { group, requests, replies: BufReader::new(replies), last_words, listening, ended, calls: 0 })
    }

    /// It runs, and there is nothing to read from it.
    async fn is_silent(&mut self) -> bool {
        // It closed its pipe for errors: it is gone.
        let has_ended = self.ended.load(std::sync::atomic::Ordering::Acquire);
        !has_ended
            && tokio::select! {
                biased;
                _ = self.replies.fill_buf() => false,
                () = std::future::ready(()) => true,
            }
    }

    async fn says_more(&mut self) -> bool {
        tokio::select! {
            biased;
            more = self.replies.fill_buf() => more.is_ok_and(|more| !more.is_empty()),
            () = std::future::ready(()) => false,
        }
    }

    async fn ask(&mut self, request: &str) -> io::Result<String> {
        self.requests.write_all(request.as_bytes()).await?;
        let mut line = String::new();
        match self.replies.read_line(&mut line).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }

    async fn died(mut self, error: &io::Error) -> Broken {
        self.group.kill();
        let how = match self.group.child.wait().await {
            Ok(status) => status.to_string(),
            Err(_) => error.to_string(),
        };
        let _ = tokio::time::timeout(LAST_WORDS_WAIT, &mut self.listening).await;
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        let text = words.iter().copied().collect::<Vec<_>>();
        let text = String::from_utf8_lossy(&text);
        let last_words = if words.len() < LAST_WORDS { text.into() } else { call_redaction().redact_truncated_start(&text) };
        Broken::Died { how, last_words }
    }
}

/// Reads what programs of the code, or a dying interpreter, write past the driver; keeps the end of it.
async fn listen(mut errors: ChildStderr, words: Arc<Mutex<VecDeque<u8>>>, ended: Arc<std::sync::atomic::AtomicBool>) {
    let mut buffer = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut buffer).await {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend(&buffer[..count]);
        let surplus = words.len().saturating_sub(LAST_WORDS);
        words.drain(..surplus);
    }
    ended.store(true, std::sync::atomic::Ordering::Release);
}
