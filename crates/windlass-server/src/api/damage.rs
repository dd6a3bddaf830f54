//! Damaged rows of the store: an operator sees and removes them here.

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use utoipa::ToSchema;
use windlass_store::{DamagedRowId, IsolatedRow};

use super::extract::printable;
use super::models::ListPage;
use crate::auth::{Admin, Allowed, Read};
use crate::{ApiProblem, App};

/// A row of the store that cannot be trusted. Everything else works without it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DamagedRowInfo {
    /// The id of the row, such as `runs/17`. `DELETE /api/v1/damage/runs/17` removes it.
    pub id: String,
    /// The id of the run, or the kind and the key of the record, if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A sentence that says what is wrong with the row.
    pub reason: String,
}

impl From<IsolatedRow> for DamagedRowInfo {
    fn from(row: IsolatedRow) -> DamagedRowInfo {
        DamagedRowInfo { id: row.id.to_string(), name: row.name, reason: row.reason }
    }
}

/// The result of removing a damaged row.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DamageRemoved {
    /// The id of the row.
    pub id: String,
    /// Always true: a row that cannot be removed is an error.
    pub removed: bool,
}

/// Lists the damaged rows that were met so far. `windlass doctor` looks for all of them.
#[utoipa::path(get, path = "/api/v1/damage", tag = "ops",
    responses((status = 200, description = "all of them on one page", body = ListPage<DamagedRowInfo>)))]
pub(crate) async fn list(
    _: Allowed<Read>,
    State(app): State<App>,
) -> Result<Json<ListPage<DamagedRowInfo>>, ApiProblem> {
    let found = app.engine.damage().await?;
    Ok(Json(ListPage { items: found.into_iter().map(Into::into).collect(), next: None }))
}

/// Removes a damaged row with everything that belongs to it, or a quarantined run. Child runs of a removed run stay.
#[utoipa::path(delete, path = "/api/v1/damage/{table}/{number}", tag = "ops",
    params(("table" = String, Path, description = "`runs`, `records` or `waits`"), ("number" = i64, Path, description = "the number of the row in its table")),
    responses((status = 200, description = "the row has been removed", body = DamageRemoved), (status = 400, description = "there is no such table", body = ApiProblem),
        (status = 404, description = "there is no such row, or it is not damaged", body = ApiProblem)))]
pub(crate) async fn remove(
    _: Allowed<Admin>,
    State(app): State<App>,
    Path((table, number)): Path<(String, String)>,
) -> Result<Json<DamageRemoved>, ApiProblem> {
    let text = format!("{table}/{number}");
    let id: DamagedRowId = text.parse().map_err(|()| {
        ApiProblem::bad_request(format!("`{}` is not the id of a row", printable(&text)))
            .hint("expected an id as GET /api/v1/damage lists it, such as runs/17")
    })?;
    if !app.engine.remove_damaged(id).await? {
        return Err(ApiProblem::not_found(format!("there is no damaged row {id}"))
            .hint("GET /api/v1/damage lists the damaged rows"));
    }
    super::removal::sweep(app);
    Ok(Json(DamageRemoved { id: id.to_string(), removed: true }))
}
