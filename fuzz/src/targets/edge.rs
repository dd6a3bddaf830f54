//! The HTTP edge: any request, with and without a token.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;
use windlass_core::Limits;
use windlass_dialect::{CompileContext, DialectRegistry};
use windlass_runtime::{EngineOptions, RuntimeEngine};
use windlass_server::auth::TokenIndex;
use windlass_server::catalog::Definitions;
use windlass_server::{
    App, AppParts, CompiledDraft, DefinitionCatalog, DefinitionCompiler, DefinitionDraft, ServerOptions, router,
};
use windlass_store::{MemoryStore, Store};
use windlass_syntax::{DiagnosticReport, SourceText};

const TOKEN: &str = "wl_fuzz";

/// The number of requests after which the server is replaced, so that what they have made does not pile up.
const REQUESTS_PER_SERVER: u32 = 500;

/// No request waits longer for an answer, in virtual time.
const MAX_WAIT: Duration = Duration::from_secs(120);

struct FuzzedServer {
    runtime: Runtime,
    routes: Router,
    requests: u32,
}

thread_local! {
    static SERVER: RefCell<Option<FuzzedServer>> = const { RefCell::new(None) };
}

/// Every request is answered, none with an internal error; a problem is a document with the response's own status.
pub(crate) fn edge(data: &[u8]) {
    let Some(request) = parse(data) else { return };
    SERVER.with_borrow_mut(|kept| {
        let mut server = kept.take().filter(|server| server.requests < REQUESTS_PER_SERVER).unwrap_or_else(start);
        server.requests += 1;
        let routes = server.routes.clone();
        server.runtime.block_on(async {
            let Ok(answer) = tokio::time::timeout(MAX_WAIT, routes.oneshot(request)).await else {
                panic!("the request is not answered");
            };
            let Ok(answer) = answer;
            let (parts, body) = answer.into_parts();
            assert!(parts.status != StatusCode::INTERNAL_SERVER_ERROR, "an internal error");
            let kind = parts.headers.get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
            if kind == b"application/problem+json" {
                let bytes = to_bytes(body, 1 << 24).await.unwrap_or_else(|error| panic!("{error}"));
                let problem: serde_json::Value =
                    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("not a problem: {error}"));
                assert_eq!(problem["status"], parts.status.as_u16(), "{problem}");
            }
        });
        *kept = Some(server);
    });
}

/// Parses `METHOD PATH`, a line per header, an empty line, a body. The header `token` gives the request a valid token.
fn parse(data: &[u8]) -> Option<Request<Body>> {
    let at = data.windows(2).position(|two| two == b"\n\n").unwrap_or(data.len());
    let body = data.get(at + 2..).unwrap_or_default();
    let mut lines = data[..at].split(|byte| *byte == b'\n');
    let first = lines.next()?;
    let space = first.iter().position(|byte| *byte == b' ')?;
    let mut request = Request::builder().method(&first[..space]).uri(&first[space + 1..]);
    request = request.header(header::HOST, "localhost:7117");
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        match &line[..colon] {
            b"token" => request = request.header(header::AUTHORIZATION, format!("Bearer {TOKEN}")),
            name => request = request.header(name, line.get(colon + 1..).unwrap_or_default()),
        }
    }
    request.body(Body::from(body.to_vec())).ok()
}

fn start() -> FuzzedServer {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime: {error}"));
    let routes = runtime.block_on(async { router(app()) });
    FuzzedServer { runtime, routes, requests: 0 }
}

fn app() -> App {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let engine = RuntimeEngine::new(store.clone(), EngineOptions::default());
    let engine = engine.unwrap_or_else(|error| panic!("no engine: {error}"));
    App::new(AppParts {
        definitions: Definitions::load(&engine).unwrap_or_else(|error| panic!("no catalog: {error}")),
        engine,
        store,
        limits: Limits::default(),
        options: ServerOptions::default(),
        compiler: Arc::new(LoomCompiler(DialectRegistry::new().with(windlass_loom::Loom))),
        keys: TokenIndex::with_token(Some(TOKEN.to_owned())),
        credentials: Default::default(),
        audit: Default::default(),
        dispatcher: Default::default(),
        metrics: Default::default(),
        views: Default::default(),
    })
}

struct LoomCompiler(DialectRegistry);

impl DefinitionCompiler for LoomCompiler {
    fn dialects(&self) -> &DialectRegistry {
        &self.0
    }

    fn compile(
        &self,
        draft: &DefinitionDraft,
        _: &dyn DefinitionCatalog,
    ) -> Result<CompiledDraft, Vec<DiagnosticReport>> {
        let source = SourceText::new("definition", draft.text.as_str());
        let context = CompileContext { name: draft.name.clone(), ..CompileContext::default() };
        let compiled = self.0.compile(&source, Some("loom"), &context);
        let compiled = compiled.map_err(|problems| problems.own.reports(&source))?;
        Ok(CompiledDraft { plan: compiled.plan, warnings: compiled.warnings.reports(&source) })
    }
}
