//! Selects the service for a model's name and builds its endpoint.

use windlass_core::ErrorInfo;
use windlass_syntax::{did_you_mean, format_names};

use super::ChatOptions;
use super::providers::{ModelProtocol, ModelProvider, NO_QUIRKS, PROVIDERS, ProviderQuirks, guess_provider};
use windlass_tools::{Redactor, Secret};

/// A service from the settings. If it has the name of a known provider, it changes that provider; values that are not
/// set stay unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelService {
    /// The prefix of its models' names.
    pub name: String,
    /// The URL up to `/chat/completions` or `/messages`.
    pub base_url: Option<String>,
    pub protocol: Option<ModelProtocol>,
    /// The variable that holds the key.
    pub key_env: Option<String>,
    pub headers: Vec<(String, HeaderSource)>,
    /// False: replies are requested whole.
    pub stream: Option<bool>,
    /// False: the service does not understand `stream_options`.
    pub stream_usage: Option<bool>,
    /// The maximum tokens of an answer, for requests that set none.
    pub max_tokens: Option<u64>,
}

/// The text of a header, or the variable that holds it.
#[derive(Clone, PartialEq, Eq)]
pub enum HeaderSource {
    Text(String),
    Variable(String),
}

/// Never shows the text.
impl std::fmt::Debug for HeaderSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HeaderSource::Text(_) => f.write_str("Text(…)"),
            HeaderSource::Variable(name) => write!(f, "Variable({name})"),
        }
    }
}

/// The endpoint of a request.
pub(super) struct ModelEndpoint {
    pub(super) provider: String,
    pub(super) protocol: ModelProtocol,
    /// The name that the service uses.
    pub(super) model: String,
    pub(super) url: String,
    pub(super) headers: Vec<(String, Secret)>,
    pub(super) redaction: Redactor,
    pub(super) stream: bool,
    pub(super) max_tokens: Option<u64>,
    pub(super) quirks: ProviderQuirks,
    /// The variable to check if the key is rejected.
    pub(super) key_variable: String,
}

const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Returns the name in the request, or the default.
pub(super) fn model_name<'a>(options: &'a ChatOptions, model: Option<&'a str>) -> Result<&'a str, ErrorInfo> {
    let given = |name: &&str| !name.trim().is_empty();
    model.filter(given).or(options.default_model.as_deref().filter(given)).map(str::trim).ok_or_else(|| {
        let hint = "name one as provider/name: `model` of the agent, `model` under `[model]` in windlass.toml, \
                    WINDLASS_MODEL, or --model of `windlass run`; scripted:FILE answers from a file, for tests";
        ErrorInfo::new("NoModel", "input", "no model is named, and the settings have no default").hint(hint)
    })
}

/// Finds the service by the prefix, or by guessing from a bare name.
pub(super) fn choose(options: &ChatOptions, name: &str) -> Result<ModelEndpoint, ErrorInfo> {
    let (prefix, model) = match name.split_once('/') {
        Some((prefix, model)) => (prefix, model),
        None => (provider_of_bare(options, name)?, name),
    };
    let known = PROVIDERS.iter().find(|provider| provider.prefix == prefix);
    let own = options.services.iter().find(|service| service.name == prefix);
    if known.is_none() && own.is_none() {
        return Err(unknown_provider(options, prefix, name));
    }
    if model.trim().is_empty() {
        let message = format!("`{name}` names a provider but no model");
        return Err(ErrorInfo::new("NoSuchModel", "input", message).hint(format!("such as `{prefix}/model-name`")));
    }
    build_endpoint(options, prefix, model, known, own)
}

fn provider_of_bare<'a>(options: &'a ChatOptions, name: &str) -> Result<&'a str, ErrorInfo> {
    if let Some(guess) = guess_provider(name) {
        return Ok(guess);
    }
    if let Some(default) = options.default_provider.as_deref() {
        return Ok(default);
    }
    let default = options.default_model.as_deref().and_then(|model| model.split_once('/')).map(|(prefix, _)| prefix);
    if let Some(prefix) = default {
        return Ok(prefix);
    }
    let has_key =
        |provider: &&ModelProvider| provider.key_variables.iter().any(|name| lookup_variable(options, name).is_some());
    PROVIDERS.iter().find(has_key).map(|provider| provider.prefix).ok_or_else(|| {
        let message = format!("cannot tell which provider serves the model `{}`", printable(name));
        let hint =
            "write it as provider/name, such as `ollama/llama3.2`; or give `provider` under `[model]` in windlass.toml";
        ErrorInfo::new("NoSuchModel", "input", message).hint(hint)
    })
}

