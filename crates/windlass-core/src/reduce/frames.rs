//! The life cycle of a frame: created, entered, finished or cancelled. It is the same for every node kind; the file
//! of each kind contains what happens between entry and end.
//!
//! | state | enter | child ends | finish | close | alarm | deadline |
//! |---|---|---|---|---|---|---|
//! | new | the kind's first state | – | finishing, ended | ended | – | ended |
//! | entered | – | by kind | closing if a child is live; else finishing, backoff, ended | closing, ended | by kind | as close |
//! | finishing (an end is on the agenda) | – | – | backoff, ended | ended, or finishing with its output so far | – | as close |
//! | backoff | – | – | ended, if a second end was on the agenda | ended | new | as close |
//! | closing | ignored | closing, ended when none is live | closing, ended | closing: an outer cancellation replaces its own end | – | – |
//! | ended | ignored | – | ignored | ignored | – | – |
//!
//! – is impossible and a fault. *Ignored* is legitimate: agenda items, and a parent's list of children, may outlive a
//! frame. Timers may not: they are removed with it.

use std::sync::Arc;

use windlass_value::{Duration, Value};

use super::budget::EXCEEDED;
use super::eval::Locals;
use super::fault::{FaultResult, miscounted, no_frame, no_job, no_part, no_scope, wrong_frame, wrong_status};
use super::retry::RetryHistory;
use super::usage_value;
use super::{ItemStop, Reducer};
use crate::plan::{NodeId, NodeKind};
use crate::state::{
    AgendaItem, Closing, Firing, Frame, FrameBody, FrameEnd, FrameId, LiveIteration, Scope, ScopeId, Timer,
};
use crate::{Command, ErrorInfo, EventKind, Outcome, Status};

