//! Drives the reducer as a control loop does, with virtual time: ticks in, commands out.

use std::collections::{BTreeMap, VecDeque};

use windlass_core::state::Timer;
use windlass_core::{
    Command, EffectKey, ErrorInfo, Job, PartialTick, Program, Reduced, State, TaskOutcome, Tick, TickKind, TickOutput,
    reduce,
};
use windlass_runtime::codec;
use windlass_value::{Duration, RunView, Timestamp, Value};

use super::case::Case;
use super::journal::{End, Entry, Journal, commands as shown};
use super::script::{Script, ScriptedReply};
use super::values::ColdValues;

/// A run that needs more ticks than this does not end.
const MAX_TICKS: usize = 5_000;

/// The time that a worker takes to confirm a cancellation.
const CANCELLED_AFTER: Duration = Duration::from_ms(5);

/// A state with its stored values.
struct Run<'p> {
    program: &'p Program,
    state: State,
    values: ColdValues,
}

impl<'p> Run<'p> {
    fn new(program: &'p Program) -> Run<'p> {
        let state = State::new(RunView::new("run", "golden", Timestamp(0)));
        Run { program, state, values: ColdValues::default() }
    }

    fn reduce(&mut self, name: &str, tick: &Tick) -> TickOutput {
        self.values.evict();
        let mut resume = PartialTick::default();
        loop {
            match reduce(self.program, &mut self.state, tick, &mut self.values, &mut resume) {
                Ok(Reduced::Done(output)) => return output,
                Ok(Reduced::NeedBlobs(hashes)) => self.values.load(&hashes),
                Err(impossible) => panic!("{name}: {impossible}"),
            }
        }
    }

    fn end(&self) -> End {
        let (_, hash) = codec::state_bytes(&self.state);
        let state = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        End { result: serde_json::json!(self.state.result()), state }
    }
}

/// An input that will become a tick.
enum Pending {
    Outside(TickKind),
    Result { job: u64, tick: TickKind },
    Child { key: EffectKey, tick: TickKind },
}

struct Driver<'p> {
    run: Run<'p>,
    script: &'p Script,
    now: Timestamp,
    /// Due time, then the order of creation.
    pending: BTreeMap<(Timestamp, u64), Pending>,
    begun: u64,
    /// Ticks of the run's own buffer.
    buffer: VecDeque<TickKind>,
    attempts_by_path: BTreeMap<String, usize>,
}

