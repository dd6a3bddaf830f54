//! Servers that offer tools by the Model Context Protocol: programs that are started, or URLs.
//!
//! A server is connected when its tools are first requested, and connected anew when the connection is lost. The tool
//! list is fetched once, and again after a change notification from the server or after a new connection.

mod client;
mod names;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration as StdDuration;

use tokio::sync::Mutex;
use tracing::warn;
use windlass_core::{ErrorInfo, ProcessLimits};
use windlass_runtime::ToolCall;
use windlass_tools::{HttpOptions, HttpTool, Redactor, Secret};
use windlass_value::{Duration, Value};

use crate::ToolSpec;
use crate::schema::ArgumentSchema;
use crate::text::{escape_invisible, head_and_tail, truncate_chars};
use crate::tool::ToolAnswer;
use client::{McpCallError, McpConnection, McpTool};

/// Part of error messages: a model that knows the outcome is unknown can check before it tries again.
const OUTCOME_UNKNOWN: &str = "and it is unknown whether the call was executed";

/// A server in the settings. The caller has already resolved values that come from the environment.
#[derive(Clone, Debug)]
pub struct McpServer {
    /// The prefix of its tools, which are called `name__tool`.
    pub name: String,
    pub transport: McpTransport,
    /// The maximum duration of one call.
    pub timeout: Duration,
    /// The maximum duration of connecting and listing the tools; never longer than a call.
    pub connect_timeout: Duration,
    /// Agents run without this server if it cannot be reached.
    pub optional: bool,
}

/// The transport to a server.
#[derive(Clone, Debug)]
pub enum McpTransport {
    /// A program that is started and exchanges messages over its standard input and output.
    Program {
        command: String,
        args: Vec<String>,
        /// The complete environment. Values that are not plain are redacted from the server's output.
        env: Vec<(String, Secret)>,
        /// The working directory; that of this process if not given.
        folder: Option<PathBuf>,
    },
    /// Streamable HTTP.
    Url { url: String, headers: Vec<(String, Secret)> },
}

impl McpServer {
    /// Creates settings with one minute for a call and half a minute to connect.
    pub fn new(name: impl Into<String>, reach: McpTransport) -> McpServer {
        let (timeout, connect_timeout) = (Duration::from_secs(60), ProcessLimits::default().max_mcp_connect_time);
        McpServer { name: name.into(), transport: reach, timeout, connect_timeout, optional: false }
    }

    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let (McpTransport::Program { env: named, .. } | McpTransport::Url { headers: named, .. }) = &self.transport;
        named.iter().map(|(_, value)| value)
    }

    fn redaction(&self) -> Redactor {
        match &self.transport {
            McpTransport::Program { env, .. } => Redactor::from_secrets(env.iter().map(|(_, value)| value)),
            McpTransport::Url { url, headers } => {
                Redactor::from_secrets(headers.iter().map(|(_, value)| value)).with_login(url)
            }
        }
    }
}

/// All servers of a registry.
pub(crate) struct McpServers {
    all: Vec<Arc<McpServerState>>,
}

struct McpServerState {
    settings: McpServer,
    limits: Arc<ProcessLimits>,
    http: HttpTool,
    redaction: Redactor,
    /// Locked while connecting or listing tools, so that concurrent callers do so once.
    connection: Mutex<Option<Arc<McpConnection>>>,
    tools: RwLock<Option<Arc<Vec<ListedTool>>>>,
    /// Why tools of this server cannot be offered, one sentence each.
    rejected_tools: RwLock<Vec<String>>,
    /// The cached tool list may be outdated.
    stale: Arc<AtomicBool>,
    /// The log already says that the server is unavailable.
    warned: AtomicBool,
}

/// A tool in a server's list.
struct ListedTool {
    spec: ToolSpec,
    /// Its name on the server.
    name: String,
    schema: ArgumentSchema,
}

/// A listed tool together with the server that executes it.
pub(crate) struct OfferedTool {
    server: Arc<McpServerState>,
    tools: Arc<Vec<ListedTool>>,
    at: usize,
}

impl McpServers {
    pub(crate) fn new(servers: Vec<McpServer>, http: Option<HttpTool>, limits: &Arc<ProcessLimits>) -> McpServers {
        let http = http.unwrap_or_else(|| HttpTool::new(HttpOptions::default()));
        let server = |settings: McpServer| {
            let redaction = settings.redaction();
            let (connection, tools, stale) = (Mutex::default(), RwLock::default(), Arc::default());
            let left_out = RwLock::default();
            Arc::new(McpServerState {
                settings,
                limits: limits.clone(),
                http: http.clone(),
                redaction,
                connection,
                tools,
                rejected_tools: left_out,
                stale,
                warned: AtomicBool::new(false),
            })
        };
        McpServers { all: servers.into_iter().map(server).collect() }
    }

