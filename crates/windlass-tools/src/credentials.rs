//! Credentials of tools. An alias in a definition is resolved to its fields at the time of the call, on the worker.
//! The fields are never persisted and are displayed as `***`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use windlass_core::ErrorInfo;
use windlass_value::{Map, Value, parse_json};

use crate::http::uri;
use crate::input::{bad_input, plain_text};
use crate::secret::{Redactor, Secret};
use crate::vault::{UnopenedCredential, set_command};

/// A source of credentials by alias.
pub trait Credentials: Send + Sync {
    /// Returns the credential of an alias, or an error that says how to define it.
    fn find(&self, alias: &str) -> Result<Credential, ErrorInfo>;
}

/// Fields by name, such as `host`, `user`, `password` or `token`, or one URL that contains all of them.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The alias it was looked up by.
    alias: Option<String>,
    url: Option<Secret>,
    fields: BTreeMap<String, Secret>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(***)")
    }
}

/// Fields that need no redaction because they are not secret and help to understand an error message.
const NON_SECRET_FIELDS: [&str; 14] = [
    "host", "port", "user", "username", "database", "dbname", "db", "name", "type", "header", "query", "sslmode", "in",
    "location",
];

impl Credential {
    /// Parses `scheme://…` or a JSON object.
    pub fn from_text(text: &str) -> Result<Credential, ErrorInfo> {
        let text = text.trim();
        if !text.starts_with('{') {
            return Ok(Credential { alias: None, url: Some(Secret::new(text)), fields: BTreeMap::new() });
        }
        // The text is a secret: even the parser's message could repeat parts of it.
        let value = parse_json(text).map_err(|error| {
            bad_input(format!("the credential is not valid JSON (line {}, column {})", error.line, error.column))
        })?;
        Ok(Credential::from_map(value.as_map().unwrap_or(&Map::new())))
    }

    /// Builds a credential from names and values. Stored credentials use an inner `data` object and the prefix `db_`.
    pub(crate) fn from_map(map: &Map) -> Credential {
        let inner = map.get("data").and_then(Value::as_map);
        let mut fields = BTreeMap::new();
        for (name, value) in map.iter().chain(inner.into_iter().flat_map(Map::iter)) {
            if name.as_ref() != "data" && !value.is_null() {
                let name = name.strip_prefix("db_").unwrap_or(name).to_ascii_lowercase();
                fields.insert(name, Secret::new(plain_text(value)));
            }
        }
        let url = ["url", "dsn", "connection_string"].iter().find_map(|name| fields.remove(*name));
        Credential { alias: None, url, fields }
    }

    /// Returns the name for messages: "the credential", followed by its alias if it has one.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "used only by database tools"))]
    pub(crate) fn display_name(&self) -> String {
        self.alias.as_ref().map_or_else(|| "the credential".to_owned(), |alias| format!("the credential `{alias}`"))
    }

    /// Returns true if the operator configured it under an alias, so that it does not come from a definition.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "used only by database tools"))]
    pub(crate) fn is_configured(&self) -> bool {
        self.alias.is_some()
    }

    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_ref().map(Secret::reveal)
    }

    /// Returns the first of several spellings that is present.
    pub(crate) fn field(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.fields.get(*name)).map(Secret::reveal)
    }

    /// Returns the names of the fields.
    pub fn field_names(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    /// Returns a redaction of these secrets for text received from elsewhere.
    pub(crate) fn redaction(&self) -> Redactor {
        Redactor::new(self.secret_texts())
    }

    /// Returns the fields that are secret.
    pub fn secrets(&self) -> Vec<Secret> {
        self.secret_texts().into_iter().map(Secret::new).collect()
    }

    fn secret_texts(&self) -> Vec<String> {
        let fields = self.fields.iter().filter(|(name, _)| !NON_SECRET_FIELDS.contains(&name.as_str()));
        let values = fields.map(|(_, value)| value.reveal().to_owned());
        let url = self.url().into_iter().flat_map(|url| {
            let password = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(login, _)| login);
            let password = password.and_then(|login| login.split_once(':')).map(|(_, password)| password.to_owned());
            let unescaped = password.as_deref().map(uri::unescape);
            [Some(url.to_owned()), password, unescaped].into_iter().flatten()
        });
        values.chain(url).collect()
    }
}

/// Returns the alias that an object names, unless it has the fields of a credential itself.
fn alias_in(auth: &Map) -> Option<&str> {
    let alias = ["credential", "alias", "key"].iter().find_map(|name| auth.get(name).and_then(Value::as_str));
    let is_reference = auth.get("source").is_some() || auth.len() <= 2;
    alias.filter(|_| is_reference)
}

