//! `--static FILE`: a mock file answers calls of steps before a tool is called.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use windlass_agents::{AGENT_FILES, AGENT_MODEL, AGENT_TOOL};
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::{RunOptions, Tool, ToolCall, ToolFuture, Tools};
use windlass_store::RunRow;
use windlass_syntax::{Severity, SourceText, nearest};
use windlass_testing::mock::{
    MockFile, MockFileFormat, MockService, MockableCall, MockedResult, StepAnswer, StepMocks,
};
use windlass_tools::{HttpOptions, HttpTool, MockedResponse};
use windlass_value::Value;

use crate::args::{GlobalArgs, MockingArgs};
use crate::config::CliSettings;
use crate::definition;
use crate::failure::{CliExit, CliFailure};
use crate::out::{self, Paint};
use crate::service::last_server_command;
use crate::{hints, mock_steps, stores};

/// The model's name if the mock file answers for it.
const MOCKED_MODEL: &str = "mocked";

/// A mock file in use.
#[derive(Clone)]
pub(crate) struct ActiveMocks {
    /// The whole path of the file.
    path: Arc<str>,
    /// The rules in use. Clones share them.
    loaded: Arc<RwLock<LoadedMocks>>,
    /// Answers the questions of `ai` actions, if the file has rules for a model.
    model: Option<Arc<MockService>>,
    /// Delays are skipped with virtual time.
    skips_delays: bool,
}

struct LoadedMocks {
    /// The text of the file, as it was read last.
    text: Arc<str>,
    /// The rules of its last valid version.
    steps: Arc<StepMocks>,
}

/// Reads a mock file. Problems are printed with their source lines.
pub(crate) fn read(path: &Path, settings: &CliSettings, paint: Paint) -> Result<MockFile, CliFailure> {
    parse(&read_source(path, settings)?, paint)
}

fn read_source(path: &Path, settings: &CliSettings) -> Result<SourceText, CliFailure> {
    definition::read_as("mock file", path, &settings.limits)
}

pub(crate) fn parse(source: &SourceText, paint: Paint) -> Result<MockFile, CliFailure> {
    MockFile::parse(source).map_err(|problems| {
        out::note(&problems.render(source, paint.syntax()));
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
        let reports = problems.reports(source);
        CliFailure::new(CliExit::Invalid, format!("{} has {errors} problem(s)", source.name))
            .problems(&reports)
            .hint("docs/mocks.md describes the format; `windlass schema mocks` prints its JSON Schema")
    })
}

/// Adds the mock file of the command line to the settings. Its rules for a model replace every model.
pub(crate) fn apply(
    mut settings: CliSettings,
    args: &MockingArgs,
    skips_delays: bool,
    paint: Paint,
) -> Result<CliSettings, CliFailure> {
    let Some(path) = &args.static_file else { return Ok(settings) };
    let source = read_source(path, &settings)?;
    let file = parse(&source, paint)?;
    let model = match file.has_model() {
        true => Some(replace_models(&mut settings, &file, path)?),
        false => None,
    };
    let path = path.canonicalize().unwrap_or_else(|_| path.clone()).display().to_string().into();
    let loaded = LoadedMocks { text: source.text.clone(), steps: Arc::new(StepMocks::new(file)) };
    settings.mocks = Some(ActiveMocks { path, loaded: Arc::new(RwLock::new(loaded)), model, skips_delays });
    Ok(settings)
}

fn replace_models(settings: &mut CliSettings, file: &MockFile, path: &Path) -> Result<Arc<MockService>, CliFailure> {
    let failed = |error: std::io::Error| CliFailure::usage(format!("the mocked model cannot be served: {error}"));
    let service = MockService::start(file.clone(), 0).map_err(failed)?;
    settings.model.base_url = Some(service.model_url());
    settings.model.model.get_or_insert_with(|| MOCKED_MODEL.to_owned());
    if settings.agent_options.model.is_none() {
        let file: PathBuf = path.canonicalize().map_err(failed)?;
        settings.agent_options.model = Some(format!("scripted:{}", file.display()));
    }
    Ok(Arc::new(service))
}

impl ActiveMocks {
    /// Returns the whole path of the file.
    pub(crate) fn file_path(&self) -> Arc<str> {
        self.path.clone()
    }

    /// Returns the input for a run that gets none otherwise.
    pub(crate) fn input(&self) -> Option<Value> {
        self.steps().file().input().cloned()
    }

