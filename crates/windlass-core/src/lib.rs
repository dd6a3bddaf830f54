//! The pure reducer: `State + Tick -> (NewState, Commands)`.
//!
//! The crate has no async code, I/O, clock, randomness or hash-map iteration order. Time and entropy arrive in the
//! tick. Values stored elsewhere are requested, and supplied, by content hash.

#![deny(missing_docs)]

mod addresses;
pub mod amounts;
mod command;
mod event;
mod limits;
mod net_regions;
mod outcome;
pub mod plan;
mod program;
mod reduce;
mod run_label;
mod signal_delivery;
pub mod state;
mod status;
mod tick;
mod values;
mod view;

pub use command::{
    Command, EffectKey, IterationRecord, IterationVerdict, Job, PreviousAttempts, ResumeData, RunResult,
};
pub use event::{
    Event, EventDoc, EventError, EventKind, FieldDoc, FieldShape, IdleReason, LoopEventLimits, LoopStats, ObjectShape,
    PatchScope, PermissionDecision, StepCounts, TaskResult, TaskStatus,
};
pub use limits::{LIMIT_CEILINGS, Limits, ProcessLimits, ServerLimits};
pub use outcome::{
    ErrorInfo, ExpectedValue, LoopEndReason, LoopSummary, NextCall, Outcome, RunReply, SentToken, SideOutputs,
    StateChange, SuspendedOn, Suspension, TaskOutcome, WaitAnnouncement, WaitResult,
};
pub use program::{NodeFacts, PlanError, Program};
pub use reduce::{
    Admission, AdmissionError, ImpossibleTick, ObservedFailure, ObservedFailures, PartialTick, Reduced, ReducerFault,
    ReplayPoint, ReplayWatch, TickOutput, TriggerDelivery, UnmetCondition, admit, definition_labels, redacted_value,
    reduce,
};
pub use run_label::{label_name_problem, label_text, label_value_problem};
pub use signal_delivery::{SignalDelivery, predict_delivery};
pub use state::State;
pub use status::{Status, StatusSet};
pub use tick::{CallOrigin, MAIL_EVENT, START_EVENT, Tick, TickKind};
pub use values::Values;
pub use view::{FrameView, LoopView, frame_tree, judged_iterations, usage_so_far};
