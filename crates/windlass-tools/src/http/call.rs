//! The tool `http_call`: the client of `http` with the parameter names of playbooks.
//!
//! Its result is `{status_code, headers, data}`, and `facts.http` repeats the head of the reply. A credential is sent
//! only to the server it is meant for and is redacted from the outcome.

use std::sync::Arc;

use hyper::header::{self, HeaderName};
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::{Tool, ToolCall, ToolFuture};
use windlass_value::{Duration, Map, Value, to_json};

use super::HttpTool;
use super::client::ConnectionMode;
use super::content::binary_text;
use super::request::{HttpRequest, basic, header_name, header_value};
use crate::credentials::{Credential, Credentials, resolve};
use crate::info::{ToolInfo, field, required};
use crate::input::{ToolInput, bad_input, parse_duration, with_facts};
use crate::registry::ToolRegistration;
use crate::sealed::SEALED_HEADERS;
use crate::secret::Redactor;

pub(crate) const INFO: ToolInfo = ToolInfo {
    name: "http_call",
    description: "Sends one HTTP request and returns the reply, with the field names of playbooks.",
    inputs: &[
        required("url", "text", "the address; `endpoint` and `uri` are the same"),
        field("method", "text", "GET if not given, POST if there is a body"),
        field("params", "object", "added to the address; a list repeats its name, null leaves it out"),
        field("headers", "object", "names and values"),
        field("json", "any", "the body as JSON, text too"),
        field("body, data, payload", "any", "the body: text as it is, anything else as JSON"),
        field("form", "object", "the body as a form"),
        field("auth", "text | object", "the alias of a credential: bearer, basic or api_key"),
        field("timeout", "number | text | object", "seconds or PT30S, or {connect, read}; `timeout_seconds` too"),
        field("verify_ssl", "boolean", "false accepts any certificate"),
        field("follow_redirects", "boolean", "false returns the redirect itself"),
    ],
    outputs: &[
        field("status_code", "number", "200; the same as facts.http.status"),
        field("headers", "object", "names in lower case"),
        field("data", "any", "JSON as data, all that is text as text, other bytes as {$content-type, $content}"),
    ],
    errors: &[
        ("http", "the code is a status that is not a success; the reply is kept"),
        ("connection", "no reply"),
        ("timeout", "no complete reply in time"),
        ("auth", "the alias is unknown here"),
        ("input", "the request cannot be sent"),
    ],
};

pub(crate) const REGISTRATION: ToolRegistration = ToolRegistration {
    info: &INFO,
    build: |setup| setup.with_sealed_inputs(HttpCallTool::new(setup.http.clone(), setup.credentials.clone())),
};

/// Calls HTTP services for playbooks with the connections and outbound rules of an [`HttpTool`].
#[derive(Clone)]
pub struct HttpCallTool {
    http: HttpTool,
    credentials: Arc<dyn Credentials>,
}

impl HttpCallTool {
    pub fn new(http: HttpTool, credentials: Arc<dyn Credentials>) -> HttpCallTool {
        HttpCallTool { http, credentials }
    }
}

impl Tool for HttpCallTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        let tool = self.clone();
        Box::pin(async move { tool.run(call).await })
    }
}

impl HttpCallTool {
    async fn run(&self, mut call: ToolCall) -> TaskOutcome {
        let (request, secrets) = match self.request(&mut call) {
            Ok(made) => made,
            Err(error) => return playbook_outcome(TaskOutcome::failure(error)),
        };
        let mut cancelled = call.cancelled.clone();
        let reply = self.http.0.run(Ok(request), cancelled.wait()).await.outcome;
        secrets.iter().fold(playbook_outcome(reply), |reply, secrets| secrets.redact_outcome(reply))
    }

