//! From a checked document to the plan.

use windlass_core::plan::{Node, NodeKind, Pipeline, Plan};
use windlass_syntax::Diagnostics;

use crate::Options;
use crate::document::Document;

/// Problems that only the compiler can find go to `diagnostics`; they are of the document's own file.
pub(crate) fn compile(document: &Document, _options: &Options, _diagnostics: &mut Diagnostics) -> Plan {
    let mut plan = Plan::new(document.name.as_str(), "zenflow", document.source.text.clone());
    let kind = NodeKind::Pipeline(Pipeline { tasks: Vec::new() });
    plan.root = plan.add_node(Node::new("workflow", "workflow", None, kind));
    plan
}
