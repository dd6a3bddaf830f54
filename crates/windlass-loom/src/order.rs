//! Checks that an action has ended when another one reads it.

use windlass_core::plan::{Graph, NodeId, NodeKind};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::Diagnostic;

use crate::codes;
use crate::compiler::{LoomCompiler, NameUse};

impl LoomCompiler<'_> {
    /// Warns about reading an action that the reader does not wait for. Such a read fails or depends on timing.
    pub(crate) fn check_order(&mut self, found: &NameUse, target: Option<NodeId>) {
        let (Some(reader), Some(target)) = (found.node, target) else { return };
        let (readers, targets) = (self.path_from_root(reader), self.path_from_root(target));
        let shared = readers.iter().zip(&targets).take_while(|(a, b)| a == b).count();
        if shared == targets.len() {
            let target = &self.plan.node(target).name;
            let message = match target.eq_ignore_ascii_case(&found.name) {
                true => format!("`{}` cannot have ended here: this expression is inside it", found.name),
                false => {
                    format!(
                        "`{}` cannot have ended here: this expression belongs to `{target}`, which encloses it",
                        found.name
                    )
                }
            };
            self.push(Diagnostic::warning(codes::NOT_AFTER, found.span, message).with_hint("read another action"));
            return;
        }
        // An action may read what is inside itself: a loop's condition, the output of a retry.
        let (Some(reader), Some(target)) = (readers.get(shared), targets.get(shared)) else { return };
        let above = &self.plan.nodes[readers[shared - 1].0 as usize];
        let problem = match &above.kind {
            NodeKind::Graph(graph) if is_after(graph, *reader, *target) => return,
            NodeKind::Graph(graph) if is_after(graph, *target, *reader) => {
                let (reader, target) = (&self.plan.node(*reader).name, &self.plan.node(*target).name);
                let message = format!("`{reader}` reads `{}`, but `{target}` runs after it", found.name);
                Diagnostic::warning(codes::NOT_AFTER, found.span, message)
                    .with_hint("in a loop, variables('loopResult') has the results of the previous iteration")
            }
            NodeKind::Graph(_) => {
                let (reader, target) = (&self.plan.node(*reader).name, &self.plan.node(*target).name);
                let message = format!("`{reader}` reads `{}`, but does not run after `{target}`", found.name);
                Diagnostic::warning(codes::NOT_AFTER, found.span, message)
                    .with_hint(format!("add \"runAfter\": {{\"{target}\": [\"Succeeded\"]}} to `{reader}`"))
            }
            NodeKind::Branch(_) => {
                let message = format!("`{}` is in another branch of `{}`: it has not run here", found.name, above.name);
                Diagnostic::warning(codes::NOT_AFTER, found.span, message)
                    .with_hint("read the action that chose the branch")
            }
            _ => return,
        };
        self.push(problem);
    }

    /// Returns the nodes from the root down to a node.
    pub(crate) fn path_from_root(&self, node: NodeId) -> Vec<NodeId> {
        let mut line: Vec<NodeId> = std::iter::successors(Some(node), |id| self.plan.node(*id).parent).collect();
        line.reverse();
        line
    }
}

/// Reports whether one child of a graph waits for another, directly or not.
fn is_after(graph: &Graph, later: NodeId, earlier: NodeId) -> bool {
    let index_of = |node| graph.children.iter().position(|child| child.node == node);
    let (Some(later), Some(earlier)) = (index_of(later), index_of(earlier)) else { return true };
    let mut seen = vec![false; graph.children.len()];
    let mut open = vec![later];
    while let Some(index) = open.pop() {
        for after in &graph.children[index].after {
            let before = after.child as usize;
            if before == earlier {
                return true;
            }
            if !std::mem::replace(&mut seen[before], true) {
                open.push(before);
            }
        }
    }
    false
}
