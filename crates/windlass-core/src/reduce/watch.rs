//! For whoever replays a run: with which item of which tick something began, and a stop right before it.
//!
//! A live run has no watch, and pays for none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::impossible::Checked;
use super::nodes::with_label;
use super::{Reducer, Resume};
use crate::plan::{Loop, NodeKind};
use crate::state::{Body, Frame, FrameId, Item, State};
use crate::{Status, TaskOutcome};

/// A point inside a run: so many ticks have been reduced, and of the next one so many items have been worked off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment {
    pub tick: u64,
    pub item: u64,
}

/// Something that ended badly by itself, not because of something inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When it began; None if that was before the first tick that was watched.
    pub began: Option<Moment>,
    pub path: Arc<str>,
}

/// What a watch has seen of failures.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    /// The one that began first. One that was tried again and then went well is none.
    pub first: Option<Failure>,
    /// The first that was called off, by somebody outside or with the run.
    pub cancelled: Option<Failure>,
    /// When frames began that failed although all inside them had gone well: by an expression, a rule, a limit. What they
    /// have got does not help them, so it is not to be used again.
    pub spoilt: Vec<Moment>,
    /// What has ended the run as failed, and went well itself: it counts if nothing else did not.
    verdict: Option<Failure>,
    live: BTreeMap<FrameId, Live>,
}

/// What is known of a frame that has not ended.
#[derive(Clone, Debug, Default)]
struct Live {
    began: Option<Moment>,
    failed: Option<Failure>,
    /// Of the child that failed last, by its slot: it may be tried again.
    latest: Option<(u64, Failure)>,
    cancelled: Option<Failure>,
    /// The child that ended last.
    last: Option<Failure>,
    /// It could not go on with what its last child gave.
    by_last: bool,
    /// Its last task was reported as failed.
    reported: bool,
}

/// Goes from tick to tick with whoever replays; see [`Resume::watched`].
#[derive(Clone, Debug, Default)]
pub struct Watch {
    now: Moment,
    stop_before: Option<u64>,
    stopped: bool,
    path: Option<Arc<str>>,
    begun: Vec<Moment>,
    paths: Option<Vec<Arc<str>>>,
    failures: Option<Failures>,
    marks: Vec<Moment>,
    marked: BTreeSet<FrameId>,
}

impl Watch {
    /// Notes when something at this path begins: a node, a task that has a label, a loop's turn.
    pub fn path(path: Arc<str>) -> Watch {
        Watch { path: Some(path), ..Watch::default() }
    }

    /// Notes the paths of all that begins.
    pub fn paths() -> Watch {
        Watch { paths: Some(Vec::new()), ..Watch::default() }
    }

    /// Notes what fails.
    pub fn failures() -> Watch {
        Watch { failures: Some(Failures::default()), ..Watch::default() }
    }

    /// Stops the tick before its item of this number, counted from 0. What is on the agenda stays there.
    pub fn stop_before(item: u64) -> Watch {
        Watch { stop_before: Some(item), ..Watch::default() }
    }

