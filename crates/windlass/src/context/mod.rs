//! The context of a step: everything a step can do besides returning events.

mod state;
mod waits;

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::{SentToken, SuspendedOn};
use windlass_value::{Timestamp, Value, from_value, interned, to_value};

pub(crate) use state::StateBuffer;
pub use state::WorkflowState;
pub use waits::WaitFor;

use crate::call::StepCall;
use crate::event::{Event, encode};
use crate::nearest::suggest;
use crate::retry::to_engine_duration;
use crate::{Res, StepError};

/// A step's access to its run: sends, waits, state, and values that are the same when the body runs again.
///
/// Sends and state changes take effect together with the returned events, in one tick, when the step ends
/// successfully; otherwise they are discarded.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Event, StepError, Workflow};
/// use windlass::Context;
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "begin", start)]
/// # struct Begin;
/// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
/// # #[event(name = "done", stop)]
/// # struct Done { runs: u64 }
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Totals {
///     runs: u64,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = Workflow::builder("counts")
///     .step("count", |ctx: Context<Totals>, _: Begin| async move {
///         ctx.update(|totals| totals.runs += 1)?;
///         Ok(Done { runs: ctx.state()?.runs })
///     })
///     .build()?;
/// assert_eq!(workflow.run::<Done>(Begin).await?, Done { runs: 1 });
/// # Ok(())
/// # }
/// ```
///
/// # Waiting
///
/// [`wait_for`](Self::wait_for), [`sleep`](Self::sleep), [`call`](Self::call) and [`once`](Self::once) are *durable
/// calls*. While the answer is missing, the step is suspended: its worker and its slot are free, and the run may be
/// evicted from memory. When the answer arrives, **the body runs again from its beginning**, and the n-th durable
/// call gets the n-th answer. Code before a durable call must therefore be safe to run again; put anything else into
/// [`once`](Self::once). Make durable calls in the same order each time: do not choose between them by chance or by
/// the clock, but by [`random`](Self::random), [`now`](Self::now) and the results of earlier durable calls.
///
/// A retry keeps the answers of durable calls, so work done [`once`](Self::once) is not repeated. The exception: if
/// the attempt failed right after a wait that failed (a deadline, a failed child run), that wait is made again.
pub struct Context<S = ()> {
    call: StepCall,
    state: PhantomData<fn() -> S>,
}

impl<S> Clone for Context<S> {
    fn clone(&self) -> Context<S> {
        Context::new(self.call.clone())
    }
}

impl<S> fmt::Debug for Context<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({} in {})", self.step(), self.run_id())
    }
}

/// Information about the current attempt and the failed ones before it.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Context, Event, RetryPolicy, StepError, Workflow};
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "begin", start)]
/// # struct Begin;
/// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
/// # #[event(name = "done", stop)]
/// # struct Done { retries: u32 }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = Workflow::builder("again")
///     .step("try", |ctx: Context, _: Begin| async move {
///         match ctx.retry_info().retries {
///             0 => Err(StepError::new("NotYet", "the first attempt fails")),
///             retries => Ok(Done { retries }),
///         }
///     })
///     .retry(RetryPolicy::fixed(std::time::Duration::from_millis(1)))
///     .build()?;
/// assert_eq!(workflow.run::<Done>(Begin).await?, Done { retries: 1 });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RetryInfo {
    /// The number of retries so far; zero in the first attempt.
    pub retries: u32,
    /// The time from the beginning of the first attempt to the beginning of this one, including restarts of the
    /// process.
    pub elapsed: Duration,
    /// The error of the previous attempt.
    pub last_error: Option<StepError>,
    /// The time of that failure.
    pub failed_at: Option<Timestamp>,
}

impl<S> Context<S> {
    pub(crate) fn new(call: StepCall) -> Context<S> {
        Context { call, state: PhantomData }
    }

    /// Sends an event to every step that accepts it, before the events that the step returns. The step must also return
    /// this event or declare it: `#[step(sends = [Shipped])]`, `.sends::<Shipped>()`.
    pub fn send<E: Event>(&self, event: E) -> Result<(), StepError> {
        self.check_declared(E::NAME)?;
        self.buffer_send(event, None)
    }