/// The credential of database tasks that name none.
pub(crate) const DATABASE_ALIAS: &str = "postgres";

/// Returns the names of the credentials that a task refers to in its input: in `auth`, and in the notes of sealed
/// texts.
pub fn credential_names(tool: &str, input: &Value) -> BTreeSet<String> {
    let named = match input.get("auth") {
        Some(Value::Str(alias)) => Some(&**alias),
        Some(Value::Map(map)) => alias_in(map),
        None if tool == "postgres" => Some(DATABASE_ALIAS),
        _ => None,
    };
    named.into_iter().chain(crate::sealed::noted_aliases(input)).map(str::to_owned).collect()
}

/// Resolves the `auth` of an input: an alias, an object that names one, or the fields themselves.
pub(crate) fn resolve(auth: &Value, credentials: &dyn Credentials) -> Result<Credential, ErrorInfo> {
    match auth {
        Value::Str(alias) => credentials.find(alias),
        Value::Map(map) => match alias_in(map) {
            Some(alias) => Ok(credentials.find(alias)?.with_default_type(map.get("type").and_then(Value::as_str))),
            None => Ok(Credential::from_map(map)),
        },
        other => Err(bad_input(format!("`auth` is {}, not an alias", other.kind()))),
    }
}

impl Credential {
    fn with_default_type(mut self, kind: Option<&str>) -> Credential {
        if let Some(kind) = kind {
            self.fields.entry("type".to_owned()).or_insert_with(|| Secret::new(kind));
        }
        self
    }
}

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;
type StoredLookup = dyn Fn(&str) -> Result<Option<String>, UnopenedCredential> + Send + Sync;

/// Credentials from variables `WINDLASS_AUTH_<ALIAS>`, each a URL or a JSON object, and then from a store.
#[derive(Clone)]
pub struct NamedCredentials {
    lookup: Arc<Lookup>,
    stored: Option<Arc<StoredLookup>>,
    reason: Option<Arc<Lookup>>,
}

