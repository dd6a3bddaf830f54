//! Retry policies: data in the plan. The engine decides what follows a failure and journals its decision.

use std::time::Duration;

use windlass_core::plan::{self, Amount, Backoff, Growth, Jitter, RetryWindow};

/// The retry policy of a step.
///
/// ```
/// use std::time::Duration;
/// use windlass::RetryPolicy;
///
/// let patient = RetryPolicy::exponential(Duration::from_millis(200))
///     .attempts(5)
///     .factor(2.0)
///     .max(Duration::from_secs(10))
///     .jitter(0.1)
///     .stop_after(Duration::from_secs(60))
///     .on(["RateLimited", "timeout"]);
/// let stubborn = RetryPolicy::fixed(Duration::from_secs(1)).attempts(100);
/// assert_ne!(patient, stubborn);
/// ```
///
/// The jitter is drawn from the run's own random numbers, so that a replay draws the same.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    attempts: u32,
    first: Duration,
    growth: Growth,
    min: Option<Duration>,
    max: Option<Duration>,
    jitter: f64,
    window: Option<(Duration, bool)>,
    on: Vec<String>,
}

impl RetryPolicy {
    /// Waits the same time before every retry. Three attempts in total by default.
    pub fn fixed(every: Duration) -> RetryPolicy {
        let (growth, on) = (Growth::Fixed, Vec::new());
        RetryPolicy { attempts: 3, first: every, growth, min: None, max: None, jitter: 0.0, window: None, on }
    }

    /// Doubles the wait each time, unless another [`factor`](Self::factor) is set. Three attempts in total by default.
    pub fn exponential(first: Duration) -> RetryPolicy {
        RetryPolicy { growth: Growth::Exponential(2.0), ..RetryPolicy::fixed(first) }
    }

    /// Makes only one attempt, which is the default of a step.
    pub fn none() -> RetryPolicy {
        RetryPolicy { attempts: 1, ..RetryPolicy::fixed(Duration::ZERO) }
    }

    /// Sets the total number of attempts, including the first; at least 1.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> RetryPolicy {
        self.attempts = attempts.max(1);
        self
    }

    /// Sets the factor by which each wait is longer than the previous one.
    #[must_use]
    pub fn factor(mut self, factor: f64) -> RetryPolicy {
        self.growth = Growth::Exponential(factor);
        self
    }

    /// Sets the longest wait.
    #[must_use]
    pub fn max(mut self, max: Duration) -> RetryPolicy {
        self.max = Some(max);
        self
    }

    /// Sets the shortest wait.
    #[must_use]
    pub fn min(mut self, min: Duration) -> RetryPolicy {
        self.min = Some(min);
        self
    }

    /// Adds up to this fraction of a wait to it: 0.1 is a tenth.
    #[must_use]
    pub fn jitter(mut self, part: f64) -> RetryPolicy {
        self.jitter = part;
        self
    }

    /// Makes no further attempt once this time has passed since the first one. Restarts of the process do not reset it.
    #[must_use]
    pub fn stop_after(mut self, time: Duration) -> RetryPolicy {
        self.window = Some((time, false));
        self
    }

    /// Makes no further attempt if the next wait would end later than this time after the first attempt.
    #[must_use]
    pub fn stop_before(mut self, time: Duration) -> RetryPolicy {
        self.window = Some((time, true));
        self
    }

    /// Retries only errors with one of these codes or kinds. The default is all errors.
    #[must_use]
    pub fn on<T: Into<String>>(mut self, codes: impl IntoIterator<Item = T>) -> RetryPolicy {
        self.on = codes.into_iter().map(Into::into).collect();
        self
    }

    /// Compiles the policy for the plan; `None` if there are no retries.
    pub(crate) fn compile(&self) -> Option<plan::Retry> {
        let backoff = Backoff {
            interval: Amount::Fixed(to_engine_duration(self.first)),
            growth: self.growth,
            min: self.min.map(to_engine_duration),
            max: self.max.map(to_engine_duration),
            jitter: if self.jitter > 0.0 { Jitter::Add(self.jitter) } else { Jitter::None },
        };
        let on = self.on.iter().map(|code| code.as_str().into()).collect();
        let within = self
            .window
            .map(|(time, counts_wait)| RetryWindow { time: to_engine_duration(time), includes_next_wait: counts_wait });
        (self.attempts > 1).then_some(plan::Retry {
            attempts: Amount::Fixed(self.attempts.into()),
            backoff,
            on,
            window: within,
        })
    }

    /// Returns a summary such as `retry 3 1s` for the workflow's text; `None` if there are no retries.
    pub(crate) fn summary(&self) -> Option<String> {
        let growth = match self.growth {
            Growth::Exponential(factor) => format!(" x{factor}"),
            _ => String::new(),
        };
        (self.attempts > 1).then(|| format!("retry {} {:?}{growth}", self.attempts, self.first))
    }
}

pub(crate) fn to_engine_duration(time: Duration) -> windlass_value::Duration {
    windlass_value::Duration(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}
