//! The clock of an engine: the wall clock, and the steps by which it was set while the process runs.
//!
//! Delays and timeouts follow the monotonic clock. They are stored as points in time, so when the wall clock is set,
//! the reducer moves them by the same step: each keeps its remaining time. Waits for a point in time keep that point.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;
use windlass_value::{Duration, Timestamp};

use crate::clock::real_now;

/// Steps of the wall clock below this are not corrected: clocks that are steered by small steps would otherwise move the
/// timers of every run again and again. No delay is early or late by more.
const MIN_STEP_US: i64 = 100_000;

/// The maximum time between the readings of the two clocks that are compared.
const MAX_READING_US: u64 = 1_000;

/// The number of attempts to read both clocks within that time.
const MAX_READINGS: u32 = 5;

/// The source of an engine's time. Tests inject their own.
pub trait ClockSource: Send + Sync {
    /// Returns the time of the wall clock, which may be set.
    fn wall(&self) -> Timestamp;

    /// Returns the time since an arbitrary moment. It never goes back, and it counts the time in which the machine
    /// sleeps.
    fn steady(&self) -> Duration;

    /// Returns a channel that changes when a test has moved a clock. The system's clocks have none: waits look at them
    /// from time to time.
    fn moves(&self) -> Option<watch::Receiver<u64>> {
        None
    }
}

/// The clocks of the system.
struct SystemClocks;

impl ClockSource for SystemClocks {
    fn wall(&self) -> Timestamp {
        real_now()
    }

    fn steady(&self) -> Duration {
        let time = clock_gettime(STEADY);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
        Duration(seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000))
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEADY: ClockId = ClockId::Monotonic;

/// The clock of an engine, shared by all its runs.
#[derive(Clone)]
pub struct EngineClock(Arc<SharedClock>);

struct SharedClock {
    source: Arc<dyn ClockSource>,
    /// The wall clock minus the steady clock, after the steps that were noticed.
    offset: AtomicI64,
}

impl Default for EngineClock {
    fn default() -> EngineClock {
        EngineClock::new(Arc::new(SystemClocks))
    }
}

impl EngineClock {
    /// Creates a clock that reads this source.
    pub fn new(source: Arc<dyn ClockSource>) -> EngineClock {
        let offset = AtomicI64::new(measure(&*source));
        EngineClock(Arc::new(SharedClock { source, offset }))
    }

    /// Returns the time of the wall clock.
    pub fn now(&self) -> Timestamp {
        self.0.source.wall()
    }

    /// Returns the wall clock minus the steady clock, in microseconds. The difference of two results is the step by which
    /// the wall clock was set between them: positive if it was set forward.
    pub fn offset(&self) -> i64 {
        let (known, measured) = (self.0.offset.load(Ordering::Relaxed), measure(&*self.0.source));
        if known.abs_diff(measured) < MIN_STEP_US.unsigned_abs() {
            return known;
        }
        match self.0.offset.compare_exchange(known, measured, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => measured,
            // Another run has just noticed the same step.
            Err(noticed) => noticed,
        }
    }

    /// Returns a future that is ready when a test has moved a clock after this call.
    pub(crate) fn moved(&self) -> impl Future<Output = ()> + Send + use<> {
        let moves = self.0.source.moves();
        async move {
            match moves {
                // The sender lives as long as the source.
                Some(mut moves) => drop(moves.changed().await),
                None => std::future::pending().await,
            }
        }
    }
}

/// Reads both clocks in quick succession. A thread that is suspended between them would seem to have found a step.
fn measure(source: &dyn ClockSource) -> i64 {
    let read = || {
        let before = source.steady().0;
        let wall = source.wall().0;
        let after = source.steady().0;
        (after.saturating_sub(before), wall.saturating_sub_unsigned(before))
    };
    let mut best = read();
    for _ in 1..MAX_READINGS {
        if best.0 <= MAX_READING_US {
            break;
        }
        best = best.min(read());
    }
    best.1
}
