//! The answers that had left the program before the power failed.

use std::collections::BTreeMap;

use windlass_testing::test_service::TestService;

/// The requests and answers of a program, in order.
#[derive(Default)]
pub(crate) struct Answers {
    /// The path of each request to the service.
    pub(crate) requests: Vec<String>,
    /// The ids of runs whose start was answered.
    pub(crate) started: Vec<String>,
    /// The names of definitions whose registration was answered.
    pub(crate) registered: Vec<String>,
    /// Whether the result of the run was printed.
    pub(crate) ended: bool,
}

impl Answers {
    pub(crate) fn new<'a>(outputs: impl Iterator<Item = &'a str>) -> Answers {
        let mut answers = Answers::default();
        for text in outputs {
            if let Some(rest) = text.strip_prefix("POST ") {
                answers.requests.extend(rest.split(' ').next().map(str::to_owned));
            } else if text.starts_with("HTTP/1.1 202") {
                answers.started.extend(field(text, "run"));
            } else if text.starts_with("HTTP/1.1 201") {
                answers.registered.extend(field(text, "name"));
            } else if text.starts_with("{\n  \"run\"") {
                answers.ended = true;
            }
        }
        answers
    }
}

/// Returns a text field of the JSON in an answer.
fn field(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("\"{name}\":\""))?;
    rest.split('"').next().map(str::to_owned)
}

/// How often each effect has been seen, by its path and then by its key.
pub(crate) type Effects = BTreeMap<String, BTreeMap<String, u64>>;

pub(crate) fn effects(service: &TestService) -> Effects {
    let mut effects = Effects::new();
    for effect in service.effects() {
        effects.entry(effect.path).or_default().insert(effect.key, effect.times);
    }
    effects
}

/// Returns the effects that came after `before`.
pub(crate) fn effects_since(service: &TestService, before: &Effects) -> Effects {
    let mut new = effects(service);
    for (path, keys) in &mut new {
        for (key, times) in keys.iter_mut() {
            *times -= before.get(path).and_then(|keys| keys.get(key)).copied().unwrap_or(0);
        }
        keys.retain(|_, times| *times > 0);
    }
    new.retain(|_, keys| !keys.is_empty());
    new
}
