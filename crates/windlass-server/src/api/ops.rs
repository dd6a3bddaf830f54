//! Health, readiness, metrics and the OpenAPI document.

use std::sync::LazyLock;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use serde::Serialize;

use crate::auth::{Allowed, Public, Read};
use crate::metrics;
use crate::problem::codes;
use crate::{ApiProblem, App, space};

/// The state of the server.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Health {
    /// `ok` or `ready`; `degraded` if the server works without rows of its store that are damaged
    status: &'static str,
    /// The version of the program.
    version: &'static str,
    /// The number of damaged rows. `GET /api/v1/damage` lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged_rows: Option<usize>,
}

/// Reports that the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "ops", responses((status = 200, body = Health, description = "the server is alive")))]
pub(crate) async fn health(_: Public) -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION"), damaged_rows: None })
}

/// Reports that the server can take work: its store is writable, runs of an earlier process are recovered, and it is
/// not shutting down. With damaged rows it can, and says that it is degraded.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "ops",
    responses(
        (status = 200, body = Health, description = "the server accepts work"),
        (status = 503, body = ApiProblem, description = "temporarily unavailable")
    )
)]
pub(crate) async fn ready(_: Public, State(app): State<App>) -> Result<Json<Health>, ApiProblem> {
    let not_ready = |detail: String, hint: &str| {
        Err(ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE, detail).hint(hint).retry_after(1))
    };
    if app.is_draining() || app.engine.is_closing() {
        return not_ready("the server is shutting down".to_owned(), "retry against the server that replaces this one");
    }
    if app.engine.is_recovering() {
        return not_ready("runs of an earlier process are being reloaded".to_owned(), "retry in a second");
    }
    if app.audit.is_broken() {
        return not_ready("the audit log cannot be written".to_owned(), "check the disk, then restart the server");
    }
    if let Some(shortage) = space::shortage(&app) {
        return not_ready(shortage.to_owned(), "free some space; the server accepts work again by itself");
    }
    match app.check_writable().await {
        Ok(()) => {
            let damaged_rows = Some(app.engine.damaged_rows()).filter(|rows| *rows > 0);
            let status = if damaged_rows.is_some() { "degraded" } else { "ready" };
            Ok(Json(Health { status, version: env!("CARGO_PKG_VERSION"), damaged_rows }))
        }
        Err(why) => not_ready(format!("the store cannot be written: {why}"), "`windlass doctor` checks the store"),
    }
}

/// Returns the page of an error code: cause, example and fix. The `type` of a problem document links it.
#[utoipa::path(
    get,
    path = "/errors/{code}",
    tag = "ops",
    params(("code" = String, Path, description = "such as `WND-3003`")),
    responses(
        (status = 200, description = "the page, in Markdown", content_type = "text/plain"),
        (status = 404, body = ApiProblem, description = "there is no such code")
    )
)]
pub(crate) async fn error_page(_: Public, Path(code): Path<String>) -> Result<impl IntoResponse, ApiProblem> {
    let entry = windlass_errors::find(&code).ok_or_else(|| {
        ApiProblem::not_found(format!("there is no error code `{code}`")).hint("codes look like `WND-3003`")
    })?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], entry.page))
}

/// Returns metrics in the OpenMetrics format, for Prometheus and others.
#[utoipa::path(get, path = "/metrics", tag = "ops", responses((status = 200, description = "OpenMetrics", content_type = "application/openmetrics-text")))]
pub(crate) async fn metrics(_: Allowed<Read>, State(app): State<App>) -> Result<impl IntoResponse, ApiProblem> {
    let text = app.metrics.render(&app).map_err(|_| {
        ApiProblem::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, "the metrics could not be rendered")
    })?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text))
}

/// Returns this document.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "ops", responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
pub(crate) async fn openapi(_: Public) -> impl IntoResponse {
    // Public and unlimited, so it is generated only once.
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| super::document().to_json().unwrap_or_default().into());
    ([(header::CONTENT_TYPE, "application/json")], TEXT.clone())
}
