//! Checks the tools that agents name.

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{format_names, nearest};

use crate::codes;
use crate::document::{Spanned, WorkflowDocument};
use crate::read::DocumentReader;

/// Tools that agents get implicitly, not from a list.
const IMPLICIT_TOOLS: [&str; 2] = ["submit_result", "send_message"];

impl DocumentReader<'_> {
    pub(crate) fn tools(&mut self, document: &WorkflowDocument) {
        // The available tools are unknown.
        if self.options.tools.is_empty() && self.options.mcp.is_empty() {
            return;
        }
        for agent in &document.agents {
            for tool in agent.tools.iter().flatten().chain(&agent.disallowed_tools) {
                self.tool(tool);
            }
            self.warn_contradictory_tools(agent);
        }
    }

    fn tool(&mut self, tool: &Spanned<String>) {
        let names = || self.options.tools.iter().map(String::as_str).chain(IMPLICIT_TOOLS);
        let of_server = self.options.mcp.iter().any(|server| {
            tool.strip_prefix(server.as_str())
                .and_then(|rest| rest.strip_prefix("__"))
                .is_some_and(|name| !name.is_empty())
        });
        if of_server || names().any(|name| name == tool.value) {
            return;
        }
        let message = format!("there is no tool `{}`", tool.value);
        if tool.value == "*" {
            let hint = "names cannot be patterns: omit `tools` to allow all";
            return self.error(codes::AGENT_TOOL, tool.span, message, hint);
        }
        if let Some(name) = nearest(tool, names()) {
            let hint = format!("did you mean `{name}`?");
            return self.error(codes::AGENT_TOOL, tool.span, message, hint);
        }
        let parts = tool.split_once("__").filter(|(_, name)| !name.is_empty());
        let server = parts.and_then(|(server, _)| nearest(server, self.options.mcp.iter().map(String::as_str)));
        let hint = match (server, parts) {
            (Some(server), Some((_, name))) => format!("did you mean `{server}__{name}`?"),
            _ => format!("there are {}; a server's tools are named `server__tool`", format_names(names())),
        };
        match self.options.strict_files {
            true => self.error(codes::AGENT_TOOL, tool.span, message, hint),
            // The tool may exist where the workflow runs.
            false => self.warning(codes::UNKNOWN_TOOL, tool.span, message + "; `windlass run` rejects this", hint),
        }
    }

    fn warn_contradictory_tools(&mut self, agent: &crate::document::AgentDefinition) {
        let Some(tools) = agent.tools.as_ref().filter(|tools| !tools.is_empty()) else { return };
        let denied = |tool: &Spanned<String>| agent.disallowed_tools.iter().any(|other| other.value == tool.value);
        if tools.iter().all(denied) {
            let message = format!("the agent `{}` has no tool left: all are disallowed", *agent.name);
            self.warning(codes::NO_EFFECT, agent.name.span, message, "check `tools` and `disallowedTools`");
        }
    }
}
