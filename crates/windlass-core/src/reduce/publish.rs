//! Output to observers: events, paths, and references to large values.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_value::{Map, Value, interned};

use super::Reducer;
use super::fault::{FaultResult, no_part, wrong_frame};
use crate::plan::{NodeId, NodeKind, iteration_suffix};
use crate::state::{ForkOrigin, Frame, FrameBody, FrameId, State};
use crate::{Command, ErrorInfo, Event, EventError, EventKind, Outcome, Program, Status};

/// Returns the placeholder of a redacted value.
pub fn redacted_value() -> Value {
    Value::Str(interned("(redacted)"))
}

/// Capacity that is enough for most paths, in bytes.
const PATH_BYTES: usize = 64;

impl Reducer<'_> {
    /// Numbers an event and publishes it. Values above the inline limit become references.
    pub(crate) fn publish(&mut self, path: Arc<str>, mut kind: EventKind) {
        kind.each_value(&mut |value| self.replace_by_reference(value));
        self.state.events += 1;
        let event = Event { seq: self.state.events, at: self.state.now, path, kind };
        self.work.output.commands.push(Command::PublishEvent(event));
    }

    pub(crate) fn publish_at(&mut self, id: FrameId, kind: EventKind) {
        let path = self.path(id);
        self.publish(path, kind);
    }

    /// Publishes an event whose type a tool or a definition names.
    pub(crate) fn publish_custom(&mut self, path: Arc<str>, type_name: &Arc<str>, data: &Value) {
        let fields = data.as_map().cloned().unwrap_or_else(|| Map::from_iter([("data", data.clone())]));
        self.publish(path, EventKind::new(type_name.clone(), fields));
    }

    /// Converts an error to the form that events report.
    pub(crate) fn event_error(&self, error: &ErrorInfo) -> Arc<EventError> {
        EventError::new(error, self.program.limits.max_inline_bytes)
    }

    /// Returns a frame's output, or the placeholder if it is redacted.
    pub(crate) fn redacted_output(&self, id: FrameId, output: &Value) -> Value {
        let node = self.state.frames.get(id).map(|frame| frame.node);
        match node.is_some_and(|node| self.program.facts(node).redacted) {
            true => redacted_value(),
            false => output.clone(),
        }
    }

    /// Returns true if anything of this frame's own is redacted: then errors must not contain values.
    pub(crate) fn is_redacted(&self, id: FrameId) -> bool {
        self.state.frames.get(id).is_some_and(|frame| !self.program.node(frame.node).redaction.is_none())
    }

    pub(crate) fn publish_ended(&mut self, id: FrameId, outcome: &Outcome) -> FaultResult {
        let (status, output) = (outcome.status, Some(self.redacted_output(id, &outcome.output)));
        let error = outcome.error.as_ref().map(|error| self.event_error(error));
        let (usage, firing) = (outcome.usage.clone(), self.published_firing(id)?);
        let (reason, message) = (None, None);
        let kind = match status {
            Status::Succeeded => EventKind::StepDone { status, output, error, usage, firing },
            Status::Skipped => EventKind::StepSkipped { status, output, error, usage, firing, reason, message },
            Status::Failed | Status::Cancelled | Status::TimedOut => {
                EventKind::StepFailed { status, output, error, usage, firing, reason, message }
            }
        };
        self.publish_at(id, kind);
        Ok(())
    }

    /// Returns the number of a place's body where events report it: all bodies of a place share one path.
    pub(crate) fn published_firing(&self, id: FrameId) -> FaultResult<Option<u64>> {
        let frame = self.frame(id)?;
        let Some(parent) = frame.parent else { return Ok(None) };
        match &self.program.node(self.frame(parent)?.node).kind {
            NodeKind::Net(net) => Ok(net.publishes_slots.then_some(frame.slot)),
            NodeKind::Pipeline(_)
            | NodeKind::Graph(_)
            | NodeKind::Branch(_)
            | NodeKind::Loop(_)
            | NodeKind::Wait(_)
            | NodeKind::Call(_) => Ok(None),
        }
    }

    /// Publishes the first event of a forked run.
    pub(crate) fn publish_forked(&mut self, forked: &ForkOrigin) {
        let (from, from_path, retry) = (forked.run.clone(), forked.path.clone(), forked.retry);
        self.publish("".into(), EventKind::WorkflowRestarted { from, from_path, retry });
    }

    /// Publishes one event for all the quiet iterations of this slice.
    pub(crate) fn publish_pending_iterations(&mut self) -> FaultResult {
        for id in std::mem::take(&mut self.work.unpublished) {
            // A loop that has ended since, or is to be entered again, has published them at its end.
            if matches!(self.frame_if_live(id), Some(Frame { body: FrameBody::Loop(_), .. })) {
                self.publish_pending_iterations_of(id)?;
            }
        }
        Ok(())
    }

    pub(crate) fn publish_pending_iterations_of(&mut self, id: FrameId) -> FaultResult {
        let looping = self.loop_frame_mut(id)?;
        if let Some((from, failed)) = looping.unpublished.take() {
            let (to, path) = (looping.ended.saturating_sub(1), looping.path.clone());
            let steps = std::mem::take(&mut looping.quiet_steps).into_iter().map(|steps| steps.counts).collect();
            self.publish(path, EventKind::LoopProgress { from, to, failed, steps });
        }
        Ok(())
    }

    /// Publishes `workflow.idle` when the run becomes idle: only an outside event can make it proceed. It is published
    /// once, and again only after the run has proceeded; never while more input is pending.
    pub(crate) fn publish_idle(&mut self, more_pending: bool) {
        let idle = self.state.is_idle();
        if more_pending {
            self.state.idle_published &= idle;
            return;
        }
        if idle && !self.state.idle_published {
            let waits: BTreeSet<Arc<str>> = self.state.waits.keys().cloned().chain(self.kinds_from_outside()).collect();
            self.publish("".into(), EventKind::WorkflowIdle { waits: waits.into_iter().collect() });
        }
        self.state.idle_published = idle;
    }

    /// Replaces a value above the inline limit by a reference.
    pub(crate) fn move_to_blob(&mut self, mut value: Value) -> Value {
        self.replace_by_reference(&mut value);
        value
    }

    pub(crate) fn replace_by_reference(&mut self, value: &mut Value) {
        let cap = self.program.limits.max_inline_bytes;
        if let Value::Str(_) | Value::List(_) | Value::Map(_) = value
            && value.size_up_to(cap) > cap
        {
            *value = Value::Stored(Arc::new(self.values.put(value)));
        }
    }

    /// Returns the path of a frame, such as `sync[3].fetch`, without hidden nodes.
    pub(crate) fn path(&self, id: FrameId) -> Arc<str> {
        if let Some(name) = self.top_level_name(id) {
            return name;
        }
        frame_path(self.program, self.state, id).into()
    }

    /// Returns the path of a node directly inside a hidden root: its name, which is shared instead of assembled.
    fn top_level_name(&self, id: FrameId) -> Option<Arc<str>> {
        let frame = self.state.frames.get(id)?;
        let (node, above) = (self.program.node(frame.node), self.state.frames.get(frame.parent?)?);
        let around = self.program.node(above.node);
        let plain =
            !node.hidden && around.hidden && above.parent.is_none() && !matches!(around.kind, NodeKind::Loop(_));
        plain.then(|| node.name.clone())
    }

    /// Returns the path of a pipeline's current task; for any other frame, its own path.
    pub(crate) fn task_path(&self, id: FrameId) -> Arc<str> {
        let labelled = self.state.frames.get(id).is_some_and(|frame| self.current_label(frame).is_some());
        if let Some(name) = self.top_level_name(id).filter(|_| !labelled) {
            return name;
        }
        let mut text = String::with_capacity(PATH_BYTES);
        self.write_path(id, &mut text);
        if let Some(label) = self.state.frames.get(id).and_then(|frame| self.current_label(frame)) {
            push_name(&mut text, label);
        }
        text.into()
    }

    /// Returns the label of a pipeline's current task; None for any other frame.
    fn current_label(&self, frame: &Frame) -> Option<&str> {
        let (NodeKind::Pipeline(pipeline), FrameBody::Pipeline(body)) =
            (&self.program.node(frame.node).kind, &frame.body)
        else {
            return None;
        };
        let task = pipeline.tasks.get(body.pc as usize).filter(|task| !task.hidden && !task.label.is_empty());
        task.map(|task| &*task.label)
    }

    pub(crate) fn child_path(&self, parent: FrameId, node: NodeId) -> Arc<str> {
        let mut text = String::new();
        self.write_path(parent, &mut text);
        push_name(&mut text, &self.program.node(node).name);
        text.into()
    }

    /// Returns the generation of a frame that is not the first under its path: the frame, or one around it, was
    /// retried, visited again, or reached again.
    pub(crate) fn entered_before(&self, id: FrameId) -> FaultResult<Option<u32>> {
        let mut around = Some(id);
        while let Some(at) = around {
            let frame = self.frame(at)?;
            if frame.attempt > 1 || self.is_reached_again(frame)? {
                return Ok(Some(self.frame(id)?.generation));
            }
            around = frame.parent;
        }
        Ok(None)
    }

    /// Returns true if the parent has begun this frame before. A graph, a branch or a loop begins each child once.
    fn is_reached_again(&self, frame: &Frame) -> FaultResult<bool> {
        let Some(parent) = frame.parent else { return Ok(false) };
        match &self.frame(parent)?.body {
            FrameBody::Pipeline(body) => Ok(body.attempt > 1 || body.visits.contains_key(&body.pc)),
            FrameBody::Net(net) => match net.firings.get(&frame.slot) {
                Some(firing) => Ok(firing.visit > 1),
                None => Err(no_part(parent, "firing", frame.slot)),
            },
            FrameBody::Graph(_) | FrameBody::Branch { .. } | FrameBody::Loop(_) => Ok(false),
            childless @ (FrameBody::New | FrameBody::Backoff | FrameBody::Wait(_) | FrameBody::Call { .. }) => {
                Err(wrong_frame(parent, "the parent of a frame", childless))
            }
        }
    }

    fn write_path(&self, id: FrameId, text: &mut String) {
        write_path(self.program, self.state, id, text);
    }
}