/// Returns the variables that requests to a model read: its key, and headers from variables.
pub(super) fn secret_variables(options: &ChatOptions, name: &str) -> Vec<String> {
    let prefix = match name.split_once('/') {
        Some((prefix, _)) => prefix,
        None => provider_of_bare(options, name).unwrap_or_default(),
    };
    let known = PROVIDERS.iter().find(|provider| provider.prefix == prefix);
    let own = options.services.iter().find(|service| service.name == prefix);
    let headers = own.map(|own| own.headers.as_slice()).unwrap_or_default();
    let headers = headers.iter().filter_map(|(_, source)| match source {
        HeaderSource::Variable(variable) => Some(variable.clone()),
        HeaderSource::Text(_) => None,
    });
    key_variables(known, own).into_iter().map(str::to_owned).chain(headers).collect()
}

fn key_variables<'a>(known: Option<&'a ModelProvider>, own: Option<&'a ModelService>) -> Vec<&'a str> {
    match own.and_then(|own| own.key_env.as_deref()) {
        Some(named) => vec![named],
        None => known.map(|known| known.key_variables.to_vec()).unwrap_or_default(),
    }
}

fn unknown_provider(options: &ChatOptions, prefix: &str, name: &str) -> ErrorInfo {
    let names: Vec<&str> = PROVIDERS
        .iter()
        .map(|provider| provider.prefix)
        .chain(options.services.iter().map(|service| service.name.as_str()))
        .collect();
    let known = format!("known are {}; add others as `[models.NAME]` in windlass.toml", format_names(names.clone()));
    let hint = match did_you_mean(prefix, names) {
        Some(near) => format!("{near} {known}"),
        None => known,
    };
    let message = format!("there is no model provider `{}`, which `{}` names", printable(prefix), printable(name));
    ErrorInfo::new("NoSuchModel", "input", message).hint(hint)
}

fn build_endpoint(
    options: &ChatOptions,
    prefix: &str,
    model: &str,
    known: Option<&ModelProvider>,
    own: Option<&ModelService>,
) -> Result<ModelEndpoint, ErrorInfo> {
    let protocol =
        own.and_then(|own| own.protocol).or(known.map(|known| known.protocol)).unwrap_or(ModelProtocol::OpenAi);
    let (base, is_usual) = base_url(options, prefix, known, own)?;
    let key_variables = key_variables(known, own);
    let key = key_variables.iter().find_map(|name| lookup_variable(options, name));
    let key = key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
    let is_named = own.is_some_and(|own| own.key_env.is_some());
    // At a custom URL a key is required only if the settings name its variable.
    if key.is_none() && (is_named || (is_usual && known.is_some_and(|known| known.needs_key))) {
        return Err(no_key(prefix, &key_variables));
    }
    let quirks = known.map_or(NO_QUIRKS, |known| known.quirks);
    let quirks = match own.and_then(|own| own.stream_usage) {
        Some(requested) => ProviderQuirks { sends_usage_unasked: !requested, ..quirks },
        None => quirks,
    };
    let headers = headers(options, protocol, quirks, key, own)?;
    let url = endpoint_url(&base, protocol);
    let redaction = Redactor::from_headers(&headers).with_login(&url);
    Ok(ModelEndpoint {
        provider: prefix.to_owned(),
        protocol,
        model: model.to_owned(),
        url,
        headers,
        redaction,
        stream: own.and_then(|own| own.stream).unwrap_or(true),
        max_tokens: own.and_then(|own| own.max_tokens),
        quirks,
        key_variable: key_variables.first().copied().unwrap_or_default().to_owned(),
    })
}

