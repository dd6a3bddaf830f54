//! What a run is doing, on stderr while it does it: bars on a terminal, sparse lines elsewhere.

mod bars;
mod lines;
mod loops;

use std::io::IsTerminal;
use std::sync::Arc;

use windlass_core::{Event, Program};

use bars::Bars;
use lines::Lines;

pub enum Progress {
    Quiet,
    Lines(Lines),
    Bars(Box<Bars>),
}

/// How often [`Progress::beat`] wants to be called.
pub const BEAT: std::time::Duration = std::time::Duration::from_millis(200);

impl Progress {
    pub fn new(quiet: bool, program: &Arc<Program>) -> Progress {
        match quiet {
            true => Progress::Quiet,
            false if std::io::stderr().is_terminal() => Progress::Bars(Box::new(Bars::new(program.clone()))),
            false => Progress::Lines(Lines::default()),
        }
    }

    pub fn is_quiet(&self) -> bool {
        matches!(self, Progress::Quiet)
    }

    pub fn event(&mut self, event: &Event) {
        match self {
            Progress::Quiet => {}
            Progress::Lines(lines) => lines.event(event),
            Progress::Bars(bars) => bars.event(event),
        }
    }

    /// Time has passed, whether something happened or not.
    pub fn beat(&mut self) {
        match self {
            Progress::Quiet | Progress::Bars(_) => {}
            Progress::Lines(lines) => lines.beat(),
        }
    }

    /// Nothing more will come: the terminal is left clean.
    pub fn finish(&mut self) {
        match self {
            Progress::Quiet | Progress::Lines(_) => {}
            Progress::Bars(bars) => bars.finish(),
        }
    }
}

/// A step of the definition's top level has neither a parent nor a turn in its path.
fn is_top(path: &str) -> bool {
    !path.is_empty() && !path.contains(['.', '['])
}

/// The path of the loop that a turn's path `sync[3]` belongs to.
fn loop_of(turn_path: &str) -> &str {
    turn_path.rsplit_once('[').map_or(turn_path, |(path, _)| path)
}
