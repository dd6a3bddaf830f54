//! The tool `agent_model`: one turn of a conversation with a model that may call tools.
//!
//! Two protocols are supported, OpenAI-compatible chat completions and Anthropic messages, both over the client of
//! [`HttpTool`]. The prefix of the model's name selects the service ([`PROVIDERS`], and those of the settings). This
//! module reads nothing from the environment; the caller passes the lookup of variables. Keys never appear in an
//! error, output or event, even if a service repeats them.

mod anthropic;
mod deltas;
mod exchange;
mod failure;
mod openai;
mod price;
mod providers;
mod reasoning;
mod reply;
mod request;
mod schema;
#[cfg(feature = "scripted")]
mod scripted;
mod service;
mod sse;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use windlass_core::{ErrorInfo, ProcessLimits, TaskOutcome};
use windlass_runtime::{Tool, ToolCall, ToolFuture};
use windlass_syntax::{did_you_mean, format_names};
use windlass_tools::{HttpTool, ToolInfo, field, required};
use windlass_value::{Duration, Value};

pub use price::{Prices, TokenPrice};
pub use providers::{ModelProtocol, ModelProvider, PROVIDERS};
pub use service::{HeaderSource, ModelService};

use exchange::Exchange;
use request::ChatRequest;
use service::ModelEndpoint;

/// The description of the tool's inputs, outputs and errors.
pub const AGENT_MODEL: ToolInfo = ToolInfo {
    name: "agent_model",
    description: "Calls a model for the next turn of a conversation; the model may call tools.",
    inputs: &[
        required("messages", "array", "the conversation: user, assistant and tool messages"),
        field("model", "text", "provider/name, a bare name, or scripted:FILE; else the default of the settings"),
        field("system", "text", "the system prompt"),
        field("tools", "object", "{allow, deny, own}: the tools offered to the model"),
        field("require", "text", "the only tool that is offered, and must be called"),
        field("result", "object", "{tool, schema}: the arguments of its calls are checked"),
        field("temperature, top_p, max_tokens", "number", "as the model's interface has them"),
        field("price", "object", "{input, output, cache_read, cache_write}: millionths of money per million tokens"),
        field("role", "text", "the role of the caller: step, judge or coordinator"),
        field("turn", "number", "the number of this turn in the conversation, from 1"),
    ],
    outputs: &[
        field("content", "text", "the text of the reply"),
        field("calls", "array", "{id, name, arguments, problem}: the tool calls"),
        field("stop", "text", "end, tools, length, refusal, filtered or empty"),
        field("context_full", "boolean", "the reply was cut off because the model's context is full"),
        field("model", "text", "which model has answered"),
        field("usage", "object", "input, output, total, reasoning and cache tokens"),
    ],
    errors: &[
        ("http", "the service refused: its status is the code"),
        ("connection", "no reply, or the connection was lost before its end"),
        ("timeout", "no complete reply in time"),
        ("model", "ContextTooLong, Refused, BadModelReply, MockUnmatched"),
        ("input", "there is no such model, or the request is not valid for it"),
    ],
};

/// A tool as it is described to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// A JSON Schema of its arguments.
    pub parameters: Value,
}

/// The tools that models may be offered.
pub trait ToolCatalogue: Send + Sync {
    fn specs(&self) -> Pin<Box<dyn Future<Output = Result<Vec<ToolSpec>, ErrorInfo>> + Send + '_>>;

