//! Imports of mock files in the formats of Logic Apps: the static results of a definition, and the mocked operations
//! of a unit test.

use std::collections::BTreeMap;

use windlass_syntax::{
    Diagnostic, Diagnostics, ObjectReader, SpannedKey, SyntaxNode, SyntaxNodeKind, did_you_mean, expect_text,
    format_names, to_value,
};
use windlass_value::{Map, Value};

use super::answers::{MockAnswer, MockError};
use super::file::{BAD_VALUE, MockFile, MockFileFormat, UNKNOWN_KEY};
use super::patterns::StepPattern;
use super::rules::MockRule;

/// Statuses of operations, with the code and the kind of their errors.
const STATUSES: [(&str, Option<(&str, &str)>); 4] = [
    ("Succeeded", None),
    ("Failed", Some(("ActionFailed", "tool"))),
    ("TimedOut", Some(("ActionTimedOut", "timeout"))),
    ("Cancelled", Some(("ActionCancelled", "tool"))),
];

/// Names that the unit tests write in place of a status code.
const STATUS_NAMES: [(&str, i64); 16] = [
    ("OK", 200),
    ("Created", 201),
    ("Accepted", 202),
    ("NoContent", 204),
    ("BadRequest", 400),
    ("Unauthorized", 401),
    ("Forbidden", 403),
    ("NotFound", 404),
    ("MethodNotAllowed", 405),
    ("RequestTimeout", 408),
    ("Conflict", 409),
    ("TooManyRequests", 429),
    ("InternalServerError", 500),
    ("BadGateway", 502),
    ("ServiceUnavailable", 503),
    ("GatewayTimeout", 504),
];

/// Returns the value of a key, ignoring case.
fn entry<'a>(node: &'a SyntaxNode, name: &str) -> Option<(&'a SpannedKey, &'a SyntaxNode)> {
    node.as_map()?.iter().find(|(key, _)| key.text.eq_ignore_ascii_case(name)).map(|(key, node)| (key, node))
}

fn value<'a>(node: &'a SyntaxNode, name: &str) -> Option<&'a SyntaxNode> {
    entry(node, name).map(|(_, node)| node)
}

/// Returns true for the file of a unit test of Logic Apps Standard.
pub(super) fn is_unit_test(node: &SyntaxNode) -> bool {
    value(node, "actionMocks").is_some() || value(node, "triggerMocks").is_some()
}

/// Returns the part of a definition that has static results: itself, or the definition in a wrapper.
pub(super) fn with_static_results(node: &SyntaxNode) -> Option<&SyntaxNode> {
    let properties = value(node, "properties").and_then(|node| value(node, "definition"));
    let places = [Some(node), value(node, "definition"), properties];
    places.into_iter().flatten().find(|place| value(place, "staticResults").is_some())
}

/// Imports the mocked operations of a unit test. The body of the trigger becomes the input of runs.
pub(super) fn unit_test(node: &SyntaxNode, out: &mut Diagnostics) -> Option<MockFile> {
    let mut object = ObjectReader::read(node, "the mocks of a unit test", out)?;
    let (triggers, actions) = (object.take("triggerMocks"), object.take("actionMocks"));
    object.ignore(&["$schema", "name", "description"]);
    object.take_rest();
    let triggers = triggers.map(|node| operations(node, "`triggerMocks`", out)).unwrap_or_default();
    let actions = actions.map(|node| operations(node, "`actionMocks`", out)).unwrap_or_default();
    let rules = actions.iter().filter_map(|(name, node)| rule(name, node, out)).collect();
    let trigger = triggers.first().and_then(|(_, node)| value(node, "outputs"));
    let input = trigger.and_then(|outputs| value(outputs, "body")).map(to_value);
    Some(MockFile::imported(rules, input, MockFileFormat::UnitTestMocks))
}

/// Returns operations by name: an object of them, or a list in which each has its name.
fn operations<'a>(node: &'a SyntaxNode, what: &str, out: &mut Diagnostics) -> Vec<(String, &'a SyntaxNode)> {
    match &node.kind {
        SyntaxNodeKind::Null => Vec::new(),
        SyntaxNodeKind::List(items) => {
            let named = |item: &'a SyntaxNode| Some((value(item, "name")?.as_str()?.to_owned(), item));
            items.iter().filter_map(named).collect()
        }
        _ => {
            let object = ObjectReader::read(node, what, out);
            let entries = object.iter().flat_map(ObjectReader::unread_entries);
            entries.map(|(key, node)| (key.text.clone(), node)).collect()
        }
    }
}

