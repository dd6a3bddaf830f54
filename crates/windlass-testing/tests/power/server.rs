//! A server under load: starts over several connections, runs with two calls, parents with children.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::json;
use windlass_testing::crash::server::{ServerProcess, wait_until};
use windlass_testing::crash::{program, run_command};
use windlass_testing::test_service::TestService;

use crate::answers::{Answers, Effects, effects, effects_since};
use crate::cuts::Scenario;
use crate::one_run::{check_doctor, text};
use crate::recording::{Recording, Shim};

pub(crate) const NAME: &str = "server";

const CONNECTIONS: usize = 4;
const RUNS_PER_CONNECTION: usize = 5;

/// The statuses of runs that do not continue by themselves.
const ENDED: [&str; 5] = ["succeeded", "failed", "cancelled", "timed_out", "quarantined"];

const DEFINITIONS: [(&str, &str); 2] = [
    (
        "calls",
        r#"{"actions": {
        "one": {"type": "http", "inputs": {"method": "POST", "uri": "SERVICE/count/@{triggerBody().me}-1"}},
        "two": {"type": "http", "runAfter": {"one": ["Succeeded"]},
            "inputs": {"method": "POST", "uri": "SERVICE/count/@{triggerBody().me}-2"}}}}"#,
    ),
    (
        "parents",
        r#"{"actions": {
        "below": {"type": "workflow", "inputs": {"host": {"workflow": {"id": "calls"}}, "body": {"me": "@triggerBody().me"}}},
        "call": {"type": "http", "runAfter": {"below": ["Succeeded"]},
            "inputs": {"method": "POST", "uri": "SERVICE/count/@{triggerBody().me}-3"}}}}"#,
    ),
];

/// Returns the paths of a run's calls, in their order.
fn expected(run: &str) -> Vec<String> {
    let calls = if run.starts_with("parents") { 3 } else { 2 };
    (1..=calls).map(|call| format!("/count/{run}-{call}")).collect()
}

pub(crate) struct Server<'a> {
    shim: &'a Shim,
    service: &'a TestService,
    effects: Effects,
}

impl<'a> Server<'a> {
    /// Records a server from its first start to a clean stop.
    pub(crate) fn record(shim: &'a Shim, service: &'a TestService) -> (Server<'a>, Recording) {
        let recording = shim.record(Vec::new(), || {
            let server = ServerProcess::start_with_variables(shim.root(), &shim.environment());
            register(&server, service);
            thread::scope(|scope| {
                for connection in 0..CONNECTIONS {
                    scope.spawn({
                        let server = &server;
                        move || load(server, connection)
                    });
                }
            });
            wait_for_ends(&server);
            server.terminate();
            assert!(server.wait_for_exit().success());
        });
        recording.assert_complete(shim.root());
        let seen = Answers::new(recording.outputs(recording.records.len()));
        assert_eq!(seen.started.len(), CONNECTIONS * RUNS_PER_CONNECTION, "{:?}", seen.started);
        (Server { shim, service, effects: effects(service) }, recording)
    }

