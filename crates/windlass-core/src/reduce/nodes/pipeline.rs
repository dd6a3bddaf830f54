//! Task after task, with a program counter. Tasks that only compute run right here.

use std::sync::Arc;

use windlass_value::{Duration, Level, Map, Value};

use crate::plan::{Action, Directive, NodeKind, Pipeline, Rule, Task, Write};
use crate::reduce::eval::Locals;
use crate::reduce::nodes::effect::Call;
use crate::reduce::write::unsaid;
use crate::reduce::{Reducer, Stop};
use crate::state::{Body, Closing, Ended, FrameId, Item, OpenJob, PipelineFrame, ScopeId, Timer};
use crate::{Command, EffectKey, ErrorInfo, Job, Status, TaskOutcome};

/// What is to be done with a task that has ended.
enum Next {
    Continue,
    Jump(u32),
    Again { wait: Duration, same_key: bool },
    Break,
    Fail { status: Status, error: Option<ErrorInfo> },
}

impl<'a> Reducer<'a> {
    pub(in crate::reduce) fn enter_pipeline(&mut self, id: FrameId) -> Result<(), Stop> {
        let now = self.now();
        let Some(frame) = self.state.frames.get_mut(id) else { return Ok(()) };
        frame.body = Body::Pipeline(Box::new(PipelineFrame { task_started_at: now, ..PipelineFrame::default() }));
        self.tell_started(id);
        self.state.agenda.push_back(Item::Task(id));
        Ok(())
    }

    pub(super) fn pipeline_of(&self, id: FrameId) -> Option<(&'a Pipeline, &PipelineFrame, ScopeId)> {
        let frame = self.state.frames.get(id)?;
        match (&self.program.node(frame.node).kind, &frame.body) {
            (NodeKind::Pipeline(pipeline), Body::Pipeline(body)) if frame.closing.is_none() => {
                Some((pipeline, body, frame.scope))
            }
            _ => None,
        }
    }

    pub(super) fn pipeline_mut(&mut self, id: FrameId) -> Option<&mut PipelineFrame> {
        match &mut self.state.frames.get_mut(id)?.body {
            Body::Pipeline(body) => Some(body),
            _ => None,
        }
    }

    pub(in crate::reduce) fn run_task(&mut self, id: FrameId) -> Result<(), Stop> {
        let Some((pipeline, body, scope)) = self.pipeline_of(id) else { return Ok(()) };
        let task = &pipeline.tasks[body.pc as usize];
        if body.runs >= self.program.limits.pipeline_task_runs_max {
            let message = format!("the pipeline has run {} tasks without coming to an end", body.runs);
            return Err(ErrorInfo::new("TaskRunsExceeded", "limit", message)
                .hint("look at the jump that never stops, or raise `pipeline_task_runs_max`")
                .into());
        }
        let labelled = pipeline.tasks.len() > 1;
        let locals = labelled.then(|| task_locals(task, body, None));
        let locals = Locals { names: locals.as_ref(), ..Locals::default() };
        match &task.action {
            Action::Evaluate(expression) => {
                let computed = caught(self.eval_with(*expression, scope, locals))?;
                self.task_begun(id);
                self.computed(id, computed)
            }
            Action::Write(write) => {
                let computed = caught(self.write(write, scope, None))?;
                if let Ok(value) = &computed {
                    self.tell_patched(id, write, value);
                }
                self.task_begun(id);
                let named =
                    computed.map(|value| Value::object([("name", Value::Str(write.name.clone())), ("value", value)]));
                self.computed(id, named)
            }
            Action::End { status, error } => {
                let error = error.map(|expression| self.eval(expression, scope)).transpose()?;
                let error = error.map(|error| self.resolve(&error)).transpose()?;
                self.end_from(id, *status, error.as_ref());
                Ok(())
            }
            Action::Effect(effect) => {
                let call = caught(self.next_call(id, effect, scope, locals))?;
                let timeout = task.timeout.as_ref().map(|timeout| self.duration(timeout, scope)).transpose()?;
                match call {
                    Ok(Call::Begins { tool, input }) => {
                        self.task_begun(id);
                        if self.may_call(id) {
                            self.hand_out(id, tool, input, timeout);
                        }
                    }
                    // What the operation may cost was taken when it began.
                    Ok(Call::GoesOn { tool, input }) => {
                        self.task_goes_on(id);
                        self.hand_out(id, tool, input, timeout);
                    }
                    Err(error) => {
                        self.task_begun(id);
                        self.computed(id, Err(error))?;
                    }
                }
                Ok(())
            }
            Action::Node(_) => Err(ErrorInfo::new("NotYet", "task", "a task that enters a node").into()),
            Action::Reply { value, good } => {
                let computed = caught(self.answer(*value, *good, scope, locals))?;
                self.task_begun(id);
                let told = computed.and_then(|answer| self.reply(id, answer));
                self.computed(id, told)
            }
        }
    }

