//! A work folder for agents, and a model that replies by a script and logs its calls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{CommandOutput, RunningCommand, TestDir, command_output};

pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/zenflow");

/// How the model is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelAccess {
    /// `--model scripted:FILE`: the program serves the script itself.
    Scripted,
    /// `windlass mock FILE`, over the protocol of chat completions.
    OpenAi,
    /// The same, over the protocol of messages.
    Anthropic,
}

pub(crate) struct AgentFixture {
    pub place: TestDir,
    access: ModelAccess,
    script: PathBuf,
    /// The model that outlives the program, and its address.
    model: Option<(RunningCommand, String)>,
}

/// One request to the model.
#[derive(Clone, Debug)]
pub(crate) struct ModelCall {
    pub step: String,
    pub turn: u64,
    pub attempt: u64,
    pub key: String,
}

impl ModelCall {
    pub(crate) fn call(&self) -> Call {
        (self.step.clone(), self.turn, self.attempt)
    }
}

/// Step, turn and attempt: the identity of a call.
pub(crate) type Call = (String, u64, u64);

impl AgentFixture {
    pub(crate) fn new(script: &Path, way: ModelAccess) -> AgentFixture {
        let place = TestDir::new();
        std::fs::create_dir(place.path("work")).expect("a folder to work in");
        let model = (way != ModelAccess::Scripted).then(|| {
            let mut model =
                place.start(&["mock", text(script), "--port", "0", "--log", text(&place.path("model-calls"))]);
            let address = model.line_with("listening on ");
            let address = address.trim_start_matches("listening on ").trim_end_matches('/').to_owned();
            (model, address)
        });
        AgentFixture { place, access: way, script: script.to_owned(), model }
    }

    pub(crate) fn windlass(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.place.command(arguments);
        for name in ["OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"] {
            command.env_remove(name);
        }
        let url = self.model.as_ref().map(|(_, address)| format!("{address}/v1")).unwrap_or_default();
        match self.access {
            ModelAccess::Scripted => command.env("WINDLASS_SCRIPT_LOG", self.place.path("model-calls")),
            ModelAccess::OpenAi => command.env("OPENAI_BASE_URL", url).env("OPENAI_API_KEY", "a key of no worth"),
            ModelAccess::Anthropic => {
                command.env("ANTHROPIC_BASE_URL", url).env("ANTHROPIC_API_KEY", "a key of no worth")
            }
        };
        command_output(command.output().expect("the program starts"))
    }

    /// Runs a workflow with virtual time and all permissions in its folder.
    pub(crate) fn run(&self, workflow: &Path, more: &[&str]) -> CommandOutput {
        self.run_with_permissions(workflow, &[&["--yolo"], more].concat())
    }

    /// Runs a workflow with explicit permissions.
    pub(crate) fn run_with_permissions(&self, workflow: &Path, more: &[&str]) -> CommandOutput {
        let scripted = format!("scripted:{}", self.script.display());
        let model = match self.access {
            ModelAccess::Scripted => &scripted,
            ModelAccess::OpenAi => "openai/any",
            ModelAccess::Anthropic => "anthropic/any",
        };
        let words = ["run", text(workflow), "--json", "--virtual-time", "--workdir", "work", "--model", model];
        self.windlass(&[&words[..], more].concat())
    }

    /// Returns all requests to the model in order.
    pub(crate) fn model_calls(&self) -> Vec<ModelCall> {
        let log = std::fs::read_to_string(self.place.path("model-calls")).unwrap_or_default();
        let parse_call = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("a line of the log");
            let word = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            let number = |name: &str| line[name].as_u64().unwrap_or_default();
            ModelCall { step: word("step"), turn: number("turn"), attempt: number("attempt"), key: word("key") }
        };
        log.lines().map(parse_call).collect()
    }

    pub(crate) fn events(&self, run: &str) -> Vec<Value> {
        let output = self.windlass(&["events", run, "--json"]);
        output.exits(0);
        output.out.lines().map(|line| serde_json::from_str(line).expect("an event")).collect()
    }

    /// Returns the sorted lines of a file that agents have written: parallel steps have no order.
    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.place.path("work").join(file)).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

/// Returns the number of model calls by step, rejected ones included.
pub(crate) fn count_by_step(calls: &[ModelCall]) -> BTreeMap<String, u64> {
    let mut steps = BTreeMap::new();
    for call in calls {
        *steps.entry(call.step.clone()).or_default() += 1;
    }
    steps
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Returns the path of a file of `examples/zenflow`.
pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}