    fn steps(&self) -> Arc<StepMocks> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).steps.clone()
    }

    /// Reads the file again, if it was changed, and returns what to tell about it. The rules of a file with problems
    /// do not replace those in use.
    pub(crate) fn reload(&self, settings: &CliSettings, paint: Paint) -> Option<String> {
        let path = &*self.path;
        let source = match read_source(Path::new(path), settings) {
            Ok(source) => source,
            Err(failure) => return Some(format!("{path}: {}; its rules stay in use", failure.message())),
        };
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        if *loaded.text == *source.text {
            return None;
        }
        loaded.text = source.text.clone();
        let Ok(file) = parse(&source, paint) else { return Some(format!("{path}: its earlier rules stay in use")) };
        loaded.steps = Arc::new(StepMocks::new(file.clone()));
        let has_new_model = file.has_model() && self.model.is_none();
        self.model.iter().for_each(|model| model.replace(file.clone()));
        let models = if has_new_model { "; those for models apply after a restart" } else { "" };
        Some(format!("{path}: {} rule(s) loaded{models}", file.rule_count()))
    }

    /// Returns the names of steps that have a rule: they need no tool that exists.
    pub(crate) fn step_names(&self) -> Vec<String> {
        self.steps().file().step_names()
    }

    /// Returns a warning about rules that name none of these steps.
    pub(crate) fn unknown_steps_warning(&self, known: &BTreeSet<String>) -> Option<String> {
        mock_steps::unknown_steps_warning(self.steps().file(), &self.path, known)
    }

    /// Describes the file, for a note at the start.
    pub(crate) fn describe(&self) -> String {
        let steps = self.steps();
        let file = steps.file();
        let format = match file.format() {
            MockFileFormat::Rules => "",
            MockFileFormat::StaticResults => ", from the static results of a definition",
            MockFileFormat::UnitTestMocks => ", from the mocks of a Logic Apps unit test",
        };
        let model = if self.model.is_some() { "; it answers for all models" } else { "" };
        format!("calls are answered by {} mock rule(s){format}{model}", file.rule_count())
    }

    /// Wraps all tools.
    pub(crate) fn wrap(&self, tools: Tools, settings: &CliSettings) -> Tools {
        let http = HttpTool::new(HttpOptions::from_limits(&settings.process_limits));
        tools.wrap_each(|inner| MockedTool { inner, mocks: self.clone(), http: http.clone() })
    }

    /// Wraps all tools of a program without remote workers. A tool that does not exist can be called if a rule answers
    /// for it.
    pub(crate) fn wrap_local(&self, tools: Tools, settings: &CliSettings) -> Tools {
        self.wrap(tools.with_fallback(Arc::new(MissingTool)), settings)
    }
}

/// A tool whose calls are answered by rules first.
struct MockedTool {
    inner: Arc<dyn Tool>,
    mocks: ActiveMocks,
    http: HttpTool,
}

impl Tool for MockedTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        // Models are mocked by their replies, and the files of an agent are on this machine.
        if [AGENT_MODEL.name, AGENT_FILES.name].contains(&&*call.tool) || call.is_continuation {
            return self.inner.call(call);
        }
        let steps = self.mocks.steps();
        match steps.answer(&mockable_call(&call)) {
            Some(answer) => self.respond(call, answer),
            None if steps.is_strict() => {
                let outcome = TaskOutcome::failure(unmatched(&call, &self.mocks.path, &self.mocks.step_names()));
                Box::pin(async move { outcome })
            }
            None => self.inner.call(call),
        }
    }

    fn runs_remotely(&self, call: &ToolCall) -> bool {
        self.mocks.steps().would_call(&mockable_call(call)) && self.inner.runs_remotely(call)
    }
}

impl MockedTool {
    fn respond(&self, call: ToolCall, answer: StepAnswer) -> ToolFuture {
        let (http, delay) = (self.http.clone(), answer.delay);
        let skips_delay = self.mocks.skips_delays || delay.is_zero();
        Box::pin(async move {
            let mut cancelled = call.cancelled.clone();
            let wait = async {
                match answer.result {
                    MockedResult::Hang => std::future::pending().await,
                    _ if skips_delay => {}
                    _ => tokio::time::sleep(delay).await,
                }
            };
            tokio::select! {
                biased;
                () = cancelled.wait() => {
                    TaskOutcome::failure(ErrorInfo::new("Cancelled", "cancelled", "the mocked call was cancelled"))
                }
                () = wait => outcome(&http, call, answer.result),
            }
        })
    }
}

