//! A server in memory, and workers that use its API as over the network.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use serde_json::{Value as Json, json};
use tower::ServiceExt;
use windlass_core::plan::{
    Action, Amount, Effect, ExpressionSource, Graph, GraphChild, GraphDependency, GraphFailurePolicy, GraphStatusRule,
    Node, NodeId, NodeKind, Pipeline, Plan, SourceSpan, Task, Wait,
};
use windlass_core::{Event, Limits, Status, TaskOutcome};
use windlass_expr::wdl;
use windlass_runtime::{EngineOptions, FinalReport, RunHandle, RunStartOptions, RuntimeEngine, Tools, codec};
use windlass_server::auth::tokens::{self, TokenRequest};
use windlass_server::auth::{TokenIndex, TokenScope};
use windlass_server::workers::{Dispatcher, with_remote_workers};
use windlass_server::{
    App, AppParts, CompiledDraft, DefinitionCatalog, DefinitionCompiler, DefinitionDraft, ServerOptions, router,
};
use windlass_store::{CommitHook, MemoryStore, Store, StoreRead};
use windlass_syntax::DiagnosticReport;
use windlass_value::{Duration as Span, ExpressionMode, Value, parse_json};

pub(crate) const TOKEN: &str = "wl_first";
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// Longer than the time a restarted server waits for its previous workers.
pub(crate) const REJOINED: Duration = Duration::from_secs(11);
/// Virtual time, in most tests.
const HANG: Duration = Duration::from_secs(300);

struct NoCompiler;

impl DefinitionCompiler for NoCompiler {
    fn compile(&self, _: &DefinitionDraft, _: &dyn DefinitionCatalog) -> Result<CompiledDraft, Vec<DiagnosticReport>> {
        Err(Vec::new())
    }
}

pub(crate) struct Server {
    pub store: Arc<MemoryStore>,
    pub app: App,
    routes: Router,
}

/// A server whose only local tool is `here`.
pub(crate) fn server() -> Server {
    server_on(MemoryStore::new(), None)
}

pub(crate) fn server_on(store: MemoryStore, commit_hook: Option<CommitHook>) -> Server {
    build_server(store, commit_hook, LEASE)
}

/// A server for workers that are processes, in real time.
pub(crate) fn server_with_lease(lease: Duration) -> Server {
    build_server(MemoryStore::new(), Some(Box::new(|_| {})), lease)
}

/// A server whose tokens are in its store.
pub(crate) fn server_with_stored_tokens() -> Server {
    let Server { store, .. } = server();
    let keys = TokenIndex::open(store.clone()).expect("readable");
    with_keys(store, None, LEASE, keys)
}

fn build_server(store: MemoryStore, commit_hook: Option<CommitHook>, lease: Duration) -> Server {
    with_keys(Arc::new(store), commit_hook, lease, TokenIndex::with_token(Some(TOKEN.to_owned())))
}

fn with_keys(store: Arc<MemoryStore>, commit_hook: Option<CommitHook>, lease: Duration, keys: TokenIndex) -> Server {
    let dispatcher = Arc::new(Dispatcher::new(lease));
    let here = Tools::new().with_fn("here", |_| async { TaskOutcome::success("here") });
    let options = EngineOptions {
        tools: with_remote_workers(&here, &dispatcher),
        languages: wdl::languages(),
        limits: Limits::default(),
        adopt: true,
        // Virtual time stands still during a computation: nothing may happen on other threads.
        commit_here: commit_hook.is_none(),
        commit_hook,
        ..EngineOptions::default()
    };
    let shared: Arc<dyn Store> = store.clone();
    let engine = RuntimeEngine::new(shared.clone(), options).expect("an engine");
    let parts = AppParts {
        engine,
        store: shared,
        limits: Limits::default(),
        options: ServerOptions { bind: ([127, 0, 0, 1], 0).into(), lease, ..ServerOptions::default() },
        compiler: Arc::new(NoCompiler),
        definitions: Default::default(),
        keys,
        credentials: Default::default(),
        audit: Default::default(),
        dispatcher,
        metrics: Default::default(),
        views: Default::default(),
    };
    let app = App::new(parts);
    Server { store, routes: router(app.clone()), app }
}

