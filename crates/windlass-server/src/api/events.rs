//! What a run tells: as a stream, or page by page; and which runs have changed.

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
use crate::auth::{Allowed, Read};
use crate::streams::{EventTail, StreamFormat, stream_response};
use crate::{ApiProblem, App};

/// Events in one page.
const DEFAULT_EVENTS: u32 = 200;
const MAX_EVENTS: u32 = 5_000;

/// Events that are looked at for one page.
const MAX_EVENTS_SCANNED: u64 = 20_000;

/// Journal rows read at once for a page.
const ROW_PAGE_SIZE: u32 = 16;

const SSE: &str = "text/event-stream";
const NDJSON: &str = "application/x-ndjson";

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// The number of the newest event that is known already. `Last-Event-ID` says the same, and counts more.
    #[serde(default)]
    after: u64,
    /// Of a page; a stream has no end but the run's.
    limit: Option<u32>,
    /// False: a stream ends at the newest event.
    follow: Option<bool>,
    /// Only events of this place and of what is inside of it: `sync[3].fetch`, or `sync[].fetch` for all turns. Of a page
    /// only.
    path: Option<String>,
    /// Only events of this type, or of several with commas between them. One that there cannot be is refused. Of a page only.
    r#type: Option<String>,
    /// Only events from this time on, RFC 3339. Of a page only.
    since: Option<String>,
}

impl EventsQuery {
    fn is_filtered(&self) -> bool {
        self.path.is_some() || self.r#type.is_some() || self.since.is_some()
    }
}

/// Which events a page has.
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

/// Whether an event's path is at a place or inside of it; `[]` stands for any turn.
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

/// What follows `[3]`, or `.3` where a dialect writes turns with dots.
fn after_iteration(path: &str) -> Option<&str> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some((number, after)) = path.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        return digits(number).then_some(after);
    }
    let inner = path.strip_prefix('.')?;
    let (number, after) = inner.split_at(inner.find(['.', '[']).unwrap_or(inner.len()));
    digits(number).then_some(after)
}

/// The events of a run.
///
/// `Accept: text/event-stream` gives each as SSE with its number as `id`, `Accept: application/x-ndjson` one a line, anything
/// else a page, which `path`, `type` and `since` make smaller: it may then be empty and have a `next` all the same, where much
/// had to be looked at. A stream goes on until the run has ended and then says `end`; a quiet one says that it is alive.
#[utoipa::path(get, path = "/api/v1/runs/{run}/events", tag = "events",
    params(("run" = String, Path), EventsQuery, ("Last-Event-ID" = Option<u64>, Header, description = "as browsers send it when they connect again")),
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
        let problem = ApiProblem::bad_request("`path`, `type` and `since` are for pages; a stream tells everything");
        return Err(problem.hint("ask without this `Accept`, or leave out what does not fit"));
    }
    let id = run.clone();
    let row = app.read_store(move |app| Ok(find_run(app, &id)?)).await?;
    // What an ended run has said is all in the store.
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
    number.ok_or_else(|| ApiProblem::bad_request("`Last-Event-ID` is no number of an event"))
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
        // What does not fit is looked at, too: after so much of it whoever asks goes on by itself.
        while more && pieces.len() <= limit && events.last_seq().saturating_sub(after) < MAX_EVENTS_SCANNED {
            // Where only some are wanted, a row may be all that is: it holds up to thousands.
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

/// Runs that are made or change their status, as they do.
///
/// SSE: `event: run` with a run as the list has it; `event: resync` when too much has changed to be told: whoever shows a
/// list asks for it anew.
#[utoipa::path(get, path = "/api/v1/runs/changes", tag = "events",
    responses((status = 200, description = "a stream without an end", content((String = "text/event-stream")))))]
pub(crate) async fn changes(_: Allowed<Read>, State(app): State<App>) -> Response {
    stream_response(SSE, app.views.changes.subscribe(&app))
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
            ("sync.3.fetch", "sync[].fetch", true),
            ("sync.3", "sync[]", true),
            ("sync.3x.fetch", "sync[].fetch", false),
            ("sync[3].fetched", "sync[].fetch", false),
            ("", "sync", false),
        ];
        for (path, location, inside) in table {
            assert_eq!(is_inside(path, location), inside, "{path} in {location}");
        }
    }
}
