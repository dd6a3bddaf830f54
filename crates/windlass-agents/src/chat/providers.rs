//! The services that are known by a prefix of a model's name.

/// The protocol of a model service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelProtocol {
    /// `POST …/chat/completions`.
    OpenAi,
    /// `POST …/messages`.
    Anthropic,
}

impl ModelProtocol {
    /// Parses the name used in the settings.
    pub fn parse(name: &str) -> Option<ModelProtocol> {
        match name {
            "openai" => Some(ModelProtocol::OpenAi),
            "anthropic" => Some(ModelProtocol::Anthropic),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            ModelProtocol::OpenAi => "openai",
            ModelProtocol::Anthropic => "anthropic",
        }
    }
}

/// A service that needs no settings except its key.
#[derive(Clone, Copy, Debug)]
pub struct ModelProvider {
    pub prefix: &'static str,
    pub protocol: ModelProtocol,
    /// `None`: every customer has a separate URL.
    pub base_url: Option<&'static str>,
    /// The variable that overrides the URL.
    pub url_variable: &'static str,
    /// The variables that may hold the key, the usual one first.
    pub key_variables: &'static [&'static str],
    /// False for servers on the user's machine, which mostly require no key.
    pub needs_key: bool,
    /// Deviations that the newest models of one service require and others reject.
    pub(super) quirks: ProviderQuirks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProviderQuirks {
    /// Sends `max_completion_tokens` in place of `max_tokens`.
    pub(super) uses_max_completion_tokens: bool,
    /// The service rejects a request to report the usage at the end of a stream, and reports it unasked.
    pub(super) sends_usage_unasked: bool,
    /// Sends the key as `api-key`, not as a bearer token.
    pub(super) uses_api_key_header: bool,
}

pub(super) const NO_QUIRKS: ProviderQuirks =
    ProviderQuirks { uses_max_completion_tokens: false, sends_usage_unasked: false, uses_api_key_header: false };

const fn hosted(
    prefix: &'static str,
    base_url: &'static str,
    url_variable: &'static str,
    key_variables: &'static [&'static str],
) -> ModelProvider {
    let base_url = Some(base_url);
    ModelProvider {
        prefix,
        protocol: ModelProtocol::OpenAi,
        base_url,
        url_variable,
        key_variables,
        needs_key: true,
        quirks: NO_QUIRKS,
    }
}

const fn self_hosted(
    prefix: &'static str,
    base_url: &'static str,
    url_variable: &'static str,
    key_variables: &'static [&'static str],
) -> ModelProvider {
    ModelProvider { needs_key: false, ..hosted(prefix, base_url, url_variable, key_variables) }
}

/// A provider whose URL differs for each customer.
const fn customer_hosted(
    prefix: &'static str,
    url_variable: &'static str,
    key_variables: &'static [&'static str],
) -> ModelProvider {
    ModelProvider { base_url: None, ..hosted(prefix, "", url_variable, key_variables) }
}

const OPENAI: ModelProvider = ModelProvider {
    quirks: ProviderQuirks { uses_max_completion_tokens: true, ..NO_QUIRKS },
    ..hosted("openai", "https://api.openai.com/v1", "OPENAI_BASE_URL", &["OPENAI_API_KEY"])
};
const ANTHROPIC: ModelProvider = ModelProvider {
    protocol: ModelProtocol::Anthropic,
    ..hosted("anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_BASE_URL", &["ANTHROPIC_API_KEY"])
};
const MISTRAL: ModelProvider = ModelProvider {
    quirks: ProviderQuirks { sends_usage_unasked: true, ..NO_QUIRKS },
    ..hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_BASE_URL", &["MISTRAL_API_KEY"])
};
const AZURE: ModelProvider = ModelProvider {
    quirks: ProviderQuirks { uses_max_completion_tokens: true, uses_api_key_header: true, ..NO_QUIRKS },
    ..customer_hosted("azure", "AZURE_OPENAI_BASE_URL", &["AZURE_OPENAI_API_KEY"])
};

/// Ordered: the first provider with a key is the default.
pub const PROVIDERS: &[ModelProvider] = &[
    OPENAI,
    ANTHROPIC,
    hosted(
        "google",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GOOGLE_BASE_URL",
        &["GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GOOGLE_API_KEY"],
    ),
    MISTRAL,
    hosted("groq", "https://api.groq.com/openai/v1", "GROQ_BASE_URL", &["GROQ_API_KEY"]),
    hosted("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_BASE_URL", &["DEEPSEEK_API_KEY"]),
    hosted("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_BASE_URL", &["OPENROUTER_API_KEY"]),
    hosted(
        "together",
        "https://api.together.xyz/v1",
        "TOGETHER_BASE_URL",
        &["TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"],
    ),
    hosted("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_BASE_URL", &["FIREWORKS_API_KEY"]),
    hosted("xai", "https://api.x.ai/v1", "XAI_BASE_URL", &["XAI_API_KEY"]),
    hosted("perplexity", "https://api.perplexity.ai", "PERPLEXITY_BASE_URL", &["PERPLEXITY_API_KEY"]),
    hosted("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_BASE_URL", &["CEREBRAS_API_KEY"]),
    hosted("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_BASE_URL", &["DEEPINFRA_API_KEY"]),
    hosted("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_BASE_URL", &["NVIDIA_API_KEY"]),
    hosted("cohere", "https://api.cohere.ai/compatibility/v1", "COHERE_BASE_URL", &["COHERE_API_KEY", "CO_API_KEY"]),
    hosted("minimax", "https://api.minimax.io/v1", "MINIMAX_BASE_URL", &["MINIMAX_API_KEY"]),
    AZURE,
    customer_hosted("bedrock", "BEDROCK_BASE_URL", &["AWS_BEARER_TOKEN_BEDROCK"]),
    customer_hosted("cloudflare", "CLOUDFLARE_BASE_URL", &["CLOUDFLARE_API_TOKEN", "CLOUDFLARE_API_KEY"]),
    customer_hosted("fptcloud", "FPT_BASE_URL", &["FPT_API_KEY"]),
    customer_hosted("runpod", "RUNPOD_BASE_URL", &["RUNPOD_API_KEY"]),
    customer_hosted("vertex", "VERTEX_BASE_URL", &["VERTEX_ACCESS_TOKEN"]),
    self_hosted("compat", "http://localhost:8080/v1", "COMPAT_BASE_URL", &["COMPAT_API_KEY"]),
    self_hosted("ollama", "http://localhost:11434/v1", "OLLAMA_BASE_URL", &["OLLAMA_API_KEY"]),
    self_hosted("vllm", "http://localhost:8000/v1", "VLLM_BASE_URL", &["VLLM_API_KEY"]),
];

/// Guesses the provider of a name without a prefix.
pub(super) fn guess_provider(model: &str) -> Option<&'static str> {
    let is_o = |name: &str| name.strip_prefix('o').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    match model {
        // Open weights, which many providers serve.
        name if name.starts_with("gpt-oss") => None,
        name if name.starts_with("gpt-") || name.starts_with("chatgpt-") || is_o(name) => Some("openai"),
        name if name.starts_with("claude-") => Some("anthropic"),
        name if name.starts_with("gemini-") => Some("google"),
        name if name.starts_with("grok-") => Some("xai"),
        _ => None,
    }
}
