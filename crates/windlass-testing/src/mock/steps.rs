//! Answers to the calls of steps, before a tool is called.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use windlass_value::{Map, Value, to_json};

use super::answers::{MockAnswer, MockError, MockFault};
use super::counts::MatchCounts;
use super::file::{MockFile, UnmatchedSteps};
use super::patterns::{innermost_iteration, matches_glob, url_path};
use super::received::parse_query;
use super::rules::{MockCondition, MockRule, query_has};

/// The rules of a file for the steps of runs, and how often each has matched.
pub struct StepMocks {
    file: MockFile,
    counts: Mutex<MatchCounts>,
}

/// A call that a step makes.
pub struct MockableCall<'a> {
    /// The id of the run.
    pub run: &'a str,
    pub definition: &'a str,
    /// The path of the task.
    pub path: &'a str,
    pub tool: &'a str,
    pub attempt: u64,
    pub input: &'a Value,
}

/// The answer to a step's call.
pub struct StepAnswer {
    pub result: MockedResult,
    pub delay: Duration,
    /// The rule that answered: `rule 2, answer 1`.
    pub by: String,
}

/// The result of a mocked call.
pub enum MockedResult {
    /// The result as the tool would return it.
    Output { output: Value, error: Option<MockError> },
    /// An HTTP response, from which the tool's result is derived.
    Response { status: u16, headers: Vec<(String, String)>, body: Value },
    /// The connection breaks before the response is complete.
    Broken,
    /// The call never ends.
    Hang,
}

impl StepMocks {
    pub fn new(file: MockFile) -> StepMocks {
        StepMocks { file, counts: Mutex::default() }
    }

    pub fn file(&self) -> &MockFile {
        &self.file
    }

    /// Returns true if a call that no rule matches must fail.
    pub fn is_strict(&self) -> bool {
        self.file.otherwise() == UnmatchedSteps::Fail
    }

    /// Returns true if no rule has a condition that this call matches, so that its tool is called. Nothing is counted.
    pub fn would_call(&self, call: &MockableCall<'_>) -> bool {
        let request = CalledRequest::from_call(call);
        let mut rules = self.file.rules.iter().filter(|rule| rule.targets.steps);
        !self.is_strict() && !rules.any(|rule| call.matches(&rule.when, request.as_ref()))
    }

    /// Returns the answer of the first matching rule.
    pub fn answer(&self, call: &MockableCall<'_>) -> Option<StepAnswer> {
        let request = CalledRequest::from_call(call);
        let rules = self.file.rules.iter().enumerate().filter(|(_, rule)| rule.targets.steps);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.count(rules.clone().map(|(_, rule)| rule), |rule| call.matches(&rule.when, request.as_ref()));
        let mut due = rules.filter(|(_, rule)| call.matches(&rule.when, request.as_ref()) && call.has_numbers(rule));
        due.find_map(|(index, rule)| {
            let number = counts.call_number(rule);
            if rule.numbers.call.is_some_and(|wanted| wanted != number) {
                return None;
            }
            let (answer, place) = rule.answers.pick(number, call.attempt)?;
            let place = place.map(|place| format!(", answer {place}")).unwrap_or_default();
            let delay = Duration::from_millis(answer.delay_ms);
            Some(StepAnswer { result: step_result(answer), delay, by: format!("rule {}{place}", index + 1) })
        })
    }
}

impl MockableCall<'_> {
    fn matches(&self, when: &MockCondition, request: Option<&CalledRequest>) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| matches_glob(wanted, found));
        when.step.as_ref().is_none_or(|step| step.matches_task(self.path))
            && is(&when.run, self.run)
            && is(&when.tool, self.tool)
            && is(&when.definition, self.definition)
            && (!when.is_about_requests() || request.is_some_and(|request| request.matches(when)))
            && when.contains.as_ref().is_none_or(|text| to_json(self.input).contains(text.as_str()))
    }

    fn has_numbers(&self, rule: &MockRule) -> bool {
        let numbers = &rule.numbers;
        numbers.attempt.is_none_or(|wanted| wanted == self.attempt)
            && numbers.iteration.is_none_or(|wanted| innermost_iteration(self.path) == Some(wanted))
    }
}

/// The HTTP request that the input of a step's call describes.
struct CalledRequest {
    method: String,
    url: String,
    query: Map,
}

impl CalledRequest {
    fn from_call(call: &MockableCall<'_>) -> Option<CalledRequest> {
        let text = |names: &[&str]| names.iter().find_map(|name| call.input.get(name)?.as_str());
        let whole = text(&["uri", "url", "endpoint"])?;
        let (url, query) = whole.split_once('?').unwrap_or((whole, ""));
        let mut query = parse_query(Some(query));
        let more = ["queries", "params"].into_iter().find_map(|name| call.input.get(name)?.as_map());
        for (name, value) in more.into_iter().flat_map(Map::iter) {
            query.insert(name.clone(), value.clone());
        }
        let has_body = ["json", "form", "body", "data", "payload"].iter().any(|name| call.input.get(name).is_some());
        let default = if has_body && call.tool == "http_call" { "POST" } else { "GET" };
        let method = text(&["method"]).unwrap_or(default).to_ascii_uppercase();
        Some(CalledRequest { method, url: url.to_owned(), query })
    }

    fn matches(&self, when: &MockCondition) -> bool {
        let is_url = when.url.as_ref().is_none_or(|wanted| match wanted.contains("://") {
            true => matches_glob(wanted, &self.url),
            false => matches_glob(wanted, url_path(&self.url)),
        });
        is_url
            && when.method.as_ref().is_none_or(|method| *method == self.method)
            && when.query.iter().all(|(name, value)| query_has(&self.query, name, value))
    }
}

fn step_result(answer: &MockAnswer) -> MockedResult {
    match answer.fault {
        Some(MockFault::Hang) => return MockedResult::Hang,
        Some(MockFault::Truncated | MockFault::Malformed) => return MockedResult::Broken,
        None => {}
    }
    if answer.is_step_result() {
        return MockedResult::Output { output: answer.output.clone().unwrap_or_default(), error: answer.error.clone() };
    }
    let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let mut headers: Vec<(String, String)> =
        answer.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    if let Some(seconds) = answer.retry_after {
        headers.push(("retry-after".to_owned(), seconds.to_string()));
    }
    MockedResult::Response {
        status: answer.status.map_or(200, |status| status.as_u16()),
        headers,
        body: answer.body.clone().unwrap_or_default(),
    }
}
