//! Renders a plan as text for comparison.

use std::fmt::Write as _;

use windlass_core::plan::{
    Action, Amount, Backoff, Branch, BranchTest, Directive, ExprId, Graph, GraphDependency, Loop, LoopCheck,
    LoopSource, NodeId, NodeKind, Plan, Retry, Task, ToolName, Wait,
};
use windlass_value::to_json;

pub(crate) fn summary(plan: &Plan) -> String {
    let mut out = format!("workflow {}\n", plan.name);
    for parameter in &plan.parameters {
        let default = parameter.default.as_ref().map_or("required".to_owned(), to_json);
        let allowed = parameter.allowed.as_ref().map(|all| format!(" of {all:?}")).unwrap_or_default();
        let _ = writeln!(out, "parameter {}: {:?} = {default}{allowed}", parameter.name, parameter.kind);
    }
    if !plan.metadata.is_null() && plan.metadata.as_map().is_some_and(|map| !map.is_empty()) {
        let _ = writeln!(out, "metadata {}", to_json(&plan.metadata));
    }
    for trigger in &plan.triggers {
        let _ = write!(out, "trigger {} [{}]", trigger.name, trigger.kind);
        if let Some(validates) = trigger.validation {
            let _ = write!(out, " valid by {}", expression(plan, validates));
        }
        for condition in &trigger.conditions {
            let _ = write!(out, " if {}", expression(plan, *condition));
        }
        if let Some(split) = trigger.split {
            let _ = write!(out, " for each {}", expression(plan, split));
        }
        let _ = writeln!(out, " {}", to_json(&trigger.settings));
    }
    node(plan, plan.root, 0, "", &mut out);
    for (name, value) in plan.outputs.iter().flatten() {
        let _ = writeln!(out, "output {name} = {}", expression(plan, *value));
    }
    if plan.outputs.is_none() {
        out.push_str("output of the root\n");
    }
    out
}

fn node(plan: &Plan, id: NodeId, depth: usize, after: &str, out: &mut String) {
    let node = plan.node(id);
    let hidden = if node.hidden { " hidden" } else { "" };
    let _ = write!(out, "{}{} [{}{hidden}]", "  ".repeat(depth), node.name, node.label);
    match &node.kind {
        NodeKind::Pipeline(pipeline) => {
            for one in &pipeline.tasks {
                task(plan, one, out);
            }
        }
        NodeKind::Wait(Wait::Delay(delay)) => {
            let _ = write!(out, " wait {}", amount(plan, delay));
        }
        NodeKind::Wait(Wait::Until(at)) => {
            let _ = write!(out, " until {}", expression(plan, *at));
        }
        NodeKind::Wait(Wait::Signal { name, deadline, form, .. }) => {
            let name = if name.is_empty() { "its path" } else { name };
            let _ = write!(out, " signal {name}");
            if let Some(deadline) = deadline {
                let _ = write!(out, " within {}", amount(plan, deadline));
            }
            if let Some(form) = form {
                let _ = write!(out, " asks {}", expression(plan, *form));
            }
        }
        NodeKind::Loop(looping) => write_loop(plan, looping, out),
        NodeKind::Call(call) => {
            let _ = write!(out, " calls {}({})", expression(plan, call.definition), expression(plan, call.input));
        }
        _ => {}
    }
    for (redacted, what) in [(node.redaction.inputs, "inputs"), (node.redaction.outputs, "outputs")] {
        if redacted {
            let _ = write!(out, " hides {what}");
        }
    }
    if let Some(timeout) = &node.timeout {
        let _ = write!(out, " timeout {} {:?}", amount(plan, &timeout.after), timeout.status);
    }
    if let Some(policy) = &node.retry {
        let _ = write!(out, " retry({})", retry(plan, policy));
    }
    if let Some(value) = node.output {
        let _ = write!(out, " gives {}", expression(plan, value));
    }
    let _ = writeln!(out, "{after}");
    write_children(plan, &node.kind, depth + 1, out);
}

fn write_children(plan: &Plan, kind: &NodeKind, depth: usize, out: &mut String) {
    match kind {
        NodeKind::Graph(graph) => graph.children.iter().for_each(|child| {
            let mut after = format_afters(plan, graph, &child.after);
            if let Some(condition) = child.condition {
                let _ = write!(after, " if {}", expression(plan, condition));
            }
            node(plan, child.node, depth, &after, out);
        }),
        NodeKind::Branch(branch) => write_branch(plan, branch, depth, out),
        NodeKind::Loop(looping) => node(plan, looping.body, depth, "", out),
        _ => {}
    }
}

fn format_afters(plan: &Plan, graph: &Graph, after: &[GraphDependency]) -> String {
    let one = |after: &GraphDependency| {
        let name = &plan.node(graph.children[after.child as usize].node).name;
        let accepts: Vec<&str> = after.accepts.iter().map(|status| status.as_str()).collect();
        format!(" after {name}:{}", accepts.join("|"))
    };
    after.iter().map(one).collect()
}

