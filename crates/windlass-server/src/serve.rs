//! The router with its layers, and a listener.

mod connection_table;
mod connections;
mod fd_limit;
mod line_endings;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::{Extension, Router};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower_http::catch_panic::CatchPanicLayer;
use windlass_store::StoreError;

use crate::api::extract::MaxBodyBytes;
use crate::audit::AuditError;
use crate::auth::Public;
use crate::auth::gate::require_authorization;
use crate::hosts::{BindError, check_bind};
use crate::problem::codes;
use crate::scrub::search_for_damage;
use crate::triggers::{TriggerScheduler, hooks, queue};
use crate::workers::presence;
use crate::{ApiProblem, App, api, edge, retention, space, web_ui};
pub use tls::TlsError;
use tls::TlsIdentity;

/// Time reserved for evicting all runs at shutdown; without errors it takes no longer.
const EVICTION_RESERVE: Duration = Duration::from_secs(1);

/// Returns the router with all routes and layers. Tests call it without a listener.
pub fn router(app: App) -> Router {
    let (routes, _) = api::routes().split_for_parts();
    with_layers(routes, app)
}

/// Wraps the routes in the layers that every request passes.
pub fn with_layers(routes: Router<App>, app: App) -> Router {
    let method_not_allowed = |_: Public| async {
        let detail = "this route does not support the method";
        ApiProblem::new(StatusCode::METHOD_NOT_ALLOWED, codes::METHOD, detail)
            .hint("GET /api/v1/openapi.json lists the routes")
    };
    let max_body_bytes = app.options.limits.max_body_bytes;
    routes
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn(require_authorization))
        .fallback(web_ui::serve_web_ui)
        .layer(DefaultBodyLimit::max(max_body_bytes))
        .layer(Extension(MaxBodyBytes(max_body_bytes)))
        .layer(CatchPanicLayer::custom(edge::panicked))
        .layer(from_fn_with_state(app.clone(), edge::handle))
        .with_state(app)
}

/// The reason why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{0}")]
    Bind(#[from] BindError),
    #[error("could not listen on {address}: {error}")]
    Listen { address: SocketAddr, error: std::io::Error },
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("{0}")]
    Audit(#[from] AuditError),
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl StartError {
    pub fn hint(&self) -> &'static str {
        match self {
            StartError::Bind(error) => error.hint(),
            StartError::Listen { .. } => {
                "another program may use this port: choose one with --port, or 0 for any free port"
            }
            StartError::Tls(error) => error.hint(),
            StartError::Audit(error) => error.hint(),
            StartError::Store(_) => "`windlass doctor` checks the store",
        }
    }
}

/// A listening server.
pub struct RunningServer {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    server_task: JoinHandle<()>,
}

impl RunningServer {
    /// Shuts the server down: accepts no more work, lets requests in progress finish within the drain time, and evicts
    /// all runs. Until then new requests are rejected with a message that says so.
    pub async fn stop(mut self) -> std::io::Result<()> {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        self.server_task.await.map_err(std::io::Error::other)
    }
}

/// Listens until it is stopped. Refuses a configuration that would allow unauthenticated access from other machines.
pub async fn serve(app: App) -> Result<RunningServer, StartError> {
    check_bind(&app.options)?;
    let tls = app.options.tls.as_ref().map(TlsIdentity::load).transpose()?.map(Arc::new);
    let bind = app.options.bind;
    let listen = |error| StartError::Listen { address: bind, error };
    let listener = TcpListener::bind(bind).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let (stop, stopped) = oneshot::channel();
    // Errors are ignored here; a read error surfaces when the webhook is requested.
    let _ = app.read_store(hooks::log_missing_secrets).await;
    tokio::spawn(TriggerScheduler::new(app.clone()).run());
    tokio::spawn(retention::run(app.clone()));
    tokio::spawn(space::watch(app.clone()));
    tokio::spawn(search_for_damage(app.clone()));
    tokio::spawn(queue::watch_run_changes(app.clone()));
    tokio::spawn(presence::watch_workers(Arc::downgrade(&app.dispatcher)));
    let server_task = tokio::spawn(async move {
        let connections = connections::Connections::new(app.clone(), listener, tls.clone());
        let stopping = app.clone();
        let until_stopped = async move {
            // Dropping the sender stops the server as well.
            let _ = stopped.await;
            // Answer workers that wait for jobs, so that the shutdown does not wait for them.
            stopping.dispatcher.close();
            stopping.drain();
        };
        let drain = app.options.drain;
        // Requests and tasks in progress finish concurrently; the remaining time is for evicting runs.
        let drain_time = drain.saturating_sub(EVICTION_RESERVE).max(drain / 2);
        let evict_runs = async move {
            let drain_engine = async {
                // Deliveries that were accepted are completed.
                let _ = tokio::time::timeout(drain_time, app.controls().delivery_lock.write()).await;
                app.engine.drain(drain_time).await
            };
            let _ = tokio::time::timeout(drain, drain_engine).await;
        };
        let watch_certificate = async {
            match tls {
                Some(tls) => tls.watch().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = connections.serve(until_stopped, evict_runs) => {}
            () = watch_certificate => {}
        }
    });
    Ok(RunningServer { address, stop: Some(stop), server_task })
}
