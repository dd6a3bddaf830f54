//! What a step can do besides returning events.

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

pub use state::State;
pub(crate) use state::StateBuffer;
pub use waits::WaitFor;

use crate::call::StepCall;
use crate::event::{Event, encode};
use crate::nearest::suggest;
use crate::retry::to_engine_duration;
use crate::{Res, StepError};

/// A step's hold on its run: sends, waits, state, and values that are the same when the step runs again.
///
/// What it sends and what it changes counts when the step ends well, together with what it returns, in one tick; else
/// nothing of it does.
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
/// [`wait_for`](Self::wait_for), [`sleep`](Self::sleep), [`call`](Self::call) and [`once`](Self::once) are *durable calls*:
/// while the answer is not there, the step ends, its worker and its slot are free, and the run may leave memory. When the
/// answer has come, **the body runs again from its beginning**, and the n-th durable call gets the n-th answer. So what
/// comes before a durable call must be fit to run again; what must not is put into [`once`](Self::once). Durable calls are
/// to be made in the same order each time: do not choose between them by chance or by the clock, but by
/// [`random`](Self::random), [`now`](Self::now) and what they themselves have given.
///
/// A retry keeps what durable calls have brought: what was done [`once`](Self::once) stays done. Only if the attempt failed
/// right after a wait in vain (a deadline, a child that failed), that wait is made anew.
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

/// Which attempt this is.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Context, Event, Retry, StepError, Workflow};
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
///     .retry(Retry::fixed(std::time::Duration::from_millis(1)))
///     .build()?;
/// assert_eq!(workflow.run::<Done>(Begin).await?, Done { retries: 1 });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RetryInfo {
    /// Zero for the first attempt.
    pub retries: u32,
    /// From the beginning of the first attempt to that of this one; restarts count.
    pub elapsed: Duration,
    /// What the attempt before has failed with.
    pub last_error: Option<StepError>,
    /// When it did.
    pub failed_at: Option<Timestamp>,
}

impl<S> Context<S> {
    pub(crate) fn new(call: StepCall) -> Context<S> {
        Context { call, state: PhantomData }
    }

    /// Sends an event to every step that accepts it, before those that the step returns. The step must return it as well, or
    /// declare it: `#[step(sends = [Shipped])]`, `.sends::<Shipped>()`.
    pub fn send<E: Event>(&self, event: E) -> Result<(), StepError> {
        self.check_declared(E::NAME)?;
        self.buffer_send(event, None)
    }

