//! The dialects of this program, and what definitions in them are compiled against.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use clap::builder::PossibleValuesParser;
use windlass_dialect::{Context, Dialect, DialectOptions, Registry, RustCode};
use windlass_loom::Loom;
use windlass_noetl::Noetl;
use windlass_syntax::Source;
use windlass_value::{Language, Value};
use windlass_zenflow::Zenflow;

use crate::config::{Activity, Settings, Target};
use crate::definition::{is_from_stdin, name_of_file};
use crate::flow;
use crate::standard::folder_of;

#[cfg(test)]
mod tests;
#[cfg(test)]
#[path = "../../windlass-dialect/tests/toy/mod.rs"]
mod toy;

/// Every dialect that this program knows: a new one is a line here.
static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let registry = Registry::new();
    let registry = registry.with(Noetl);
    let registry = registry.with(Zenflow);
    let registry = registry.with(Loom);
    let registry = registry.with(RustCode);
    #[cfg(test)]
    let registry = registry.with(toy::Toy);
    registry
});

pub(crate) fn registry() -> &'static Registry {
    &REGISTRY
}

/// The languages that plans of this program may have expressions in.
pub(crate) fn languages() -> Vec<Arc<dyn Language>> {
    let mut languages = registry().languages();
    languages.push(Arc::new(windlass_expr::steps::Steps));
    languages.push(Arc::new(windlass_agents::language::Agent));
    languages
}

/// What `--dialect` takes.
pub(crate) fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(registry().names())
}

/// What `windlass schema` takes.
pub(crate) fn names_with_schema() -> Vec<&'static str> {
    let with_schema = registry().iter().filter(|dialect| dialect.schema().is_some());
    with_schema.map(Dialect::name).collect()
}

/// What a file is compiled against: the settings, and the files beside it. `app` are the settings that its parameters may
/// read, `parameters` values for those that it does not declare.
pub(crate) fn context_of_file(
    source: &Source,
    settings: &Settings,
    app: BTreeMap<String, String>,
    parameters: BTreeMap<String, Value>,
) -> Context {
    let path = (!is_from_stdin(source)).then(|| Path::new(&*source.name));
    if let Some(path) = path {
        settings.flow.sources.add(path);
    }
    Context {
        name: path.and_then(name_of_file),
        settings: app,
        parameters,
        folder: path.and_then(|path| folder_of(path).canonicalize().ok()),
        files: Arc::new(flow::Watched(settings.flow.sources.clone())),
        ..context(settings, flow::options(settings))
    }
}

/// What every definition is compiled against here, wherever it comes from.
pub(crate) fn context(settings: &Settings, agents: windlass_zenflow::Options) -> Context {
    let loom = windlass_loom::Options {
        tools: ["http", "model", "noop"].map(str::to_owned).to_vec(),
        activities: settings.activities.iter().map(activity).collect(),
        ..Default::default()
    };
    let tools: Vec<String> = crate::tools::names().into_iter().map(str::to_owned).collect();
    let registered = windlass_noetl::Registered { functions: worker_functions(settings), ..Default::default() };
    let aliases = Some(crate::tools::aliases(settings));
    let noetl = windlass_noetl::Options { tools: tools.clone(), aliases, registered, ..Default::default() };
    Context {
        limits: settings.limits.clone(),
        tools,
        options: DialectOptions::default().with(loom).with(noetl).with(agents),
        ..Context::default()
    }
}

/// What a playbook calls with `kind: rust`, as if this program had it.
fn worker_functions(settings: &Settings) -> Vec<String> {
    let worker_activities = settings.activities.iter().filter(|activity| activity.target == Target::Worker);
    worker_activities.map(|activity| activity.name.clone()).collect()
}

fn activity(activity: &Activity) -> windlass_loom::Activity {
    let target = match activity.target {
        Target::Endpoint { .. } | Target::Worker => windlass_loom::Target::Tool,
        Target::Workflow(_) => windlass_loom::Target::Workflow(activity.name.clone()),
    };
    windlass_loom::Activity { name: activity.name.clone(), target }
}
