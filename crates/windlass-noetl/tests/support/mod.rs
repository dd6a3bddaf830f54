//! Renders a plan as text for comparison.

use std::fmt::Write as _;

use windlass_core::plan::{
    Action, Amount, ArcTrigger, Directive, ExprId, Join, Loop, LoopCheck, LoopSource, Net, NodeId, NodeKind, Pipeline,
    Plan, Retry, Task, TaskRule, VariableUpdate, Wait,
};
use windlass_value::{ExpressionMode, to_json};

pub(crate) fn summary(plan: &Plan) -> String {
    let mut out = format!("playbook {}\n", plan.name);
    for parameter in &plan.parameters {
        let default = parameter.default.as_ref().map_or("required".to_owned(), to_json);
        let _ = writeln!(out, "workload {} = {default}", parameter.name);
    }
    for trigger in &plan.triggers {
        let _ = writeln!(out, "trigger {} [{}] {}", trigger.name, trigger.kind, to_json(&trigger.settings));
    }
    node(plan, plan.root, 0, &mut out);
    out
}

fn node(plan: &Plan, id: NodeId, depth: usize, out: &mut String) {
    let node = plan.node(id);
    let indent = "  ".repeat(depth);
    let hidden = if node.hidden { " hidden" } else { "" };
    let _ = write!(out, "{indent}{} [{}{hidden}]", node.name, node.label);
    if let Some(timeout) = &node.timeout {
        let _ = write!(out, " within {}", amount(plan, &timeout.after));
    }
    match &node.kind {
        NodeKind::Net(net) => {
            let _ = writeln!(out, " from {}", net.start);
            places(plan, net, depth + 1, out);
        }
        NodeKind::Pipeline(pipeline) => tasks(plan, pipeline, depth + 1, out),
        NodeKind::Loop(looping) => {
            write_loop(plan, looping, out);
            self::node(plan, looping.body, depth + 1, out);
        }
        NodeKind::Call(call) => {
            let _ = writeln!(out, " calls {}({})", expression(plan, call.definition), expression(plan, call.input));
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
            out.push('\n');
        }
        other => panic!("a playbook has no {other:?}"),
    }
}

fn places(plan: &Plan, net: &Net, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    for place in &net.places {
        let _ = write!(out, "{indent}place {}", place.name);
        if let Join::Meeting { needs_all } = place.join {
            let _ = write!(out, " {} {}", if needs_all { "joins" } else { "meets" }, place.accepts.join(", "));
        }
        if let Some(guard) = place.guard {
            let _ = write!(out, " if {}", expression(plan, guard));
        }
        if let Some(done) = &place.done_event {
            let _ = write!(out, " ends with {done}");
        }
        out.push('\n');
        node(plan, place.body, depth + 1, out);
        for arc in &place.arcs {
            let on = match arc.on {
                ArcTrigger::Succeeded => "then",
                ArcTrigger::Failed => "when failed",
                ArcTrigger::Either => "either way",
            };
            let mode = if place.inclusive { " also" } else { "" };
            let _ = write!(out, "{indent}  {on}{mode} {}", arc.emits);
            if let Some(when) = arc.when {
                let _ = write!(out, " if {}", expression(plan, when));
            }
            if let Some(payload) = arc.payload {
                let _ = write!(out, " with {}", expression(plan, payload));
            }
            arc.writes.iter().for_each(|change| write(plan, change, out));
            out.push('\n');
        }
    }
}