impl Server {
    /// Kills the server (kill -9) and opens another one on the same store.
    pub(crate) fn crash(self) -> Server {
        let store = self.store.crash();
        drop(self);
        server_on(store, None)
    }

    pub(crate) async fn start(&self, run: &str, plan: Plan) -> RunHandle {
        let (hash, _) = self.app.engine.add_plan(plan).expect("a plan");
        let options = RunStartOptions { id: Some(run.to_owned()), ..RunStartOptions::default() };
        self.app.engine.start(hash, Value::Null, options).await.expect("started")
    }

    pub(crate) async fn request(&self, method: &str, path: &str, token: &str, body: &Json) -> (StatusCode, Json) {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header(header::HOST, "127.0.0.1")
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()))
            .expect("a request");
        let answer = tokio::time::timeout(HANG, self.routes.clone().oneshot(request)).await.expect("it hangs");
        let answer = answer.expect("an answer");
        let status = answer.status();
        let bytes = to_bytes(answer.into_body(), usize::MAX).await.expect("a body");
        (status, serde_json::from_slice(&bytes).unwrap_or(Json::Null))
    }

    /// Creates a token with one scope.
    pub(crate) fn token(&self, scope: TokenScope) -> String {
        let token_request = TokenRequest {
            name: "one".to_owned(),
            scopes: vec![scope],
            definitions: Vec::new(),
            expires_at: None,
            created_by: None,
        };
        let (_, secret) = tokens::create(&*self.store, token_request, usize::MAX).expect("made");
        secret.reveal().to_owned()
    }

    /// Posts a request, asserts success, and returns the body.
    pub(crate) async fn post(&self, path: &str, body: Json) -> Json {
        let (status, answer) = self.request("POST", path, TOKEN, &body).await;
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }

    /// Posts a request that must be rejected, and returns its status and code.
    pub(crate) async fn post_rejected(&self, path: &str, body: Json) -> (u16, String) {
        let (status, answer) = self.request("POST", path, TOKEN, &body).await;
        (status.as_u16(), answer["code"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) fn events(&self, run: &str) -> Vec<Event> {
        let rows = self.store.journal(run, 0, 10_000).expect("readable");
        let entries = rows
            .iter()
            .flat_map(|row| codec::decode::<Vec<codec::TickEntry>>(&row.body, "the journal").expect("entries"));
        entries.flat_map(|entry| entry.events).collect()
    }

    pub(crate) fn worker(&self, id: &str) -> TestWorker<'_> {
        let ask = json!({"worker": id, "name": id, "tools": ["far"], "slots": 1, "wait_ms": 0});
        TestWorker { server: self, id: id.to_owned(), lease_request: ask }
    }
}

/// A hand-driven worker.
pub(crate) struct TestWorker<'a> {
    server: &'a Server,
    pub id: String,
    pub lease_request: Json,
}

impl TestWorker<'_> {
    /// Changes fields of the worker's registration.
    pub(crate) fn with(mut self, changes: Json) -> Self {
        for (name, value) in changes.as_object().expect("an object") {
            self.lease_request[name] = value.clone();
        }
        self
    }

    pub(crate) async fn lease(&self, wait_ms: u64) -> Vec<Json> {
        let mut request = self.lease_request.clone();
        request["wait_ms"] = wait_ms.into();
        let answer = self.server.post("/worker/lease", request).await;
        answer["jobs"].as_array().expect("jobs").clone()
    }

    /// Returns one job that is queued, or will be soon.
    pub(crate) async fn job(&self) -> Json {
        let jobs = self.lease(30_000).await;
        assert_eq!(jobs.len(), 1, "{}: {jobs:?}", self.id);
        jobs[0].clone()
    }

    pub(crate) fn job_report(&self, job: &Json, more: Json) -> Json {
        let mut body =
            json!({"worker": self.id, "run": job["run"], "job": job["job"], "lease_epoch": job["lease_epoch"]});
        for (name, value) in more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        body
    }

    pub(crate) async fn complete(&self, job: &Json, output: impl Into<Json>) -> Json {
        self.server.post("/worker/complete", self.job_report(job, json!({"output": output.into()}))).await["next"]
            .clone()
    }

    pub(crate) async fn heartbeat(&self, jobs: &[&Json], wait_ms: u64) -> Json {
        let lease = |job: &&Json| {
            json!({"run": job["run"], "job": job["job"], "lease_epoch": job["lease_epoch"], "idempotency_key": job["idempotency_key"],
                   "attempt": job["attempt"]})
        };
        let jobs: Vec<Json> = jobs.iter().map(lease).collect();
        self.server.post("/worker/heartbeat", json!({"worker": self.id, "jobs": jobs, "wait_ms": wait_ms})).await
    }

    /// Asserts that everything a stale worker could report is rejected.
    pub(crate) async fn assert_rejected(&self, job: &Json) {
        let stale = (409, "WND-3010".to_owned());
        let error = json!({"code": "X", "message": "x"});
        for (path, more) in [
            ("/worker/complete", json!({"output": "zombie"})),
            ("/worker/fail", json!({"error": error})),
            ("/worker/progress", json!({"data": {"zombie": true}})),
        ] {
            assert_eq!(
                self.server.post_rejected(path, self.job_report(job, more)).await,
                stale,
                "{path} of {}",
                self.id
            );
        }
    }
}

