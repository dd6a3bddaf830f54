//! Pipelines: tasks executed in sequence, with a program counter. Tasks that only compute run directly in the
//! reducer.
//!
//! At each task a pipeline is *ready* (the task is on the agenda), *busy* (a worker executes it), *short* (it waits
//! for a budget), *inside* (the task has entered a node), *suspended* (the task waits for an event, time or a child
//! run), or *delayed* (a retry, or an operation that continues elsewhere).
//!
//! | state | task | report | child ends | alarm | wait result | close |
//! |---|---|---|---|---|---|---|
//! | ready | computed: ready at the next task, or ended; else busy, short, inside | rejected | – | – | – | ended |
//! | busy | – | ready, delayed, suspended, ended | – | – | – | closing, until the worker confirms |
//! | short | ready | rejected | – | – | – | ended |
//! | inside | – | rejected | ready, delayed, ended | – | – | closing |
//! | suspended | – | rejected | – | ready, with a result or a timeout | ready | ended |
//! | delayed | – | rejected | – | ready | – | ended |
//! | closing | ignored | ended | ended | – | – | closing |
//! | ended | ignored | rejected | – | – | – | ignored |
//!
//! – is impossible and a fault: so is a task that the plan does not have. *Ignored* is legitimate: an agenda item may
//! outlive the pipeline. *Rejected* is legitimate, and an event reports it: the worker's lease has ended.

use std::sync::Arc;

use windlass_value::{Duration, Level, Map, Value};

use super::effect::EffectCall;
use super::rules::{TaskDecision, error_from_definition, retry_cause, rule_error};
use super::task_names::{self, TaskNames};
use crate::plan::{Action, NodeKind, Pipeline, Task, VariableUpdate};
use crate::reduce::budget::BudgetDecision;
use crate::reduce::eval::Locals;
use crate::reduce::fault::{FaultResult, no_frame, no_part, wrong_frame};
use crate::reduce::write::default_operand;
use crate::reduce::{ItemStop, Reducer};
use crate::state::{AgendaItem, Closing, FrameBody, FrameEnd, FrameId, PendingWait, PipelineFrame, ScopeId, Timer};
use crate::{ErrorInfo, EventKind, PatchScope, Status, TaskOutcome, TaskResult, TaskStatus};

/// The expectation named in faults about a pipeline's frame.
const A_PIPELINE: &str = "a pipeline";

/// The current position of a pipeline.
pub(super) struct PipelinePosition<'a, 's> {
    pub pipeline: &'a Pipeline,
    pub task: &'a Task,
    pub body: &'s PipelineFrame,
    pub scope: ScopeId,
}

impl<'a> Reducer<'a> {
    pub(in crate::reduce) fn enter_pipeline(&mut self, id: FrameId) -> Result<(), ItemStop> {
        let now = self.now();
        self.frame_mut(id)?.body =
            FrameBody::Pipeline(Box::new(PipelineFrame { task_started_at: now, ..PipelineFrame::default() }));
        self.publish_started(id)?;
        self.state.agenda.push_back(AgendaItem::Task(id));
        Ok(())
    }

