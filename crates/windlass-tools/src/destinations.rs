//! The health of the servers that calls go to: a circuit breaker and a retry budget for each host and port.
//!
//! After many failures in a row, calls to a destination are refused for a while instead of being sent; then a single
//! call tries it. Retries to a destination that fails are bounded per minute, so that the retries of many runs do not
//! keep a service down that is about to recover. A refused attempt fails like a broken connection, and is retried as
//! its definition says: what a run does is decided by its data, never by this state.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::Uri;
use tokio::time::Instant;
use tracing::{info, warn};
use windlass_core::ProcessLimits;

use crate::http::uri::host_and_port;

/// Maximum number of destinations that are observed. Definitions choose addresses; one that is not observed is called.
const MAX_DESTINATIONS: usize = 10_000;

/// First attempts for which one more retry is permitted, besides those per minute.
const CALLS_PER_RETRY: f64 = 5.0;

/// The health of destinations. Clones share it. The default refuses nothing.
#[derive(Clone, Default)]
pub struct Destinations(Option<Arc<Shared>>);

struct Shared {
    max_failures: u64,
    pause: Duration,
    max_retries_per_minute: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Only those with recent failures or retries.
    destinations: HashMap<String, Destination>,
    refused: RefusedCalls,
}

/// Numbers of calls that were not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RefusedCalls {
    /// Because the destination is paused.
    pub paused: u64,
    /// Because its retry budget was used up.
    pub retries: u64,
}

struct Destination {
    /// Failures in a row.
    failures: u64,
    /// The end of the pause. After it, the destination stays paused until a call succeeds.
    paused_until: Option<Instant>,
    /// A call is trying the destination after the pause.
    is_probed: bool,
    retries: f64,
    refilled_at: Instant,
}

/// The reason why a call is not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotSent {
    Paused { failures: u64, wait: Duration },
    RetryBudget { max_per_minute: u64 },
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotSent::Paused { failures, wait } => {
                let ms = wait.as_millis();
                write!(f, "not sent: the server is paused after {failures} failures in a row, for {ms} ms more")
            }
            NotSent::RetryBudget { max_per_minute } => {
                write!(f, "not sent: more than {max_per_minute} retries per minute went to this server")
            }
        }
    }
}

impl NotSent {
    pub(crate) fn hint(self) -> &'static str {
        match self {
            NotSent::Paused { .. } => {
                "`limits.max_destination_failures` and `limits.destination_pause` in windlass.toml set this; retry later"
            }
            NotSent::RetryBudget { .. } => {
                "retry less often, or raise `limits.max_destination_retries_per_minute` in windlass.toml"
            }
        }
    }
}

/// The effect of a call on the health of its destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallHealth {
    Healthy,
    Failed,
    /// It says nothing about the destination.
    Unknown,
}

/// A call that may be sent.
pub(crate) struct AdmittedCall {
    destinations: Destinations,
    name: Option<String>,
    is_probe: bool,
}

impl Destinations {
    pub fn from_limits(limits: &ProcessLimits) -> Destinations {
        Destinations(Some(Arc::new(Shared {
            max_failures: limits.max_destination_failures,
            pause: limits.destination_pause.to_std(),
            max_retries_per_minute: limits.max_destination_retries_per_minute,
            state: Mutex::default(),
        })))
    }

    /// Returns the calls that were not sent so far.
    pub fn refused(&self) -> RefusedCalls {
        self.0.as_ref().map(|shared| shared.lock().refused).unwrap_or_default()
    }

    /// Returns the number of destinations that are paused.
    pub fn paused(&self) -> usize {
        let count =
            |shared: &Arc<Shared>| shared.lock().destinations.values().filter(|one| one.paused_until.is_some()).count();
        self.0.as_ref().map_or(0, count)
    }

    /// Records a call that was abandoned at its timeout.
    pub(crate) fn record(&self, uri: &Uri, health: CallHealth) {
        if let (Some(shared), Some(name)) = (&self.0, destination_name(uri)) {
            shared.lock().record(shared, &name, health, false);
        }
    }

    /// Admits a call, or returns the reason why it must not be sent. `attempt` is counted from 1.
    pub(crate) fn admit(&self, uri: &Uri, attempt: u32) -> Result<AdmittedCall, NotSent> {
        let (Some(shared), Some(name)) = (&self.0, destination_name(uri)) else {
            return Ok(AdmittedCall { destinations: Destinations::default(), name: None, is_probe: false });
        };
        let is_probe = shared.lock().admit(shared, &name, attempt > 1)?;
        Ok(AdmittedCall { destinations: self.clone(), name: Some(name), is_probe })
    }
}

