//! Putting a workflow together, step by step.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::call::WorkflowInfo;
use crate::checks::check;
use crate::event::{Event, EventType};
use crate::function::{ErasedStep, Params, StepFn, erase, erase_method};
use crate::problem::{BuildError, Check, Problem};
use crate::resource::Resources;
use crate::signature::StepSignature;
use crate::workflow::Workflow;
use crate::{Retry, StepResult, compile};

/// How many bodies of a step run at once in one run, unless it is said otherwise.
pub const DEFAULT_WORKERS: u32 = 4;

/// What becomes of an event that a step which [`Collect`](crate::Collect)s has enough of.
///
/// ```
/// assert_eq!(windlass::Surplus::default(), windlass::Surplus::Keep);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Surplus {
    /// It waits for the next set.
    #[default]
    Keep,
    /// It is told of in the stream, and is gone.
    Drop,
    /// The run fails.
    Fail,
}

/// A step as it was described.
pub(crate) struct StepDef {
    pub name: String,
    pub shape: StepSignature,
    pub function: Arc<dyn ErasedStep>,
    pub workers: u32,
    pub timeout: Option<Duration>,
    pub retry: Option<Retry>,
    pub sends: Vec<EventType>,
    pub waits: Vec<EventType>,
    pub key: Option<String>,
    pub surplus: Option<Surplus>,
    pub allow: Vec<Check>,
    pub handler: Option<HandlerDef>,
}

/// What an error handler is for.
pub(crate) struct HandlerDef {
    /// None: every step that no other handler names.
    pub steps: Option<Vec<String>>,
    pub times: u32,
}

impl StepDef {
    /// What it gives to the run: returned or sent.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &EventType> {
        self.shape.produces.iter().chain(&self.sends)
    }
}

/// A workflow that is being put together: see [`Workflow::builder`].
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Event, StepError};
/// use std::time::Duration;
/// use windlass::{Context, Retry, Workflow};
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "greet", start)]
/// # struct Greet { name: String }
/// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
/// # #[event(name = "greeted", stop)]
/// # struct Greeted { text: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = Workflow::builder("greetings")
///     .timeout(Duration::from_secs(60))
///     .step("greet", |_ctx: Context, greet: Greet| async move { Ok(Greeted { text: format!("Hello, {}", greet.name) }) })
///     .workers(2)
///     .retry(Retry::fixed(Duration::from_secs(1)).attempts(3))
///     .build()?;
/// let greeted: Greeted = workflow.run(Greet { name: "Ada".into() }).await?;
/// assert_eq!(greeted.text, "Hello, Ada");
/// # Ok(())
/// # }
/// ```
#[must_use = "a workflow is there when it is built: `.build()`"]
pub struct WorkflowBuilder {
    pub(crate) name: String,
    pub(crate) timeout: Option<Duration>,
    pub(crate) steps: Vec<StepDef>,
    pub(crate) resources: Resources,
    pub(crate) allow: Vec<Check>,
    pub(crate) events: Vec<EventType>,
}

impl WorkflowBuilder {
    pub(crate) fn new(name: &str) -> WorkflowBuilder {
        let (steps, resources) = (Vec::new(), Resources::default());
        WorkflowBuilder {
            name: name.to_owned(),
            timeout: None,
            steps,
            resources,
            allow: Vec::new(),
            events: Vec::new(),
        }
    }

    /// How long a run may take in all. Only time in which a process has it counts. Without this there is no limit.
    pub fn timeout(mut self, time: Duration) -> WorkflowBuilder {
        self.timeout = Some(time);
        self
    }

