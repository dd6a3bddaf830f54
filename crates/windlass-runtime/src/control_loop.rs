//! The control loop: drain the tick buffer, reduce, journal, execute commands, wait for the next completion.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::{
    Command, ErrorInfo, ExpectedValue, Job, PartialTick, Program, Reduced, ResumeData, RunResult, State, SuspendedOn,
    TaskOutcome, Tick, TickKind, TickOutput, Values, reduce,
};
use windlass_value::{BlobHash, Map, Timestamp, Value};

use crate::RuntimeError;
use crate::adapter::{
    Adapter, ChildStart, Children, FinalizedJob, Journal, NextInput, Outward, TickSource, TimeSource, WaitCondition,
    Workers,
};
use crate::blobs::BlobCache;
use crate::codec;
use crate::recovery::{CHUNKED_LIST_LEVELS, MAX_RESOLVED_LEVELS, holds_stored};

/// The capacity that a reused command list keeps.
const COMMAND_LIST_CAPACITY: usize = 64;

/// The control loop of one run over an adapter `A`.
pub struct ControlLoop<A> {
    program: Arc<Program>,
    state: State,
    blobs: BlobCache,
    adapter: A,
    buffer: VecDeque<TickKind>,
    /// Commands whose ticks are not durable yet.
    pending_commands: Vec<Command>,
    /// An empty list for the commands of the next tick, reused to avoid an allocation.
    spare: Vec<Command>,
    /// Jobs whose results are in ticks that are not durable yet.
    finalized: Vec<FinalizedJob>,
    /// A close was requested while the loop was computing.
    closing: bool,
    /// Callers that requested the current state: they get it when all ticks that led to it are durable.
    snapshot_requests: Vec<oneshot::Sender<Vec<u8>>>,
}

/// A tick that needs stored values before it can be reduced.
struct TickNeedingBlobs {
    tick: Tick,
    resume: PartialTick,
    hashes: Vec<BlobHash>,
}

/// The reason why the loop has ended.
#[derive(Debug)]
pub enum LoopExit {
    /// The run has ended with this result.
    Ended(RunResult),
    /// The run waits in the store for time or a signal.
    Evicted,
    /// The process is shutting down; the next process that opens the store resumes the run.
    Closed,
}

impl<A: Adapter> ControlLoop<A> {
    /// `first` are the initial ticks: the start event, or a restart after a crash.
    pub fn new(
        program: Arc<Program>,
        state: State,
        blobs: BlobCache,
        adapter: A,
        first: Vec<TickKind>,
    ) -> ControlLoop<A> {
        let (pending_commands, finalized) = (Vec::new(), Vec::new());
        ControlLoop {
            program,
            state,
            blobs,
            adapter,
            buffer: first.into(),
            pending_commands,
            finalized,
            closing: false,
            spare: Vec::new(),
            snapshot_requests: Vec::new(),
        }
    }

    /// Runs until the run ends, is evicted or the process shuts down. Closes the adapter in every case.
    pub async fn run(mut self) -> Result<LoopExit, RuntimeError> {
        let result = self.run_until_exit().await;
        self.adapter.close().await;
        result
    }

    async fn run_until_exit(&mut self) -> Result<LoopExit, RuntimeError> {
        self.take_stored_messages().await?;
        loop {
            self.drain().await?;
            self.flush_and_execute().await?;
            if let Some(result) = self.state.result() {
                let result = result.clone();
                self.adapter.outward().ended(&result);
                return Ok(LoopExit::Ended(result));
            }
            if self.closing {
                return Ok(LoopExit::Closed);
            }
            if !self.buffer.is_empty() {
                continue;
            }
            let quiet = self.state.is_quiet();
            let waiting = WaitCondition {
                until: self.state.next_due(),
                quiet,
                children: !self.state.calls.is_empty(),
                paused: self.state.paused,
                poll: false,
                idle_event_pending: self.state.is_idle() && !self.state.idle_published,
            };
            match self.adapter.ticks().wait_for_next_task(waiting).await {
                NextInput::Ticks(ticks) => self.buffer.extend(ticks),
                NextInput::Timer => self.buffer.push_back(TickKind::TimerDue),
                NextInput::Snapshot(reply) => self.snapshot_requests.push(reply),
                NextInput::Nothing | NextInput::Inbox => {}
                NextInput::Evict => {
                    self.adapter.journal().evict(&self.state, &mut self.blobs).await?;
                    return Ok(LoopExit::Evicted);
                }
                NextInput::Failed(error) => return Err(error),
                NextInput::Closed => return Ok(LoopExit::Closed),
            }
        }
    }

