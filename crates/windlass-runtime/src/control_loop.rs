//! The control loop: drain the tick buffer, reduce, journal, execute commands, wait for the next completion.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::{
    SuspendedOn, Command, ErrorInfo, Job, Output, Program, Reduced, Resume, ResumeData, RunResult, State, TaskOutcome, Tick,
    TickKind, Values, Was, reduce,
};
use windlass_value::{BlobHash, Map, Value};

use crate::RuntimeError;
use crate::adapter::{
    Adapter, ChildStart, Children, Finalized, Journal, Next, Outward, TickSource, TimeSource, Waiting, Workers,
};
use crate::blobs::BlobCache;
use crate::codec;
use crate::recovery::{LEVELS_OF_A_LIST, MAX_RESOLVED_LEVELS, holds_stored};

/// Commands for which a list that is used again keeps its room.
const LISTED_AT_ONCE: usize = 64;

pub struct ControlLoop<A> {
    program: Arc<Program>,
    state: State,
    blobs: BlobCache,
    adapter: A,
    buffer: VecDeque<TickKind>,
    /// Commands whose ticks are not durable yet.
    owed: Vec<Command>,
    /// A list that the next tick's commands go into: it was made once.
    spare: Vec<Command>,
    /// Jobs whose results are in ticks that are not durable yet.
    finalized: Vec<Finalized>,
    /// Somebody wants the loop to let go, and said so while it was computing.
    closing: bool,
    /// Who wants the state as it stands: they get it when all that led to it is durable.
    asked: Vec<oneshot::Sender<Vec<u8>>>,
}

/// A tick that needs stored values first.
struct Unready {
    tick: Tick,
    resume: Resume,
    hashes: Vec<BlobHash>,
}

/// Why the loop has let go of a run.
#[derive(Debug)]
pub enum Exit {
    Ended(RunResult),
    /// It waits in the store for time or a signal.
    Evicted,
    /// The process goes down; whoever opens the store next goes on with it.
    Closed,
}

impl<A: Adapter> ControlLoop<A> {
    /// `first` are the ticks to begin with: the start event, or a restart after a crash.
    pub fn new(
        program: Arc<Program>,
        state: State,
        blobs: BlobCache,
        adapter: A,
        first: Vec<TickKind>,
    ) -> ControlLoop<A> {
        let (owed, finalized) = (Vec::new(), Vec::new());
        ControlLoop {
            program,
            state,
            blobs,
            adapter,
            buffer: first.into(),
            owed,
            finalized,
            closing: false,
            spare: Vec::new(),
            asked: Vec::new(),
        }
    }

    pub async fn run(mut self) -> Result<Exit, RuntimeError> {
        let result = self.turn_until_exit().await;
        self.adapter.close().await;
        result
    }

    async fn turn_until_exit(&mut self) -> Result<Exit, RuntimeError> {
        self.take_kept_messages().await?;
        loop {
            self.drain().await?;
            self.settle().await?;
            if let Some(result) = self.state.result() {
                let result = result.clone();
                self.adapter.outward().ended(&result);
                return Ok(Exit::Ended(result));
            }
            if self.closing {
                return Ok(Exit::Closed);
            }
            if !self.buffer.is_empty() {
                continue;
            }
            let quiet = self.state.is_quiet();
            let waiting = Waiting {
                until: self.state.next_due(),
                quiet,
                children: !self.state.calls.is_empty(),
                paused: self.state.paused,
                poll: false,
                idle_event_pending: self.state.is_idle() && !self.state.idle_published,
            };
            match self.adapter.ticks().wait_for_next_task(waiting).await {
                Next::Ticks(ticks) => self.buffer.extend(ticks),
                Next::Timer => self.buffer.push_back(TickKind::TimerDue),
                Next::Snapshot(reply) => self.asked.push(reply),
                Next::Nothing | Next::Inbox => {}
                Next::Evict => {
                    self.adapter.journal().evict(&self.state, &mut self.blobs).await?;
                    return Ok(Exit::Evicted);
                }
                Next::Failed(error) => return Err(error),
                Next::Closed => return Ok(Exit::Closed),
            }
        }
    }

