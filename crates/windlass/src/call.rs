//! One call of a step: its input, and the requests it has made so far.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use windlass_core::{ResumeData, SentToken, SideOutputs, SuspendedOn, Suspension, TaskOutcome, WaitResult};
use windlass_runtime::ToolCall;
use windlass_value::{Map, Timestamp, Value};

use crate::context::StateBuffer;
use crate::event::{EventType, Token};
use crate::resource::Resources;
use crate::{Res, StepError};

/// Data shared by all calls of a workflow's steps.
pub(crate) struct WorkflowInfo {
    pub name: Arc<str>,
    pub steps: Vec<StepMetadata>,
    pub events: BTreeMap<&'static str, EventType>,
    pub resources: Resources,
    /// The initial state; `None` if the workflow has none.
    pub state: Option<Map>,
}

pub(crate) struct StepMetadata {
    pub name: Arc<str>,
    /// Names of the events that the step accepts from any source.
    pub accepts: Vec<&'static str>,
    /// Names of the events that the step returns or sends.
    pub outputs: Vec<&'static str>,
}

/// A call, shared between the body's context and the task that polls the body.
#[doc(hidden)]
#[derive(Clone)]
pub struct StepCall(Arc<StepCallInner>);

#[doc(hidden)]
pub struct StepCallInner {
    pub(crate) info: Arc<WorkflowInfo>,
    pub(crate) step: usize,
    pub(crate) tool_call: ToolCall,
    pub(crate) started_at: Timestamp,
    resumed: Option<Arc<ResumeData>>,
    buffer: Mutex<CallBuffer>,
}

/// Side outputs and requests of a body so far. They take effect only if the body ends successfully.
#[derive(Default)]
pub(crate) struct CallBuffer {
    pub sends: Vec<SentToken>,
    pub state: Option<StateBuffer>,
    /// The number of durable calls so far.
    pub waits: usize,
    /// The first durable call without an answer.
    pub awaited: Option<SuspendedOn>,
    /// The number of events published in this attempt, including earlier executions of the body.
    pub published: u64,
    /// The number of random values drawn.
    pub drawn: u64,
    /// The waker of the task that polls the body.
    pub waker: Option<Waker>,
}

impl std::ops::Deref for StepCall {
    type Target = StepCallInner;

    fn deref(&self) -> &StepCallInner {
        &self.0
    }
}

impl StepCall {
    pub(crate) fn new(info: Arc<WorkflowInfo>, step: usize, tool_call: ToolCall) -> StepCall {
        let at = tool_call.at.unwrap_or_else(windlass_runtime::real_now);
        let resumed = tool_call.resumed.clone();
        StepCall(Arc::new(StepCallInner { info, step, tool_call, started_at: at, resumed, buffer: Mutex::default() }))
    }

    pub(crate) fn token(&self) -> Result<Token, StepError> {
        Token::from_value(&self.tool_call.input)
    }

    pub(crate) fn resource<T: Send + Sync + 'static>(&self) -> Result<Res<T>, StepError> {
        self.info.resources.get().ok_or_else(|| {
            let name = std::any::type_name::<T>();
            let known = crate::nearest::list_names("there are", self.info.resources.names());
            StepError::new("NoSuchResource", format!("there is no resource `{name}`; {known}"))
                .with_kind("resource")
                .hint("add it to the workflow before it is built: `.resource(…)`")
        })
    }
}

impl StepCallInner {
    pub(crate) fn step(&self) -> &StepMetadata {
        &self.info.steps[self.step]
    }

    pub(crate) fn buffer(&self) -> MutexGuard<'_, CallBuffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, at: usize) -> Option<&WaitResult> {
        self.resumed.as_ref()?.answers.get(at)
    }

    /// Advances to the body's next durable call and returns its answer, if there is one.
    ///
    /// An answer to a different request means that the body has changed the order of its durable calls; that is an
    /// error.
    pub(crate) fn next_durable_answer(&self, request: &str) -> Option<Result<Value, StepError>> {
        let mut buffer = self.buffer();
        let at = buffer.waits;
        buffer.waits += 1;
        drop(buffer);
        self.answer(at).map(|answer| match &answer.error {
            _ if !answer.waited_for.is_empty() && *answer.waited_for != *request => {
                Err(self.order_changed_error(at, &answer.waited_for, request))
            }
            Some(error) => Err(StepError::from_info(error.clone())),
            None => Ok(answer.value.clone()),
        })
    }

    fn order_changed_error(&self, at: usize, before: &str, now: &str) -> StepError {
        let step = &self.step().name;
        let message = format!("durable call {} of `{step}` is `{now}`; an earlier execution had `{before}`", at + 1);
        StepError::new("DurableCallOrderChanged", message)
            .with_kind("order")
            .hint("a body must make its durable calls in the same order each time it runs")
    }

    /// Publishes an event, unless an earlier execution of the body in this attempt has published it.
    pub(crate) fn publish(&self, kind: &str, data: Value) {
        let number = {
            let mut buffer = self.buffer();
            buffer.published += 1;
            buffer.published
        };
        if number > self.resumed.as_ref().map_or(0, |resumed| resumed.published_events) {
            self.tool_call.publish.send(kind, data);
        }
    }

    /// Suspends the body here. It runs again from its beginning when the answer has arrived.
    pub(crate) async fn suspend(&self, awaited: SuspendedOn) -> Result<Value, StepError> {
        let waker = {
            let mut buffer = self.buffer();
            buffer.awaited.get_or_insert(awaited);
            buffer.waker.take()
        };
        // The body may wait in a different task than the one that polls it.
        if let Some(waker) = waker {
            waker.wake();
        }
        std::future::pending().await
    }
}

/// Runs a body to its end, or to the first durable call without an answer.
pub(crate) async fn run<R>(
    body: impl Future<Output = Result<R, StepError>>,
    call: StepCall,
    output: fn(R) -> Result<Value, StepError>,
) -> TaskOutcome {
    let mut body = pin!(body);
    let ended = std::future::poll_fn(|context| match body.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => {
            let mut buffer = call.buffer();
            match buffer.awaited.is_some() {
                true => Poll::Ready(None),
                false => {
                    buffer.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        }
    })
    .await;
    task_outcome(ended.map(|result| result.and_then(output)), &call)
}

fn task_outcome(ended: Option<Result<Value, StepError>>, call: &StepCall) -> TaskOutcome {
    let mut buffer = call.buffer();
    let Some(result) = ended else {
        let suspension = buffer
            .awaited
            .take()
            .map(|awaited| Box::new(Suspension { waits_for: awaited, published_events: buffer.published }));
        return TaskOutcome { suspension, ..TaskOutcome::success(Value::Null) };
    };
    match result {
        Ok(output) => {
            let changes = buffer.state.take().map(StateBuffer::into_changes).unwrap_or_default();
            let sends = std::mem::take(&mut buffer.sends);
            let side_outputs = (!sends.is_empty() || !changes.is_empty())
                .then(|| Box::new(SideOutputs { sends, state_changes: changes }));
            TaskOutcome { side_outputs, ..TaskOutcome::success(output) }
        }
        Err(error) => failure(error),
    }
}

pub(crate) fn failure(error: StepError) -> TaskOutcome {
    TaskOutcome::failure(error.into_info())
}
