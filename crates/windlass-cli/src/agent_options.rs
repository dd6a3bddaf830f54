//! Options of agent workflows from the command line and the settings.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_dialect::{DiskFiles, FileReadProblem, FileReader};
use windlass_value::Value;
use windlass_zenflow::{CoordinatorMode, ZenflowOptions};

use crate::agents;
use crate::args::{self, CoordinatorArg, PermissionArgs};
use crate::config::CliSettings;
use crate::failure::CliFailure;

/// A model that a mock file answers for.
const SCRIPTED: &str = "scripted:";

/// Command-line options for the agents of a run.
#[derive(Clone, Default)]
pub(crate) struct AgentRunOptions {
    /// The model for everything, overriding the file.
    pub model: Option<String>,
    workdir: Option<PathBuf>,
    coordinator: CoordinatorMode,
    max_concurrency: Option<u64>,
    /// The workflow is going to run: a missing companion file is an error, not a warning.
    pub will_run: bool,
    /// Publishes model output while it is generated.
    pub stream: bool,
    pub permissions: PermissionArgs,
    /// The files that the run was compiled from: its agents may not write them.
    pub sources: SourceFiles,
}

/// The files that were read to compile a workflow.
#[derive(Clone, Default)]
pub(crate) struct SourceFiles(Arc<Mutex<Vec<PathBuf>>>);

impl SourceFiles {
    pub(crate) fn add(&self, path: &Path) {
        if let Ok(path) = path.canonicalize() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(path);
        }
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// File access that records the files it read.
pub(crate) struct RecordingFiles(pub SourceFiles);

impl FileReader for RecordingFiles {
    fn read(&self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileReadProblem> {
        self.0.add(path);
        DiskFiles.read(path, max_bytes)
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf, FileReadProblem> {
        DiskFiles.canonical(path)
    }

    fn size(&self, path: &Path) -> Result<u64, FileReadProblem> {
        DiskFiles.size(path)
    }
}

impl AgentRunOptions {
    pub(crate) fn from_run_args(args: &args::RunArgs) -> Result<AgentRunOptions, CliFailure> {
        AgentRunOptions::from_args(&args.agents, &args.permissions)
    }

    pub(crate) fn from_dev_args(args: &args::DevArgs) -> Result<AgentRunOptions, CliFailure> {
        AgentRunOptions::from_args(&args.agents, &args.permissions)
    }

    /// Options for the demo: agents have no work but to reply, in this folder.
    pub(crate) fn for_demo(folder: &Path) -> AgentRunOptions {
        AgentRunOptions { workdir: Some(folder.to_owned()), will_run: true, ..AgentRunOptions::default() }
    }

    fn from_args(agents: &args::AgentArgs, permissions: &PermissionArgs) -> Result<AgentRunOptions, CliFailure> {
        let workdir = agents.workdir.clone().unwrap_or_else(|| PathBuf::from("."));
        let workdir = workdir.canonicalize().map_err(|error| {
            CliFailure::usage(format!("agents cannot work in {}: {error}", workdir.display()))
                .hint("--workdir must name an existing folder")
        })?;
        if !workdir.is_dir() {
            return Err(CliFailure::usage(format!("agents cannot work in {}: it is not a folder", workdir.display()))
                .hint("--workdir must name an existing folder"));
        }
        Ok(AgentRunOptions {
            model: agents.model.as_deref().map(absolute_model).transpose()?,
            workdir: Some(workdir),
            coordinator: match agents.coordinator {
                None | Some(CoordinatorArg::Auto) => CoordinatorMode::Auto,
                Some(CoordinatorArg::On) => CoordinatorMode::On,
                Some(CoordinatorArg::Off) => CoordinatorMode::Off,
            },
            max_concurrency: agents.max_concurrency,
            will_run: true,
            stream: agents.stream,
            permissions: permissions.clone(),
            sources: SourceFiles::default(),
        })
    }

    pub(crate) fn from_resume_args(args: &args::ResumeArgs) -> AgentRunOptions {
        AgentRunOptions { permissions: args.permissions.clone(), stream: args.stream, ..AgentRunOptions::default() }
    }

    pub(crate) fn from_steering_args(args: &args::SteeringArgs) -> AgentRunOptions {
        AgentRunOptions { permissions: args.permissions.clone(), stream: args.stream, ..AgentRunOptions::default() }
    }
}

/// Makes the path of a scripted model absolute: the run may be resumed from another directory.
fn absolute_model(model: &str) -> Result<String, CliFailure> {
    let Some(file) = model.strip_prefix(SCRIPTED) else { return Ok(model.to_owned()) };
    match Path::new(file).canonicalize() {
        Ok(path) => Ok(format!("{SCRIPTED}{}", path.display())),
        Err(error) => Err(CliFailure::usage(format!("the mock file {file} cannot be read: {error}"))
            .code("WND-2520")
            .hint("--model scripted:FILE names a mock file with replies; docs/mocks.md has the format")),
    }
}

/// Adds the `--context` text to the input of a run.
pub(crate) fn with_context(input: Value, args: &args::RunArgs) -> Value {
    let (Some(context), Value::Map(map)) = (&args.agents.context, &input) else { return input };
    let mut map = windlass_value::Map::clone(map);
    map.insert("context", context.as_str());
    Value::map(map)
}

/// Compile options for a file of this program.
pub(crate) fn file_compile_options(settings: &CliSettings) -> ZenflowOptions {
    let flow = &settings.agent_options;
    ZenflowOptions {
        coordinator: flow.coordinator,
        max_concurrency: flow.max_concurrency,
        work_folder: flow.workdir.clone(),
        models: Arc::new(agents::ModelCatalog::from_settings(settings)),
        strict_files: flow.will_run,
        ..compile_options(settings)
    }
}

/// Compile options that all workflows share, wherever they come from.
pub(crate) fn compile_options(settings: &CliSettings) -> ZenflowOptions {
    ZenflowOptions {
        tools: agents::BUILT_IN_TOOLS.map(str::to_owned).to_vec(),
        mcp: settings.mcp.iter().map(|server| server.name.clone()).collect(),
        model: settings.agent_options.model.clone(),
        default_model: agents::default_model(settings),
        prices: agents::prices(settings),
        ..ZenflowOptions::default()
    }
}