    /// What was asked of the run while nobody had it comes before anything it would do by itself.
    async fn take_kept_messages(&mut self) -> Result<(), RuntimeError> {
        // A run that has just been started has none.
        if !matches!(self.buffer.front(), Some(TickKind::Restart | TickKind::TimerDue)) {
            return Ok(());
        }
        match self.adapter.ticks().wait_for_next_task(Waiting::poll()).await {
            Next::Ticks(ticks) => {
                let later = self.buffer.split_off(1);
                self.buffer.extend(ticks);
                self.buffer.extend(later);
            }
            Next::Failed(error) => return Err(error),
            Next::Closed => self.closing = true,
            Next::Snapshot(reply) => self.asked.push(reply),
            Next::Timer | Next::Inbox | Next::Nothing | Next::Evict => {}
        }
        Ok(())
    }

    /// Reduces all buffered ticks. A run that computes for long is looked after in between: outside input is let in, and
    /// what is overdue becomes durable.
    async fn drain(&mut self) -> Result<(), RuntimeError> {
        while let Some(kind) = self.buffer.front() {
            let long = matches!(kind, TickKind::Proceed);
            if let Some(unready) = self.reduce_next()? {
                // Boxed: what is rarely needed would be moved with every turn of the loop.
                Box::pin(self.reduce_fetching(*unready)).await?;
            }
            if self.state.result().is_some() {
                break;
            }
            if long && !Box::pin(self.look_around()).await? {
                break;
            }
        }
        Ok(())
    }

    /// In the middle of a long computation. False: somebody wants the loop to let go.
    async fn look_around(&mut self) -> Result<bool, RuntimeError> {
        if self.owes_effects() || self.adapter.journal().wants_flush() {
            self.settle().await?;
        }
        match self.adapter.ticks().wait_for_next_task(Waiting::poll()).await {
            Next::Ticks(ticks) => ticks.into_iter().rev().for_each(|tick| self.buffer.push_front(tick)),
            Next::Closed => self.closing = true,
            Next::Failed(error) => return Err(error),
            Next::Snapshot(reply) => self.asked.push(reply),
            Next::Timer | Next::Inbox | Next::Nothing | Next::Evict => {}
        }
        Ok(!self.closing)
    }

    /// Reduces the first tick of the buffer, if all it needs is at hand.
    fn reduce_next(&mut self) -> Result<Option<Box<Unready>>, RuntimeError> {
        let at = self.adapter.time().get_now().max(self.state.now);
        let seed = self.adapter.time().entropy();
        let Some(kind) = self.buffer.pop_front() else { return Ok(None) };
        // A run with other jobs out is not idle anyway.
        let more = self.state.jobs.len() <= 1 && self.adapter.ticks().more_comes(!self.buffer.is_empty());
        let mut tick = Tick { at, seed, kind, more };
        self.slim(&mut tick.kind);
        if let TickKind::StepResult { job, lease_epoch: dispatch, .. } = tick.kind {
            let accepted = self.state.jobs.get(&job).is_some_and(|open| open.is_dispatched_under(dispatch));
            self.finalized.push(Finalized { job, lease_epoch: dispatch, accepted: counts: accepted });
        }
        let mut resume = Resume::with(std::mem::take(&mut self.spare));
        match reduce(&self.program, &mut self.state, &tick, &mut self.blobs, &mut resume)? {
            Reduced::Done(output) => self.reduced(&tick, output),
            Reduced::NeedBlobs(hashes) => return Ok(Some(Box::new(Unready { tick, resume, hashes }))),
        }
        Ok(None)
    }

    /// Reduces a tick, fetching stored values as often as it takes.
    async fn reduce_fetching(&mut self, unready: Unready) -> Result<(), RuntimeError> {
        let Unready { tick, mut resume, mut hashes } = unready;
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
        self.reduced(&tick, output);
        Ok(())
    }

