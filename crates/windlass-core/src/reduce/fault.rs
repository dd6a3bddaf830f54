//! Impossible ticks and states: the journal, the state and the program disagree.
//!
//! Two kinds of missing frames look alike and are distinguished:
//!
//! - **Already ended.** Agenda items and timers may outlive their frame: it was cancelled, or it is about to be
//!   entered again. Functions that are reached that way use [`Reducer::frame_if_live`], [`Reducer::frame_if_open`] or
//!   a node kind's `…_if_open`, and return when there is nothing left to do.
//! - **Impossible.** Everything else that is referred to exists and has the expected kind: a parent outlives its
//!   children, a job belongs to a pipeline. Functions access it with [`Reducer::frame`] or a node kind's `…_frame`. A
//!   [`ReducerFault`] ends the tick, the caller gets an [`ImpossibleTick`], and the runtime quarantines the run with
//!   that reason.
//!
//! Nothing here panics: a state may have been read from damaged bytes.

use windlass_value::Timestamp;

use super::Reducer;
use crate::Status;
use crate::state::{Frame, FrameBody, FrameId, Scope, ScopeId};

/// A tick that cannot be applied to a state. The state may be partially changed and must not be used any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tick {number} ({tick}) is impossible here: {fault}{}", at_path(.path))]
pub struct ImpossibleTick {
    /// The number of the tick in the run.
    pub number: u64,
    /// The name of the tick's kind.
    pub tick: &'static str,
    /// The path of the frame that is at fault, as far as it is known.
    pub path: String,
    /// The contradiction.
    pub fault: ReducerFault,
}

/// The reason why a tick or a state is impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReducerFault {
    /// The tick is older than the state.
    #[error("its time {at} is before the state's {now}")]
    TimeGoesBack {
        /// The time of the tick.
        at: Timestamp,
        /// The time of the state.
        now: Timestamp,
    },
    /// The tick needs a run that has started.
    #[error("the run has not started")]
    NotStarted,
    /// A frame that is referred to does not exist.
    #[error("there is no frame {frame}; expected {expected}")]
    NoFrame {
        /// The missing frame.
        frame: FrameId,
        /// The expected kind, as a phrase.
        expected: &'static str,
    },
    /// A frame has another kind of node than expected.
    #[error("frame {frame} is {found}; expected {expected}")]
    WrongFrame {
        /// The frame.
        frame: FrameId,
        /// The expected kind, as a phrase.
        expected: &'static str,
        /// The kind found, as a phrase.
        found: &'static str,
    },
    /// A frame lacks a part that is referred to by its number.
    #[error("frame {frame} has no {part} {number}")]
    NoSuchPart {
        /// The frame.
        frame: FrameId,
        /// The kind of part, as a noun.
        part: &'static str,
        /// The number of the missing part.
        number: u64,
    },
    /// A counter of a frame would become negative.
    #[error("frame {frame} has a negative count of {what}")]
    Miscounted {
        /// The frame.
        frame: FrameId,
        /// The things that are counted, as a noun.
        what: &'static str,
    },
    /// A scope that is referred to does not exist.
    #[error("there is no scope {scope}; expected {expected}")]
    NoScope {
        /// The missing scope.
        scope: ScopeId,
        /// The expected owner, as a phrase.
        expected: &'static str,
    },
    /// A job that is referred to does not exist.
    #[error("there is no job {job}; expected {expected}")]
    NoJob {
        /// The number of the missing job.
        job: u64,
        /// The expected holder, as a phrase.
        expected: &'static str,
    },
    /// A call that is referred to does not exist.
    #[error("there is no call {call}; expected {expected}")]
    NoCall {
        /// The number of the missing call.
        call: u64,
        /// The expected caller, as a phrase.
        expected: &'static str,
    },
    /// A node ended with a status that is impossible for it.
    #[error("a node inside frame {frame} ends as {}; expected {expected}", .found.as_str())]
    WrongStatus {
        /// The frame around the node.
        frame: FrameId,
        /// The expected statuses, as a phrase.
        expected: &'static str,
        /// The status found.
        found: Status,
    },
    /// The state refers to a node that the plan does not have.
    #[error("the plan has no node {node}")]
    NoNode {
        /// The number of the missing node.
        node: u32,
    },
    /// A part of the state contradicts itself.
    #[error("{what} is damaged")]
    Damaged {
        /// The part, as a noun.
        what: &'static str,
    },
}

/// The result of an operation that only fails on an impossible state.
pub(crate) type FaultResult<T = ()> = Result<T, Box<ReducerFault>>;

fn at_path(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" (at `{path}`)") }
}

