//! Support for replaying a run: finds the item of the tick with which something began, and stops right before it.
//!
//! A live run has no watch and pays no cost for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::fault::FaultResult;
use super::nodes::with_label;
use super::{PartialTick, Reducer};
use crate::plan::{Loop, NodeKind, iteration_suffix};
use crate::state::{AgendaItem, Frame, FrameBody, FrameId, State};
use crate::{Status, TaskOutcome};

/// A point inside a run: the number of ticks reduced, and the number of items of the next tick that were processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReplayPoint {
    /// The number of ticks that were reduced before.
    pub tick: u64,
    /// The number of items of the next tick that were processed before.
    pub item: u64,
}

/// A node that failed by itself, not because of something inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedFailure {
    /// The point where it began; None if that was before the first watched tick.
    pub began_at: Option<ReplayPoint>,
    /// The path of the node.
    pub path: Arc<str>,
}

/// The failures that a watch has observed.
#[derive(Clone, Debug, Default)]
pub struct ObservedFailures {
    /// The failure that began first. A node that was retried and then succeeded does not count.
    pub first: Option<ObservedFailure>,
    /// The first node that was cancelled, from outside or with the run.
    pub cancelled: Option<ObservedFailure>,
    /// The points where frames began that failed although everything inside them had succeeded: by an expression, a
    /// rule, a limit. With the same results inside they would fail again, so these results must not be reused.
    pub not_reusable: Vec<ReplayPoint>,
    /// The node that ended the run as failed and succeeded itself; it counts if nothing else failed.
    run_ended_by: Option<ObservedFailure>,
    live: BTreeMap<FrameId, LiveFrame>,
}

/// Observations about a frame that has not ended.
#[derive(Clone, Debug, Default)]
struct LiveFrame {
    began: Option<ReplayPoint>,
    failed: Option<ObservedFailure>,
    /// The child that failed last, by its slot: it may be retried.
    latest: Option<(u64, ObservedFailure)>,
    cancelled: Option<ObservedFailure>,
    /// The child that ended last.
    last: Option<ObservedFailure>,
    /// It could not continue with the output of its last child.
    failed_by_last_child: bool,
    /// Its last task was reported as failed.
    reported: bool,
}

/// Observes a replay, from tick to tick; see [`PartialTick::with_watch`].
#[derive(Clone, Debug, Default)]
pub struct ReplayWatch {
    now: ReplayPoint,
    stop_before: Option<u64>,
    stopped: bool,
    path: Option<Arc<str>>,
    begun: Vec<ReplayPoint>,
    paths: Option<Vec<Arc<str>>>,
    failures: Option<ObservedFailures>,
    marks: Vec<ReplayPoint>,
    marked: BTreeSet<FrameId>,
}

impl ReplayWatch {
    /// Creates a watch that records when something at this path begins: a node, a task with a label, an iteration.
    pub fn at_path(path: Arc<str>) -> ReplayWatch {
        ReplayWatch { path: Some(path), ..ReplayWatch::default() }
    }

    /// Creates a watch that records the paths of everything that begins.
    pub fn all_paths() -> ReplayWatch {
        ReplayWatch { paths: Some(Vec::new()), ..ReplayWatch::default() }
    }

    /// Creates a watch that records failures.
    pub fn for_failures() -> ReplayWatch {
        ReplayWatch { failures: Some(ObservedFailures::default()), ..ReplayWatch::default() }
    }

    /// Creates a watch that stops the tick before its item of this number, counted from 0. The agenda keeps its items.
    pub fn stop_before(item: u64) -> ReplayWatch {
        ReplayWatch { stop_before: Some(item), ..ReplayWatch::default() }
    }

    /// Creates a watch that marks the live frames that began at these points, which are in order.
    pub fn marking_frames(marks: Vec<ReplayPoint>) -> ReplayWatch {
        ReplayWatch { marks, ..ReplayWatch::default() }
    }

    /// Returns true if this frame, or one around it, began at one of the points.
    pub fn is_marked(&self, state: &State, frame: FrameId) -> bool {
        let above = |id: &FrameId| state.frames.get(*id).and_then(|frame| frame.parent);
        std::iter::successors(Some(frame), above).any(|id| self.marked.contains(&id))
    }

