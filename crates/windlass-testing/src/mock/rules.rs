//! Parsing of rules: their conditions, and which calls they can answer.

use hyper::Method;
use windlass_syntax::{
    Diagnostic, Diagnostics, ObjectReader, SpannedKey, SyntaxNode, SyntaxNodeKind, expect_text, to_value,
};
use windlass_value::{Value, to_json};

use super::answers::{MockAnswer, parse_answer, take_answer};
use super::file::{BAD_VALUE, CONFLICT, MISSING_KEY, UNKNOWN_KEY, parse_integer, parse_list, parse_text};
use super::keywords::parse_keyword;
use super::patterns::StepPattern;

#[derive(Clone, Debug)]
pub(super) struct MockRule {
    pub(super) when: MockCondition,
    pub(super) numbers: RuleNumbers,
    pub(super) answers: RuleAnswers,
    pub(super) targets: RuleTargets,
}

/// Conditions on a call, without those on its numbers. Rules with equal conditions count the same calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MockCondition {
    pub(super) step: Option<StepPattern>,
    /// The id of the run, with `*`.
    pub(super) run: Option<String>,
    /// The tool that a step calls, with `*`.
    pub(super) tool: Option<String>,
    /// The definition of the step, with `*`.
    pub(super) definition: Option<String>,
    pub(super) method: Option<String>,
    /// A path, or an address with scheme and host, with `*`.
    pub(super) url: Option<String>,
    pub(super) query: Vec<(String, String)>,
    pub(super) role: Option<String>,
    pub(super) model: Option<String>,
    pub(super) offered_tool: Option<String>,
    /// In any message, in the body, or in the input of the step.
    pub(super) contains: Option<String>,
    /// In the messages since the model's last one.
    pub(super) last_contains: Option<String>,
}

impl MockCondition {
    pub(super) fn is_about_requests(&self) -> bool {
        self.method.is_some() || self.url.is_some() || !self.query.is_empty()
    }

    fn is_about_steps(&self) -> bool {
        self.tool.is_some() || self.definition.is_some()
    }

    fn is_about_models(&self) -> bool {
        self.role.is_some() || self.model.is_some() || self.offered_tool.is_some() || self.last_contains.is_some()
    }
}

/// The numbers that a call must have.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleNumbers {
    /// From 0, as in paths.
    pub(super) iteration: Option<u64>,
    /// The number of the call among those that match the condition, from 1.
    pub(super) call: Option<u64>,
    /// The number of the question in its conversation, from 1.
    pub(super) turn: Option<u64>,
    pub(super) attempt: Option<u64>,
    /// Which execution of the whole step, from 1.
    pub(super) pass: Option<u64>,
}

/// The answers of a rule. Each is a list with one answer per attempt, of which the last one repeats.
#[derive(Clone, Debug)]
pub(super) enum RuleAnswers {
    Always(Box<MockAnswer>),
    /// One per call, for a model one per turn.
    Sequence(Vec<Vec<MockAnswer>>, AfterLast),
}

/// The answer to a call after the last one of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterLast {
    Repeat,
    Cycle,
    /// The rule no longer matches.
    Next,
}

pub(super) const AFTER_LAST: [(&str, AfterLast); 3] =
    [("repeat", AfterLast::Repeat), ("cycle", AfterLast::Cycle), ("next", AfterLast::Next)];

/// The kinds of calls that a rule can answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RuleTargets {
    pub(super) requests: bool,
    pub(super) models: bool,
    pub(super) steps: bool,
}

impl RuleAnswers {
    fn all(&self) -> impl Iterator<Item = &MockAnswer> {
        let (one, sequence): (Option<&MockAnswer>, &[Vec<MockAnswer>]) = match self {
            RuleAnswers::Always(answer) => (Some(&**answer), &[]),
            RuleAnswers::Sequence(answers, _) => (None, answers),
        };
        one.into_iter().chain(sequence.iter().flatten())
    }

    /// Returns the answer to a call and its place in the sequence, both counted from 1.
    pub(super) fn pick(&self, number: u64, attempt: u64) -> Option<(&MockAnswer, Option<usize>)> {
        let RuleAnswers::Sequence(answers, after) = self else {
            let RuleAnswers::Always(answer) = self else { return None };
            return Some((answer, None));
        };
        let length = answers.len();
        let index = usize::try_from(number.saturating_sub(1)).unwrap_or(usize::MAX);
        let due = match after {
            _ if index < length => index,
            AfterLast::Repeat => length.checked_sub(1)?,
            AfterLast::Cycle => index.checked_rem(length)?,
            AfterLast::Next => return None,
        };
        let attempts = answers.get(due)?;
        let last = attempts.len().checked_sub(1)?;
        let tried = usize::try_from(attempt.saturating_sub(1)).unwrap_or(last).min(last);
        Some((attempts.get(tried)?, Some(due + 1)))
    }
}