    fn task_begun(&mut self, id: FrameId) {
        let now = self.now();
        if let Some(body) = self.pipeline_mut(id) {
            body.runs += 1;
            body.attempt += 1;
            body.task_started_at = now;
        }
    }

    /// One more call of the same attempt.
    fn task_goes_on(&mut self, id: FrameId) {
        if let Some(body) = self.pipeline_mut(id) {
            body.runs += 1;
        }
    }

    /// A lone task that only computes and has no rules ends its pipeline at once; others take the long way.
    fn computed(&mut self, id: FrameId, computed: Result<Value, ErrorInfo>) -> Result<(), Stop> {
        let Some((pipeline, body, _)) = self.pipeline_of(id) else { return Ok(()) };
        let task = &pipeline.tasks[body.pc as usize];
        if let (1, true, Ok(value)) = (pipeline.tasks.len(), task.rules.is_empty(), &computed) {
            let attempts = body.attempt;
            let (output, inputs) = (value.clone(), Value::Null);
            self.finish(id, Ended { status: Status::Succeeded, output, error: None, inputs, attempts, turns: None });
            return Ok(());
        }
        let outcome = match computed {
            Ok(value) => TaskOutcome::success(value),
            Err(error) => TaskOutcome::failure(error),
        };
        self.state.agenda.push_back(Item::TaskEnded(id, Box::new(outcome)));
        Ok(())
    }

    fn tell_patched(&mut self, id: FrameId, write: &Write, value: &Value) {
        if self.state.frames.get(id).is_some_and(|frame| frame.quiet) {
            return;
        }
        let scope = match write.level {
            Level::Run | Level::Any => "run",
            Level::Step => "step",
            Level::Turn => "turn",
        };
        let patch = Value::object([(write.name.clone(), value.clone())]);
        self.publish_at(id, "ctx.patched", [("scope", Value::from(scope)), ("patch", patch)]);
    }

    /// Makes a job and hands it to a worker.
    fn hand_out(&mut self, id: FrameId, tool: Arc<str>, input: Value, timeout: Option<Duration>) {
        let path = self.path(id);
        let input = self.slim(input);
        let job = self.state.next_job;
        self.state.next_job += 1;
        let worker = self.free_worker();
        let Some(frame) = self.state.frames.get_mut(id) else { return };
        let generation = frame.generation;
        let Body::Pipeline(body) = &mut frame.body else { return };
        body.job = Some(job);
        // What the node was given stays what its operation began with.
        let goes_on = body.again.take().is_some();
        if !goes_on {
            body.sent = true;
            body.tool = Some(tool.clone());
            body.inputs = input.clone();
        }
        let (attempt, visit) = (body.attempt, body.visits.get(&body.pc).copied().unwrap_or(0));
        let label = self.program_task(id).map(|task| task.label.clone()).unwrap_or_default();
        let Some(body) = self.pipeline_mut(id) else { return };
        let (group, call) = (body.group, if goes_on { body.call } else { 0 });
        let path = if label.is_empty() { path } else { format!("{path}.{label}").into() };
        let key = EffectKey { path: path.clone(), generation, visit, group, call };
        let open = OpenJob { frame: id, dispatch: 0, worker, tool, input, key, attempt, timeout, cancelled: None };
        let mut fields = vec![
            ("task", Value::Str(label)),
            ("attempt", Value::from(attempt)),
            ("tool", Value::Str(open.tool.clone())),
        ];
        fields.extend((call > 0).then(|| ("call", Value::from(call))));
        self.publish(path, "task.started", fields);
        self.work.output.commands.push(Command::RunWorker(job_of(job, &open)));
        self.state.jobs.insert(job, open);
    }

