//! Retry policies as data: the only retry mechanism, for tasks, nodes and rules.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::Duration;

use super::Amount;

/// The rule by which failed work is repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts in total, the first included.
    pub attempts: Amount<u64>,
    /// The wait before another attempt.
    pub backoff: Backoff,
    /// The errors that are retried: codes (`503`), kinds (`timeout`). Empty: all errors.
    pub on: Vec<Arc<str>>,
    /// The time window after the first attempt in which another attempt may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<RetryWindow>,
}

/// A bound in elapsed time that includes restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryWindow {
    /// The length of the window.
    pub time: Duration,
    /// The wait before the next attempt counts as well.
    pub includes_next_wait: bool,
}

/// The wait before another attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backoff {
    /// The basic wait.
    pub interval: Amount<Duration>,
    /// The growth of the wait from attempt to attempt.
    pub growth: Growth,
    /// The lower bound of the wait.
    pub min: Option<Duration>,
    /// The upper bound of the wait.
    pub max: Option<Duration>,
    /// The random part of the wait.
    pub jitter: Jitter,
}

/// The wait before retry n, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Growth {
    /// interval
    Fixed,
    /// interval · (n + 1)
    Linear,
    /// interval · factor^n
    Exponential(f64),
}

/// The random part of a wait. It is drawn once, so a replay has the same wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Jitter {
    /// No random part.
    None,
    /// Adds up to this fraction of the wait; the bounds are applied afterwards.
    Add(f64),
    /// Uniform between half the wait of this retry and the wait itself (from the lower bound for the first retry).
    Spread,
}
