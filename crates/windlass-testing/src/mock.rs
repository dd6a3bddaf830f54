//! A service on loopback that replies as a script says, for examples and trials without a network. The same requests
//! in the same order get the same replies; a request that the script does not cover gets a 500 that describes it.
//!
//! ```json
//! {
//!   "routes": [
//!     {"method": "GET", "path": "/items", "query": {"page": "2"}, "replies": [{"body": {"items": []}}]},
//!     {"path": "/jobs/*", "replies": [{"status": 202, "headers": {"Location": "/jobs/1"}}, {"body": "done"}]},
//!     {"path": "/echo", "replies": [{"body": "$echo", "after_ms": 20}]}
//!   ],
//!   "model": [
//!     {"when": {"contains": "weather", "turn": 1}, "reply": "busy", "status": 429, "retry_after": 1},
//!     {"when": {"contains": "weather"}, "reply": {"sky": "blue"}, "usage": {"input_tokens": 5, "output_tokens": 2}},
//!     {"reply": "I do not know."}
//!   ]
//! }
//! ```
//!
//! - The first matching route replies. It matches by its method (any, if not given), its path (a final `*` stands for
//!   the rest) and all values of its `query`. Its replies are used in order, and the last one repeats.
//! - A body is sent as JSON, a text as text, `{"$content-type", "$content"}` as those bytes, and `"$echo"` as the
//!   request: method, path, query, headers, body.
//! - `model` replies to `POST …/chat/completions` and `POST …/v1/messages`, whole or as a stream. The first matching
//!   rule replies. Its conditions are `step` and `model` (with `*` as wildcard), `role`, `turn`, `attempt`, `pass`,
//!   `contains` (in any message), `last_contains` (in messages since the model's last one) and `tool` (an offered
//!   tool). Step, role, turn and attempt come from the headers that agents send; without them, `turn` counts the
//!   requests that match the rest of the rule, from 1.
//! - A reply has `reply` (anything but text is sent as its JSON text) or `text`, `calls [{name, arguments}]`,
//!   `usage`, `stop`, `after_ms`, `status` with `retry_after`, or a `fault`: `truncated`, `malformed`, `hang`.
//!   `replies` has one entry per turn; an entry that is a list has one reply per attempt.

mod body;
pub(crate) mod listener;
mod log;
mod model;
pub(crate) mod received;
mod respond;
mod rules;
mod script;
mod wire;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use script::Script;

use listener::HttpListener;
use log::ModelLog;
use respond::ScriptState;

/// A running script. Dropping it closes its connections and its port.
pub struct MockService {
    listener: HttpListener,
    state: Arc<ScriptState>,
}

/// One request and its reply, for observers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedRequest {
    pub method: String,
    /// The path including the query.
    pub path: String,
    pub status: u16,
    /// The part of the script that replied: `route 2, reply 1`, `model rule 3`, or the reason why none did.
    pub by: String,
}

/// A turn of a conversation that a model was called for. Empty and 0 stand for values the client does not send.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelRequest {
    pub run: String,
    pub step: String,
    pub turn: u64,
    pub attempt: u64,
}

#[derive(Clone, Debug, Default)]
pub struct MockOptions {
    /// 0 chooses a free port.
    pub port: u16,
    /// A file that receives a line of JSON for every request to the model, before the reply is sent.
    pub log: Option<PathBuf>,
}

impl MockService {
    /// Starts the service on this port of 127.0.0.1, or on a free one if it is 0.
    pub fn start(script: Script, port: u16) -> io::Result<MockService> {
        MockService::with_observer(script, port, |_| {})
    }

    /// Starts the service with an observer of every answered request.
    pub fn with_observer(
        script: Script,
        port: u16,
        on_request: impl Fn(&ServedRequest) + Send + Sync + 'static,
    ) -> io::Result<MockService> {
        MockService::with_options(script, &MockOptions { port, log: None }, on_request)
    }

    /// Starts the service with an observer and a log.
    pub fn with_options(
        script: Script,
        options: &MockOptions,
        on_request: impl Fn(&ServedRequest) + Send + Sync + 'static,
    ) -> io::Result<MockService> {
        let log = ModelLog::open(options.log.as_deref())?;
        let state = Arc::new(ScriptState::new(script, log, Box::new(on_request)));
        let shared = state.clone();
        let answer = move |request| respond::handle(request, shared.clone());
        let listener = HttpListener::start("mock-service", options.port, answer)?;
        Ok(MockService { listener, state })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.listener.addr()
    }

    /// Returns the URL of a path (`/items`) of this service.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr())
    }

    /// Returns the value for a model's `base_url`.
    pub fn model_url(&self) -> String {
        self.url("/v1")
    }

    /// Returns the number of all requests so far.
    pub fn requests(&self) -> u64 {
        self.listener.requests()
    }

    /// Returns the number of requests to the model so far.
    pub fn model_requests(&self) -> u64 {
        self.state.model_requests.load(Ordering::Relaxed)
    }

    /// Returns the number of model requests per turn.
    pub fn model_request_counts(&self) -> BTreeMap<ModelRequest, u64> {
        self.state.log.request_counts()
    }
}
