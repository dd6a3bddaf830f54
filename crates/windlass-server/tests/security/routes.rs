//! The proof of authorization: every route of the document, requested in every wrong way.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use serde_json::{Value, json};
use windlass_server::api::document;
use windlass_server::auth::{TokenScope, guard};
use windlass_server::with_layers;

use crate::world::{TestResponse, World, new_request};

const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "WINDLASS"];

/// The permission that an operation requires according to the document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RequiredAccess {
    Nothing,
    Scope(TokenScope),
    Signature,
}

#[derive(Clone, Debug)]
struct Operation {
    method: String,
    /// The path with its parameters filled in.
    path: String,
    template: String,
    needs: RequiredAccess,
}

impl Operation {
    fn request(&self, token: Option<&str>) -> Request<Body> {
        let body = (!matches!(self.method.as_str(), "GET" | "HEAD")).then(|| json!({}));
        new_request(&self.method, &self.path, token, body)
    }

    fn name(&self) -> String {
        format!("{} {}", self.method, self.template)
    }
}

fn operations() -> Vec<Operation> {
    let document: Value = serde_json::to_value(document()).unwrap();
    let mut operations = Vec::new();
    for (template, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let method = method.to_uppercase();
            if METHODS.contains(&method.as_str()) {
                let needs = required_access(&format!("{method} {template}"), operation);
                operations.push(Operation {
                    method,
                    path: fill_parameters(template),
                    template: template.clone(),
                    needs,
                });
            }
        }
    }
    assert!(operations.len() >= 8, "the document has lost its routes");
    operations
}

fn required_access(name: &str, operation: &Value) -> RequiredAccess {
    let security =
        operation["security"].as_array().unwrap_or_else(|| panic!("{name} does not declare its access rule"));
    // The web UI has a cookie in place of a token.
    if let Some(other) = security.get(1) {
        assert_eq!((other, security.len()), (&json!({ guard::SESSION: [] }), 2), "{name} has one more way in");
        assert!(security[0].get(guard::SCHEME).is_some(), "{name}: a cookie stands for a token");
    }
    let ways = security[0].as_object().unwrap();
    match ways.iter().next() {
        None => RequiredAccess::Nothing,
        Some((scheme, scopes)) if scheme == guard::SCHEME => {
            let scopes: Vec<TokenScope> = serde_json::from_value(scopes.clone()).unwrap();
            assert_eq!(scopes.len(), 1, "{name} needs one scope");
            RequiredAccess::Scope(scopes[0])
        }
        Some(_) => RequiredAccess::Signature,
    }
}

