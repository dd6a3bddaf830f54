//! Loops: over items, or again and again until a condition or a judge says stop.

use windlass_core::Status;
use windlass_core::plan::{
    Action, Amount, Check, Collect, Directive, Exhausted, IterationFailure, IterationPath, Loop as PlanLoop,
    LoopLimits, Mailbox, NodeId, NodeKind, Rule, Source, Task, WriteOp,
};
use windlass_value::{Map, Mode, Value};

use super::agent::{AgentStep, call_retries, owed};
use super::planner::{Around, Here, Planner, limited, own, rule, silent, texts};
use crate::document::{Cel, FlowOptions, Items, Loop, LoopMode, OutputMode, Spanned, Step};
use windlass_value::Duration;

/// What repeats, and until when.
struct Repeat<'d> {
    max_iterations: Spanned<u64>,
    until: Option<&'d Cel>,
    judge: Option<&'d Spanned<String>>,
    delay: Option<Duration>,
}

impl Planner<'_> {
    pub(crate) fn looped(&mut self, step: &Step, repeat: &Loop, parent: NodeId, here: &Here<'_>) -> NodeId {
        let id = self.node(&step.id, "loop", Some(parent), step.span);
        self.get(id).scope = true;
        let here = &self.counting(here, repeat.budget.as_ref());
        let cumulative = repeat.output_mode.is_some_and(|mode| mode.value == OutputMode::Cumulative);
        let mut looping = match &repeat.mode {
            LoopMode::ForEach { items, max_concurrency } => {
                self.for_each(id, step, repeat, (items, *max_concurrency), here)
            }
            LoopMode::Repeat { max_iterations, until, until_agent, delay } => {
                let signals = Repeat {
                    max_iterations: *max_iterations,
                    until: until.as_ref(),
                    judge: until_agent.as_ref(),
                    delay: delay.map(|delay| delay.value),
                };
                self.repeated(id, step, repeat, &signals, here)
            }
        };
        looping.limits.budget = self.budget(repeat.budget.as_ref());
        let function = if matches!(looping.source, Source::Each(_)) { "each" } else { "repeat" };
        let settings = [("name", Value::from(step.id.as_str())), ("cumulative", Value::Bool(cumulative))];
        let output = self.agent(function, settings, Mode::Value, step.span);
        let node = self.get(id);
        node.kind = NodeKind::Loop(Box::new(looping));
        node.timeout = step.timeout.and_then(|timeout| limited(timeout.value));
        node.output = Some(output);
        id
    }

    fn for_each(
        &mut self,
        id: NodeId,
        step: &Step,
        repeat: &Loop,
        (items, max_concurrency): (&Items, Option<Spanned<u64>>),
        here: &Here<'_>,
    ) -> PlanLoop {
        let source = match items {
            Items::Literal(list) => self.value(list.value.clone(), list.span),
            Items::Cel(cel) => self.cel(cel, Mode::Value),
        };
        let limit = self.options.limits.max_loop_concurrency_zenflow.max(1);
        if let Some(written) = max_concurrency.filter(|written| written.value > limit) {
            let message = format!("at most {limit} iterations run at once, not {}", written.value);
            self.warning("concurrency_capped", written.span, message);
        }
        let in_flight =
            max_concurrency.map(|written| written.value).filter(|limit_value| *limit_value > 0).unwrap_or(limit);
        let body = self.body(id, step, repeat, here, false);
        let entry = self.agent("iteration", [("name", Value::from(step.id.as_str()))], Mode::Value, step.span);
        PlanLoop {
            max_concurrency: Amount::Fixed(in_flight.min(limit)),
            on_iteration_failure: IterationFailure::Stop { running_finish: true },
            collect: Collect::List,
            entry: Some(entry),
            iteration_path: IterationPath::Brackets,
            ..self.bare_loop("forEach", Source::Each(source), body)
        }
    }

    fn repeated(&mut self, id: NodeId, step: &Step, repeat: &Loop, signals: &Repeat<'_>, here: &Here<'_>) -> PlanLoop {
        let cumulative = repeat.output_mode.is_some_and(|mode| mode.value == OutputMode::Cumulative);
        let body = self.body(id, step, repeat, here, cumulative || signals.judge.is_some());
        let judge = signals.judge.map(|judge| self.judge(id, step, judge, signals.max_iterations.value, here));
        let check = match signals.until {
            Some(until) => Check::After { condition: self.cel(until, Mode::LoopCondition), stop_when: true },
            None => Check::Never,
        };
        let stops = signals.until.is_some() || judge.is_some();
        let looping = self.bare_loop("repeat", Source::Repeat, body);
        let max_iterations = looping.limits.max_iterations;
        if signals.max_iterations.value > max_iterations {
            let message =
                format!("{} iterations are more than the limit of {max_iterations}", signals.max_iterations.value);
            self.problem(
                "too_many_iterations",
                signals.max_iterations.span,
                message,
                "raise `loop_turns_max`, or loop less often",
            );
        }
        PlanLoop {
            check,
            judge,
            judge_fails: true,
            limits: LoopLimits { iterations: Some(Amount::Fixed(signals.max_iterations.value)), ..looping.limits },
            on_exhausted: if stops { Exhausted::Fail } else { Exhausted::Succeed },
            delay: signals.delay.filter(|delay| *delay > Duration::ZERO).map(Amount::Fixed),
            iteration_path: IterationPath::Dots,
            ..looping
        }
    }

    /// One turn: the step itself, or the steps inside; then what it leaves behind for the next.
    fn body(&mut self, id: NodeId, step: &Step, repeat: &Loop, here: &Here<'_>, remembers: bool) -> NodeId {
        let span = repeat.span;
        let body = self.hidden(&format!("{}#turn", step.id.value), "turn", Some(id), span);
        self.get(body).meters_usage = true;
        let items = matches!(repeat.mode, LoopMode::ForEach { .. });
        let inner: Vec<String> = repeat.steps.iter().map(|step| step.id.value.clone()).collect();
        let around = Around { name: step.id.value.clone(), items, steps: inner.clone() };
        let mut inside = Here { depth: here.depth + 1, around: Some(around), ..here.clone() };
        inside.context.previous = true;
        let work = match repeat.steps.is_empty() {
            true => {
                let time = here.document.options.step_timeout.map(|timeout| timeout.value);
                let lone = AgentStep { hidden: true, time, ..AgentStep::of(step, &inside) };
                let work = self.agent_step(&lone, body, &inside);
                if let LoopMode::Repeat { max_iterations, .. } = &repeat.mode {
                    // One turn after the other: whoever writes to the step means the turn that runs, or the next.
                    let mailbox = self.get(work).mailbox.take();
                    let often = |mailbox: Mailbox| mailbox.wakes.saturating_mul(max_iterations.value.max(1));
                    self.get(id).mailbox = mailbox.map(|mailbox| Mailbox { wakes: often(mailbox.clone()), ..mailbox });
                }
                work
            }
            false => {
                let graph = self.hidden(&format!("{}#steps", step.id.value), "steps", Some(body), span);
                // Inside of a loop failures always cascade.
                let max_concurrency = here.document.options.max_concurrency;
                let options = FlowOptions { max_concurrency, ..FlowOptions::default() };
                self.graph(graph, &repeat.steps, &inside, &options);
                graph
            }
        };
        let ok = self.ok(span);
        let iteration = self.agent("turn", [("steps", texts(&inner))], Mode::Value, span);
        let mut writes = Vec::new();
        if !items {
            writes.push(own("previous", WriteOp::Set, iteration));
        }
        if remembers {
            let entry = self.agent("remember", [("steps", texts(&inner))], Mode::Value, span);
            writes.push(own("history", WriteOp::AppendItem, entry));
        }
        let fails = Directive::Fail { status: Status::Failed, error: None };
        let rules = vec![
            Rule { previous: Some(iteration), ..rule(Some(ok), Directive::Break, writes.clone()) },
            Rule { previous: Some(iteration), ..rule(None, fails, writes) },
        ];
        self.pipeline(body, vec![Task { rules, ..silent("", Action::Node(work)) }]);
        body
    }

    /// A judge that fails has not decided, and the loop goes on. Only one whose model cannot be asked at all, which is a
    /// mistake of the setup, fails it.
    fn judge(
        &mut self,
        id: NodeId,
        step: &Step,
        judge: &Spanned<String>,
        max_iterations: u64,
        here: &Here<'_>,
    ) -> NodeId {
        let span = judge.span;
        let outer = self.hidden(&format!("{}#judge", step.id.value), "judge", Some(id), span);
        // The judge has a home of its own: a step of the body may have its name.
        let home = self.hidden(&format!("{}#judging", step.id.value), "judge", Some(outer), span);
        self.get(home).scope = true;
        let agent = here.document.agent(judge);
        let inside = Here { depth: here.depth + 2, around: None, ..here.clone() };
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
        };
        let first = self.case(step, &spec, max_iterations);
        let asked = self.agent_pipeline(&spec, first, home, &inside);
        self.pipeline(home, vec![silent("", Action::Node(asked))]);
        let feedback = own("feedback", WriteOp::Set, self.plain("feedback", span));
        let remark = own("history", WriteOp::AppendItem, self.plain("remark", span));
        let verdict = self.plain("judged", span);
        let unaskable = self.condition::<&str>("unaskable", [], span);
        let fails = Directive::Fail { status: Status::Failed, error: None };
        let rules = vec![
            Rule { previous: Some(verdict), ..rule(Some(unaskable), fails, Vec::new()) },
            Rule { previous: Some(verdict), ..rule(None, Directive::Break, vec![feedback, remark]) },
        ];
        self.pipeline(outer, vec![Task { rules, ..silent("", Action::Node(home)) }]);
        outer
    }

    /// The settings of a judge's prompt.
    fn case(&self, step: &Step, judge: &AgentStep<'_>, max_iterations: u64) -> (&'static str, Map) {
        let mut settings = Map::new();
        settings.insert("name", step.id.as_str());
        if let Some(instructions) = &step.instructions {
            settings.insert("instructions", instructions.as_str());
        }
        settings.insert("turns", max_iterations);
        if let Some(schema) = judge.schema() {
            settings.insert("result", owed(schema));
        }
        settings.insert("caps", self.caps());
        ("judge", settings)
    }
}
