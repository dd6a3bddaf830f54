//! The control loop, its adapters, workers, timers and recovery.
//!
//! The crate contains no dialects, no HTTP and no terminal. No effect starts before the ticks that caused it are
//! durable, and the engine answers no request before its result is durable.

#![deny(missing_docs)]

pub mod adapter;
pub mod adapters;
mod blobs;
mod clean;
mod clock;
pub mod codec;
mod control_loop;
mod engine;
mod engine_clock;
mod error;
mod external_input;
pub mod inspect;
mod nearest;
mod recovery;
mod references;
mod reply_memory;
mod report;
mod retention;
mod reused_results;
mod task_log;
mod tool;
mod workers;

pub use blobs::{BlobCache, content_summary};
pub use clean::{CleanupReport, clean_runs, removable};
pub use clock::{Clock, real_now};
pub use codec::{decode_plan, decode_state};
pub use control_loop::{ControlLoop, LoopExit};
pub use engine::{
    DeliveryRuns, Durability, EngineOptions, EngineStats, EventReader, RecoveryProgress, RequestOutcome, RestartOrigin,
    RestartRequest, RunChange, RunCounts, RunHandle, RunOptions, RunRequest, RunStartOptions, RuntimeEngine,
    TriggerOptions, find_run, input_hash, is_run_id, is_run_reference, new_run_id, open_descendants, quarantine_reason,
    request,
};
pub use engine_clock::{ClockSource, EngineClock};
pub use error::RuntimeError;
pub use external_input::{
    InputGate, SECRET_REFERENCE_PREFIX, SecureInput, SecureShape, has_secret_reference, neutralize_references,
    secure_inputs,
};
pub use nearest::bracketed_path;
pub use recovery::{RunImage, load, new_state, replay_from, resolve, resolve_up_to, snapshot_progress};
pub use reply_memory::{FREE_REPLY_BYTES, ReplyBudget, ReplyMemory, ReplyPermit};
pub use report::{FinalReport, StepReport, completed_steps, error_value};
pub use retention::{
    RemovedStart, RetentionBounds, RetentionPass, RetentionPolicy, RetentionRule, RetentionStep, removed_start,
};
pub use task_log::{LogSink, LogWriter, TaskLog, TaskLogLimits};
pub use tool::{CallerDefinition, CancelToken, EventPublisher, Tool, ToolCall, ToolFuture, Tools};
pub use windlass_store::LogStream;
pub use workers::{RemoteLease, RunWorkers, WorkerPool};
