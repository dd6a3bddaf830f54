//! Definitions over the API.

use crate::common;

use std::collections::BTreeMap;

use common::{BROKEN, HELLO, World, counting};
use serde_json::json;

#[tokio::test]
async fn a_definition_is_registered_once_and_versions_count_up() {
    let world = World::new();
    let first = world.post("/api/v1/definitions", json!({ "source": HELLO })).await.expect_status(201);
    assert_eq!((&first["name"], &first["version"], &first["is_new"]), (&json!("hello"), &json!(1), &json!(true)));
    let again = world.post("/api/v1/definitions", json!({ "source": HELLO })).await.expect_status(200);
    assert_eq!((&again["version"], &again["is_new"], &again["hash"]), (&json!(1), &json!(false), &first["hash"]));
    // The name of the request takes precedence.
    let named =
        world.post("/api/v1/definitions", json!({ "source": HELLO, "name": "team/hello" })).await.expect_status(201);
    assert_eq!((&named["name"], &named["version"]), (&json!("team/hello"), &json!(1)));
    let other = HELLO.replace("hi", "ho");
    assert_eq!(world.post("/api/v1/definitions", json!({ "source": other })).await.expect_status(201)["version"], 2);
    assert_eq!(world.get("/api/v1/definitions/hello").await.expect_status(200)["version"], 2);

    // Registering an earlier text again yields its version, which becomes current again.
    let back = world.post("/api/v1/definitions", json!({ "source": HELLO })).await.expect_status(201);
    assert_eq!(back["version"], 1);
    let newest = world.get("/api/v1/definitions/hello").await.expect_status(200);
    assert_eq!((&newest["version"], &newest["versions"], &newest["source"]), (&json!(1), &json!(2), &json!(HELLO)));
    let versions = world.get("/api/v1/definitions/hello/versions").await.expect_status(200);
    let numbers: Vec<_> = versions["items"].as_array().expect("items").iter().map(|one| &one["version"]).collect();
    assert_eq!(numbers, [&json!(2), &json!(1)]);
    assert_eq!(world.get("/api/v1/definitions/hello/versions/2").await.expect_status(200)["source"], other);
    world.get("/api/v1/definitions/hello/versions/3").await.expect_status(404);
    world.get("/api/v1/definitions/hello/versions/x").await.expect_status(404);
}

#[tokio::test]
async fn labels_are_part_of_a_version() {
    let world = World::new();
    // (labels, version, whether starts used another version before)
    let table = [
        (json!({}), 1, true),
        (json!({ "gpu": "yes" }), 2, true),
        (json!({ "gpu": "yes" }), 2, false),
        (json!({ "gpu": "no", "zone": "eu" }), 3, true),
        (json!({}), 1, true),
    ];
    for (labels, version, new) in table {
        let status = if new { 201 } else { 200 };
        let done =
            world.post("/api/v1/definitions", json!({ "source": HELLO, "labels": labels })).await.expect_status(status);
        assert_eq!((&done["version"], &done["is_new"]), (&json!(version), &json!(new)), "{labels}");
        let newest = world.get("/api/v1/definitions/hello").await.expect_status(200);
        assert_eq!(newest["labels"], labels);
        let hash = windlass_server::catalog::parse_hash(done["hash"].as_str().expect("a hash")).expect("a hash");
        let program = world.app.engine.program(&hash).expect("a program");
        let required_labels: BTreeMap<String, String> = windlass_runtime::CallerDefinition::from_plan(&program.plan)
            .labels
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        assert_eq!(json!(required_labels), labels, "labels required of workers");
    }
}

#[tokio::test]
async fn registered_definitions_survive_a_restart() {
    let world = World::new();
    world.register(HELLO).await;
    world.post("/api/v1/definitions/hello/disable", json!({})).await.expect_status(200);
    let later = World::on(world.store.clone());
    let seen = later.get("/api/v1/definitions/hello").await.expect_status(200);
    assert_eq!((&seen["version"], &seen["enabled"]), (&json!(1), &json!(false)));
    assert_eq!(later.run("hello", "r1").await["version"], 1);
}

#[tokio::test]
async fn every_problem_of_a_definition_has_its_location() {
    let world = World::new();
    let source = "{\n  \"name\": \"x\",\n  \"actions\": {\"a\": {\"type\": \"compsoe\", \"inputs\": 1}}\n}";
    let problem = world.post("/api/v1/definitions", json!({ "source": source })).await.expect_status(422);
    assert_eq!(problem["code"], "WND-3007");
    assert_eq!((&problem["problems"][0]["line"], &problem["problems"][0]["severity"]), (&json!(3), &json!("error")));
    let checked = world.post("/api/v1/definitions/check", json!({ "source": source })).await.expect_status(200);
    assert_eq!((&checked["valid"], &checked["problems"]), (&json!(false), &problem["problems"]));
    let checked = world.post("/api/v1/definitions/check", json!({ "source": BROKEN })).await.expect_status(200);
    assert_eq!((&checked["valid"], &checked["name"]), (&json!(true), &json!("broken")));
    assert_eq!(checked["graph"]["nodes"].as_array().map(Vec::len), Some(2));
    assert!(world.get("/api/v1/definitions").await.expect_status(200)["items"].as_array().is_some_and(Vec::is_empty));
}

#[tokio::test]
async fn definitions_are_listed_by_name_page_by_page() {
    let world = World::new();
    for name in ["b/two", "a", "c"] {
        world.register(&counting(name, 3)).await;
    }
    let page = world.get("/api/v1/definitions?limit=2").await.expect_status(200);
    let names = |page: &serde_json::Value| -> Vec<String> {
        let items = page["items"].as_array().expect("items");
        items.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!((names(&page), &page["next"]), (vec!["a".to_owned(), "b/two".to_owned()], &json!("b/two")));
    let rest = world.get("/api/v1/definitions?limit=2&after=b%2Ftwo").await.expect_status(200);
    assert_eq!((names(&rest), &rest["next"]), (vec!["c".to_owned()], &json!(null)));
    assert_eq!(names(&world.get("/api/v1/definitions?search=TWO").await.expect_status(200)), ["b/two"]);
    assert_eq!(world.get("/api/v1/definitions/b%2Ftwo").await.expect_status(200)["name"], "b/two");
    assert_eq!(
        world.get("/api/v1/definitions/b%2Ftwo/graph").await.expect_status(200)["nodes"].as_array().map(Vec::len),
        Some(3)
    );
    let hint = world.get("/api/v1/definitions/b%2Ftow").await.expect_status(404)["hint"].clone();
    assert_eq!(hint, "did you mean `b/two`?");
}

#[tokio::test]
async fn invalid_bodies_and_queries_are_rejected() {
    let world = World::new();
    let table = [
        (json!({ "sorce": "{}" }), 400, "did you mean `source`?"),
        (json!({ "source": "{}", "name": "a\u{0}b" }), 400, "up to 256 bytes"),
        (json!({ "source": "x".repeat(1_048_577) }), 413, "max_definition_bytes"),
    ];
    for (body, status, hint) in table {
        let problem = world.post("/api/v1/definitions", body).await.expect_status(status);
        assert!(problem["hint"].as_str().is_some_and(|given| given.contains(hint)), "{problem}");
    }
    let problem = world.get("/api/v1/definitions?limt=3").await.expect_status(400);
    assert_eq!(problem["hint"], "did you mean `limit`?");
    world.get("/api/v1/definitions?limit=0").await.expect_status(400);
}
