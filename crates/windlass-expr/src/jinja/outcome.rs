//! Values of the names `outcome`, `output`, `this`, `error` and `response` for a task that has ended. Every promised
//! property exists: one that does not apply is null.

use windlass_value::{EvalScope, Level, Map, Value};

use super::roots::ResolvedRoot;

/// Parts of an outcome whose properties are promised, whether they apply or not.
const PARTS: [&str; 4] = ["error", "http", "pg", "py"];
const PROMISED: [&str; 10] =
    ["kind", "code", "message", "retryable", "status", "headers", "sqlstate", "exception", "exception_type", "detail"];

/// Returns whether a missing property reads as null: the part of the outcome itself, or one of its promised
/// properties.
pub(super) fn is_promised(name: &str, part: &str, property: Option<&str>) -> bool {
    matches!(name, "outcome" | "output" | "this")
        && PARTS.contains(&part)
        && property.is_none_or(|property| PROMISED.contains(&property))
}

fn outcome(scope: &dyn EvalScope) -> Option<Value> {
    scope.local("outcome")
}

fn failed(outcome: &Value) -> bool {
    outcome.get("status").and_then(Value::as_str) == Some("error")
}

pub(super) fn result(scope: &dyn EvalScope) -> Option<Value> {
    outcome(scope)?.get("result").cloned()
}

/// Returns whether an outcome or an error is available here.
pub(super) fn is_available(scope: &dyn EvalScope) -> bool {
    scope.local("outcome").is_some() || scope.local("error").is_some()
}

/// Returns the error of the ended task, if it failed.
pub(super) fn error(scope: &dyn EvalScope) -> Option<Value> {
    match outcome(scope) {
        Some(outcome) => failed(&outcome).then(|| complete_error(&outcome)),
        // An iteration for which a loop is creating an entry.
        None => scope
            .local("error")
            .filter(|error| !error.is_null())
            .map(|error| complete_error(&Value::object([("error", error)]))),
    }
}

/// Returns the body of a reply, or the result itself if it is not a reply.
pub(super) fn response(scope: &dyn EvalScope) -> Option<ResolvedRoot> {
    let outcome = outcome(scope).filter(|outcome| !failed(outcome))?;
    Some(ResolvedRoot { value: outcome.get("result")?.clone(), used: 0, reply: true })
}

/// Returns one part of the outcome, null if it does not apply.
pub(super) fn part(name: &str, scope: &dyn EvalScope) -> Option<ResolvedRoot> {
    let outcome = outcome(scope)?;
    Some(ResolvedRoot::after_first_step(match name {
        "error" if failed(&outcome) => complete_error(&outcome),
        "error" => Value::Null,
        other => outcome.get(other).cloned().unwrap_or_default(),
    }))
}

/// Returns `{status, data, error, meta}` of the latest result.
pub(super) fn this(first: Option<&str>, scope: &dyn EvalScope) -> Option<ResolvedRoot> {
    let Some(outcome) = outcome(scope) else {
        let last = scope.local("_prev")?;
        let meta = scope.variable(Level::Any, "_meta").unwrap_or_else(|| Value::map(Map::new()));
        let view = [("status", "success".into()), ("data", last), ("error", Value::Null), ("meta", meta)];
        return Some(ResolvedRoot::at_root(Value::object(view)));
    };
    let data = outcome.get("result").cloned().unwrap_or_default();
    match first {
        Some("data") => Some(ResolvedRoot { value: data, used: 1, reply: true }),
        Some("error") => part("error", scope),
        _ => {
            let body = data.get("status_code").and_then(|_| data.get("data")).cloned();
            let mut map = outcome.as_map()?.clone();
            map.insert("data", body.unwrap_or(data));
            Some(ResolvedRoot::at_root(Value::map(map)))
        }
    }
}

/// Returns the result, with the outcome's properties next to its own.
pub(super) fn output(first: Option<&str>, scope: &dyn EvalScope) -> Option<ResolvedRoot> {
    let outcome = outcome(scope)?;
    let result = outcome.get("result").cloned().unwrap_or_default();
    match first {
        Some("status") => Some(ResolvedRoot::after_first_step(status_word(failed(&outcome)))),
        Some(name @ ("error" | "meta" | "http" | "pg" | "py")) => part(name, scope),
        Some("data" | "response") => Some(ResolvedRoot { value: result, used: 1, reply: true }),
        _ => Some(ResolvedRoot::at_root(result)),
    }
}

/// Returns the same for a step that has ended: the step's own properties take precedence.
pub(super) fn ended(own: Value, first: Option<&str>, scope: &dyn EvalScope) -> ResolvedRoot {
    let has = |name: &str| own.get(name).is_some();
    match first {
        Some(name) if has(name) => ResolvedRoot::at_root(own),
        Some("status") => {
            let event = scope.local("event");
            let name = event.as_ref().and_then(|event| event.get("name")).and_then(Value::as_str);
            ResolvedRoot::after_first_step(status_word(name == Some("step.failed")))
        }
        Some("error") => ResolvedRoot::after_first_step(error(scope).unwrap_or_default()),
        Some("http") if is_reply(&own) => {
            let part = |name: &str| own.get(name).cloned().unwrap_or_default();
            ResolvedRoot::after_first_step(Value::object([
                ("status", part("status_code")),
                ("headers", part("headers")),
            ]))
        }
        Some(name @ ("meta" | "http" | "pg" | "py")) => {
            part(name, scope).unwrap_or(ResolvedRoot::after_first_step(Value::Null))
        }
        Some("data" | "response") => ResolvedRoot { value: own, used: 1, reply: true },
        _ => ResolvedRoot::at_root(own),
    }
}

/// Returns whether a result is an HTTP reply, recognized by its properties.
fn is_reply(value: &Value) -> bool {
    ["status_code", "headers", "data"].iter().all(|part| value.get(part).is_some())
}

fn status_word(failed: bool) -> Value {
    Value::from(if failed { "error" } else { "ok" })
}

/// Completes an error with the status of its reply, its HTTP error kind, and whether a retry may help.
fn complete_error(outcome: &Value) -> Value {
    let error = outcome.get("error").cloned().unwrap_or_default();
    let Some(mut map) = error.as_map().cloned() else { return error };
    let status = outcome.get("http").and_then(|http| http.get("status")).filter(|status| !status.is_null());
    let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
    let (kind, code) = (text("kind"), text("code"));
    let number = status.and_then(Value::as_int).or_else(|| code.parse().ok()).filter(|_| kind == "http");
    if !map.contains_key("retryable") {
        map.insert("retryable", is_retryable(kind, code, number));
    }
    if let Some(number) = number {
        map.insert("status", number);
        map.insert("kind", http_error_kind(number));
    } else if let Some(status) = status {
        map.insert("status", status.clone());
    }
    Value::map(map)
}

fn is_retryable(kind: &str, code: &str, status: Option<i64>) -> bool {
    match kind {
        "timeout" | "connection" => true,
        "http" => status.is_some_and(|status| matches!(status, 408 | 425 | 429 | 500..)),
        // Serialization failure, deadlock, lock not available; connection, resource and shutdown classes.
        "pg" => {
            matches!(code, "40001" | "40P01" | "55P03")
                || ["08", "53", "57P"].iter().any(|class| code.starts_with(class))
        }
        _ => false,
    }
}

fn http_error_kind(status: i64) -> &'static str {
    match status {
        401 | 403 => "auth",
        404 => "not_found",
        429 => "rate_limit",
        500.. => "server_error",
        _ => "client_error",
    }
}
