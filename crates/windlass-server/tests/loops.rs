//! Loops, iterations, strips, graphs, timelines, journals and large values over the API.

use crate::common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use axum::http::Method;
use common::{BROKEN, HELD, World, counting};
use serde_json::{Value as Json, json};
use windlass_core::{IterationRecord, Limits, Status};
use windlass_runtime::codec::{IterationPack, encode};
use windlass_server::ServerOptions;
use windlass_server::views::ReaderViews;
use windlass_store::{IterationOutcome, IterationRow, MemoryStore, NewRun, RunBatch, Store};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_value::{BlobHash, Duration, Timestamp, Value};

#[tokio::test]
async fn loops_are_listed_with_their_iterations() {
    let world = World::new();
    world.register(&counting("count", 25)).await;
    world.run("count", "r1").await;
    let loops = world.get("/api/v1/runs/r1/loops").await.expect_status(200);
    let expected = json!({ "loop": "count", "kind": "until", "iterations": 25, "retained": 25, "failed": 0, "reason": "condition" });
    assert_eq!(loops["items"], json!([expected]));
    let page = world.get("/api/v1/runs/r1/iterations?loop=count&from=10&limit=5").await.expect_status(200);
    let iterations: Vec<&Json> =
        page["iterations"].as_array().expect("iterations").iter().map(|iteration| &iteration["iteration"]).collect();
    assert_eq!(iterations, [10, 11, 12, 13, 14].map(Json::from).iter().collect::<Vec<_>>());
    assert_eq!((&page["next"], &page["total"], &page["failed"]), (&json!(15), &json!(25), &json!(0)));
    let none = world.get("/api/v1/runs/r1/iterations?loop=count&failed=true").await.expect_status(200);
    assert_eq!((&none["iterations"], &none["total"]), (&json!([]), &json!(25)));
    let strip = world.get("/api/v1/runs/r1/strip?loop=count&cells=4").await.expect_status(200);
    assert_eq!(strip["iterations"], 25);
    assert_eq!(strip["cells"][3], json!({ "from": 21, "to": 24, "succeeded": 4, "failed": 0, "other": 0 }));
    assert_eq!(
        world.get("/api/v1/runs/r1/iterations?loop=cuont").await.expect_status(404)["hint"],
        "did you mean `count`?"
    );
    world.get("/api/v1/runs/r1/strip?loop=count&cells=0").await.expect_status(400);
    world.get("/api/v1/runs/r1/iterations").await.expect_status(400);
}

const SOME_FAIL: &str = r#"{
  "name": "some",
  "actions": {
    "each": {
      "type": "foreach",
      "foreach": [{ "id": "a", "n": "1" }, { "id": "b", "n": "x" }, { "id": "c", "n": "3" }],
      "actions": { "read1": { "type": "Compose", "inputs": "@int(item()?['n'])" } }
    }
  }
}"#;

/// A failed iteration shows its item, its path in the run, and its location in the definition.
#[tokio::test]
async fn a_failed_iteration_has_its_item_path_and_location() {
    let world = World::new();
    world.register(SOME_FAIL).await;
    world.run("some", "r1").await;
    let page = world.get("/api/v1/runs/r1/iterations?loop=each&failed=true").await.expect_status(200);
    let iteration = &page["iterations"][0];
    assert_eq!((&iteration["item"], &iteration["path"]), (&json!({ "id": "b", "n": "x" }), &json!("each[1]")));
    assert_eq!(
        (&iteration["error"]["path"], &iteration["error"]["position"]["line"]),
        (&json!("each[1].read1"), &json!(7))
    );
    let good = world.get("/api/v1/runs/r1/iterations?loop=each&limit=1").await.expect_status(200);
    assert_eq!((&good["iterations"][0]["item"]["id"], &good["iterations"][0]["error"]), (&json!("a"), &json!(null)));
}

