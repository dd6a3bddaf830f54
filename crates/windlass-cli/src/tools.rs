//! The tools of `windlass run`. It trusts its file: private addresses are open.

use std::sync::Arc;

use windlass_agents::{AGENT_FILES, AGENT_MODEL, AGENT_TOOL};
use windlass_core::plan::{Action, Effect, NodeKind, Plan, ToolName};
use windlass_runtime::Tools;
use windlass_tools::{
    Credentials, Endpoint, EndpointTool, HttpOptions, HttpTool, ModelOptions, ModelTool, Outbound, Secret, ToolInfo,
    playbook_tools, tool_infos,
};

use crate::agents::{self, AgentToolOptions};
use crate::config::{CliSettings, ConfiguredTarget};
use crate::credentials::{credentials, model_key, model_key_name};
use crate::failure::{CliFailure, codes};

/// The names of the built-in tools. Activities come from the settings.
pub(crate) fn names() -> Vec<&'static str> {
    infos().into_iter().map(|info| info.name).collect()
}

/// The inputs and outputs of each built-in tool, sorted by name.
pub(crate) fn infos() -> Vec<&'static ToolInfo> {
    let mut infos = tool_infos();
    infos.extend([&AGENT_FILES, &AGENT_MODEL, &AGENT_TOOL]);
    infos.sort_by_key(|info| info.name);
    infos
}

/// Returns whether a tool is an internal part of agent workflows that definitions never name.
pub(crate) fn is_internal(info: &ToolInfo) -> bool {
    [AGENT_FILES.name, AGENT_TOOL.name, AGENT_MODEL.name].contains(&info.name)
}

/// The default model service.
const MODEL_URL: &str = "https://api.openai.com/v1";

pub(crate) fn tools(settings: &CliSettings) -> Result<Tools, CliFailure> {
    let tools = trusted_tools(settings)?;
    let tools = match &settings.mocks {
        Some(mocks) => mocks.wrap_local(tools, settings),
        None => tools,
    };
    Ok(crate::secrets::edge(settings)?.wrap(tools))
}

/// All tools for trusted files, not wrapped in the secret boundary yet.
pub(crate) fn trusted_tools(settings: &CliSettings) -> Result<Tools, CliFailure> {
    tools_with_outbound(settings, Outbound::open(), &AgentToolOptions::for_run(settings))
}

/// All tools, for definitions that may reach the given addresses. Addresses that the settings name are reachable as
/// well.
pub(crate) fn tools_with_outbound(
    settings: &CliSettings,
    outbound: Outbound,
    agent_options: &AgentToolOptions,
) -> Result<Tools, CliFailure> {
    let limits = &settings.process_limits;
    let destinations = settings.destinations.clone();
    let options = HttpOptions { outbound, destinations, ..HttpOptions::from_limits(limits) };
    let http = HttpTool::new(options.clone());
    let model = model_options(settings);
    let model = ModelTool::new(model.clone(), http.with_trusted(model.base_url.as_deref()));
    let credentials: Arc<dyn Credentials> = Arc::new(credentials(settings));
    let mut tools = playbook_tools(options, limits, &credentials, variable).with("model", model);
    for starts_programs in ["python", "shell"] {
        if let Some(tool) = tools.get(starts_programs).cloned() {
            tools = tools.with_shared(starts_programs, Arc::new(agents::HardenedTool(tool)));
        }
    }
    tools = agents::add_to(tools, settings, http.clone(), agent_options)?;
    for activity in &settings.activities {
        let ConfiguredTarget::Endpoint { url, method, headers, timeout } = &activity.target else { continue };
        let headers = headers.iter().map(|(name, value)| Ok((name.clone(), value.to_secret(name)?)));
        let headers = headers.collect::<Result<Vec<_>, CliFailure>>();
        let headers = headers.map_err(|failure| failure.location(format!("[activities.{}]", activity.name)))?;
        let endpoint = Endpoint { url: url.clone(), method: method.clone(), headers, timeout: *timeout };
        let trusting = http.with_trusted([url.as_str()]);
        tools = tools.with(&activity.name, EndpointTool::new(endpoint, trusting));
    }
    Ok(tools)
}

