//! Parsing of the rules of a scripted model.

use hyper::StatusCode;
use windlass_syntax::{
    Diagnostic, Diagnostics, ObjectReader, SpannedText, SyntaxNode, did_you_mean, expect_text, format_names, to_value,
};
use windlass_value::{Map, Value, to_json};

use super::script::{BAD_VALUE, MAX_AFTER_MS, MISSING_KEY, UNKNOWN_KEY, parse_integer, parse_list, parse_status};

#[derive(Clone, Debug)]
pub(super) struct ModelRule {
    pub(super) when: RuleCondition,
    pub(super) turn: Option<u64>,
    pub(super) attempt: Option<u64>,
    /// Which execution of the whole step.
    pub(super) pass: Option<u64>,
    pub(super) replies: RuleReplies,
}

/// Conditions on a request. In `step` and `model`, `*` is a wildcard.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RuleCondition {
    pub(super) step: Option<String>,
    pub(super) role: Option<String>,
    pub(super) model: Option<String>,
    /// In any message.
    pub(super) contains: Option<String>,
    /// In the messages since the model's last one.
    pub(super) last_contains: Option<String>,
    pub(super) tool: Option<String>,
}

/// Replies of a rule, each a list with one reply per attempt, of which the last one repeats.
#[derive(Clone, Debug)]
pub(super) enum RuleReplies {
    Always(Vec<ScriptedModelReply>),
    /// One per turn, and none after the last.
    Turns(Vec<Vec<ScriptedModelReply>>),
}

#[derive(Clone, Debug, Default)]
pub(super) struct ScriptedModelReply {
    pub(super) text: Option<String>,
    pub(super) calls: Vec<ScriptedCall>,
    pub(super) usage: Option<ScriptedUsage>,
    pub(super) stop: Option<ScriptedStop>,
    pub(super) after_ms: u64,
    pub(super) status: Option<StatusCode>,
    pub(super) retry_after: Option<u64>,
    pub(super) fault: Option<ScriptedFault>,
}

