//! A built workflow.

use std::fmt;
use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_runtime::Tools;
use windlass_value::Value;

use crate::builder::WorkflowBuilder;
use crate::call::WorkflowInfo;
use crate::compile::tool_name;
use crate::event::{Event, EventRole, EventType, encode, unknown};
use crate::function::StepTool;
use crate::{Engine, Error};

/// A checked set of steps, ready to run: in memory with one call ([`run`](Self::run)), or in an
/// [`Engine`](crate::Engine). Cloning is cheap.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use windlass::{Context, Event, StepError};
///
/// #[derive(Event, Serialize, Deserialize)]
/// #[event(name = "count.begin", start)]
/// struct Begin { from: u64 }
///
/// #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
/// #[event(name = "count.done", stop)]
/// struct Done { at: u64 }
///
/// struct Counter { by: u64 }
///
/// #[windlass::workflow(name = "counter", timeout = "5m")]
/// impl Counter {
///     #[step(workers = 1, timeout = "30s", retry(exponential, attempts = 5, first = "200ms"))]
///     async fn count(&self, _ctx: Context, event: Begin) -> Result<Done, StepError> {
///         Ok(Done { at: event.from + self.by })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = Counter { by: 2 }.into_workflow().build()?;
/// assert_eq!(workflow.run::<Done>(Begin { from: 1 }).await?, Done { at: 3 });
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Workflow(Arc<BuiltWorkflow>);

pub(crate) struct BuiltWorkflow {
    plan: Plan,
    info: Arc<WorkflowInfo>,
    tools: Vec<(String, StepTool)>,
}

impl Workflow {
    /// Creates a builder of a workflow of this name. Engines and journals identify the workflow by the name.
    pub fn builder(name: &str) -> WorkflowBuilder {
        WorkflowBuilder::new(name)
    }

    pub(crate) fn new(builder: WorkflowBuilder, plan: Plan, facts: WorkflowInfo) -> Workflow {
        let facts = Arc::new(facts);
        let name = builder.name;
        let tools = builder.steps.into_iter().enumerate().map(|(at, step)| {
            let tool = StepTool { info: facts.clone(), step: at, function: step.function };
            (tool_name(&name, &step.name), tool)
        });
        let tools = tools.collect();
        Workflow(Arc::new(BuiltWorkflow { plan, info: facts, tools }))
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.plan.name
    }

    /// Returns the compiled plan, which drawings, journals and the engine work on.
    pub fn plan(&self) -> &Plan {
        &self.0.plan
    }

    /// Returns one line for each step: its accepted events, its produced events and its options.
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
    /// # let workflow = Workflow::builder("short").step("finish", |_: Begin| async { Ok(Done) }).build().unwrap();
    /// assert_eq!(workflow.text(), "workflow short\nfinish(begin) -> done  workers 4\n");
    /// ```
    pub fn text(&self) -> &str {
        &self.0.plan.source
    }

    /// Returns the event types that the workflow knows, by name. It decodes no others.
    pub fn events(&self) -> impl Iterator<Item = EventType> {
        self.0.info.events.values().copied()
    }

    /// Reads the fields of an event of this name, in any known version, and writes them in the newest. Rejects an
    /// unknown name with a list of the known ones.
    pub fn read_event(&self, name: &str, payload: &Value) -> Result<Value, Error> {
        let known = self.0.info.events.get(name);
        let event = known.ok_or_else(|| Error::Event(unknown(name, &self.events().collect::<Vec<_>>())))?;
        (event.read)(payload).map_err(Error::Event)
    }

    /// Runs the workflow in memory and waits for its result. Must be called inside a tokio runtime.
    pub async fn run<Stop: Event>(&self, event: impl Event) -> Result<Stop, Error> {
        let engine = Engine::in_memory().workflow(self).build()?;
        let handle = engine.start(self, event).await?;
        let result = handle.result().await;
        engine.close().await;
        result
    }

    pub(crate) fn add_tools(&self, tools: Tools) -> Tools {
        self.0.tools.iter().fold(tools, |tools, (name, tool)| tools.with(name, tool.clone()))
    }

    /// Returns the run's input, if this is the start event.
    pub(crate) fn start_input<E: Event>(&self, event: &E) -> Result<Value, Error> {
        let starts = self.events().find(|known| known.role == EventRole::Start && self.accepts(known));
        match starts {
            Some(start) if start.name == E::NAME => encode(event).map_err(Error::Event),
            start => {
                let expected = start.map_or("", |start| start.name);
                let message = format!("`{}` starts with `{expected}`, not with `{}`", self.name(), E::NAME);
                Err(Error::refused("WrongStartEvent", message))
            }
        }
    }

    /// Returns the run's input from the fields of its start event.
    pub(crate) fn read_start(&self, payload: &Value) -> Result<Value, Error> {
        match self.events().find(|known| known.role == EventRole::Start && self.accepts(known)) {
            Some(start) => self.read_event(start.name, payload),
            None => Ok(payload.clone()),
        }
    }

    /// Draws all possible paths of the workflow.
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
    /// # let workflow = Workflow::builder("short").step("finish", |_: Begin| async { Ok(Done) }).build().unwrap();
    /// assert!(workflow.drawing().to_mermaid().contains("begin"));
    /// ```
    pub fn drawing(&self) -> windlass_draw::Drawing {
        windlass_draw::plan(&self.0.plan)
    }

    fn accepts(&self, event: &EventType) -> bool {
        self.0.info.steps.iter().any(|step| step.accepts.contains(&event.name))
    }

    /// Checks that an event may be sent to a run from outside.
    pub(crate) fn check_sendable<E: Event>(&self) -> Result<(), Error> {
        let known: Vec<EventType> = self.events().collect();
        // An event that answers a wait need not occur in any signature.
        if E::ROLE == EventRole::HumanResponse || known.iter().any(|event| event.name == E::NAME) {
            return Ok(());
        }
        Err(Error::Event(unknown(E::NAME, &known)))
    }

    /// Checks that the step exists and accepts the event.
    pub(crate) fn check_target<E: Event>(&self, step: &str) -> Result<(), Error> {
        let steps = &self.0.info.steps;
        let Some(target) = steps.iter().find(|one| *one.name == *step) else {
            let near = crate::nearest::suggest(step, steps.iter().map(|one| &*one.name).collect::<Vec<_>>());
            return Err(Error::refused(
                "NoSuchStep",
                format!("there is no step `{step}` in `{}`: {near}", self.name()),
            ));
        };
        match target.accepts.contains(&E::NAME) {
            true => Ok(()),
            false => {
                let accepts = crate::nearest::list_names("it accepts", target.accepts.iter().copied());
                let message = format!("the step `{step}` does not accept `{}`; {accepts}", E::NAME);
                Err(Error::refused("NotAccepted", message))
            }
        }
    }
}

impl fmt::Debug for Workflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text().trim_end())
    }
}
