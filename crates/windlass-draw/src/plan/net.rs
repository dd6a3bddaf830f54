//! Drawing of nets: steps that exchange events.
//!
//! An event that steps produce is a separate box, since any step may accept it. A token that only an arc emits is
//! the arrow between two steps.

use std::sync::Arc;

use windlass_core::plan::{FAILED_KIND, Join, Net, NetEnd, NodeId, Place, SurplusPolicy};
use windlass_value::Value;

use super::{ArrowEnds, DrawingPosition, PlanPainter, details};
use crate::model::{ArrowReason, DrawingItem, EventRole, ItemShape};
use crate::text;

/// The events of a net, in order of first occurrence.
struct NetEvents<'a> {
    /// The plan's metadata about the events.
    facts: Option<&'a Value>,
    /// The events that steps wait for, by step.
    waits: Option<&'a Value>,
    prefix: String,
    all: Vec<NetEvent>,
}

struct NetEvent {
    name: Arc<str>,
    role: EventRole,
    version: Option<i64>,
}

impl PlanPainter<'_> {
    /// Draws a net. Returns the ends of its arrows and the box of each place.
    pub(super) fn net(
        &mut self,
        id: NodeId,
        net: &Net,
        at: &DrawingPosition<'_>,
        into: &mut Vec<DrawingItem>,
    ) -> (ArrowEnds, Vec<Option<Arc<str>>>) {
        let metadata_entry = |name: &str| self.plan.metadata.get(name).filter(|_| id == self.plan.root);
        let (facts, waits) = (metadata_entry("events"), metadata_entry("waits"));
        let mut events = NetEvents { facts, waits, prefix: format!("n{}", id.0), all: Vec::new() };
        events.gather(net);
        let mut ends = Vec::new();
        for place in &net.places {
            ends.push(self.node(place.body, at, None, into));
            if !self.plan.node(place.body).hidden
                && let Some(item) = into.last_mut()
            {
                // The number of workers is shown only in a net with events: in others the author did not choose it.
                item.detail.push_str(&place_details(place, !events.all.is_empty()));
            }
        }
        self.arcs(net, &ends, &events);
        self.tokens(net, &ends, &events);
        self.handlers(net, &ends);
        events.draw(into);
        self.outside_actor(&events, into);
        let first = net.places.iter().zip(&ends).filter(|(place, _)| place.accepts.contains(&net.start));
        let entries = match events.id(&net.start) {
            Some(start) => vec![start],
            None => first.flat_map(|(_, ends)| ends.entries.clone()).collect(),
        };
        let body = |place: &Place| (!self.plan.node(place.body).hidden).then(|| format!("n{}", place.body.0).into());
        (ArrowEnds { entries, exits: Vec::new() }, net.places.iter().map(body).collect())
    }

    fn arcs(&mut self, net: &Net, ends: &[ArrowEnds], events: &NetEvents<'_>) {
        for (place, from) in net.places.iter().zip(ends) {
            for arc in &place.arcs {
                let label = details::condition(self.plan, arc.when);
                if let Some(event) = events.id(&arc.emits) {
                    self.connect(&from.exits, &[event], &label, ArrowReason::When);
                    continue;
                }
                let takers = net.places.iter().zip(ends).filter(|(place, _)| place.accepts.contains(&arc.emits));
                for (_, to) in takers {
                    self.connect(&from.exits, &to.entries, &label, ArrowReason::When);
                }
            }
        }
    }

    /// Draws arrows from events to the steps that accept them, and from steps to the events that they produce.
    fn tokens(&mut self, net: &Net, ends: &[ArrowEnds], events: &NetEvents<'_>) {
        for (place, ends) in net.places.iter().zip(ends) {
            for kind in &place.accepts {
                if let Some(event) = events.id(kind) {
                    self.connect(&[event], &ends.entries, &join_label(place, kind), ArrowReason::Event);
                }
            }
            for name in events.waited_for(&place.name) {
                if let Some(event) = events.id(&name) {
                    self.connect(&[event], &ends.entries, "waits for it", ArrowReason::Event);
                }
            }
            let fans_out = place.fan_out_joins.as_ref().is_some_and(|into| !into.is_empty());
            for kind in &place.produces {
                if let Some(event) = events.id(kind) {
                    self.connect(&ends.exits, &[event], if fans_out { "many" } else { "" }, ArrowReason::Event);
                }
            }
        }
    }

    /// Draws arrows from steps to their failure handlers.
    fn handlers(&mut self, net: &Net, ends: &[ArrowEnds]) {
        for (place, from) in net.places.iter().zip(ends) {
            if let Some(handler) = place.handler
                && let Some(to) = ends.get(handler.place as usize)
            {
                let label = format!("on failure, at most {}", text::pluralize(u64::from(handler.max_uses), "time"));
                self.connect(&from.exits, &to.entries, &label, ArrowReason::Failure);
            }
        }
    }

    /// Draws the outside actor that receives requests and answers them.
    fn outside_actor(&mut self, events: &NetEvents<'_>, into: &mut Vec<DrawingItem>) {
        let person = format!("{}_outside", events.prefix);
        let before = self.arrows.len();
        for (number, event) in events.all.iter().enumerate() {
            let (id, person) = (events.nth(number), std::slice::from_ref(&person));
            match event.role {
                EventRole::InputRequired => self.connect(&[id], person, "", ArrowReason::Event),
                EventRole::HumanResponse => self.connect(person, &[id], "", ArrowReason::Event),
                EventRole::Start | EventRole::Stop | EventRole::Plain => {}
            }
        }
        if self.arrows.len() > before {
            into.push(DrawingItem::new(person, "person", "outside", ItemShape::Outside));
        }
    }
}

