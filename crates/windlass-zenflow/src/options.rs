//! What a workflow is compiled against.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use windlass_core::Limits;

use crate::document::CoordinatorMode;
use windlass_dialect::{FileReader, NoFiles, RegisteredNames};

/// What a workflow is compiled against.
#[derive(Clone)]
pub struct ZenflowOptions {
    pub limits: Limits,
    /// The folder of the workflow's file, absolute. None: the text came from elsewhere, and no file beside it can be
    /// looked at.
    pub folder: Option<PathBuf>,
    /// The tools that agents may name.
    pub tools: Vec<String>,
    /// The tool servers that are configured: any tool `server__name` of theirs may be named.
    pub mcp: Vec<String>,
    /// The model for everything, whatever the file says.
    pub model: Option<String>,
    /// The model where the file says nothing.
    pub default_model: Option<String>,
    /// What models cost, by their names.
    pub prices: BTreeMap<String, ModelPrice>,
    pub coordinator: CoordinatorMode,
    /// Steps at a time if the file says nothing.
    pub max_concurrency: Option<u64>,
    /// Where agents work, absolute.
    pub work_folder: Option<PathBuf>,
    pub files: Arc<dyn FileReader>,
    /// Definitions that steps may call and that need not be found.
    pub registered: RegisteredNames,
    /// Where files are that steps take along.
    pub context_files: ContextFiles,
    pub models: Arc<dyn Models>,
    /// What depends on where the workflow runs is an error, as it must be before a run: files that are not there, tools
    /// that nobody knows, models that cannot be asked. Otherwise it is a warning.
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
            context_files: ContextFiles::Beside,
            models: Arc::new(AnyModel),
            strict_files: true,
        }
    }
}

impl ZenflowOptions {
    /// What a model costs: by its whole name, else without the provider in front, else by the kind in front of a colon.
    pub(crate) fn price(&self, model: &str) -> Option<&ModelPrice> {
        let short = || model.split_once('/').and_then(|(_, name)| self.prices.get(name));
        let kind = || model.split_once(':').and_then(|(kind, _)| self.prices.get(kind));
        self.prices.get(model).or_else(short).or_else(kind)
    }
}

/// Where files are that steps take along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ContextFiles {
    /// Beside the workflow.
    #[default]
    Beside,
    /// In one folder for all workflows, absolute.
    In(PathBuf),
    /// There are none; the hint says why.
    Refused(String),
}

/// Millionths of money for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelPrice {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// Knows which models can be asked.
pub trait Models: Send + Sync {
    /// What keeps this one from being asked; the default one if none is named.
    fn problem(&self, model: Option<&str>) -> Option<ModelProblem>;
}

/// Why a model cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelProblem {
    pub message: String,
    pub hint: String,
}

/// Nobody knows which models there are: any may be named.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AnyModel;

impl Models for AnyModel {
    fn problem(&self, _: Option<&str>) -> Option<ModelProblem> {
        None
    }
}
