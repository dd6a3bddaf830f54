//! Graphs of actions: which action waits for which.

use std::sync::Arc;

use windlass_core::plan::{Graph, GraphChild, GraphDependency, NodeId};
use windlass_core::{Status, StatusSet};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{
    Diagnostic, ObjectReader, Span, SpannedKey, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_list, expect_text,
    format_names,
};
use windlass_value::ExpressionMode;

use crate::codes;
use crate::compiler::{LoomCompiler, new_graph};
use crate::expr::ExprLanguage;
use crate::scopes::{ActionPosition, NameScopeId};

const STATUSES: &[(&str, Status)] = &[
    ("Succeeded", Status::Succeeded),
    ("Failed", Status::Failed),
    ("Skipped", Status::Skipped),
    ("TimedOut", Status::TimedOut),
    ("Cancelled", Status::Cancelled),
];

/// The start order if no action has a `runAfter`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartOrder {
    /// All start together.
    Together,
    /// One after another, in file order.
    Written,
}

struct ActionEntry<'a> {
    name: Arc<str>,
    span: Span,
    node: &'a SyntaxNode,
    run_after: Option<(&'a SpannedKey, &'a SyntaxNode)>,
}

impl LoomCompiler<'_> {
    /// Compiles a hidden graph of actions: the body of a loop, a branch.
    pub(crate) fn body(
        &mut self,
        (name, label): (String, &str),
        parent: NodeId,
        actions: &SyntaxNode,
        scope: NameScopeId,
        order: StartOrder,
    ) -> NodeId {
        let id = self.reserve_hidden(name, label, parent, actions.span);
        let graph = self.children(actions, &ActionPosition { parent: id, scope, top: false }, order);
        self.node(id).kind = windlass_core::plan::NodeKind::Graph(graph);
        id
    }

    pub(crate) fn children(&mut self, actions: &SyntaxNode, position: &ActionPosition, order: StartOrder) -> Graph {
        let mut entries = self.entries(actions);
        // Keeps one action more than is allowed, so that the limit is reported.
        entries.truncate(self.limits().max_definition_actions + 1);
        for (index, entry) in entries.iter().enumerate() {
            // A duplicate key was reported when the file was parsed.
            let repeated = actions.as_map().is_some() && entries[..index].iter().any(|other| other.name == entry.name);
            if !repeated {
                self.register(position.scope, &entry.name, entry.span);
            }
        }
        let nodes: Vec<NodeId> =
            entries.iter().map(|entry| self.action(&entry.name, entry.span, entry.node, position)).collect();
        let chained = order == StartOrder::Written && entries.iter().all(|entry| entry.run_after.is_none());
        let afters: Vec<Vec<GraphDependency>> = match chained {
            true => (0..nodes.len()).map(after_previous).collect(),
            false => entries.iter().map(|entry| self.run_after(entry, &entries)).collect(),
        };
        self.check_cycles(&entries, &afters);
        new_graph(nodes.into_iter().zip(afters).map(|(node, after)| self.child(node, after)).collect())
    }

    /// Creates a child of a graph. An action whose static result is skipped gets a condition that never holds.
    pub(crate) fn child(&mut self, node: NodeId, after: Vec<GraphDependency>) -> GraphChild {
        let never = self.skipped.contains(&node).then(|| {
            let span = self.plan.node(node).span;
            self.add_expression(
                ExprLanguage::Wdl,
                false.into(),
                ExpressionMode::Condition,
                Span::new(span.start as usize, span.end as usize),
            )
        });
        GraphChild { node, after, condition: never, group: None }
    }

    /// Returns actions by key, or those of an array by their `name`.
    fn entries<'n>(&mut self, actions: &'n SyntaxNode) -> Vec<ActionEntry<'n>> {
        match &actions.kind {
            SyntaxNodeKind::Map(entries) => {
                for (key, _) in entries.iter().filter(|(key, _)| key.text.trim().is_empty()) {
                    self.error(codes::BAD_VALUE, key.span, "an action's name is empty", "give it a name");
                }
                let entry =
                    |(key, node): &'n (SpannedKey, SyntaxNode)| new_entry(key.text.as_str().into(), key.span, node);
                entries.iter().map(entry).collect()
            }
            SyntaxNodeKind::List(items) => items.iter().filter_map(|item| self.named_entry(item)).collect(),
            _ => {
                ObjectReader::read(actions, "`actions`", &mut self.diagnostics);
                Vec::new()
            }
        }
    }

    fn named_entry<'n>(&mut self, node: &'n SyntaxNode) -> Option<ActionEntry<'n>> {
        match node.get("name").filter(|name| name.as_str().is_some_and(|text| !text.is_empty())) {
            Some(name) => Some(new_entry(name.as_str().unwrap_or_default().into(), name.span, node)),
            None => {
                let hint = "add a `name`, or write `actions` as an object with the names as keys";
                let at = Span::new(node.span.start, node.span.start + 1);
                self.error(codes::MISSING_KEY, at, "an action in an array needs a `name`", hint);
                None
            }
        }
    }

    fn run_after(&mut self, entry: &ActionEntry, entries: &[ActionEntry]) -> Vec<GraphDependency> {
        let Some((_, node)) = entry.run_after else { return Vec::new() };
        let Some(object) = ObjectReader::read(node, "`runAfter`", &mut self.diagnostics) else { return Vec::new() };
        let mut afters = Vec::new();
        for (key, statuses) in object.unread_entries() {
            let accepts = self.statuses(statuses);
            let same = |other: &ActionEntry| other.name.eq_ignore_ascii_case(&key.text);
            let exact = entries.iter().position(|other| *other.name == *key.text);
            match exact.or_else(|| entries.iter().position(same)) {
                Some(index) => afters.push(GraphDependency { child: index as u32, accepts }),
                None => self.unknown_predecessor(key, entry, entries),
            }
        }
        afters
    }

    fn unknown_predecessor(&mut self, key: &SpannedKey, entry: &ActionEntry, entries: &[ActionEntry]) {
        let elsewhere = self.scopes.all().any(|scope| scope.names.contains_key(&key.text.to_lowercase()));
        let siblings = || entries.iter().filter(|other| other.name != entry.name).map(|other| &*other.name);
        let hint = match elsewhere {
            true => "it is at another level: an action can only run after actions at its own level".to_owned(),
            false => did_you_mean(&key.text, siblings()).unwrap_or_else(|| match siblings().next() {
                Some(_) => format!("actions at this level: {}", format_names(siblings())),
                None => "there is no other action at this level".to_owned(),
            }),
        };
        let message = format!("`runAfter` of `{}` names `{}`, which is not at the same level", entry.name, key.text);
        self.error(codes::UNKNOWN_PREDECESSOR, key.span, message, hint);
    }

    fn statuses(&mut self, node: &SyntaxNode) -> StatusSet {
        let mut accepts = StatusSet::NONE;
        if node.as_list().is_some_and(<[SyntaxNode]>::is_empty) {
            let hint = "write [\"Succeeded\"], or remove this entry";
            self.error(
                codes::BAD_VALUE,
                node.span,
                "this list of statuses is empty: the action could never start",
                hint,
            );
        }
        for item in expect_list(node, "a list of statuses", &mut self.diagnostics).unwrap_or_default() {
            if let Some(status) = self.status(item) {
                accepts = accepts.with(status);
            }
        }
        accepts
    }

    pub(crate) fn status(&mut self, node: &SyntaxNode) -> Option<Status> {
        let text = &expect_text(node, "a status", &mut self.diagnostics)?.text;
        let found = STATUSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, status)| *status);
        if found.is_none() {
            let names = || STATUSES.iter().map(|(name, _)| *name);
            let hint = did_you_mean(text, names()).unwrap_or_else(|| format!("statuses: {}", format_names(names())));
            self.error(codes::UNKNOWN_STATUS, node.span, format!("there is no status `{text}`"), hint);
        }
        found
    }

    fn check_cycles(&mut self, entries: &[ActionEntry], afters: &[Vec<GraphDependency>]) {
        let mut waits: Vec<bool> = vec![true; afters.len()];
        loop {
            clear_startable(&mut waits, afters);
            let Some(start) = waits.iter().position(|waiting| *waiting) else { return };
            let cycle = find_cycle(start, &waits, afters);
            let names: Vec<&str> = cycle.iter().chain(cycle.first()).map(|index| &*entries[*index].name).collect();
            let first = &entries[cycle[0]];
            let span = first.run_after.map_or(first.span, |(key, _)| key.span);
            let message = format!("these actions wait for each other: {}", names.join(" → "));
            let mut problem = Diagnostic::error(codes::CYCLE, span, message);
            for index in &cycle[1..] {
                let span = entries[*index].run_after.map_or(entries[*index].span, |(key, _)| key.span);
                problem = problem.with_label(span, format!("of `{}`", entries[*index].name));
            }
            self.push(problem.with_hint("remove one of the `runAfter` entries; to repeat actions, use a loop"));
            for index in cycle {
                waits[index] = false;
            }
        }
    }
}