    /// Returns sentences about tools that are missing, as of the last call of [`specs`](Self::specs).
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A catalogue without tools: models get only those that the plan brings.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTools;

impl ToolCatalogue for NoTools {
    fn specs(&self) -> Pin<Box<dyn Future<Output = Result<Vec<ToolSpec>, ErrorInfo>> + Send + '_>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// Finds the value of an environment variable.
pub type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The available model services and their prices. The caller reads the settings.
#[derive(Clone)]
pub struct ChatOptions {
    /// For requests that name no model.
    pub default_model: Option<String>,
    /// The provider of names without a prefix that cannot be guessed; by default the first one with a key.
    pub default_provider: Option<String>,
    /// Services from the settings. A service with the name of a known provider changes that provider.
    pub services: Vec<ModelService>,
    /// For requests that name no price.
    pub prices: Prices,
    /// The scripts that may be used; `None`: any file. A server sets a list, because it must read no file that only a
    /// definition names.
    pub scripts: Option<Vec<String>>,
    /// Publishes the model's output while it arrives, as events `agent.output {delta}`.
    pub deltas: bool,
    /// The maximum duration of one answer.
    pub timeout: Duration,
    /// The maximum delay of a Retry-After header. A service that requests a longer delay is not called again.
    pub max_retry_after: Duration,
    pub variables: Variables,
}

impl Default for ChatOptions {
    fn default() -> ChatOptions {
        ChatOptions::with_limits(&ProcessLimits::default())
    }
}

impl ChatOptions {
    /// Returns options with these limits and no service.
    pub fn with_limits(limits: &ProcessLimits) -> ChatOptions {
        ChatOptions {
            default_model: None,
            default_provider: None,
            services: Vec::new(),
            prices: Prices::default(),
            scripts: None,
            deltas: false,
            timeout: limits.max_model_time,
            max_retry_after: limits.max_retry_after,
            variables: Arc::new(|_| None),
        }
    }
}

impl fmt::Debug for ChatOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChatOptions")
            .field("default_model", &self.default_model)
            .field("default_provider", &self.default_provider)
            .field("services", &self.services)
            .field("prices", &self.prices)
            .field("deltas", &self.deltas)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl ChatOptions {
    /// Checks that a model can be called: reports an invalid name or script, or what its service lacks.
    pub fn check(&self, model: Option<&str>) -> Result<(), ErrorInfo> {
        service::model_name(self, model).and_then(|name| match name.strip_prefix(SCRIPTED_PREFIX) {
            Some(file) => self.check_script_allowed(file).and_then(|()| check_script(file)),
            None => service::choose(self, name).map(|_| ()),
        })
    }

    /// Returns the names of the secrets that requests to a model need, as they are looked up in `variables`.
    pub fn secret_variables(&self, model: Option<&str>) -> Vec<String> {
        let name = service::model_name(self, model).ok().filter(|name| !name.starts_with(SCRIPTED_PREFIX));
        name.map(|name| service::secret_variables(self, name)).unwrap_or_default()
    }

    /// Returns the URLs that the settings or the environment give to services.
    pub fn configured_urls(&self) -> Vec<String> {
        let own = self.services.iter().filter_map(|service| service.base_url.clone());
        let variables = PROVIDERS.iter().filter_map(|provider| (self.variables)(provider.url_variable));
        own.chain(variables).map(|url| url.trim().to_owned()).filter(|url| !url.is_empty()).collect()
    }

    fn check_script_allowed(&self, script: &str) -> Result<(), ErrorInfo> {
        let known = |scripts: &Vec<String>| scripts.iter().any(|known| known.trim() == script.trim());
        match self.scripts.as_ref().is_none_or(known) {
            true => Ok(()),
            false => Err(ErrorInfo::new("NoSuchModel", "input", "a definition cannot use a script as its model here")
                .hint("name a model of a service: provider/name; scripts are for `windlass run`")),
        }
    }
}

#[cfg(feature = "scripted")]
fn check_script(file: &str) -> Result<(), ErrorInfo> {
    scripted::check(file)
}

#[cfg(not(feature = "scripted"))]
fn check_script(_: &str) -> Result<(), ErrorInfo> {
    let message = "this build has no scripted models";
    Err(ErrorInfo::new("NoSuchModel", "input", message).hint("build it with the feature `scripted`"))
}

/// The prefix of model names that refer to a file of rules.
const SCRIPTED_PREFIX: &str = "scripted:";

/// Calls models. Its requests use the connections and the address rules of an [`HttpTool`].
#[derive(Clone)]
pub struct AgentModelTool(Arc<ModelToolInner>);

struct ModelToolInner {
    options: ChatOptions,
    http: HttpTool,
    catalogue: Arc<dyn ToolCatalogue>,
    #[cfg(feature = "scripted")]
    scripted: scripted::ScriptedModels,
}

impl AgentModelTool {
    pub fn new(options: ChatOptions, http: HttpTool, catalogue: Arc<dyn ToolCatalogue>) -> AgentModelTool {
        AgentModelTool(Arc::new(ModelToolInner {
            #[cfg(feature = "scripted")]
            scripted: scripted::ScriptedModels::new(&http),
            options,
            http,
            catalogue,
        }))
    }
}

impl Tool for AgentModelTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let inner = self.0.clone();
        Box::pin(async move { inner.turn(&call).await.unwrap_or_else(TaskOutcome::failure) })
    }
}

