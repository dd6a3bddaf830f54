//! The progress of a run on stderr: bars on a terminal, sparse lines elsewhere.

pub(crate) mod agents;
mod bars;
mod lines;
mod loops;
mod waits;

use std::io::IsTerminal;
use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_core::{Event, FrameView, Program, frame_tree};
use windlass_runtime::inspect::{StoredRun, frame_path};
use windlass_value::Timestamp;

use bars::ProgressBars;
use lines::ProgressLines;
use loops::LoopProgress;
use waits::RunWaits;

use crate::args::GlobalArgs;
use crate::commands::format_loop_progress;

pub(crate) enum ProgressDisplay {
    Quiet,
    Lines(ProgressLines),
    Bars(Box<ProgressBars>),
}

/// Explains why the display stands still.
const PAUSED: &str = "paused; `windlass resume` with the run's id, from any terminal, resumes it";

/// The interval at which [`ProgressDisplay::beat`] must be called.
pub(crate) const BEAT: std::time::Duration = std::time::Duration::from_millis(200);

impl ProgressDisplay {
    pub(crate) fn new(quiet: bool, program: &Arc<Program>) -> ProgressDisplay {
        match quiet {
            true => ProgressDisplay::Quiet,
            false if std::io::stderr().is_terminal() => {
                ProgressDisplay::Bars(Box::new(ProgressBars::new(program.clone())))
            }
            false => ProgressDisplay::Lines(ProgressLines::default()),
        }
    }

    /// Names the run, for the commands that answer what it waits for.
    pub(crate) fn set_run(&mut self, global: &GlobalArgs, run: &str) {
        match self {
            ProgressDisplay::Quiet => {}
            ProgressDisplay::Lines(lines) => lines.waits = RunWaits::new(global, run),
            ProgressDisplay::Bars(bars) => bars.waits = RunWaits::new(global, run),
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self, ProgressDisplay::Quiet)
    }

    /// Initializes the display for a run that started earlier: its live steps and the progress of its loops.
    pub(crate) fn seed(&mut self, begun: Option<&StoredRun>) {
        let Some(StoredRun { program, image, row }) = begun else { return };
        let state = &image.state;
        let frames = match self {
            ProgressDisplay::Quiet => return,
            ProgressDisplay::Lines(_) | ProgressDisplay::Bars(_) => frame_tree(program, state),
        };
        let forms = state.open_forms().map(|(name, form)| (name.clone(), form.address.clone())).collect();
        self.seed_frames(&program.plan, &frames, (state.events, row.created_at, state.paused), forms);
    }

    /// Initializes the display from live steps: with the sequence number of the last event that they include, the start
    /// of the run, and whether it is paused. `forms` are the names and addresses of the open forms.
    pub(crate) fn seed_frames(
        &mut self,
        plan: &Plan,
        frames: &[FrameView],
        (events, at, paused): (u64, Timestamp, bool),
        forms: Vec<(Arc<str>, Arc<str>)>,
    ) {
        let begun = ProgressSeed { forms, ..ProgressSeed::from_frames(plan, frames, (events, at, paused)) };
        match self {
            ProgressDisplay::Quiet => {}
            ProgressDisplay::Lines(lines) => lines.seed(begun),
            ProgressDisplay::Bars(bars) => bars.seed(begun),
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        match self {
            ProgressDisplay::Quiet => {}
            ProgressDisplay::Lines(lines) => lines.event(event),
            ProgressDisplay::Bars(bars) => bars.event(event),
        }
    }

    /// Notifies the display that time has passed, whether an event occurred or not.
    pub(crate) fn beat(&mut self) {
        match self {
            ProgressDisplay::Quiet | ProgressDisplay::Bars(_) => {}
            ProgressDisplay::Lines(lines) => lines.beat(),
        }
    }

    /// Ends the display and leaves the terminal clean.
    pub(crate) fn finish(&mut self) {
        match self {
            ProgressDisplay::Quiet | ProgressDisplay::Lines(_) => {}
            ProgressDisplay::Bars(bars) => bars.finish(),
        }
    }
}

/// The state of a run before the first event that the display receives.
pub(crate) struct ProgressSeed {
    /// The sequence number of the last event that this state includes.
    events: u64,
    /// When the run began.
    at: Timestamp,
    paused: bool,
    /// Path and kind of the live top-level steps.
    steps: Vec<(Arc<str>, Arc<str>)>,
    loops: Vec<SeededLoop>,
    /// Name and address of the open forms.
    forms: Vec<(Arc<str>, Arc<str>)>,
}

/// A loop that started before the display.
struct SeededLoop {
    path: Arc<str>,
    progress: LoopProgress,
    /// The position of the run in it, as `status` shows it.
    position: String,
}

impl ProgressSeed {
    fn from_frames(plan: &Plan, frames: &[FrameView], (events, at, paused): (u64, Timestamp, bool)) -> ProgressSeed {
        let steps = frames.iter().map(|view| (view.name.clone(), view.label.clone())).collect();
        let mut loops = Vec::new();
        live_loops(plan, frames, "", &mut loops);
        ProgressSeed { events, at, paused, steps, loops, forms: Vec::new() }
    }
}

/// Collects live loops. The paths are those of the events: `pages[3].items`.
fn live_loops(plan: &Plan, frames: &[FrameView], parent: &str, into: &mut Vec<SeededLoop>) {
    for view in frames {
        let path = frame_path(parent, view);
        if let Some(looping) = &view.looping {
            let (max_iterations, ended, last) = (looping.max_iterations, looping.ended, looping.last.clone());
            let position = format_loop_progress(plan, view, looping);
            into.push(SeededLoop {
                path: path.as_str().into(),
                progress: LoopProgress { max_iterations, ended, last, fresh: false },
                position,
            });
        }
        live_loops(plan, &view.children, &path, into);
    }
}

/// Returns whether a path is that of a top-level step: it has neither a parent nor an iteration.
fn is_top(path: &str) -> bool {
    !path.is_empty() && !path.contains(['.', '['])
}

/// Returns whether a path lies inside another one: in its iterations, tasks or children.
fn is_inside(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.starts_with(['.', '[']))
}

/// Returns the loop's path for an iteration's path `sync[3]`.
fn loop_path(iteration_path: &str) -> &str {
    iteration_path.rsplit_once('[').map_or(iteration_path, |(path, _)| path)
}
