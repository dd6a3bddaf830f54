//! The MCP client. The `rmcp` crate is used only here and in its submodules.

mod http;
mod stdio;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ClientRequest, ContentBlock,
    Implementation, JsonObject, ListToolsRequest, PaginatedRequestParams, ProtocolVersion, RequestMetaObject,
    ResourceContents, ServerResult, Tool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, NotificationContext, RoleClient, RunningService,
    ServiceError,
};
use rmcp::{ClientHandler, transport::Transport};
use tokio::sync::oneshot;
use windlass_tools::HttpTool;
use windlass_value::{Map, Value, parse_json, to_json};

use super::McpTransport;
use crate::tool::ToolAnswer;

/// The key of a call's metadata under which a server finds the idempotency key.
const IDEMPOTENCY_KEY_META: &str = "windlass/idempotencyKey";
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A tool as its server describes it.
pub(super) struct McpTool {
    pub(super) name: String,
    pub(super) description: String,
    /// The schema, or why it is unusable.
    pub(super) parameters: Result<Value, String>,
}

/// One page of a server's tool list, and the cursor of the next one.
type ToolPage = (Vec<McpTool>, Option<String>);

pub(super) enum McpCallError {
    /// The server replied with an error, or with an invalid reply.
    ErrorReply(String),
    /// The request or its reply was lost; the server is still running.
    ReplyLost(String),
    /// The server is gone.
    ServerGone(String),
}

/// An open connection to a server. Dropping it closes the session, and ends the server if it is a program.
pub(super) struct McpConnection {
    running: RunningService<RoleClient, NotificationHandler>,
    /// Completes when all resources of the connection are released.
    closed: Mutex<Option<oneshot::Receiver<()>>>,
    stderr_tail: stdio::StderrTail,
}

/// Handles notifications of a server.
struct NotificationHandler {
    stale: Arc<AtomicBool>,
}

impl ClientHandler for NotificationHandler {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.stale.store(true, Ordering::SeqCst);
    }

    /// Offers the server no capabilities: no files, no models, no questions to users.
    fn get_info(&self) -> ClientConfig {
        let windlass = Implementation::new("windlass", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), windlass)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

impl McpConnection {
    pub(super) async fn open(
        reach: &McpTransport,
        http: &HttpTool,
        stale: Arc<AtomicBool>,
    ) -> Result<McpConnection, String> {
        match McpConnection::open_with_mode(reach, http, stale.clone(), ClientLifecycleMode::Initialize).await {
            // A server of the newer protocol that has no handshake.
            Err(ConnectError::Refused(first)) => {
                let preferred_versions = vec![ProtocolVersion::LATEST];
                let newer = ClientLifecycleMode::Discover { preferred_versions };
                McpConnection::open_with_mode(reach, http, stale, newer).await.map_err(|_| first)
            }
            other => other.map_err(|failed| match failed {
                ConnectError::Refused(problem) | ConnectError::Other(problem) => problem,
            }),
        }
    }

    async fn open_with_mode(
        reach: &McpTransport,
        http: &HttpTool,
        stale: Arc<AtomicBool>,
        mode: ClientLifecycleMode,
    ) -> Result<McpConnection, ConnectError> {
        let (ended, closed) = oneshot::channel();
        let handler = NotificationHandler { stale };
        let stderr_tail = stdio::StderrTail::default();
        let served = match reach {
            McpTransport::Program { command, args, env, folder } => {
                let started = stdio::start(command, args, env, folder.as_deref(), stderr_tail.clone());
                let started =
                    started.map_err(|error| ConnectError::Other(format!("`{command}` cannot be started: {error}")))?;
                handler.serve_with_lifecycle(CloseNotifier { inner: started, _closed: ended }, mode).await
            }
            McpTransport::Url { url, headers } => {
                let transport = http::transport(url, headers, http.clone()).map_err(ConnectError::Other)?;
                handler.serve_with_lifecycle(CloseNotifier { inner: transport, _closed: ended }, mode).await
            }
        };
        let running = match served {
            Ok(running) => running,
            Err(error) => {
                let refused = matches!(error, ClientInitializeError::JsonRpcError(_));
                let message = match &error {
                    ClientInitializeError::TransportError { error, .. } => error_chain(&*error.error),
                    error => error_chain(error),
                };
                let problem = format!("{message}{}", stderr_tail.as_suffix().await);
                return Err(if refused { ConnectError::Refused(problem) } else { ConnectError::Other(problem) });
            }
        };
        let version = running.peer().peer_info().map(|info| info.protocol_version.clone());
        if let Some(version) = version.filter(|version| !ProtocolVersion::KNOWN_VERSIONS.contains(version)) {
            let known: Vec<&str> = ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect();
            return Err(ConnectError::Other(format!(
                "it supports only version {version}; supported here: {}",
                known.join(", ")
            )));
        }
        Ok(McpConnection { running, closed: Mutex::new(Some(closed)), stderr_tail })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.running.peer().is_transport_closed()
    }

