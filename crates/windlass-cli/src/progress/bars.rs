//! Progress on a terminal: a bar for each live loop, a spinner for each other live top-level step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use windlass_core::plan::{Check, NodeKind};
use windlass_core::{Event, Program};
use windlass_value::Value;

use super::is_top;
use super::loops::{Change, Loops};
use crate::text;

/// Lines drawn at once; the rest is there, only not shown.
const SHOWN_MAX: usize = 8;

pub struct Bars {
    program: Arc<Program>,
    area: MultiProgress,
    shown: BTreeMap<Arc<str>, ProgressBar>,
    loops: Loops,
}

impl Bars {
    pub fn new(program: Arc<Program>) -> Bars {
        Bars { program, area: MultiProgress::new(), shown: BTreeMap::new(), loops: Loops::default() }
    }

    pub fn event(&mut self, event: &Event) {
        match self.loops.take(event) {
            Some(Change::Began(path)) => self.loop_began(&path),
            Some(Change::Moved(path)) => self.loop_moved(&path),
            Some(Change::Ended(path)) => self.remove(&path),
            None => self.step(event),
        }
    }

    pub fn finish(&mut self) {
        std::mem::take(&mut self.shown).into_values().for_each(|bar| bar.finish_and_clear());
        // A terminal that cannot be cleared is no reason to fail a run.
        let _ = self.area.clear();
    }

    fn step(&mut self, event: &Event) {
        match &*event.kind {
            "step.started" if is_top(&event.path) => {
                let kind = event.data.get("kind").and_then(Value::as_str).unwrap_or("step");
                let message = format!("{} ({kind})", event.path);
                self.add(&event.path, ProgressBar::new_spinner().with_message(message));
            }
            "step.done" | "step.failed" | "step.skipped" if is_top(&event.path) => self.remove(&event.path),
            "task.retrying" => {
                if let Some(bar) = self.shown.get(&event.path) {
                    let attempt = event.data.get("attempt").and_then(Value::as_int).unwrap_or(0);
                    bar.set_message(format!("{} (try {})", event.path, attempt + 1));
                }
            }
            _ => {}
        }
    }

    /// The loop's bar takes the place of its step's spinner.
    fn loop_began(&mut self, path: &Arc<str>) {
        self.remove(path);
        let most = self.loops.0.get(path).and_then(|seen| seen.most);
        let bar = most.map_or_else(ProgressBar::no_length, ProgressBar::new);
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:20} {pos}/{len} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(path.to_string());
        bar.set_message(self.condition(path).unwrap_or_default());
        self.add(path, bar);
    }

    fn loop_moved(&mut self, path: &Arc<str>) {
        let (Some(bar), Some(seen)) = (self.shown.get(path), self.loops.0.get(path)) else { return };
        bar.set_position(seen.ended);
        let condition = self.condition(path).map(|condition| format!("  {condition}")).unwrap_or_default();
        bar.set_message(format!("{}{condition}", text::short(&seen.last, 60)));
    }

    fn add(&mut self, path: &Arc<str>, bar: ProgressBar) {
        if self.shown.len() < SHOWN_MAX {
            let bar = self.area.add(bar);
            bar.enable_steady_tick(Duration::from_millis(120));
            self.shown.insert(path.clone(), bar);
        }
    }

    fn remove(&mut self, path: &str) {
        if let Some(bar) = self.shown.remove(path) {
            bar.finish_and_clear();
            self.area.remove(&bar);
        }
    }

    /// The condition as the definition writes it.
    fn condition(&self, path: &str) -> Option<String> {
        let name = path.rsplit('.').next()?;
        let plan = &self.program.plan;
        plan.nodes.iter().filter(|node| &*node.name == name).find_map(|node| match &node.kind {
            NodeKind::Loop(looping) => match looping.check {
                Check::Before { condition, .. } | Check::After { condition, .. } => {
                    Some(text::short(&plan.expressions[condition.0 as usize].source, 60))
                }
                Check::Never => None,
            },
            _ => None,
        })
    }
}