impl ReducerFault {
    /// Returns the frame that is at fault.
    pub(crate) fn frame(&self) -> Option<FrameId> {
        match self {
            ReducerFault::NoFrame { frame, .. }
            | ReducerFault::WrongFrame { frame, .. }
            | ReducerFault::NoSuchPart { frame, .. }
            | ReducerFault::Miscounted { frame, .. }
            | ReducerFault::WrongStatus { frame, .. } => Some(*frame),
            ReducerFault::TimeGoesBack { .. }
            | ReducerFault::NotStarted
            | ReducerFault::NoScope { .. }
            | ReducerFault::NoJob { .. }
            | ReducerFault::NoCall { .. }
            | ReducerFault::NoNode { .. }
            | ReducerFault::Damaged { .. } => None,
        }
    }
}

#[cold]
#[inline(never)]
pub(crate) fn no_frame(frame: FrameId, expected: &'static str) -> Box<ReducerFault> {
    Box::new(ReducerFault::NoFrame { frame, expected })
}

#[cold]
#[inline(never)]
pub(crate) fn wrong_frame(frame: FrameId, expected: &'static str, body: &FrameBody) -> Box<ReducerFault> {
    Box::new(ReducerFault::WrongFrame { frame, expected, found: kind_of(body) })
}

#[cold]
#[inline(never)]
pub(crate) fn no_part(frame: FrameId, part: &'static str, number: u64) -> Box<ReducerFault> {
    Box::new(ReducerFault::NoSuchPart { frame, part, number })
}

#[cold]
#[inline(never)]
pub(crate) fn miscounted(frame: FrameId, what: &'static str) -> Box<ReducerFault> {
    Box::new(ReducerFault::Miscounted { frame, what })
}

#[cold]
#[inline(never)]
pub(crate) fn no_scope(scope: ScopeId, expected: &'static str) -> Box<ReducerFault> {
    Box::new(ReducerFault::NoScope { scope, expected })
}

#[cold]
#[inline(never)]
pub(crate) fn no_job(job: u64, expected: &'static str) -> Box<ReducerFault> {
    Box::new(ReducerFault::NoJob { job, expected })
}

#[cold]
#[inline(never)]
pub(crate) fn no_call(call: u64, expected: &'static str) -> Box<ReducerFault> {
    Box::new(ReducerFault::NoCall { call, expected })
}

#[cold]
#[inline(never)]
pub(crate) fn wrong_status(frame: FrameId, expected: &'static str, found: Status) -> Box<ReducerFault> {
    Box::new(ReducerFault::WrongStatus { frame, expected, found })
}

#[cold]
#[inline(never)]
pub(crate) fn not_started() -> Box<ReducerFault> {
    Box::new(ReducerFault::NotStarted)
}

pub(crate) fn kind_of(body: &FrameBody) -> &'static str {
    match body {
        FrameBody::New => "a frame that has not been entered",
        FrameBody::Backoff => "a frame that waits for its next attempt",
        FrameBody::Pipeline(_) => "a pipeline",
        FrameBody::Graph(_) => "a graph",
        FrameBody::Branch { .. } => "a branch",
        FrameBody::Loop(_) => "a loop",
        FrameBody::Net(_) => "a net",
        FrameBody::Wait(_) => "a wait",
        FrameBody::Call { .. } => "a call",
    }
}

impl Reducer<'_> {
    /// Returns a frame that must exist.
    pub(crate) fn frame(&self, id: FrameId) -> FaultResult<&Frame> {
        self.state.frames.get(id).ok_or_else(|| no_frame(id, "a frame"))
    }

    /// Returns a frame that must exist, mutably.
    pub(crate) fn frame_mut(&mut self, id: FrameId) -> FaultResult<&mut Frame> {
        self.state.frames.get_mut(id).ok_or_else(|| no_frame(id, "a frame"))
    }

    /// Returns the frame, unless it has already ended: for callers that may outlive it.
    pub(crate) fn frame_if_live(&self, id: FrameId) -> Option<&Frame> {
        self.state.frames.get(id)
    }

    /// Returns the frame mutably, unless it has already ended: for callers that may outlive it.
    pub(crate) fn frame_if_live_mut(&mut self, id: FrameId) -> Option<&mut Frame> {
        self.state.frames.get_mut(id)
    }

    /// Returns the frame, unless it has already ended or is being cancelled: for callers that may outlive it.
    pub(crate) fn frame_if_open(&self, id: FrameId) -> Option<&Frame> {
        self.state.frames.get(id).filter(|frame| frame.closing.is_none())
    }

    /// Returns a scope that must exist.
    pub(crate) fn scope(&self, id: ScopeId) -> FaultResult<&Scope> {
        self.state.scopes.get(id).ok_or_else(|| no_scope(id, "a scope"))
    }

    /// Returns a scope that must exist, mutably.
    pub(crate) fn scope_mut(&mut self, id: ScopeId) -> FaultResult<&mut Scope> {
        self.state.scopes.get_mut(id).ok_or_else(|| no_scope(id, "a scope"))
    }
}
