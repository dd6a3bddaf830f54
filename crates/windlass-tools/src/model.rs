//! The tool `model`: one question to a chat model behind an OpenAI-compatible service, one answer.
//!
//! Where the service is and with which key it is called comes from the settings, never from a definition: an input can
//! choose the model and what it is asked, nothing else. The key is in no error, output or debug text, even if the service
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
    description: "Asks a language model that the settings name.",
    inputs: &[
        field("prompt", "any", "what is asked; no text is JSON"),
        field("systemPrompt", "text", "what the model is told first"),
        field("messages", "array", "a conversation before the prompt: {role, content}"),
        field("model", "text", "another one than the settings say"),
        field("temperature, topP, maxTokens", "number", "as the model's interface has them"),
        field("responseFormat", "object", "a schema that the reply must fit"),
    ],
    outputs: &[
        field("body", "any", "the reply as data if it is JSON, else its text"),
        field("content", "text", "the reply as it came"),
        field("model, finishReason", "text", "which model, and why it stopped"),
        field("usage", "object", "promptTokens, completionTokens, totalTokens"),
    ],
    errors: &[("http", "the service refused"), ("connection", "no reply"), ("timeout", "no complete reply in time")],
};

/// Where the model is. The caller reads settings and environment; nothing is read here.
#[derive(Clone, Debug)]
pub struct ModelOptions {
    /// Up to where `/chat/completions` follows: `https://host/v1`.
    pub base_url: Option<String>,
    pub key: Option<Secret>,
    /// For inputs that name no model.
    pub default_model: Option<String>,
    /// Further headers that the service wants.
    pub headers: Vec<(String, Secret)>,
    /// How long one answer may take: models think longer than other services.
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

/// Asks a chat model. Its requests go over the connections of an [`HttpTool`], and by its rules on addresses.
#[derive(Clone)]
pub struct ModelTool(Arc<Inner>);

struct Inner {
    http: HttpTool,
    /// The address and the headers of every request, or what is missing in the settings.
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
        Ok(reply::model_outcome(reply.outcome))
    }
}

fn resolve_service(options: &ModelOptions) -> Result<(String, Vec<(String, Secret)>), ErrorInfo> {
    let base = options.base_url.as_deref().map(str::trim).filter(|base| !base.is_empty());
    let base = base.ok_or_else(|| {
        let hint = "set OPENAI_API_KEY, or give `base_url` under `[model]` in windlass.toml";
        let message = "there is no model service in the settings";
        ErrorInfo::new("ModelNotConfigured", "model", message).hint(hint)
    })?;
    // Services on one's own machine mostly ask for none; others say so themselves.
    let key = options.key.as_ref().map(|key| key.reveal().trim()).filter(|key| !key.is_empty());
    // A version or the like may stand behind the path, where the completion must not.
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
