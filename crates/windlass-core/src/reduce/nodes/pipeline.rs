//! Task after task, with a program counter. Tasks that only compute run right here.
//!
//! At each task a pipeline is *ready* (the task is on the agenda), *busy* (a worker has it), *short* (it waits for a budget),
//! *inside* (the task has entered a node), *awaiting* (the task waits for an event, time or a child run), or *delayed* (a retry,
//! or an operation that goes on elsewhere).
//!
//! | state | task | report | child ends | alarm | answer | close |
//! |---|---|---|---|---|---|---|
//! | ready | computed: ready at the next task, or ended; else busy, short, inside | refused | – | – | – | ended |
//! | busy | – | ready, delayed, awaiting, ended | – | – | – | closing, until the worker confirms |
//! | short | ready | refused | – | – | – | ended |
//! | inside | – | refused | ready, delayed, ended | – | – | closing |
//! | awaiting | – | refused | – | ready, with an answer or a timeout | ready | ended |
//! | delayed | – | refused | – | ready | – | ended |
//! | closing | ignored | ended | ended | – | – | closing |
//! | ended | ignored | refused | – | – | – | ignored |
//!
//! – is impossible and a fault: so is a task that the plan does not have. *Ignored* is legitimate: an agenda item may outlive
//! the pipeline. *Refused* is legitimate, and an event tells of it: the worker's lease is over.

use std::sync::Arc;

use windlass_value::{Duration, Level, Map, Value};

use super::effect::Call;
use super::names::{self, TaskNames};
use super::rules::{Next, because, ruled, written};
use crate::plan::{Action, NodeKind, Pipeline, Task, Write};
use crate::reduce::budget::Affords;
use crate::reduce::eval::Locals;
use crate::reduce::impossible::{Checked, no_frame, no_part, wrong_frame};
use crate::reduce::write::unsaid;
use crate::reduce::{Reducer, Stop};
use crate::state::{PendingWait, Body, Closing, Ended, FrameId, Item, PipelineFrame, ScopeId, Timer};
use crate::{ErrorInfo, EventKind, PatchScope, Status, TaskOutcome, TaskResult, TaskStatus};

/// What an access to a pipeline's frame expects.
const A_PIPELINE: &str = "a pipeline";

/// Where a pipeline stands.
pub(super) struct At<'a, 's> {
    pub pipeline: &'a Pipeline,
    pub task: &'a Task,
    pub body: &'s PipelineFrame,
    pub scope: ScopeId,
}

impl<'a> Reducer<'a> {
    pub(in crate::reduce) fn enter_pipeline(&mut self, id: FrameId) -> Result<(), Stop> {
        let now = self.now();
        self.frame_mut(id)?.body =
            Body::Pipeline(Box::new(PipelineFrame { task_started_at: now, ..PipelineFrame::default() }));
        self.publish_started(id)?;
        self.state.agenda.push_back(Item::Task(id));
        Ok(())
    }

