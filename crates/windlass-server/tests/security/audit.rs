//! The audit log: every changing call, durable before its response, in a hash chain.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use windlass_runtime::real_now;
use windlass_server::audit::{self, AuditEntry, AuditLog, verify};
use windlass_server::auth::TokenScope;

use crate::world::{World, new_request, with_peer_address};

fn lines(directory: &Path) -> Vec<Value> {
    let text = fs::read_to_string(directory.join("audit.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn entry(status: u16) -> AuditEntry {
    AuditEntry {
        at: real_now(),
        actor: None,
        via: None,
        from: None,
        method: "POST".to_owned(),
        route: "/trial".to_owned(),
        path: Map::new(),
        status: Some(status),
        body: None,
    }
}

#[track_caller]
fn assert_intact(directory: &Path, lines: u64) {
    let checked = verify(directory, None).unwrap();
    assert_eq!((checked.lines, checked.findings), (lines, Vec::new()));
}

#[tokio::test]
async fn a_changing_call_is_logged_before_its_response() {
    let world = World::new();
    let body = json!({ "name": "canary-name", "scopes": ["read"] });
    let request = with_peer_address(new_request("POST", "/api/v1/tokens", Some(&world.first), Some(body)), "10.1.2.3");
    let made = world.send(request).await.json();
    let (id, secret) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    world.send(new_request("DELETE", &format!("/api/v1/tokens/{id}"), Some(&world.first), None)).await;
    let lines = lines(world.directory.path());
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!((&lines[0]["n"], &lines[0]["event"]), (&json!(1), &json!("start")));
    let call = &lines[1];
    assert_eq!(call["actor"]["name"], "first");
    assert_eq!(call["from"], "10.1.2.3:40000");
    assert_eq!((&call["method"], &call["route"]), (&json!("POST"), &json!("/api/v1/tokens")));
    // The entry was written during the call: no second entry for its end means that it has succeeded.
    assert_eq!((&call["status"], &call["body"]["bytes"]), (&Value::Null, &json!(40)));
    assert_eq!(call["body"]["hash"].as_str().unwrap().len(), 32);
    assert_eq!((&lines[2]["path"]["id"], &lines[2]["status"]), (&json!(id), &json!(200)));
    // Neither the request nor the response body.
    let text = fs::read_to_string(world.directory.path().join("audit.log")).unwrap();
    assert!(!text.contains(secret) && !text.contains(&world.first) && !text.contains("canary-name"));
    assert_intact(world.directory.path(), 3);
}

#[tokio::test]
async fn a_failed_call_has_a_second_entry() {
    let world = World::new();
    assert_eq!(world.post("/api/v1/tokens", json!({ "name": "", "scopes": [] })).await.status, 422);
    let lines = lines(world.directory.path());
    assert_eq!((&lines[1]["route"], &lines[1]["status"]), (&json!("/api/v1/tokens"), &Value::Null));
    assert_eq!((&lines[2]["line"], &lines[2]["status"]), (&lines[1]["n"], &json!(422)));
    assert_intact(world.directory.path(), 3);
}

/// A client that disconnects right after its request gets no response; the call still happens and is logged.
/// The only blocking thread is held while the clients disconnect: their calls wait for the store.
#[test]
fn a_call_of_a_disconnected_client_is_logged() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let world = World::new();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let holder = tokio::task::spawn_blocking(move || held.recv());
        for path in ["/api/v1/runs/gone", "/api/v1/definitions/gone"] {
            let mut request = Box::pin(world.send(new_request("DELETE", path, Some(&world.first), None)));
            let is_at_store =
                std::future::poll_fn(|context| Poll::Ready(request.as_mut().poll(context).is_pending())).await;
            assert!(is_at_store, "{path}");
            // The client is gone.
            drop(request);
        }
        drop(release);
        assert!(holder.await.unwrap().is_err());
        // Later entries follow it.
        world.post("/api/v1/tokens", json!({ "name": "a", "scopes": ["read"] })).await;
        let lines = lines(world.directory.path());
        let routes: Vec<_> = lines[1..].iter().map(|line| line["route"].as_str().unwrap()).collect();
        assert_eq!(routes, ["/api/v1/runs/{run}", "/api/v1/definitions/{name}", "/api/v1/tokens"]);
        assert_eq!((&lines[1]["actor"]["name"], &lines[1]["path"]["run"]), (&json!("first"), &json!("gone")));
        assert_intact(world.directory.path(), 4);
    });
}

