//! `windlass serve` and `windlass worker` as processes, and a plain HTTP client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
#[cfg(target_os = "linux")]
use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use super::TestDir;

/// Maximum wait of a test: nothing takes this long, so a longer wait is a hang.
const HANG: Duration = Duration::from_secs(300);

/// The interval between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Waits for an external condition to become true.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < HANG, "the condition did not become true in time: {what}");
        // The processes waited for need the processor more.
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// A process with captured output. It is killed when a test fails.
pub(crate) struct CapturedProcess {
    child: Child,
    captured: [Arc<Mutex<Vec<u8>>>; 2],
    readers: Vec<JoinHandle<()>>,
}

impl Drop for CapturedProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl CapturedProcess {
    pub(crate) fn start(mut command: Command) -> CapturedProcess {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let captured: [Arc<Mutex<Vec<u8>>>; 2] = Default::default();
        let out: Box<dyn Read + Send> = Box::new(child.stdout.take().expect("its stdout"));
        let err: Box<dyn Read + Send> = Box::new(child.stderr.take().expect("its stderr"));
        let read_stream = |(mut from, keep): (Box<dyn Read + Send>, Arc<Mutex<Vec<u8>>>)| {
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(length @ 1..) = from.read(&mut bytes) {
                    keep.lock().expect("no thread panicked").extend_from_slice(&bytes[..length]);
                }
            })
        };
        let readers = [out, err].into_iter().zip(captured.clone()).map(read_stream).collect();
        CapturedProcess { child, captured, readers }
    }

    fn captured_text(&self, which: usize) -> String {
        String::from_utf8_lossy(&self.captured[which].lock().expect("no thread panicked")).into_owned()
    }

    pub(crate) fn out(&self) -> String {
        self.captured_text(0)
    }

    pub(crate) fn err(&self) -> String {
        self.captured_text(1)
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a process").is_some()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is there");
    }

    /// Limits the size of the process's files to this many bytes from now on; `None` removes the limit.
    #[cfg(target_os = "linux")]
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, limit).expect("it is there");
    }

    /// Stops the process with SIGTERM, unless it has ended, and returns its exit code and all output.
    pub(crate) fn stop(mut self) -> (Option<i32>, String, String) {
        if !self.has_ended() {
            self.signal(Signal::TERM);
        }
        wait_until("it stops", || self.has_ended());
        let code = self.child.wait().expect("a status").code();
        self.readers.drain(..).for_each(|thread| thread.join().expect("read"));
        (code, self.out(), self.err())
    }
}

/// Starts a worker and waits until it is connected.
pub(crate) fn worker(place: &TestDir, url: &str, arguments: &[&str], variables: &[(&str, &str)]) -> CapturedProcess {
    let mut command = place.command(&[&["worker", "--server", url], arguments].concat());
    command.envs(variables.iter().copied());
    let mut worker = CapturedProcess::start(command);
    wait_until("it is connected", || {
        assert!(!worker.has_ended(), "{}", worker.err());
        worker.err().contains("connected")
    });
    worker
}

/// A listening server.
pub(crate) struct TestServer {
    pub process: CapturedProcess,
    pub address: String,
    pub token: String,
}

impl TestServer {
    pub(crate) fn start(place: &TestDir, arguments: &[&str], variables: &[(&str, &str)]) -> TestServer {
        let arguments = [&["serve", "--bind", "127.0.0.1:0", "--json", "--log", "json"], arguments].concat();
        let mut command = place.command(&arguments);
        command.envs(variables.iter().copied());
        let mut process = CapturedProcess::start(command);
        let mut startup = Value::Null;
        wait_until("it says where it is", || {
            startup = serde_json::from_str(&process.out()).unwrap_or_default();
            assert!(!startup.is_null() || !process.has_ended(), "{}{}", process.out(), process.err());
            !startup.is_null()
        });
        let file = startup["token_file"].as_str().expect("where the token is");
        let token = std::fs::read_to_string(place.path("").join(file)).expect("the token").trim().to_owned();
        let address = startup["address"].as_str().expect("an address").trim_start_matches("http://").to_owned();
        TestServer { process, address, token }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends a request and returns the status and the whole response with its head.
    pub(crate) fn request_with_headers(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, Vec<u8>) {
        let mut stream = self.send(method, path, headers, body);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let head = String::from_utf8_lossy(&answer[..answer.len().min(64)]).into_owned();
        (head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status"), answer)
    }

    /// Sends a request and returns the connection, for streaming responses.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).expect("asked");
        stream
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, String) {
        let body = body.map(Value::to_string).unwrap_or_default();
        let bearer = format!("Bearer {}", self.token);
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        let (status, answer) = self.request_with_headers(method, path, &headers, body.as_bytes());
        (status, String::from_utf8_lossy(&answer).into_owned())
    }

    pub(crate) fn json(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let (status, answer) = self.request(method, path, body);
        (status, parse_body(&answer))
    }

    /// Reads a resource that must exist.
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, answer) = self.json("GET", path, None);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    pub(crate) fn register(&self, name: &str, source: &str) {
        self.register_for(name, source, &json!({}));
    }

    pub(crate) fn register_for(&self, name: &str, source: &str, labels: &Value) {
        let body = json!({ "name": name, "source": source, "labels": labels });
        let (status, answer) = self.json("POST", "/api/v1/definitions", Some(&body));
        assert!(status == 201 || status == 200, "{name}: {status} {answer}");
    }

    /// Starts a run and returns it when it has ended.
    pub(crate) fn run_to_end(&self, definition: &str, input: &Value) -> Value {
        let body = json!({ "definition": definition, "input": input, "wait_ms": 60_000 });
        let (status, answer) = self.json("POST", "/api/v1/runs", Some(&body));
        assert_eq!(status, 200, "{definition} has not ended: {answer}");
        answer
    }

    /// Starts a run and returns its id.
    pub(crate) fn start_run(&self, definition: &str, input: &Value) -> String {
        let body = json!({ "definition": definition, "input": input });
        let (status, answer) = self.json("POST", "/api/v1/runs", Some(&body));
        assert_eq!(status, 202, "{definition}: {answer}");
        answer["run"].as_str().expect("its id").to_owned()
    }

    /// Waits for the end of a started run and returns it.
    pub(crate) fn wait_for_end(&self, run: &str) -> Value {
        let begun = Instant::now();
        loop {
            let now = self.json("GET", &format!("/api/v1/runs/{run}"), None).1;
            if !matches!(now["status"].as_str(), Some("running" | "waiting" | "pending") | None) {
                return now;
            }
            std::thread::sleep(POLL_INTERVAL);
            assert!(begun.elapsed() < HANG, "it does not end: {now}\n{}", self.get("/api/v1/workers"));
        }
    }
}

/// Parses the body of a response.
pub(crate) fn parse_body(answer: &str) -> Value {
    let text = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let text = text.find(['{', '[']).map_or("", |at| &text[at..]);
    let read = serde_json::Deserializer::from_str(text).into_iter().next();
    read.and_then(Result::ok).unwrap_or_default()
}

/// Records everything that is read from a connection until it ends.
pub(crate) fn record_stream(stream: TcpStream) -> Arc<Mutex<Vec<u8>>> {
    let recorded: Arc<Mutex<Vec<u8>>> = Arc::default();
    let keep = recorded.clone();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        while let Ok(1..) = reader.read_until(b'\n', &mut line) {
            keep.lock().expect("no thread panicked").append(&mut line);
        }
    });
    recorded
}