    /// Returns true if the watch has stopped a tick before one of its items.
    pub fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// Returns the begin points since the last call.
    pub fn take_begun(&mut self) -> Vec<ReplayPoint> {
        std::mem::take(&mut self.begun)
    }

    /// Returns the paths since the last call.
    pub fn take_paths(&mut self) -> Vec<Arc<str>> {
        self.paths.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the failures so far; None if the watch does not record failures.
    pub fn observed_failures(&self) -> Option<&ObservedFailures> {
        self.failures.as_ref()
    }
}

impl PartialTick {
    /// Creates the progress of a watched tick.
    pub fn with_watch(watch: Option<Box<ReplayWatch>>) -> PartialTick {
        PartialTick { watch, ..PartialTick::default() }
    }

    /// Returns the watch, when the tick is done.
    pub fn take_watch(&mut self) -> Option<Box<ReplayWatch>> {
        self.watch.take()
    }
}

fn earlier_failure(one: Option<ObservedFailure>, other: Option<ObservedFailure>) -> Option<ObservedFailure> {
    match (one, other) {
        // A node that began before the watch did began first.
        (Some(one), Some(other)) => Some(if other.began_at < one.began_at { other } else { one }),
        (one, other) => one.or(other),
    }
}

impl Reducer<'_> {
    /// Notes the beginning of a tick.
    pub(super) fn watch_tick_begin(&mut self) {
        if let Some(watch) = &mut self.work.watch {
            watch.now = ReplayPoint { tick: self.state.ticks - 1, item: 0 };
            watch.stopped = false;
        }
    }

    pub(super) fn is_watch_stopped(&self) -> bool {
        self.work.watch.as_ref().is_some_and(|watch| watch.stopped)
    }

    /// Called before an item is processed, and again if values have to be loaded for it. False: the item stays on the
    /// agenda.
    pub(super) fn watch_item(&mut self, item: &AgendaItem) -> bool {
        let Some(mut watch) = self.work.watch.take() else { return true };
        let now = watch.now;
        watch.stopped = watch.stop_before == Some(now.item);
        if let Some(path) = &watch.path
            && watch.begun.last() != Some(&now)
            && self.begins_at(item, path)
        {
            watch.begun.push(now);
        }
        if let Some(paths) = &mut watch.paths {
            paths.extend(self.begun_path(item));
        }
        if let (Some(failures), AgendaItem::Enter(id)) = (&mut watch.failures, item)
            && self.first_entry(*id).is_some()
        {
            failures.live.entry(*id).or_default().began.get_or_insert(now);
        }
        if let AgendaItem::Enter(id) = item
            && watch.marks.binary_search(&now).is_ok()
        {
            watch.marked.insert(*id);
        }
        let proceeds = !watch.stopped;
        self.work.watch = Some(watch);
        proceeds
    }

    pub(super) fn watch_item_done(&mut self) {
        if let Some(watch) = &mut self.work.watch {
            watch.now.item += 1;
        }
    }

    /// Returns the frame, unless it has already ended or was entered before.
    fn first_entry(&self, id: FrameId) -> Option<&Frame> {
        self.frame_if_live(id).filter(|frame| frame.attempt == 1)
    }

    /// Returns true if this item begins something at the path. Of several frames with the same path, the outermost
    /// counts.
    fn begins_at(&self, item: &AgendaItem, path: &str) -> bool {
        match item {
            AgendaItem::Enter(id) => {
                let Some(frame) = self.first_entry(*id) else { return false };
                let Some(parent) = frame.parent else { return *self.path(*id) == *path };
                if let Some((looping, iteration)) = self.iteration_path(frame, parent)
                    && iteration == path
                {
                    // An iteration begins with its body: its judge begins when the body has ended.
                    return looping.judge != Some(frame.node);
                }
                *self.path(*id) == *path && *self.path(parent) != *path && self.fresh_task_path(parent) != path
            }
            AgendaItem::Task(id) => self.begins_task(*id) && self.fresh_task_path(*id) == path,
            // These continue what has begun, or lead to items that begin something.
            AgendaItem::TaskEnded(..)
            | AgendaItem::ChildEnded { .. }
            | AgendaItem::StartChild { .. }
            | AgendaItem::FirstCheck(_)
            | AgendaItem::NextIteration(_)
            | AgendaItem::Fire(_)
            | AgendaItem::Finish(..)
            | AgendaItem::EndRun(_)
            | AgendaItem::Parameters
            | AgendaItem::Token(..)
            | AgendaItem::Mail(_) => false,
        }
    }

