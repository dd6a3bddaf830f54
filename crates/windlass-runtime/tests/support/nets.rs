//! Steps that send each other events: nets of places, each body one effect.

use windlass_core::TaskOutcome;
use windlass_core::plan::{
    Action, Amount, Effect, ExpressionSource, Join, Net, NetEnd, Node, NodeKind, Pipeline, Place, Plan, SourceSpan,
    Task, Wait,
};
use windlass_runtime::{ToolCall, Tools};
use windlass_value::{
    CompileError, Duration, EvalError, EvalScope, Expression, ExpressionMode, Language, Level, Meter, Value,
};

/// The only expression of these plans: the token that a body runs for.
pub(crate) struct Tokens;

struct Token;

impl Language for Tokens {
    fn name(&self) -> &'static str {
        "token"
    }

    fn compile(&self, _source: &Value, _mode: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        Ok(Box::new(Token))
    }
}

impl Expression for Token {
    fn eval(&self, scope: &dyn EvalScope, _meter: &mut Meter) -> Result<Value, EvalError> {
        let named = |name: &str| scope.variable(Level::Any, name).unwrap_or_default();
        Ok(Value::object([("kind", named("kind")), ("payload", named("args"))]))
    }
}

/// Builds a net from places: the name, which is also the accepted kind and the tool; the maximum concurrency; the
/// join.
pub(crate) fn net(steps: &[(&str, u32, Join)]) -> Plan {
    let mut plan = Plan::new("net", "rust", "");
    let placeholder = NodeKind::Wait(Wait::Delay(Amount::Fixed(Duration::ZERO)));
    let root = plan.add_node(Node::new("net", "net", None, placeholder));
    let kinds: Vec<_> = steps.iter().map(|(name, ..)| (*name).into()).chain(["done".into()]).collect();
    let mut place = |(name, workers, join): &(&str, u32, Join)| {
        let (mode, span) = (ExpressionMode::Value, SourceSpan::default());
        let source = ExpressionSource { language: "token".into(), source: Value::Null, mode, span };
        let action = Action::Effect(Effect::new(*name, plan.add_expression(source)));
        let tasks = vec![Task { hidden: true, ..Task::new(action) }];
        let body = plan.add_node(Node::new(*name, "step", Some(root), NodeKind::Pipeline(Pipeline { tasks })));
        Place {
            max_concurrency: *workers,
            join: join.clone(),
            produces: kinds.clone(),
            ..Place::new(*name, vec![(*name).into()], body)
        }
    };
    let places: Vec<Place> = steps.iter().map(&mut place).collect();
    let start = places[0].name.clone();
    plan.nodes[0].kind = NodeKind::Net(Net::new(places, start, NetEnd::Stop("done".into())));
    plan
}

pub(crate) fn event(kind: &str, payload: Value) -> Value {
    Value::object([("kind", Value::from(kind)), ("payload", payload)])
}

/// Builds two steps that pass the number `left` back and forth until it is spent, with the tools `ping` and `pong`.
pub(crate) fn ping_pong() -> Plan {
    net(&[("ping", 1, Join::None), ("pong", 1, Join::None)])
}

pub(crate) fn left(count: i64) -> Value {
    Value::object([("left", count)])
}

fn pass_on(call: &ToolCall, to: &str) -> TaskOutcome {
    let now = call.input.get("payload").and_then(|payload| payload.get("left")).and_then(Value::as_int).unwrap_or(0);
    TaskOutcome::success(event(if now > 0 { to } else { "done" }, left(now - 1)))
}

pub(crate) fn ping_pong_tools(tools: Tools) -> Tools {
    tools
        .with_fn("ping", |call| async move { pass_on(&call, "pong") })
        .with_fn("pong", |call| async move { pass_on(&call, "ping") })
}
