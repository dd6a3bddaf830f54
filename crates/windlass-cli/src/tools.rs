//! What tasks of `windlass run` can do. It trusts its file: private addresses are open.

use std::sync::Arc;

use windlass_core::plan::{Action, Effect, Name, NodeKind, Plan};
use windlass_runtime::Tools;
use windlass_tools::{
    Credentials, Endpoint, EndpointTool, HttpOptions, HttpTool, ModelOptions, ModelTool, NamedCredentials, Secret,
    playbook_tools, tool_infos,
};

use crate::config::{self, Settings, Target};
use crate::failure::Failure;

/// The tools that are always there. Activities come from the settings.
pub fn names() -> Vec<&'static str> {
    tool_infos().into_iter().map(|info| info.name).collect()
}

/// Where models are if nobody says otherwise.
const MODEL_URL: &str = "https://api.openai.com/v1";

pub fn tools(settings: &Settings) -> Result<Tools, Failure> {
    let reply_bytes_max = settings.limits.tool_reply_bytes_max;
    let options = HttpOptions { allow_private: true, reply_bytes_max, ..HttpOptions::default() };
    let http = HttpTool::new(options.clone());
    let model = ModelTool::new(model_options(settings), http.clone());
    let credentials: Arc<dyn Credentials> = Arc::new(credentials(settings));
    let mut tools = playbook_tools(options, &credentials, variable).with("model", model);
    for activity in &settings.activities {
        let Target::Endpoint { url, method, headers, timeout } = &activity.target else { continue };
        let headers = headers.iter().map(|(name, value)| Ok((name.clone(), header(value)?)));
        let headers = headers.collect::<Result<Vec<_>, Failure>>();
        let headers = headers.map_err(|failure| failure.place(format!("[activities.{}]", activity.name)))?;
        let endpoint = Endpoint { url: url.clone(), method: method.clone(), headers, timeout: *timeout };
        tools = tools.with(&activity.name, EndpointTool::new(endpoint, http.clone()));
    }
    Ok(tools)
}

/// A run that goes on needs what it began with: without it, it would fail for good.
pub fn check(plan: &Plan, settings: &Settings) -> Result<(), Failure> {
    let names = names();
    let known = |tool: &str| names.contains(&tool) || settings.activities.iter().any(|activity| activity.name == tool);
    let tasks = plan.nodes.iter().flat_map(|node| match &node.kind {
        NodeKind::Pipeline(pipeline) => pipeline.tasks.as_slice(),
        _ => &[],
    });
    let called = tasks.flat_map(|task| match &task.action {
        Action::Effect(Effect { tool: Name::Fixed(tool), .. }) => std::slice::from_ref(tool),
        Action::Effect(Effect { tool: Name::Computed { among, .. }, .. }) => among.as_slice(),
        _ => &[],
    });
    match called.into_iter().find(|tool| !known(tool)) {
        None => Ok(()),
        Some(tool) => Err(Failure::usage(format!("the run calls `{tool}`, which the settings do not name"))
            .hint("give the settings that it was started with: windlass.toml beside the store, or --config FILE")),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The aliases that are known, for `check`. Those of the environment are spelled as there.
pub fn aliases(settings: &Settings) -> Vec<String> {
    let prefix = windlass_tools::auth_variable("");
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let from_variables = variables.filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned));
    settings.auth.aliases().map(str::to_owned).chain(from_variables).collect()
}

/// Aliases of credentials: from the environment, then from `[auth]` of the settings. Read when they are used.
fn credentials(settings: &Settings) -> NamedCredentials {
    let (entries, reasons) = (settings.auth.clone(), settings.auth.clone());
    NamedCredentials::new(move |name| variable(name).or_else(|| entries.text(name)))
        .with_reasons(move |name| reasons.reason(name))
}

/// What the file itself says is known to whoever reads it; what it takes from the environment is not.
fn header(value: &config::Secret) -> Result<Secret, Failure> {
    let text = value.read()?;
    Ok(match value {
        config::Secret::Text(_) => Secret::plain(text),
        config::Secret::Environment { .. } => Secret::new(text),
    })
}

/// The settings first, then what the environment of such services usually has.
fn model_options(settings: &Settings) -> ModelOptions {
    let model = &settings.model;
    let key = variable(model.key_env.as_deref().unwrap_or("OPENAI_API_KEY"));
    let usual = key.as_ref().map(|_| MODEL_URL.to_owned());
    ModelOptions {
        base_url: model.base_url.clone().or_else(|| variable("OPENAI_BASE_URL")).or(usual),
        key: key.map(Secret::new),
        default_model: model.model.clone(),
        ..ModelOptions::default()
    }
}