fn write_loop(plan: &Plan, looping: &Loop, out: &mut String) {
    let _ = write!(out, " {}", looping.kind);
    if let LoopSource::Each(items) = &looping.source {
        let _ = write!(out, " {} in {}", looping.item.as_deref().unwrap_or("_"), expression(plan, *items));
    }
    if let LoopCheck::Before { condition, stop_when } = &looping.check {
        let _ = write!(out, " until {} is {stop_when}", expression(plan, *condition));
    }
    if let (Some(iterations), Some(time)) = (&looping.limits.iterations, &looping.limits.time) {
        let _ = write!(out, " at most {} iterations/{}", amount(plan, iterations), amount(plan, time));
    }
    let _ = write!(
        out,
        " x{} {:?} {:?}",
        amount(plan, &looping.max_concurrency),
        looping.on_iteration_failure,
        looping.collect
    );
    if let Some(entry) = looping.entry {
        let _ = write!(out, " keeps {}", expression(plan, entry));
    }
    out.push('\n');
}

fn tasks(plan: &Plan, pipeline: &Pipeline, depth: usize, out: &mut String) {
    out.push('\n');
    for (index, one) in pipeline.tasks.iter().enumerate() {
        task(plan, index, one, depth, out);
    }
}

fn task(plan: &Plan, index: usize, task: &Task, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    let hidden = if task.hidden { " hidden" } else { "" };
    let _ = write!(out, "{indent}{index} {}{hidden}", if task.label.is_empty() { "-" } else { &task.label });
    let _ = match &task.action {
        Action::Evaluate(value) => write!(out, " = {}", expression(plan, *value)),
        Action::Effect(effect) => write!(out, " {}({})", effect.tool, expression(plan, effect.input)),
        Action::Node(node) => write!(out, " enters {}", plan.node(*node).name),
        other => panic!("a playbook has no {other:?}"),
    };
    if let Some(timeout) = &task.timeout {
        let _ = write!(out, " within {}", amount(plan, timeout));
    }
    if let Some(again) = &task.retry {
        let _ = write!(out, " retry({})", retry(plan, again));
    }
    out.push('\n');
    for one in &task.rules {
        rule(plan, one, depth + 1, out);
    }
    if let Action::Node(inner) = &task.action {
        node(plan, *inner, depth + 1, out);
    }
}

fn rule(plan: &Plan, rule: &TaskRule, depth: usize, out: &mut String) {
    let _ = write!(out, "{}", "  ".repeat(depth));
    match rule.when {
        Some(when) => {
            let _ = write!(out, "if {}:", expression(plan, when));
        }
        None => out.push_str("else:"),
    }
    let _ = match &rule.directive {
        Directive::Continue => write!(out, " continue"),
        Directive::Break => write!(out, " break"),
        Directive::Jump(to) => write!(out, " jump {to}"),
        Directive::Retry(again) => write!(out, " retry({})", retry(plan, again)),
        Directive::Fail { status, .. } => write!(out, " {}", status.as_str()),
    };
    if let Some(times) = &rule.max_matches {
        let _ = write!(out, " {} times", amount(plan, times));
    }
    rule.writes.iter().for_each(|change| write(plan, change, out));
    if let Some(previous) = rule.previous {
        let _ = write!(out, " _prev = {}", expression(plan, previous));
    }
    out.push('\n');
}

fn write(plan: &Plan, change: &VariableUpdate, out: &mut String) {
    let value = change.value.map(|value| expression(plan, value)).unwrap_or_default();
    let hidden = if change.hidden { "~" } else { "" };
    let _ = write!(out, " {hidden}{:?}.{} {:?} {value};", change.level, change.name, change.op);
}

fn retry(plan: &Plan, retry: &Retry) -> String {
    let (attempts, interval) = (amount(plan, &retry.attempts), amount(plan, &retry.backoff.interval));
    format!("{attempts} tries, {interval} {:?}", retry.backoff.growth)
}

fn amount<T: std::fmt::Display>(plan: &Plan, amount: &Amount<T>) -> String {
    match amount {
        Amount::Fixed(value) => value.to_string(),
        Amount::Computed(value) => expression(plan, *value),
    }
}

fn expression(plan: &Plan, id: ExprId) -> String {
    let expression = &plan.expressions[id.0 as usize];
    let guard = if expression.mode == ExpressionMode::Guard { "?" } else { "" };
    format!("{guard}{}", to_json(&expression.source))
}