/// Checks that a resumed run still has the tools that it was started with: without one, it would fail for good.
pub(crate) fn check_tools(plan: &Plan, settings: &CliSettings) -> Result<(), CliFailure> {
    let mut names = names();
    names.extend([windlass_agents::AGENT_TOOL.name, windlass_agents::AGENT_FILES.name]);
    let is_activity = |tool: &str| settings.activities.iter().any(|activity| activity.name == tool);
    let known = |tool: &str| settings.mocks.is_some() || names.contains(&tool) || is_activity(tool);
    let tasks = plan.nodes.iter().flat_map(|node| match &node.kind {
        NodeKind::Pipeline(pipeline) => pipeline.tasks.as_slice(),
        _ => &[],
    });
    let called = tasks.flat_map(|task| match &task.action {
        Action::Effect(Effect { tool: ToolName::Fixed(tool), .. }) => std::slice::from_ref(tool),
        Action::Effect(Effect { tool: ToolName::Computed { among, .. }, .. }) => among.as_slice(),
        _ => &[],
    });
    if let Some(tool) = called.into_iter().find(|tool| !known(tool)) {
        let hint = "give the settings that it was started with: windlass.toml next to the store, or --config FILE; if \
                    it is a function in Rust, resume the run in the program that has it";
        return Err(CliFailure::usage(format!("the run calls `{tool}`, which the settings do not name"))
            .code(codes::MISSING_TOOLS)
            .hint(hint));
    }
    match unknown_definition(plan) {
        None => Ok(()),
        Some(name) => Err(CliFailure::usage(format!("the run calls the definition `{name}`, which no file provides"))
            .code(codes::MISSING_TOOLS)
            .hint("it is part of the program that started the run: resume the run there")),
    }
}

/// Returns a called definition that is known only by name: neither pinned from a file nor the plan itself.
fn unknown_definition(plan: &Plan) -> Option<&str> {
    let calls = plan.nodes.iter().filter_map(|node| match &node.kind {
        NodeKind::Call(call) => plan.expressions.get(call.definition.0 as usize)?.source.as_str(),
        _ => None,
    });
    let is_computed = |name: &str| name.contains("{{") || name.contains("{%") || name.starts_with('@');
    let known = |name: &str| *plan.name == *name || plan.pins.iter().any(|(pinned, _)| **pinned == *name);
    let names = calls.filter(|name| !is_computed(name));
    // The name may carry the step whose result is requested.
    let is_known = |name: &'_ str| known(name) || name.rsplit_once('#').is_some_and(|(name, _)| known(name));
    names.into_iter().find(|name| !is_known(name))
}

pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Options of the model tool: the settings first, then the usual environment variables of such services.
fn model_options(settings: &CliSettings) -> ModelOptions {
    let model = &settings.model;
    ModelOptions {
        base_url: model.base_url.clone().or_else(|| variable("OPENAI_BASE_URL")),
        usual_url: Some(MODEL_URL.to_owned()),
        key: variable(model_key_name(settings)).map(Secret::new),
        stored_key: model_key(settings),
        default_model: model.model.clone(),
        timeout: settings.process_limits.max_model_time,
        ..ModelOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_noetl::{NoetlOptions, RegisteredNames};
    use windlass_syntax::SourceText;

    /// Returns the error of resuming a run of this playbook that a program with other tools and definitions started.
    fn check_error(tool: &str) -> Option<String> {
        let text = format!("metadata: {{name: own}}\nworkflow: [{{step: start, tool: {tool}}}]\n");
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let registered = RegisteredNames { functions: names(&["price"]), definitions: names(&["orders"]) };
        let options = NoetlOptions { registered, tools: names(&["http_call"]), ..NoetlOptions::default() };
        let mut plan = windlass_noetl::compile(&SourceText::new("t.yaml", text), &options).expect("a playbook").plan;
        plan.pins.push(("found".into(), windlass_value::BlobHash([0; 32])));
        check_tools(&plan, &CliSettings::default()).err().map(|failure| failure.message().to_owned())
    }

    #[test]
    fn a_run_that_needs_another_program_is_rejected() {
        let table = [
            ("{kind: http, url: 'http://x'}", None),
            ("{kind: rust, name: price}", Some("the run calls `price`")),
            ("{kind: rust, name: '{{ workload.x }}'}", Some("the run calls `price`")),
            ("{kind: playbook, path: orders}", Some("the definition `orders`")),
            ("{kind: playbook, path: orders, return_step: a}", Some("the definition `orders#a`")),
            ("{kind: playbook, path: found}", None),
            ("{kind: playbook, path: found, return_step: a}", None),
            ("{kind: playbook, path: own}", None),
            ("{kind: playbook, path: '{{ workload.x }}'}", None),
        ];
        for (tool, expected) in table {
            let error = check_error(tool);
            match expected {
                Some(part) => {
                    assert!(error.as_ref().is_some_and(|message| message.contains(part)), "{tool}: {error:?}")
                }
                None => assert_eq!(error, None, "{tool}"),
            }
        }
    }
}