/// Values that a definition redacts are redacted in its iterations as well.
#[tokio::test]
async fn no_items_are_retained_where_values_are_redacted() {
    let world = World::new();
    let secure = r#""runtimeConfiguration": { "secureData": { "properties": ["inputs"] } }, "inputs""#;
    world.register(&SOME_FAIL.replace(r#""inputs""#, secure)).await;
    world.run("some", "r1").await;
    let page = world.get("/api/v1/runs/r1/iterations?loop=each").await.expect_status(200);
    assert_eq!(page["iterations"].as_array().map(Vec::len), Some(3));
    assert!(
        page["iterations"].as_array().expect("iterations").iter().all(|iteration| iteration.get("item").is_none()),
        "{page}"
    );
}

/// Writes a run whose loop has this many iterations, of which every thousandth failed.
fn write_run_with_iterations(store: &dyn Store, iterations: u64) {
    let create = NewRun {
        execution_id: 1,
        plan: BlobHash([0; 32]),
        definition: "x".to_owned(),
        dialect: "loom".to_owned(),
        owner: None,
        created_at: Timestamp(0),
        parent: None,
        cancel_request_id: None,
        max_tree_runs: u64::MAX,
        options: Vec::new(),
        labels: Default::default(),
    };
    let record = |index: u64| IterationRecord {
        loop_path: "".into(),
        index,
        status: if index % 1_000 == 7 { Status::Failed } else { Status::Succeeded },
        started_at: Timestamp(index as i64),
        duration: Duration::from_ms(1),
        condition: Some(false),
        result: Value::from(index),
        error: None,
        reason: None,
        item: None,
        verdict: None,
    };
    let row = |first: u64, last: u64, failed: bool| IterationRow {
        loop_path: "sync".into(),
        first,
        last,
        outcome: if failed { IterationOutcome::Failed } else { IterationOutcome::Succeeded },
        body: encode(&IterationPack((first..=last).map(record).collect())),
    };
    let mut rows = Vec::new();
    let mut from = 0;
    while from < iterations {
        let failed = from / 1_000 * 1_000 + 7;
        let failed = if failed < from { failed + 1_000 } else { failed };
        if failed == from {
            rows.push(row(from, from, true));
            from += 1;
            continue;
        }
        let to = (from + 99).min(failed - 1).min(iterations - 1);
        rows.push(row(from, to, false));
        from = to + 1;
    }
    let batch =
        RunBatch { run: "big".into(), owner_epoch: 1, create: Some(create), iterations: rows, ..RunBatch::default() };
    store.append(vec![batch]).expect("a commit");
}

#[tokio::test]
async fn a_hundred_thousand_iterations_are_paged_and_drawn_quickly() {
    let folder = tempfile::tempdir().expect("a folder");
    let stores: [Arc<dyn Store>; 2] = [
        Arc::new(MemoryStore::new()),
        Arc::new(SqliteStore::open(&folder.path().join("store"), SqliteOptions::default()).expect("a store")),
    ];
    for store in stores {
        write_run_with_iterations(store.as_ref(), 100_000);
        let world = World::on(store);
        let begun = Instant::now();
        let page = world.get("/api/v1/runs/big/iterations?loop=sync&from=99950&limit=100").await.expect_status(200);
        assert_eq!((page["iterations"].as_array().map(Vec::len), &page["next"]), (Some(50), &json!(null)));
        assert_eq!((&page["total"], &page["failed"]), (&json!(100_000), &json!(100)));
        let failed =
            world.get("/api/v1/runs/big/iterations?loop=sync&from=50000&limit=3&failed=true").await.expect_status(200);
        let iterations: Vec<&Json> = failed["iterations"]
            .as_array()
            .expect("iterations")
            .iter()
            .map(|iteration| &iteration["iteration"])
            .collect();
        assert_eq!(iterations, [50_007, 51_007, 52_007].map(Json::from).iter().collect::<Vec<_>>());
        assert_eq!(failed["next"], 52_008);
        let strip = world.get("/api/v1/runs/big/strip?loop=sync&cells=100").await.expect_status(200);
        let cells = strip["cells"].as_array().expect("cells");
        assert!(cells.iter().all(|cell| cell["succeeded"] == 999 && cell["failed"] == 1 && cell["other"] == 0));
        // Far less on an idle machine: this one may be slow and busy.
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_run_is_drawn_while_it_runs() {
    let world = World::new();
    for definition in [HELD, BROKEN, counting("count", 12).as_str()] {
        world.register(definition).await;
    }
    world.start("held", "r1").await;
    let node = |graph: &Json, name: &str| -> Json {
        let nodes = graph["nodes"].as_array().expect("nodes");
        nodes.iter().find(|node| node["name"] == name).cloned().unwrap_or_default()
    };
    let begun = world.get("/api/v1/runs/r1/graph").await.expect_status(200);
    assert_eq!(node(&begun, "wait")["run"]["status"], "running");
    world.open("gate");
    world.until_status("r1", "succeeded").await;
    let ended = world.get("/api/v1/runs/r1/graph").await.expect_status(200);
    assert_eq!(
        (&node(&ended, "wait")["run"]["status"], &node(&ended, "wait")["path"]),
        (&json!("succeeded"), &json!("wait"))
    );
    world.run("count", "r2").await;
    let count = node(&world.get("/api/v1/runs/r2/graph").await.expect_status(200), "count");
    assert_eq!((&count["loop"], &count["run"]["iterations"]["ended"]), (&json!(true), &json!(12)));

    world.run("broken", "r3").await;
    let steps = world.get("/api/v1/runs/r3/steps").await.expect_status(200);
    let listed: Vec<(&Json, &Json)> =
        steps["items"].as_array().expect("items").iter().map(|step| (&step["path"], &step["status"])).collect();
    assert_eq!(listed, [(&json!("first"), &json!("succeeded")), (&json!("second"), &json!("failed"))]);
    assert_eq!(steps["items"][1]["error"]["position"]["line"], 5);
    let iterations = world.get("/api/v1/runs/r2/steps?parent=count&limit=5").await.expect_status(200);
    assert_eq!(
        (&iterations["items"][4]["path"], &iterations["items"][4]["kind"]),
        (&json!("count[4]"), &json!("iteration"))
    );
    let rest =
        world.get(&format!("/api/v1/runs/r2/steps?parent=count&from={}", iterations["next"])).await.expect_status(200);
    assert_eq!((rest["items"].as_array().map(Vec::len), &rest["next"]), (Some(7), &json!(null)));
    let inner = world.get("/api/v1/runs/r2/steps?parent=count[4]").await.expect_status(200);
    assert_eq!(inner["items"][0]["path"], "count[4].add");
}

/// From an iteration on, steps of a long loop publish no events of their own; their boxes count all the same.
#[tokio::test]
async fn every_box_counts_all_iterations_of_a_long_loop() {
    let definition = json!({
        "name": "long",
        "actions": {
            "each": {
                "type": "foreach",
                "foreach": "@range(0, 400)",
                "runtimeConfiguration": { "concurrency": { "repetitions": 1 } },
                "actions": {
                    "half": { "type": "compose", "inputs": "@div(100, mod(item(), 40))" },
                    "odd": {
                        "type": "if",
                        "expression": "@equals(mod(item(), 2), 1)",
                        "actions": { "keep": { "type": "compose", "inputs": "@item()" } }
                    }
                }
            }
        }
    });
    let limits = Limits { loop_quiet_from_iteration: 40, slice_iterations: 7, ..Limits::default() };
    let world = World::with_limits(Arc::new(MemoryStore::new()), ServerOptions::default(), limits);
    world.register(&definition.to_string()).await;
    world.run("long", "r1").await;
    let graph = world.get("/api/v1/runs/r1/graph").await.expect_status(200);
    let node = |name: &str| -> Json {
        let nodes = graph["nodes"].as_array().expect("nodes");
        nodes.iter().find(|node| node["name"] == name).map(|node| node["run"].clone()).unwrap_or_default()
    };
    let (each, half, keep) = (node("each"), node("half"), node("keep"));
    assert_eq!((&each["iterations"]["ended"], &each["iterations"]["failed"]), (&json!(400), &json!(10)));
    assert_eq!((&half["runs"], &half["counts"]), (&json!(400), &json!({"succeeded": 390, "failed": 10})), "{half}");
    assert_eq!(keep["counts"], json!({"succeeded": 200, "skipped": 200}), "{keep}");
    let listed = world.get("/api/v1/runs/r1/loops").await.expect_status(200);
    assert_eq!((&listed["items"][0]["iterations"], &listed["items"][0]["failed"]), (&json!(400), &json!(10)));
}

/// A slow iteration may be far behind the others when its loop is cancelled.
#[tokio::test]
async fn a_cancelled_iteration_is_never_counted_as_failed() {
    let definition = json!({
        "name": "behind",
        "actions": {
            "each": {
                "type": "foreach", "foreach": "@range(0, 600)", "runtimeConfiguration": { "concurrency": { "repetitions": 2 } },
                "actions": {
                    "slow": {
                        "type": "if",
                        "expression": "@equals(item(), 0)",
                        "actions": { "wait": { "type": "activity", "inputs": { "activityName": "gate", "input": "never" } } }
                    }
                }
            }
        }
    });
    let world = World::new();
    world.register(&definition.to_string()).await;
    world.start("behind", "r1").await;
    let begun = Instant::now();
    while world.get("/api/v1/runs/r1/loops").await.expect_status(200)["items"][0]["live"]["ended"] != 599 {
        assert!(begun.elapsed() < common::HANG, "only the first iteration waits");
    }
    world.post("/api/v1/runs/r1/cancel", json!({})).await.expect_status(202);
    world.until_status("r1", "cancelled").await;
    let listed = world.get("/api/v1/runs/r1/loops").await.expect_status(200);
    assert_eq!(
        (&listed["items"][0]["iterations"], &listed["items"][0]["failed"]),
        (&json!(600), &json!(0)),
        "{listed}"
    );
    let strip = world.get("/api/v1/runs/r1/strip?loop=each&cells=2").await.expect_status(200);
    assert_eq!((&strip["cells"][0]["failed"], &strip["cells"][0]["other"]), (&json!(0), &json!(1)), "{strip}");
    let failed = world.get("/api/v1/runs/r1/iterations?loop=each&failed=true").await.expect_status(200);
    assert_eq!((&failed["iterations"], &failed["failed"]), (&json!([]), &json!(0)));
}

/// A restarted run shows the work that it took over, as if it had done it.
#[tokio::test]
async fn a_restarted_run_counts_what_it_inherits() {
    let definition = json!({
        "name": "restarted",
        "actions": {
            "before": {
                "type": "foreach", "foreach": "@range(0, 3)",
                "actions": { "one": { "type": "compose", "inputs": "@item()" } }
            },
            "each": {
                "type": "foreach", "foreach": "@range(0, 20)", "runtimeConfiguration": { "concurrency": { "repetitions": 1 } },
                "actions": { "part": { "type": "compose", "inputs": "@div(1, mod(item(), 5))" } },
                "runAfter": { "before": ["Succeeded"] }
            }
        }
    });
    let world = World::new();
    world.register(&definition.to_string()).await;
    let first = world.run("restarted", "r1").await;
    assert_eq!(first["status"], "failed", "items 0, 5, 10 and 15 fail");
    let body = json!({ "from": "each[12]", "id": "r2" });
    world.post("/api/v1/runs/r1/restart", body).await.expect_status(202);
    world.until_status("r2", "failed").await;
    let facts = async |run: &str| {
        let loops = world.get(&format!("/api/v1/runs/{run}/loops")).await.expect_status(200)["items"].clone();
        let strip = world.get(&format!("/api/v1/runs/{run}/strip?loop=each&cells=20")).await.expect_status(200);
        let graph = world.get(&format!("/api/v1/runs/{run}/graph")).await.expect_status(200);
        let nodes = graph["nodes"].as_array().expect("nodes").iter();
        let counts: Vec<Json> = nodes
            .map(|node| json!([node["name"], node["run"]["runs"], node["run"]["counts"], node["run"]["iterations"]]))
            .collect();
        let iterations = world.get(&format!("/api/v1/runs/{run}/iterations?loop=each")).await.expect_status(200);
        let statuses: Vec<Json> =
            iterations["iterations"].as_array().expect("iterations").iter().map(|one| one["status"].clone()).collect();
        json!({ "loops": loops, "cells": strip["cells"], "counts": counts, "statuses": statuses })
    };
    let (old, new) = (facts("r1").await, facts("r2").await);
    assert_eq!(old["loops"][1]["failed"], 4);
    assert_eq!(new, old);
    // The inherited history belongs to the new run: it stays when the source run is removed.
    world.request(Method::DELETE, "/api/v1/runs/r1", None).await.expect_status(200);
    let later = world.get("/api/v1/runs/r2/iterations?loop=each").await.expect_status(200);
    assert_eq!((&later["total"], &later["failed"], &later["not_retained"]), (&json!(20), &json!(4), &json!([])));
}

/// A request does not wait: the state is drawn first, the events as soon as they are read.
#[tokio::test]
async fn a_run_with_very_many_events_is_drawn_from_its_state_first() {
    let mut views = ReaderViews::default();
    views.painters.read_timeout = std::time::Duration::ZERO;
    let store = Arc::new(MemoryStore::new());
    let world = World::with_views(store, ServerOptions::default(), Limits::default(), views);
    world.register(&counting("count", 50)).await;
    world.run("count", "r1").await;
    let iterations = |graph: &Json| -> Json {
        let nodes = graph["nodes"].as_array().expect("nodes");
        nodes
            .iter()
            .find(|node| node["name"] == "count")
            .map(|node| node["run"]["iterations"].clone())
            .unwrap_or_default()
    };
    let first = world.get("/api/v1/runs/r1/graph").await.expect_status(200);
    assert!(first["notes"].to_string().contains("more events than have been read so far"), "{first}");
    assert_eq!((&iterations(&first)["ended"], &iterations(&first)["reason"]), (&json!(50), &json!("condition")));
    let begun = Instant::now();
    loop {
        let later = world.get("/api/v1/runs/r1/graph").await.expect_status(200);
        if !later["notes"].to_string().contains("more events than have been read so far") {
            assert_eq!(iterations(&later)["ended"], 50);
            break;
        }
        assert!(begun.elapsed() < common::HANG, "it is never read");
    }
}

/// The first page has the entries that have been read, and says where the next one begins.
#[tokio::test]
async fn the_steps_of_a_run_with_very_many_events_come_page_by_page() {
    let mut views = ReaderViews::default();
    views.painters.read_timeout = std::time::Duration::ZERO;
    let world = World::with_views(Arc::new(MemoryStore::new()), ServerOptions::default(), Limits::default(), views);
    world.register(&counting("count", 400)).await;
    world.run("count", "r1").await;
    let first = world.get("/api/v1/runs/r1/steps").await.expect_status(200);
    assert!(!first["items"].as_array().expect("items").is_empty(), "{first}");
    assert_eq!((&first["partial"], first["next"].is_u64()), (&json!(true), true), "{first}");
    let begun = Instant::now();
    while world.get("/api/v1/runs/r1/steps").await.expect_status(200)["partial"] == true {
        assert!(begun.elapsed() < common::HANG, "it is never read");
    }
    let rest = world.get(&format!("/api/v1/runs/r1/steps?from={}", first["next"])).await.expect_status(200);
    assert_eq!((&rest["partial"], &rest["next"]), (&json!(false), &json!(null)), "{rest}");
}

#[tokio::test]
async fn the_journal_is_paged_tick_by_tick() {
    let world = World::new();
    world.register(BROKEN).await;
    let run = world.run("broken", "r1").await;
    let all = world.get("/api/v1/runs/r1/journal").await.expect_status(200);
    let ticks: Vec<&Json> = all["items"].as_array().expect("items").iter().map(|tick| &tick["tick"]).collect();
    let count = run["ticks"].as_u64().expect("ticks");
    assert_eq!(ticks.len() as u64, count);
    assert_eq!((&all["items"][0]["tick"], &all["items"][0]["events"][0]), (&json!(0), &json!(1)));
    let page = world.get("/api/v1/runs/r1/journal?from=0&limit=1").await.expect_status(200);
    assert_eq!((&page["items"][0], &page["next"]), (&all["items"][0], &json!(1)));
    let rest = world.get("/api/v1/runs/r1/journal?from=1").await.expect_status(200);
    assert_eq!((&rest["items"][0], &rest["next"]), (&all["items"][1], &json!(null)));
}

/// A tool's private state is in the journal for the run itself, and in nothing that is shown.
#[tokio::test]
async fn the_journal_does_not_show_private_state() {
    let world = World::new();
    let definition =
        json!({ "name": "thinks", "actions": { "a": { "type": "activity", "inputs": { "activityName": "think" } } } });
    world.register(&definition.to_string()).await;
    assert_eq!(world.run("thinks", "r1").await["status"], "succeeded");
    let journal = world.get("/api/v1/runs/r1/journal").await.text();
    assert!(journal.contains("done") && journal.contains("\"private\""), "{journal}");
    for path in ["/journal", "/events?limit=1000", "", "/steps"] {
        let shown = world.get(&format!("/api/v1/runs/r1{path}")).await.text();
        assert!(!shown.contains("a private thought"), "{path}: {shown}");
    }
}

#[tokio::test]
async fn large_values_are_served_to_readers_of_the_run_that_wrote_them() {
    let limits = Limits::default();
    let world = World::with_limits(Arc::new(MemoryStore::new()), ServerOptions::default(), limits);
    let text = "x".repeat(200_000);
    let big = json!({ "name": "big", "actions": { "make": { "type": "activity", "inputs": { "activityName": "echo", "input": text } } } });
    world.register(&big.to_string()).await;
    world.register(HELD).await;
    let ended = world.run("big", "r1").await;
    // Values that are shown with the run are inlined.
    assert!(ended.to_string().len() > 200_000);
    world.start("held", "other").await;
    let page = world.get("/api/v1/runs/r1/events?limit=1000").await.text();
    assert!(page.len() < 200_000, "events have references");
    let at = page.find("\"key\":\"").expect("a reference") + 7;
    let hash = &page[at..at + 64];
    let value = world.get(&format!("/api/v1/runs/r1/values/{hash}")).await.expect_status(200);
    assert!(value.to_string().contains(&text));
    world.get(&format!("/api/v1/runs/other/values/{hash}")).await.expect_status(404);
    world.get("/api/v1/runs/r1/values/zz").await.expect_status(404);
}

/// Collects the references in a JSON value.
fn references(value: &Json, found: &mut Vec<Json>) {
    match value {
        Json::Object(map) if map.len() == 1 && map.contains_key("ref") => found.push(map["ref"].clone()),
        Json::Object(map) => map.values().for_each(|inner| references(inner, found)),
        Json::Array(items) => items.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}

/// Returns the hint that describes a value; a chunked list also has the number of its items.
fn expected_hint(value: &Json, hint: &Json) -> Json {
    match value {
        Json::Object(map) if map.len() > 32 => {
            json!({"type": "object", "keys": map.keys().take(32).collect::<Vec<_>>(), "more_keys": map.len() - 32})
        }
        Json::Object(map) => json!({"type": "object", "keys": map.keys().collect::<Vec<_>>()}),
        Json::Array(_) if hint["chunked"] == true => json!({"type": "array", "items": hint["items"], "chunked": true}),
        Json::Array(items) => json!({"type": "array", "items": items.len()}),
        _ => json!({"type": "string"}),
    }
}

/// The bytes of a reference's key have its size and checksum, and its hint describes them. The same holds for the
/// references inside.
#[tokio::test]
async fn references_can_be_verified() {
    let world = World::new();
    let text = "ä€\"\n".repeat(12_000);
    let wide: serde_json::Map<String, Json> =
        (10..50).map(|at| (format!("key{at}"), json!("y".repeat(3_000)))).collect();
    let echo = |input: &str| json!({"type": "activity", "inputs": {"activityName": "echo", "input": input}});
    let big = json!({ "name": "big", "actions": {
        "text": echo("@triggerBody().text"), "object": echo("@triggerBody().object"), "list": echo("@triggerBody().list"),
        "wide": echo("@triggerBody().wide"),
        "each": {"type": "foreach", "foreach": "@range(0, 3)", "actions": {"item": echo("@triggerBody().text")}} } });
    world.register(&big.to_string()).await;
    let object = json!({"note": text, "rows": [1.0, 2, null]});
    let input = json!({"text": text, "object": object, "list": [text, text], "wide": wide});
    let start = json!({"definition": "big", "id": "r1", "input": input, "wait_ms": 60_000});
    world.post("/api/v1/runs", start).await.expect_status(200);
    let events = world.get("/api/v1/runs/r1/events?limit=1000").await.json();
    let (mut left, mut hints) = (Vec::new(), BTreeSet::new());
    references(&events, &mut left);
    while let Some(reference) = left.pop() {
        let key = reference["key"].as_str().expect("a key");
        let address = format!("/api/v1/runs/r1/values/{key}");
        let reply = world.get(&address).await;
        let value = reply.expect_status(200);
        assert_eq!(reference["size"], json!(reply.body.len()), "{reference}");
        let checksum = format!("blake3:{}", blake3::hash(&reply.body).to_hex());
        assert_eq!(reference["checksum"], json!(checksum), "{reference}");
        let hint = &reference["schema_hint"];
        assert_eq!(*hint, expected_hint(&value, hint), "{reference}");
        hints.insert(hint.to_string());
        references(&value, &mut left);
        let whole = world.get(&format!("{address}?resolve=true")).await.text();
        assert!(!whole.contains("\"ref\":"), "{reference}");
    }
    for part in [r#""string""#, r#""keys":["note","rows"]"#, r#""more_keys":8"#, r#""items":2"#] {
        assert!(hints.iter().any(|hint| hint.contains(part)), "no {part} in {hints:?}");
    }
}

/// The first iteration never ends: the loop's time limit ends it.
const CUT_OFF: &str = r#"{"name": "cut", "actions": {"poll": {"type": "until", "condition": "@false", "limit": {"count": 5, "timeout": "PT0.2S"},
    "actions": {"hold": {"type": "activity", "inputs": {"activityName": "gate", "input": "never"}}}}}}"#;

#[tokio::test]
async fn an_iteration_cancelled_by_the_time_limit_has_not_failed() {
    let world = World::new();
    world.register(CUT_OFF).await;
    world.run("cut", "r1").await;
    let all = world.get("/api/v1/runs/r1/iterations?loop=poll").await.expect_status(200);
    assert_eq!((&all["iterations"][0]["status"], &all["failed"]), (&"cancelled".into(), &0.into()), "{all}");
    let failed = world.get("/api/v1/runs/r1/iterations?loop=poll&failed=true").await.expect_status(200);
    assert_eq!(failed["iterations"].as_array().map(Vec::len), Some(0), "{failed}");
    let cell = &world.get("/api/v1/runs/r1/strip?loop=poll").await.expect_status(200)["cells"][0];
    assert_eq!((&cell["failed"], &cell["other"]), (&0.into(), &1.into()), "{cell}");
}
