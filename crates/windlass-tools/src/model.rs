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

/// The address and the defaults of the model service. The caller reads settings and environment.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// The URL before `/chat/completions`: `https://host/v1`.
    pub base_url: Option<String>,
    pub key: Option<Secret>,
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
            key: None,
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
    /// The address and the headers of every request, or the error if a setting is missing.
    service: Result<(String, Vec<(String, Secret)>), ErrorInfo>,
    default_model: Option<String>,
    timeout: Duration,
    redaction: Redactor,
}

impl ModelTool {
    pub fn new(options: ModelOptions, http: HttpTool) -> ModelTool {
        let service = resolve_service(&options);
        let headers = service.as_ref().map(|(_, headers)| headers.as_slice()).unwrap_or_default();
        let url = service.as_ref().map(|(url, _)| url.as_str()).unwrap_or_default();
        let redaction = Redactor::from_headers(headers).with_login(url);
        let ModelOptions { default_model, timeout, .. } = options;
        ModelTool(Arc::new(Inner { http, service, default_model, timeout, redaction }))
    }
}

impl Tool for ModelTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let inner = self.0.clone();
        Box::pin(
            async move { inner.redaction.redact_outcome(inner.ask(&call).await.unwrap_or_else(TaskOutcome::failure)) },
        )
    }
}

impl Inner {
    async fn ask(&self, call: &ToolCall) -> Result<TaskOutcome, ErrorInfo> {
        let question = request::from_input(&call.input, self.default_model.as_deref())?;
        let accept = request::accepted_stops(&call.input)?;
        let (url, headers) = self.service.as_ref().map_err(Clone::clone)?;
        let request = ConfiguredRequest {
            method: Method::POST,
            url,
            headers,
            redaction: &self.redaction,
            body: Some(&question),
            timeout: Some(self.timeout),
            same_origin_only: true,
        };
        let reply = self.http.send(call, &request).await;
        Ok(reply::model_outcome(reply.outcome, &accept))
    }
}

fn resolve_service(options: &ModelOptions) -> Result<(String, Vec<(String, Secret)>), ErrorInfo> {
    let base = options.base_url.as_deref().map(str::trim).filter(|base| !base.is_empty());
    let base = base.ok_or_else(|| {
        let hint = "set OPENAI_API_KEY, or give `base_url` under `[model]` in windlass.toml";
        let message = "there is no model service in the settings";
        ErrorInfo::new("ModelNotConfigured", "model", message).hint(hint)
    })?;
    // Local services mostly need no key; others report a missing one themselves.
    let key = options.key.as_ref().map(|key| key.reveal().trim()).filter(|key| !key.is_empty());
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
