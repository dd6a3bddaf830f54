//! Progress as plain lines: each top-level step once when it takes a moment, each loop at most once a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::{Event, EventKind, Status};
use windlass_value::{Timestamp, Value};

use super::agents;
use super::loops::Loops;
use super::{Begun, PAUSED, is_inside, is_top};
use crate::out;
use crate::text;

/// A step that is over sooner gets one line, not two.
const MOMENT: Duration = Duration::from_millis(200);

const EACH_LOOP: Duration = Duration::from_secs(1);

/// Loops shown at once; there may be hundreds inside a parallel one.
const MAX_LOOPS: usize = 3;

/// A step that has begun.
struct Started {
    path: Arc<str>,
    kind: String,
    at: Timestamp,
    since: Instant,
}

#[derive(Default)]
pub(crate) struct Lines {
    begun_at: Option<Timestamp>,
    newest: Timestamp,
    /// Steps whose beginning was not told yet.
    begun: Vec<Started>,
    loops: Loops,
    loops_told: Option<Instant>,
    /// The last event that is known of.
    seen: u64,
}

impl Lines {
    pub(crate) fn seed(&mut self, begun: Begun) {
        self.seen = begun.events;
        // The clock is the run's own, also for those who come later.
        self.begun_at = Some(begun.at);
        // Outer loops come first.
        for (path, seen) in begun.loops.iter().take(MAX_LOOPS) {
            out::note(&format!("{path} goes on at {}", seen.count()));
        }
        self.loops.0.extend(begun.loops);
        if begun.paused {
            out::note(PAUSED);
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        if event.seq <= self.seen {
            return;
        }
        self.begun_at.get_or_insert(event.at);
        // A loop's first line comes after a second, too.
        self.loops_told.get_or_insert_with(Instant::now);
        self.newest = event.at;
        self.loops.take(event);
        match &event.kind {
            EventKind::StepStarted { kind, .. } if is_top(&event.path) => {
                let (path, kind, at) = (event.path.clone(), kind.to_string(), event.at);
                self.begun.push(Started { path, kind, at, since: Instant::now() });
            }
            EventKind::StepDone { status, .. } if is_top(&event.path) => self.ended(event, *status, None, None),
            EventKind::StepFailed { status, reason, message, .. }
            | EventKind::StepSkipped { status, reason, message, .. }
                if is_top(&event.path) =>
            {
                self.ended(event, *status, reason.as_deref(), message.as_deref());
            }
            EventKind::TaskRetrying { attempt, delay, because, .. } => {
                self.retrying(&event.path, *attempt, *delay, &because.message);
            }
            EventKind::WorkflowHeld { .. } => self.tell("waits for its turn"),
            EventKind::WorkflowPaused {} => self.tell(PAUSED),
            EventKind::WorkflowResumed {} => self.tell("resumed"),
            EventKind::WorkflowIdle { waits } => {
                let waits = Value::list(waits.iter().cloned().map(Value::Str).collect());
                self.tell(&format!("waiting for {}", text::short(&waits, 100)));
            }
            _ => {
                if let Some(line) = agents::line(event) {
                    self.tell_around(&event.path);
                    self.tell(&line);
                }
            }
        }
    }

    pub(crate) fn beat(&mut self) {
        let told: Vec<Started> = self.begun.extract_if(.., |begun| begun.since.elapsed() >= MOMENT).collect();
        self.tell_begun(&told);
        if self.loops_told.is_none_or(|told| told.elapsed() >= EACH_LOOP) {
            self.tell_loops();
        }
    }

    /// Whatever is told of something has begun: that is said first.
    fn tell_around(&mut self, path: &str) {
        let around = |begun: &mut Started| *begun.path == *path || is_inside(path, &begun.path);
        let begun: Vec<Started> = self.begun.extract_if(.., around).collect();
        self.tell_begun(&begun);
    }

    fn tell_begun(&self, begun: &[Started]) {
        begun.iter().for_each(|begun| self.tell_at(begun.at, &format!("{} started ({})", begun.path, begun.kind)));
    }

    fn tell_loops(&mut self) {
        let mut fresh: Vec<(usize, String)> = Vec::new();
        for (path, seen) in self.loops.0.iter_mut().filter(|(_, seen)| seen.fresh) {
            seen.fresh = false;
            let depth = path.matches('.').count();
            fresh.push((depth, format!("{path} {}  {}", seen.count(), text::short(&seen.last, 80))));
        }
        if fresh.is_empty() {
            return;
        }
        self.loops_told = Some(Instant::now());
        // Outer loops say more than inner ones.
        fresh.sort();
        fresh.iter().take(MAX_LOOPS).for_each(|(_, line)| self.tell(line));
    }

    fn ended(&mut self, event: &Event, status: Status, reason: Option<&str>, message: Option<&str>) {
        self.begun.retain(|begun| begun.path != event.path);
        let error = event.kind.error().map(|error| &*error.message);
        // A step that is skipped says why in words, mostly.
        let error = error.or(message).map(|error| text::short(&Value::from(error), 300));
        let reason = reason.map(|reason| match reason {
            // The event has the code alone.
            "ConditionFalse" => "its condition is not met".to_owned(),
            other => other.to_owned(),
        });
        let why = error.or(reason);
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        self.tell(&format!("{} {}{why}", event.path, status.as_str()));
    }

    fn retrying(&mut self, path: &str, attempt: u32, delay: windlass_value::Duration, because: &str) {
        self.tell_around(path);
        let because = text::short(&Value::from(because), 100);
        self.tell(&format!("{path} failed, try {} in {}: {because}", attempt + 1, text::span(delay)));
    }

    fn tell(&self, what: &str) {
        self.tell_at(self.newest, what);
    }

    fn tell_at(&self, when: Timestamp, what: &str) {
        let since = self.begun_at.map_or(windlass_value::Duration::ZERO, |at| when.since(at));
        out::note(&format!("{:>8}  {what}", text::span(since)));
    }
}
