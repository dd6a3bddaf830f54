//! The facts about one box, collected from events.

use std::sync::Arc;

use windlass_core::{Status, StepCounts};
use windlass_value::{Duration, Timestamp};

use crate::model::{ActivityState, IterationCounts, NodeActivity};

/// Counters, never lists: a box may stand for a million runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActivityFacts {
    /// The number of the first event about it.
    pub first: u64,
    pub started_at: Option<Timestamp>,
    open: u64,
    ends: [u64; 5],
    /// Ends without a recorded start, and so without a duration.
    untimed: u64,
    /// All end times minus all start times, in microseconds: the duration of the ended runs.
    balance: i128,
    activity: Option<ActivityState>,
    attempts: u32,
    loops: u64,
    iterations: u64,
    iterations_failed: u64,
    max_iterations: Option<u64>,
    reason: Option<Arc<str>>,
    error: Option<Arc<str>>,
    pub firing: Option<u64>,
    pub worker: Option<u64>,
    /// `Some(None)`: several event kinds.
    event: Option<Option<Arc<str>>>,
}

impl ActivityFacts {
    pub(crate) fn new(first: u64) -> ActivityFacts {
        ActivityFacts { first, ..ActivityFacts::default() }
    }

    pub(crate) fn record_start(&mut self, at: Timestamp) {
        self.started_at = self.started_at.or(Some(at));
        self.open += 1;
        self.balance -= i128::from(at.0);
        self.activity = Some(ActivityState::Running);
        self.attempts = self.attempts.max(1);
    }

    pub(crate) fn record_event(&mut self, event: Option<Arc<str>>) {
        self.event = match self.event.take() {
            None => Some(event),
            Some(before) => Some(before.filter(|before| Some(before) == event.as_ref())),
        };
    }

    pub(crate) fn record_end(&mut self, at: Timestamp, status: Status) {
        match self.open.checked_sub(1) {
            Some(open) => {
                self.open = open;
                self.balance += i128::from(at.0);
            }
            None => self.untimed += 1,
        }
        self.ends[status as usize] += 1;
        if self.open == 0 {
            self.activity = None;
        }
    }

    /// Records runs that only computed: time does not advance while they do.
    pub(crate) fn record_quiet_runs(&mut self, counts: &StepCounts) {
        let mut runs = 0;
        for status in Status::ALL {
            self.ends[status as usize] += counts.ended(status);
            runs += counts.ended(status);
        }
        if counts.iterations > 0 {
            self.loops += runs;
            self.record_iterations(counts.iterations, counts.failed_iterations);
        }
    }

    /// Records the end of a step that was never started.
    pub(crate) fn record_not_run(&mut self, status: Status) {
        self.untimed += 1;
        self.ends[status as usize] += 1;
    }

    /// Records a retry. The end of a task was reported before; that of a step is reported only after its last attempt.
    pub(crate) fn record_retry(&mut self, at: Timestamp, attempt: u32, is_task: bool) {
        let failed = &mut self.ends[Status::Failed as usize];
        if is_task && *failed > 0 {
            *failed -= 1;
            self.open += 1;
            self.balance -= i128::from(at.0);
        }
        self.set_activity(ActivityState::Retrying);
        self.attempts = self.attempts.max(attempt.saturating_add(1));
    }

    pub(crate) fn set_activity(&mut self, state: ActivityState) {
        self.activity = Some(state);
    }

    pub(crate) fn record_attempt(&mut self, attempt: u32) {
        self.attempts = self.attempts.max(attempt);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open > 0
    }

    pub(crate) fn record_error(&mut self, code: Option<Arc<str>>) {
        self.error = code.or(self.error.take());
    }

    pub(crate) fn record_loop_start(&mut self, max_iterations: Option<u64>) {
        self.loops += 1;
        self.max_iterations = max_iterations;
        self.reason = None;
    }

