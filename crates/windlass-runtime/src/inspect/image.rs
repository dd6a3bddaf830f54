//! The status of a run. Another process may be executing it right now.

use std::sync::Arc;

use windlass_core::{ErrorInfo, Program, State};
use windlass_store::{RunRow, RunStatus, Store, StoreError};
use windlass_value::{Duration, Timestamp};

use super::ListedStatus;
use crate::{FinalReport, RunImage, RunOptions, RuntimeError, codec, real_now, recovery};

/// A run as the store has it.
pub struct StoredRun {
    /// The row of the run, read after the state.
    pub row: RunRow,
    /// The plan with its expressions parsed.
    pub program: Arc<Program>,
    /// The newest state in the store.
    pub image: RunImage,
}

impl StoredRun {
    /// Loads the newest state. Tried twice: the owner may have trimmed the journal between the snapshot and the ticks
    /// after it.
    pub fn load(store: &dyn Store, row: RunRow, program: Arc<Program>) -> Result<StoredRun, RuntimeError> {
        let attempt = || recovery::load(store, &row, &program);
        let image = attempt().or_else(|_| attempt())?;
        // Read again after the state: a row that is older than the state could show a run as open that has ended.
        let row = store.run(&row.run)?.unwrap_or(row);
        Ok(StoredRun { row, program, image })
    }
}

/// Returns the report of a run, if it has ended.
pub fn final_report(row: &RunRow) -> Result<Option<FinalReport>, RuntimeError> {
    let report = FinalReport::from_row(row)?;
    Ok(report.filter(|_| row.status.is_final()))
}

/// Returns the current time of a run: a run with virtual time has its own.
pub fn run_time_now(row: &RunRow, newest: Timestamp) -> Timestamp {
    match RunOptions::from_row(row) {
        Ok(how) if how.virtual_time => newest,
        _ => real_now().max(newest),
    }
}

/// Returns the owner, if it is alive.
pub fn live_owner(store: &dyn Store, row: &RunRow) -> Result<Option<String>, StoreError> {
    match &row.owner {
        Some(owner) if store.owner_alive(owner)? => Ok(Some(owner.clone())),
        _ => Ok(None),
    }
}

/// Returns the status name of an open run with this live owner. Its row has less detail than its state.
pub fn status_name(row: &RunRow, state: &State, owner: Option<&str>) -> &'static str {
    match row.status {
        RunStatus::Quarantined => "quarantined",
        _ if state.result().is_some() => state.result().map_or("failed", |result| result.status.as_str()),
        RunStatus::Running if owner.is_none() => ListedStatus::Interrupted.as_str(),
        _ if state.held_start.is_some() => "pending",
        _ if state.paused => "paused",
        _ if state.root.is_none() => "pending",
        RunStatus::Waiting => "waiting",
        _ if state.is_idle() => "waiting",
        _ => "running",
    }
}

/// Returns the duration of a run; until now for one that has not ended.
pub fn run_duration(row: &RunRow) -> Duration {
    match row.status.is_final() {
        true => row.changed_at.since(row.created_at),
        false => run_time_now(row, row.changed_at).since(row.created_at),
    }
}

/// Returns the error of a run that did not succeed, without decoding its output.
pub fn run_error(row: &RunRow) -> Result<Option<ErrorInfo>, RuntimeError> {
    #[derive(serde::Deserialize)]
    struct ErrorOnly {
        error: Option<ErrorInfo>,
    }
    if let Err(error) = row.check_format() {
        let info = ErrorInfo::new("NeedsNewer", "version", error.message);
        return Ok(Some(ErrorInfo { hint: error.hint.map(Into::into), ..info }));
    }
    let Some(bytes) = row.result.as_ref().filter(|_| row.status != RunStatus::Succeeded) else { return Ok(None) };
    let ended: ErrorOnly = codec::decode(bytes, "the run's result")?;
    Ok(ended.error.map(|error| super::with_run_hint(error, &row.run)))
}
