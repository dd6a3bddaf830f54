//! The clock of a run.

use std::time::{SystemTime, UNIX_EPOCH};

use windlass_value::{Duration, Timestamp};

/// Real time, or real time plus all time that was skipped because the run waited only for time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The system's clock.
    Real,
    /// The system's clock plus all skipped time, for runs whose waits take no real time.
    Virtual {
        /// The sum of all waits that were skipped.
        skipped: Duration,
    },
}

impl Clock {
    /// Returns a virtual clock that shows real time until the first wait is skipped.
    pub fn virtual_time() -> Clock {
        Clock::Virtual { skipped: Duration::ZERO }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.at(real_now())
    }

    /// Returns the time at which the system's clock shows `wall`.
    pub(crate) fn at(&self, wall: Timestamp) -> Timestamp {
        match self {
            Clock::Real => wall,
            Clock::Virtual { skipped } => wall + *skipped,
        }
    }

    /// Advances virtual time to `at` and returns true. Real time does not change.
    pub(crate) fn skip_to(&mut self, at: Timestamp) -> bool {
        self.skip_from(real_now(), at)
    }

    /// Does the same while the system's clock shows `wall`.
    pub(crate) fn skip_from(&mut self, wall: Timestamp, at: Timestamp) -> bool {
        let ahead = at.since(self.at(wall));
        match self {
            Clock::Real => false,
            Clock::Virtual { skipped } => {
                *skipped = skipped.saturating_add(ahead);
                true
            }
        }
    }
}

/// Returns the system's time, in microseconds since 1970. A time before 1970 counts as 1970.
pub fn real_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_micros() as i64)
}
