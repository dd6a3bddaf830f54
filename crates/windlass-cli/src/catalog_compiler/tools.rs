//! The tools that a server runs itself, and those that it leaves to remote workers.

use std::sync::Arc;

use windlass_runtime::{InputGate, Tools};
use windlass_tools::{Outbound, SecretBoundary};

use crate::agents::{self, AgentToolOptions};
use crate::args::PermissionArgs;
use crate::config::{CliSettings, OUTBOUND};
use crate::failure::CliFailure;
use crate::{secrets, tools};

/// Tools whose only effect on this machine is opening connections, and those are checked.
const SAFE_TOOLS: [&str; 6] = ["agent_model", "http", "http_call", "model", "noop", "postgres"];

/// The tools that a server runs itself, and the names of those that it leaves to workers.
pub(crate) struct ServerTools {
    /// Not wrapped in the secret boundary yet.
    pub tools: Tools,
    /// Names of tools that definitions may use and that only remote workers run.
    pub remote: Vec<String>,
    pub edge: SecretBoundary,
    /// Checks the inputs of new runs: secure parameters name credentials.
    pub gate: Arc<dyn InputGate>,
}

/// Builds the safe tools, the activities of the settings, and the tools that `[server] tools` enables.
pub(crate) fn server_tools(settings: &CliSettings) -> Result<ServerTools, CliFailure> {
    let rules = settings.server.outbound.clone();
    let outbound = Outbound::default().with_rules(rules.allow, rules.deny, OUTBOUND);
    let options = AgentToolOptions {
        permissions: permissions(settings),
        has_terminal: false,
        outbound: outbound.clone(),
        scripts: Some(agents::operator_scripts(settings)),
    };
    let all = tools::tools_with_outbound(settings, outbound, &options)?;
    let remote: Vec<String> =
        tools::names().into_iter().filter(|name| !runs_in_server(settings, name)).map(str::to_owned).collect();
    let tools = all.only(|name| !remote.iter().any(|off| off == name));
    let (edge, gate) = (secrets::edge(settings)?, Arc::new(secrets::sealer(settings)));
    Ok(ServerTools { tools, remote, edge, gate })
}

/// Returns whether the server itself runs a tool of the program.
fn runs_in_server(settings: &CliSettings, name: &str) -> bool {
    SAFE_TOOLS.contains(&name) || settings.server.tools.iter().any(|on| on == name)
}

/// A server has no terminal to ask: tools that the settings do not allow are denied.
fn permissions(settings: &CliSettings) -> PermissionArgs {
    let rules = settings.server.agents.clone();
    PermissionArgs { yolo: false, sandbox: rules.sandbox, allow: rules.allow, deny: rules.deny }
}
