//! Progress as plain lines: each top-level step once when it takes a while, each loop at most once a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::{Event, EventKind, Status};
use windlass_value::{Timestamp, Value};

use super::agents;
use super::loops::LiveLoops;
use super::waits::RunWaits;
use super::{PAUSED, ProgressSeed, is_inside, is_top};
use crate::out;
use crate::text;

/// A step that ends sooner gets one line, not two.
const START_DELAY: Duration = Duration::from_millis(200);

const LOOP_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of loops shown at the same time; there may be hundreds inside a parallel one.
const MAX_LOOPS: usize = 3;

/// A step that has started.
struct StartedStep {
    path: Arc<str>,
    kind: String,
    at: Timestamp,
    since: Instant,
}

#[derive(Default)]
pub(crate) struct ProgressLines {
    begun_at: Option<Timestamp>,
    newest: Timestamp,
    /// Steps whose start was not shown yet.
    begun: Vec<StartedStep>,
    loops: LiveLoops,
    loops_shown_at: Option<Instant>,
    /// The sequence number of the last known event.
    last_seq: u64,
    pub waits: RunWaits,
}

impl ProgressLines {
    pub(crate) fn seed(&mut self, begun: ProgressSeed) {
        self.last_seq = begun.events;
        // The clock starts with the run, also for a display that starts later.
        self.begun_at = Some(begun.at);
        // Outer loops come first.
        for seeded in begun.loops.iter().take(MAX_LOOPS) {
            out::note(&format!("{} continues at {}", seeded.path, seeded.position));
        }
        self.loops.0.extend(begun.loops.into_iter().map(|seeded| (seeded.path, seeded.progress)));
        for (name, address) in &begun.forms {
            out::note(&self.waits.seed(name, address));
        }
        if begun.paused {
            out::note(PAUSED);
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        if event.seq <= self.last_seq {
            return;
        }
        self.begun_at.get_or_insert(event.at);
        // A loop's first line comes after one interval, too.
        self.loops_shown_at.get_or_insert_with(Instant::now);
        self.newest = event.at;
        self.loops.apply(event);
        match &event.kind {
            EventKind::StepStarted { kind, .. } if is_top(&event.path) => {
                let (path, kind, at) = (event.path.clone(), kind.to_string(), event.at);
                self.begun.push(StartedStep { path, kind, at, since: Instant::now() });
            }
            EventKind::StepDone { status, .. } if is_top(&event.path) => self.ended(event, *status, None, None),
            EventKind::StepFailed { status, reason, message, .. }
            | EventKind::StepSkipped { status, reason, message, .. }
                if is_top(&event.path) =>
            {
                self.ended(event, *status, reason.as_deref(), message.as_deref());
            }
            EventKind::TaskRetrying { attempt, delay, error: because, .. } => {
                self.retrying(&event.path, *attempt, *delay, &because.message);
            }
            EventKind::WorkflowHeld { .. } => self.show("queued"),
            EventKind::WorkflowPaused {} => self.show(PAUSED),
            EventKind::WorkflowResumed {} => self.show("resumed"),
            EventKind::WorkflowIdle { .. } | EventKind::ApprovalRequested { .. } => {
                let line = self.waits.line(event);
                self.show_enclosing_steps(&event.path);
                line.iter().for_each(|line| self.show(line));
            }
            _ => {
                if let Some(line) = agents::line(event) {
                    self.show_enclosing_steps(&event.path);
                    self.show(&line);
                }
            }
        }
    }

    pub(crate) fn beat(&mut self) {
        let due: Vec<StartedStep> = self.begun.extract_if(.., |begun| begun.since.elapsed() >= START_DELAY).collect();
        self.show_started_steps(&due);
        if self.loops_shown_at.is_none_or(|shown_at| shown_at.elapsed() >= LOOP_INTERVAL) {
            self.show_loops();
        }
    }

    /// Shows the start of the steps around a path before any other line about it.
    fn show_enclosing_steps(&mut self, path: &str) {
        let around = |begun: &mut StartedStep| *begun.path == *path || is_inside(path, &begun.path);
        let begun: Vec<StartedStep> = self.begun.extract_if(.., around).collect();
        self.show_started_steps(&begun);
    }

    fn show_started_steps(&self, begun: &[StartedStep]) {
        begun.iter().for_each(|begun| self.show_at(begun.at, &format!("{} started ({})", begun.path, begun.kind)));
    }

    fn show_loops(&mut self) {
        let mut fresh: Vec<(usize, String)> = Vec::new();
        for (path, seen) in self.loops.0.iter_mut().filter(|(_, seen)| seen.fresh) {
            seen.fresh = false;
            let depth = path.matches('.').count();
            fresh.push((depth, format!("{path} {}  {}", seen.count(), text::format_value(&seen.last, 80))));
        }
        if fresh.is_empty() {
            return;
        }
        self.loops_shown_at = Some(Instant::now());
        // Outer loops matter more than inner ones.
        fresh.sort();
        fresh.iter().take(MAX_LOOPS).for_each(|(_, line)| self.show(line));
    }

    fn ended(&mut self, event: &Event, status: Status, reason: Option<&str>, message: Option<&str>) {
        self.begun.retain(|begun| begun.path != event.path);
        let error = event.kind.error().map(|error| &*error.message);
        // A skipped step usually has a message.
        let error = error.or(message).map(|error| text::format_value(&Value::from(error), 300));
        let reason = reason.map(|reason| match reason {
            // The event holds only the code.
            "ConditionFalse" => "its condition is not met".to_owned(),
            other => other.to_owned(),
        });
        let why = error.or(reason);
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        self.show(&format!("{} {}{why}", event.path, status.as_str()));
    }

    fn retrying(&mut self, path: &str, attempt: u32, delay: windlass_value::Duration, because: &str) {
        self.show_enclosing_steps(path);
        let because = text::format_value(&Value::from(because), 100);
        self.show(&format!("{path} failed; attempt {} in {}: {because}", attempt + 1, text::format_duration(delay)));
    }

    fn show(&self, what: &str) {
        self.show_at(self.newest, what);
    }

    fn show_at(&self, when: Timestamp, what: &str) {
        let since = self.begun_at.map_or(windlass_value::Duration::ZERO, |at| when.since(at));
        out::note(&format!("{:>8}  {what}", text::format_duration(since)));
    }
}