    /// Knows the live frames that began at these moments, which are in order.
    pub fn marking(marks: Vec<Moment>) -> Watch {
        Watch { marks, ..Watch::default() }
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
    pub fn take_begun(&mut self) -> Vec<Moment> {
        std::mem::take(&mut self.begun)
    }

    /// The paths since this was asked last.
    pub fn take_paths(&mut self) -> Vec<Arc<str>> {
        self.paths.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub fn seen_failures(&self) -> Option<&Failures> {
        self.failures.as_ref()
    }
}

impl Resume {
    /// For a tick that is watched.
    pub fn watched(watch: Option<Box<Watch>>) -> Resume {
        Resume { watch, ..Resume::default() }
    }

    /// The watch, when the tick is done.
    pub fn take_watch(&mut self) -> Option<Box<Watch>> {
        self.watch.take()
    }
}

fn earlier(one: Option<Failure>, other: Option<Failure>) -> Option<Failure> {
    match (one, other) {
        // What began before anybody watched began first.
        (Some(one), Some(other)) => Some(if other.began < one.began { other } else { one }),
        (one, other) => one.or(other),
    }
}

impl Reducer<'_> {
    /// A tick begins.
    pub(super) fn watch_begins(&mut self) {
        if let Some(watch) = &mut self.work.watch {
            watch.now = Moment { tick: self.state.ticks - 1, item: 0 };
            watch.stopped = false;
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.work.watch.as_ref().is_some_and(|watch| watch.stopped)
    }

    /// Called before an item is worked off; once more, if values have to be fetched for it. False: it stays where it is.
    pub(super) fn watch_item(&mut self, item: &Item) -> bool {
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
            paths.extend(self.begins(item));
        }
        if let (Some(failures), Item::Enter(id)) = (&mut watch.failures, item)
            && self.is_first_entry(*id).is_some()
        {
            failures.live.entry(*id).or_default().began.get_or_insert(now);
        }
        if let Item::Enter(id) = item
            && watch.marks.binary_search(&now).is_ok()
        {
            watch.marked.insert(*id);
        }
        let goes_on = !watch.stopped;
        self.work.watch = Some(watch);
        goes_on
    }

    pub(super) fn watch_item_done(&mut self) {
        if let Some(watch) = &mut self.work.watch {
            watch.now.item += 1;
        }
    }

    /// The frame, unless it has already ended or was entered before.
    fn is_first_entry(&self, id: FrameId) -> Option<&Frame> {
        self.frame_if_live(id).filter(|frame| frame.attempt == 1)
    }

    /// Whether what this item begins is at the path. Of several frames under one path the outermost is meant.
    fn begins_at(&self, item: &Item, path: &str) -> bool {
        match item {
            Item::Enter(id) => {
                let Some(frame) = self.is_first_entry(*id) else { return false };
                let Some(parent) = frame.parent else { return *self.path(*id) == *path };
                if let Some((looping, iteration)) = self.iteration_path(frame, parent)
                    && iteration == path
                {
                    // An iteration begins with its body: its judge begins when the body has ended.
                    return looping.judge != Some(frame.node);
                }
                *self.path(*id) == *path && *self.path(parent) != *path && self.fresh_task_path(parent) != path
            }
            Item::Task(id) => self.begins_task(*id) && self.fresh_task_path(*id) == path,
            // These go on with what has begun, or lead to items that begin something.
            Item::TaskEnded(..)
            | Item::ChildEnded { .. }
            | Item::StartChild { .. }
            | Item::FirstCheck(_)
            | Item::NextIteration(_)
            | Item::Fire(_)
            | Item::Finish(..)
            | Item::EndRun(_)
            | Item::Parameters
            | Item::Token(..)
            | Item::Mail(_) => false,
        }
    }

    /// What this item begins, as people would write it.
    fn begins(&self, item: &Item) -> Option<Arc<str>> {
        let path = match item {
            Item::Enter(id) => {
                let (path, parent) = (self.path(*id), self.is_first_entry(*id)?.parent);
                Some(path).filter(|path| parent.is_none_or(|parent| *self.path(parent) != **path))?
            }
            Item::Task(id) => self.begins_task(*id).then(|| self.fresh_task_path(*id).into())?,
            // These go on with what has begun, or lead to items that begin something.
            Item::TaskEnded(..)
            | Item::ChildEnded { .. }
            | Item::StartChild { .. }
            | Item::FirstCheck(_)
            | Item::NextIteration(_)
            | Item::Fire(_)
            | Item::Finish(..)
            | Item::EndRun(_)
            | Item::Parameters
            | Item::Token(..)
            | Item::Mail(_) => return None,
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
            Body::Pipeline(body) => body.attempt == 0 && body.pending_wait.is_none() && body.again.is_none(),
            Body::New
            | Body::Backoff
            | Body::Graph(_)
            | Body::Branch { .. }
            | Body::Loop(_)
            | Body::Net(_)
            | Body::Wait(_)
            | Body::Call { .. } => false,
        }
    }

    /// The path of the task that a pipeline is at, if it has a label; else, and for anything else, nothing.
    fn fresh_task_path(&self, id: FrameId) -> String {
        let Some(frame) = self.frame_if_live(id) else { return String::new() };
        let (NodeKind::Pipeline(pipeline), Body::Pipeline(body)) = (&self.program.node(frame.node).kind, &frame.body)
        else {
            return String::new();
        };
        let task = pipeline.tasks.get(body.pc as usize).filter(|task| !task.label.is_empty());
        task.map(|task| with_label(self.path(id), &task.label).to_string()).unwrap_or_default()
    }

    fn failures_mut(&mut self) -> Option<&mut Failures> {
        self.work.watch.as_mut().and_then(|watch| watch.failures.as_mut())
    }

    /// A worker's report counts.
    pub(super) fn watch_report(&mut self, id: FrameId, outcome: &TaskOutcome) {
        if let Some(failures) = self.failures_mut() {
            failures.live.entry(id).or_default().reported = outcome.error.is_some();
        }
    }

    /// An item could not evaluate what it had to.
    pub(super) fn watch_item_failed(&mut self, item: &Item) {
        let Some(now) = self.work.watch.as_ref().map(|watch| watch.now) else { return };
        let Some(failures) = self.failures_mut() else { return };
        match item {
            Item::ChildEnded { parent, .. } => failures.live.entry(*parent).or_default().by_last = true,
            Item::EndRun(_) => {
                let own = Failure { began: Some(now), path: "".into() };
                failures.first = earlier(failures.first.take(), Some(own));
            }
            // Their frames fail, and tell of it at their end.
            Item::Enter(_)
            | Item::Task(_)
            | Item::TaskEnded(..)
            | Item::StartChild { .. }
            | Item::FirstCheck(_)
            | Item::NextIteration(_)
            | Item::Fire(_)
            | Item::Finish(..)
            | Item::Parameters
            | Item::Token(..)
            | Item::Mail(_) => {}
        }
    }

    /// A frame ends the run as failed. Called while it is still there.
    pub(super) fn watch_verdict(&mut self, id: FrameId) {
        let path = self.path(id);
        if let Some(failures) = self.failures_mut() {
            let began = failures.live.get(&id).and_then(|live| live.began);
            failures.verdict.get_or_insert(Failure { began, path });
        }
    }

    /// A frame is to be entered anew: what failed inside it counts no longer.
    pub(super) fn watch_anew(&mut self, id: FrameId) {
        if let Some(live) = self.failures_mut().and_then(|failures| failures.live.get_mut(&id)) {
            *live = Live { began: live.began, ..Live::default() };
        }
    }

    /// A pipeline's task is to be tried again.
    pub(super) fn watch_again(&mut self, id: FrameId) {
        if let Some(live) = self.failures_mut().and_then(|failures| failures.live.get_mut(&id)) {
            live.latest = None;
        }
    }

    /// Called while the frame is still there.
    pub(super) fn watch_end(&mut self, id: FrameId, status: Status) -> Checked {
        if let Some(watch) = &mut self.work.watch {
            watch.marked.remove(&id);
        }
        if self.failures_mut().is_none() {
            return Ok(());
        }
        let frame = self.frame(id)?;
        let (parent, slot, entered) = (frame.parent, frame.slot, !matches!(frame.body, Body::New));
        let cancelled_from_outside = frame.closing.as_ref().is_some_and(|closing| !closing.own);
        let path = self.path(id);
        // Asked above: there is a watch, and it notes failures.
        let Some(watch) = &mut self.work.watch else { return Ok(()) };
        let now = watch.now;
        let Some(failures) = &mut watch.failures else { return Ok(()) };
        let live = failures.live.remove(&id).unwrap_or_default();
        // What fails before it is entered has begun with its end.
        let began = if entered { live.began } else { live.began.or(Some(now)) };
        let own = Failure { began, path };
        let mut failed = earlier(live.failed, live.latest.map(|(_, failure)| failure));
        let mut cancelled = live.cancelled;
        match status {
            Status::Failed | Status::TimedOut if failed.is_none() => {
                let blamed = live.last.filter(|_| live.by_last).unwrap_or_else(|| own.clone());
                if !cancelled_from_outside && !live.reported && cancelled.is_none() {
                    failures.spoilt.extend(blamed.began);
                }
                failed = Some(blamed);
            }
            Status::Cancelled if cancelled.is_none() => cancelled = Some(own.clone()),
            // What is to blame for it is known already, or nothing is.
            Status::Failed | Status::TimedOut | Status::Cancelled | Status::Succeeded | Status::Skipped => {}
        }
        let Some(parent) = parent else {
            failures.first = earlier(failures.first.take(), failed);
            failures.cancelled = cancelled;
            if failures.first.is_none() && failures.cancelled.is_none() {
                failures.first = failures.verdict.take();
            }
            return Ok(());
        };
        let above = failures.live.entry(parent).or_default();
        above.last = Some(own);
        above.cancelled = earlier(above.cancelled.take(), cancelled);
        if let Some(failure) = failed {
            let before = match above.latest.take() {
                // The same child again: both are what its next try may mend.
                Some((same, before)) if same == slot => {
                    above.latest = Some((slot, before.min(failure)));
                    return Ok(());
                }
                before => before.map(|(_, before)| before),
            };
            above.failed = earlier(above.failed.take(), before);
            above.latest = Some((slot, failure));
        }
        Ok(())
    }
}

impl Failure {
    fn min(self, other: Failure) -> Failure {
        if other.began < self.began { other } else { self }
    }
}
