//! Actors: nodes with a mailbox that execute the operations a test gives them. Each is a pipeline whose first task
//! `do` is a job; its reply names the next operation, and the following job gets the result of that operation.

use std::sync::Arc;

use windlass_core::plan::*;
use windlass_core::{Program, TaskOutcome};
use windlass_value::{Duration, Value};

use super::*;

pub(crate) const CLOSED: &str = "target-terminal";

pub(crate) fn mailbox(wakes: u64) -> Mailbox {
    Mailbox { wakes, closed: CLOSED.into() }
}

pub(crate) fn actor(b: &mut Builder, parent: Option<NodeId>, name: &str) -> NodeId {
    settling_actor(b, parent, name, "hub", secs(30))
}

/// An actor whose operation `settle` waits for this address to be idle.
pub(crate) fn settling_actor(
    b: &mut Builder,
    parent: Option<NodeId>,
    name: &str,
    other: &str,
    time: Duration,
) -> NodeId {
    let (other, name): (Arc<str>, Arc<str>) = (other.into(), name.into());
    let id = b.node(parent, &name, |b, id| {
        let wait = |b: &mut Builder, label: &str, blocks: bool, settles: Option<(Arc<str>, Duration)>| {
            let kind = NodeKind::Wait(Wait::Mail { blocks, after_idle: settles });
            let node = b.node(Some(id), &format!("{name}-{label}"), |_, _| kind);
            b.node_mut(node).hidden = true;
            Action::Node(node)
        };
        let actions = [
            ("read", wait(b, "read", false, None)),
            ("listen", wait(b, "listen", true, None)),
            ("settle", wait(b, "settle", false, Some((other.clone(), time)))),
            ("both", wait(b, "both", true, Some((other.clone(), time)))),
        ];
        let to = b.expr(r#"{"$get": [{"$var": "_prev"}, "to"]}"#);
        let mail = b.expr(r#"{"$get": [{"$var": "_prev"}, "mail"]}"#);
        let operations = ["post", "read", "listen", "settle", "both"];
        let mut first = task("do", b.action(r#"{"$var": "_prev"}"#));
        for (at, operation) in operations.iter().enumerate() {
            let requested_op = r#"{"$get": [{"$get": [{"$var": "outcome"}, "result"]}, "op"]}"#;
            let when = b.condition(json(&format!(r#"{{"$eq": [{requested_op}, "{operation}"]}}"#)));
            first.rules.push(rule(Some(when), Directive::Jump(at as u32 + 1)));
        }
        let well = b.condition(json(r#"{"$eq": [{"$get": [{"$var": "outcome"}, "status"]}, "success"]}"#));
        first.rules.push(rule(Some(well), Directive::Break));
        let back = || vec![rule(None, Directive::Jump(0))];
        let post = Task { rules: back(), ..task("post", Action::Post(SendMail { to, mail })) };
        let waits = actions.into_iter().map(|(label, action)| Task { rules: back(), ..task(label, action) });
        NodeKind::Pipeline(Pipeline { tasks: [first, post].into_iter().chain(waits).collect() })
    });
    b.node_mut(id).mailbox = Some(mailbox(1_000));
    id
}

/// Actors that run concurrently in a hidden root.
pub(crate) fn actors(names: &[&str]) -> Builder {
    let mut b = Builder::new();
    let root = b.parallel(None, "root", |b, id| names.iter().map(|name| actor(b, id, name)).collect());
    b.node_mut(root).hidden = true;
    b
}

/// A root of sequential actors.
pub(crate) fn chain(names: &[&str]) -> Builder {
    let mut b = Builder::new();
    let root = b.sequence(None, "root", |b, id| names.iter().map(|name| actor(b, id, name)).collect());
    b.node_mut(root).hidden = true;
    b
}

pub(crate) fn start_actors(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, Box::new(|_, _, _| Reply::Never));
    sim.start().drain_buffer();
    sim
}

pub(crate) fn operation(op: &str) -> Value {
    Value::object([("op", op)])
}

pub(crate) fn post_operation(to: &str, text: &str) -> Value {
    let mail = Value::object([("text", text)]);
    Value::object([("op", Value::from("post")), ("to", Value::from(to)), ("mail", mail)])
}

/// Returns the last input of the actor.
pub(crate) fn last_input(sim: &Sim, actor: &str) -> Value {
    let path = format!("{actor}.do");
    let job = sim.dispatched.iter().rfind(|job| **job.path() == *path);
    sim.values.resolve(&job.unwrap_or_else(|| panic!("no job at {path}")).input)
}

/// Sends mail from one actor to another and returns the sender's result.
pub(crate) fn post(sim: &mut Sim, from: &str, to: &str, text: &str) -> Value {
    reply_as(sim, from, post_operation(to, text));
    last_input(sim, from)
}

/// Returns the delivery result of a mail: `queued`, or the reason why it was dropped.
pub(crate) fn delivery_result(answer: &Value) -> String {
    let field = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    if field("status") == "queued" { field("status") } else { field("reason") }
}

pub(crate) fn post_result(sim: &mut Sim, from: &str, to: &str) -> String {
    delivery_result(&post(sim, from, to, "hello"))
}

pub(crate) fn known_addresses(answer: &Value) -> Vec<&str> {
    answer.get("known").and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_str).collect()
}

pub(crate) fn reply_as(sim: &mut Sim, actor: &str, reply: Value) {
    sim.reply(&format!("{actor}.do"), TaskOutcome::success(reply));
}

pub(crate) fn request_op(sim: &mut Sim, actor: &str, op: &str) {
    reply_as(sim, actor, operation(op));
}

/// Returns the texts that the actor finds in its mailbox.
pub(crate) fn read_mail(sim: &mut Sim, actor: &str) -> Vec<String> {
    request_op(sim, actor, "read");
    texts(&last_input(sim, actor))
}

pub(crate) fn texts(mails: &Value) -> Vec<String> {
    let text =
        |mail: &Value| mail.get("text").or(mail.get("kind")).and_then(Value::as_str).unwrap_or_default().to_owned();
    mails.as_list().unwrap_or_else(|| panic!("no mail: {mails:?}")).iter().map(text).collect()
}

/// Returns whether the actor has a job, and so is not waiting for mail.
pub(crate) fn has_job(sim: &Sim, actor: &str) -> bool {
    sim.open_paths().contains(&format!("{actor}.do"))
}

/// Returns fields of all events of a kind, one line each.
pub(crate) fn events(sim: &Sim, kind: &str, fields: &[&str]) -> Vec<String> {
    let line = |event: &&ObservedEvent| {
        let field = |name: &&str| match event.data.get(name) {
            Some(Value::Str(text)) => text.to_string(),
            Some(Value::List(items)) => {
                items.iter().map(|item| item.as_str().unwrap_or("?").to_owned()).collect::<Vec<_>>().join(",")
            }
            other => format!("{:?}", other.cloned().unwrap_or_default()),
        };
        fields.iter().map(field).collect::<Vec<_>>().join(" ")
    };
    sim.events_of(kind).iter().map(line).collect()
}

pub(crate) fn drops(sim: &Sim) -> Vec<String> {
    events(sim, "message.dropped", &["id", "to", "reason"])
}

/// Asserts that every mail is either delivered once or dropped once.
pub(crate) fn assert_every_mail_is_settled_once(sim: &Sim) {
    let mut outcome_counts = vec![0; sim.state.mail.numbers as usize];
    let number = |id: &Value| id.as_str().and_then(|id| id.strip_prefix("msg-")?.parse::<usize>().ok()).unwrap();
    let field = |data: &Value, name: &str| sim.values.resolve(&data.get(name).cloned().unwrap());
    for event in sim.events_of("message.delivered").iter().filter(|event| event.data.get("again").is_none()) {
        field(&event.data, "ids").as_list().unwrap().iter().for_each(|id| outcome_counts[number(id) - 1] += 1);
    }
    for event in sim.events_of("message.dropped") {
        outcome_counts[number(&field(&event.data, "id")) - 1] += 1;
    }
    assert!(
        outcome_counts.iter().all(|count| *count == 1),
        "{outcome_counts:?} {:?}",
        sim.events_of("message.dropped")
    );
}
