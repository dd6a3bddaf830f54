//! Converts a run's events into spans: the run, its steps, iterations and tasks, with names, times and outcomes, but
//! no values.
//!
//! Ids are derived from the run's id, so a run's trace can be found by its id, and the same run always yields the
//! same trace.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use windlass_core::{Event, EventKind};
use windlass_store::RunRow;
use windlass_value::Timestamp;

const MAX_NAME_CHARS: usize = 200;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum SpanLevel {
    Step,
    Iteration,
    Task,
}

/// Key of an open span. Several concurrent firings at one location have the same path.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SpanKey {
    kind: SpanLevel,
    path: Arc<str>,
    firing: u64,
}

struct OpenSpan {
    id: SpanId,
    parent: SpanId,
    name: String,
    began: Timestamp,
    attributes: Vec<KeyValue>,
}

/// The spans of one run, built event by event.
pub(crate) struct RunSpans {
    run: Arc<str>,
    scope: InstrumentationScope,
    open: HashMap<SpanKey, OpenSpan>,
    done: Vec<SpanData>,
    /// Maximum number of spans. The steps and tasks beyond it are only counted.
    max_spans: u64,
    made: u64,
    dropped: u64,
    links: Vec<Link>,
}

/// Returns the trace id of a run.
pub(crate) fn trace_id(run: &str) -> TraceId {
    let mut bytes = [0u8; 16];
    bytes.copy_from_slice(&hash("trace", run, "", 0)[..16]);
    TraceId::from_bytes(bytes)
}

/// Returns the id of the root span, which covers the whole run.
pub(crate) fn root_id(run: &str) -> SpanId {
    span_id(run, "run", 0)
}

fn span_id(run: &str, what: &str, seq: u64) -> SpanId {
    let mut bytes = [0u8; 8];
    bytes.copy_from_slice(&hash("span", run, what, seq)[..8]);
    SpanId::from_bytes(bytes)
}

fn hash(kind: &str, run: &str, what: &str, seq: u64) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in [kind, run, what] {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.update(&seq.to_be_bytes());
    *hasher.finalize().as_bytes()
}

impl RunSpans {
    pub(crate) fn new(row: &RunRow, max_spans: u64) -> RunSpans {
        let mut spans = RunSpans {
            run: row.run.clone(),
            scope: InstrumentationScope::builder("windlass").with_version(env!("CARGO_PKG_VERSION")).build(),
            open: HashMap::new(),
            done: Vec::new(),
            max_spans,
            made: 0,
            dropped: 0,
            links: Vec::new(),
        };
        if let Some(parent) = &row.parent {
            spans.link(parent, "parent");
        }
        spans
    }

    /// Returns the number of ended spans that were not taken yet.
    pub(crate) fn done(&self) -> usize {
        self.done.len()
    }

    pub(crate) fn take(&mut self) -> Vec<SpanData> {
        std::mem::take(&mut self.done)
    }

    pub(crate) fn add(&mut self, event: &Event) {
        match &event.kind {
            EventKind::StepStarted { kind, .. } => {
                self.begin(SpanLevel::Step, event, last_name(&event.path), text("windlass.kind", kind));
            }
            EventKind::IterationStarted { iteration } => {
                let iteration = number("windlass.iteration", *iteration);
                self.begin(SpanLevel::Iteration, event, last_name(&event.path), [iteration]);
            }
            EventKind::TaskStarted { task, attempt, tool, call } => {
                let name = tool.as_deref().unwrap_or("task");
                let attributes = text("windlass.task", task)
                    .into_iter()
                    .chain(tool.as_deref().and_then(|tool| text("windlass.tool", tool)))
                    .chain([number("windlass.attempt", (*attempt).into())])
                    .chain((*call > 0).then(|| number("windlass.call", (*call).into())));
                self.begin(SpanLevel::Task, event, name, attributes);
            }
            EventKind::StepDone { status, .. } => self.finish(SpanLevel::Step, event, status.as_str(), None),
            EventKind::StepFailed { status, reason, .. } => {
                let reason = reason.as_deref().and_then(|reason| text("windlass.reason", reason));
                self.finish(SpanLevel::Step, event, status.as_str(), reason);
            }
            EventKind::IterationDone { status, condition_result, .. } => {
                let condition = condition_result.map(|met| KeyValue::new("windlass.condition_result", met));
                self.finish(SpanLevel::Iteration, event, status.as_str(), condition);
            }
            EventKind::TaskProcessed { outcome, .. } => {
                self.finish(SpanLevel::Task, event, outcome.status.as_str(), None);
            }
            EventKind::LoopDone { iterations, reason, .. } => {
                let attributes =
                    [number("windlass.iterations", *iterations), KeyValue::new("windlass.reason", reason.as_str())];
                self.add_attributes(event, attributes);
            }
            EventKind::WorkflowRestarted { from, retry, .. } => {
                self.link(from, if *retry { "retries" } else { "restarts" });
            }
            // The other events are about values, or covered by those above.
            _ => {}
        }
    }

