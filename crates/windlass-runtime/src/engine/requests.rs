//! External requests to a run, from any process that uses the same store.

use std::sync::Arc;

use windlass_core::TickKind;
use windlass_store::{InboxRow, InboxVerdict, StoreWrite};
use windlass_value::Value;

use crate::RuntimeError;
use crate::clock::real_now;
use crate::codec;
use crate::external_input::neutralize_references;

/// A request to a run from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum RunRequest {
    /// Starts no further tasks until the run is resumed. Running tasks end.
    Pause,
    /// Ends a pause, or starts a run that was created held.
    Resume,
    /// Ends the run with the status `cancelled`.
    Cancel {
        /// The reason, for the error of the run.
        reason: String,
    },
    /// An event for every node that waits for it.
    Signal {
        /// The name of the event.
        name: String,
        /// The data of the event. Secret references in them are neutralized.
        payload: Value,
    },
    /// An event for one place of the net only.
    SignalTo {
        /// The name of the place, which is a step.
        place: String,
        /// The name of the event.
        name: String,
        /// The data of the event. Secret references in them are neutralized.
        payload: Value,
    },
}

/// The outcome of a request. The request is durable in every case but the last.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestOutcome {
    /// A live process owns the run and will handle the request.
    Delivered,
    /// No process runs it now: the request is handled when the run is resumed.
    Queued,
    /// The same request was made before.
    Duplicate,
    /// The run has ended: the request was not stored.
    Ended,
}

/// Puts a request into the run's inbox.
pub fn request(
    store: &dyn StoreWrite,
    run: &str,
    request_id: &str,
    request: RunRequest,
) -> Result<RequestOutcome, RuntimeError> {
    let id: Arc<str> = request_id.into();
    let cancels = matches!(request, RunRequest::Cancel { .. });
    let tick = match request {
        RunRequest::Pause => TickKind::Pause { request: Some(id.clone()) },
        RunRequest::Resume => TickKind::Resume { request: Some(id.clone()) },
        RunRequest::Cancel { reason } => {
            TickKind::CancelRun { reason: reason.into(), request: Some(id.clone()), by_caller: false }
        }
        RunRequest::Signal { name, payload } => {
            let payload = neutralize_references(payload);
            TickKind::AddEvent {
                name: name.into(),
                payload,
                request: Some(id.clone()),
                origin: None,
                to: None,
                trigger_metadata: Value::Null,
                defaults: Value::Null,
            }
        }
        RunRequest::SignalTo { place, name, payload } => {
            let (name, to, payload) = (name.into(), Some(place.into()), neutralize_references(payload));
            TickKind::AddEvent {
                name,
                payload,
                request: Some(id.clone()),
                origin: None,
                to,
                trigger_metadata: Value::Null,
                defaults: Value::Null,
            }
        }
    };
    let row = InboxRow { run: run.into(), request_id: id, body: codec::encode(&tick), at: real_now() };
    // From the acknowledgement on, no run begins below a cancelled one.
    let verdict = if cancels { store.cancel_tree(&row)? } else { store.inbox_put(&row)? };
    match verdict {
        InboxVerdict::Accepted { owner: Some(_) } => Ok(RequestOutcome::Delivered),
        InboxVerdict::Accepted { owner: None } => Ok(RequestOutcome::Queued),
        InboxVerdict::Duplicate => Ok(RequestOutcome::Duplicate),
        InboxVerdict::Ended => Ok(RequestOutcome::Ended),
        InboxVerdict::NoSuchRun => Err(RuntimeError::NoSuchRun(run.to_owned())),
    }
}