    /// Sends an event to one step, which must accept it. The event must be declared as for [`send`](Self::send).
    pub fn send_to<E: Event>(&self, step: &str, event: E) -> Result<(), StepError> {
        let steps = &self.call.info.steps;
        let Some(target) = steps.iter().find(|one| *one.name == *step) else {
            let names = steps.iter().map(|one| &*one.name);
            let message = format!("there is no step `{step}` in `{}`", self.call.info.name);
            return Err(StepError::new("NoSuchStep", message).with_kind("send").hint(suggest(step, names)));
        };
        if !target.accepts.contains(&E::NAME) {
            let message = format!("the step `{step}` does not accept `{}`", E::NAME);
            let hint = crate::nearest::list_names("it accepts", target.accepts.iter().copied());
            return Err(StepError::new("NotAccepted", message).with_kind("send").hint(hint));
        }
        self.check_declared(E::NAME)?;
        self.buffer_send(event, Some(target.name.clone()))
    }

    fn check_declared(&self, name: &str) -> Result<(), StepError> {
        let step = self.call.step();
        if step.outputs.contains(&name) {
            return Ok(());
        }
        let known = crate::nearest::list_names("it may send", step.outputs.iter().copied());
        let message = format!("the step `{}` does not declare that it sends `{name}`; {known}", step.name);
        let hint = "declare it, so that checks and drawings show it: `#[step(sends = [Event])]` or `.sends::<Event>()`";
        Err(StepError::new("NotDeclared", message).with_kind("send").hint(hint))
    }

    fn buffer_send<E: Event>(&self, event: E, to: Option<Arc<str>>) -> Result<(), StepError> {
        let payload = encode(&event)?;
        self.call.buffer().sends.push(SentToken { kind: interned(E::NAME), payload, to });
        Ok(())
    }

    /// Publishes an event in the run's stream immediately, without sending it to any step. A body that runs again after
    /// a durable call does not publish it again.
    pub fn publish<E: Event>(&self, event: E) -> Result<(), StepError> {
        let payload = encode(&event)?;
        self.call.publish(E::NAME, payload);
        Ok(())
    }

    /// Waits for an event, from outside or from another step: `ctx.wait_for::<Approved>().await?`. A durable call.
    ///
    /// Each wait consumes one event. Waits for one type in one body get their events in order. If several bodies wait,
    /// the event goes to the oldest wait whose requirements match.
    pub fn wait_for<E: Event>(&self) -> WaitFor<E> {
        WaitFor::new(self.call.clone())
    }

    /// Waits for a duration, which keeps elapsing while the process is down. A durable call.
    pub async fn sleep(&self, time: Duration) -> Result<(), StepError> {
        match self.call.next_durable_answer("time") {
            Some(answer) => answer.map(drop),
            None => self.call.suspend(SuspendedOn::Time(to_engine_duration(time))).await.map(drop),
        }
    }

    /// Runs another definition, of any dialect, as a child run and returns its output. A durable call.
    ///
    /// The input of a workflow in Rust is its start event, the output its stop event.
    pub async fn call<T: DeserializeOwned>(&self, definition: &str, input: impl Serialize) -> Result<T, StepError> {
        self.call_raw(definition, || Ok(to_value(&input)?)).await
    }

    /// Runs a workflow in Rust as a child run, with versioned events. A durable call.
    pub async fn call_workflow<T: Event>(&self, workflow: &str, event: impl Event) -> Result<T, StepError> {
        let output: Value = self.call_raw(workflow, || encode(&event)).await?;
        crate::event::decode(&output)
    }

    async fn call_raw<T: DeserializeOwned>(
        &self,
        definition: &str,
        input: impl FnOnce() -> Result<Value, StepError>,
    ) -> Result<T, StepError> {
        let output = match self.call.next_durable_answer("child") {
            Some(answer) => answer?,
            None => {
                let awaited = SuspendedOn::Child { definition: definition.into(), input: input()? };
                self.call.suspend(awaited).await?
            }
        };
        from_value(&output).map_err(|error| {
            let message = format!("the output of `{definition}` has an unexpected form: {error}");
            StepError::new("OutputNotRead", message).with_kind("call")
        })
    }

