//! The scripted chat model: selects the rule that answers a request.

use std::collections::BTreeMap;

use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use windlass_value::{Value, parse_json, to_json};

use super::ModelRequest;
use super::received::{ReceivedRequest, unescape};
use super::rules::{ModelRule, RuleCondition, RuleReplies, ScriptedModelReply};
use super::wire::MockModelProtocol;

/// The error code of a response if no rule matches.
const SCRIPT_UNMATCHED: &str = "ScriptUnmatched";

/// Maximum length of the excerpt of an unmatched request.
const EXCERPT_CHARS: usize = 200;

/// State of a script across requests.
#[derive(Default)]
pub(super) struct ScriptMemory {
    /// How often each condition matched, for clients that do not send the turn.
    match_counts: BTreeMap<RuleCondition, u64>,
    /// The idempotency keys of each turn. A step that is run again uses another key.
    keys: BTreeMap<ModelRequest, Vec<String>>,
}

/// A request to the model as the rules see it.
pub(super) struct ModelQuery {
    pub(super) wire: MockModelProtocol,
    pub(super) body: Value,
    pub(super) run: String,
    pub(super) step: Option<String>,
    pub(super) role: Option<String>,
    pub(super) turn: Option<u64>,
    pub(super) attempt: Option<u64>,
    pub(super) key: String,
    all_text: String,
    last_text: String,
    pub(super) tools: Vec<String>,
}

/// The answer to a request.
pub(super) enum ModelAnswer<'a> {
    Reply { reply: &'a ScriptedModelReply, turn: u64, by: String },
    Refused { status: StatusCode, message: String, code: &'static str, by: String },
}

impl ModelQuery {
    /// Returns `None` if the request is not addressed to a model. A request that is not JSON has a null body.
    pub(super) fn from_request(request: &ReceivedRequest) -> Option<ModelQuery> {
        let wire = MockModelProtocol::from_path(&request.path).filter(|_| request.method == Method::POST)?;
        let body = parse_json(&String::from_utf8_lossy(&request.body)).unwrap_or_default();
        let messages = body.get("messages").and_then(Value::as_list).unwrap_or_default();
        let system = body.get("system").map(content_text);
        let texts: Vec<String> = system
            .into_iter()
            .chain(messages.iter().filter_map(|message| message.get("content")).map(content_text))
            .collect();
        let role_of = |message: &Value| message.get("role").and_then(Value::as_str).map(str::to_owned);
        let since = messages.iter().rposition(|message| role_of(message).as_deref() == Some("assistant"));
        let last = messages.iter().skip(since.map_or(0, |at| at + 1));
        let last = last.filter(|message| role_of(message).as_deref() != Some("system"));
        let last: Vec<String> = last.filter_map(|message| message.get("content")).map(content_text).collect();
        let tools = body.get("tools").and_then(Value::as_list).unwrap_or_default();
        let name =
            |tool: &Value| tool.get("function").unwrap_or(tool).get("name").and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| header(&request.headers, name).and_then(|text| text.parse().ok());
        Some(ModelQuery {
            wire,
            run: header(&request.headers, "x-windlass-run").unwrap_or_default(),
            step: header(&request.headers, "x-windlass-step"),
            role: header(&request.headers, "x-windlass-role"),
            turn: number("x-windlass-turn"),
            attempt: number("x-windlass-attempt"),
            key: header(&request.headers, "idempotency-key").unwrap_or_default(),
            all_text: texts.join("\n"),
            last_text: last.join("\n"),
            tools: tools.iter().filter_map(name).collect(),
            body,
        })
    }

    pub(super) fn model(&self) -> &str {
        self.body.get("model").and_then(Value::as_str).unwrap_or_default()
    }

    fn matches_condition(&self, when: &RuleCondition) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_ref().is_none_or(|wanted| found.is_some_and(|found| matches_pattern(wanted, found)))
        };
        let has =
            |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|wanted| text.contains(wanted.as_str()));
        is(&when.step, self.step.as_deref())
            && when.role.as_ref().is_none_or(|role| self.role.as_ref() == Some(role))
            && is(&when.model, Some(self.model()))
            && has(&when.contains, &self.all_text)
            && has(&when.last_contains, &self.last_text)
            && when.tool.as_ref().is_none_or(|tool| self.tools.contains(tool))
    }

    pub(super) fn answer<'a>(&self, rules: &'a [ModelRule], memory: &mut ScriptMemory) -> ModelAnswer<'a> {
        if self.body.is_null() {
            let message = "the request is not JSON".to_owned();
            let by = "no rule: the request is not JSON".to_owned();
            return ModelAnswer::Refused { status: StatusCode::BAD_REQUEST, message, code: "mock", by };
        }
        self.count(rules, memory);
        let pass = self.pass(memory);
        let attempt = self.attempt.unwrap_or(1);
        for (index, rule) in rules.iter().enumerate().filter(|(_, rule)| self.matches_condition(&rule.when)) {
            let turn = self.turn.or_else(|| memory.match_counts.get(&rule.when).copied()).unwrap_or(1);
            let is_due = rule.turn.is_none_or(|expected| expected == turn);
            let other = |wanted: Option<u64>, found: u64| wanted.is_some_and(|wanted| wanted != found);
            if !is_due || other(rule.attempt, attempt) || other(rule.pass, pass) {
                continue;
            }
            let (attempts, by) = match &rule.replies {
                RuleReplies::Always(attempts) => (attempts, format!("model rule {}", index + 1)),
                RuleReplies::Turns(turns) => {
                    let due = usize::try_from(turn.saturating_sub(1)).ok().and_then(|due| turns.get(due));
                    let Some(attempts) = due else { continue };
                    (attempts, format!("model rule {}, reply {turn}", index + 1))
                }
            };
            let last = attempts.len().saturating_sub(1);
            let due = usize::try_from(attempt.saturating_sub(1)).unwrap_or(last).min(last);
            if let Some(reply) = attempts.get(due) {
                return ModelAnswer::Reply { reply, turn, by };
            }
        }
        let message = self.unmatched(memory);
        let by = "no model rule matches".to_owned();
        ModelAnswer::Refused { status: StatusCode::INTERNAL_SERVER_ERROR, message, code: SCRIPT_UNMATCHED, by }
    }

    pub(super) fn request(&self) -> ModelRequest {
        ModelRequest {
            run: self.run.clone(),
            step: self.step.clone().unwrap_or_default(),
            turn: self.turn.unwrap_or(0),
            attempt: self.attempt.unwrap_or(0),
        }
    }

    /// Returns which execution of the step requests this turn, from 1. A repeated request belongs to the same
    /// execution.
    fn pass(&self, memory: &mut ScriptMemory) -> u64 {
        let keys = memory.keys.entry(self.request()).or_default();
        let known = keys.iter().position(|key| *key == self.key);
        let at = known.unwrap_or_else(|| {
            keys.push(self.key.clone());
            keys.len() - 1
        });
        at as u64 + 1
    }

    /// Counts every condition that this request matches.
    fn count(&self, rules: &[ModelRule], memory: &mut ScriptMemory) {
        *memory.match_counts.entry(RuleCondition::default()).or_default() += 1;
        let mut conditions: Vec<&RuleCondition> =
            rules.iter().map(|rule| &rule.when).filter(|when| self.matches_condition(when)).collect();
        conditions.sort_unstable();
        conditions.dedup();
        for when in conditions.into_iter().filter(|when| **when != RuleCondition::default()) {
            *memory.match_counts.entry(when.clone()).or_default() += 1;
        }
    }

    fn unmatched(&self, memory: &ScriptMemory) -> String {
        let end = last_chars(&self.all_text, EXCERPT_CHARS);
        let Some(step) = &self.step else {
            let turn = memory.match_counts.get(&RuleCondition::default()).copied().unwrap_or(0);
            return format!("no rule of the script matches request {turn} to the model, which ends: {end}");
        };
        let role = self.role.as_deref().unwrap_or("step");
        let number = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
        let tools = if self.tools.is_empty() { "none".to_owned() } else { self.tools.join(", ") };
        format!(
            "no rule of the script matches step `{step}`, role `{role}`, turn {}, attempt {} (model `{}`, tools: {tools}); the prompt ends: {end}",
            number(self.turn),
            number(self.attempt),
            self.model(),
        )
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| unescape(&String::from_utf8_lossy(value.as_bytes())))
}

