//! A small MCP server over standard input and output or over HTTP. It implements the protocol independently and
//! shares no code with the crate that the client uses.

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The reaction of the server to a message.
pub(crate) enum Reply {
    Answer(Value),
    /// The answer, and a notification that the tool list has changed.
    Changed(Value),
    Nothing,
    Die,
}

fn tool(name: &str, properties: Value) -> Value {
    let schema = json!({"type": "object", "properties": properties});
    json!({"name": name, "description": format!("The tool {name}."), "inputSchema": schema})
}

/// Returns a tool that cannot be offered, if the environment requests one.
fn bad_tool() -> Option<Value> {
    let schema = match std::env::var("MCP_BAD").ok()?.as_str() {
        "no_object" => json!("text"),
        "no_schema" => json!({"type": "foo"}),
        _ => {
            let next = |at: usize| json!({"$ref": format!("#/$defs/d{}", at + 1)});
            let links = (0..40).map(|at| (format!("d{at}"), json!({"anyOf": [next(at), next(at)]})));
            let all: serde_json::Map<String, Value> = links.chain([("d40".to_owned(), json!({}))]).collect();
            json!({"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": all})
        }
    };
    Some(json!({"name": "bad", "inputSchema": schema}))
}

/// Handles one message. `grown`: whether there is one more tool.
pub(crate) fn reply(message: &Value, version: Option<&str>, grown: &AtomicBool) -> Reply {
    let id = message["id"].clone();
    let good = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    let text = |text: String| good(json!({"content": [{"type": "text", "text": text}]}));
    match message["method"].as_str().unwrap_or_default() {
        // The newer protocol, which has no handshake.
        "initialize" if version == Some("2026-07-28") => {
            Reply::Answer(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}}))
        }
        "server/discover" => Reply::Answer(good(json!({
            "resultType": "complete", "supportedVersions": [version], "capabilities": {"tools": {}}, "ttlMs": 0,
            "cacheScope": "private",
        }))),
        "initialize" => {
            let asked = message["params"]["protocolVersion"].as_str().unwrap_or_default();
            let info = json!({"name": "small", "version": "1"});
            let capabilities = json!({"tools": {"listChanged": true}});
            Reply::Answer(good(json!({
                "protocolVersion": version.unwrap_or(asked), "capabilities": capabilities, "serverInfo": info,
            })))
        }
        "tools/list" => Reply::Answer(good(match message["params"]["cursor"].as_str() {
            None => json!({
                "tools": [tool("echo", json!({"text": {"type": "string"}})), tool("mixed", json!({})), tool("fail", json!({}))],
                "nextCursor": "more",
            }),
            Some(_) => {
                let mut names = vec!["refuse", "die", "hang", "grow", "environment", "spawn", "get.key"];
                names.extend(grown.load(Ordering::SeqCst).then_some("grown"));
                json!({"tools": names.into_iter().map(|name| tool(name, json!({}))).chain(bad_tool()).collect::<Vec<_>>()})
            }
        })),
        "tools/call" => match message["params"]["name"].as_str().unwrap_or_default() {
            "echo" => Reply::Answer(text(message["params"]["arguments"]["text"].as_str().unwrap_or("?").to_owned())),
            "mixed" => Reply::Answer(good(json!({"content": [
                {"type": "text", "text": "see"},
                {"type": "image", "mimeType": "image/png", "data": "aGVsbG8h"},
                {"type": "resource", "resource": {"uri": "note://1", "text": "inner"}},
                {"type": "resource_link", "uri": "file:///x", "name": "x"},
            ]}))),
            "fail" => Reply::Answer(good(json!({"content": [{"type": "text", "text": "no luck"}], "isError": true}))),
            "refuse" => {
                Reply::Answer(json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "not today"}}))
            }
            "die" => Reply::Die,
            "grow" => {
                grown.store(true, Ordering::SeqCst);
                Reply::Changed(text("grown".to_owned()))
            }
            "environment" => {
                let mut all: Vec<String> = std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
                all.sort();
                Reply::Answer(text(all.join("\n")))
            }
            "spawn" => {
                let child = std::process::Command::new("sleep").arg("1000").spawn().map(|child| child.id());
                Reply::Answer(text(child.map_or_else(|error| error.to_string(), |id| id.to_string())))
            }
            "get.key" => {
                let key = &message["params"]["_meta"]["windlass/idempotencyKey"];
                Reply::Answer(good(json!({"structuredContent": {"key": key}, "content": []})))
            }
            _ => Reply::Nothing,
        },
        "ping" => Reply::Answer(good(json!({}))),
        _ => Reply::Nothing,
    }
}

/// Serves this process's standard input until it ends.
pub(crate) fn serve_lines() {
    let version = std::env::var("MCP_VERSION").ok();
    let grown = AtomicBool::new(false);
    println!("this line is no message");
    eprintln!("ready");
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap_or_default()) else { continue };
        let mut out = std::io::stdout().lock();
        match reply(&message, version.as_deref(), &grown) {
            Reply::Answer(answer) => writeln!(out, "{answer}").unwrap(),
            Reply::Changed(answer) => {
                writeln!(out, r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}}"#).unwrap();
                writeln!(out, "{answer}").unwrap();
            }
            Reply::Nothing => {}
            Reply::Die => {
                eprintln!("I am dying");
                std::process::exit(3);
            }
        }
        out.flush().unwrap();
    }
}

/// The reply format of the server over HTTP.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum ReplyFormat {
    Json,
    Stream,
}

