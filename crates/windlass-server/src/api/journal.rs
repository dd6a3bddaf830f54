//! The journal of a run, and the large values it has written.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_core::{TickKind, redacted_value};
use windlass_runtime::codec::{self, TickEntry};
use windlass_runtime::{RuntimeError, resolve};
use windlass_store::RunRow;
use windlass_value::{Value, to_json};

use super::extract::{Query, RunId, page_size, path_parameter};
use super::models::{ListPage, find_run};
use crate::auth::{Allowed, Read, TokenScope};
use crate::catalog::{PLAN, parse_hash};
use crate::problem::codes;
use crate::{ApiProblem, App};

/// Default and maximum number of ticks per page.
const DEFAULT_TICKS: u32 = 100;
const MAX_TICKS: u32 = 1_000;

/// Journal rows per read of the store; a page may take several reads.
const ROW_PAGE_SIZE: u32 = 64;

/// A tick of a run's journal.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TickInfo {
    /// The number of the tick, counted from 0.
    pub tick: u64,
    /// RFC 3339
    pub at: String,
    /// The kind of input: `StepResult`, `TimerDue`.
    pub kind: String,
    /// Digest of the resulting commands, by which a replay is compared.
    pub digest: String,
    /// The sequence numbers of the events it published.
    pub events: Vec<u64>,
    /// Left out if the definition redacts values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    pub body: Option<TickKind>,
}

/// The page of a journal.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct JournalQuery {
    /// The first tick, counted from 0.
    #[serde(default)]
    from: u64,
    /// Maximum number of ticks; 100 by default, at most 1,000.
    limit: Option<u32>,
}

/// Lists the journal of a run, tick by tick, as far as it is retained.
#[utoipa::path(get, path = "/api/v1/runs/{run}/journal", tag = "runs", params(("run" = String, Path), JournalQuery),
    responses((status = 200, description = "a page; `next` is the tick for `from`", body = ListPage<TickInfo>), (status = 404, description = "there is no such run", body = ApiProblem)))]
pub(crate) async fn journal(
    _: Allowed<Read>,
    State(app): State<App>,
    RunId(run): RunId,
    Query(query): Query<JournalQuery>,
) -> Result<axum::Json<ListPage<TickInfo>>, ApiProblem> {
    let limit = page_size(query.limit, DEFAULT_TICKS, MAX_TICKS)? as usize;
    app.read_store(move |app| {
        let is_visible = has_visible_values(app, &find_run(app, &run)?);
        let mut items = Vec::new();
        let mut from = query.from;
        while items.len() <= limit {
            let rows = app.store.journal(&run, from, ROW_PAGE_SIZE)?;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                let entries = codec::decode_ticks(&row.body)?;
                let numbered = (row.first_tick..).zip(entries).filter(|(tick, _)| *tick >= from);
                items.extend(numbered.map(|(tick, entry)| tick_info(tick, entry, is_visible)));
                from = row.first_tick + u64::from(row.ticks);
                if items.len() > limit {
                    break;
                }
            }
        }
        let next = items.get(limit).map(|next: &TickInfo| Value::from(next.tick));
        items.truncate(limit);
        Ok(axum::Json(ListPage { items, next }))
    })
    .await
}

/// Returns whether the values of a run may be shown. The journal does not mark redacted values, so it is all or
/// nothing.
fn has_visible_values(app: &App, row: &RunRow) -> bool {
    app.engine.program(&row.plan).is_ok_and(|program| !program.has_redactions())
}

fn tick_info(tick: u64, mut entry: TickEntry, is_visible: bool) -> TickInfo {
    // The private state of a tool is stored, and never shown.
    if let TickKind::StepResult { outcome, .. } = &mut entry.tick.kind
        && !outcome.private.is_null()
    {
        outcome.private = redacted_value();
    }
    TickInfo {
        tick,
        at: entry.tick.at.to_string(),
        kind: entry.tick.kind.name().to_owned(),
        digest: entry.digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        events: entry.events.iter().map(|event| event.seq).collect(),
        body: Some(entry.tick.kind).filter(|_| is_visible),
    }
}

