//! Addresses of nodes, derived from the plan before anything runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::plan::{NodeId, NodeKind, Plan, Wait};
use crate::program::PlanError;

/// Placeholder for any iteration of a loop.
const ANY_ITERATION: &str = "#";

/// The addresses that can receive mail. Empty for a plan without mailboxes.
#[derive(Default)]
pub(crate) struct Addresses {
    /// Nodes with a mailbox and visible nodes, outside of nets, by address: last part first, `#` for iterations.
    by_end: BTreeMap<String, Vec<NodeId>>,
    /// The display form of the address, with `N` for iterations.
    display: BTreeMap<NodeId, Arc<str>>,
    /// Nodes inside loops. There may be several instances of them, so no mail is kept for one that has not begun.
    in_loop: BTreeSet<NodeId>,
    /// For each node, the nodes with a mailbox inside it, itself included, outside of loops and nets.
    inside: BTreeMap<NodeId, Vec<NodeId>>,
    in_use: bool,
}

impl Addresses {
    pub(crate) fn from_plan(plan: &Plan) -> Result<Addresses, PlanError> {
        check(plan)?;
        let mut all =
            Addresses { in_use: plan.nodes.iter().any(|node| node.mailbox.is_some()), ..Addresses::default() };
        if !all.in_use {
            return Ok(all);
        }
        let mut paths: Vec<Option<String>> = Vec::with_capacity(plan.nodes.len());
        for (index, node) in plan.nodes.iter().enumerate() {
            let id = NodeId(index as u32);
            let around = node.parent.map_or(Some(String::new()), |parent| paths[parent.0 as usize].clone());
            let path = around.and_then(|around| path(plan, id, around));
            if node.parent.is_some_and(|parent| {
                all.in_loop.contains(&parent) || matches!(plan.node(parent).kind, NodeKind::Loop(_))
            }) {
                all.in_loop.insert(id);
            }
            if let Some(path) = path.as_ref().filter(|_| node.mailbox.is_some() || !node.hidden) {
                let key = index_key(&last_first(&normalised(path)));
                all.by_end.entry(key).or_default().push(id);
                all.display.insert(id, path.as_str().into());
            }
            if path.is_some() && node.mailbox.is_some() && !all.in_loop.contains(&id) {
                let mut around = Some(id);
                while let Some(node) = around {
                    all.inside.entry(node).or_default().push(id);
                    around = plan.node(node).parent;
                }
            }
            paths.push(path);
        }
        Ok(all)
    }

    /// Returns true if any node has a mailbox.
    pub(crate) fn in_use(&self) -> bool {
        self.in_use
    }

    /// Returns the nodes at this address, which has its last part first.
    pub(crate) fn nodes_at(&self, last_first: &str) -> &[NodeId] {
        self.by_end.get(&index_key(last_first)).map_or(&[], Vec::as_slice)
    }

    /// Returns the nodes whose address ends with this one, which has its last part first.
    pub(crate) fn ending_with(&self, last_first: &str) -> impl Iterator<Item = NodeId> {
        let start = index_key(last_first) + ".";
        let from = self.by_end.range(start.clone()..);
        from.take_while(move |(key, _)| key.starts_with(&start)).flat_map(|(_, nodes)| nodes.iter().copied())
    }

    /// Returns the nodes with a mailbox, outside of loops, inside a node, itself included.
    pub(crate) fn inside(&self, node: NodeId) -> &[NodeId] {
        self.inside.get(&node).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn in_loop(&self, node: NodeId) -> bool {
        self.in_loop.contains(&node)
    }

    pub(crate) fn display_address(&self, node: NodeId) -> Option<&Arc<str>> {
        self.display.get(&node)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Arc<str>)> {
        self.display.iter().map(|(node, shown)| (*node, shown))
    }
}

/// Appends the node to the path of its parent, as events show it. Returns None inside of nets, whose bodies may run
/// any number of times.
fn path(plan: &Plan, id: NodeId, around: String) -> Option<String> {
    let (node, mut path) = (plan.node(id), around);
    let above = node.parent.map(|parent| &plan.node(parent).kind);
    let mut label = None;
    match above {
        Some(NodeKind::Net(_)) => return None,
        Some(NodeKind::Loop(_)) => path.push_str("[N]"),
        Some(NodeKind::Pipeline(pipeline)) => {
            let task = pipeline.tasks.iter().find(|task| task.action.node() == Some(id));
            label = task.map(|task| &task.label).filter(|label| !label.is_empty());
        }
        _ => {}
    }
    if let Some(name) = if node.hidden { label } else { Some(&node.name) } {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
    }
    Some(path)
}

/// Normalizes an address: `a[0].b` and `a.0.b` become one spelling.
pub(crate) fn normalised(address: &str) -> String {
    let parts: Vec<&str> = address.split(['.', '[', ']']).map(str::trim).filter(|part| !part.is_empty()).collect();
    parts.join(".")
}

/// Reverses the parts of an address: `a.0.b` becomes `b.0.a`.
pub(crate) fn last_first(normalised: &str) -> String {
    let parts: Vec<&str> = normalised.rsplit('.').collect();
    parts.join(".")
}

/// Returns the numbers in an address, in order: the iterations it refers to.
pub(crate) fn iteration_indexes(normalised: &str) -> impl Iterator<Item = u64> {
    normalised.split('.').filter_map(|part| part.parse().ok())
}

fn index_key(last_first: &str) -> String {
    let is_iteration = |part: &str| part == "N" || (!part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let parts: Vec<&str> =
        last_first.split('.').map(|part| if is_iteration(part) { ANY_ITERATION } else { part }).collect();
    parts.join(".")
}

/// Checks that every node that waits for mail has a mailbox or is inside a node that has one.
fn check(plan: &Plan) -> Result<(), PlanError> {
    for node in plan.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Wait(Wait::Mail { .. }))) {
        let around = std::iter::successors(Some(node), |node| node.parent.map(|parent| plan.node(parent)));
        if !around.into_iter().any(|node| node.mailbox.is_some()) {
            let message = format!("`{}` waits for mail, but neither it nor an enclosing node has a mailbox", node.name);
            return Err(PlanError(message));
        }
    }
    Ok(())
}