    /// The pipeline, its frame, which exists and is one, and the task that it is at.
    pub(super) fn pipeline_frame(&self, id: FrameId) -> Checked<At<'a, '_>> {
        let Some(frame) = self.state.frames.get(id) else { return Err(no_frame(id, A_PIPELINE)) };
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Pipeline(pipeline), Body::Pipeline(body)) => match pipeline.tasks.get(body.pc as usize) {
                Some(task) => Ok(At { pipeline, task, body, scope: frame.scope }),
                None => Err(no_part(id, "task", body.pc.into())),
            },
            (_, other) => Err(wrong_frame(id, A_PIPELINE, other)),
        }
    }

    pub(super) fn pipeline_frame_mut(&mut self, id: FrameId) -> Checked<&mut PipelineFrame> {
        match self.state.frames.get_mut(id).map(|frame| &mut frame.body) {
            Some(Body::Pipeline(body)) => Ok(body),
            Some(other) => Err(wrong_frame(id, A_PIPELINE, other)),
            None => Err(no_frame(id, A_PIPELINE)),
        }
    }

    /// The same, for agenda items: None if the pipeline has already ended, is being called off, or is about to be entered
    /// anew.
    fn pipeline_if_open(&self, id: FrameId) -> Checked<Option<At<'a, '_>>> {
        let Some(frame) = self.frame_if_open(id) else { return Ok(None) };
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Pipeline(pipeline), Body::Pipeline(body)) => match pipeline.tasks.get(body.pc as usize) {
                Some(task) => Ok(Some(At { pipeline, task, body, scope: frame.scope })),
                None => Err(no_part(id, "task", body.pc.into())),
            },
            (_, Body::New | Body::Backoff) => Ok(None),
            (_, other) => Err(wrong_frame(id, A_PIPELINE, other)),
        }
    }

    pub(in crate::reduce) fn run_task(&mut self, id: FrameId) -> Result<(), Stop> {
        let Some(At { pipeline, task, body, scope }) = self.pipeline_if_open(id)? else { return Ok(()) };
        if !body.may_begin() || self.frame(id)?.alarm.is_some() {
            return Err(no_part(id, "task that may begin; it is at task", body.pc.into()).into());
        }
        if body.runs >= self.program.limits.max_pipeline_task_runs {
            let message = format!("the pipeline has run {} tasks without coming to an end", body.runs);
            return Err(ErrorInfo::new("TaskRunsExceeded", "limit", message)
                .hint("look at the jump that never stops, or raise `pipeline_task_runs_max`")
                .into());
        }
        let sees_itself = pipeline.tasks.len() > 1 || !task.label.is_empty();
        let names = sees_itself.then(|| TaskNames::before(task, body));
        let locals = Locals { task: names.as_ref(), ..Locals::default() };
        match &task.action {
            Action::Evaluate(expression) => {
                let computed = caught(self.eval_with(*expression, scope, locals))?;
                let attempt = self.computing_begun(id, pipeline, task)?;
                self.computed(id, pipeline, task, attempt, computed)
            }
            Action::Write(write) => {
                let value = write.value.map(|value| self.eval_with(value, scope, locals)).transpose();
                let written =
                    value.and_then(|value| self.write(write, scope, value.unwrap_or_else(|| unsaid(write.op))));
                let computed = caught(written)?;
                let attempt = self.computing_begun(id, pipeline, task)?;
                if let Ok(value) = &computed {
                    self.publish_patch(id, write, value);
                }
                let named =
                    computed.map(|value| Value::object([("name", Value::Str(write.name.clone())), ("value", value)]));
                self.computed(id, pipeline, task, attempt, named)
            }
            Action::End { status, error } => {
                let error = error.map(|expression| self.eval_with(expression, scope, locals)).transpose()?;
                let error = error.map(|error| self.resolve(&error)).transpose()?;
                self.end_from(id, *status, error.as_ref())?;
                Ok(())
            }
            Action::Effect(effect) => {
                let call = caught(self.next_call(id, effect, scope, locals))?;
                let timeout =
                    task.timeout.as_ref().map(|timeout| self.duration_with(timeout, scope, locals)).transpose()?;
                match call {
                    Ok(Call::Begins { tool, input }) => {
                        let reserved = self.reservation(effect.reserves, scope, locals)?;
                        match self.affords(id, &reserved)? {
                            Affords::Yes => {
                                self.task_begun(id)?;
                                self.dispatch_task(id, tool, input, timeout, reserved)?;
                            }
                            Affords::Later => self.wait_for_budget(id)?,
                            Affords::No(frame) => {
                                self.task_begun(id)?;
                                self.exhaust(frame, Some(id))?;
                            }
                        }
                    }
                    // What the operation may cost was taken when it began.
                    Ok(Call::GoesOn { tool, input }) => {
                        self.task_goes_on(id)?;
                        self.dispatch_task(id, tool, input, timeout, Vec::new())?;
                    }
                    Err(error) => {
                        let attempt = self.task_begun(id)?;
                        self.computed(id, pipeline, task, attempt, Err(error))?;
                    }
                }
                Ok(())
            }
            Action::Node(node) => {
                self.computing_begun(id, pipeline, task)?;
                self.enter_inner(id, *node, scope)?;
                Ok(())
            }
            Action::Post(post) => {
                let written = caught(self.written_mail(post, scope, locals))?;
                let attempt = self.computing_begun(id, pipeline, task)?;
                let told = match written {
                    Ok((to, mail)) => Ok(self.post(id, &to, mail)?),
                    Err(error) => Err(error),
                };
                self.computed(id, pipeline, task, attempt, told)
            }
            Action::PublishEvent { kind, data } => {
                let computed = caught(self.eval_with(*data, scope, locals))?;
                let attempt = self.computing_begun(id, pipeline, task)?;
                if let Ok(data @ Value::Map(_)) = &computed {
                    let path = self.path(id);
                    self.publish_custom(path, kind, data);
                }
                self.computed(id, pipeline, task, attempt, computed)
            }
            Action::Reply { value, good } => {
                let computed = caught(self.answer(*value, *good, scope, locals))?;
                let attempt = self.computing_begun(id, pipeline, task)?;
                let told = computed.and_then(|answer| self.reply(id, answer));
                self.computed(id, pipeline, task, attempt, told)
            }
        }
    }

    /// Counts a new try of the task: its number, from 1.
    fn task_begun(&mut self, id: FrameId) -> Checked<u32> {
        let now = self.now();
        let body = self.pipeline_frame_mut(id)?;
        body.runs += 1;
        body.attempt += 1;
        body.first_try_at.get_or_insert(now);
        body.task_started_at = now;
        Ok(body.attempt)
    }

    /// A task that hands out no job of its own.
    fn computing_begun(&mut self, id: FrameId, pipeline: &Pipeline, task: &Task) -> Checked<u32> {
        let attempt = self.task_begun(id)?;
        if self.publishes_task(id, pipeline, task) {
            let task = task.label.clone();
            let path = with_label(self.path(id), &task);
            self.publish(path, EventKind::TaskStarted { task, attempt, tool: None, call: 0 });
        }
        Ok(attempt)
    }

    /// A lone action that only computes is told of as its node.
    fn publishes_task(&self, id: FrameId, pipeline: &Pipeline, task: &Task) -> bool {
        let computes = !matches!(task.action, Action::Effect(_) | Action::Node(_));
        let as_its_node = computes && task.label.is_empty() && pipeline.tasks.len() == 1;
        let quiet = self.state.frames.get(id).is_some_and(|frame| frame.quiet);
        !(quiet || task.hidden || as_its_node)
    }

    /// One more call of the same attempt.
    fn task_goes_on(&mut self, id: FrameId) -> Checked {
        self.pipeline_frame_mut(id)?.runs += 1;
        Ok(())
    }

    /// A lone task that only computes and has no rules ends its pipeline at once; others take the long way.
    fn computed(
        &mut self,
        id: FrameId,
        pipeline: &Pipeline,
        task: &Task,
        attempts: u32,
        computed: Result<Value, ErrorInfo>,
    ) -> Result<(), Stop> {
        if let (1, true, Ok(value)) = (pipeline.tasks.len(), task.rules.is_empty(), &computed) {
            if self.publishes_task(id, pipeline, task) {
                self.publish_processed(id, &TaskOutcome::success(value.clone()))?;
            }
            let (output, inputs) = (value.clone(), Value::Null);
            self.finish(id, Ended { status: Status::Succeeded, output, error: None, inputs, attempts, loop_summary: None })?;
            return Ok(());
        }
        let outcome = match computed {
            Ok(value) => TaskOutcome::success(value),
            Err(error) => TaskOutcome::failure(error),
        };
        self.state.agenda.push_back(Item::TaskEnded(id, Box::new(outcome)));
        Ok(())
    }

    pub(super) fn publish_patch(&mut self, id: FrameId, write: &Write, value: &Value) {
        if write.hidden || self.state.frames.get(id).is_some_and(|frame| frame.quiet) {
            return;
        }
        let scope = match write.level {
            Level::Run | Level::Any => PatchScope::Run,
            Level::Step => PatchScope::Step,
            Level::Iteration => PatchScope::Iteration,
        };
        let patch = Value::object([(write.name.clone(), self.redacted_output(id, value))]);
        self.publish_at(id, EventKind::ContextPatched { scope, patch });
    }

    pub(in crate::reduce) fn task_ended(&mut self, id: FrameId, outcome: &TaskOutcome) -> Result<(), Stop> {
        if self.pipeline_if_open(id)?.is_none() {
            self.close_if_empty(id)?;
            return Ok(());
        }
        if let (Some(again), None) = (&outcome.again, &outcome.error) {
            self.call_again_after(id, again)?;
            return Ok(());
        }
        if let (Some(suspension), None) = (&outcome.suspension, &outcome.error) {
            self.suspend(id, suspension)?;
            return Ok(());
        }
        let refused = self.check_state_changes(outcome)?;
        let outcome = refused.as_ref().unwrap_or(outcome);
        let At { task, body, scope, .. } = self.pipeline_frame(id)?;
        let names = TaskNames::after(task, body, outcome, self.now());
        let locals = Locals { task: Some(&names), ..Locals::default() };
        let (next, matched) = self.decide(id, outcome, locals)?;
        let mut previous = outcome.output.clone();
        let mut writes = Vec::new();
        if let Some(matched) = &matched {
            for write in &matched.rule.writes {
                let value = write.value.map(|expression| self.eval_with(expression, scope, locals)).transpose()?;
                writes.push((write, value.unwrap_or_else(|| unsaid(write.op))));
            }
            if let Some(expression) = matched.rule.previous {
                previous = self.eval_with(expression, scope, locals)?;
            }
        }
        for (write, value) in &writes {
            // All that the writes need is at hand before the first is made.
            self.fetch_for(write, scope, value)?;
        }
        for (write, value) in writes {
            let value = self.write(write, scope, value)?;
            self.publish_patch(id, write, &value);
        }
        if let (Some(side_outputs), Next::Continue | Next::Jump(_) | Next::Break) = (&outcome.side_outputs, &next) {
            self.apply_side_outputs(id, side_outputs, scope)?;
        }
        self.publish_processed(id, outcome)?;
        if let Some(matched) = &matched {
            self.note_match(id, matched)?;
        }
        let previous = self.slim(previous);
        self.go(id, next, previous, outcome)?;
        Ok(())
    }

    fn publish_processed(&mut self, id: FrameId, outcome: &TaskOutcome) -> Checked {
        let At { pipeline, task, body, .. } = self.pipeline_frame(id)?;
        if !self.publishes_task(id, pipeline, task) {
            return Ok(());
        }
        let (attempt, started_at, now) = (body.attempt, body.task_started_at, self.now());
        let redacted = self.is_redacted(id);
        let meta = match redacted {
            true => Value::Null,
            false => names::completed(&outcome.meta, attempt, started_at, now),
        };
        let error = outcome.error.as_ref().map(|error| match redacted {
            true => self.event_error(&error.clone().redacted()),
            false => self.event_error(error),
        });
        let facts: Map =
            names::facts(outcome).filter(|_| !redacted).map(|(name, fact)| (name.clone(), fact.clone())).collect();
        let result = TaskResult {
            status: if outcome.error.is_some() { TaskStatus::Error } else { TaskStatus::Success },
            result: self.redacted_output(id, &outcome.output),
            error,
            meta,
            facts: if facts.is_empty() { Value::Null } else { Value::map(facts) },
        };
        let (task, taken) = (task.label.clone(), outcome.taken.is_some());
        let path = self.task_path(id);
        self.publish(path, EventKind::TaskProcessed { task, attempt, outcome: result, taken });
        Ok(())
    }

    fn go(&mut self, id: FrameId, next: Next, previous: Value, outcome: &TaskOutcome) -> Checked {
        let At { pipeline, body, .. } = self.pipeline_frame(id)?;
        let (pc, last) = (body.pc, body.pc as usize + 1 >= pipeline.tasks.len());
        match next {
            Next::Continue if last => self.pipeline_ends(id, Status::Succeeded, previous, None),
            Next::Continue => self.go_to(id, pc + 1, previous),
            Next::Jump(to) => self.go_to(id, to, previous),
            Next::Break => self.pipeline_ends(id, Status::Succeeded, previous, None),
            Next::Fail { status, error } => {
                let mut error = error.or_else(|| outcome.error.clone()).unwrap_or_else(|| ruled(&Value::Null));
                if error.facts.is_null() {
                    error.facts = self.slim(outcome.facts.clone());
                }
                self.pipeline_ends(id, status, previous, Some(error))
            }
            Next::Again { wait, same_key } => self.go_again(id, wait, same_key, outcome),
        }
    }

    fn go_to(&mut self, id: FrameId, pc: u32, previous: Value) -> Checked {
        self.forget_tries(id)?;
        self.forget_wait_results(id)?;
        let body = self.pipeline_frame_mut(id)?;
        if pc <= body.pc {
            // A task that is reached again is another effect; everything from here on may be.
            for visited in pc..=body.pc {
                *body.visits.entry(visited).or_default() += 1;
            }
        }
        body.pc = pc;
        body.attempt = 0;
        body.first_try_at = None;
        body.tried = None;
        body.group = 0;
        body.call = 0;
        body.sent = false;
        body.previous = previous;
        self.state.agenda.push_back(Item::Task(id));
        Ok(())
    }

    fn go_again(&mut self, id: FrameId, wait: Duration, same_key: bool, outcome: &TaskOutcome) -> Checked {
        self.watch_again(id);
        let At { task, body, .. } = self.pipeline_frame(id)?;
        let (tries, hidden) = (body.attempt, task.hidden);
        // A step that is told of by its number is tried again in everyone's sight, whatever the task behind it is.
        if !hidden || self.published_firing(id)?.is_some() {
            self.publish_retrying(id, self.task_path(id), tries, wait, &because(outcome))?;
        }
        let key = self.set_timer(self.now() + wait, Timer::Alarm(id));
        self.frame_mut(id)?.alarm = Some(key);
        self.note_failure(id, outcome)?;
        self.forget_failed_wait(id)?;
        self.hold_or_return_worker(id, wait)?;
        self.yield_slot(id)?;
        if !same_key {
            let body = self.pipeline_frame_mut(id)?;
            body.group += 1;
            body.call = 0;
            body.sent = false;
        }
        Ok(())
    }

    fn pipeline_ends(&mut self, id: FrameId, status: Status, output: Value, error: Option<ErrorInfo>) -> Checked {
        let body = self.pipeline_frame_mut(id)?;
        let (inputs, loop_summary) = (std::mem::take(&mut body.inputs), body.loop_summary.take());
        let attempts = body.attempt.max(1);
        self.finish(id, Ended { status, output, error, inputs, attempts, loop_summary: turns: loop_summary })
    }

    /// A task that ends the whole run.
    fn end_from(&mut self, id: FrameId, status: Status, error: Option<&Value>) -> Checked {
        let message = format!("the run was ended as {} by the definition", status.as_str());
        let otherwise = ErrorInfo::new("Terminated", "terminate", message);
        let mut info = (status != Status::Succeeded).then(|| written(error.unwrap_or(&Value::Null), otherwise));
        if let Some(info) = &mut info {
            info.path = self.task_path(id);
        }
        if matches!(status, Status::Failed | Status::TimedOut) {
            self.watch_verdict(id);
        }
        self.end_with(id, Status::Succeeded, Value::Null, None)?;
        self.end_early(Closing { status, error: info, output: Value::Null, own: false })
    }
}

/// An evaluation that fails is the task's failure, so that its rules and its retry can see it.
fn caught<T>(result: Result<T, Stop>) -> Result<Result<T, ErrorInfo>, Stop> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Stop::Failed(error)) => Ok(Err(*error)),
        Err(stop @ (Stop::Need(_) | Stop::Impossible(_))) => Err(stop),
    }
}

impl PipelineFrame {
    /// Whether the current task waits for nothing: neither inside a node that it has entered, nor for an event, time or a
    /// child run. (That no worker has it is looked at when it is handed out.)
    fn may_begin(&self) -> bool {
        let waits = match self.pending_wait.as_deref() {
            Some(PendingWait::Event { .. } | PendingWait::Time | PendingWait::Child { .. }) => true,
            Some(PendingWait::Resolved) | None => false,
        };
        !waits && self.child.is_none()
    }
}

pub(in crate::reduce) fn with_label(path: Arc<str>, label: &str) -> Arc<str> {
    if label.is_empty() { path } else { format!("{path}.{label}").into() }
}
