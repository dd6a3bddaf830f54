//! One tick at a time, in place.
//!
//! A tick puts items on the agenda; the agenda is worked off until it is empty, the run is paused, or the slice is used
//! up. An item evaluates before it changes anything: when a value is not at hand, the item goes back to the front and the
//! caller is told what to fetch.

mod admit;
mod budget;
mod eval;
mod frames;
mod impossible;
mod loop_node;
mod nodes;
mod publish;
mod retry;
mod run_end;
mod ticks;
mod timers;
mod watch;
mod write;

use windlass_value::{BlobHash, Timestamp};

use impossible::{Checked, not_started};

pub use admit::{Admission, Delivery, AdmissionError, UnmetCondition, admit};
pub(crate) use budget::usage_value;
pub use impossible::{Fault, Impossible};
pub(crate) use impossible::{kind_of, miscounted, no_frame, no_job, no_part, no_scope};
pub(crate) use publish::path_of;
pub use publish::redacted_value;
pub use watch::{Failure, Failures, Moment, Watch};

use crate::state::{FrameId, Item, Phase, State};
use crate::tick::START_EVENT;
use crate::{Command, ErrorInfo, Program, Tick, TickKind, IterationRecord, Values};

/// What a tick led to.
#[derive(Debug)]
pub enum Reduced {
    Done(Output),
    /// Nothing has been lost: load these values and call [`reduce`] again with the same tick.
    NeedBlobs(Vec<BlobHash>),
}

#[derive(Debug, Default, Clone, PartialEq)]
pub struct Output {
    pub commands: Vec<Command>,
    /// Turns that ended, for the loops' histories.
    pub iterations: Vec<IterationRecord>,
}

/// Applies one tick. `resume` carries what a call that needed values had done already; give back what you got.
pub fn reduce(
    program: &Program,
    state: &mut State,
    tick: &Tick,
    values: &mut dyn Values,
    resume: &mut Resume,
) -> Result<Reduced, Impossible> {
    let mut reducer = Reducer { program, state, values, work: std::mem::take(resume) };
    match reducer.apply_tick(tick) {
        Ok(()) => {
            resume.watch = reducer.work.watch.take();
            Ok(Reduced::Done(std::mem::take(&mut reducer.work.output)))
        }
        Err(Halt::Need(blobs)) => {
            *resume = std::mem::take(&mut reducer.work);
            Ok(Reduced::NeedBlobs(blobs))
        }
        Err(Halt::Impossible(fault)) => Err(reducer.impossible(tick, *fault)),
    }
}

/// A tick that is half done because values are being fetched.
#[derive(Debug, Default)]
pub struct Resume {
    begun: bool,
    output: Output,
    iterations_left: u64,
    items_left: u64,
    /// Loops with quiet turns that no event has told of.
    unpublished: Vec<FrameId>,
    /// Of whoever replays the run.
    watch: Option<Box<Watch>>,
}

impl Resume {
    /// For a tick that has not begun; its commands go into this list, which is empty.
    pub fn with(commands: Vec<Command>) -> Resume {
        Resume { output: Output { commands, iterations: Vec::new() }, ..Resume::default() }
    }
}

/// Why an item was not worked off.
pub(crate) enum Stop {
    Need(Vec<BlobHash>),
    Failed(Box<ErrorInfo>),
    Impossible(Box<Fault>),
}

/// Why a tick was not applied. What fails an item fails its frame, and the tick goes on.
enum Halt {
    Need(Vec<BlobHash>),
    Impossible(Box<Fault>),
}

impl From<Box<Fault>> for Stop {
    fn from(fault: Box<Fault>) -> Stop {
        Stop::Impossible(fault)
    }
}

impl From<Box<Fault>> for Halt {
    fn from(fault: Box<Fault>) -> Halt {
        Halt::Impossible(fault)
    }
}

impl From<ErrorInfo> for Stop {
    fn from(error: ErrorInfo) -> Stop {
        Stop::Failed(Box::new(error))
    }
}

pub(crate) struct Reducer<'a> {
    pub program: &'a Program,
    pub state: &'a mut State,
    pub values: &'a mut dyn Values,
    pub work: Resume,
}

