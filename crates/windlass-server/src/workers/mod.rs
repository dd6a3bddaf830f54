//! Jobs for workers on other machines.
//!
//! - `wire` what is said · `queue` who waits, in which order · `registry` who is there · `dispatcher` who has what ·
//!   `speech` what workers say of what they have · `remote` the engine's end: a tool whose calls wait here.
//!
//! All of it is in memory. What is durable is in the runs' journals: a job, its key and its epoch. After a restart the runs
//! bring their jobs back here with the next epoch, and workers that still have them say so.

mod dispatcher;
pub(crate) mod presence;
mod queue;
mod registry;
mod remote;
mod speech;
mod wire;

pub use dispatcher::Dispatcher;
pub(crate) use dispatcher::Refused;
pub(crate) use registry::WorkerKey;
pub use remote::with_remote_workers;
pub(crate) use speech::is_engine_event;
pub use wire::{
    Ask, Complete, Fail, Failure, Heard, Heartbeat, LeaseInfo, Labels, LeaseRef, Leased, LeasedJob, Leave, Progress,
    QueueInfo, Report, Taken, WorkerInfo, WorkerState, Workers,
};
