//! Known secrets: variables that are withheld from agents' programs and redacted from tool answers.

use std::path::Path;
use std::sync::Arc;

use windlass_tools::{Redactor, Secret};
use windlass_value::{Map, Value, parse_json};

/// Variables with these prefixes are withheld from programs. Most of their values are no secrets, so the prefix alone
/// does not cause redaction.
const SECRET_PREFIXES: [&str; 14] = [
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "GCP_",
    "GCLOUD_",
    "OPENAI_",
    "ANTHROPIC_",
    "COMPAT_",
    "GEMINI_",
    "MISTRAL_",
    "GITHUB_",
    "GITLAB_",
    "VAULT_",
    "WINDLASS_",
];
const SECRET_PARTS: [&str; 15] = [
    "APIKEY",
    "API_KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "PRIVATE_KEY",
    "ACCESS_KEY",
    "AUTH_SOCK",
    "COOKIE",
    "WEBHOOK",
    "DATABASE_URL",
    "WINDLASS_AUTH_",
];
const SECRET_SUFFIXES: [&str; 6] = ["_KEY", "_AUTH", "_PASS", "_PWD", "_PAT", "_CONNECTION_STRING"];
/// These also occur in ordinary names, such as `DESKTOP_SESSION`.
const AMBIGUOUS_PARTS: [&str; 3] = ["SESSION", "PASS", "DSN"];

/// Returns whether a variable may hold a secret and is withheld. Errs on the side of withholding.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_PREFIXES.iter().any(|part| name.starts_with(part))
        || has_secret_name(&name)
        || AMBIGUOUS_PARTS.iter().any(|part| name.contains(part))
        || login(value).is_some()
}

fn has_secret_name(name: &str) -> bool {
    SECRET_PARTS.iter().any(|part| name.contains(part)) || SECRET_SUFFIXES.iter().any(|part| name.ends_with(part))
}

/// Returns the parts of a variable that are redacted from texts. These are fewer than are withheld: names of regions,
/// folders and the like occur in ordinary text, which would be redacted with them.
pub(crate) fn secrets_of_variable(name: &str, value: &str) -> Vec<Secret> {
    let name = name.to_ascii_uppercase();
    let login = login(value);
    let is_word = !value.chars().any(|one| one.is_ascii_digit() || one.is_ascii_uppercase());
    let named = has_secret_name(&name) || (!is_word && AMBIGUOUS_PARTS.iter().any(|part| name.contains(part)));
    // The path of a file that holds a secret is no secret.
    let is_path = value.starts_with('/') && Path::new(value).exists();
    let mut found = Vec::new();
    if (named && !is_path) || login.is_some() {
        found.push(value.to_owned());
    }
    if let Some(login) = login {
        found.extend(login.split_once(':').map(|(_, password)| password.to_owned()));
        found.push(login.to_owned());
    }
    if name.starts_with("WINDLASS_AUTH_")
        && let Ok(facts) = parse_json(value)
    {
        collect_secret_texts(&facts, &mut found);
    }
    found.into_iter().map(Secret::new).collect()
}

/// Collects the values that are secret by their keys from the JSON settings of a service.
fn collect_secret_texts(facts: &Value, found: &mut Vec<String>) {
    for (name, fact) in facts.as_map().into_iter().flat_map(Map::iter) {
        match fact {
            Value::Str(text) if crate::redact::is_secret_key(name) => found.push(text.to_string()),
            inner => collect_secret_texts(inner, found),
        }
    }
}

/// Returns user and password of a URL.
fn login(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("://")?;
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    authority.rsplit_once('@').map(|(login, _)| login).filter(|login| !login.is_empty())
}

/// Redacts the secrets from every text of a value and from its keys.
pub(crate) fn redact_known(secrets: &Redactor, value: &Value) -> Value {
    match value {
        Value::Str(text) => Value::from(secrets.redact_text(text)),
        Value::List(items) => Value::list(items.iter().map(|item| redact_known(secrets, item)).collect()),
        Value::Map(map) => {
            let redacted = map
                .iter()
                .map(|(key, inner)| (Arc::<str>::from(secrets.redact_text(key)), redact_known(secrets, inner)));
            Value::map(redacted.collect::<Map>())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_variables_are_withheld_and_redacted() {
        // The variable; whether it is withheld; the parts that are redacted from texts.
        let none: &[&str] = &[];
        for (name, value, withheld, redacted) in [
            ("PATH", "/usr/bin:/bin", false, none),
            ("CARGO_HOME", "/root/.cargo", false, none),
            ("KEYBOARD", "german-layout", false, none),
            ("PROXY", "http://proxy.example.com:80/a@b", false, none),
            ("OPENAI_API_KEY", "key-1234567", true, &["key-1234567"]),
            ("npm_token", "abcdefgh", true, &["abcdefgh"]),
            ("AWS_REGION", "eu-central-1", true, none),
            ("GITHUB_WORKSPACE", "/home/work/project", true, none),
            ("CLIENT_SECRET_FILE", "/", true, none),
            ("SENTRY_DSN", "Abc12345", true, &["Abc12345"]),
            ("APP_DATABASE_URL_RO", "host=x pass=y", true, &["host=x pass=y"]),
            ("SLACK_WEBHOOK", "https://x/y", true, &["https://x/y"]),
            ("SITE_COOKIE", "a=bcdefgh", true, &["a=bcdefgh"]),
            ("MY_SESSION", "a1b2c3d4e5", true, &["a1b2c3d4e5"]),
            ("DESKTOP_SESSION", "cinnamon", true, none),
            ("DBPASS", "Hunter2Hunter2", true, &["Hunter2Hunter2"]),
            (
                "CACHE",
                "redis://ann:hunter22@host/0",
                true,
                &["redis://ann:hunter22@host/0", "hunter22", "ann:hunter22"],
            ),
            (
                "WINDLASS_AUTH_PG",
                r#"{"host":"db.example.com","password":"hunter22"}"#,
                true,
                &[r#"{"host":"db.example.com","password":"hunter22"}"#, "hunter22"],
            ),
        ] {
            assert_eq!(is_secret(name, value), withheld, "{name}");
            let found = secrets_of_variable(name, value);
            assert_eq!(found.iter().map(Secret::reveal).collect::<Vec<_>>(), redacted, "{name}");
        }
    }
}
