//! The world outside the reducer: the replies of workers and child runs, and their timing.

use std::collections::BTreeMap;

use windlass_core::{ErrorInfo, Job, NextCall, SentToken, SideOutputs, Status, SuspendedOn, Suspension, TaskOutcome};
use windlass_value::{Duration, Value};

use super::rng::{Rng, digest, mix};

/// A worker's reaction to a job.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
pub(crate) enum Reply {
    After(Duration, TaskOutcome),
    /// The worker never reports again.
    Never,
}

impl Reply {
    pub(crate) fn now(output: impl Into<Value>) -> Reply {
        Reply::After(Duration::ZERO, TaskOutcome::success(output))
    }

    pub(crate) fn fail() -> Reply {
        Reply::After(Duration::ZERO, TaskOutcome::failure(refusal()))
    }
}

pub(crate) fn refusal() -> ErrorInfo {
    ErrorInfo::new("500", "http", "refused").replied()
}

/// Identifies an effect of a run independently of its timing: its path, the entry of that path, the run of its task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EffectId {
    pub path: String,
    pub entry: usize,
    pub run: usize,
}

/// Counts entries and runs by path, from 0.
#[derive(Clone, Default)]
pub(crate) struct EffectCounter {
    entries: BTreeMap<String, Vec<u32>>,
    runs: BTreeMap<(String, usize), Vec<u64>>,
}

impl EffectCounter {
    /// `number` distinguishes runs of a task; an equal number is the same run.
    pub(crate) fn effect_id(&mut self, path: &str, generation: u32, number: u64) -> EffectId {
        let entry = position(self.entries.entry(path.to_owned()).or_default(), generation);
        let run = position(self.runs.entry((path.to_owned(), entry)).or_default(), number);
        EffectId { path: path.to_owned(), entry, run }
    }
}

fn position<T: PartialEq>(seen: &mut Vec<T>, item: T) -> usize {
    seen.iter().position(|known| *known == item).unwrap_or_else(|| {
        seen.push(item);
        seen.len() - 1
    })
}

/// Decides on the reply to each job.
pub(crate) type World<'p> = Box<dyn FnMut(&Job, &EffectId, &mut Rng) -> Reply + 'p>;

/// A world in which every job immediately succeeds with its own input.
pub(crate) fn echo() -> World<'static> {
    Box::new(|job, _, _| Reply::now(job.input.clone()))
}

/// A world whose outcomes depend on the seed and on the effect, never on timing. The tool's name is the percentage of
/// failures; `hang` never replies. The prefix `slow` means that the tool may take several calls, `waits` that it
/// first suspends, and `sends` that it has side outputs.
pub(crate) fn seeded<'p>(seed: u64) -> World<'p> {
    Box::new(move |job, which, rng| {
        if &*job.tool == "hang" {
            return Reply::Never;
        }
        let outcome = match job.tool.starts_with("waits") && job.resumed.is_none() {
            true => suspension_of(seed, which),
            false => outcome_of(seed, &job.tool, which, &job.input),
        };
        Reply::After(Duration::from_ms(rng.below(4) * rng.below(2_000)), outcome)
    })
}

pub(crate) fn outcome_of(seed: u64, tool: &str, which: &EffectId, input: &Value) -> TaskOutcome {
    let usage = Value::object([("tokens", Value::from(dice(seed, which) >> 24 & 15))]);
    let meta = Value::object([("usage", usage)]);
    TaskOutcome { meta, ..finished_outcome(seed, tool, which, input) }
}

fn finished_outcome(seed: u64, tool: &str, which: &EffectId, input: &Value) -> TaskOutcome {
    let dice = dice(seed, which);
    let percent: u64 = tool.trim_start_matches(char::is_alphabetic).parse().unwrap_or(0);
    let unfinished = tool.starts_with("slow") && dice >> 20 & 1 == 0;
    let again = unfinished.then(|| NextCall {
        input: Value::object([("call", Value::from(which.run as u64)), ("input", input.clone())]),
        after: Duration::from_ms(dice >> 24 & 1_023),
    });
    let fails = dice % 100 < percent;
    let (replied, long) = (dice >> 8 & 1 == 0, dice >> 9 & 3 == 0);
    if fails {
        let error = ErrorInfo::new("503", "http", "the world says no");
        // An error takes precedence over a continuation.
        return TaskOutcome { next_call: again, ..TaskOutcome::failure(if replied { error.replied() } else { error }) };
    }
    if again.is_some() {
        return TaskOutcome { next_call: again, ..TaskOutcome::success(Value::Null) };
    }
    let number = Value::from(dice >> 16 & 7);
    let side_outputs = tool.starts_with("sends").then(|| sends_of(dice)).flatten();
    let output = match long {
        true => Value::object([("number", number), ("input", input.clone())]),
        false => number,
    };
    TaskOutcome { side_outputs, ..TaskOutcome::success(output) }
}

/// Returns the suspension of a task of this effect.
fn suspension_of(seed: u64, which: &EffectId) -> TaskOutcome {
    let dice = dice(seed, which);
    let time = Duration::from_ms(dice >> 8 & 2_047);
    let awaited = match dice % 5 {
        0 => SuspendedOn::Time(time),
        1 => SuspendedOn::Child { definition: "child".into(), input: Value::Int(1) },
        2 => SuspendedOn::Checkpoint(Value::from("kept ".repeat(9))),
        3 => SuspendedOn::Event {
            name: "done-left".into(),
            requirements: Value::Null,
            deadline: Some(time),
            announcement: None,
        },
        _ => SuspendedOn::Event { name: "ping".into(), requirements: Value::Null, deadline: None, announcement: None },
    };
    TaskOutcome {
        suspension: Some(Box::new(Suspension { waits_for: awaited, published_events: 0 })),
        ..TaskOutcome::success(Value::Null)
    }
}

/// Returns the side outputs of a task: to any accepting place, to one place, or to an unknown one.
fn sends_of(dice: u64) -> Option<Box<SideOutputs>> {
    let to = [None, Some("right"), Some("last"), Some("missing")][(dice >> 30 & 3) as usize];
    let payload = Value::object([("k", Value::from(dice >> 33 & 1)), ("text", Value::from("x".repeat(30)))]);
    let kind = if dice >> 32 & 1 == 0 { "left" } else { "done-left" };
    let sent = SentToken { kind: kind.into(), payload, to: to.map(Into::into) };
    Some(Box::new(SideOutputs { sends: vec![sent], state_changes: Vec::new() }))
}

fn dice(seed: u64, which: &EffectId) -> u64 {
    let start = digest(seed, which.path.as_bytes());
    [which.entry, which.run].iter().fold(start, |dice, part| mix(dice ^ *part as u64).wrapping_add(*part as u64))
}

/// Returns the end of a child run.
pub(crate) fn call_outcome(seed: u64, which: &EffectId) -> (Status, TaskOutcome) {
    let dice = dice(seed, which);
    match dice % 10 {
        0 | 1 => (Status::Failed, TaskOutcome::failure(ErrorInfo::new("ChildFailed", "call", "the child failed"))),
        2 => (Status::Cancelled, TaskOutcome::failure(ErrorInfo::new("Cancelled", "cancelled", "the child was ended"))),
        _ => (Status::Succeeded, TaskOutcome::success(Value::from(dice >> 8 & 7))),
    }
}
