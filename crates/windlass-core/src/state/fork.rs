//! Forking a state for another run: completed work stays, and the time in between does not count.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Timestamp, Value};

use super::{AgendaItem, Frame, FrameBody, FrameId, ScopeId, State, TimerKey, Variable};
use crate::ErrorInfo;
use crate::plan::{NodeKind, Wait};
use crate::program::{Program, accepts_value, kind_name};

/// The origin of a run that was forked from another run; published by its first event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForkOrigin {
    /// The id of the source run.
    pub run: Arc<str>,
    /// The path that runs again first.
    pub path: Arc<str>,
    /// The run repeats failed work and reuses results of the source run.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub retry: bool,
}

/// The reason why a variable cannot be set.
#[derive(Clone, Debug, PartialEq)]
pub enum SetVariableError {
    /// No such variable; contains the names that exist.
    NoSuchVariable(Vec<Arc<str>>),
    /// The value does not fit the variable's kind.
    WrongKind(ErrorInfo),
}

impl State {
    /// Makes this the initial state of another run: its ticks and events are counted from the beginning, and it has no
    /// parent run. Its execution id is assigned when it is stored.
    pub fn reset_for_fork(&mut self, run: &Arc<str>) {
        self.run.id = run.clone();
        self.run.execution_id = 0;
        self.run.parent = None;
        self.run.parent_execution_id = None;
        self.run.trace = None;
        (self.ticks, self.events) = (0, 0);
    }

    /// Continues the run's time at `at`: delays and timeouts keep their remaining duration, so that no time has passed
    /// for them. A wait for a point in time keeps that point.
    pub fn shift_time_to(&mut self, program: &Program, at: Timestamp) {
        if at > self.now {
            self.move_clock(program, at.0.saturating_sub(self.now.0));
        }
    }

    /// Moves the run's time by a number of microseconds, because the clock was set. Delays and timeouts keep their
    /// remaining duration; a wait for a point in time keeps that point.
    pub(crate) fn move_clock(&mut self, program: &Program, by: i64) {
        if by == 0 {
            return;
        }
        let moved = |at: Timestamp| Timestamp(at.0.saturating_add(by));
        let stays = |frame: &Frame| matches!(&program.node(frame.node).kind, NodeKind::Wait(Wait::Until(_)));
        let points: Vec<TimerKey> =
            self.frames.iter().filter(|(_, frame)| stays(frame)).filter_map(|(_, frame)| frame.alarm).collect();
        let shift = |key: &mut TimerKey| {
            if !points.contains(key) {
                key.0 = moved(key.0);
            }
        };
        let timers = std::mem::take(&mut self.timers).into_iter();
        self.timers = timers
            .map(|(mut key, timer)| {
                shift(&mut key);
                (key, timer)
            })
            .collect();
        for frame in self.frames.values_mut() {
            frame.started_at = moved(frame.started_at);
            let account = frame.account.as_mut().and_then(|account| account.time.as_mut());
            [frame.deadline.as_mut(), frame.alarm.as_mut(), account].into_iter().flatten().for_each(shift);
            match &mut frame.body {
                FrameBody::Loop(body) => {
                    body.time_at = body.time_at.map(moved);
                    body.time_key.as_mut().into_iter().for_each(shift);
                }
                FrameBody::Pipeline(body) => {
                    body.task_started_at = moved(body.task_started_at);
                    body.first_try_at = body.first_try_at.map(moved);
                }
                _ => {}
            }
        }
        for iteration in self.scopes.values_mut().filter_map(|scope| scope.iteration.as_mut()) {
            iteration.started_at = moved(iteration.started_at);
            iteration.loop_started_at = moved(iteration.loop_started_at);
        }
        self.jobs.values_mut().filter_map(|open| open.cancelled.as_mut()).for_each(shift);
        self.now = moved(self.now);
    }

    /// Returns the frame that the next agenda item begins or continues.
    pub fn next_frame(&self) -> Option<FrameId> {
        match self.agenda.front()? {
            AgendaItem::Enter(frame) | AgendaItem::Task(frame) => Some(*frame),
            _ => None,
        }
    }

    /// Sets a variable that this frame can see, in the innermost scope that has one of that name.
    pub fn set_variable(&mut self, frame: FrameId, name: &str, value: Value) -> Result<(), SetVariableError> {
        let mut known = Vec::new();
        let mut at: Option<ScopeId> = self.frames.get(frame).map(|frame| frame.scope);
        while let Some(scope) = at.and_then(|id| self.scopes.get_mut(id)) {
            if let Some(Variable { kind, value: kept }) = scope.variables.get_mut(name) {
                if !accepts_value(*kind, &value) {
                    let message =
                        format!("the variable `{name}` holds {}, so it cannot be set to {value:?}", kind_name(*kind));
                    return Err(SetVariableError::WrongKind(ErrorInfo::new("VariableKind", "expression", message)));
                }
                *kept = value;
                return Ok(());
            }
            known.extend(scope.variables.keys().cloned());
            at = scope.parent;
        }
        // The run's parameters and input count as its variables until they are written.
        let mut found = false;
        for given in [&mut self.run.parameters, &mut self.run.input] {
            let Value::Map(given) = given else { continue };
            known.extend(given.keys().cloned());
            if given.contains_key(name) {
                Arc::make_mut(given).insert(name, value.clone());
                found = true;
            }
        }
        if found { Ok(()) } else { Err(SetVariableError::NoSuchVariable(known)) }
    }
}
