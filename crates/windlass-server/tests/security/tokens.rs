//! Tokens: created, shown once, used, revoked.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use axum::http::StatusCode;
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;
use windlass_server::ServerOptions;
use windlass_server::auth::tokens::{self, TokenError};
use windlass_server::auth::{TokenScope, first_token};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};

use crate::world::{World, new_request};

#[tokio::test]
async fn the_first_start_leaves_a_token_that_later_starts_use() {
    let world = World::new();
    let path = world.directory.path().join("token");
    assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), world.first);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let random = world.first.strip_prefix("wl_").unwrap();
    assert_eq!(random.len(), 43, "256 bits as base64url");
    // A reader of the store gets no token from it.
    for record in world.store.records(tokens::KIND, "", 10).unwrap() {
        assert!(!String::from_utf8_lossy(&record.body).contains(random));
    }
    let World { directory, first, app, routes, store } = world;
    drop((app, routes, store));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let again = World::in_directory(directory, ServerOptions::default());
    assert_eq!(again.first, first);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "closed to others again");
    assert_eq!(again.get("/api/v1/tokens").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_revoked_first_token_is_not_recreated() {
    let world = World::new();
    let id = world.get("/api/v1/tokens").await.json()["items"][0]["id"].as_str().unwrap().to_owned();
    world.token(&[TokenScope::Admin]);
    tokens::revoke(&*world.store, &id).unwrap();
    assert!(first_token(&*world.store, world.directory.path()).unwrap().is_none());
    world.app.keys.refresh().unwrap();
    assert_eq!(world.get("/api/v1/tokens").await.status, StatusCode::UNAUTHORIZED);
}

#[test]
fn a_file_of_another_store_is_replaced_and_a_link_is_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "wl_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n").unwrap();
    let first = first_token(&store, directory.path()).unwrap().unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), first.reveal());

    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    let elsewhere = directory.path().join("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, directory.path().join("token")).unwrap();
    assert!(matches!(first_token(&store, directory.path()), Err(TokenError::File { .. })));
    assert!(!elsewhere.exists());
}

