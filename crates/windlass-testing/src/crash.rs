//! Runs the real program, kills it, resumes it, and examines the result of the run from outside.

pub mod server;
pub mod worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::test_service::TestService;

/// Returns the program built next to the test, or the one named in `WINDLASS_PROGRAM`.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("WINDLASS_PROGRAM") {
        return path.into();
    }
    let test = std::env::current_exe().expect("the path of the test program");
    let folder = test.parent().and_then(Path::parent).expect("test programs are in `deps`");
    let program = folder.join("windlass");
    assert!(
        program.exists(),
        "{} is missing: run `cargo build --release --package windlass-cli` first",
        program.display()
    );
    program
}

/// The environment of one run: its own store, and effects distinguished by the number of the trial.
pub struct Trial<'a> {
    pub service: &'a TestService,
    pub definition: PathBuf,
    pub number: u64,
    pub folder: tempfile::TempDir,
}

impl<'a> Trial<'a> {
    pub fn new(service: &'a TestService, definition: &str, number: u64) -> Trial<'a> {
        let definition = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/definitions").join(definition);
        Trial { service, definition, number, folder: tempfile::tempdir().expect("a folder can be made") }
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(program());
        command.arg(verb).arg("--json").arg("--store").arg(self.folder.path().join("store"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The run id is the same in every trial, so that the same effects have the same keys.
    pub fn run(&self, extra: &[&str]) -> Command {
        let mut command = self.command("run");
        let base = self.service.url("");
        let base = base.trim_end_matches('/');
        command.arg(&self.definition).args(["--id", "crash", "--virtual-time"]);
        command.args(["--set", &format!("base={base}"), "--set", &format!("trial=-t{}", self.number)]).args(extra);
        command
    }

    pub fn resume(&self, extra: &[&str]) -> Command {
        let mut command = self.command("resume");
        command.arg("crash").args(extra);
        command
    }

    /// Returns the counted effects of this trial: the count per key and path, without the trial's number.
    pub fn effects(&self) -> BTreeMap<(String, String), u64> {
        let mark = format!("-t{}", self.number);
        let mine = self.service.effects().into_iter().filter_map(|effect| {
            let path = effect.path.strip_suffix(&mark)?.to_owned();
            Some(((effect.key, path), effect.times))
        });
        mine.collect()
    }

    /// Resumes the run to its end; repeats the start if it was never acknowledged.
    pub fn run_to_end(&self) -> Value {
        let output = run_command(self.resume(&[]));
        let output = if output.status.code() == Some(3) { run_command(self.run(&[])) } else { output };
        parse_result(&output)
    }
}

pub fn run_command(mut command: Command) -> Output {
    command.output().expect("the program can be started")
}

pub fn spawn_command(mut command: Command) -> Child {
    command.spawn().expect("the program can be started")
}

/// Parses the object on stdout and removes everything that may differ between runs.
pub fn parse_result(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut value: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("not a result: {error}\n{text}\n{}", String::from_utf8_lossy(&output.stderr)));
    strip_times(&mut value);
    // Every trial is a run of its own, under the same id in another store.
    if let Some(object) = value.as_object_mut() {
        assert!(object.remove("execution_id").is_some(), "no execution id: {text}");
    }
    value
}

/// Removes replies of the service, which contain dates and the trial's number; nothing else may differ.
fn strip_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("headers");
            map.remove("body");
            map.values_mut().for_each(strip_times);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_times),
        _ => {}
    }
}

/// A small random generator with a seed, so that a failing trial can be repeated by its number.
pub struct SeededRng(pub u64);

impl SeededRng {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}