    /// Returns the tools of all servers. They are listed concurrently, so that a slow server does not delay the others.
    pub(crate) async fn specs(&self) -> Result<Vec<ToolSpec>, ErrorInfo> {
        let mut listings = tokio::task::JoinSet::new();
        for (at, server) in self.all.iter().cloned().enumerate() {
            listings.spawn(async move { (at, server.list().await) });
        }
        let mut lists = Vec::new();
        while let Some(ended) = listings.join_next().await {
            let Ok((at, list)) = ended else { continue };
            match list {
                Ok(list) => lists.push((at, list)),
                Err(problem) if self.all[at].settings.optional => self.warn_unavailable(&self.all[at], &problem),
                Err(problem) => return Err(unreachable_error(problem)),
            }
        }
        lists.sort_by_key(|(at, _)| *at);
        Ok(lists.iter().flat_map(|(_, list)| list.iter().map(|listed| listed.spec.clone())).collect())
    }

    fn warn_unavailable(&self, server: &McpServerState, problem: &str) {
        if !server.warned.swap(true, Ordering::SeqCst) {
            let name = server.settings.name.as_str();
            warn!(
                event = "mcp_server_unavailable",
                server = name,
                "{problem}; agents continue without this optional server"
            );
        }
    }

    pub(crate) async fn find(&self, name: &str) -> Result<Option<OfferedTool>, String> {
        let Some((server, _)) = name.split_once("__") else { return Ok(None) };
        let Some(server) = self.all.iter().find(|one| one.settings.name == server) else { return Ok(None) };
        let tools = server.list().await?;
        let at = tools.iter().position(|listed| listed.spec.name == name);
        Ok(at.map(|at| OfferedTool { server: server.clone(), tools, at }))
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.all.iter().map(|server| server.settings.name.clone()).collect()
    }

    pub(crate) fn known_names(&self) -> impl Iterator<Item = String> {
        let lists = self.all.iter().filter_map(|server| server.cached());
        lists.flat_map(|list| list.iter().map(|listed| listed.spec.name.clone()).collect::<Vec<_>>())
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let left_out =
            |server: &Arc<McpServerState>| server.rejected_tools.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.all.iter().flat_map(left_out).collect()
    }

    pub(crate) async fn close(&self) {
        for server in &self.all {
            if let Some(connection) = server.connection.lock().await.take() {
                connection.close().await;
            }
        }
    }
}

impl McpServerState {
    fn cached(&self) -> Option<Arc<Vec<ListedTool>>> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn list(&self) -> Result<Arc<Vec<ListedTool>>, String> {
        let fresh = || self.cached().filter(|_| !self.stale.load(Ordering::SeqCst));
        if let Some(list) = fresh() {
            return Ok(list);
        }
        let mut held = self.connection.lock().await;
        // Another task may have fetched the list meanwhile.
        if let Some(list) = fresh() {
            return Ok(list);
        }
        let listing = async {
            let connection = self.connect(&mut held).await?;
            self.stale.store(connection.lacks_change_notifications(), Ordering::SeqCst);
            connection.tools(self.limits.max_mcp_tools).await
        };
        let limit = self.connect_limit();
        let problem = match tokio::time::timeout(limit, listing).await {
            Ok(Ok(tools)) => {
                let list = Arc::new(self.to_listed(tools));
                *self.tools.write().unwrap_or_else(PoisonError::into_inner) = Some(list.clone());
                return Ok(list);
            }
            Ok(Err(problem)) => problem,
            Err(_) => {
                *held = None;
                no_answer_message(limit)
            }
        };
        self.stale.store(true, Ordering::SeqCst);
        Err(self.sanitize(&format!("the MCP server `{}` cannot list its tools: {problem}", self.settings.name)))
    }

    /// Converts a server's list. A tool that cannot be offered is left out and does not affect the others.
    fn to_listed(&self, tools: Vec<McpTool>) -> Vec<ListedTool> {
        let offered = names::unique_names(&self.settings.name, tools.iter().map(|tool| tool.name.as_str()));
        let (mut listed, mut left_out) = (Vec::new(), Vec::new());
        for (tool, name) in tools.into_iter().zip(offered) {
            let schema = tool.parameters.and_then(|parameters| Ok((ArgumentSchema::new(&parameters)?, parameters)));
            match schema {
                Ok((schema, parameters)) => {
                    let description = truncate_chars(
                        &self.redaction.redact_text(&tool.description),
                        self.limits.max_mcp_description_chars,
                    );
                    listed.push(ListedTool {
                        spec: ToolSpec { name, description, parameters },
                        name: tool.name,
                        schema,
                    });
                }
                Err(problem) => left_out.push(self.sanitize(&format!(
                    "the tool `{}` of the MCP server `{}` is omitted because its schema cannot be used: {problem}",
                    tool.name, self.settings.name
                ))),
            }
        }
        *self.rejected_tools.write().unwrap_or_else(PoisonError::into_inner) = left_out;
        listed
    }

