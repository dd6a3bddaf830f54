//! Sealed inputs: secrets that a definition passes on without seeing them.
//!
//! A task may have notes, `sealed`, besides its inputs. A note says where in the inputs a text belongs and which
//! fields of which credentials it contains. The notes are opened here at the call, and the secrets are redacted from
//! the outcome.

use std::sync::Arc;

use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::{Tool, ToolCall, ToolFuture};
use windlass_value::{Map, Value};

use crate::credentials::{Credential, Credentials};
use crate::input::{bad_input, plain_text};
use crate::secret::Redactor;

/// The input key that contains the notes.
const SEALED: &str = "sealed";

/// The input key that lists request headers with sealed texts. These headers stay with the server they are meant for.
pub(crate) const SEALED_HEADERS: &str = "sealed_headers";

/// A tool whose inputs may contain sealed texts.
pub(crate) struct SealedInputTool<T> {
    tool: T,
    credentials: Arc<dyn Credentials>,
}

impl<T> SealedInputTool<T> {
    pub(crate) fn new(tool: T, credentials: &Arc<dyn Credentials>) -> SealedInputTool<T> {
        SealedInputTool { tool, credentials: credentials.clone() }
    }
}

impl<T: Tool> Tool for SealedInputTool<T> {
    fn call(&self, mut call: ToolCall) -> ToolFuture {
        if call.input.get(SEALED).is_none() {
            return self.tool.call(call);
        }
        match open(&call.input, &*self.credentials) {
            Ok((input, secrets)) => {
                call.input = input;
                let running = self.tool.call(call);
                // Tools that truncate text must redact secrets before they cut.
                #[cfg(feature = "process")]
                let running = secrets.clone().scope(running);
                Box::pin(async move { secrets.redact_outcome(running.await) })
            }
            Err(error) => Box::pin(std::future::ready(TaskOutcome::failure(error))),
        }
    }
}

/// Returns the inputs with every sealed text inserted, and the redaction of the opened secrets.
fn open(input: &Value, credentials: &dyn Credentials) -> Result<(Value, Redactor), ErrorInfo> {
    let invalid = || bad_input("`sealed` has no entry that can be opened");
    let mut map = input.as_map().cloned().unwrap_or_default();
    let notes = map.remove(SEALED);
    let mut opened = Value::map(map);
    let (mut secrets, mut headers) = (Vec::new(), Vec::new());
    for note in notes.as_ref().and_then(Value::as_list).ok_or_else(invalid)? {
        let part = |name: &str| note.get(name).and_then(Value::as_list).ok_or_else(invalid);
        let mut text = String::new();
        for piece in part("parts")? {
            match piece.get("text") {
                Some(plain) => text.push_str(&plain_text(plain)),
                None => {
                    let secret = secret(piece, credentials)?;
                    text.push_str(&secret);
                    secrets.push(secret);
                }
            }
        }
        let at = part("at")?;
        if let [Value::Str(first), name @ Value::Str(_)] = at
            && &**first == "headers"
        {
            headers.push(name.clone());
        }
        opened = insert_at(opened, at, text).ok_or_else(invalid)?;
    }
    if let (false, Value::Map(map)) = (headers.is_empty(), &opened) {
        let mut map = Map::clone(map);
        map.insert(SEALED_HEADERS, Value::list(headers));
        opened = Value::map(map);
    }
    Ok((opened, Redactor::new(secrets)))
}

/// Returns the names of the credentials in the notes of an input.
pub(crate) fn noted_aliases(input: &Value) -> Vec<&str> {
    fn list(value: Option<&Value>) -> &[Value] {
        value.and_then(Value::as_list).unwrap_or_default()
    }
    let pieces = list(input.get(SEALED)).iter().flat_map(|note| list(note.get("parts")));
    pieces.filter(|piece| piece.get("text").is_none()).filter_map(|piece| piece.get("credential")?.as_str()).collect()
}

fn secret(piece: &Value, credentials: &dyn Credentials) -> Result<String, ErrorInfo> {
    let text = |name: &str| piece.get(name).and_then(Value::as_str);
    let alias = text("credential").ok_or_else(|| bad_input("the name of a credential is not a text"))?;
    credential_field(alias, text("field").unwrap_or_default(), credentials)
}

/// Returns the text of a field of a credential.
pub(crate) fn credential_field(alias: &str, field: &str, credentials: &dyn Credentials) -> Result<String, ErrorInfo> {
    let facts = credentials.find(alias)?;
    facts.secret_field(field).map(str::to_owned).ok_or_else(|| {
        let what = if field.is_empty() { "secret of its own".to_owned() } else { format!("field `{field}`") };
        ErrorInfo::new("BadCredential", "auth", format!("the credential `{alias}` has no {what}"))
            .hint("give it as a JSON object with that field, or as the text itself")
    })
}

fn insert_at(value: Value, at: &[Value], text: String) -> Option<Value> {
    let Some((step, rest)) = at.split_first() else { return Some(Value::from(text)) };
    match (value, step) {
        (Value::Map(map), Value::Str(key)) => {
            let inner = insert_at(map.get(key)?.clone(), rest, text)?;
            let mut map = Map::clone(&map);
            map.insert(key.clone(), inner);
            Some(Value::map(map))
        }
        (Value::List(items), Value::Int(index)) => {
            let index = usize::try_from(*index).ok()?;
            let inner = insert_at(items.get(index)?.clone(), rest, text)?;
            let mut items = items.to_vec();
            items[index] = inner;
            Some(Value::list(items))
        }
        _ => None,
    }
}

