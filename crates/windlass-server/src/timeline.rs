//! The timeline of a run: one entry for each time a step or an iteration started, in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_core::{Event, EventError, EventKind, Status};
use windlass_value::{Timestamp, interned};

/// Maximum number of entries. The oldest entries inside iterations are dropped first.
const MAX_ENTRIES: usize = 5_000;

/// One execution of a step or iteration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimelineEntry {
    pub path: Arc<str>,
    /// `running` until it has ended.
    pub status: Arc<str>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub attempts: u32,
    pub error: Option<TimelineError>,
    pub is_iteration: bool,
}

/// The error of an entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TimelineError {
    /// The name that definitions and journals use, such as `503`.
    pub code: Arc<str>,
    /// The error code, such as `WND-2401`.
    pub reference: &'static str,
    pub message: Arc<str>,
}

impl TimelineError {
    fn from_event(error: &EventError) -> TimelineError {
        let reference = windlass_errors::for_run_error(&error.code, &error.kind);
        TimelineError { code: error.code.clone(), reference, message: error.message.clone() }
    }
}

/// All executions of one run.
pub(crate) struct Timeline {
    /// Labels of the dialect by step name.
    labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Entries by the sequence number of their start event.
    entries: BTreeMap<u64, TimelineEntry>,
    /// The newest unfinished entry at each path.
    open: BTreeMap<Arc<str>, u64>,
    pub dropped: u64,
}

impl Timeline {
    pub(crate) fn new(plan: &Plan) -> Timeline {
        let labels = plan.nodes.iter().filter(|node| !node.hidden).map(|node| (node.name.clone(), node.label.clone()));
        Timeline { labels: labels.collect(), entries: BTreeMap::new(), open: BTreeMap::new(), dropped: 0 }
    }

    pub(crate) fn add_event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::StepStarted { .. } => self.begin(event, false),
            EventKind::IterationStarted { .. } => self.begin(event, true),
            EventKind::StepDone { status, .. }
            | EventKind::StepFailed { status, .. }
            | EventKind::StepSkipped { status, .. } => self.end(event, *status, false),
            EventKind::IterationDone { status, .. } => self.end(event, *status, true),
            EventKind::TaskStarted { attempt, .. } => {
                if let Some(entry) = self.enclosing(&event.path) {
                    entry.attempts = entry.attempts.max(*attempt);
                }
            }
            _ => {}
        }
    }

    fn begin(&mut self, event: &Event, is_iteration: bool) {
        let entry = TimelineEntry {
            path: event.path.clone(),
            status: "running".into(),
            started_at: event.at,
            ended_at: None,
            attempts: u32::from(!is_iteration),
            error: None,
            is_iteration,
        };
        self.entries.insert(event.seq, entry);
        self.open.insert(event.path.clone(), event.seq);
        if self.entries.len() > MAX_ENTRIES {
            self.drop_oldest();
        }
    }

    /// Drops the oldest entry inside an iteration, or else the oldest entry.
    fn drop_oldest(&mut self) {
        let in_iteration = |entry: &TimelineEntry| entry.is_iteration || has_iteration(&entry.path);
        let oldest = self.entries.iter().find(|(_, entry)| in_iteration(entry)).map(|(seq, _)| *seq);
        let oldest = oldest.or_else(|| self.entries.keys().next().copied());
        if let Some(entry) = oldest.and_then(|seq| self.entries.remove(&seq)) {
            self.dropped += 1;
            if self.open.get(&entry.path) == oldest.as_ref() {
                self.open.remove(&entry.path);
            }
        }
    }

    fn end(&mut self, event: &Event, status: Status, is_iteration: bool) {
        let status = interned(status.as_str());
        let error = event.kind.error().map(TimelineError::from_event);
        match self.open.remove(&event.path).and_then(|seq| self.entries.get_mut(&seq)) {
            Some(entry) => {
                entry.status = status;
                entry.ended_at = Some(event.at);
                entry.error = error;
            }
            // A skipped step has never started.
            None if matches!(event.kind, EventKind::StepSkipped { .. }) => {
                let (path, at) = (event.path.clone(), event.at);
                let (ended_at, attempts) = (Some(at), 0);
                let entry = TimelineEntry { path, status, started_at: at, ended_at, attempts, error, is_iteration };
                self.entries.insert(event.seq, entry);
            }
            None => {}
        }
    }

    /// Returns the open entry at a path or at its nearest enclosing path.
    fn enclosing(&mut self, path: &str) -> Option<&mut TimelineEntry> {
        let mut path = path;
        loop {
            if let Some(seq) = self.open.get(path) {
                return self.entries.get_mut(seq);
            }
            path = path.rfind(['.', '[']).map(|at| &path[..at])?;
        }
    }

    /// Returns the entries directly inside a path that started after a sequence number; "" is the run itself.
    pub(crate) fn inside<'a>(&'a self, parent: &'a str, after: u64) -> impl Iterator<Item = (u64, &'a TimelineEntry)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = if after == 0 { Unbounded } else { Excluded(after) };
        self.entries
            .range((after, Unbounded))
            .filter(move |(_, entry)| parent_of(&entry.path) == parent)
            .map(|(seq, entry)| (*seq, entry))
    }

    pub(crate) fn kind(&self, entry: &TimelineEntry) -> &str {
        let name = name_of(&entry.path);
        if entry.is_iteration { "iteration" } else { self.labels.get(name).map_or("", |label| &**label) }
    }
}

