//! Waiting for events inside a step.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use windlass_core::{SuspendedOn, WaitAnnouncement};
use windlass_value::{Map, Value, to_value};

use crate::StepError;
use crate::call::StepCall;
use crate::event::{Event, decode, encode};
use crate::retry::to_engine_duration;

/// A wait for an event, which can be refined before it is awaited.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use std::time::Duration;
/// # use windlass::{Context, Engine, Event, StepError, Workflow};
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "order", start)]
/// # struct Order { id: u64 }
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "approval.wanted", input_required)]
/// # struct ApprovalWanted { order: u64 }
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "approved", human_response)]
/// # struct Approved { order: u64, by: String }
/// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
/// # #[event(name = "done", stop)]
/// # struct Done { by: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = Workflow::builder("approvals")
///     .step("ask", |ctx: Context, order: Order| async move {
///         let approved = ctx
///             .wait_for::<Approved>()
///             .matching("order", order.id)
///             .asking(ApprovalWanted { order: order.id })
///             .deadline(Duration::from_secs(3600))
///             .await?;
///         Ok(Done { by: approved.by })
///     })
///     .build()?;
/// let engine = Engine::in_memory().workflow(&workflow).build()?;
/// let handle = engine.start(&workflow, Order { id: 7 }).await?;
/// handle.send(Approved { order: 7, by: "Ada".into() }).await?;
/// assert_eq!(handle.result::<Done>().await?, Done { by: "Ada".into() });
/// # Ok(())
/// # }
/// ```
#[must_use = "a wait does nothing until it is awaited"]
pub struct WaitFor<E> {
    call: StepCall,
    requirements: Map,
    question: Option<WaitAnnouncement>,
    deadline: Option<Duration>,
    error: Option<StepError>,
    event: PhantomData<fn() -> E>,
}

impl<E: Event> WaitFor<E> {
    pub(super) fn new(call: StepCall) -> WaitFor<E> {
        WaitFor { call, requirements: Map::new(), question: None, deadline: None, error: None, event: PhantomData }
    }

    /// Accepts only an event whose field has this value.
    pub fn matching(mut self, field: &str, value: impl Serialize) -> WaitFor<E> {
        match to_value(&value) {
            Ok(value) => _ = self.requirements.insert(field, value),
            Err(error) => self.error = Some(error.into()),
        }
        self
    }

    /// Publishes an event in the stream when the wait begins, once.
    pub fn asking<Q: Event>(mut self, question: Q) -> WaitFor<E> {
        match encode(&question) {
            Ok(data) => self.question = Some(WaitAnnouncement { kind: Q::NAME.into(), data }),
            Err(error) => self.error = Some(error),
        }
        self
    }

    /// Ends the wait with an error of the kind `timeout` after this time, whether the run is in memory or not.
    pub fn deadline(mut self, time: Duration) -> WaitFor<E> {
        self.deadline = Some(time);
        self
    }

    async fn wait(self) -> Result<E, StepError> {
        if let Some(wrong) = self.error {
            return Err(wrong);
        }
        let payload = match self.call.next_durable_answer(&format!("event {}", E::NAME)) {
            Some(answer) => answer?,
            None => {
                let requirements = Value::map(self.requirements);
                let (deadline, asks) = (self.deadline.map(to_engine_duration), self.question);
                self.call
                    .suspend(SuspendedOn::Event { name: E::NAME.into(), requirements, deadline, announcement: asks })
                    .await?
            }
        };
        decode(&payload)
    }
}

impl<E: Event> IntoFuture for WaitFor<E> {
    type Output = Result<E, StepError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<E, StepError>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait())
    }
}
