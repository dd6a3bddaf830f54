//! The dialects of this program, and the context in which their definitions are compiled.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use clap::builder::PossibleValuesParser;
use windlass_dialect::{CompileContext, Dialect, DialectOptions, DialectRegistry, RustDialect};
use windlass_loom::Loom;
use windlass_noetl::Noetl;
use windlass_syntax::SourceText;
use windlass_value::{Language, Value};
use windlass_zenflow::Zenflow;

use crate::agent_options;
use crate::config::{CliSettings, ConfiguredActivity, ConfiguredTarget};
use crate::definition::{default_name, is_from_stdin};
use crate::standard_project::folder_of;

#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "../../windlass-dialect/tests/toy/mod.rs"]
mod toy;

/// Every dialect of this program: a new one is one line here.
static REGISTRY: LazyLock<DialectRegistry> = LazyLock::new(|| {
    let registry = DialectRegistry::new();
    let registry = registry.with(Noetl);
    let registry = registry.with(Zenflow);
    let registry = registry.with(Loom);
    let registry = registry.with(RustDialect);
    #[cfg(test)]
    let registry = registry.with(toy::ToyDialect);
    registry
});

pub(crate) fn registry() -> &'static DialectRegistry {
    &REGISTRY
}

/// The expression languages that plans of this program may use.
pub(crate) fn languages() -> Vec<Arc<dyn Language>> {
    let mut languages = registry().languages();
    languages.push(Arc::new(windlass_expr::steps::StepsLanguage));
    languages.push(Arc::new(windlass_agents::language::AgentLanguage));
    languages
}

/// The values of `--dialect`.
pub(crate) fn dialect_values() -> PossibleValuesParser {
    PossibleValuesParser::new(registry().names())
}

/// The dialects that `windlass schema` accepts.
pub(crate) fn names_with_schema() -> Vec<&'static str> {
    let with_schema = registry().iter().filter(|dialect| dialect.schema().is_some());
    with_schema.map(Dialect::name).collect()
}

/// The compile context of a file: the settings and the files beside it. `app` holds the app settings that its
/// parameters may read, `parameters` values for parameters that it does not declare.
pub(crate) fn file_context(
    source: &SourceText,
    settings: &CliSettings,
    app: BTreeMap<String, String>,
    parameters: BTreeMap<String, Value>,
) -> CompileContext {
    let path = (!is_from_stdin(source)).then(|| Path::new(&*source.name));
    if let Some(path) = path {
        settings.agent_options.sources.add(path);
    }
    CompileContext {
        name: path.and_then(default_name),
        settings: app,
        parameters,
        folder: path.and_then(|path| folder_of(path).canonicalize().ok()),
        files: Arc::new(agent_options::RecordingFiles(settings.agent_options.sources.clone())),
        ..context(settings, agent_options::file_compile_options(settings))
    }
}

/// The compile context that all definitions share, wherever they come from.
pub(crate) fn context(settings: &CliSettings, agents: windlass_zenflow::ZenflowOptions) -> CompileContext {
    let loom = windlass_loom::LoomOptions {
        tools: ["http", "model", "noop"].map(str::to_owned).to_vec(),
        activities: settings.activities.iter().map(loom_activity).collect(),
        ..Default::default()
    };
    let tools: Vec<String> = crate::tools::names().into_iter().map(str::to_owned).collect();
    let registered = windlass_noetl::RegisteredNames { functions: worker_functions(settings), ..Default::default() };
    let aliases = Some(crate::credentials::aliases(settings));
    let noetl = windlass_noetl::NoetlOptions { tools: tools.clone(), aliases, registered, ..Default::default() };
    CompileContext {
        limits: settings.limits.clone(),
        mocked_steps: settings.mocks.as_ref().map(|mocks| mocks.step_names()).unwrap_or_default(),
        tools,
        options: DialectOptions::default().with(loom).with(noetl).with(agents),
        ..CompileContext::default()
    }
}

/// Names of worker activities, which a playbook calls with `kind: rust` as if this program registered them.
fn worker_functions(settings: &CliSettings) -> Vec<String> {
    let worker_activities = settings.activities.iter().filter(|activity| activity.target == ConfiguredTarget::Worker);
    worker_activities.map(|activity| activity.name.clone()).collect()
}

fn loom_activity(activity: &ConfiguredActivity) -> windlass_loom::LoomActivity {
    let target = match activity.target {
        ConfiguredTarget::Endpoint { .. } | ConfiguredTarget::Worker => windlass_loom::ActivityTarget::Tool,
        ConfiguredTarget::Workflow(_) => windlass_loom::ActivityTarget::Workflow(activity.name.clone()),
    };
    windlass_loom::LoomActivity { name: activity.name.clone(), target }
}
