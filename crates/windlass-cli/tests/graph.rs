//! Drawings: definitions and runs, in every format.

use crate::support;

use std::sync::Arc;

use support::{TestDir, counting};
use windlass_core::TaskOutcome;
use windlass_core::plan::{
    Action, Effect, ExpressionSource, Net, NetEnd, Node, NodeKind, Pipeline, Place as NetPlace, Plan,
};
use windlass_runtime::{EngineOptions, RunStartOptions, RuntimeEngine, Tools};
use windlass_store::Store;
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_value::{CompileError, EvalError, EvalScope, Expression, ExpressionMode, Language, Meter, Value};

#[test]
fn a_run_is_drawn_in_every_format() {
    let place = TestDir::new();
    place.write("flow.json", counting(3, "PT1S"));
    place.windlass(&["run", "flow.json", "--id", "g1", "-q", "--virtual-time"]).exits(0);
    place
        .windlass(&["graph", "--run", "g1"])
        .exits(0)
        .has("flowchart TD")
        .has("run g1 of counting: succeeded")
        .has("3 iterations, condition")
        .has("class ");
    place
        .windlass(&["graph", "--run", "last", "--format", "dot"])
        .exits(0)
        .has("digraph \"counting\"")
        .has("fillcolor=");
    place.windlass(&["graph", "--run", "g1", "--format", "svg"]).exits(0).has("<svg ").has("class=\"succeeded\"");
    let drawn = place.json(&["graph", "--run", "g1", "--format", "json"]);
    assert_eq!(drawn, place.json(&["graph", "--run", "g1", "--json"]), "two ways to ask for the same");
    let nodes = drawn["nodes"].as_array().expect("nodes");
    let count = nodes.iter().find(|node| node["name"] == "count").expect("the loop");
    assert_eq!((&count["run"]["iterations"]["ended"], &count["run"]["status"]), (&3.into(), &"succeeded".into()));
    assert_eq!(drawn["run"]["status"], "succeeded");
    let names: Vec<_> = nodes.iter().map(|node| node["name"].as_str().unwrap_or_default()).collect();
    assert_eq!(names[..2], ["prepare", "count"], "in the order in which they began");
}

#[test]
fn a_running_run_is_drawn_in_its_current_state() {
    let place = TestDir::new();
    let waiting = r#"{ "actions": {
        "before": { "type": "compose", "inputs": 1 },
        "hold": { "type": "wait", "interval": "PT1H", "runAfter": { "before": ["Succeeded"] } },
        "after": { "type": "compose", "inputs": 2, "runAfter": { "hold": ["Succeeded"] } } } }"#;
    place.write("flow.json", waiting);
    let mut run = place.start(&["run", "flow.json", "--id", "g2"]);
    run.line();
    let mut events = place.start(&["events", "g2", "--follow"]);
    while !events.line_with("step.started").contains("hold") {}
    let drawn = place.json(&["graph", "--run", "g2", "--json"]);
    let names: Vec<_> = drawn["nodes"].as_array().expect("nodes").iter().map(|node| node["name"].clone()).collect();
    assert_eq!((names, &drawn["run"]["status"]), (vec!["before".into(), "hold".into()], &"running".into()));
    assert_eq!(drawn["nodes"][1]["run"]["in_progress"], true);
    place.windlass(&["cancel", "g2"]).exits(0);
    run.finish().exits(1);
    events.finish().exits(0);
    place.windlass(&["graph", "--run", "g2"]).exits(0).has("hold<br/>wait<br/>cancelled").has("g2 of flow: cancelled");
}

