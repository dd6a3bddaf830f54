//! Boxes and arrows of a run from the collected facts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{BoxKey, RunDrawing, StepRunCause};
use crate::model::{ActivityState, Arrow, ArrowReason, Drawing, DrawingItem, EventRole, ItemShape, NodeActivity};

const START: &str = "start";
const OUTSIDE: &str = "outside";
const END: &str = "end_of_run";

pub(crate) fn paint(run: &RunDrawing) -> Drawing {
    let over = matches!(run.run_activity(run.newest).state, ActivityState::Ended(_));
    let now = run.now.filter(|_| !over).unwrap_or(run.newest).max(run.newest);
    let whole = run.run_activity(now);
    let mut passages: BTreeMap<&BoxKey, NodeActivity> =
        run.facts.iter().map(|(key, facts)| (key, facts.to_activity(now, over))).collect();
    if run.is_interrupted {
        passages.values_mut().for_each(NodeActivity::interrupt);
    }
    let by_cause = !run.causes.is_empty();
    let painter = RunPainter { run, passages, by_cause };
    let (items, arrows) = painter.all(&whole);
    let notes = run.notes(&run.plan_drawing.drawing.title, now);
    Drawing { title: run.plan_drawing.drawing.title.clone(), notes, items, arrows, activity: Some(whole) }
}

struct RunPainter<'a> {
    run: &'a RunDrawing,
    passages: BTreeMap<&'a BoxKey, NodeActivity>,
    /// Arrows between steps come from the causes that events report; otherwise from the plan.
    by_cause: bool,
}

impl<'a> RunPainter<'a> {
    fn all(&self, whole: &NodeActivity) -> (Vec<DrawingItem>, Vec<Arrow>) {
        let plan = &self.run.plan_drawing.drawing;
        let mut items = self.draw_items(&plan.items, None, true);
        let mut arrows = Vec::new();
        let apart = self.step_runs();
        let by_id: BTreeMap<&str, &DrawingItem> = plan.all_items().into_iter().map(|item| (&*item.id, item)).collect();
        let drawn = apart.iter().filter_map(|(firing, place)| self.draw_item(by_id.get(&***place)?, Some(*firing)));
        let drawn: Vec<DrawingItem> = drawn.collect();
        let root = self.root(&mut items);
        root.extend(drawn);
        root.sort_by_key(|item| self.first(item));
        if !matches!(whole.state, ActivityState::Ended(_)) {
            root.extend(self.queued(&by_id));
        }
        if self.by_cause {
            self.causes(root, whole, &mut arrows);
        }
        self.plan_arrows(&items, &apart, &mut arrows);
        (items, arrows)
    }

    /// Returns one box per step that has tokens waiting for a worker.
    fn queued(&self, by_id: &BTreeMap<&str, &DrawingItem>) -> Vec<DrawingItem> {
        let waiting = self.run.queued.iter().filter(|(_, runs)| **runs > 0);
        let drawn = waiting.filter_map(|(place, runs)| {
            let item = by_id.get(&**place)?;
            let passage = NodeActivity { runs: *runs, ..NodeActivity::new(ActivityState::Queued) };
            let queued = DrawingItem::new(format!("{place}_queued"), &item.title, &item.kind, ItemShape::Plain);
            Some(DrawingItem { detail: item.kind.clone(), activity: Some(passage), ..queued })
        });
        drawn.collect()
    }

    /// Returns every run of a step that has its own box, in order.
    fn step_runs(&self) -> Vec<(u64, &'a Arc<str>)> {
        let is_place = |id: &Arc<str>| self.run.places.get(id) == Some(id);
        self.run.facts.keys().filter(|(_, id)| is_place(id)).filter_map(|(firing, id)| Some(((*firing)?, id))).collect()
    }

    /// Draws the reached items in the order in which they were reached; those at the root are sorted by the caller.
    fn draw_items(&self, items: &[DrawingItem], firing: Option<u64>, at_root: bool) -> Vec<DrawingItem> {
        let mut drawn: Vec<DrawingItem> = items.iter().filter_map(|item| self.draw_item(item, firing)).collect();
        if !at_root {
            drawn.sort_by_key(|item| self.first(item));
        }
        drawn
    }