pub(crate) struct HttpServer {
    pub addr: SocketAddr,
    state: Arc<State>,
    serving: tokio::task::JoinHandle<()>,
}

struct State {
    format: ReplyFormat,
    grown: AtomicBool,
    session: AtomicUsize,
    handshakes: AtomicUsize,
    /// The open streams that receive change notifications.
    listeners: Mutex<Vec<UnboundedSender<std::io::Result<Bytes>>>>,
    /// The problems of received requests.
    wrong: Mutex<Vec<String>>,
}

impl HttpServer {
    pub(crate) async fn start(format: ReplyFormat) -> HttpServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::new(State {
            format,
            grown: AtomicBool::default(),
            session: AtomicUsize::new(1),
            handshakes: AtomicUsize::default(),
            listeners: Mutex::default(),
            wrong: Mutex::default(),
        });
        let serving = tokio::spawn(serve(listener, state.clone()));
        HttpServer { addr, state, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    /// Ends all current sessions.
    pub(crate) fn forget_sessions(&self) {
        self.state.session.fetch_add(1, Ordering::SeqCst);
        self.state.listeners.lock().unwrap().clear();
    }

    pub(crate) fn handshakes(&self) -> usize {
        self.state.handshakes.load(Ordering::SeqCst)
    }

    pub(crate) fn has_listener(&self) -> bool {
        !self.state.listeners.lock().unwrap().is_empty()
    }

    pub(crate) fn wrong(&self) -> Vec<String> {
        self.state.wrong.lock().unwrap().clone()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let state = state.clone();
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, state.clone()));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(request: Request<Incoming>, state: Arc<State>) -> std::io::Result<Response<Pipe>> {
    let session = format!("session-{}", state.session.load(Ordering::SeqCst));
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let given = header("mcp-session-id");
    if header("authorization").as_deref() != Some("Bearer hush-hush-hush") {
        return Ok(status(401));
    }
    let accept = header("accept").unwrap_or_default();
    if request.method() != Method::DELETE
        && !(accept.contains("application/json") && accept.contains("text/event-stream"))
    {
        state.wrong.lock().unwrap().push(format!("accept: {accept}"));
    }
    if given.as_ref().is_some_and(|given| *given != session) {
        return Ok(status(404));
    }
    if given.is_some() && header("mcp-protocol-version").is_none() && request.method() != Method::DELETE {
        state.wrong.lock().unwrap().push("no version in a session".to_owned());
    }
    match *request.method() {
        Method::GET if state.format == ReplyFormat::Json => return Ok(status(405)),
        Method::GET => {
            let (send, pipe) = pipe();
            send.send(Ok(Bytes::from(": hello\n\n"))).unwrap();
            state.listeners.lock().unwrap().push(send);
            return Ok(stream(pipe, &session));
        }
        Method::DELETE => return Ok(status(200)),
        _ => {}
    }
    let body = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap();
    if message["method"] == "initialize" {
        state.handshakes.fetch_add(1, Ordering::SeqCst);
    } else if given.is_none() {
        return Ok(status(400));
    }
    let (send, pipe) = pipe();
    match reply(&message, None, &state.grown) {
        Reply::Nothing if message.get("id").is_some() => {
            // The call hangs: the stream stays open forever.
            std::mem::forget(send);
            Ok(stream(pipe, &session))
        }
        Reply::Nothing => Ok(status(202)),
        Reply::Die => {
            // The reply has begun when the connection breaks.
            let _ = send.send(Ok(Bytes::from(": it takes a while\n\n")));
            tokio::spawn(async move {
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                let _ = send.send(Err(std::io::Error::other("dead")));
            });
            Ok(stream(pipe, &session))
        }
        Reply::Changed(answer) => {
            let word = "data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/tools/list_changed\"}\n\n";
            for listener in state.listeners.lock().unwrap().iter() {
                let _ = listener.send(Ok(Bytes::from(word)));
            }
            Ok(json_rpc_response(answer, &state, &session))
        }
        Reply::Answer(answer) => Ok(json_rpc_response(answer, &state, &session)),
    }
}

fn json_rpc_response(answer: Value, state: &State, session: &str) -> Response<Pipe> {
    let (send, pipe) = pipe();
    if state.format == ReplyFormat::Json {
        let _ = send.send(Ok(Bytes::from(answer.to_string())));
        let mut response = Response::new(pipe);
        response.headers_mut().insert("content-type", "application/json".parse().unwrap());
        response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
        return response;
    }
    // In small pieces, as from a network.
    let text = format!(": ping\r\n\r\nevent: message\r\ndata: {answer}\r\n\r\n");
    for piece in text.as_bytes().chunks(7) {
        let _ = send.send(Ok(Bytes::copy_from_slice(piece)));
    }
    stream(pipe, session)
}

fn stream(pipe: Pipe, session: &str) -> Response<Pipe> {
    let mut response = Response::new(pipe);
    response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
    response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
    response
}

fn status(code: u16) -> Response<Pipe> {
    let (_, pipe) = pipe();
    let mut response = Response::new(pipe);
    *response.status_mut() = code.try_into().unwrap();
    response
}

fn pipe() -> (UnboundedSender<std::io::Result<Bytes>>, Pipe) {
    let (send, receive) = unbounded_channel();
    (send, Pipe(receive))
}

/// A body that streams what is sent to it.
struct Pipe(UnboundedReceiver<std::io::Result<Bytes>>);

impl Body for Pipe {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