    /// Returns the pipeline, its frame, which must exist and be a pipeline's, and its current task.
    pub(super) fn pipeline_frame(&self, id: FrameId) -> FaultResult<PipelinePosition<'a, '_>> {
        let Some(frame) = self.state.frames.get(id) else { return Err(no_frame(id, A_PIPELINE)) };
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Pipeline(pipeline), FrameBody::Pipeline(body)) => match pipeline.tasks.get(body.pc as usize) {
                Some(task) => Ok(PipelinePosition { pipeline, task, body, scope: frame.scope }),
                None => Err(no_part(id, "task", body.pc.into())),
            },
            (_, other) => Err(wrong_frame(id, A_PIPELINE, other)),
        }
    }

    pub(super) fn pipeline_frame_mut(&mut self, id: FrameId) -> FaultResult<&mut PipelineFrame> {
        match self.state.frames.get_mut(id).map(|frame| &mut frame.body) {
            Some(FrameBody::Pipeline(body)) => Ok(body),
            Some(other) => Err(wrong_frame(id, A_PIPELINE, other)),
            None => Err(no_frame(id, A_PIPELINE)),
        }
    }

    /// Returns the same for agenda items: None if the pipeline has already ended, is being cancelled, or is about to be
    /// entered again.
    fn pipeline_if_open(&self, id: FrameId) -> FaultResult<Option<PipelinePosition<'a, '_>>> {
        let Some(frame) = self.frame_if_open(id) else { return Ok(None) };
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Pipeline(pipeline), FrameBody::Pipeline(body)) => match pipeline.tasks.get(body.pc as usize) {
                Some(task) => Ok(Some(PipelinePosition { pipeline, task, body, scope: frame.scope })),
                None => Err(no_part(id, "task", body.pc.into())),
            },
            (_, FrameBody::New | FrameBody::Backoff) => Ok(None),
            (_, other) => Err(wrong_frame(id, A_PIPELINE, other)),
        }
    }

    pub(in crate::reduce) fn run_task(&mut self, id: FrameId) -> Result<(), ItemStop> {
        let Some(PipelinePosition { pipeline, task, body, scope }) = self.pipeline_if_open(id)? else { return Ok(()) };
        if !body.may_begin() || self.frame(id)?.alarm.is_some() {
            return Err(no_part(id, "task that may begin; it is at task", body.pc.into()).into());
        }
        if body.runs >= self.program.limits.max_pipeline_task_runs {
            let message = format!("the pipeline has run {} tasks without ending", body.runs);
            return Err(ErrorInfo::new("TaskRunsExceeded", "limit", message)
                .hint("check the jump that never stops, or raise `max_pipeline_task_runs`")
                .into());
        }
        let sees_itself = pipeline.tasks.len() > 1 || !task.label.is_empty();
        let step = self.program.visible_name(self.frame(id)?.node);
        let names = sees_itself.then(|| TaskNames::before(step, task, body));
        let locals = Locals { task: names.as_ref(), ..Locals::default() };
        match &task.action {
            Action::Evaluate(expression) => {
                let computed = catch_failure(self.eval_with(*expression, scope, locals))?;
                let attempt = self.begin_computing(id, pipeline, task)?;
                self.finish_computed(id, pipeline, task, attempt, computed)
            }
            Action::Write(write) => {
                let value = write.value.map(|value| self.eval_with(value, scope, locals)).transpose();
                let written = value
                    .and_then(|value| self.write(write, scope, value.unwrap_or_else(|| default_operand(write.op))));
                let computed = catch_failure(written)?;
                let attempt = self.begin_computing(id, pipeline, task)?;
                if let Ok(value) = &computed {
                    self.publish_patch(id, write, value);
                }
                let named =
                    computed.map(|value| Value::object([("name", Value::Str(write.name.clone())), ("value", value)]));
                self.finish_computed(id, pipeline, task, attempt, named)
            }
            Action::End { status, error } => {
                let error = error.map(|expression| self.eval_with(expression, scope, locals)).transpose()?;
                let error = error.map(|error| self.resolve(&error)).transpose()?;
                self.end_run_from(id, *status, error.as_ref())?;
                Ok(())
            }
            Action::Effect(effect) => {
                let left = effect.reservation.map(|_| self.names_of_budgets(id)).transpose()?;
                let input_locals = Locals { names: left.as_ref(), ..locals };
                let call = catch_failure(self.next_call(id, effect, scope, input_locals))?;
                let timeout =
                    task.timeout.as_ref().map(|timeout| self.duration_with(timeout, scope, locals)).transpose()?;
                match call {
                    Ok(EffectCall::Begin { tool, input }) => {
                        let reserved = self.reservation(effect.reservation, &input, scope, locals)?;
                        match self.reserve_budget(id, &reserved)? {
                            BudgetDecision::Yes => {
                                self.begin_attempt(id)?;
                                self.dispatch_task(id, tool, input, timeout, reserved)?;
                            }
                            BudgetDecision::Later => self.wait_for_budget(id)?,
                            BudgetDecision::No(frame) => {
                                self.begin_attempt(id)?;
                                self.exhaust(frame, Some(id))?;
                            }
                        }
                    }
                    // The cost of the operation was reserved when it began.
                    Ok(EffectCall::Continue { tool, input }) => {
                        self.continue_attempt(id)?;
                        self.dispatch_task(id, tool, input, timeout, Vec::new())?;
                    }
                    Err(error) => {
                        let attempt = self.begin_attempt(id)?;
                        self.finish_computed(id, pipeline, task, attempt, Err(error))?;
                    }
                }
                Ok(())
            }
            Action::Node(node) => {
                self.begin_computing(id, pipeline, task)?;
                self.enter_node(id, *node, scope)?;
                Ok(())
            }
            Action::Post(post) => {
                let written = catch_failure(self.evaluate_mail(post, scope, locals))?;
                let attempt = self.begin_computing(id, pipeline, task)?;
                let output = match written {
                    Ok((to, mail)) => Ok(self.post(id, &to, mail)?),
                    Err(error) => Err(error),
                };
                self.finish_computed(id, pipeline, task, attempt, output)
            }
            Action::PublishEvent { kind, data } => {
                let computed = catch_failure(self.eval_with(*data, scope, locals))?;
                let attempt = self.begin_computing(id, pipeline, task)?;
                if let Ok(data @ Value::Map(_)) = &computed {
                    let path = self.path(id);
                    self.publish_custom(path, kind, data);
                }
                self.finish_computed(id, pipeline, task, attempt, computed)
            }
            Action::Reply { value, success } => {
                let computed = catch_failure(self.evaluate_reply(*value, *success, scope, locals))?;
                let attempt = self.begin_computing(id, pipeline, task)?;
                let output = computed.and_then(|answer| self.reply(id, answer));
                self.finish_computed(id, pipeline, task, attempt, output)
            }
        }
    }

    /// Counts a new attempt of the task and returns its number, from 1.
    fn begin_attempt(&mut self, id: FrameId) -> FaultResult<u32> {
        let now = self.now();
        let body = self.pipeline_frame_mut(id)?;
        body.runs += 1;
        body.attempt += 1;
        body.first_try_at.get_or_insert(now);
        body.task_started_at = now;
        Ok(body.attempt)
    }

    /// Begins an attempt of a task that dispatches no job.
    fn begin_computing(&mut self, id: FrameId, pipeline: &Pipeline, task: &Task) -> FaultResult<u32> {
        let attempt = self.begin_attempt(id)?;
        if self.publishes_task(id, pipeline, task) {
            let task = task.label.clone();
            let path = with_label(self.path(id), &task);
            self.publish(path, EventKind::TaskStarted { task, attempt, tool: None, call: 0 });
        }
        Ok(attempt)
    }

    /// Returns true if the task publishes its own events.
    fn publishes_task(&self, id: FrameId, pipeline: &Pipeline, task: &Task) -> bool {
        let quiet = self.state.frames.get(id).is_some_and(|frame| frame.quiet);
        !quiet && is_task_of_its_own(pipeline, task)
    }

    /// Counts another call of the same attempt.
    fn continue_attempt(&mut self, id: FrameId) -> FaultResult {
        self.pipeline_frame_mut(id)?.runs += 1;
        Ok(())
    }

    /// Finishes a task that only computes. A single task without rules ends its pipeline immediately; others go through
    /// the agenda.
    fn finish_computed(
        &mut self,
        id: FrameId,
        pipeline: &Pipeline,
        task: &Task,
        attempts: u32,
        computed: Result<Value, ErrorInfo>,
    ) -> Result<(), ItemStop> {
        if let (1, true, Ok(value)) = (pipeline.tasks.len(), task.rules.is_empty(), &computed) {
            if is_task_of_its_own(pipeline, task) {
                self.publish_processed(id, &TaskOutcome::success(value.clone()))?;
            }
            let (output, inputs) = (value.clone(), Value::Null);
            self.finish(
                id,
                FrameEnd { status: Status::Succeeded, output, error: None, inputs, attempts, loop_summary: None },
            )?;
            return Ok(());
        }
        let outcome = match computed {
            Ok(value) => TaskOutcome::success(value),
            Err(error) => TaskOutcome::failure(error),
        };
        self.state.agenda.push_back(AgendaItem::TaskEnded(id, Box::new(outcome)));
        Ok(())
    }

    pub(super) fn publish_patch(&mut self, id: FrameId, write: &VariableUpdate, value: &Value) {
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

    pub(in crate::reduce) fn task_ended(&mut self, id: FrameId, outcome: &TaskOutcome) -> Result<(), ItemStop> {
        if self.pipeline_if_open(id)?.is_none() {
            self.close_if_empty(id)?;
            return Ok(());
        }
        if let (Some(next_call), None) = (&outcome.next_call, &outcome.error) {
            self.schedule_next_call(id, next_call)?;
            return Ok(());
        }
        if let (Some(suspension), None) = (&outcome.suspension, &outcome.error) {
            self.suspend(id, suspension)?;
            return Ok(());
        }
        let rejected = self.check_state_changes(outcome)?;
        let outcome = rejected.as_ref().unwrap_or(outcome);
        let PipelinePosition { task, body, scope, .. } = self.pipeline_frame(id)?;
        let step = self.program.visible_name(self.frame(id)?.node);
        let names = TaskNames::after(step, task, body, outcome, self.now());
        let locals = Locals { task: Some(&names), ..Locals::default() };
        let (next, matched) = self.decide(id, outcome, locals)?;
        let mut previous = outcome.output.clone();
        let mut writes = Vec::new();
        if let Some(matched) = &matched {
            for write in &matched.rule.writes {
                let value = write.value.map(|expression| self.eval_with(expression, scope, locals)).transpose()?;
                writes.push((write, value.unwrap_or_else(|| default_operand(write.op))));
            }
            if let Some(expression) = matched.rule.previous {
                previous = self.eval_with(expression, scope, locals)?;
            }
        }
        for (write, value) in &writes {
            // All values that the writes need are loaded before the first write.
            self.load_for_write(write, scope, value)?;
        }
        for (write, value) in writes {
            let value = self.write(write, scope, value)?;
            self.publish_patch(id, write, &value);
        }
        if let (Some(side_outputs), TaskDecision::Continue | TaskDecision::Jump(_) | TaskDecision::Break) =
            (&outcome.side_outputs, &next)
        {
            self.apply_side_outputs(id, side_outputs, scope)?;
        }
        self.publish_processed(id, outcome)?;
        if let Some(matched) = &matched {
            self.record_match(id, matched)?;
        }
        let previous = self.move_to_blob(previous);
        self.advance(id, next, previous, outcome)?;
        Ok(())
    }

    fn publish_processed(&mut self, id: FrameId, outcome: &TaskOutcome) -> FaultResult {
        let PipelinePosition { pipeline, task, body, .. } = self.pipeline_frame(id)?;
        if !is_task_of_its_own(pipeline, task) {
            return Ok(());
        }
        if self.frame(id)?.quiet {
            let status = if outcome.error.is_some() { Status::Failed } else { Status::Succeeded };
            return self.count_quiet_task(id, (body.pc, &task.label), status);
        }
        let (attempt, started_at, now) = (body.attempt, body.task_started_at, self.now());
        let redacted = self.is_redacted(id);
        let meta = match redacted {
            true => Value::Null,
            false => task_names::complete_meta(&outcome.meta, attempt, started_at, now),
        };
        let error = outcome.error.as_ref().map(|error| match redacted {
            true => self.event_error(&error.clone().redacted()),
            false => self.event_error(error),
        });
        let facts: Map =
            task_names::facts(outcome).filter(|_| !redacted).map(|(name, fact)| (name.clone(), fact.clone())).collect();
        let result = TaskResult {
            status: if outcome.error.is_some() { TaskStatus::Error } else { TaskStatus::Success },
            result: self.redacted_output(id, &outcome.output),
            error,
            meta,
            facts: if facts.is_empty() { Value::Null } else { Value::map(facts) },
        };
        let (task, reused) = (task.label.clone(), outcome.reused.is_some());
        let path = self.task_path(id);
        self.publish(path, EventKind::TaskProcessed { task, attempt, outcome: result, reused });
        Ok(())
    }

    fn advance(&mut self, id: FrameId, next: TaskDecision, previous: Value, outcome: &TaskOutcome) -> FaultResult {
        let PipelinePosition { pipeline, body, .. } = self.pipeline_frame(id)?;
        let (pc, last) = (body.pc, body.pc as usize + 1 >= pipeline.tasks.len());
        match next {
            TaskDecision::Continue if last => self.end_pipeline(id, Status::Succeeded, previous, None),
            TaskDecision::Continue => self.go_to(id, pc + 1, previous),
            TaskDecision::Jump(to) => self.go_to(id, to, previous),
            TaskDecision::Break => self.end_pipeline(id, Status::Succeeded, previous, None),
            TaskDecision::Fail { status, error } => {
                let mut error = error.or_else(|| outcome.error.clone()).unwrap_or_else(|| rule_error(&Value::Null));
                if error.facts.is_null() {
                    error.facts = self.move_to_blob(outcome.facts.clone());
                }
                self.end_pipeline(id, status, previous, Some(error))
            }
            TaskDecision::Retry { wait, same_key } => self.retry_task(id, wait, same_key, outcome),
        }
    }

    fn go_to(&mut self, id: FrameId, pc: u32, previous: Value) -> FaultResult {
        self.forget_tries(id)?;
        self.forget_wait_results(id)?;
        let body = self.pipeline_frame_mut(id)?;
        if pc <= body.pc {
            // A task that is reached again is a different effect; so may be everything from here on.
            for visited in pc..=body.pc {
                *body.visits.entry(visited).or_default() += 1;
            }
        }
        body.pc = pc;
        body.attempt = 0;
        body.first_try_at = None;
        body.previous_attempts = None;
        body.group = 0;
        body.call = 0;
        body.sent = false;
        body.previous = previous;
        self.state.agenda.push_back(AgendaItem::Task(id));
        Ok(())
    }

    fn retry_task(&mut self, id: FrameId, wait: Duration, same_key: bool, outcome: &TaskOutcome) -> FaultResult {
        self.watch_task_retry(id);
        let PipelinePosition { task, body, .. } = self.pipeline_frame(id)?;
        let (tries, hidden) = (body.attempt, task.hidden);
        // A step that publishes its firing number also publishes its retries, whatever the task behind it is.
        if !hidden || self.published_firing(id)?.is_some() {
            self.publish_retrying(id, self.task_path(id), tries, wait, &retry_cause(outcome))?;
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

    fn end_pipeline(&mut self, id: FrameId, status: Status, output: Value, error: Option<ErrorInfo>) -> FaultResult {
        let body = self.pipeline_frame_mut(id)?;
        let (inputs, loop_summary) = (std::mem::take(&mut body.inputs), body.loop_summary.take());
        let attempts = body.attempt.max(1);
        self.finish(id, FrameEnd { status, output, error, inputs, attempts, loop_summary })
    }

    /// Ends the whole run on request of a task.
    fn end_run_from(&mut self, id: FrameId, status: Status, error: Option<&Value>) -> FaultResult {
        let message = format!("the run was ended as {} by the definition", status.as_str());
        let default_error = ErrorInfo::new("Terminated", "terminate", message);
        let mut info =
            (status != Status::Succeeded).then(|| error_from_definition(error.unwrap_or(&Value::Null), default_error));
        if let Some(info) = &mut info {
            info.path = self.task_path(id);
        }
        if matches!(status, Status::Failed | Status::TimedOut) {
            self.watch_run_end(id);
        }
        self.end_with(id, Status::Succeeded, Value::Null, None)?;
        self.end_early(Closing { status, error: info, output: Value::Null, own_end: false })
    }
}

/// Turns a failed evaluation into the task's failure, so that its rules and its retry can see it.
fn catch_failure<T>(result: Result<T, ItemStop>) -> Result<Result<T, ErrorInfo>, ItemStop> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(ItemStop::Failed(error)) => Ok(Err(*error)),
        Err(stop @ (ItemStop::Need(_) | ItemStop::Impossible(_))) => Err(stop),
    }
}

impl PipelineFrame {
    /// Returns true if the current task waits for nothing: it is not inside a node that it has entered, and has no
    /// pending wait for an event, time or a child run. (Dispatching checks that no worker holds it.)
    fn may_begin(&self) -> bool {
        let is_waiting = match self.pending_wait.as_deref() {
            Some(PendingWait::Event { .. } | PendingWait::Time | PendingWait::Child { .. }) => true,
            Some(PendingWait::Resolved) | None => false,
        };
        !is_waiting && self.child.is_none()
    }
}

/// Returns true if observers see the task apart from its node. A single action that only computes is published as its
/// node.
fn is_task_of_its_own(pipeline: &Pipeline, task: &Task) -> bool {
    let computes = !matches!(task.action, Action::Effect(_) | Action::Node(_));
    let as_its_node = computes && task.label.is_empty() && pipeline.tasks.len() == 1;
    !(task.hidden || as_its_node)
}

pub(in crate::reduce) fn with_label(path: Arc<str>, label: &str) -> Arc<str> {
    if label.is_empty() { path } else { format!("{path}.{label}").into() }
}