impl Credential {
    /// Returns a field; without a name, the field that a single secret is stored under. A credential that is only a
    /// text returns it for every name.
    pub fn secret_field(&self, field: &str) -> Option<&str> {
        let lower = field.to_ascii_lowercase();
        let name = lower.strip_prefix("db_").unwrap_or(&lower);
        match name {
            "" => self.field(&["token", "access_token", "value", "api_key", "key", "secret", "password"]),
            name => self.field(&[name]),
        }
        .or_else(|| self.url().filter(|text| matches!(name, "" | "url" | "dsn") || !text.contains("://")))
    }
}

#[cfg(test)]
mod tests {
    use windlass_runtime::Tools;
    use windlass_value::{parse_json, to_json};

    use super::*;
    use crate::NamedCredentials;

    fn test_credentials() -> Arc<dyn Credentials> {
        Arc::new(NamedCredentials::new(|name| match name {
            "WINDLASS_AUTH_API" => Some(r#"{"api_key": "canary-api-key", "user": "u"}"#.to_owned()),
            "WINDLASS_AUTH_LONE" => Some("canary-lone-text".to_owned()),
            "WINDLASS_AUTH_PG" => Some("postgres://u:canary-pg@h/db".to_owned()),
            _ => None,
        }))
    }

    /// Returns the input that the tool sees, and its outcome.
    async fn call_with_sealed(input: &str) -> (String, TaskOutcome) {
        let saw: Arc<std::sync::Mutex<String>> = Arc::default();
        let noted = saw.clone();
        let tools = Tools::new().with_fn("x", move |call| {
            *noted.lock().unwrap() = to_json(&call.input);
            async move { TaskOutcome::success(call.input) }
        });
        let tool = SealedInputTool::new(ForwardingTool(tools), &test_credentials());
        let call = ToolCall::for_test(parse_json(input).unwrap());
        let outcome = tool.call(call).await;
        let saw = saw.lock().unwrap().clone();
        (saw, outcome)
    }

    struct ForwardingTool(Tools);

    impl Tool for ForwardingTool {
        fn call(&self, call: ToolCall) -> ToolFuture {
            self.0.get("x").unwrap().call(call)
        }
    }

    #[tokio::test]
    async fn secrets_are_opened_for_the_tool_and_redacted_from_its_outcome() {
        for (input, saw) in [
            (
                r#"{"headers": {"authorization": null}, "sealed": [{"at": ["headers", "authorization"], "parts": [{"text": "Bearer "}, {"credential": "api", "field": "api_key"}]}]}"#,
                r#"{"headers":{"authorization":"Bearer canary-api-key"},"sealed_headers":["authorization"]}"#,
            ),
            (
                r#"{"params": [1, null], "sealed": [{"at": ["params", 1], "parts": [{"credential": "lone", "field": ""}]}]}"#,
                r#"{"params":[1,"canary-lone-text"]}"#,
            ),
            (
                r#"{"a": null, "sealed": [{"at": ["a"], "parts": [{"credential": "lone", "field": "api_key"}]}]}"#,
                r#"{"a":"canary-lone-text"}"#,
            ),
            // A text part stays text, whatever it looks like.
            (
                r#"{"a": null, "b": {"credential": "api", "field": "api_key"}, "sealed": [{"at": ["a"], "parts": [{"text": {"credential": "api", "field": "api_key"}}]}]}"#,
                r#"{"a":"{\"credential\":\"api\",\"field\":\"api_key\"}","b":{"credential":"api","field":"api_key"}}"#,
            ),
        ] {
            let (seen_by_tool, outcome) = call_with_sealed(input).await;
            assert_eq!(seen_by_tool, saw, "{input}");
            assert!(!to_json(&outcome.output).contains("canary"), "{:?}", outcome.output);
        }
    }

    #[tokio::test]
    async fn a_tool_is_not_called_if_a_secret_cannot_be_opened() {
        for (input, code) in [
            (
                r#"{"a": null, "sealed": [{"at": ["a"], "parts": [{"credential": "missing", "field": "x"}]}]}"#,
                "UnknownCredential",
            ),
            (
                r#"{"a": null, "sealed": [{"at": ["a"], "parts": [{"credential": "api", "field": "other"}]}]}"#,
                "BadCredential",
            ),
            // A URL is not a password.
            (
                r#"{"a": null, "sealed": [{"at": ["a"], "parts": [{"credential": "pg", "field": "password"}]}]}"#,
                "BadCredential",
            ),
            (
                r#"{"a": null, "sealed": [{"at": ["b"], "parts": [{"credential": "api", "field": "api_key"}]}]}"#,
                "BadInput",
            ),
            (r#"{"sealed": 1}"#, "BadInput"),
        ] {
            let (saw, outcome) = call_with_sealed(input).await;
            assert_eq!((saw.as_str(), &*outcome.error.unwrap().code), ("", code), "{input}");
        }
    }
}