    /// Draws a box if the run reached it, if it contains a drawn one, or if it is a choice or an event that leads to a
    /// reached one.
    fn draw_item(&self, item: &DrawingItem, firing: Option<u64>) -> Option<DrawingItem> {
        let items = self.draw_items(&item.items, firing, false);
        let key = (firing, Arc::from(item.id.as_str()));
        let passage = self.passages.get(&key).cloned();
        let on_the_way = match item.shape {
            ItemShape::Choice => self.leads_on(item, firing),
            ItemShape::Event(_) => !self.by_cause && self.leads_on(item, firing),
            ItemShape::Plain | ItemShape::Group | ItemShape::Outside => false,
        };
        if passage.is_none() && items.is_empty() && !on_the_way {
            return None;
        }
        let (id, shape, kind, title) = (name(&key), item.shape, item.kind.clone(), item.title.clone());
        // Details that are the same for every run of a step are not repeated in each.
        let of_one_run = firing.is_some() && self.run.places.get(&key.1) == Some(&key.1);
        let detail = if of_one_run { kind.clone() } else { item.detail.clone() };
        let (path, is_loop) = (item.path.clone(), item.is_loop);
        Some(DrawingItem { id, title, kind, detail, shape, items, activity: passage, path, is_loop })
    }

    fn leads_on(&self, item: &DrawingItem, firing: Option<u64>) -> bool {
        let arrows = self.run.plan_drawing.drawing.arrows.iter().filter(|arrow| arrow.from == item.id);
        arrows.into_iter().any(|arrow| self.passages.contains_key(&(firing, Arc::from(arrow.to.as_str()))))
    }

    /// Returns the number of the first event about an item; a choice comes before its targets.
    fn first(&self, item: &DrawingItem) -> u64 {
        let own = self.key_of(&item.id).and_then(|key| self.run.facts.get(&key)).map(|facts| facts.first);
        let inside = item.items.iter().map(|item| self.first(item)).min();
        own.or(inside).unwrap_or_else(|| self.first_after(&item.id))
    }

    fn first_after(&self, id: &str) -> u64 {
        let Some((firing, id)) = self.key_of(id) else { return 0 };
        let arrows = self.run.plan_drawing.drawing.arrows.iter().filter(|arrow| *arrow.from == *id);
        let after = arrows.filter_map(|arrow| self.run.facts.get(&(firing, Arc::from(arrow.to.as_str()))));
        after.map(|facts| facts.first).min().unwrap_or(u64::MAX)
    }

    /// Parses a box name back into its key.
    fn key_of(&self, id: &str) -> Option<BoxKey> {
        match id.strip_prefix('r').and_then(|rest| rest.split_once('_')) {
            Some((firing, id)) => Some((Some(firing.parse().ok()?), id.into())),
            None => Some((None, id.into())),
        }
    }

    /// Adds the arrows that events report, and the outside actors.
    fn causes(&self, root: &mut Vec<DrawingItem>, whole: &NodeActivity, arrows: &mut Vec<Arrow>) {
        let titles: BTreeMap<String, String> = root.iter().map(|item| (item.id.clone(), item.title.clone())).collect();
        let (mut starts, mut outside) = (false, BTreeSet::new());
        for ((cause, to, event), times) in &self.run.causes {
            let from = match cause {
                StepRunCause::Start => {
                    starts = true;
                    START.to_owned()
                }
                StepRunCause::Outside => {
                    outside.insert(event);
                    OUTSIDE.to_owned()
                }
                StepRunCause::Step(key) => name(key),
            };
            let to = name(to);
            // The name of a token that is named after its target step adds nothing.
            let plain = titles.get(&to).is_some_and(|title| **title == **event);
            arrows.push(cause_arrow(from, to, event, *times, plain));
        }
        for ((key, event), times) in &self.run.outbound_requests {
            arrows.push(cause_arrow(name(key), OUTSIDE.to_owned(), event, *times, false));
        }
        // Sorted by the position of the target's box, not by its name.
        let place: BTreeMap<&str, usize> = root.iter().enumerate().map(|(at, item)| (&*item.id, at)).collect();
        arrows.sort_by_key(|arrow| {
            let [from, to] = [&arrow.from, &arrow.to].map(|id| place.get(&**id).copied());
            (to.or(from), from)
        });
        if !outside.is_empty() || !self.run.outbound_requests.is_empty() {
            let by_people = outside.iter().all(|event| self.run.role(event) == Some(EventRole::HumanResponse));
            root.insert(
                0,
                DrawingItem::new(OUTSIDE, if by_people { "person" } else { "outside" }, "outside", ItemShape::Outside),
            );
        }
        if starts {
            root.insert(0, DrawingItem::new(START, "start", "outside", ItemShape::Outside));
        }
        self.end(root, whole, arrows);
    }