    fn reduced(&mut self, tick: &Tick, mut output: Output) {
        self.adapter.journal().on_tick(tick, &output, &self.state);
        for command in output.commands.drain(..) {
            match command {
                // One is enough to go on, however many ticks have left work behind.
                Command::QueueEvent(TickKind::Proceed) if self.buffer.back() == Some(&TickKind::Proceed) => {}
                Command::QueueEvent(tick) => self.buffer.push_back(tick),
                other => self.owed.push(other),
            }
        }
        output.commands.shrink_to(LISTED_AT_ONCE);
        self.spare = output.commands;
    }

    /// What is too large to travel inside a tick becomes a reference; of a start's input, each property by itself.
    fn slim(&mut self, kind: &mut TickKind) {
        let max_inline_bytes = self.program.limits.max_inline_bytes;
        let (blobs, parameters) = (&mut self.blobs, &self.program.plan.parameters);
        let mut slim = |value: &mut Value| {
            if value.size_up_to(max_inline_bytes) > max_inline_bytes {
                *value = Value::Stored(Arc::new(blobs.put(value)));
            }
        };
        match kind {
            TickKind::StepResult { outcome, .. } => {
                slim(&mut outcome.output);
                if let Value::Map(facts) = &mut outcome.facts {
                    Arc::make_mut(facts).values_mut().for_each(&mut slim);
                }
                if let Some(again) = &mut outcome.again {
                    slim(&mut again.input);
                }
                if let Some(side_outputs) = &mut outcome.side_outputs {
                    side_outputs.sends.iter_mut().for_each(|sent| slim(&mut sent.payload));
                    for change in &mut side_outputs.state_changes {
                        slim(&mut change.value);
                        if let Was::Value(was) = &mut change.was {
                            slim(was);
                        }
                    }
                }
                if let Some(suspension) = &mut outcome.suspension
                    && let SuspendedOn::Checkpoint(value) | SuspendedOn::Child { input: value, .. } = &mut suspension.waits_for
                {
                    slim(value);
                }
            }
            TickKind::CallResult { outcome, .. } => slim(&mut outcome.output),
            TickKind::AddEvent { payload, beside, .. } => {
                if let Value::Map(parts) = beside {
                    Arc::make_mut(parts).values_mut().for_each(&mut slim);
                }
                let Value::Map(map) = payload else { return slim(payload) };
                // An object that is laid over another must be seen whole when the run starts.
                let merged = |key: &str| parameters.iter().any(|own| own.merges_into(key));
                for (key, value) in Arc::make_mut(map).iter_mut() {
                    if !(matches!(value, Value::Map(_)) && merged(key)) {
                        slim(value);
                    }
                }
            }
            _ => {}
        }
    }

    fn owes_effects(&self) -> bool {
        self.owed.iter().any(|command| !matches!(command, Command::PublishEvent(_)))
    }

    /// Journal first, then effects.
    async fn settle(&mut self) -> Result<(), RuntimeError> {
        self.adapter.journal().flush(&self.state, &mut self.blobs).await?;
        for asked in std::mem::take(&mut self.asked) {
            // Whoever asked may have gone.
            let _ = asked.send(codec::state_bytes(&self.state).0);
        }
        for step in self.finalized.drain(..) {
            self.adapter.workers().finalize_step(step);
        }
        // Nothing is owed by what is carried out: the list is used again.
        let mut owed = std::mem::take(&mut self.owed);
        for command in owed.drain(..) {
            if let Some(job) = self.execute(command) {
                let input = Box::pin(self.put_together(&job.input, MAX_RESOLVED_LEVELS)).await?;
                let resumed = Box::pin(self.whole_answers(job.resumed.clone())).await?;
                self.adapter.workers().run_worker(Job { resumed, ..job }, input);
            }
        }
        owed.shrink_to(LISTED_AT_ONCE);
        self.owed = owed;
        self.adapter.workers().settled();
        Ok(())
    }

