//! What a run tells: as a stream, or page by page; and which runs have changed.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;
use windlass_runtime::show::{Piece, StoredEvents, event_value};
use windlass_value::Value;

use super::models::{Page, row_of};
use super::take::{Query, RunId, page_size};
use crate::auth::{Allowed, Read};
use crate::streams::{Form, Tail, answer};
use crate::{App, Problem};

/// Events in one page.
const EVENTS: u32 = 200;
const EVENTS_MAX: u32 = 5_000;

/// Journal rows read at once for a page.
const ROWS_AT_ONCE: u32 = 16;

const SSE: &str = "text/event-stream";
const LINES: &str = "application/x-ndjson";

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventsQuery {
    /// The number of the newest event that is known already. `Last-Event-ID` says the same, and counts more.
    #[serde(default)]
    after: u64,
    /// Of a page; a stream has no end but the run's.
    limit: Option<u32>,
    /// False: a stream ends at the newest event.
    follow: Option<bool>,
}

/// The events of a run.
///
/// `Accept: text/event-stream` gives each as SSE with its number as `id`, `Accept: application/x-ndjson` one a line, anything
/// else a page. A stream goes on until the run has ended and then says `end`; a quiet one says that it is alive.
#[utoipa::path(get, path = "/api/v1/runs/{run}/events", tag = "events",
    params(("run" = String, Path), EventsQuery, ("Last-Event-ID" = Option<u64>, Header, description = "as browsers send it when they connect again")),
    responses((status = 200, description = "a page; `next` is the number for `after`", content((Page<Object> = "application/json"), (String = "text/event-stream"), (String = "application/x-ndjson"))),
        (status = 404, description = "there is no such run", body = Problem)))]
pub async fn events(
    _: Allowed<Read>,
    State(app): State<App>,
    RunId(run): RunId,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let after = last_seen(&headers)?.unwrap_or(query.after);
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let (kind, form) = match (accept.contains(SSE), accept.contains(LINES)) {
        (true, _) => (SSE, Form::Sse),
        (false, true) => (LINES, Form::Lines),
        (false, false) => return page(app, run, after, &query).await,
    };
    let id = run.clone();
    let row = app.at_store(move |app| Ok(row_of(app, &id)?)).await?;
    // What an ended run has said is all in the store.
    let follow = query.follow.unwrap_or(true) && !row.status.is_final();
    Ok(answer(kind, Tail::open(app, row, after, form, follow).await?))
}

fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let mut all = headers.get_all("last-event-id").iter();
    let Some(given) = all.next() else { return Ok(None) };
    let number = match given.to_str().map(str::trim) {
        Ok("") => Some(None),
        Ok(text) => text.parse().ok().map(Some),
        Err(_) => None,
    };
    let number = number.filter(|_| all.next().is_none());
    number.ok_or_else(|| Problem::bad_request("`Last-Event-ID` is no number of an event"))
}

async fn page(app: App, run: String, after: u64, query: &EventsQuery) -> Result<Response, Problem> {
    let limit = page_size(query.limit, EVENTS, EVENTS_MAX)? as usize;
    let page = app.at_store(move |app| {
        let row = row_of(app, &run)?;
        let mut events = StoredEvents::new(row.run.clone(), after);
        let mut pieces: Vec<Piece> = Vec::new();
        while pieces.len() <= limit {
            let more = events.read_rows(app.store.as_ref(), ROWS_AT_ONCE)?;
            if more.is_empty() {
                break;
            }
            pieces.extend(more);
        }
        let more = pieces.len() > limit;
        pieces.truncate(limit);
        let next = pieces.last().filter(|_| more).map(|last| Value::from(last.seq()));
        let items = pieces.iter().map(|piece| event_value(&row.run, piece)).collect();
        Ok(Page::<Value> { items, next })
    });
    Ok(axum::Json(page.await?).into_response())
}

/// Runs that are made or change their status, as they do.
///
/// SSE: `event: run` with a run as the list has it; `event: resync` when too much has changed to be told: whoever shows a
/// list asks for it anew.
#[utoipa::path(get, path = "/api/v1/runs/changes", tag = "events",
    responses((status = 200, description = "a stream without an end", content((String = "text/event-stream")))))]
pub async fn changes(_: Allowed<Read>, State(app): State<App>) -> Response {
    answer(SSE, app.views.changes.join(&app))
}
