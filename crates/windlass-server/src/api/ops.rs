//! Whether the server is well, and what it can do.

use axum::Json;
use axum::http::header;
use axum::response::IntoResponse;

use crate::auth::Public;

/// The process lives.
#[utoipa::path(get, path = "/healthz", tag = "ops", responses((status = 200, description = "it lives")), security(()))]
pub async fn health(_: Public) -> Json<serde_json::Value> {
    Json(serde_json::json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") }))
}

/// This document.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "ops", responses((status = 200, description = "OpenAPI 3.1")), security(()))]
pub async fn openapi(_: Public) -> impl IntoResponse {
    let (_, document) = super::routes().split_for_parts();
    ([(header::CONTENT_TYPE, "application/json")], document.to_json().unwrap_or_default())
}
