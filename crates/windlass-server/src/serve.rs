//! The router with its layers, and a listener.

use std::net::SocketAddr;

use axum::Router;
use axum::middleware::from_fn;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::auth::gate::gate;
use crate::{App, Problem, api};

/// All routes, ready to be asked: tests ask it without a listener.
pub fn router(app: App) -> Router {
    let (routes, _) = api::routes().split_for_parts();
    let nothing_here =
        || async { Problem::not_found("there is nothing here").hint("GET /api/v1/openapi.json lists the routes") };
    routes.layer(from_fn(gate)).fallback(nothing_here).with_state(app)
}

/// A server that listens.
pub struct Running {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Running {
    /// Takes no more requests, lets those under way end within the drain time, and lets go of all runs.
    pub async fn stop(mut self) -> std::io::Result<()> {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        self.served.await.unwrap_or(Ok(()))
    }
}

/// Listens until it is stopped.
pub async fn serve(app: App) -> std::io::Result<Running> {
    let listener = TcpListener::bind(app.options.bind).await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel();
    let drain = app.options.drain;
    let (engine, dispatcher) = (app.engine.clone(), app.dispatcher.clone());
    let routes = router(app);
    let served = tokio::spawn(async move {
        let until_stopped = async move {
            // A dropped sender stops it too.
            let _ = stopped.await;
            // Workers that wait for jobs are answered: nobody waits for them.
            dispatcher.close();
        };
        let graceful = axum::serve(listener, routes).with_graceful_shutdown(until_stopped);
        let served = graceful.await;
        // Streams may be open for ever; runs are let go of all the same.
        let _ = tokio::time::timeout(drain, engine.close()).await;
        served
    });
    Ok(Running { address, stop: Some(stop), served })
}
