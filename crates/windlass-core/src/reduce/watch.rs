//! For whoever replays a run: with which item of which tick something began, and a stop right before it.
//!
//! A live run has no watch, and pays for none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::fault::FaultResult;
use super::nodes::with_label;
use super::{PartialTick, Reducer};
use crate::plan::{Loop, NodeKind};
use crate::state::{AgendaItem, Frame, FrameBody, FrameId, State};
use crate::{Status, TaskOutcome};

/// A point inside a run: so many ticks have been reduced, and of the next one so many items have been worked off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ReplayPoint {
    pub tick: u64,
    pub item: u64,
}

/// Something that ended badly by itself, not because of something inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedFailure {
    /// When it began; None if that was before the first tick that was watched.
    pub began_at: Option<ReplayPoint>,
    pub path: Arc<str>,
}

/// What a watch has seen of failures.
#[derive(Clone, Debug, Default)]
pub struct ObservedFailures {
    /// The one that began first. One that was tried again and then went well is none.
    pub first: Option<ObservedFailure>,
    /// The first that was called off, by somebody outside or with the run.
    pub cancelled: Option<ObservedFailure>,
    /// When frames began that failed although all inside them had gone well: by an expression, a rule, a limit. What they
    /// have got does not help them, so it is not to be used again.
    pub not_reusable: Vec<ReplayPoint>,
    /// What has ended the run as failed, and went well itself: it counts if nothing else did not.
    run_ended_by: Option<ObservedFailure>,
    live: BTreeMap<FrameId, LiveFrame>,
}

/// What is known of a frame that has not ended.
#[derive(Clone, Debug, Default)]
struct LiveFrame {
    began: Option<ReplayPoint>,
    failed: Option<ObservedFailure>,
    /// Of the child that failed last, by its slot: it may be tried again.
    latest: Option<(u64, ObservedFailure)>,
    cancelled: Option<ObservedFailure>,
    /// The child that ended last.
    last: Option<ObservedFailure>,
    /// It could not go on with what its last child gave.
    failed_by_last_child: bool,
    /// Its last task was reported as failed.
    reported: bool,
}

/// Goes from tick to tick with whoever replays; see [`Resume::watched`].
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
    /// Notes when something at this path begins: a node, a task that has a label, a loop's turn.
    pub fn at_path(path: Arc<str>) -> ReplayWatch {
        ReplayWatch { path: Some(path), ..ReplayWatch::default() }
    }

    /// Notes the paths of all that begins.
    pub fn all_paths() -> ReplayWatch {
        ReplayWatch { paths: Some(Vec::new()), ..ReplayWatch::default() }
    }

    /// Notes what fails.
    pub fn for_failures() -> ReplayWatch {
        ReplayWatch { failures: Some(ObservedFailures::default()), ..ReplayWatch::default() }
    }

    /// Stops the tick before its item of this number, counted from 0. What is on the agenda stays there.
    pub fn stop_before(item: u64) -> ReplayWatch {
        ReplayWatch { stop_before: Some(item), ..ReplayWatch::default() }
    }

    /// Knows the live frames that began at these moments, which are in order.
    pub fn marking_frames(marks: Vec<ReplayPoint>) -> ReplayWatch {
        ReplayWatch { marks, ..ReplayWatch::default() }
    }

    /// Whether this frame, or one around it, began at one of the moments.
    pub fn is_marked(&self, state: &State, frame: FrameId) -> bool {
        let above = |id: &FrameId| state.frames.get(*id).and_then(|frame| frame.parent);
        std::iter::successors(Some(frame), above).any(|id| self.marked.contains(&id))
    }

    pub fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// The beginnings since this was asked last.
    pub fn take_begun(&mut self) -> Vec<ReplayPoint> {
        std::mem::take(&mut self.begun)
    }

    /// The paths since this was asked last.
    pub fn take_paths(&mut self) -> Vec<Arc<str>> {
        self.paths.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub fn observed_failures(&self) -> Option<&ObservedFailures> {
        self.failures.as_ref()
    }
}

impl PartialTick {
    /// For a tick that is watched.
    pub fn with_watch(watch: Option<Box<ReplayWatch>>) -> PartialTick {
        PartialTick { watch, ..PartialTick::default() }
    }

    /// The watch, when the tick is done.
    pub fn take_watch(&mut self) -> Option<Box<ReplayWatch>> {
        self.watch.take()
    }
}

