//! The program as a server, and a plain HTTP client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::crash::worker::WorkerProcess;

/// No operation takes this long; a longer wait means a hang.
const HANG_TIMEOUT: Duration = Duration::from_secs(300);

/// Interval between checks of an external condition.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A listening server process, killed on drop.
pub struct ServerProcess {
    child: Child,
    address: String,
    token: String,
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port of a server and the lease time of its workers.
#[derive(Clone, Copy, Default)]
pub struct ServerProcessOptions {
    /// 0 chooses a free port.
    pub port: u16,
    pub lease_seconds: Option<u64>,
}

impl ServerProcess {
    /// Starts a server on a new store, or on one that another server has left. It may call services of this machine.
    pub fn start(folder: &Path, extra: &[&str]) -> ServerProcess {
        ServerProcess::start_with(folder, ServerProcessOptions::default(), extra)
    }

    pub fn start_with(folder: &Path, options: ServerProcessOptions, extra: &[&str]) -> ServerProcess {
        ServerProcess::launch(folder, options, extra, &[])
    }

    /// Starts a server whose process has these environment variables too.
    pub fn start_with_variables(folder: &Path, variables: &[(&str, &Path)]) -> ServerProcess {
        ServerProcess::launch(folder, ServerProcessOptions::default(), &[], variables)
    }

    fn launch(
        folder: &Path,
        options: ServerProcessOptions,
        extra: &[&str],
        variables: &[(&str, &Path)],
    ) -> ServerProcess {
        let settings = folder.join("windlass.toml");
        let lease = options.lease_seconds.map_or(String::new(), |seconds| format!("lease = \"PT{seconds}S\"\n"));
        let rules = format!("[server]\nrate_per_second = 1000000\n{lease}[server.outbound]\nallow = [\"127.0.0.1\"]\n");
        std::fs::write(&settings, rules).expect("settings can be written");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).expect("a log");
        let mut command = Command::new(crate::crash::program());
        let bind = format!("127.0.0.1:{}", options.port);
        command.args(["serve", "--json", "--log", "json", "--bind", &bind]).args(extra);
        command.arg("--store").arg(folder.join("store")).arg("--config").arg(settings);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).envs(variables.iter().copied());
        let mut child = command.spawn().expect("the program can be started");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it prints its address");
        let startup: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("the server does not start: {line}{}", read_log(folder).join("\n")));
        let text = |name: &str| startup[name].as_str().unwrap_or_default().to_owned();
        let token = std::fs::read_to_string(text("token_file")).unwrap_or_default().trim().to_owned();
        ServerProcess { child, address: text("address").trim_start_matches("http://").to_owned(), token }
    }

    /// Kills the process without a shutdown.
    pub fn kill(mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &pid]).status().expect("`kill` runs");
        assert!(status.success());
    }

    /// Waits until the process exits.
    pub fn wait_for_exit(mut self) -> ExitStatus {
        let mut status = None;
        wait_until(|| {
            status = self.child.try_wait().expect("it can be waited for");
            status.is_some()
        });
        status.expect("it has ended")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn port(&self) -> u16 {
        let port = self.address.rsplit(':').next().and_then(|port| port.parse().ok());
        port.expect("an address has a port")
    }

    pub fn token(&self) -> String {
        self.token.clone()
    }

    /// Starts a worker process in its own folder, which has nothing but the address and the token.
    pub fn worker(&self, folder: &Path, name: &str, args: &[&str]) -> WorkerProcess {
        WorkerProcess::start(folder, name, &self.url(), &self.token, args)
    }

    pub fn client(&self) -> TestClient {
        TestClient { address: self.address.clone(), token: self.token.clone(), stream: None }
    }

    pub fn wait_until_ready(&self) -> Duration {
        let (begun, mut client) = (Instant::now(), self.client());
        wait_until(|| client.request("GET", "/readyz", None).is_ok_and(|(status, _)| status == 200));
        begun.elapsed()
    }
}

