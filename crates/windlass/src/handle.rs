//! Handles: a run as its caller sees it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::task::Poll;

use serde::de::DeserializeOwned;
use windlass_core::Status;
use windlass_runtime::{FinalReport, RequestOutcome, RunHandle, RunRequest, RuntimeError, new_run_id};
use windlass_value::{Value, from_value};

use crate::event::{Event, EventRole, decode, encode};
use crate::{Engine, Error, EventStream, StepError, Workflow};

/// How often the store is polled for an end of the run that another process has recorded.
const STORE_POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(500);

/// A handle on a run: its result, its events, and requests to it. Any number of handles may be used concurrently.
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
    definition: Arc<str>,
    /// None for a run of another dialect, or of a workflow that this engine does not have.
    workflow: Option<Workflow>,
    run: Arc<str>,
    /// `None` for a run that is only watched through the store.
    run_handle: Option<Arc<tokio::sync::Mutex<RunHandle>>>,
}

impl Handle {
    pub(crate) fn new(engine: Engine, definition: Arc<str>, workflow: Option<Workflow>, handle: RunHandle) -> Handle {
        let run = handle.run.clone();
        Handle { engine, definition, workflow, run, run_handle: Some(Arc::new(tokio::sync::Mutex::new(handle))) }
    }

    pub(crate) fn store_only(
        engine: Engine,
        definition: Arc<str>,
        workflow: Option<Workflow>,
        run: Arc<str>,
    ) -> Handle {
        Handle { engine, definition, workflow, run, run_handle: None }
    }

    /// Returns the run's id.
    pub fn id(&self) -> &str {
        &self.run
    }

    /// Returns the name of the run's workflow or definition.
    pub fn definition(&self) -> &str {
        &self.definition
    }

    /// Returns the run's workflow, if it is one in Rust that the engine has.
    pub fn workflow(&self) -> Option<&Workflow> {
        self.workflow.as_ref()
    }

    /// Waits for the end of the run and returns the stop event, or the reason why there is none.
    pub async fn result<Stop: Event>(&self) -> Result<Stop, Error> {
        let stop =
            self.workflow.as_ref().and_then(|workflow| workflow.events().find(|event| event.role == EventRole::Stop));
        if let Some(stop) = stop.filter(|stop| stop.name != Stop::NAME) {
            let message = format!("`{}` ends with `{}`, not with `{}`", self.definition, stop.name, Stop::NAME);
            return Err(Error::refused("WrongStopEvent", message));
        }
        decode(&self.result_value().await?).map_err(Error::Event)
    }

    /// Waits for the end of the run and returns the fields of the stop event as stored.
    pub async fn result_value(&self) -> Result<Value, Error> {
        let report = self.report().await?;
        match report.status {
            // Values that were too large to be stored inline are put back in.
            Status::Succeeded => Ok(windlass_runtime::resolve(&**self.engine.inner.store(), &report.output)?),
            status => {
                let unknown = || StepError::new("RunFailed", "the run has ended without a result");
                let error = report.error.clone().map_or_else(unknown, StepError::from_info);
                Err(Error::Run { run: self.run.clone(), status, error })
            }
        }
    }

    /// Waits for the end of the run and returns its output as any type: for runs of other dialects.
    pub async fn output<T: DeserializeOwned>(&self) -> Result<T, Error> {
        from_value(&self.result_value().await?).map_err(|error| Error::Event(error.into()))
    }

    async fn report(&self) -> Result<Arc<FinalReport>, Error> {
        let local_end = async {
            match &self.run_handle {
                Some(end) => end.lock().await.wait().await,
                None => std::future::pending().await,
            }
        };
        let mut local_end = std::pin::pin!(local_end);
        loop {
            // Another engine on the same store may have taken the run over and ended it; the store then has its end.
            tokio::select! {
                report = &mut local_end => return Ok(report?),
                () = tokio::time::sleep(STORE_POLL_INTERVAL) => {}
            }
            let row = self.engine.inner.store().run(&self.run).map_err(RuntimeError::from)?;
            if let Some(report) = row.map(|row| FinalReport::from_row(&row)).transpose()?.flatten() {
                return Ok(Arc::new(report));
            }
        }
    }

