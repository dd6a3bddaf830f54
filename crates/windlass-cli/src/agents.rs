//! What agents of `windlass run` can do: models, tools, and who is asked before they use them.

use std::sync::Arc;

use windlass_agents::{AgentFiles, AgentToolCaller, BashOptions, Otherwise, Pattern, Policy, Registry, Terminal};
use windlass_runtime::Tools;
use windlass_tools::chat::{AgentModelTool, ChatOptions};
use windlass_tools::{HttpOptions, HttpTool};

use crate::args::Permissions;
use crate::config::Settings;
use crate::failure::Failure;
use crate::tools::variable;

/// The tools that are always there, beside those of servers.
pub const BUILT_IN: [&str; 6] = ["read", "write", "glob", "grep", "bash", "http"];

/// Variables that name the model for whoever names none.
const MODEL_VARIABLES: [&str; 2] = ["WINDLASS_MODEL", "ZENFLOW_MODEL"];

/// The model where neither the file nor the command line says anything.
pub fn default_model(settings: &Settings) -> Option<String> {
    settings.model.model.clone().or_else(|| MODEL_VARIABLES.into_iter().find_map(variable))
}

pub fn add_to(tools: Tools, settings: &Settings, http: HttpTool) -> Result<Tools, Failure> {
    let registry = Arc::new(registry(settings, &http)?);
    let chat = AgentModelTool::new(chat_options(settings), http, registry.clone());
    Ok(tools
        .with("agent_model", chat)
        .with("agent_tool", AgentToolCaller::new(registry, Arc::new(policy(&settings.flow.permissions)?)))
        .with("agent_files", AgentFiles))
}

fn registry(settings: &Settings, http: &HttpTool) -> Result<Registry, Failure> {
    // A model chooses these addresses, not whoever wrote the file: private ones are closed.
    let reply_bytes_max = settings.limits.tool_reply_bytes_max;
    let open = HttpTool::new(HttpOptions { reply_bytes_max, ..HttpOptions::default() });
    let built_in = Registry::builder().file_tools().bash(BashOptions::default()).http(open).mcp_http(http.clone());
    built_in.build().map_err(|error| Failure::usage(error.message.to_string()))
}

fn chat_options(settings: &Settings) -> ChatOptions {
    ChatOptions { default_model: default_model(settings), variables: Arc::new(variable), ..ChatOptions::default() }
}

fn policy(permissions: &Permissions) -> Result<Policy, Failure> {
    let otherwise = match permissions {
        Permissions { yolo: true, .. } => Otherwise::Allow,
        Permissions { sandbox: true, .. } => Otherwise::Sandbox,
        _ if Terminal::is_there() => Otherwise::Ask,
        _ => Otherwise::Refuse,
    };
    Ok(Policy::new(otherwise)
        .allow(patterns("--allow", &permissions.allow)?)
        .deny(patterns("--deny", &permissions.deny)?))
}

fn patterns(flag: &str, texts: &[String]) -> Result<Vec<Pattern>, Failure> {
    let parsed = |text: &String| {
        text.parse::<Pattern>().map_err(|error| {
            Failure::usage(format!("{flag} {text}: {error}")).hint("name a tool: bash, or bash(git *)")
        })
    };
    texts.iter().map(parsed).collect()
}
