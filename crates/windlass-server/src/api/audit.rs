//! The audit log, page by page.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use super::take::Query;
use crate::auth::{Admin, Allowed};
use crate::problem::codes;
use crate::{App, Problem, audit};

const DEFAULT_LIMIT: usize = 100;
const MAX_LIMIT: usize = 1_000;

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asked {
    /// The number of the last line seen.
    after: Option<u64>,
    /// At most so many, 100 if nothing is said.
    limit: Option<usize>,
}

#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct Lines {
    /// As they are in the log, oldest first.
    #[schema(value_type = Vec<Object>)]
    items: Vec<serde_json::Value>,
    /// For `after`, if there are more.
    next: Option<u64>,
    /// The number of the newest line of all: the newest hundred are those after that minus a hundred.
    last: u64,
}

/// What was changed, by whom, oldest first.
#[utoipa::path(get, path = "/api/v1/audit", tag = "audit", params(Asked), 
    responses((status = 200, body = Lines, description = "a page; `next` is the number for `after`")))]
pub(crate) async fn lines(
    _: Allowed<Admin>,
    State(app): State<App>,
    Query(asked): Query<Asked>,
) -> Result<Json<Lines>, Problem> {
    let Some(directory) = app.audit.directory().map(std::path::Path::to_owned) else {
        return Ok(Json(Lines { items: Vec::new(), next: None, last: 0 }));
    };
    let (after, limit) = (asked.after.unwrap_or(0), asked.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT));
    let read = tokio::task::spawn_blocking(move || audit::page(&directory, after, limit)).await;
    match read.map_err(std::io::Error::other).flatten() {
        Ok(page) => Ok(Json(Lines { items: page.items, next: page.next, last: page.last })),
        Err(error) => {
            let detail = format!("the audit log could not be read: {error}");
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, detail))
        }
    }
}
