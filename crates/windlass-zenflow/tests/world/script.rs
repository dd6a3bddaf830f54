//! Models and tools that follow a script:
//!
//! ```yaml
//! replies:
//!   design: [a text, {say: a text, calls: [[bash, {cmd: ls}]]}, {fail: '503'}]
//!   review: {always: LGTM}
//!   coordinator: {rules: [{when: in the last message, say: a text}, {say: to all others}]}
//!   long: [{say: a text, tokens: 1000, stop: length, state: {any: state}}]
//! tools: {bash: what it prints, read: {error: refused}, write: {crash: true}}
//! files: [{path: a.txt, text: hello}]
//! input: {…}
//! options: {model: …, default_model: …}
//! mails: [{to: design, text: hello}]     # from outside, before the first reply
//! ```
//!
//! A step that sends more requests than the script has replies gets an error, and the case fails. A call of
//! `submit_result` with the argument `problem` is one whose arguments were found invalid.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::{ToolCall, Tools};
use windlass_value::{Value, to_json};

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub tool: &'static str,
    pub path: String,
    pub key: Arc<str>,
    pub attempt: u32,
    pub input: Value,
}

impl Call {
    /// Returns the step it belongs to.
    pub(crate) fn step(&self) -> &str {
        let (step, _) = self.path.rsplit_once('.').unwrap_or((&self.path, ""));
        step
    }
}

/// The key of a call, and its attempt.
type Tried = (Arc<str>, u32);

#[derive(Clone)]
pub(crate) struct Script(Arc<Inner>);

struct Inner {
    script: Value,
    calls: Mutex<Vec<Call>>,
    /// The replies that each step has received; a repeated call gets the same reply again.
    replied: Mutex<BTreeMap<String, Vec<Tried>>>,
    /// No call is answered before this is closed.
    gate: Semaphore,
}

impl Script {
    pub(crate) fn new(script: Value) -> Script {
        let gate = Semaphore::new(0);
        let script = Script(Arc::new(Inner { script, calls: Mutex::default(), replied: Mutex::default(), gate }));
        if script.mails().is_empty() {
            script.open_gate();
        }
        script
    }

    pub(crate) fn mails(&self) -> Vec<Value> {
        self.part("mails").as_list().unwrap_or_default().to_vec()
    }

    pub(crate) fn open_gate(&self) {
        self.0.gate.close();
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn tools(&self) -> Tools {
        let mut tools = Tools::new();
        for tool in ["agent_model", "agent_tool", "agent_files"] {
            let script = self.clone();
            tools = tools.with_fn(tool, move |call| {
                let (outcome, script) = (script.answer(tool, &call), script.clone());
                async move {
                    let _ = script.0.gate.acquire().await;
                    outcome
                }
            });
        }
        tools
    }

    fn answer(&self, tool: &'static str, call: &ToolCall) -> TaskOutcome {
        let (path, input) = (call.path.to_string(), call.input.clone());
        let noted = Call { tool, path, key: call.key.clone(), attempt: call.attempt, input };
        let step = noted.step().to_owned();
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner).push(noted);
        match tool {
            "agent_files" => TaskOutcome::success(self.part("files")),
            "agent_tool" => self.tool(call),
            _ => self.reply(&step, call),
        }
    }

    fn part(&self, key: &str) -> Value {
        self.0.script.get(key).cloned().unwrap_or_default()
    }

    fn tool(&self, call: &ToolCall) -> TaskOutcome {
        let name = call.input.get("tool").and_then(Value::as_str).unwrap_or_default();
        let answer = |content: Value, error: bool| {
            TaskOutcome::success(Value::object([("content", content), ("error", Value::Bool(error))]))
        };
        match self.part("tools").get(name) {
            Some(text @ Value::Str(_)) => answer(text.clone(), false),
            Some(other) if other.get("crash").is_some() => {
                TaskOutcome::failure(ErrorInfo::new("Crashed", "tool", "the tool broke down"))
            }
            Some(other) => answer(other.get("error").cloned().unwrap_or_default(), true),
            None => answer(
                Value::from(format!("{name} {}", to_json(call.input.get("arguments").unwrap_or(&Value::Null)))),
                false,
            ),
        }
    }

