//! Runs a plan with virtual time as a control loop would: ticks in, commands out, and everything recorded.

use std::collections::{BTreeMap, VecDeque};

use windlass_core::state::{FrameBody, Timer, WaitFrame};
use windlass_core::{
    Command, EffectKey, ErrorInfo, ImpossibleTick, IterationRecord, Job, PartialTick, Program, Reduced, ReplayPoint,
    ReplayWatch, RunResult, State, Status, TaskOutcome, Tick, TickKind, TickOutput, reduce,
};
use windlass_value::{Duration, RunView, Timestamp, Value};

use super::check::{check_mail_may_come, check_state};
use super::language::evaluations;
use super::observed_event::ObservedEvent;
use super::rng::Rng;
use super::values::MemoryValues;
use super::world::{self, EffectCounter, Reply, World, call_outcome};

/// A run that needs more steps than this is considered hanging.
const MAX_STEPS: usize = 20_000;

/// An agenda item evaluates a few expressions, and again after each value that had to be loaded.
const EVALUATIONS_PER_ITEM: u64 = 20;

pub(crate) struct Sim<'p> {
    pub program: &'p Program,
    pub state: State,
    pub values: MemoryValues,
    pub rng: Rng,
    pub seed: u64,
    pub now: Timestamp,
    pub journal: Vec<Tick>,
    pub outputs: Vec<TickOutput>,
    pub events: Vec<ObservedEvent>,
    pub iterations: Vec<IterationRecord>,
    /// Every `RunWorker` command, in order.
    pub dispatched: Vec<Job>,
    /// Expressions evaluated by each tick.
    pub costs: Vec<u64>,
    pub flights: Vec<Flight>,
    pub calls: Vec<Child>,
    pub buffer: VecDeque<TickKind>,
    /// Percentage of steps in which a disturbance happens.
    pub disturbance: u64,
    counter: EffectCounter,
    keys: BTreeMap<Key, SentEffect>,
    /// The effect key and lease epoch that each job was last dispatched with.
    last: BTreeMap<u64, (Key, u32)>,
    /// The worker that holds each job.
    holders: BTreeMap<u64, u32>,
    /// The jobs that workers were executing when the process was lost.
    pub lost: Vec<u64>,
    world: World<'p>,
    /// Whether commands are executed, or only inspected.
    executes_commands: bool,
}

/// Path, generation, visit and group of an effect, then the call number within its operation.
type Key = ((String, u32, u32, u32), u32);

/// A job that a worker holds.
pub(crate) struct Flight {
    pub job: Job,
    due: Option<Timestamp>,
    outcome: TaskOutcome,
}

/// A child run that has not ended.
pub(crate) struct Child {
    due: Timestamp,
    key: EffectKey,
    end: TickKind,
}

struct SentEffect {
    job: u64,
    attempt: u32,
    input: Value,
    /// No worker has reported on it yet.
    open: bool,
    /// The attempt ended without a reply: another may follow under the same key.
    unanswered: bool,
}