    /// After a restart: the same job with the same key, for a new worker.
    pub(in crate::reduce) fn hand_out_again(&mut self, job: u64) {
        let worker = self.free_worker();
        let Some(open) = self.state.jobs.get_mut(&job) else { return };
        open.dispatch += 1;
        open.worker = worker;
        let command = Command::RunWorker(job_of(job, open));
        self.work.output.commands.push(command);
    }

    fn free_worker(&mut self) -> u32 {
        self.state.free_workers.pop_first().unwrap_or_else(|| {
            self.state.workers += 1;
            self.state.workers - 1
        })
    }

    fn program_task(&self, id: FrameId) -> Option<&'a Task> {
        self.pipeline_of(id).map(|(pipeline, body, _)| &pipeline.tasks[body.pc as usize])
    }

    pub(in crate::reduce) fn task_ended(&mut self, id: FrameId, outcome: &TaskOutcome) -> Result<(), Stop> {
        if self.pipeline_of(id).is_none() {
            self.close_if_empty(id);
            return Ok(());
        }
        if let (Some(again), None) = (&outcome.again, &outcome.error) {
            self.call_again_after(id, again);
            return Ok(());
        }
        let (next, rule) = self.decide(id, outcome)?;
        let Some((_, body, scope)) = self.pipeline_of(id) else { return Ok(()) };
        let mut previous = outcome.output.clone();
        let mut writes = Vec::new();
        if let (Some(rule), Some(task)) = (rule, self.program_task(id)) {
            let names = task_locals(task, body, Some(outcome));
            let locals = Locals { names: Some(&names), ..Locals::default() };
            for write in &rule.writes {
                let value = write.value.map(|expression| self.eval_with(expression, scope, locals)).transpose()?;
                writes.push((write, value.unwrap_or_else(|| unsaid(write.op))));
            }
            if let Some(expression) = rule.previous {
                previous = self.eval_with(expression, scope, locals)?;
            }
        }
        for (write, value) in &writes {
            // All that the writes need is at hand before the first is made.
            self.fetch_for(write, scope, value)?;
        }
        for (write, value) in writes {
            let value = self.write(write, scope, Some(value))?;
            self.tell_patched(id, write, &value);
        }
        self.tell_processed(id, outcome);
        self.go(id, next, previous, outcome);
        Ok(())
    }

    /// The first rule that matches; else the task's retry; else success goes on and an error fails.
    fn decide(&mut self, id: FrameId, outcome: &TaskOutcome) -> Result<(Next, Option<&'a Rule>), Stop> {
        let Some((pipeline, body, scope)) = self.pipeline_of(id) else { return Ok((Next::Continue, None)) };
        let (task, tries) = (&pipeline.tasks[body.pc as usize], body.attempt);
        let same_key = outcome.error.as_ref().is_some_and(|error| !error.replied);
        if !task.rules.is_empty() {
            let names = task_locals(task, body, Some(outcome));
            for rule in &task.rules {
                let locals = Locals { names: Some(&names), ..Locals::default() };
                if let Some(when) = rule.when
                    && !self.condition(when, scope, locals)?
                {
                    continue;
                }
                let next = match &rule.directive {
                    Directive::Continue => Next::Continue,
                    Directive::Jump(to) => Next::Jump(*to),
                    Directive::Break => Next::Break,
                    Directive::Fail { status, error } => {
                        let error = error.map(|error| self.eval_with(error, scope, locals)).transpose()?;
                        let error = error.map(|error| self.resolve(&error)).transpose()?;
                        Next::Fail { status: *status, error: error.as_ref().map(ruled) }
                    }
                    Directive::Retry(retry) => {
                        let reason = outcome
                            .error
                            .clone()
                            .unwrap_or_else(|| ErrorInfo::new("rule", "rule", "a rule asks for it"));
                        match self.retry_after(retry, &reason, tries, scope)? {
                            Some(wait) => Next::Again { wait: not_before(outcome, wait), same_key },
                            None => continue,
                        }
                    }
                };
                return Ok((next, Some(rule)));
            }
        }
        let Some(error) = &outcome.error else { return Ok((Next::Continue, None)) };
        let wait = match &task.retry {
            Some(retry) => self.retry_after(retry, error, tries, scope)?,
            None => None,
        };
        let next = match wait {
            Some(wait) => Next::Again { wait: not_before(outcome, wait), same_key },
            None => Next::Fail { status: Status::Failed, error: None },
        };
        Ok((next, None))
    }

    fn tell_processed(&mut self, id: FrameId, outcome: &TaskOutcome) {
        let Some((pipeline, body, _)) = self.pipeline_of(id) else { return };
        if self.state.frames.get(id).is_some_and(|frame| frame.quiet) {
            return;
        }
        let task = &pipeline.tasks[body.pc as usize];
        let only_computes = !matches!(task.action, Action::Effect(_));
        if only_computes && pipeline.tasks.len() == 1 {
            return;
        }
        let duration = self.now().since(body.task_started_at).as_ms();
        let status = if outcome.error.is_some() { "error" } else { "success" };
        let mut told = vec![("status", Value::from(status)), ("result", outcome.output.clone())];
        told.extend(outcome.error.as_ref().map(|error| ("error", error.to_value())));
        let meta = Value::object([("attempt", Value::from(body.attempt)), ("duration", Value::from(duration))]);
        told.push(("meta", meta));
        let told = told.into_iter().map(|(name, value)| (name, self.slim(value))).collect::<Vec<_>>();
        let Some((_, body, _)) = self.pipeline_of(id) else { return };
        let attempt = body.attempt;
        self.publish_at(
            id,
            "task.processed",
            [
                ("task", Value::Str(task.label.clone())),
                ("attempt", Value::from(attempt)),
                ("outcome", Value::object(told)),
            ],
        );
    }

    fn go(&mut self, id: FrameId, next: Next, previous: Value, outcome: &TaskOutcome) {
        let Some((pipeline, body, _)) = self.pipeline_of(id) else { return };
        let (pc, last) = (body.pc, body.pc as usize + 1 >= pipeline.tasks.len());
        match next {
            Next::Continue if last => self.pipeline_ends(id, Status::Succeeded, previous, None),
            Next::Continue => self.go_to(id, pc + 1, previous),
            Next::Jump(to) => self.go_to(id, to, previous),
            Next::Break => self.pipeline_ends(id, Status::Succeeded, previous, None),
            Next::Fail { status, error } => {
                let error = error.or_else(|| outcome.error.clone()).unwrap_or_else(|| ruled(&Value::Null));
                self.pipeline_ends(id, status, previous, Some(error));
            }
            Next::Again { wait, same_key } => self.go_again(id, wait, same_key, outcome),
        }
    }

    fn go_to(&mut self, id: FrameId, pc: u32, previous: Value) {
        if let Some(body) = self.pipeline_mut(id) {
            if pc <= body.pc {
                // A task that is reached again is another effect; everything from here on may be.
                for visited in pc..=body.pc {
                    *body.visits.entry(visited).or_default() += 1;
                }
            }
            body.pc = pc;
            body.attempt = 0;
            body.group = 0;
            body.call = 0;
            body.sent = false;
            body.previous = previous;
            self.state.agenda.push_back(Item::Task(id));
        }
    }

    fn go_again(&mut self, id: FrameId, wait: Duration, same_key: bool, outcome: &TaskOutcome) {
        let tries = self.pipeline_of(id).map_or(1, |(_, body, _)| body.attempt);
        let because = outcome.error.clone().unwrap_or_else(|| ErrorInfo::new("rule", "rule", "a rule asks for it"));
        self.tell_retrying(id, tries, wait, &because);
        let key = self.set_timer(self.now() + wait, Timer::Alarm(id));
        if let Some(frame) = self.state.frames.get_mut(id) {
            frame.alarm = Some(key);
        }
        if let Some(body) = self.pipeline_mut(id)
            && !same_key
        {
            body.group += 1;
            body.call = 0;
            body.sent = false;
        }
    }

    fn pipeline_ends(&mut self, id: FrameId, status: Status, output: Value, error: Option<ErrorInfo>) {
        let Some(body) = self.pipeline_mut(id) else { return };
        let (inputs, attempts) = (std::mem::take(&mut body.inputs), body.attempt.max(1));
        self.finish(id, Ended { status, output, error, inputs, attempts, turns: None });
    }

    /// A task that ends the whole run.
    fn end_from(&mut self, id: FrameId, status: Status, error: Option<&Value>) {
        let message = format!("the run was ended as {} by the definition", status.as_str());
        let otherwise = ErrorInfo::new("Terminated", "terminate", message);
        let mut info = (status != Status::Succeeded).then(|| written(error.unwrap_or(&Value::Null), otherwise));
        if let Some(info) = &mut info {
            info.path = self.path(id);
        }
        self.end_with(id, Status::Succeeded, Value::Null, None);
        self.end_early(Closing { status, error: info, output: Value::Null, own: false });
    }
}