/// Runs a case from its start to its end, or until it waits for something that the script does not have.
pub(crate) fn run(case: &Case) -> Journal {
    let program = case.program();
    let mut driver = Driver {
        run: Run::new(&program),
        script: &case.script,
        now: Timestamp(0),
        pending: BTreeMap::new(),
        begun: 0,
        buffer: VecDeque::new(),
        attempts_by_path: BTreeMap::new(),
    };
    case.script.external_ticks().into_iter().for_each(|(at, kind)| driver.add(at, Pending::Outside(kind)));
    let mut next = Some(start(&case.script));
    let mut entries = Vec::new();
    while let Some(kind) = next {
        assert!(entries.len() < MAX_TICKS, "{} does not end", case.name);
        // Any fixed sequence will do: jitter and ids derive from it.
        let seed = (entries.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let tick = Tick { at: driver.now, seed, kind, more_pending: false, clock_step: 0 };
        if matches!(tick.kind, TickKind::Restart { .. }) {
            driver.lose_process();
        }
        let output = driver.run.reduce(&case.name, &tick);
        entries.push(Entry::new(&tick, &output));
        output.commands.iter().for_each(|command| driver.carry_out(command));
        next = driver.next();
    }
    Journal { entries, end: driver.run.end() }
}

fn start(script: &Script) -> TickKind {
    TickKind::AddEvent {
        name: windlass_core::START_EVENT.into(),
        payload: script.input(),
        request: None,
        origin: None,
        to: None,
        trigger_metadata: Value::Null,
        defaults: Value::Null,
    }
}

impl Driver<'_> {
    fn add(&mut self, at: Timestamp, pending: Pending) {
        self.begun += 1;
        self.pending.insert((at, self.begun), pending);
    }

    /// Returns the next tick: the run's own buffer first, then the next input that is due. At equal times, timers come
    /// last.
    fn next(&mut self) -> Option<TickKind> {
        if self.run.state.result().is_some() {
            return None;
        }
        if let Some(kind) = self.buffer.pop_front() {
            return Some(kind);
        }
        let (timer, pending) = (self.run.state.next_due(), self.pending.first_entry());
        match (timer, pending) {
            (Some(timer), pending) if pending.as_ref().is_none_or(|pending| timer < pending.key().0) => {
                self.now = self.now.max(timer);
                let run = matches!(self.run.state.timers.first_key_value(), Some((_, Timer::Run)));
                Some(if run { TickKind::Timeout } else { TickKind::TimerDue })
            }
            (_, Some(pending)) => {
                let ((at, _), pending) = pending.remove_entry();
                self.now = self.now.max(at);
                Some(match pending {
                    Pending::Outside(tick) | Pending::Result { tick, .. } | Pending::Child { tick, .. } => tick,
                })
            }
            (_, None) => None,
        }
    }

    /// The buffer and the workers are lost with the process.
    fn lose_process(&mut self) {
        self.buffer.clear();
        self.pending.retain(|_, pending| !matches!(pending, Pending::Result { .. }));
    }

    fn carry_out(&mut self, command: &Command) {
        match command {
            Command::QueueEvent(kind) => self.buffer.push_back(kind.clone()),
            Command::RunWorker(job) => self.start_job(job),
            Command::CancelWorker { job } => self.cancel(*job),
            Command::StartChild { call, definition, key, .. } => self.start_child(*call, definition, key),
            Command::CancelChild { key } => {
                self.pending.retain(|_, pending| !matches!(pending, Pending::Child { key: child, .. } if child == key));
            }
            Command::EndLease { .. }
            | Command::Reply(_)
            | Command::CompleteRun(_)
            | Command::Halt(_)
            | Command::FailWorkflow(_)
            | Command::PublishEvent(_) => {}
        }
    }

    fn next_attempt(&mut self, what: &str) -> usize {
        let number = self.attempts_by_path.entry(what.to_owned()).or_default();
        *number += 1;
        *number - 1
    }

    fn start_job(&mut self, job: &Job) {
        let number = self.next_attempt(job.path());
        let (job_number, lease_epoch) = (job.job, job.lease_epoch);
        let (after, tick) = match self.script.result(job, number) {
            ScriptedReply::After(after, outcome) => {
                (after, TickKind::StepResult { job: job_number, lease_epoch, outcome })
            }
            ScriptedReply::Lost(after) => (after, TickKind::LeaseLost { job: job_number, lease_epoch }),
            ScriptedReply::Never => return,
        };
        self.add(self.now + after, Pending::Result { job: job_number, tick });
    }

    /// The worker confirms the cancellation, if it still has the job.
    fn cancel(&mut self, job: u64) {
        let is_result_of_job =
            |pending: &Pending| matches!(pending, Pending::Result { job: other, .. } if *other == job);
        let Some(at) = self.pending.iter().find(|(_, pending)| is_result_of_job(pending)).map(|(at, _)| *at) else {
            return;
        };
        let Some(Pending::Result { tick: TickKind::StepResult { lease_epoch, .. }, .. }) = self.pending.remove(&at)
        else {
            return;
        };
        let outcome = TaskOutcome::failure(ErrorInfo::new("Cancelled", "cancelled", "the job was cancelled"));
        let tick = TickKind::StepResult { job, lease_epoch, outcome };
        self.add(self.now + CANCELLED_AFTER, Pending::Result { job, tick });
    }

    /// Requesting the same child twice gives one child.
    fn start_child(&mut self, call: u64, definition: &str, key: &EffectKey) {
        let known = |pending: &Pending| matches!(pending, Pending::Child { key: child, .. } if child == key);
        if self.pending.values().any(known) {
            return;
        }
        let number = self.next_attempt(definition);
        let ScriptedReply::After(after, (status, outcome)) = self.script.child(definition, number) else { return };
        let tick = TickKind::CallResult { call, status, outcome };
        self.add(self.now + after, Pending::Child { key: key.clone(), tick });
    }
}

/// The operation between two ticks of a replay.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Between {
    Nothing,
    /// The state is encoded and decoded.
    Snapshot,
}

/// Checks that every tick gives the recorded commands, and that the final state is the recorded one.
pub(crate) fn replay(case: &Case, journal: &Journal, between: Between) {
    let program = case.program();
    let mut run = Run::new(&program);
    for (number, entry) in journal.entries.iter().enumerate() {
        let output = run.reduce(&case.name, &entry.tick);
        let commands = shown(&entry.tick, &output);
        assert_eq!(commands, entry.commands, "{}: commands of tick {}", case.name, number + 1);
        if between == Between::Snapshot {
            let (bytes, hash) = codec::state_bytes(&run.state);
            run.state = codec::decode(&bytes, "a state").expect("a snapshot can be read");
            assert_eq!(codec::state_bytes(&run.state).1, hash, "{}: snapshot after tick {}", case.name, number + 1);
        }
    }
    assert_eq!(run.end(), journal.end, "{}", case.name);
}

/// Checks that after each tick the process can be lost and another one can take over.
pub(crate) fn restart_everywhere(case: &Case, journal: &Journal) {
    let program = case.program();
    let mut run = Run::new(&program);
    for entry in &journal.entries {
        run.reduce(&case.name, &entry.tick);
        if run.state.result().is_none() {
            let kept = run.state.clone();
            run.reduce(
                &case.name,
                &Tick {
                    kind: TickKind::Restart { lived: windlass_value::Duration::ZERO },
                    more_pending: false,
                    ..entry.tick.clone()
                },
            );
            run.state = kept;
        }
    }
}

/// Returns all commands of a journal.
pub(crate) fn commands(case: &Case, journal: &Journal) -> Vec<Command> {
    let program = case.program();
    let mut run = Run::new(&program);
    journal.entries.iter().flat_map(|entry| run.reduce(&case.name, &entry.tick).commands).collect()
}
