//! Warns about actions that only compute a value which no expression reads.

use std::collections::BTreeSet;

use windlass_core::Status;
use windlass_core::plan::{NodeId, NodeKind};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::Span;

use crate::codes;
use crate::compiler::{LoomCompiler, NameUse};
use crate::expr::ReferenceKind;

impl LoomCompiler<'_> {
    /// Warns about unused values. A value is used if an expression names its action, or if it is part of an output that
    /// is used. The run's default output contains the outputs of all actions.
    pub(crate) fn warn_unused_outputs(&mut self, uses: &[NameUse]) {
        if self.any_action_read || self.diagnostics.has_errors() {
            return;
        }
        let mut open: Vec<NodeId> = uses.iter().filter_map(|found| self.output_read_by(found)).collect();
        if self.plan.outputs.is_none() {
            open.push(self.plan.root);
        }
        let mut read = BTreeSet::new();
        while let Some(id) = open.pop() {
            if read.insert(id) {
                open.extend(self.output_sources(id));
            }
        }
        let watched = self.watched();
        for id in std::mem::take(&mut self.pure) {
            if read.contains(&id) || self.affects_flow(id, &watched) {
                continue;
            }
            let node = self.plan.node(id);
            let message = format!("the output of `{}` is never read", node.name);
            let hint =
                format!("read it with outputs('{}'), name it under the workflow's `outputs`, or remove it", node.name);
            let start = node.span.start as usize;
            self.warning(codes::NEVER_READ, Span::new(start, start + 1), message, hint);
        }
    }

    /// Returns the node whose output an expression reads: an action, or for `loopResult` the loop.
    pub(crate) fn output_read_by(&self, found: &NameUse) -> Option<NodeId> {
        match found.kind {
            ReferenceKind::Action | ReferenceKind::Result => {
                self.resolve_action(found).unwrap_or_else(|| self.resolve_inside_loop(found).and_then(|(_, node)| node))
            }
            ReferenceKind::Variable => {
                let lower = found.name.to_lowercase();
                let of = match lower.strip_suffix("loopresult")? {
                    "" => None,
                    outer => Some(outer.strip_suffix('_')?.to_owned()),
                };
                let is_requested = |name: &str| of.as_ref().is_none_or(|of| name.to_lowercase() == *of);
                self.scopes.loops(found.scope).find(|frame| is_requested(&frame.name)).map(|frame| frame.node)
            }
            ReferenceKind::Loop
            | ReferenceKind::Item
            | ReferenceKind::Element
            | ReferenceKind::Parameter
            | ReferenceKind::Setting => None,
        }
    }

    /// Returns the nodes whose outputs make up a node's output. For a node with an explicit output expression there are
    /// none: the names in that expression count as uses of their own.
    fn output_sources(&self, id: NodeId) -> Vec<NodeId> {
        let node = self.plan.node(id);
        match node.output {
            Some(_) => Vec::new(),
            None => node.kind.children(),
        }
    }

    /// Reports whether the status of an action affects the flow: another action waits for it with a status other than
    /// succeeded, so its purpose is to fail or not to fail. The same applies to a `parseJson` anywhere inside such an
    /// action.
    fn affects_flow(&self, id: NodeId, watched: &BTreeSet<NodeId>) -> bool {
        let mut line = std::iter::successors(Some(id), |id| self.plan.node(*id).parent);
        match *self.plan.node(id).label == *"parseJson" {
            true => line.any(|id| watched.contains(&id)),
            false => watched.contains(&id),
        }
    }

    fn watched(&self) -> BTreeSet<NodeId> {
        let mut found = BTreeSet::new();
        for node in &self.plan.nodes {
            let NodeKind::Graph(graph) = &node.kind else { continue };
            for after in graph.children.iter().flat_map(|child| &child.after) {
                if after.accepts.iter().any(|status| status != Status::Succeeded) {
                    found.insert(graph.children[after.child as usize].node);
                }
            }
        }
        found
    }
}
