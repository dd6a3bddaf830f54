//! The adapters: a local one that knows workers and time, and decorators that make it durable or let it sleep.

mod durable;
mod idle_release;
mod local;
mod turns;

pub use durable::{Durable, DurableOptions};
pub use idle_release::IdleRelease;
pub use local::{Local, Mail, Mailbox};
