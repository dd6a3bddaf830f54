//! The adapters: a local one with workers and time, one that replays a journal, and decorators that make a run
//! durable, evict it while idle, or let an embedder observe it. Module `adapter` documents how they fit together.

mod decorated;
mod durable;
mod idle_eviction;
mod in_memory;
mod iterations;
mod local;
mod replay;
mod run_outbox;

pub(crate) use decorated::DecoratedAdapter;
pub use decorated::{DecoratorFactory, RunDecorator};
pub(crate) use durable::DurableAdapter;
pub(crate) use idle_eviction::IdleEviction;
pub(crate) use in_memory::InMemoryAdapter;
pub(crate) use iterations::pack_iterations;
pub use local::{LocalAdapter, RunMailbox, RunMessage};
pub use replay::{ReplayAdapter, ReplayObserver};
pub use run_outbox::CHILD_FACT;
pub(crate) use run_outbox::{RunOutboxOptions, evicted_status, resident_status};