/// An error as a definition writes it, `{code, message}`; what it leaves out is as in `otherwise`.
fn written(error: &Value, mut otherwise: ErrorInfo) -> ErrorInfo {
    let text = |key: &str| error.get(key).and_then(Value::as_str).map(Arc::from);
    otherwise.code = text("code").unwrap_or(otherwise.code);
    otherwise.message = text("message").unwrap_or(otherwise.message);
    otherwise
}

/// The error of a rule that fails its step.
fn ruled(error: &Value) -> ErrorInfo {
    written(error, ErrorInfo::new("RuleFailed", "rule", "a rule fails the step"))
}

/// Whoever refused may have said when to come back: not earlier than that.
fn not_before(outcome: &TaskOutcome, wait: Duration) -> Duration {
    let asked = outcome.meta.get("retryAfterMs").and_then(Value::as_int).and_then(|ms| u64::try_from(ms).ok());
    wait.max(Duration::from_ms(asked.unwrap_or(0)))
}

/// An evaluation that fails is the task's failure, so that its rules and its retry can see it.
fn caught<T>(result: Result<T, Stop>) -> Result<Result<T, ErrorInfo>, Stop> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Stop::Failed(error)) => Ok(Err(*error)),
        Err(need) => Err(need),
    }
}

fn job_of(job: u64, open: &OpenJob) -> Job {
    Job {
        job,
        dispatch: open.dispatch,
        worker: open.worker,
        tool: open.tool.clone(),
        input: open.input.clone(),
        key: open.key.clone(),
        attempt: open.attempt,
        path: open.key.path.clone(),
        timeout: open.timeout,
    }
}

/// The names a task's expressions see besides the scope's: `_task`, `_attempt`, `_prev`, `outcome`.
fn task_locals(task: &Task, body: &PipelineFrame, outcome: Option<&TaskOutcome>) -> Map {
    let mut names = Map::new();
    names.insert("_task", task.label.clone());
    names.insert("_attempt", body.attempt.max(1));
    names.insert("_prev", body.previous.clone());
    if let Some(outcome) = outcome {
        let status = if outcome.error.is_some() { "error" } else { "success" };
        let mut told = Map::new();
        told.insert("status", status);
        told.insert("result", outcome.output.clone());
        told.insert("error", outcome.error.as_ref().map_or(Value::Null, ErrorInfo::to_value));
        told.insert("meta", outcome.meta.clone());
        names.insert("outcome", told);
    }
    names
}