#[tokio::test]
async fn a_token_is_created_shown_once_used_and_revoked() {
    let world = World::new();
    let made = world.post("/api/v1/tokens", json!({ "name": "ci", "scopes": ["run", "read"] })).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    let made = made.json();
    let (id, secret) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    assert_eq!(made["scopes"], json!(["read", "run"]));
    let with = |method: &'static str, path: &str| new_request(method, path, Some(secret), None);
    assert_eq!(world.send(with("GET", "/metrics")).await.status, StatusCode::OK);
    assert_eq!(world.send(with("GET", "/api/v1/tokens")).await.status, StatusCode::FORBIDDEN);
    let listed = world.get("/api/v1/tokens").await;
    assert!(listed.text().contains(id) && !listed.text().contains(secret) && !listed.text().contains("hash"));

    let path = format!("/api/v1/tokens/{id}");
    let delete = |token: &str| new_request("DELETE", &path, Some(token), None);
    assert_eq!(world.send(delete(secret)).await.status, StatusCode::FORBIDDEN);
    assert_eq!(world.send(delete(&world.first)).await.status, StatusCode::OK);
    assert_eq!(world.send(with("GET", "/metrics")).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(world.send(delete(&world.first)).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_last_admin_token_cannot_be_revoked() {
    let world = World::new();
    let id = world.get("/api/v1/tokens").await.json()["items"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/tokens/{id}");
    let refused = world.send(new_request("DELETE", &path, Some(&world.first), None)).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(refused.json()["hint"].as_str().unwrap().contains("token create"));
    // A token that has expired, or has fewer scopes, does not count.
    world.expired();
    world.token(&[TokenScope::Read, TokenScope::Run, TokenScope::Control, TokenScope::Work]);
    assert!(matches!(tokens::revoke(&*world.store, &id), Err(TokenError::LastAdmin(_))));
    let (other, _) = world.token(&[TokenScope::Admin]);
    assert_eq!(world.send(new_request("DELETE", &path, Some(&world.first), None)).await.status, StatusCode::OK);
    assert!(matches!(tokens::revoke(&*world.store, &other.id), Err(TokenError::LastAdmin(_))));
}

#[test]
fn two_tokens_cannot_revoke_each_other() {
    for _ in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
        let make = |name: &str| {
            let request = tokens::TokenRequest {
                name: name.to_owned(),
                scopes: vec![TokenScope::Admin],
                definitions: Vec::new(),
                expires_at: None,
                created_by: None,
            };
            tokens::create(&store, request, usize::MAX).unwrap().0.id
        };
        let (one, other) = (make("one"), make("other"));
        std::thread::scope(|scope| {
            scope.spawn(|| tokens::revoke(&store, &one).is_ok());
            scope.spawn(|| tokens::revoke(&store, &other).is_ok());
        });
        assert!(tokens::has_admin(&store).unwrap());
    }
}

#[tokio::test]
async fn invalid_tokens_are_rejected() {
    let world = World::new();
    let wrong = [
        json!({ "name": "", "scopes": ["read"] }),
        json!({ "name": "a\nb", "scopes": ["read"] }),
        json!({ "name": "x".repeat(101), "scopes": ["read"] }),
        json!({ "name": "x", "scopes": [] }),
        json!({ "name": "x", "scopes": ["everything"] }),
        json!({ "name": "x", "scopes": ["read"], "expires_at": "yesterday" }),
        json!({ "name": "x", "scopes": ["read"], "expires_at": "2001-01-01T00:00:00Z" }),
        json!({ "name": "x", "scopes": ["read"], "expires_in_seconds": u64::MAX }),
        json!({ "name": "x", "scopes": ["read"], "expires_in_seconds": 5, "expires_at": "2101-01-01T00:00:00Z" }),
        json!({ "name": "x", "scopes": ["read"], "token": "wl_chosen" }),
        json!([]),
    ];
    for body in wrong {
        let answer = world.post("/api/v1/tokens", body.clone()).await;
        assert!(answer.status.is_client_error() && answer.is_problem(), "{body}: {} {}", answer.status, answer.text());
    }
    let slip = world.post("/api/v1/tokens", json!({ "name": "x", "scopes": ["contrl"] })).await;
    assert!(slip.text().contains("did you mean `control`?"), "{}", slip.text());
    assert_eq!(tokens::list(&*world.store).unwrap().len(), 1);
}

#[tokio::test]
async fn another_process_can_create_and_revoke_tokens() {
    let world = World::new();
    let other_store = SqliteStore::open(world.directory.path(), SqliteOptions::default()).unwrap();
    let request = tokens::TokenRequest {
        name: "other".to_owned(),
        scopes: vec![TokenScope::Read],
        definitions: Vec::new(),
        expires_at: None,
        created_by: None,
    };
    let (token, secret) = tokens::create(&other_store, request, usize::MAX).unwrap();
    let ask = || new_request("GET", "/metrics", Some(secret.reveal()), None);
    assert_eq!(world.send(ask()).await.status, StatusCode::OK);
    tokens::revoke(&other_store, &token.id).unwrap();
    // The server reloads a few times a second: until then an old result is allowed, afterwards not.
    let gone = async {
        while world.send(ask()).await.status != StatusCode::UNAUTHORIZED {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(120), gone).await.unwrap();
}

#[tokio::test]
async fn the_last_use_of_a_token_is_recorded() {
    let world = World::new();
    let (token, secret) = world.token(&[TokenScope::Read]);
    assert_eq!(world.send(new_request("GET", "/metrics", Some(&secret), None)).await.status, StatusCode::OK);
    let noted = async {
        let used = || tokens::list(&*world.store).unwrap().into_iter().find(|(one, _)| one.id == token.id);
        while used().unwrap().0.last_used.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(120), noted).await.unwrap();
}

#[tokio::test]
async fn without_authorization_every_request_is_allowed() {
    let world = World::with(ServerOptions { no_auth: true, ..ServerOptions::default() });
    assert_eq!(world.send(new_request("GET", "/api/v1/tokens", None, None)).await.status, StatusCode::OK);
}

/// A stream does not outlive the token that opened it.
#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_its_token() {
    let world = World::new();
    let (token, secret) = world.token(&[TokenScope::Read]);
    let request = new_request("GET", "/api/v1/runs/changes", Some(&secret), None);
    let mut stream = world.routes.clone().oneshot(request).await.unwrap().into_body();
    let revoked = new_request("DELETE", &format!("/api/v1/tokens/{}", token.id), Some(&world.first), None);
    assert_eq!(world.send(revoked).await.status, StatusCode::OK);
    let mut received = String::new();
    let read = async {
        while let Some(frame) = stream.frame().await {
            received.push_str(&String::from_utf8_lossy(frame.unwrap().data_ref().unwrap()));
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(10), read).await.is_ok(), "it continues: {received}");
    assert!(received.ends_with("event: closing\ndata: {\"type\":\"closing\"}\n\n"), "{received}");
}

/// While another process holds the store, only requests that change a token wait for it.
#[tokio::test]
async fn a_locked_store_delays_only_writers() {
    let world = World::new();
    let (token, _) = world.token(&[TokenScope::Read]);
    let gone = format!("/api/v1/tokens/{}", token.id);
    let cases = [
        ("POST", "/api/v1/tokens", Some(json!({ "name": "a", "scopes": ["read"] })), 201),
        ("DELETE", &gone, None, 200),
    ];
    for (method, path, body, status) in cases {
        let held = std::fs::File::options().write(true).open(world.directory.path().join("writer.lock")).unwrap();
        held.lock().unwrap();
        let mut changed = std::pin::pin!(world.send(new_request(method, path, Some(&world.first), body)));
        tokio::select! {
            biased;
            answer = &mut changed => panic!("{path}: {}", answer.text()),
            healthy = world.get("/healthz") => assert_eq!(healthy.status, 200, "{path}"),
        }
        held.unlock().unwrap();
        let answer = changed.await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
}