    /// Carries a command out. A job whose input has to be put together first is given back.
    fn execute(&mut self, command: Command) -> Option<Job> {
        match command {
            Command::QueueEvent(tick) => self.buffer.push_back(tick),
            Command::RunWorker(job) => match self.state.jobs.get(&job.job) {
                Some(open) if open.cancelled.is_some() => self.report_cancelled_before_start(&job),
                Some(open) if open.is_dispatched_under(job.lease_epoch) && self.is_too_large(&job) => self.refuse_input(&job),
                Some(open) if open.is_dispatched_under(job.lease_epoch) && holds_any_stored(&job) => return Some(job),
                Some(open) if open.is_dispatched_under(job.lease_epoch) => {
                    let input = job.input.clone();
                    self.adapter.workers().run_worker(job, input);
                }
                // A later tick of the same commit has ended it or handed it out again.
                _ => {}
            },
            Command::CancelWorker { job } => self.adapter.workers().cancel_worker(job),
            Command::EndLease { job, lease_epoch: dispatch } => self.adapter.workers().end_lease(job, dispatch),
            Command::StartChild { call, definition, input, key } => {
                // A later tick of the same commit may have called it off.
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
            // The run's end is in its state; the loop sees it there.
            Command::CompleteRun(_) | Command::Halt(_) | Command::FailWorkflow(_) => {}
        }
        None
    }

    /// Called off between the tick that wanted it and now: it is not begun at all.
    fn report_cancelled_before_start(&mut self, job: &Job) {
        let error = ErrorInfo::new("Cancelled", "cancelled", "the task was called off before it began");
        let outcome = TaskOutcome::failure(error);
        self.buffer.push_back(TickKind::StepResult { job: job.job, lease_epoch: job.lease_epoch, outcome });
    }

    fn is_too_large(&self, job: &Job) -> bool {
        job.input.stored_bytes() > self.program.limits.max_expression_output_bytes as u64
    }

    /// References can stand for far more than memory holds: such an input is never put together.
    fn refuse_input(&mut self, job: &Job) {
        let message = format!("the task's input has {} bytes in all", job.input.stored_bytes());
        let error = ErrorInfo::new("InputTooLarge", "limit", message).hint("see `expression_output_bytes_max`");
        let outcome = TaskOutcome::failure(error);
        self.buffer.push_back(TickKind::StepResult { job: job.job, lease_epoch: job.lease_epoch, outcome });
    }

    async fn whole_answers(&mut self, resumed: Option<Arc<ResumeData>>) -> Result<Option<Arc<ResumeData>>, RuntimeError> {
        let Some(mut resumed) = resumed else { return Ok(None) };
        for answer in &mut Arc::make_mut(&mut resumed).answers {
            answer.value = Box::pin(self.put_together(&answer.value, MAX_RESOLVED_LEVELS)).await?;
        }
        Ok(Some(resumed))
    }

    /// A tool gets plain values: what is stored elsewhere is put back in.
    async fn put_together(&mut self, value: &Value, levels: usize) -> Result<Value, RuntimeError> {
        let below = levels.saturating_sub(1);
        if !holds_stored(value) {
            return Ok(value.clone());
        }
        match value {
            Value::Stored(_) if levels < LEVELS_OF_A_LIST => Ok(value.clone()),
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
                let content = Box::pin(self.put_together(&content, below)).await?;
                match (stored.chunked, &content) {
                    (true, Value::List(chunks)) => {
                        let items = chunks.iter().flat_map(|chunk| chunk.as_list().unwrap_or_default()).cloned();
                        Ok(Value::list(items.collect()))
                    }
                    _ => Ok(content),
                }
            }
            Value::List(items) => {
                let mut whole = Vec::with_capacity(items.len());
                for item in items.iter() {
                    whole.push(Box::pin(self.put_together(item, below)).await?);
                }
                Ok(Value::list(whole))
            }
            Value::Map(map) => {
                let mut whole = Map::with_capacity(map.len());
                for (key, value) in map.iter() {
                    whole.insert(key.clone(), Box::pin(self.put_together(value, below)).await?);
                }
                Ok(Value::map(whole))
            }
            plain => Ok(plain.clone()),
        }
    }
}

fn holds_any_stored(job: &Job) -> bool {
    let answers = job.resumed.iter().flat_map(|resumed| &resumed.answers);
    holds_stored(&job.input) || answers.map(|answer| &answer.value).any(holds_stored)
}
