//! The events of a run, as a stream or in pages, and the feed of changed runs.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;
use windlass_runtime::inspect::{StoredEvent, StoredEvents, event_value, last_before};
use windlass_value::Value;

use super::extract::{Query, RunId, page_size};
use super::locations::{EventTypes, check_path};
use super::models::{ListPage, find_run};
use super::runs::parse_time;
use crate::auth::{Allowed, Read, Selecting};
use crate::streams::{EventTail, StreamFormat, stream_response};
use crate::{ApiProblem, App};

/// Default and maximum number of events per page.
const DEFAULT_EVENTS: u32 = 200;
const MAX_EVENTS: u32 = 5_000;

/// Maximum number of events scanned for one page.
const MAX_EVENTS_SCANNED: u64 = 20_000;

/// Journal rows read together for a page.
const ROW_PAGE_SIZE: u32 = 16;

const SSE: &str = "text/event-stream";
const NDJSON: &str = "application/x-ndjson";

/// The filter and the page of a list of events, or the beginning of a stream.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// The number of the newest known event. The header `Last-Event-ID` overrides it.
    #[serde(default)]
    after: u64,
    /// Maximum number of events of a page; a stream ends with the run.
    limit: Option<u32>,
    /// False: a stream ends at the newest event.
    follow: Option<bool>,
    /// Only events at this path and inside it: `sync[3].fetch`, or `sync[].fetch` for all iterations. For pages only.
    path: Option<String>,
    /// Only events of this type, or of several types separated by commas. Impossible types are rejected. For pages
    /// only.
    r#type: Option<String>,
    /// Only events from this time on, RFC 3339. For pages only.
    since: Option<String>,
}

impl EventsQuery {
    fn is_filtered(&self) -> bool {
        self.path.is_some() || self.r#type.is_some() || self.since.is_some()
    }
}

/// The event filter of a page.
struct EventFilter {
    path: Option<String>,
    types: EventTypes,
}

impl EventFilter {
    fn is_all(&self) -> bool {
        self.path.is_none() && self.types.is_empty()
    }

    fn matches(&self, piece: &StoredEvent) -> bool {
        let StoredEvent::Event(event) = piece else { return true };
        let inside = |path: &String| is_inside(&event.path, path);
        let of_type = self.types.is_empty() || self.types.contains(event.type_name());
        of_type && self.path.as_ref().is_none_or(inside)
    }
}

/// Returns whether an event's path is at a location or inside it; `[]` stands for any iteration.
fn is_inside(path: &str, location: &str) -> bool {
    let mut rest = path;
    for (at, part) in location.split("[]").enumerate() {
        if at > 0 {
            match after_iteration(rest) {
                Some(after) => rest = after,
                None => return false,
            }
        }
        match rest.strip_prefix(part) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.is_empty() || rest.starts_with(['.', '['])
}

/// Returns the rest after `[3]`.
fn after_iteration(path: &str) -> Option<&str> {
    let (number, after) = path.strip_prefix('[')?.split_once(']')?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(after)
}

/// Returns the events of a run.
///
/// `Accept: text/event-stream` streams them as SSE with the sequence number as `id`, `Accept: application/x-ndjson`
/// one per line. Anything else returns a page, which `path`, `type` and `since` filter; a filtered page may be empty
/// and still have a `next`, if many events had to be scanned. A stream ends with an `end` message when the run has
/// ended, and sends keep-alive messages while it is quiet.
#[utoipa::path(get, path = "/api/v1/runs/{run}/events", tag = "events",
    params(("run" = String, Path), EventsQuery, ("Last-Event-ID" = Option<u64>, Header, description = "as browsers send it when they reconnect")),
    responses((status = 200, description = "a page; `next` is the number for `after`", content((Page<Object> = "application/json"), (String = "text/event-stream"), (String = "application/x-ndjson"))),
        (status = 404, description = "there is no such run, or no such `path` in it", body = ApiProblem)))]
