//! The tool `model`: one request to a chat model of an OpenAI-compatible service, one reply.
//!
//! The address of the service and its key come from the settings, never from a definition: an input can choose the
//! model and the messages, nothing else. The key appears in no error, output or debug text, even if the service
//! repeats it.

mod reply;
mod request;

use std::sync::Arc;

use hyper::Method;
use windlass_core::{ErrorInfo, ProcessLimits, TaskOutcome};
use windlass_runtime::{Tool, ToolCall, ToolFuture};
use windlass_value::Duration;

use crate::http::{ConfiguredRequest, HttpTool};
use crate::info::{ToolInfo, field};
use crate::secret::{Redactor, Secret};

pub(crate) const INFO: ToolInfo = ToolInfo {
    name: "model",
    description: "Calls the language model of the settings.",
    inputs: &[
        field("prompt", "any", "the question; a value that is not text is sent as JSON"),
        field("systemPrompt", "text", "the system message"),
        field("messages", "array", "the conversation before the prompt: {role, content}"),
        field("model", "text", "another model than that of the settings"),
        field("temperature, topP, maxTokens", "number", "as the model's interface has them"),
        field("responseFormat", "object", "a schema that the reply must match"),
        field(
            "accept",
            "array of text",
            "replies to take although they are no answer: length, refusal, filtered, empty",
        ),
    ],
    outputs: &[
        field("body", "any", "the reply parsed as JSON if possible, else its text"),
        field("content", "text", "the text of the reply"),
        field("model, finishReason", "text", "the model, and the reason why it stopped"),
        field("usage", "object", "promptTokens, completionTokens, totalTokens"),
    ],
    errors: &[
        ("http", "the service refused"),
        ("connection", "no reply"),
        ("timeout", "no complete reply in time"),
        ("model", "AnswerCutOff, AnswerRefused, AnswerFiltered, AnswerEmpty: the reply is no answer"),
    ],
};

/// A key that may change while the process runs.
#[derive(Clone, Default)]
pub struct ModelKey(Option<Arc<KeyLookup>>);

type KeyLookup = dyn Fn() -> Option<Secret> + Send + Sync;

impl ModelKey {
    pub fn new(lookup: impl Fn() -> Option<Secret> + Send + Sync + 'static) -> ModelKey {
        ModelKey(Some(Arc::new(lookup)))
    }

    fn find(&self) -> Option<Secret> {
        self.0.as_ref().and_then(|lookup| lookup())
    }
}

impl std::fmt::Debug for ModelKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ModelKey(***)")
    }
}

/// The address and the defaults of the model service. The caller reads settings and environment.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// The URL before `/chat/completions`: `https://host/v1`.
    pub base_url: Option<String>,
    /// The URL if there is a key and no other URL.
    pub usual_url: Option<String>,
    pub key: Option<Secret>,
    /// Looked up at every call if there is no `key`.
    pub stored_key: ModelKey,
    /// The model for inputs that name none.
    pub default_model: Option<String>,
    /// Additional headers for the service.
    pub headers: Vec<(String, Secret)>,
    /// Timeout of one reply: models take longer than other services.
    pub timeout: Duration,
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions {
            base_url: None,
            usual_url: None,
            key: None,
            stored_key: ModelKey::default(),
            default_model: None,
            headers: Vec::new(),
            timeout: ProcessLimits::default().max_model_time,
        }
    }
}

/// Calls a chat model with the connections and outbound rules of an [`HttpTool`].
#[derive(Clone)]
pub struct ModelTool(Arc<Inner>);

struct Inner {
    http: HttpTool,
    options: ModelOptions,
}

impl ModelTool {
    pub fn new(options: ModelOptions, http: HttpTool) -> ModelTool {
        ModelTool(Arc::new(Inner { http, options }))
    }
}

impl Tool for ModelTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let inner = self.0.clone();
        Box::pin(async move { inner.ask(&call).await.unwrap_or_else(TaskOutcome::failure) })
    }
}

impl Inner {
    async fn ask(&self, call: &ToolCall) -> Result<TaskOutcome, ErrorInfo> {
        let question = request::from_input(&call.input, self.options.default_model.as_deref())?;
        let accept = request::accepted_stops(&call.input)?;
        let (url, headers) = resolve_service(&self.options)?;
        let redaction = Redactor::from_headers(&headers).with_login(&url);
        let request = ConfiguredRequest {
            method: Method::POST,
            url: &url,
            headers: &headers,
            redaction: &redaction,
            body: Some(&question),
            timeout: Some(self.options.timeout),
            same_origin_only: true,
        };
        let reply = self.http.send(call, &request).await;
        Ok(redaction.redact_outcome(reply::model_outcome(reply.outcome, &accept)))
    }
}

/// Returns the address and the headers of a request.
fn resolve_service(options: &ModelOptions) -> Result<(String, Vec<(String, Secret)>), ErrorInfo> {
    let key = options.key.clone().or_else(|| options.stored_key.find());
    // Local services mostly need no key; others report a missing one themselves.
    let key = key.as_ref().map(|key| key.reveal().trim()).filter(|key| !key.is_empty());
    let base = options.base_url.as_deref().map(str::trim).filter(|base| !base.is_empty());
    let base = base.or_else(|| options.usual_url.as_deref().filter(|_| key.is_some())).ok_or_else(|| {
        let hint = "set OPENAI_API_KEY, store it with `windlass credentials set OPENAI_API_KEY`, or give `base_url` \
                    under `[model]` in windlass.toml";
        let message = "there is no model service in the settings";
        ErrorInfo::new("ModelNotConfigured", "model", message).hint(hint)
    })?;
    // The URL may have a query, such as a version, which must stay after the path.
    let (path, query) = base.split_once('?').map_or((base, String::new()), |(path, query)| (path, format!("?{query}")));
    let url = format!("{}/chat/completions{query}", path.trim_end_matches('/'));
    let mut headers = options.headers.clone();
    if let Some(key) = key
        && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"))
    {
        headers.push(("authorization".to_owned(), Secret::new(format!("Bearer {key}"))));
    }
    Ok((url, headers))
}
