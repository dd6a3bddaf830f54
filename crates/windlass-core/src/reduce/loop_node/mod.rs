//! The loop node: every loop of every dialect.
//!
//! # Fields
//!
//! | field | meaning |
//! |---|---|
//! | `source` | the items of a list, evaluated once at entry, or `Repeat`: repeats until something ends it |
//! | `check` | before the first iteration and after each, only after each, or never; a boolean expression |
//! | `break_when` | an expression evaluated after each iteration; true ends the loop as succeeded |
//! | `judge` | a node that runs after a successful iteration; an output with `done: true` ends the loop |
//! | `limits` | iterations, time, budget. A definition cannot turn them off or exceed the system's |
//! | `on_exhausted` | whether reaching a limit fails the loop |
//! | `delay` | between iterations: never before the first, never after the last |
//! | `max_concurrency` | the maximum number of concurrent iterations; a judge holds its iteration's slot |
//! | `on_iteration_failure` | stop immediately, run the others and then fail, count, last decides, tolerate so many |
//! | `collect`, `entry`, `records` | the loop's output, and the values kept of each iteration |
//! | `stall` | ends the loop when an expression has returned the same value so many iterations in a row |
//!
//! # Order
//!
//! 1. Entry ([`entry`]): limits, concurrency, budget and items are evaluated; nothing changes before all of them are
//!    known.
//! 2. First check ([`check`]), only if the loop checks before: it sees 0 completed iterations, and may end the loop.
//! 3. An iteration begins ([`iteration`]) in its own scope, with its index, its item and the previous result.
//! 4. The body ends. Failure policy, `break_when`, check and stall are evaluated in the iteration's scope
//!    ([`check`]).
//! 5. The judge runs, if nothing has ended the loop and the body succeeded ([`judge`]).
//! 6. Limits ([`limits`]), then the delay ([`delay`]), then the next iteration. After the last allowed iteration the
//!    check runs once more; only then the limit applies.
//! 7. The end ([`end`]): reason, status, output. Running iterations are cancelled first, unless they may finish.
//!
//! Results ([`results`]) leave the state in chunks: its size depends on the iterations in flight, not on the
//! completed ones. Used amounts count against the loop's [`budget`] and the budgets around it.
//!
//! # Reasons
//!
//! | reason | the loop ends because | status |
//! |---|---|---|
//! | `condition` | its check or `break_when` ends it | succeeded; by its iterations, if it did not break |
//! | `items` | all items are done | by its iterations |
//! | `judge` | its judge ends it | by its iterations |
//! | `count`, `timeout`, `budget` | a limit is reached | failed, or by its iterations (`on_exhausted`) |
//! | `stalled` | it makes no progress | the same |
//! | `failed` | an iteration, an expression or its judge failed | failed |
//! | `cancelled` | it is cancelled from outside | that of the cancellation |
//!
//! # Transitions
//!
//! States: *entered* (a first check or the next iteration is on the agenda), *running* (iterations are live),
//! *delayed* (its alarm is set), *stopping* (a reason is set, iterations are live), *concluded* (its end is decided,
//! the frame may have to evaluate its output), *closing* (cancelled from outside). An iteration is `Body`, then
//! `Judge` if there is one.
//!
//! | state | first check | next iteration | body ends | judge ends | alarm | time, budget | close |
//! |---|---|---|---|---|---|---|---|
//! | entered | running, concluded | running, concluded | – | – | – | stopping | closing, ended |
//! | running | – | running (more in flight) | running, delayed, stopping, concluded | the same | – | stopping | closing |
//! | delayed | – | running (more in flight) | delayed, stopping, concluded | the same | running | stopping | closing |
//! | stopping | concluded | concluded when none is live | stopping, concluded | the same | ignored | stopping | closing |
//! | concluded | ignored | ignored | – | – | – | – (time), ignored (budget) | closing |
//! | closing | ignored | ignored | closing, ended when none is live | the same | – | – (time), ignored (budget) | closing |
//! | ended | ignored | ignored | – | – | – | – | ignored |
//!
//! – is impossible and a [`ReducerFault`](super::ReducerFault): so is the end of an iteration that the loop does not
//! have. *Ignored* is legitimate: the item was queued when the loop ended, or the timer concerns a decision that was
//! made since.

mod budget;
mod check;
mod delay;
mod end;
mod entry;
mod iteration;
mod judge;
mod limits;
mod results;

pub(in crate::reduce) use results::truncated;

use super::Reducer;
use super::fault::{FaultResult, no_frame, wrong_frame};
use crate::plan::{Loop, NodeKind};
use crate::state::{FrameBody, FrameId, LoopFrame};

/// The expectation named in faults about a loop's frame.
const A_LOOP: &str = "a loop";

impl<'a> Reducer<'a> {
    /// Returns the loop and its frame, which must exist and be a loop's.
    pub(in crate::reduce) fn loop_frame(&self, id: FrameId) -> FaultResult<(&'a Loop, &LoopFrame)> {
        let Some(frame) = self.state.frames.get(id) else { return Err(no_frame(id, A_LOOP)) };
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Loop(looping), FrameBody::Loop(body)) => Ok((looping, body)),
            (_, other) => Err(wrong_frame(id, A_LOOP, other)),
        }
    }

    pub(in crate::reduce) fn loop_frame_mut(&mut self, id: FrameId) -> FaultResult<&mut LoopFrame> {
        match self.state.frames.get_mut(id).map(|frame| &mut frame.body) {
            Some(FrameBody::Loop(body)) => Ok(body),
            Some(other) => Err(wrong_frame(id, A_LOOP, other)),
            None => Err(no_frame(id, A_LOOP)),
        }
    }

    /// Returns the same for agenda items: None if the loop has already ended, is being cancelled, or is about to be
    /// entered again.
    pub(in crate::reduce) fn loop_if_open(&self, id: FrameId) -> FaultResult<Option<(&'a Loop, &LoopFrame)>> {
        let Some(frame) = self.frame_if_open(id) else { return Ok(None) };
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Loop(looping), FrameBody::Loop(body)) => Ok(Some((looping, body))),
            (_, FrameBody::New | FrameBody::Backoff) => Ok(None),
            (_, other) => Err(wrong_frame(id, A_LOOP, other)),
        }
    }
}