#[tokio::test]
async fn reads_are_not_logged_and_refusals_are_rate_limited() {
    let world = World::new();
    world.get("/api/v1/tokens").await;
    let (_, reader) = world.token(&[TokenScope::Read]);
    let body = || Some(json!({}));
    let begun = std::time::Instant::now();
    assert_eq!(
        world.send(new_request("POST", "/api/v1/tokens", Some(&reader), body())).await.status,
        StatusCode::FORBIDDEN
    );
    for _ in 0..500 {
        let refused = world.send(new_request("POST", "/api/v1/tokens", Some("wl_unknown"), body())).await;
        assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    }
    // An entry that is awaited comes after those that are not.
    assert_eq!(world.post("/api/v1/tokens", json!({ "name": "" , "scopes": [] })).await.status, 422);
    // A delivery without credentials has no actor.
    assert_eq!(world.send(new_request("POST", "/hooks/missing/new", None, body())).await.status, StatusCode::NOT_FOUND);
    let lines = lines(world.directory.path());
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["status"], last["path"]["trigger"].as_str(), &last["actor"]),
        (&json!(404), Some("new"), &Value::Null)
    );
    assert_eq!((&lines[1]["status"], &lines[1]["actor"]["name"]), (&json!(403), &json!("trial")));
    assert_eq!((&lines[2]["status"], &lines[2]["actor"]), (&json!(401), &Value::Null));
    // A burst of a hundred, and then ten a second, in addition to those that are awaited.
    let max_entries = 120 + 10 * begun.elapsed().as_secs() as usize;
    assert!((50..max_entries).contains(&lines.len()), "{} lines of at most {max_entries}", lines.len());
    assert!(!fs::read_to_string(world.directory.path().join("audit.log")).unwrap().contains("wl_unknown"));
}

#[tokio::test]
async fn pages_lead_through_all_files() {
    let directory = tempfile::tempdir().unwrap();
    let log = AuditLog::open_with(directory.path(), 4_000).unwrap();
    for status in 0..100 {
        assert!(log.write(&entry(status)).await);
    }
    drop(log);
    let files = fs::read_dir(directory.path()).unwrap().count();
    assert!(files > 4, "{files} files: it is rotated as it grows");
    assert_intact(directory.path(), 101);
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let page = audit::read_page(directory.path(), after, 7).unwrap();
        assert!(page.items.len() <= 7 && page.last == 101, "{page:?}");
        seen.extend(page.items.iter().map(|line| line["n"].as_u64().unwrap()));
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seen, (1..=101).collect::<Vec<_>>());
    // The oldest file may be archived elsewhere; the rest is still a chain.
    let mut oldest: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    oldest.sort();
    let moved = line_numbers(&fs::read_to_string(&oldest[0]).unwrap());
    fs::remove_file(&oldest[0]).unwrap();
    let (last, next) = (moved.last().unwrap(), moved.last().unwrap() + 1);
    assert_eq!(verify(directory.path(), Some(next)).unwrap().findings, Vec::<String>::new());
    let findings = verify(directory.path(), None).unwrap().findings;
    let is_named = findings[0].contains(&format!("lines 1 to {last} are missing at its beginning"));
    assert!(findings.len() == 1 && is_named && findings[0].contains(&format!("--audit-from {next}")), "{findings:?}");
    // But not one from the middle.
    fs::remove_file(&oldest[2]).unwrap();
    let findings = verify(directory.path(), Some(next)).unwrap().findings;
    assert!(findings.len() == 1 && findings[0].contains("is missing"), "{findings:?}");
    // The log continues at its end.
    drop(AuditLog::open(directory.path()).unwrap());
    assert_eq!(audit::read_page(directory.path(), 101, 10).unwrap().items[0]["n"], 102);
}

#[tokio::test]
async fn a_page_is_found_in_a_large_file() {
    let directory = tempfile::tempdir().unwrap();
    let log = Arc::new(AuditLog::open(directory.path()).unwrap());
    let notes: Vec<_> = (0..5_000)
        .map(|status| {
            let log = log.clone();
            tokio::spawn(async move { log.write(&entry(status % 600)).await })
        })
        .collect();
    for note in notes {
        assert!(note.await.unwrap());
    }
    let stats = log.stats();
    assert_eq!((stats.lines, stats.queued), (5_000, 0));
    assert!(stats.syncs < 1_000, "{} syncs: many calls share one", stats.syncs);
    for after in [0, 1, 17, 2_499, 4_990, 4_999, 5_000, 5_001, u64::MAX] {
        let page = audit::read_page(directory.path(), after, 3).unwrap();
        let numbers: Vec<u64> = page.items.iter().map(|line| line["n"].as_u64().unwrap()).collect();
        let expected: Vec<u64> = (after.saturating_add(1)..=5_001).take(3).collect();
        assert_eq!(numbers, expected, "after {after}");
    }
}