    /// Takes messages that arrived while the run had no owner: they come before anything that the run does by itself.
    async fn take_stored_messages(&mut self) -> Result<(), RuntimeError> {
        // A run that has just been started has none.
        if !matches!(self.buffer.front(), Some(TickKind::Restart { .. } | TickKind::TimerDue)) {
            return Ok(());
        }
        match self.adapter.ticks().wait_for_next_task(WaitCondition::poll()).await {
            NextInput::Ticks(ticks) => {
                let later = self.buffer.split_off(1);
                self.buffer.extend(ticks);
                self.buffer.extend(later);
            }
            NextInput::Failed(error) => return Err(error),
            NextInput::Closed => self.closing = true,
            NextInput::Snapshot(reply) => self.snapshot_requests.push(reply),
            NextInput::Timer | NextInput::Inbox | NextInput::Nothing | NextInput::Evict => {}
        }
        Ok(())
    }

    /// Reduces all buffered ticks. During a long computation it polls for external input and commits what is overdue.
    async fn drain(&mut self) -> Result<(), RuntimeError> {
        while let Some(kind) = self.buffer.front() {
            let long = matches!(kind, TickKind::Proceed);
            if let Some(needs_blobs) = self.reduce_next()? {
                // Boxed: this future is rarely needed and would be moved with every iteration of the loop.
                Box::pin(self.reduce_fetching(*needs_blobs)).await?;
            }
            if self.state.result().is_some() {
                break;
            }
            if long && !Box::pin(self.poll_input()).await? {
                break;
            }
        }
        Ok(())
    }

    /// Polls for input in the middle of a long computation. Returns false if a close was requested.
    async fn poll_input(&mut self) -> Result<bool, RuntimeError> {
        if self.has_pending_effects() || self.adapter.journal().wants_flush() {
            self.flush_and_execute().await?;
        }
        match self.adapter.ticks().wait_for_next_task(WaitCondition::poll()).await {
            NextInput::Ticks(ticks) => ticks.into_iter().rev().for_each(|tick| self.buffer.push_front(tick)),
            NextInput::Closed => self.closing = true,
            NextInput::Failed(error) => return Err(error),
            NextInput::Snapshot(reply) => self.snapshot_requests.push(reply),
            NextInput::Timer | NextInput::Inbox | NextInput::Nothing | NextInput::Evict => {}
        }
        Ok(!self.closing)
    }

    /// Reduces the first tick of the buffer, if all stored values it needs are available.
    fn reduce_next(&mut self) -> Result<Option<Box<TickNeedingBlobs>>, RuntimeError> {
        let Some(kind) = self.buffer.pop_front() else { return Ok(None) };
        let (at, clock_step) = self.next_time();
        let seed = self.adapter.time().entropy();
        // A run with other jobs in flight is not idle anyway.
        let more = self.state.jobs.len() <= 1 && self.adapter.ticks().has_pending_input(!self.buffer.is_empty());
        let mut tick = Tick { at, seed, kind, more_pending: more, clock_step };
        self.externalize_large_values(&mut tick.kind);
        if let TickKind::StepResult { job, lease_epoch, .. } = tick.kind {
            let accepted = self.state.jobs.get(&job).is_some_and(|open| open.is_dispatched_under(lease_epoch));
            self.finalized.push(FinalizedJob { job, lease_epoch, accepted });
        }
        let mut resume = PartialTick::with_commands(std::mem::take(&mut self.spare));
        match reduce(&self.program, &mut self.state, &tick, &mut self.blobs, &mut resume)? {
            Reduced::Done(output) => self.apply_output(&tick, output),
            Reduced::NeedBlobs(hashes) => return Ok(Some(Box::new(TickNeedingBlobs { tick, resume, hashes }))),
        }
        Ok(None)
    }

