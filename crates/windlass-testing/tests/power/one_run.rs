//! One run of a loop, in the terminal: large replies fill the log until it is copied into the database, and the log starts
//! over.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use windlass_testing::crash::{parse_result, program, run_command};
use windlass_testing::test_service::TestService;

use crate::answers::{Answers, Effects, effects, effects_since};
use crate::cuts::Scenario;
use crate::recording::{Recording, Shim};

pub(crate) const NAME: &str = "one-run";

const ITERATIONS: usize = 16;

/// The size of a reply. All replies of a run are more than the 1,000 pages of 4 KiB after which SQLite copies its log.
const REPLY_BYTES: usize = 180_000;

pub(crate) struct OneRun<'a> {
    shim: &'a Shim,
    service: &'a TestService,
    definition: PathBuf,
    result: Value,
    effects: Effects,
}

impl<'a> OneRun<'a> {
    /// Records a run from its start to its end.
    pub(crate) fn record(shim: &'a Shim, service: &'a TestService) -> (OneRun<'a>, Recording) {
        let definition = write_definition(shim, service);
        let mut scenario = OneRun { shim, service, definition, result: Value::Null, effects: Effects::new() };
        let mut output = None;
        let recording = shim.record(Vec::new(), || {
            output = Some(run_command(recorded(shim, scenario.run())));
        });
        let output = output.expect("it was run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        recording.assert_complete(shim.root());
        scenario.result = parse_result(&output);
        scenario.effects = effects(service);
        let seen = Answers::new(recording.outputs(recording.records.len()));
        assert!(seen.ended && seen.requests.len() == 2 * ITERATIONS, "{:?}", seen.requests);
        (scenario, recording)
    }

    /// Returns the scenario of a saved recording.
    pub(crate) fn load(shim: &'a Shim, service: &'a TestService, folder: &Path) -> OneRun<'a> {
        let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a saved scenario");
        let result = serde_json::from_str(&read("result")).expect("a result");
        let effects = serde_json::from_str(&read("effects")).expect("effects");
        OneRun { shim, service, definition: write_definition(shim, service), result, effects }
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(program());
        command.arg(verb).arg("--json").arg("--store").arg(self.shim.store());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self) -> Command {
        let mut command = self.command("run");
        command.arg(&self.definition).args(["--id", "power"]);
        command
    }

    fn resume(&self) -> Command {
        let mut command = self.command("resume");
        command.arg("power");
        command
    }

    /// Lets commands that only look report no damage, and the run if it was acknowledged.
    fn look(&self, is_acknowledged: bool) -> Result<(), String> {
        check_doctor(&run_command(self.command("doctor")), is_acknowledged)?;
        let listed = run_command(self.command("list"));
        if is_acknowledged && !String::from_utf8_lossy(&listed.stdout).contains("\"run\": \"power\"") {
            return Err(format!("the run was acknowledged and is not listed: {}", text(&listed)));
        }
        Ok(())
    }

    fn check_effects(&self, seen: &Answers, new: &Effects) -> Result<(), String> {
        let acknowledged = match seen.ended {
            true => &seen.requests[..],
            false => &seen.requests[..seen.requests.len().saturating_sub(1)],
        };
        for (path, keys) in new {
            if acknowledged.contains(path) {
                return Err(format!("{path} was executed again: its result was durable before the next request"));
            }
            let expected: Vec<&String> = self.effects[path].keys().collect();
            // A call that fails in between is repeated under its key.
            if keys.keys().collect::<Vec<_>>() != expected {
                return Err(format!("{path} was executed as {keys:?}, not as {expected:?}"));
            }
        }
        let missing = self.effects.keys().find(|path| !new.contains_key(*path) && !seen.requests.contains(path));
        missing.map_or(Ok(()), |path| Err(format!("{path} was never executed")))
    }
}

impl Scenario for OneRun<'_> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, recording: &Recording, at: usize) -> Result<(), String> {
        let seen = Answers::new(recording.outputs(at));
        let is_acknowledged = seen.ended || !seen.requests.is_empty();
        self.look(is_acknowledged)?;
        let before = effects(self.service);
        let mut output = run_command(self.resume());
        if output.status.code() == Some(3) {
            if is_acknowledged {
                return Err(format!("the run was acknowledged and is lost: {}", text(&output)));
            }
            output = run_command(self.run());
        }
        if !output.status.success() {
            return Err(format!("the run does not end: {}", text(&output)));
        }
        let result = parse_result(&output);
        if result != self.result {
            return Err(format!("another result: {result:#}"));
        }
        self.check_effects(&seen, &effects_since(self.service, &before))?;
        check_doctor(&run_command(self.command("doctor")), true)
    }

    fn record_recovery(&self, recording: &Recording, at: usize) -> Option<Recording> {
        let mut code = None;
        let recovery = self.shim.record(recording.outputs_before(at), || {
            code = run_command(recorded(self.shim, self.resume())).status.code();
        });
        (code == Some(0)).then_some(recovery)
    }

    fn save(&self, folder: &Path) {
        let effects = serde_json::to_string(&self.effects).expect("JSON");
        let written = fs::write(folder.join("result"), self.result.to_string())
            .and_then(|()| fs::write(folder.join("effects"), effects))
            .and_then(|()| fs::write(folder.join("port"), self.service.addr().port().to_string()));
        written.expect("it can be written");
    }
}

pub(crate) fn text(output: &Output) -> String {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    format!("{} {}", output.status, text.concat())
}

/// Accepts a store without damage; findings about runs whose owner has died are expected. A store may be missing as long
/// as nothing in it was acknowledged.
pub(crate) fn check_doctor(output: &Output, must_exist: bool) -> Result<(), String> {
    match output.status.code() {
        Some(0 | 1) => {
            let findings: Value = serde_json::from_slice(&output.stdout).map_err(|_| text(output))?;
            let is_damage = |finding: &&Value| {
                let what = finding["finding"].as_str().unwrap_or_default();
                finding["run"].is_null() || what.contains("quarantined") || what.contains("rebuilt")
            };
            let damage = findings.as_array().and_then(|findings| findings.iter().find(is_damage));
            damage.map_or(Ok(()), |damage| Err(format!("`windlass doctor` finds damage: {damage}")))
        }
        Some(3) if !must_exist => Ok(()),
        _ => Err(format!("`windlass doctor` fails: {}", text(output))),
    }
}

fn recorded(shim: &Shim, mut command: Command) -> Command {
    command.envs(shim.environment());
    command
}

fn write_definition(shim: &Shim, service: &TestService) -> PathBuf {
    let base = service.url("");
    let base = base.trim_end_matches('/');
    let filling = "x".repeat(REPLY_BYTES);
    // Each reply is another one: equal values are stored once.
    let definition = serde_json::json!({"name": "power", "triggers": {}, "actions": {"work": {
        "type": "until",
        "condition": format!("@greaterOrEquals(variables('loopIndex'), {ITERATIONS})"),
        "actions": {
            "call": {"type": "http", "inputs": {
                "method": "POST", "uri": format!("{base}/count/@{{variables('loopIndex')}}")}},
            "fill": {"type": "http", "runAfter": {"call": ["Succeeded"]}, "inputs": {
                "method": "POST", "uri": format!("{base}/raw"),
                "body": format!("@{{variables('loopIndex')}}{filling}")}},
        }}},
        "outputs": {"iterations": {"type": "integer", "value": "@outputs('work').iterations"}}});
    let path = shim.root().with_file_name("power.json");
    fs::write(&path, definition.to_string()).expect("it can be written");
    path
}
