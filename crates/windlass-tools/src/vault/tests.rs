use windlass_store::MemoryStore;

use super::*;

const LIMITS: VaultLimits = VaultLimits { max_credentials: 3, max_credential_bytes: 100 };

fn vault(store: &Arc<dyn Store>, key: u8) -> CredentialVault {
    let vault = CredentialVault::new(|| None, move |_| Ok([key; 32]));
    vault.attach(store.clone());
    vault
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// Changes the body of a record as someone with access to the store's file could.
fn tamper(store: &dyn Store, variable: &str, change: impl FnOnce(&str) -> String) {
    let row = store.record(KIND, variable).unwrap().unwrap();
    let body = change(std::str::from_utf8(&row.body).unwrap());
    store.change_records(vec![RecordChange::put(KIND, variable, body.into_bytes(), row.at)]).unwrap();
}

fn reason(vault: &CredentialVault, variable: &str) -> String {
    vault.open(variable).unwrap_err().reason
}

#[test]
fn a_credential_is_encrypted_and_bound_to_its_name() {
    let store = memory();
    let own = vault(&store, 1);
    own.set("pg-main", "postgres://u:canary-1@h/db", "me", LIMITS).unwrap();
    let set = own.set("api", r#"{"type": "bearer", "token": "canary-2"}"#, "me", LIMITS).unwrap();
    assert_eq!((set.kind.as_str(), set.by.as_str(), &set.problem), ("bearer", "me", &None));
    assert_eq!(own.names(), ["api", "pg-main"]);
    assert_eq!(own.open("WINDLASS_AUTH_PG_MAIN").unwrap().as_deref(), Some("postgres://u:canary-1@h/db"));
    let rows = store.records(KIND, "", 10).unwrap();
    assert!(rows.iter().all(|row| !String::from_utf8_lossy(&row.body).contains("canary")));
    // A value under another name, or with another description, is rejected; the other credential is not affected.
    let put = RecordChange::put(KIND, "WINDLASS_AUTH_MOVED", rows[1].body.clone(), real_now());
    store.change_records(vec![put]).unwrap();
    assert!(reason(&own, "WINDLASS_AUTH_MOVED").contains("damaged"));
    tamper(&*store, "WINDLASS_AUTH_API", |body| body.replace("bearer", "basic"));
    assert!(reason(&own, "WINDLASS_AUTH_API").contains("damaged"));
    assert!(own.open("WINDLASS_AUTH_PG_MAIN").unwrap().is_some());
    assert!(own.remove("pg-main").unwrap() && !own.remove("pg-main").unwrap());
    assert_eq!(own.open("WINDLASS_AUTH_PG_MAIN").unwrap(), None);
}

#[test]
fn the_same_value_is_encrypted_differently_each_time() {
    let store = memory();
    let own = vault(&store, 1);
    let sealed = |name: &str| {
        own.set(name, "the same value", "me", LIMITS).unwrap();
        SealedRecord::decode(&store.record(KIND, &auth_variable(name)).unwrap().unwrap()).unwrap().encode()
    };
    assert_ne!(sealed("a"), sealed("a"));
}

#[test]
fn problems_are_told_apart_and_stay_with_their_credential() {
    let store = memory();
    let own = vault(&store, 1);
    own.set("cut", "canary-cut", "me", LIMITS).unwrap();
    own.set("whole", "canary-whole", "me", LIMITS).unwrap();
    tamper(&*store, "WINDLASS_AUTH_CUT", |body| body[..20].to_owned());
    let listed = own.list().unwrap();
    let problems: Vec<_> = listed.iter().map(|one| (one.name.as_str(), one.problem.is_some())).collect();
    assert_eq!(problems, [("CUT", true), ("whole", false)]);
    assert_eq!(own.learn_all().len(), 1);
    let other = vault(&store, 2);
    assert!(reason(&other, "WINDLASS_AUTH_WHOLE").contains("another key"));
    assert!(matches!(other.set("new", "x", "me", LIMITS), Err(VaultError::OtherKey(name)) if name == "whole"));
    let problem = KeyProblem { message: "no key".to_owned(), hint: "restore it".to_owned() };
    let keyless = CredentialVault::new(|| None, move |_| Err(problem.clone()));
    keyless.attach(store.clone());
    assert_eq!(keyless.open("WINDLASS_AUTH_WHOLE").unwrap_err().hint, "restore it");
    assert_eq!(keyless.list().unwrap()[1].problem.as_deref(), Some("no key"));
    // A damaged one can be removed by the name that the list shows, or set again.
    own.set("cut", "again", "me", LIMITS).unwrap();
    assert_eq!(own.open("WINDLASS_AUTH_CUT").unwrap().as_deref(), Some("again"));
}

/// A new key beside values of a lost one would hide that the old one is missing.
#[test]
fn a_key_is_created_only_for_the_first_credential() {
    let store = memory();
    let requested: Arc<std::sync::Mutex<Vec<KeyAccess>>> = Arc::default();
    let noted = requested.clone();
    let own = CredentialVault::new(
        || None,
        move |access| {
            noted.lock().unwrap().push(access);
            Ok([1; 32])
        },
    );
    own.attach(store);
    for name in ["a", "a", "b"] {
        own.set(name, "value", "me", LIMITS).unwrap();
    }
    use KeyAccess::{CreateIfMissing, Existing};
    assert_eq!(*requested.lock().unwrap(), [CreateIfMissing, CreateIfMissing, Existing]);
}

#[test]
fn unusable_credentials_are_refused() {
    let store = memory();
    let own = vault(&store, 1);
    own.set("a-b", "x", "me", LIMITS).unwrap();
    for (name, value, part) in [
        ("", "x", "name"),
        ("a\n", "x", "name"),
        (" a", "x", "name"),
        ("ä", "x", "name"),
        ("--", "x", "name"),
        ("a", " \n", "empty"),
        ("a", &"x".repeat(101), "more than 100"),
        ("a", r#"{"password": "#, "cannot be used"),
        ("a", "{}", "without fields"),
        ("A_B", "x", "cannot be told apart"),
    ] {
        let error = own.set(name, value, "me", LIMITS).unwrap_err();
        assert!(error.to_string().contains(part), "{name:?} {value:?}: {error}");
        assert!(!error.hint().is_empty());
    }
    own.set("c", "x", "me", LIMITS).unwrap();
    own.set("d", "x", "me", LIMITS).unwrap();
    assert!(matches!(own.set("e", "x", "me", LIMITS), Err(VaultError::TooMany(3))));
    own.set("d", "another", "me", LIMITS).unwrap();
    assert!(matches!(CredentialVault::default().set("a", "x", "me", LIMITS), Err(VaultError::NoStore)));
}

#[test]
fn opened_secrets_are_known_for_redaction() {
    let store = memory();
    vault(&store, 1).set("api", r#"{"api_key": "canary-of-api", "user": "someone"}"#, "me", LIMITS).unwrap();
    let own = vault(&store, 1);
    assert_eq!(own.known_secrets().redactor().redact_text("canary-of-api"), "canary-of-api");
    own.open("WINDLASS_AUTH_API").unwrap();
    assert_eq!(own.known_secrets().redactor().redact_text("canary-of-api of someone"), "*** of someone");
}

#[test]
fn kinds_say_what_is_stored() {
    for (value, kind) in [
        ("secret", "text"),
        ("postgres://h/db", "url"),
        (r#"{"user": "u", "password": "p"}"#, "fields"),
        (r#"{"type": "postgres", "data": {"db_host": "h"}}"#, "postgres"),
        (r#"{"type": "a secret by mistake", "x": 1}"#, "fields"),
        (r#"{"url": "https://h"}"#, "url"),
    ] {
        assert_eq!(kind_of(&check_value(value, 100).unwrap()), kind, "{value}");
    }
}