    /// Returns the time of the next tick, and the step by which the clock was set since the last one. The time was read
    /// after that step and before any other.
    fn next_time(&mut self) -> (Timestamp, i64) {
        let time = self.adapter.time();
        let mut clock_step = time.take_clock_step();
        let mut now = time.get_now();
        loop {
            match time.take_clock_step() {
                0 => break,
                later => (clock_step, now) = (clock_step.saturating_add(later), time.get_now()),
            }
        }
        let earliest = Timestamp(self.state.now.0.saturating_add(clock_step));
        (now.max(earliest), clock_step)
    }

    /// Reduces a tick, loading stored values as often as necessary.
    async fn reduce_fetching(&mut self, pending: TickNeedingBlobs) -> Result<(), RuntimeError> {
        let TickNeedingBlobs { tick, mut resume, mut hashes } = pending;
        let output = loop {
            for hash in std::mem::take(&mut hashes) {
                let value = self.adapter.journal().load_blob(&hash).await?;
                let value = value.ok_or_else(|| RuntimeError::MissingBlob(hash.to_string()))?;
                let size = value.size_up_to(usize::MAX / 2);
                self.blobs.insert(hash, value, size);
            }
            match reduce(&self.program, &mut self.state, &tick, &mut self.blobs, &mut resume)? {
                Reduced::Done(output) => break output,
                Reduced::NeedBlobs(more) => hashes = more,
            }
        };
        self.blobs.unpin();
        self.apply_output(&tick, output);
        Ok(())
    }

    fn apply_output(&mut self, tick: &Tick, mut output: TickOutput) {
        self.adapter.journal().on_tick(tick, &output, &self.state);
        for command in output.commands.drain(..) {
            match command {
                // One is enough to proceed, however many ticks have left work behind.
                Command::QueueEvent(TickKind::Proceed) if self.buffer.back() == Some(&TickKind::Proceed) => {}
                Command::QueueEvent(tick) => self.buffer.push_back(tick),
                other => self.pending_commands.push(other),
            }
        }
        output.commands.shrink_to(COMMAND_LIST_CAPACITY);
        self.spare = output.commands;
    }

    /// Replaces values that are too large for a tick by references; for a start's input, each property separately.
    fn externalize_large_values(&mut self, kind: &mut TickKind) {
        let max_inline_bytes = self.program.limits.max_inline_bytes;
        let (blobs, parameters) = (&mut self.blobs, &self.program.plan.parameters);
        let mut externalize = |value: &mut Value| {
            if value.size_up_to(max_inline_bytes) > max_inline_bytes {
                *value = Value::Stored(Arc::new(blobs.put(value)));
            }
        };
        match kind {
            TickKind::StepResult { outcome, .. } => {
                externalize(&mut outcome.output);
                externalize(&mut outcome.private);
                if let Value::Map(facts) = &mut outcome.facts {
                    Arc::make_mut(facts).values_mut().for_each(&mut externalize);
                }
                if let Some(again) = &mut outcome.next_call {
                    externalize(&mut again.input);
                }
                if let Some(side_outputs) = &mut outcome.side_outputs {
                    side_outputs.sends.iter_mut().for_each(|sent| externalize(&mut sent.payload));
                    for change in &mut side_outputs.state_changes {
                        externalize(&mut change.value);
                        if let ExpectedValue::Value(was) = &mut change.expected {
                            externalize(was);
                        }
                    }
                }
                if let Some(suspension) = &mut outcome.suspension
                    && let SuspendedOn::Checkpoint(value) | SuspendedOn::Child { input: value, .. } =
                        &mut suspension.waits_for
                {
                    externalize(value);
                }
            }
            TickKind::CallResult { outcome, .. } => externalize(&mut outcome.output),
            TickKind::AddEvent { payload, trigger_metadata: metadata, .. } => {
                if let Value::Map(parts) = metadata {
                    Arc::make_mut(parts).values_mut().for_each(&mut externalize);
                }
                let Value::Map(map) = payload else { return externalize(payload) };
                // An object that is merged into another must be complete when the run starts.
                let merged = |key: &str| parameters.iter().any(|own| own.merges_into(key));
                for (key, value) in Arc::make_mut(map).iter_mut() {
                    if !(matches!(value, Value::Map(_)) && merged(key)) {
                        externalize(value);
                    }
                }
            }
            _ => {}
        }
    }

