//! Durable workflows in Rust: events, steps, and an engine to embed.
//!
//! A workflow is a set of async functions, its *steps*. Each takes an *event* and returns events, which go to the steps that
//! accept them. What a step accepts and gives is written in its signature, and nowhere else:
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use windlass::{Context, Event, StepError};
//!
//! #[derive(Event, Serialize, Deserialize)]
//! #[event(name = "guess.begin", start)]
//! struct Begin { secret: u32 }
//!
//! #[derive(Event, Serialize, Deserialize)]
//! #[event(name = "guess.made")]
//! struct Guess { number: u32, secret: u32 }
//!
//! #[derive(Debug, Event, Serialize, Deserialize)]
//! #[event(name = "guess.right", stop)]
//! struct Right { number: u32 }
//!
//! #[derive(windlass::Events)]
//! enum Next {
//!     Again(Guess),
//!     Right(Right),
//! }
//!
//! struct Guessing;
//!
//! #[windlass::workflow(name = "guessing")]
//! impl Guessing {
//!     #[step]
//!     async fn begin(&self, event: Begin) -> Result<Guess, StepError> {
//!         Ok(Guess { number: 0, secret: event.secret })
//!     }
//!
//!     #[step]
//!     async fn look(&self, _ctx: Context, guess: Guess) -> Result<Next, StepError> {
//!         Ok(match guess.number == guess.secret {
//!             true => Right { number: guess.number }.into(),
//!             false => Guess { number: guess.number + 1, ..guess }.into(),
//!         })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let workflow = Guessing.into_workflow().build()?;
//! let right: Right = workflow.run(Begin { secret: 3 }).await?;
//! assert_eq!(right.number, 3);
//! # Ok(())
//! # }
//! ```
//!
//! [`Workflow::run`] keeps nothing. An [`Engine`] that was [opened](Engine::open) on a directory keeps every run: after a
//! crash it goes on where it stood, with the same keys and attempts.

#![deny(missing_docs)]

// The macros' code calls this crate by its name, also inside it.
extern crate self as windlass;

mod accepts;
pub mod adapter;
#[cfg(feature = "agents")]
mod agents;
mod builder;
mod call;
mod checks;
mod compile;
mod context;
mod definition;
mod engine;
mod error;
mod event;
mod function;
mod graph;
mod handle;
mod nearest;
mod private;
mod problem;
mod registered;
mod resource;
mod retry;
mod returns;
mod signature;
mod source;
mod stream;
mod workflow;

pub use accepts::{Accepts, All, Collect, Param, StepFailed};
pub use builder::{DEFAULT_WORKERS, StepBuilder, Surplus, WorkflowBuilder};
pub use context::{Context, RetryInfo, State, WaitFor};
pub use engine::{Engine, EngineBuilder, Start, StartOptions};
pub use error::{Error, StepError};
pub use event::{Emitted, Event, EventKind, EventType, Events, Token};
pub use function::StepFn;
pub use handle::Handle;
pub use problem::{BuildError, Check, Problem};
pub use registered::{Described, Function, FunctionSpec, described};
pub use resource::Res;
pub use retry::Retry;
pub use returns::{Returns, StepResult};
pub use stream::{EventStream, RunEvent};
pub use windlass_core::EventKind as RunEventKind;
pub use windlass_core::Status;
pub use windlass_dialect as dialect;
pub use windlass_draw as draw;
pub use windlass_macros::{Event, Events, on_failure, step, workflow};
pub use windlass_runtime::RestartRequest;
pub use windlass_store::RunStatus;
pub use windlass_value::{Map, Timestamp, Value, from_value, to_value};
pub use workflow::Workflow;

#[doc(hidden)]
pub mod __private {
    pub use crate::private::*;
}