fn earlier_failure(one: Option<ObservedFailure>, other: Option<ObservedFailure>) -> Option<ObservedFailure> {
    match (one, other) {
        // What began before anybody watched began first.
        (Some(one), Some(other)) => Some(if other.began_at < one.began_at { other } else { one }),
        (one, other) => one.or(other),
    }
}

impl Reducer<'_> {
    /// A tick begins.
    pub(super) fn watch_tick_begin(&mut self) {
        if let Some(watch) = &mut self.work.watch {
            watch.now = ReplayPoint { tick: self.state.ticks - 1, item: 0 };
            watch.stopped = false;
        }
    }

    pub(super) fn is_watch_stopped(&self) -> bool {
        self.work.watch.as_ref().is_some_and(|watch| watch.stopped)
    }

    /// Called before an item is worked off; once more, if values have to be fetched for it. False: it stays where it is.
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

    /// The frame, unless it has already ended or was entered before.
    fn first_entry(&self, id: FrameId) -> Option<&Frame> {
        self.frame_if_live(id).filter(|frame| frame.attempt == 1)
    }

    /// Whether what this item begins is at the path. Of several frames under one path the outermost is meant.
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
            // These go on with what has begun, or lead to items that begin something.
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

    /// What this item begins, as people would write it.
    fn begun_path(&self, item: &AgendaItem) -> Option<Arc<str>> {
        let path = match item {
            AgendaItem::Enter(id) => {
                let (path, parent) = (self.path(*id), self.first_entry(*id)?.parent);
                Some(path).filter(|path| parent.is_none_or(|parent| *self.path(parent) != **path))?
            }
            AgendaItem::Task(id) => self.begins_task(*id).then(|| self.fresh_task_path(*id).into())?,
            // These go on with what has begun, or lead to items that begin something.
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

    /// The loop directly around a frame, and the path of the iteration that the frame belongs to.
    fn iteration_path(&self, frame: &Frame, parent: FrameId) -> Option<(&Loop, String)> {
        let above = self.state.frames.get(parent)?;
        let NodeKind::Loop(looping) = &self.program.node(above.node).kind else { return None };
        Some((looping, format!("{}{}", self.path(parent), looping.iteration_path.write(frame.slot))))
    }

    /// The task has not been tried, and waits for nothing. A frame of another kind is a fault of the item itself, which is
    /// found when it is worked off.
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

    /// The path of the task that a pipeline is at, if it has a label; else, and for anything else, nothing.
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

    /// A worker's report counts.
    pub(super) fn watch_report(&mut self, id: FrameId, outcome: &TaskOutcome) {
        if let Some(failures) = self.failures_mut() {
            failures.live.entry(id).or_default().reported = outcome.error.is_some();
        }
    }

    /// An item could not evaluate what it had to.
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
            // Their frames fail, and tell of it at their end.
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

    /// A frame ends the run as failed. Called while it is still there.
    pub(super) fn watch_run_end(&mut self, id: FrameId) {
        let path = self.path(id);
        if let Some(failures) = self.failures_mut() {
            let began = failures.live.get(&id).and_then(|live| live.began);
            failures.run_ended_by.get_or_insert(ObservedFailure { began_at: began, path });
        }
    }

    /// A frame is to be entered anew: what failed inside it counts no longer.
    pub(super) fn watch_reentry(&mut self, id: FrameId) {
        if let Some(live) = self.failures_mut().and_then(|failures| failures.live.get_mut(&id)) {
            *live = LiveFrame { began: live.began, ..LiveFrame::default() };
        }
    }

    /// A pipeline's task is to be tried again.
    pub(super) fn watch_task_retry(&mut self, id: FrameId) {
        if let Some(live) = self.failures_mut().and_then(|failures| failures.live.get_mut(&id)) {
            live.latest = None;
        }
    }

    /// Called while the frame is still there.
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
        // Asked above: there is a watch, and it notes failures.
        let Some(watch) = &mut self.work.watch else { return Ok(()) };
        let now = watch.now;
        let Some(failures) = &mut watch.failures else { return Ok(()) };
        let live = failures.live.remove(&id).unwrap_or_default();
        // What fails before it is entered has begun with its end.
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
            // What is to blame for it is known already, or nothing is.
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
                // The same child again: both are what its next try may mend.
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
