//! Hand-written plans: small functions that omit what a test does not need.

use std::sync::Arc;

use windlass_core::plan::*;
use windlass_core::{Limits, Program};
use windlass_value::{Duration, ExpressionMode, Value};

use super::language::{TestLanguage, json};

pub(crate) struct Builder {
    pub plan: Plan,
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder { plan: Plan::new("test", "test", "") }
    }

    pub(crate) fn load(self) -> Program {
        self.load_with(Limits::default())
    }

    pub(crate) fn load_with(self, limits: Limits) -> Program {
        Program::load(self.plan, &[&TestLanguage], limits).expect("a plan that loads")
    }

    fn source(&mut self, source: Value, mode: ExpressionMode) -> ExprId {
        let span = SourceSpan::default();
        self.plan.add_expression(ExpressionSource { language: "test".into(), source, mode, span })
    }

    pub(crate) fn value(&mut self, source: Value) -> ExprId {
        self.source(source, ExpressionMode::Value)
    }

    /// Compiles an expression given as JSON.
    pub(crate) fn expr(&mut self, text: &str) -> ExprId {
        self.value(json(text))
    }

    pub(crate) fn condition(&mut self, source: Value) -> ExprId {
        self.source(source, ExpressionMode::LoopCondition)
    }

    /// Compiles a condition that may read missing values.
    pub(crate) fn guard(&mut self, source: Value) -> ExprId {
        self.source(source, ExpressionMode::Guard)
    }

    /// Adds a node; `make` gets its id, adds its children and returns its kind.
    pub(crate) fn node(
        &mut self,
        parent: Option<NodeId>,
        name: &str,
        make: impl FnOnce(&mut Builder, NodeId) -> NodeKind,
    ) -> NodeId {
        let placeholder = NodeKind::Wait(Wait::Delay(Amount::Fixed(Duration::ZERO)));
        let id = self.plan.add_node(Node::new(name, "test", parent, placeholder));
        let kind = make(self, id);
        self.node_mut(id).kind = kind;
        id
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.plan.nodes[id.0 as usize]
    }

    pub(crate) fn evaluate(&mut self, parent: Option<NodeId>, name: &str, text: &str) -> NodeId {
        self.node(parent, name, |b, _| NodeKind::evaluate(b.expr(text)))
    }

    pub(crate) fn effect(&mut self, parent: Option<NodeId>, name: &str, input: &str) -> NodeId {
        self.node(parent, name, |b, _| NodeKind::single_task(b.action(input)))
    }

    pub(crate) fn action(&mut self, input: &str) -> Action {
        Action::Effect(Effect::new("tool", self.expr(input)))
    }

    pub(crate) fn write(
        &mut self,
        parent: Option<NodeId>,
        name: &str,
        variable: &str,
        op: WriteOp,
        value: &str,
    ) -> NodeId {
        self.node(parent, name, |b, _| {
            let write = b.writes(variable, op, value);
            NodeKind::single_task(Action::Write(write))
        })
    }

    pub(crate) fn writes(&mut self, variable: &str, op: WriteOp, value: &str) -> VariableUpdate {
        VariableUpdate::new(windlass_value::Level::Run, variable, op, Some(self.expr(value)))
    }

    pub(crate) fn signal(&mut self, parent: Option<NodeId>, name: &str, signal: &str) -> NodeId {
        let wait = Wait::Signal { name: signal.into(), requirements: None, deadline: None, form: None };
        self.node(parent, name, |_, _| NodeKind::Wait(wait))
    }

    /// Adds children that run sequentially, regardless of the end of the previous one.
    pub(crate) fn sequence(
        &mut self,
        parent: Option<NodeId>,
        name: &str,
        make: impl FnOnce(&mut Builder, Option<NodeId>) -> Vec<NodeId>,
    ) -> NodeId {
        self.node(parent, name, |b, id| {
            let nodes = make(b, Some(id));
            let after = |at: usize| match at {
                0 => Vec::new(),
                _ => vec![GraphDependency { child: at as u32 - 1, accepts: windlass_core::StatusSet::all() }],
            };
            let child = |(at, node)| GraphChild { node, after: after(at), condition: None, group: None };
            NodeKind::Graph(graph(nodes.into_iter().enumerate().map(child).collect()))
        })
    }

    /// Adds children without dependencies.
    pub(crate) fn parallel(
        &mut self,
        parent: Option<NodeId>,
        name: &str,
        make: impl FnOnce(&mut Builder, Option<NodeId>) -> Vec<NodeId>,
    ) -> NodeId {
        self.node(parent, name, |b, id| {
            let children = make(b, Some(id)).into_iter();
            NodeKind::Graph(graph(
                children.map(|node| GraphChild { node, after: Vec::new(), condition: None, group: None }).collect(),
            ))
        })
    }

    /// Adds a loop that `make` builds; `make` may change the presets of [`repeat`] and [`each`].
    pub(crate) fn looping(
        &mut self,
        parent: Option<NodeId>,
        name: &str,
        make: impl FnOnce(&mut Builder, Option<NodeId>) -> Loop,
    ) -> NodeId {
        self.node(parent, name, |b, id| NodeKind::Loop(Box::new(make(b, Some(id)))))
    }
}

pub(crate) fn graph(children: Vec<GraphChild>) -> Graph {
    let unmet = windlass_core::Status::Skipped;
    Graph {
        children,
        max_concurrency: None,
        ending: GraphStatusRule::Leaves,
        on_failure: GraphFailurePolicy::Continue,
        unmet,
        pick: Default::default(),
        skips_transitively: false,
    }
}

pub(crate) fn no_limits() -> LoopLimits {
    LoopLimits { max_iterations: 1_000_000, max_time: secs(1_000_000), ..LoopLimits::for_items(&Limits::default()) }
}

/// A loop that succeeds after this number of iterations.
pub(crate) fn repeat(iterations: u64, body: NodeId) -> Loop {
    Loop {
        limits: LoopLimits { iterations: Some(Amount::Fixed(iterations)), ..no_limits() },
        on_exhausted: ExhaustedPolicy::Succeed,
        ..Loop::repeat(body, &Limits::default())
    }
}

/// A loop over items with this many in flight.
pub(crate) fn each(items: ExprId, in_flight: u64, body: NodeId) -> Loop {
    Loop {
        limits: no_limits(),
        on_exhausted: ExhaustedPolicy::Succeed,
        max_concurrency: Amount::Fixed(in_flight),
        ..Loop::each(items, body, &Limits::default())
    }
}

pub(crate) fn task(label: &str, action: Action) -> Task {
    Task { label: label.into(), ..Task::new(action) }
}

pub(crate) fn retry(attempts: u64, wait: Duration) -> Retry {
    let interval = Amount::Fixed(wait);
    let backoff = Backoff { interval, growth: Growth::Fixed, min: None, max: None, jitter: Jitter::None };
    Retry { attempts: Amount::Fixed(attempts), backoff, on: Vec::new(), window: None }
}

pub(crate) fn rule(when: Option<ExprId>, directive: Directive) -> TaskRule {
    TaskRule { when, ..TaskRule::new(directive) }
}

pub(crate) fn place(name: &str, accepts: &[&str], body: NodeId) -> Place {
    Place::new(name, accepts.iter().map(|kind| Arc::from(*kind)).collect(), body)
}

pub(crate) fn arc(emits: &str) -> NetArc {
    NetArc { emits: emits.into(), on: ArcTrigger::Succeeded, when: None, payload: None, writes: Vec::new() }
}
