//! Quarantine of runs that fail in a way that a retry does not fix. The reason is stored in the run's row, where
//! every listing shows it, and all other runs continue.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tracing::{error, warn};
use windlass_core::{ErrorInfo, Status};
use windlass_store::{BatchVerdict, RunBatch, RunRow, RunStatus, StatusChange, StoreErrorKind};
use windlass_value::Value;

use super::EngineInner;
use crate::clock::real_now;
use crate::report::FinalReport;
use crate::{RuntimeError, codec};

/// The error code in the row of a quarantined run.
const CODE: &str = "Quarantined";

/// Returns why a run is quarantined, or `None` if it is not.
pub fn quarantine_reason(row: &RunRow) -> Option<ErrorInfo> {
    if row.status != RunStatus::Quarantined {
        return None;
    }
    let report = row.result.as_ref().and_then(|bytes| codec::decode::<FinalReport>(bytes, "the reason").ok());
    let message = "replaying the journal gives a different result than the one recorded";
    let unknown = || ErrorInfo::new(CODE, "quarantined", message);
    Some(report.and_then(|report| report.error).unwrap_or_else(unknown))
}

pub(super) fn quarantine_error(row: &RunRow) -> RuntimeError {
    let why = quarantine_reason(row).map_or_else(String::new, |error| error.message.to_string());
    RuntimeError::Quarantined { run: row.run.to_string(), why }
}

impl RuntimeError {
    /// The error would occur again at the next attempt.
    pub(super) fn is_poison(&self) -> bool {
        match self {
            RuntimeError::Quarantined { .. }
            | RuntimeError::Damaged { .. }
            | RuntimeError::MissingBlob(_)
            | RuntimeError::Plan(_) => true,
            RuntimeError::Store(error) => error.kind == StoreErrorKind::Damaged,
            _ => false,
        }
    }

    /// The data was written by a newer program: it is left unchanged and is not damaged.
    pub fn needs_newer(&self) -> bool {
        matches!(self, RuntimeError::Store(error) if error.kind == StoreErrorKind::NeedsNewer)
    }

    /// The store failed temporarily; the run is not damaged.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, RuntimeError::Store(error) if matches!(error.kind, StoreErrorKind::Busy | StoreErrorKind::Full))
    }

    /// Returns the reason alone, without the surrounding sentence.
    fn reason_text(&self) -> String {
        match self {
            RuntimeError::Quarantined { why, .. } => why.clone(),
            other => other.to_string(),
        }
    }
}

impl EngineInner {
    /// Releases a run that this engine has claimed and cannot resume. A run that can never resume by itself is
    /// quarantined, so that no engine tries it again before an operator has looked at it.
    pub(super) fn release_or_quarantine(
        &self,
        row: &RunRow,
        owner_epoch: u64,
        error: &RuntimeError,
    ) -> Result<(), RuntimeError> {
        let poisoned = error.is_poison();
        let why = error.reason_text();
        let batch = RunBatch {
            run: row.run.clone(),
            owner_epoch,
            expected_ticks: row.ticks,
            status: poisoned.then(|| StatusChange {
                status: RunStatus::Quarantined,
                at: real_now(),
                result: Some(codec::encode(&quarantine_report(&why))),
            }),
            // The timer must not wake it again and again.
            timer: poisoned.then_some(None),
            release: true,
            ..RunBatch::default()
        };
        let verdicts = self.store.append(vec![batch])?;
        if poisoned && verdicts.first() == Some(&BatchVerdict::Committed) {
            self.recovery().quarantined += 1;
            self.publish_change(&row.run, RunStatus::Quarantined);
            error!(run = &*row.run, reason = why, "quarantined");
        }
        Ok(())
    }

    /// Quarantines a run whose loop has ended with a permanent error.
    pub(super) fn quarantine_if_poisoned(&self, run: &Arc<str>, owner_epoch: u64, error: &RuntimeError) {
        if !error.is_poison() {
            return;
        }
        // A run that was never durable is known only to the caller that started it.
        let Ok(Some(row)) = self.store.run(run) else { return };
        if row.status.is_final() || row.owner_epoch != owner_epoch {
            return;
        }
        if let Err(failure) = self.release_or_quarantine(&row, owner_epoch, error) {
            warn!(error = %failure, "quarantine failed");
        }
    }
}

/// Builds the report that carries the reason instead of a result.
fn quarantine_report(why: &str) -> FinalReport {
    let error = ErrorInfo::new(CODE, "quarantined", why);
    FinalReport {
        status: Status::Failed,
        output: Value::Null,
        error: Some(error.hint("inspect it with `windlass replay`; `windlass resume` retries it")),
        reply: None,
        steps: Vec::new(),
        events: 0,
        usage: Value::Null,
    }
}

/// Runs a future and converts a panic into an error, so that a defect in one run stops only that run.
pub(super) async fn catch_panic<T>(
    run: &Arc<str>,
    work: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, RuntimeError> {
    let mut work = pin!(work);
    std::future::poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(polled) => polled,
        Err(panic) => Poll::Ready(Err(panic_error(run, &*panic))),
    })
    .await
}

pub(super) fn panic_error(run: &Arc<str>, panic: &(dyn Any + Send)) -> RuntimeError {
    let message = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let why = format!("internal error: the control loop panicked: {}", message.unwrap_or("no message"));
    RuntimeError::Quarantined { run: run.to_string(), why }
}