    /// Returns the path of whatever this item begins.
    fn begun_path(&self, item: &AgendaItem) -> Option<Arc<str>> {
        let path = match item {
            AgendaItem::Enter(id) => {
                let (path, parent) = (self.path(*id), self.first_entry(*id)?.parent);
                Some(path).filter(|path| parent.is_none_or(|parent| *self.path(parent) != **path))?
            }
            AgendaItem::Task(id) => self.begins_task(*id).then(|| self.fresh_task_path(*id).into())?,
            // These continue what has begun, or lead to items that begin something.
            AgendaItem::TaskEnded(..)
            | AgendaItem::ChildEnded { .. }
            | AgendaItem::StartChild { .. }
            | AgendaItem::FirstCheck(_)
            | AgendaItem::NextIteration(_)
            | AgendaItem::Fire(_)
            | AgendaItem::Finish(..)
            | AgendaItem::EndRun(_)
            | AgendaItem::Parameters
            | AgendaItem::Token(..)
            | AgendaItem::Mail(_) => return None,
        };
        Some(path).filter(|path| !path.is_empty())
    }

    /// Returns the loop directly around a frame, and the path of the frame's iteration.
    fn iteration_path(&self, frame: &Frame, parent: FrameId) -> Option<(&Loop, String)> {
        let above = self.state.frames.get(parent)?;
        let NodeKind::Loop(looping) = &self.program.node(above.node).kind else { return None };
        Some((looping, format!("{}{}", self.path(parent), iteration_suffix(frame.slot))))
    }

    /// Returns true if the task has not been attempted and waits for nothing. A frame of another kind is a fault of the
    /// item itself, which is detected when the item is processed.
    fn begins_task(&self, id: FrameId) -> bool {
        let Some(frame) = self.frame_if_live(id) else { return false };
        match &frame.body {
            FrameBody::Pipeline(body) => {
                body.attempt == 0 && body.pending_wait.is_none() && body.next_call_input.is_none()
            }
            FrameBody::New
            | FrameBody::Backoff
            | FrameBody::Graph(_)
            | FrameBody::Branch { .. }
            | FrameBody::Loop(_)
            | FrameBody::Net(_)
            | FrameBody::Wait(_)
            | FrameBody::Call { .. } => false,
        }
    }

    /// Returns the path of a pipeline's current task, if it has a label; otherwise an empty string.
    fn fresh_task_path(&self, id: FrameId) -> String {
        let Some(frame) = self.frame_if_live(id) else { return String::new() };
        let (NodeKind::Pipeline(pipeline), FrameBody::Pipeline(body)) =
            (&self.program.node(frame.node).kind, &frame.body)
        else {
            return String::new();
        };
        let task = pipeline.tasks.get(body.pc as usize).filter(|task| !task.label.is_empty());
        task.map(|task| with_label(self.path(id), &task.label).to_string()).unwrap_or_default()
    }

    fn failures_mut(&mut self) -> Option<&mut ObservedFailures> {
        self.work.watch.as_mut().and_then(|watch| watch.failures.as_mut())
    }

    /// Records a worker's accepted report.
    pub(super) fn watch_report(&mut self, id: FrameId, outcome: &TaskOutcome) {
        if let Some(failures) = self.failures_mut() {
            failures.live.entry(id).or_default().reported = outcome.error.is_some();
        }
    }

    /// Records an item that could not evaluate an expression.
    pub(super) fn watch_item_failed(&mut self, item: &AgendaItem) {
        let Some(now) = self.work.watch.as_ref().map(|watch| watch.now) else { return };
        let Some(failures) = self.failures_mut() else { return };
        match item {
            AgendaItem::ChildEnded { parent, .. } => {
                failures.live.entry(*parent).or_default().failed_by_last_child = true
            }
            AgendaItem::EndRun(_) => {
                let own = ObservedFailure { began_at: Some(now), path: "".into() };
                failures.first = earlier_failure(failures.first.take(), Some(own));
            }
            // Their frames fail, and report it at their end.
            AgendaItem::Enter(_)
            | AgendaItem::Task(_)
            | AgendaItem::TaskEnded(..)
            | AgendaItem::StartChild { .. }
            | AgendaItem::FirstCheck(_)
            | AgendaItem::NextIteration(_)
            | AgendaItem::Fire(_)
            | AgendaItem::Finish(..)
            | AgendaItem::Parameters
            | AgendaItem::Token(..)
            | AgendaItem::Mail(_) => {}
        }
    }

