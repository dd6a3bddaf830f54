//! The OpenAPI document of the API, as a file that people and programs can read without a server.

use crate::common;

use std::collections::BTreeSet;

use common::World;
use serde_json::Value as Json;

/// Next to the other docs pages.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");

fn document() -> Json {
    let text = windlass_server::api::document().to_json().expect("a document");
    serde_json::from_str(&text).expect("JSON")
}

/// `UPDATE=1 cargo test -p windlass-server openapi` regenerates the file.
#[test]
fn the_document_matches_the_committed_file() {
    let now = serde_json::to_string_pretty(&document()).expect("JSON") + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, &now).expect("the file");
    }
    let kept = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(kept == now, "docs/openapi.json is outdated: UPDATE=1 cargo test -p windlass-server openapi");
}

#[test]
fn every_operation_is_described_in_full() {
    let document = document();
    assert_eq!(document["openapi"].as_str().map(|version| &version[..3]), Some("3.1"));
    let schemas = &document["components"]["schemas"];
    let mut missing = Vec::new();
    let mut ids = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let what = format!("{method} {path}");
            let mut must = |has: bool, part: &str| {
                if !has {
                    missing.push(format!("{what}: {part}"));
                }
            };
            must(operation["tags"].as_array().is_some_and(|tags| tags.len() == 1), "one tag");
            must(operation["summary"].as_str().is_some_and(|summary| !summary.is_empty()), "a summary");
            let responses = operation["responses"].as_object();
            must(responses.is_some_and(|all| all.keys().any(|status| status.starts_with('2'))), "a success response");
            for (status, response) in responses.into_iter().flatten() {
                let response = match response["$ref"].as_str() {
                    Some(_) => &document["components"]["responses"][reference_name(response)],
                    None => response,
                };
                let described = response["description"].as_str().is_some_and(|text| !text.is_empty());
                must(described, &format!("the meaning of {status}"));
            }
            let id = operation["operationId"].as_str().unwrap_or_default();
            must(!id.is_empty() && ids.insert(id.to_owned()), "a unique operationId");
            let schemes = operation["security"].as_array().into_iter().flatten().filter_map(Json::as_object);
            for scheme in schemes.flat_map(|one| one.keys()) {
                must(!document["components"]["securitySchemes"][scheme].is_null(), &format!("the scheme {scheme}"));
            }
            let named = path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap_or_default());
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            for name in named {
                let given = parameters.iter().any(|given| given["name"] == name && given["in"] == "path");
                must(given, &format!("the path's `{name}`"));
            }
            for reference in references(operation).iter().filter(|one| one.starts_with("#/components/schemas/")) {
                let name = reference.rsplit('/').next().unwrap_or_default();
                must(!schemas[name].is_null(), &format!("the schema {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_schema_property_and_query_parameter_has_a_description() {
    let document = document();
    let mut missing = Vec::new();
    for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
        if !is_described(schema) {
            missing.push(name.clone());
        }
        let parts = std::iter::once(schema).chain(schema["allOf"].as_array().into_iter().flatten());
        for (property, schema) in parts.filter_map(|part| part["properties"].as_object()).flatten() {
            if !is_described(schema) {
                missing.push(format!("{name}.{property}"));
            }
        }
    }
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            for parameter in parameters.filter(|parameter| parameter["in"] == "query" && !is_described(parameter)) {
                missing.push(format!("{method} {path}: {}", parameter["name"]));
            }
        }
    }
    assert!(missing.is_empty(), "without a description: {}", missing.join(", "));
}

/// Returns whether a schema has a description, itself or in one of the schemas that it combines.
fn is_described(schema: &Json) -> bool {
    let own = schema["description"].as_str().is_some_and(|text| !text.is_empty());
    let combined = ["allOf", "oneOf", "anyOf"].into_iter().filter_map(|key| schema[key].as_array());
    own || combined.flatten().any(is_described)
}

/// Returns the name at the end of a reference.
fn reference_name(reference: &Json) -> &str {
    reference["$ref"].as_str().and_then(|text| text.rsplit('/').next()).unwrap_or_default()
}

fn references(value: &Json) -> Vec<String> {
    match value {
        Json::Object(map) => {
            let own = map.get("$ref").and_then(Json::as_str).map(str::to_owned);
            own.into_iter().chain(map.values().flat_map(references)).collect()
        }
        Json::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn the_document_is_served_without_a_token() {
    let world = World::new();
    let request = axum::http::Request::get("/api/v1/openapi.json").header("host", "127.0.0.1:7117");
    let reply = world.send(request.body(axum::body::Body::empty()).expect("a request")).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json(), document());
}
