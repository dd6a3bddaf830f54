//! A server over a store in its own directory, requested without a listener.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;
use windlass_core::Limits;
use windlass_runtime::{EngineOptions, RuntimeEngine, real_now};
use windlass_server::audit::AuditLog;
use windlass_server::auth::tokens::{self, ApiToken, TokenRequest};
use windlass_server::auth::{Peer, TokenIndex, TokenScope, first_token};
use windlass_server::{
    App, AppParts, CompiledDraft, DefinitionCatalog, DefinitionCompiler, DefinitionDraft, ServerOptions, router,
};
use windlass_store::{RecordChange, Store};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_syntax::DiagnosticReport;
use windlass_value::{Duration, Timestamp};

/// A compiler for tests that compile nothing.
struct NoDialect;

impl DefinitionCompiler for NoDialect {
    fn compile(&self, _: &DefinitionDraft, _: &dyn DefinitionCatalog) -> Result<CompiledDraft, Vec<DiagnosticReport>> {
        Err(Vec::new())
    }
}

pub(crate) struct World {
    pub app: App,
    pub routes: Router,
    pub store: Arc<dyn Store>,
    /// The token of the file next to the store.
    pub first: String,
    pub directory: TempDir,
}

pub(crate) struct TestResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl TestResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn is_problem(&self) -> bool {
        self.header("content-type") == "application/problem+json" && self.json()["status"] == self.status.as_u16()
    }
}

impl World {
    pub(crate) fn new() -> World {
        World::with(ServerOptions::default())
    }

    pub(crate) fn with(options: ServerOptions) -> World {
        World::in_directory(tempfile::tempdir().unwrap(), options)
    }

    pub(crate) fn in_directory(directory: TempDir, options: ServerOptions) -> World {
        let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let first = first_token(&*store, directory.path()).unwrap();
        let app = app(&store, directory.path(), options);
        let first = first.map(|secret| secret.reveal().to_owned()).unwrap_or_default();
        World { routes: router(app.clone()), app, store, first, directory }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> TestResponse {
        let answer = self.routes.clone().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let kind = parts.headers.get(header::CONTENT_TYPE).map_or("", |kind| kind.to_str().unwrap());
        // A stream may never end: its start is the response.
        let body = match kind.starts_with("text/event-stream") || kind.starts_with("application/x-ndjson") {
            true => Vec::new(),
            false => axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec(),
        };
        TestResponse { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.send(new_request("GET", path, Some(&self.first), None)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> TestResponse {
        self.send(new_request("POST", path, Some(&self.first), Some(body))).await
    }

    pub(crate) fn token(&self, scopes: &[TokenScope]) -> (ApiToken, String) {
        let request = TokenRequest {
            name: "trial".to_owned(),
            scopes: scopes.to_vec(),
            definitions: Vec::new(),
            expires_at: None,
            created_by: None,
        };
        let (token, secret) = tokens::create(&*self.store, request, usize::MAX).unwrap();
        (token, secret.reveal().to_owned())
    }

    /// Returns a token that expired a second ago.
    pub(crate) fn expired(&self) -> String {
        let (token, secret) = self.token(&[TokenScope::Admin]);
        let token = ApiToken { expires_at: Some(one_second_before(real_now())), ..token };
        let body = serde_json::to_vec(&token).unwrap();
        let change = RecordChange::put(tokens::KIND, &token.id, body, real_now());
        assert!(self.store.change_records(vec![change]).unwrap());
        secret
    }

    pub(crate) fn revoked(&self) -> String {
        let (token, secret) = self.token(&[TokenScope::Admin]);
        tokens::revoke(&*self.store, &token.id).unwrap();
        secret
    }
}

fn one_second_before(at: Timestamp) -> Timestamp {
    at - Duration::from_secs(1)
}

pub(crate) fn app(store: &Arc<dyn Store>, directory: &std::path::Path, options: ServerOptions) -> App {
    App::new(AppParts {
        engine: RuntimeEngine::new(store.clone(), EngineOptions::default()).unwrap(),
        store: store.clone(),
        limits: Limits::default(),
        options,
        compiler: Arc::new(NoDialect),
        definitions: Default::default(),
        keys: TokenIndex::open(store.clone()).unwrap(),
        credentials: Default::default(),
        audit: AuditLog::open(directory).unwrap(),
        dispatcher: Default::default(),
        metrics: Default::default(),
        views: Default::default(),
    })
}

pub(crate) fn new_request(method: &str, path: &str, token: Option<&str>, body: Option<Value>) -> Request<Body> {
    let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
    request = request.header(header::HOST, "localhost:7117");
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    match body {
        Some(body) => request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string())),
        None => request.body(Body::empty()),
    }
    .unwrap()
}

/// Makes the request appear to come from this address.
pub(crate) fn with_peer_address(mut request: Request<Body>, address: &str) -> Request<Body> {
    request.extensions_mut().insert(Peer(SocketAddr::new(address.parse().unwrap(), 40_000)));
    request
}
