//! The adapters: a local one that knows workers and time, one that replays a journal, and decorators that make a run
//! durable or let it sleep.

mod durable;
mod idle_release;
mod local;
mod replay;
mod turns;

pub use durable::{Durable, DurableOptions};
pub use idle_release::IdleRelease;
pub use local::{Local, Mail, Mailbox};
pub use replay::{Replay, Seen};
