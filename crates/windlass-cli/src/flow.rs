//! Workflows of agents: what of the command line and the settings they are compiled with.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_dialect::{Disk, FileProblem, Files};
use windlass_value::Value;
use windlass_zenflow::{CoordinatorMode, Options};

use crate::agents;
use crate::args::{self, Coordinator, Permissions};
use crate::config::Settings;
use crate::failure::Failure;

/// A model that follows a script.
const SCRIPTED: &str = "scripted:";

/// What the command line says of the agents of a run.
#[derive(Clone, Default)]
pub(crate) struct Flow {
    /// For everything, whatever the file says.
    pub model: Option<String>,
    workdir: Option<PathBuf>,
    coordinator: CoordinatorMode,
    max_concurrency: Option<u64>,
    /// It is going to run: what is missing beside the file is an error now, not a warning.
    pub runs: bool,
    /// Tell what models say while they say it.
    pub stream: bool,
    pub permissions: Permissions,
    /// The files that the run is made of: its agents do not write them.
    pub sources: Sources,
}

/// Files that were read to compile a workflow.
#[derive(Clone, Default)]
pub(crate) struct Sources(Arc<Mutex<Vec<PathBuf>>>);

impl Sources {
    pub(crate) fn add(&self, path: &Path) {
        if let Ok(path) = path.canonicalize() {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(path);
        }
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The file system, and what was read of it.
pub(crate) struct Watched(pub Sources);

impl Files for Watched {
    fn read(&self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileProblem> {
        self.0.add(path);
        Disk.read(path, max_bytes)
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf, FileProblem> {
        Disk.canonical(path)
    }

    fn size(&self, path: &Path) -> Result<u64, FileProblem> {
        Disk.size(path)
    }
}

impl Flow {
    pub(crate) fn of_run(args: &args::Run) -> Result<Flow, Failure> {
        Flow::of(&args.agents, &args.permissions)
    }

    pub(crate) fn of_dev(args: &args::Dev) -> Result<Flow, Failure> {
        Flow::of(&args.agents, &args.permissions)
    }

    fn of(agents: &args::Agents, permissions: &Permissions) -> Result<Flow, Failure> {
        let workdir = agents.workdir.clone().unwrap_or_else(|| PathBuf::from("."));
        let workdir = workdir.canonicalize().map_err(|error| {
            Failure::usage(format!("agents cannot work in {}: {error}", workdir.display()))
                .hint("--workdir names a folder that is there")
        })?;
        if !workdir.is_dir() {
            return Err(Failure::usage(format!("agents cannot work in {}: it is no folder", workdir.display()))
                .hint("--workdir names a folder that is there"));
        }
        Ok(Flow {
            model: agents.model.as_deref().map(absolute).transpose()?,
            workdir: Some(workdir),
            coordinator: match agents.coordinator {
                None | Some(Coordinator::Auto) => CoordinatorMode::Auto,
                Some(Coordinator::On) => CoordinatorMode::On,
                Some(Coordinator::Off) => CoordinatorMode::Off,
            },
            max_concurrency: agents.max_concurrency,
            runs: true,
            stream: agents.stream,
            permissions: permissions.clone(),
            sources: Sources::default(),
        })
    }

    pub(crate) fn of_resume(args: &args::Resume) -> Flow {
        Flow { permissions: args.permissions.clone(), stream: args.stream, ..Flow::default() }
    }

    pub(crate) fn from_steering_args(args: &args::SteeringArgs) -> Flow {
        Flow { permissions: args.permissions.clone(), stream: args.stream, ..Flow::default() }
    }
}

/// Whoever goes on with the run may stand somewhere else.
fn absolute(model: &str) -> Result<String, Failure> {
    let Some(file) = model.strip_prefix(SCRIPTED) else { return Ok(model.to_owned()) };
    match Path::new(file).canonicalize() {
        Ok(path) => Ok(format!("{SCRIPTED}{}", path.display())),
        Err(error) => Err(Failure::usage(format!("the script {file} cannot be read: {error}"))
            .hint("--model scripted:FILE names a script of replies; docs/models.md shows one")),
    }
}

/// What the command line adds to the input of a run.
pub(crate) fn with_context(input: Value, args: &args::Run) -> Value {
    let (Some(context), Value::Map(map)) = (&args.agents.context, &input) else { return input };
    let mut map = windlass_value::Map::clone(map);
    map.insert("context", context.as_str());
    Value::map(map)
}

/// Of a file that this program compiles.
pub(crate) fn options(settings: &Settings) -> Options {
    let flow = &settings.flow;
    Options {
        coordinator: flow.coordinator,
        max_concurrency: flow.max_concurrency,
        work_folder: flow.workdir.clone(),
        models: Arc::new(agents::KnownModels::of(settings)),
        strict_files: flow.runs,
        ..agents_of(settings)
    }
}

/// Of every workflow, wherever it comes from.
pub(crate) fn agents_of(settings: &Settings) -> Options {
    Options {
        tools: agents::BUILT_IN.map(str::to_owned).to_vec(),
        mcp: settings.mcp.iter().map(|server| server.name.clone()).collect(),
        model: settings.flow.model.clone(),
        default_model: agents::default_model(settings),
        prices: agents::prices(settings),
        ..Options::default()
    }
}