/// Returns the base URL, and whether it is the provider's usual one.
fn base_url(
    options: &ChatOptions,
    prefix: &str,
    known: Option<&ModelProvider>,
    own: Option<&ModelService>,
) -> Result<(String, bool), ErrorInfo> {
    let given = own.and_then(|own| own.base_url.clone());
    let given = given.or_else(|| known.and_then(|known| lookup_variable(options, known.url_variable)));
    let given = given.map(|url| url.trim().to_owned()).filter(|url| !url.is_empty());
    if let Some(url) = given {
        return Ok((url, false));
    }
    if let Some(usual) = known.and_then(|known| known.base_url) {
        return Ok((usual.to_owned(), true));
    }
    let variable = known.map(|known| format!("set {}, or ", known.url_variable)).unwrap_or_default();
    let message = format!("the address of the provider `{prefix}` is unknown");
    let hint = format!("{variable}give `base_url` under `[models.{prefix}]` in windlass.toml");
    Err(ErrorInfo::new("ModelNotConfigured", "input", message).hint(hint))
}

fn no_key(prefix: &str, variables: &[&str]) -> ErrorInfo {
    let names = variables.join(" or ");
    let message = format!("there is no key for the models of `{prefix}`: {names} is not set");
    let usual = variables.first().copied().unwrap_or("NAME");
    let hint = format!(
        "set it, or store it: `windlass credentials set {usual}`; or name another variable as `key_env` under \
         `[models.{prefix}]` in windlass.toml"
    );
    ErrorInfo::new("NoModelKey", "input", message).hint(hint)
}

fn headers(
    options: &ChatOptions,
    protocol: ModelProtocol,
    quirks: ProviderQuirks,
    key: Option<String>,
    own: Option<&ModelService>,
) -> Result<Vec<(String, Secret)>, ErrorInfo> {
    let mut headers = Vec::new();
    for (name, text) in own.map(|own| own.headers.as_slice()).unwrap_or_default() {
        let value = match text {
            HeaderSource::Text(text) => Secret::plain(text.as_str()),
            HeaderSource::Variable(variable) => {
                let value = lookup_variable(options, variable).ok_or_else(|| {
                    let message =
                        format!("the header `{name}` of a model service comes from {variable}, which is not set");
                    ErrorInfo::new("NoModelKey", "input", message)
                        .hint("windlass.toml refers to it: set it before the run")
                })?;
                Secret::new(value)
            }
        };
        headers.push((name.to_ascii_lowercase(), value));
    }
    let mut add = |name: &str, value: Secret| {
        if !headers.iter().any(|(given, _)| given == name) {
            headers.push((name.to_owned(), value));
        }
    };
    match (protocol, key) {
        (ModelProtocol::Anthropic, Some(key)) => add("x-api-key", Secret::new(key)),
        (ModelProtocol::OpenAi, Some(key)) if quirks.uses_api_key_header => add("api-key", Secret::new(key)),
        (ModelProtocol::OpenAi, Some(key)) => add("authorization", Secret::new(format!("Bearer {key}"))),
        (_, None) => {}
    }
    if protocol == ModelProtocol::Anthropic {
        add("anthropic-version", Secret::plain(ANTHROPIC_VERSION));
    }
    Ok(headers)
}

/// Appends the protocol's path in front of the query: a base URL may end in a query, such as a version.
pub(super) fn endpoint_url(base: &str, protocol: ModelProtocol) -> String {
    let (path, query) = base.split_once('?').map_or((base, String::new()), |(path, query)| (path, format!("?{query}")));
    let path = path.trim_end_matches('/');
    match protocol {
        ModelProtocol::OpenAi => format!("{path}/chat/completions{query}"),
        // The variable is usually set without the version.
        ModelProtocol::Anthropic if path.ends_with("/v1") => format!("{path}/messages{query}"),
        ModelProtocol::Anthropic => format!("{path}/v1/messages{query}"),
    }
}

fn lookup_variable(options: &ChatOptions, variable: &str) -> Option<String> {
    (options.variables)(variable).filter(|value| !value.trim().is_empty())
}

fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(80).collect()
}