    fn request(&self, call: &mut ToolCall) -> Result<(HttpRequest, Vec<Redactor>), ErrorInfo> {
        let original = call.input.clone();
        let input = ToolInput::parse("http_call", &original)?;
        let facts = input.get("auth").map(|auth| resolve(auth, &*self.credentials)).transpose()?;
        let login = facts.as_ref().map(RequestAuth::from_credential).transpose()?;
        let (manner, total) = timeouts(&input, self.http.0.options.connect_timeout)?;
        let mut http_input = to_http_input(&input)?;
        if let Some(total) = total {
            http_input.insert("timeout", total.as_secs_f64().to_string());
        }
        if let Some(RequestAuth::Query(name, value)) = &login {
            let mut queries = input.object("params")?.cloned().unwrap_or_default();
            queries.insert(name.as_str(), value.as_str());
            http_input.insert("queries", Value::map(queries));
        }
        call.input = Value::map(http_input);
        let mut request = HttpRequest::from_call(call, &self.http.0.defaults)?;
        // The secrets as stored in the credential, and as sent.
        let mut secrets: Vec<Redactor> = facts.iter().map(Credential::redaction).collect();
        if let Some(RequestAuth::Header(name, value)) = login {
            secrets.insert(0, Redactor::from_header_values(std::iter::once(value.as_str())));
            request.headers.insert(name.clone(), header_value(name.as_str(), &value.into())?);
            request.configured_headers.push(name);
        }
        // Whatever their names, these headers do not follow a redirect to another server.
        for name in input.list(SEALED_HEADERS)?.unwrap_or_default().iter().filter_map(Value::as_str) {
            request.configured_headers.push(header_name(name)?);
        }
        request.mode = manner;
        Ok((request, secrets))
    }
}

/// The form in which a credential is sent.
enum RequestAuth {
    Header(HeaderName, String),
    Query(String, String),
}

impl RequestAuth {
    fn from_credential(facts: &Credential) -> Result<RequestAuth, ErrorInfo> {
        let missing = |what: &str| {
            ErrorInfo::new("BadCredential", "auth", format!("the credential for an HTTP call has no {what}"))
                .hint("{\"type\": \"bearer\", \"token\"}, {\"type\": \"basic\", \"username\", \"password\"} or {\"type\": \"api_key\", \"header\" or \"query\", \"value\"}")
        };
        let token = || facts.field(&["token", "access_token", "bearer"]).or_else(|| facts.url());
        let key = || facts.field(&["value", "api_key", "key", "token"]).or_else(|| facts.url());
        let kind = facts.field(&["type"]).map(str::to_ascii_lowercase);
        let kind = kind.as_deref().unwrap_or(match facts.field(&["password"]) {
            Some(_) => "basic",
            None if facts.field(&["header", "query", "api_key"]).is_some() => "api_key",
            None => "bearer",
        });
        match kind {
            "bearer" | "oauth2" | "token" => {
                let token = token().ok_or_else(|| missing("`token`"))?;
                Ok(RequestAuth::Header(header::AUTHORIZATION, format!("Bearer {token}")))
            }
            "basic" => {
                let user = facts.field(&["username", "user"]).ok_or_else(|| missing("`username`"))?;
                let password = facts.field(&["password"]).ok_or_else(|| missing("`password`"))?;
                Ok(RequestAuth::Header(header::AUTHORIZATION, basic(user, password)))
            }
            "api_key" | "apikey" | "header" | "query" => {
                let value = key().ok_or_else(|| missing("`value`"))?.to_owned();
                let in_query = facts.field(&["in", "location"]) == Some("query");
                match facts.field(&["query"]).or_else(|| facts.field(&["name"]).filter(|_| in_query)) {
                    Some(name) => Ok(RequestAuth::Query(name.to_owned(), value)),
                    None => {
                        let name = facts.field(&["header", "name"]).unwrap_or("x-api-key");
                        Ok(RequestAuth::Header(header_name(name)?, value))
                    }
                }
            }
            _ => Err(missing("known `type`")),
        }
    }
}