fn destination_name(uri: &Uri) -> Option<String> {
    let (host, port) = host_and_port(&uri.to_string())?;
    Some(format!("{}:{port}", host.to_ascii_lowercase()))
}

impl fmt::Debug for Destinations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destinations").field("paused", &self.paused()).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns whether the call tries a destination after its pause.
    fn admit(&mut self, limits: &Shared, name: &str, is_retry: bool) -> Result<bool, NotSent> {
        if is_retry && limits.max_retries_per_minute > 0 {
            self.observe(limits, name);
        }
        let Some(destination) = self.destinations.get_mut(name) else { return Ok(false) };
        let now = Instant::now();
        let is_probe = match destination.paused_until {
            Some(until) if now < until || destination.is_probed => {
                self.refused.paused += 1;
                let wait = until.saturating_duration_since(now);
                return Err(NotSent::Paused { failures: destination.failures, wait });
            }
            paused => paused.is_some(),
        };
        if !destination.take_retry(limits, is_retry, now) {
            self.refused.retries += 1;
            return Err(NotSent::RetryBudget { max_per_minute: limits.max_retries_per_minute });
        }
        destination.is_probed = is_probe;
        Ok(is_probe)
    }

    /// Observes a destination from now on, unless there are too many.
    fn observe(&mut self, limits: &Shared, name: &str) -> Option<&mut Destination> {
        if !self.destinations.contains_key(name) {
            if self.destinations.len() >= MAX_DESTINATIONS {
                let now = Instant::now();
                self.destinations.retain(|_, one| !one.is_forgettable(limits, now));
            }
            if self.destinations.len() >= MAX_DESTINATIONS {
                return None;
            }
            let destination = Destination {
                failures: 0,
                paused_until: None,
                is_probed: false,
                retries: limits.max_retries_per_minute as f64,
                refilled_at: Instant::now(),
            };
            self.destinations.insert(name.to_owned(), destination);
        }
        self.destinations.get_mut(name)
    }

    fn record(&mut self, limits: &Shared, name: &str, health: CallHealth, is_probe: bool) {
        match health {
            CallHealth::Failed => {
                let Some(destination) = self.observe(limits, name) else { return };
                destination.failures = destination.failures.saturating_add(1);
                let pauses = limits.max_failures > 0 && destination.failures >= limits.max_failures;
                if pauses && (is_probe || destination.paused_until.is_none()) {
                    destination.paused_until = Some(Instant::now() + limits.pause);
                    let (failures, pause_ms) = (destination.failures, limits.pause.as_millis() as u64);
                    warn!(destination = name, failures, pause_ms, "destination paused");
                }
            }
            CallHealth::Healthy => {
                let Some(destination) = self.destinations.get_mut(name) else { return };
                destination.failures = 0;
                if destination.paused_until.take().is_some() {
                    info!(destination = name, "destination resumed");
                }
            }
            CallHealth::Unknown => {}
        }
        if let Some(destination) = self.destinations.get_mut(name).filter(|_| is_probe) {
            destination.is_probed = false;
        }
    }
}

impl Destination {
    /// Takes a retry out of the budget. A first attempt adds a part of one.
    fn take_retry(&mut self, limits: &Shared, is_retry: bool, now: Instant) -> bool {
        let max = limits.max_retries_per_minute as f64;
        if max == 0.0 {
            return true;
        }
        self.retries = self.available_retries(limits, now);
        self.refilled_at = now;
        match is_retry {
            false => self.retries = (self.retries + 1.0 / CALLS_PER_RETRY).min(max),
            true if self.retries < 1.0 => return false,
            true => self.retries -= 1.0,
        }
        true
    }

    fn available_retries(&self, limits: &Shared, now: Instant) -> f64 {
        let max = limits.max_retries_per_minute as f64;
        let minutes = now.saturating_duration_since(self.refilled_at).as_secs_f64() / 60.0;
        (self.retries + minutes * max).min(max)
    }

    /// Returns whether nothing would change if the destination were observed anew.
    fn is_forgettable(&self, limits: &Shared, now: Instant) -> bool {
        let has_all_retries = self.available_retries(limits, now) >= limits.max_retries_per_minute as f64;
        self.failures == 0 && self.paused_until.is_none() && has_all_retries
    }
}

impl AdmittedCall {
    pub(crate) fn record(mut self, health: CallHealth) {
        self.end(health);
    }

    fn end(&mut self, health: CallHealth) {
        if let (Some(shared), Some(name)) = (&self.destinations.0, self.name.take()) {
            shared.lock().record(shared, &name, health, self.is_probe);
        }
    }
}

/// A call that was abandoned says nothing, but the next call may try the destination.
impl Drop for AdmittedCall {
    fn drop(&mut self) {
        self.end(CallHealth::Unknown);
    }
}

#[cfg(test)]
mod tests;