    /// Adds a step. What it accepts and gives is in the types of its function.
    pub fn step<Args: 'static>(self, name: &str, function: impl StepFn<Args>) -> StepBuilder {
        self.add(name, function, None)
    }

    /// Adds an error handler: a step that takes [`StepFailed`](crate::StepFailed). Without [`of`](StepBuilder::of) it is for
    /// all steps that no other handler names.
    pub fn on_failure<Args: 'static>(self, name: &str, function: impl StepFn<Args>) -> StepBuilder {
        self.add(name, function, Some(HandlerDef { steps: None, times: 1 }))
    }

    fn add<Args: 'static>(self, name: &str, function: impl StepFn<Args>, handler: Option<HandlerDef>) -> StepBuilder {
        self.push(name, erase(function), handler)
    }

    pub(crate) fn add_method<P, R, F, Body>(self, name: &str, handler: bool, function: F) -> StepBuilder
    where
        P: Params,
        R: StepResult,
        F: Fn(P) -> Body + Send + Sync + 'static,
        Body: Future<Output = R> + Send + 'static,
    {
        self.push(name, erase_method(function), handler.then_some(HandlerDef { steps: None, times: 1 }))
    }

    fn push(
        mut self,
        name: &str,
        (shape, function): (StepSignature, Arc<dyn ErasedStep>),
        handler: Option<HandlerDef>,
    ) -> StepBuilder {
        let step = StepDef {
            name: name.to_owned(),
            shape,
            function,
            workers: DEFAULT_WORKERS,
            timeout: None,
            retry: None,
            sends: Vec::new(),
            waits: Vec::new(),
            key: None,
            surplus: None,
            allow: Vec::new(),
            handler,
        };
        let at = self.steps.len();
        self.steps.push(step);
        StepBuilder { workflow: self, index: at }
    }

    /// Gives the steps something that they take as [`Res`](crate::Res), found by its type.
    pub fn resource<T: Send + Sync + 'static>(self, resource: T) -> WorkflowBuilder {
        self.shared_resource(Arc::new(resource))
    }

    /// The same for something that others have as well.
    pub fn shared_resource<T: Send + Sync + 'static>(mut self, resource: Arc<T>) -> WorkflowBuilder {
        self.resources.insert(resource);
        self
    }

    /// Makes a type known that is in no step's signature: one that is only published, for instance.
    pub fn event<E: Event>(mut self) -> WorkflowBuilder {
        self.events.push(EventType::for_type::<E>());
        self
    }

    /// Turns a check off for the whole workflow.
    pub fn allow(mut self, check: Check) -> WorkflowBuilder {
        self.allow.push(check);
        self
    }

    /// Checks everything, and gives the workflow, or all that is wrong with it.
    pub fn build(self) -> Result<Workflow, BuildError> {
        let mut problems = check(&self);
        let facts = match self.workflow_info() {
            Ok(facts) => facts,
            Err(problem) => {
                problems.push(problem);
                return Err(BuildError::new(self.name, problems));
            }
        };
        if !problems.is_empty() {
            return Err(BuildError::new(self.name, problems));
        }
        let plan = compile::plan(&self);
        Ok(Workflow::new(self, plan, facts))
    }

    fn workflow_info(&self) -> Result<WorkflowInfo, Problem> {
        let state = self.steps.iter().flat_map(|step| &step.shape.states).next();
        let state = state.map(|state| (state.initial)()).transpose().map_err(|error| {
            Problem::new("state", error.to_string(), "a state is a struct with named fields and a `Default`")
        })?;
        let steps = self.steps.iter().map(|step| crate::call::StepMetadata {
            name: step.name.as_str().into(),
            accepts: step.shape.accepts.iter().map(|event| event.name).collect(),
            outputs: step.outputs().map(|event| event.name).collect(),
        });
        let all = self.steps.iter().flat_map(|step| step.shape.accepts.iter().chain(step.outputs()).chain(&step.waits));
        let events = all.chain(&self.events).map(|event| (event.name, *event)).collect();
        Ok(WorkflowInfo {
            name: self.name.as_str().into(),
            steps: steps.collect(),
            events,
            resources: self.resources.clone(),
            state,
        })
    }
}

/// The step that was added last, to be refined. Everything a [`WorkflowBuilder`] has goes on from here as well.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Event, StepError, Workflow};
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "begin", start)]
/// # struct Begin;
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "done", stop)]
/// # struct Done;
/// let builder = Workflow::builder("refined").step("finish", |_: Begin| async { Ok(Done) });
/// let workflow = builder.workers(1).timeout(std::time::Duration::from_secs(5)).build();
/// assert!(workflow.is_ok());
/// ```
#[must_use = "a workflow is there when it is built: `.build()`"]
pub struct StepBuilder {
    workflow: WorkflowBuilder,
    index: usize,
}

