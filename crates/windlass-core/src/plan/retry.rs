//! Retry as data: the one way to try again, for tasks, nodes and rules.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::Duration;

use super::Amount;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Tries in all, the first included.
    pub attempts: Amount<u64>,
    pub backoff: Backoff,
    /// Which errors are tried again: codes (`503`), kinds (`timeout`). Empty: all.
    pub on: Vec<Arc<str>>,
    /// How long after the first try another may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<RetryWindow>,
}

/// A bound in time, whatever happens in between: restarts count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryWindow {
    pub time: Duration,
    /// The wait that would come next counts as well.
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
    /// Up to this part of the wait is added; the bounds are applied afterwards.
    Add(f64),
    /// Anywhere between half the wait of this retry and the wait itself (from the lower bound for the first).
    Spread,
}