impl<'p> Sim<'p> {
    pub(crate) fn new(program: &'p Program, world: World<'p>) -> Sim<'p> {
        Sim::with_seed(program, 1, world)
    }

    pub(crate) fn seeded(program: &'p Program, seed: u64) -> Sim<'p> {
        Sim::with_seed(program, seed, world::seeded(seed))
    }

    pub(crate) fn with_seed(program: &'p Program, seed: u64, world: World<'p>) -> Sim<'p> {
        Sim {
            program,
            state: fresh_state(),
            values: MemoryValues::default(),
            rng: Rng::new(seed),
            seed,
            now: Timestamp(0),
            journal: Vec::new(),
            outputs: Vec::new(),
            events: Vec::new(),
            iterations: Vec::new(),
            dispatched: Vec::new(),
            costs: Vec::new(),
            flights: Vec::new(),
            calls: Vec::new(),
            buffer: VecDeque::new(),
            disturbance: 0,
            counter: EffectCounter::default(),
            keys: BTreeMap::new(),
            last: BTreeMap::new(),
            holders: BTreeMap::new(),
            lost: Vec::new(),
            world,
            executes_commands: true,
        }
    }

    /// Creates a simulation that has processed these ticks and then lost its process: it begins with a restart.
    pub(crate) fn restarted(program: &'p Program, seed: u64, journal: &[Tick], world: World<'p>) -> Sim<'p> {
        let mut sim = Sim::with_seed(program, seed, world);
        sim.executes_commands = false;
        for tick in journal {
            sim.now = tick.at;
            sim.reduce(tick.clone()).expect("a journal's ticks are possible");
        }
        sim.executes_commands = true;
        let busy = sim.state.jobs.iter().filter(|(_, open)| open.cancelled.is_none() && !open.resting);
        sim.lost = busy.map(|(job, _)| *job).collect();
        if sim.state.result().is_none() {
            sim.tick(TickKind::Restart { lived: windlass_value::Duration::ZERO });
        }
        sim
    }

    /// Creates another run from these ticks, forked at a point inside one of them.
    pub(crate) fn forked(
        program: &'p Program,
        seed: u64,
        journal: &[Tick],
        at: ReplayPoint,
        world: World<'p>,
    ) -> Sim<'p> {
        let mut sim = Sim::with_seed(program, seed, world);
        sim.executes_commands = false;
        let (before, rest) = journal.split_at(at.tick as usize);
        for tick in before {
            sim.now = tick.at;
            sim.reduce(tick.clone()).expect("a journal's ticks are possible");
        }
        let mut resume = PartialTick::with_watch(Some(Box::new(ReplayWatch::stop_before(at.item))));
        sim.now = rest[0].at;
        let output = loop {
            match reduce(program, &mut sim.state, &rest[0], &mut sim.values, &mut resume).expect("it was possible") {
                Reduced::Done(output) => break output,
                Reduced::NeedBlobs(hashes) => sim.values.load(&hashes),
            }
        };
        assert!(resume.take_watch().is_some_and(|watch| watch.has_stopped()), "it stops inside the tick");
        sim.record_report(&rest[0].kind);
        output.commands.iter().for_each(|command| sim.execute(command));
        sim.state.reset_for_fork(&"fork".into());
        (sim.executes_commands, sim.events) = (true, Vec::new());
        sim.tick(TickKind::Restart { lived: windlass_value::Duration::ZERO });
        sim
    }

    pub(crate) fn start(&mut self) -> &mut Self {
        self.start_with(Value::object([("n", Value::Int(3))]))
    }

    pub(crate) fn start_with(&mut self, input: Value) -> &mut Self {
        self.event("start", input)
    }

    pub(crate) fn event(&mut self, name: &str, payload: impl Into<Value>) -> &mut Self {
        self.tick(TickKind::AddEvent {
            name: name.into(),
            payload: payload.into(),
            request: None,
            origin: None,
            to: None,
            trigger_metadata: Value::Null,
            defaults: Value::Null,
        })
    }

    pub(crate) fn cancel(&mut self) -> &mut Self {
        self.tick(TickKind::CancelRun { reason: "enough".into(), request: None, by_caller: false })
    }

    /// Reduces one tick at the current time.
    pub(crate) fn tick(&mut self, kind: TickKind) -> &mut Self {
        let tick = Tick { at: self.now, seed: self.rng.next(), kind, more_pending: false, clock_step: 0 };
        self.reduce(tick).unwrap_or_else(|impossible| panic!("{impossible}"));
        self
    }

    pub(crate) fn reduce(&mut self, tick: Tick) -> Result<(), ImpossibleTick> {
        self.values.forget();
        let before = evaluations();
        let mut resume = PartialTick::default();
        let output = loop {
            match reduce(self.program, &mut self.state, &tick, &mut self.values, &mut resume)? {
                Reduced::Done(output) => break output,
                Reduced::NeedBlobs(hashes) => self.values.load(&hashes),
            }
        };
        let cost = evaluations() - before;
        assert!(cost <= EVALUATIONS_PER_ITEM * self.program.limits.slice_items, "a tick that evaluates {cost} times");
        self.costs.push(cost);
        self.record_report(&tick.kind);
        check_state(self.program, &self.state);
        if !tick.more_pending {
            check_mail_may_come(&self.state);
        }
        self.journal.push(tick);
        output.commands.iter().for_each(|command| self.execute(command));
        self.iterations.extend(output.iterations.iter().cloned());
        self.outputs.push(output);
        Ok(())
    }

    /// Processes the ticks that the run has put into its own buffer; time stands still.
    pub(crate) fn drain_buffer(&mut self) -> &mut Self {
        while let Some(kind) = self.buffer.pop_front() {
            self.tick(kind);
        }
        self
    }

    pub(crate) fn run(&mut self) -> &mut Self {
        for _ in 0..MAX_STEPS {
            if self.ended() {
                return self;
            }
            assert!(self.step(), "the run hangs: {:?}", self.state);
        }
        panic!("no end after {MAX_STEPS} steps");
    }

    /// Runs until only an external event can move the run.
    pub(crate) fn run_until_idle(&mut self) -> &mut Self {
        while !self.ended() && (!self.buffer.is_empty() || self.next_time().is_some()) {
            self.step();
        }
        self
    }

    pub(crate) fn ended(&self) -> bool {
        self.state.result().is_some()
    }

    pub(crate) fn result(&self) -> &RunResult {
        self.state.result().expect("the run has ended")
    }

    pub(crate) fn status(&self) -> Status {
        self.result().status
    }

    /// Returns the run's output with stored parts resolved.
    pub(crate) fn output(&self) -> Value {
        self.values.resolve(&self.result().output)
    }

    /// Executes the next occurrence. Returns false if there is none.
    pub(crate) fn step(&mut self) -> bool {
        if self.rng.chance(self.disturbance) {
            self.disturb();
            return true;
        }
        if let Some(kind) = self.buffer.pop_front() {
            self.tick(kind);
            return true;
        }
        let Some(due) = self.next_time() else { return self.act_as_client() };
        self.now = self.now.max(due);
        self.execute_due(due);
        true
    }

    fn next_time(&self) -> Option<Timestamp> {
        let jobs = self.flights.iter().filter_map(|flight| flight.due);
        let calls = self.calls.iter().map(|child| child.due);
        jobs.chain(calls).chain(self.state.next_due()).min()
    }

    /// Executes one of the occurrences due at this time, chosen at random.
    fn execute_due(&mut self, due: Timestamp) {
        let jobs: Vec<usize> = (0..self.flights.len()).filter(|at| self.flights[*at].due == Some(due)).collect();
        let calls: Vec<usize> = (0..self.calls.len()).filter(|at| self.calls[*at].due == due).collect();
        let timers = usize::from(self.state.next_due() == Some(due));
        let chosen = self.rng.below((jobs.len() + calls.len() + timers) as u64) as usize;
        if chosen < jobs.len() {
            self.deliver_report(jobs[chosen]);
        } else if chosen < jobs.len() + calls.len() {
            let child = self.calls.remove(calls[chosen - jobs.len()]);
            self.tick(child.end);
        } else {
            let kind = match self.state.timers.first_key_value() {
                Some((_, Timer::Run)) => TickKind::Timeout,
                _ => TickKind::TimerDue,
            };
            self.tick(kind);
        }
    }

    fn deliver_report(&mut self, at: usize) {
        let Flight { job, outcome, .. } = self.flights.remove(at);
        self.tick(TickKind::StepResult { job: job.job, lease_epoch: job.lease_epoch, outcome });
    }

    /// Resumes the run, or answers its oldest wait, as an external client.
    fn act_as_client(&mut self) -> bool {
        if self.state.paused {
            self.tick(TickKind::Resume { request: None });
            return true;
        }
        let Some((name, waiting)) = self.state.waits.iter().next() else { return false };
        let payload = match self.state.frames.get(waiting[0]).map(|frame| &frame.body) {
            Some(FrameBody::Wait(WaitFrame::Signal { requirements, .. })) if !requirements.is_null() => {
                requirements.clone()
            }
            _ => Value::Int(7),
        };
        let name = name.clone();
        self.tick(TickKind::AddEvent {
            name,
            payload,
            request: None,
            origin: None,
            to: None,
            trigger_metadata: Value::Null,
            defaults: Value::Null,
        });
        true
    }

    /// Causes a lost lease, a late report, worker progress, a restart or a pause.
    fn disturb(&mut self) {
        let open = self.flights.len() as u64;
        let chosen = self.rng.below(9);
        if open > 0 && chosen < 4 {
            let at = self.rng.below(open) as usize;
            let (job, lease_epoch) = (self.flights[at].job.job, self.flights[at].job.lease_epoch);
            let data = Value::Int(1);
            match chosen {
                0 => {
                    self.flights.remove(at);
                    self.tick(TickKind::LeaseLost { job, lease_epoch });
                }
                1 => _ = self.tick(TickKind::Progress { job, lease_epoch, data }),
                2 => _ = self.tick(TickKind::PublishEvent { job, lease_epoch, kind: "custom".into(), data }),
                _ => {
                    let outcome = TaskOutcome::success("late");
                    self.tick(TickKind::StepResult { job, lease_epoch: lease_epoch + 1, outcome });
                }
            }
            return;
        }
        match chosen {
            4 => self.restart(),
            5 => _ = self.tick(TickKind::Pause { request: None }),
            6 => _ = self.tick(TickKind::Resume { request: None }),
            7 => {
                let payload =
                    Value::object([("k", Value::from(self.rng.below(2))), ("text", Value::from("x".repeat(40)))]);
                let (name, to) =
                    *self.rng.pick(&[("left", Some("right")), ("done-left", Some("last")), ("left", Some("no"))]);
                let (name, to) = (name.into(), to.map(Into::into));
                self.tick(TickKind::AddEvent {
                    name,
                    payload,
                    request: None,
                    origin: None,
                    to,
                    trigger_metadata: Value::Null,
                    defaults: Value::Null,
                });
            }
            _ => _ = self.tick(TickKind::TimerDue),
        }
    }

    /// Replaces the process by another one: the buffer and the workers are lost.
    pub(crate) fn restart(&mut self) {
        self.buffer.clear();
        self.flights.clear();
        self.tick(TickKind::Restart { lived: windlass_value::Duration::ZERO });
    }

    fn execute(&mut self, command: &Command) {
        match command {
            Command::PublishEvent(event) => {
                assert_eq!(event.seq, self.events.len() as u64 + 1, "events are numbered without a gap");
                self.events.push(ObservedEvent::new(event));
            }
            Command::RunWorker(job) => self.run_worker(job),
            Command::QueueEvent(kind) if self.executes_commands => self.buffer.push_back(kind.clone()),
            Command::CancelWorker { job } if self.executes_commands => self.cancel_worker(*job),
            Command::EndLease { job, lease_epoch } => {
                self.holders.remove(job);
                assert_eq!(
                    self.last.get(job).map(|(_, last)| *last),
                    Some(*lease_epoch),
                    "the newest lease is the one that ends"
                );
            }
            Command::StartChild { call, key, .. } => self.start_call(*call, key),
            Command::CancelChild { key } if self.executes_commands => self.cancel_call(key),
            Command::CompleteRun(result) | Command::Halt(result) | Command::FailWorkflow(result) => {
                assert_eq!(self.state.result(), Some(result), "the published result is the stored result");
            }
            Command::Reply(reply) => {
                assert_eq!(self.state.reply.as_ref(), Some(reply), "the published reply is the stored reply")
            }
            Command::QueueEvent(_) | Command::CancelWorker { .. } | Command::CancelChild { .. } => {}
        }
    }

    fn run_worker(&mut self, job: &Job) {
        self.check_key(job);
        self.dispatched.push(job.clone());
        let EffectKey { visit, call, .. } = job.key;
        let run = u64::from(visit) << 40 | u64::from(job.attempt) << 20 | u64::from(call);
        let which = self.counter.effect_id(&job.key.path, job.key.generation, run);
        if !self.executes_commands {
            return;
        }
        self.flights.retain(|flight| flight.job.job != job.job);
        let (due, outcome) = match (self.world)(job, &which, &mut self.rng) {
            Reply::After(after, outcome) => (Some(self.now + after), outcome),
            Reply::Never => (None, TaskOutcome::success(Value::Null)),
        };
        self.flights.push(Flight { job: job.clone(), due, outcome });
    }

    /// Asserts that one key is one effect with one input: only a redispatched task, or an attempt after one without a
    /// reply, may use it again. Lease epochs only increase, and a held lease has one worker.
    fn check_key(&mut self, job: &Job) {
        let effect = (job.key.path.to_string(), job.key.generation, job.key.visit, job.key.group);
        let key = (effect, job.key.call);
        if let Some(sent) = self.keys.get(&key) {
            let same = sent.open && (sent.job, sent.attempt) == (job.job, job.attempt);
            assert!(same || sent.unanswered, "an effect that was reported on, or another, has the key {:?}", job.key);
            // A task that receives its start time evaluates its input again whenever it resumes.
            assert!(sent.input == job.input || job.at.is_some(), "one key never carries other bytes");
        }
        let (job_number, attempt, input) = (job.job, job.attempt, job.input.clone());
        self.keys.insert(key.clone(), SentEffect { job: job_number, attempt, input, open: true, unanswered: false });
        let before = self.last.insert(job.job, (key, job.lease_epoch));
        assert!(before.is_none_or(|(_, before)| before < job.lease_epoch), "a job is handed out with a higher number");
        let holder = self.holders.insert(job.job, job.worker);
        assert!(holder.is_none_or(|holder| holder == job.worker), "the worker that holds a job gets its next task");
    }

    /// Updates the sent effects after a worker's report or a lost lease.
    fn record_report(&mut self, kind: &TickKind) {
        match kind {
            TickKind::StepResult { job, lease_epoch, outcome } => {
                let Some((key, _)) = self.last.get(job).filter(|(_, last)| last == lease_epoch) else { return };
                // An operation whose later call was lost restarts under its key.
                let lost = outcome.error.as_ref().map_or(outcome.suspension.is_some(), |error| !error.replied);
                let effect = key.0.clone();
                let calls = self.keys.range_mut((effect.clone(), 0)..=(effect, u32::MAX));
                calls.for_each(|(_, sent)| (sent.open, sent.unanswered) = (false, lost));
            }
            TickKind::LeaseLost { job, lease_epoch }
                if self.last.get(job).is_some_and(|(_, last)| last == lease_epoch) =>
            {
                self.holders.remove(job);
            }
            TickKind::Restart { .. } => self.holders.clear(),
            _ => {}
        }
    }

    /// Half of the workers confirm the cancellation; the others never report again.
    fn cancel_worker(&mut self, job: u64) {
        let confirms = self.rng.chance(50);
        let due = self.now + Duration::from_ms(self.rng.below(500));
        let Some(flight) = self.flights.iter_mut().find(|flight| flight.job.job == job) else { return };
        flight.due = confirms.then_some(due);
        flight.outcome = TaskOutcome::failure(ErrorInfo::new("Cancelled", "cancelled", "cancelled"));
    }

    /// Starts a child run; a repeated request for one key gives one child.
    fn start_call(&mut self, call: u64, key: &EffectKey) {
        let which = self.counter.effect_id(&key.path, key.generation, call);
        let (status, outcome) = call_outcome(self.seed, &which);
        let due = self.now + Duration::from_ms(self.rng.below(3_000));
        if self.executes_commands && self.calls.iter().all(|child| child.key != *key) {
            self.calls.push(Child { due, key: key.clone(), end: TickKind::CallResult { call, status, outcome } });
        }
    }

    /// Cancels a child run; some children end before the cancellation reaches them, and report that end.
    fn cancel_call(&mut self, key: &EffectKey) {
        if self.rng.chance(70) {
            self.calls.retain(|child| child.key != *key);
        }
    }

    // Helpers for hand-written tests.

    /// Returns the paths of the jobs that workers hold, in dispatch order.
    pub(crate) fn open_paths(&self) -> Vec<String> {
        self.flights.iter().map(|flight| flight.job.path().to_string()).collect()
    }

    /// Reports the outcome of the job at this path.
    pub(crate) fn reply(&mut self, path: &str, outcome: TaskOutcome) -> &mut Self {
        let at = self.flights.iter().position(|flight| &**flight.job.path() == path);
        let at = at.unwrap_or_else(|| panic!("no job at {path}; there are {:?}", self.open_paths()));
        self.flights[at].outcome = outcome;
        self.deliver_report(at);
        self.drain_buffer()
    }

    pub(crate) fn reply_to(&mut self, job: u64, outcome: TaskOutcome) -> &mut Self {
        let at = self.flights.iter().position(|flight| flight.job.job == job).expect("a job that is out");
        self.flights[at].outcome = outcome;
        self.deliver_report(at);
        self.drain_buffer()
    }

    pub(crate) fn succeed(&mut self, path: &str, output: impl Into<Value>) -> &mut Self {
        self.reply(path, TaskOutcome::success(output))
    }

    pub(crate) fn fail(&mut self, path: &str) -> &mut Self {
        self.reply(path, TaskOutcome::failure(world::refusal()))
    }

    /// Advances time; timers that become due fire one after the other.
    pub(crate) fn advance(&mut self, span: Duration) -> &mut Self {
        let end = self.now + span;
        while let Some(due) = self.state.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.tick(TickKind::TimerDue);
            self.drain_buffer();
        }
        self.now = end;
        self
    }

    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.events.iter().map(|event| &*event.kind).collect()
    }

    pub(crate) fn events_of(&self, kind: &str) -> Vec<&ObservedEvent> {
        self.events.iter().filter(|event| &*event.kind == kind).collect()
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.events_of(kind).len()
    }

    /// Returns the paths of the events of a kind.
    pub(crate) fn paths(&self, kind: &str) -> Vec<&str> {
        self.events_of(kind).into_iter().map(|event| &*event.path).collect()
    }

    /// Returns the end reason of the loop at this path, and its iterations.
    pub(crate) fn loop_end(&self, path: &str) -> (String, i64) {
        let done = self.events_of("loop.done").into_iter().rfind(|event| &*event.path == path);
        let data = &done.unwrap_or_else(|| panic!("no loop ended at {path}")).data;
        let reason = data.get("reason").and_then(Value::as_str).expect("a loop has a reason").to_owned();
        (reason, data.get("iterations").and_then(Value::as_int).expect("a loop counts its iterations"))
    }

    /// Returns the last end of the node at this path.
    pub(crate) fn end_of(&self, path: &str) -> Option<(Value, Value)> {
        let ends = ["step.done", "step.failed", "step.skipped"];
        let event = self.events.iter().rfind(|event| ends.contains(&&*event.kind) && &*event.path == path)?;
        let field = |name: &str| event.data.get(name).cloned().unwrap_or_default();
        Some((field("status"), self.values.resolve(&field("output"))))
    }
}

pub(crate) fn fresh_state() -> State {
    State::new(RunView::new("run", "test", Timestamp(0)))
}

pub(crate) fn encoded(state: &State) -> Vec<u8> {
    rmp_serde::to_vec_named(state).expect("a state can be written")
}

pub(crate) fn decoded(bytes: &[u8]) -> State {
    rmp_serde::from_slice(bytes).expect("a state can be read")
}
