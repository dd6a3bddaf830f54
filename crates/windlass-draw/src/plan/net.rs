//! Nets: steps that give each other events.
//!
//! An event that steps produce by themselves is a box of its own, since anybody may accept it. A token that only an arc
//! emits is the arrow between two steps.

use std::sync::Arc;

use windlass_core::plan::{Join, Net, NodeId, Place};
use windlass_value::Value;

use super::{At, Ends, Painter, details};
use crate::model::{EventRole, Item, Shape, Why};
use crate::text;

/// The events of a net, in the order in which they are met.
struct Events<'a> {
    /// What the plan says of them.
    facts: Option<&'a Value>,
    prefix: String,
    all: Vec<Event>,
}

struct Event {
    name: Arc<str>,
    role: EventRole,
    version: Option<i64>,
}

impl Painter<'_> {
    /// Where the net begins, and the box of each place.
    pub(super) fn net(
        &mut self,
        id: NodeId,
        net: &Net,
        at: &At<'_>,
        into: &mut Vec<Item>,
    ) -> (Ends, Vec<Option<Arc<str>>>) {
        let mut ends = Vec::new();
        for place in &net.places {
            ends.push(self.node(place.body, at, None, into));
            if !self.plan.node(place.body).hidden
                && let Some(item) = into.last_mut()
            {
                item.detail.push_str(&of_place(place));
            }
        }
        let facts = self.plan.metadata.get("events").filter(|_| id == self.plan.root);
        let mut events = Events { facts, prefix: format!("n{}", id.0), all: Vec::new() };
        events.gather(net);
        self.arcs(net, &ends, &events);
        self.tokens(net, &ends, &events);
        events.draw(into);
        self.people(&events, into);
        let first = net.places.iter().zip(&ends).filter(|(place, _)| place.accepts.contains(&net.start));
        let entries = match events.id(&net.start) {
            Some(start) => vec![start],
            None => first.flat_map(|(_, ends)| ends.entries.clone()).collect(),
        };
        let body = |place: &Place| (!self.plan.node(place.body).hidden).then(|| format!("n{}", place.body.0).into());
        (Ends { entries, exits: Vec::new() }, net.places.iter().map(body).collect())
    }

    fn arcs(&mut self, net: &Net, ends: &[Ends], events: &Events<'_>) {
        for (place, from) in net.places.iter().zip(ends) {
            for arc in &place.arcs {
                let label = details::condition(self.plan, arc.when);
                if let Some(event) = events.id(&arc.emits) {
                    self.connect(&from.exits, &[event], &label, Why::When);
                    continue;
                }
                let takers = net.places.iter().zip(ends).filter(|(place, _)| place.accepts.contains(&arc.emits));
                for (_, to) in takers {
                    self.connect(&from.exits, &to.entries, &label, Why::When);
                }
            }
        }
    }

    /// From events to the steps that accept them, from steps to the events that they produce.
    fn tokens(&mut self, net: &Net, ends: &[Ends], events: &Events<'_>) {
        for (place, ends) in net.places.iter().zip(ends) {
            for kind in &place.accepts {
                if let Some(event) = events.id(kind) {
                    self.connect(&[event], &ends.entries, &joined(place, kind), Why::Event);
                }
            }
            for kind in &place.produces {
                if let Some(event) = events.id(kind) {
                    self.connect(&ends.exits, &[event], "", Why::Event);
                }
            }
        }
    }

    /// Who is asked, and who answers.
    fn people(&mut self, events: &Events<'_>, into: &mut Vec<Item>) {
        let person = format!("{}_outside", events.prefix);
        let before = self.arrows.len();
        for (number, event) in events.all.iter().enumerate() {
            let (event, id) = (event, events.nth(number));
            let person = std::slice::from_ref(&person);
            match event.role {
                EventRole::InputRequired => self.connect(&[id], person, "", Why::Event),
                EventRole::HumanResponse => self.connect(person, &[id], "", Why::Event),
                EventRole::Start | EventRole::Stop | EventRole::Plain => {}
            }
        }
        if self.arrows.len() > before {
            into.push(Item::new(person, "person", "outside", Shape::Outside));
        }
    }
}

impl Events<'_> {
    fn gather(&mut self, net: &Net) {
        let told: Vec<Arc<str>> =
            self.facts.and_then(Value::as_map).into_iter().flat_map(|facts| facts.keys().cloned()).collect();
        let is_event = |kind: &Arc<str>| {
            told.contains(&self.name(kind)) || net.places.iter().any(|place| place.produces.contains(kind))
        };
        let of_steps = net.places.iter().flat_map(|place| place.accepts.iter().chain(&place.produces));
        let met: Vec<Arc<str>> =
            std::iter::once(&net.start).chain(of_steps).filter(|kind| is_event(kind)).cloned().collect();
        for kind in met.into_iter().chain(told) {
            let name = self.name(&kind);
            if self.all.iter().any(|event| event.name == name) {
                continue;
            }
            let facts = self.facts.and_then(|facts| facts.get(&name));
            let told = facts.and_then(|facts| facts.get("kind")?.as_str()).map(EventRole::named);
            let role = told.unwrap_or(match kind == net.start {
                true => EventRole::Start,
                false if net.end == windlass_core::plan::NetEnd::Stop(kind.clone()) => EventRole::Stop,
                false => EventRole::Plain,
            });
            let version = facts.and_then(|facts| facts.get("version")?.as_int());
            self.all.push(Event { name, role, version });
        }
    }

    /// All versions of an event are one: `order.placed@2` is an `order.placed`, if the plan knows that one.
    fn name(&self, kind: &Arc<str>) -> Arc<str> {
        let known = |name: &str| self.facts.is_some_and(|facts| facts.get(name).is_some());
        match kind.rsplit_once('@') {
            Some((name, _)) if !known(kind) && known(name) => name.into(),
            _ => kind.clone(),
        }
    }

    fn id(&self, kind: &Arc<str>) -> Option<String> {
        let name = self.name(kind);
        self.all.iter().position(|event| event.name == name).map(|number| self.nth(number))
    }

    fn nth(&self, number: usize) -> String {
        format!("{}_e{number}", self.prefix)
    }

    fn draw(&self, into: &mut Vec<Item>) {
        for (number, event) in self.all.iter().enumerate() {
            let item = Item::new(self.nth(number), &*event.name, "event", Shape::Event(event.role));
            let version = event.version.filter(|version| *version != 1).map(|version| format!(", version {version}"));
            into.push(Item { detail: format!("{}{}", event.role.words(), version.unwrap_or_default()), ..item });
        }
    }
}

/// What the place adds to its body's box.
fn of_place(place: &Place) -> String {
    let workers = match place.workers {
        0 | 1 => String::new(),
        more => format!(", {}", text::count(u64::from(more), "worker")),
    };
    let join = match &place.join {
        Join::None | Join::FanOut => String::new(),
        Join::All | Join::Merged => format!(", joins {}", place.accepts.len()),
    };
    format!("{workers}{join}")
}

/// How tokens of this kind come together before the step runs.
fn joined(place: &Place, _kind: &str) -> String {
    match &place.join {
        Join::None => String::new(),
        Join::All | Join::Merged => "one of each".to_owned(),
        Join::FanOut => "all".to_owned(),
    }
}
