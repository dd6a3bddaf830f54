//! Text that must not be seen.

use std::fmt;
use std::sync::Arc;

use windlass_value::{Map, Value};

/// A key or password from the settings. It shows as `***`, also when what holds it is printed for debugging.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    pub fn new(text: impl Into<Arc<str>>) -> Secret {
        Secret(text.into())
    }

    /// The text itself, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Less than this is no secret, and would blot out innocent text.
const LENGTH_MIN: usize = 3;

/// Finds secrets in what a server sends back.
pub(crate) struct Redaction(Vec<String>);

impl Redaction {
    /// For headers from the settings.
    pub(crate) fn of_headers(headers: &[(String, Secret)]) -> Redaction {
        let whole = headers.iter().map(|(_, value)| value.reveal());
        // What follows a scheme, such as `Bearer`, is the secret proper.
        let parts = whole.clone().filter_map(|value| value.split_once(' ')).map(|(_, part)| part.trim());
        Redaction::new(whole.chain(parts).map(str::to_owned))
    }

    pub(crate) fn new(secrets: impl IntoIterator<Item = String>) -> Redaction {
        let mut secrets: Vec<String> = secrets.into_iter().filter(|secret| secret.len() >= LENGTH_MIN).collect();
        // A secret may hold another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Redaction(secrets)
    }

    pub(crate) fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }

    /// The value without secrets; what holds none stays shared.
    pub(crate) fn value(&self, value: &Value) -> Value {
        match value {
            Value::Str(text) if self.is_in(text) => Value::from(self.text(text)),
            Value::List(items) => Value::list(items.iter().map(|item| self.value(item)).collect()),
            Value::Map(map) => {
                let clean: Map = map.iter().map(|(key, value)| (self.key(key), self.value(value))).collect();
                Value::map(clean)
            }
            other => other.clone(),
        }
    }

    fn key(&self, key: &Arc<str>) -> Arc<str> {
        if self.is_in(key) { self.text(key).into() } else { key.clone() }
    }

    fn is_in(&self, text: &str) -> bool {
        self.0.iter().any(|secret| text.contains(secret.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use windlass_value::{parse_json, to_json};

    use super::*;

    #[test]
    fn secrets_are_taken_out_wherever_they_are() {
        let redaction = Redaction::new(["hush".to_owned(), "hush-hush".to_owned(), "a".to_owned()]);
        let value = parse_json(r#"{"hush": ["a hush-hush b", {"x": "no"}], "n": 1}"#).unwrap();
        assert_eq!(to_json(&redaction.value(&value)), r#"{"***":["a *** b",{"x":"no"}],"n":1}"#);
        assert_eq!(format!("{:?}", Secret::new("hush")), "***");
    }
}
