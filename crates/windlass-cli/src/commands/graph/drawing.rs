//! A plan as boxes in boxes, with arrows between neighbours. The formats only write it down.

use std::sync::Arc;

use windlass_core::plan::{
    Action, Amount, Branch, Check, Directive, Effect, ExprId, Graph, Loop, Name, Net, Node, NodeId, NodeKind, Pipeline,
    Plan, Rule, Task, Test,
};
use windlass_core::{Status, StatusSet};

use crate::text;

pub struct Drawing {
    pub title: Arc<str>,
    pub items: Vec<Item>,
    pub arrows: Vec<Arrow>,
}

pub struct Item {
    pub id: String,
    pub title: String,
    /// The dialect's word for it; `choice` where a branch parts.
    pub kind: String,
    /// The kind, and what else is worth a second line.
    pub detail: String,
    pub shape: Shape,
    /// Only a group has any.
    pub items: Vec<Item>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Plain,
    Choice,
    Group,
}

pub struct Arrow {
    pub from: String,
    pub to: String,
    /// Empty for the usual: after success.
    pub label: String,
    /// The ends that are waited for; None where something else decides.
    pub accepts: Option<StatusSet>,
}

/// Where arrows to and from a part of the plan begin and end.
struct Ends {
    entries: Vec<String>,
    exits: Vec<String>,
}

impl Drawing {
    pub fn of(plan: &Plan) -> Drawing {
        let mut painter = Painter { plan, arrows: Vec::new() };
        let mut items = Vec::new();
        painter.node(plan.root, &mut items);
        // One arc may have been written as two: one for success, one for failure.
        let mut arrows: Vec<Arrow> = Vec::new();
        for arrow in painter.arrows {
            let same = |other: &Arrow| (&other.from, &other.to, &other.label) == (&arrow.from, &arrow.to, &arrow.label);
            if !arrows.iter().any(same) {
                arrows.push(arrow);
            }
        }
        Drawing { title: plan.name.clone(), items, arrows }
    }
}

struct Painter<'a> {
    plan: &'a Plan,
    arrows: Vec<Arrow>,
}

