//! `http`: sends one request, under the address rules of the given client.

use windlass_core::ProcessLimits;
use windlass_runtime::{Tool, ToolCall};
use windlass_tools::HttpTool;
use windlass_value::{Map, Value, to_json};

use crate::ToolSpec;
use crate::address::Address;
use crate::builtin::{ToolTimeouts, spec};
use crate::text::{escape_invisible, head_and_tail};
use crate::tool::{AgentCall, AgentTool, ToolAnswer, ToolAnswerFuture};

/// The response headers that are shown to a model.
const SHOWN_HEADERS: [&str; 5] = ["content-type", "location", "etag", "last-modified", "retry-after"];

/// Sends requests. The client decides whether private addresses can be reached.
pub(crate) struct AgentHttpTool {
    http: HttpTool,
    timeouts: ToolTimeouts,
    max_text_bytes: usize,
}

impl AgentHttpTool {
    pub(crate) fn new(http: HttpTool, limits: &ProcessLimits) -> AgentHttpTool {
        AgentHttpTool {
            http,
            timeouts: ToolTimeouts::from_limits(limits),
            max_text_bytes: limits.max_agent_answer_bytes,
        }
    }
}

impl AgentTool for AgentHttpTool {
    fn spec(&self) -> ToolSpec {
        spec(
            "http",
            "Sends one HTTP request and returns the status, some headers and the body as text. Redirects are not \
             followed: `location` is returned and can be requested next.",
            &r#"{"type": "object", "properties": {
                "url": {"type": "string", "minLength": 1, "description": "the whole address"},
                "method": {"type": "string", "description": "GET if not given"},
                "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                "body": {"description": "text as it is, anything else as JSON"},
                "timeout": TIMEOUT
            }, "required": ["url"], "additionalProperties": false}"#
                .replace("TIMEOUT", &self.timeouts.schema()),
        )
    }

    fn call(&self, call: AgentCall) -> ToolAnswerFuture {
        let (http, timeouts, max_bytes) = (self.http.clone(), self.timeouts, self.max_text_bytes);
        Box::pin(async move {
            // The URL that was permitted must be the URL that is requested.
            if let Err(problem) = Address::parse(call.text("url").unwrap_or_default()) {
                return ToolAnswer::error(problem);
            }
            let given = call.call.input.as_map().cloned().unwrap_or_default();
            let mut input: Map =
                given.iter().filter(|(_, value)| !value.is_null()).map(|(k, v)| (k.clone(), v.clone())).collect();
            if !input.contains_key("timeout") {
                input.insert("timeout", timeouts.default.to_string());
            }
            // A redirect target needs permission like any other URL.
            input.insert("redirect", "manual");
            // Nothing would poll for the result of a request that was only accepted.
            input.insert("async", false);
            let outcome = http.call(ToolCall { input: Value::map(input), ..call.call }).await;
            answer(&outcome.output, outcome.error.map(|error| error.message.to_string()), max_bytes)
        })
    }
}

fn answer(reply: &Value, error: Option<String>, max_bytes: usize) -> ToolAnswer {
    let Some(status) = reply.get("statusCode").and_then(Value::as_int) else {
        return ToolAnswer::error(error.unwrap_or_else(|| "there was no reply".to_owned()));
    };
    let mut text = format!("HTTP {status}\n");
    for name in SHOWN_HEADERS {
        if let Some(value) = reply.get("headers").and_then(|headers| headers.get(name)).and_then(Value::as_str) {
            text.push_str(&format!("{name}: {}\n", escape_invisible(value)));
        }
    }
    text.push('\n');
    text.push_str(&match reply.get("body").unwrap_or(&Value::Null) {
        Value::Null => "(no body)".to_owned(),
        Value::Str(body) => head_and_tail(body, max_bytes),
        body => match body.get("$content").and_then(Value::as_str) {
            Some(content) => format!("(a binary body of about {} bytes)", content.len() / 4 * 3),
            None => head_and_tail(&to_json(body), max_bytes),
        },
    });
    ToolAnswer { content: text, error: error.is_some() }
}
