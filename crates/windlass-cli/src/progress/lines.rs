//! Progress as plain lines: each top-level step once when it takes a moment, each loop at most once a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::Event;
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
const LOOPS_MAX: usize = 3;

/// A step that has begun.
struct Started {
    path: Arc<str>,
    kind: String,
    at: Timestamp,
    since: Instant,
}

#[derive(Default)]
pub struct Lines {
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
    pub fn seed(&mut self, begun: Begun) {
        self.seen = begun.events;
        // The clock is the run's own, also for those who come later.
        self.begun_at = Some(begun.at);
        // Outer loops come first.
        for (path, seen) in begun.loops.iter().take(LOOPS_MAX) {
            out::note(&format!("{path} goes on at {}", seen.count()));
        }
        self.loops.0.extend(begun.loops);
        if begun.paused {
            out::note(PAUSED);
        }
    }

    pub fn event(&mut self, event: &Event) {
        if event.seq <= self.seen {
            return;
        }
        self.begun_at.get_or_insert(event.at);
        // A loop's first line comes after a second, too.
        self.loops_told.get_or_insert_with(Instant::now);
        self.newest = event.at;
        self.loops.take(event);
        match &*event.kind {
            "step.started" if is_top(&event.path) => {
                let kind = event.data.get("kind").and_then(Value::as_str).unwrap_or("step");
                let (path, kind, at) = (event.path.clone(), kind.to_owned(), event.at);
                self.begun.push(Started { path, kind, at, since: Instant::now() });
            }
            "step.done" | "step.failed" | "step.skipped" if is_top(&event.path) => self.ended(event),
            "task.retrying" => self.retrying(event),
            "workflow.held" => self.tell("waits for its turn"),
            "workflow.paused" => self.tell(PAUSED),
            "workflow.resumed" => self.tell("resumed"),
            "workflow.idle" => {
                let waits = event.data.get("waits").map(|waits| text::short(waits, 100)).unwrap_or_default();
                self.tell(&format!("waiting for {waits}"));
            }
            _ => {
                if let Some(line) = agents::line(event) {
                    self.tell_around(&event.path);
                    self.tell(&line);
                }
            }
        }
    }

    pub fn beat(&mut self) {
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
        fresh.iter().take(LOOPS_MAX).for_each(|(_, line)| self.tell(line));
    }

    fn ended(&mut self, event: &Event) {
        self.begun.retain(|begun| begun.path != event.path);
        let field = |name| event.data.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let error = event.data.get("error").and_then(|error| error.get("message"));
        // A step that is skipped says why in words, mostly.
        let error = error.or_else(|| event.data.get("message")).map(|error| text::short(error, 300));
        let reason = match &*field("reason") {
            "" => None,
            // The event has the code alone.
            "ConditionFalse" => Some("its condition is not met".to_owned()),
            other => Some(other.to_owned()),
        };
        let why = error.or(reason);
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        self.tell(&format!("{} {}{why}", event.path, field("status")));
    }

    fn retrying(&mut self, event: &Event) {
        self.tell_around(&event.path);
        let attempt = event.data.get("attempt").and_then(Value::as_int).unwrap_or(0);
        let delay = event.data.get("delay").and_then(Value::as_int).unwrap_or(0).max(0) as u64;
        let because = event.data.get("because").and_then(|because| because.get("message"));
        let because = because.map(|because| text::short(because, 100)).unwrap_or_default();
        let wait = text::span(windlass_value::Duration::from_ms(delay));
        self.tell(&format!("{} failed, try {} in {wait}: {because}", event.path, attempt + 1));
    }

    fn tell(&self, what: &str) {
        self.tell_at(self.newest, what);
    }

    fn tell_at(&self, when: Timestamp, what: &str) {
        let since = self.begun_at.map_or(windlass_value::Duration::ZERO, |at| when.since(at));
        out::note(&format!("{:>8}  {what}", text::span(since)));
    }
}