impl Painter<'_> {
    /// Machinery is not drawn: what is inside it belongs to whatever is around it.
    fn node(&mut self, id: NodeId, into: &mut Vec<Item>) -> Ends {
        let node = self.plan.node(id);
        if node.hidden {
            return self.inside(id, into);
        }
        let name = format!("n{}", id.0);
        let mut items = Vec::new();
        self.inside(id, &mut items);
        let is_group =
            matches!(node.kind, NodeKind::Graph(_) | NodeKind::Loop(_) | NodeKind::Branch(_) | NodeKind::Net(_));
        let shape = if is_group || !items.is_empty() { Shape::Group } else { Shape::Plain };
        let (title, kind, detail) = (node.name.to_string(), node.label.to_string(), self.detail(node));
        into.push(Item { id: name.clone(), title, kind, detail, shape, items });
        Ends { entries: vec![name.clone()], exits: vec![name] }
    }

    fn inside(&mut self, id: NodeId, into: &mut Vec<Item>) -> Ends {
        match &self.plan.node(id).kind {
            NodeKind::Wait(_) | NodeKind::Call(_) => Ends { entries: vec![], exits: vec![] },
            NodeKind::Pipeline(pipeline) => self.tasks(id, pipeline, into),
            NodeKind::Graph(graph) => self.graph(graph, into),
            NodeKind::Branch(branch) => self.branch(id, branch, into),
            NodeKind::Loop(looping) => {
                let ends = self.node(looping.body, into);
                looping.judge.map(|judge| self.node(judge, into));
                ends
            }
            NodeKind::Net(net) => self.net(net, into),
        }
    }

    /// A task alone is its node's own box. Several stand in it one after the other, with the nodes that some of them enter.
    fn tasks(&mut self, id: NodeId, pipeline: &Pipeline, into: &mut Vec<Item>) -> Ends {
        let named = |task: &&Task| !task.hidden && !task.label.is_empty() && task.action.node().is_none();
        let apart = self.plan.node(id).hidden || pipeline.tasks.iter().filter(named).count() > 1;
        let mut ends: Vec<Option<Ends>> = Vec::new();
        for (at, task) in pipeline.tasks.iter().enumerate() {
            ends.push(match task.action.node() {
                Some(node) => Some(self.node(node, into)),
                None if apart && named(&task) => Some(self.task(format!("n{}_{at}", id.0), task, into)),
                None => None,
            });
        }
        let seen: Vec<&Ends> = ends.iter().flatten().collect();
        for pair in seen.windows(2) {
            self.connect(&pair[0].exits, &pair[1].entries, "", None);
        }
        for (task, from) in pipeline.tasks.iter().zip(&ends) {
            for rule in &task.rules {
                if let (Directive::Jump(to), Some(from)) = (&rule.directive, from)
                    && let Some(Some(to)) = ends.get(*to as usize)
                {
                    let label = rule.when.map_or_else(String::new, |when| self.source(when));
                    self.connect(&from.exits, &to.entries, &label, None);
                }
            }
        }
        Ends {
            entries: seen.first().map_or_else(Vec::new, |ends| ends.entries.clone()),
            exits: seen.last().map_or_else(Vec::new, |ends| ends.exits.clone()),
        }
    }

    fn task(&mut self, name: String, task: &Task, into: &mut Vec<Item>) -> Ends {
        let kind = self.tool(&task.action).unwrap_or_else(|| "compute".to_owned());
        let retries = |rule: &Rule| matches!(rule.directive, Directive::Retry(_));
        let retried = if task.retry.is_some() || task.rules.iter().any(retries) { ", retried" } else { "" };
        let (title, detail) = (task.label.to_string(), format!("{kind}{retried}"));
        into.push(Item { id: name.clone(), title, kind, detail, shape: Shape::Plain, items: Vec::new() });
        Ends { entries: vec![name.clone()], exits: vec![name] }
    }

    fn graph(&mut self, graph: &Graph, into: &mut Vec<Item>) -> Ends {
        let ends: Vec<Ends> = graph.children.iter().map(|child| self.node(child.node, into)).collect();
        let mut is_last = vec![true; ends.len()];
        for (child, to) in graph.children.iter().zip(&ends) {
            for after in &child.after {
                is_last[after.child as usize] = false;
                let label = accepted(after.accepts);
                self.connect(&ends[after.child as usize].exits, &to.entries, &label, Some(after.accepts));
            }
        }
        let first = graph.children.iter().zip(&ends).filter(|(child, _)| child.after.is_empty());
        let last = is_last.iter().zip(&ends).filter(|(is_last, _)| **is_last);
        Ends {
            entries: first.flat_map(|(_, ends)| ends.entries.clone()).collect(),
            exits: last.flat_map(|(_, ends)| ends.exits.clone()).collect(),
        }
    }

    fn branch(&mut self, id: NodeId, branch: &Branch, into: &mut Vec<Item>) -> Ends {
        let choice = format!("n{}_choice", id.0);
        let title = branch.on.map_or_else(|| "?".to_owned(), |on| self.source(on));
        let (kind, detail) = ("choice".to_owned(), String::new());
        into.push(Item { id: choice.clone(), title, kind, detail, shape: Shape::Choice, items: Vec::new() });
        for case in &branch.cases {
            let label = match &case.test {
                Test::When(condition) => self.source(*condition),
                Test::Equals(value) => format!("= {}", self.source(*value)),
            };
            let ends = self.node(case.node, into);
            self.connect(std::slice::from_ref(&choice), &ends.entries, &label, None);
        }
        if let Some(otherwise) = branch.otherwise {
            let ends = self.node(otherwise, into);
            self.connect(std::slice::from_ref(&choice), &ends.entries, "else", None);
        }
        Ends { entries: vec![choice.clone()], exits: vec![choice] }
    }

    fn net(&mut self, net: &Net, into: &mut Vec<Item>) -> Ends {
        let ends: Vec<Ends> = net.places.iter().map(|place| self.node(place.body, into)).collect();
        for (place, from) in net.places.iter().zip(&ends) {
            for arc in &place.arcs {
                let takers = net.places.iter().zip(&ends).filter(|(place, _)| place.accepts.contains(&arc.emits));
                for (_, to) in takers {
                    let label = arc.when.map_or_else(String::new, |when| self.source(when));
                    self.connect(&from.exits, &to.entries, &label, None);
                }
            }
        }
        let first = net.places.iter().zip(&ends).filter(|(place, _)| place.accepts.contains(&net.start));
        Ends { entries: first.flat_map(|(_, ends)| ends.entries.clone()).collect(), exits: Vec::new() }
    }

    fn connect(&mut self, from: &[String], to: &[String], label: &str, accepts: Option<StatusSet>) {
        for from in from {
            for to in to {
                self.arrows.push(Arrow { from: from.clone(), to: to.clone(), label: label.to_owned(), accepts });
            }
        }
    }

    fn detail(&self, node: &Node) -> String {
        let (what, retried) = match &node.kind {
            NodeKind::Loop(looping) => (self.loop_detail(looping), false),
            NodeKind::Pipeline(pipeline) => {
                let tools = pipeline.tasks.iter().find_map(|task| self.tool(&task.action));
                let called = tools.filter(|tool| *tool != *node.label).map(|tool| format!(": {tool}"));
                (called.unwrap_or_default(), pipeline.tasks.iter().any(|task| task.retry.is_some()))
            }
            NodeKind::Call(call) => (format!(": {}", self.source(call.definition)), false),
            _ => (String::new(), false),
        };
        let retried = if retried || node.retry.is_some() { ", retried" } else { "" };
        format!("{}{what}{retried}", node.label)
    }

    fn tool(&self, action: &Action) -> Option<String> {
        match action {
            Action::Effect(Effect { tool: Name::Fixed(tool), .. }) => Some(tool.to_string()),
            Action::Effect(Effect { tool: Name::Computed { computed, .. }, .. }) => Some(self.source(*computed)),
            _ => None,
        }
    }

    fn loop_detail(&self, looping: &Loop) -> String {
        let most = match &looping.limits.turns {
            Some(Amount::Fixed(most)) => format!(", at most {most}"),
            Some(Amount::Computed(_)) | None => String::new(),
        };
        match looping.check {
            Check::Never => most,
            Check::Before { condition, .. } | Check::After { condition, .. } => {
                format!("{most}: {}", self.source(condition))
            }
        }
    }

    fn source(&self, expression: ExprId) -> String {
        text::short(&self.plan.expressions[expression.0 as usize].source, 60)
    }
}

fn accepted(statuses: StatusSet) -> String {
    match statuses == StatusSet::of([Status::Succeeded]) {
        true => String::new(),
        false => statuses.iter().map(Status::as_str).collect::<Vec<_>>().join(", "),
    }
}