/// Translates the input to the names of the tool `http`.
pub(super) fn to_http_input(input: &ToolInput<'_>) -> Result<Map, ErrorInfo> {
    let mut http_input = Map::new();
    let hint = "give the whole address as `url`, for example `https://host/path`";
    let (_, url) =
        input.first_of(&["url", "endpoint", "uri"]).ok_or_else(|| bad_input("`http_call` has no `url`").hint(hint))?;
    http_input.insert("uri", url.clone());
    http_input.insert("async", false);
    for (theirs, ours) in [("params", "queries"), ("headers", "headers"), ("cookie", "cookie")] {
        if let Some(value) = input.get(theirs) {
            http_input.insert(ours, value.clone());
        }
    }
    if let Some(follow) = input.get("follow_redirects") {
        http_input.insert("redirect", follow.clone());
    }
    let body = body(input, &mut http_input)?;
    let method = if body.is_some() { "POST" } else { "GET" };
    http_input.insert("method", input.get("method").cloned().unwrap_or_else(|| method.into()));
    if let Some(body) = body {
        http_input.insert("body", body);
    }
    Ok(http_input)
}

fn body(input: &ToolInput<'_>, http_input: &mut Map) -> Result<Option<Value>, ErrorInfo> {
    let Some((name, value)) = input.first_of(&["json", "form", "body", "data", "payload"]) else { return Ok(None) };
    let mut headers = input.object("headers")?.cloned().unwrap_or_default();
    let declared = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let declared = declared.and_then(|(_, value)| value.as_str()).map(str::to_ascii_lowercase);
    let is_form = name == "form" || declared.as_deref().is_some_and(|kind| kind.contains("x-www-form-urlencoded"));
    match value {
        Value::Map(fields) if is_form => Ok(Some(form(fields))),
        _ if name == "form" => Err(bad_input(format!("`form` is {}, not an object", value.kind()))),
        Value::Str(_) if name == "json" => {
            if declared.is_none() {
                headers.insert("content-type", "application/json");
                http_input.insert("headers", Value::map(headers));
            }
            Ok(Some(to_json(value).into()))
        }
        value => Ok(Some(value.clone())),
    }
}

/// Builds form data. A list repeats its name; null omits it.
fn form(fields: &Map) -> Value {
    let mut pairs = Vec::with_capacity(fields.len());
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let each = value.as_list().unwrap_or(std::slice::from_ref(value));
        pairs.extend(
            each.iter().map(|value| Value::object([("key", Value::from(name.clone())), ("value", value.clone())])),
        );
    }
    Value::object([("$formdata", Value::list(pairs))])
}

/// Returns the connection mode and the total timeout.
fn timeouts(input: &ToolInput<'_>, default_connect: Duration) -> Result<(ConnectionMode, Option<Duration>), ErrorInfo> {
    let verified = match input.get("verify_ssl") {
        None => true,
        Some(value) => value.as_bool().ok_or_else(|| bad_input("`verify_ssl` is neither true nor false"))?,
    };
    let manner = ConnectionMode { verify_certificate: verified, ..ConnectionMode::default() };
    let Some((_, value)) = input.first_of(&["timeout", "timeout_seconds"]) else { return Ok((manner, None)) };
    let Value::Map(parts) = value else { return Ok((manner, Some(parse_duration(value)?))) };
    let part = |name: &str| parts.get(name).filter(|value| !value.is_null()).map(parse_duration).transpose();
    let (connect, read) = (part("connect")?, part("read")?);
    let total = read.map(|read| read.saturating_add(connect.unwrap_or(default_connect)));
    Ok((ConnectionMode { connect_timeout: connect.map(Duration::to_std), ..manner }, total))
}

/// Translates the outcome to the names of playbooks. The facts are present even without a reply.
pub(super) fn playbook_outcome(http: TaskOutcome) -> TaskOutcome {
    let part = |name: &str| http.output.get(name).cloned().unwrap_or_default();
    let (status, headers, body) = (part("statusCode"), part("headers"), part("body"));
    // Templates have no binary values: a body of any type whose bytes are text, such as XML or a form, is that text.
    let data = binary_text(&body).map_or(body, Value::from);
    let known = if headers.is_null() { Value::map(Map::new()) } else { headers.clone() };
    let facts = Value::object([("status", status.clone()), ("headers", known)]);
    let output = match http.output.is_null() {
        true => Value::Null,
        false => Value::object([("status_code", status), ("headers", headers), ("data", data)]),
    };
    with_facts(TaskOutcome { output, ..http }, "http", facts)
}
