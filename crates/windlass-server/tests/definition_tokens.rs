//! Tokens for single definitions: what they may see and do, walked over every route of the document.

use crate::common;

use std::sync::Arc;

use axum::http::{Method, header};
use common::{Reply, World, counting, in_time, request};
use http_body_util::BodyExt;
use serde_json::{Value as Json, json};
use windlass_store::MemoryStore;

const MINE: &str = r#"{"name": "mine", "triggers": {"new": {"type": "request"}},
    "actions": {"wait": {"type": "activity", "inputs": {"activityName": "gate", "input": "gate"}}}}"#;

/// A server with a waiting run of each of two definitions.
struct TwoDefinitions {
    world: World,
    token: String,
}

impl TwoDefinitions {
    async fn new(scopes: &[&str]) -> TwoDefinitions {
        let world = World::with_stored_tokens(Arc::new(MemoryStore::new()));
        for (definition, run) in [("mine", "m-run"), ("secret/plans", "zz-run")] {
            world.register(&MINE.replace("mine", definition)).await;
            world.start(definition, run).await;
            world.until_status(run, "running").await;
        }
        let body = json!({ "name": "limited", "scopes": scopes, "definitions": ["mine"] });
        let created = world.post("/api/v1/tokens", body).await.expect_status(201);
        assert_eq!(created["definitions"], json!(["mine"]));
        let token = created["token"].as_str().unwrap().to_owned();
        TwoDefinitions { world, token }
    }

    async fn ask(&self, method: &str, path: &str, body: Option<Json>) -> Reply {
        self.world.send(self.request(method, path, body)).await
    }

    fn request(&self, method: &str, path: &str, body: Option<Json>) -> axum::http::Request<axum::body::Body> {
        let mut request = request(method.parse().unwrap(), path, body);
        let bearer = format!("Bearer {}", self.token).parse().unwrap();
        request.headers_mut().insert(header::AUTHORIZATION, bearer);
        request
    }
}

/// The operations of the document with their templates and scopes.
async fn operations(world: &World) -> Vec<(String, String, String)> {
    let document = world.get("/api/v1/openapi.json").await.json();
    let mut found = Vec::new();
    for (template, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let scope = operation["security"][0]["token"][0].as_str();
            found.extend(scope.map(|scope| (method.to_uppercase(), template.clone(), scope.to_owned())));
        }
    }
    assert!(found.len() > 40, "the document has lost its routes");
    found
}

#[tokio::test]
async fn no_route_shows_or_changes_other_definitions() {
    let limited = TwoDefinitions::new(&["run", "control"]).await;
    let own_paths = |path: &str| path.replace("{run}", "m-run").replace("{name}", "mine");
    let mut listed = 0;
    for (method, template, scope) in operations(&limited.world).await {
        // A stream without an end, and the sign-in of the token itself.
        if ["/api/v1/runs/changes", "/api/v1/session"].contains(&template.as_str()) {
            continue;
        }
        let of_other = template.replace("{run}", "zz-run").replacen("{name}", "secret%2Fplans", 1);
        let path = of_other.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
        let path = path.collect::<Vec<_>>().join("/");
        let body = (method != "GET").then(|| json!({ "definition": "secret/plans" }));
        let reply = limited.ask(&method, &path, body).await;
        let shown = format!("{method} {path}: {}", reply.text());
        let is_about_one = template.contains("/runs/{run}") || template.contains("/definitions/{name}");
        if is_about_one || ["admin", "work"].contains(&scope.as_str()) || method != "GET" {
            assert_eq!(reply.status, 403, "{shown}");
            continue;
        }
        // A list, or something about all definitions.
        assert!([200, 403].contains(&reply.status.as_u16()), "{shown}");
        assert!(!reply.text().contains("secret") && !reply.text().contains("zz-run"), "{shown}");
        listed += usize::from(reply.status == 200 && reply.text().contains("mine"));
    }
    assert_eq!(listed, 3, "runs, definitions and triggers");
    for path in ["/api/v1/runs/{run}", "/api/v1/runs/{run}/events", "/api/v1/definitions/{name}"] {
        limited.ask("GET", &own_paths(path), None).await.expect_status(200);
    }
    // Nothing was done to the other run, and no other route was reached.
    assert_eq!(limited.world.get("/api/v1/runs/zz-run").await.json()["status"], "running");
}

