//! Plans built by hand, for nodes that no dialect creates yet.

use windlass_core::plan::{
    Action, Amount, ArcTrigger, Backoff, ChildRunCall, CollectMode, Directive, Effect, ExprId, ExpressionSource, Graph,
    GraphChild, GraphDependency, GraphFailurePolicy, GraphStatusRule, Growth, IterationFailure, Jitter, Loop, Net,
    NetArc, NetEnd, Node, NodeId, NodeKind, Pipeline, Place, Plan, Retry, SourceSpan, Task, TaskRule, VariableUpdate,
    Wait, WriteOp,
};
use windlass_core::{Limits, StatusSet};
use windlass_value::{BlobHash, Duration, ExpressionMode, Level, Value};

use super::json;

pub(crate) struct Steps {
    plan: Plan,
    nodes: Vec<NodeId>,
}

/// Builds a sequence of steps; the run's output is that of the last one.
pub(crate) fn steps(name: &str) -> Steps {
    let mut plan = Plan::new(name, "test", "");
    let placeholder = NodeKind::Wait(Wait::Delay(windlass_core::plan::Amount::Fixed(Duration::ZERO)));
    plan.add_node(Node { hidden: true, ..Node::new("root", "graph", None, placeholder) });
    Steps { plan, nodes: Vec::new() }
}

impl Steps {
    pub(crate) fn expression(&mut self, source: Value) -> ExprId {
        let (mode, span) = (ExpressionMode::Value, SourceSpan::default());
        self.plan.add_expression(ExpressionSource { language: "wdl".into(), source, mode, span })
    }

    pub(crate) fn step(mut self, name: &str, kind: NodeKind) -> Steps {
        let node = self.plan.add_node(Node::new(name, "test", Some(NodeId(0)), kind));
        self.nodes.push(node);
        self
    }

    pub(crate) fn effect(mut self, name: &str, tool: &str, input: &str) -> Steps {
        let input = self.expression(json(input));
        self.step(name, NodeKind::single_task(Action::Effect(Effect::new(tool, input))))
    }

    /// Adds effects one after the other in one pipeline: label, tool, input.
    pub(crate) fn pipeline(mut self, name: &str, tasks: &[(&str, &str, &str)]) -> Steps {
        let mut task = |(label, tool, input): &(&str, &str, &str)| {
            let input = self.expression(json(input));
            let action = Action::Effect(Effect::new(*tool, input));
            Task { label: (*label).into(), ..Task::new(action) }
        };
        let tasks = tasks.iter().map(&mut task).collect();
        self.step(name, NodeKind::Pipeline(Pipeline { tasks }))
    }

    pub(crate) fn signal(self, name: &str, signal: &str) -> Steps {
        let wait = Wait::Signal { name: signal.into(), requirements: None, deadline: None, form: None };
        self.step(name, NodeKind::Wait(wait))
    }

    pub(crate) fn delay(self, name: &str, delay: Duration) -> Steps {
        self.step(name, NodeKind::Wait(Wait::Delay(windlass_core::plan::Amount::Fixed(delay))))
    }

    pub(crate) fn compose(mut self, name: &str, value: &str) -> Steps {
        let value = self.expression(json(value));
        self.step(name, NodeKind::evaluate(value))
    }

    /// Adds a step that replies to the caller of the run, as a success or a failure.
    pub(crate) fn reply(mut self, name: &str, value: &str, success: bool) -> Steps {
        let (value, success) = (self.expression(json(value)), self.expression(Value::Bool(success)));
        self.step(name, NodeKind::single_task(Action::Reply { value, success: Some(success) }))
    }

    /// Pins the plan that calls of this name use.
    pub(crate) fn pin(mut self, name: &str, plan: BlobHash) -> Steps {
        self.plan.pins.push((name.into(), plan));
        self
    }

    pub(crate) fn call(mut self, name: &str, definition: &str, input: &str) -> Steps {
        let (definition, input) = (self.expression(Value::from(definition)), self.expression(json(input)));
        self.step(name, NodeKind::Call(ChildRunCall { definition, input }))
    }

    /// Returns the plan with named outputs.
    pub(crate) fn gives(mut self, outputs: &[(&str, &str)]) -> Plan {
        let named: Vec<_> =
            outputs.iter().map(|(name, text)| ((*name).into(), self.expression(Value::from(*text)))).collect();
        let mut plan = self.plan();
        plan.outputs = Some(named);
        plan
    }

