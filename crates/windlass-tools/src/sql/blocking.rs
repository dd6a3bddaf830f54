//! Embedded databases: a call runs on a blocking thread, its statements are one transaction, and they are interrupted
//! when the caller no longer waits for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration as StdDuration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::ToolCall;
use windlass_value::{Duration, Value};

use super::{SqlEntry, StatementResult};
use crate::input::{CallStopReason, ToolInput, bad_input, run_with_limit};

/// Interval between interrupts of a running statement.
const INTERRUPT_INTERVAL: StdDuration = StdDuration::from_millis(50);
/// Number of interrupts before the call returns although the statement still runs.
const MAX_INTERRUPTS: usize = 20;

/// A connection that runs statements on a blocking thread.
pub(crate) trait SqlSession {
    /// Returns true if the entry manages transactions itself, or cannot run inside one.
    fn runs_outside_transaction(entry: &SqlEntry<'_>) -> bool;

    /// Runs a statement without values and without rows.
    fn execute_command(&self, sql: &str) -> Result<(), ErrorInfo>;

    /// Runs all statements of one entry and appends a result for each.
    fn run(
        &self,
        entry: &SqlEntry<'_>,
        stop: &StopSignal,
        max_result_bytes: usize,
        tables: &mut Vec<StatementResult>,
    ) -> Result<(), ErrorInfo>;
}

/// Signals the thread that the caller no longer waits.
#[derive(Clone, Default)]
pub(crate) struct StopSignal(Arc<StopState>);

#[derive(Default)]
struct StopState {
    is_stopped: AtomicBool,
    interrupt: Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl StopSignal {
    /// Sets the function that interrupts the running statement.
    pub(crate) fn set_interrupt(&self, interrupt: impl Fn() + Send + 'static) {
        *self.0.interrupt.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(interrupt));
    }

    /// Removes the interrupt function, because the connection may be used by another call.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "only some connections are kept"))]
    pub(crate) fn clear_interrupt(&self) {
        *self.0.interrupt.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Fails if the call was stopped. The thread checks between statements, when there is nothing to interrupt.
    pub(crate) fn check(&self) -> Result<(), ErrorInfo> {
        match self.0.is_stopped.load(Ordering::Acquire) {
            true => Err(CallStopReason::Cancelled.error("the statement")),
            false => Ok(()),
        }
    }

    fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Release);
        if let Some(interrupt) = &*self.0.interrupt.lock().unwrap_or_else(PoisonError::into_inner) {
            interrupt();
        }
    }
}

/// A call that is stopped when its caller no longer waits.
struct WatchedCall {
    work: JoinHandle<Result<Value, ErrorInfo>>,
    stop: StopSignal,
}

impl WatchedCall {
    /// Stops the call and waits a little for its end, so that the next attempt does not overlap with it. Returns its
    /// result if it was already complete.
    async fn stop_and_wait(&mut self) -> Option<Value> {
        for _ in 0..MAX_INTERRUPTS {
            self.stop.stop();
            if let Ok(ended) = tokio::time::timeout(INTERRUPT_INTERVAL, &mut self.work).await {
                return ended.ok()?.ok();
            }
        }
        None
    }
}

impl Drop for WatchedCall {
    fn drop(&mut self) {
        if self.work.is_finished() {
            return;
        }
        self.stop.stop();
        // A call that has not started yet is removed from the queue.
        self.work.abort();
        // A statement that started at this moment has missed the interrupt.
        if let Ok(runtime) = Handle::try_current() {
            let (work, stop) = (self.work.abort_handle(), self.stop.clone());
            runtime.spawn(async move {
                while !work.is_finished() {
                    stop.stop();
                    tokio::time::sleep(INTERRUPT_INTERVAL).await;
                }
            });
        }
    }
}

/// Runs one call of a tool with `database` and `statements`; `work` receives both on a blocking thread.
pub(crate) async fn run_call<W>(
    tool: &'static str,
    call: &ToolCall,
    timeout: Duration,
    work: W,
) -> Result<TaskOutcome, ErrorInfo>
where
    W: FnOnce(&str, &[SqlEntry<'_>], &StopSignal) -> Result<Vec<StatementResult>, ErrorInfo> + Send + 'static,
{
    let input = ToolInput::parse(tool, &call.input)?;
    let limit = input.time_limit(call, timeout)?;
    input.text("database")?.ok_or_else(|| bad_input(format!("`{tool}` has no `database`")))?;
    super::entries(&input)?;
    let (input_value, stop) = (call.input.clone(), StopSignal::default());
    let thread_stop = stop.clone();
    let work = tokio::task::spawn_blocking(move || {
        let input = ToolInput::parse(tool, &input_value)?;
        let database = input.text("database")?.unwrap_or_default();
        let tables = work(database, &super::entries(&input)?, &thread_stop)?;
        Ok(super::build_output(tables, super::wants_numbered(&input)))
    });
    let mut watched = WatchedCall { work, stop };
    match run_with_limit(call, limit, &mut watched.work).await {
        Ok(Ok(result)) => result.map(TaskOutcome::success),
        Ok(Err(_)) => Err(ErrorInfo::new("Panic", "tool", "the statement's thread ended without an answer")),
        Err(stopped) => {
            watched.stop_and_wait().await.map(TaskOutcome::success).ok_or_else(|| stopped.error("the statement"))
        }
    }
}

/// Runs all entries in one transaction, unless they manage their own.
pub(crate) fn transaction<S: SqlSession>(
    session: &S,
    entries: &[SqlEntry<'_>],
    stop: &StopSignal,
    max_result_bytes: usize,
) -> Result<Vec<StatementResult>, ErrorInfo> {
    let together = !entries.iter().any(S::runs_outside_transaction);
    if together {
        session.execute_command("BEGIN")?;
    }
    let done = run_entries(session, entries, stop, max_result_bytes).and_then(|tables| {
        if together {
            session.execute_command("COMMIT")?;
        }
        Ok(tables)
    });
    if done.is_err() && together {
        // A failed commit may already have ended the transaction.
        let _ = session.execute_command("ROLLBACK");
    }
    done
}

fn run_entries<S: SqlSession>(
    session: &S,
    entries: &[SqlEntry<'_>],
    stop: &StopSignal,
    max_result_bytes: usize,
) -> Result<Vec<StatementResult>, ErrorInfo> {
    let mut tables = Vec::new();
    for entry in entries {
        stop.check()?;
        session.run(entry, stop, max_result_bytes, &mut tables)?;
    }
    // A call whose caller no longer waits has failed, and leaves no changes.
    stop.check()?;
    Ok(tables)
}