impl Reducer<'_> {
    /// Creates a child frame and puts it on the agenda.
    pub(crate) fn begin_child(
        &mut self,
        parent: FrameId,
        node: NodeId,
        slot: u64,
        scope: ScopeId,
        quiet: bool,
    ) -> FaultResult<FrameId> {
        let above = self.frame_mut(parent)?;
        above.live += 1;
        let (generation, quiet) = (above.generation, quiet || above.quiet);
        self.make_frame(Some(parent), node, slot, scope, generation, quiet)
    }

    pub(crate) fn begin_root(&mut self) -> FaultResult {
        let (root, scope) = (self.program.plan.root, self.state.root_scope);
        let frame = self.make_frame(None, root, 0, scope, 0, false)?;
        self.state.root = Some(frame);
        Ok(())
    }

    fn make_frame(
        &mut self,
        parent: Option<FrameId>,
        node: NodeId,
        slot: u64,
        scope: ScopeId,
        generation: u32,
        quiet: bool,
    ) -> FaultResult<FrameId> {
        let scope = match self.program.node(node).scope {
            true => self.state.scopes.insert(Scope::new(Some(scope), Some(node))),
            false => scope,
        };
        let frame = self.state.frames.insert(Frame {
            node,
            parent,
            slot,
            scope,
            generation,
            attempt: 1,
            started_at: self.state.now,
            live: 0,
            quiet,
            deadline: None,
            alarm: None,
            closing: None,
            body: FrameBody::New,
            account: None,
        });
        self.state.agenda.push_back(AgendaItem::Enter(frame));
        self.mailbox_begins(frame)?;
        Ok(frame)
    }

    pub(crate) fn enter(&mut self, id: FrameId) -> Result<(), ItemStop> {
        // It was cancelled before it was entered.
        let Some(frame) = self.frame_if_live(id) else { return Ok(()) };
        let program = self.program;
        if frame.closing.is_some() {
            // Its end is on the agenda behind this entry; whatever begins here would outlive it.
            return Ok(());
        }
        if !matches!(frame.body, FrameBody::New) {
            return Err(wrong_frame(id, "a frame that has not been entered", &frame.body).into());
        }
        let (node, scope) = (program.node(frame.node), frame.scope);
        // The node's timeout counts from its first entry, over all its attempts.
        let time_from = if frame.attempt == 1 { self.now() } else { frame.started_at };
        let timeout = match &node.timeout {
            Some(timeout) => Some(self.duration(&timeout.after, scope)?),
            None => None,
        };
        self.open_account(id)?;
        match &node.kind {
            NodeKind::Pipeline(_) => self.enter_pipeline(id)?,
            NodeKind::Graph(graph) => self.enter_graph(id, graph)?,
            NodeKind::Branch(branch) => self.enter_branch(id, branch)?,
            NodeKind::Loop(looping) => self.enter_loop(id, looping)?,
            NodeKind::Net(net) => self.enter_net(id, net)?,
            NodeKind::Wait(wait) => self.enter_wait(id, wait)?,
            NodeKind::Call(call) => self.enter_call(id, call)?,
        }
        // It may have ended as soon as it was entered.
        if let Some(timeout) = timeout
            && self.frame_if_live(id).is_some_and(|frame| frame.deadline.is_none())
        {
            let key = self.set_timer(time_from + timeout, Timer::Deadline(id));
            self.frame_mut(id)?.deadline = Some(key);
        }
        Ok(())
    }

    /// Publishes the start of a node before its own work begins. Quiet and hidden nodes publish nothing.
    pub(crate) fn publish_started(&mut self, id: FrameId) -> FaultResult {
        let frame = self.frame(id)?;
        let node = self.program.node(frame.node);
        if node.hidden || frame.quiet || frame.attempt > 1 {
            return Ok(());
        }
        let firing = self.firing_of(frame)?;
        let numbered = firing.filter(|firing| firing.worker.is_some());
        let scope = self.state.scopes.get(frame.scope).filter(|_| firing.is_some());
        let args = scope.and_then(|scope| scope.token.as_ref()).map(|carried| carried.args.clone());
        let started = EventKind::StepStarted {
            kind: node.label.clone(),
            token: firing.map(|firing| firing.token.clone()),
            visit: firing.map(|firing| firing.visit),
            args: args.unwrap_or_default(),
            worker: numbered.and_then(|firing| firing.worker),
            firing: numbered.map(|_| frame.slot),
            from: numbered.map(|firing| firing.from.clone()),
        };
        self.publish_at(id, started);
        Ok(())
    }

    /// Returns the firing that a place's body runs for; None for a frame that is not a place's body.
    fn firing_of(&self, frame: &Frame) -> FaultResult<Option<&Firing>> {
        let Some(parent) = frame.parent else { return Ok(None) };
        match &self.frame(parent)?.body {
            FrameBody::Net(net) => match net.firings.get(&frame.slot) {
                Some(firing) => Ok(Some(firing)),
                None => Err(no_part(parent, "firing", frame.slot)),
            },
            FrameBody::Pipeline(_) | FrameBody::Graph(_) | FrameBody::Branch { .. } | FrameBody::Loop(_) => Ok(None),
            childless @ (FrameBody::New | FrameBody::Backoff | FrameBody::Wait(_) | FrameBody::Call { .. }) => {
                Err(wrong_frame(parent, "the parent of a frame", childless))
            }
        }
    }

    pub(crate) fn fail(&mut self, id: FrameId, error: ErrorInfo) -> FaultResult {
        self.end_with(id, Status::Failed, Value::Null, Some(error))
    }

    pub(crate) fn end_with(
        &mut self,
        id: FrameId,
        status: Status,
        output: Value,
        error: Option<ErrorInfo>,
    ) -> FaultResult {
        let attempts = self.frame(id)?.attempt;
        self.finish(id, FrameEnd { status, output, error, inputs: Value::Null, attempts, loop_summary: None })
    }

    /// Ends a frame. Live children are cancelled first.
    pub(crate) fn finish(&mut self, id: FrameId, mut ended: FrameEnd) -> FaultResult {
        if self.frame(id)?.live > 0 {
            let FrameEnd { status, error, output, .. } = ended;
            return self.close(id, Closing { status, error, output, own_end: true });
        }
        if let Some(error) = &mut ended.error
            && error.path.is_empty()
        {
            error.path = self.task_path(id);
        }
        let frame = self.frame(id)?;
        let node = self.program.node(frame.node);
        let more = match ended.status {
            Status::Succeeded => node.output.is_some(),
            Status::Failed => node.retry.is_some() || node.output.is_some(),
            Status::Skipped | Status::Cancelled | Status::TimedOut => false,
        };
        match more && frame.closing.as_ref().is_none_or(|closing| closing.own_end) {
            true => self.state.agenda.push_back(AgendaItem::Finish(id, Box::new(ended))),
            false => self.end(id, ended)?,
        }
        Ok(())
    }

    /// Completes an end that needs an expression first: the node's output or its retry.
    pub(crate) fn finish_evaluated(&mut self, id: FrameId, ended: &FrameEnd) -> Result<(), ItemStop> {
        // It was cancelled, with nothing inside, while its end was on the agenda.
        let Some(frame) = self.frame_if_live(id) else { return Ok(()) };
        let cancelled_as = frame.closing.as_ref().filter(|closing| !closing.own_end).map(|closing| closing.status);
        if let Some(status) = cancelled_as
            && (status != ended.status || !self.gives_partial_output(id)?)
        {
            self.close_if_empty(id)?;
            return Ok(());
        }
        let (node_id, scope, tries, started_at) = (frame.node, frame.scope, frame.attempt, frame.started_at);
        let node = self.program.node(node_id);
        let tried = RetryHistory { tries, since: Some(started_at), requested_delay: Duration::ZERO };
        if let (Some(retry), Some(error), Status::Failed) = (&node.retry, &ended.error, ended.status)
            && &*error.code != EXCEEDED
            && cancelled_as.is_none()
            && let Some(wait) = self.retry_after(retry, error, tried, scope, Locals::default())?
        {
            self.enter_again_after(id, wait, error)?;
            return Ok(());
        }
        let mut ended = ended.clone();
        let evaluates_output = cancelled_as.is_some() || matches!(ended.status, Status::Succeeded | Status::Failed);
        if let Some(expression) = node.output.filter(|_| evaluates_output) {
            // The node's own outcome is visible under its name before it is stored.
            let usage = usage_of(self.frame(id)?);
            let own = ended.clone().into_outcome(started_at, self.now());
            let own = Arc::new(Outcome { usage, ..own });
            let names = self.loop_items(id)?;
            let locals = Locals { own: Some((node_id, &own)), names: names.as_ref(), ..Locals::default() };
            ended.output = self.eval_with(expression, scope, locals)?;
        }
        self.end(id, ended)?;
        Ok(())
    }

    pub(crate) fn finish_failed(&mut self, id: FrameId, ended: &FrameEnd, error: ErrorInfo) -> FaultResult {
        // A failure keeps its own cause; a policy that cannot be evaluated only means that there is no retry.
        let error = ended.error.clone().or(Some(error));
        self.end(id, FrameEnd { status: Status::Failed, error, ..ended.clone() })
    }

    /// Removes the frame: its end is recorded, published and passed to the parent.
    pub(crate) fn end(&mut self, id: FrameId, mut ended: FrameEnd) -> FaultResult {
        if self.is_redacted(id) {
            ended.error = ended.error.map(ErrorInfo::redacted);
        }
        let frame = self.frame(id)?;
        let (node_id, node) = (frame.node, self.program.node(frame.node));
        let (started_at, quiet, ended_at) = (frame.started_at, frame.quiet, self.state.now);
        let job = job_of(&frame.body);
        let output = self.move_to_blob(ended.output);
        // The frames around it, which account for its job, are only found while this frame exists.
        if let Some(job) = job {
            self.account_job(job, None)?;
        }
        let usage = usage_of(self.frame(id)?);
        let outcome = FrameEnd { output, ..ended }.into_outcome(started_at, ended_at);
        let outcome = Arc::new(Outcome { usage, ..outcome });
        if !node.hidden {
            match quiet {
                true => self.count_quiet_step(id, node_id, outcome.status)?,
                false => self.publish_ended(id, &outcome)?,
            }
            self.record(id, node_id, outcome.clone())?;
        }
        self.mailbox_ends(id, &outcome)?;
        self.watch_end(id, outcome.status)?;
        // Publishing the end must not have removed the frame itself.
        let Some(frame) = self.state.frames.remove(id) else { return Err(no_frame(id, "the frame that ends")) };
        let budget_time = frame.account.as_ref().and_then(|account| account.time);
        for key in [frame.deadline, frame.alarm, budget_time].into_iter().flatten() {
            self.state.timers.remove(&key);
        }
        self.remove_from_indexes(id, &frame.body)?;
        let scope = if self.program.node(frame.node).scope { self.exit_scope(&frame)? } else { frame.scope };
        match frame.parent {
            Some(parent) => {
                let slot = frame.slot;
                self.state.agenda.push_back(AgendaItem::ChildEnded { parent, slot, outcome, scope });
            }
            None => {
                self.state.root = None;
                self.state.agenda.push_back(AgendaItem::EndRun(outcome));
            }
        }
        Ok(())
    }

    /// Removes the scope that a removed frame had opened, and returns the scope around it.
    fn exit_scope(&mut self, frame: &Frame) -> FaultResult<ScopeId> {
        let opened = self.state.scopes.remove(frame.scope);
        let around = opened.and_then(|scope| scope.parent);
        around.ok_or_else(|| no_scope(frame.scope, "a scope that its frame has opened inside another"))
    }

    /// Clears the scope of a node that is entered again.
    pub(crate) fn clear_scope(&mut self, id: FrameId) -> FaultResult {
        let frame = self.frame(id)?;
        if self.program.node(frame.node).scope {
            let scope = self.scope_mut(frame.scope)?;
            *scope = Scope::new(scope.parent, scope.owner);
        }
        Ok(())
    }

    /// Stores the outcome in the scope that the node belongs to.
    fn record(&mut self, id: FrameId, node: NodeId, outcome: Arc<Outcome>) -> FaultResult {
        let home = self.program.facts(node).home;
        let mut scope_id = Some(self.frame(id)?.scope);
        while let Some(id) = scope_id {
            let scope = self.scope_mut(id)?;
            if scope.owner == home {
                scope.record(node, outcome);
                return Ok(());
            }
            scope_id = scope.parent;
        }
        // Nothing reads nodes of a scope that is not around this frame.
        Ok(())
    }

    /// Records everything inside an untaken branch as skipped, so that later nodes can refer to it.
    pub(crate) fn skip_inside(&mut self, id: FrameId, node_id: NodeId, reason: &str) -> FaultResult {
        let node = self.program.node(node_id);
        if !node.hidden {
            self.record_skipped(id, node_id, reason)?;
        }
        if !matches!(node.kind, NodeKind::Loop(_) | NodeKind::Net(_)) {
            for child in node.kind.children() {
                self.skip_inside(id, child, reason)?;
            }
        }
        Ok(())
    }

    pub(crate) fn record_skipped(&mut self, near: FrameId, node: NodeId, reason: &str) -> FaultResult {
        let error = ErrorInfo::new(reason, "skipped", "the node did not run");
        self.record_without_run(near, node, Status::Skipped, error)
    }

    /// Records and publishes the end of a node that never had a frame.
    pub(crate) fn record_without_run(
        &mut self,
        near: FrameId,
        node: NodeId,
        status: Status,
        mut error: ErrorInfo,
    ) -> FaultResult {
        let path = self.child_path(near, node);
        error.path = path.clone();
        let reason = Some(error.code.clone());
        let message = (status != Status::Failed && &*error.code == "MissingData").then(|| error.message.clone());
        let event_error = (status == Status::Failed).then(|| self.event_error(&error));
        let outcome = self.record_outcome_without_run(near, node, status, error)?;
        self.mailbox_without_run(near, node, &outcome)?;
        if self.frame(near)?.quiet {
            self.count_quiet_without_run(near, node, &path, status)?;
        } else {
            let (output, usage, firing) = (None, Value::Null, None);
            let kind = match status {
                Status::Skipped => {
                    EventKind::StepSkipped { status, output, error: event_error, usage, firing, reason, message }
                }
                Status::Failed | Status::Cancelled | Status::TimedOut => {
                    EventKind::StepFailed { status, output, error: event_error, usage, firing, reason, message }
                }
                Status::Succeeded => return Err(wrong_status(near, "an end without having run", status)),
            };
            self.publish(path, kind);
        }
        Ok(())
    }

    pub(crate) fn record_outcome_without_run(
        &mut self,
        near: FrameId,
        node: NodeId,
        status: Status,
        error: ErrorInfo,
    ) -> FaultResult<Arc<Outcome>> {
        let now = self.state.now;
        let path = if error.path.is_empty() { self.child_path(near, node) } else { error.path };
        let outcome = Arc::new(Outcome {
            status,
            output: Value::Null,
            error: Some(ErrorInfo { path, ..error }),
            inputs: Value::Null,
            attempts: 0,
            started_at: now,
            ended_at: now,
            loop_summary: None,
            usage: Value::Null,
        });
        self.record(near, node, outcome.clone())?;
        Ok(outcome)
    }

    /// Cancels a frame. It ends with the given status once nothing inside it is alive: a job in flight keeps its slot
    /// until its worker confirms or its grace period is over.
    pub(crate) fn close(&mut self, id: FrameId, closing: Closing) -> FaultResult {
        // A child that has ended is listed by its parent until the parent has processed its end.
        let Some(frame) = self.frame_if_live_mut(id) else { return Ok(()) };
        let own = closing.own_end;
        let before = frame.closing.as_ref().map(|before| before.own_end);
        if before.is_some_and(|before| !before || own) {
            return Ok(());
        }
        frame.closing = Some(Box::new(closing));
        // A frame that ends by itself may be entered again, in the rest of its time.
        let deadline = if own { None } else { frame.deadline.take() };
        for key in [deadline, frame.alarm.take()].into_iter().flatten() {
            self.state.timers.remove(&key);
        }
        if before.is_some() {
            return self.close_if_empty(id);
        }
        self.forget_loop_time(id)?;
        let frame = self.frame(id)?;
        if let Some(job) = job_of(&frame.body) {
            let open = self.state.jobs.get(&job).ok_or_else(|| no_job(job, "the job of a pipeline"))?;
            // A resting worker has nothing to stop: it is only notified that its lease has ended.
            if !open.resting {
                return self.cancel_job(job);
            }
        }
        let inside = children(&frame.body);
        // A child run that has ended is not cancelled.
        if let FrameBody::Call { call } = frame.body
            && let Some(open) = self.state.calls.get(&call)
        {
            self.work.output.commands.push(Command::CancelChild { key: open.key.clone() });
        }
        self.cancel_child_run(id)?;
        for child in inside {
            self.close(child, Closing::cancelled())?;
        }
        self.close_if_empty(id)
    }

    /// Ends a frame that is being cancelled, when nothing inside it is left.
    pub(crate) fn close_if_empty(&mut self, id: FrameId) -> FaultResult {
        // Cancelling its children may have ended it.
        let Some(frame) = self.frame_if_live(id) else { return Ok(()) };
        if frame.live > 0 {
            return Ok(());
        }
        // It continues, or is about to be entered again: it is not being cancelled.
        let Some(closing) = frame.closing.as_deref().cloned() else { return Ok(()) };
        if matches!(frame.body, FrameBody::Loop(_)) {
            return self.loop_cancelled(id, closing);
        }
        let Closing { status, mut error, output, own_end: own } = closing;
        let attempts = frame.attempt;
        self.record_unstarted(id)?;
        if own {
            return self
                .finish(id, FrameEnd { status, output, error, inputs: Value::Null, attempts, loop_summary: None });
        }
        if let Some(error) = &mut error
            && error.path.is_empty()
        {
            error.path = self.task_path(id);
        }
        self.end_cancelled(id, FrameEnd { status, output, error, inputs: Value::Null, attempts, loop_summary: None })
    }

    /// Ends a cancelled frame with nothing left inside. Its partial output may have to be evaluated first.
    pub(crate) fn end_cancelled(&mut self, id: FrameId, ended: FrameEnd) -> FaultResult {
        match self.gives_partial_output(id)? {
            true => self.state.agenda.push_back(AgendaItem::Finish(id, Box::new(ended))),
            false => self.end(id, ended)?,
        }
        Ok(())
    }

    /// Returns true for a node whose time is over and for a cancelled run: they return their output so far.
    fn gives_partial_output(&self, id: FrameId) -> FaultResult<bool> {
        let frame = self.frame(id)?;
        let ends =
            frame.parent.is_none() || frame.closing.as_ref().is_some_and(|closing| closing.is_expired_deadline());
        Ok(ends && self.program.node(frame.node).output.is_some())
    }

    pub(crate) fn child_ended(
        &mut self,
        parent: FrameId,
        slot: u64,
        outcome: &Arc<Outcome>,
        scope: ScopeId,
    ) -> Result<(), ItemStop> {
        // A parent outlives its children.
        let frame = self.frame(parent)?;
        if frame.closing.is_some() && !matches!(frame.body, FrameBody::Loop(_)) {
            if matches!(frame.body, FrameBody::Net(_)) {
                // Every firing has its own scope.
                self.state.scopes.remove(scope);
            }
            self.child_removed(parent)?;
            self.close_if_empty(parent)?;
            return Ok(());
        }
        match &frame.body {
            FrameBody::Graph(_) => self.graph_child_ended(parent, slot as u32, outcome)?,
            FrameBody::Branch { .. } => self.branch_child_ended(parent, outcome)?,
            FrameBody::Loop(_) => self.loop_child_ended(parent, slot, outcome, scope)?,
            FrameBody::Net(_) => self.body_ended(parent, slot, outcome, scope)?,
            FrameBody::Pipeline(_) => self.entered_node_ended(parent, outcome)?,
            childless @ (FrameBody::New | FrameBody::Backoff | FrameBody::Wait(_) | FrameBody::Call { .. }) => {
                return Err(wrong_frame(parent, "the parent of a frame that has ended", childless).into());
            }
        }
        Ok(())
    }

    pub(crate) fn child_removed(&mut self, parent: FrameId) -> FaultResult {
        let frame = self.frame_mut(parent)?;
        frame.live = frame.live.checked_sub(1).ok_or_else(|| miscounted(parent, "live children"))?;
        Ok(())
    }
}

