//! Agents in an embedded engine: their tools and their permission check.

use std::sync::Arc;

use windlass_agents::{AgentFiles, AgentToolCaller, Permission, ToolRegistry, ToolRegistryBuilder, ToolSpec};
use windlass_core::ErrorInfo;
use windlass_runtime::{Tool, Tools};

use crate::registered::FunctionSpec;
use crate::{EngineBuilder, Error};

/// Builds the tools of agents from the engine's tools and the functions that have a description.
pub(crate) type AgentToolsBuilder =
    Box<dyn FnOnce(Tools, Vec<(String, FunctionSpec)>) -> Result<AgentTools, ErrorInfo> + Send>;

/// The engine's tools including those of agents, and the registry of names that agents may call.
pub(crate) struct AgentTools {
    tools: Tools,
    #[cfg_attr(not(feature = "zenflow"), allow(dead_code, reason = "only definitions with agents name them"))]
    registry: Arc<ToolRegistry>,
}

impl EngineBuilder {
    /// Enables agents in definitions.
    ///
    /// Agents call the tools of this registry and the functions of this engine that are [described](crate::described).
    /// `permission` is consulted before each call. `model` creates the tool that calls models; it offers them the tools
    /// of the registry. Agents of zenflow files use these tools and models. Other compile options of such a file, such
    /// as the default model or the agents' working directory, are set by
    /// [`dialect_options`](EngineBuilder::dialect_options) with `windlass_zenflow::ZenflowOptions`.
    pub fn agents<M: Tool + 'static>(
        mut self,
        registry: ToolRegistryBuilder,
        permission: Arc<dyn Permission>,
        model: impl FnOnce(Arc<ToolRegistry>) -> M + Send + 'static,
    ) -> EngineBuilder {
        self.agents = Some(Box::new(move |tools, offered| {
            let registry = offered.into_iter().fold(registry, |registry, (name, spec)| match tools.get(&name) {
                Some(tool) => {
                    let FunctionSpec { description, parameters } = spec;
                    registry.engine_tool(ToolSpec { name, description, parameters }, tool.clone())
                }
                None => registry,
            });
            let registry = Arc::new(registry.build()?);
            let tools = tools
                .with("agent_tool", AgentToolCaller::new(registry.clone(), permission))
                .with("agent_files", AgentFiles::default())
                .with("agent_model", model(registry.clone()));
            Ok(AgentTools { tools, registry })
        }));
        self
    }

    pub(crate) fn with_agents(mut self) -> Result<EngineBuilder, Error> {
        if let Some(build_agent_tools) = self.agents.take() {
            let agent_tools = build_agent_tools(self.tools, std::mem::take(&mut self.offered));
            let prepared = agent_tools.map_err(|error| Error::refused("BadTools", error.message.to_string()))?;
            #[cfg(feature = "zenflow")]
            self.dialects.offer(&prepared.registry);
            self.tools = prepared.tools;
        }
        Ok(self)
    }
}
