//! From the form of a step to the plan: a place, its body, its arcs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::Status;
use windlass_core::plan::{
    Action, ArcOn, Call, Collect, Directive, Effect, Join, Loop, LoopLimits, NetArc, Node as PlanNode, NodeId,
    NodeKind, Pipeline, Place, Rule as PlanRule, Source, Task as PlanTask, Timeout, Wait, Write, WriteOp,
};
use windlass_dialect::{Findings, source_span};
use windlass_syntax::{Span, did_you_mean, list_of};
use windlass_value::{Level, Mode, Value};

use crate::codes;
use crate::compiler::Compiler;
use crate::form::{Looping, Route, Rule, Step, Task, Then, Work};
use crate::playbook::token_kind;
use crate::policy::goes_on;

/// What the tasks of one pipeline share.
struct Around<'s> {
    step: &'s str,
    node: NodeId,
    /// Where variables of the pipeline's own live.
    own: Level,
    /// Labels that templates of the step read.
    read: &'s BTreeSet<String>,
    labels: BTreeMap<Arc<str>, u32>,
    /// Where a break leads to; None ends the pipeline.
    after: Option<u32>,
}

impl Compiler<'_> {
    pub(crate) fn place(&mut self, step: Step, root: NodeId, joins: &BTreeMap<String, Vec<String>>) -> Place {
        let Step { name, span, guard, timeout, inclusive, looping, tasks, after, arcs, .. } = step;
        let loops = looping.is_some();
        let wrapped = loops && !after.is_empty();
        let label = label_of(&tasks, loops);
        let body = self.node(&name, label, root, span);
        match (looping, wrapped) {
            (Some(looping), false) => self.fill_loop(body, &name, looping, tasks),
            (Some(looping), true) => {
                let inner = self.hidden(format!("{name}#loop"), "loop", body, span);
                self.fill_loop(inner, &name, looping, tasks);
                let first = PlanTask { hidden: true, ..PlanTask::new(Action::Node(inner)) };
                self.fill_pipeline(body, &name, Level::Step, vec![first], Vec::new(), after);
            }
            (None, _) => self.fill_pipeline(body, &name, Level::Step, Vec::new(), tasks, after),
        }
        let timeout = timeout.map(|after| Timeout { after, status: Status::TimedOut });
        self.plan.nodes[body.0 as usize].timeout = timeout;
        let arcs = arcs.into_iter().flat_map(|arc| self.net_arcs(&name, arc, joins)).collect();
        let (accepts, join) = match joins.get(&*name) {
            Some(kinds) => (kinds.iter().map(|kind| kind.as_str().into()).collect(), Join::Merged),
            None => (vec![name.clone()], Join::None),
        };
        let workers = u32::try_from(self.limits().max_loop_concurrency).unwrap_or(u32::MAX).max(1);
        let done = wrapped.then(|| windlass_core::EventKind::LOOP_DONE.into());
        Place { max_concurrency: workers, join, guard, arcs, inclusive, done, ..Place::new(name, accepts, body) }
    }

    /// An arc with a condition is looked at after any end; after a bad one, what is missing means no.
    fn net_arcs(&mut self, from: &str, route: Route, joins: &BTreeMap<String, Vec<String>>) -> Vec<NetArc> {
        let emits: Arc<str> = match joins.contains_key(&*route.step) {
            true => token_kind(from, &route.step).into(),
            false => route.step.clone(),
        };
        let arc =
            |on, when| NetArc { emits: emits.clone(), on, when, payload: route.payload, writes: route.writes.clone() };
        match route.when {
            None => vec![arc(ArcOn::Succeeded, None)],
            Some((good, bad)) => vec![arc(ArcOn::Succeeded, Some(good)), arc(ArcOn::Failed, Some(bad))],
        }
    }

    fn node(&mut self, name: &str, label: &str, parent: NodeId, span: Span) -> NodeId {
        let empty = NodeKind::Pipeline(Pipeline { tasks: Vec::new() });
        let node = PlanNode { span: source_span(span), ..PlanNode::new(name, label, Some(parent), empty) };
        self.plan.add_node(node)
    }

    fn hidden(&mut self, name: String, label: &str, parent: NodeId, span: Span) -> NodeId {
        let id = self.node(&name, label, parent, span);
        self.plan.nodes[id.0 as usize].hidden = true;
        id
    }

    fn fill_loop(&mut self, id: NodeId, step: &str, looping: Looping, tasks: Vec<Task>) {
        let body = self.hidden(format!("{step}#body"), "body", id, looping.span);
        let bounded = matches!(looping.source, Source::Repeat);
        let last = (bounded && self.reads_last(step)).then(|| self.store_for_next_iteration(looping.span));
        self.fill_pipeline(body, step, Level::Iteration, Vec::new(), tasks, last.into_iter().collect());
        let limits = self.limits();
        let plain = match looping.source {
            Source::Each(items) => Loop::each(items, body, limits),
            Source::Repeat => Loop::repeat(body, limits),
        };
        let iterations = if bounded { looping.max_iterations.or(plain.limits.iterations) } else { None };
        let kind = Loop {
            kind: looping.kind.into(),
            check: looping.check,
            limits: LoopLimits { iterations: turns: iterations, cancels_iterations_on_timeout: true, ..plain.limits },
            max_concurrency: looping.in_flight,
            on_iteration_failure: looping.on_iteration_failure,
            collect: Collect::Stats,
            entry: looping.entry,
            item: looping.item,
            ..plain
        };
        self.plan.nodes[id.0 as usize].kind = NodeKind::Loop(Box::new(kind));
    }

    fn reads_last(&self, step: &str) -> bool {
        let read = self.read_in(step);
        read.contains("response") || read.contains("result")
    }

    /// What a turn gave, for the condition of a `while` and for the next turn.
    fn store_for_next_iteration(&mut self, span: Span) -> Task {
        let given = self.made_up("{{ outcome.result }}", Mode::Value, span);
        let write = Write::new(Level::Step, "_last", WriteOp::Set, Some(given));
        let rule =
            Rule { writes: vec![Write { fresh: true, hidden: true, ..write }], ..Rule::new(None, Then::Continue) };
        Task { rules: vec![rule], ..self.evaluates("last", "{{ _prev }}", span) }
    }

    /// `first` are tasks that are made already; then the step's own, then what comes after them.
    fn fill_pipeline(
        &mut self,
        id: NodeId,
        step: &str,
        own: Level,
        first: Vec<PlanTask>,
        tasks: Vec<Task>,
        after: Vec<Task>,
    ) {
        let read = self.read_in(step);
        let (begun, count) = (first.len() as u32, tasks.len() as u32);
        let label = |(index, task): (usize, &Task)| (task.label.clone(), begun + index as u32);
        let labels = tasks.iter().enumerate().map(label).collect();
        let mut around = Around { step, node: id, own, read: &read, labels, after: None };
        around.after = (!after.is_empty()).then_some(begun + count);
        let mut made = first;
        for task in tasks {
            let at = made.len() as u32;
            let task = self.plan_task(task, at, &around);
            made.push(task);
        }
        around.after = None;
        let keeps = read.contains(step) && after.iter().any(|task| !task.selects);
        let (selecting, after): (Vec<Task>, Vec<Task>) = after.into_iter().partition(|task| task.selects);
        for task in selecting {
            made.push(self.plan_task(task, made.len() as u32, &around));
        }
        if keeps {
            let kept = self.kept_under_own_name(&after, step);
            made.push(kept);
        }
        for task in after {
            let at = made.len() as u32;
            let task = self.plan_task(task, at, &around);
            made.push(task);
        }
        if made.is_empty() {
            let nothing = self.add(Value::Null);
            made.push(PlanTask::new(Action::Evaluate(nothing)));
        }
        self.plan.nodes[id.0 as usize].kind = NodeKind::Pipeline(Pipeline { tasks: made });
    }

    /// What a step's own `set` reads under the step's name: the step has not ended yet.
    fn kept_under_own_name(&mut self, after: &[Task], step: &str) -> PlanTask {
        let span = after.first().map_or(Span::at(0), |task| task.span);
        let value = self.made_up("{{ _prev }}", Mode::Value, span);
        let result = self.made_up("{{ outcome.result }}", Mode::Value, span);
        let write = Write { fresh: true, hidden: true, ..Write::new(Level::Step, step, WriteOp::Set, Some(result)) };
        let mut rule = PlanRule::new(Directive::Continue);
        rule.writes.push(write);
        let task = PlanTask::new(Action::Evaluate(value));
        PlanTask { label: "result".into(), hidden: true, rules: vec![rule], ..task }
    }

    fn add(&mut self, value: Value) -> windlass_core::plan::ExprId {
        self.add_expression(value, Mode::Value, Span::at(0))
    }

    fn read_in(&self, step: &str) -> BTreeSet<String> {
        let here = |found: &&crate::names::Use| found.here.step.as_deref() == Some(step);
        self.uses.iter().filter(here).map(|found| found.name.clone()).collect()
    }

    fn plan_task(&mut self, task: Task, at: u32, around: &Around) -> PlanTask {
        let rules = self.plan_rules(&task, at, around);
        let mut timeout = task.timeout;
        let action = match task.work {
            Work::Evaluate(value) => Action::Evaluate(value),
            Work::Effect { tool, input } => Action::Effect(Effect::new(tool, input)),
            Work::Call { definition, input } => {
                let name = format!("{}#{}", around.step, task.label);
                let node = self.hidden(name, "playbook", around.node, task.span);
                self.plan.nodes[node.0 as usize].kind = NodeKind::Call(Call { definition, input });
                Action::Node(node)
            }
            Work::Ask { name, form, deadline } => {
                // Whoever is asked sees it.
                let deadline = deadline.or(timeout.take());
                let wait = Wait::Signal { name, requirements: None, deadline, form: Some(form) };
                let node = self.hidden(format!("{}#{}", around.step, task.label), "approval", around.node, task.span);
                self.plan.nodes[node.0 as usize].kind = NodeKind::Wait(wait);
                Action::Node(node)
            }
        };
        let timeout = match &action {
            // A child run has no try of its own to cut: its node has the time.
            Action::Node(node) => {
                let timeout = timeout.map(|after| Timeout { after, status: Status::TimedOut });
                self.plan.nodes[node.0 as usize].timeout = timeout;
                None
            }
            _ => timeout,
        };
        PlanTask { label: task.label, action, rules, retry: task.retry, timeout, hidden: task.hidden }
    }

    /// The author's rules, with what the front adds to each that goes on.
    fn plan_rules(&mut self, task: &Task, at: u32, around: &Around) -> Vec<PlanRule> {
        let mut extra = task.writes.clone();
        if task.labelled && around.read.contains(&*task.label) {
            let whole = |this: &mut Self| this.made_up("{{ outcome.result }}", Mode::Value, task.span);
            let result = task.select.unwrap_or_else(|| whole(self));
            extra.push(Write {
                fresh: true,
                hidden: true,
                ..Write::new(around.own, task.label.clone(), WriteOp::Set, Some(result))
            });
        }
        // A sink that looks at `this` is told of the call before it.
        if !task.labelled && &*task.label == "call" && around.read.contains("this") {
            let meta = self.made_up("{{ outcome.meta }}", Mode::Value, task.span);
            let write = Write::new(around.own, "_meta", WriteOp::Set, Some(meta));
            extra.push(Write { fresh: true, hidden: true, ..write });
        }
        let keeps = match task.keeps_previous {
            true => Some(self.made_up("{{ _prev }}", Mode::Value, task.span)),
            false => task.select,
        };
        let mut rules: Vec<PlanRule> = Vec::new();
        for rule in &task.rules {
            rules.extend(self.plan_rule(rule, at, around, &extra, keeps));
        }
        let last = task.rules.last();
        let succeeds = last.and_then(|rule| rule.when).is_some_and(|when| self.is_on_success(when));
        let open = !succeeds && !last.is_some_and(goes_on);
        if open && (!extra.is_empty() || keeps.is_some()) {
            let when = Some(self.on_success(task.span));
            rules.push(PlanRule { when, writes: extra, previous: keeps, ..PlanRule::new(Directive::Continue) });
        }
        rules
    }

    fn plan_rule(
        &mut self,
        rule: &Rule,
        at: u32,
        around: &Around,
        extra: &[Write],
        keeps: Option<windlass_core::plan::ExprId>,
    ) -> Option<PlanRule> {
        let directive = match &rule.then {
            Then::Continue => Directive::Continue,
            Then::Retry(retry) => Directive::Retry(retry.clone()),
            Then::Fail => Directive::Fail { status: Status::Failed, error: None },
            Then::Break => match around.after {
                Some(after) => Directive::Jump(after),
                None => Directive::Break,
            },
            Then::To(index) => Directive::Jump(*index as u32),
            Then::Back(span) => {
                let Some(before) = at.checked_sub(1) else {
                    let message = "there is no task before the first";
                    self.error(codes::UNKNOWN_LABEL, *span, message, "name a task with `to`");
                    return None;
                };
                Directive::Jump(before)
            }
            Then::Jump(label, span) => match around.labels.get(label.as_str()) {
                Some(index) => Directive::Jump(*index),
                None => {
                    let names = || around.labels.keys().map(|label| &**label);
                    let hint = did_you_mean(label, names())
                        .unwrap_or_else(|| format!("tasks of this step: {}", list_of(names())));
                    self.error(codes::UNKNOWN_LABEL, *span, format!("this step has no task `{label}`"), hint);
                    return None;
                }
            },
        };
        let goes_on = rule.then.goes_on();
        let more = if goes_on { extra } else { &[] };
        Some(PlanRule {
            when: rule.when,
            directive,
            writes: rule.writes.iter().chain(more).cloned().collect(),
            previous: rule.previous.or(keeps.filter(|_| goes_on)),
            max_matches: rule.times.clone(),
        })
    }
}

/// What people call a step of these tasks.
fn label_of(tasks: &[Task], loops: bool) -> &'static str {
    match (loops, tasks) {
        (true, _) => "loop",
        (false, []) => "route",
        (false, [task]) => match &task.work {
            Work::Call { .. } => "playbook",
            Work::Ask { .. } => "approval",
            Work::Evaluate(_) => "noop",
            Work::Effect { .. } => "tool",
        },
        (false, _) => "pipeline",
    }
}