impl Reducer<'_> {
    fn apply_tick(&mut self, tick: &Tick) -> Result<(), Halt> {
        if !self.work.begun {
            self.begin(tick)?;
        }
        self.work_off(tick.more)?;
        self.conclude(tick.more)?;
        Ok(())
    }

    #[cold]
    fn impossible(&self, tick: &Tick, fault: Fault) -> Impossible {
        let path = fault.frame().map(|frame| path_of(self.program, self.state, frame)).unwrap_or_default();
        Impossible { number: self.state.ticks, tick: tick.kind.name(), path, fault }
    }

    fn begin(&mut self, tick: &Tick) -> Checked {
        if tick.at < self.state.now {
            return Err(Box::new(Fault::TimeGoesBack { at: tick.at, now: self.state.now }));
        }
        let starts = matches!(&tick.kind, TickKind::AddEvent { name, .. } if &**name == START_EVENT);
        // One that is to be held is paused first; from then on it takes what a run takes that is paused.
        let holds = self.state.held.is_some() || (self.state.ticks == 0 && matches!(tick.kind, TickKind::Pause { .. }));
        if self.state.phase == Phase::Created && !starts && !holds {
            return Err(not_started());
        }
        if !matches!(tick.kind, TickKind::Restart) && self.state.phase == Phase::Running {
            let lived = tick.at.since(self.state.now);
            self.state.alive = self.state.alive.saturating_add(lived);
        }
        self.state.now = tick.at;
        self.state.seed = tick.seed;
        self.state.draws = 0;
        self.state.ticks += 1;
        self.work.begun = true;
        self.watch_begins();
        self.work.iterations_left = self.program.limits.slice_iterations;
        self.work.items_left = self.program.limits.slice_items;
        if let Some(forked) = self.state.forked.take() {
            self.publish_forked(&forked);
        }
        if self.state.phase == Phase::Running {
            self.fire_due_timers()?;
        }
        self.apply(&tick.kind)
    }

    /// Works the agenda off, until nothing moves that could.
    fn work_off(&mut self, more: bool) -> Result<(), Halt> {
        loop {
            self.work_off_agenda()?;
            if self.is_stopped() {
                return Ok(());
            }
            if !self.look_at_budgets_again() && !self.hand_out_mail()? && (more || !self.give_up_on_mail()?) {
                return Ok(());
            }
        }
    }

    fn work_off_agenda(&mut self) -> Result<(), Halt> {
        while !self.state.paused && self.work.items_left > 0 {
            let Some(item) = self.state.agenda.pop_front() else { break };
            if self.work.iterations_left == 0 && matches!(item, Item::NextIteration(_)) {
                self.state.agenda.push_front(item);
                break;
            }
            if self.work.watch.is_some() && !self.watch_item(&item) {
                self.state.agenda.push_front(item);
                break;
            }
            self.work.items_left -= 1;
            let draws = self.state.draws;
            if let Err(halt) = self.work_item(&item) {
                self.state.draws = draws;
                self.work.items_left += 1;
                self.state.agenda.push_front(item);
                return Err(halt);
            }
            self.watch_item_done();
        }
        Ok(())
    }

    fn work_item(&mut self, item: &Item) -> Result<(), Halt> {
        let worked = match item {
            Item::Enter(frame) => self.enter(*frame),
            Item::Task(frame) => self.run_task(*frame),
            Item::TaskEnded(frame, outcome) => self.task_ended(*frame, outcome),
            Item::ChildEnded { parent, slot, outcome, scope } => self.child_ended(*parent, *slot, outcome, *scope),
            Item::StartChild { graph, child } => self.start_child(*graph, *child),
            Item::FirstCheck(frame) => self.first_check(*frame),
            Item::NextIteration(frame) => self.next_iteration(*frame),
            Item::Fire(frame) => self.fire(*frame),
            Item::Finish(frame, ended) => self.finish_evaluated(*frame, ended),
            Item::EndRun(outcome) => self.end_run(outcome),
            Item::Parameters => self.compute_parameters(),
            Item::Token(net, token) => self.token_fetched(*net, token),
            Item::Mail(mail) => self.mail_from_outside(mail),
        };
        match worked {
            Ok(()) => Ok(()),
            Err(Stop::Need(blobs)) => Err(Halt::Need(blobs)),
            Err(Stop::Impossible(fault)) => Err(Halt::Impossible(fault)),
            Err(Stop::Failed(error)) => Ok(self.item_failed(item, *error)?),
        }
    }

    /// An item that could not evaluate what it had to fails the frame it belongs to.
    fn item_failed(&mut self, item: &Item, error: ErrorInfo) -> Checked {
        self.watch_item_failed(item);
        match item {
            Item::Enter(frame) | Item::FirstCheck(frame) | Item::NextIteration(frame) | Item::Fire(frame) => {
                self.fail(*frame, error)
            }
            Item::Task(frame) | Item::TaskEnded(frame, _) | Item::Token(frame, _) => self.fail(*frame, error),
            Item::ChildEnded { parent, .. } => self.fail(*parent, error),
            Item::StartChild { graph, child } => self.child_not_started(*graph, *child, error),
            Item::Finish(frame, ended) => self.finish_failed(*frame, ended, error),
            Item::EndRun(outcome) => {
                self.run_ends_badly(outcome, error);
                Ok(())
            }
            Item::Parameters => match self.state.root {
                Some(root) => self.fail(root, error),
                // The run was cancelled before it had worked them out.
                None => Ok(()),
            },
            // It asks for nothing but values.
            Item::Mail(_) => Ok(()),
        }
    }

    fn conclude(&mut self, more: bool) -> Checked {
        self.publish_pending_iterations()?;
        if self.state.has_work() && self.state.result().is_none() {
            self.work.output.commands.push(Command::QueueEvent(TickKind::Proceed));
        }
        self.publish_idle(more);
        Ok(())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.state.now
    }
}