impl MockRule {
    pub(super) fn for_step(step: StepPattern, answer: MockAnswer) -> MockRule {
        MockRule {
            when: MockCondition { step: Some(step), ..MockCondition::default() },
            numbers: RuleNumbers::default(),
            answers: RuleAnswers::Always(Box::new(answer)),
            targets: RuleTargets { steps: true, ..RuleTargets::default() },
        }
    }

    /// Returns true if only a model can be meant. A mere status or fault may be for a request as well.
    pub(super) fn is_about_models(&self) -> bool {
        self.targets.models && !self.targets.requests
    }
}

pub(super) fn parse_rule(node: &SyntaxNode, out: &mut Diagnostics) -> Option<MockRule> {
    let mut object = ObjectReader::read(node, "a rule", out)?;
    let when = object.take("when");
    let answers = object.take_entry("answers");
    let after_last = object.take_entry("after_last");
    let answer = take_answer(&mut object, out);
    let (span, is_clean) = (object.span(), object.unread_entries().next().is_none());
    object.finish(UNKNOWN_KEY, "a rule", out);
    let (when, numbers) = when.map(|node| parse_condition(node, out)).unwrap_or_default();
    let after = after_last.map(|(_, node)| parse_keyword(node, "`after_last`", &AFTER_LAST, out));
    let answers = match (answers, answer) {
        (None, Some(answer)) => {
            if let Some((key, _)) = after_last {
                let problem = Diagnostic::error(CONFLICT, key.span, "`after_last` has no effect on a single answer");
                out.push(problem.with_hint("it belongs to `answers`; a single answer always repeats"));
            }
            RuleAnswers::Always(Box::new(answer))
        }
        (None, None) => {
            if is_clean {
                let problem = Diagnostic::error(MISSING_KEY, span, "a rule needs an answer");
                out.push(problem.with_hint("`body` or `status` for HTTP, `output` or `error` for a step, `text` or `calls` for a model, or a list of `answers`"));
            }
            return None;
        }
        (Some((key, _)), Some(_)) => {
            let problem = Diagnostic::error(CONFLICT, key.span, "a rule has either `answers` or a single answer");
            out.push(problem.with_hint("move the single answer into `answers`"));
            return None;
        }
        (Some((key, node)), None) => {
            check_sequence(key, &numbers, out);
            RuleAnswers::Sequence(parse_answers(node, out), after.flatten().unwrap_or(AfterLast::Repeat))
        }
    };
    let targets = targets(&when, &numbers, &answers);
    if !(targets.requests || targets.models || targets.steps) {
        let problem = Diagnostic::error(CONFLICT, span, "no call can match this rule and take its answer");
        out.push(problem.with_hint(
            "`method`, `url`, `query` go with `status`, `headers`, `body`; `role`, `model`, `turn` with `text`, `calls`; `tool`, `definition` with `output`, `error`, `body`",
        ));
    }
    Some(MockRule { when, numbers, answers, targets })
}

fn check_sequence(key: &SpannedKey, numbers: &RuleNumbers, out: &mut Diagnostics) {
    let counted = [("call", numbers.call), ("turn", numbers.turn)].into_iter().find(|(_, number)| number.is_some());
    if let Some((name, _)) = counted {
        let message = format!("`answers` has one answer per {name}: `{name}` has no effect");
        let problem = Diagnostic::error(CONFLICT, key.span, message);
        out.push(problem.with_hint(format!("remove `{name}` from `when`, or give one answer")));
    }
}

fn parse_answers(node: &SyntaxNode, out: &mut Diagnostics) -> Vec<Vec<MockAnswer>> {
    if node.as_list().is_some_and(<[SyntaxNode]>::is_empty) {
        let problem = Diagnostic::error(BAD_VALUE, node.span, "`answers` is empty");
        out.push(problem.with_hint("give one answer per call; the last one repeats"));
    }
    parse_list(node, "`answers`", out, |node, out| match node.as_list() {
        Some([]) => {
            let problem = Diagnostic::error(BAD_VALUE, node.span, "a call needs at least one answer");
            out.push(problem.with_hint("a list has one answer per attempt; the last one repeats"));
            None
        }
        Some(_) => Some(parse_list(node, "an answer", out, parse_answer)),
        None => parse_answer(node, out).map(|answer| vec![answer]),
    })
}

fn targets(when: &MockCondition, numbers: &RuleNumbers, answers: &RuleAnswers) -> RuleTargets {
    let for_models = when.is_about_models() || numbers.turn.is_some() || numbers.pass.is_some();
    let is = |kind: fn(&MockAnswer) -> bool| answers.all().any(kind);
    let (http, step, model) = (is(MockAnswer::is_http), is(MockAnswer::is_step_result), is(MockAnswer::is_model_reply));
    RuleTargets {
        requests: !for_models && !when.is_about_steps() && !step && !model,
        models: !when.is_about_requests() && !when.is_about_steps() && !step && !http,
        steps: !for_models && !model,
    }
}