    /// Sends an event to one step, which must accept it. It must be declared as any other.
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
        let message = format!("the step `{}` does not say that it sends `{name}`; {known}", step.name);
        let hint = "declare it, so that checks and drawings know: `#[step(sends = [Event])]` or `.sends::<Event>()`";
        Err(StepError::new("NotDeclared", message).with_kind("send").hint(hint))
    }

    fn buffer_send<E: Event>(&self, event: E, to: Option<Arc<str>>) -> Result<(), StepError> {
        let payload = encode(&event)?;
        self.call.buffer().sends.push(SentToken { kind: interned(E::NAME), payload, to });
        Ok(())
    }

    /// Shows an event in the run's stream at once, without sending it to any step. A body that runs again after a durable
    /// call does not show it again.
    pub fn publish<E: Event>(&self, event: E) -> Result<(), StepError> {
        let payload = encode(&event)?;
        self.call.publish(E::NAME, payload);
        Ok(())
    }

    /// Waits for an event, from outside or from another step: `ctx.wait_for::<Approved>().await?`. A durable call.
    ///
    /// Each wait takes one event. Waits of one type in one body get theirs in order; of several bodies that wait, the one
    /// whose requirements fit, the oldest first.
    pub fn wait_for<E: Event>(&self) -> WaitFor<E> {
        WaitFor::new(self.call.clone())
    }

    /// Waits for so long. It does not matter what becomes of the process meanwhile. A durable call.
    pub async fn sleep(&self, time: Duration) -> Result<(), StepError> {
        match self.call.next_durable_answer("time") {
            Some(answer) => answer.map(drop),
            None => self.call.suspend(SuspendedOn::Time(to_engine_duration(time))).await.map(drop),
        }
    }

    /// Runs another definition as a child, in whatever dialect it is written, and gives its output. A durable call.
    ///
    /// Of a workflow in Rust the input is its start event, the output its stop event.
    pub async fn call<T: DeserializeOwned>(&self, definition: &str, input: impl Serialize) -> Result<T, StepError> {
        self.call_raw(definition, || Ok(to_value(&input)?)).await
    }

    /// The same for a workflow in Rust, with the versions of its events.
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
            let message = format!("the output of `{definition}` is not as it was expected: {error}");
            StepError::new("OutputNotRead", message).with_kind("call")
        })
    }

    /// Does something once, whatever happens: when the body runs again, it gets what was kept of it. The name is for
    /// people, and for the check that the body has not changed its course. A durable call.
    ///
    /// A crash between the work and the keeping makes it run again: use [`key`](Self::key) with whoever it talks to.
    pub async fn once<T, E>(&self, name: &str, work: impl Future<Output = Result<T, E>>) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<StepError>,
    {
        let kept = match self.call.next_durable_answer("kept") {
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
                let message = format!("`{}` has come to `{name}` where it came to something else before", self.step());
                let hint = "a body must make its durable calls in the same order each time it runs";
                Err(StepError::new("CourseChanged", message).with_kind("order").hint(hint))
            }
        }
    }

    /// When this attempt began. The same whenever the body runs again.
    pub fn now(&self) -> Timestamp {
        self.call.started_at
    }

    /// A random number, the same when the body runs again.
    pub fn random(&self) -> u64 {
        let bytes = self.draw();
        u64::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]])
    }

    /// A random number from 0 up to, not including, 1; the same when the body runs again.
    pub fn random_f64(&self) -> f64 {
        (self.random() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A random id of the form `f81d4fae-7dec-4bd0-a765-00a0c91e6bf6`, the same when the body runs again.
    pub fn uuid(&self) -> String {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.draw()[..16]);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// The key of the call and a counter make them: neither a crash nor a second run of the body changes them.
    fn draw(&self) -> [u8; 32] {
        let mut buffer = self.call.buffer();
        let number = buffer.drawn;
        buffer.drawn += 1;
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.call.tool_call.key.as_bytes());
        hasher.update(&number.to_le_bytes());
        *hasher.finalize().as_bytes()
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.call.tool_call.attempt
    }

    /// What is known of the attempts before.
    pub fn retry_info(&self) -> RetryInfo {
        let tried = self.call.tool_call.tried.as_deref();
        RetryInfo {
            retries: self.attempt().saturating_sub(1),
            elapsed: tried.map_or(Duration::ZERO, |tried| self.now().since(tried.since).to_std()),
            last_error: tried.map(|tried| StepError::from_info(tried.error.clone())),
            failed_at: tried.map(|tried| tried.failed_at),
        }
    }

    /// The run.
    pub fn run_id(&self) -> &str {
        &self.call.tool_call.run
    }

    /// The step.
    pub fn step(&self) -> &str {
        &self.call.step().name
    }

    /// The same on every repeat of this call after a crash or a lost reply, and no other call's: what to send along as an
    /// idempotency key.
    pub fn key(&self) -> &str {
        &self.call.tool_call.key
    }

    /// A resource that is not in the step's signature.
    pub fn resource<T: Send + Sync + 'static>(&self) -> Result<Res<T>, StepError> {
        self.call.resource()
    }

    /// Whether nobody wants the result any more. The step is dropped at its next `await` anyway; this is for long work
    /// without one.
    pub fn is_cancelled(&self) -> bool {
        self.call.tool_call.cancelled.is_cancelled()
    }
}
