//! The protocol. Nothing outside knows the crate that speaks it.

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

use super::Reach;
use crate::tool::Answer;

/// The key of a call's metadata under which a server finds what it can tell repeats by.
const IDEMPOTENCY_KEY_META: &str = "windlass/idempotencyKey";
const CLOSING: Duration = Duration::from_secs(5);

/// A tool as its server describes it.
pub(super) struct RemoteTool {
    pub(super) name: String,
    pub(super) description: String,
    /// Or why there are none.
    pub(super) parameters: Result<Value, String>,
}

/// One page of what a server offers, and where the next one is.
type Page = (Vec<RemoteTool>, Option<String>);

pub(super) enum CallError {
    /// The server has answered that it cannot, or something that is no answer.
    Said(String),
    /// The request or its reply was lost; the server is still there.
    Lost(String),
    /// There is no server any more.
    Gone(String),
}

/// A server that was reached. When this is dropped the server is left, and ended if it is a program.
pub(super) struct Connection {
    running: RunningService<RoleClient, Handler>,
    /// Comes when all that belonged to the connection is gone.
    gone: Mutex<Option<oneshot::Receiver<()>>>,
    last_words: stdio::LastWords,
}

/// What a server may tell of itself.
struct Handler {
    stale: Arc<AtomicBool>,
}

impl ClientHandler for Handler {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.stale.store(true, Ordering::SeqCst);
    }

    /// It gives the server nothing to ask for: no files, no models, no questions to people.
    fn get_info(&self) -> ClientConfig {
        let windlass = Implementation::new("windlass", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), windlass)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

impl Connection {
    pub(super) async fn open(reach: &Reach, http: &HttpTool, stale: Arc<AtomicBool>) -> Result<Connection, String> {
        match Connection::by(reach, http, stale.clone(), ClientLifecycleMode::Initialize).await {
            // A server of the newer kind that knows no handshake.
            Err(Failed::Refused(first)) => {
                let preferred_versions = vec![ProtocolVersion::LATEST];
                let newer = ClientLifecycleMode::Discover { preferred_versions };
                Connection::by(reach, http, stale, newer).await.map_err(|_| first)
            }
            other => other.map_err(|failed| match failed {
                Failed::Refused(problem) | Failed::Other(problem) => problem,
            }),
        }
    }

    async fn by(
        reach: &Reach,
        http: &HttpTool,
        stale: Arc<AtomicBool>,
        mode: ClientLifecycleMode,
    ) -> Result<Connection, Failed> {
        let (ended, gone) = oneshot::channel();
        let handler = Handler { stale };
        let last_words = stdio::LastWords::default();
        let served = match reach {
            Reach::Program { command, args, env, folder } => {
                let started = stdio::start(command, args, env, folder.as_deref(), last_words.clone());
                let started =
                    started.map_err(|error| Failed::Other(format!("`{command}` cannot be started: {error}")))?;
                handler.serve_with_lifecycle(Noted { inner: started, _ended: ended }, mode).await
            }
            Reach::Url { url, headers } => {
                let transport = http::transport(url, headers, http.clone()).map_err(Failed::Other)?;
                handler.serve_with_lifecycle(Noted { inner: transport, _ended: ended }, mode).await
            }
        };
        let running = match served {
            Ok(running) => running,
            Err(error) => {
                let refused = matches!(error, ClientInitializeError::JsonRpcError(_));
                let told = match &error {
                    ClientInitializeError::TransportError { error, .. } => sentence(&*error.error),
                    error => sentence(error),
                };
                let problem = format!("{told}{}", last_words.after().await);
                return Err(if refused { Failed::Refused(problem) } else { Failed::Other(problem) });
            }
        };
        let version = running.peer().peer_info().map(|info| info.protocol_version.clone());
        if let Some(version) = version.filter(|version| !ProtocolVersion::KNOWN_VERSIONS.contains(version)) {
            let known: Vec<&str> = ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect();
            return Err(Failed::Other(format!("it speaks version {version} only; known are {}", known.join(", "))));
        }
        Ok(Connection { running, gone: Mutex::new(Some(gone)), last_words })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.running.peer().is_transport_closed()
    }

    /// Servers of the newer kind do not say by themselves what has changed; they say how long a list holds, which the
    /// protocol's crate minds.
    pub(super) fn always_ask(&self) -> bool {
        self.running.peer().peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
    }