    pub(crate) fn record_iterations(&mut self, iterations: u64, failed: u64) {
        self.iterations = self.iterations.saturating_add(iterations);
        self.iterations_failed = self.iterations_failed.saturating_add(failed);
    }

    /// Records the end of a loop. The loop's own count is used where its iterations published no events.
    pub(crate) fn record_loop_end(&mut self, iterations: u64, failed: u64, reason: Option<Arc<str>>) {
        self.loops = self.loops.max(1);
        if self.loops == 1 {
            self.iterations = self.iterations.max(iterations);
            self.iterations_failed = self.iterations_failed.max(failed);
        }
        self.reason = reason;
    }

    /// Drops the details of a single step run, for a box that stands for several.
    pub(crate) fn without_single_run(self) -> ActivityFacts {
        ActivityFacts { firing: None, worker: None, ..self }
    }

    /// Merges the facts of another box into this one.
    pub(crate) fn add(&mut self, other: ActivityFacts) {
        let newer = other.first > self.first;
        self.first = self.first.min(other.first);
        self.started_at = self.started_at.into_iter().chain(other.started_at).min();
        self.open += other.open;
        self.ends.iter_mut().zip(other.ends).for_each(|(mine, theirs)| *mine += theirs);
        self.untimed += other.untimed;
        self.balance += other.balance;
        self.attempts = self.attempts.max(other.attempts);
        self.loops += other.loops;
        self.record_iterations(other.iterations, other.iterations_failed);
        if newer || self.activity.is_none() {
            self.activity = other.activity.or(self.activity);
        }
        self.max_iterations = other.max_iterations.or(self.max_iterations);
        self.reason = other.reason.or(self.reason.take());
        self.record_error(other.error);
        if let Some(event) = other.event {
            self.record_event(event);
        }
    }

    /// Returns the activity as of `now`. If the whole run is `over`, nothing is running: a run of the box without a
    /// reported end was cancelled with it.
    pub(crate) fn to_activity(&self, now: Timestamp, over: bool) -> NodeActivity {
        let mut facts = self.clone();
        if over {
            facts.ends[Status::Cancelled as usize] += facts.open;
            facts.balance += i128::from(now.0) * i128::from(facts.open);
            facts.open = 0;
        }
        let ended: u64 = facts.ends.iter().sum();
        let runs = ended + facts.open;
        let micros = facts.balance + i128::from(now.0) * i128::from(facts.open);
        let timed = facts.untimed == 0 && runs > 0;
        let count = |status: Status| facts.ends[status as usize];
        let all_well = ended == count(Status::Succeeded) + count(Status::Skipped);
        NodeActivity {
            state: facts.state(over),
            runs,
            ends: facts.ends,
            started_at: facts.started_at,
            took: timed.then(|| Duration(u64::try_from(micros.max(0)).unwrap_or(u64::MAX))),
            attempts: facts.attempts,
            iterations: (facts.loops > 0 || facts.iterations > 0).then(|| IterationCounts {
                ended: facts.iterations,
                failed: facts.iterations_failed,
                max: facts.max_iterations,
                entries: facts.loops,
                reason: facts.reason.clone(),
            }),
            // An error that a retry has overcome is not shown; the number of attempts hints at it.
            error: facts.error.clone().filter(|_| !all_well),
            firing: facts.firing,
            worker: facts.worker,
            event: facts.event.clone().flatten(),
        }
    }

    /// Returns the current state if a run is open, else the worst status of the ended runs.
    fn state(&self, over: bool) -> ActivityState {
        let worst = [Status::Failed, Status::TimedOut, Status::Cancelled, Status::Succeeded, Status::Skipped];
        let worst = worst.into_iter().find(|status| self.ends[*status as usize] > 0);
        match (self.open, worst) {
            (0, Some(status)) => ActivityState::Ended(status),
            (0, None) if over => ActivityState::Ended(Status::Cancelled),
            (0, None) => self.activity.unwrap_or(ActivityState::Running),
            _ => self.activity.unwrap_or(ActivityState::Running),
        }
    }
}
