//! Progress on a terminal: a bar for each live loop, a spinner for each other live top-level step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use windlass_core::plan::{LoopCheck, NodeKind};
use windlass_core::{Event, EventKind, Program};

use super::agents;
use super::loops::{LiveLoops, LoopChange};
use super::waits::RunWaits;
use super::{ProgressSeed, SeededLoop, is_inside, is_top};
use crate::text;

/// Maximum number of bars drawn; further ones are tracked but not shown.
const MAX_BARS: usize = 8;

pub(crate) struct ProgressBars {
    program: Arc<Program>,
    area: MultiProgress,
    shown: BTreeMap<Arc<str>, ProgressBar>,
    loops: LiveLoops,
    /// The line that shows that the run is paused.
    paused: Option<ProgressBar>,
    /// The sequence number of the last known event.
    last_seq: u64,
    pub waits: RunWaits,
}

impl ProgressBars {
    pub(crate) fn new(program: Arc<Program>) -> ProgressBars {
        let (area, shown, loops) = (MultiProgress::new(), BTreeMap::new(), LiveLoops::default());
        ProgressBars { program, area, shown, loops, paused: None, last_seq: 0, waits: RunWaits::default() }
    }

    pub(crate) fn seed(&mut self, begun: ProgressSeed) {
        self.last_seq = begun.events;
        begun.steps.iter().for_each(|(path, kind)| self.step_began(path, kind));
        for SeededLoop { path, progress, .. } in begun.loops {
            self.loops.0.insert(path.clone(), progress);
            self.loop_began(&path);
            self.loop_moved(&path);
        }
        for (name, address) in &begun.forms {
            let _ = self.area.println(self.waits.seed(name, address));
        }
        self.pause(begun.paused);
    }

    pub(crate) fn event(&mut self, event: &Event) {
        if event.seq <= self.last_seq {
            return;
        }
        // The display misses events that are published faster than it reads them. Everything inside an ended node has
        // ended, too.
        let over = matches!(
            event.kind,
            EventKind::IterationDone { .. }
                | EventKind::LoopDone { .. }
                | EventKind::StepDone { .. }
                | EventKind::StepFailed { .. }
        );
        if over {
            self.remove_inside(&event.path);
        }
        match self.loops.apply(event) {
            Some(LoopChange::Began(path)) => self.loop_began(&path),
            Some(LoopChange::Moved(path)) => self.loop_moved(&path),
            Some(LoopChange::Ended(path)) => self.remove(&path),
            None => self.step(event),
        }
    }

    pub(crate) fn finish(&mut self) {
        self.pause(false);
        std::mem::take(&mut self.shown).into_values().for_each(|bar| bar.finish_and_clear());
        // A terminal that cannot be cleared must not fail a run.
        let _ = self.area.clear();
    }

    fn step(&mut self, event: &Event) {
        match &event.kind {
            EventKind::StepStarted { kind, .. } if is_top(&event.path) => self.step_began(&event.path, kind),
            EventKind::WorkflowPaused {} => self.pause(true),
            EventKind::WorkflowResumed {} => self.pause(false),
            EventKind::StepDone { .. } | EventKind::StepFailed { .. } | EventKind::StepSkipped { .. }
                if is_top(&event.path) =>
            {
                self.remove(&event.path);
            }
            EventKind::TaskRetrying { attempt, .. } => {
                // The path is that of the task; the bar may belong to its step.
                let around = |shown: &str| *shown == *event.path || is_inside(&event.path, shown);
                if let Some((_, bar)) = self.shown.iter().rfind(|(shown, _)| around(shown)) {
                    bar.set_message(format!("{} (try {})", event.path, attempt + 1));
                }
            }
            _ => {
                if let Some(line) = agents::line(event).or_else(|| self.waits.line(event)) {
                    // A terminal that cannot be written to must not fail a run.
                    let _ = self.area.println(line);
                }
            }
        }
    }

    fn step_began(&mut self, path: &Arc<str>, kind: &str) {
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            self.add(path, None, style, |bar| bar.set_message(format!("{path} ({kind})")));
        }
    }

    /// Shows or hides the line that explains why the bars stand still.
    fn pause(&mut self, paused: bool) {
        match (paused, self.paused.take()) {
            (true, before) => {
                self.paused = Some(before.unwrap_or_else(|| {
                    let bar = self.area.insert(0, ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()));
                    if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                        bar.set_style(style);
                    }
                    bar.set_message(super::PAUSED);
                    bar
                }));
            }
            (false, Some(bar)) => self.clear(&bar),
            (false, None) => {}
        }
    }

    /// Replaces the step's spinner by the loop's bar.
    fn loop_began(&mut self, path: &Arc<str>) {
        self.remove(path);
        let max_iterations = self.loops.0.get(path).and_then(|seen| seen.max_iterations);
        let template = match max_iterations {
            Some(_) => "{prefix} {bar:20} {pos}/{len} {elapsed} {wide_msg}",
            None => "{prefix} {spinner} {pos} {elapsed} {wide_msg}",
        };
        let Ok(style) = ProgressStyle::with_template(template) else { return };
        let condition = self.condition(path).unwrap_or_default();
        self.add(path, max_iterations, style, |bar| {
            bar.set_prefix(path.to_string());
            bar.set_message(condition);
        });
    }

    fn loop_moved(&mut self, path: &Arc<str>) {
        let (Some(bar), Some(seen)) = (self.shown.get(path), self.loops.0.get(path)) else { return };
        bar.set_position(seen.ended);
        let condition = self.condition(path).map(|condition| format!("  {condition}")).unwrap_or_default();
        bar.set_message(format!("{}{condition}", text::format_value(&seen.last, 60)));
    }

    /// Adds a bar and fills it in only then: a bar outside of the area would draw its own line, which nothing removes.
    fn add(&mut self, path: &Arc<str>, length: Option<u64>, style: ProgressStyle, fill: impl FnOnce(&ProgressBar)) {
        if self.shown.len() < MAX_BARS && !self.shown.contains_key(path) {
            let bar = self.area.add(ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden()));
            bar.set_style(style);
            fill(&bar);
            bar.enable_steady_tick(Duration::from_millis(120));
            self.shown.insert(path.clone(), bar);
        }
    }

    fn remove(&mut self, path: &str) {
        if let Some(bar) = self.shown.remove(path) {
            self.clear(&bar);
        }
    }

    fn remove_inside(&mut self, path: &str) {
        let gone: Vec<Arc<str>> = self.loops.0.keys().filter(|other| is_inside(other, path)).cloned().collect();
        for path in gone {
            self.loops.0.remove(&path);
            self.remove(&path);
        }
    }

    fn clear(&self, bar: &ProgressBar) {
        bar.finish_and_clear();
        self.area.remove(bar);
    }

    /// Returns the condition as the definition writes it.
    fn condition(&self, path: &str) -> Option<String> {
        let name = path.rsplit('.').next()?;
        let plan = &self.program.plan;
        plan.nodes.iter().filter(|node| &*node.name == name).find_map(|node| match &node.kind {
            NodeKind::Loop(looping) => match looping.check {
                LoopCheck::Before { condition, .. } | LoopCheck::After { condition, .. } => {
                    Some(text::format_value(plan.expressions[condition.0 as usize].as_written(), 60))
                }
                LoopCheck::Never => None,
            },
            _ => None,
        })
    }
}