    pub(super) async fn tools(&self, max_tools: usize) -> Result<Vec<RemoteTool>, String> {
        let mut tools = Vec::new();
        let mut page = PaginatedRequestParams::default();
        loop {
            let (more, next) = match self.running.list_tools(Some(page.clone())).await {
                Ok(list) => (list.tools.into_iter().map(remote).collect(), list.next_cursor),
                // Something in it is not as the protocol says: then each tool for itself.
                Err(ServiceError::UnexpectedResponse) => self.each(page).await?,
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

    async fn each(&self, page: PaginatedRequestParams) -> Result<Page, String> {
        let request = ListToolsRequest { params: Some(page), ..ListToolsRequest::default() };
        let list = match self.running.peer().send_request(ClientRequest::ListToolsRequest(request)).await {
            Ok(ServerResult::CustomResult(list)) => list.0,
            Ok(_) => return Err("its answer is no list of tools".to_owned()),
            Err(error) => return Err(self.problem(&error).await),
        };
        let tools = list.get("tools").and_then(serde_json::Value::as_array).ok_or("its answer is no list of tools")?;
        let next = list.get("nextCursor").and_then(serde_json::Value::as_str).map(str::to_owned);
        let tool = |tool: &serde_json::Value| match serde_json::from_value::<Tool>(tool.clone()) {
            Ok(tool) => remote(tool),
            Err(error) => {
                let name = tool.get("name").and_then(serde_json::Value::as_str).unwrap_or("(without a name)");
                let parameters = Err(error.to_string());
                RemoteTool { name: name.to_owned(), description: String::new(), parameters }
            }
        };
        Ok((tools.iter().map(tool).collect(), next))
    }

    /// A call that is dropped is told to the server as cancelled.
    pub(super) async fn call(&self, tool: &str, arguments: &Value, key: &str) -> Result<Answer, CallError> {
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(object(arguments));
        let mut meta = JsonObject::new();
        meta.insert(IDEMPOTENCY_KEY_META.to_owned(), key.into());
        params.meta = Some(RequestMetaObject::from(meta));
        match self.running.call_tool(params).await {
            Ok(result) => Ok(answer(&result)),
            Err(error @ (ServiceError::TransportClosed | ServiceError::Cancelled { .. })) => {
                Err(CallError::Gone(self.problem(&error).await))
            }
            Err(error @ ServiceError::TransportSend(_)) => {
                let problem = self.problem(&error).await;
                Err(if self.is_open() { CallError::Lost(problem) } else { CallError::Gone(problem) })
            }
            Err(ServiceError::McpError(error)) => Err(CallError::Said(error.message.into_owned())),
            Err(ServiceError::InputRequiredRoundsExceeded { .. }) => {
                Err(CallError::Said("it asks for input, which an agent's tool cannot give".to_owned()))
            }
            Err(error) => Err(CallError::Said(sentence(&error))),
        }
    }

    async fn problem(&self, error: &ServiceError) -> String {
        let told = match error {
            ServiceError::TransportSend(error) => sentence(&*error.error),
            error => sentence(error),
        };
        format!("{told}{}", self.last_words.after().await)
    }

    /// Leaves the server and waits until its program has ended.
    pub(super) async fn close(&self) {
        self.running.cancellation_token().cancel();
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(gone) = gone {
            // It is killed in time; this is only not to wait for ever.
            let _ = tokio::time::timeout(CLOSING, gone).await;
        }
    }
}

fn remote(tool: Tool) -> RemoteTool {
    RemoteTool {
        name: tool.name.into_owned(),
        description: tool.description.map(|text| text.into_owned()).or(tool.title).unwrap_or_default(),
        parameters: Ok(value(&serde_json::Value::Object((*tool.input_schema).clone()))),
    }
}

enum Failed {
    /// The server has answered the handshake with an error.
    Refused(String),
    Other(String),
}

/// A transport that says when it is gone.
struct Noted<T> {
    inner: T,
    _ended: oneshot::Sender<()>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Noted<T> {
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

/// Text as it is, all else in words.
fn answer(result: &CallToolResult) -> Answer {
    let mut parts: Vec<String> = result.content.iter().map(described).collect();
    if let (true, Some(structured)) = (parts.is_empty(), &result.structured_content) {
        parts.push(to_json(&value(structured)));
    }
    let content = if parts.is_empty() { "(done)".to_owned() } else { parts.join("\n") };
    Answer { content, error: result.is_error.unwrap_or(false) }
}

fn described(content: &ContentBlock) -> String {
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
            _ => "[a resource of a kind that is not known]".to_owned(),
        },
        _ => "[content of a kind that is not known]".to_owned(),
    }
}

fn value(json: &serde_json::Value) -> Value {
    parse_json(&json.to_string()).unwrap_or_default()
}

fn object(value: &Value) -> JsonObject {
    let map = Map::new();
    let text = to_json(&Value::map(value.as_map().unwrap_or(&map).clone()));
    serde_json::from_str(&text).unwrap_or_default()
}

/// An error with its causes: the outer ones often say nothing.
fn sentence(error: &dyn std::error::Error) -> String {
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
