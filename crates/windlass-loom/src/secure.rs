//! `secureData`: redacts inputs and outputs of an action, and of everything that would reveal them.

use std::collections::BTreeSet;

use windlass_core::plan::{Action, NodeId, NodeKind, Redaction};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{ObjectReader, Span, SyntaxNode, did_you_mean, expect_list};

use crate::codes;
use crate::compiler::{LoomCompiler, NameUse};
use crate::expr::ReferenceKind;

const PROPERTIES: [&str; 2] = ["inputs", "outputs"];

/// Places known to hold secured values.
#[derive(Default)]
struct SecuredValues {
    /// In lower case.
    variables: BTreeSet<String>,
    /// Loops over secured items.
    loops: BTreeSet<NodeId>,
}

impl LoomCompiler<'_> {
    pub(crate) fn secure_data(&mut self, node: &SyntaxNode) -> Redaction {
        let mut redaction = Redaction::default();
        let Some(mut object) = ObjectReader::read(node, "`secureData`", &mut self.diagnostics) else {
            return redaction;
        };
        let properties = object.take("properties");
        object.finish(codes::UNKNOWN_KEY, "`secureData`", &mut self.diagnostics);
        let Some(properties) = properties else {
            let hint = "add \"properties\": [\"inputs\", \"outputs\"]";
            self.error(codes::MISSING_KEY, node.span, "`secureData` has no `properties`", hint);
            return redaction;
        };
        for property in expect_list(properties, "`properties`", &mut self.diagnostics).unwrap_or_default() {
            let name = property.as_str().unwrap_or_default().trim();
            match PROPERTIES.iter().find(|known| known.eq_ignore_ascii_case(name)) {
                Some(&"inputs") => redaction.inputs = true,
                Some(_) => redaction.outputs = true,
                None => {
                    let hint = did_you_mean(name, PROPERTIES).unwrap_or_else(|| "`inputs` or `outputs`".to_owned());
                    let message = format!("`secureData` cannot hide {}", property.describe());
                    self.error(codes::BAD_VALUE, property.span, message, hint);
                }
            }
        }
        redaction
    }

    /// Spreads redaction to readers of secured values: actions that only compute pass them on, variables store them, and
    /// the workflow's outputs may contain them.
    pub(crate) fn spread_redaction(&mut self, uses: &[NameUse]) {
        let of_trigger = self.plan.redaction.inputs;
        if !of_trigger && !self.plan.nodes.iter().any(|node| node.redaction.outputs) {
            return;
        }
        let mut secured = SecuredValues::default();
        if of_trigger {
            for reader in self.trigger_readers() {
                self.redact_reader(reader, &mut secured);
            }
        }
        if self.any_action_read {
            // A computed name may be that of any action.
            (0..self.plan.nodes.len())
                .for_each(|at| self.plan.nodes[at].redaction = Redaction { inputs: true, outputs: true });
            self.plan.redaction.outputs = true;
        }
        loop {
            let before = (self.redaction_count(), secured.variables.len(), secured.loops.len());
            for found in uses {
                if self.is_secured(found, &secured) {
                    self.redact_reader(found.node, &mut secured);
                }
            }
            if before == (self.redaction_count(), secured.variables.len(), secured.loops.len()) {
                return;
            }
        }
    }

    fn redaction_count(&self) -> (usize, bool) {
        let count = |redaction: Redaction| usize::from(redaction.inputs) + usize::from(redaction.outputs);
        (self.plan.nodes.iter().map(|node| count(node.redaction)).sum(), self.plan.redaction.outputs)
    }

    fn is_secured(&self, found: &NameUse, secured: &SecuredValues) -> bool {
        match found.kind {
            ReferenceKind::Variable if secured.variables.contains(&found.name.to_lowercase()) => true,
            ReferenceKind::Action | ReferenceKind::Result | ReferenceKind::Variable => {
                self.output_read_by(found).is_some_and(|node| self.gives_secured(node))
            }
            ReferenceKind::Loop | ReferenceKind::Item | ReferenceKind::Element => {
                let mut around = std::iter::successors(found.node, |node| self.plan.node(*node).parent);
                around.any(|node| secured.loops.contains(&node))
            }
            ReferenceKind::Parameter | ReferenceKind::Setting => false,
        }
    }

    fn gives_secured(&self, node: NodeId) -> bool {
        let node = self.plan.node(node);
        node.redaction.outputs || node.kind.children().into_iter().any(|child| self.gives_secured(child))
    }

    /// Redacts a reader; `None` stands for the workflow's outputs.
    fn redact_reader(&mut self, reader: Option<NodeId>, secured: &mut SecuredValues) {
        let Some(id) = reader else {
            self.plan.redaction.outputs = true;
            return;
        };
        let node = &mut self.plan.nodes[id.0 as usize];
        node.redaction.inputs = true;
        match &node.kind {
            NodeKind::Pipeline(pipeline) => {
                node.redaction.outputs |= !pipeline.tasks.iter().any(|task| matches!(task.action, Action::Effect(_)));
            }
            NodeKind::Loop(_) => drop(secured.loops.insert(id)),
            _ => {}
        }
        let span = Span::new(node.span.start as usize, node.span.end as usize);
        let inside = |write: Span| write.start >= span.start && write.end <= span.end;
        let is_leaf = self.plan.node(id).kind.children().is_empty();
        let written = self.writes.iter().filter(|write| is_leaf && inside(write.span));
        secured.variables.extend(written.map(|write| write.name.clone()));
    }

    /// Returns the actions whose expressions mention the trigger; `None` stands for the workflow's outputs.
    fn trigger_readers(&self) -> Vec<Option<NodeId>> {
        let mentions_trigger =
            |source: &windlass_value::Value| windlass_value::to_json(source).to_lowercase().contains("trigger");
        let all = self.plan.expressions.iter().filter(|expression| mentions_trigger(&expression.source));
        all.map(|expression| {
            let holds = |node: &windlass_core::plan::Node| {
                node.span.start <= expression.span.start && expression.span.end <= node.span.end
            };
            // Parents precede their children, so the last node that contains the expression is the innermost.
            let found = self.plan.nodes.iter().rposition(|node| node.parent.is_some() && holds(node));
            found.map(|at| NodeId(at as u32))
        })
        .collect()
    }
}
