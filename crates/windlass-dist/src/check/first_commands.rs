//! The first commands of a new user, with an installed program.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::output;

/// A loop that every dialect's beginner starts with.
const DEFINITION: &str = include_str!("../../../../examples/loom/counting.json");

/// Maximum time for a server to start, also in an emulator.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A program as it was installed, and a folder to try it in.
pub(crate) struct InstalledProgram {
    /// The command line that starts the program, without its arguments.
    pub command: Vec<String>,
    /// All variables of the program. It sees none of this machine's: they could name another store or a proxy.
    pub variables: Vec<(String, String)>,
    /// The folder, as this machine sees it.
    pub outside: PathBuf,
    /// The same folder, as the program sees it.
    pub inside: String,
    /// The arguments that start the server, without its address.
    pub serve: Vec<String>,
    /// The address that the server binds to.
    pub bind: IpAddr,
}

impl InstalledProgram {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut words = self.command.iter();
        let mut command = Command::new(words.next().map_or("windlass", String::as_str));
        command.args(words).args(arguments).current_dir(&self.outside);
        command.env_clear().envs(self.variables.iter().cloned());
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

/// Asks the program for its version, whose lines must contain the expected ones.
pub(crate) fn try_version(program: &InstalledProgram, expected: &[String]) -> Result<(), String> {
    expected.iter().try_for_each(|expected| program.run(&["--version"], expected))
}

/// Checks, runs and inspects a definition, then starts a server and stops it.
pub(crate) fn try_first_commands(program: &InstalledProgram) -> Result<(), String> {
    let file = program.outside.join("counting.json");
    std::fs::write(&file, DEFINITION).map_err(|error| format!("{}: {error}", file.display()))?;
    let file = format!("{}/counting.json", program.inside);
    program.run(&["check", &file], "")?;
    program.run(&["run", &file, "--virtual-time"], "\"counted\": 12")?;
    program.run(&["list"], "succeeded")?;
    program.run(&["status", "last"], "succeeded")?;
    program.run(&["iterations", "last", "count"], "succeeded")?;
    program.run(&["explain", "WND-2001"], "WND-2001")?;
    try_server(program)
}

fn try_server(program: &InstalledProgram) -> Result<(), String> {
    let bind = SocketAddr::new(program.bind, 0).to_string();
    let arguments = program.serve.iter().map(String::as_str).chain(["--bind", &bind, "--json"]);
    let mut command = program.command(&arguments.collect::<Vec<_>>());
    let server = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut server = RunningServer(server.map_err(|error| format!("{command:?}: {error}"))?);
    let mut address = server.address()?;
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    wait_for_health(program)?;
    let page = get(address, "/").map_err(|error| format!("{address}: {error}"))?;
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
    /// Reads the address from the first line, such as `http://127.0.0.1:7117`.
    fn address(&mut self) -> Result<SocketAddr, String> {
        let stdout = self.0.stdout.as_mut().ok_or("the server has no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        let started: serde_json::Value =
            serde_json::from_str(&line).map_err(|error| format!("the server printed {line:?}: {error}"))?;
        let address = started["address"].as_str().and_then(|address| address.strip_prefix("http://"));
        let address = address.and_then(|address| address.parse().ok());
        address.ok_or_else(|| format!("the server printed no address: {line}"))
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

fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
