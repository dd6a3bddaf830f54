//! Services that definitions may call by name: `[activities]`, `[model]`, `[settings]`, and credentials: `[auth]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use windlass_tools::auth_variable;
use windlass_value::Duration;

use crate::failure::CliFailure;

/// An activity or actor that definitions can name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConfiguredActivity {
    pub name: String,
    pub target: ConfiguredTarget,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ConfiguredTarget {
    /// An HTTP service that takes the input as JSON and returns the result.
    Endpoint { url: String, method: String, headers: Vec<(String, SecretSetting)>, timeout: Option<Duration> },
    /// Another definition, run as a child run.
    Workflow(PathBuf),
    /// A tool that remote workers offer under this name.
    Worker,
}

/// A text from the file, or the name of an environment variable that holds it. It is read only when needed, so that
/// `check` works on machines without the secrets.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum SecretSetting {
    Text(String),
    Environment { env: String },
}

/// Never prints the secret, not even for debugging.
impl std::fmt::Debug for SecretSetting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SecretSetting::Text(_) => formatter.write_str("Secret::Text(…)"),
            SecretSetting::Environment { env } => write!(formatter, "Secret::Environment({env})"),
        }
    }
}

impl SecretSetting {
    pub(crate) fn read(&self) -> Result<String, CliFailure> {
        match self {
            SecretSetting::Text(text) => Ok(text.clone()),
            SecretSetting::Environment { env } => std::env::var(env).map_err(|_| {
                CliFailure::setting(format!("the environment variable `{env}` is not set, or is not text"))
                    .hint("windlass.toml refers to it: set it before the run")
            }),
        }
    }
}

impl SecretSetting {
    /// A value from the environment is secret, and so is one under a name that says so, such as `authorization`.
    pub(crate) fn to_secret(&self, name: &str) -> Result<windlass_tools::Secret, CliFailure> {
        let text = self.read()?;
        Ok(match self {
            SecretSetting::Text(_) if !windlass_tools::is_secret_name(name) => windlass_tools::Secret::plain(text),
            SecretSetting::Text(_) | SecretSetting::Environment { .. } => windlass_tools::Secret::new(text),
        })
    }
}

/// The default model service: an address that speaks the chat completions protocol.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelSettings {
    pub base_url: Option<String>,
    /// The default model.
    pub model: Option<String>,
    /// The environment variable that holds the key.
    pub key_env: Option<String>,
    /// The provider for agents' model names without a provider prefix.
    pub provider: Option<String>,
}