impl StepBuilder {
    fn with(mut self, change: impl FnOnce(&mut StepDef)) -> StepBuilder {
        change(&mut self.workflow.steps[self.index]);
        self
    }

    /// How many bodies of this step run at once in one run: 4, unless it is said here. More events wait in order.
    pub fn workers(self, workers: u32) -> StepBuilder {
        self.with(|step| step.workers = workers)
    }

    /// How long one attempt may take; waits of durable calls do not count. An error of the kind `timeout`, which can be
    /// retried.
    pub fn timeout(self, time: Duration) -> StepBuilder {
        self.with(|step| step.timeout = Some(time))
    }

    /// What follows a failure.
    pub fn retry(self, retry: Retry) -> StepBuilder {
        self.with(|step| step.retry = Some(retry))
    }

    /// Declares an event that the step sends with [`Context::send`](crate::Context::send) and does not return.
    pub fn sends<E: Event>(self) -> StepBuilder {
        self.with(|step| step.sends.push(EventType::for_type::<E>()))
    }

    /// Declares an event that the step waits for with [`Context::wait_for`](crate::Context::wait_for), so that checks and
    /// drawings know of it.
    pub fn waits<E: Event>(self) -> StepBuilder {
        self.with(|step| step.waits.push(EventType::for_type::<E>()))
    }

    /// For a step that collects: only events with the same value of this field come together.
    pub fn key(self, field: &str) -> StepBuilder {
        self.with(|step| step.key = Some(field.to_owned()))
    }

    /// For a step that collects: what becomes of events that it has enough of.
    pub fn surplus(self, surplus: Surplus) -> StepBuilder {
        self.with(|step| step.surplus = Some(surplus))
    }

    /// For an error handler: the steps that it is for.
    pub fn for_steps<T: Into<String>>(self, steps: impl IntoIterator<Item = T>) -> StepBuilder {
        let names: Vec<String> = steps.into_iter().map(Into::into).collect();
        self.with(|step| match &mut step.handler {
            Some(handler) => handler.steps = Some(names),
            // The build tells of it.
            None => step.handler = Some(HandlerDef { steps: Some(names), times: 1 }),
        })
    }

    /// For an error handler: how often one line of events may come by here. What its own events lead to counts on.
    pub fn times(self, times: u32) -> StepBuilder {
        self.with(|step| match &mut step.handler {
            Some(handler) => handler.times = times,
            None => step.handler = Some(HandlerDef { steps: None, times }),
        })
    }

    /// Turns a check off for this step.
    pub fn allow(self, check: Check) -> StepBuilder {
        self.with(|step| step.allow.push(check))
    }

    /// Back to the workflow.
    pub fn workflow(self) -> WorkflowBuilder {
        self.workflow
    }

    /// See [`WorkflowBuilder::step`].
    pub fn step<Args: 'static>(self, name: &str, function: impl StepFn<Args>) -> StepBuilder {
        self.workflow.step(name, function)
    }

    /// See [`WorkflowBuilder::on_failure`].
    pub fn on_failure<Args: 'static>(self, name: &str, function: impl StepFn<Args>) -> StepBuilder {
        self.workflow.on_failure(name, function)
    }

    /// See [`WorkflowBuilder::resource`].
    pub fn resource<T: Send + Sync + 'static>(self, resource: T) -> WorkflowBuilder {
        self.workflow.resource(resource)
    }

    /// See [`WorkflowBuilder::shared_resource`].
    pub fn shared_resource<T: Send + Sync + 'static>(self, resource: Arc<T>) -> WorkflowBuilder {
        self.workflow.shared_resource(resource)
    }

    /// See [`WorkflowBuilder::build`].
    pub fn build(self) -> Result<Workflow, BuildError> {
        self.workflow.build()
    }
}
