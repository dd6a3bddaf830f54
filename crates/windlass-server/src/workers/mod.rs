//! Jobs for workers on other machines.
//!
//! - `wire` what is said · `queue` who waits, in which order · `registry` who is there · `dispatcher` who has what ·
//!   `speech` what workers say of what they have · `remote` the engine's end: a tool whose calls wait here.
//!
//! All of it is in memory. What is durable is in the runs' journals: a job, its key and its epoch. After a restart the runs
//! bring their jobs back here with the next epoch, and workers that still have them say so.

mod dispatcher;
pub(crate) mod presence;
mod protocol;
mod queue;
mod registry;
mod remote;
mod wire;

pub use dispatcher::Dispatcher;
pub(crate) use dispatcher::ReportRejection;
pub(crate) use protocol::is_engine_event;
pub(crate) use registry::WorkerKey;
pub use remote::with_remote_workers;
pub use wire::{
    CompleteRequest, FailRequest, HeartbeatRequest, HeartbeatResponse, Labels, LeaseInfo, LeaseRef, LeaseRequest,
    LeaseResponse, LeasedJob, LeaveRequest, ProgressReport, QueueInfo, ReportAccepted, ReportOrigin, WorkerFailure,
    WorkerInfo, WorkerList, WorkerState,
};
