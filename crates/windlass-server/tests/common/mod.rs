//! A test server: definitions in Loom, tools that can be held at a gate, a store in memory.
#![allow(dead_code, reason = "each test file uses its own part")]

mod documented;

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value as Json, json};
use tokio::sync::watch;
use tower::ServiceExt;
use windlass_core::{ErrorInfo, Limits, TaskOutcome};
use windlass_dialect::DialectRegistry;
use windlass_expr::wdl;
use windlass_loom::{ActivityTarget, LoomActivity};
use windlass_runtime::{EngineOptions, RuntimeEngine, Tools, real_now};
use windlass_server::auth::{TokenIndex, tokens};
use windlass_server::catalog::Definitions;
use windlass_server::views::ReaderViews;
use windlass_server::{
    App, AppParts, CompiledDraft, DefinitionCatalog, DefinitionCompiler, DefinitionDraft, ServerOptions, router,
};
use windlass_store::{MemoryStore, RecordChange, Store};
use windlass_syntax::{Diagnostic, DiagnosticReport, Diagnostics, SourceText};
use windlass_value::{Value, parse_json};

/// No test takes this long; a wait that exceeds it has found a hang.
pub(crate) const HANG: Duration = Duration::from_secs(120);

/// A token with all scopes.
pub(crate) const TOKEN: &str = "wl_test";

/// A workflow that computes and ends.
pub(crate) const HELLO: &str = r#"{"name": "hello", "actions": {"greet": {"type": "compose", "inputs": "hi"}}}"#;

/// A workflow that fails in its second step.
pub(crate) const BROKEN: &str = r#"{
  "name": "broken",
  "actions": {
    "first": {"type": "compose", "inputs": 1},
    "second": {"type": "activity", "inputs": {"activityName": "fail", "input": 1}, "runAfter": {"first": ["Succeeded"]}}
  }
}"#;

/// A workflow that waits at a gate.
pub(crate) const HELD: &str = r#"{"name": "held", "actions": {"wait": {"type": "activity", "inputs": {"activityName": "gate", "input": "gate"}}}}"#;

/// A workflow that counts.
pub(crate) fn counting(name: &str, iterations: u64) -> String {
    json!({
        "name": name,
        "actions": {
            "n": { "type": "initializeVariable", "inputs": { "variables": [{ "name": "i", "type": "integer", "value": 0 }] } },
            "count": {
                "type": "until",
                "expression": format!("@greaterOrEquals(variables('i'), {iterations})"),
                "limit": { "count": iterations + 1 },
                "actions": { "add": { "type": "incrementVariable", "inputs": { "name": "i", "value": 1 } } },
                "runAfter": { "n": ["Succeeded"] }
            }
        }
    })
    .to_string()
}

/// The compiler of the test server: Loom, with calls resolved to registered definitions.
pub(crate) struct LoomCompiler;

const TOOLS: [&str; 6] = ["noop", "http", "gate", "fail", "echo", "think"];

static REGISTRY: LazyLock<DialectRegistry> = LazyLock::new(|| DialectRegistry::new().with(windlass_loom::Loom));

impl DefinitionCompiler for LoomCompiler {
    fn dialects(&self) -> &DialectRegistry {
        &REGISTRY
    }

    fn compile(
        &self,
        draft: &DefinitionDraft,
        catalog: &dyn DefinitionCatalog,
    ) -> Result<CompiledDraft, Vec<DiagnosticReport>> {
        let source =
            SourceText::new(draft.name.clone().unwrap_or_else(|| "definition".to_owned()), draft.text.as_str());
        let activity = |name: &str| LoomActivity { name: name.to_owned(), target: ActivityTarget::Tool };
        let options = windlass_loom::LoomOptions {
            limits: Limits::default(),
            name: draft.name.clone(),
            tools: TOOLS.map(str::to_owned).to_vec(),
            activities: ["gate", "fail", "echo", "think"].map(activity).to_vec(),
            ..Default::default()
        };
        let mut compiled = windlass_loom::compile(&source, &options).map_err(|found| found.reports(&source))?;
        if let Some(name) = &draft.name {
            compiled.plan.name = name.as_str().into();
        }
        let mut found = Diagnostics::new();
        for (name, span) in compiled.calls {
            match catalog.newest(&name) {
                Some(called) => compiled.plan.pins.push((name.into(), called.plan)),
                None => found.push(Diagnostic::error("WND-0009", span, format!("there is no definition `{name}`"))),
            }
        }
        match found.has_errors() {
            true => Err(found.reports(&source)),
            false => Ok(CompiledDraft { plan: compiled.plan, warnings: compiled.warnings.reports(&source) }),
        }
    }
}

/// A server without a listener.
pub(crate) struct World {
    pub app: App,
    pub store: Arc<dyn Store>,
    router: Router,
    gates: watch::Sender<BTreeSet<String>>,
    pub outside: ExternalServer,
}

