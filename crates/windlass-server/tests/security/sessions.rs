//! Sessions of the web UI: what a cookie permits, and what it does not.

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use windlass_core::ServerLimits;
use windlass_server::ServerOptions;
use windlass_server::auth::TokenScope;
use windlass_value::Duration;

use crate::world::{TestResponse, World, new_request, with_peer_address};

/// Name and value.
type HeaderLine<'h> = (&'static str, &'h str);

/// A signed-in browser: its cookie, and the proof that its pages send.
struct Browser {
    cookie: String,
    csrf_token: String,
}

impl Browser {
    async fn sign_in(world: &World, token: &str) -> Browser {
        Browser::from_response(&world.send(sign_in_request(token)).await)
    }

    fn from_response(answer: &TestResponse) -> Browser {
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text());
        let cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        Browser { cookie, csrf_token: answer.json()["csrf_token"].as_str().unwrap().to_owned() }
    }

    /// A request with the cookie alone.
    fn bare(&self, method: &str, path: &str, body: Option<Value>) -> Request<Body> {
        with_headers(new_request(method, path, None, body), &[("cookie", &self.cookie)])
    }

    /// A request as a page of the web UI sends it.
    fn request(&self, method: &str, path: &str, body: Option<Value>) -> Request<Body> {
        let headers = [("x-csrf-token", self.csrf_token.as_str()), ("sec-fetch-site", "same-origin")];
        let request = with_headers(self.bare(method, path, body), &headers);
        match method {
            "GET" => request,
            _ => with_headers(request, &[("origin", "http://localhost:7117")]),
        }
    }
}

fn sign_in_request(token: &str) -> Request<Body> {
    let request = new_request("POST", "/api/v1/session", Some(token), None);
    with_headers(request, &[("origin", "http://localhost:7117"), ("sec-fetch-site", "same-origin")])
}

