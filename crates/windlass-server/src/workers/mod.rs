//! Jobs for remote workers.
//!
//! - `wire`: the messages of the worker protocol
//! - `queue`: queued jobs and their order
//! - `registry`: the known workers
//! - `dispatcher`: the leases
//! - `protocol`: handlers of the worker protocol
//! - `remote`: the engine's side, a tool whose calls wait for a worker
//!
//! All of this is in memory. The durable part is in the runs' journals: a job, its idempotency key and its lease
//! epoch. After a restart, the runs queue their jobs again with the next epoch, and workers that still have them
//! rejoin.

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
    CompleteRequest, DeregisterRequest, FailRequest, HeartbeatRequest, HeartbeatResponse, JobCredential, Labels,
    LeaseInfo, LeaseRef, LeaseRequest, LeaseResponse, LeasedJob, LogReport, LogReportLine, ProgressReport, QueueInfo,
    ReportAccepted, ReportOrigin, WorkerFailure, WorkerInfo, WorkerList, WorkerState,
};