#[derive(Clone, Debug)]
pub(super) struct ScriptedCall {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) arguments: Value,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScriptedUsage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) total: Option<u64>,
    pub(super) reasoning: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptedStop {
    End,
    Tools,
    Length,
    Refusal,
    Filtered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptedFault {
    /// The connection breaks in the middle of the response.
    Truncated,
    /// The arguments of the calls are invalid JSON.
    Malformed,
    /// No response is ever sent.
    Hang,
}

const STOPS: [(&str, ScriptedStop); 5] = [
    ("end", ScriptedStop::End),
    ("tools", ScriptedStop::Tools),
    ("length", ScriptedStop::Length),
    ("refusal", ScriptedStop::Refusal),
    ("filtered", ScriptedStop::Filtered),
];
const FAULTS: [(&str, ScriptedFault); 3] =
    [("truncated", ScriptedFault::Truncated), ("malformed", ScriptedFault::Malformed), ("hang", ScriptedFault::Hang)];

pub(super) fn parse_rule(node: &SyntaxNode, out: &mut Diagnostics) -> Option<ModelRule> {
    let mut object = ObjectReader::read(node, "a model rule", out)?;
    let (when, [turn, attempt, pass]) = object.take("when").map(|node| parse_condition(node, out)).unwrap_or_default();
    let replies = object.take_entry("replies");
    let reply = take_reply(&mut object, out);
    let span = object.span();
    object.finish(UNKNOWN_KEY, "a model rule", out);
    let replies = match (replies, reply) {
        (None, Some(reply)) => RuleReplies::Always(vec![reply]),
        (None, None) => {
            let problem = Diagnostic::error(MISSING_KEY, span, "a model rule needs `reply`");
            out.push(problem.with_hint("such as \"reply\": \"yes\"; with a `status` of 400 or more it is the error message; `calls`, `fault` or `replies` may replace it"));
            return None;
        }
        (Some((key, _)), Some(_)) => {
            let problem = Diagnostic::error(BAD_VALUE, key.span, "a rule has either `replies` or a single reply");
            out.push(problem.with_hint("move the single reply into `replies`"));
            return None;
        }
        (Some((key, _)), None) if turn.is_some() => {
            let problem =
                Diagnostic::error(BAD_VALUE, key.span, "`replies` has one reply per turn: `turn` has no effect");
            out.push(problem.with_hint("remove `turn` from `when`, or give one `reply`"));
            return None;
        }
        (Some((_, node)), None) => RuleReplies::Turns(parse_turns(node, out)),
    };
    Some(ModelRule { when, turn, attempt, pass, replies })
}

fn parse_turns(node: &SyntaxNode, out: &mut Diagnostics) -> Vec<Vec<ScriptedModelReply>> {
    if node.as_list().is_some_and(<[SyntaxNode]>::is_empty) {
        let problem = Diagnostic::error(BAD_VALUE, node.span, "`replies` is empty");
        out.push(problem.with_hint("give one reply per turn of the conversation"));
    }
    parse_list(node, "`replies`", out, |node, out| match node.as_list() {
        Some([]) => {
            let problem = Diagnostic::error(BAD_VALUE, node.span, "a turn needs at least one reply");
            out.push(problem.with_hint("a list has one reply per attempt; the last one repeats"));
            None
        }
        Some(_) => Some(parse_list(node, "a turn", out, parse_reply)),
        None => parse_reply(node, out).map(|reply| vec![reply]),
    })
}

/// Parses a text, or an object with the keys of a rule except `when`.
fn parse_reply(node: &SyntaxNode, out: &mut Diagnostics) -> Option<ScriptedModelReply> {
    if node.as_map().is_none() {
        let text = expect_text(node, "a reply", out)?;
        return Some(ScriptedModelReply { text: Some(text.text.clone()), ..ScriptedModelReply::default() });
    }
    let mut object = ObjectReader::read(node, "a reply", out)?;
    let reply = take_reply(&mut object, out);
    let span = object.span();
    let has_only_known_keys = object.unread_entries().next().is_none();
    object.finish(UNKNOWN_KEY, "a reply", out);
    if reply.is_none() && has_only_known_keys {
        let problem = Diagnostic::error(MISSING_KEY, span, "a reply needs `text`, `calls`, `status` or `fault`");
        out.push(problem.with_hint("such as {\"text\": \"yes\"}"));
    }
    reply
}

/// Takes the keys of a reply; returns `None` if none is present.
fn take_reply(object: &mut ObjectReader<'_>, out: &mut Diagnostics) -> Option<ScriptedModelReply> {
    // Anything but text is sent as its JSON text.
    let data = object.take("reply").map(|node| match to_value(node) {
        Value::Str(text) => text.to_string(),
        other => to_json(&other),
    });
    // An unreadable key is still present, and its own problem is enough.
    let has_reply = ["reply", "text", "calls", "fault"].iter().any(|name| object.peek(name).is_some());
    let text = object.take("text").and_then(|node| expect_text(node, "`text`", out)).map(|text| text.text.clone());
    let calls = object.take("calls").map(|node| parse_list(node, "`calls`", out, parse_call));
    let usage = object.take("usage").and_then(|node| parse_usage(node, out));
    let stop = object.take("stop").and_then(|node| parse_keyword(node, "`stop`", &STOPS, out));
    let fault = object.take("fault").and_then(|node| parse_keyword(node, "`fault`", &FAULTS, out));
    let code = object.take("status").and_then(|node| parse_status(node, out));
    let after_ms = object.take("after_ms");
    let after_ms = after_ms.and_then(|node| parse_integer(node, "`after_ms`", 0..=MAX_AFTER_MS, out));
    let retry_after = object.take("retry_after");
    let retry_after = retry_after.and_then(|node| parse_integer(node, "`retry_after`", 0..=86_400, out));
    let text = text.or(data);
    let is_refusal = code.is_some_and(|code| !code.is_success());
    if !has_reply && !is_refusal {
        return None;
    }
    Some(ScriptedModelReply {
        text,
        calls: calls.unwrap_or_default(),
        usage,
        stop,
        after_ms: after_ms.unwrap_or(0),
        status: code,
        retry_after,
        fault,
    })
}

fn parse_call(node: &SyntaxNode, out: &mut Diagnostics) -> Option<ScriptedCall> {
    let mut object = ObjectReader::read(node, "a call", out)?;
    let name = object.take("name");
    let arguments = object.take("arguments");
    let id = object.take("id").and_then(|node| expect_text(node, "`id`", out));
    let span = object.span();
    object.finish(UNKNOWN_KEY, "a call", out);
    let Some(name) = name else {
        let problem = Diagnostic::error(MISSING_KEY, span, "a call needs `name`");
        out.push(problem.with_hint("such as {\"name\": \"submit_result\", \"arguments\": {\"done\": true}}"));
        return None;
    };
    let name = expect_text(name, "`name`", out)?.text.clone();
    // Any value is sent: models err, too.
    let arguments = arguments.map_or_else(|| Value::map(Map::new()), to_value);
    Some(ScriptedCall { id: id.map(|id| id.text.clone()), name, arguments })
}

fn parse_keyword<T: Copy>(
    node: &SyntaxNode,
    what: &str,
    words: &[(&'static str, T)],
    out: &mut Diagnostics,
) -> Option<T> {
    let text = &expect_text(node, what, out)?.text;
    let found = words.iter().find(|(word, _)| word == text).map(|(_, meaning)| *meaning);
    if found.is_none() {
        let names = words.iter().map(|(word, _)| *word);
        let hint = did_you_mean(text, names.clone()).unwrap_or_else(|| format!("known here: {}", format_names(names)));
        out.push(Diagnostic::error(BAD_VALUE, node.span, format!("{what} cannot be `{text}`")).with_hint(hint));
    }
    found
}

/// The role of the caller, as sent in the header.
const ROLES: [(&str, &str); 3] = [("step", "step"), ("judge", "judge"), ("coordinator", "coordinator")];

fn parse_condition(node: &SyntaxNode, out: &mut Diagnostics) -> (RuleCondition, [Option<u64>; 3]) {
    let Some(mut object) = ObjectReader::read(node, "`when`", out) else { return Default::default() };
    let mut text = |name: &'static str| {
        let node = object.take(name)?;
        expect_text(node, &format!("`{name}`"), out).map(|SpannedText { text, .. }| text.clone())
    };
    let mut when = RuleCondition {
        step: text("step"),
        role: None,
        model: text("model"),
        contains: text("contains"),
        last_contains: text("last_contains"),
        tool: text("tool"),
    };
    let role = object.take("role").and_then(|node| parse_keyword(node, "`role`", &ROLES, out));
    when.role = role.map(str::to_owned);
    let mut count = |name: &'static str| {
        let node = object.take(name)?;
        parse_integer(node, &format!("`{name}`"), 1..=i64::MAX, out)
    };
    let counts = ["turn", "attempt", "pass"].map(&mut count);
    object.finish(UNKNOWN_KEY, "`when`", out);
    (when, counts)
}

fn parse_usage(node: &SyntaxNode, out: &mut Diagnostics) -> Option<ScriptedUsage> {
    let mut object = ObjectReader::read(node, "`usage`", out)?;
    let mut count = |names: &[&'static str]| {
        let found = names.iter().find_map(|name| object.take(name).map(|node| (name, node)));
        found.and_then(|(name, node)| parse_integer(node, &format!("`{name}`"), 0..=i64::MAX, out))
    };
    let usage = ScriptedUsage {
        input: count(&["input_tokens", "prompt_tokens"]).unwrap_or(0),
        output: count(&["output_tokens", "completion_tokens"]).unwrap_or(0),
        total: count(&["total_tokens"]),
        reasoning: count(&["reasoning_tokens"]).unwrap_or(0),
        cache_read: count(&["cache_read_tokens"]).unwrap_or(0),
        cache_write: count(&["cache_write_tokens"]).unwrap_or(0),
    };
    object.add_known(&["prompt_tokens", "completion_tokens"]);
    object.finish(UNKNOWN_KEY, "`usage`", out);
    Some(usage)
}
