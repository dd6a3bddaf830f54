//! The control loop, its adapters, workers, timers and recovery.
//!
//! What is absent here: dialects, HTTP, the terminal. No effect starts before the ticks that caused it are durable, and
//! nothing is answered before it is.

pub mod adapter;
pub mod adapters;
mod blobs;
mod clean;
mod clock;
pub mod codec;
mod control_loop;
mod engine;
mod error;
mod nearest;
mod outside;
mod recovery;
mod references;
mod report;
pub mod show;
mod reused_results;
mod tool;
mod workers;

pub use blobs::BlobCache;
pub use clean::{CleanupReport, clean_runs, removable};
pub use clock::{Clock, real_now};
pub use codec::{decode_plan, decode_state};
pub use control_loop::{ControlLoop, Exit};
pub use engine::{
    Answer, Engine, EngineStats, EngineOptions, EventReader, Durability, Recovery, Request, RestartRequest, RestartOrigin, RunChange,
    RunCounts, RunHandle, RunOptions, StartOptions, TriggerOptions, Triggered, input_hash, is_run_id, new_run_id,
    open_descendants, request, quarantine_reason,
};
pub use error::RuntimeError;
pub use outside::{InputGate, REFERENCE, SecureInput, SecureShape, has_reference, outside, secure_inputs};
pub use recovery::{RunImage, load, new_state, peek, replay_from, resolve, resolve_up_to};
pub use report::{FinalReport, StepReport, steps_of};
pub use tool::{CalledBy, CancelToken, EventPublisher, Tool, ToolCall, ToolFuture, Tools};
pub use workers::{RemoteLease, RunWorkers, WorkerPool};