impl NetEvents<'_> {
    fn gather(&mut self, net: &Net) {
        let declared_events: Vec<Arc<str>> =
            self.facts.and_then(Value::as_map).into_iter().flat_map(|facts| facts.keys().cloned()).collect();
        let steps_give = net.places.iter().any(|place| !place.produces.is_empty());
        let of_arc = |kind: &Arc<str>| net.places.iter().any(|place| place.arcs.iter().any(|arc| arc.emits == *kind));
        let produced = |kind: &Arc<str>| net.places.iter().any(|place| place.produces.contains(kind));
        let is_event = |kind: &Arc<str>| {
            // A failure goes only to its handler and is drawn as an arrow, not as an event.
            **kind != *FAILED_KIND
                && (declared_events.contains(&self.name(kind)) || produced(kind) || (steps_give && !of_arc(kind)))
        };
        let of_steps = net.places.iter().flat_map(|place| place.accepts.iter().chain(&place.produces));
        let met: Vec<Arc<str>> =
            std::iter::once(&net.start).chain(of_steps).filter(|kind| is_event(kind)).cloned().collect();
        for kind in met.into_iter().chain(declared_events) {
            let name = self.name(&kind);
            if self.all.iter().any(|event| event.name == name) {
                continue;
            }
            let facts = self.facts.and_then(|facts| facts.get(&name));
            let declared_role = facts.and_then(|facts| facts.get("kind")?.as_str()).map(EventRole::from_name);
            let role = declared_role.unwrap_or(match kind == net.start {
                true => EventRole::Start,
                false if net.input_requests.contains(&kind) => EventRole::InputRequired,
                false if net.end == NetEnd::Stop(kind.clone()) => EventRole::Stop,
                false => EventRole::Plain,
            });
            let version = facts.and_then(|facts| facts.get("version")?.as_int());
            self.all.push(NetEvent { name, role, version });
        }
    }

    /// Returns the event's name without its version: `order.placed@2` is an `order.placed`, if the plan knows that one.
    fn name(&self, kind: &Arc<str>) -> Arc<str> {
        let known = |name: &str| self.facts.is_some_and(|facts| facts.get(name).is_some());
        match kind.rsplit_once('@') {
            Some((name, _)) if !known(kind) && known(name) => name.into(),
            _ => kind.clone(),
        }
    }

    fn waited_for(&self, step: &str) -> Vec<Arc<str>> {
        let names = self.waits.and_then(|waits| waits.get(step)?.as_list()).unwrap_or_default();
        names.iter().filter_map(Value::as_str).map(Into::into).collect()
    }

    fn id(&self, kind: &Arc<str>) -> Option<String> {
        let name = self.name(kind);
        self.all.iter().position(|event| event.name == name).map(|number| self.nth(number))
    }

    fn nth(&self, number: usize) -> String {
        format!("{}_e{number}", self.prefix)
    }

    fn draw(&self, into: &mut Vec<DrawingItem>) {
        for (number, event) in self.all.iter().enumerate() {
            let item = DrawingItem::new(self.nth(number), &*event.name, "event", ItemShape::Event(event.role));
            let version = event.version.filter(|version| *version != 1).map(|version| format!(", version {version}"));
            into.push(DrawingItem {
                detail: format!("{}{}", event.role.description(), version.unwrap_or_default()),
                ..item
            });
        }
    }
}

/// Returns the details that the place adds to its body's box.
fn place_details(place: &Place, show_workers: bool) -> String {
    let workers = match place.max_concurrency {
        more if show_workers && more > 1 => format!(", {more} workers"),
        _ => String::new(),
    };
    let join = match &place.join {
        Join::None | Join::FanOut => String::new(),
        Join::All | Join::Merged | Join::Meeting { .. } => format!(", joins {}", place.accepts.len()),
        Join::Each { needs, key, surplus } => {
            let key = key.as_ref().map(|key| format!(" by {key}")).unwrap_or_default();
            let surplus = match surplus {
                SurplusPolicy::Keep => "",
                SurplusPolicy::Drop => ", drops more",
                SurplusPolicy::Fail => ", fails on more",
            };
            format!(", collects {}{key}{surplus}", needs.len())
        }
    };
    format!("{workers}{join}")
}

/// Describes how tokens of this kind are joined before the step runs.
fn join_label(place: &Place, kind: &Arc<str>) -> String {
    match &place.join {
        Join::None => String::new(),
        Join::All | Join::Merged | Join::Meeting { needs_all: true } => "one of each".to_owned(),
        Join::FanOut | Join::Meeting { needs_all: false } => "all".to_owned(),
        Join::Each { needs, .. } => match needs.iter().filter(|need| *need == kind).count() {
            0 | 1 => "collect".to_owned(),
            several => format!("collect {several}"),
        },
    }
}
