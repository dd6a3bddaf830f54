//! Compiles a workflow to a plan: a Petri net with one place per step, in declaration order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::plan::{
    Action, Amount, Effect, ExprId, ExpressionSource, FAILED_KIND, FailureHandler, Join, Net, NetEnd, Node, NodeId,
    NodeKind, Pipeline, Place, Plan, SourceSpan, SurplusPolicy as PlanSurplus, Task,
};
use windlass_value::{ExpressionMode, Value};

use crate::builder::{StepDef, Surplus, WorkflowBuilder};
use crate::event::{EventRole, EventType};
use crate::graph::WorkflowGraph;
use crate::retry::to_engine_duration;
use crate::signature::JoinKind;
use crate::source::render_source;

/// The dialect of plans that come from Rust code.
pub(crate) const DIALECT: &str = windlass_dialect::RustDialect::NAME;

/// The language of the expressions that build a step's input.
const LANGUAGE: &str = "steps";

/// Returns the name of the tool that runs a step.
pub(crate) fn tool_name(workflow: &str, step: &str) -> String {
    format!("{workflow}/{step}")
}

/// Compiles a workflow that has passed its checks.
pub(crate) fn plan(workflow: &WorkflowBuilder) -> Plan {
    let (text, spans) = render_source(workflow);
    let mut plan = Plan::new(workflow.name.as_str(), DIALECT, text);
    plan.timeout = workflow.timeout.map(to_engine_duration);
    plan.metadata = metadata(workflow);
    let placeholder = NodeKind::Net(Net::new(Vec::new(), "", NetEnd::Quiet));
    let root = plan.add_node(Node { hidden: true, ..Node::new(workflow.name.as_str(), "workflow", None, placeholder) });
    plan.root = root;
    let graph = WorkflowGraph::new(&workflow.steps);
    let mut places = Vec::new();
    for (at, (step, span)) in workflow.steps.iter().zip(spans).enumerate() {
        let body = body(&mut plan, workflow, step, root, span);
        places.push(place(step, at, body, &graph, workflow));
    }
    let start = event_name_of_role(EventRole::Start, workflow.steps.iter().flat_map(|step| &step.shape.accepts));
    let stop = event_name_of_role(EventRole::Stop, workflow.steps.iter().flat_map(StepDef::outputs));
    let asks: BTreeSet<&str> =
        workflow.steps.iter().flat_map(StepDef::outputs).filter(|event| asks(event)).map(|event| event.name).collect();
    let asks = asks.into_iter().map(Into::into).collect();
    let waits: BTreeSet<&str> = workflow.steps.iter().flat_map(|step| &step.waits).map(|event| event.name).collect();
    let waits = waits.into_iter().map(Into::into).collect();
    let net = Net {
        publishes_slots: true,
        input_requests: asks,
        awaited_kinds: waits,
        ..Net::new(places, start, NetEnd::Stop(stop.into()))
    };
    plan.nodes[root.0 as usize].kind = NodeKind::Net(net);
    plan
}

fn asks(event: &EventType) -> bool {
    event.role == EventRole::InputRequired
}

fn event_name_of_role<'e>(role: EventRole, mut events: impl Iterator<Item = &'e EventType>) -> &'static str {
    events.find(|event| event.role == role).map_or("", |event| event.name)
}

/// Returns `{events: {name: {kind, version}}}` and, if any step waits, `waits`, for drawings.
fn metadata(workflow: &WorkflowBuilder) -> Value {
    let all = workflow.steps.iter().flat_map(|step| step.shape.accepts.iter().chain(step.outputs()).chain(&step.waits));
    let all: BTreeMap<&str, &EventType> = all.chain(&workflow.events).map(|event| (event.name, event)).collect();
    let events = all.into_iter().map(|(name, event)| {
        let facts =
            Value::object([("kind", Value::from(event.role.as_str())), ("version", Value::from(event.version))]);
        (name, facts)
    });
    let waits = workflow.steps.iter().filter(|step| !step.waits.is_empty()).map(|step| {
        (step.name.as_str(), Value::list(step.waits.iter().map(|event| Value::from(event.name)).collect()))
    });
    let mut facts = vec![("events", Value::object(events))];
    let waits: Vec<(&str, Value)> = waits.collect();
    if !waits.is_empty() {
        facts.push(("waits", Value::object(waits)));
    }
    Value::object(facts)
}

fn body(plan: &mut Plan, workflow: &WorkflowBuilder, step: &StepDef, root: NodeId, span: SourceSpan) -> NodeId {
    let input = step_input(plan, step, span);
    let tool = tool_name(&workflow.name, &step.name);
    let task = Task {
        retry: step.retry.as_ref().and_then(crate::RetryPolicy::compile),
        timeout: step.timeout.map(|time| Amount::Fixed(crate::retry::to_engine_duration(time))),
        hidden: true,
        ..Task::new(Action::Effect(Effect { reevaluates_input: true, ..Effect::new(tool.as_str(), input) }))
    };
    let pipeline = NodeKind::Pipeline(Pipeline { tasks: vec![task] });
    plan.add_node(Node { span, ..Node::new(step.name.as_str(), "step", Some(root), pipeline) })
}

/// Adds the expression of the step's input: its event, and the state if the step uses it.
fn step_input(plan: &mut Plan, step: &StepDef, span: SourceSpan) -> ExprId {
    let source = match step.shape.states.is_empty() {
        true => Value::Null,
        false => Value::object([("state", true)]),
    };
    plan.add_expression(ExpressionSource { language: LANGUAGE.into(), source, mode: ExpressionMode::Value, span })
}

fn place(step: &StepDef, at: usize, body: NodeId, graph: &WorkflowGraph<'_>, workflow: &WorkflowBuilder) -> Place {
    let mut accepts: Vec<Arc<str>> = Vec::new();
    for event in &step.shape.accepts {
        if !accepts.iter().any(|name| **name == *event.name) {
            accepts.push(event.name.into());
        }
    }
    let join = match step.shape.join {
        JoinKind::One => Join::None,
        JoinKind::Failure => {
            accepts = vec![FAILED_KIND.into()];
            Join::None
        }
        JoinKind::All => Join::FanOut,
        JoinKind::Collect => Join::Each {
            needs: step.shape.accepts.iter().map(|event| event.name.into()).collect(),
            key: step.key.as_deref().map(Into::into),
            surplus: match step.surplus.unwrap_or_default() {
                Surplus::Keep => PlanSurplus::Keep,
                Surplus::Drop => PlanSurplus::Drop,
                Surplus::Fail => PlanSurplus::Fail,
            },
        },
    };
    let mut produces: Vec<Arc<str>> = Vec::new();
    for event in step.outputs() {
        if !produces.iter().any(|name| **name == *event.name) {
            produces.push(event.name.into());
        }
    }
    let handler = graph.handler_for(at).and_then(|place| {
        let times = workflow.steps[place].handler.as_ref()?.times;
        Some(FailureHandler { place: place as u32, max_uses: times })
    });
    Place {
        max_concurrency: step.workers,
        join,
        produces,
        yields_slot: true,
        handler,
        fan_out_joins: graph.fans_into(at),
        ..Place::new(step.name.as_str(), accepts, body)
    }
}
