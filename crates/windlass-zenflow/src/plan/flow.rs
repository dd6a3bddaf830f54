//! Steps, their order, includes and calls.

use std::sync::Arc;

use windlass_core::plan::{
    Action, ChildRunCall, Effect, ErrorWording, Graph, GraphChild, GraphDependency, GraphFailurePolicy,
    GraphStatusRule, NodeId, NodeKind, Parameter, PickPolicy, VariableKind,
};
use windlass_core::{Status, StatusSet};
use windlass_dialect::is_mocked_step;
use windlass_value::{Duration, ExpressionMode, Map, Value};

use super::agent::AgentStep;
use super::coordinator::COORDINATOR;
use super::planner::{DependencyRef, Planner, PromptContext, StepContext, step_retry, step_timeout, text_list};
use crate::document::{
    DefinitionCall, FailureStrategy, FlowOptions, Include, OutputMode, StepScheduler, WorkflowDocument, ZenflowStep,
};

const BUDGET: &str = "raise the budget under x-windlass; a call reserves what its prompt may need and what is \
                      left for the answer. `windlass events RUN` shows what was spent";

/// Errors of the reducer in terms of this dialect: its code, the code here, the message.
const ERROR_WORDING: &[(&str, &str, Option<&str>)] = &[
    ("ActionDependencyFailed", "DependencyFailed", Some("`{name}` {ended}, and this step needs it")),
    ("ActionTimedOut", "StepTimedOut", Some("{name} took longer than its timeout of {duration}")),
    ("InvalidTemplate", "InvalidExpression", None),
    ("NotAnArray", "NotAList", Some("`forEach` needs a list; it got {got}")),
];

/// Hints for the errors of the reducer in a workflow.
const HINTS: &[(&str, &str)] = &[
    ("BudgetExceeded", BUDGET),
    ("LoopBudget", BUDGET),
    (
        "StepTimedOut",
        "raise `timeout` of the step, or `options.timeout` of the run; `windlass events RUN` shows what took the time, \
         and `windlass retry RUN` repeats what has not completed",
    ),
    (
        "NoResult",
        "describe in the instructions what to pass to `submit_result`, make the resultSchema simpler, or raise maxTurns or \
         maxResultAttempts; `windlass events RUN` shows what the agent said",
    ),
    (
        "AnswerCutOff",
        "let the step do less at once, raise `reply` of the budget or `max_tokens` of the model in windlass.toml, or \
         take what there is: x-windlass: {accept: [length]}",
    ),
    ("AnswerRefused", "change what the step asks for, or take the refusal: x-windlass: {accept: [refusal]}"),
    ("AnswerFiltered", "change what the step asks for, or take what there is: x-windlass: {accept: [filtered]}"),
    (
        "AnswerEmpty",
        "say in the instructions what to answer, or take the empty answer: x-windlass: {accept: [empty]}; \
         `windlass events RUN` shows what the agent did",
    ),
    (
        "LoopUnjudged",
        "check what the judge answers: `windlass events RUN`; or raise `maxUnjudged` under x-windlass of the loop",
    ),
    (
        "AgentStalled",
        "check what the tool answers: `windlass events RUN`; maxRepeatedCalls under x-windlass of the agent sets another \
         number of turns, 0 any number; or take what there is: x-windlass: {accept: [stalled]}",
    ),
    ("TurnLimit", "raise the agent's maxTurns, or check what it calls: `windlass events RUN`"),
    ("NotAList", "`forEach` needs a list: a literal one, or CEL such as steps.find.result.items"),
    (
        "LoopCountExceeded",
        "raise maxIterations, or check why neither `until` nor the judge ends the loop: `windlass events RUN`",
    ),
    ("NotBoolean", "compare it with something: steps.review.content.contains('LGTM'), steps.count.result.n > 3"),
];

