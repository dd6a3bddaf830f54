//! Evaluation of retry policies: whether another attempt is made, and after which delay.

use std::sync::Arc;

use windlass_value::{Duration, Timestamp};

use super::eval::{Locals, random_at};
use super::fault::FaultResult;
use super::{ItemStop, Reducer};
use crate::plan::{Amount, Growth, Jitter, Retry, RetryWindow};
use crate::state::{FrameBody, FrameId, ScopeId, Timer};
use crate::{ErrorInfo, EventKind};

/// The attempts so far.
#[derive(Clone, Copy)]
pub(crate) struct RetryHistory {
    /// Number of attempts.
    pub tries: u32,
    /// Start of the first attempt.
    pub since: Option<Timestamp>,
    /// Delay requested by the server's Retry-After header.
    pub requested_delay: Duration,
}

impl Reducer<'_> {
    /// Returns the wait before the next attempt; None when there is none.
    pub(crate) fn retry_after(
        &mut self,
        retry: &Retry,
        error: &ErrorInfo,
        RetryHistory { tries, since, requested_delay }: RetryHistory,
        scope: ScopeId,
        locals: Locals<'_>,
    ) -> Result<Option<Duration>, ItemStop> {
        let elapsed = since.map_or(Duration::ZERO, |since| self.now().since(since));
        if retry.window.is_some_and(|within| elapsed >= within.time) {
            return Ok(None);
        }
        if !retries_error(retry, error) || u64::from(tries) >= self.count_with(&retry.attempts, scope, locals)? {
            return Ok(None);
        }
        // A number that is written in the definition was checked against the limit at load.
        let max = self.program.limits.max_retry_attempts;
        if matches!(retry.attempts, Amount::Computed(_)) && u64::from(tries) >= max {
            let message =
                format!("{tries} attempts failed, and the policy requests more; the limit is {max}: {}", error.message);
            let hint =
                "request fewer attempts, or ask the operator to raise `limits.max_retry_attempts` in windlass.toml";
            return Err(ErrorInfo::new("RetryCountExceeded", "limit", message).hint(hint).into());
        }
        let interval = self.duration_with(&retry.backoff.interval, scope, locals)?;
        let backoff = &retry.backoff;
        let base = grow(interval, backoff.growth, tries.saturating_sub(1));
        let wait = match backoff.jitter {
            Jitter::None => base,
            Jitter::Add(part) => base * (1.0 + part * self.random_unit()),
            Jitter::Spread => self.spread_wait(retry, interval, base, tries),
        };
        let min = backoff.min.map_or(0.0, |min| min.0 as f64);
        let max = backoff.max.map_or(f64::MAX, |max| max.0 as f64);
        let wait = Duration(wait.max(min).min(max) as u64);
        let late = |within: RetryWindow| {
            within.includes_next_wait && elapsed.saturating_add(wait.max(requested_delay)) > within.time
        };
        Ok(Some(wait).filter(|_| !retry.window.is_some_and(late)))
    }

    /// Returns a random wait, uniform between the previous attempt's wait and this one's, each within the bounds.
    fn spread_wait(&mut self, retry: &Retry, interval: Duration, base: f64, tries: u32) -> f64 {
        let min = retry.backoff.min.map_or(0.0, |min| min.0 as f64);
        let max = retry.backoff.max.map_or(f64::MAX, |max| max.0 as f64);
        let lower = match tries {
            1 => min,
            _ => grow(interval, retry.backoff.growth, tries - 2).max(min).min(max),
        };
        let upper = base.min(max).max(lower);
        lower + (upper - lower) * self.random_unit()
    }

    /// Returns a random number from 0 to 1, derived from the tick.
    fn random_unit(&mut self) -> f64 {
        let draw = self.state.draws;
        self.state.draws += 1;
        (random_at(self.state.seed, draw) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Schedules a failed node to be entered again, as a new generation.
    pub(crate) fn enter_again_after(&mut self, id: FrameId, wait: Duration, error: &ErrorInfo) -> FaultResult {
        self.watch_reentry(id);
        let tries = self.frame(id)?.attempt;
        self.publish_retrying(id, self.path(id), tries, wait, error)?;
        let key = self.set_timer(self.now() + wait, Timer::Alarm(id));
        self.state.next_generation += 1;
        let generation = self.state.next_generation;
        let frame = self.frame_mut(id)?;
        frame.attempt += 1;
        frame.generation = generation;
        frame.alarm = Some(key);
        frame.closing = None;
        let before = std::mem::replace(&mut frame.body, FrameBody::Backoff);
        self.remove_from_indexes(id, &before)?;
        self.clear_scope(id)?;
        if let Some(open) = self.state.mail.boxes.get_mut(&id) {
            open.redeliver();
        }
        self.clear_sent_tokens(id)?;
        self.yield_slot(id)
    }

    pub(crate) fn publish_retrying(
        &mut self,
        id: FrameId,
        path: Arc<str>,
        tries: u32,
        wait: Duration,
        error: &ErrorInfo,
    ) -> FaultResult {
        let error = match self.is_redacted(id) {
            true => self.event_error(&error.clone().redacted()),
            false => self.event_error(error),
        };
        let firing = self.published_firing(id)?;
        self.publish(path, EventKind::TaskRetrying { attempt: tries, delay: wait, error, firing });
        Ok(())
    }
}

/// Returns true if the policy retries the error. Codes and kinds are compared as text; `5xx` matches every code of
/// that hundred. A policy that names none matches all.
fn retries_error(retry: &Retry, error: &ErrorInfo) -> bool {
    retry.on.is_empty()
        || retry.on.iter().any(|pattern| {
            let class = pattern.strip_suffix("xx").is_some_and(|hundred| {
                error.code.len() == 3
                    && error.code.starts_with(hundred)
                    && error.code.bytes().all(|byte| byte.is_ascii_digit())
            });
            class || pattern.eq_ignore_ascii_case(&error.code) || pattern.eq_ignore_ascii_case(&error.kind)
        })
}

fn grow(interval: Duration, growth: Growth, retries_before: u32) -> f64 {
    let interval = interval.0 as f64;
    match growth {
        Growth::Fixed => interval,
        Growth::Linear => interval * f64::from(retries_before + 1),
        Growth::Exponential(factor) => interval * factor.powi(retries_before.min(1_000) as i32),
    }
}