    /// Sends an event to the run from outside. It is durable when this returns.
    pub async fn send<E: Event>(&self, event: E) -> Result<(), Error> {
        if let Some(workflow) = &self.workflow {
            workflow.check_sendable::<E>()?;
        }
        self.signal(event, None)
    }

    /// Sends an event by its name, without a Rust type. The workflow must know the name and be able to read the fields.
    pub async fn send_value(&self, name: &str, payload: Value) -> Result<(), Error> {
        let payload = match &self.workflow {
            Some(workflow) => workflow.read_event(name, &payload)?,
            None => payload,
        };
        self.send_request(RunRequest::Signal { name: name.to_owned(), payload })
    }

    /// Sends an event to one step of the run.
    pub async fn send_to<E: Event>(&self, step: &str, event: E) -> Result<(), Error> {
        if let Some(workflow) = &self.workflow {
            workflow.check_target::<E>(step)?;
        }
        self.signal(event, Some(step))
    }

    fn signal<E: Event>(&self, event: E, to: Option<&str>) -> Result<(), Error> {
        let payload = encode(&event).map_err(Error::Event)?;
        let name = E::NAME.to_owned();
        self.send_request(match to {
            Some(step) => RunRequest::SignalTo { place: step.to_owned(), name, payload },
            None => RunRequest::Signal { name, payload },
        })
    }

    fn send_request(&self, request: RunRequest) -> Result<(), Error> {
        match self.engine.inner.request(&self.run, &new_run_id(), request)? {
            RequestOutcome::Delivered | RequestOutcome::Queued | RequestOutcome::Duplicate => Ok(()),
            RequestOutcome::Ended => Err(Error::refused("Ended", format!("the run `{}` has ended", self.run))),
        }
    }

    /// Returns the run's events after a sequence number, 0 for all, up to its end. Any number of readers may read them,
    /// also after the run has ended.
    pub fn events(&self, after: u64) -> Result<EventStream, Error> {
        self.engine.events(&self.run, after)
    }

    /// Returns the state of the run between two ticks as bytes, for [`Engine::restore`]. The run itself continues.
    pub async fn snapshot(&self) -> Result<Vec<u8>, Error> {
        Ok(self.engine.inner.snapshot(&self.run).await?)
    }

    /// Draws the run as it stands.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass::{Engine, Event, StepError, Workflow};
    /// # #[derive(Event, Serialize, Deserialize)]
    /// # #[event(name = "begin", start)]
    /// # struct Begin;
    /// # #[derive(Event, Serialize, Deserialize)]
    /// # #[event(name = "done", stop)]
    /// # struct Done;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let workflow = Workflow::builder("short").step("finish", |_: Begin| async { Ok(Done) }).build()?;
    /// # let engine = Engine::in_memory().workflow(&workflow).build()?;
    /// # let handle = engine.start(&workflow, Begin).await?;
    /// # handle.result::<Done>().await?;
    /// assert!(handle.drawing().await?.to_mermaid().contains("finish"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn drawing(&self) -> Result<windlass_draw::Drawing, Error> {
        let store = self.engine.inner.store();
        let Some(row) = store.run(&self.run).map_err(RuntimeError::from)? else {
            return Err(RuntimeError::NoSuchRun(self.run.to_string()).into());
        };
        let plan = self.engine.plan(&row.plan)?;
        let mut drawing = windlass_draw::RunDrawing::new(&plan);
        let mut events = self.engine.inner.events(&self.run, 0)?;
        // Only events that exist already: an open run is drawn as it stands.
        while let Some(next) = now_or_never(events.next()).await {
            match next? {
                Some(event) => drawing.event(&event),
                None => break,
            }
        }
        Ok(drawing.finish())
    }

    /// Cancels the run; its steps are cancelled first.
    pub async fn cancel(&self, reason: &str) -> Result<(), Error> {
        self.send_request(RunRequest::Cancel { reason: reason.to_owned() })
    }

    /// Pauses the run: running steps finish, and no new one starts until [`unpause`](Self::unpause).
    pub async fn pause(&self) -> Result<(), Error> {
        self.send_request(RunRequest::Pause)
    }

    /// Resumes the run after a pause.
    pub async fn unpause(&self) -> Result<(), Error> {
        self.send_request(RunRequest::Resume)
    }
}

/// Returns the value of a future if it is ready now.
async fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({} of {})", self.run, self.definition)
    }
}
