//! Records of a loop's iterations, kept because an expression outside asks for `result('loop')` or names an action
//! inside.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::plan::{LoopSource, NodeId, NodeKind, RecordRetention, RecordingSpec};
use windlass_syntax::Span;
use windlass_value::{ExpressionMode, Value};

use crate::compiler::{LoomCompiler, NameUse};
use crate::expr::{self, ExprLanguage, ReferenceKind};

/// The records requested of each loop.
#[derive(Default)]
pub(crate) struct RequestedRecords(BTreeMap<NodeId, LoopRecordRequest>);

#[derive(Default)]
struct LoopRecordRequest {
    /// All actions directly in the body.
    listed: bool,
    named: BTreeSet<NodeId>,
}

impl LoomCompiler<'_> {
    /// Resolves an action inside a loop that has ended where it is read: the loop, and the action if it was compiled.
    pub(crate) fn resolve_inside_loop(&self, found: &NameUse) -> Option<(NodeId, Option<NodeId>)> {
        if found.kind != ReferenceKind::Action || self.resolve_action(found).is_some() {
            return None;
        }
        let lower = found.name.to_lowercase();
        match &self.scopes.bodies_with(found.scope, &lower)[..] {
            [body] => Some((body.enclosing_loop.as_ref()?.node, body.names.get(&lower)?.node)),
            _ => None,
        }
    }

    pub(crate) fn request_record(&self, found: &NameUse, requested: &mut RequestedRecords) {
        if let Some((looping, Some(node))) = self.resolve_inside_loop(found) {
            requested.0.entry(looping).or_default().named.insert(node);
        }
    }

    pub(crate) fn request_all_records(&self, found: &NameUse, requested: &mut RequestedRecords) {
        if let Some(looping) = self.resolve_action(found).flatten() {
            requested.0.entry(looping).or_default().listed = true;
        }
    }

    /// Adds the records to the plan: of every iteration for a loop over items, of the last one for a condition loop.
    pub(crate) fn add_records(&mut self, requested: RequestedRecords) {
        for (id, LoopRecordRequest { listed, named }) in requested.0 {
            let node = self.plan.node(id);
            let NodeKind::Loop(looping) = &node.kind else { continue };
            let keep = match looping.source {
                LoopSource::Each(_) => RecordRetention::All,
                LoopSource::Repeat => RecordRetention::Last,
            };
            let span = Span::new(node.span.start as usize, node.span.end as usize);
            let mut of = if listed { self.plan.node(looping.body).kind.children() } else { Vec::new() };
            let listed = of.len();
            let more: Vec<NodeId> = named.into_iter().filter(|node| !of.contains(node)).collect();
            of.extend(more);
            let one = |child: &NodeId| Value::from(format!("@actions({})", expr::quote(&self.plan.node(*child).name)));
            let source = Value::list(of.iter().map(one).collect());
            let value = self.add_expression(ExprLanguage::Wdl, source, ExpressionMode::Value, span);
            if let NodeKind::Loop(looping) = &mut self.node(id).kind {
                let listed = (listed < of.len()).then_some(listed as u32);
                looping.records = Some(RecordingSpec { value, keep, nodes: of, listed });
            }
        }
    }
}
