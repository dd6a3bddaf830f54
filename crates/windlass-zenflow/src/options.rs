//! Compile options of workflows.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use windlass_core::Limits;

use crate::document::CoordinatorMode;
use windlass_dialect::{FileReader, NoFiles, RegisteredNames};

/// The compile options of a workflow.
#[derive(Clone)]
pub struct ZenflowOptions {
    pub limits: Limits,
    /// The folder of the workflow's file, absolute. `None`: the text came from elsewhere, and no file next to it can be
    /// read.
    pub folder: Option<PathBuf>,
    /// The tools that agents may name.
    pub tools: Vec<String>,
    /// The configured tool servers: agents may name any of their tools as `server__name`.
    pub mcp: Vec<String>,
    /// The model for everything; overrides the file.
    pub model: Option<String>,
    /// The model that is used where the file selects none.
    pub default_model: Option<String>,
    /// Prices by model name.
    pub prices: BTreeMap<String, ModelPrice>,
    pub coordinator: CoordinatorMode,
    /// The maximum number of concurrent steps if the file sets none.
    pub max_concurrency: Option<u64>,
    /// The work folder of agents, absolute.
    pub work_folder: Option<PathBuf>,
    pub files: Arc<dyn FileReader>,
    /// Definitions that steps may call and that need not be found as files.
    pub registered: RegisteredNames,
    /// Names of steps whose calls are answered by mocks: a definition that they call need not exist.
    pub mocked_steps: Vec<String>,
    /// The location of context files.
    pub context_files: ContextFiles,
    pub models: Arc<dyn Models>,
    /// Makes problems that depend on the environment errors, as required before a run: missing files, unknown tools,
    /// models that cannot be called. Otherwise they are warnings.
    pub strict_files: bool,
}

impl Default for ZenflowOptions {
    fn default() -> ZenflowOptions {
        ZenflowOptions {
            limits: Limits::default(),
            folder: None,
            tools: Vec::new(),
            mcp: Vec::new(),
            model: None,
            default_model: None,
            prices: BTreeMap::new(),
            coordinator: CoordinatorMode::Auto,
            max_concurrency: None,
            work_folder: None,
            files: Arc::new(NoFiles),
            registered: RegisteredNames::default(),
            mocked_steps: Vec::new(),
            context_files: ContextFiles::InWorkflowFolder,
            models: Arc::new(AnyModel),
            strict_files: true,
        }
    }
}

impl ZenflowOptions {
    /// Returns the price of a model: by its whole name, else without the provider prefix, else by the prefix before a
    /// colon.
    pub(crate) fn price(&self, model: &str) -> Option<&ModelPrice> {
        let short = || model.split_once('/').and_then(|(_, name)| self.prices.get(name));
        let kind = || model.split_once(':').and_then(|(kind, _)| self.prices.get(kind));
        self.prices.get(model).or_else(short).or_else(kind)
    }
}

/// The location of context files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContextFiles {
    /// Next to the workflow.
    #[default]
    InWorkflowFolder,
    /// In one folder for all workflows, absolute.
    In(PathBuf),
    /// Not available. The text is a hint that says why.
    Refused(String),
}

/// Prices in millionths of the currency unit per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelPrice {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// Checks which models can be called.
pub trait Models: Send + Sync {
    /// Returns why a model cannot be called. `None` asks about the default model.
    fn problem(&self, model: Option<&str>) -> Option<ModelProblem>;
}

/// The reason why a model cannot be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelProblem {
    pub message: String,
    pub hint: String,
}

/// Accepts any model, if the available models are unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AnyModel;

impl Models for AnyModel {
    fn problem(&self, _: Option<&str>) -> Option<ModelProblem> {
        None
    }
}
