use windlass_runtime::{EventPublisher, InputGate, SecureInput, SecureShape};
use windlass_value::{Duration, parse_json, to_json};

use super::*;
use crate::credentials::NamedCredentials;
use crate::secret::Secret;

const SECRET: &str = "canary-7f3a/b+c";

fn seals() -> SecretSealer {
    SecretSealer::new(|| Some([7; 32]))
}

fn boundary(configured: &[Secret]) -> SecretBoundary {
    let credentials = NamedCredentials::new(|name| match name {
        "WINDLASS_AUTH_API" => Some(format!(r#"{{"token": "{SECRET}", "user": "ann"}}"#)),
        _ => None,
    });
    SecretBoundary::new(seals(), Arc::new(credentials), KnownSecrets::new(configured))
}

/// Returns the input that the tool sees, the outcome of a tool that repeats its input everywhere, and its event.
async fn call_through(boundary: &SecretBoundary, input: &Value) -> (String, TaskOutcome, String) {
    let saw = Arc::new(std::sync::Mutex::new(String::new()));
    let seen_by_tool = saw.clone();
    let tools = Tools::new().with_fn("t", move |call| {
        *seen_by_tool.lock().unwrap() = to_json(&call.input);
        async move {
            call.publish.send("note", call.input.clone());
            let error = ErrorInfo::new(to_json(&call.input), "tool", to_json(&call.input));
            let again = Some(NextCall { input: call.input.clone(), after: Duration::ZERO });
            let (meta, facts) = (call.input.clone(), call.input.clone());
            TaskOutcome { error: Some(error), meta, facts, next_call: again, ..TaskOutcome::success(call.input) }
        }
    });
    let (publish, mut events) = EventPublisher::channel();
    let call = ToolCall { publish, ..ToolCall::for_test(input.clone()) };
    let outcome = boundary.wrap(tools).get("t").unwrap().call(call).await;
    let event = format!("{:?}", events.recv().await);
    let saw = saw.lock().unwrap().clone();
    (saw, outcome, event)
}

#[tokio::test]
async fn references_are_opened_in_the_input_and_redacted_in_the_output() {
    let seal = seals().seal("run", "api", "token").unwrap();
    let input = Value::object([("h", Value::from(format!("Bearer {seal}"))), ("n", Value::from(1i64))]);
    let (saw, outcome, event) = call_through(&boundary(&[]), &input).await;
    assert_eq!(saw, format!(r#"{{"h":"Bearer {SECRET}","n":1}}"#));
    assert_eq!(to_json(&outcome.output), r#"{"h":"Bearer ***","n":1}"#);
    assert!(!format!("{outcome:?} {event}").contains("canary"), "{outcome:?} {event}");
    // An operation that continues later has the reference again.
    assert_eq!(outcome.next_call.unwrap().input, input);
}

/// The link to the next page is called later: a secret in it becomes the reference again, and one that cannot is not
/// kept.
#[tokio::test]
async fn the_link_of_a_page_keeps_the_reference() {
    let seal = seals().seal("run", "api", "token").unwrap();
    let page = |key: &str| parse_json(&format!(r#"{{"page": {{"next": "https://h/?page=2&key={key}"}}}}"#)).unwrap();
    let (_, outcome, _) = call_through(&boundary(&[]), &page(&seal)).await;
    assert_eq!(outcome.facts, page(&seal));
    assert!(!format!("{outcome:?}").contains("canary"), "{outcome:?}");
    let configured = [Secret::new("canary-configured")];
    let (_, outcome, _) = call_through(&boundary(&configured), &page("canary-configured")).await;
    assert_eq!(outcome.facts, page("***"));
}

#[tokio::test]
async fn a_foreign_reference_is_not_opened() {
    let own = seals().seal("run", "api", "token").unwrap();
    let other = SecretSealer::new(|| Some([8; 32])).seal("run", "api", "token").unwrap();
    for text in [
        other.as_str(),
        // References of another run and of no run.
        &seals().seal("other", "api", "token").unwrap(),
        &seals().seal("", "api", "token").unwrap(),
        "<secret:api:token:>",
        "<secret:api:token>",
        "<secret:",
        &own.replace("token", "user"),
        &own.replace(">", ":x>"),
        &own.to_uppercase(),
    ] {
        let (saw, _, _) = call_through(&boundary(&[]), &Value::from(text)).await;
        assert_eq!(saw, to_json(&Value::from(text)));
    }
    let (_, outcome, _) = call_through(&boundary(&[]), &Value::from(own.as_str())).await;
    assert_eq!(to_json(&outcome.output), r#""***""#);
    // A service that sends a reference does not get it opened.
    let tools = Tools::new().with_fn("t", move |_| {
        let reply = Value::from(own.clone());
        async move { TaskOutcome::success(reply) }
    });
    let outcome = boundary(&[]).wrap(tools).get("t").unwrap().call(ToolCall::for_test(Value::Null)).await;
    assert!(!has_secret_reference(&outcome.output), "{outcome:?}");
    let missing = seals().seal("run", "missing", "").unwrap();
    let outcome = call_through(&boundary(&[]), &Value::from(missing)).await.1;
    assert_eq!(&*outcome.error.unwrap().code, "UnknownCredential");
}

#[tokio::test]
async fn configured_secrets_are_redacted_from_every_outcome() {
    let boundary = boundary(&[Secret::new("model-key-0123"), Secret::plain("ordinary text")]);
    let input = parse_json(
        r#"{"a": "model-key-0123 and ordinary text", "b": ["bW9kZWwta2V5LTAxMjM=", "6d6f64656c2d6b65792d30313233"]}"#,
    );
    let (_, outcome, event) = call_through(&boundary, &input.unwrap()).await;
    assert_eq!(outcome.output.get("a").and_then(Value::as_str), Some("*** and ordinary text"));
    for part in ["model-key", "bW9kZWwta2V5", "6d6f64656c2d6b6579"] {
        assert!(!format!("{outcome:?} {event}").contains(part), "{part}: {outcome:?}");
    }
}

fn secure() -> Vec<SecureInput> {
    let shapes = [("text", SecureShape::Text), ("login", SecureShape::Object)];
    shapes.map(|(name, shape)| SecureInput { name: name.into(), shape, default: None }).to_vec()
}

#[test]
fn secure_parameters_come_as_references() {
    let seal = |field: &str| seals().seal("run", "api", field).unwrap();
    let own = format!(r#"{{"text": "{}"}}"#, seal("token"));
    let shown = format!(r#"{{"text": "{}"}}"#, seals().seal("other", "api", "token").unwrap());
    for (given, kept) in [
        (r#"{"text": {"$secret": "api"}}"#, Ok(format!(r#"{{"text":"{}"}}"#, seal("")))),
        (r#"{"text": {"$secret": "api", "field": "token"}}"#, Ok(format!(r#"{{"text":"{}"}}"#, seal("token")))),
        (
            r#"{"login": {"user": {"$secret": "api", "field": "user"}, "password": {"$secret": "api"}}}"#,
            Ok(format!(r#"{{"login":{{"user":"{}","password":"{}"}}}}"#, seal("user"), seal(""))),
        ),
        (own.as_str(), Ok(own.replace(": ", ":"))),
        // A reference displayed by another run names the secret and is resealed for this run.
        (shown.as_str(), Ok(own.replace(": ", ":"))),
        (
            r#"{"open": "<secret:api:token:0>", "text": null}"#,
            Ok(r#"{"open":"<secret :api:token:0>","text":null}"#.to_owned()),
        ),
        (r#"{"open": {"$secret": "api"}}"#, Ok(r#"{"open":{"$secret":"api"}}"#.to_owned())),
        (r#"{"text": "hunter2"}"#, Err("is secure")),
        (r#"{"text": {"$secret": 5}}"#, Err("names no credential")),
        (r#"{"text": {"$secret": "api", "feld": "x"}}"#, Err("names no credential")),
        (r#"{"login": {"$secret": "api"}}"#, Err("whose fields name credentials")),
        (r#"{"login": {"password": "hunter2"}}"#, Err("is secure")),
        (r#"{"login": "hunter2"}"#, Err("is secure")),
        (r#"{"text": "<secret:api:token:0>"}"#, Err("is secure")),
    ] {
        let admitted = seals().admit(&secure(), "run", parse_json(given).unwrap()).map(|input| to_json(&input));
        match kept {
            Ok(kept) => assert_eq!(admitted, Ok(kept), "{given}"),
            Err(why) => {
                let error = admitted.unwrap_err();
                assert!(error.contains(why) && !error.contains("hunter2"), "{given}: {error}");
            }
        }
    }
    let without = SecretSealer::new(|| None);
    assert!(without.admit(&secure(), "run", parse_json(r#"{"text": {"$secret": "api"}}"#).unwrap()).is_err());
}

#[test]
fn a_default_is_a_reference_of_each_run() {
    let mut secure = secure();
    secure[0].default = Some(parse_json(r#"{"$secret": "api", "field": "token"}"#).unwrap());
    secure[1].default = Some(parse_json(r#"{"password": {"$secret": "api"}}"#).unwrap());
    for input in &mut secure {
        let Some(SealOutcome::Sealed(sealed)) = seals().seal_default(input) else { panic!("{input:?}") };
        input.default = Some(sealed);
    }
    assert_eq!(secure[0].default, Some(Value::from("<secret:api:token:>")));
    for run_tree in ["one", "other"] {
        let seal = |field: &str| Value::from(seals().seal(run_tree, "api", field).unwrap());
        let login = Value::object([("password", seal(""))]);
        let expected = Value::object([("text", seal("token")), ("login", login)]);
        assert_eq!(seals().defaults(&secure, run_tree), Ok(expected));
    }
    assert!(SecretSealer::new(|| None).defaults(&secure, "one").is_err());
}

/// Calls a remote tool and returns the key fingerprint it received, the input its worker sees with `key`, and the
/// outcome.
async fn call_remotely(input: &str, key: Option<[u8; 32]>) -> (Option<Arc<str>>, String, TaskOutcome) {
    struct FakeRemoteTool(Arc<std::sync::Mutex<Option<ToolCall>>>);
    impl Tool for FakeRemoteTool {
        fn call(&self, call: ToolCall) -> ToolFuture {
            *self.0.lock().unwrap() = Some(call);
            Box::pin(std::future::ready(TaskOutcome::success(Value::Null)))
        }

        fn runs_remotely(&self, _: &ToolCall) -> bool {
            true
        }
    }
    let given: Arc<std::sync::Mutex<Option<ToolCall>>> = Arc::default();
    let server = boundary(&[]).wrap(Tools::new().with("t", FakeRemoteTool(given.clone())));
    server.get("t").unwrap().call(ToolCall::for_test(Value::from(input))).await;
    let handed = given.lock().unwrap().take().unwrap();
    assert_eq!(handed.input, Value::from(input), "it is opened there");
    let sealed_by = handed.sealed_by.clone();
    let saw = Arc::new(std::sync::Mutex::new(String::new()));
    let seen_by_tool = saw.clone();
    let tools = Tools::new().with_fn("t", move |call| {
        *seen_by_tool.lock().unwrap() = to_json(&call.input);
        async move { TaskOutcome::success(Value::Null) }
    });
    let theirs = SecretBoundary::new(
        SecretSealer::new(move || key),
        boundary(&[]).0.credentials.clone(),
        KnownSecrets::default(),
    );
    let outcome = theirs.wrap(tools).get("t").unwrap().call(handed).await;
    let saw = saw.lock().unwrap().clone();
    (sealed_by, saw, outcome)
}

#[tokio::test]
async fn a_worker_without_the_seal_key_fails_and_does_not_call_the_tool() {
    let own = seals().seal("run", "api", "token").unwrap();
    let (mark, saw, _) = call_remotely(&own, Some([7; 32])).await;
    assert_eq!((mark.is_some(), saw), (true, format!("\"{SECRET}\"")));
    for (key, why) in [(None, "has no seal key"), (Some([8; 32]), "seal key differs from the server's")] {
        let (_, saw, outcome) = call_remotely(&format!("Bearer {own}"), key).await;
        let error = outcome.error.unwrap();
        assert_eq!((saw.as_str(), &*error.code), ("", "NoSealKey"));
        assert!(error.message.contains(why) && error.hint.is_some_and(|hint| hint.contains("WINDLASS_SEAL_KEY")));
        // A reference of another run is plain text for every worker.
        let foreign = seals().seal("other", "api", "token").unwrap();
        let (mark, saw, _) = call_remotely(&foreign, key).await;
        assert_eq!((mark, saw), (None, format!("\"{foreign}\"")));
    }
}

/// A stored credential is learned while the call runs, and may be repeated by the same call.
#[tokio::test]
async fn secrets_that_are_learned_during_a_call_are_redacted_from_its_outcome() {
    let boundary = boundary(&[]);
    let known = boundary.known_secrets().clone();
    let tools = Tools::new().with_fn("t", move |call| {
        known.learn("shop", vec![Secret::new("learned-secret")]);
        call.publish.send("note", Value::from("learned-secret"));
        async move { TaskOutcome::success(Value::from("it is learned-secret")) }
    });
    let mut call = ToolCall::for_test(Value::Null);
    let (publish, mut events) = EventPublisher::channel();
    call.publish = publish;
    let outcome = boundary.wrap(tools).get("t").unwrap().call(call).await;
    assert_eq!(outcome.output, Value::from("it is ***"));
    assert!(!format!("{:?}", events.recv().await).contains("learned"));
}

#[test]
fn credentials_are_named_by_references_of_the_own_run_tree_only() {
    let boundary = boundary(&[]);
    let [own, other] = ["run", "other"].map(|tree| seals().seal(tree, "api", "token").unwrap());
    let names =
        |text: String| boundary.credential_names("t", &Value::from(text), "run").into_iter().collect::<Vec<_>>();
    assert_eq!(names(format!("Bearer {own}")), ["api"]);
    assert!(names(other).is_empty());
}
