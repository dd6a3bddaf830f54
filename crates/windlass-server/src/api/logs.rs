//! Log lines of a run's tasks.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass_store::{LogFilter, LogRow};

use super::extract::{Query, RunId, page_size};
use super::models::find_run;
use crate::auth::{Allowed, Read};
use crate::{ApiProblem, App};

/// Default and maximum number of lines per page.
const DEFAULT_LINES: u32 = 500;
const MAX_LINES: u32 = 5_000;

/// Log lines of a run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LogList {
    /// The id of the run.
    pub run: String,
    /// The lines, in order of arrival.
    pub lines: Vec<LogLineInfo>,
    /// The position for `after`; null if there are no further lines at the moment.
    pub next: Option<i64>,
    /// Number of the oldest lines of the run that are no longer stored, because it has written too much.
    pub removed: u64,
}

/// A log line of a task.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LogLineInfo {
    /// Order of arrival: the mark for the next page.
    pub position: i64,
    /// RFC 3339
    pub at: String,
    /// The path of the task, such as `pages[3].save`.
    pub path: String,
    /// The attempt of the task, counted from 1.
    pub attempt: u32,
    /// stdout, stderr, log (a worker's own), or lost: `text` is the number of lines of the attempt that were not stored
    pub stream: &'static str,
    /// The text, with secrets redacted.
    pub text: String,
}

impl LogLineInfo {
    fn from_row(row: LogRow) -> LogLineInfo {
        LogLineInfo {
            position: row.position,
            at: row.at.to_string(),
            path: row.path.to_string(),
            attempt: row.attempt,
            stream: row.stream.as_str(),
            text: row.text,
        }
    }
}

/// The filter and the page of log lines.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogsQuery {
    /// The path of a task, or of a step, loop or iteration around it.
    path: Option<String>,
    /// The position of the last line seen.
    #[serde(default)]
    after: i64,
    /// Maximum number of lines; 500 by default, at most 5,000.
    limit: Option<u32>,
}

/// Lists the log lines of a run's tasks: output of programs and code, and a worker's own lines.
#[utoipa::path(get, path = "/api/v1/runs/{run}/logs", tag = "runs", params(("run" = String, Path), LogsQuery),
    responses((status = 200, description = "a page; `next` is the position for `after`", body = LogList), (status = 404, description = "there is no such run", body = ApiProblem)))]
pub(crate) async fn logs(
    _: Allowed<Read>,
    State(app): State<App>,
    RunId(run): RunId,
    Query(query): Query<LogsQuery>,
) -> Result<axum::Json<LogList>, ApiProblem> {
    let limit = page_size(query.limit, DEFAULT_LINES, MAX_LINES)?;
    app.read_store(move |app| {
        let run = find_run(app, &run)?.run;
        let filter = LogFilter { path: query.path.as_deref().filter(|path| !path.is_empty()) };
        let mut page = app.store.logs(&run, filter, query.after, limit + 1)?;
        let more = page.lines.len() > limit as usize;
        page.lines.truncate(limit as usize);
        let next = page.lines.last().filter(|_| more).map(|last| last.position);
        let lines = page.lines.into_iter().map(LogLineInfo::from_row).collect();
        Ok(axum::Json(LogList { run: run.to_string(), lines, next, removed: page.removed }))
    })
    .await
}