fn with_headers(mut request: Request<Body>, headers: &[HeaderLine<'_>]) -> Request<Body> {
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    request
}

fn without(mut request: Request<Body>, names: &[&str]) -> Request<Body> {
    names.iter().for_each(|name| drop(request.headers_mut().remove(*name)));
    request
}

fn new_token() -> Option<Value> {
    Some(json!({ "name": "x", "scopes": ["read"] }))
}

#[tokio::test]
async fn a_cookie_signs_in_every_tab() {
    let world = World::new();
    let before = world.send(new_request("GET", "/api/v1/session", None, None)).await.json();
    assert_eq!((&before["signed_in"], &before["authentication"]), (&json!(false), &json!(true)));
    let answer = world.send(sign_in_request(&world.first)).await;
    let set = answer.header("set-cookie");
    let attributes: Vec<&str> = set.split("; ").skip(1).collect();
    assert_eq!(attributes, ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=604800"], "{set}");
    assert!(set.starts_with("windlass_") && !set.contains("wl_") && !answer.text().contains("wl_"), "{set}");
    let browser = Browser::from_response(&answer);
    // Another tab has the cookie and asks for the rest.
    let tab = world.send(browser.request("GET", "/api/v1/session", None)).await.json();
    assert_eq!(tab["csrf_token"], browser.csrf_token.as_str());
    assert_eq!(
        (&tab["signed_in"], &tab["token_name"], &tab["scopes"]),
        (&json!(true), &json!("first"), &json!(["admin"]))
    );
    assert_eq!(world.send(browser.request("GET", "/api/v1/tokens", None)).await.status, StatusCode::OK);
    let created = world.send(browser.request("POST", "/api/v1/tokens", new_token())).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text());
    let stream = world.send(browser.request("GET", "/api/v1/runs/changes", None)).await;
    assert_eq!((stream.status, stream.header("content-type")), (StatusCode::OK, "text/event-stream"));
    // The audit log names the token.
    let audit = world.get("/api/v1/audit?limit=100").await.text();
    assert!(audit.contains(r#""name":"first""#) && !audit.contains("wls_"), "{audit}");
}

/// Only a page of this origin knows the CSRF token, and only such a page can send its headers.
#[tokio::test]
async fn a_change_needs_proof_besides_the_cookie() {
    let world = World::new();
    let (browser, other) = (Browser::sign_in(&world, &world.first).await, Browser::sign_in(&world, &world.first).await);
    let change = || browser.request("POST", "/api/v1/tokens", new_token());
    let wrong = [
        ("the cookie alone", browser.bare("POST", "/api/v1/tokens", new_token())),
        ("no CSRF token", without(change(), &["x-csrf-token"])),
        ("an empty CSRF token", with_headers(change(), &[("x-csrf-token", "")])),
        ("the CSRF token of another session", with_headers(change(), &[("x-csrf-token", &other.csrf_token)])),
        ("neither origin nor site", without(change(), &["origin", "sec-fetch-site"])),
        ("a foreign origin", with_headers(change(), &[("origin", "http://evil.example")])),
        ("no origin at all", with_headers(change(), &[("origin", "null")])),
        ("another port of this host", with_headers(change(), &[("origin", "http://localhost:3000")])),
        ("another site", with_headers(change(), &[("sec-fetch-site", "cross-site")])),
        ("another port, as the browser sees it", with_headers(change(), &[("sec-fetch-site", "same-site")])),
        ("a site that the user typed", with_headers(without(change(), &["origin"]), &[("sec-fetch-site", "none")])),
    ];
    for (why, request) in wrong {
        let answer = world.send(request).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{why}: {}", answer.text());
        assert!(answer.is_problem() && answer.json()["code"] == "WND-3013", "{why}: {}", answer.text());
    }
    for request in [change(), without(change(), &["origin"]), without(change(), &["sec-fetch-site"])] {
        assert_eq!(world.send(request).await.status, StatusCode::CREATED);
    }
    let tokens = world.get("/api/v1/tokens").await.json();
    assert_eq!(tokens["items"].as_array().unwrap().len(), 4, "the first and three created ones");
    // Reading needs no proof, but no page of another origin may cause it.
    let read = |site: &str| with_headers(browser.bare("GET", "/api/v1/tokens", None), &[("sec-fetch-site", site)]);
    assert_eq!(world.send(read("same-origin")).await.status, StatusCode::OK);
    assert_eq!(world.send(read("none")).await.status, StatusCode::OK);
    assert_eq!(world.send(read("cross-site")).await.status, StatusCode::FORBIDDEN);
    assert_eq!(world.send(read("same-site")).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_rebinding_host_gets_nothing_with_a_cookie() {
    let world = World::new();
    let browser = Browser::sign_in(&world, &world.first).await;
    for (method, body) in [("GET", None), ("POST", new_token())] {
        let request = with_headers(
            browser.request(method, "/api/v1/tokens", body),
            &[("host", "evil.example:7117"), ("origin", "http://evil.example:7117")],
        );
        assert_eq!(world.send(request).await.status, StatusCode::MISDIRECTED_REQUEST, "{method}");
    }
}

#[tokio::test]
async fn a_session_has_the_scopes_of_its_token() {
    let world = World::new();
    let (_, reader) = world.token(&[TokenScope::Read]);
    let browser = Browser::sign_in(&world, &reader).await;
    assert_eq!(world.send(browser.request("GET", "/api/v1/runs", None)).await.status, StatusCode::OK);
    for (method, path) in [("POST", "/api/v1/runs/1/cancel"), ("GET", "/api/v1/tokens"), ("POST", "/api/v1/runs")] {
        let refused = world.send(browser.request(method, path, (method == "POST").then(|| json!({})))).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(refused.json()["code"], "WND-3002", "{path}: {}", refused.text());
    }
    // A worker's token is not for browsers.
    let (_, worker) = world.token(&[TokenScope::Work]);
    assert_eq!(world.send(sign_in_request(&worker)).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_session_ends_with_its_token() {
    let world = World::new();
    let (token, secret) = world.token(&[TokenScope::Read]);
    let browser = Browser::sign_in(&world, &secret).await;
    let ask = || browser.request("GET", "/api/v1/runs", None);
    assert_eq!(world.send(ask()).await.status, StatusCode::OK);
    let revoke = new_request("DELETE", &format!("/api/v1/tokens/{}", token.id), Some(&world.first), None);
    assert_eq!(world.send(revoke).await.status, StatusCode::OK);
    let refused = world.send(ask()).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(refused.text().contains("revoked"), "{}", refused.text());
    let state = world.send(browser.request("GET", "/api/v1/session", None)).await.json();
    assert_eq!(state["signed_in"], false);
}

/// A stream does not outlive the session that opened it.
#[tokio::test(start_paused = true)]
async fn signing_out_ends_the_session_and_its_streams() {
    let world = World::new();
    let browser = Browser::sign_in(&world, &world.first).await;
    let request = browser.request("GET", "/api/v1/runs/changes", None);
    let mut stream = world.routes.clone().oneshot(request).await.unwrap().into_body();
    let sign_out = || browser.request("DELETE", "/api/v1/session", None);
    let forged = world.send(browser.bare("DELETE", "/api/v1/session", None)).await;
    assert_eq!(forged.status, StatusCode::FORBIDDEN, "another page cannot sign out");
    let answer = world.send(sign_out()).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    assert!(answer.header("set-cookie").contains("=; ") && answer.header("set-cookie").contains("Max-Age=0"));
    let again = world.send(browser.request("GET", "/api/v1/runs", None)).await;
    assert_eq!(again.status, StatusCode::UNAUTHORIZED, "the server has forgotten the cookie");
    assert_eq!(world.send(sign_out()).await.status, StatusCode::NO_CONTENT, "it is idempotent");
    let mut received = String::new();
    let read = async {
        while let Some(frame) = stream.frame().await {
            received.push_str(&String::from_utf8_lossy(frame.unwrap().data_ref().unwrap()));
        }
    };
    assert!(tokio::time::timeout(std::time::Duration::from_secs(10), read).await.is_ok(), "it continues: {received}");
}

#[tokio::test]
async fn sessions_survive_a_restart_and_are_not_in_the_store() {
    let world = World::new();
    let browser = Browser::sign_in(&world, &world.first).await;
    let World { directory, app, routes, store, .. } = world;
    drop((app, routes, store));
    let world = World::in_directory(directory, ServerOptions::default());
    assert_eq!(world.send(browser.request("GET", "/api/v1/tokens", None)).await.status, StatusCode::OK);
    assert_eq!(world.send(browser.request("POST", "/api/v1/tokens", new_token())).await.status, StatusCode::CREATED);
    let secret = browser.cookie.split_once('=').unwrap().1;
    for row in world.store.records("session", "", 10).unwrap() {
        let text = format!("{} {}", row.key, String::from_utf8_lossy(&row.body));
        assert!(!text.contains(secret) && !text.contains(&browser.csrf_token) && !text.contains("wl_"), "{text}");
    }
}

/// A session cannot extend itself, and a new sign-in replaces the browser's old session.
#[tokio::test]
async fn sessions_are_bounded_in_time_and_number() {
    let limits = ServerLimits { max_sessions_per_token: 2, ..ServerLimits::default() };
    let world = World::with(ServerOptions { limits, ..ServerOptions::default() });
    let first = Browser::sign_in(&world, &world.first).await;
    let renewed = world.send(first.request("POST", "/api/v1/session", None)).await;
    assert_eq!(renewed.status, StatusCode::UNAUTHORIZED, "a cookie is no token");
    let is_valid = async |browser: &Browser| {
        world.send(browser.request("GET", "/api/v1/runs", None)).await.status == StatusCode::OK
    };
    let again = with_headers(sign_in_request(&world.first), &[("cookie", &first.cookie)]);
    let second = Browser::from_response(&world.send(again).await);
    assert!(!is_valid(&first).await && is_valid(&second).await, "the old one is replaced");
    let third = Browser::sign_in(&world, &world.first).await;
    assert!(is_valid(&second).await && is_valid(&third).await);
    let fourth = Browser::sign_in(&world, &world.first).await;
    assert_eq!([is_valid(&second).await, is_valid(&third).await, is_valid(&fourth).await], [false, true, true]);

    let limits = ServerLimits { max_session_time: Duration::from_ms(0), ..ServerLimits::default() };
    let world = World::with(ServerOptions { limits, ..ServerOptions::default() });
    let ended = Browser::sign_in(&world, &world.first).await;
    let answer = world.send(ended.request("GET", "/api/v1/runs", None)).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "its time is over");
}

#[tokio::test]
async fn a_sign_in_link_works_once() {
    let world = World::new();
    let code = world.app.keys.sign_in_code(&world.first).unwrap();
    assert!(!code.contains(&world.first));
    let as_token = world.send(new_request("GET", "/api/v1/runs", Some(&code), None)).await;
    assert_eq!(as_token.status, StatusCode::UNAUTHORIZED, "a code is no token");
    let browser = Browser::sign_in(&world, &code).await;
    assert_eq!(world.send(browser.request("GET", "/api/v1/tokens", None)).await.status, StatusCode::OK);
    let again = world.send(sign_in_request(&code)).await;
    assert_eq!(again.status, StatusCode::UNAUTHORIZED);
    assert!(again.text().contains("used already"), "{}", again.text());
}

/// Over TLS the cookie is sent over nothing else, and no other subdomain can set it.
#[tokio::test]
async fn the_cookie_is_secure_behind_a_proxy_with_tls() {
    let options = || ServerOptions { proxies: vec!["10.0.0.7".parse().unwrap()], ..ServerOptions::default() };
    let world = World::with(options());
    let through = |request: Request<Body>, peer: &str| {
        with_headers(with_peer_address(request, peer), &[("x-forwarded-proto", "https")])
    };
    let sign_in = || without(sign_in_request(&world.first), &["origin"]);
    let answer = world.send(through(sign_in(), "10.0.0.7")).await;
    let set = answer.header("set-cookie").to_owned();
    assert!(set.starts_with("__Host-windlass_") && set.ends_with("; Secure") && set.contains("Path=/"), "{set}");
    let browser = Browser::from_response(&answer);
    let ask = || through(browser.request("GET", "/api/v1/tokens", None), "10.0.0.7");
    assert_eq!(world.send(ask()).await.status, StatusCode::OK);
    let plain = browser.cookie.trim_start_matches("__Host-");
    let planted = with_headers(ask(), &[("cookie", plain)]);
    assert_eq!(world.send(planted).await.status, StatusCode::UNAUTHORIZED, "another subdomain could have set it");
    // The word of any other peer does not count, but that of the browser does.
    let other = world.send(through(sign_in(), "10.0.0.8")).await;
    assert!(other.header("set-cookie").starts_with("windlass_"), "{}", other.header("set-cookie"));
    let by_origin = with_headers(sign_in_request(&world.first), &[("origin", "https://localhost:7117")]);
    let by_origin = world.send(by_origin).await;
    assert!(by_origin.header("set-cookie").ends_with("; Secure"), "{}", by_origin.header("set-cookie"));
}

/// Servers on other ports of a host set and receive the same cookies.
#[tokio::test]
async fn cookies_of_other_servers_do_not_matter() {
    let (world, neighbour) = (World::new(), World::new());
    let browser = Browser::sign_in(&world, &world.first).await;
    let other = Browser::sign_in(&neighbour, &neighbour.first).await;
    let names = [&browser, &other].map(|one| one.cookie.split('=').next().unwrap().to_owned());
    assert_ne!(names[0], names[1], "each store has a name");
    let both = format!("a=b; {}; {}=wls_planted; {}", other.cookie, names[0], browser.cookie);
    let ask = |cookie: &str| with_headers(new_request("GET", "/api/v1/tokens", None, None), &[("cookie", cookie)]);
    assert_eq!(world.send(ask(&both)).await.status, StatusCode::OK);
    assert_eq!(world.send(ask(&other.cookie)).await.status, StatusCode::UNAUTHORIZED);
    // A token counts before a cookie.
    let wrong = with_headers(ask(&browser.cookie), &[("authorization", "Bearer wl_wrong")]);
    assert_eq!(world.send(wrong).await.status, StatusCode::UNAUTHORIZED);
}

/// A user who has not signed in is not locked out; those who guess tokens are.
#[tokio::test]
async fn requests_without_a_token_are_not_limited() {
    let world = World::new();
    let ask = |token: Option<&str>| with_peer_address(new_request("GET", "/api/v1/runs", token, None), "127.0.0.1");
    for _ in 0..100 {
        assert_eq!(world.send(ask(None)).await.status, StatusCode::UNAUTHORIZED);
        let stale = with_headers(ask(None), &[("cookie", "windlass_00000000=wls_ended")]);
        assert_eq!(world.send(stale).await.status, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(world.send(ask(Some(&world.first))).await.status, StatusCode::OK);
    let mut guesses = Vec::new();
    for _ in 0..100 {
        guesses.push(world.send(with_peer_address(sign_in_request("wl_guess"), "127.0.0.1")).await.status);
    }
    assert_eq!(guesses[0], StatusCode::UNAUTHORIZED, "none was counted before");
    assert!(guesses.contains(&StatusCode::TOO_MANY_REQUESTS), "guessing is limited: {guesses:?}");
    let right = world.send(with_peer_address(sign_in_request(&world.first), "127.0.0.1")).await;
    assert_eq!(right.status, StatusCode::CREATED, "the right token is accepted nevertheless");
    assert_eq!(world.send(ask(None)).await.status, StatusCode::UNAUTHORIZED);
}

/// `windlass dev`: no token is required, but no other site gets in.
#[tokio::test]
async fn a_server_without_tokens_rejects_other_sites() {
    let world = World::with(ServerOptions { no_auth: true, dev: true, ..ServerOptions::default() });
    let state = world.send(new_request("GET", "/api/v1/session", None, None)).await.json();
    assert_eq!((&state["signed_in"], &state["authentication"]), (&json!(true), &json!(false)));
    let ask = |method: &str, headers: &[HeaderLine<'_>]| {
        let body = (method == "POST").then(new_token).flatten();
        with_headers(new_request(method, "/api/v1/tokens", None, body), headers)
    };
    let table: [(&str, &[HeaderLine<'_>], u16); 12] = [
        ("GET", &[], 200),
        ("GET", &[("sec-fetch-site", "same-origin")], 200),
        ("GET", &[("sec-fetch-site", "none")], 200),
        ("GET", &[("sec-fetch-site", "cross-site")], 403),
        ("GET", &[("sec-fetch-site", "same-site")], 403),
        ("GET", &[("host", "evil.example:7117")], 421),
        ("POST", &[], 201),
        ("POST", &[("origin", "http://localhost:7117"), ("sec-fetch-site", "same-origin")], 201),
        ("POST", &[("origin", "http://evil.example")], 403),
        ("POST", &[("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")], 403),
        ("POST", &[("sec-fetch-site", "cross-site")], 403),
        ("POST", &[("host", "evil.example:7117"), ("origin", "http://evil.example:7117")], 421),
    ];
    for (method, headers, expected) in table {
        let answer = world.send(ask(method, headers)).await;
        assert_eq!(answer.status.as_u16(), expected, "{method} {headers:?}: {}", answer.text());
    }
    let answer = world.send(sign_in_request("wl_any")).await;
    assert_eq!((answer.status, answer.header("set-cookie")), (StatusCode::OK, ""));
}

/// The link of another site leads to the document, which needs no cookie.
#[tokio::test]
async fn a_link_of_another_site_opens_the_web_ui() {
    let world = World::new();
    let navigation = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    let answer = world.send(with_headers(new_request("GET", "/runs/01m7", None, None), &navigation)).await;
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "text/html; charset=utf-8"));
    assert_eq!(answer.headers.get(header::SET_COOKIE), None);
}
