//! Applies ticks to a state, one at a time and in place.
//!
//! A tick puts items on the agenda; the agenda is processed until it is empty, the run is paused, or the slice is
//! used up. An item evaluates before it changes anything: when a value is not loaded, the item returns to the front,
//! and the result names the values to load.

mod admit;
mod budget;
mod eval;
mod fault;
mod frames;
mod loop_node;
mod nodes;
mod publish;
mod quiet_steps;
mod retry;
mod run_end;
mod ticks;
mod timers;
mod watch;
mod write;

use windlass_value::{BlobHash, Timestamp};

use fault::{FaultResult, not_started};

pub use admit::{Admission, AdmissionError, TriggerDelivery, UnmetCondition, admit, definition_labels};
pub(crate) use budget::usage_value;
pub use fault::{ImpossibleTick, ReducerFault};
pub(crate) use fault::{kind_of, miscounted, no_frame, no_job, no_part, no_scope};
pub(crate) use publish::frame_path;
pub use publish::redacted_value;
pub use watch::{ObservedFailure, ObservedFailures, ReplayPoint, ReplayWatch};

use crate::state::{AgendaItem, FrameId, Phase, State};
use crate::tick::START_EVENT;
use crate::{Command, ErrorInfo, IterationRecord, Program, Tick, TickKind, Values};

/// The result of a call of [`reduce`].
#[derive(Debug)]
pub enum Reduced {
    /// The tick is reduced completely.
    Done(TickOutput),
    /// Nothing has been lost: load these values and call [`reduce`] again with the same tick.
    NeedBlobs(Vec<BlobHash>),
}

/// The effects of one tick outside of the state.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct TickOutput {
    /// The commands, in the order in which they are to be executed.
    pub commands: Vec<Command>,
    /// Iterations that ended, for the loops' histories.
    pub iterations: Vec<IterationRecord>,
}

/// Applies one tick. `resume` carries the progress of an earlier call that needed values; pass back the one you
/// received.
pub fn reduce(
    program: &Program,
    state: &mut State,
    tick: &Tick,
    values: &mut dyn Values,
    resume: &mut PartialTick,
) -> Result<Reduced, ImpossibleTick> {
    let mut reducer = Reducer { program, state, values, work: std::mem::take(resume) };
    match reducer.apply_tick(tick) {
        Ok(()) => {
            resume.watch = reducer.work.watch.take();
            Ok(Reduced::Done(std::mem::take(&mut reducer.work.output)))
        }
        Err(TickStop::Need(blobs)) => {
            *resume = std::mem::take(&mut reducer.work);
            Ok(Reduced::NeedBlobs(blobs))
        }
        Err(TickStop::Impossible(fault)) => Err(reducer.impossible(tick, *fault)),
    }
}

/// A tick that is partially applied because values are being loaded.
#[derive(Debug, Default)]
pub struct PartialTick {
    begun: bool,
    output: TickOutput,
    iterations_left: u64,
    items_left: u64,
    /// Loops with quiet iterations that no event has reported.
    unpublished: Vec<FrameId>,
    /// Set by a replay of the run.
    watch: Option<Box<ReplayWatch>>,
}

impl PartialTick {
    /// Creates the progress of a tick that has not begun; its commands are added to this list, which is empty.
    pub fn with_commands(commands: Vec<Command>) -> PartialTick {
        PartialTick { output: TickOutput { commands, iterations: Vec::new() }, ..PartialTick::default() }
    }
}

/// The reason why an item was not completed.
pub(crate) enum ItemStop {
    Need(Vec<BlobHash>),
    Failed(Box<ErrorInfo>),
    Impossible(Box<ReducerFault>),
}

/// The reason why a tick was not applied. An item that fails only fails its frame, and the tick continues.
enum TickStop {
    Need(Vec<BlobHash>),
    Impossible(Box<ReducerFault>),
}

impl From<Box<ReducerFault>> for ItemStop {
    fn from(fault: Box<ReducerFault>) -> ItemStop {
        ItemStop::Impossible(fault)
    }
}

impl From<Box<ReducerFault>> for TickStop {
    fn from(fault: Box<ReducerFault>) -> TickStop {
        TickStop::Impossible(fault)
    }
}

impl From<ErrorInfo> for ItemStop {
    fn from(error: ErrorInfo) -> ItemStop {
        ItemStop::Failed(Box::new(error))
    }
}

pub(crate) struct Reducer<'a> {
    pub program: &'a Program,
    pub state: &'a mut State,
    pub values: &'a mut dyn Values,
    pub work: PartialTick,
}