    fn has_pending_effects(&self) -> bool {
        self.pending_commands.iter().any(|command| !matches!(command, Command::PublishEvent(_)))
    }

    /// Commits the journal, then executes the pending commands.
    async fn flush_and_execute(&mut self) -> Result<(), RuntimeError> {
        self.adapter.journal().flush(&self.state, &mut self.blobs).await?;
        for request in std::mem::take(&mut self.snapshot_requests) {
            // The caller may have gone.
            let _ = request.send(codec::state_bytes(&self.state).0);
        }
        for step in self.finalized.drain(..) {
            self.adapter.workers().finalize_step(step);
        }
        // Executing commands adds no pending ones, so the list can be reused.
        let mut commands = std::mem::take(&mut self.pending_commands);
        for command in commands.drain(..) {
            if let Some(job) = self.execute(command) {
                let input = Box::pin(self.resolve_value(&job.input, MAX_RESOLVED_LEVELS)).await?;
                let resumed = Box::pin(self.resolve_answers(job.resumed.clone())).await?;
                self.adapter.workers().run_worker(Job { resumed, ..job }, input);
            }
        }
        commands.shrink_to(COMMAND_LIST_CAPACITY);
        self.pending_commands = commands;
        self.adapter.workers().on_commit_applied();
        Ok(())
    }

    /// Executes a command. Returns a job whose input has to be resolved first.
    fn execute(&mut self, command: Command) -> Option<Job> {
        match command {
            Command::QueueEvent(tick) => self.buffer.push_back(tick),
            Command::RunWorker(job) => match self.state.jobs.get(&job.job) {
                Some(open) if open.cancelled.is_some() => self.report_cancelled_before_start(&job),
                Some(open) if open.is_dispatched_under(job.lease_epoch) && self.is_input_too_large(&job) => {
                    self.refuse_input(&job)
                }
                Some(open) if open.is_dispatched_under(job.lease_epoch) && holds_any_stored(&job) => return Some(job),
                Some(open) if open.is_dispatched_under(job.lease_epoch) => {
                    let input = job.input.clone();
                    self.adapter.workers().run_worker(job, input);
                }
                // A later tick of the same commit has ended it or handed it out again.
                _ => {}
            },
            Command::CancelWorker { job } => self.adapter.workers().cancel_worker(job),
            Command::EndLease { job, lease_epoch } => self.adapter.workers().end_lease(job, lease_epoch),
            Command::StartChild { call, definition, input, key } => {
                // A later tick of the same commit may have cancelled it.
                if self.state.calls.contains_key(&call) {
                    let id = codec::child_id(&self.state.run.id, &key);
                    self.adapter.children().start_child(ChildStart { call, id, definition, input, key });
                }
            }
            Command::CancelChild { key } => {
                self.adapter.children().cancel_child(&codec::child_id(&self.state.run.id, &key))
            }
            Command::PublishEvent(event) => self.adapter.outward().write_to_event_stream(event),
            Command::Reply(reply) => self.adapter.outward().replied(&reply),
            // The end of the run is in its state, where the loop finds it.
            Command::CompleteRun(_) | Command::Halt(_) | Command::FailWorkflow(_) => {}
        }
        None
    }