pub(crate) async fn ended(handle: &mut RunHandle) -> Arc<FinalReport> {
    tokio::time::timeout(HANG, handle.wait()).await.expect("it hangs").expect("an end")
}

pub(crate) async fn succeeded(handle: &mut RunHandle) -> Value {
    let report = ended(handle).await;
    assert_eq!(report.status, Status::Succeeded, "{:?}", report.error);
    report.output.clone()
}

/// Polls a condition that a background activity will make true.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let begun = tokio::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed() < HANG, "it never came true");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn value(json: &str) -> Value {
    parse_json(json).expect("JSON")
}

/// A plan of concurrent steps. Each step is a pipeline of tasks, given as (label, tool); the label is also the input.
pub(crate) fn plan(name: &str, steps: &[&[(&str, &str)]]) -> Plan {
    let task = |(label, tool): &(&str, &str)| ((*label).to_owned(), (*tool).to_owned(), Value::from(*label));
    let steps: Vec<Vec<_>> = steps.iter().map(|tasks| tasks.iter().map(task).collect()).collect();
    plan_with_values(name, &steps)
}

/// A pipeline of tasks for the tool `count`.
pub(crate) fn counts(to: &[u32]) -> Plan {
    let task = |to: &u32| (format!("to{to}"), "count".to_owned(), value(&format!(r#"{{"to": {to}}}"#)));
    plan_with_values("counts", &[to.iter().map(task).collect()])
}

fn plan_with_values(name: &str, steps: &[Vec<(String, String, Value)>]) -> Plan {
    let mut plan = Plan::new(name, "test", "");
    let placeholder = NodeKind::Wait(Wait::Delay(Amount::Fixed(Span::ZERO)));
    plan.add_node(Node { hidden: true, ..Node::new("root", "graph", None, placeholder) });
    let mut children = Vec::new();
    for (at, tasks) in steps.iter().enumerate() {
        let task = |(label, tool, input): &(String, String, Value)| {
            let source = ExpressionSource {
                language: "wdl".into(),
                source: input.clone(),
                mode: ExpressionMode::Value,
                span: SourceSpan::default(),
            };
            let action = Action::Effect(Effect::new(tool.as_str(), plan.add_expression(source)));
            Task { label: label.as_str().into(), ..Task::new(action) }
        };
        let tasks = tasks.iter().map(task).collect();
        let kind = NodeKind::Pipeline(Pipeline { tasks });
        let node = plan.add_node(Node::new(format!("step{at}"), "test", Some(NodeId(0)), kind));
        children.push(GraphChild { node, after: Vec::<GraphDependency>::new(), condition: None, group: None });
    }
    let graph = Graph {
        children,
        max_concurrency: None,
        ending: GraphStatusRule::Leaves,
        on_failure: GraphFailurePolicy::Continue,
        unmet: Status::Skipped,
        pick: Default::default(),
        skips_transitively: false,
    };
    plan.nodes[0].kind = NodeKind::Graph(graph);
    plan
}

/// One task, for a worker.
pub(crate) fn one(name: &str) -> Plan {
    plan(name, &[&[("a", "far")]])
}

pub(crate) fn labelled(mut plan: Plan, labels: &str) -> Plan {
    plan.metadata = value(&format!(r#"{{"labels": {labels}}}"#));
    plan
}