    fn reply(&self, step: &str, call: &ToolCall) -> TaskOutcome {
        let number = {
            let mut replied = self.0.replied.lock().unwrap_or_else(PoisonError::into_inner);
            let replied = replied.entry(step.to_owned()).or_default();
            let tried = (call.key.clone(), call.attempt);
            match replied.iter().position(|before| *before == tried) {
                Some(at) => at,
                None => {
                    replied.push(tried);
                    replied.len() - 1
                }
            }
        };
        let replies = self.part("replies").get(step).cloned().unwrap_or_default();
        let reply = match &replies {
            Value::List(replies) => replies.get(number).cloned(),
            Value::Str(_) => Some(replies).filter(|_| number == 0),
            other => match other.get("rules").and_then(Value::as_list) {
                Some(rules) => by_rule(rules, &last_message(call)),
                None => other.get("always").cloned(),
            },
        };
        match reply {
            Some(reply) => to_outcome(&reply),
            None => TaskOutcome::failure(ErrorInfo::new(
                "MockUnmatched",
                "model",
                format!("no reply for call {} of `{step}`", number + 1),
            )),
        }
    }
}

/// Returns the first rule whose text occurs in the last message.
fn by_rule(rules: &[Value], message: &str) -> Option<Value> {
    let fits = |rule: &&Value| rule.get("when").and_then(Value::as_str).is_none_or(|text| message.contains(text));
    rules.iter().find(fits).cloned()
}

fn last_message(call: &ToolCall) -> String {
    let last = call.input.get("messages").and_then(Value::as_list).and_then(|messages| messages.last());
    last.map(to_json).unwrap_or_default()
}

fn to_outcome(reply: &Value) -> TaskOutcome {
    if let Some(code) = reply.get("fail").and_then(Value::as_str) {
        let error = ErrorInfo::new(code, "http", format!("the service says {code}"));
        return TaskOutcome::failure(error.replied());
    }
    let content = match reply {
        Value::Str(_) => reply.clone(),
        other => other.get("say").cloned().unwrap_or(Value::from("")),
    };
    let calls = reply.get("calls").and_then(Value::as_list).unwrap_or_default().iter().enumerate();
    let calls: Vec<Value> = calls.map(|(at, call)| to_call(at, call)).collect();
    let stop = reply.get("stop").and_then(Value::as_str).unwrap_or(if calls.is_empty() { "end" } else { "tools" });
    let output = reply.get("tokens").and_then(Value::as_int).unwrap_or(5);
    let usage = Value::object([
        ("input_tokens", Value::Int(10)),
        ("output_tokens", Value::Int(output)),
        ("total_tokens", Value::Int(10 + output)),
        ("tokens", Value::Int(10 + output)),
    ]);
    let output = Value::object([
        ("content", content),
        ("calls", Value::list(calls)),
        ("stop", Value::from(stop)),
        ("context_full", reply.get("context_full").cloned().unwrap_or_default()),
        ("model", Value::from("scripted")),
        ("usage", usage.clone()),
    ]);
    let private = reply.get("state").cloned().unwrap_or_default();
    TaskOutcome { meta: Value::object([("usage", usage)]), private, ..TaskOutcome::success(output) }
}

fn to_call(at: usize, call: &Value) -> Value {
    let part = |at: usize| call.as_list().and_then(|call| call.get(at)).cloned().unwrap_or_default();
    let arguments = part(1);
    let problem = arguments.get("problem").cloned().unwrap_or_default();
    Value::object([
        ("id", Value::from(format!("c{at}"))),
        ("name", part(0)),
        ("arguments", arguments),
        ("problem", problem),
    ])
}