impl Reducer<'_> {
    fn apply_tick(&mut self, tick: &Tick) -> Result<(), TickStop> {
        if !self.work.begun {
            self.begin(tick)?;
        }
        self.process(tick.more_pending)?;
        self.conclude(tick.more_pending)?;
        Ok(())
    }

    #[cold]
    fn impossible(&self, tick: &Tick, fault: ReducerFault) -> ImpossibleTick {
        let path = fault.frame().map(|frame| frame_path(self.program, self.state, frame)).unwrap_or_default();
        ImpossibleTick { number: self.state.ticks, tick: tick.kind.name(), path, fault }
    }

    fn begin(&mut self, tick: &Tick) -> FaultResult {
        self.state.move_clock(self.program, tick.clock_step);
        if tick.at < self.state.now {
            return Err(Box::new(ReducerFault::TimeGoesBack { at: tick.at, now: self.state.now }));
        }
        let starts = matches!(&tick.kind, TickKind::AddEvent { name, .. } if &**name == START_EVENT);
        // A run that is to be held is paused first; from then on it accepts the input that a paused run accepts.
        let holds =
            self.state.held_start.is_some() || (self.state.ticks == 0 && matches!(tick.kind, TickKind::Pause { .. }));
        if self.state.phase == Phase::Created && !starts && !holds {
            return Err(not_started());
        }
        if self.state.phase == Phase::Running {
            let lived = match tick.kind {
                TickKind::Restart { lived } => lived,
                _ => tick.at.since(self.state.now),
            };
            self.state.alive_time = self.state.alive_time.saturating_add(lived);
        }
        self.state.now = tick.at;
        self.state.seed = tick.seed;
        self.state.draws = 0;
        self.state.ticks += 1;
        self.work.begun = true;
        self.watch_tick_begin();
        self.work.iterations_left = self.program.limits.slice_iterations;
        self.work.items_left = self.program.limits.slice_items;
        if let Some(forked) = self.state.fork_origin.take() {
            self.publish_forked(&forked);
        }
        if self.state.phase == Phase::Running {
            self.fire_due_timers()?;
        }
        self.apply(&tick.kind)
    }

    /// Processes the agenda until nothing can proceed.
    fn process(&mut self, more_pending: bool) -> Result<(), TickStop> {
        loop {
            self.process_agenda()?;
            if self.is_watch_stopped() {
                return Ok(());
            }
            if !self.recheck_budgets()
                && !self.deliver_ready_mail()?
                && (more_pending || !self.end_hopeless_mail_wait()?)
            {
                return Ok(());
            }
        }
    }

    fn process_agenda(&mut self) -> Result<(), TickStop> {
        while !self.state.paused && self.work.items_left > 0 {
            let Some(item) = self.state.agenda.pop_front() else { break };
            if self.work.iterations_left == 0 && matches!(item, AgendaItem::NextIteration(_)) {
                self.state.agenda.push_front(item);
                break;
            }
            if self.work.watch.is_some() && !self.watch_item(&item) {
                self.state.agenda.push_front(item);
                break;
            }
            self.work.items_left -= 1;
            let draws = self.state.draws;
            if let Err(halt) = self.process_item(&item) {
                self.state.draws = draws;
                self.work.items_left += 1;
                self.state.agenda.push_front(item);
                return Err(halt);
            }
            self.watch_item_done();
        }
        Ok(())
    }

    fn process_item(&mut self, item: &AgendaItem) -> Result<(), TickStop> {
        let worked = match item {
            AgendaItem::Enter(frame) => self.enter(*frame),
            AgendaItem::Task(frame) => self.run_task(*frame),
            AgendaItem::TaskEnded(frame, outcome) => self.task_ended(*frame, outcome),
            AgendaItem::ChildEnded { parent, slot, outcome, scope } => {
                self.child_ended(*parent, *slot, outcome, *scope)
            }
            AgendaItem::StartChild { graph, child } => self.start_child(*graph, *child),
            AgendaItem::FirstCheck(frame) => self.first_check(*frame),
            AgendaItem::NextIteration(frame) => self.next_iteration(*frame),
            AgendaItem::Fire(frame) => self.fire(*frame),
            AgendaItem::Finish(frame, ended) => self.finish_evaluated(*frame, ended),
            AgendaItem::EndRun(outcome) => self.end_run(outcome),
            AgendaItem::Parameters => self.compute_parameters(),
            AgendaItem::Token(net, token) => self.token_loaded(*net, token),
            AgendaItem::Mail(mail) => self.mail_from_outside(mail),
        };
        match worked {
            Ok(()) => Ok(()),
            Err(ItemStop::Need(blobs)) => Err(TickStop::Need(blobs)),
            Err(ItemStop::Impossible(fault)) => Err(TickStop::Impossible(fault)),
            Err(ItemStop::Failed(error)) => Ok(self.item_failed(item, *error)?),
        }
    }

    /// Fails the frame of an item that could not evaluate an expression.
    fn item_failed(&mut self, item: &AgendaItem, error: ErrorInfo) -> FaultResult {
        self.watch_item_failed(item);
        match item {
            AgendaItem::Enter(frame)
            | AgendaItem::FirstCheck(frame)
            | AgendaItem::NextIteration(frame)
            | AgendaItem::Fire(frame) => self.fail(*frame, error),
            AgendaItem::Task(frame) | AgendaItem::TaskEnded(frame, _) | AgendaItem::Token(frame, _) => {
                self.fail(*frame, error)
            }
            AgendaItem::ChildEnded { parent, .. } => self.fail(*parent, error),
            AgendaItem::StartChild { graph, child } => self.child_not_started(*graph, *child, error),
            AgendaItem::Finish(frame, ended) => self.finish_failed(*frame, ended, error),
            AgendaItem::EndRun(outcome) => {
                self.fail_run(outcome, error);
                Ok(())
            }
            AgendaItem::Parameters => match self.state.root {
                Some(root) => self.fail(root, error),
                // The run was cancelled before the parameters were computed.
                None => Ok(()),
            },
            // It only needs values.
            AgendaItem::Mail(_) => Ok(()),
        }
    }

    fn conclude(&mut self, more_pending: bool) -> FaultResult {
        self.publish_pending_iterations()?;
        if self.state.has_work() && self.state.result().is_none() {
            self.work.output.commands.push(Command::QueueEvent(TickKind::Proceed));
        }
        self.publish_idle(more_pending);
        Ok(())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.state.now
    }
}