    /// Ends the trace: open spans end with the run, and the root span comes last.
    pub(crate) fn end(mut self, row: &RunRow) -> Vec<SpanData> {
        let mut left: Vec<OpenSpan> = self.open.drain().map(|(_, open)| open).collect();
        left.sort_by_key(|open| open.began);
        for open in left {
            self.close(open, row.changed_at, Status::Unset, Vec::new());
        }
        let mut attributes = vec![
            KeyValue::new("windlass.run", row.run.to_string()),
            KeyValue::new("windlass.definition", row.definition.clone()),
            KeyValue::new("windlass.dialect", row.dialect.clone()),
            KeyValue::new("windlass.plan", row.plan.to_string()),
            KeyValue::new("windlass.status", row.status.as_str()),
        ];
        attributes.extend(row.parent.iter().map(|parent| KeyValue::new("windlass.parent", parent.to_string())));
        if self.dropped > 0 {
            attributes.push(KeyValue::new("windlass.spans_dropped", self.dropped as i64));
        }
        let open = OpenSpan {
            id: root_id(&self.run),
            parent: SpanId::INVALID,
            name: truncate_name(&row.definition),
            began: row.created_at,
            attributes,
        };
        let links = std::mem::take(&mut self.links);
        self.close(open, row.changed_at, status(Some(row.status.as_str())), links);
        self.done
    }

    fn begin(&mut self, kind: SpanLevel, event: &Event, name: &str, extra: impl IntoIterator<Item = KeyValue>) {
        if self.made >= self.max_spans {
            self.dropped += 1;
            return;
        }
        self.made += 1;
        let key = key(kind, event);
        let parent = self.parent(&key);
        let mut attributes = vec![KeyValue::new("windlass.path", truncate_name(&event.path))];
        attributes.extend(extra);
        let id = span_id(&self.run, event.type_name(), event.seq);
        let open = OpenSpan { id, parent, name: truncate_name(name), began: event.at, attributes };
        // A span that had not ended was abandoned, usually by a restart of the process.
        if let Some(before) = self.open.insert(key, open) {
            self.close(before, event.at, Status::Unset, Vec::new());
        }
    }

    fn add_attributes(&mut self, event: &Event, extra: impl IntoIterator<Item = KeyValue>) {
        if let Some(open) = self.open.get_mut(&key(SpanLevel::Step, event)) {
            open.attributes.extend(extra);
        }
    }

    fn finish(&mut self, kind: SpanLevel, event: &Event, ended: &str, extra: impl IntoIterator<Item = KeyValue>) {
        let Some(mut open) = self.open.remove(&key(kind, event)) else { return };
        open.attributes.extend(extra);
        let code = event.kind.error().map(|error| KeyValue::new("error.type", truncate_name(&error.code)));
        open.attributes.extend(code);
        self.close(open, event.at, status(Some(ended)), Vec::new());
    }

    /// Returns the innermost open span around it.
    fn parent(&self, key: &SpanKey) -> SpanId {
        let mut path = &*key.path;
        let mut kinds: &[SpanLevel] =
            if key.kind == SpanLevel::Task { &[SpanLevel::Step, SpanLevel::Iteration] } else { &[] };
        loop {
            for kind in kinds {
                let enclosing = SpanKey { kind: *kind, path: path.into(), firing: key.firing };
                let without_firing = SpanKey { firing: 0, ..enclosing.clone() };
                if let Some(open) = self.open.get(&enclosing).or_else(|| self.open.get(&without_firing)) {
                    return open.id;
                }
            }
            let Some(cut) = path.rfind(['.', '[', '/']) else { return root_id(&self.run) };
            path = &path[..cut];
            kinds = &[SpanLevel::Iteration, SpanLevel::Step];
        }
    }

    fn close(&mut self, open: OpenSpan, at: Timestamp, status: Status, links: Vec<Link>) {
        self.done.push(SpanData {
            span_context: context(&self.run, open.id),
            parent_span_id: open.parent,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: open.name.into(),
            start_time: time(open.began),
            end_time: time(at.max(open.began)),
            attributes: open.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: linked(links),
            status,
            instrumentation_scope: self.scope.clone(),
        });
    }

    fn link(&mut self, run: &str, why: &'static str) {
        let attributes = vec![KeyValue::new("windlass.link", why), KeyValue::new("windlass.run", run.to_owned())];
        self.links.push(Link::new(context(run, root_id(run)), attributes, 0));
    }
}

fn linked(links: Vec<Link>) -> SpanLinks {
    let mut linked = SpanLinks::default();
    linked.links = links;
    linked
}

fn context(run: &str, span: SpanId) -> SpanContext {
    SpanContext::new(trace_id(run), span, TraceFlags::SAMPLED, false, TraceState::default())
}

fn key(kind: SpanLevel, event: &Event) -> SpanKey {
    let firing = event.kind.firing().map_or(0, |firing| firing + 1);
    SpanKey { kind, path: event.path.clone(), firing }
}

fn text(name: &'static str, text: &str) -> Option<KeyValue> {
    (!text.is_empty()).then(|| KeyValue::new(name, truncate_name(text)))
}

fn number(name: &'static str, number: u64) -> KeyValue {
    KeyValue::new(name, i64::try_from(number).unwrap_or(i64::MAX))
}

fn status(ended: Option<&str>) -> Status {
    match ended {
        Some("succeeded" | "success" | "ok") => Status::Ok,
        Some(bad @ ("failed" | "error" | "timed_out" | "cancelled")) => Status::error(bad.to_owned()),
        _ => Status::Unset,
    }
}

/// Returns the last segment: `save` for `pages[3].save`, `pages[3]` for itself.
fn last_name(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn truncate_name(text: &str) -> String {
    text.chars().take(MAX_NAME_CHARS).collect()
}

fn time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(at.0).unwrap_or(0))
}
