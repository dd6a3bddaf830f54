//! Emits the plan from the form of a step: a place, its body, its arcs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::Status;
use windlass_core::plan::{
    Action, ArcTrigger, ChildRunCall, CollectMode, Directive, Effect, Join, Loop, LoopLimits, LoopSource, NetArc,
    Node as PlanNode, NodeId, NodeKind, NodeTimeout, Pipeline, Place, Task as PlanTask, TaskRule as PlanRule,
    VariableUpdate, Wait, WriteOp,
};
use windlass_dialect::{DiagnosticSink, source_span};
use windlass_syntax::{Span, did_you_mean, format_names};
use windlass_value::{ExpressionMode, Level, Value};

use crate::codes;
use crate::compiler::NoetlCompiler;
use crate::form::{NoetlLoop, NoetlRule, NoetlStep, NoetlTask, RuleAction, StepArc, TaskWork};
use crate::joins::Meetings;
use crate::playbook::token_kind;
use crate::policy::always_matches;

/// Data shared by the tasks of one pipeline.
pub(crate) struct PipelineContext<'s> {
    pub step: &'s str,
    node: NodeId,
    /// The level of the pipeline's own variables.
    pub own: Level,
    /// Names that templates of the step read. The result of a labelled task is stored only if its label is among them.
    read: &'s BTreeSet<String>,
    labels: BTreeMap<Arc<str>, u32>,
    /// Templates read results of the tasks by label through the step: `fetch.results.page`.
    keeps_results: bool,
    /// The target of a break; `None` ends the pipeline.
    after: Option<u32>,
}