type Meanwhile = Box<dyn FnOnce() + Send>;

/// The server that the tool `http` reaches: it gives the queued replies in order, and none if the queue is empty.
#[derive(Clone, Default)]
pub(crate) struct ExternalServer {
    answers: Arc<Mutex<VecDeque<Value>>>,
    requests: Arc<Mutex<Vec<Value>>>,
    meanwhile: Arc<Mutex<Option<Meanwhile>>>,
}

impl ExternalServer {
    pub(crate) fn push_reply(&self, reply: Json) {
        let reply = parse_json(&reply.to_string()).expect("JSON");
        self.answers.lock().expect("unharmed").push_back(reply);
    }

    /// Sets a callback that runs before the next reply.
    pub(crate) fn on_next_request(&self, meanwhile: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().expect("unharmed") = Some(Box::new(meanwhile));
    }

    /// Returns the requests received so far.
    pub(crate) fn requests(&self) -> Vec<Json> {
        let requests = self.requests.lock().expect("unharmed");
        requests.iter().map(|input| serde_json::to_value(input).expect("JSON")).collect()
    }
}

impl World {
    pub(crate) fn new() -> World {
        World::on(Arc::new(MemoryStore::new()))
    }

    pub(crate) fn on(store: Arc<dyn Store>) -> World {
        World::with(store, ServerOptions::default())
    }

    pub(crate) fn with(store: Arc<dyn Store>, options: ServerOptions) -> World {
        World::with_limits(store, options, Limits::default())
    }

    /// Creates a server that adopts the runs of a previous server, as `windlass serve` does.
    pub(crate) fn adopting(store: Arc<dyn Store>) -> World {
        World::build(store, ServerOptions::default(), Limits::default(), long_grace(), true, first_token())
    }

    /// Creates a server whose tokens are those of the store, besides the one of the other servers.
    pub(crate) fn with_stored_tokens(store: Arc<dyn Store>) -> World {
        let record = json!({
            "id": "tk_test", "name": "first", "hash": blake3::hash(TOKEN.as_bytes()).to_hex().as_str(),
            "scopes": ["admin"], "created_at": "2026-01-01T00:00:00Z",
        });
        let change = RecordChange::put(tokens::KIND, "tk_test", record.to_string().into_bytes(), real_now());
        assert!(store.change_records(vec![change]).expect("written"));
        let keys = TokenIndex::open(store.clone()).expect("the tokens");
        World::build(store, ServerOptions::default(), Limits::default(), long_grace(), false, keys)
    }

    pub(crate) fn with_limits(store: Arc<dyn Store>, options: ServerOptions, limits: Limits) -> World {
        World::with_views(store, options, limits, long_grace())
    }

    pub(crate) fn with_views(
        store: Arc<dyn Store>,
        options: ServerOptions,
        limits: Limits,
        views: ReaderViews,
    ) -> World {
        World::build(store, options, limits, views, false, first_token())
    }

    fn build(
        store: Arc<dyn Store>,
        options: ServerOptions,
        limits: Limits,
        views: ReaderViews,
        adopt: bool,
        keys: TokenIndex,
    ) -> World {
        windlass_testing::log::install();
        let (gates, outside) = (watch::Sender::new(BTreeSet::new()), ExternalServer::default());
        let engine_options = EngineOptions {
            tools: tools(&gates, &outside),
            languages: wdl::languages(),
            limits: limits.clone(),
            poll_every: Duration::from_millis(2),
            // No run is evicted because the machine is busy.
            evict_after: 10 * HANG,
            adopt,
            ..EngineOptions::default()
        };
        let engine = RuntimeEngine::new(store.clone(), engine_options).expect("an engine");
        let app = App::new(AppParts {
            definitions: Definitions::load(&engine).expect("the catalog"),
            engine,
            store: store.clone(),
            limits,
            options,
            compiler: Arc::new(LoomCompiler),
            keys,
            credentials: Default::default(),
            audit: Default::default(),
            dispatcher: Default::default(),
            metrics: Default::default(),
            views,
        });
        World { router: router(app.clone()), app, store, gates, outside }
    }

    /// Opens a gate for all current and future waiters.
    pub(crate) fn open(&self, gate: &str) {
        self.gates.send_modify(|open| {
            open.insert(gate.to_owned());
        });
    }

    /// Sends a request with the token that has all scopes.
    pub(crate) async fn request(&self, method: Method, path: &str, body: Option<Json>) -> Reply {
        self.send(request(method, path, body)).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        let (method, path) = (request.method().to_string(), request.uri().to_string());
        let answer = self.router.clone().oneshot(request).await.expect("an answer");
        let (parts, body) = answer.into_parts();
        let body = in_time(body.collect()).await.expect("a body").to_bytes().to_vec();
        let what = format!("{method} {path}");
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if let Some(complaint) = documented::violation(&method, &path, parts.status.as_u16(), kind, &body) {
            panic!("{what}: {complaint}: {}", String::from_utf8_lossy(&body));
        }
        Reply { what, status: parts.status, headers: parts.headers, body }
    }

