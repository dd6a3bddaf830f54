//! The scripted chat model.

use std::collections::BTreeMap;

use hyper::StatusCode;
use windlass_value::{Value, parse_json, to_json};

use super::script::Rule;

/// How much of an unforeseen question is shown.
const EXCERPT_CHARS: usize = 200;

/// How often each text of the rules' `contains` has come so far; none stands for all requests.
pub(super) type Turns = BTreeMap<Option<String>, u64>;

pub(super) struct Said {
    pub(super) status: StatusCode,
    pub(super) body: Value,
    pub(super) retry_after: Option<u64>,
    pub(super) by: String,
}

pub(super) fn answer(rules: &[Rule], turns: &mut Turns, body: &[u8]) -> Said {
    let Ok(question) = parse_json(&String::from_utf8_lossy(body)) else {
        return refused(StatusCode::BAD_REQUEST, "the request is not JSON", "no rule: the request is not JSON");
    };
    let asked = text_of(&question);
    count(rules, turns, &asked);
    let fits = |rule: &Rule| {
        let contains = rule.contains.as_ref().is_none_or(|text| asked.contains(text.as_str()));
        contains && rule.turn.is_none_or(|turn| turns.get(&rule.contains) == Some(&turn))
    };
    match rules.iter().position(fits) {
        Some(index) => said(&rules[index], &question, index),
        None => {
            let turn = turns.get(&None).copied().unwrap_or(0);
            let end: String = last_chars(&asked, EXCERPT_CHARS);
            let message = format!("no rule of the script fits request {turn} to the model, which ends: {end}");
            refused(StatusCode::INTERNAL_SERVER_ERROR, &message, "no model rule fits")
        }
    }
}

fn count(rules: &[Rule], turns: &mut Turns, asked: &str) {
    *turns.entry(None).or_default() += 1;
    let mut texts: Vec<&String> = rules.iter().filter_map(|rule| rule.contains.as_ref()).collect();
    texts.sort_unstable();
    texts.dedup();
    for text in texts.into_iter().filter(|text| asked.contains(text.as_str())) {
        *turns.entry(Some(text.clone())).or_default() += 1;
    }
}

/// All messages, one after another.
fn text_of(question: &Value) -> String {
    let messages = question.get("messages").and_then(Value::as_list).unwrap_or_default();
    let contents = messages.iter().filter_map(|message| message.get("content"));
    let texts: Vec<String> =
        contents.map(|content| content.as_str().map_or_else(|| to_json(content), str::to_owned)).collect();
    texts.join("\n")
}

fn last_chars(text: &str, most: usize) -> String {
    let skipped = text.chars().count().saturating_sub(most);
    text.chars().skip(skipped).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn said(rule: &Rule, question: &Value, index: usize) -> Said {
    let text = rule.reply.as_str().map_or_else(|| to_json(&rule.reply), str::to_owned);
    let by = format!("model rule {}", index + 1);
    if !rule.status.is_success() {
        return Said { retry_after: rule.retry_after, ..refused(rule.status, &text, &by) };
    }
    let message = Value::object([("role", "assistant".to_owned()), ("content", text)]);
    let choice =
        Value::object([("index", Value::Int(0)), ("message", message), ("finish_reason", Value::from("stop"))]);
    let mut body = vec![
        ("id", Value::from("mock")),
        ("object", Value::from("chat.completion")),
        ("model", question.get("model").cloned().unwrap_or_default()),
        ("choices", Value::list(vec![choice])),
    ];
    body.extend(rule.usage.clone().map(|usage| ("usage", usage)));
    Said { status: rule.status, body: Value::object(body), retry_after: rule.retry_after, by }
}

fn refused(status: StatusCode, message: &str, by: &str) -> Said {
    let error = Value::object([("message", message), ("type", "mock")]);
    Said { status, body: Value::object([("error", error)]), retry_after: None, by: by.to_owned() }
}