#[tokio::test]
async fn the_api_serves_pages_to_admin_tokens_only() {
    let world = World::new();
    for name in ["a", "b", "c"] {
        world.post("/api/v1/tokens", json!({ "name": name, "scopes": ["read"] })).await;
    }
    let page = world.get("/api/v1/audit?after=1&limit=2").await.json();
    let numbers: Vec<u64> = page["items"].as_array().unwrap().iter().map(|line| line["n"].as_u64().unwrap()).collect();
    assert_eq!((numbers, &page["next"]), (vec![2, 3], &json!(3)));
    let rest = world.get("/api/v1/audit?after=3").await.json();
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
}

#[tokio::test]
async fn any_change_breaks_the_chain() {
    let directory = tempfile::tempdir().unwrap();
    let log = AuditLog::open(directory.path()).unwrap();
    for status in 0..8 {
        log.write(&entry(200 + status)).await;
    }
    drop(log);
    let path = directory.path().join("audit.log");
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let without: Vec<&str> = lines.iter().copied().filter(|line| !line.contains("\"n\":5,")).collect();
    let mut swapped = lines.clone();
    swapped.swap(3, 4);
    let mut twice = lines.clone();
    twice.insert(4, lines[4]);
    let cases = [
        ("a value", whole.replace("\"status\":203", "\"status\":500"), 5),
        ("a number", whole.replace("\"n\":5,", "\"n\":50,"), 50),
        ("a line less", without.join("\n") + "\n", 6),
        ("another order", swapped.join("\n") + "\n", 5),
        ("a line twice", twice.join("\n") + "\n", 5),
        ("the first line", whole.replacen("start", "stars", 1), 1),
        ("no line at all", whole.replacen("{\"n\":4", "[\"n\":4", 1), 4),
    ];
    for (what, text, at) in cases {
        fs::write(&path, text).unwrap();
        let findings = verify(directory.path(), None).unwrap().findings;
        assert!(findings.iter().any(|one| one.contains(&format!("at line {at} "))), "{what}: {findings:?}");
    }
    fs::write(&path, &whole).unwrap();
    assert_intact(directory.path(), 9);
}

fn line_numbers(text: &str) -> Vec<u64> {
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["n"].as_u64().unwrap()).collect()
}

/// Lines that are removed at either end are noticed, also after a server has continued the log.
#[tokio::test]
async fn removed_lines_at_the_beginning_and_the_end_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let log = AuditLog::open(directory.path()).unwrap();
    for status in 0..8 {
        log.write(&entry(200 + status)).await;
    }
    drop(log);
    assert_intact(directory.path(), 9);
    let path = directory.path().join("audit.log");
    let whole = fs::read_to_string(&path).unwrap();
    let (lines, end) = (whole.lines().collect::<Vec<_>>(), fs::read(directory.path().join("audit.end")).unwrap());
    let finding = |part: &str| {
        let findings = verify(directory.path(), None).unwrap().findings;
        assert!(findings.iter().any(|one| one.contains(part)), "{part}: {findings:?}");
    };
    for kept in 0..9 {
        fs::write(&path, lines[..kept].iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        finding(&format!("lines {} to 9 are missing at its end", kept + 1));
    }
    fs::write(&path, lines[3..].join("\n") + "\n").unwrap();
    finding("lines 1 to 3 are missing at its beginning");
    // The next server continues behind the gap, and says so in the log.
    fs::write(&path, lines[..6].join("\n") + "\n").unwrap();
    drop(AuditLog::open(directory.path()).unwrap());
    let last = serde_json::from_str::<Value>(fs::read_to_string(&path).unwrap().lines().last().unwrap()).unwrap();
    assert_eq!((&last["n"], &last["event"], &last["removed_lines"]), (&json!(10), &json!("start"), &json!(3)));
    finding("line 7 is missing, 10 follows");
    // A removed or changed record of the end is noticed as well.
    fs::write(&path, &whole).unwrap();
    for bytes in [None, Some(b"9 x y".to_vec()), Some(end.iter().map(|byte| byte ^ 1).collect())] {
        let record = directory.path().join("audit.end");
        fs::remove_file(&record).unwrap();
        if let Some(bytes) = bytes {
            fs::write(&record, bytes).unwrap();
        } else {
            finding("audit.end, is missing or was changed");
            drop(AuditLog::open(directory.path()).unwrap());
            assert!(fs::read_to_string(&path).unwrap().contains("\"end_unknown\":true"));
            fs::write(&path, &whole).unwrap();
            continue;
        }
        finding("audit.end, is missing or was changed");
    }
    fs::write(directory.path().join("audit.end"), end).unwrap();
    assert_intact(directory.path(), 9);
}