/// Credentials by alias: a URL, or named fields.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(transparent)]
pub(crate) struct AuthSettings(BTreeMap<String, AuthEntry>);

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum AuthEntry {
    Url(SecretSetting),
    Fields(BTreeMap<String, CredentialField>),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum CredentialField {
    Number(i64),
    Text(SecretSetting),
}

impl AuthSettings {
    pub(crate) fn aliases(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the environment variables that this alias needs and that are not set.
    pub(crate) fn unset_variables(&self, alias: &str) -> Vec<&str> {
        let secrets: Vec<&SecretSetting> = match self.entry(&auth_variable(alias)) {
            None => Vec::new(),
            Some(AuthEntry::Url(secret)) => vec![secret],
            Some(AuthEntry::Fields(facts)) => {
                let texts = facts
                    .values()
                    .filter_map(|fact| if let CredentialField::Text(text) = fact { Some(text) } else { None });
                texts.collect()
            }
        };
        let names = secrets.into_iter().filter_map(|secret| match secret {
            SecretSetting::Environment { env } if std::env::var(env).is_err() => Some(env.as_str()),
            _ => None,
        });
        names.collect()
    }

    /// Returns why the variable of an alias has no value, as part of a sentence.
    pub(crate) fn unset_reason(&self, variable: &str) -> Option<String> {
        let alias = self.aliases().find(|alias| auth_variable(alias) == variable)?;
        let unset = self.unset_variables(alias);
        let (what, is) = if unset.len() == 1 { ("variable", "is") } else { ("variables", "are") };
        (!unset.is_empty())
            .then(|| format!("[auth] of windlass.toml names the {what} {}, which {is} not set", unset.join(", ")))
    }

    fn entry(&self, variable: &str) -> Option<&AuthEntry> {
        self.0.iter().find(|(alias, _)| auth_variable(alias) == variable).map(|(_, entry)| entry)
    }

    /// Returns the value that the environment variable of an alias would have, or `None` if it cannot be read.
    pub(crate) fn variable_value(&self, variable: &str) -> Option<String> {
        match self.entry(variable)? {
            AuthEntry::Url(secret) => secret.read().ok(),
            AuthEntry::Fields(facts) => {
                let facts = facts.iter().map(|(name, fact)| {
                    let fact = match fact {
                        CredentialField::Number(number) => serde_json::Value::from(*number),
                        CredentialField::Text(secret) => serde_json::Value::from(secret.read().ok()?),
                    };
                    Some((name.clone(), fact))
                });
                facts.collect::<Option<serde_json::Map<_, _>>>().map(|facts| serde_json::Value::from(facts).to_string())
            }
        }
    }
}

pub(crate) fn parse_auth(table: toml::Value) -> Result<AuthSettings, CliFailure> {
    let read: Result<AuthSettings, _> = read(table, "auth");
    read.map_err(|failure| {
        failure.hint("write a URL, { env = \"NAME\" }, or a table of fields: host, user, password, …")
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActivityEntry {
    url: Option<String>,
    workflow: Option<PathBuf>,
    #[serde(default)]
    worker: bool,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, SecretSetting>,
    timeout: Option<String>,
}

pub(crate) fn parse_activities(
    table: toml::Value,
    settings_file: &Path,
) -> Result<Vec<ConfiguredActivity>, CliFailure> {
    let table = match table {
        toml::Value::Table(table) => table,
        other => return Err(wrong_kind("activities", &other)),
    };
    table.into_iter().map(|(name, entry)| parse_activity(name, entry, settings_file)).collect()
}

fn parse_activity(name: String, entry: toml::Value, settings_file: &Path) -> Result<ConfiguredActivity, CliFailure> {
    let tools = crate::tools::names();
    if name.trim().is_empty() || tools.contains(&name.as_str()) {
        let message = format!("an activity cannot be called `{name}`");
        return Err(CliFailure::setting(message).hint(format!("these names are taken by tools: {}", tools.join(", "))));
    }
    let entry: ActivityEntry = read(entry, &format!("activities.{name}"))?;
    let hint = "give `url` for a service, `workflow` for a definition to run as a child, or `worker = true` for a tool that \
                remote workers offer";
    let plain = entry.method.is_none() && entry.timeout.is_none() && entry.headers.is_empty();
    let target = match (entry.url, entry.workflow) {
        (None, None) if entry.worker && plain => ConfiguredTarget::Worker,
        (_, _) if entry.worker => {
            let message = format!("the activity `{name}` runs on workers: other keys have no effect");
            return Err(CliFailure::setting(message).hint("keep `worker = true` alone"));
        }
        (Some(url), None) => ConfiguredTarget::Endpoint {
            url: check_http_url(url, &format!("activity `{name}`"))?,
            method: entry.method.unwrap_or_else(|| "POST".to_owned()).to_uppercase(),
            headers: entry.headers.into_iter().collect(),
            timeout: entry.timeout.map(|text| parse_timeout(&text, &format!("activity `{name}`"))).transpose()?,
        },
        (None, Some(file)) => {
            if !plain {
                let message =
                    format!("the activity `{name}` is a workflow: `method`, `headers`, `timeout` have no effect");
                return Err(CliFailure::setting(message).hint("remove them"));
            }
            ConfiguredTarget::Workflow(settings_file.parent().unwrap_or(Path::new("")).join(file))
        }
        (Some(_), Some(_)) => {
            return Err(CliFailure::setting(format!("the activity `{name}` has `url` and `workflow`")).hint("keep one"));
        }
        (None, None) => {
            return Err(
                CliFailure::setting(format!("the activity `{name}` has neither `url` nor `workflow`")).hint(hint)
            );
        }
    };
    Ok(ConfiguredActivity { name, target })
}

pub(super) fn check_http_url(url: String, what: &str) -> Result<String, CliFailure> {
    match url.starts_with("http://") || url.starts_with("https://") {
        true => Ok(url),
        false => Err(CliFailure::setting(format!("the `url` of the {what} is not an HTTP URL: {url}"))
            .hint("it begins with http:// or https://")),
    }
}

pub(super) fn parse_timeout(text: &str, what: &str) -> Result<Duration, CliFailure> {
    Duration::parse_iso(text).ok_or_else(|| {
        CliFailure::setting(format!("the `timeout` of the {what} is not a duration: {text}")).hint("such as \"PT30S\"")
    })
}

pub(crate) fn parse_model(table: toml::Value) -> Result<ModelSettings, CliFailure> {
    read(table, "model")
}

/// The settings of `windlass dev`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DevSettings {
    /// A mock file, beside the settings.
    mocks: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CredentialSettings {
    /// The file with the key of stored credentials, relative to the settings.
    key_file: Option<PathBuf>,
}

/// Returns the key file of stored credentials, with the folder of the settings.
pub(crate) fn parse_credentials(table: toml::Value, path: &Path) -> Result<Option<PathBuf>, CliFailure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let settings: CredentialSettings = read(table, "credentials")?;
    Ok(settings.key_file.map(|file| folder.join(file)))
}

/// Returns the mock file of `windlass dev`, with the folder of the settings.
pub(crate) fn parse_dev(table: toml::Value, path: &Path) -> Result<Option<PathBuf>, CliFailure> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let settings: DevSettings = read(table, "dev")?;
    Ok(settings.mocks.map(|mocks| folder.join(mocks)))
}

pub(crate) fn parse_app_settings(table: toml::Value) -> Result<BTreeMap<String, String>, CliFailure> {
    read(table, "settings")
}

pub(super) fn read<T: serde::de::DeserializeOwned>(value: toml::Value, section: &str) -> Result<T, CliFailure> {
    value
        .try_into()
        .map_err(|error: toml::de::Error| CliFailure::setting(format!("in [{section}]: {}", error.message())))
}

pub(super) fn wrong_kind(section: &str, found: &toml::Value) -> CliFailure {
    CliFailure::setting(format!("`{section}` must be a section, not {}", found.type_str()))
}
