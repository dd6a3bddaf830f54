//! A small HTTP service on loopback, for tests and examples. Every reply is the same for the same requests in the same
//! order; nothing is random.
//!
//! | route | reply |
//! |---|---|
//! | `/status/{code}` | that status; `?retry-after=` adds the header |
//! | `/json/…` | the request itself: method, path, query, headers, body |
//! | `/flaky?fail=n&key=k` | 503 for the first n requests with that key, then 200 |
//! | `/slow?ms=` | 200, later |
//! | `/pages?page=n&pages=5&size=10` | one page of numbered items, from page 1 |
//! | `/big?mb=n` | that many MiB of text, streamed; with `&length=1` announced in advance |
//! | `/gzip?mb=n` | the same, packed: about 1 KiB a MiB; `mb=0` is a packed JSON object |
//! | `/bad-json`, `/text`, `/binary`, `/empty` | bodies of these kinds |
//! | `/redirect?to=…&code=302`, `/hops/{n}` | a redirect; n redirects in a row, then `/json/end` |
//! | `/count…` | counts requests by `Idempotency-Key` |
//! | `/effects` | what was counted: `[{key, path, times}]`; `DELETE` forgets it |
//! | `/jobs/{id}?polls=3` | `running` for the first polls, then `complete` |
//! | `/close` | nothing: the connection is closed |

mod body;
mod routes;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// The running service. Dropping it closes its connections and its port.
pub struct TestService {
    addr: SocketAddr,
    state: Arc<State>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// One counted effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub key: String,
    pub path: String,
    pub times: u64,
}

#[derive(Default)]
struct State {
    requests: AtomicU64,
    connections: AtomicU64,
    bytes_sent: Arc<AtomicU64>,
    counters: Mutex<HashMap<String, u64>>,
    effects: Mutex<BTreeMap<(String, String), u64>>,
}

impl TestService {
    /// Listens on a free port of 127.0.0.1. The service has a thread and a runtime of its own, so it serves tests with
    /// and without one, and programs that they start.
    pub fn start() -> io::Result<TestService> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let state = Arc::new(State::default());
        let (stop, stopped) = oneshot::channel();
        let served = state.clone();
        let thread = std::thread::Builder::new().name("test-service".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    _ = accept(listener, served) => {}
                }
            });
        })?;
        Ok(TestService { addr, state, stop: Some(stop), thread: Some(thread) })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address of a path (`/json/x`) of this service.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// What `/count` has counted, by key, without another request.
    pub fn effects(&self) -> Vec<Effect> {
        self.state.effects()
    }

    /// All requests so far.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::Relaxed)
    }

    /// All connections so far.
    pub fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// How many bytes of `/big` and `/gzip` have gone out.
    pub fn bytes_sent(&self) -> u64 {
        self.state.bytes_sent.load(Ordering::Relaxed)
    }
}

impl Drop for TestService {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl State {
    /// How often this was called with the same name, this time included.
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

    fn effects(&self) -> Vec<Effect> {
        let effect = |((key, path), times): (&(String, String), &u64)| Effect {
            key: key.clone(),
            path: path.clone(),
            times: *times,
        };
        lock(&self.effects).iter().map(effect).collect()
    }
}

/// Counters stay usable after a panic elsewhere.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: std::net::TcpListener, state: Arc<State>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        // A failed accept is the client's bad luck, or a lack of file handles that passes.
        if let Ok((stream, _)) = listener.accept().await {
            state.connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(connection(stream, state.clone()));
        } else {
            tokio::task::yield_now().await;
        }
    }
}

async fn connection(stream: TcpStream, state: Arc<State>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        state.requests.fetch_add(1, Ordering::Relaxed);
        routes::answer(request, state.clone())
    });
    // Clients that go away are part of the tests.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
