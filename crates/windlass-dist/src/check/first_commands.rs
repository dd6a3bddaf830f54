//! The first commands of a new user, with an installed program.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::output;
use crate::release::Release;

/// A loop that every dialect's beginner starts with.
const DEFINITION: &str = include_str!("../../../../examples/loom/counting.json");

/// Maximum time for a server to start, also in an emulator.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A program as it was installed, and a folder to try it in.
pub(crate) struct InstalledProgram {
    /// The command line that starts the program, without its arguments.
    pub command: Vec<String>,
    /// The folder, as this machine sees it.
    pub outside: PathBuf,
    /// The same folder, as the program sees it.
    pub inside: String,
}

impl InstalledProgram {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut words = self.command.iter();
        let mut command = Command::new(words.next().map_or("windlass", String::as_str));
        command.args(words).args(["--store", &format!("{}/.windlass", self.inside)]).args(arguments);
        command.current_dir(&self.outside).env_remove("WINDLASS_STORE").env_remove("WINDLASS_SERVER");
        command
    }

    fn run(&self, arguments: &[&str], expected: &str) -> Result<(), String> {
        let text = output(&mut self.command(arguments))?;
        match text.contains(expected) {
            true => Ok(()),
            false => Err(format!("`windlass {}` did not print {expected:?} but:\n{text}", arguments.join(" "))),
        }
    }
}

/// Asks the program for its version.
pub(crate) fn try_version(program: &InstalledProgram, release: &Release) -> Result<(), String> {
    program.run(&["--version"], &format!("windlass {} (", release.version))?;
    program.run(&["--version"], "\nfeatures: ")
}

/// Checks, runs and inspects a definition, then starts a server and stops it.
pub(crate) fn try_first_commands(program: &InstalledProgram, release: &Release) -> Result<(), String> {
    let file = program.outside.join("counting.json");
    std::fs::write(&file, DEFINITION).map_err(|error| format!("{}: {error}", file.display()))?;
    let file = format!("{}/counting.json", program.inside);
    try_version(program, release)?;
    program.run(&["check", &file], "")?;
    program.run(&["run", &file, "--virtual-time"], "\"counted\": 12")?;
    program.run(&["list"], "succeeded")?;
    program.run(&["status", "last"], "succeeded")?;
    program.run(&["iterations", "last", "count"], "succeeded")?;
    program.run(&["explain", "WND-2001"], "WND-2001")?;
    try_server(program)
}

fn try_server(program: &InstalledProgram) -> Result<(), String> {
    let mut command = program.command(&["serve", "--bind", "127.0.0.1:0", "--json"]);
    let server = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut server = RunningServer(server.map_err(|error| format!("{command:?}: {error}"))?);
    let address = server.address()?;
    wait_for_health(program)?;
    let page = get(&address, "/").map_err(|error| format!("{address}: {error}"))?;
    if !page.starts_with("HTTP/1.1 200") || !page.to_lowercase().contains("<!doctype html>") {
        return Err(format!("{address} did not answer with the web UI but:\n{page}"));
    }
    server.stop()?;
    match program.command(&["health"]).stderr(Stdio::null()).status() {
        Ok(status) if status.code() == Some(1) => Ok(()),
        other => Err(format!("`windlass health` must end with 1 after the server has stopped: {other:?}")),
    }
}

fn wait_for_health(program: &InstalledProgram) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        match program.run(&["health", "--ready"], "\"ready\"") {
            Err(error) if begun.elapsed() > START_TIMEOUT => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
            Ok(()) => return program.run(&["health"], "\"ok\""),
        }
    }
}

/// A server, which is killed when the check fails.
struct RunningServer(Child);

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl RunningServer {
    /// Reads the address from the first line, such as `127.0.0.1:7117`.
    fn address(&mut self) -> Result<String, String> {
        let stdout = self.0.stdout.as_mut().ok_or("the server has no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        let started: serde_json::Value =
            serde_json::from_str(&line).map_err(|error| format!("the server printed {line:?}: {error}"))?;
        let address = started["address"].as_str().and_then(|address| address.strip_prefix("http://"));
        address.map(str::to_owned).ok_or_else(|| format!("the server printed no address: {line}"))
    }

    /// Stops the server as a service manager does.
    fn stop(&mut self) -> Result<(), String> {
        output(Command::new("kill").args(["-TERM", &self.0.id().to_string()]))?;
        let status = self.0.wait().map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("the server ended with {status} after SIGTERM")),
        }
    }
}

fn get(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