impl NamedCredentials {
    /// Creates credentials from `lookup`, which returns the value of a variable from the environment or the settings.
    /// It is called for every tool call, so a changed password needs no restart.
    pub fn new(lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> NamedCredentials {
        NamedCredentials { lookup: Arc::new(lookup), stored: None, reason: None }
    }

    /// Sets a function that is asked for the variables that have no other value.
    #[must_use]
    pub fn with_stored(
        self,
        stored: impl Fn(&str) -> Result<Option<String>, UnopenedCredential> + Send + Sync + 'static,
    ) -> NamedCredentials {
        NamedCredentials { stored: Some(Arc::new(stored)), ..self }
    }

    /// Sets a function that explains why a configured variable has no value: `the variable PGPW is not set`.
    #[must_use]
    pub fn with_reasons(self, reason: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> NamedCredentials {
        NamedCredentials { reason: Some(Arc::new(reason)), ..self }
    }
}

impl NamedCredentials {
    /// Returns the text of the first source that has one.
    fn text(&self, variable: &str) -> Result<Option<String>, UnopenedCredential> {
        let is_given = |text: &String| !text.trim().is_empty();
        match ((self.lookup)(variable).filter(is_given), &self.stored) {
            (None, Some(stored)) => Ok(stored(variable)?.filter(is_given)),
            (given, _) => Ok(given),
        }
    }
}

impl Credentials for NamedCredentials {
    fn find(&self, alias: &str) -> Result<Credential, ErrorInfo> {
        let variable = auth_variable(alias);
        let shown: String = alias.chars().filter(|c| !c.is_control()).take(60).collect();
        let unopened = |problem: UnopenedCredential| {
            let message = format!("the credential `{shown}` cannot be opened: {}", problem.reason);
            ErrorInfo::new("UnopenedCredential", "auth", message).hint(problem.hint)
        };
        if let Some(text) = self.text(&variable).map_err(unopened)? {
            let named = |error: ErrorInfo| {
                let message = error.message.replacen("the credential", &format!("the credential `{shown}`"), 1);
                ErrorInfo { message: message.into(), ..error }
            };
            let found = Credential::from_text(&text).map_err(named)?;
            return Ok(Credential { alias: Some(shown), ..found });
        }
        let error = |message: String| ErrorInfo::new("UnknownCredential", "auth", message);
        Err(match self.reason.as_ref().and_then(|reason| reason(&variable)) {
            Some(reason) => error(format!("the credential `{shown}` cannot be used: {reason}"))
                .hint(format!("set it before the run is started or resumed; or store it: {}", set_command(&shown))),
            None => error(format!("the credential `{shown}` is unknown here")).hint(format!(
                "store it: {}; or put `{shown}` into [auth] of windlass.toml, or set {variable} to a URL or a JSON \
                 object",
                set_command(&shown)
            )),
        })
    }
}

/// Returns the variable of an alias: `WINDLASS_AUTH_PG_MAIN` for `pg-main`.
pub fn auth_variable(alias: &str) -> String {
    let upper = alias.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    format!("WINDLASS_AUTH_{}", upper.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_credentials() -> NamedCredentials {
        NamedCredentials::new(|name| match name {
            "WINDLASS_AUTH_PG_MAIN" => Some("postgres://u:canary-1@h/db".to_owned()),
            "WINDLASS_AUTH_K8S" => Some(r#"{"data": {"db_host": "h", "db_password": "canary-2"}}"#.to_owned()),
            "WINDLASS_AUTH_BAD" => Some(r#"{"password": "canary-3""#.to_owned()),
            _ => None,
        })
    }

    #[test]
    fn aliases_become_facts() {
        assert_eq!(test_credentials().find("pg-main").unwrap().url(), Some("postgres://u:canary-1@h/db"));
        let facts = test_credentials().find("k8s").unwrap();
        assert_eq!((facts.field(&["host"]), facts.field(&["password"])), (Some("h"), Some("canary-2")));
        let auth = parse_json(r#"{"type": "bearer", "credential": "k8s"}"#).unwrap();
        assert_eq!(resolve(&auth, &test_credentials()).unwrap().field(&["type"]), Some("bearer"));
    }

    #[test]
    fn an_unknown_credential_error_says_how_to_define_it() {
        let error = test_credentials().find("other one").unwrap_err();
        assert_eq!(&*error.code, "UnknownCredential");
        assert!(error.hint.unwrap().contains("WINDLASS_AUTH_OTHER_ONE"));
        let explained = test_credentials().with_reasons(|variable| Some(format!("{variable} wants PGPW")));
        let error = explained.find("other").unwrap_err();
        assert_eq!(&*error.message, "the credential `other` cannot be used: WINDLASS_AUTH_OTHER wants PGPW");
        assert!(test_credentials().find("bad").unwrap_err().message.contains("the credential `bad` is not valid JSON"));
    }

    #[test]
    fn a_store_is_asked_last() {
        let stored = |variable: &str| match variable {
            "WINDLASS_AUTH_PG_MAIN" => Ok(Some("postgres://stored".to_owned())),
            "WINDLASS_AUTH_OTHER" => Ok(Some("stored".to_owned())),
            "WINDLASS_AUTH_DAMAGED" => {
                Err(UnopenedCredential { reason: "it is damaged".to_owned(), hint: "set it again".to_owned() })
            }
            _ => Ok(None),
        };
        let all = test_credentials().with_stored(stored);
        assert_eq!(all.find("pg-main").unwrap().url(), Some("postgres://u:canary-1@h/db"));
        assert_eq!(all.find("other").unwrap().url(), Some("stored"));
        let error = all.find("damaged").unwrap_err();
        assert_eq!(&*error.message, "the credential `damaged` cannot be opened: it is damaged");
        let hint = all.find("none of these").unwrap_err().hint.unwrap();
        assert!(hint.contains("`windlass credentials set 'none of these'`"), "{hint}");
    }

    #[test]
    fn only_what_a_task_refers_to_is_named() {
        for (tool, input, names) in [
            ("http_call", r#"{"auth": "pg", "body": {"auth": "other", "key": "other"}}"#, vec!["pg"]),
            ("http_call", r#"{"auth": {"type": "bearer", "credential": "api"}}"#, vec!["api"]),
            ("http_call", r#"{"auth": {"user": "u", "password": "p", "key": "other"}}"#, vec![]),
            ("postgres", r#"{"query": "select 1"}"#, vec!["postgres"]),
            ("shell", r#"{"sealed": [{"at": ["a"], "parts": [{"text": "x"}, {"credential": "api"}]}]}"#, vec!["api"]),
            ("count", "3", vec![]),
        ] {
            let found = credential_names(tool, &parse_json(input).unwrap());
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), names, "{input}");
        }
    }

    #[test]
    fn no_secret_is_shown() {
        let all = format!("{:?} {:?}", test_credentials().find("pg-main"), test_credentials().find("bad"));
        assert!(!all.contains("canary"), "{all}");
        assert_eq!(test_credentials().find("k8s").unwrap().redaction().redact_text("x canary-2"), "x ***");
        assert_eq!(test_credentials().find("pg-main").unwrap().redaction().redact_text("x canary-1"), "x ***");
    }
}