    /// Reports a job as cancelled that was cancelled before this commit was executed: it is never started.
    fn report_cancelled_before_start(&mut self, job: &Job) {
        let error = ErrorInfo::new("Cancelled", "cancelled", "the task was cancelled before it started");
        let outcome = TaskOutcome::failure(error);
        self.buffer.push_back(TickKind::StepResult { job: job.job, lease_epoch: job.lease_epoch, outcome });
    }

    fn is_input_too_large(&self, job: &Job) -> bool {
        job.input.stored_bytes() > self.program.limits.max_expression_output_bytes as u64
    }

    /// Refuses a job whose input is too large. References can stand for more than fits in memory: such an input is
    /// never resolved.
    fn refuse_input(&mut self, job: &Job) {
        let (bytes, max) = (job.input.stored_bytes(), self.program.limits.max_expression_output_bytes);
        let message = format!("the task's input has {bytes} bytes; the limit is {max}");
        let hint = "reduce the input, or raise `limits.max_expression_output_bytes` in windlass.toml";
        let error = ErrorInfo::new("InputTooLarge", "limit", message).hint(hint);
        let outcome = TaskOutcome::failure(error);
        self.buffer.push_back(TickKind::StepResult { job: job.job, lease_epoch: job.lease_epoch, outcome });
    }

    async fn resolve_answers(
        &mut self,
        resumed: Option<Arc<ResumeData>>,
    ) -> Result<Option<Arc<ResumeData>>, RuntimeError> {
        let Some(mut resumed) = resumed else { return Ok(None) };
        for answer in &mut Arc::make_mut(&mut resumed).answers {
            answer.value = Box::pin(self.resolve_value(&answer.value, MAX_RESOLVED_LEVELS)).await?;
        }
        Ok(Some(resumed))
    }

    /// Resolves stored values inside a value, since a tool gets plain values.
    async fn resolve_value(&mut self, value: &Value, levels: usize) -> Result<Value, RuntimeError> {
        let below = levels.saturating_sub(1);
        if !holds_stored(value) {
            return Ok(value.clone());
        }
        match value {
            Value::Stored(_) if levels < CHUNKED_LIST_LEVELS => Ok(value.clone()),
            Value::Stored(stored) => {
                let content = match self.blobs.get(&stored.hash) {
                    Some(content) => content,
                    None => self
                        .adapter
                        .journal()
                        .load_blob(&stored.hash)
                        .await?
                        .ok_or_else(|| RuntimeError::MissingBlob(stored.hash.to_string()))?,
                };
                let content = Box::pin(self.resolve_value(&content, below)).await?;
                match (stored.chunked, &content) {
                    (true, Value::List(chunks)) => {
                        let items = chunks.iter().flat_map(|chunk| chunk.as_list().unwrap_or_default()).cloned();
                        Ok(Value::list(items.collect()))
                    }
                    _ => Ok(content),
                }
            }
            Value::List(items) => {
                let mut resolved = Vec::with_capacity(items.len());
                for item in items.iter() {
                    resolved.push(Box::pin(self.resolve_value(item, below)).await?);
                }
                Ok(Value::list(resolved))
            }
            Value::Map(map) => {
                let mut resolved = Map::with_capacity(map.len());
                for (key, value) in map.iter() {
                    resolved.insert(key.clone(), Box::pin(self.resolve_value(value, below)).await?);
                }
                Ok(Value::map(resolved))
            }
            plain => Ok(plain.clone()),
        }
    }
}

fn holds_any_stored(job: &Job) -> bool {
    let answers = job.resumed.iter().flat_map(|resumed| &resumed.answers);
    holds_stored(&job.input) || answers.map(|answer| &answer.value).any(holds_stored)
}
