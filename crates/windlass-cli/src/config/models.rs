//! Model services and their prices: `[models.NAME]` and `[prices."model"]`.

use std::collections::BTreeMap;

use serde::Deserialize;
use windlass_agents::chat::{HeaderSource, ModelProtocol, ModelService, PROVIDERS, TokenPrice};
use windlass_syntax::nearest;

use super::SecretSetting;
use crate::failure::CliFailure;

/// The keys of a `[models.NAME]` section.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelServiceEntry {
    base_url: Option<String>,
    protocol: Option<String>,
    key_env: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, SecretSetting>,
    stream: Option<bool>,
    stream_usage: Option<bool>,
    max_tokens: Option<u64>,
}

/// The keys of a `[prices."model"]` section: money per million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceEntry {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

pub(crate) fn models(table: toml::Value) -> Result<Vec<ModelService>, CliFailure> {
    sections(table, "models")?.into_iter().map(|(name, entry)| parse_service(name, entry)).collect()
}

pub(crate) fn prices(table: toml::Value) -> Result<BTreeMap<String, TokenPrice>, CliFailure> {
    sections(table, "prices")?.into_iter().map(|(name, entry)| Ok((name.clone(), parse_price(&name, entry)?))).collect()
}

fn sections(table: toml::Value, section: &str) -> Result<toml::Table, CliFailure> {
    match table {
        toml::Value::Table(entries) => Ok(entries),
        other => Err(CliFailure::setting(format!("`{section}` must be a section, not {}", other.type_str()))),
    }
}

fn read<T: serde::de::DeserializeOwned>(value: toml::Value, section: &str) -> Result<T, CliFailure> {
    value
        .try_into()
        .map_err(|error: toml::de::Error| CliFailure::setting(format!("in [{section}]: {}", error.message())))
}

fn parse_service(name: String, entry: toml::Value) -> Result<ModelService, CliFailure> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(is_name) || name == "scripted" {
        return Err(CliFailure::setting(format!("a model service cannot be called `{name}`")).hint(
            "use letters, digits, - and _: it is the prefix before `/` in a model's name; `scripted` is reserved",
        ));
    }
    let entry: ModelServiceEntry = read(entry, &format!("models.{name}"))?;
    let is_known = PROVIDERS.iter().any(|provider| provider.prefix == name);
    let base_url = entry.base_url.map(|url| check_base_url(url, &name)).transpose()?;
    if base_url.is_none() && !is_known {
        let near = nearest(&name, PROVIDERS.iter().map(|provider| provider.prefix));
        let near = near.map(|near| format!("; or did you mean `{near}`?")).unwrap_or_default();
        return Err(CliFailure::setting(format!("[models.{name}] has no `base_url`"))
            .hint(format!("give `base_url`, such as \"https://host/v1\"{near}")));
    }
    let protocol = entry.protocol.map(|word| parse_protocol(&word, &name)).transpose()?;
    let header = |value: SecretSetting| match value {
        SecretSetting::Text(text) => HeaderSource::Text(text),
        SecretSetting::Environment { env } => HeaderSource::Variable(env),
    };
    if entry.max_tokens == Some(0) {
        return Err(CliFailure::setting(format!("`max_tokens` in [models.{name}] is 0: the model could not answer")));
    }
    Ok(ModelService {
        base_url,
        protocol,
        key_env: entry.key_env,
        headers: entry.headers.into_iter().map(|(name, value)| (name, header(value))).collect(),
        stream: entry.stream,
        stream_usage: entry.stream_usage,
        max_tokens: entry.max_tokens,
        name,
    })
}

fn check_base_url(url: String, name: &str) -> Result<String, CliFailure> {
    match url.starts_with("http://") || url.starts_with("https://") {
        true => Ok(url),
        false => Err(CliFailure::setting(format!("the `base_url` of [models.{name}] is not an HTTP URL: {url}"))
            .hint("it begins with http:// or https://")),
    }
}

fn parse_protocol(word: &str, name: &str) -> Result<ModelProtocol, CliFailure> {
    ModelProtocol::parse(word).ok_or_else(|| {
        CliFailure::setting(format!("the `protocol` of [models.{name}] cannot be `{word}`"))
            .hint("\"openai\" is chat completions, \"anthropic\" is messages")
    })
}

