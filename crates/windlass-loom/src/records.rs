//! What a loop writes down of its turns, because some expression outside asks for `result('loop')` or names an action inside.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::plan::{RecordRetention, NodeId, NodeKind, Records, Source};
use windlass_syntax::Span;
use windlass_value::{Mode, Value};

use crate::compiler::{Compiler, Use};
use crate::expr::{self, Refers, Tongue};

/// What is asked of each loop.
#[derive(Default)]
pub(crate) struct Wanted(BTreeMap<NodeId, OfLoop>);

#[derive(Default)]
struct OfLoop {
    /// The actions directly in the body.
    listed: bool,
    named: BTreeSet<NodeId>,
}

impl Compiler<'_> {
    /// The loop that has ended where an action inside it is read, and that action if it could be read.
    pub(crate) fn seen_inside(&self, found: &Use) -> Option<(NodeId, Option<NodeId>)> {
        if found.refers != Refers::Action || self.seen(found).is_some() {
            return None;
        }
        let lower = found.name.to_lowercase();
        match &self.scopes.bodies_with(found.scope, &lower)[..] {
            [body] => Some((body.around.as_ref()?.node, body.names.get(&lower)?.node)),
            _ => None,
        }
    }

    pub(crate) fn want_record(&self, found: &Use, wanted: &mut Wanted) {
        if let Some((looping, Some(node))) = self.seen_inside(found) {
            wanted.0.entry(looping).or_default().named.insert(node);
        }
    }

    pub(crate) fn want_records(&self, found: &Use, wanted: &mut Wanted) {
        if let Some(looping) = self.seen(found).flatten() {
            wanted.0.entry(looping).or_default().listed = true;
        }
    }

    /// Of every turn for items, of the last one for a condition.
    pub(crate) fn keep_records(&mut self, wanted: Wanted) {
        for (id, OfLoop { listed, named }) in wanted.0 {
            let node = self.plan.node(id);
            let NodeKind::Loop(looping) = &node.kind else { continue };
            let keep = match looping.source {
                Source::Each(_) => RecordRetention::All,
                Source::Repeat => RecordRetention::Last,
            };
            let span = Span::new(node.span.start as usize, node.span.end as usize);
            let mut of = if listed { self.plan.node(looping.body).kind.children() } else { Vec::new() };
            let listed = of.len();
            let more: Vec<NodeId> = named.into_iter().filter(|node| !of.contains(node)).collect();
            of.extend(more);
            let one = |child: &NodeId| Value::from(format!("@actions({})", expr::quoted(&self.plan.node(*child).name)));
            let source = Value::list(of.iter().map(one).collect());
            let value = self.add_expression(Tongue::Wdl, source, Mode::Value, span);
            if let NodeKind::Loop(looping) = &mut self.node(id).kind {
                let listed = (listed < of.len()).then_some(listed as u32);
                looping.records = Some(Records { value, keep, of, listed });
            }
        }
    }
}