    pub(crate) fn plan(mut self) -> Plan {
        let succeeded = StatusSet::from_statuses([windlass_core::Status::Succeeded]);
        let after = |at: usize| match at {
            0 => Vec::new(),
            _ => vec![GraphDependency { child: at as u32 - 1, accepts: succeeded }],
        };
        let child =
            |(at, node): (usize, &NodeId)| GraphChild { node: *node, after: after(at), condition: None, group: None };
        let graph = Graph {
            children: self.nodes.iter().enumerate().map(child).collect(),
            max_concurrency: None,
            ending: GraphStatusRule::Leaves,
            on_failure: GraphFailurePolicy::Continue,
            unmet: windlass_core::Status::Skipped,
            pick: Default::default(),
            skips_transitively: false,
        };
        self.plan.nodes[0].kind = NodeKind::Graph(graph);
        self.plan
    }
}

/// Two steps of a net. The first is a pipeline: a loop over three items, then a sink that fails at first; all of it
/// twice.
pub(crate) fn pipelined() -> Plan {
    let mut plan = Plan::new("pipelined", "test", "");
    let mut node = |name: &str, parent: Option<u32>, hidden: bool| {
        let placeholder = NodeKind::Wait(Wait::Delay(Amount::Fixed(Duration::ZERO)));
        plan.add_node(Node { hidden, ..Node::new(name, "test", parent.map(NodeId), placeholder) })
    };
    let (net, fetch) = (node("net", None, true), node("fetch", Some(0), false));
    let (each, body) = (node("fetch#each", Some(1), true), node("fetch#body", Some(2), true));
    let after = node("after", Some(0), false);
    let mut text = |source: &str, mode: ExpressionMode| {
        let (language, source, span) = ("wdl".into(), json(source), SourceSpan::default());
        plan.add_expression(ExpressionSource { language, source, mode, span })
    };
    let mut value = |source: &str| text(source, ExpressionMode::Value);
    let effect = |label: &str, tool: &str, input: ExprId| {
        let action = Action::Effect(Effect::new(tool, input));
        Task { label: label.into(), ..Task::new(action) }
    };
    let items = value(r#"["a", "b", "c"]"#);
    let seen = Some(value(r#""@createArray(variables('outcome').result.saw, variables('outcome').meta.attempt)""#));
    let write =
        VariableUpdate { ignores_input: true, ..VariableUpdate::new(Level::Step, "seen", WriteOp::Extend, seen) };
    let note = TaskRule { writes: vec![write], ..TaskRule::new(Directive::Continue) };
    let get = Task { rules: vec![note], ..effect("get", "count", value(r#""@item()""#)) };
    let entry = value(r#"{"of": "@item()", "was": "@variables('status')"}"#);
    let sink = effect("sink", "flaky", value(r#"{"fail": 1, "got": "@variables('_prev')"}"#));
    let done = effect("done", "count", value(r#""@variables('args')""#));
    let payload = value(r#"["@variables('event').name", "@variables('seen')"]"#);
    let failed = text(r#""@equals(variables('outcome').error.kind, 'http')""#, ExpressionMode::Guard);
    let backoff = Backoff {
        interval: Amount::Fixed(Duration::from_secs(60)),
        growth: Growth::Fixed,
        min: None,
        max: None,
        jitter: Jitter::None,
    };
    let again = Retry { attempts: Amount::Fixed(9), backoff, on: Vec::new(), window: None };
    let times = |times: u64| Some(Amount::Fixed(times));
    let again = TaskRule { when: Some(failed), max_matches: times(2), ..TaskRule::new(Directive::Retry(again)) };
    let back = TaskRule { max_matches: times(1), ..TaskRule::new(Directive::Jump(0)) };
    let enter = Task { label: "each".into(), ..Task::new(Action::Node(each)) };
    let place = |name: &str, body: NodeId, arcs: Vec<NetArc>| Place {
        arcs,
        done_event: Some("loop.done".into()),
        ..Place::new(name, vec![name.into()], body)
    };
    let arc = NetArc {
        emits: "after".into(),
        on: ArcTrigger::Succeeded,
        when: None,
        payload: Some(payload),
        writes: Vec::new(),
    };
    let places = vec![place("fetch", fetch, vec![arc]), place("after", after, Vec::new())];
    let looping = Loop {
        on_iteration_failure: IterationFailure::Count,
        collect: CollectMode::Stats,
        entry: Some(entry),
        item: Some("letter".into()),
        ..Loop::each(items, body, &Limits::default())
    };
    let kinds = [
        NodeKind::Net(Net::new(places, "fetch", NetEnd::Quiet)),
        NodeKind::Pipeline(Pipeline { tasks: vec![enter, Task { rules: vec![again, back], ..sink }] }),
        NodeKind::Loop(Box::new(looping)),
        NodeKind::Pipeline(Pipeline { tasks: vec![get] }),
        NodeKind::Pipeline(Pipeline { tasks: vec![done] }),
    ];
    plan.nodes.iter_mut().zip(kinds).for_each(|(node, kind)| node.kind = kind);
    plan.root = net;
    plan
}