    /// Returns the open connection, or opens a new one.
    async fn connect(&self, held: &mut Option<Arc<McpConnection>>) -> Result<Arc<McpConnection>, String> {
        if let Some(connection) = held.as_ref().filter(|connection| connection.is_open()) {
            return Ok(connection.clone());
        }
        *held = None;
        let connection = Arc::new(McpConnection::open(&self.settings.transport, &self.http, self.stale.clone()).await?);
        self.stale.store(true, Ordering::SeqCst);
        *held = Some(connection.clone());
        Ok(connection)
    }

    async fn ensure_connected(&self) -> Result<Arc<McpConnection>, String> {
        let mut held = self.connection.lock().await;
        let limit = self.connect_limit();
        let reached = tokio::time::timeout(limit, self.connect(&mut held)).await;
        reached.unwrap_or_else(|_| Err(no_answer_message(limit)))
    }

    async fn call(&self, name: &str, call: &ToolCall) -> ToolAnswer {
        let connection = match self.ensure_connected().await {
            Ok(connection) => connection,
            Err(problem) => return self.failure(&format!("cannot be reached: {problem}")),
        };
        let limit = self.call_limit(call);
        match tokio::time::timeout(limit, connection.call(name, &call.input, &call.key)).await {
            Ok(Ok(answer)) => {
                let content =
                    head_and_tail(&self.redaction.redact_text(&answer.content), self.limits.max_agent_answer_bytes);
                ToolAnswer { content, ..answer }
            }
            Ok(Err(McpCallError::ErrorReply(problem))) => self.failure(&format!("answers with an error: {problem}")),
            Ok(Err(McpCallError::ServerGone(problem))) => {
                self.forget(&connection).await;
                self.failure(&format!("closed the connection during the call, {OUTCOME_UNKNOWN}: {problem}"))
            }
            Ok(Err(McpCallError::ReplyLost(problem))) => {
                self.failure(&format!("has not answered, {OUTCOME_UNKNOWN}: {problem}"))
            }
            Err(_) => self.failure(&format!("has not answered within {limit:?}, {OUTCOME_UNKNOWN}")),
        }
    }

    /// The time to connect. A caller that allows little time for a call does not wait longer for a connection.
    fn connect_limit(&self) -> StdDuration {
        self.settings.connect_timeout.min(self.settings.timeout).to_std()
    }

    fn call_limit(&self, call: &ToolCall) -> StdDuration {
        let own = self.settings.timeout.to_std();
        call.timeout.map_or(own, |timeout| own.min(timeout.to_std()))
    }

    async fn forget(&self, gone: &Arc<McpConnection>) {
        let mut held = self.connection.lock().await;
        if held.as_ref().is_some_and(|connection| Arc::ptr_eq(connection, gone)) {
            *held = None;
        }
    }

    fn failure(&self, what: &str) -> ToolAnswer {
        ToolAnswer::error(self.sanitize(&format!("the MCP server `{}` {what}", self.settings.name)))
    }

    fn sanitize(&self, text: &str) -> String {
        truncate_chars(&escape_invisible(&self.redaction.redact_text(text)), 2000)
    }
}

fn no_answer_message(limit: StdDuration) -> String {
    format!("it did not answer within {limit:?} (`limits.max_mcp_connect_time` in windlass.toml, and its `timeout`)")
}

impl OfferedTool {
    fn listed(&self) -> &ListedTool {
        &self.tools[self.at]
    }

    pub(crate) async fn check(&self, arguments: &Value) -> Result<(), String> {
        self.listed().schema.check(arguments).await
    }

    pub(crate) async fn call(&self, call: &ToolCall) -> ToolAnswer {
        self.server.call(&self.listed().name, call).await
    }
}

/// The error of an unreachable server. Its kind differs from that of models, whose retries do not apply to tool
/// servers.
fn unreachable_error(problem: String) -> ErrorInfo {
    ErrorInfo::new("McpUnreachable", "mcp", problem)
        .hint("see [mcp] in windlass.toml; `optional = true` lets agents continue without this server")
}
