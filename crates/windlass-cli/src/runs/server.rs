//! The runs of a server, with the operations that commands need.

use std::collections::BTreeSet;
use std::sync::Arc;

use hyper::Method;
use tokio::runtime::Runtime;
use windlass_core::plan::Plan;
use windlass_core::{IterationRecord, Program};
use windlass_runtime::inspect::{IterationPage, ListedStatus, LoopDetailsByStep, LoopHistory, StoredEvent};
use windlass_runtime::{FinalReport, RequestOutcome, codec};
use windlass_store::{LogPage, RunRow};
use windlass_tools::approval::Approval;
use windlass_value::{Language, Map, Value};

use super::api::{ApiError, ServerApi, segment, with_query};
use super::decode;
use crate::config::CliSettings;
use crate::failure::{CliFailure, codes};
use crate::host::{self, Interrupts};
use crate::stores;

/// Entries per request of a list.
const PAGE_ROWS: u64 = 500;
/// Events and iterations per request.
const PAGE_EVENTS: u64 = 5_000;
/// Runs that are compared with a wrong id.
const MAX_NEAREST: usize = 500;

pub(crate) struct ServerRuns {
    runtime: Runtime,
    pub api: ServerApi,
}

/// An ended run, as a server reports it.
pub(crate) struct EndedReport {
    pub report: FinalReport,
    pub details: LoopDetailsByStep,
}

/// The answer to a request to a run.
pub(crate) struct RequestReply {
    pub outcome: RequestOutcome,
    /// The word and the note for a signal that no node waits for.
    pub undelivered: Option<(&'static str, String)>,
}

impl ServerRuns {
    pub(crate) fn new(api: ServerApi) -> Result<ServerRuns, CliFailure> {
        Ok(ServerRuns { runtime: host::runtime()?, api })
    }

    /// Waits for an operation that needs the runtime.
    pub(crate) fn block_on<T>(&self, operation: impl Future<Output = T>) -> T {
        self.runtime.block_on(operation)
    }

