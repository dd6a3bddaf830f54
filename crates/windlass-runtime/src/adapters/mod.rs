//! The adapters: a local one that knows workers and time, one that replays a journal, and decorators that make a run
//! durable, let it sleep, or let an embedder look on. `adapter` says how they fit together.

mod decorated;
mod durable;
mod idle_eviction;
mod local;
mod post;
mod replay;
mod iterations;
mod in_memory;

pub(crate) use decorated::Decorated;
pub use decorated::{DecoratorFactory, RunDecorator};
pub(crate) use durable::Durable;
pub(crate) use idle_eviction::IdleEviction;
pub use local::{Local, Mail, Mailbox};
pub(crate) use post::{PostOptions, evicted_status, standing};
pub use replay::{Replay, Seen};
pub(crate) use in_memory::InMemoryAdapter;