#[test]
fn errors_come_with_a_hint() {
    let place = TestDir::new();
    place.write("flow.json", counting(1, "PT1S"));
    place.windlass(&["graph", "--run", "x"]).exits(3).has("there is no store").has("hint: ");
    place.windlass(&["graph"]).exits(3).has("there is nothing to draw").has("--run last");
    place.windlass(&["graph", "flow.json", "--run", "x"]).exits(3).has("cannot be used with");
    place.windlass(&["graph", "flow.json", "--format", "png"]).exits(3).has("mermaid, dot, json, svg");
    place.windlass(&["graph", "missing.json"]).exits(3).has("could not read the definition").has("--run missing.json");
    place.windlass(&["run", "flow.json", "--id", "known", "-q", "--virtual-time"]).exits(0);
    place.windlass(&["graph", "--run", "knwon"]).exits(3).has("there is no run `knwon`").has("did you mean `known`?");
    let error = place.windlass(&["graph", "--run", "unknown", "--json"]);
    assert!(error.exits(3).json()["error"]["hint"].is_string());
}

/// A language that this program does not have.
struct ForeignLanguage;

impl Language for ForeignLanguage {
    fn name(&self) -> &'static str {
        "foreign"
    }

    fn compile(&self, source: &Value, _: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        Ok(Box::new(Constant(source.clone())))
    }
}

struct Constant(Value);

impl Expression for Constant {
    fn eval(&self, _: &dyn EvalScope, _: &mut Meter) -> Result<Value, EvalError> {
        Ok(self.0.clone())
    }
}

/// Two steps of that language that send each other an event.
fn foreign_plan() -> Plan {
    let mut plan = Plan::new("orders", "rust", "");
    let (language, source) = ("foreign".into(), Value::Null);
    let input = plan.add_expression(ExpressionSource {
        language,
        source,
        mode: ExpressionMode::Value,
        span: Default::default(),
    });
    let nothing = NodeKind::Pipeline(Pipeline { tasks: Vec::new() });
    plan.root = plan.add_node(Node { hidden: true, ..Node::new("orders", "workflow", None, nothing) });
    let steps = [("check", "placed", "checked"), ("charge", "checked", "done")];
    let places = steps.map(|(name, accepts, produces)| {
        let body = NodeKind::single_task(Action::Effect(Effect::new(produces, input)));
        let body = plan.add_node(Node::new(name, "step", Some(plan.root), body));
        let place = NetPlace::new(name, vec![accepts.into()], body);
        NetPlace { produces: vec![produces.into()], ..place }
    });
    let net = Net::new(places.to_vec(), "placed", NetEnd::Stop("done".into()));
    plan.nodes[0].kind = NodeKind::Net(Net { publishes_slots: true, ..net });
    plan
}

#[test]
fn a_run_of_another_program_is_drawn() {
    let place = TestDir::new();
    let tools = ["checked", "done"].into_iter().fold(Tools::new(), |tools, kind| {
        tools.with_fn(kind, move |_| async move { TaskOutcome::success(Value::object([("kind", kind)])) })
    });
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let store = SqliteStore::open(&place.path(".windlass"), SqliteOptions::default()).expect("a store");
        let store: Arc<dyn Store> = Arc::new(store);
        let options = EngineOptions { tools, languages: vec![Arc::new(ForeignLanguage)], ..EngineOptions::default() };
        let engine = RuntimeEngine::new(store, options).expect("an engine");
        let (plan, _) = engine.add_plan(foreign_plan()).expect("a plan");
        let named = RunStartOptions { id: Some("o1".to_owned()), ..RunStartOptions::default() };
        let mut run = engine.start(plan, Value::Null, named).await.expect("started");
        run.wait().await.expect("ended");
    });
    let drawn = place.windlass(&["graph", "--run", "o1"]);
    drawn.exits(0).has("run o1 of orders: succeeded").has("check<br/>step").has("charge<br/>step");
    let steps = place.json(&["graph", "--run", "o1", "--json"]);
    let states: Vec<_> =
        steps["nodes"].as_array().expect("nodes").iter().filter(|node| node["kind"] == "step").collect();
    assert!(states.len() == 2 && states.iter().all(|node| node["run"]["status"] == "succeeded"), "{steps}");
}

mod parcels {
    use serde::{Deserialize, Serialize};
    use windlass::{All, Event, RetryPolicy, StepError, StepFailed, Workflow};

    #[derive(Event, Serialize, Deserialize)]
    #[event(name = "order.placed", start)]
    pub(crate) struct OrderPlaced {
        pub parcels: u64,
    }