    /// Executes `work` once and stores its result. When the body runs again, the stored result is returned. A durable
    /// call.
    ///
    /// `name` is for people, and for the check that the body makes its durable calls in the same order.
    ///
    /// A crash after the work and before its result is stored makes it run again: pass [`key`](Self::key) as an
    /// idempotency key to the services that it calls.
    pub async fn once<T, E>(&self, name: &str, work: impl Future<Output = Result<T, E>>) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<StepError>,
    {
        let kept = match self.call.next_durable_answer("checkpoint") {
            Some(answer) => answer?,
            None => {
                let done = work.await.map_err(Into::into)?;
                let value = to_value(&done)?;
                let kept = Value::object([("once", Value::from(name)), ("value", value)]);
                self.call.suspend(SuspendedOn::Checkpoint(kept)).await?
            }
        };
        match kept.get("once").and_then(Value::as_str) == Some(name) {
            true => Ok(from_value(kept.get("value").unwrap_or(&Value::Null))?),
            false => {
                let step = self.step();
                let message = format!("`{step}` calls once(`{name}`) where it made another durable call before");
                let hint = "a body must make its durable calls in the same order each time it runs";
                Err(StepError::new("DurableCallOrderChanged", message).with_kind("order").hint(hint))
            }
        }
    }

    /// Returns the start time of this attempt, the same each time the body runs.
    pub fn now(&self) -> Timestamp {
        self.call.started_at
    }

    /// Returns a random number, the same when the body runs again.
    pub fn random(&self) -> u64 {
        let bytes = self.draw();
        u64::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]])
    }

    /// Returns a random number from 0 up to, not including, 1; the same when the body runs again.
    pub fn random_f64(&self) -> f64 {
        (self.random() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a random id of the form `f81d4fae-7dec-4bd0-a765-00a0c91e6bf6`, the same when the body runs again.
    pub fn uuid(&self) -> String {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.draw()[..16]);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// Derives random bytes from the key of the call and a counter, so that neither a crash nor a second execution of
    /// the body changes them.
    fn draw(&self) -> [u8; 32] {
        let mut buffer = self.call.buffer();
        let number = buffer.drawn;
        buffer.drawn += 1;
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.call.tool_call.key.as_bytes());
        hasher.update(&number.to_le_bytes());
        *hasher.finalize().as_bytes()
    }

    /// Returns the number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.call.tool_call.attempt
    }

    /// Returns information about the previous attempts.
    pub fn retry_info(&self) -> RetryInfo {
        let tried = self.call.tool_call.tried.as_deref();
        RetryInfo {
            retries: self.attempt().saturating_sub(1),
            elapsed: tried.map_or(Duration::ZERO, |tried| self.now().since(tried.since).to_std()),
            last_error: tried.map(|tried| StepError::from_info(tried.error.clone())),
            failed_at: tried.map(|tried| tried.failed_at),
        }
    }

    /// Returns the id of the run.
    pub fn run_id(&self) -> &str {
        &self.call.tool_call.run
    }

    /// Returns the name of the step.
    pub fn step(&self) -> &str {
        &self.call.step().name
    }

    /// Returns the idempotency key of this call: the same on every repeat after a crash or a lost reply, and different
    /// from that of any other call.
    pub fn key(&self) -> &str {
        &self.call.tool_call.key
    }

    /// Returns a resource that is not in the step's signature.
    pub fn resource<T: Send + Sync + 'static>(&self) -> Result<Res<T>, StepError> {
        self.call.resource()
    }

    /// Reports whether the call is cancelled. A cancelled step is dropped at its next `await` anyway; check this in
    /// long work without one.
    pub fn is_cancelled(&self) -> bool {
        self.call.tool_call.cancelled.is_cancelled()
    }
}