/// Returns whether a path contains a loop iteration.
fn has_iteration(path: &str) -> bool {
    path.contains('[')
}

/// Returns the enclosing path: `sync[3]` for `sync[3].fetch`, `sync` for `sync[3]`.
pub(crate) fn parent_of(path: &str) -> &str {
    match path.rfind(['.', '[']) {
        Some(at) => &path[..at],
        None => "",
    }
}

/// Returns the last name of a path.
pub(crate) fn name_of(path: &str) -> &str {
    let last = path.rsplit('.').next().unwrap_or(path);
    last.split('[').next().unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(timeline: &mut Timeline, seq: u64, kind: &str, path: &str, data: &str) {
        let data = windlass_value::parse_json(data).expect("a test's own JSON");
        let kind = EventKind::with_defaults(kind, data.as_map().expect("an object").clone());
        timeline.add_event(&Event { seq, at: Timestamp(seq as i64 * 1_000), path: path.into(), kind });
    }

    #[test]
    fn entries_are_listed_by_their_parent() {
        let mut timeline = Timeline::new(&Plan::new("x", "loom", "{}"));
        add(&mut timeline, 1, "step.started", "sync", "{}");
        add(&mut timeline, 2, "loop.iteration.started", "sync[0]", "{}");
        add(&mut timeline, 3, "step.started", "sync[0].fetch", "{}");
        add(&mut timeline, 4, "task.started", "sync[0].fetch.call", r#"{"attempt": 3}"#);
        add(
            &mut timeline,
            5,
            "step.failed",
            "sync[0].fetch",
            r#"{"status": "failed", "error": {"code": "503", "message": "no"}}"#,
        );
        add(&mut timeline, 6, "loop.iteration.done", "sync[0]", r#"{"status": "failed"}"#);
        add(&mut timeline, 7, "step.skipped", "after", r#"{"status": "skipped", "reason": "x"}"#);
        let seen = |parent: &str| -> Vec<String> {
            let inside = timeline.inside(parent, 0);
            inside.map(|(_, entry)| format!("{} {} {}", entry.path, entry.status, entry.attempts)).collect()
        };
        assert_eq!(seen(""), ["sync running 1", "after skipped 0"]);
        assert_eq!(seen("sync"), ["sync[0] failed 0"]);
        assert_eq!(seen("sync[0]"), ["sync[0].fetch failed 3"]);
        assert_eq!(timeline.inside("", 1).count(), 1);
    }

    #[test]
    fn the_newest_iterations_are_kept() {
        let mut timeline = Timeline::new(&Plan::new("x", "loom", "{}"));
        add(&mut timeline, 1, "step.started", "sync", "{}");
        let iterations = MAX_ENTRIES as u64 + 10;
        for iteration in 0..iterations {
            add(&mut timeline, 2 + iteration * 2, "loop.iteration.started", &format!("sync[{iteration}]"), "{}");
            add(
                &mut timeline,
                3 + iteration * 2,
                "loop.iteration.done",
                &format!("sync[{iteration}]"),
                r#"{"status": "succeeded"}"#,
            );
        }
        assert_eq!(timeline.inside("", 0).count(), 1, "an entry outside all iterations stays");
        assert_eq!(timeline.inside("sync", 0).count(), MAX_ENTRIES - 1);
        assert_eq!(timeline.dropped, 11);
    }
}
