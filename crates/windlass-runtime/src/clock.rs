//! Where a run's time comes from.

use std::time::{SystemTime, UNIX_EPOCH};

use windlass_value::{Duration, Timestamp};

/// Real time, or real time plus all that was skipped because nothing but time was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    Real,
    Virtual { skipped: Duration },
}

impl Clock {
    pub fn virtual_time() -> Clock {
        Clock::Virtual { skipped: Duration::ZERO }
    }

    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Clock::Real => real_now(),
            Clock::Virtual { skipped } => real_now() + *skipped,
        }
    }

    /// Virtual time jumps there; real time does not.
    pub(crate) fn skip_to(&mut self, at: Timestamp) -> bool {
        let ahead = at.since(self.now());
        match self {
            Clock::Real => false,
            Clock::Virtual { skipped } => {
                *skipped = skipped.saturating_add(ahead);
                true
            }
        }
    }
}

pub fn real_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_micros() as i64)
}
