//! Nets as steps in code build them: every body is one worker task, slots are published, bodies yield their slot.

use windlass_core::plan::*;
use windlass_core::{Program, SentToken, SideOutputs, TaskOutcome};
use windlass_value::Value;

use super::build::*;
use super::language::json;
use super::observed_event::ObservedEvent;
use super::sim::Sim;
use super::world::Reply;

/// A step: its name, the kinds it accepts and the kinds it may return, both separated by spaces; then its settings.
pub(crate) struct Step {
    pub place: Place,
    pub retry: Option<Retry>,
    pub timeout: Option<u64>,
}

pub(crate) fn step(name: &str, accepts: &str, gives: &str) -> Step {
    let kinds = |list: &str| list.split_whitespace().map(Into::into).collect::<Vec<_>>();
    let place = Place { yields_slot: true, produces: kinds(gives), ..Place::new(name, kinds(accepts), NodeId(0)) };
    Step { place, retry: None, timeout: None }
}

impl Step {
    pub(crate) fn max_concurrency(mut self, max_concurrency: u32) -> Step {
        self.place.max_concurrency = max_concurrency;
        self
    }

    pub(crate) fn retries(mut self, retry: Retry) -> Step {
        self.retry = Some(retry);
        self
    }

    pub(crate) fn timeout(mut self, secs: u64) -> Step {
        self.timeout = Some(secs);
        self
    }

    pub(crate) fn join(mut self, join: Join) -> Step {
        self.place.join = join;
        self
    }

    pub(crate) fn handler(mut self, place: u32, times: u32) -> Step {
        self.place.handler = Some(FailureHandler { place, max_uses: times });
        self
    }

    pub(crate) fn fans_into(mut self, joins: &[u32]) -> Step {
        self.place.fan_out_joins = Some(joins.to_vec());
        self
    }
}

/// A join over `A A B`, optionally by a key.
pub(crate) fn every(needs: &str, key: Option<&str>, surplus: SurplusPolicy) -> Join {
    let needs = needs.split_whitespace().map(Into::into).collect();
    Join::Each { needs, key: key.map(Into::into), surplus }
}

pub(crate) fn steps(steps: Vec<Step>) -> Builder {
    let mut b = Builder::new();
    let root = b.node(None, "net", |b, id| {
        let places = steps.into_iter().map(|step| {
            let name = step.place.name.to_string();
            let input = r#"{"kind": {"$var": "kind"}, "args": {"$var": "args"}}"#;
            let task = Task { hidden: true, retry: step.retry, ..Task::new(b.action(input)) };
            let body = b.node(Some(id), &name, |_, _| NodeKind::Pipeline(Pipeline { tasks: vec![task] }));
            let timeout = step.timeout.map(|time| Amount::Fixed(secs(time)));
            let status = windlass_core::Status::TimedOut;
            b.node_mut(body).timeout = timeout.map(|after| NodeTimeout { after, status });
            Place { body, ..step.place }
        });
        let places = places.collect();
        let end = NetEnd::Stop("stop".into());
        let (asks, waits) = (vec!["question".into()], vec!["later".into()]);
        NodeKind::Net(Net {
            publishes_slots: true,
            input_requests: asks,
            awaited_kinds: waits,
            ..Net::new(places, "start", end)
        })
    });
    b.node_mut(root).hidden = true;
    b
}

pub(crate) fn begun(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, Box::new(|_, _, _| Reply::Never));
    sim.start_with(json(r#"{"who": "me"}"#)).drain_buffer();
    sim
}

/// Parses `kind`, or `kind payload`, or several of them separated by `;` within `[ ]`: a fan-out.
pub(crate) fn event(text: &str) -> Value {
    let one = |text: &str| {
        let (kind, payload) = text.trim().split_once(' ').unwrap_or((text.trim(), "null"));
        Value::object([("kind", Value::from(kind)), ("payload", json(payload))])
    };
    match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some("") => Value::list(Vec::new()),
        Some(list) => Value::list(list.split(';').map(one).collect()),
        None if text.is_empty() => Value::Null,
        None => one(text),
    }
}

/// Completes the oldest job of the step with this output.
pub(crate) fn complete_oldest(sim: &mut Sim, path: &str, text: &str) {
    sim.reply(path, TaskOutcome::success(event(text)));
}

/// Returns an outcome that sends each `kind payload` or `kind@place payload`, then returns a value.
pub(crate) fn sending(sends: &[&str], returned: &str) -> TaskOutcome {
    let send = |text: &&str| {
        let (kind, payload) = text.split_once(' ').unwrap_or((text, "null"));
        let (kind, to) = kind.split_once('@').map_or((kind, None), |(kind, to)| (kind, Some(to.into())));
        SentToken { kind: kind.into(), payload: json(payload), to }
    };
    let side_outputs = SideOutputs { sends: sends.iter().map(send).collect(), state_changes: Vec::new() };
    TaskOutcome { side_outputs: Some(Box::new(side_outputs)), ..TaskOutcome::success(event(returned)) }
}

/// Returns the inputs of the workers at this path, in order.
pub(crate) fn inputs_at(sim: &Sim, path: &str) -> Vec<Value> {
    let jobs = sim.dispatched.iter().filter(|job| &**job.path() == path);
    jobs.map(|job| job.input.get("args").cloned().unwrap_or_default()).collect()
}

/// Returns the same inputs as text.
pub(crate) fn input_texts_at(sim: &Sim, path: &str) -> Vec<String> {
    inputs_at(sim, path).iter().map(windlass_value::to_json).collect()
}

/// Returns `path field=value field=value` for every event of this kind.
pub(crate) fn event_lines(sim: &Sim, kind: &str, fields: &[&str]) -> Vec<String> {
    let line = |event: &&ObservedEvent| {
        let fields = fields.iter().filter_map(|name| {
            let value = event.data.get(name)?;
            Some(format!(" {name}={}", windlass_value::to_json(value).replace('"', "")))
        });
        format!("{}{}", event.path, fields.collect::<String>())
    };
    sim.events_of(kind).iter().map(line).collect()
}
