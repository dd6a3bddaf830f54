//! The loop node: every loop of every dialect.
//!
//! # Fields
//!
//! | field | meaning |
//! |---|---|
//! | `source` | the items of a list, evaluated once at entry, or `Repeat`: again until something ends it |
//! | `check` | before the first iteration and after each, only after each, or never; an expression that gives a boolean |
//! | `break_when` | an expression looked at after each iteration; true ends the loop as succeeded |
//! | `judge` | a node that runs after an iteration that went well; an output with `done: true` ends the loop |
//! | `limits` | iterations, time, budget. A definition cannot turn them off or exceed the system's |
//! | `on_exhausted` | whether a limit that is reached fails the loop |
//! | `delay` | between iterations: never before the first, never after the last |
//! | `in_flight` | how many iterations run at the same time; a judge holds its iteration's slot |
//! | `on_turn_failure` | stop at once, run the others and fail, count, let the last decide, tolerate so many |
//! | `collect`, `entry`, `records` | what the loop gives, and what is kept of each iteration |
//! | `stall` | ends the loop when an expression has given the same value so many iterations in a row |
//!
//! # Order
//!
//! 1. Entry ([`entry`]): limits, concurrency, budget and items are worked out; nothing has changed before all are known.
//! 2. First check ([`check`]), only if the loop checks before: it sees 0 completed iterations, and may end the loop.
//! 3. An iteration begins ([`iteration`]) in a scope of its own, with its index, its item and the previous result.
//! 4. The body ends. Failure policy, `break_when`, check and stall are looked at in the iteration's scope ([`check`]).
//! 5. The judge runs, if nothing has ended the loop and the body went well ([`judge`]).
//! 6. Limits ([`limits`]), then the delay ([`delay`]), then the next iteration. After the last allowed iteration the check
//!    runs once more; only then the limit applies.
//! 7. The end ([`end`]): reason, status, output. Iterations that still run are called off first, unless they may finish.
//!
//! Results ([`results`]) leave the state in chunks: its size depends on the iterations in flight, not on those behind it.
//! What is used up counts against the loop's [`budget`] and those around it.
//!
//! # Reasons
//!
//! | reason | the loop ends because | status |
//! |---|---|---|
//! | `condition` | its check or `break_when` says so | succeeded; by its iterations, if it did not break |
//! | `items` | all items are done | by its iterations |
//! | `judge` | its judge says so | by its iterations |
//! | `count`, `timeout`, `budget` | a limit is reached | failed, or by its iterations (`on_exhausted`) |
//! | `stalled` | it makes no progress | the same |
//! | `failed` | an iteration, an expression or its judge failed | failed |
//! | `cancelled` | something outside called it off | that of the call |
//!
//! # Transitions
//!
//! States: *entered* (a first check or the next iteration is on the agenda), *running* (iterations are live), *delayed* (its
//! alarm is set), *stopping* (a reason is set, iterations are live), *concluded* (its end is decided, the frame may have to
//! evaluate what it gives), *closing* (called off from outside). An iteration is `Body`, then `Judge` if there is one.
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
//! – is impossible and a [`Fault`](super::Fault): so is the end of an iteration that the loop does not know. *Ignored* is
//! legitimate: the item was on its way when the loop ended, or the timer is for something that has been decided since.

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

/// What an access to a loop's frame expects.
const A_LOOP: &str = "a loop";

impl<'a> Reducer<'a> {
    /// The loop and its frame, which exists and is one.
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

    /// The same, for agenda items: None if the loop has already ended, is being called off, or is about to be entered anew.
    pub(in crate::reduce) fn loop_if_open(&self, id: FrameId) -> FaultResult<Option<(&'a Loop, &LoopFrame)>> {
        let Some(frame) = self.frame_if_open(id) else { return Ok(None) };
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Loop(looping), FrameBody::Loop(body)) => Ok(Some((looping, body))),
            (_, FrameBody::New | FrameBody::Backoff) => Ok(None),
            (_, other) => Err(wrong_frame(id, A_LOOP, other)),
        }
    }
}
