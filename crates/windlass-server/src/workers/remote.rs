//! The engine's side of a remote worker: a tool whose calls wait for a worker.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until};
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::{CancelToken, Tool, ToolCall, ToolFuture, Tools};

use super::dispatcher::{Dispatcher, JobCheck, JobOffer};

/// A tool that runs in this process, on a remote worker, or both.
pub(crate) struct WorkerTool {
    local_tool: Option<Arc<dyn Tool>>,
    dispatcher: Arc<Dispatcher>,
}

/// Returns the tools of a server: local tools run in this process unless the definition has labels; all other calls
/// go to remote workers.
pub fn with_remote_workers(local_tools: &Tools, dispatcher: &Arc<Dispatcher>) -> Tools {
    let route = |local_tool: Option<Arc<dyn Tool>>| Arc::new(WorkerTool { local_tool, dispatcher: dispatcher.clone() });
    let names: Vec<&str> = local_tools.names().collect();
    let tools =
        names.iter().fold(Tools::new(), |tools, name| tools.with_shared(name, route(local_tools.get(name).cloned())));
    tools.with_fallback(route(None))
}

impl WorkerTool {
    fn local(&self, call: &ToolCall) -> Option<&Arc<dyn Tool>> {
        self.local_tool.as_ref().filter(|_| call.definition.labels.is_empty())
    }
}

impl Tool for WorkerTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        if let Some(tool) = self.local(&call) {
            return tool.call(call);
        }
        let cancelled = call.cancelled.clone();
        // Queued immediately, not at the first poll: the worker that has just reported gets the next task with its
        // response.
        let offer = self.dispatcher.offer(call);
        Box::pin(PendingCall { dispatcher: self.dispatcher.clone(), offer, cancelled }.outcome())
    }

    fn runs_remotely(&self, call: &ToolCall) -> bool {
        self.local(call).is_none()
    }
}

/// A call waiting for its outcome. Dropping it removes its job.
struct PendingCall {
    dispatcher: Arc<Dispatcher>,
    offer: JobOffer,
    cancelled: CancelToken,
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.dispatcher.forget(&self.offer.id, self.offer.lease_epoch);
    }
}

impl PendingCall {
    async fn outcome(mut self) -> TaskOutcome {
        let mut cancel_requested = false;
        loop {
            let until = match self.dispatcher.check_job(&self.offer.id, self.offer.lease_epoch) {
                JobCheck::Queued | JobCheck::Gone => None,
                JobCheck::Until(at) => Some(at),
                JobCheck::TimedOut => {
                    return failure("timeout", "timeout", "the task took longer than its timeout allows");
                }
                JobCheck::LeaseExpired(away) => {
                    away.revoke();
                    return std::future::pending().await;
                }
            };
            let offer = &mut self.offer;
            tokio::select! {
                biased;
                outcome = &mut offer.result => match outcome {
                    Ok(outcome) => return outcome,
                    // The job was removed by code that also informs the engine.
                    Err(_) => return std::future::pending().await,
                },
                () = self.cancelled.wait(), if !cancel_requested => {
                    cancel_requested = true;
                    if self.dispatcher.cancel(&offer.id, offer.lease_epoch) {
                        return failure("Cancelled", "cancelled", "the task was cancelled before a worker leased it");
                    }
                }
                () = offer.changed.notified() => {}
                () = sleep_until_some(until) => {}
            }
        }
    }
}

async fn sleep_until_some(until: Option<Instant>) {
    match until {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn failure(code: &str, kind: &str, message: &str) -> TaskOutcome {
    TaskOutcome::failure(ErrorInfo::new(code, kind, message))
}