    /// Records a frame that ends the run as failed. Called while the frame still exists.
    pub(super) fn watch_run_end(&mut self, id: FrameId) {
        let path = self.path(id);
        if let Some(failures) = self.failures_mut() {
            let began = failures.live.get(&id).and_then(|live| live.began);
            failures.run_ended_by.get_or_insert(ObservedFailure { began_at: began, path });
        }
    }

    /// Resets a frame that is entered again: failures inside it no longer count.
    pub(super) fn watch_reentry(&mut self, id: FrameId) {
        if let Some(live) = self.failures_mut().and_then(|failures| failures.live.get_mut(&id)) {
            *live = LiveFrame { began: live.began, ..LiveFrame::default() };
        }
    }

    /// Notes that a pipeline's task is retried.
    pub(super) fn watch_task_retry(&mut self, id: FrameId) {
        if let Some(live) = self.failures_mut().and_then(|failures| failures.live.get_mut(&id)) {
            live.latest = None;
        }
    }

    /// Records the end of a frame. Called while the frame still exists.
    pub(super) fn watch_end(&mut self, id: FrameId, status: Status) -> FaultResult {
        if let Some(watch) = &mut self.work.watch {
            watch.marked.remove(&id);
        }
        if self.failures_mut().is_none() {
            return Ok(());
        }
        let frame = self.frame(id)?;
        let (parent, slot, entered) = (frame.parent, frame.slot, !matches!(frame.body, FrameBody::New));
        let cancelled_from_outside = frame.closing.as_ref().is_some_and(|closing| !closing.own_end);
        let path = self.path(id);
        // Checked above: there is a watch, and it records failures.
        let Some(watch) = &mut self.work.watch else { return Ok(()) };
        let now = watch.now;
        let Some(failures) = &mut watch.failures else { return Ok(()) };
        let live = failures.live.remove(&id).unwrap_or_default();
        // A node that fails before it is entered has begun with its end.
        let began = if entered { live.began } else { live.began.or(Some(now)) };
        let own = ObservedFailure { began_at: began, path };
        let mut failed = earlier_failure(live.failed, live.latest.map(|(_, failure)| failure));
        let mut cancelled = live.cancelled;
        match status {
            Status::Failed | Status::TimedOut if failed.is_none() => {
                let blamed = live.last.filter(|_| live.failed_by_last_child).unwrap_or_else(|| own.clone());
                if !cancelled_from_outside && !live.reported && cancelled.is_none() {
                    failures.not_reusable.extend(blamed.began_at);
                }
                failed = Some(blamed);
            }
            Status::Cancelled if cancelled.is_none() => cancelled = Some(own.clone()),
            // The cause is already known, or there is none.
            Status::Failed | Status::TimedOut | Status::Cancelled | Status::Succeeded | Status::Skipped => {}
        }
        let Some(parent) = parent else {
            failures.first = earlier_failure(failures.first.take(), failed);
            failures.cancelled = cancelled;
            if failures.first.is_none() && failures.cancelled.is_none() {
                failures.first = failures.run_ended_by.take();
            }
            return Ok(());
        };
        let above = failures.live.entry(parent).or_default();
        above.last = Some(own);
        above.cancelled = earlier_failure(above.cancelled.take(), cancelled);
        if let Some(failure) = failed {
            let before = match above.latest.take() {
                // The same child again: its next attempt may fix both.
                Some((same, before)) if same == slot => {
                    above.latest = Some((slot, before.earlier(failure)));
                    return Ok(());
                }
                before => before.map(|(_, before)| before),
            };
            above.failed = earlier_failure(above.failed.take(), before);
            above.latest = Some((slot, failure));
        }
        Ok(())
    }
}

impl ObservedFailure {
    fn earlier(self, other: ObservedFailure) -> ObservedFailure {
        if other.began_at < self.began_at { other } else { self }
    }
}
