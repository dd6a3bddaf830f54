//! Decorators around the engine's adapter: the extension point of an embedder.
//!
//! Each run that is in memory talks to the world through one adapter: its clock, its ticks, its journal, its workers, its
//! children and what it shows outside. [`EngineBuilder::wrap_adapter`](crate::EngineBuilder::wrap_adapter) puts a
//! [`RunDecorator`] around it. A decorator overrides the methods that it cares about:
//!
//! | method | for |
//! |---|---|
//! | [`get_now`](RunDecorator::get_now) | another time: a shifted one, a fixed one |
//! | [`on_tick`](RunDecorator::on_tick) | looking at each tick and the state that it led to: metrics, traces, audits |
//! | [`write_to_event_stream`](RunDecorator::write_to_event_stream) | dropping, changing, delaying or adding to what is shown of events |
//! | [`replied`](RunDecorator::replied), [`ended`](RunDecorator::ended), [`close`](RunDecorator::close) | the reply, the end, leaving memory |
//!
//! What it may not do: come between a tick and its durability. It is called beside the journal and has no way to skip, repeat
//! or reorder it: no effect starts and no event is shown before the commit that it belongs to. Nothing that a decorator does
//! is journaled, except the time of each tick. It must not block; a panic quarantines the run.
//!
//! A run without a decorator pays nothing: its control loop is another type.

use std::sync::Arc;

pub use windlass_core::{Event as PublishedEvent, RunReply, RunResult, State as RunState, Tick, TickKind};
pub use windlass_runtime::adapters::RunDecorator;

use crate::EngineBuilder;

impl EngineBuilder {
    /// Wraps the adapter of each run with a decorator. `make` is given the run's id and the name of its definition, each
    /// time the run comes into memory: after a start, a restart of the process, or a long wait. None leaves a run as it is.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicU64, Ordering};
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass::{Engine, Event, Workflow};
    /// # #[derive(Event, Serialize, Deserialize)]
    /// # #[event(name = "begin", start)]
    /// # struct Begin;
    /// # #[derive(Event, Serialize, Deserialize)]
    /// # #[event(name = "done", stop)]
    /// # struct Done;
    /// use windlass::adapter::{RunDecorator, RunState, Tick};
    ///
    /// struct Counting(Arc<AtomicU64>);
    ///
    /// impl RunDecorator for Counting {
    ///     fn on_tick(&mut self, _tick: &Tick, _state: &RunState) {
    ///         self.0.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let workflow = Workflow::builder("w").step("end", |_: Begin| async { Ok(Done) }).build()?;
    /// let ticks = Arc::new(AtomicU64::new(0));
    /// let counted = ticks.clone();
    /// let engine = Engine::in_memory()
    ///     .workflow(&workflow)
    ///     .wrap_adapter(move |_run, _definition| Some(Box::new(Counting(counted.clone()))))
    ///     .build()?;
    /// engine.start(&workflow, Begin).await?.result::<Done>().await?;
    /// assert!(ticks.load(Ordering::Relaxed) > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wrap_adapter(
        mut self,
        make: impl Fn(&str, &str) -> Option<Box<dyn RunDecorator>> + Send + Sync + 'static,
    ) -> EngineBuilder {
        self.options.decorators = Some(Arc::new(move |run, definition| make(run, definition)));
        self
    }
}
