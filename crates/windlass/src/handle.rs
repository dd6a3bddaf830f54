//! A run, as whoever has started or resumed it sees it.

use std::fmt;
use std::sync::Arc;

use windlass_core::Status;
use windlass_runtime::{Answer, FinalReport, Request, RunHandle, new_run_id};
use windlass_value::Value;

use crate::event::{Event, EventKind, decode, encode};
use crate::{Engine, Error, StepError, Workflow};

/// A run: its result, its events, and what can be asked of it. Any number of handles of one run may be used at once.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Context, Engine, Event, StepError, Workflow};
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "begin", start)]
/// # struct Begin;
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "name.wanted", input_required)]
/// # struct NameWanted;
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "name.given", human_response)]
/// # struct NameGiven { name: String }
/// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
/// # #[event(name = "done", stop)]
/// # struct Done { greeting: String }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = Workflow::builder("greeter")
///     .step("ask", |_: Begin| async { Ok(NameWanted) })
///     .step("greet", |given: NameGiven| async move { Ok(Done { greeting: format!("Hello, {}", given.name) }) })
///     .build()?;
/// let engine = Engine::in_memory().workflow(&workflow).build()?;
/// let handle = engine.start(&workflow, Begin).await?;
/// handle.send(NameGiven { name: "Ada".into() }).await?;
/// let done: Done = handle.result().await?;
/// assert_eq!(done.greeting, "Hello, Ada");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Handle {
    engine: Engine,
    workflow: Workflow,
    run: Arc<str>,
    end: Arc<tokio::sync::Mutex<RunHandle>>,
}

impl Handle {
    pub(crate) fn new(engine: Engine, workflow: Workflow, handle: RunHandle) -> Handle {
        let run = handle.run.clone();
        Handle { engine, workflow, run, end: Arc::new(tokio::sync::Mutex::new(handle)) }
    }

    /// The run's id.
    pub fn id(&self) -> &str {
        &self.run
    }

    /// The workflow it is a run of.
    pub fn workflow(&self) -> &Workflow {
        &self.workflow
    }

    /// Waits for the end, and gives the stop event; or why there is none.
    pub async fn result<Stop: Event>(&self) -> Result<Stop, Error> {
        let stop = self.workflow.events().find(|event| event.kind == EventKind::Stop);
        if let Some(stop) = stop.filter(|stop| stop.name != Stop::NAME) {
            let message = format!("`{}` ends with `{}`, not with `{}`", self.workflow.name(), stop.name, Stop::NAME);
            return Err(Error::refused("NotTheStop", message));
        }
        decode(&self.result_value().await?).map_err(Error::Event)
    }

    /// The same, with the stop event's fields as they are kept.
    pub async fn result_value(&self) -> Result<Value, Error> {
        let report = self.report().await?;
        match report.status {
            Status::Succeeded => Ok(report.output.clone()),
            status => {
                let unknown = || StepError::new("RunFailed", "the run has ended without a result");
                let error = report.error.clone().map_or_else(unknown, StepError::from_info);
                Err(Error::Run { run: self.run.clone(), status, error })
            }
        }
    }

    async fn report(&self) -> Result<Arc<FinalReport>, Error> {
        Ok(self.end.lock().await.wait().await?)
    }

    /// Sends an event to the run, from outside. When this returns, it is kept: no crash loses it.
    pub async fn send<E: Event>(&self, event: E) -> Result<(), Error> {
        self.workflow.may_be_sent::<E>()?;
        self.signal(event, None)
    }

    /// Sends an event to one step of the run.
    pub async fn send_to<E: Event>(&self, step: &str, event: E) -> Result<(), Error> {
        self.workflow.check_target::<E>(step)?;
        self.signal(event, Some(step))
    }

    fn signal<E: Event>(&self, event: E, to: Option<&str>) -> Result<(), Error> {
        let payload = encode(&event).map_err(Error::Event)?;
        let name = E::NAME.to_owned();
        self.ask(match to {
            Some(step) => Request::SignalTo { place: step.to_owned(), name, payload },
            None => Request::Signal { name, payload },
        })
    }

    fn ask(&self, request: Request) -> Result<(), Error> {
        match self.engine.inner.request(&self.run, &new_run_id(), request)? {
            Answer::Delivered | Answer::Kept | Answer::Repeated => Ok(()),
            Answer::Ended => Err(Error::refused("Ended", format!("the run `{}` has ended", self.run))),
        }
    }

    /// Ends the run as cancelled; its steps are called off first.
    pub async fn cancel(&self, reason: &str) -> Result<(), Error> {
        self.ask(Request::Cancel { reason: reason.to_owned() })
    }

    /// Lets what runs come to its end and starts nothing more, until [`unpause`](Self::unpause).
    pub async fn pause(&self) -> Result<(), Error> {
        self.ask(Request::Pause)
    }

    /// Goes on after a pause.
    pub async fn unpause(&self) -> Result<(), Error> {
        self.ask(Request::Resume)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({} of {})", self.run, self.workflow.name())
    }
}
