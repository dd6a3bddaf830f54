//! Retry policies as data: the only retry mechanism, for tasks, nodes and rules.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::Duration;

use super::Amount;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts in total, the first included.
    pub attempts: Amount<u64>,
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
    pub time: Duration,
    /// The wait before the next attempt counts as well.
    pub includes_next_wait: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backoff {
    pub interval: Amount<Duration>,
    pub growth: Growth,
    pub min: Option<Duration>,
    pub max: Option<Duration>,
    pub jitter: Jitter,
}

/// The wait before retry n, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Growth {
    Fixed,
    /// interval · (n + 1)
    Linear,
    /// interval · factor^n
    Exponential(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Jitter {
    None,
    /// Adds up to this fraction of the wait; the bounds are applied afterwards.
    Add(f64),
    /// Uniform between half the wait of this retry and the wait itself (from the lower bound for the first retry).
    Spread,
}