    /// Sends a request and returns the response with its unread body.
    pub(crate) async fn stream(&self, request: Request<Body>) -> (StatusCode, HeaderMap, Body) {
        let answer = self.router.clone().oneshot(request).await.expect("an answer");
        let (parts, body) = answer.into_parts();
        (parts.status, parts.headers, body)
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.request(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Json) -> Reply {
        self.request(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn register(&self, source: &str) -> Json {
        let reply = self.post("/api/v1/definitions", json!({ "source": source })).await;
        assert!(reply.status.is_success(), "{reply:?}");
        reply.json()
    }

    /// Starts a run and waits for its end.
    pub(crate) async fn run(&self, definition: &str, id: &str) -> Json {
        let body = json!({ "definition": definition, "id": id, "wait_ms": 60_000 });
        self.post("/api/v1/runs", body).await.expect_status(200)
    }

    /// Starts a run.
    pub(crate) async fn start(&self, definition: &str, id: &str) -> Json {
        self.post("/api/v1/runs", json!({ "definition": definition, "id": id })).await.expect_status(202)
    }

    /// Polls a run until it has this status.
    pub(crate) async fn until_status(&self, run: &str, status: &str) -> Json {
        let begun = Instant::now();
        loop {
            let seen = self.get(&format!("/api/v1/runs/{run}")).await.expect_status(200);
            if seen["status"] == status {
                return seen;
            }
            assert!(begun.elapsed() < HANG, "{run} never was {status}: {seen}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Returns views in which a drawing waits long for events to be read, for busy machines.
fn first_token() -> TokenIndex {
    TokenIndex::with_token(Some(TOKEN.to_owned()))
}

fn long_grace() -> ReaderViews {
    let mut views = ReaderViews::default();
    views.painters.read_timeout = HANG;
    views
}

pub(crate) fn request(method: Method, path: &str, body: Option<Json>) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
    let request = request.header(header::HOST, "127.0.0.1:7117");
    match body {
        Some(body) => {
            let request = request.header(header::CONTENT_TYPE, "application/json");
            request.body(Body::from(body.to_string())).expect("a request")
        }
        None => request.body(Body::empty()).expect("a request"),
    }
}

/// A response of the server.
#[derive(Debug)]
pub(crate) struct Reply {
    pub what: String,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{}: {error}: {}", self.what, self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Asserts the status of the response and returns its body.
    #[track_caller]
    pub(crate) fn expect_status(&self, status: u16) -> Json {
        assert_eq!(self.status.as_u16(), status, "{}: {}", self.what, self.text());
        let kind = self.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let expected = if status < 400 { "application/json" } else { "application/problem+json" };
        assert_eq!(kind, expected, "{}", self.what);
        self.json()
    }
}

fn tools(gates: &watch::Sender<BTreeSet<String>>, outside: &ExternalServer) -> Tools {
    let (gates, outside) = (gates.clone(), outside.clone());
    Tools::new()
        .with_fn("noop", |_| async { TaskOutcome::success(Value::Null) })
        .with_fn("http", move |call| {
            outside.requests.lock().expect("unharmed").push(call.input);
            let answer = outside.answers.lock().expect("unharmed").pop_front();
            if let Some(meanwhile) = outside.meanwhile.lock().expect("unharmed").take() {
                meanwhile();
            }
            async move {
                match answer {
                    Some(answer) => TaskOutcome::success(answer),
                    // This tool never replies.
                    None => std::future::pending().await,
                }
            }
        })
        .with_fn("echo", |call| async move { TaskOutcome::success(call.input) })
        .with_fn("think", |_| async {
            TaskOutcome { private: Value::from("a private thought"), ..TaskOutcome::success("done") }
        })
        .with_fn("fail", |_| async {
            TaskOutcome::failure(ErrorInfo::new("503", "http", "not now").hint("look at `windlass events RUN`"))
        })
        .with_fn("gate", move |mut call| {
            let mut gates = gates.subscribe();
            async move {
                let name = call.input.as_str().unwrap_or("gate").to_owned();
                tokio::select! {
                    biased;
                    () = call.cancelled.wait() => {
                        TaskOutcome::failure(ErrorInfo::new("Cancelled", "cancelled", "cancelled"))
                    }
                    _ = gates.wait_for(|open| open.contains(&name)) => TaskOutcome::success(Value::from(name)),
                }
            }
        })
}

pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future).await.expect("it hangs")
}