pub(crate) async fn events(
    _: Allowed<Read>,
    State(app): State<App>,
    RunId(run): RunId,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    let after = last_event_id(&headers)?.unwrap_or(query.after);
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let (kind, format) = match (accept.contains(SSE), accept.contains(NDJSON)) {
        (true, _) => (SSE, StreamFormat::Sse),
        (false, true) => (NDJSON, StreamFormat::Lines),
        (false, false) => return page(app, run, after, query).await,
    };
    if query.is_filtered() {
        let problem = ApiProblem::bad_request("`path`, `type` and `since` are for pages; a stream contains all events");
        return Err(problem.hint("omit this `Accept` header, or omit these parameters"));
    }
    let id = run.clone();
    let row = app.read_store(move |app| Ok(find_run(app, &id)?)).await?;
    // All events of an ended run are in the store.
    let follow = query.follow.unwrap_or(true) && !row.status.is_final();
    Ok(stream_response(kind, EventTail::open(app, row, after, format, follow).await?))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiProblem> {
    let mut all = headers.get_all("last-event-id").iter();
    let Some(given) = all.next() else { return Ok(None) };
    let number = match given.to_str().map(str::trim) {
        Ok("") => Some(None),
        Ok(text) => text.parse().ok().map(Some),
        Err(_) => None,
    };
    let number = number.filter(|_| all.next().is_none());
    number.ok_or_else(|| ApiProblem::bad_request("`Last-Event-ID` is not an event number"))
}

async fn page(app: App, run: String, after: u64, query: EventsQuery) -> Result<Response, ApiProblem> {
    let limit = page_size(query.limit, DEFAULT_EVENTS, MAX_EVENTS)? as usize;
    let since = parse_time("since", query.since)?;
    let types = EventTypes::parse(query.r#type.as_deref())?;
    let filter = EventFilter { path: query.path.filter(|path| !path.is_empty()), types };
    let all = after == 0 && since.is_none();
    let page = app.read_store(move |app| {
        let row = find_run(app, &run)?;
        let after = match since {
            Some(since) => after.max(last_before(app.store.as_ref(), &row, since)?),
            None => after,
        };
        let mut events = StoredEvents::new(row.run.clone(), after);
        let mut pieces: Vec<StoredEvent> = Vec::new();
        let mut more = true;
        // The scan is limited; beyond the limit the client continues with `next`.
        while more && pieces.len() <= limit && events.last_seq().saturating_sub(after) < MAX_EVENTS_SCANNED {
            // With a filter, one row may suffice: it contains up to thousands of events.
            let rows = if filter.is_all() { ROW_PAGE_SIZE } else { 1 };
            let read = events.read_rows(app.store.as_ref(), rows)?;
            more = !read.is_empty();
            let in_time =
                |piece: &StoredEvent| !matches!((piece, since), (StoredEvent::Event(event), Some(since)) if event.at < since);
            pieces.extend(read.into_iter().filter(|piece| filter.matches(piece) && in_time(piece)));
        }
        if all && !more && pieces.is_empty() {
            filter.path.iter().try_for_each(|path| check_path(app, &row, path))?;
            filter.types.check_found_none(row.status.is_final())?;
        }
        let cut = pieces.len() > limit;
        pieces.truncate(limit);
        let next = match cut {
            true => pieces.last().map(StoredEvent::seq),
            false => Some(events.last_seq()).filter(|_| more),
        };
        let items = pieces.iter().map(|piece| event_value(&row.run, piece)).collect();
        Ok(ListPage::<Value> { items, next: next.map(Value::from) })
    });
    Ok(axum::Json(page.await?).into_response())
}

/// Streams created runs and status changes.
///
/// SSE: `event: run` with a run as in the list; `event: resync` when too many runs have changed: the client then
/// reloads its list.
#[utoipa::path(get, path = "/api/v1/runs/changes", tag = "events",
    responses((status = 200, description = "a stream without an end", content((String = "text/event-stream")))))]
pub(crate) async fn changes(selecting: Selecting<Read>, State(app): State<App>) -> Response {
    stream_response(SSE, app.views.changes.subscribe(&app, selecting.identity))
}

#[cfg(test)]
mod tests {
    use super::is_inside;

    #[test]
    fn a_location_includes_what_is_inside_it() {
        let table = [
            ("sync[3].fetch", "sync[3].fetch", true),
            ("sync[3].fetch.call", "sync[3].fetch", true),
            ("sync[3].fetch", "sync[3]", true),
            ("sync[3].fetch", "sync", true),
            ("sync[31].fetch", "sync[3]", false),
            ("synced", "sync", false),
            ("sync[3].fetch", "sync[].fetch", true),
            ("sync[3].fetch[0].x", "sync[].fetch[]", true),
            ("sync.fetch", "sync[].fetch", false),
            ("sync[3]", "sync[]", true),
            ("sync.3.fetch", "sync[].fetch", false),
            ("sync[3x].fetch", "sync[].fetch", false),
            ("sync[3].fetched", "sync[].fetch", false),
            ("", "sync", false),
        ];
        for (path, location, inside) in table {
            assert_eq!(is_inside(path, location), inside, "{path} in {location}");
        }
    }
}