/// Returns a text, or the texts of its parts.
fn content_text(content: &Value) -> String {
    match content {
        Value::Str(text) => text.to_string(),
        Value::List(parts) => {
            let texts: Vec<String> = parts
                .iter()
                .map(|part| match (part.get("text"), part.get("content")) {
                    (Some(Value::Str(text)), _) | (None, Some(Value::Str(text))) => text.to_string(),
                    (None, Some(inner @ Value::List(_))) => content_text(inner),
                    _ => to_json(part),
                })
                .collect();
            texts.join("\n")
        }
        other => to_json(other),
    }
}

/// Matches a pattern in which `*` stands for any text, including none.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((end, middle)) = parts.split_last() else { return rest.is_empty() };
    let found = middle.iter().try_fold(rest, |rest, part| rest.find(part).map(|at| &rest[at + part.len()..]));
    found.is_some_and(|rest| rest.ends_with(end))
}

fn last_chars(text: &str, max_chars: usize) -> String {
    let skipped = text.chars().count().saturating_sub(max_chars);
    text.chars().skip(skipped).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "a", true),
            ("a*", "ba", false),
            ("loop[*].inner", "loop[12].inner", true),
            ("loop[*].inner", "loop[1].other.inner", false),
            ("loop.*.in*", "loop.0.inner", true),
            ("*.judge", "review.judge", true),
            ("a*a", "a", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("**", "x", true),
        ] {
            assert_eq!(matches_pattern(pattern, text), fits, "{pattern} {text}");
        }
    }
}
