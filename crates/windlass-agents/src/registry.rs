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

/// Built-in tools, tools of MCP servers, functions in Rust.
pub struct ToolRegistry {
    tools: BTreeMap<String, RegisteredTool>,
    servers: McpServers,
    protected: Arc<ProtectedPaths>,
    secrets: Redactor,
    limits: Arc<ProcessLimits>,
}

/// A tool of this process.
pub(crate) struct RegisteredTool {
    pub(crate) spec: ToolSpec,
    pub(crate) schema: ArgumentSchema,
    pub(crate) implementation: ToolImplementation,
    /// Nobody is asked before it is called.
    pub(crate) trusted: bool,
}

#[derive(Clone)]
pub(crate) enum ToolImplementation {
    Agent(Arc<dyn AgentTool>),
    /// A tool of the engine: it may wait for something and go on later.
    Engine(Arc<dyn Tool>),
}

impl ToolRegistry {
    pub fn builder() -> ToolRegistryBuilder {
        ToolRegistryBuilder::default()
    }

    /// A builder whose tools are held to these limits.
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

    /// What no tool's answer may hold.
    pub(crate) fn secrets(&self) -> &Redactor {
        &self.secrets
    }

    pub(crate) fn servers(&self) -> &McpServers {
        &self.servers
    }

    /// Every name that is known without asking a server that was not asked yet.
    pub(crate) fn known_names(&self) -> Vec<String> {
        self.tools.keys().cloned().chain(self.servers.known_names()).collect()
    }

    /// What models are told of the tools of this process, without asking any server.
    pub fn local_specs(&self) -> Vec<ToolSpec> {
        self.tools.values().map(|entry| entry.spec.clone()).collect()
    }

    /// The names of the MCP servers: their tools are called `server__tool`.
    pub fn server_names(&self) -> Vec<String> {
        self.servers.names()
    }

    /// Ends the programs of MCP servers and says goodbye to the others.
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

/// Puts a registry together. What is wrong with it is said by [`RegistryBuilder::build`], all of it.
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
    /// `read`, `write`, `glob` and `grep`, all confined to the work folder.
    #[must_use]
    pub fn file_tools(self) -> ToolRegistryBuilder {
        let limits = self.limits.clone();
        self.tool(ReadTool::new(&limits))
            .tool(WriteTool::new(&limits))
            .tool(GlobTool::new(&limits))
            .tool(GrepTool::new(&limits))
    }

    /// File tools leave these paths alone: the store in use, files that say what is run.
    #[must_use]
    pub fn protect(mut self, protected: ProtectedPaths) -> ToolRegistryBuilder {
        self.protected.no_access.extend(protected.no_access);
        self.protected.read_only.extend(protected.read_only);
        self
    }

    /// Struck out of all that tools answer, if they have 8 characters or more.
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

    /// `http`, by the client's rules on addresses. Models choose the addresses: private ones are better closed.
    #[must_use]
    pub fn http(self, http: HttpTool) -> ToolRegistryBuilder {
        let http = AgentHttpTool::new(http, &self.limits);
        self.tool(http)
    }

    /// Any tool of one's own.
    #[must_use]
    pub fn tool(mut self, tool: impl AgentTool + 'static) -> ToolRegistryBuilder {
        self.tools.push((tool.spec(), ToolImplementation::Agent(Arc::new(tool)), false));
        self
    }

    /// A function in Rust. A text is given to the model as it is, any other value as JSON; an error is a sentence for it.
    ///
    /// ```
    /// use windlass_agents::Registry;
    /// use windlass_value::{Value, parse_json};
    ///
    /// let parameters = parse_json(r#"{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}"#)?;
    /// let registry = Registry::builder()
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

    /// A tool of the engine, such as a function in Rust that definitions call: its input are the arguments, its output is
    /// the answer. What it waits for is waited for durably.
    #[must_use]
    pub fn engine_tool(mut self, spec: ToolSpec, tool: Arc<dyn Tool>) -> ToolRegistryBuilder {
        self.tools.push((spec, ToolImplementation::Engine(tool), false));
        self
    }

    /// The tool that was added last is called without asking anybody.
    #[must_use]
    pub fn trusted(mut self) -> ToolRegistryBuilder {
        if let Some((_, _, trusted)) = self.tools.last_mut() {
            *trusted = true;
        }
        self
    }

    /// A server whose tools are offered as `NAME__tool`. It is reached when somebody first asks for tools.
    #[must_use]
    pub fn mcp(mut self, server: McpServer) -> ToolRegistryBuilder {
        self.servers.push(server);
        self
    }

    /// The client for MCP servers over HTTP. Their addresses come from the settings.
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
                Err(problem) => problems.push(format!("the parameters of `{name}` are no JSON Schema: {problem}")),
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

/// What models' makers accept as the name of a tool.
fn is_tool_name(name: &str) -> bool {
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(usable)
}

/// Whether an MCP server can have this name: its tools are called `name__tool`.
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
