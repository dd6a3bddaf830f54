//! Loops: over items, or repeated until a condition or a judge ends them.

use windlass_core::Status;
use windlass_core::plan::{
    Action, Amount, CollectMode, Directive, ExhaustedPolicy, IterationFailure, Loop as PlanLoop, LoopCheck, LoopLimits,
    LoopSource, Mailbox, NodeId, NodeKind, Task, TaskRule, WriteOp,
};
use windlass_value::{ExpressionMode, Map, Value};

use super::agent::{AgentStep, call_retries, required_result};
use super::planner::{
    EnclosingStepLoop, Planner, StepContext, hidden_task, rule, set_variable, step_timeout, text_list,
};
use crate::document::{CelSource, FlowOptions, ForEachItems, LoopMode, OutputMode, Spanned, ZenflowLoop, ZenflowStep};
use windlass_value::Duration;

/// The settings of a repeat loop.
struct RepeatSettings<'d> {
    max_iterations: Spanned<u64>,
    until: Option<&'d CelSource>,
    judge: Option<&'d Spanned<String>>,
    delay: Option<Duration>,
}

impl Planner<'_> {
    pub(crate) fn loop_step(
        &mut self,
        step: &ZenflowStep,
        repeat: &ZenflowLoop,
        parent: NodeId,
        here: &StepContext<'_>,
    ) -> NodeId {
        let id = self.add_node(&step.id, "loop", Some(parent), step.span);
        self.get(id).scope = true;
        let here = &self.with_budget(here, repeat.budget.as_ref());
        let cumulative = repeat.output_mode.is_some_and(|mode| mode.value == OutputMode::Cumulative);
        let mut looping = match &repeat.mode {
            LoopMode::ForEach { items, max_concurrency } => {
                self.for_each(id, step, repeat, (items, *max_concurrency), here)
            }
            LoopMode::Repeat { max_iterations, until, until_agent, delay } => {
                let signals = RepeatSettings {
                    max_iterations: *max_iterations,
                    until: until.as_ref(),
                    judge: until_agent.as_ref(),
                    delay: delay.map(|delay| delay.value),
                };
                self.repeat_loop(id, step, repeat, &signals, here)
            }
        };
        looping.limits.budget = self.budget(repeat.budget.as_ref());
        let function = if matches!(looping.source, LoopSource::Each(_)) { "for_each_output" } else { "repeat_output" };
        let settings = [("name", Value::from(step.id.as_str())), ("cumulative", Value::Bool(cumulative))];
        let output = self.agent_expression(function, settings, ExpressionMode::Value, step.span);
        let node = self.get(id);
        node.kind = NodeKind::Loop(Box::new(looping));
        node.timeout = step.timeout.and_then(|timeout| step_timeout(timeout.value));
        node.output = Some(output);
        id
    }

    fn for_each(
        &mut self,
        id: NodeId,
        step: &ZenflowStep,
        repeat: &ZenflowLoop,
        (items, max_concurrency): (&ForEachItems, Option<Spanned<u64>>),
        here: &StepContext<'_>,
    ) -> PlanLoop {
        let source = match items {
            ForEachItems::Literal(list) => self.value(list.value.clone(), list.span),
            ForEachItems::Cel(cel) => self.cel(cel, ExpressionMode::Value),
        };
        let limit = self.options.limits.max_loop_concurrency_zenflow.max(1);
        if let Some(written) = max_concurrency.filter(|written| written.value > limit) {
            let message = format!("at most {limit} iterations run concurrently, not {}", written.value);
            self.warning("concurrency_capped", written.span, message);
        }
        let in_flight =
            max_concurrency.map(|written| written.value).filter(|limit_value| *limit_value > 0).unwrap_or(limit);
        let body = self.body(id, step, repeat, here, false);
        let entry = self.agent_expression(
            "iteration_entry",
            [("name", Value::from(step.id.as_str()))],
            ExpressionMode::Value,
            step.span,
        );
        PlanLoop {
            max_concurrency: Amount::Fixed(in_flight.min(limit)),
            on_iteration_failure: IterationFailure::Stop { running_finish: true },
            collect: CollectMode::List,
            entry: Some(entry),
            ..self.bare_loop("forEach", LoopSource::Each(source), body)
        }
    }

    fn repeat_loop(
        &mut self,
        id: NodeId,
        step: &ZenflowStep,
        repeat: &ZenflowLoop,
        signals: &RepeatSettings<'_>,
        here: &StepContext<'_>,
    ) -> PlanLoop {
        let cumulative = repeat.output_mode.is_some_and(|mode| mode.value == OutputMode::Cumulative);
        let body = self.body(id, step, repeat, here, cumulative || signals.judge.is_some());
        let judge = signals.judge.map(|judge| self.judge(id, step, judge, signals.max_iterations.value, here));
        let check = match signals.until {
            Some(until) => {
                LoopCheck::After { condition: self.cel(until, ExpressionMode::LoopCondition), stop_when: true }
            }
            None => LoopCheck::Never,
        };
        let stops = signals.until.is_some() || judge.is_some();
        let looping = self.bare_loop("repeat", LoopSource::Repeat, body);
        let max_iterations = looping.limits.max_iterations;
        if signals.max_iterations.value > max_iterations {
            let message =
                format!("{} iterations are more than the limit of {max_iterations}", signals.max_iterations.value);
            self.problem(
                "too_many_iterations",
                signals.max_iterations.span,
                message,
                "raise `max_loop_iterations`, or use fewer iterations",
            );
        }
        PlanLoop {
            check,
            judge,
            judge_fails: true,
            max_unjudged: repeat.max_unjudged.map(|max| max.value),
            limits: LoopLimits { iterations: Some(Amount::Fixed(signals.max_iterations.value)), ..looping.limits },
            on_exhausted: if stops { ExhaustedPolicy::Fail } else { ExhaustedPolicy::Succeed },
            delay: signals.delay.filter(|delay| *delay > Duration::ZERO).map(Amount::Fixed),
            ..looping
        }
    }

    /// Builds one iteration: the step itself, or the inner steps; then the values it leaves for the next iteration.
    fn body(
        &mut self,
        id: NodeId,
        step: &ZenflowStep,
        repeat: &ZenflowLoop,
        here: &StepContext<'_>,
        remembers: bool,
    ) -> NodeId {
        let span = repeat.span;
        let body = self.add_hidden_node(&format!("{}#iteration", step.id.value), "iteration", Some(id), span);
        self.get(body).meters_usage = true;
        let items = matches!(repeat.mode, LoopMode::ForEach { .. });
        let inner: Vec<String> = repeat.steps.iter().map(|step| step.id.value.clone()).collect();
        let around = EnclosingStepLoop { name: step.id.value.clone(), items, steps: inner.clone() };
        let mut inside = StepContext { depth: here.depth + 1, enclosing_loop: Some(around), ..here.clone() };
        inside.context.previous = true;
        let work = match repeat.steps.is_empty() {
            true => {
                let time = here.document.options.step_timeout.map(|timeout| timeout.value);
                let lone = AgentStep { hidden: true, time, ..AgentStep::from_step(step, &inside) };
                let work = self.agent_step(&lone, body, &inside);
                if let LoopMode::Repeat { max_iterations, .. } = &repeat.mode {
                    // Iterations run one after the other: a message to the step goes to the current iteration, or the next.
                    let mailbox = self.get(work).mailbox.take();
                    let often = |mailbox: Mailbox| mailbox.wakes.saturating_mul(max_iterations.value.max(1));
                    self.get(id).mailbox = mailbox.map(|mailbox| Mailbox { wakes: often(mailbox.clone()), ..mailbox });
                }
                work
            }
            false => {
                let graph = self.add_hidden_node(&format!("{}#steps", step.id.value), "steps", Some(body), span);
                // Inside a loop failures always cascade.
                let max_concurrency = here.document.options.max_concurrency;
                let options = FlowOptions { max_concurrency, ..FlowOptions::default() };
                self.graph(graph, &repeat.steps, &inside, &options);
                graph
            }
        };
        let ok = self.ok(span);
        let iteration =
            self.agent_expression("iteration_output", [("steps", text_list(&inner))], ExpressionMode::Value, span);
        let mut writes = Vec::new();
        if !items {
            writes.push(set_variable("previous", WriteOp::Set, iteration));
        }
        if remembers {
            let entry =
                self.agent_expression("history_entry", [("steps", text_list(&inner))], ExpressionMode::Value, span);
            writes.push(set_variable("history", WriteOp::AppendItem, entry));
        }
        let fails = Directive::Fail { status: Status::Failed, error: None };
        let rules = vec![
            TaskRule { previous: Some(iteration), ..rule(Some(ok), Directive::Break, writes.clone()) },
            TaskRule { previous: Some(iteration), ..rule(None, fails, writes) },
        ];
        self.pipeline(body, vec![Task { rules, ..hidden_task("", Action::Node(work)) }]);
        body
    }

    /// Builds the judge of a loop. A failed judge has not decided, and the loop continues. Only a judge whose model
    /// cannot be called at all, a mistake in the setup, fails the loop.
    fn judge(
        &mut self,
        id: NodeId,
        step: &ZenflowStep,
        judge: &Spanned<String>,
        max_iterations: u64,
        here: &StepContext<'_>,
    ) -> NodeId {
        let span = judge.span;
        let outer = self.add_hidden_node(&format!("{}#judge", step.id.value), "judge", Some(id), span);
        // The judge has a separate scope, because a step of the body may have its name.
        let home = self.add_hidden_node(&format!("{}#judging", step.id.value), "judge", Some(outer), span);
        self.get(home).scope = true;
        let agent = here.document.agent(judge);
        let inside = StepContext { depth: here.depth + 2, enclosing_loop: None, ..here.clone() };
        let spec = AgentStep {
            name: "judge",
            label: "judge",
            hidden: false,
            span,
            agent,
            role: "judge",
            model: None,
            instructions: "",
            files: &[],
            time: here.document.options.step_timeout.map(|timeout| timeout.value),
            call_retries: call_retries(Some(step), here),
            mail: false,
            // A judge without an answer has not decided.
            accept: &[],
        };
        let first = self.judge_settings(step, &spec, max_iterations);
        let judged = self.agent_pipeline(&spec, first, home, &inside);
        self.pipeline(home, vec![hidden_task("", Action::Node(judged))]);
        let feedback = set_variable("feedback", WriteOp::Set, self.agent_function("feedback", span));
        let remark = set_variable("history", WriteOp::AppendItem, self.agent_function("feedback_entry", span));
        let verdict = self.agent_function("judge_verdict", span);
        let unaskable = self.condition::<&str>("model_unavailable", [], span);
        let fails = Directive::Fail { status: Status::Failed, error: None };
        let rules = vec![
            TaskRule { previous: Some(verdict), ..rule(Some(unaskable), fails, Vec::new()) },
            TaskRule { previous: Some(verdict), ..rule(None, Directive::Break, vec![feedback, remark]) },
        ];
        self.pipeline(outer, vec![Task { rules, ..hidden_task("", Action::Node(home)) }]);
        outer
    }

    /// Returns the settings of a judge's prompt.
    fn judge_settings(&self, step: &ZenflowStep, judge: &AgentStep<'_>, max_iterations: u64) -> (&'static str, Map) {
        let mut settings = Map::new();
        settings.insert("name", step.id.as_str());
        if let Some(instructions) = &step.instructions {
            settings.insert("instructions", instructions.as_str());
        }
        settings.insert("max_iterations", max_iterations);
        if let Some(schema) = judge.schema() {
            settings.insert("result", required_result(schema));
        }
        settings.insert("caps", self.caps());
        ("judge_prompt", settings)
    }
}