/// A chain that was computed anew without the key of the store does not fit.
#[tokio::test]
async fn a_log_of_another_key_is_found() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for place in [&directory, &other] {
        AuditLog::open(place.path()).unwrap().write(&entry(200)).await;
    }
    assert_ne!(
        fs::read(directory.path().join("audit.key")).unwrap(),
        fs::read(other.path().join("audit.key")).unwrap()
    );
    fs::copy(other.path().join("audit.log"), directory.path().join("audit.log")).unwrap();
    let findings = verify(directory.path(), None).unwrap().findings;
    assert!(findings[0].contains("at line 1 ") && findings[0].contains("without the key"), "{findings:?}");
    fs::remove_file(directory.path().join("audit.key")).unwrap();
    assert!(verify(directory.path(), None).unwrap().findings[0].contains("its key, audit.key, is missing"));
    let Err(error) = AuditLog::open(directory.path()) else { panic!("it continues without the key") };
    assert!(error.to_string().contains("audit.key: it is missing"), "{error}");
}

/// A crash leaves a torn entry: wherever it ends, the log continues.
#[tokio::test]
async fn the_log_continues_after_a_crash_at_any_byte() {
    let directory = tempfile::tempdir().unwrap();
    let (path, end) = (directory.path().join("audit.log"), directory.path().join("audit.end"));
    let log = AuditLog::open(directory.path()).unwrap();
    // The record of the end after each line: a line that a crash has cut is not in it yet.
    let mut ends = vec![Vec::new(), fs::read(&end).unwrap()];
    for status in [200, 201] {
        log.write(&entry(status)).await;
        ends.push(fs::read(&end).unwrap());
    }
    drop(log);
    let whole = fs::read(&path).unwrap();
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let complete = whole[..cut].iter().filter(|byte| **byte == b'\n').count() as u64;
        fs::write(&end, &ends[complete as usize]).unwrap();
        assert_intact(directory.path(), complete);
        drop(AuditLog::open(directory.path()).unwrap());
        assert_intact(directory.path(), complete + 1);
        let last = lines(directory.path()).pop().unwrap();
        let torn = cut - whole[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        assert_eq!(last["cut_bytes"].as_u64().unwrap_or(0), torn as u64, "the number of truncated bytes is recorded");
    }
}

/// A power loss may keep the last sector of lines that were not synced and lose those before it, which read as zeros.
#[tokio::test]
async fn the_log_continues_after_a_power_loss() {
    let directory = tempfile::tempdir().unwrap();
    let log = AuditLog::open(directory.path()).unwrap();
    log.write(&entry(200)).await;
    drop(log);
    let path = directory.path().join("audit.log");
    for left in [&b"{\"n\":9\0\0\0\"}\n{\"n\":10,\"hash\":\"00\"}\n"[..], b"\0\0\0\0", b"\0\0\n"] {
        let synced = fs::read(&path).unwrap();
        let lines = synced.iter().filter(|byte| **byte == b'\n').count() as u64;
        fs::write(&path, [&synced, left].concat()).unwrap();
        assert_intact(directory.path(), lines);
        drop(AuditLog::open(directory.path()).unwrap());
        assert_intact(directory.path(), lines + 1);
    }
}

#[test]
fn only_one_server_writes_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let first = AuditLog::open(directory.path()).unwrap();
    let Err(refused) = AuditLog::open(directory.path()) else { panic!("two of them write") };
    assert!(refused.to_string().contains("another server"), "{refused}");
    drop(first);
    assert!(AuditLog::open(directory.path()).is_ok());
}
