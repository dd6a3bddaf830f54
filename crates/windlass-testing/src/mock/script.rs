//! Parsing of scripts.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use windlass_syntax::{
    Diagnostic, Diagnostics, ObjectReader, ParseLimits, ScalarRules, SourceText, SyntaxNode, SyntaxNodeKind,
    expect_list, expect_text, parse_json, parse_yaml, to_value,
};
use windlass_value::Value;

use super::rules::{ModelRule, parse_rule};

pub(super) const UNKNOWN_KEY: &str = "WND-1020";
pub(super) const MISSING_KEY: &str = "WND-1022";
pub(super) const BAD_VALUE: &str = "WND-1024";

const LIMITS: ParseLimits = ParseLimits { bytes: 16 << 20, depth: 100 };
/// Bounds a delay, so that a typing error does not hang a trial.
pub(super) const MAX_AFTER_MS: i64 = 600_000;

/// The routes and rules of a [`MockService`](super::MockService).
#[derive(Clone, Debug)]
pub struct Script {
    pub(super) routes: Vec<MockRoute>,
    /// `None` if the script has no model.
    pub(super) model: Option<Vec<ModelRule>>,
}

impl Script {
    /// Returns true if the script has a model, not only routes.
    pub fn has_model(&self) -> bool {
        self.model.is_some()
    }
}

#[derive(Clone, Debug)]
pub(super) struct MockRoute {
    pub(super) method: Option<Method>,
    pub(super) path: String,
    pub(super) query: Vec<(String, Value)>,
    pub(super) replies: Vec<RouteReply>,
}

#[derive(Clone, Debug)]
pub(super) struct RouteReply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
    pub(super) after_ms: u64,
}

impl Script {
    /// Parses a script and reports all problems. A name ending in `.yaml` or `.yml` means YAML, any other JSON.
    pub fn parse(source: &SourceText) -> Result<Script, Diagnostics> {
        let mut diagnostics = Diagnostics::new();
        let name = source.name.to_ascii_lowercase();
        let node = match name.ends_with(".yaml") || name.ends_with(".yml") {
            true => parse_yaml(source, LIMITS, ScalarRules::Core, &mut diagnostics),
            false => parse_json(source, LIMITS, &mut diagnostics),
        };
        let script = node.as_ref().and_then(|node| parse_script(node, &mut diagnostics));
        match script {
            Some(script) if !diagnostics.has_errors() => Ok(script),
            _ => Err(diagnostics.sorted()),
        }
    }
}

fn parse_script(node: &SyntaxNode, out: &mut Diagnostics) -> Option<Script> {
    let mut object = ObjectReader::read(node, "a script", out)?;
    let (routes, model) = (object.take("routes"), object.take("model"));
    // A misspelled key is already reported by itself.
    if routes.is_none() && model.is_none() && object.unread_entries().next().is_none() {
        let problem = Diagnostic::error(MISSING_KEY, object.span(), "the script has neither `routes` nor `model`");
        out.push(problem.with_hint("such as {\"routes\": [{\"path\": \"/x\", \"replies\": [{\"body\": 1}]}]}"));
    }
    object.finish(UNKNOWN_KEY, "a script", out);
    let routes = routes.map(|node| parse_list(node, "`routes`", out, parse_route)).unwrap_or_default();
    let model = model.map(|node| parse_list(node, "`model`", out, parse_rule));
    Some(Script { routes, model })
}

pub(super) fn parse_list<T>(
    node: &SyntaxNode,
    what: &str,
    out: &mut Diagnostics,
    read: fn(&SyntaxNode, &mut Diagnostics) -> Option<T>,
) -> Vec<T> {
    let items = expect_list(node, what, out).unwrap_or_default();
    items.iter().filter_map(|item| read(item, out)).collect()
}

fn parse_route(node: &SyntaxNode, out: &mut Diagnostics) -> Option<MockRoute> {
    let mut object = ObjectReader::read(node, "a route", out)?;
    let method = object.take("method").and_then(|node| parse_method(node, out));
    let path = object.take("path");
    let query = object.take("query");
    let replies = object.take("replies");
    let span = object.span();
    object.finish(UNKNOWN_KEY, "a route", out);
    let mut missing = |name: &str, hint: &str| {
        out.push(Diagnostic::error(MISSING_KEY, span, format!("a route needs `{name}`")).with_hint(hint));
    };
    if path.is_none() {
        missing("path", "such as \"path\": \"/items\"");
    }
    if replies.is_none() {
        missing("replies", "such as \"replies\": [{\"body\": {\"ok\": true}}]");
    }
    // All keys are parsed, so that every problem is reported.
    let path = path.and_then(|node| route_path(node, out));
    let query = query.map(|node| query_values(node, out)).unwrap_or_default();
    let replies = replies.map(|node| parse_replies(node, out));
    Some(MockRoute { method, path: path?, query, replies: replies? })
}