fn write_branch(plan: &Plan, branch: &Branch, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    if let Some(on) = branch.on {
        let _ = writeln!(out, "{indent}on {}", expression(plan, on));
    }
    for case in &branch.cases {
        let _ = match case.test {
            BranchTest::When(test) => writeln!(out, "{indent}when {}", expression(plan, test)),
            BranchTest::Equals(test) => writeln!(out, "{indent}equals {}", expression(plan, test)),
        };
        node(plan, case.node, depth + 1, "", out);
    }
    if let Some(otherwise) = branch.otherwise {
        let _ = writeln!(out, "{indent}otherwise");
        node(plan, otherwise, depth + 1, "", out);
    }
}

fn write_loop(plan: &Plan, looping: &Loop, out: &mut String) {
    match &looping.source {
        LoopSource::Each(items) => {
            let _ = write!(out, " each {}", expression(plan, *items));
        }
        LoopSource::Repeat => {}
    }
    match &looping.check {
        LoopCheck::Never => {}
        LoopCheck::Before { condition, stop_when } => {
            let _ = write!(out, " before: stop when {} is {stop_when}", expression(plan, *condition));
        }
        LoopCheck::After { condition, stop_when } => {
            let _ = write!(out, " after: stop when {} is {stop_when}", expression(plan, *condition));
        }
    }
    let limits = &looping.limits;
    if let (Some(iterations), Some(time)) = (&limits.iterations, &limits.time) {
        let cuts = if limits.cancels_iterations_on_timeout { " cutting" } else { "" };
        let _ = write!(
            out,
            " {} iterations/{}{cuts} then {:?}",
            amount(plan, iterations),
            amount(plan, time),
            looping.on_exhausted
        );
    }
    if let Some(delay) = &looping.delay {
        let _ = write!(out, " delay {}", amount(plan, delay));
    }
    if let Some(condition) = looping.break_when {
        let _ = write!(out, " break when {}", expression(plan, condition));
    }
    for budget in &limits.budget {
        let _ = write!(out, " at most {} {}", amount(plan, &budget.max), budget.what);
    }
    if let Some(stall) = &looping.stall {
        let _ = write!(out, " stalled after {} iterations of {}", stall.iterations, expression(plan, stall.watch));
    }
    if let Some(records) = &looping.records {
        let _ = write!(out, " records {:?} {}", records.keep, expression(plan, records.value));
        let _ = records.listed.map(|listed| write!(out, " listed {listed}"));
    }
    let in_flight = amount(plan, &looping.max_concurrency);
    let _ = write!(out, " x{in_flight} {:?} {:?}", looping.on_iteration_failure, looping.collect);
}

fn task(plan: &Plan, task: &Task, out: &mut String) {
    let _ = match &task.action {
        Action::Evaluate(value) => write!(out, " = {}", expression(plan, *value)),
        Action::Effect(effect) => {
            let tool = match &effect.tool {
                ToolName::Fixed(name) => name.to_string(),
                ToolName::Computed { computed, among } => {
                    format!("<{} among {}>", expression(plan, *computed), among.join(","))
                }
            };
            write!(out, " {tool}({})", expression(plan, effect.input))
        }
        Action::Post(post) => write!(out, " posts to {}", expression(plan, post.to)),
        Action::PublishEvent { kind, data } => write!(out, " publishes {kind} {}", expression(plan, *data)),
        Action::Reply { value, success } => {
            let success =
                success.map(|success| format!(" success if {}", expression(plan, success))).unwrap_or_default();
            write!(out, " replies {}{success}", expression(plan, *value))
        }
        Action::End { status, error } => {
            let error = error.map(|error| format!(" {}", expression(plan, error))).unwrap_or_default();
            write!(out, " ends {}{error}", status.as_str())
        }
        Action::Write(change) => {
            let value = change.value.map(|value| format!(" {}", expression(plan, value))).unwrap_or_default();
            write!(out, " {:?} {}{value};", change.op, change.name)
        }
        Action::Node(node) => write!(out, " enters {}", plan.node(*node).name),
    };
    for rule in &task.rules {
        if let Directive::Fail { status, error } = &rule.directive {
            let error = error.map(|error| format!(" {}", expression(plan, error))).unwrap_or_default();
            let _ = write!(out, " then {}{error}", status.as_str());
        }
    }
    if let Some(timeout) = &task.timeout {
        let _ = write!(out, " each try {}", amount(plan, timeout));
    }
    if let Some(policy) = &task.retry {
        let _ = write!(out, " retry({})", retry(plan, policy));
    }
}

fn retry(plan: &Plan, retry: &Retry) -> String {
    let Backoff { interval, growth, min, max, jitter } = &retry.backoff;
    let bound =
        |name: &str, at: &Option<windlass_value::Duration>| at.map(|at| format!(" {name} {at}")).unwrap_or_default();
    let on = if retry.on.is_empty() { String::new() } else { format!(" on {}", retry.on.join(",")) };
    let (attempts, interval) = (amount(plan, &retry.attempts), amount(plan, interval));
    format!("{attempts} tries, {interval} {growth:?}{}{} {jitter:?}{on}", bound("min", min), bound("max", max))
}

fn amount<T: std::fmt::Display>(plan: &Plan, amount: &Amount<T>) -> String {
    match amount {
        Amount::Fixed(value) => value.to_string(),
        Amount::Computed(value) => expression(plan, *value),
    }
}

fn expression(plan: &Plan, id: ExprId) -> String {
    let expression = &plan.expressions[id.0 as usize];
    match &*expression.language {
        "wdl" => to_json(&expression.source),
        language => format!("{language} {}", to_json(&expression.source)),
    }
}
