//! Builders of workflows and steps.

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
use crate::{RetryPolicy, StepResult, compile};

/// The default limit of concurrently running bodies of one step in one run.
pub const DEFAULT_WORKERS: u32 = 4;

/// The treatment of an event that a [`Collect`](crate::Collect)ing step does not need for the current set.
///
/// ```
/// assert_eq!(windlass::Surplus::default(), windlass::Surplus::Keep);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Surplus {
    /// The event waits for the next set.
    #[default]
    Keep,
    /// The event is dropped; an event in the stream reports it.
    Drop,
    /// The run fails.
    Fail,
}

/// The definition of a step.
pub(crate) struct StepDef {
    pub name: String,
    pub shape: StepSignature,
    pub function: Arc<dyn ErasedStep>,
    pub workers: u32,
    pub timeout: Option<Duration>,
    pub retry: Option<RetryPolicy>,
    pub sends: Vec<EventType>,
    pub waits: Vec<EventType>,
    pub key: Option<String>,
    pub surplus: Option<Surplus>,
    pub allow: Vec<Check>,
    pub handler: Option<HandlerDef>,
}

/// The definition of an error handler.
pub(crate) struct HandlerDef {
    /// The handled steps; `None` for every step that no other handler names.
    pub steps: Option<Vec<String>>,
    pub times: u32,
}

impl StepDef {
    /// Returns the types of events that the step returns or sends.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &EventType> {
        self.shape.produces.iter().chain(&self.sends)
    }
}

/// A builder of a workflow: see [`Workflow::builder`].
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Event, StepError};
/// use std::time::Duration;
/// use windlass::{Context, RetryPolicy, Workflow};
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
///     .retry(RetryPolicy::fixed(Duration::from_secs(1)).attempts(3))
///     .build()?;
/// let greeted: Greeted = workflow.run(Greet { name: "Ada".into() }).await?;
/// assert_eq!(greeted.text, "Hello, Ada");
/// # Ok(())
/// # }
/// ```
#[must_use = "a workflow exists once it is built: `.build()`"]
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

    /// Limits the total time of a run. Only time during which a process owns the run counts. There is no limit by
    /// default.
    pub fn timeout(mut self, time: Duration) -> WorkflowBuilder {
        self.timeout = Some(time);
        self
    }

    /// Adds a step. The types of its function determine the events that it accepts and produces.
    pub fn step<Args: 'static>(self, name: &str, function: impl StepFn<Args>) -> StepBuilder {
        self.add(name, function, None)
    }

    /// Adds an error handler: a step that takes [`StepFailed`](crate::StepFailed).
    ///
    /// Without [`for_steps`](StepBuilder::for_steps) it handles all steps that no other handler names.
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

    /// Adds a resource. Steps take it as a [`Res`](crate::Res) parameter, looked up by its type.
    pub fn resource<T: Send + Sync + 'static>(self, resource: T) -> WorkflowBuilder {
        self.shared_resource(Arc::new(resource))
    }

    /// Adds a resource that is shared with other owners.
    pub fn shared_resource<T: Send + Sync + 'static>(mut self, resource: Arc<T>) -> WorkflowBuilder {
        self.resources.insert(resource);
        self
    }

    /// Registers an event type that occurs in no step's signature, such as one that is only published.
    pub fn event<E: Event>(mut self) -> WorkflowBuilder {
        self.events.push(EventType::for_type::<E>());
        self
    }

    /// Turns a check off for the whole workflow.
    pub fn allow(mut self, check: Check) -> WorkflowBuilder {
        self.allow.push(check);
        self
    }

    /// Checks the workflow and builds it. The error lists all problems.
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

/// A builder of the step that was added last. It also has the methods of [`WorkflowBuilder`].
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
#[must_use = "a workflow exists once it is built: `.build()`"]
pub struct StepBuilder {
    workflow: WorkflowBuilder,
    index: usize,
}

impl StepBuilder {
    fn with(mut self, change: impl FnOnce(&mut StepDef)) -> StepBuilder {
        change(&mut self.workflow.steps[self.index]);
        self
    }

    /// Limits the concurrently running bodies of this step in one run; the default is 4. Further events wait in order.
    pub fn workers(self, workers: u32) -> StepBuilder {
        self.with(|step| step.workers = workers)
    }

    /// Limits the time of one attempt, not counting the waits of durable calls. Exceeding it is an error of the kind
    /// `timeout`, which can be retried.
    pub fn timeout(self, time: Duration) -> StepBuilder {
        self.with(|step| step.timeout = Some(time))
    }

    /// Sets the retry policy.
    pub fn retry(self, retry: RetryPolicy) -> StepBuilder {
        self.with(|step| step.retry = Some(retry))
    }

    /// Declares an event that the step sends with [`Context::send`](crate::Context::send) and does not return.
    pub fn sends<E: Event>(self) -> StepBuilder {
        self.with(|step| step.sends.push(EventType::for_type::<E>()))
    }

    /// Declares an event that the step waits for with [`Context::wait_for`](crate::Context::wait_for), so that checks
    /// and drawings include it.
    pub fn waits<E: Event>(self) -> StepBuilder {
        self.with(|step| step.waits.push(EventType::for_type::<E>()))
    }

    /// For a collecting step: joins only events with the same value of this field.
    pub fn key(self, field: &str) -> StepBuilder {
        self.with(|step| step.key = Some(field.to_owned()))
    }

    /// For a collecting step: sets the treatment of events beyond the current set.
    pub fn surplus(self, surplus: Surplus) -> StepBuilder {
        self.with(|step| step.surplus = Some(surplus))
    }

    /// For an error handler: names the steps that it handles.
    pub fn for_steps<T: Into<String>>(self, steps: impl IntoIterator<Item = T>) -> StepBuilder {
        let names: Vec<String> = steps.into_iter().map(Into::into).collect();
        self.with(|step| match &mut step.handler {
            Some(handler) => handler.steps = Some(names),
            // The build reports the problem.
            None => step.handler = Some(HandlerDef { steps: Some(names), times: 1 }),
        })
    }

    /// For an error handler: limits how often one chain of events may reach this handler. Events that follow from its
    /// own events count towards the limit.
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

    /// Returns to the workflow's builder.
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
