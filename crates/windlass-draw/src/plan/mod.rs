//! Drawing of a plan: nested boxes with arrows between neighbours.

mod details;
mod net;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::plan::{Branch, BranchTest, Directive, Graph, NetEnd, NodeId, NodeKind, Pipeline, Plan, Task};
use windlass_core::{Status, StatusSet};

use crate::model::{Arrow, ArrowReason, Drawing, DrawingItem, ItemShape};

/// The drawing of a plan, and the index that maps a run's events to its boxes.
pub(crate) struct PlanDrawing {
    pub drawing: Drawing,
    pub paths: PathIndex,
    /// The net, if the root of the plan is one.
    pub net: Option<RootNetBoxes>,
}

/// Boxes by event path, with `[]` for any iteration.
#[derive(Default)]
pub(crate) struct PathIndex {
    boxes: BTreeMap<String, Arc<str>>,
    /// Boxes of tasks. Their runs are counted from task events, those of other boxes from step events.
    pub tasks: BTreeSet<Arc<str>>,
}

#[derive(Default)]
pub(crate) struct RootNetBoxes {
    /// The net's own box, if it has one.
    pub id: Option<Arc<str>>,
    /// The box of each place, if it has one.
    pub places: Vec<Option<Arc<str>>>,
    /// The event kind that starts it.
    pub start: Arc<str>,
    /// The event kind that ends it.
    pub stop: Option<Arc<str>>,
    /// Kinds whose events are addressed to an outside actor.
    pub outbound_kinds: Vec<Arc<str>>,
}

impl PathIndex {
    /// Returns the box of this path, or of the nearest enclosing path.
    pub(crate) fn find(&self, path: &str) -> Option<&Arc<str>> {
        let any = any_iteration(path);
        let mut path = any.as_str();
        loop {
            if let Some(found) = self.boxes.get(path) {
                return Some(found);
            }
            path = path.rfind(['.', '[']).map(|at| &path[..at])?;
        }
    }

    fn add(&mut self, path: &str, id: Option<&str>) {
        if let Some(id) = id {
            self.boxes.entry(any_iteration(path)).or_insert_with(|| id.into());
        }
    }
}

/// Normalizes `pages[3].save` to `pages[].save`.
fn any_iteration(path: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(path.len()), path);
    while let Some((before, inside)) = rest.split_once('[') {
        let digits = inside.bytes().take_while(u8::is_ascii_digit).count();
        text.push_str(before);
        text.push('[');
        rest = if inside[digits..].starts_with(']') { &inside[digits..] } else { inside };
    }
    text + rest
}

/// The position of the painter in the plan.
struct DrawingPosition<'a> {
    path: String,
    /// The enclosing box.
    id: Option<&'a str>,
}

impl<'a> DrawingPosition<'a> {
    fn inside(&self, name: &str, id: Option<&'a str>) -> DrawingPosition<'a> {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        DrawingPosition { path, id }
    }
}

/// The boxes at which arrows to and from a part of the plan begin and end.
struct ArrowEnds {
    entries: Vec<String>,
    exits: Vec<String>,
}

impl ArrowEnds {
    fn at(id: String) -> ArrowEnds {
        ArrowEnds { entries: vec![id.clone()], exits: vec![id] }
    }
}

struct PlanPainter<'a> {
    plan: &'a Plan,
    arrows: Vec<Arrow>,
    paths: PathIndex,
    net: Option<RootNetBoxes>,
}

pub(crate) fn draw_plan(plan: &Plan) -> PlanDrawing {
    let mut painter = PlanPainter { plan, arrows: Vec::new(), paths: PathIndex::default(), net: None };
    let mut items = Vec::new();
    painter.node(plan.root, &DrawingPosition { path: String::new(), id: None }, None, &mut items);
    // The plan may have two arcs for one transition, after success and after failure: one arrow is enough.
    let mut there = BTreeSet::new();
    let mut arrows = painter.arrows;
    arrows.retain(|arrow| there.insert((arrow.from.clone(), arrow.to.clone(), arrow.label.clone())));
    let drawing = Drawing { title: plan.name.clone(), items, arrows, ..Drawing::default() };
    PlanDrawing { drawing, paths: painter.paths, net: painter.net }
}

