//! Runs that are set aside: something is wrong with them that trying again does not mend. The reason stands in their row,
//! where everybody who lists runs can see it, and the rest go on.

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

/// What its row says as the error's code.
const CODE: &str = "Quarantined";

/// Why a run is set aside. None for one that is not.
pub fn quarantine_reason(row: &RunRow) -> Option<ErrorInfo> {
    if row.status != RunStatus::Quarantined {
        return None;
    }
    let report = row.result.as_ref().and_then(|bytes| codec::decode::<FinalReport>(bytes, "the reason").ok());
    let unknown = || ErrorInfo::new(CODE, "quarantined", "its journal and the program disagree");
    Some(report.and_then(|report| report.error).unwrap_or_else(unknown))
}

pub(super) fn quarantine_error(row: &RunRow) -> RuntimeError {
    let why = quarantine_reason(row).map_or_else(String::new, |error| error.message.to_string());
    RuntimeError::Quarantined { run: row.run.to_string(), why }
}

impl RuntimeError {
    /// It would be the same the next time.
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

    /// A newer program has written it: it is left alone, and nothing is wrong with it.
    pub fn needs_newer(&self) -> bool {
        matches!(self, RuntimeError::Store(error) if error.kind == StoreErrorKind::NeedsNewer)
    }

    /// The store could not do it now, and nothing is wrong with it.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, RuntimeError::Store(error) if matches!(error.kind, StoreErrorKind::Busy | StoreErrorKind::Full))
    }

    /// The reason alone, without the sentence around it.
    fn reason_text(&self) -> String {
        match self {
            RuntimeError::Quarantined { why, .. } => why.clone(),
            other => other.to_string(),
        }
    }
}

impl EngineInner {
    /// Gives back a run that this engine has claimed and cannot go on with. One that will never go on by itself is marked,
    /// so that nobody tries before a person has looked.
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
            // It must not be woken for its time again and again.
            timer: poisoned.then_some(None),
            release: true,
            ..RunBatch::default()
        };
        let verdicts = self.store.append(vec![batch])?;
        if poisoned && verdicts.first() == Some(&BatchVerdict::Committed) {
            self.recovery().quarantined += 1;
            self.publish_change(&row.run, RunStatus::Quarantined);
            error!(run = &*row.run, why, "quarantined");
        }
        Ok(())
    }

    /// The same for a run whose loop has ended in an error.
    pub(super) fn quarantine_if_poisoned(&self, run: &Arc<str>, owner_epoch: u64, error: &RuntimeError) {
        if !error.is_poison() {
            return;
        }
        // A run that has never become durable is only known to whoever has started it.
        let Ok(Some(row)) = self.store.run(run) else { return };
        if row.status.is_final() || row.owner_epoch != owner_epoch {
            return;
        }
        if let Err(failure) = self.release_or_quarantine(&row, owner_epoch, error) {
            warn!(why = %failure, "trouble");
        }
    }
}

/// What is said instead of a report.
fn quarantine_report(why: &str) -> FinalReport {
    let error = ErrorInfo::new(CODE, "quarantined", why);
    FinalReport {
        status: Status::Failed,
        output: Value::Null,
        error: Some(error.hint("look at it with `windlass replay`; `windlass resume` tries it again")),
        reply: None,
        steps: Vec::new(),
        events: 0,
        usage: Value::Null,
    }
}

/// A defect that shows in one run stops that run.
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
    let why = format!("the engine has a defect and stopped: {}", message.unwrap_or("it did not say why"));
    RuntimeError::Quarantined { run: run.to_string(), why }
}
