//! Asking somebody at a terminal.

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

/// Somebody who answers. It may take as long as it takes.
pub trait PermissionPrompt: Send + Sync {
    /// The line that was answered; None if nobody is there.
    fn ask(&self, question: &str) -> io::Result<Option<String>>;
}

/// The terminal of this process: it asks on standard error and reads standard input.
pub struct TerminalPrompt;

impl TerminalPrompt {
    /// Whether somebody can be asked at all.
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
        // Whatever stood on the line before is not part of the question.
        write!(errors, "\r\n{question}")?;
        errors.flush()?;
        drop(errors);
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line)?;
        Ok((read > 0).then_some(line))
    }
}

/// Waits for the answer on a thread of its own: one that nobody answers any more must not keep the program from ending.
/// The next question is for when this one is answered, also if nobody wants its answer any more.
pub(super) async fn ask_on_thread(
    prompt: Arc<dyn PermissionPrompt>,
    question: String,
    lock: OwnedMutexGuard<()>,
) -> Option<String> {
    let (send, answered) = tokio::sync::oneshot::channel();
    let asking = std::thread::Builder::new().name("permission".to_owned()).spawn(move || {
        // Whoever has asked may be gone.
        let _ = send.send(prompt.ask(&question));
        drop(lock);
    });
    asking.ok()?;
    answered.await.ok()?.ok().flatten()
}
