//! Pages of a list: the items of a reply, and the link to the next page.
//!
//! A call with `pages: true` reports both as the fact `page {uri, next, items, key}`. The same input with that link as
//! `link` gets the next page: a GET with those headers and the login of the first request that are meant for the
//! link's server.

use hyper::header;
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_value::{Map, Value};

use super::failure::{self, bad_request};
use super::poll::build_follow_up;
use super::redirect::{join, origin};
use super::request::{HttpRequest, non_null};
use super::uri;

/// The fact that describes a page.
const PAGE: &str = "page";

/// The properties of a body that link the next page, in order of precedence; upper and lower case are the same.
const LINK_KEYS: [&str; 4] = ["nextLink", "@odata.nextLink", "@nextLink", "odata.nextLink"];

/// The property of a body that holds the items.
const ITEMS_KEY: &str = "value";

/// Returns true if the call asks for the fact about its page.
pub(super) fn reports_page(input: &Map) -> Result<bool, ErrorInfo> {
    match non_null(input, "pages") {
        None => Ok(false),
        Some(Value::Bool(enabled)) => Ok(*enabled),
        Some(other) => {
            let message = format!("`pages` is {}, not a boolean", other.kind());
            Err(bad_request("Pages", message, "true reports the link to the next page"))
        }
    }
}

/// Returns the input of the request for the page at the input's `link`; None if it has no link.
pub(super) fn linked_input(input: &Map) -> Result<Option<Map>, ErrorInfo> {
    let Some(link) = non_null(input, "link") else { return Ok(None) };
    let hint = "it is the `next` of the previous page";
    let problem = || bad_request("Link", format!("`link` is {}, not a string", link.kind()), hint);
    let link = link.as_str().ok_or_else(problem)?;
    let (first, target) = (super::request::parse_target(input)?, uri::parse(link, None)?);
    let mut next = build_follow_up(input, link, origin(&first.uri) == origin(&target.uri))?;
    if let Some(polls) = non_null(input, "async") {
        next.insert("async", polls.clone());
    }
    Ok(Some(next))
}

/// Adds the fact about the page to a successful reply; a reply that is no page fails.
pub(super) fn with_page(request: &HttpRequest, requested: &str, outcome: TaskOutcome) -> TaskOutcome {
    if outcome.error.is_some() {
        return outcome;
    }
    match page(request, requested, &outcome.output) {
        Ok(page) => TaskOutcome { facts: Value::object([(PAGE, page)]), ..outcome },
        Err(error) => TaskOutcome { error: Some(error), ..outcome },
    }
}

fn page(request: &HttpRequest, requested: &str, output: &Value) -> Result<Value, ErrorInfo> {
    let body = output.get("body").unwrap_or(&Value::Null);
    let (key, items) = match body {
        Value::List(items) => (Value::Null, items.len()),
        other => match other.get(ITEMS_KEY).and_then(Value::as_list) {
            Some(items) => (Value::from(ITEMS_KEY), items.len()),
            None => return Err(failure::not_a_page(request, body)),
        },
    };
    let next = match linked_in_body(request, body)? {
        Some(link) => Some(link.to_owned()),
        None => output.get("headers").and_then(|headers| headers.get(header::LINK.as_str())).and_then(linked_in_header),
    };
    let next = next.map(|link| absolute(request, &link)).transpose()?;
    Ok(Value::object([
        ("uri", Value::from(requested)),
        ("next", next.map_or(Value::Null, Value::from)),
        ("items", Value::from(items)),
        ("key", key),
    ]))
}

fn linked_in_body<'a>(request: &HttpRequest, body: &'a Value) -> Result<Option<&'a str>, ErrorInfo> {
    let Some(entries) = body.as_map() else { return Ok(None) };
    let named = |key: &str| {
        let other_case = || entries.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value);
        entries.get(key).or_else(other_case)
    };
    for key in LINK_KEYS {
        match named(key) {
            None | Some(Value::Null) => {}
            Some(Value::Str(link)) if link.trim().is_empty() => {}
            Some(Value::Str(link)) => return Ok(Some(link)),
            Some(other) => {
                return Err(failure::bad_link(request, &format!("`{key}` is {}, not a string", other.kind())));
            }
        }
    }
    Ok(None)
}

/// Returns the link with the relation `next` (RFC 8288).
fn linked_in_header(header: &Value) -> Option<String> {
    let mut rest = header.as_str()?;
    while let Some((_, after)) = rest.split_once('<') {
        let (link, after) = after.split_once('>')?;
        let end = end_of_parameters(after);
        if has_relation_next(&after[..end]) {
            return Some(link.trim().to_owned()).filter(|link| !link.is_empty());
        }
        rest = &after[end..];
    }
    None
}

/// Returns the length of a link's parameters: up to a comma outside of quotes.
fn end_of_parameters(text: &str) -> usize {
    let mut quoted = false;
    let end = text.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == ',' && !quoted
    });
    end.map_or(text.len(), |(at, _)| at)
}

fn has_relation_next(parameters: &str) -> bool {
    let parameters = parameters.split(';').filter_map(|part| part.split_once('='));
    let mut relations = parameters.filter(|(key, _)| key.trim().eq_ignore_ascii_case("rel"));
    relations.next().is_some_and(|(_, value)| {
        value.trim().trim_matches('"').split_ascii_whitespace().any(|relation| relation.eq_ignore_ascii_case("next"))
    })
}

/// Resolves a link against the address of the reply, in the form in which links are compared.
fn absolute(request: &HttpRequest, link: &str) -> Result<String, ErrorInfo> {
    let address = join(&request.uri, link);
    if request.redaction.is_contained_in(&address) {
        return Err(secret_in_link());
    }
    let problem = |_| {
        let shown = request.redaction.redact_text(&address);
        failure::bad_link(request, &format!("its next link cannot be called: {}", uri::describe_problem(&shown)))
    };
    let target = uri::parse(&address, None).map_err(problem)?;
    match target.login {
        None => Ok(target.uri.to_string()),
        Some(_) => Err(failure::bad_link(request, "its next link contains a login")),
    }
}

/// Returns the fact about a page among those of a call.
pub(crate) fn page_fact(facts: &Value) -> Option<&Value> {
    facts.get(PAGE)
}

/// Replaces the fact about a page.
pub(crate) fn with_page_fact(facts: Value, page: Value) -> Value {
    let mut facts = facts.as_map().cloned().unwrap_or_default();
    facts.insert(PAGE, page);
    Value::map(facts)
}

/// Returns the error of a call whose next link contains a secret that no journal may contain.
pub(crate) fn secret_in_link() -> ErrorInfo {
    ErrorInfo::new("InvalidPageResponse", "http", "the next link of a page contains a secret")
        .hint("the link is journaled until the next call, and secrets are never journaled: send the secret in a header")
        .replied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_next_link_of_a_header() {
        for (header, expected) in [
            (r#"<https://h/?page=2>; rel="next""#, Some("https://h/?page=2")),
            ("<https://h/?page=2>; rel=next", Some("https://h/?page=2")),
            (r#"<https://h/a,b?x=1;y>; rel="last", </p?page=3>; title="a, b"; REL="prefetch Next""#, Some("/p?page=3")),
            (r#"<https://h/?page=1>; rel="prev""#, None),
            (r#"<https://h/?page=1>; title="rel=next""#, None),
            ("<>; rel=next", None),
            ("https://h; rel=next", None),
            ("<https://h", None),
            ("", None),
        ] {
            assert_eq!(linked_in_header(&Value::from(header)).as_deref(), expected, "{header}");
        }
    }
}
