//! A service on loopback that answers as a script says, for examples and trials without a network. The same requests in
//! the same order get the same answers; what the script does not foresee is a 500 that says what came.
//!
//! ```json
//! {
//!   "routes": [
//!     {"method": "GET", "path": "/items", "query": {"page": "2"}, "replies": [{"body": {"items": []}}]},
//!     {"path": "/jobs/*", "replies": [{"status": 202, "headers": {"Location": "/jobs/1"}}, {"body": "done"}]},
//!     {"path": "/echo", "replies": [{"body": "$echo", "afterMs": 20}]}
//!   ],
//!   "model": [
//!     {"when": {"contains": "weather", "turn": 1}, "reply": "busy", "status": 429, "retryAfter": 1},
//!     {"when": {"contains": "weather"}, "reply": {"sky": "blue"}, "usage": {"promptTokens": 5, "completionTokens": 2}},
//!     {"reply": "I do not know."}
//!   ]
//! }
//! ```
//!
//! - The first route that fits answers: its method (any, if not given), its path (`*` at the end stands for the rest) and
//!   all values of its `query`. Its replies come one after another, and the last one stays.
//! - A body is sent as JSON, a text as text, `{"$content-type", "$content"}` as those bytes, and `"$echo"` as the request:
//!   method, path, query, headers, body.
//! - `model` answers `POST …/chat/completions` and `POST …/v1/messages`, in one piece or as a stream. The first rule that
//!   fits answers: `step` and `model` (with `*` for anything), `role`, `turn`, `attempt`, `pass`, `contains` (any message),
//!   `lastContains` (since the model last spoke), `tool` (one that is offered). Step, role, turn and attempt come from the
//!   headers that agents send; without them, `turn` counts the requests that fit the rest of the rule, from 1.
//! - A reply has `reply` (what is no text is sent as the text of its JSON) or `text`, `calls [{name, arguments}]`, `usage`,
//!   `stop`, `afterMs`, `status` with `retryAfter`, or a `fault`: `truncated`, `malformed`, `hang`. `replies` has one for
//!   each turn; one that is a list has one for each attempt.

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

/// One request and what it got, for whoever watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedRequest {
    pub method: String,
    /// With the query.
    pub path: String,
    pub status: u16,
    /// Which part of the script has answered: `route 2, reply 1`, `model rule 3`, or why none has.
    pub by: String,
}

/// Which turn of which conversation a model was asked for. Empty and 0 stand for what the client does not say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelRequest {
    pub run: String,
    pub step: String,
    pub turn: u64,
    pub attempt: u64,
}

#[derive(Clone, Debug, Default)]
pub struct MockOptions {
    /// 0 is a free one.
    pub port: u16,
    /// A file that gets a line of JSON for every request to the model, before it is answered.
    pub log: Option<PathBuf>,
}

impl MockService {
    /// Listens on this port of 127.0.0.1, or on a free one if it is 0.
    pub fn start(script: Script, port: u16) -> io::Result<MockService> {
        MockService::with_observer(script, port, |_| {})
    }

    /// The same, telling of every request that was answered.
    pub fn with_observer(
        script: Script,
        port: u16,
        on_request: impl Fn(&ServedRequest) + Send + Sync + 'static,
    ) -> io::Result<MockService> {
        MockService::with_options(script, &MockOptions { port, log: None }, on_request)
    }

    /// The same, with a log.
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

    /// The address of a path (`/items`) of this service.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr())
    }

    /// What a model's `base_url` is set to.
    pub fn model_url(&self) -> String {
        self.url("/v1")
    }

    /// All requests so far.
    pub fn requests(&self) -> u64 {
        self.listener.requests()
    }

    /// Those to the model.
    pub fn model_requests(&self) -> u64 {
        self.state.model_requests.load(Ordering::Relaxed)
    }

    /// How often the model was asked for each turn.
    pub fn model_request_counts(&self) -> BTreeMap<ModelRequest, u64> {
        self.state.log.request_counts()
    }
}
