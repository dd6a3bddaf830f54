//! Plans by hand, for nodes that no dialect makes yet.

use windlass_core::StatusSet;
use windlass_core::plan::{
    Action, After, Call, Child, Effect, Ending, ExprId, ExpressionSource, Graph, Node, NodeId, NodeKind, OnFailure,
    Plan, SourceSpan, Wait,
};
use windlass_value::{BlobHash, Duration, Mode, Value};

use super::json;

pub struct Steps {
    plan: Plan,
    nodes: Vec<NodeId>,
}

/// Steps one after the other; the run's output is what the last one gives.
pub fn steps(name: &str) -> Steps {
    let mut plan = Plan::new(name, "test", "");
    let placeholder = NodeKind::Wait(Wait::Delay(windlass_core::plan::Amount::Fixed(Duration::ZERO)));
    plan.add_node(Node { hidden: true, ..Node::new("root", "graph", None, placeholder) });
    Steps { plan, nodes: Vec::new() }
}

impl Steps {
    pub fn expression(&mut self, source: Value) -> ExprId {
        let (mode, span) = (Mode::Value, SourceSpan::default());
        self.plan.add_expression(ExpressionSource { language: "wdl".into(), source, mode, span })
    }

    pub fn step(mut self, name: &str, kind: NodeKind) -> Steps {
        let node = self.plan.add_node(Node::new(name, "test", Some(NodeId(0)), kind));
        self.nodes.push(node);
        self
    }

    pub fn effect(mut self, name: &str, tool: &str, input: &str) -> Steps {
        let input = self.expression(json(input));
        self.step(name, NodeKind::lone(Action::Effect(Effect { tool: tool.into(), input })))
    }

    pub fn signal(self, name: &str, signal: &str) -> Steps {
        let wait = Wait::Signal { name: signal.into(), requirements: None, deadline: None };
        self.step(name, NodeKind::Wait(wait))
    }

    pub fn delay(self, name: &str, delay: Duration) -> Steps {
        self.step(name, NodeKind::Wait(Wait::Delay(windlass_core::plan::Amount::Fixed(delay))))
    }

    pub fn compose(mut self, name: &str, value: &str) -> Steps {
        let value = self.expression(json(value));
        self.step(name, NodeKind::evaluate(value))
    }

    /// Answers whoever started the run; a good answer or not.
    pub fn reply(mut self, name: &str, value: &str, good: bool) -> Steps {
        let (value, good) = (self.expression(json(value)), self.expression(Value::Bool(good)));
        self.step(name, NodeKind::lone(Action::Reply { value, good: Some(good) }))
    }

    /// What calls of this name mean.
    pub fn pin(mut self, name: &str, plan: BlobHash) -> Steps {
        self.plan.pins.push((name.into(), plan));
        self
    }

    pub fn call(mut self, name: &str, definition: &str, input: &str) -> Steps {
        let (definition, input) = (self.expression(Value::from(definition)), self.expression(json(input)));
        self.step(name, NodeKind::Call(Call { definition, input }))
    }

    /// The plan, with named outputs.
    pub fn gives(mut self, outputs: &[(&str, &str)]) -> Plan {
        let named: Vec<_> =
            outputs.iter().map(|(name, text)| ((*name).into(), self.expression(Value::from(*text)))).collect();
        let mut plan = self.plan();
        plan.outputs = Some(named);
        plan
    }

    pub fn plan(mut self) -> Plan {
        let succeeded = StatusSet::of([windlass_core::Status::Succeeded]);
        let after = |at: usize| match at {
            0 => Vec::new(),
            _ => vec![After { child: at as u32 - 1, accepts: succeeded }],
        };
        let child = |(at, node): (usize, &NodeId)| Child { node: *node, after: after(at), condition: None };
        let graph = Graph {
            children: self.nodes.iter().enumerate().map(child).collect(),
            in_flight: None,
            ending: Ending::Leaves,
            on_failure: OnFailure::Continue,
            unmet: windlass_core::Status::Skipped,
        };
        self.plan.nodes[0].kind = NodeKind::Graph(graph);
        self.plan
    }
}
