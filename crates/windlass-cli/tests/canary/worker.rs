//! Secret references in the jobs of a worker: opened with the server's key, and not without it.

use serde_json::{Value, json};

use crate::forms::{SecretFinder, planted};
use crate::services::EchoService;
use crate::support::TestDir;
use crate::support::server::{CapturedProcess, TestServer, worker};
use crate::world::{SecretServerConfig, files, loom, vault};

struct WorkerFixture {
    service: EchoService,
    place: TestDir,
    server: TestServer,
}

impl WorkerFixture {
    fn new() -> WorkerFixture {
        let (service, place) = (EchoService::start(), TestDir::new());
        let server = SecretServerConfig::new(&service).start(&place);
        let post = json!({ "method": "POST", "uri": format!("{}/json", service.url()),
            "headers": { "Authorization": "Bearer @{parameters('key')}" }, "body": "@parameters('plain')" });
        let text = json!({ "type": "String", "defaultValue": "" });
        let parameters = json!({ "key": { "type": "SecureString" }, "plain": text });
        let definition = loom(&parameters, &json!({ "post": { "type": "Http", "inputs": post } }));
        server.register_for("far", &definition, &json!({ "at": "plant" }));
        WorkerFixture { service, place, server }
    }

    /// Starts a worker in a separate folder, with the requested credential and optionally a key.
    fn worker(&self, at: &TestDir, key: Option<&str>) -> CapturedProcess {
        at.write("windlass.toml", "[auth]\nvault = { token = { env = \"CANARY_FAR_VAULT\" } }\n");
        let mut variables = vec![("WINDLASS_TOKEN", self.server.token.as_str()), ("CANARY_FAR_VAULT", planted(13))];
        variables.extend(key.map(|key| ("WINDLASS_SEAL_KEY", key)));
        worker(at, &self.server.url(), &["--tools", "http", "--label", "at=plant"], &variables)
    }

    fn run(&self, input: &Value) -> Value {
        self.server.wait_for_end(&self.server.start_run("far", input))
    }

    fn key(&self) -> String {
        std::fs::read_to_string(self.place.path(".windlass/seal.key")).expect("the key").trim().to_owned()
    }
}

#[test]
fn a_worker_opens_references_with_the_key_of_the_server() {
    let world = WorkerFixture::new();
    let far = TestDir::new();
    let begun = world.server.start_run("far", &json!({ "key": vault() }));
    let working = world.worker(&far, Some(&world.key()));
    let run = world.server.wait_for_end(&begun);
    assert_eq!(run["status"], "succeeded", "{run}");
    let received = world.service.take_received();
    // The worker resolves the name itself: the server's value does not count.
    assert!(received.contains(planted(13)) && !received.contains(planted(2)), "{received}");
    assert!(run.to_string().contains("Bearer ***"), "{run}");
    // In another run, the reference is plain text, here as well.
    let shown = run["input"]["key"].as_str().expect("a reference");
    let other = world.run(&json!({ "key": vault(), "plain": shown.replace("<secret:", "<secret :") }));
    assert_eq!(other["status"], "succeeded", "{other}");
    // Two steps share one lease; a restarted run belongs to the same run tree.
    let (status, made) =
        world.server.json("POST", &format!("/api/v1/runs/{begun}/restart"), Some(&json!({ "from": "post" })));
    assert_eq!(status, 202, "{made}");
    world.service.take_received();
    let again = world.server.wait_for_end(made["run"].as_str().expect("a run"));
    assert_eq!(again["status"], "succeeded", "{again}");
    assert!(world.service.take_received().contains(planted(13)), "it was opened there, too");
    assert_eq!(working.stop().0, Some(0));
}

#[test]
fn a_worker_without_the_key_fails_the_task_before_the_call() {
    let world = WorkerFixture::new();
    for (key, why) in [
        (None, "this worker has no seal key to open them"),
        (Some("ab".repeat(32)), "this worker's seal key differs from the server's"),
    ] {
        let far = TestDir::new();
        let working = world.worker(&far, key.as_deref());
        let run = world.run(&json!({ "key": vault() }));
        assert_eq!((&run["status"], &run["error"]["code"]), (&json!("failed"), &json!("NoSealKey")), "{run}");
        let error = run["error"].to_string();
        assert!(error.contains(why) && error.contains("WINDLASS_SEAL_KEY") && error.contains("seal.key"), "{error}");
        assert_eq!(world.service.take_received(), "", "no request was made");
        // A job without references needs no key.
        let plain = world.run(&json!({ "key": null, "plain": "hello" }));
        assert!(world.service.take_received().contains("hello"), "{plain}");
        let (code, out, err) = working.stop();
        assert_eq!(code, Some(0), "{err}");
        let finder = SecretFinder::new(&[("key of references", &world.key())]);
        let output = format!("{out}{err}{run}{plain}");
        assert_eq!(finder.found_in(output.as_bytes()), Vec::<&str>::new(), "{output}");
        let left: Vec<_> = files(&far.path("")).into_iter().filter(|path| !path.ends_with("windlass.toml")).collect();
        assert!(left.is_empty(), "a worker makes no key: {left:?}");
    }
}

#[test]
fn an_invalid_key_is_reported_at_startup() {
    let place = TestDir::new();
    for words in [&["worker", "--server", "http://127.0.0.1:1"][..], &["serve", "--bind", "127.0.0.1:0"]] {
        let mut command = place.command(words);
        command.env("WINDLASS_SEAL_KEY", "not hexadecimal").env("WINDLASS_TOKEN", "wl_x");
        let command_output = crate::support::command_output(command.output().expect("the program"));
        command_output
            .exits(3)
            .has("WINDLASS_SEAL_KEY is not a valid key")
            .has("64 hexadecimal digits")
            .has("seal.key");
        assert!(!command_output.err.contains("not hex"), "{}", command_output.err);
    }
}