    /// Returns whether the tool list must be requested every time. Servers of the newer protocol send no change
    /// notifications; they set a lifetime of the list, which the `rmcp` crate respects.
    pub(super) fn lacks_change_notifications(&self) -> bool {
        self.running.peer().peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
    }

    pub(super) async fn tools(&self, max_tools: usize) -> Result<Vec<McpTool>, String> {
        let mut tools = Vec::new();
        let mut page = PaginatedRequestParams::default();
        loop {
            let (more, next) = match self.running.list_tools(Some(page.clone())).await {
                Ok(list) => (list.tools.into_iter().map(to_mcp_tool).collect(), list.next_cursor),
                // Part of the list does not follow the protocol: parse each tool separately.
                Err(ServiceError::UnexpectedResponse) => self.list_tools_leniently(page).await?,
                Err(error) => return Err(self.problem(&error).await),
            };
            tools.extend(more);
            if tools.len() > max_tools {
                return Err(format!("it offers more than {max_tools} tools (`limits.max_mcp_tools` in windlass.toml)"));
            }
            match next {
                Some(cursor) => page = PaginatedRequestParams::default().with_cursor(Some(cursor)),
                None => return Ok(tools),
            }
        }
    }

    async fn list_tools_leniently(&self, page: PaginatedRequestParams) -> Result<ToolPage, String> {
        let request = ListToolsRequest { params: Some(page), ..ListToolsRequest::default() };
        let list = match self.running.peer().send_request(ClientRequest::ListToolsRequest(request)).await {
            Ok(ServerResult::CustomResult(list)) => list.0,
            Ok(_) => return Err("its answer is not a list of tools".to_owned()),
            Err(error) => return Err(self.problem(&error).await),
        };
        let tools =
            list.get("tools").and_then(serde_json::Value::as_array).ok_or("its answer is not a list of tools")?;
        let next = list.get("nextCursor").and_then(serde_json::Value::as_str).map(str::to_owned);
        let tool = |tool: &serde_json::Value| match serde_json::from_value::<Tool>(tool.clone()) {
            Ok(tool) => to_mcp_tool(tool),
            Err(error) => {
                let name = tool.get("name").and_then(serde_json::Value::as_str).unwrap_or("(without a name)");
                let parameters = Err(error.to_string());
                McpTool { name: name.to_owned(), description: String::new(), parameters }
            }
        };
        Ok((tools.iter().map(tool).collect(), next))
    }

    /// Calls a tool. Dropping the future sends a cancellation to the server.
    pub(super) async fn call(&self, tool: &str, arguments: &Value, key: &str) -> Result<ToolAnswer, McpCallError> {
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(to_json_object(arguments));
        let mut meta = JsonObject::new();
        meta.insert(IDEMPOTENCY_KEY_META.to_owned(), key.into());
        params.meta = Some(RequestMetaObject::from(meta));
        match self.running.call_tool(params).await {
            Ok(result) => Ok(to_answer(&result)),
            Err(error @ (ServiceError::TransportClosed | ServiceError::Cancelled { .. })) => {
                Err(McpCallError::ServerGone(self.problem(&error).await))
            }
            Err(error @ ServiceError::TransportSend(_)) => {
                let problem = self.problem(&error).await;
                Err(if self.is_open() { McpCallError::ReplyLost(problem) } else { McpCallError::ServerGone(problem) })
            }
            Err(ServiceError::McpError(error)) => Err(McpCallError::ErrorReply(error.message.into_owned())),
            Err(ServiceError::InputRequiredRoundsExceeded { .. }) => {
                Err(McpCallError::ErrorReply("it asks for input, which an agent's tool cannot give".to_owned()))
            }
            Err(error) => Err(McpCallError::ErrorReply(error_chain(&error))),
        }
    }

