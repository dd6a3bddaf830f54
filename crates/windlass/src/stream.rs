//! The event stream of a run, as observers see it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use windlass_core::{Event as CoreEvent, EventKind as RunEventKind, Status};
use windlass_runtime::{EventReader, RuntimeError};
use windlass_store::Store;
use windlass_value::{Map, Timestamp, Value};

use crate::event::{Event, EventRole, decode};
use crate::{Error, StepError};

/// An event of a run: `step.started`, `step.done`, `workflow.idle`, or an event that a step has published, directly
/// or as the question of a wait, under its own name.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Context, Engine, Event, StepError, Workflow};
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "begin", start)]
/// # struct Begin;
/// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
/// # #[event(name = "progress")]
/// # struct Progress { percent: u64 }
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "done", stop)]
/// # struct Done;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = Workflow::builder("talks")
///     .step("work", |ctx: Context, _: Begin| async move {
///         ctx.publish(Progress { percent: 50 })?;
///         Ok(Done)
///     })
///     .build()?;
/// let engine = Engine::in_memory().workflow(&workflow).build()?;
/// let handle = engine.start(&workflow, Begin).await?;
/// let mut events = handle.events(0)?;
/// let mut seen = Vec::new();
/// while let Some(event) = events.next().await {
///     seen.extend(event?.event::<Progress>());
/// }
/// assert_eq!(seen, [Ok(Progress { percent: 50 })]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunEvent {
    /// The sequence number in the run, from 1, without gaps.
    pub seq: u64,
    /// The time of the event.
    pub at: Timestamp,
    /// The step or task that the event belongs to; empty for the run.
    pub path: Arc<str>,
    /// The type of event, with its fields.
    pub kind: RunEventKind,
}

impl RunEvent {
    fn from_event(event: CoreEvent) -> RunEvent {
        RunEvent { seq: event.seq, at: event.at, path: event.path, kind: event.kind }
    }

    /// Returns the name of its type: `step.done`, or the name of an event that a step has published.
    pub fn type_name(&self) -> &str {
        self.kind.type_name()
    }

    /// Returns the fields of its type, by their names in JSON.
    pub fn fields(&self) -> Map {
        self.kind.fields()
    }

    /// Reports whether it carries an event of this type: one that a step has published, directly or as the question of
    /// a wait, or the stop event that has ended the run.
    pub fn is<E: Event>(&self) -> bool {
        self.find_payload(E::NAME, E::ROLE).is_some()
    }

    /// Returns the typed event, if it carries one of this type.
    pub fn event<E: Event>(&self) -> Option<Result<E, StepError>> {
        let payload = self.find_payload(E::NAME, E::ROLE)?;
        // A payload that is not an object was wrapped in one for publishing.
        let bare = payload.as_map().filter(|map| map.len() == 1).and_then(|map| map.get("data"));
        Some(decode(payload).or_else(|error| bare.map_or(Err(error), decode)))
    }

    fn find_payload(&self, name: &str, role: EventRole) -> Option<&Value> {
        match &self.kind {
            RunEventKind::Other { type_name, fields } if **type_name == *name => Some(fields),
            RunEventKind::InputRequired { event, payload, .. } if **event == *name => Some(payload),
            RunEventKind::WorkflowFinished { status: Status::Succeeded, output, .. } if role == EventRole::Stop => {
                Some(output)
            }
            _ => None,
        }
    }
}

/// A run's events in order, each once, up to its end. Also a [`Stream`](futures_core::Stream).
///
/// ```
/// fn is_a_stream<S: futures_core::Stream>() {}
/// is_a_stream::<windlass::EventStream>();
/// ```
pub struct EventStream {
    state: ReadState,
    store: Arc<dyn Store>,
}

type ReadResult = (EventReader, Result<Option<CoreEvent>, RuntimeError>);

enum ReadState {
    Idle(EventReader),
    Pending(Pin<Box<dyn Future<Output = ReadResult> + Send>>),
    Finished,
}

impl EventStream {
    pub(crate) fn new(reader: EventReader, store: Arc<dyn Store>) -> EventStream {
        EventStream { state: ReadState::Idle(reader), store }
    }

    /// Resolves the stored values of events of steps and of the end; other values that were too large stay references.
    fn resolve_values(&self, mut event: CoreEvent) -> Result<RunEvent, Error> {
        let resolves = matches!(
            event.kind,
            RunEventKind::Other { .. }
                | RunEventKind::InputRequired { .. }
                | RunEventKind::ApprovalRequested { .. }
                | RunEventKind::RunReplied { .. }
                | RunEventKind::WorkflowHeld { .. }
                | RunEventKind::WorkflowFinished { .. }
        );
        let mut failed = None;
        if resolves {
            event.kind.each_value(&mut |value| match windlass_runtime::resolve(&*self.store, value) {
                Ok(whole) => *value = whole,
                Err(error) => failed = Some(error),
            });
        }
        match failed {
            None => Ok(RunEvent::from_event(event)),
            Some(error) => Err(error.into()),
        }
    }

    /// Waits for the next event. Returns `None` when the run has ended and all events were delivered. Cancel-safe:
    /// dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Result<RunEvent, Error>> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RunEvent, Error>>> {
        loop {
            match std::mem::replace(&mut self.state, ReadState::Finished) {
                ReadState::Finished => return Poll::Ready(None),
                ReadState::Idle(mut reader) => {
                    let next = async move {
                        let next = reader.next().await;
                        (reader, next)
                    };
                    self.state = ReadState::Pending(Box::pin(next));
                }
                ReadState::Pending(mut next) => match next.as_mut().poll(context) {
                    Poll::Pending => {
                        self.state = ReadState::Pending(next);
                        return Poll::Pending;
                    }
                    Poll::Ready((_, Ok(None))) => return Poll::Ready(None),
                    Poll::Ready((reader, Ok(Some(event)))) => {
                        self.state = ReadState::Idle(reader);
                        return Poll::Ready(Some(self.resolve_values(event)));
                    }
                    Poll::Ready((_, Err(error))) => return Poll::Ready(Some(Err(error.into()))),
                },
            }
        }
    }
}

impl futures_core::Stream for EventStream {
    type Item = Result<RunEvent, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(context)
    }
}
