//! The trigger outputs of a webhook request besides its body: method, path, queries, headers.

use axum::extract::Query;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use percent_encoding::percent_decode_str;
use windlass_core::plan::Trigger;
use windlass_value::{Map, Value};

use crate::ApiProblem;
use crate::problem::codes;

/// Path segments before the trigger's own path: `/hooks/DEFINITION/TRIGGER/`.
const PREFIX_SEGMENTS: usize = 4;

/// Headers with credentials. They are left out, because a run stores its input.
const CREDENTIAL_HEADERS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// Returns the `triggerOutputs()` besides the body; an error if the request does not match the trigger.
pub(crate) fn trigger_metadata(trigger: &Trigger, parts: &Parts) -> Result<Value, ApiProblem> {
    check_method(trigger, &parts.method)?;
    let mut metadata = Map::new();
    metadata.insert("headers", visible_headers(&parts.headers));
    metadata.insert("queries", queries(parts)?);
    if let Some(parameters) = path_parameters(trigger_input(trigger, "relativePath"), parts.uri.path())? {
        metadata.insert("relativePathParameters", parameters);
    }
    Ok(Value::map(metadata))
}

fn trigger_input<'t>(trigger: &'t Trigger, name: &str) -> Option<&'t str> {
    trigger.settings.get("inputs")?.get(name)?.as_str().map(str::trim).filter(|text| !text.is_empty())
}

/// Checks the method. The default is `POST`.
fn check_method(trigger: &Trigger, method: &Method) -> Result<(), ApiProblem> {
    let expected = trigger_input(trigger, "method").unwrap_or(Method::POST.as_str()).to_ascii_uppercase();
    match expected == method.as_str() {
        true => Ok(()),
        false => {
            let detail = format!("the trigger `{}` is called with {expected}, not with {method}", trigger.name);
            let problem = ApiProblem::new(StatusCode::METHOD_NOT_ALLOWED, codes::METHOD, detail);
            Err(problem.hint("its definition sets the method in `inputs.method`"))
        }
    }
}

/// Returns the headers with lower-case names; repeated headers are joined with commas.
fn visible_headers(given: &HeaderMap) -> Value {
    let is_visible = |name: &str| !CREDENTIAL_HEADERS.contains(&name) && !name.contains("signature");
    let mut headers = Map::new();
    for name in given.keys().filter(|name| is_visible(name.as_str())) {
        let all: Vec<_> = given.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        headers.insert(name.as_str(), all.join(", "));
    }
    Value::map(headers)
}

fn queries(parts: &Parts) -> Result<Value, ApiProblem> {
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri)
        .map_err(|refused| ApiProblem::bad_request(refused.body_text()))?;
    let mut queries = Map::new();
    for (name, value) in pairs {
        let before = queries.get(&name).and_then(Value::as_str).map(|before| format!("{before},{value}"));
        queries.insert(name, before.unwrap_or(value));
    }
    Ok(Value::map(queries))
}

/// Returns the path segments named by the trigger's own path, such as `/customers/{id}`. A name stands for one whole
/// segment. None: the trigger has no path.
fn path_parameters(pattern: Option<&str>, path: &str) -> Result<Option<Value>, ApiProblem> {
    let given: Vec<&str> = path.split('/').skip(PREFIX_SEGMENTS).collect();
    let expected: Vec<&str> = pattern.unwrap_or_default().split('/').filter(|part| !part.is_empty()).collect();
    let mut found = Map::new();
    let mut fits = given.len() == expected.len();
    for (given, expected) in given.iter().zip(&expected) {
        let given = percent_decode_str(given).decode_utf8_lossy();
        match expected.strip_prefix('{').and_then(|segment| segment.strip_suffix('}')) {
            Some(name) => {
                fits &= !given.is_empty();
                found.insert(name, &*given);
            }
            None => fits &= given == *expected,
        }
    }
    match (fits, pattern) {
        (true, None) => Ok(None),
        (true, Some(_)) => Ok(Some(Value::map(found))),
        (false, own) => {
            let pattern = own.unwrap_or_default().trim_start_matches('/');
            let problem = ApiProblem::not_found("the path does not match the trigger");
            Err(problem.hint(format!("expected /hooks/DEFINITION/TRIGGER/{pattern}").trim_end_matches('/')))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use windlass_value::to_json;

    use super::*;

    #[test]
    fn path_parameters_follow_the_pattern() {
        let table = [
            (None, "/hooks/a/b", Ok(None)),
            (None, "/hooks/a/b/c", Err(())),
            (Some("/x/{id}"), "/hooks/a/b/x/7", Ok(Some(r#"{"id":"7"}"#))),
            (Some("x/{id}/"), "/hooks/a%2Fc/b/x/7%2F8", Ok(Some(r#"{"id":"7/8"}"#))),
            (Some("/{a}/y/{b}"), "/hooks/a/b/%C3%A4/y/2", Ok(Some(r#"{"a":"ä","b":"2"}"#))),
            (Some("/x/{id}"), "/hooks/a/b/y/7", Err(())),
            (Some("/x/{id}"), "/hooks/a/b/x/", Err(())),
            (Some("/x/{id}"), "/hooks/a/b/x/7/8", Err(())),
            (Some("/x/{id}"), "/hooks/a/b", Err(())),
            (Some("/x"), "/hooks/a/b/x", Ok(Some("{}"))),
        ];
        for (own, path, expected) in table {
            let found = path_parameters(own, path).map(|found| found.map(|found| to_json(&found))).map_err(drop);
            assert_eq!(found, expected.map(|text| text.map(str::to_owned)), "{own:?} {path}");
        }
    }

    #[test]
    fn credential_headers_are_redacted() {
        let mut given = HeaderMap::new();
        for (name, value) in [
            ("Authorization", "Bearer x"),
            ("cookie", "a=b"),
            ("x-hub-signature-256", "sha256=00"),
            ("webhook-signature", "v1,x"),
            ("X-Event", "push"),
            ("x-tag", "a"),
            ("x-tag", "b"),
        ] {
            let name: axum::http::HeaderName = name.parse().unwrap();
            given.append(name, value.parse().unwrap());
        }
        assert_eq!(to_json(&visible_headers(&given)), r#"{"x-event":"push","x-tag":"a, b"}"#);
    }
}