#[tokio::test]
async fn its_own_definition_is_started_and_controlled() {
    let limited = TwoDefinitions::new(&["run", "control"]).await;
    limited.ask("POST", "/api/v1/runs", Some(json!({"definition": "mine", "id": "m-2"}))).await.expect_status(202);
    limited.ask("POST", "/api/v1/runs/m-2/cancel", None).await.expect_status(202);
    limited.world.until_status("m-2", "cancelled").await;
    limited.ask("POST", "/api/v1/runs/m-2/retry", Some(json!({"id": "m-3"}))).await.expect_status(202);
    // The id of a run of another definition gives no access to it.
    let reused = json!({"definition": "mine", "id": "zz-run"});
    limited.ask("POST", "/api/v1/runs", Some(reused)).await.expect_status(409);
    limited.ask("POST", "/api/v1/runs/m-2/retry", Some(json!({"id": "zz-run"}))).await.expect_status(409);
    // Neither do its execution id, a filter, nor the parent of its child runs.
    let number = limited.world.get("/api/v1/runs/zz-run").await.json()["execution_id"].to_string();
    limited.ask("GET", &format!("/api/v1/runs/{}", number.trim_matches('"')), None).await.expect_status(403);
    limited.ask("GET", "/api/v1/runs?definition=secret/plans", None).await.expect_status(403);
    for query in ["?children=true", "?parent=zz-run", "?search=zz", "?limit=1"] {
        let runs = limited.ask("GET", &format!("/api/v1/runs{query}"), None).await.expect_status(200);
        assert!(!runs.to_string().contains("zz-run"), "{query}: {runs}");
    }
    let counts = limited.ask("GET", "/api/v1/runs/counts", None).await.expect_status(200);
    let total: u64 = counts["items"].as_array().unwrap().iter().filter_map(|one| one["runs"].as_u64()).sum();
    assert_eq!(total, 3, "{counts}");
    limited.ask("POST", "/api/v1/definitions/mine/disable", None).await.expect_status(200);
    // Webhooks take the token of their definition in place of a signature.
    limited.ask("POST", "/api/v1/definitions/mine/enable", None).await.expect_status(200);
    limited.ask("POST", "/hooks/mine/new", Some(json!({}))).await.expect_status(202);
    limited.ask("POST", "/hooks/secret%2Fplans/new", Some(json!({}))).await.expect_status(401);
}

#[tokio::test]
async fn the_feed_of_changes_has_only_its_runs() {
    let limited = TwoDefinitions::new(&["read"]).await;
    let (status, _, mut body) = limited.world.stream(limited.request("GET", "/api/v1/runs/changes", None)).await;
    assert_eq!(status, 200);
    limited.world.start("secret/plans", "zz-2").await;
    limited.world.register(&counting("other", 1)).await;
    limited.world.run("other", "zz-3").await;
    limited.world.start("mine", "m-2").await;
    let mut seen = String::new();
    while !seen.contains("m-2") {
        let frame = in_time(body.frame()).await.unwrap().unwrap().into_data().unwrap();
        seen.push_str(std::str::from_utf8(&frame).unwrap());
    }
    assert!(!seen.contains("zz-") && !seen.contains("secret"), "{seen}");
}

#[tokio::test]
async fn invalid_restrictions_are_rejected() {
    let world = World::with_stored_tokens(Arc::new(MemoryStore::new()));
    let long: Vec<String> = (0..101).map(|number| format!("d{number}")).collect();
    for (scopes, definitions, part) in [
        (json!(["admin"]), json!(["mine"]), "`admin`"),
        (json!(["read", "work"]), json!(["mine"]), "`work`"),
        (json!(["read"]), json!([]), "or for all"),
        (json!(["read"]), json!(["a\u{0}b"]), "cannot be the name"),
        (json!(["read"]), json!(long), "1 to 100"),
    ] {
        let body = json!({ "name": "x", "scopes": scopes, "definitions": definitions });
        let problem = world.request(Method::POST, "/api/v1/tokens", Some(body)).await.expect_status(422);
        assert!(problem["detail"].as_str().unwrap().contains(part), "{part}: {problem}");
    }
}

/// A token for several definitions sees the runs of all of them in one order, page by page.
#[tokio::test]
async fn pages_over_several_definitions_are_in_order() {
    let world = World::with_stored_tokens(Arc::new(MemoryStore::new()));
    for definition in ["a", "b", "c"] {
        world.register(&counting(definition, 1)).await;
    }
    for (number, definition) in ["a", "c", "b", "a", "b", "c", "b", "a"].iter().enumerate() {
        world.run(definition, &format!("{definition}-{number}")).await;
    }
    let body = json!({ "name": "two", "scopes": ["read"], "definitions": ["b", "a"] });
    let token = world.post("/api/v1/tokens", body).await.expect_status(201)["token"].as_str().unwrap().to_owned();
    let limited = TwoDefinitions { world, token };
    let (mut found, mut before) = (Vec::new(), String::new());
    loop {
        let page = limited.ask("GET", &format!("/api/v1/runs?limit=2{before}"), None).await.expect_status(200);
        found.extend(page["items"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned()));
        match page["next"].as_i64() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    assert_eq!(found, ["a-7", "b-6", "b-4", "a-3", "b-2", "a-0"]);
}
