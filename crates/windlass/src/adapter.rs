//! Decorators around the engine's adapter: the extension point of an embedder.
//!
//! Each resident run reaches the outside through one adapter: its clock, ticks, journal, workers, child runs and
//! published events. [`EngineBuilder::wrap_adapter`](crate::EngineBuilder::wrap_adapter) puts a [`RunDecorator`]
//! around it. A decorator overrides the methods it needs:
//!
//! | method | for |
//! |---|---|
//! | [`get_now`](RunDecorator::get_now) | replacing the clock: shifted or fixed time |
//! | [`on_tick`](RunDecorator::on_tick) | observing each tick and the resulting state: metrics, traces, audits |
//! | [`write_to_event_stream`](RunDecorator::write_to_event_stream) | dropping, changing, delaying or adding events |
//! | [`replied`](RunDecorator::replied), [`ended`](RunDecorator::ended) | the reply, the end |
//! | [`close`](RunDecorator::close) | leaving memory: after the end, by eviction, or when the engine closes |
//!
//! A decorator cannot come between a tick and its durability. It is called alongside the journal and has no way to
//! skip, repeat or reorder it: no effect starts and no event is published before the commit it belongs to. Nothing a
//! decorator does is journaled, except the time of each tick. It must not block; a panic quarantines the run.
//!
//! A run without a decorator has no overhead: its control loop is a different type.

use std::sync::Arc;

pub use windlass_core::{Event as PublishedEvent, RunReply, RunResult, State as RunState, Tick, TickKind};
pub use windlass_runtime::adapters::RunDecorator;

use crate::EngineBuilder;

impl EngineBuilder {
    /// Wraps the adapter of each run with a decorator.
    ///
    /// The engine calls `make` with the run's id and the name of its definition each time the run becomes resident:
    /// after a start, a restart of the process, or a reload after a long wait. `None` leaves the run undecorated.
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