    /// Listens for interrupts from now on, for a command that starts a run and then follows it.
    pub(crate) fn listen(&self) -> Result<Interrupts, CliFailure> {
        self.block_on(async { Interrupts::listen() })
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value, CliFailure> {
        self.block_on(self.api.get(path)).map_err(|error| self.api.failure(error))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value, CliFailure> {
        self.block_on(self.api.post(path, body)).map_err(|error| self.api.failure(error))
    }

    /// Visits the entries of all pages of a list, until `visit` returns false.
    pub(crate) fn pages(
        &self,
        path: &str,
        query: &[(&str, String)],
        cursor: &str,
        mut visit: impl FnMut(&Value) -> Result<bool, CliFailure>,
    ) -> Result<(), CliFailure> {
        let mut next: Option<String> = None;
        loop {
            let mut query = query.to_vec();
            if let Some(next) = next.take() {
                query.retain(|(name, _)| *name != cursor);
                query.push((cursor, next));
            }
            let page = self.get(&with_query(path, &query))?;
            for item in decode::list(&page, "items")? {
                if !visit(item)? {
                    return Ok(());
                }
            }
            next = match page.get("next") {
                Some(Value::Str(mark)) => Some(mark.to_string()),
                Some(Value::Int(mark)) => Some(mark.to_string()),
                _ => return Ok(()),
            };
        }
    }

    /// Lists runs that match a query, newest first, until `max_rows` are found.
    pub(crate) fn list(
        &self,
        query: &[(&str, String)],
        max_rows: usize,
    ) -> Result<Vec<(ListedStatus, RunRow)>, CliFailure> {
        let mut query = query.to_vec();
        query.push(("limit", PAGE_ROWS.min(max_rows.max(1) as u64).to_string()));
        let mut rows = Vec::new();
        self.pages("runs", &query, "before", |item| {
            rows.push(decode::listed_run(item)?);
            Ok(rows.len() < max_rows)
        })?;
        Ok(rows)
    }

    /// Returns a run with everything that the server knows about it.
    pub(crate) fn detail(&self, run: &str) -> Result<Value, CliFailure> {
        self.get(&run_path(run, ""))
    }

    /// Finds a run by its id, by an unambiguous prefix of its id, or the newest as `last`.
    pub(crate) fn find(&self, run_ref: &str) -> Result<Value, CliFailure> {
        if run_ref == "last" {
            let newest = self.list(&[], 1)?.pop();
            let (_, row) = newest.ok_or_else(|| stores::no_run_at_all("on this server"))?;
            return self.detail(&row.run);
        }
        match self.block_on(self.api.get(&run_path(run_ref, ""))) {
            Ok(detail) => Ok(detail),
            // A text that cannot be an id is rejected as such.
            Err(error) if error.is_status(404) || error.is_status(400) => {
                let run = self.find_by_prefix(run_ref)?;
                self.detail(&run)
            }
            Err(error) => Err(self.api.failure(error)),
        }
    }

    fn find_by_prefix(&self, run_ref: &str) -> Result<Arc<str>, CliFailure> {
        let query = [("search", run_ref.to_owned()), ("children", "true".to_owned()), ("limit", PAGE_ROWS.to_string())];
        let mut matching: Vec<Arc<str>> = Vec::new();
        if !run_ref.is_empty() {
            self.pages("runs", &query, "before", |item| {
                let run = decode::text(item, "run")?;
                matching.extend(run.starts_with(run_ref).then(|| Arc::from(run)));
                Ok(matching.len() < stores::MAX_MATCHES)
            })?;
        }
        let others = match matching.is_empty() {
            true => self
                .list(&[("children", "true".to_owned())], MAX_NEAREST)?
                .into_iter()
                .map(|(_, row)| row.run)
                .collect(),
            false => Vec::new(),
        };
        stores::only_match(run_ref, matching, &others, "on this server")
    }

    /// Returns the report of an ended run.
    pub(crate) fn ended(&self, detail: &Value) -> Result<EndedReport, CliFailure> {
        let mut report = decode::final_report(detail)?;
        let run = decode::text(detail, "run")?;
        report.output = self.resolve(run, &report.output)?;
        for (_, step) in &mut report.steps {
            step.output = self.resolve(run, &step.output)?;
        }
        Ok(EndedReport { report, details: decode::loop_details(detail) })
    }

    /// Fetches large values in place of their references. A reference that the server does not open stays.
    pub(crate) fn resolve(&self, run: &str, value: &Value) -> Result<Value, CliFailure> {
        match value {
            Value::Map(map) if map.len() == 1 && stored_key(value).is_some() => {
                let path = format!("values/{}?resolve=true", segment(stored_key(value).unwrap_or_default()));
                match self.block_on(self.api.get(&run_path(run, &path))) {
                    Ok(content) => Ok(content),
                    Err(error) if error.is_status(404) => Ok(value.clone()),
                    Err(error) => Err(self.api.failure(error)),
                }
            }
            Value::Map(map) => {
                let entries = map.iter().map(|(key, value)| Ok((key.clone(), self.resolve(run, value)?)));
                entries.collect::<Result<Map, CliFailure>>().map(Value::map)
            }
            Value::List(items) => {
                items.iter().map(|item| self.resolve(run, item)).collect::<Result<Vec<_>, _>>().map(Value::list)
            }
            other => Ok(other.clone()),
        }
    }

    /// Returns the plan of a run; one without steps if this token may not read it.
    pub(crate) fn plan(&self, row: &RunRow) -> Result<Plan, CliFailure> {
        match self.block_on(self.api.bytes(Method::GET, &run_path(&row.run, "plan"), None)) {
            Ok(bytes) => codec::decode_plan(&bytes).map_err(|error| decode::unexpected(&error.to_string())),
            Err(error) if error.is_status(403) => Ok(Plan::new(row.definition.as_str(), row.dialect.as_str(), "")),
            Err(error) => Err(self.api.failure(error)),
        }
    }

    /// Returns the program of a run, for display; `None` if this token may not read its plan.
    pub(crate) fn program(&self, row: &RunRow, settings: &CliSettings) -> Result<Option<Arc<Program>>, CliFailure> {
        let plan = self.plan(row)?;
        let languages = crate::dialects::languages();
        let languages: Vec<&dyn Language> = languages.iter().map(AsRef::as_ref).collect();
        Ok(Program::load(plan, &languages, settings.limits.clone()).ok().map(Arc::new))
    }

    /// Returns the next events after a number; none if there are no more at the moment.
    pub(crate) fn events(&self, run: &str, after: u64) -> Result<Vec<StoredEvent>, CliFailure> {
        let query = [("after", after.to_string()), ("limit", PAGE_EVENTS.to_string())];
        let page = self.get(&with_query(&run_path(run, "events"), &query))?;
        decode::list(&page, "items")?.iter().cloned().map(decode::event).collect()
    }

    /// Lists the loops of a run that have ended an iteration.
    pub(crate) fn loops(&self, run: &str) -> Result<Vec<LoopHistory>, CliFailure> {
        let mut found = Vec::new();
        self.pages(&run_path(run, "loops"), &[("limit", PAGE_ROWS.to_string())], "after", |item| {
            found.extend(decode::loop_history(item)?);
            Ok(true)
        })?;
        Ok(found)
    }

    /// Returns a page of a loop's iterations; an empty one for a loop that does not exist.
    pub(crate) fn iterations(
        &self,
        run: &str,
        path: &str,
        from: u64,
        limit: usize,
        failed: bool,
    ) -> Result<IterationPage, CliFailure> {
        let (mut iterations, mut missing, mut next): (Vec<IterationRecord>, BTreeSet<(u64, u64)>, _) =
            (Vec::new(), BTreeSet::new(), Some(from));
        while let Some(at) = next.filter(|_| iterations.len() < limit) {
            let left = PAGE_EVENTS.min((limit - iterations.len()) as u64);
            let query = [
                ("loop", path.to_owned()),
                ("from", at.to_string()),
                ("limit", left.to_string()),
                ("failed", failed.to_string()),
            ];
            let page = match self.block_on(self.api.get(&with_query(&run_path(run, "iterations"), &query))) {
                Err(error) if error.is_status(404) => {
                    return Ok(IterationPage { iterations, missing: Vec::new(), next: None });
                }
                page => page.map_err(|error| self.api.failure(error))?,
            };
            for item in decode::list(&page, "iterations")? {
                iterations.push(decode::iteration(path, item)?);
            }
            for range in decode::list(&page, "not_retained")? {
                missing.insert((decode::number(range, "from")?, decode::number(range, "to")?));
            }
            next = decode::optional_number(&page, "next");
        }
        Ok(IterationPage { iterations, missing: missing.into_iter().collect(), next })
    }

    /// Returns a page of the log lines of a run.
    pub(crate) fn logs(&self, run: &str, path: Option<&str>, after: i64, limit: u32) -> Result<LogPage, CliFailure> {
        let mut query = vec![("after", after.to_string()), ("limit", limit.to_string())];
        query.extend(path.map(|path| ("path", path.to_owned())));
        let page = self.get(&with_query(&run_path(run, "logs"), &query))?;
        let lines = decode::list(&page, "lines")?.iter().map(decode::log_line).collect::<Result<_, _>>()?;
        Ok(LogPage { lines, removed: decode::number(&page, "removed")? })
    }

    /// Lists the open approvals of all runs or of one run.
    pub(crate) fn approvals(&self, run: Option<&str>) -> Result<Vec<Approval>, CliFailure> {
        let mut query = vec![("limit", PAGE_ROWS.to_string())];
        query.extend(run.map(|run| ("run", run.to_owned())));
        let mut open = Vec::new();
        self.pages("approvals", &query, "after", |item| {
            open.push(decode::approval(item)?);
            Ok(true)
        })?;
        Ok(open)
    }

    /// Sends a request to a run: `pause`, `cancel`, `resume`, `signal`, or the answer to an approval.
    pub(crate) fn request(&self, run: &str, path: &str, body: &Value) -> Result<RequestReply, CliFailure> {
        let reply = match self.block_on(self.api.post(&run_path(run, path), body)) {
            Err(error) if error.is_code(codes::ENDED_AT_SERVER) => {
                return Ok(RequestReply { outcome: RequestOutcome::Ended, undelivered: None });
            }
            reply => reply.map_err(|error| self.api.failure(error))?,
        };
        let word = decode::text(&reply, "delivery")?;
        let note = decode::optional_text(&reply, "note").map(str::to_owned);
        let (outcome, word) = match word {
            "delivered" => (RequestOutcome::Delivered, "delivered"),
            "buffered" => (RequestOutcome::Queued, "buffered"),
            "dropped" => (RequestOutcome::Delivered, "dropped"),
            "repeated" => (RequestOutcome::Duplicate, "repeated"),
            other => return Err(decode::unexpected(&format!("`{other}` is not a delivery"))),
        };
        // A note belongs to a signal that no step waits for: the process that runs the run has it all the same.
        let outcome = if note.is_some() { RequestOutcome::Delivered } else { outcome };
        Ok(RequestReply { outcome, undelivered: note.map(|note| (word, note)) })
    }

    /// Removes a resource.
    pub(crate) fn put(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.block_on(self.api.put(path, body))
    }

    pub(crate) fn delete(&self, path: &str) -> Result<Value, ApiError> {
        self.block_on(self.api.delete(path))
    }
}

/// The path of a run's resource.
pub(crate) fn run_path(run: &str, resource: &str) -> String {
    match resource {
        "" => format!("runs/{}", segment(run)),
        resource => format!("runs/{}/{resource}", segment(run)),
    }
}

/// Returns the key of a reference to a large value.
fn stored_key(value: &Value) -> Option<&str> {
    let reference = value.get("ref")?;
    (reference.get("store").and_then(Value::as_str) == Some("blobs")).then(|| reference.get("key")?.as_str()).flatten()
}
