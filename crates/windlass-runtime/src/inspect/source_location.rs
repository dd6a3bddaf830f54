//! Maps the path of an executed node to its location in the definition.

use windlass_core::plan::{Action, Node, NodeKind, Plan, SourceSpan};

/// Returns the source span of the step or task that a path such as `pages[3].save` names; `None` if it is ambiguous.
pub fn source_span(plan: &Plan, path: &str) -> Option<SourceSpan> {
    let named = |name: &str| plan.nodes.iter().any(|node| *node.name == *name);
    let is_iteration = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit()) && !named(part);
    let parts = path.split('.').filter(|part| !is_iteration(part));
    let names: Vec<&str> = parts.map(|part| part.split('[').next().unwrap_or(part)).collect();
    let last = *names.last()?;
    let step = names.len().checked_sub(2).map(|at| names[at]);
    let tasks = plan.nodes.iter().filter(|node| step.is_some_and(|step| belongs_to(plan, node, step)));
    let tasks: Vec<SourceSpan> = tasks.filter_map(|node| task_span(plan, node, last)).collect();
    let nodes = || plan.nodes.iter().filter(|node| !node.hidden && *node.name == *last).map(|node| node.span);
    let found = if tasks.is_empty() { nodes().collect() } else { tasks };
    let [span] = found.as_slice() else { return None };
    Some(*span).filter(|span| span.end > span.start && plan.source.get(..span.start as usize).is_some())
}

/// Reports whether a node has this name, or is a hidden node inside one that has it.
fn belongs_to(plan: &Plan, node: &Node, name: &str) -> bool {
    let parent = |node: &&Node| node.parent.map(|parent| plan.node(parent));
    let mut around = std::iter::successors(Some(node), |node| parent(node).filter(|_| node.hidden));
    around.any(|node| *node.name == *name)
}

/// Returns the span of a task. A task has no span, so that of its input expression is used.
fn task_span(plan: &Plan, node: &Node, label: &str) -> Option<SourceSpan> {
    let NodeKind::Pipeline(pipeline) = &node.kind else { return None };
    let task = pipeline.tasks.iter().find(|task| *task.label == *label)?;
    let expression = match &task.action {
        Action::Effect(effect) => effect.input,
        Action::Evaluate(expression) => *expression,
        Action::Node(inner) => return Some(plan.node(*inner).span),
        Action::Post(post) => post.to,
        Action::PublishEvent { data, .. } => *data,
        Action::Write(_) | Action::End { .. } | Action::Reply { .. } => return None,
    };
    plan.expressions.get(expression.0 as usize).map(|expression| expression.span)
}