/// Returns a port for a server that is restarted. It is below the ephemeral ports, so that no other program gets it
/// by chance while the server is down.
pub fn fixed_port() -> u16 {
    let from = 20_000 + (std::process::id() % 10_000) as u16;
    let free = (from..32_000).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.expect("a free port")
}

/// Returns the log lines of the servers in this folder.
pub fn read_log(folder: &Path) -> Vec<String> {
    let path: PathBuf = folder.join("log");
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Waits until an external condition becomes true.
pub fn wait_until(mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < HANG_TIMEOUT, "the condition did not become true in time");
        // The awaited processes need the processor more.
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// A client with one connection, reused while it lasts.
pub struct TestClient {
    address: String,
    token: String,
    stream: Option<BufReader<TcpStream>>,
}

impl TestClient {
    /// Returns the status and the body. After an error it is unknown whether the request was executed.
    pub fn request(&mut self, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<(u16, Value)> {
        let (status, body) = self.exchange(method, path, body)?;
        Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    fn exchange(&mut self, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<(u16, Vec<u8>)> {
        let kept = self.stream.is_some();
        let mut result = self.exchange_once(method, path, body);
        // The server may have closed an idle connection.
        if result.is_err() && kept && method == "GET" {
            self.stream = None;
            result = self.exchange_once(method, path, body);
        }
        if result.is_err() {
            self.stream = None;
        }
        result
    }

    fn exchange_once(&mut self, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<(u16, Vec<u8>)> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(&self.address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(HANG_TIMEOUT))?;
                BufReader::new(stream)
            }
        };
        let stream = self.stream.insert(stream);
        let text = body.map(Value::to_string).unwrap_or_default();
        let (address, token, length) = (&self.address, &self.token, text.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{text}"
        );
        stream.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        let gone = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        if stream.read_line(&mut line)? == 0 {
            return Err(gone());
        }
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(gone)?;
        let mut length = 0;
        loop {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Err(gone());
            }
            let lower = line.trim().to_ascii_lowercase();
            if lower.is_empty() {
                break;
            }
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(|_| gone())?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        Ok((status, body))
    }

    /// Returns the body of a route that does not return JSON.
    pub fn text(&mut self, path: &str) -> String {
        let (status, body) = self.exchange("GET", path, None).expect("an answer");
        let body = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Returns the body of a request that must succeed.
    pub fn get(&mut self, path: &str) -> Value {
        let (status, body) = self.request("GET", path, None).expect("an answer");
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub fn register(&mut self, name: &str, source: &str) {
        self.register_for(name, source, &serde_json::json!({}));
    }

    /// Registers a definition for workers with these labels.
    pub fn register_for(&mut self, name: &str, source: &str, labels: &Value) {
        let body = serde_json::json!({ "name": name, "source": source, "labels": labels });
        let (status, answer) = self.request("POST", "/api/v1/definitions", Some(&body)).expect("an answer");
        assert!(status < 300, "{name}: {answer:#}");
    }

    pub fn start(&mut self, definition: &str, id: &str, input: &Value) -> std::io::Result<(u16, Value)> {
        let body = serde_json::json!({ "definition": definition, "id": id, "input": input });
        self.request("POST", "/api/v1/runs", Some(&body))
    }

    /// Returns the statuses of all root runs by id.
    pub fn statuses(&mut self) -> std::collections::BTreeMap<String, String> {
        let mut found = std::collections::BTreeMap::new();
        let mut before = String::new();
        loop {
            let page = self.get(&format!("/api/v1/runs?limit=500{before}"));
            for item in page["items"].as_array().expect("a page") {
                let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
                assert!(found.insert(text("run"), text("status")).is_none(), "a run is listed twice");
            }
            match page["next"].as_i64() {
                Some(next) => before = format!("&before={next}"),
                None => return found,
            }
        }
    }
}
