//! Nodes with their own scope, graph end and pick policies, and the path style of iterations.

use crate::support;

use support::looped::*;
use support::world::World;
use support::*;
use windlass_core::plan::*;
use windlass_core::{Program, Status, StatusSet, TaskOutcome};
use windlass_value::{Duration, Level, Value};

fn write(b: &mut Builder, op: WriteOp, value: &str) -> Task {
    let write = VariableUpdate::new(Level::Step, "v", op, Some(b.expr(value)));
    Task { label: "w".into(), ..Task::new(Action::Write(write)) }
}

/// A pipeline with a scope: sets `v`, waits for a signal, then returns `v`.
fn scoped_pipeline(b: &mut Builder, parent: Option<NodeId>, name: &str, value: &str) -> NodeId {
    let id = b.node(parent, name, |b, _| {
        let set = write(b, WriteOp::Set, value);
        let (input, read) = (b.expr("1"), b.expr(r#"{"$var": "v"}"#));
        let ask = Task { label: "ask".into(), ..Task::new(Action::Effect(Effect::new("0", input))) };
        let give = Task { label: "give".into(), ..Task::new(Action::Evaluate(read)) };
        NodeKind::Pipeline(Pipeline { tasks: vec![set, ask, give] })
    });
    b.node_mut(id).scope = true;
    id
}

fn immediate_world<'p>() -> World<'p> {
    Box::new(|_, _, _| Reply::After(Duration::ZERO, TaskOutcome::success(0u32)))
}

fn output(program: &Program) -> Value {
    let mut sim = Sim::new(program, immediate_world());
    sim.start().run();
    sim.output()
}

fn child(node: NodeId) -> GraphChild {
    GraphChild { node, after: Vec::new(), condition: None, group: None }
}

fn after(node: NodeId, before: u32) -> GraphChild {
    GraphChild {
        after: vec![GraphDependency { child: before, accepts: StatusSet::from_statuses([Status::Succeeded]) }],
        ..child(node)
    }
}

#[test]
fn concurrent_nodes_have_separate_variables() {
    let mut b = Builder::new();
    b.node(None, "both", |b, id| {
        let (one, two) = (scoped_pipeline(b, Some(id), "one", "1"), scoped_pipeline(b, Some(id), "two", "2"));
        NodeKind::Graph(graph(vec![child(one), child(two)]))
    });
    assert_eq!(output(&b.load()), json(r#"{"one": 1, "two": 2}"#));
}

#[test]
fn a_scope_is_removed_with_its_node_and_before_a_retry() {
    let mut b = Builder::new();
    let root = b.node(None, "counter", |b, _| {
        let add = write(b, WriteOp::Add, "1");
        let fail = b.expr(r#"{"$fail": "x"}"#);
        let fails = Task { label: "fails".into(), ..Task::new(Action::Evaluate(fail)) };
        NodeKind::Pipeline(Pipeline { tasks: vec![add, fails] })
    });
    let retry = retry(3, secs(1));
    let read = b.expr(r#"{"$var": "v"}"#);
    let node = b.node_mut(root);
    (node.scope, node.retry, node.output) = (true, Some(retry), Some(read));
    let program = b.load();
    let mut sim = Sim::new(&program, immediate_world());
    sim.start().run();
    let result = sim.state.result().unwrap();
    assert_eq!((result.status, &result.output), (Status::Failed, &Value::Int(1)), "the third try began with nothing");
    assert_eq!(sim.state.scopes.len(), 1);
}

#[test]
fn names_inside_a_scope_shadow_outer_names() {
    let mut b = Builder::new();
    b.node(None, "root", |b, id| {
        let outer = b.evaluate(Some(id), "same", "1");
        let inner = b.node(Some(id), "inside", |b, id| {
            let reads = b.evaluate(Some(id), "reads", r#"{"$node": "same"}"#);
            let same = b.evaluate(Some(id), "same", "2");
            NodeKind::Graph(graph(vec![child(reads), after(same, 0)]))
        });
        b.node_mut(inner).scope = true;
        NodeKind::Graph(graph(vec![child(outer), after(inner, 0)]))
    });
    let program = b.load();
    let mut sim = Sim::new(&program, immediate_world());
    sim.start().run();
    assert_eq!(
        sim.state.result().unwrap().status,
        Status::Failed,
        "its own `same` has not ended: {:?}",
        sim.state.result()
    );
}

fn skips_on(spreads: bool, unmet: Status) -> Vec<(String, Status)> {
    let mut b = Builder::new();
    b.node(None, "root", |b, id| {
        let bad = b.evaluate(Some(id), "bad", r#"{"$fail": "x"}"#);
        let one = b.evaluate(Some(id), "one", "1");
        let two = b.evaluate(Some(id), "two", "2");
        let accepts = StatusSet::from_statuses([Status::Succeeded, Status::Skipped]);
        let after =
            |node, before| GraphChild { after: vec![GraphDependency { child: before, accepts }], ..child(node) };
        NodeKind::Graph(Graph {
            ending: GraphStatusRule::Any,
            unmet,
            skips_transitively: spreads,
            ..graph(vec![child(bad), after(one, 0), after(two, 1)])
        })
    });
    let program = b.load();
    let mut sim = Sim::new(&program, immediate_world());
    sim.start().run();
    let scope = sim.state.scopes.get(sim.state.root_scope).unwrap();
    let named = |(id, outcome): &(NodeId, std::sync::Arc<windlass_core::Outcome>)| {
        (program.node(*id).name.to_string(), outcome.status)
    };
    scope.outcomes.iter().map(named).filter(|(name, _)| name != "root").collect()
}

#[test]
fn skipping_propagates_only_where_configured() {
    let table = [
        (false, Status::Skipped, Status::Skipped, Status::Succeeded),
        (true, Status::Skipped, Status::Skipped, Status::Skipped),
        (false, Status::Cancelled, Status::Cancelled, Status::Cancelled),
        (true, Status::Cancelled, Status::Cancelled, Status::Cancelled),
    ];
    for (spreads, unmet, one, two) in table {
        let named = |name: &str, status| (name.to_owned(), status);
        let expected = vec![named("bad", Status::Failed), named("one", one), named("two", two)];
        assert_eq!(skips_on(spreads, unmet), expected, "{spreads} {unmet:?}");
    }
}

/// Returns the order in which six steps of two groups begin, two in flight. Those of group a take longer.
fn order(pick: PickPolicy) -> String {
    let mut b = Builder::new();
    b.node(None, "root", |b, id| {
        let children = ["a1", "a2", "a3", "a4", "b1", "b2"].map(|name| {
            let node = b.effect(Some(id), name, "1");
            GraphChild { group: Some(name[..1].into()), ..child(node) }
        });
        NodeKind::Graph(Graph { max_concurrency: Some(2), pick, ..graph(children.to_vec()) })
    });
    let program = b.load();
    let world: World = Box::new(|job, _, _| {
        let ms = if job.key.path.starts_with('a') { 1_000 } else { 100 };
        Reply::After(Duration::from_ms(ms), TaskOutcome::success(0u32))
    });
    let mut sim = Sim::new(&program, world);
    sim.start().run();
    sim.dispatched.iter().map(|job| job.key.path.rsplit('.').next().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_pick_policy_decides_the_order_of_groups() {
    assert_eq!(order(PickPolicy::Ready), "a1 a2 a3 a4 b1 b2");
    assert_eq!(order(PickPolicy::RoundRobin), "a1 b1 a2 b2 a3 a4");
    assert_eq!(order(PickPolicy::LeastBusy), "a1 b1 b2 a2 a3 a4");
}

#[test]
fn paths_write_iterations_in_brackets() {
    let program = looped(|b, id| repeat(2, b.sequence(id, "body", |b, id| vec![b.effect(id, "step", "1")])));
    let mut sim = Sim::new(&program, immediate_world());
    sim.start().run();
    let published: Vec<&str> =
        sim.events.iter().map(|event| &*event.path).filter(|path| path.ends_with("step")).collect();
    assert!(published.iter().any(|path| path.ends_with("loop[1].body.step")), "{published:?}");
}

#[test]
fn a_condition_over_missing_values_skips_and_reports_it() {
    let mut b = Builder::new();
    b.node(None, "root", |b, id| {
        let node = b.evaluate(Some(id), "never", "1");
        let condition = b.guard(json(r#"{"$node": "missing"}"#));
        NodeKind::Graph(graph(vec![GraphChild { condition: Some(condition), ..child(node) }]))
    });
    let program = b.load();
    let mut sim = Sim::new(&program, immediate_world());
    sim.start().run();
    let skipped = sim.events.iter().find(|event| &*event.kind == "step.skipped").unwrap();
    assert_eq!(skipped.data.get("reason").and_then(Value::as_str), Some("MissingData"));
    assert!(skipped.data.get("message").is_some());
}
