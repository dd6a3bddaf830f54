//! The maximum length of one reply, by the name of its model.

/// The beginnings of models' names with the tokens that a reply may have, the more specific first. The services
/// reject requests for more. Other models are assumed to allow the default of the limits. The names have dashes in
/// place of dots, because services differ in this: `claude-3-5-sonnet` and `claude-3.5-sonnet` are the same model.
const MAX_REPLY_TOKENS: [(&str, u64); 24] = [
    ("claude-3-5", 8_192),
    ("claude-3-7", 16_384),
    ("claude-3-", 4_096),
    ("claude-2", 4_096),
    ("chatgpt-4o", 16_384),
    ("gpt-3-5", 4_096),
    ("gpt-4-turbo", 4_096),
    ("gpt-4-1106", 4_096),
    ("gpt-4-0125", 4_096),
    ("gpt-4-1", 32_768),
    ("gpt-4o", 16_384),
    ("gpt-4", 8_192),
    ("gpt-5-chat", 16_384),
    ("gpt-5", 128_000),
    ("o1-preview", 32_768),
    ("o1-mini", 65_536),
    ("o1", 100_000),
    ("o3", 100_000),
    ("o4", 100_000),
    ("gemini-1-5", 8_192),
    ("gemini-2-0", 8_192),
    ("gemini-2-5", 65_536),
    ("gemini-3", 65_536),
    ("deepseek", 8_192),
];

/// Returns the maximum tokens of a reply of this model, if its name says. The name may begin with its provider.
pub(crate) fn max_reply_tokens(model: &str) -> Option<u64> {
    let name = model.rsplit('/').next().unwrap_or_default().replace('.', "-");
    MAX_REPLY_TOKENS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, max)| *max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_model_gives_its_maximum() {
        for (model, max) in [
            ("claude-3-5-haiku-latest", Some(8_192)),
            ("anthropic/claude-3.5-sonnet", Some(8_192)),
            ("openrouter/anthropic/claude-3.7-sonnet:thinking", Some(16_384)),
            ("anthropic/claude-3-opus", Some(4_096)),
            ("claude-2.1", Some(4_096)),
            ("claude-sonnet-4.5", None),
            ("openai/gpt-4o-mini", Some(16_384)),
            ("openrouter/openai/gpt-5", Some(128_000)),
            ("gpt-5.1", Some(128_000)),
            ("gpt-5-chat-latest", Some(16_384)),
            ("gpt-3.5-turbo", Some(4_096)),
            ("gpt-4-0613", Some(8_192)),
            ("gpt-4-1106-preview", Some(4_096)),
            ("gpt-4-0125-preview", Some(4_096)),
            ("gpt-4.1", Some(32_768)),
            ("gpt-4.1-mini", Some(32_768)),
            ("gemini-1.5-pro", Some(8_192)),
            ("google/gemini-2.0-flash-001", Some(8_192)),
            ("gemini/gemini-2.5-flash", Some(65_536)),
            ("deepseek/deepseek-chat", Some(8_192)),
            ("deepseek-v3.1", Some(8_192)),
            ("ollama/llama3.2", None),
            ("", None),
        ] {
            assert_eq!(max_reply_tokens(model), max, "{model}");
        }
    }
}