/// Returns the resources used by the jobs inside a frame, as far as they are metered.
fn usage_of(frame: &Frame) -> Value {
    frame.account.as_ref().map_or(Value::Null, |account| usage_value(&account.usage))
}

/// Returns the job of a pipeline; no other frame has one.
fn job_of(body: &FrameBody) -> Option<u64> {
    match body {
        FrameBody::Pipeline(pipeline) => pipeline.job,
        FrameBody::New
        | FrameBody::Backoff
        | FrameBody::Graph(_)
        | FrameBody::Branch { .. }
        | FrameBody::Loop(_)
        | FrameBody::Net(_)
        | FrameBody::Wait(_)
        | FrameBody::Call { .. } => None,
    }
}

/// Returns the live frames directly inside.
fn children(body: &FrameBody) -> Vec<FrameId> {
    match body {
        FrameBody::New | FrameBody::Backoff | FrameBody::Wait(_) | FrameBody::Call { .. } => Vec::new(),
        FrameBody::Pipeline(pipeline) => pipeline.child.into_iter().collect(),
        FrameBody::Graph(graph) => graph.children.iter().filter_map(|child| child.frame).collect(),
        FrameBody::Branch { child } => vec![*child],
        FrameBody::Loop(looping) => looping.iterations.values().map(LiveIteration::frame).collect(),
        FrameBody::Net(net) => net.firings.values().map(|firing| firing.frame).collect(),
    }
}
