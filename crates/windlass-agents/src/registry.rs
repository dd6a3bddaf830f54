//! All tools that agents may call, by name.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use windlass_core::{ErrorInfo, ProcessLimits};
use windlass_runtime::Tool;
use windlass_tools::{HttpTool, Redactor, Secret};
use windlass_value::Value;

use crate::builtin::{AgentHttpTool, BashOptions, BashTool, GlobTool, GrepTool, ReadTool, WriteTool};
use crate::files::ProtectedPaths;
use crate::mcp::{McpServer, McpServers};
use crate::schema::ArgumentSchema;
use crate::tool::{AgentCall, AgentTool, ToolAnswer, ToolAnswerFuture};
use crate::{ToolCatalogue, ToolSpec};

/// The tools of agents: built-in tools, tools of MCP servers, Rust functions.
pub struct ToolRegistry {
    tools: BTreeMap<String, RegisteredTool>,
    servers: McpServers,
    protected: Arc<ProtectedPaths>,
    secrets: Redactor,
    limits: Arc<ProcessLimits>,
}

/// A tool that runs in this process.
pub(crate) struct RegisteredTool {
    pub(crate) spec: ToolSpec,
    pub(crate) schema: ArgumentSchema,
    pub(crate) implementation: ToolImplementation,
    /// The tool is called without asking for permission.
    pub(crate) trusted: bool,
}

#[derive(Clone)]
pub(crate) enum ToolImplementation {
    Agent(Arc<dyn AgentTool>),
    /// An engine tool, which may suspend and continue later.
    Engine(Arc<dyn Tool>),
}

impl ToolRegistry {
    pub fn builder() -> ToolRegistryBuilder {
        ToolRegistryBuilder::default()
    }

    /// Returns a builder whose tools use the given limits.
    pub fn builder_with_limits(limits: &ProcessLimits) -> ToolRegistryBuilder {
        ToolRegistryBuilder { limits: Arc::new(limits.clone()), ..ToolRegistryBuilder::default() }
    }

    pub(crate) fn limits(&self) -> &ProcessLimits {
        &self.limits
    }

    pub(crate) fn find_local(&self, name: &str) -> Option<&RegisteredTool> {
        self.tools.get(name)
    }

    pub(crate) fn protected(&self) -> &Arc<ProtectedPaths> {
        &self.protected
    }

    /// The secrets that are redacted from every tool's answer.
    pub(crate) fn secrets(&self) -> &Redactor {
        &self.secrets
    }

    pub(crate) fn servers(&self) -> &McpServers {
        &self.servers
    }

    /// Returns every name that is known without contacting a server that was not listed yet.
    pub(crate) fn known_names(&self) -> Vec<String> {
        self.tools.keys().cloned().chain(self.servers.known_names()).collect()
    }

    /// Returns the specifications of the tools of this process, without contacting any server.
    pub fn local_specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|entry| entry.spec.clone()).collect()
    }

    /// Returns the names of the MCP servers. Their tools are called `server__tool`.
    pub fn server_names(&self) -> Vec<String> {
        self.servers.names()
    }

    /// Ends the programs of MCP servers and closes the sessions of the others.
    pub async fn close(&self) {
        self.servers.close().await;
    }
}

impl ToolCatalogue for ToolRegistry {
    fn specs(&self) -> Pin<Box<dyn Future<Output = Result<Vec<ToolSpec>, ErrorInfo>> + Send + '_>> {
        Box::pin(async move {
            let mut specs = self.local_specs();
            specs.extend(self.servers.specs().await?);
            Ok(specs)
        })
    }

    fn warnings(&self) -> Vec<String> {
        self.servers.warnings()
    }
}

/// Builds a registry. [`ToolRegistryBuilder::build`] reports all problems together.
#[derive(Default)]
pub struct ToolRegistryBuilder {
    tools: Vec<(ToolSpec, ToolImplementation, bool)>,
    servers: Vec<McpServer>,
    mcp_http: Option<HttpTool>,
    protected: ProtectedPaths,
    secrets: Vec<Secret>,
    limits: Arc<ProcessLimits>,
}

impl ToolRegistryBuilder {
    /// Adds `read`, `write`, `glob` and `grep`, all confined to the work folder.
    #[must_use]
    pub fn file_tools(self) -> ToolRegistryBuilder {
        let limits = self.limits.clone();
        self.tool(ReadTool::new(&limits))
            .tool(WriteTool::new(&limits))
            .tool(GlobTool::new(&limits))
            .tool(GrepTool::new(&limits))
    }

    /// Protects paths from file tools: the store in use, files that decide what is run.
    #[must_use]
    pub fn protect(mut self, protected: ProtectedPaths) -> ToolRegistryBuilder {
        self.protected.no_access.extend(protected.no_access);
        self.protected.read_only.extend(protected.read_only);
        self
    }

    /// Redacts these secrets from all tool answers if they have 8 characters or more.
    #[must_use]
    pub fn secrets(mut self, secrets: impl IntoIterator<Item = Secret>) -> ToolRegistryBuilder {
        self.secrets.extend(secrets);
        self
    }

    #[must_use]
    pub fn bash(self, options: BashOptions) -> ToolRegistryBuilder {
        let secrets = options.secrets.clone();
        let bash = BashTool::new(options, &self.limits);
        self.tool(bash).secrets(secrets)
    }