fn parse_price(name: &str, entry: toml::Value) -> Result<TokenPrice, CliFailure> {
    let cost: PriceEntry = read(entry, &format!("prices.\"{name}\""))?;
    let millionths = |money: f64| {
        let usable = money.is_finite() && (0.0..1e9).contains(&money);
        usable.then(|| (money * 1e6).round() as u64).ok_or_else(|| {
            CliFailure::setting(format!("the price of `{name}` cannot be {money}"))
                .hint("it is money per million tokens, 0 or more")
        })
    };
    Ok(TokenPrice {
        input: millionths(cost.input)?,
        output: millionths(cost.output)?,
        cache_read: cost.cache_read.map(millionths).transpose()?,
        cache_write: cost.cache_write.map(millionths).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str, section: &str) -> toml::Value {
        let whole: toml::Table = toml::from_str(text).expect("TOML");
        whole.get(section).cloned().expect("the section")
    }

    #[test]
    fn services_are_added_or_override_known_ones() {
        let read = models(table(
            "[models.house]\nbase_url = \"http://127.0.0.1:9/v1\"\nprotocol = \"anthropic\"\nkey_env = \"HOUSE\"\nmax_tokens = 5\n\
             headers = { a = \"b\", c = { env = \"D\" } }\n[models.groq]\nstream = false\nstream_usage = false\n",
            "models",
        ));
        let read = read.expect("valid");
        let groq = read.iter().find(|service| service.name == "groq").expect("groq");
        assert_eq!((groq.stream, groq.stream_usage, &groq.base_url), (Some(false), Some(false), &None));
        let house = read.iter().find(|service| service.name == "house").expect("house");
        assert_eq!((house.protocol, house.max_tokens), (Some(ModelProtocol::Anthropic), Some(5)));
        let headers = [("a", HeaderSource::Text("b".to_owned())), ("c", HeaderSource::Variable("D".to_owned()))];
        assert_eq!(house.headers, headers.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn invalid_services_are_rejected() {
        for (text, why) in [
            ("[models.house]\n", "has no `base_url`"),
            ("[models.grok]\n", "did you mean `groq`"),
            ("[models.\"a/b\"]\nbase_url = \"http://x\"\n", "cannot be called `a/b`"),
            ("[models.scripted]\nbase_url = \"http://x\"\n", "`scripted` is reserved"),
            ("[models.a]\nbase_url = \"x\"\n", "is not an HTTP URL"),
            ("[models.a]\nbase_url = \"http://x\"\nprotocol = \"grpc\"\n", "cannot be `grpc`"),
            ("[models.a]\nbase_url = \"http://x\"\nmax_tokens = 0\n", "is 0"),
            ("[models.a]\nurl = \"http://x\"\n", "unknown field"),
            ("models = 3\n", "must be a section"),
        ] {
            let wrong = format!("{:?}", models(table(text, "models")).expect_err(text));
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
    }

    #[test]
    fn prices_are_money_per_million_tokens() {
        let read = prices(table(
            "[prices.\"openai/gpt-5\"]\ninput = 1.25\noutput = 10\ncache_read = 0.125\n[prices.free]\ninput = 0\noutput = 0\n",
            "prices",
        ));
        let read = read.expect("valid");
        let price = TokenPrice { input: 1_250_000, output: 10_000_000, cache_read: Some(125_000), cache_write: None };
        assert_eq!(read["openai/gpt-5"], price);
        assert_eq!(read["free"], TokenPrice::default());
        for (text, why) in [
            ("[prices.a]\ninput = 1\n", "missing field `output`"),
            ("[prices.a]\ninput = -1\noutput = 1\n", "cannot be -1"),
            ("[prices.a]\ninput = inf\noutput = 1\n", "cannot be inf"),
            ("[prices.a]\ninput = \"1\"\noutput = 1\n", "in [prices.\\\"a\\\"]"),
            ("[prices.a]\ninput = 1\noutput = 1\ncached = 1\n", "unknown field"),
        ] {
            let wrong = format!("{:?}", prices(table(text, "prices")).expect_err(text));
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
    }
}