    async fn problem(&self, error: &ServiceError) -> String {
        let message = match error {
            ServiceError::TransportSend(error) => error_chain(&*error.error),
            error => error_chain(error),
        };
        format!("{message}{}", self.stderr_tail.as_suffix().await)
    }

    /// Closes the connection and waits until its program has ended.
    pub(super) async fn close(&self) {
        self.running.cancellation_token().cancel();
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(closed) = closed {
            // The program is killed in time; the timeout only prevents waiting forever.
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, closed).await;
        }
    }
}

fn to_mcp_tool(tool: Tool) -> McpTool {
    McpTool {
        name: tool.name.into_owned(),
        description: tool.description.map(|text| text.into_owned()).or(tool.title).unwrap_or_default(),
        parameters: Ok(from_serde_json(&serde_json::Value::Object((*tool.input_schema).clone()))),
    }
}

enum ConnectError {
    /// The server answered the handshake with an error.
    Refused(String),
    Other(String),
}

/// A transport that signals when it is dropped.
struct CloseNotifier<T> {
    inner: T,
    _closed: oneshot::Sender<()>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for CloseNotifier<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: rmcp::service::TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    fn receive(&mut self) -> impl Future<Output = Option<rmcp::service::RxJsonRpcMessage<RoleClient>>> + Send {
        self.inner.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// Converts a result: text as it is, other content as a description.
fn to_answer(result: &CallToolResult) -> ToolAnswer {
    let mut parts: Vec<String> = result.content.iter().map(describe_content).collect();
    if let (true, Some(structured)) = (parts.is_empty(), &result.structured_content) {
        parts.push(to_json(&from_serde_json(structured)));
    }
    let content = if parts.is_empty() { "(done)".to_owned() } else { parts.join("\n") };
    ToolAnswer { content, error: result.is_error.unwrap_or(false) }
}

fn describe_content(content: &ContentBlock) -> String {
    let bytes = |data: &str| data.len() / 4 * 3;
    match content {
        ContentBlock::Text(text) => text.text.clone(),
        ContentBlock::Image(image) => {
            format!("[a picture, {}, of about {} bytes]", image.mime_type, bytes(&image.data))
        }
        ContentBlock::Audio(audio) => format!("[a sound, {}, of about {} bytes]", audio.mime_type, bytes(&audio.data)),
        ContentBlock::ResourceLink(link) => format!("[a resource: {} ({})]", link.uri, link.name),
        ContentBlock::Resource(resource) => match &resource.resource {
            ResourceContents::TextResourceContents { text, uri, .. } => format!("[{uri}]\n{text}"),
            ResourceContents::BlobResourceContents { blob, uri, mime_type, .. } => {
                let kind = mime_type.as_deref().unwrap_or("bytes");
                format!("[a resource: {uri}, {kind}, of about {} bytes]", bytes(blob))
            }
            _ => "[a resource of an unknown kind]".to_owned(),
        },
        _ => "[content of an unknown kind]".to_owned(),
    }
}

fn from_serde_json(json: &serde_json::Value) -> Value {
    parse_json(&json.to_string()).unwrap_or_default()
}

fn to_json_object(value: &Value) -> JsonObject {
    let map = Map::new();
    let text = to_json(&Value::map(value.as_map().unwrap_or(&map).clone()));
    serde_json::from_str(&text).unwrap_or_default()
}

/// Formats an error with its causes: the outer ones often say nothing.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut inner = error.source();
    while let Some(error) = inner {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        inner = error.source();
    }
    text
}