    /// Adds the end of the run, if an event can end it.
    fn end(&self, root: &mut Vec<DrawingItem>, whole: &NodeActivity, arrows: &mut Vec<Arrow>) {
        let Some(stop) = self.run.plan_drawing.net.as_ref().and_then(|net| net.stop.clone()) else { return };
        if !matches!(whole.state, ActivityState::Ended(_)) {
            return;
        }
        let item = DrawingItem::new(END, "end", "outside", ItemShape::Outside);
        root.push(DrawingItem { activity: Some(whole.clone()), ..item });
        if let Some(by) = &self.run.stopped_by {
            arrows.push(cause_arrow(name(by), END.to_owned(), &stop, 1, false));
        }
    }

    /// Returns the list that the boxes of step runs are added to: the content of the net's own box, if it has one.
    fn root<'b>(&self, items: &'b mut Vec<DrawingItem>) -> &'b mut Vec<DrawingItem> {
        let net = self.run.plan_drawing.net.as_ref().and_then(|net| net.id.as_ref());
        match items.iter().position(|item| net.is_some_and(|net| *item.id == **net)) {
            Some(at) => &mut items[at].items,
            None => items,
        }
    }

    /// Adds arrows from the plan: between all drawn boxes, or only inside steps when the events define the rest.
    fn plan_arrows(&self, items: &[DrawingItem], apart: &[(u64, &Arc<str>)], arrows: &mut Vec<Arrow>) {
        let mut there = BTreeSet::new();
        items.iter().for_each(|item| {
            item.each(&mut |item| {
                there.insert(item.id.as_str());
            });
        });
        let plan = &self.run.plan_drawing.drawing.arrows;
        let is_place = |id: &str| self.run.places.get(id).is_some_and(|place| **place == *id);
        let mut add = |firing: Option<u64>, arrow: &Arrow| {
            let [from, to] = [&arrow.from, &arrow.to].map(|id| name(&(firing, Arc::from(id.as_str()))));
            if there.contains(&*from) && there.contains(&*to) {
                arrows.push(Arrow { from, to, ..arrow.clone() });
            }
        };
        let from_plan = |arrow: &&Arrow| !(self.by_cause && (is_place(&arrow.from) || is_place(&arrow.to)));
        plan.iter().filter(from_plan).for_each(|arrow| add(None, arrow));
        let mut inside: BTreeMap<&Arc<str>, Vec<&Arrow>> = BTreeMap::new();
        for arrow in plan.iter().filter(from_plan) {
            if let Some(place) = self.run.places.get(&*arrow.from) {
                inside.entry(place).or_default().push(arrow);
            }
        }
        for (firing, place) in apart {
            inside.get(place).into_iter().flatten().for_each(|arrow| add(Some(*firing), arrow));
        }
    }
}

fn cause_arrow(from: String, to: String, event: &Arc<str>, times: u64, plain: bool) -> Arrow {
    let label = match (plain, times) {
        (true, 1) => String::new(),
        (true, times) => format!("× {times}"),
        (false, 1) => event.to_string(),
        (false, times) => format!("{event} × {times}"),
    };
    Arrow { from, to, label, reason: ArrowReason::CausedBy { event: event.clone(), times } }
}

/// Returns `r7_n3` for the seventh step run, `n3` for all runs.
fn name((firing, id): &BoxKey) -> String {
    match firing {
        Some(firing) => format!("r{firing}_{id}"),
        None => id.to_string(),
    }
}