impl ModelToolInner {
    async fn turn(&self, call: &ToolCall) -> Result<TaskOutcome, ErrorInfo> {
        let request = ChatRequest::parse(&call.input)?;
        let name = service::model_name(&self.options, request.model)?;
        let (chosen, http) = self.service(name)?;
        let check = request.result.as_ref().map(|result| schema::ResultSchema::compile(result.schema)).transpose()?;
        let tools = self.tools(&request).await?;
        self.warn(&request, call);
        let price = request.price.or_else(|| self.options.prices.lookup(name));
        let max_retry_after = self.options.max_retry_after;
        let exchange = Exchange { http, call, endpoint: &chosen, request: &request, tools: &tools, max_retry_after };
        let mut cancelled = call.cancelled.clone();
        let exchanged = exchange.run(self.options.timeout, self.options.deltas, cancelled.wait()).await;
        let outcome = match exchanged {
            Ok(mut answer) => {
                let stop = answer.stop_reason();
                if stop.is_incomplete() {
                    call.publish.event(&windlass_core::EventKind::AgentStopped { stop: stop.as_str().into() });
                }
                let checked = request.result.as_ref().map(|result| result.tool).zip(check);
                let private = answer.state.take().map(|state| reasoning::seal_state(&chosen, state));
                let outcome = answer.outcome(price, checked, &chosen.redaction).await;
                TaskOutcome { private: private.unwrap_or_default(), ..outcome }
            }
            Err(failed) => failed.outcome(price),
        };
        Ok(chosen.redaction.redact_outcome(outcome))
    }

    #[cfg(feature = "scripted")]
    fn service(&self, name: &str) -> Result<(ModelEndpoint, &HttpTool), ErrorInfo> {
        match name.strip_prefix(SCRIPTED_PREFIX) {
            Some(file) => {
                self.options.check_script_allowed(file)?;
                self.scripted.choose(file, &self.options)
            }
            None => Ok((service::choose(&self.options, name)?, &self.http)),
        }
    }

    #[cfg(not(feature = "scripted"))]
    fn service(&self, name: &str) -> Result<(ModelEndpoint, &HttpTool), ErrorInfo> {
        if let Some(file) = name.strip_prefix(SCRIPTED_PREFIX) {
            check_script(file)?;
        }
        Ok((service::choose(&self.options, name)?, &self.http))
    }

    /// Publishes warnings as events `agent.warning {message}`, once per conversation.
    fn warn(&self, request: &ChatRequest<'_>, call: &ToolCall) {
        if request.turn.is_none_or(|turn| turn == 1) && request.require.is_none() {
            for message in self.catalogue.warnings() {
                call.publish.event(&windlass_core::EventKind::AgentWarning { message: message.into() });
            }
        }
    }

    /// Returns the tools to offer: the permitted ones of the catalogue, and those that the plan brings.
    async fn tools(&self, request: &ChatRequest<'_>) -> Result<Vec<ToolSpec>, ErrorInfo> {
        let own = &request.tools.own;
        let is_own = |name: &str| own.iter().any(|own| own.name == name);
        let mut tools = match request.require.is_some_and(is_own) {
            // Nothing else is offered, so the catalogue is not needed.
            true => Vec::new(),
            false => self.catalogue.specs().await?,
        };
        missing_tools(request, &tools)?;
        tools.retain(|tool| request.tools.allows(&tool.name) && !is_own(&tool.name));
        tools.extend(own.iter().cloned());
        match request.require {
            None => Ok(tools),
            Some(required) => {
                tools.retain(|tool| tool.name == required);
                if tools.is_empty() {
                    let message = format!("`require` names the tool `{required}`, which is not offered to the model");
                    return Err(request::bad(message));
                }
                Ok(tools)
            }
        }
    }
}

/// Rejects a tool name that its server does not offer. An optional server that is unavailable has none of its tools
/// in the list, which is no error.
fn missing_tools(request: &ChatRequest<'_>, tools: &[ToolSpec]) -> Result<(), ErrorInfo> {
    for requested in request.tools.allow.iter().flatten() {
        let Some((server, _)) = requested.split_once("__") else { continue };
        let of_server = |name: &&str| name.split_once("__").is_some_and(|(prefix, _)| prefix == server);
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).filter(of_server).collect();
        let is_own = request.tools.own.iter().any(|own| own.name == *requested);
        if names.is_empty() || is_own || names.contains(requested) {
            continue;
        }
        let hint = did_you_mean(requested, names.clone()).unwrap_or_else(|| format!("it has {}", format_names(names)));
        let message = format!("the server `{server}` has no tool `{requested}`, which the agent's `tools` name");
        return Err(ErrorInfo::new("NoSuchTool", "input", message).hint(hint));
    }
    Ok(())
}

#[cfg(all(test, feature = "scripted"))]
mod tests;
