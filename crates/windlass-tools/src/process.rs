//! Child processes of tools: each runs in its own process group, so that everything it started ends with it.

mod reaper;

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use crate::log_lines::LogLines;
use crate::secret::call_redaction;

/// Returns the variables that a program usually needs.
pub fn basic_environment(lookup: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let found = ["PATH", "HOME", "LANG"].into_iter().filter_map(|name| Some((name.to_owned(), lookup(name)?)));
    let mut env: Vec<(String, String)> = found.collect();
    if !env.iter().any(|(name, _)| name == "PATH") {
        env.push(("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()));
    }
    env
}

/// A running program and all processes it started. Dropping this before [`ProcessGroup::mark_ended`] kills the whole
/// group; so does killing this process.
pub struct ProcessGroup {
    pub child: Child,
    group: Option<Pid>,
}

impl ProcessGroup {
    /// Starts the command with pipes for stdin, stdout and stderr.
    pub(crate) fn spawn_piped(mut command: Command) -> std::io::Result<ProcessGroup> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        ProcessGroup::spawn(command)
    }

    /// Starts the command with the stdin, stdout and stderr it specifies.
    pub fn spawn(mut command: Command) -> std::io::Result<ProcessGroup> {
        reaper::announce_start();
        let started =
            command.process_group(0).kill_on_drop(true).env(reaper::MARK_VARIABLE, reaper::mark_value()).spawn();
        let number = |child: &Child| child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = started.as_ref().ok().and_then(number);
        reaper::report_started(group);
        Ok(ProcessGroup { child: started?, group })
    }

    /// Kills the program and everything it started.
    pub fn kill(&mut self) {
        if let Some(group) = self.group.take() {
            // It may just have ended.
            let _ = kill_process_group(group, Signal::KILL);
            reaper::report_ended(group);
        }
    }

    /// Records that the program has ended and no process of it holds its output. The group id may be reused from now
    /// on.
    pub fn mark_ended(&mut self) {
        if let Some(group) = self.group.take() {
            reaper::report_ended(group);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The output of a stream up to a limit. The rest is read and discarded, so that the program is not blocked. While it is
/// read, its lines go to the log of the call.
#[derive(Default)]
pub(crate) struct StreamCapture {
    bytes: Vec<u8>,
    pub(crate) truncated: bool,
}

impl StreamCapture {
    pub(crate) async fn read(&mut self, mut from: impl AsyncRead + Unpin, max: usize, mut lines: LogLines) {
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            lines.feed(&buffer[..count]);
            let room = max.saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(&buffer[..count.min(room)]);
            self.truncated |= count > room;
        }
    }

    /// Returns the text, with the secrets of the call redacted.
    pub(crate) fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        if self.truncated { call_redaction().redact_truncated_end(&text) } else { call_redaction().redact_text(&text) }
    }
}
