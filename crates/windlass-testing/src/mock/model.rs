//! The mocked chat model: selects the rule that answers a request.

use std::collections::BTreeMap;

use hyper::{Method, StatusCode};
use windlass_value::{Value, parse_json, to_json};

use super::ModelRequest;
use super::answers::MockAnswer;
use super::counts::MatchCounts;
use super::patterns::{innermost_iteration, matches_glob};
use super::received::{ReceivedRequest, header_text};
use super::rules::{MockCondition, MockRule};
use super::wire::MockModelProtocol;

/// The error code of a response if no rule matches.
const MOCK_UNMATCHED: &str = "MockUnmatched";

/// Maximum length of the excerpt of an unmatched request.
const EXCERPT_CHARS: usize = 200;

/// State of a mock file across questions to its model.
#[derive(Default)]
pub(super) struct ModelMemory {
    /// For clients that do not send the turn.
    counts: MatchCounts,
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
    Reply { reply: &'a MockAnswer, turn: u64, by: String },
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
        let number = |name: &str| header_text(&request.headers, name).and_then(|text| text.parse().ok());
        Some(ModelQuery {
            wire,
            run: header_text(&request.headers, "x-windlass-run").unwrap_or_default(),
            // Steps other than agents send the path of their task.
            step: ["x-windlass-step", "x-windlass-path"].iter().find_map(|name| header_text(&request.headers, name)),
            role: header_text(&request.headers, "x-windlass-role"),
            turn: number("x-windlass-turn"),
            attempt: number("x-windlass-attempt"),
            key: header_text(&request.headers, "idempotency-key").unwrap_or_default(),
            all_text: texts.join("\n"),
            last_text: last.join("\n"),
            tools: tools.iter().filter_map(name).collect(),
            body,
        })
    }

    pub(super) fn model(&self) -> &str {
        self.body.get("model").and_then(Value::as_str).unwrap_or_default()
    }

    fn matches(&self, when: &MockCondition) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| matches_glob(wanted, found));
        let has =
            |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|wanted| text.contains(wanted.as_str()));
        let step = when.step.as_ref();
        step.is_none_or(|step| self.step.as_deref().is_some_and(|path| step.matches(path)))
            && when.role.as_ref().is_none_or(|role| self.role.as_ref() == Some(role))
            && is(&when.run, &self.run)
            && is(&when.model, self.model())
            && has(&when.contains, &self.all_text)
            && has(&when.last_contains, &self.last_text)
            && when.offered_tool.as_ref().is_none_or(|tool| self.tools.contains(tool))
    }

    pub(super) fn answer<'a>(&self, rules: &'a [MockRule], memory: &mut ModelMemory) -> ModelAnswer<'a> {
        if self.body.is_null() {
            let message = "the request is not JSON".to_owned();
            let by = "no rule: the request is not JSON".to_owned();
            return ModelAnswer::Refused { status: StatusCode::BAD_REQUEST, message, code: "mock", by };
        }
        let rules = rules.iter().enumerate().filter(|(_, rule)| rule.targets.models);
        memory.counts.count(rules.clone().map(|(_, rule)| rule), |rule| self.matches(&rule.when));
        let pass = self.pass(memory);
        for (index, rule) in rules.filter(|(_, rule)| self.matches(&rule.when)) {
            let call = memory.counts.call_number(rule);
            let turn = self.turn.unwrap_or(call);
            if !self.has_numbers(rule, call, turn, pass) {
                continue;
            }
            if let Some((reply, place)) = rule.answers.pick(turn, self.attempt.unwrap_or(1)) {
                let place = place.map(|place| format!(", answer {place}")).unwrap_or_default();
                return ModelAnswer::Reply { reply, turn, by: format!("rule {}{place}", index + 1) };
            }
        }
        let message = self.unmatched(memory);
        let by = "no rule matches".to_owned();
        ModelAnswer::Refused { status: StatusCode::INTERNAL_SERVER_ERROR, message, code: MOCK_UNMATCHED, by }
    }

    fn has_numbers(&self, rule: &MockRule, call: u64, turn: u64, pass: u64) -> bool {
        let numbers = &rule.numbers;
        let is = |wanted: Option<u64>, found: u64| wanted.is_none_or(|wanted| wanted == found);
        let iteration = || self.step.as_deref().and_then(innermost_iteration);
        is(numbers.turn, turn)
            && is(numbers.call, call)
            && is(numbers.attempt, self.attempt.unwrap_or(1))
            && is(numbers.pass, pass)
            && numbers.iteration.is_none_or(|wanted| iteration() == Some(wanted))
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
    fn pass(&self, memory: &mut ModelMemory) -> u64 {
        let keys = memory.keys.entry(self.request()).or_default();
        let known = keys.iter().position(|key| *key == self.key);
        let at = known.unwrap_or_else(|| {
            keys.push(self.key.clone());
            keys.len() - 1
        });
        at as u64 + 1
    }

    fn unmatched(&self, memory: &ModelMemory) -> String {
        let end = last_chars(&self.all_text, EXCERPT_CHARS);
        let Some(step) = &self.step else {
            let turn = memory.counts.all();
            return format!("no rule of the mock file matches request {turn} to the model, which ends: {end}");
        };
        let role = self.role.as_deref().unwrap_or("step");
        let number = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
        let tools = if self.tools.is_empty() { "none".to_owned() } else { self.tools.join(", ") };
        format!(
            "no rule of the mock file matches step `{step}`, role `{role}`, turn {}, attempt {} (model `{}`, tools: {tools}); the prompt ends: {end}",
            number(self.turn),
            number(self.attempt),
            self.model(),
        )
    }
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

fn last_chars(text: &str, max_chars: usize) -> String {
    let skipped = text.chars().count().saturating_sub(max_chars);
    text.chars().skip(skipped).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