/// Imports the static results of a definition, of the actions that name them whether they are enabled or not: the
/// command line enables them. A result that no action names is that of the action of its own name.
pub(super) fn static_results(definition: &SyntaxNode, out: &mut Diagnostics) -> Option<MockFile> {
    let results = ObjectReader::read(value(definition, "staticResults")?, "`staticResults`", out)?;
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    collect_users(definition, &mut users);
    let mut rules = Vec::new();
    for (key, node) in results.unread_entries() {
        let own = vec![key.text.clone()];
        for action in users.get(&key.text.to_lowercase()).unwrap_or(&own) {
            rules.extend(rule(action, node, out));
        }
    }
    Some(MockFile::imported(rules, None, MockFileFormat::StaticResults))
}

/// Collects the names of the actions by the static result that each names, at any depth.
fn collect_users(node: &SyntaxNode, users: &mut BTreeMap<String, Vec<String>>) {
    for (key, inner) in node.as_map().into_iter().flatten() {
        let configured = value(inner, "runtimeConfiguration").and_then(|node| value(node, "staticResult"));
        if let Some(name) = configured.and_then(|node| value(node, "name")).and_then(SyntaxNode::as_str) {
            users.entry(name.to_lowercase()).or_default().push(key.text.clone());
        }
        collect_users(inner, users);
    }
    node.as_list().into_iter().flatten().for_each(|inner| collect_users(inner, users));
}

fn rule(action: &str, node: &SyntaxNode, out: &mut Diagnostics) -> Option<MockRule> {
    let mut object = ObjectReader::read(node, "a mocked operation", out)?;
    let (status, outputs) = (object.take("status"), object.take("outputs"));
    let (error, code) = (object.take("error"), object.take("code"));
    object.ignore(&["name", "properties"]);
    object.finish(UNKNOWN_KEY, "a mocked operation", out);
    let failure = match status {
        Some(node) => parse_status(node, out)?,
        None => None,
    };
    let output = outputs.map(|node| with_status_code(to_value(node))).unwrap_or_default();
    let text = |node: Option<&SyntaxNode>| node.and_then(SyntaxNode::as_str).map(str::to_owned);
    let error_code = error.and_then(|error| value(error, "code"));
    let message = error.and_then(|error| value(error, "message"));
    let error = failure.map(|(usual, kind)| MockError {
        code: text(error_code.or(code)).unwrap_or_else(|| usual.to_owned()),
        kind: kind.to_owned(),
        message: text(message).unwrap_or_else(|| format!("the mock of `{action}` sets this status")),
    });
    let answer = MockAnswer { output: Some(output), error, ..MockAnswer::default() };
    Some(MockRule::for_step(StepPattern::exact(action), answer))
}

type FailureClass = Option<(&'static str, &'static str)>;

fn parse_status(node: &SyntaxNode, out: &mut Diagnostics) -> Option<FailureClass> {
    let text = &expect_text(node, "`status`", out)?.text;
    let found = STATUSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, class)| *class);
    if found.is_none() {
        let names = STATUSES.iter().map(|(name, _)| *name);
        let hint = match text.eq_ignore_ascii_case("skipped") {
            true => {
                "a call cannot be skipped by its answer: give the action a static result in the definition".to_owned()
            }
            false => did_you_mean(text, names.clone()).unwrap_or_else(|| format!("known: {}", format_names(names))),
        };
        out.push(Diagnostic::error(BAD_VALUE, node.span, format!("`status` cannot be `{text}`")).with_hint(hint));
    }
    found
}

/// Replaces a status code that is written as a name by its number.
fn with_status_code(outputs: Value) -> Value {
    let Value::Map(map) = &outputs else { return outputs };
    let named = map.get("statusCode").and_then(Value::as_str);
    let Some((_, code)) = named.and_then(|named| STATUS_NAMES.iter().find(|(name, _)| *name == named)) else {
        return outputs;
    };
    let mut map = Map::clone(map);
    map.insert("statusCode", *code);
    Value::map(map)
}