/// Returns the path of a frame.
pub(crate) fn frame_path(program: &Program, state: &State, id: FrameId) -> String {
    let mut text = String::with_capacity(PATH_BYTES);
    write_path(program, state, id, &mut text);
    text
}

fn write_path(program: &Program, state: &State, id: FrameId, text: &mut String) {
    // A frame that does not exist has no path: a fault may name one.
    let Some(frame) = state.frames.get(id) else { return };
    if let Some(parent) = frame.parent {
        write_path(program, state, parent, text);
        let above = state.frames.get(parent).map(|frame| &program.node(frame.node).kind);
        if let Some(NodeKind::Loop(_)) = above {
            text.push_str(&iteration_suffix(frame.slot));
        }
    }
    let node = program.node(frame.node);
    match task_label(program, state, frame).filter(|_| node.hidden) {
        // A hidden node that a task enters represents the task.
        Some(label) => push_name(text, label),
        None if node.hidden => {}
        None => push_name(text, &node.name),
    }
}

/// Returns the label of the task that has entered this frame; None if it was not entered by a task.
fn task_label<'p>(program: &'p Program, state: &State, frame: &Frame) -> Option<&'p str> {
    let above = state.frames.get(frame.parent?)?;
    let NodeKind::Pipeline(pipeline) = &program.node(above.node).kind else { return None };
    pipeline.tasks.get(frame.slot as usize).map(|task| &*task.label).filter(|label| !label.is_empty())
}

fn push_name(text: &mut String, name: &str) {
    if !text.is_empty() {
        text.push('.');
    }
    text.push_str(name);
}