/// Returns the compiled plan of a run, encoded with MessagePack.
///
/// It is the plan that this version of Windlass executes, for programs of the same version that draw or summarise a
/// run. A definition that was not registered may contain secrets of the user at the server's terminal: its plan needs
/// the scope `admin`.
#[utoipa::path(get, path = "/api/v1/runs/{run}/plan", tag = "runs", params(("run" = String, Path)),
    responses((status = 200, description = "the plan", content((String = "application/msgpack"))),
        (status = 403, description = "the definition of the run is not registered, and the token has no scope `admin`", body = ApiProblem),
        (status = 404, description = "there is no such run", body = ApiProblem)))]
pub(crate) async fn plan(
    allowed: Allowed<Read>,
    State(app): State<App>,
    RunId(run): RunId,
) -> Result<Response, ApiProblem> {
    let sees_all = allowed.identity.may(TokenScope::Admin);
    let bytes = app.read_store(move |app| {
        let row = find_run(app, &run)?;
        if !sees_all && app.store.record(PLAN, &row.plan.to_string())?.is_none() {
            let detail = format!("the definition of the run `{run}` is not registered");
            let problem = ApiProblem::new(StatusCode::FORBIDDEN, codes::FORBIDDEN, detail);
            return Err(problem.hint("only a token with the scope `admin` may read it"));
        }
        let plan = app.store.plan(&row.plan)?.ok_or_else(|| RuntimeError::MissingBlob(row.plan.to_string()))?;
        Ok(plan.body)
    });
    Ok(([(CONTENT_TYPE, "application/msgpack")], bytes.await?).into_response())
}

/// `{hash}` of the path.
pub(crate) struct BlobHashParam(String);

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for BlobHashParam {
    type Rejection = ApiProblem;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        state: &S,
    ) -> Result<BlobHashParam, ApiProblem> {
        path_parameter(parts, state, "hash").await.map(BlobHashParam)
    }
}

/// Parameters of a large value.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ValueQuery {
    /// true puts nested references in place. Then the bytes are no longer those that the reference describes.
    #[serde(default)]
    resolve: bool,
}

/// Returns a value that is transferred as a reference because it is large.
///
/// The body has the `size` and the `checksum` of the reference: values inside that are large themselves are references
/// in it. Only values written by this run are returned.
#[utoipa::path(get, path = "/api/v1/runs/{run}/values/{hash}", tag = "runs",
    params(("run" = String, Path), ("hash" = String, Path, description = "`key` of the reference"), ValueQuery),
    responses((status = 200, description = "the value", body = serde_json::Value), (status = 404, description = "this run has written no such value", body = ApiProblem)))]
pub(crate) async fn value(
    _: Allowed<Read>,
    State(app): State<App>,
    RunId(run): RunId,
    BlobHashParam(text): BlobHashParam,
    Query(query): Query<ValueQuery>,
) -> Result<Response, ApiProblem> {
    let missing = || ApiProblem::not_found(format!("this run has written no value `{}`", text.escape_debug()));
    let hash = parse_hash(&text).ok_or_else(missing)?;
    let found = app
        .read_store(move |app| {
            if !has_visible_values(app, &find_run(app, &run)?) {
                let hidden =
                    ApiProblem::not_found("the values of this run are redacted: its definition secures some of them");
                return Err(hidden.hint("`secureData` in the definition determines this"));
            }
            let Some(bytes) = app.store.blob_of_run(&run, &hash)? else { return Ok(None) };
            let value = codec::blob_value(&hash, &bytes)?;
            let value = if query.resolve { resolve(app.store.as_ref(), &value)? } else { value };
            Ok(Some(to_json(&value)))
        })
        .await?;
    // The exact bytes that the reference describes.
    found.map(|json| ([(CONTENT_TYPE, "application/json")], json).into_response()).ok_or_else(missing)
}