impl NoetlCompiler<'_> {
    pub(crate) fn place(&mut self, step: NoetlStep, root: NodeId, joins: &Meetings) -> Place {
        let NoetlStep { name, span, guard, timeout, inclusive, looping, tasks, mut after, arcs, .. } = step;
        let loops = looping.is_some();
        if !loops && self.is_read_elsewhere(&name) {
            after.push(self.task_results_task(&name, span));
        }
        let wrapped = loops && !after.is_empty();
        let label = step_label(&tasks, loops);
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
        let timeout = timeout.map(|after| NodeTimeout { after, status: Status::TimedOut });
        self.plan.nodes[body.0 as usize].timeout = timeout;
        let arcs = arcs.into_iter().flat_map(|arc| self.net_arcs(&name, arc, joins)).collect();
        let (accepts, join) = match joins.get(&*name) {
            Some(meeting) => (meeting.kinds.clone(), Join::Meeting { needs_all: meeting.needs_all }),
            None => (vec![name.clone()], Join::None),
        };
        let workers = u32::try_from(self.limits().max_loop_concurrency).unwrap_or(u32::MAX).max(1);
        let done = wrapped.then(|| windlass_core::EventKind::LOOP_DONE.into());
        Place {
            max_concurrency: workers,
            join,
            guard,
            arcs,
            inclusive,
            done_event: done,
            ..Place::new(name, accepts, body)
        }
    }

    /// Emits an arc, once for each end of the step after which it may fire.
    fn net_arcs(&mut self, from: &str, route: StepArc, joins: &Meetings) -> Vec<NetArc> {
        let emits: Arc<str> = match joins.contains_key(&*route.step) {
            true => token_kind(from, &route.step).into(),
            false => route.step.clone(),
        };
        let arc =
            |on, when| NetArc { emits: emits.clone(), on, when, payload: route.payload, writes: route.writes.clone() };
        let done = route.ends.done.then(|| arc(ArcTrigger::Succeeded, route.when));
        let failed = route.ends.failed.then(|| arc(ArcTrigger::Failed, route.when_failed));
        done.into_iter().chain(failed).collect()
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

    fn fill_loop(&mut self, id: NodeId, step: &str, looping: NoetlLoop, tasks: Vec<NoetlTask>) {
        let body = self.hidden(format!("{step}#body"), "body", id, looping.span);
        let bounded = matches!(looping.source, LoopSource::Repeat);
        let store_last = (bounded && self.reads_last_result(step)).then(|| self.store_for_next_iteration(looping.span));
        self.fill_pipeline(body, step, Level::Iteration, Vec::new(), tasks, store_last.into_iter().collect());
        let limits = self.limits();
        let plain = match looping.source {
            LoopSource::Each(items) => Loop::each(items, body, limits),
            LoopSource::Repeat => Loop::repeat(body, limits),
        };
        let iterations = if bounded { looping.max_iterations.or(plain.limits.iterations) } else { None };
        let kind = Loop {
            kind: looping.kind.into(),
            check: looping.check,
            limits: LoopLimits { iterations, cancels_iterations_on_timeout: true, ..plain.limits },
            max_concurrency: looping.in_flight,
            on_iteration_failure: looping.on_iteration_failure,
            collect: CollectMode::Stats,
            entry: looping.entry,
            item: looping.item,
            ..plain
        };
        self.plan.nodes[id.0 as usize].kind = NodeKind::Loop(Box::new(kind));
    }

    fn reads_last_result(&self, step: &str) -> bool {
        let read = self.names_read_in(step);
        read.contains("response") || read.contains("result")
    }

    /// Stores the result of an iteration, for the condition of a `while` and for the next iteration.
    fn store_for_next_iteration(&mut self, span: Span) -> NoetlTask {
        let given = self.synthetic_template("{{ outcome.result }}", ExpressionMode::Value, span);
        let write = VariableUpdate::new(Level::Step, "_last", WriteOp::Set, Some(given));
        let rule = NoetlRule {
            writes: vec![VariableUpdate { ignores_input: true, hidden: true, ..write }],
            ..NoetlRule::new(None, RuleAction::Continue)
        };
        NoetlTask { rules: vec![rule], ..self.evaluate_task("last", "{{ _prev }}", span) }
    }

    /// Fills a pipeline: `first` are complete tasks, followed by the step's own tasks and those after them.
    fn fill_pipeline(
        &mut self,
        id: NodeId,
        step: &str,
        own: Level,
        first: Vec<PlanTask>,
        tasks: Vec<NoetlTask>,
        after: Vec<NoetlTask>,
    ) {
        let read = self.names_read_in(step);
        let (begun, count) = (first.len() as u32, tasks.len() as u32);
        let label = |(index, task): (usize, &NoetlTask)| (task.label.clone(), begun + index as u32);
        let labels = tasks.iter().enumerate().map(label).collect();
        let keeps_results = self.reads_task_results(step, own);
        let mut pipeline = PipelineContext { step, node: id, own, read: &read, labels, keeps_results, after: None };
        pipeline.after = (!after.is_empty()).then_some(begun + count);
        let mut made = first;
        for task in tasks {
            let at = made.len() as u32;
            let task = self.plan_task(task, at, &pipeline);
            made.push(task);
        }
        pipeline.after = None;
        let (selecting, after): (Vec<NoetlTask>, Vec<NoetlTask>) = after.into_iter().partition(|task| task.selects);
        for task in selecting {
            made.push(self.plan_task(task, made.len() as u32, &pipeline));
        }
        for task in after {
            let at = made.len() as u32;
            let task = self.plan_task(task, at, &pipeline);
            made.push(task);
        }
        if made.is_empty() {
            let nothing = self.add(Value::Null);
            made.push(PlanTask::new(Action::Evaluate(nothing)));
        }
        self.plan.nodes[id.0 as usize].kind = NodeKind::Pipeline(Pipeline { tasks: made });
    }

    fn add(&mut self, value: Value) -> windlass_core::plan::ExprId {
        self.add_expression(value, ExpressionMode::Value, Span::at(0))
    }

    fn names_read_in(&self, step: &str) -> BTreeSet<String> {
        let here = |found: &&crate::names::TemplateNameUse| found.context.step.as_deref() == Some(step);
        self.uses.iter().filter(here).map(|found| found.name.clone()).collect()
    }

    fn plan_task(&mut self, task: NoetlTask, at: u32, pipeline: &PipelineContext) -> PlanTask {
        let rules = self.plan_rules(&task, at, pipeline);
        let mut timeout = task.timeout;
        let action = match task.work {
            TaskWork::Evaluate(value) => Action::Evaluate(value),
            TaskWork::Effect { tool, input } => Action::Effect(Effect::new(tool, input)),
            TaskWork::Call { definition, input } => {
                let name = format!("{}#{}", pipeline.step, task.label);
                let node = self.hidden(name, "playbook", pipeline.node, task.span);
                self.plan.nodes[node.0 as usize].kind = NodeKind::Call(ChildRunCall { definition, input });
                Action::Node(node)
            }
            TaskWork::Ask { name, form, deadline } => {
                // The assignee sees the deadline.
                let deadline = deadline.or(timeout.take());
                let wait = Wait::Signal { name, requirements: None, deadline, form: Some(form) };
                let node =
                    self.hidden(format!("{}#{}", pipeline.step, task.label), "approval", pipeline.node, task.span);
                self.plan.nodes[node.0 as usize].kind = NodeKind::Wait(wait);
                Action::Node(node)
            }
        };
        let timeout = match &action {
            // A child run or an approval has no attempts that a timeout could end, so the timeout is set on its node.
            Action::Node(node) => {
                let timeout = timeout.map(|after| NodeTimeout { after, status: Status::TimedOut });
                self.plan.nodes[node.0 as usize].timeout = timeout;
                None
            }
            _ => timeout,
        };
        PlanTask { label: task.label, action, rules, retry: task.retry, timeout, hidden: task.hidden }
    }

    /// Emits the author's rules, with generated writes added to each rule that continues.
    fn plan_rules(&mut self, task: &NoetlTask, at: u32, pipeline: &PipelineContext) -> Vec<PlanRule> {
        let mut extra = task.writes.clone();
        if task.labelled && pipeline.read.contains(&*task.label) {
            let whole =
                |this: &mut Self| this.synthetic_template("{{ outcome.result }}", ExpressionMode::Value, task.span);
            let result = task.select.unwrap_or_else(|| whole(self));
            extra.push(VariableUpdate {
                ignores_input: true,
                hidden: true,
                ..VariableUpdate::new(pipeline.own, task.label.clone(), WriteOp::Set, Some(result))
            });
        }
        if task.labelled && pipeline.keeps_results {
            extra.push(self.task_result_write(task, pipeline));
        }
        // A sink that reads `this` sees the call before it.
        if !task.labelled && &*task.label == "call" && pipeline.read.contains("this") {
            let meta = self.synthetic_template("{{ outcome.meta }}", ExpressionMode::Value, task.span);
            let write = VariableUpdate::new(pipeline.own, "_meta", WriteOp::Set, Some(meta));
            extra.push(VariableUpdate { ignores_input: true, hidden: true, ..write });
        }
        let keeps = match task.keeps_previous {
            true => Some(self.synthetic_template("{{ _prev }}", ExpressionMode::Value, task.span)),
            false => task.select,
        };
        let mut rules: Vec<PlanRule> = Vec::new();
        for rule in &task.rules {
            rules.extend(self.plan_rule(rule, at, pipeline, &extra, keeps));
        }
        let last = task.rules.last();
        let succeeds = last.and_then(|rule| rule.when).is_some_and(|when| self.is_on_success(when));
        let open = !succeeds && !last.is_some_and(always_matches);
        if open && (!extra.is_empty() || keeps.is_some()) {
            let when = Some(self.on_success(task.span));
            rules.push(PlanRule { when, writes: extra, previous: keeps, ..PlanRule::new(Directive::Continue) });
        }
        rules
    }

    fn plan_rule(
        &mut self,
        rule: &NoetlRule,
        at: u32,
        pipeline: &PipelineContext,
        extra: &[VariableUpdate],
        keeps: Option<windlass_core::plan::ExprId>,
    ) -> Option<PlanRule> {
        let directive = match &rule.then {
            RuleAction::Continue => Directive::Continue,
            RuleAction::Retry(retry) => Directive::Retry(retry.clone()),
            RuleAction::Fail => Directive::Fail { status: Status::Failed, error: None },
            RuleAction::Break => match pipeline.after {
                Some(after) => Directive::Jump(after),
                None => Directive::Break,
            },
            RuleAction::JumpToIndex(index) => Directive::Jump(*index as u32),
            RuleAction::JumpToPrevious(span) => {
                let Some(before) = at.checked_sub(1) else {
                    let message = "there is no task before the first";
                    self.error(codes::UNKNOWN_LABEL, *span, message, "name a task with `to`");
                    return None;
                };
                Directive::Jump(before)
            }
            RuleAction::Jump(label, span) => match pipeline.labels.get(label.as_str()) {
                Some(index) => Directive::Jump(*index),
                None => {
                    let names = || pipeline.labels.keys().map(|label| &**label);
                    let hint = did_you_mean(label, names())
                        .unwrap_or_else(|| format!("tasks of this step: {}", format_names(names())));
                    self.error(codes::UNKNOWN_LABEL, *span, format!("this step has no task `{label}`"), hint);
                    return None;
                }
            },
        };
        let continues = rule.then.continues();
        let more = if continues { extra } else { &[] };
        Some(PlanRule {
            when: rule.when,
            directive,
            writes: rule.writes.iter().chain(more).cloned().collect(),
            previous: rule.previous.or(keeps.filter(|_| continues)),
            max_matches: rule.times.clone(),
        })
    }
}

/// Returns the displayed label of a step with these tasks.
fn step_label(tasks: &[NoetlTask], loops: bool) -> &'static str {
    match (loops, tasks) {
        (true, _) => "loop",
        (false, []) => "route",
        (false, [task]) => match &task.work {
            TaskWork::Call { .. } => "playbook",
            TaskWork::Ask { .. } => "approval",
            TaskWork::Evaluate(_) => "noop",
            TaskWork::Effect { .. } => "tool",
        },
        (false, _) => "pipeline",
    }
}