impl Planner<'_> {
    /// Builds the whole run: the coordinator if there is one, and the steps.
    pub(crate) fn run(&mut self, document: &WorkflowDocument) {
        let span = document.span;
        self.coordinated = document.has_coordinator(self.options);
        self.plan.metadata = metadata(document);
        self.plan.hints = HINTS.iter().map(|(code, hint)| ((*code).into(), (*hint).into())).collect();
        let word = |(of, code, message): &(&str, &str, Option<&str>)| ErrorWording {
            reducer_code: (*of).into(),
            code: (*code).into(),
            message: message.map(Into::into),
        };
        self.plan.records_unstarted = true;
        self.plan.error_wordings = ERROR_WORDING.iter().map(word).collect();
        self.parameters(document);
        let root = self.add_hidden_node("workflow", "workflow", None, span);
        self.plan.root = root;
        let budget = self.budget(document.extensions.budget.as_ref());
        let here = StepContext {
            document,
            depth: 0,
            context: PromptContext::default(),
            enclosing_loop: None,
            counted: false,
            reply: None,
        };
        let here = self.with_budget(&here, document.extensions.budget.as_ref());
        let coordinator = self.coordinated.then(|| self.coordinator(root, &here));
        let flow = self.add_hidden_node("steps", "steps", Some(root), span);
        self.graph(flow, &document.steps, &here, &document.options);
        let timeout = document.options.timeout.map(|timeout| timeout.value);
        self.get(flow).timeout = timeout.and_then(step_timeout);
        self.get(flow).reports_to = self.report_target();
        let alone = |node| GraphChild { node, after: Vec::new(), condition: None, group: None };
        let output = [
            ("steps", text_list(document.steps.iter().map(|step| &step.id.value))),
            ("coordinator", coordinator.map_or(Value::Null, |_| Value::from(COORDINATOR))),
        ];
        let output = self.agent_expression("run_output", output, ExpressionMode::Value, span);
        let node = self.get(root);
        node.kind = NodeKind::Graph(Graph {
            children: coordinator.into_iter().chain([flow]).map(alone).collect(),
            max_concurrency: None,
            ending: GraphStatusRule::Any,
            on_failure: GraphFailurePolicy::Continue,
            unmet: Status::Cancelled,
            skips_transitively: false,
            pick: PickPolicy::Ready,
        });
        node.meters_usage = true;
        node.budget = budget;
        node.output = Some(output);
        self.bound_holds();
    }

    fn parameters(&mut self, document: &WorkflowDocument) {
        for (name, default) in &document.extensions.inputs {
            if self.plan.parameters.iter().any(|known| *known.name == *name.value) {
                continue;
            }
            let default = Some(default.clone());
            self.plan.parameters.push(Parameter { default, ..Parameter::new(name.as_str(), VariableKind::Any) });
        }
        for step in document.all_steps() {
            if let Some(Include { document: Some(included), .. }) = &step.include {
                self.parameters(included);
            }
        }
    }

    pub(crate) fn report_target(&self) -> Option<Arc<str>> {
        self.coordinated.then(|| COORDINATOR.into())
    }

    pub(crate) fn step_concurrency(&self, options: &FlowOptions) -> u32 {
        let written = options.max_concurrency.map(|max| max.value).filter(|max| *max > 0);
        let usual = self.options.limits.default_step_concurrency_zenflow.max(1);
        let max = written.or(self.options.max_concurrency.filter(|max| *max > 0)).unwrap_or(usual);
        u32::try_from(max).unwrap_or(u32::MAX)
    }

    /// Fills a node with steps and their dependencies.
    pub(crate) fn graph(&mut self, id: NodeId, steps: &[ZenflowStep], here: &StepContext<'_>, options: &FlowOptions) {
        let mut children = Vec::with_capacity(steps.len());
        for step in steps {
            let node = self.step(step, steps, id, here);
            let position = |dependency: &str| steps.iter().position(|step| *step.id == dependency);
            let after =
                step.depends_on.iter().filter_map(|dependency| position(dependency)).map(|child| GraphDependency {
                    child: child as u32,
                    accepts: StatusSet::from_statuses([Status::Succeeded, Status::Skipped]),
                });
            let after = after.collect();
            let condition = step.condition.as_ref().map(|condition| self.cel(condition, ExpressionMode::Guard));
            let group = step.agent.as_ref().map(|agent| agent.as_str().into());
            children.push(GraphChild { node, after, condition, group });
        }
        let strategy = options.on_step_failure.map_or(FailureStrategy::Cascade, |strategy| strategy.value);
        let skips = strategy == FailureStrategy::SkipDependents;
        let graph = Graph {
            children,
            max_concurrency: Some(self.step_concurrency(options)),
            ending: GraphStatusRule::Any,
            on_failure: if strategy == FailureStrategy::Abort {
                GraphFailurePolicy::CancelRest
            } else {
                GraphFailurePolicy::Continue
            },
            unmet: if skips { Status::Skipped } else { Status::Cancelled },
            skips_transitively: skips,
            pick: match options.scheduler.map(|scheduler| scheduler.value) {
                None | Some(StepScheduler::DependencyFirst) => PickPolicy::Ready,
                Some(StepScheduler::RoundRobin) => PickPolicy::RoundRobin,
                Some(StepScheduler::LeastBusy) => PickPolicy::LeastBusy,
            },
        };
        self.get(id).kind = NodeKind::Graph(graph);
    }

    fn step(&mut self, step: &ZenflowStep, siblings: &[ZenflowStep], parent: NodeId, here: &StepContext<'_>) -> NodeId {
        let here = &StepContext { context: prompt_context(step, siblings, here), ..here.clone() };
        let here = &self.with_budget(here, step.budget.as_ref());
        let id = match (&step.call, &step.include, &step.repeat) {
            (Some(call), ..) => self.call(step, call, parent, here),
            (None, Some(include), _) => self.include(step, include, parent, here),
            (None, None, Some(repeat)) => self.loop_step(step, repeat, parent, here),
            (None, None, None) => self.agent_step(&AgentStep::from_step(step, here), parent, here),
        };
        let (retry, reports) = (step.retries.and_then(|retries| step_retry(retries.value)), self.report_target());
        let mut budget = self.budget(step.budget.as_ref());
        if let Some(Include { document: Some(included), .. }) = &step.include {
            budget.extend(self.budget(included.extensions.budget.as_ref()));
        }
        let node = self.get(id);
        node.retry = retry;
        node.meters_usage = true;
        node.budget = budget;
        node.reports_to = reports;
        id
    }

    /// Returns the timeout of a step without a loop.
    pub(crate) fn step_time(step: &ZenflowStep, here: &StepContext<'_>) -> Option<Duration> {
        step.timeout.or(here.document.options.step_timeout).map(|timeout| timeout.value)
    }

    /// Builds a child run; the step's result is the child's output.
    fn call(&mut self, step: &ZenflowStep, call: &DefinitionCall, parent: NodeId, here: &StepContext<'_>) -> NodeId {
        let (name, span) = (call.definition.as_str(), call.definition.span);
        let id = self.add_node(&step.id, "call", Some(parent), step.span);
        let is_mocked = is_mocked_step(&self.options.mocked_steps, &step.id);
        if !is_mocked
            && !self.options.registered.has_definition(name)
            && !self.calls.iter().any(|(known, _)| known == name)
        {
            self.calls.push((name.to_owned(), self.include_span.unwrap_or(span)));
        }
        let definition = self.value(Value::from(name), span);
        let input = self.call_input(&call.input);
        let output = self.agent_expression(
            "call_output",
            [("name", Value::from(step.id.as_str()))],
            ExpressionMode::Value,
            step.span,
        );
        let node = self.get(id);
        node.kind = match is_mocked {
            true => NodeKind::single_task(Action::Effect(Effect::new("call", input))),
            false => NodeKind::Call(ChildRunCall { definition, input }),
        };
        node.timeout = Self::step_time(step, here).and_then(step_timeout);
        node.output = Some(output);
        id
    }

    fn include(&mut self, step: &ZenflowStep, include: &Include, parent: NodeId, here: &StepContext<'_>) -> NodeId {
        let id = self.add_node(&step.id, "include", Some(parent), step.span);
        self.get(id).scope = true;
        let Some(document) = &include.document else {
            // Such a workflow is not run.
            self.graph(id, &[], here, &FlowOptions::default());
            return id;
        };
        let outermost = self.include_span.is_none();
        if outermost {
            self.include_span = Some(include.target.span);
        }
        let context = PromptContext { heading: Some("Parent Context"), ..here.context.clone() };
        let inside = StepContext { document, depth: here.depth + 1, context, ..here.clone() };
        let inside = self.with_budget(&inside, document.extensions.budget.as_ref());
        self.graph(id, &document.steps, &inside, &document.options);
        let times = [Self::step_time(step, here), document.options.timeout.map(|timeout| timeout.value)];
        let time = times.into_iter().flatten().filter(|time| *time > Duration::ZERO).min();
        let output = [
            ("name", Value::from(step.id.as_str())),
            ("steps", text_list(document.steps.iter().map(|step| &step.id.value))),
        ];
        let output = self.agent_expression("include_output", output, ExpressionMode::Value, step.span);
        let node = self.get(id);
        node.timeout = time.and_then(step_timeout);
        node.output = Some(output);
        if outermost {
            self.include_span = None;
        }
        id
    }
}

/// Returns the prompt context of a step: its dependencies, or without any the context of its surroundings.
fn prompt_context(step: &ZenflowStep, siblings: &[ZenflowStep], here: &StepContext<'_>) -> PromptContext {
    if step.depends_on.is_empty() {
        return here.context.clone();
    }
    let whole = |id: &str| {
        let repeat = siblings.iter().find(|step| *step.id == id).and_then(|step| step.repeat.as_ref());
        repeat.and_then(|repeat| repeat.output_mode).is_some_and(|mode| mode.value == OutputMode::Cumulative)
    };
    let dependencies =
        step.depends_on.iter().map(|id| DependencyRef { id: id.value.clone(), depth: here.depth, whole: whole(id) });
    PromptContext { heading: None, dependencies: dependencies.collect(), previous: false }
}

fn metadata(document: &WorkflowDocument) -> Value {
    let mut metadata = Map::new();
    if let Some(description) = &document.description {
        metadata.insert("description", description.as_str());
    }
    Value::map(metadata)
}
