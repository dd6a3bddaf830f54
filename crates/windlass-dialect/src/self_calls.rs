//! Definitions that call themselves without a condition.

use std::collections::BTreeSet;

use windlass_core::Status;
use windlass_core::plan::{Action, ArcTrigger, Graph, Net, NodeId, NodeKind, Pipeline, Plan, SourceSpan};
use windlass_syntax::{Diagnostic, Span};

/// The code of the warning, for all dialects.
const CALLS_ITSELF: &str = "WND-1030";

/// Returns a warning if every successful run of the definition starts another run of it.
///
/// A call in a branch, in a loop, behind a condition or after a failure counts as conditional, and so does every call
/// of a definition that may end its run early.
pub(crate) fn self_call_warning(plan: &Plan) -> Option<Diagnostic> {
    let ends = |node: &NodeKind| match node {
        NodeKind::Pipeline(pipeline) => pipeline.tasks.iter().any(|task| matches!(task.action, Action::End { .. })),
        _ => false,
    };
    if plan.nodes.iter().any(|node| ends(&node.kind)) {
        return None;
    }
    let span = plan.nodes.get(plan.root.0 as usize).and_then(|_| certain_self_call(plan, plan.root))?;
    let message = format!("the definition calls itself: every run of `{}` starts another one", plan.name);
    let hint = "call it under a condition that ends the recursion, or repeat the work in a loop";
    let span = Span { start: span.start as usize, end: span.end as usize };
    Some(Diagnostic::warning(CALLS_ITSELF, span, message).with_hint(hint))
}

/// Returns the place of a call of the definition itself that is made whenever the node succeeds.
fn certain_self_call(plan: &Plan, id: NodeId) -> Option<SourceSpan> {
    match &plan.node(id).kind {
        NodeKind::Call(call) => {
            let source = plan.expressions.get(call.definition.0 as usize)?;
            let name = source.as_written().as_str()?;
            let definition = name.rsplit_once('#').map_or(name, |(definition, _)| definition);
            (name == &*plan.name || definition == &*plan.name).then_some(source.span)
        }
        NodeKind::Pipeline(pipeline) => in_pipeline(plan, pipeline),
        NodeKind::Graph(graph) => in_graph(plan, graph),
        NodeKind::Net(net) => in_net(plan, net),
        NodeKind::Branch(_) | NodeKind::Loop(_) | NodeKind::Wait(_) => None,
    }
}

/// Looks at the tasks up to the first one whose rules may skip the others.
fn in_pipeline(plan: &Plan, pipeline: &Pipeline) -> Option<SourceSpan> {
    let certain = pipeline.tasks.iter().take_while(|task| task.rules.is_empty()).count() + 1;
    pipeline
        .tasks
        .iter()
        .take(certain)
        .filter_map(|task| task.action.node())
        .find_map(|node| certain_self_call(plan, node))
}

fn in_graph(plan: &Plan, graph: &Graph) -> Option<SourceSpan> {
    let mut certain = vec![false; graph.children.len()];
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for (at, child) in graph.children.iter().enumerate() {
            let met = child.after.iter().all(|dependency| {
                let accepts = dependency.accepts.contains(Status::Succeeded);
                accepts && certain.get(dependency.child as usize).copied().unwrap_or_default()
            });
            if !certain[at] && child.condition.is_none() && met {
                (certain[at], changed) = (true, true);
            }
        }
    }
    let children = graph.children.iter().zip(certain).filter(|(_, certain)| *certain);
    children.map(|(child, _)| child.node).find_map(|node| certain_self_call(plan, node))
}

/// Follows the arcs that fire whenever their place succeeds.
fn in_net(plan: &Plan, net: &Net) -> Option<SourceSpan> {
    let (mut kinds, mut visited) = (vec![&net.start], BTreeSet::new());
    while let Some(kind) = kinds.pop() {
        let accepting = net.places.iter().filter(|place| place.accepts.contains(kind) && place.guard.is_none());
        for place in accepting {
            if !visited.insert(&place.name) {
                continue;
            }
            if let Some(span) = certain_self_call(plan, place.body) {
                return Some(span);
            }
            let arcs = place.arcs.iter().filter(|arc| arc.on != ArcTrigger::Failed);
            if place.arcs.iter().all(|arc| arc.when.is_none()) {
                kinds.extend(arcs.map(|arc| &arc.emits));
            }
        }
    }
    None
}
