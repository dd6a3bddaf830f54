//! A small HTTP service on loopback, for tests and examples. The same requests in the same order get the same
//! replies; nothing is random.
//!
//! | route | reply |
//! |---|---|
//! | `/status/{code}` | that status; `?retry-after=` adds the header |
//! | `/json/…` | the request itself: method, path, query, headers, body |
//! | `/flaky?fail=n&key=k` | 503 for the first n requests with that key, then 200 |
//! | `/slow?ms=` | 200, later |
//! | `/pages?page=n&pages=5&size=10` | one page of numbered items, from page 1 |
//! | `/big?mb=n` | that many MiB of text, streamed; with `&length=1` announced in advance |
//! | `/gzip?mb=n` | the same, gzipped: about 1 KiB per MiB; `mb=0` is a gzipped JSON object |
//! | `/bad-json`, `/text`, `/latin1`, `/form`, `/binary`, `/empty` | bodies of these kinds |
//! | `/raw` | the request's body as text, with its content type |
//! | `/async/{id}?times=2&retry-after=&to=&end=200` | 202 with a `Location` for the first requests, then an echo |
//! | `/redirect?to=…&code=302`, `/hops/{n}` | a redirect; n redirects in a row, then `/json/end` |
//! | `/count…` | counts requests by `Idempotency-Key` |
//! | `/effects` | the counted effects: `[{key, path, times}]`; `DELETE` clears them |
//! | `/jobs/{id}?polls=3` | `running` for the first polls, then `complete` |
//! | `/close` | nothing: the connection is closed |

mod body;
mod proxy;
mod routes;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_syntax::{Colour, SourceText};

use crate::mock::listener::HttpListener;
use crate::mock::{MockFile, MockService};
pub use proxy::RecordingProxy;

/// The running service. Dropping it closes its connections and its port.
pub struct TestService {
    listener: HttpListener,
    state: Arc<ServiceState>,
}

/// One counted effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedEffect {
    pub key: String,
    pub path: String,
    pub times: u64,
}

#[derive(Default)]
struct ServiceState {
    bytes_sent: Arc<AtomicU64>,
    counters: Mutex<HashMap<String, u64>>,
    effects: Mutex<BTreeMap<(String, String), u64>>,
}

impl TestService {
    /// Listens on a free port of 127.0.0.1.
    pub fn start() -> io::Result<TestService> {
        TestService::start_at(0)
    }

    /// Listens on this port of 127.0.0.1.
    pub fn start_at(port: u16) -> io::Result<TestService> {
        let state = Arc::new(ServiceState::default());
        let served = state.clone();
        let listener =
            HttpListener::start("test-service", port, move |request| routes::handle(request, served.clone()))?;
        Ok(TestService { listener, state })
    }

    /// Starts a service that replies only as a mock file says.
    pub fn from_mocks(text: &str) -> io::Result<MockService> {
        let source = SourceText::new("mocks.json", text);
        let file = MockFile::parse(&source)
            .map_err(|problems| io::Error::new(io::ErrorKind::InvalidInput, problems.render(&source, Colour::Never)))?;
        MockService::start(file, 0)
    }

    pub fn addr(&self) -> SocketAddr {
        self.listener.addr()
    }

    /// Returns the URL of a path (`/json/x`) of this service.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr())
    }

    /// Returns what `/count` has counted, by key, without another request.
    pub fn effects(&self) -> Vec<CountedEffect> {
        self.state.effects()
    }

    /// Returns the number of all requests so far.
    pub fn requests(&self) -> u64 {
        self.listener.requests()
    }

    /// Returns the number of all connections so far.
    pub fn connections(&self) -> u64 {
        self.listener.connections()
    }

    /// Returns how many bytes of `/big` and `/gzip` have been sent.
    pub fn bytes_sent(&self) -> u64 {
        self.state.bytes_sent.load(Ordering::Relaxed)
    }
}

impl ServiceState {
    /// Returns how often this was called with the same name, including this call.
    fn count(&self, name: String) -> u64 {
        let mut counters = lock(&self.counters);
        let counter = counters.entry(name).or_default();
        *counter += 1;
        *counter
    }

    fn count_effect(&self, key: &str, path: &str) -> u64 {
        let mut effects = lock(&self.effects);
        let times = effects.entry((key.to_owned(), path.to_owned())).or_default();
        *times += 1;
        *times
    }

    fn effects(&self) -> Vec<CountedEffect> {
        let effect = |((key, path), times): (&(String, String), &u64)| CountedEffect {
            key: key.clone(),
            path: path.clone(),
            times: *times,
        };
        lock(&self.effects).iter().map(effect).collect()
    }
}

/// Locks a counter, which stays usable after a panic elsewhere.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
