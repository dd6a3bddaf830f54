//! The `token` commands, and the doctor's check of the audit log.

use crate::support;

use std::fs;

use support::TestDir;
use windlass_server::audit::AuditLog;

#[test]
fn tokens_are_created_listed_and_revoked() {
    let place = TestDir::new();
    let made = place.windlass(&["token", "create", "ci", "--scope", "run,read", "--expires", "30d"]);
    made.exits(0).has("shown only once").has("read,run").has("until ");
    let secret = made.out.trim();
    assert!(secret.starts_with("wl_") && secret.len() == 46, "the token alone is on stdout: {secret}");

    let listed = place.json(&["token", "list", "--json"]);
    let entry = &listed[0];
    assert_eq!((&entry["name"], &entry["created_by"]), (&"ci".into(), &"program".into()));
    assert_eq!(entry["scopes"], serde_json::json!(["read", "run"]));
    assert!(entry["expires_at"].is_string() && !listed.to_string().contains(secret));
    place.windlass(&["token", "list"]).exits(0).has("never used");

    let id = entry["id"].as_str().expect("an id");
    place.windlass(&["token", "revoke", id]).exits(0).has("is revoked");
    place.windlass(&["token", "revoke", id]).exits(3).has("there is no token").has("windlass token list");
    // The secret is nowhere in the store.
    for file in fs::read_dir(place.path(".windlass")).expect("the store") {
        let path = file.expect("a file").path();
        let bytes = if path.is_file() { fs::read(&path).expect("its bytes") } else { Vec::new() };
        assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{}", path.display());
    }
}

#[test]
fn invalid_token_arguments_are_rejected() {
    let place = TestDir::new();
    place.windlass(&["token", "list"]).exits(3).has("there is no store");
    place.windlass(&["token", "create", "x", "--scope", "everything"]).exits(3).has("`everything` is not a scope");
    place.windlass(&["token", "create", "x", "--scope", "contrl"]).exits(3).has("did you mean `control`?");
    place.windlass(&["token", "create", "x"]).exits(3).has("--scope");
    place.windlass(&["token", "create", "", "--scope", "read"]).exits(3).has("name");
    place.windlass(&["token", "create", "x", "--scope", "read", "--expires", "soon"]).exits(3).has("is not a duration");
}

#[test]
fn the_last_admin_token_cannot_be_revoked() {
    let place = TestDir::new();
    let one = place.json(&["token", "create", "one", "--scope", "admin", "--json"]);
    let id = one["id"].as_str().expect("an id");
    place.windlass(&["token", "revoke", id]).exits(3).has("the last admin token").has("token create");
    place.windlass(&["token", "create", "other", "--scope", "admin"]).exits(0);
    place.windlass(&["token", "revoke", id]).exits(0);
}

#[test]
fn the_doctor_checks_the_audit_log() {
    let place = TestDir::new();
    place.windlass(&["token", "create", "one", "--scope", "admin"]).exits(0);
    for _ in 0..4 {
        drop(AuditLog::open(&place.path(".windlass")).expect("a log"));
    }
    place.windlass(&["doctor"]).exits(0).has("no problems");
    let log = place.path(".windlass").join("audit.log");
    let text = fs::read_to_string(&log).expect("the log");
    let third = text.lines().nth(2).expect("a third line");
    fs::write(&log, text.replace(third, &third.replace("start", "stars"))).expect("written");
    place.windlass(&["doctor"]).exits(1).has("the chain is broken at line 3").has("audit.log");
}

#[test]
fn a_token_is_for_single_definitions() {
    let place = TestDir::new();
    let made =
        place.windlass(&["token", "create", "shop", "--scope", "run,control", "--definition", "orders,shop/refunds"]);
    made.exits(0).has("run,control of orders,shop/refunds");
    let listed = place.json(&["token", "list", "--json"]);
    assert_eq!(listed[0]["definitions"], serde_json::json!(["orders", "shop/refunds"]));
    place
        .windlass(&["token", "create", "x", "--scope", "admin", "--definition", "orders"])
        .exits(3)
        .has("cannot have the scope `admin`")
        .has("leave out the definitions");
}
