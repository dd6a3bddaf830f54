//! Checks every response of a test against the OpenAPI document: its status must be listed, its body must match.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value as Json, json};

static DOCUMENT: LazyLock<Json> = LazyLock::new(|| {
    let text = windlass_server::api::document().to_json().expect("a document");
    serde_json::from_str(&text).expect("JSON")
});

static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// Returns how a response violates the document, if it does.
pub(crate) fn violation(method: &str, path: &str, status: u16, kind: &str, body: &[u8]) -> Option<String> {
    let method = method.to_lowercase();
    let (template, operation) = operation(&method, path)?;
    let listed = &operation["responses"][status.to_string()];
    // Responses that belong to no single route: not found, method not allowed, internal error.
    if listed.is_null() && !operation["responses"]["default"].is_null() {
        return None;
    }
    if listed.is_null() && matches!(status, 404 | 405 | 408 | 500) {
        return None;
    }
    let response = match listed["$ref"].as_str().and_then(|text| text.rsplit('/').next()) {
        Some(name) => &DOCUMENT["components"]["responses"][name],
        None => listed,
    };
    if response.is_null() {
        return Some(format!("the document does not list {status}"));
    }
    let schema = &response["content"][kind]["schema"];
    if !kind.ends_with("json") || schema.is_null() {
        return None;
    }
    let body: Json = serde_json::from_slice(body).ok()?;
    let key = format!("{method} {template} {status}");
    let validator = VALIDATORS.lock().expect("the lock").entry(key).or_insert_with(|| validator(schema)).clone();
    let found: Vec<String> =
        validator.iter_errors(&body).map(|error| format!("{}: {error}", error.instance_path())).collect();
    (!found.is_empty()).then(|| format!("the document does not allow it: {}", found.join("; ")))
}

fn validator(schema: &Json) -> Arc<Validator> {
    let mut whole = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "allOf": [schema] });
    whole["components"] = DOCUMENT["components"].clone();
    Arc::new(jsonschema::options().offline().build(&whole).expect("a schema"))
}

/// Returns the operation of this path; fixed segments take precedence over parameters.
fn operation(method: &str, path: &str) -> Option<(&'static str, &'static Json)> {
    let path = path.split('?').next().unwrap_or_default();
    let given: Vec<&str> = path.split('/').collect();
    let fits = |template: &str| {
        let parts: Vec<&str> = template.split('/').collect();
        parts.len() == given.len()
            && parts.iter().zip(&given).all(|(part, given)| part.starts_with('{') || part == given)
    };
    let all = DOCUMENT["paths"].as_object()?.iter().filter(|(template, _)| fits(template));
    let (template, item) = all.min_by_key(|(template, _)| template.matches('{').count())?;
    item.get(method).map(|operation| (template.as_str(), operation))
}
