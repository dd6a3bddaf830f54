//! Permission prompts at a terminal.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

/// Asks a user. The answer may take any time.
pub trait PermissionPrompt: Send + Sync {
    /// Returns the line that was entered, or `None` if there is no user.
    fn ask(&self, question: &str) -> io::Result<Option<String>>;
}

/// The terminal of this process: writes to standard error and reads standard input.
pub struct TerminalPrompt;

impl TerminalPrompt {
    /// Returns whether a user can be asked at all.
    pub fn is_available() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }
}

impl PermissionPrompt for TerminalPrompt {
    fn ask(&self, question: &str) -> io::Result<Option<String>> {
        if !TerminalPrompt::is_available() {
            return Ok(None);
        }
        let mut errors = io::stderr().lock();
        // Starts a new line: earlier output on the line is not part of the question.
        write!(errors, "\r\n{question}")?;
        errors.flush()?;
        drop(errors);
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line)?;
        Ok((read > 0).then_some(line))
    }
}

/// Asks on a separate thread, so that an unanswered prompt does not keep the program from ending. The lock is held
/// until this prompt is answered, even if its call was cancelled, so that the next prompt waits.
pub(super) async fn ask_on_thread(
    prompt: Arc<dyn PermissionPrompt>,
    question: String,
    lock: OwnedMutexGuard<()>,
) -> Option<String> {
    let (send, answered) = tokio::sync::oneshot::channel();
    let asking = std::thread::Builder::new().name("permission".to_owned()).spawn(move || {
        // The call may have been cancelled.
        let _ = send.send(prompt.ask(&question));
        drop(lock);
    });
    asking.ok()?;
    answered.await.ok()?.ok().flatten()
}
