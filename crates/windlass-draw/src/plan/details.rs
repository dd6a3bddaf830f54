//! The text in a box besides its name.

use windlass_core::plan::{
    Action, Amount, Directive, Effect, ExprId, Loop, LoopCheck, Node, NodeKind, Pipeline, Plan, Retry, Task, ToolName,
};

use crate::model::{DrawingItem, ItemShape};
use crate::text;

/// Maximum number of characters of an expression that are shown.
const MAX_SOURCE_CHARS: usize = 60;

pub(crate) fn source(plan: &Plan, expression: ExprId) -> String {
    text::format_value(plan.expressions[expression.0 as usize].as_written(), MAX_SOURCE_CHARS)
}

pub(crate) fn condition(plan: &Plan, when: Option<ExprId>) -> String {
    when.map_or_else(String::new, |when| source(plan, when))
}

pub(crate) fn node_details(plan: &Plan, node: &Node) -> String {
    let what = match &node.kind {
        NodeKind::Loop(looping) => loop_details(plan, looping),
        NodeKind::Pipeline(pipeline) => first_tool(plan, pipeline)
            .filter(|tool| *tool != *node.label)
            .map_or_else(String::new, |tool| format!(": {tool}")),
        NodeKind::Call(call) => format!(": {}", source(plan, call.definition)),
        _ => String::new(),
    };
    let tasks = if let NodeKind::Pipeline(pipeline) = &node.kind { pipeline.tasks.as_slice() } else { &[] };
    let retry = node.retry.as_ref().or_else(|| tasks.iter().find_map(|task| task.retry.as_ref()));
    format!("{}{what}{}", node.label, retry_details(retry))
}

/// Returns the first tool that a pipeline calls. The tool of a single hidden task is an internal name of the compiler
/// and is not shown.
fn first_tool(plan: &Plan, pipeline: &Pipeline) -> Option<String> {
    pipeline
        .tasks
        .iter()
        .filter(|task| !task.hidden || pipeline.tasks.len() > 1)
        .find_map(|task| tool(plan, &task.action))
}

pub(crate) fn task_item(plan: &Plan, id: String, task: &Task) -> DrawingItem {
    let kind = tool(plan, &task.action).unwrap_or_else(|| "compute".to_owned());
    let by_rule = task.rules.iter().find_map(|rule| match &rule.directive {
        Directive::Retry(retry) => Some(retry),
        _ => None,
    });
    let item = DrawingItem::new(id, &*task.label, &kind, ItemShape::Plain);
    DrawingItem { detail: format!("{kind}{}", retry_details(task.retry.as_ref().or(by_rule))), ..item }
}

/// More attempts than this are effectively unlimited.
const MAX_TRIES_SHOWN: u64 = 1_000_000;

fn retry_details(retry: Option<&Retry>) -> String {
    let Some(retry) = retry else { return String::new() };
    let max_attempts = match retry.attempts {
        Amount::Fixed(1) => ", at most 1 attempt".to_owned(),
        Amount::Fixed(max) if max <= MAX_TRIES_SHOWN => format!(", at most {max} attempts"),
        Amount::Fixed(_) | Amount::Computed(_) => String::new(),
    };
    let within = retry.window.map(|within| format!(", within {}", text::format_duration(within.time)));
    format!(", retried{max_attempts}{}", within.unwrap_or_default())
}

fn tool(plan: &Plan, action: &Action) -> Option<String> {
    match action {
        Action::Effect(Effect { tool: ToolName::Fixed(tool), .. }) => Some(tool.to_string()),
        Action::Effect(Effect { tool: ToolName::Computed { computed, .. }, .. }) => Some(source(plan, *computed)),
        _ => None,
    }
}

fn loop_details(plan: &Plan, looping: &Loop) -> String {
    let max_iterations = match &looping.limits.iterations {
        Some(Amount::Fixed(max)) => format!(", at most {max}"),
        Some(Amount::Computed(_)) | None => String::new(),
    };
    match looping.check {
        LoopCheck::Never => max_iterations,
        LoopCheck::Before { condition, .. } | LoopCheck::After { condition, .. } => {
            format!("{max_iterations}: {}", source(plan, condition))
        }
    }
}