    /// Returns the scenario of a saved recording.
    pub(crate) fn load(shim: &'a Shim, service: &'a TestService, folder: &Path) -> Server<'a> {
        let effects = fs::read_to_string(folder.join("effects")).expect("a saved scenario");
        Server { shim, service, effects: serde_json::from_str(&effects).expect("effects") }
    }

    fn look(&self, seen: &Answers) -> Result<(), String> {
        let command = |verb: &str| {
            let mut command = Command::new(program());
            command.args([verb, "--json", "--store"]).arg(self.shim.store()).stdin(Stdio::null());
            command
        };
        let is_acknowledged = !seen.started.is_empty() || !seen.registered.is_empty();
        check_doctor(&run_command(command("doctor")), is_acknowledged)?;
        let mut list = command("list");
        list.arg("--all");
        let listed = run_command(list);
        let text = text(&listed);
        let lost = seen.started.iter().find(|run| !text.contains(&format!("\"run\": \"{run}\"")));
        lost.map_or(Ok(()), |run| Err(format!("{run} was acknowledged and is not listed: {text}")))
    }

    /// Starts a server where the old one has died, and waits until it has ended all runs.
    fn recover(&self, seen: &Answers) -> Result<(), String> {
        let server = ServerProcess::start(self.shim.root(), &[]);
        let statuses = wait_for_ends(&server);
        let lost = seen.started.iter().find(|run| statuses.get(*run).map(String::as_str) != Some("succeeded"));
        if let Some(run) = lost {
            return Err(format!("{run} was acknowledged and is now {:?}", statuses.get(run)));
        }
        let mut client = server.client();
        for name in &seen.registered {
            let (status, body) = client
                .request("GET", &format!("/api/v1/definitions/{name}"), None)
                .map_err(|error| error.to_string())?;
            if status != 200 {
                return Err(format!("the definition {name} was acknowledged and is lost: {status} {body}"));
            }
        }
        Ok(())
    }

    fn check_effects(&self, seen: &Answers, new: &Effects) -> Result<(), String> {
        let requested: BTreeSet<&String> = seen.requests.iter().collect();
        for run in &seen.started {
            let paths = expected(run);
            let last = paths.iter().rposition(|path| requested.contains(path)).unwrap_or(0);
            if let Some(path) = paths[..last].iter().find(|path| new.contains_key(*path)) {
                return Err(format!("{path} was executed again: its result was durable before the next request"));
            }
            if let Some(path) = paths.iter().find(|path| !requested.contains(path) && !new.contains_key(*path)) {
                return Err(format!("{path} was never executed"));
            }
            for (path, keys) in new.iter().filter(|(path, _)| paths.contains(path)) {
                let expected: Vec<&String> = self.effects[path].keys().collect();
                // A call that fails in between is repeated under its key.
                if keys.keys().collect::<Vec<_>>() != expected {
                    return Err(format!("{path} was executed as {keys:?}, not as {expected:?}"));
                }
            }
        }
        Ok(())
    }
}

fn register(server: &ServerProcess, service: &TestService) {
    let base = service.url("");
    for (name, source) in DEFINITIONS {
        server.client().register(name, &source.replace("SERVICE", base.trim_end_matches('/')));
    }
}

fn load(server: &ServerProcess, connection: usize) {
    let mut client = server.client();
    for number in 0..RUNS_PER_CONNECTION {
        let definition = DEFINITIONS[(connection + number) % DEFINITIONS.len()].0;
        let id = format!("{definition}-{connection}-{number}");
        let (status, body) = client.start(definition, &id, &json!({ "me": id })).expect("an answer");
        assert_eq!(status, 202, "{id}: {body}");
    }
}

/// Waits until no run is open, and returns the status of each.
fn wait_for_ends(server: &ServerProcess) -> std::collections::BTreeMap<String, String> {
    let mut client = server.client();
    let mut statuses = client.statuses();
    wait_until(|| {
        statuses = client.statuses();
        statuses.values().all(|status| ENDED.contains(&status.as_str()))
    });
    statuses
}

impl Scenario for Server<'_> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, recording: &Recording, at: usize) -> Result<(), String> {
        let seen = Answers::new(recording.outputs(at));
        self.look(&seen)?;
        let before = effects(self.service);
        self.recover(&seen)?;
        self.check_effects(&seen, &effects_since(self.service, &before))
    }

    fn record_recovery(&self, _: &Recording, _: usize) -> Option<Recording> {
        None
    }

    fn save(&self, folder: &Path) {
        let effects = serde_json::to_string(&self.effects).expect("JSON");
        let written = fs::write(folder.join("effects"), effects)
            .and_then(|()| fs::write(folder.join("port"), self.service.addr().port().to_string()));
        written.expect("it can be written");
    }
}