fn fill_parameters(template: &str) -> String {
    let parts = template.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[track_caller]
fn assert_refused(operation: &Operation, answer: &TestResponse, status: StatusCode, why: &str) {
    assert_eq!(answer.status, status, "{} {why}: {}", operation.name(), answer.text());
    assert!(answer.is_problem(), "{} {why}: {}", operation.name(), answer.text());
}

#[tokio::test]
async fn every_route_needs_a_token() {
    let world = World::new();
    let garbage = ["", "x", "wl_", "wl_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "' or 1=1 --"];
    let mut wrong: Vec<(String, Option<String>)> = vec![("no token".to_owned(), None)];
    wrong.extend(garbage.iter().map(|token| (format!("garbage `{token}`"), Some((*token).to_owned()))));
    wrong.push(("an expired token".to_owned(), Some(world.expired())));
    wrong.push(("a revoked token".to_owned(), Some(world.revoked())));
    // An almost correct token is rejected like any other.
    wrong.push(("a longer token".to_owned(), Some(format!("{}x", world.first))));
    wrong.push(("a shorter token".to_owned(), Some(world.first[..world.first.len() - 1].to_owned())));
    wrong.push(("a token in other letters".to_owned(), Some(world.first.to_uppercase())));
    for operation in operations() {
        for (why, token) in &wrong {
            let answer = world.send(operation.request(token.as_deref())).await;
            match operation.needs {
                RequiredAccess::Nothing => {
                    assert!(answer.status != StatusCode::UNAUTHORIZED, "{} is public ({why})", operation.name());
                }
                RequiredAccess::Scope(_) => {
                    assert_refused(&operation, &answer, StatusCode::UNAUTHORIZED, why);
                    assert_eq!(answer.header("www-authenticate"), "Bearer");
                }
                RequiredAccess::Signature => assert!(!answer.status.is_success(), "{} {why}", operation.name()),
            }
        }
    }
}

#[tokio::test]
async fn a_token_is_read_from_one_header_only() {
    let world = World::new();
    let first = world.first.clone();
    let plain = |header: &str, value: String| {
        let request = Request::builder().uri("/api/v1/tokens").header("host", "localhost:7117");
        request.header(header, value).body(Body::empty()).unwrap()
    };
    let mut twice = plain("authorization", format!("Bearer {first}"));
    twice.headers_mut().append("authorization", format!("Bearer {first}").parse().unwrap());
    let wrong = [
        ("another scheme", plain("authorization", format!("Basic {first}"))),
        ("no scheme", plain("authorization", first.clone())),
        ("a cookie", plain("cookie", format!("token={first}"))),
        ("another header", plain("x-token", first.clone())),
        ("two of them", twice),
        ("the query", new_request("GET", &format!("/api/v1/tokens?token={first}&access_token={first}"), None, None)),
    ];
    for (why, request) in wrong {
        assert_eq!(world.send(request).await.status, StatusCode::UNAUTHORIZED, "{why}");
    }
    for scheme in ["Bearer ", "bearer ", "BEARER  "] {
        let right = plain("authorization", format!("{scheme}{first}"));
        assert_eq!(world.send(right).await.status, StatusCode::OK, "{scheme}");
    }
}

#[tokio::test]
async fn each_scope_grants_what_it_includes() {
    let world = World::new();
    for own in TokenScope::ALL {
        let (_, token) = world.token(&[own]);
        for operation in operations() {
            let answer = world.send(operation.request(Some(&token))).await;
            let why = format!("with `{}`", own.as_str());
            match operation.needs {
                RequiredAccess::Scope(needed) if !own.includes(needed) => {
                    assert_refused(&operation, &answer, StatusCode::FORBIDDEN, &why);
                    assert!(answer.json()["detail"].as_str().unwrap().contains(needed.as_str()));
                }
                RequiredAccess::Scope(_) | RequiredAccess::Nothing => {
                    let refused = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::INTERNAL_SERVER_ERROR];
                    assert!(!refused.contains(&answer.status), "{} {why}: {}", operation.name(), answer.text());
                }
                // A token is not a signature.
                RequiredAccess::Signature => assert!(!answer.status.is_success(), "{} {why}", operation.name()),
            }
        }
    }
}

/// The scopes that each scope includes, spelled out: a change of the rule must change this table.
#[test]
fn scopes_include_the_listed_scopes() {
    use TokenScope::{Admin, Control, Read, Run, Work};
    let table = [
        (Read, &[Read][..]),
        (Run, &[Read, Run]),
        (Control, &[Read, Control]),
        (Work, &[Work]),
        (Admin, &[Read, Run, Control, Work, Admin]),
    ];
    for (own, included) in table {
        for other in TokenScope::ALL {
            assert_eq!(own.includes(other), included.contains(&other), "{own:?} {other:?}");
        }
    }
}

#[tokio::test]
async fn only_declared_methods_are_allowed() {
    let world = World::new();
    let operations = operations();
    for operation in &operations {
        for method in METHODS {
            let same = |other: &&Operation| other.template == operation.template && other.method == method;
            if operations.iter().any(|other| same(&other)) {
                continue;
            }
            let answer = world.send(new_request(method, &operation.path, Some(&world.first), None)).await;
            // A fixed route may match the parameter of another route.
            let elsewhere = operations.iter().any(|other| other.method == method && matches(other, &operation.path));
            let get = operations.iter().find(|other| other.template == operation.template && other.method == "GET");
            if let Some(get) = get.filter(|_| method == "HEAD") {
                assert!(answer.body.is_empty(), "HEAD {}", operation.template);
                let anonymous = world.send(new_request(method, &operation.path, None, None)).await;
                let public = get.needs == RequiredAccess::Nothing || anonymous.status == StatusCode::UNAUTHORIZED;
                assert!(public, "HEAD {} asks as GET does", operation.template);
            } else if !elsewhere {
                let not_so = [StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_FOUND];
                let shown = format!("{method} {}: {} {}", operation.template, answer.status, answer.text());
                let is_explained = answer.is_problem() || method == "HEAD";
                assert!(not_so.contains(&answer.status) && is_explained, "{shown}");
            }
        }
    }
}

fn matches(operation: &Operation, path: &str) -> bool {
    let (own, other): (Vec<&str>, Vec<&str>) = (operation.template.split('/').collect(), path.split('/').collect());
    own.len() == other.len() && own.iter().zip(&other).all(|(own, other)| own.starts_with('{') || own == other)
}

/// Returns paths that proxies, frameworks and careless prefix checks have mistaken for another path.
fn path_tricks(path: &str, public: &str) -> Vec<String> {
    let last = path.rsplit('/').next().unwrap();
    let inner = path.trim_start_matches('/');
    vec![
        format!("{path}/"),
        format!("{path}//"),
        format!("/{path}"),
        format!("//{path}"),
        path.replace("/api/", "/api//"),
        format!("{path};x"),
        format!("{path};{public}"),
        format!("{path}/{inner}"),
        format!("{path}{public}"),
        format!("{path}/..{public}"),
        format!("{path}/%2e%2e/{last}"),
        format!("{path}/%2e%2e%2f{last}"),
        format!("{public}/..{path}"),
        format!("{public}/%2e%2e{path}"),
        format!("{public}/%2e%2e%2f{inner}"),
        format!("{public};{path}"),
        format!("{public}{path}"),
        format!("/.{path}"),
        format!("/%2e{path}"),
        format!("/x/..{path}"),
        path.to_uppercase(),
        path.replacen("/api", "/API", 1),
        path.replace('/', "%2f"),
        path.replacen('/', "/%2f", 2),
        format!("{path}%00"),
        format!("{path}%20"),
        format!("{path}%0d%0ax"),
        format!("{path}.json"),
        format!("{path}?path={public}"),
        format!("{path}%3f{public}"),
        format!("{path}%23{public}"),
        path.replace("v1", "v%31"),
        path.replace('/', "\\"),
    ]
}

#[tokio::test]
async fn no_path_bypasses_authorization() {
    let world = World::new();
    let operations = operations();
    let public: Vec<&str> =
        operations.iter().filter(|one| one.needs == RequiredAccess::Nothing).map(|one| one.path.as_str()).collect();
    for operation in operations.iter().filter(|one| one.needs != RequiredAccess::Nothing) {
        for public in &public {
            for trick in path_tricks(&operation.path, public) {
                let Ok(uri) = trick.parse::<axum::http::Uri>() else { continue };
                if uri.path().is_empty() {
                    continue;
                }
                let body = (operation.method != "GET").then(|| json!({}));
                let answer = world.send(new_request(&operation.method, &trick, None, body)).await;
                let shown = format!("{} {trick}: {} {}", operation.method, answer.status, answer.text());
                // A response to HEAD has no body: only its headers are checked.
                let is_problem = answer.header("content-type") == "application/problem+json";
                let problem = answer.is_problem() || operation.method == "HEAD" && is_problem && answer.body.is_empty();
                assert!(answer.status.is_client_error() && problem, "{shown}");
            }
        }
    }
}

/// A route rejects undeclared query parameters, after it has identified the client.
#[tokio::test]
async fn only_declared_query_parameters_are_allowed() {
    let world = World::new();
    let operations = operations();
    for operation in operations.iter().filter(|one| matches!(one.needs, RequiredAccess::Scope(_))) {
        for (query, part) in [("?zzzz=1", "unknown parameter `zzzz`"), ("?%00=%ff", "unknown parameter ``")] {
            let with_query = Operation { path: format!("{}{query}", operation.path), ..operation.clone() };
            let answer = world.send(with_query.request(Some(&world.first))).await;
            assert_refused(operation, &answer, StatusCode::BAD_REQUEST, query);
            assert!(answer.text().contains(part), "{}: {}", operation.name(), answer.text());
            let anonymous = world.send(with_query.request(None)).await;
            assert_refused(operation, &anonymous, StatusCode::UNAUTHORIZED, query);
        }
    }
    let table = [
        ("/api/v1/runs?dialct=loom", "did you mean `dialect`?"),
        ("/api/v1/definitions?dialect=loom", "it takes `after`, `limit`, `search`"),
        ("/api/v1/audit?limt=1", "did you mean `limit`?"),
        ("/api/v1/tokens?limit=1", "this route has no query parameters"),
        ("/api/v1/runs?limit=1&limit=2", "`limit` is given twice"),
        ("/api/v1/runs?limit=1&limi%74=2", "`limit` is given twice"),
        ("/api/v1/audit?after=x", "must be a whole number"),
        ("/api/v1/runs?children=perhaps", "the query is invalid"),
        ("/api/v1/runs?parent=a/b", "cannot be the id of a run"),
        ("/api/v1/approvals?run=%00", "cannot be the id of a run"),
    ];
    for (path, part) in table {
        let answer = world.get(path).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}: {}", answer.text());
        assert!(answer.is_problem() && answer.text().contains(part), "{path}: {}", answer.text());
    }
    assert_eq!(world.get("/api/v1/runs?").await.status, StatusCode::OK);
    // A liveness probe may add any query.
    assert_eq!(world.get("/healthz?t=1").await.status, StatusCode::OK);
}

/// A handler without an authorization type does not respond, regardless of how it becomes a route.
#[tokio::test]
async fn a_handler_without_authorization_does_not_respond() {
    let world = World::new();
    let routes = axum::Router::new().route("/forgotten", get(|| async { "a secret" }));
    let routes = with_layers(routes, world.app.clone());
    let world = World { routes, ..world };
    for token in [None, Some(world.first.clone())] {
        let answer = world.send(new_request("GET", "/forgotten", token.as_deref(), None)).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(answer.is_problem() && !answer.text().contains("a secret"), "{}", answer.text());
    }
}

/// Every client gets the same document: it lists each operation once.
#[tokio::test]
async fn the_document_matches_the_routes() {
    let world = World::new();
    let answer = world.send(new_request("GET", "/api/v1/openapi.json", None, None)).await;
    assert_eq!(answer.status, StatusCode::OK);
    let document = answer.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    assert_eq!(document["components"]["securitySchemes"][guard::SCHEME]["scheme"], "bearer");
    assert_eq!(document["paths"].as_object().unwrap().len(), {
        let mut paths: Vec<String> = operations().into_iter().map(|operation| operation.template).collect();
        paths.sort();
        paths.dedup();
        paths.len()
    });
}
