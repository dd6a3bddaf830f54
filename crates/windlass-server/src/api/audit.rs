//! The audit log, page by page.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use super::extract::Query;
use crate::auth::{Admin, Allowed};
use crate::problem::codes;
use crate::{ApiProblem, App, audit};

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;

/// The page of a list of audit lines.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// The number of the last line seen.
    after: Option<u64>,
    /// Maximum number of lines; 100 by default.
    limit: Option<usize>,
}

/// A page of audit lines.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct AuditLines {
    /// Lines as in the log, oldest first.
    #[schema(value_type = Vec<Object>)]
    items: Vec<serde_json::Value>,
    /// The value of `after` for the next page, if there is one.
    next: Option<u64>,
    /// The number of the newest line. The newest hundred lines are those after this number minus a hundred.
    last: u64,
}

/// Lists changing calls and their callers, oldest first.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", params(AuditQuery), 
    responses((status = 200, body = AuditLines, description = "a page; `next` is the number for `after`")))]
pub(crate) async fn lines(
    _: Allowed<Admin>,
    State(app): State<App>,
    Query(query): Query<AuditQuery>,
) -> Result<Json<AuditLines>, ApiProblem> {
    let Some(directory) = app.audit.directory().map(std::path::Path::to_owned) else {
        return Ok(Json(AuditLines { items: Vec::new(), next: None, last: 0 }));
    };
    let (after, limit) = (query.after.unwrap_or(0), query.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT));
    let read = tokio::task::spawn_blocking(move || audit::read_page(&directory, after, limit)).await;
    match read.map_err(std::io::Error::other).flatten() {
        Ok(page) => Ok(Json(AuditLines { items: page.items, next: page.next, last: page.last })),
        Err(error) => {
            let detail = format!("the audit log could not be read: {error}");
            Err(ApiProblem::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, detail))
        }
    }
}
