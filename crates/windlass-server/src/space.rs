//! A full disk: which calls are refused before anything happens, and when the server accepts work again.

use std::time::Duration;

use axum::http::StatusCode;
use tracing::{info, warn};
use windlass_store::SpaceLeft;

use crate::problem::codes;
use crate::{ApiProblem, App};

/// How often the server looks whether the disk has room again.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Routes that start runs or register definitions. Others only change what exists, and are refused by the store if they
/// need too much space.
const STARTING_ROUTES: [&str; 4] =
    ["/api/v1/runs", "/api/v1/runs/{run}/retry", "/api/v1/runs/{run}/restart", "/api/v1/definitions"];

pub(crate) fn starts_work(route: &str) -> bool {
    STARTING_ROUTES.contains(&route)
}

/// Describes the state while space is short.
pub(crate) fn shortage(app: &App) -> Option<&'static str> {
    match app.store.space_left() {
        SpaceLeft::Enough => None,
        SpaceLeft::Reserved => Some("the disk is full: runs continue in reserved space, and nothing new is started"),
        SpaceLeft::ControlOnly => {
            Some("the disk is full, and so is the space reserved for runs: they can be cancelled and paused")
        }
    }
}

/// Refuses new work while space is short. The call has no effect.
pub(crate) fn refuse_new_work(app: &App) -> Result<(), ApiProblem> {
    let Some(shortage) = shortage(app) else { return Ok(()) };
    let mut problem = ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE, shortage)
        .hint("nothing was changed; repeat the call when there is space again")
        .retry_after(CHECK_INTERVAL.as_secs());
    problem.cause = Some(windlass_store::StoreErrorKind::Full.code());
    Err(problem)
}

/// Watches the space until the server stops: the store makes its reserve again when it is asked.
pub(crate) async fn watch(app: App) {
    let (mut draining, mut known) = (app.draining(), SpaceLeft::Enough);
    loop {
        let store = app.store.clone();
        // A file system that hangs must not block the threads of requests.
        let found = tokio::task::spawn_blocking(move || store.space_left()).await.unwrap_or(known);
        match (known, found) {
            (before, now) if before == now => {}
            (_, SpaceLeft::Enough) => info!("space available"),
            (_, SpaceLeft::Reserved) => warn!(left = "reserved", "disk full"),
            (_, SpaceLeft::ControlOnly) => warn!(left = "control", "disk full"),
        }
        known = found;
        tokio::select! {
            _ = draining.wait_for(|draining| *draining) => return,
            () = tokio::time::sleep(CHECK_INTERVAL) => {}
        }
    }
}