fn new_entry(name: Arc<str>, span: Span, node: &SyntaxNode) -> ActionEntry<'_> {
    let entries = node.as_map().unwrap_or_default();
    let run_after = entries.iter().find(|(key, _)| key.text.eq_ignore_ascii_case("runAfter"));
    ActionEntry { name, span, node, run_after: run_after.map(|(key, node)| (key, node)) }
}

fn after_previous(index: usize) -> Vec<GraphDependency> {
    let before = index
        .checked_sub(1)
        .map(|child| GraphDependency { child: child as u32, accepts: StatusSet::from_statuses([Status::Succeeded]) });
    before.into_iter().collect()
}

/// Removes from `waits` every action that can start at some time. The actions that remain wait for a cycle.
fn clear_startable(waits: &mut [bool], afters: &[Vec<GraphDependency>]) {
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for index in 0..waits.len() {
            if waits[index] && afters[index].iter().all(|after| !waits[after.child as usize]) {
                (waits[index], changed) = (false, true);
            }
        }
    }
}

/// Returns a cycle: follows the dependencies from an action that can never start until one action occurs twice.
fn find_cycle(start: usize, waits: &[bool], afters: &[Vec<GraphDependency>]) -> Vec<usize> {
    let mut path = vec![start];
    loop {
        let last = path[path.len() - 1];
        let next = afters[last].iter().map(|after| after.child as usize).find(|child| waits[*child]);
        let Some(next) = next else { return path };
        if let Some(first) = path.iter().position(|index| *index == next) {
            return path.split_off(first);
        }
        path.push(next);
    }
}
