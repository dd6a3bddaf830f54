//! Scripts: the actions of workers, child runs and external callers, with their times. Times are milliseconds from
//! the start of the run.
//!
//! ```yaml
//! input: {n: 3}
//! limits: {slice_iterations: 2}
//! results:                       # by the job's path, by its path without the last part, or by its tool
//!   check: [{fails: '503'}, {gives: {status: done}, after: 2000}]
//!   ask: [{outcome: {suspension: …}}, lost, never, plain text]
//!   work.0: [{text: a text, calls: [[bash, {cmd: ls}]], tokens: 1000}]      # of an agent's model
//! children: {child: [{gives: 7, after: 100}, {fails: Broken}, never]}
//! outside:
//!   - {at: 5000, name: approve, payload: {ok: true}}
//!   - {at: 6000, tick: {CancelRun: {reason: enough, request: null}}}
//! ```
//!
//! The entries of a list apply to one execution of a path after the other; the last one repeats. An execution without
//! an entry succeeds with its own input. A result arrives 10 ms after its start unless it has `after`.

use windlass_core::{ErrorInfo, Job, Status, TaskOutcome, TickKind};
use windlass_value::{Duration, Timestamp, Value, to_json};

/// The delay of a result that does not specify one.
const AFTER_MS: u64 = 10;

pub(crate) struct Script(Value);

/// The end of a task or of a child run, after some time.
pub(crate) enum ScriptedReply<T> {
    After(Duration, T),
    /// The worker loses its lease after this time.
    Lost(Duration),
    Never,
}

impl Script {
    pub(crate) fn new(script: Value) -> Script {
        Script(script)
    }

    fn section(&self, key: &str) -> Value {
        self.0.get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn input(&self) -> Value {
        self.section("input")
    }

    /// Returns the external ticks, in the order of the script.
    pub(crate) fn external_ticks(&self) -> Vec<(Timestamp, TickKind)> {
        let entry = |entry: &Value| {
            let at = Timestamp(entry.get("at").and_then(Value::as_int).unwrap_or(0) * 1_000);
            let kind = match entry.get("tick") {
                Some(tick) => parse(tick),
                None => {
                    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(Into::into);
                    TickKind::AddEvent {
                        name: text("name").expect("an event from outside has a name"),
                        payload: entry.get("payload").cloned().unwrap_or_default(),
                        request: None,
                        origin: None,
                        to: text("to"),
                        trigger_metadata: Value::Null,
                        defaults: Value::Null,
                    }
                }
            };
            (at, kind)
        };
        self.section("outside").as_list().unwrap_or_default().iter().map(entry).collect()
    }

    /// `number` counts the earlier executions at this path.
    pub(crate) fn result(&self, job: &Job, number: usize) -> ScriptedReply<TaskOutcome> {
        let results = self.section("results");
        let step = job.path().rsplit_once('.').map_or("", |(step, _)| step);
        let entry = [&**job.path(), step, &*job.tool].into_iter().find_map(|key| results.get(key));
        let Some(entry) = entry.and_then(|entry| entry_at(entry, number)) else {
            return ScriptedReply::After(Duration::from_ms(AFTER_MS), TaskOutcome::success(job.input.clone()));
        };
        reply(&entry, |entry| match &*job.tool {
            "agent_model" => model_reply(entry),
            _ => outcome(entry),
        })
    }

    pub(crate) fn child(&self, definition: &str, number: usize) -> ScriptedReply<(Status, TaskOutcome)> {
        let children = self.section("children");
        let entry = children.get(definition).and_then(|entry| entry_at(entry, number)).unwrap_or_default();
        reply(&entry, |entry| {
            let outcome = outcome(entry);
            (if outcome.error.is_none() { Status::Succeeded } else { Status::Failed }, outcome)
        })
    }
}

/// Returns the entry with this number, or the last one. A value that is no list is the only entry.
fn entry_at(entries: &Value, number: usize) -> Option<Value> {
    match entries.as_list() {
        Some(entries) => entries.get(number).or(entries.last()).cloned(),
        None => Some(entries.clone()),
    }
}

fn reply<T>(entry: &Value, outcome: impl FnOnce(&Value) -> T) -> ScriptedReply<T> {
    let after = entry.get("after").and_then(Value::as_int).map_or(AFTER_MS, |after| after as u64);
    match entry.as_str() {
        Some("never") => ScriptedReply::Never,
        Some("lost") => ScriptedReply::Lost(Duration::from_ms(AFTER_MS)),
        _ => ScriptedReply::After(Duration::from_ms(after), outcome(entry)),
    }
}

fn outcome(entry: &Value) -> TaskOutcome {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let meta = entry.get("meta").cloned().unwrap_or_default();
    let facts = entry.get("facts").cloned().unwrap_or_default();
    if let Some(code) = text("fails") {
        let error = ErrorInfo::new(code, text("kind").unwrap_or("http"), format!("scripted: {code}"));
        let error = if entry.get("replied") == Some(&Value::Bool(false)) { error } else { error.replied() };
        let output = entry.get("gives").cloned().unwrap_or_default();
        return TaskOutcome { output, meta, facts, ..TaskOutcome::failure(error) };
    }
    if let Some(rest) = entry.get("outcome") {
        let mut whole: serde_json::Value = serde_json::json!(TaskOutcome::success(Value::Null));
        let rest: serde_json::Value = serde_json::json!(rest);
        for (key, value) in rest.as_object().expect("an outcome is an object") {
            whole[key] = value.clone();
        }
        return serde_json::from_value(whole).expect("an outcome as serde writes it");
    }
    let output = entry.get("gives").unwrap_or(entry).clone();
    TaskOutcome { meta, facts, ..TaskOutcome::success(output) }
}

/// Builds the output shape of the tool behind an agent's model.
fn model_reply(entry: &Value) -> TaskOutcome {
    if entry.get("fails").is_some() {
        return outcome(entry);
    }
    let content =
        if entry.as_str().is_some() { entry.clone() } else { entry.get("text").cloned().unwrap_or("".into()) };
    let calls = entry.get("calls").and_then(Value::as_list).unwrap_or_default();
    let stop = if calls.is_empty() { "end" } else { "tools" };
    let call = |(number, call): (usize, &Value)| {
        let part = |at: usize| call.as_list().and_then(|call| call.get(at)).cloned().unwrap_or_default();
        Value::object([
            ("id", Value::from(format!("c{number}"))),
            ("name", part(0)),
            ("arguments", part(1)),
            ("problem", Value::Null),
        ])
    };
    let calls = calls.iter().enumerate().map(call).collect();
    let tokens = entry.get("tokens").and_then(Value::as_int).unwrap_or(5);
    let usage = Value::object([
        ("input_tokens", Value::Int(10)),
        ("output_tokens", Value::Int(tokens)),
        ("total_tokens", Value::Int(10 + tokens)),
        ("tokens", Value::Int(10 + tokens)),
    ]);
    let output = Value::object([
        ("content", content),
        ("calls", Value::list(calls)),
        ("stop", Value::from(stop)),
        ("model", Value::from("scripted")),
        ("usage", usage.clone()),
    ]);
    TaskOutcome { meta: Value::object([("usage", usage)]), ..TaskOutcome::success(output) }
}

fn parse(tick: &Value) -> TickKind {
    serde_json::from_str(&to_json(tick)).unwrap_or_else(|error| panic!("{error}: {}", to_json(tick)))
}