impl PlanPainter<'_> {
    /// Draws a node. Hidden nodes are not drawn: their content belongs to the enclosing box. `label` is that of the
    /// task that enters the node, and replaces the name of a hidden node in paths.
    fn node(
        &mut self,
        id: NodeId,
        at: &DrawingPosition<'_>,
        label: Option<&str>,
        into: &mut Vec<DrawingItem>,
    ) -> ArrowEnds {
        let node = self.plan.node(id);
        if node.hidden {
            let at = match label {
                Some(label) => at.inside(label, at.id),
                None => DrawingPosition { path: at.path.clone(), id: at.id },
            };
            self.paths.add(&at.path, at.id);
            return self.inside(id, &at, into);
        }
        let name = format!("n{}", id.0);
        let at = at.inside(&node.name, Some(&name));
        self.paths.add(&at.path, at.id);
        let mut items = Vec::new();
        self.inside(id, &at, &mut items);
        let is_group =
            matches!(node.kind, NodeKind::Graph(_) | NodeKind::Loop(_) | NodeKind::Branch(_) | NodeKind::Net(_));
        let shape = if is_group || !items.is_empty() { ItemShape::Group } else { ItemShape::Plain };
        let item = DrawingItem::new(&name, &*node.name, &node.label, shape);
        let is_loop = matches!(&node.kind, NodeKind::Loop(looping) if !looping.internal);
        let path = Some(any_iteration(&at.path));
        into.push(DrawingItem { detail: details::node_details(self.plan, node), items, path, is_loop, ..item });
        ArrowEnds::at(name)
    }

    fn inside(&mut self, id: NodeId, at: &DrawingPosition<'_>, into: &mut Vec<DrawingItem>) -> ArrowEnds {
        let plan = self.plan;
        match &plan.node(id).kind {
            NodeKind::Wait(_) | NodeKind::Call(_) => ArrowEnds { entries: vec![], exits: vec![] },
            NodeKind::Pipeline(pipeline) => self.tasks(id, pipeline, at, into),
            NodeKind::Graph(graph) => self.graph(graph, at, into),
            NodeKind::Branch(branch) => self.branch(id, branch, at, into),
            // The loop is internal: events inside it belong to the enclosing box.
            NodeKind::Loop(looping) if looping.internal => ArrowEnds { entries: vec![], exits: vec![] },
            NodeKind::Loop(looping) => {
                let at = DrawingPosition { path: format!("{}[]", at.path), id: at.id };
                self.paths.add(&at.path, at.id);
                let ends = self.node(looping.body, &at, None, into);
                looping.judge.map(|judge| self.node(judge, &at, None, into));
                ends
            }
            NodeKind::Net(net) => {
                let (ends, places) = self.net(id, net, at, into);
                if id == plan.root {
                    let stop = if let NetEnd::Stop(kind) = &net.end { Some(kind.clone()) } else { None };
                    self.net = Some(RootNetBoxes {
                        id: at.id.map(Into::into),
                        places,
                        start: net.start.clone(),
                        stop,
                        outbound_kinds: net.input_requests.clone(),
                    });
                }
                ends
            }
        }
    }

    /// Draws the tasks of a pipeline. A single task has no box of its own: the box of its node represents it. Several
    /// tasks become boxes inside that one, in sequence, as do the nodes that some of them enter.
    fn tasks(
        &mut self,
        id: NodeId,
        pipeline: &Pipeline,
        at: &DrawingPosition<'_>,
        into: &mut Vec<DrawingItem>,
    ) -> ArrowEnds {
        let named = |task: &&Task| !task.hidden && !task.label.is_empty() && task.action.node().is_none();
        let apart = self.plan.node(id).hidden || pipeline.tasks.iter().filter(named).count() > 1;
        let mut ends: Vec<Option<ArrowEnds>> = Vec::new();
        for (number, task) in pipeline.tasks.iter().enumerate() {
            let label = Some(&*task.label).filter(|label| !label.is_empty());
            let own = format!("n{}_{number}", id.0);
            ends.push(match task.action.node() {
                Some(node) => {
                    let ends = self.node(node, at, label, into);
                    // Events of the task itself belong to the node it enters, or to the enclosing box.
                    label.into_iter().for_each(|label| self.paths.add(&at.inside(label, None).path, at.id));
                    Some(ends)
                }
                None if apart && named(&task) => {
                    self.paths.add(&at.inside(&task.label, None).path, Some(&own));
                    self.paths.tasks.insert(own.as_str().into());
                    let path = Some(any_iteration(&at.inside(&task.label, None).path));
                    into.push(DrawingItem { path, ..details::task_item(self.plan, own.clone(), task) });
                    Some(ArrowEnds::at(own))
                }
                None => {
                    label.into_iter().for_each(|label| self.paths.add(&at.inside(label, None).path, at.id));
                    None
                }
            });
        }
        let seen: Vec<&ArrowEnds> = ends.iter().flatten().collect();
        for pair in seen.windows(2) {
            self.connect(&pair[0].exits, &pair[1].entries, "", ArrowReason::When);
        }
        for (task, from) in pipeline.tasks.iter().zip(&ends) {
            for rule in &task.rules {
                if let (Directive::Jump(to), Some(from)) = (&rule.directive, from)
                    && let Some(Some(to)) = ends.get(*to as usize)
                {
                    let label = details::condition(self.plan, rule.when);
                    self.connect(&from.exits, &to.entries, &label, ArrowReason::When);
                }
            }
        }
        ArrowEnds {
            entries: seen.first().map_or_else(Vec::new, |ends| ends.entries.clone()),
            exits: seen.last().map_or_else(Vec::new, |ends| ends.exits.clone()),
        }
    }

    fn graph(&mut self, graph: &Graph, at: &DrawingPosition<'_>, into: &mut Vec<DrawingItem>) -> ArrowEnds {
        let ends: Vec<ArrowEnds> = graph.children.iter().map(|child| self.node(child.node, at, None, into)).collect();
        let mut is_last = vec![true; ends.len()];
        // If every arrow has this condition, it is not written at each.
        let skips = StatusSet::from_statuses([Status::Succeeded, Status::Skipped]);
        let all_skip = graph.children.iter().flat_map(|child| &child.after).all(|after| after.accepts == skips);
        for (child, to) in graph.children.iter().zip(&ends) {
            for after in &child.after {
                is_last[after.child as usize] = false;
                let label = if all_skip { String::new() } else { format_statuses(after.accepts) };
                self.connect(&ends[after.child as usize].exits, &to.entries, &label, ArrowReason::After(after.accepts));
            }
        }
        let first = graph.children.iter().zip(&ends).filter(|(child, _)| child.after.is_empty());
        let last = is_last.iter().zip(&ends).filter(|(is_last, _)| **is_last);
        ArrowEnds {
            entries: first.flat_map(|(_, ends)| ends.entries.clone()).collect(),
            exits: last.flat_map(|(_, ends)| ends.exits.clone()).collect(),
        }
    }

    fn branch(
        &mut self,
        id: NodeId,
        branch: &Branch,
        at: &DrawingPosition<'_>,
        into: &mut Vec<DrawingItem>,
    ) -> ArrowEnds {
        let choice = format!("n{}_choice", id.0);
        let title = branch.on.map_or_else(|| "?".to_owned(), |on| details::source(self.plan, on));
        into.push(DrawingItem::new(&choice, title, "choice", ItemShape::Choice));
        for case in &branch.cases {
            let label = match &case.test {
                BranchTest::When(condition) => details::source(self.plan, *condition),
                BranchTest::Equals(value) => format!("= {}", details::source(self.plan, *value)),
            };
            let ends = self.node(case.node, at, None, into);
            self.connect(std::slice::from_ref(&choice), &ends.entries, &label, ArrowReason::When);
        }
        if let Some(otherwise) = branch.otherwise {
            let ends = self.node(otherwise, at, None, into);
            self.connect(std::slice::from_ref(&choice), &ends.entries, "else", ArrowReason::When);
        }
        ArrowEnds::at(choice)
    }

    fn connect(&mut self, from: &[String], to: &[String], label: &str, why: ArrowReason) {
        for from in from {
            for to in to {
                let (from, to, label, why) = (from.clone(), to.clone(), label.to_owned(), why.clone());
                self.arrows.push(Arrow { from, to, label, reason: why });
            }
        }
    }
}

fn format_statuses(statuses: StatusSet) -> String {
    match statuses == StatusSet::from_statuses([Status::Succeeded]) {
        true => String::new(),
        false => statuses.iter().map(Status::as_str).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_any_iteration() {
        let cases = [
            ("pages[3].save", "pages[].save"),
            ("a[0][12].b", "a[][].b"),
            ("odd[x].y[", "odd[x].y["),
            ("", ""),
            ("ä[1]ö", "ä[]ö"),
        ];
        for (path, any) in cases {
            assert_eq!(any_iteration(path), any);
        }
    }
}