    #[derive(Event, Serialize, Deserialize)]
    #[event(name = "parcel.wanted")]
    struct ParcelWanted {
        number: u64,
    }

    #[derive(Event, Serialize, Deserialize)]
    #[event(name = "parcel.sent")]
    struct ParcelSent {
        number: u64,
    }

    #[derive(Debug, Event, Serialize, Deserialize)]
    #[event(name = "order.done", stop)]
    pub(crate) struct OrderDone {
        pub sent: u64,
    }

    /// Parcel 1 fails twice and for good; a replacement is sent instead.
    pub(crate) fn workflow() -> Workflow {
        let builder = Workflow::builder("parcels")
            .step("split", |order: OrderPlaced| async move {
                Ok((0..order.parcels).map(|number| ParcelWanted { number }).collect::<Vec<_>>())
            })
            .step("ship", |parcel: ParcelWanted| async move {
                // Later parcels end first.
                for _ in parcel.number..5 {
                    tokio::task::yield_now().await;
                }
                match parcel.number {
                    1 => Err(StepError::new("Lost", "the parcel is lost")),
                    number => Ok(ParcelSent { number }),
                }
            })
            .workers(3)
            .retry(RetryPolicy::fixed(std::time::Duration::from_millis(1)).attempts(2))
            .step("gather", |sent: All<ParcelSent>| async move { Ok(OrderDone { sent: sent.len() as u64 }) })
            .on_failure("again", |_: StepFailed| async move { Ok(ParcelWanted { number: 9 }) });
        builder.build().expect("a workflow")
    }
}

#[test]
fn a_rust_workflow_is_drawn_with_each_step_run() {
    let place = TestDir::new();
    let workflow = parcels::workflow();
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(async {
        let engine = windlass::Engine::open(place.path(".windlass")).workflow(&workflow).build().expect("an engine");
        let run = engine.start(&workflow, parcels::OrderPlaced { parcels: 4 }).id("p1").await.expect("started");
        let done: parcels::OrderDone = run.result().await.expect("a result");
        assert_eq!(done.sent, 4);
        engine.close().await;
    });
    let drawn = place.json(&["graph", "--run", "p1", "--json"]);
    let nodes = drawn["nodes"].as_array().expect("nodes");
    let edges = drawn["edges"].as_array().expect("edges");
    let named = |name: &str| nodes.iter().filter(|node| node["name"] == name).collect::<Vec<_>>();
    let ships = named("ship");
    let failed: Vec<_> = ships.iter().filter(|ship| ship["run"]["status"] == "failed").collect();
    assert_eq!((ships.len(), failed.len()), (5, 1), "{drawn:#}");
    let (code, tries) = (&failed[0]["run"]["error"], &failed[0]["run"]["attempts"]);
    assert_eq!((code, tries), (&"Lost".into(), &2.into()));
    assert!(ships.iter().all(|ship| ship["run"]["status"] == "failed" || ship["run"]["attempts"] == 1), "{drawn:#}");
    let led = |from: &serde_json::Value, to: &serde_json::Value| {
        edges.iter().find(|edge| edge["from"] == from["id"] && edge["to"] == to["id"]).map(|edge| &edge["event"])
    };
    assert_eq!(led(named("start")[0], named("split")[0]), Some(&"order.placed".into()));
    assert_eq!(led(failed[0], named("again")[0]), Some(&"step.failed".into()), "{drawn:#}");
    let gathered = ships.iter().filter(|ship| led(ship, named("gather")[0]) == Some(&"parcel.sent".into()));
    assert_eq!(gathered.count(), 4, "{drawn:#}");
    assert_eq!(led(named("gather")[0], named("end")[0]), Some(&"order.done".into()));
    assert_eq!(drawn["notes"].as_array().map(Vec::len), Some(1), "nothing is unsure: {drawn:#}");
    place.windlass(&["graph", "--run", "p1", "--format", "svg"]).exits(0).has("class=\"failed\"");
}