fn outcome(http: &HttpTool, call: ToolCall, result: MockedResult) -> TaskOutcome {
    match result {
        MockedResult::Output { output, error } => {
            let error = error.map(|error| ErrorInfo::new(error.code, error.kind, error.message).replied());
            TaskOutcome { error, ..TaskOutcome::success(tool_output(&call, output)) }
        }
        MockedResult::Response { status, headers, body } => {
            http.mocked_outcome(call, MockedResponse { status, headers, body })
        }
        MockedResult::Broken | MockedResult::Hang => HttpTool::mocked_break(&call),
    }
}

/// Returns the output of a tool of an agent in the form in which the agent's model reads it.
fn tool_output(call: &ToolCall, output: Value) -> Value {
    match (&*call.tool == AGENT_TOOL.name, &output) {
        (true, Value::Str(_)) => Value::object([("content", output), ("error", false.into())]),
        _ => output,
    }
}

/// Returns the call as rules see it. A tool that an agent calls has its own name.
fn mockable_call(call: &ToolCall) -> MockableCall<'_> {
    let own = call.input.get("tool").and_then(Value::as_str).filter(|_| &*call.tool == AGENT_TOOL.name);
    MockableCall {
        run: &call.run,
        definition: &call.definition.name,
        path: &call.path,
        tool: own.unwrap_or(&call.tool),
        attempt: u64::from(call.attempt),
        input: &call.input,
    }
}

/// The error of a call that no rule of a strict file matches. `named` are the steps that rules name.
fn unmatched(call: &ToolCall, file: &str, named: &[String]) -> ErrorInfo {
    let MockableCall { path, tool, attempt, .. } = mockable_call(call);
    let message = format!("no rule of the mock file matches step `{path}`, tool `{tool}`, attempt {attempt}");
    let names = path.split('.').rev().map(|part| part.split('[').next().unwrap_or(part));
    // The last name may be that of a task, and a rule may name the step.
    let is_named = |name: &&str| named.iter().any(|step| step == name);
    let mut unnamed = names.take(2).filter(|name| !is_named(name));
    let near = unnamed.find_map(|name| nearest(name, named.iter().map(String::as_str)));
    let near = near.map(|near| format!("; the nearest rule of {file} is for step `{near}`")).unwrap_or_default();
    ErrorInfo::new("MockUnmatched", "input", message)
        .hint(format!("add a rule for it, or `otherwise: call` to call the tool{near}"))
}

/// Decides about `--static` for a run that the server of this store continues, without being named. A server with mocks
/// uses its own; any other would call real services.
pub(crate) fn check_local_server(global: &GlobalArgs, args: &MockingArgs, command: &str) -> Result<(), CliFailure> {
    let Some(file) = &args.static_file else { return Ok(()) };
    let file = hints::shell_quote(&file.display().to_string());
    if last_server_command(&stores::directory(global)).is_some_and(|server| server.is_mocked) {
        let server = hints::server_command(global);
        out::note(&format!("--static {file} is not used: the server on this store, `{server}`, has its own mocks"));
        return Ok(());
    }
    let message = format!("--static {file} does not apply: the server on this store continues this run, without mocks");
    Err(CliFailure::usage(message).hint(format!(
        "`windlass {command} --trusted` runs it in this process with the mocks; without --static the server calls real \
         services"
    )))
}

/// Stands for a tool that this program does not have.
struct MissingTool;

impl Tool for MissingTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let message = format!("unknown tool `{}`, and no mock rule answers for step `{}`", call.tool, call.path);
        Box::pin(async move { TaskOutcome::failure(ErrorInfo::new("NoSuchTool", "tool", message)) })
    }
}

/// Checks that a run which was started with mocks goes on with them. In real time it may go on without, with a warning. In
/// virtual time it may not: its waits would be skipped between calls of real services.
pub(crate) fn check_continued(
    global: &GlobalArgs,
    row: &RunRow,
    settings: &CliSettings,
    command: &str,
) -> Result<(), CliFailure> {
    let options = RunOptions::from_row(row)?;
    let Some(file) = options.mock_file.filter(|_| settings.mocks.is_none()) else { return Ok(()) };
    let option = format!("--static {}", hints::shell_quote(&file));
    if options.virtual_time {
        let message = format!(
            "run {} was started with {option} and in virtual time: without its mocks it would call real services and \
             skip the waits between the calls",
            row.run
        );
        let again = hints::command(global, &format!("{command} {option}"));
        return Err(CliFailure::usage(message)
            .hint(format!("{again}; to call real services, start a new run without --virtual-time")));
    }
    out::note(&format!("warning: the run was started with {option}; here its calls go to real services and models"));
    Ok(())
}
