//! Redacts secrets from text that models write, before it is shown or published.
//!
//! Known secrets are found by their text elsewhere (`secrets.rs`). This module finds unknown ones by their form.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use windlass_value::{Map, Value};

use crate::text::elide_middle;

const REDACTED: &str = "***";

/// Each pattern has a group that is kept in front of the redacted part.
const SECRET_PATTERNS: [&str; 7] = [
    // API keys in the formats of their issuers.
    r"()\b(?:sk-[A-Za-z0-9_-]{12,}|sk_(?:live|test)_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{12,}|xox[a-z]-[A-Za-z0-9-]{8,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{16,}|ya29\.[A-Za-z0-9_-]{8,})",
    // JSON Web Tokens.
    r"()\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*",
    r"()-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{6,}",
    // `api_key=…`, `"password": "…"`, `X-Api-Key: …`
    r#"(?i)((?:api[_-]?key|access[_-]?key|private[_-]?key|secret|token|passw(?:or)?d|passphrase|authorization|credentials?)[A-Za-z0-9_-]*(?:\\?["'])?\s*[=:]\s*(?:\\?["'])?(?:(?:bearer|basic)\s+)?)(?:[^\s"'\\&,;{}\[\]]+)"#,
    // `--password …`, `-u name:…`
    r#"(?i)(--?(?:api-?key|token|secret|passw(?:or)?d|passphrase|auth)\s+["']?)[^\s"']+"#,
    // A login in a URL.
    r"([a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?:@)",
];

static SECRET_REGEXES: LazyLock<Vec<Regex>> =
    LazyLock::new(|| SECRET_PATTERNS.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect());

pub(crate) fn redact_text(text: &str) -> String {
    SECRET_REGEXES.iter().enumerate().fold(text.to_owned(), |text, (at, found)| {
        let end = if at == SECRET_PATTERNS.len() - 1 { "@" } else { "" };
        let redacted =
            |found: &Captures<'_>| format!("{}{REDACTED}{end}", found.get(1).map_or("", |kept| kept.as_str()));
        found.replace_all(&text, redacted).into_owned()
    })
}

/// Longer texts are cut to this size. Before the cut, the first `MAX_SEARCHED_BYTES` are redacted, so that a secret
/// across the cut is found.
const MAX_SHOWN_BYTES: usize = 2 << 10;
const MAX_SEARCHED_BYTES: usize = 16 << 10;

fn prefix(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// Redacts a text and truncates it for display.
fn redact_and_truncate(given: &str) -> String {
    let redacted = redact_text(prefix(given, MAX_SEARCHED_BYTES));
    match given.len() > MAX_SHOWN_BYTES {
        true => format!("{}… ({} bytes)", prefix(&redacted, MAX_SHOWN_BYTES), given.len()),
        false => redacted,
    }
}

/// Redacts every text of a value, cuts long ones, and redacts everything under a key that names a secret.
pub(crate) fn redact_for_event(given: &Value) -> Value {
    redact_value_with(given, "", &|_, text| redact_and_truncate(text))
}

/// Redacts a value for a permission prompt: keeps the beginning and the end of long texts.
pub(crate) fn redact_for_prompt(given: &Value, max_chars: impl Fn(&str) -> usize) -> Value {
    redact_value_with(given, "", &|name, given| {
        // Searches more than is shown, so that no secret is cut before it is found.
        let searched = elide_middle(given, MAX_SEARCHED_BYTES);
        elide_middle(&redact_text(&searched), max_chars(name))
    })
}

fn redact_value_with(given: &Value, name: &str, text: &dyn Fn(&str, &str) -> String) -> Value {
    match given {
        Value::Str(given) => Value::from(text(name, given)),
        Value::List(items) => Value::list(items.iter().map(|item| redact_value_with(item, name, text)).collect()),
        Value::Map(map) => {
            let clean: Map = map
                .iter()
                .map(|(key, inner)| match is_secret_key(key) && !inner.is_null() {
                    true => (key.clone(), Value::from(REDACTED)),
                    false => (key.clone(), redact_value_with(inner, key, text)),
                })
                .collect();
            Value::map(clean)
        }
        other => other.clone(),
    }
}

pub(crate) fn is_secret_key(key: &str) -> bool {
    let key: String = key.chars().filter(|one| one.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let whole = ["token", "auth", "cookie", "setcookie", "credential", "credentials"];
    let parts = ["apikey", "accesskey", "privatekey", "secret", "password", "passwd", "passphrase", "authorization"];
    let ends = ["authtoken", "accesstoken", "refreshtoken", "bearertoken", "apitoken"];
    whole.contains(&key.as_str())
        || parts.iter().any(|part| key.contains(part))
        || ends.iter().any(|end| key.ends_with(end))
}

#[cfg(test)]
mod tests {
    use windlass_value::{parse_json, to_json};

    use super::*;

    #[test]
    fn text_that_looks_like_a_secret_is_redacted() {
        assert_eq!(SECRET_REGEXES.len(), SECRET_PATTERNS.len());
        for (given, expected) in [
            ("git status", "git status"),
            ("the token is counted", "the token is counted"),
            ("max_tokens", "max_tokens"),
            ("curl -H 'Authorization: Bearer abc.def-123' x", "curl -H 'Authorization: Bearer ***' x"),
            ("api_key=abc&x=1", "api_key=***&x=1"),
            ("X-Api-Key: abc", "X-Api-Key: ***"),
            (r#"{"password":"hunter2","a":1}"#, r#"{"password":"***","a":1}"#),
            ("export OPENAI_API_KEY=sk-abcdefghijklmnop", "export OPENAI_API_KEY=***"),
            ("use sk-abcdefghijklmnop now", "use *** now"),
            ("ghp_abcdefghijklmnopqrst", "***"),
            ("xoxb-1234567890-abc", "***"),
            ("AKIAIOSFODNN7EXAMPLE", "***"),
            ("mysql --password hunter2 -u x", "mysql --password *** -u x"),
            ("postgres://ann:hunter2@host/db", "postgres://ann:***@host/db"),
            ("eyJhbGciOiJI.eyJzdWIiOiIx.abc_def", "***"),
            ("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY----- x", "*** x"),
            ("a sketch of sk-ip", "a sketch of sk-ip"),
        ] {
            assert_eq!(redact_text(given), expected, "{given}");
        }
    }

    #[test]
    fn long_texts_are_cut_after_redaction() {
        let given = format!("{}sk-abcdefghijklmnop{}", "x ".repeat(1020), "y".repeat(1 << 20));
        let Value::Str(shown) = redact_for_event(&Value::from(given)) else { panic!("a text") };
        assert!(shown.contains("*") && !shown.contains("sk-") && shown.len() < 3000, "{shown}");
    }

    #[test]
    fn values_under_secret_names_are_redacted() {
        let given = r#"{"headers": {"X-Api-Key": "abc", "accept": "b"}, "token": "t", "max_tokens": 5, "list": ["Bearer abcdefgh"]}"#;
        let redacted =
            r#"{"headers":{"X-Api-Key":"***","accept":"b"},"token":"***","max_tokens":5,"list":["Bearer ***"]}"#;
        assert_eq!(to_json(&redact_for_event(&parse_json(given).unwrap())), redacted);
    }
}