    /// Adds `http`, under the client's rules on addresses. Models choose the URLs, so private addresses should be closed.
    #[must_use]
    pub fn http(self, http: HttpTool) -> ToolRegistryBuilder {
        let http = AgentHttpTool::new(http, &self.limits);
        self.tool(http)
    }

    /// Adds a custom tool.
    #[must_use]
    pub fn tool(mut self, tool: impl AgentTool + 'static) -> ToolRegistryBuilder {
        self.tools.push((tool.spec(), ToolImplementation::Agent(Arc::new(tool)), false));
        self
    }

    /// Adds a Rust function. The model gets a text as it is and any other value as JSON. An error is a sentence for the
    /// model.
    ///
    /// ```
    /// use windlass_agents::ToolRegistry;
    /// use windlass_value::{Value, parse_json};
    ///
    /// let parameters = parse_json(r#"{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}"#)?;
    /// let registry = ToolRegistry::builder()
    ///     .function("weather", "The weather in a city.", parameters, |call| async move {
    ///         let city = call.arguments().get("city").and_then(Value::as_str).unwrap_or_default().to_owned();
    ///         Ok(Value::from(format!("sunny in {city}")))
    ///     })
    ///     .build();
    /// assert!(registry.is_ok());
    /// # Ok::<(), windlass_value::JsonError>(())
    /// ```
    #[must_use]
    pub fn function<F, R>(self, name: &str, description: &str, parameters: Value, function: F) -> ToolRegistryBuilder
    where
        F: Fn(AgentCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, String>> + Send + 'static,
    {
        let spec = ToolSpec { name: name.to_owned(), description: description.to_owned(), parameters };
        self.tool(FunctionTool { spec, function })
    }

    /// Adds an engine tool, such as a Rust function that definitions call. Its input is the arguments, its output the
    /// answer. Its suspensions are durable.
    #[must_use]
    pub fn engine_tool(mut self, spec: ToolSpec, tool: Arc<dyn Tool>) -> ToolRegistryBuilder {
        self.tools.push((spec, ToolImplementation::Engine(tool), false));
        self
    }

    /// Marks the tool that was added last as trusted: it is called without asking for permission.
    #[must_use]
    pub fn trusted(mut self) -> ToolRegistryBuilder {
        if let Some((_, _, trusted)) = self.tools.last_mut() {
            *trusted = true;
        }
        self
    }

    /// Adds a server whose tools are offered as `NAME__tool`. It is connected when tools are first requested.
    #[must_use]
    pub fn mcp(mut self, server: McpServer) -> ToolRegistryBuilder {
        self.servers.push(server);
        self
    }

    /// Sets the client for MCP servers over HTTP. Their URLs come from the settings.
    #[must_use]
    pub fn mcp_http(mut self, http: HttpTool) -> ToolRegistryBuilder {
        self.mcp_http = Some(http);
        self
    }

    pub fn build(self) -> Result<ToolRegistry, ErrorInfo> {
        let mut tools = BTreeMap::new();
        let mut problems = Vec::new();
        for (spec, implementation, trusted) in self.tools {
            let name = spec.name.clone();
            if !is_tool_name(&name) {
                problems.push(format!("`{name}` cannot name a tool"));
            }
            match ArgumentSchema::new(&spec.parameters) {
                Err(problem) => {
                    problems.push(format!("the parameters of `{name}` are not a valid JSON Schema: {problem}"))
                }
                Ok(_) if tools.contains_key(&name) => problems.push(format!("there are two tools `{name}`")),
                Ok(schema) => {
                    tools.insert(name, RegisteredTool { spec, schema, implementation, trusted });
                }
            }
        }
        for (at, server) in self.servers.iter().enumerate() {
            if self.servers[..at].iter().any(|other| other.name == server.name) {
                problems.push(format!("there are two MCP servers `{}`", server.name));
            }
            if !is_server_name(&server.name) {
                problems.push(format!("`{}` cannot name an MCP server", server.name));
            }
        }
        if !problems.is_empty() {
            let hint = "names have letters, digits, `_` and `-`, 64 at most; those of servers have no `__`";
            return Err(ErrorInfo::new("BadTools", "input", problems.join("; ")).hint(hint));
        }
        let secrets = self.servers.iter().flat_map(McpServer::secrets).chain(&self.secrets);
        let secrets = Redactor::from_secrets(secrets);
        let servers = McpServers::new(self.servers, self.mcp_http, &self.limits);
        Ok(ToolRegistry { tools, servers, protected: Arc::new(self.protected), secrets, limits: self.limits })
    }
}

/// Returns whether model services accept this tool name.
fn is_tool_name(name: &str) -> bool {
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(usable)
}

/// Returns whether an MCP server can have this name. Its tools are called `name__tool`.
pub fn is_server_name(name: &str) -> bool {
    is_tool_name(name) && name.len() <= 32 && !name.contains("__") && !name.ends_with('_')
}

struct FunctionTool<F> {
    spec: ToolSpec,
    function: F,
}

impl<F, R> AgentTool for FunctionTool<F>
where
    F: Fn(AgentCall) -> R + Send + Sync,
    R: Future<Output = Result<Value, String>> + Send + 'static,
{
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn call(&self, call: AgentCall) -> ToolAnswerFuture {
        let running = (self.function)(call);
        Box::pin(async move {
            match running.await {
                Ok(value) => ToolAnswer::success(crate::agent_tool::answer_text(&value)),
                Err(sentence) => ToolAnswer::error(sentence),
            }
        })
    }
}
