//! Mock files: one format for the answers to calls of steps ([`StepMocks`]), HTTP requests and questions to models
//! ([`MockService`]). docs/mocks.md describes it.
//!
//! ```yaml
//! mocks:
//!   - when: {step: pages.fetch, iteration: 2, attempt: 1}
//!     error: {code: 503, kind: http, message: busy}
//!   - when: {method: GET, url: /items, query: {page: 2}}
//!     body: {items: []}
//!   - when: {url: "/jobs/*"}
//!     answers: [{status: 202, headers: {Location: /jobs/1}}, {body: done, delay_ms: 20}]
//!   - when: {step: review, role: judge, turn: 1}
//!     calls: [{name: submit_result, arguments: {done: true}}]
//! ```
//!
//! The first rule that matches a call answers it. The same calls in the same order get the same answers. A service
//! answers a request that no rule matches with a 500 that describes it.

mod answers;
mod body;
mod counts;
mod file;
mod import;
mod keywords;
pub(crate) mod listener;
mod log;
mod model;
mod patterns;
pub(crate) mod received;
mod respond;
mod rules;
mod schema;
mod steps;
mod wire;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use answers::MockError;
pub use file::{MockFile, MockFileFormat, UnmatchedSteps};
pub use schema::schema;
pub use steps::{MockableCall, MockedResult, StepAnswer, StepMocks};

use listener::HttpListener;
use log::ModelLog;
use respond::MockState;

/// A running service. Dropping it closes its connections and its port.
pub struct MockService {
    listener: HttpListener,
    state: Arc<MockState>,
}

/// One request and its reply, for observers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedRequest {
    pub method: String,
    /// The path including the query.
    pub path: String,
    pub status: u16,
    /// The rule that answered, such as `rule 2, answer 1`, or the reason why none did.
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
    pub fn start(file: MockFile, port: u16) -> io::Result<MockService> {
        MockService::with_observer(file, port, |_| {})
    }

    /// Starts the service with an observer of every answered request.
    pub fn with_observer(
        file: MockFile,
        port: u16,
        on_request: impl Fn(&ServedRequest) + Send + Sync + 'static,
    ) -> io::Result<MockService> {
        MockService::with_options(file, &MockOptions { port, log: None }, on_request)
    }

    /// Starts the service with an observer and a log.
    pub fn with_options(
        file: MockFile,
        options: &MockOptions,
        on_request: impl Fn(&ServedRequest) + Send + Sync + 'static,
    ) -> io::Result<MockService> {
        let log = ModelLog::open(options.log.as_deref())?;
        let state = Arc::new(MockState::new(file, log, Box::new(on_request)));
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

    /// Replaces the rules, on the same address. Calls are counted anew.
    pub fn replace(&self, file: MockFile) {
        self.state.replace(file);
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