/// The role of the caller, as sent in the header.
pub(super) const ROLES: [(&str, &str); 3] = [("step", "step"), ("judge", "judge"), ("coordinator", "coordinator")];

fn parse_condition(node: &SyntaxNode, out: &mut Diagnostics) -> (MockCondition, RuleNumbers) {
    let Some(mut object) = ObjectReader::read(node, "`when`", out) else { return Default::default() };
    let step = object.take("step").and_then(|node| parse_step(node, out));
    let method = object.take("method").and_then(|node| parse_method(node, out));
    let url = object.take("url").and_then(|node| parse_url(node, out));
    let query = object.take("query").map(|node| parse_query(node, out)).unwrap_or_default();
    let role = object.take("role").and_then(|node| parse_keyword(node, "`role`", &ROLES, out));
    let mut text = |name: &'static str| parse_text(object.take(name)?, &format!("`{name}`"), out);
    let [run, tool, definition, model, offered_tool, contains, last_contains] =
        ["run", "tool", "definition", "model", "offered_tool", "contains", "last_contains"].map(&mut text);
    let mut number = |name: &'static str, from: i64| {
        let node = object.take(name)?;
        parse_integer(node, &format!("`{name}`"), from..=i64::MAX, out)
    };
    let numbers = RuleNumbers {
        iteration: number("iteration", 0),
        call: number("call", 1),
        turn: number("turn", 1),
        attempt: number("attempt", 1),
        pass: number("pass", 1),
    };
    object.finish(UNKNOWN_KEY, "`when`", out);
    let role = role.map(str::to_owned);
    let when = MockCondition {
        step,
        run,
        tool,
        definition,
        method,
        url,
        query,
        role,
        model,
        offered_tool,
        contains,
        last_contains,
    };
    (when, numbers)
}

fn parse_step(node: &SyntaxNode, out: &mut Diagnostics) -> Option<StepPattern> {
    let text = &expect_text(node, "`step`", out)?.text;
    StepPattern::parse(text)
        .map_err(|problem| {
            let problem = Diagnostic::error(BAD_VALUE, node.span, format!("this is no path of a step: {problem}"));
            out.push(problem.with_hint("such as `fetch`, `pages.fetch`, `pages[3].fetch` or `pages[*].*`"));
        })
        .ok()
}

fn parse_method(node: &SyntaxNode, out: &mut Diagnostics) -> Option<String> {
    let text = expect_text(node, "`method`", out)?.text.trim().to_ascii_uppercase();
    if Method::from_bytes(text.as_bytes()).is_err() {
        let problem = Diagnostic::error(BAD_VALUE, node.span, "this is not an HTTP method");
        out.push(problem.with_hint("GET, POST, PUT, PATCH, DELETE; leave it out for any"));
        return None;
    }
    Some(text)
}

fn parse_url(node: &SyntaxNode, out: &mut Diagnostics) -> Option<String> {
    let text = &expect_text(node, "`url`", out)?.text;
    let problem = match text.as_str() {
        url if url.contains('?') => "a URL pattern has no query: values go under `query`",
        url if url.starts_with('/') || url.starts_with('*') => return Some(text.clone()),
        url if url.starts_with("http://") || url.starts_with("https://") => return Some(text.clone()),
        _ => "a URL pattern begins with `/`, `http://` or `https://`",
    };
    let hint = "such as \"url\": \"/items/*\", \"query\": {\"page\": 2}";
    out.push(Diagnostic::error(BAD_VALUE, node.span, problem).with_hint(hint));
    None
}

fn parse_query(node: &SyntaxNode, out: &mut Diagnostics) -> Vec<(String, String)> {
    let Some(object) = ObjectReader::read(node, "`query`", out) else { return Vec::new() };
    let mut values = Vec::new();
    for (key, node) in object.unread_entries() {
        // In an address every value is text.
        let value = match &node.kind {
            SyntaxNodeKind::Str(text) => text.text.clone(),
            SyntaxNodeKind::Number(_) | SyntaxNodeKind::Bool(_) => to_json(&to_value(node)),
            _ => {
                let message = format!("the value of a query must be a text, found {}", node.describe());
                out.push(Diagnostic::error(BAD_VALUE, node.span, message).with_hint("such as {\"page\": 2}"));
                continue;
            }
        };
        values.push((key.text.clone(), value));
    }
    values
}

/// Returns true if a query has this value, among others of the same name.
pub(super) fn query_has(query: &windlass_value::Map, name: &str, wanted: &str) -> bool {
    let is_wanted = |value: &Value| match value {
        Value::Str(text) => &**text == wanted,
        other => to_json(other) == wanted,
    };
    match query.get(name) {
        Some(Value::List(items)) => items.iter().any(is_wanted),
        Some(value) => is_wanted(value),
        None => false,
    }
}
