//! The pure reducer: `State + Tick -> (NewState, Commands)`.
//!
//! What is absent here is the point: no async, no I/O, no clock, no randomness, no hash-map order. Time and entropy come
//! in the tick; values that live elsewhere are asked for and come by content hash.

mod addresses;
mod command;
mod event;
mod signal_delivery;
mod limits;
mod outcome;
pub mod plan;
mod program;
mod reduce;
pub mod state;
mod status;
mod tick;
mod values;
mod view;
pub mod amounts;

pub use command::{Command, EffectKey, Job, ResumeData, RunResult, PreviousAttempts, IterationRecord};
pub use event::{
    Event, EventDoc, EventError, EventKind, FieldDoc, FieldShape, IdleReason, LoopEventLimits, LoopStats, ObjectShape,
    PatchScope, PermissionDecision, TaskResult, TaskStatus,
};
pub use signal_delivery::{SignalDelivery, predict_delivery};
pub use limits::{Limits, ProcessLimits, ServerLimits};
pub use outcome::{
    NextCall, WaitResult, WaitAnnouncement, Suspension, SuspendedOn, SideOutputs, StateChange, ErrorInfo, LoopSummary, Outcome, LoopEndReason, RunReply, SentToken,
    TaskOutcome, ExpectedValue,
};
pub use program::{NodeFacts, PlanError, Program};
pub use reduce::{
    Admission, TriggerDelivery, ObservedFailure, ObservedFailures, ReducerFault, ImpossibleTick, ReplayPoint, TickOutput, Reduced, AdmissionError, PartialTick, UnmetCondition, ReplayWatch,
    admit, reduce, redacted_value,
};
pub use state::State;
pub use status::{Status, StatusSet};
pub use tick::{MAIL_EVENT, CallOrigin, START_EVENT, Tick, TickKind};
pub use values::Values;
pub use view::{FrameView, LoopView, frame_tree, usage_so_far};
