//! Runs the program in a temporary directory.

#![allow(dead_code)]

pub(crate) mod server;

use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Maximum time that any test waits for anything. No test takes this long: a longer wait is a hang.
const DEADLINE: Duration = Duration::from_secs(300);

pub(crate) struct TestDir {
    directory: TempDir,
}

/// The exit code and output of a command.
pub(crate) struct CommandOutput {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl TestDir {
    pub(crate) fn new() -> TestDir {
        TestDir { directory: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(crate) fn in_directory(parent: &Path) -> TestDir {
        TestDir { directory: tempfile::tempdir_in(parent).expect("a temporary directory") }
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).expect("written");
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Builds a command in this directory, without the machine's own WINDLASS_ variables.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(arguments).current_dir(self.directory.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("WINDLASS_") {
                command.env_remove(name);
            }
        }
        command
    }

    pub(crate) fn windlass(&self, arguments: &[&str]) -> CommandOutput {
        command_output(self.command(arguments).output().expect("the program starts"))
    }

    /// Runs a command that must succeed, and returns its JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let done = self.windlass(arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {}{}", done.out, done.err);
        done.json()
    }

    /// Starts a command and leaves it running; its stdout is read line by line.
    pub(crate) fn start(&self, arguments: &[&str]) -> RunningCommand {
        start_command(self.command(arguments))
    }
}

/// Starts a command and leaves it running; its stdout is read line by line.
pub(crate) fn start_command(mut command: Command) -> RunningCommand {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let lines = BufReader::new(child.stdout.take().expect("its stdout")).lines();
    let process = process(&child);
    let (alive, deadline) = mpsc::channel::<()>();
    // Tests wait only for output of this process: killing it ends the wait and fails the test.
    std::thread::spawn(move || {
        if deadline.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = kill_process(process, Signal::KILL);
        }
    });
    RunningCommand { child, lines, _alive: alive }
}

pub(crate) fn command_output(output: Output) -> CommandOutput {
    CommandOutput {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("UTF-8"),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

impl CommandOutput {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    pub(crate) fn has(&self, part: &str) -> &CommandOutput {
        assert!(self.out.contains(part) || self.err.contains(part), "no {part:?} in\n{}\n{}", self.out, self.err);
        self
    }

    pub(crate) fn exits(&self, code: i32) -> &CommandOutput {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }
}

/// A running command. It is killed when a test fails.
pub(crate) struct RunningCommand {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    _alive: mpsc::Sender<()>,
}

impl RunningCommand {
    pub(crate) fn line(&mut self) -> String {
        self.lines.next().expect("one more line").expect("UTF-8")
    }

    /// Reads until a line contains this text, and returns that line.
    pub(crate) fn line_with(&mut self, part: &str) -> String {
        loop {
            let line = self.line();
            if line.contains(part) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(process(&self.child), signal).expect("signalled");
    }

    /// Waits for the end and returns the rest of the output.
    pub(crate) fn finish(mut self) -> CommandOutput {
        let out: Vec<String> = self.lines.by_ref().map(|line| line.expect("UTF-8")).collect();
        let mut err = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            std::io::Read::read_to_string(&mut stderr, &mut err).expect("UTF-8");
        }
        let status = self.child.wait().expect("it ends");
        CommandOutput { code: status.code(), out: out.join("\n"), err }
    }
}

/// Returns a port for a server that is restarted. It is below the ephemeral range, so that no other process gets it
/// by chance while the server is down.
pub(crate) fn reserved_port() -> u16 {
    let from = 20_000 + (std::process::id() % 10_000) as u16;
    let free = (from..32_000).find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.expect("a free port")
}

fn process(child: &Child) -> Pid {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id")
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A workflow that counts to `iterations`, with a delay between two iterations.
pub(crate) fn counting(iterations: u32, delay: &str) -> String {
    format!(
        r#"{{
  "name": "counting",
  "actions": {{
    "prepare": {{ "type": "InitializeVariable", "inputs": {{ "variables": [{{ "name": "n", "type": "integer", "value": 0 }}] }} }},
    "count": {{
      "type": "until",
      "condition": "@greaterOrEquals(variables('n'), {iterations})",
      "actions": {{ "add": {{ "type": "IncrementVariable", "inputs": {{ "name": "n" }} }} }},
      "limit": {{ "count": 100, "timeout": "PT12H" }},
      "delay": "{delay}",
      "runAfter": {{ "prepare": ["Succeeded"] }}
    }}
  }},
  "outputs": {{ "n": {{ "type": "Int", "value": "@variables('n')" }} }}
}}"#
    )
}