fn parse_replies(node: &SyntaxNode, out: &mut Diagnostics) -> Vec<RouteReply> {
    if node.as_list().is_some_and(<[SyntaxNode]>::is_empty) {
        let problem = Diagnostic::error(BAD_VALUE, node.span, "a route needs at least one reply");
        out.push(problem.with_hint("give at least one; the last reply repeats"));
    }
    parse_list(node, "`replies`", out, parse_route_reply)
}

fn parse_method(node: &SyntaxNode, out: &mut Diagnostics) -> Option<Method> {
    let text = expect_text(node, "`method`", out)?.text.trim().to_ascii_uppercase();
    let method = Method::from_bytes(text.as_bytes()).ok();
    if method.is_none() {
        let problem = Diagnostic::error(BAD_VALUE, node.span, "this is not an HTTP method");
        out.push(problem.with_hint("GET, POST, PUT, PATCH, DELETE; leave it out for any"));
    }
    method
}

fn route_path(node: &SyntaxNode, out: &mut Diagnostics) -> Option<String> {
    let text = &expect_text(node, "`path`", out)?.text;
    let problem = match text.as_str() {
        path if !path.starts_with('/') => Some("a path begins with `/`"),
        path if path.contains('?') => Some("a path has no query: values go under `query`"),
        path if path.trim_end_matches('*').contains('*') => Some("`*` is only allowed at the end of a path"),
        _ => None,
    };
    match problem {
        None => Some(text.clone()),
        Some(problem) => {
            let hint = "such as \"path\": \"/items/*\", \"query\": {\"page\": \"2\"}";
            out.push(Diagnostic::error(BAD_VALUE, node.span, problem).with_hint(hint));
            None
        }
    }
}

fn query_values(node: &SyntaxNode, out: &mut Diagnostics) -> Vec<(String, Value)> {
    let Some(object) = ObjectReader::read(node, "`query`", out) else { return Vec::new() };
    let mut values = Vec::new();
    for (key, node) in object.unread_entries() {
        match to_value(node) {
            value @ Value::Str(_) => values.push((key.text.clone(), value)),
            // In an address every value is text.
            value @ (Value::Int(_) | Value::Float(_) | Value::Bool(_)) => {
                values.push((key.text.clone(), Value::from(windlass_value::to_json(&value))));
            }
            _ => {
                let message = format!("the value of a query must be a text, found {}", node.describe());
                out.push(Diagnostic::error(BAD_VALUE, node.span, message).with_hint("such as {\"page\": \"2\"}"));
            }
        }
    }
    values
}

fn parse_route_reply(node: &SyntaxNode, out: &mut Diagnostics) -> Option<RouteReply> {
    let mut object = ObjectReader::read(node, "a reply", out)?;
    let status = object.take("status").and_then(|node| parse_status(node, out));
    let headers = object.take("headers").map(|node| parse_headers(node, out)).unwrap_or_default();
    let body = object.take("body").map(to_value).unwrap_or_default();
    let after_ms = object.take("after_ms").and_then(|node| parse_integer(node, "`after_ms`", 0..=MAX_AFTER_MS, out));
    object.finish(UNKNOWN_KEY, "a reply", out);
    Some(RouteReply { status: status.unwrap_or(StatusCode::OK), headers, body, after_ms: after_ms.unwrap_or(0) })
}

pub(super) fn parse_status(node: &SyntaxNode, out: &mut Diagnostics) -> Option<StatusCode> {
    let code = parse_integer(node, "`status`", 200..=599, out)?;
    u16::try_from(code).ok().and_then(|code| StatusCode::from_u16(code).ok())
}

pub(super) fn parse_integer(
    node: &SyntaxNode,
    what: &str,
    range: std::ops::RangeInclusive<i64>,
    out: &mut Diagnostics,
) -> Option<u64> {
    let number = match &node.kind {
        SyntaxNodeKind::Number(Value::Int(number)) if range.contains(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    if number.is_none() {
        let message = format!("{what} must be a whole number, found {}", node.describe());
        let hint = format!("from {} to {}", range.start(), range.end());
        out.push(Diagnostic::error(BAD_VALUE, node.span, message).with_hint(hint));
    }
    number
}

fn parse_headers(node: &SyntaxNode, out: &mut Diagnostics) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some(object) = ObjectReader::read(node, "`headers`", out) else { return headers };
    for (key, node) in object.unread_entries() {
        let value = match to_value(node) {
            Value::Str(text) => text.to_string(),
            other => windlass_value::to_json(&other),
        };
        match (HeaderName::from_bytes(key.text.as_bytes()), HeaderValue::from_str(&value)) {
            (Ok(name), Ok(value)) => {
                headers.append(name, value);
            }
            _ => {
                let problem = Diagnostic::error(BAD_VALUE, key.span, format!("`{}` cannot be a header", key.text));
                out.push(problem.with_hint("names are letters, digits and hyphens; values are one line of plain text"));
            }
        }
    }
    headers
}
