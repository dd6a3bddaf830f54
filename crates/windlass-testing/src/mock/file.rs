//! Parsing of mock files.

use std::collections::BTreeSet;

use windlass_syntax::{
    Diagnostic, Diagnostics, ObjectReader, ParseLimits, ScalarRules, SourceText, SyntaxNode, SyntaxNodeKind,
    expect_list, expect_text, parse_json, parse_yaml, to_value,
};
use windlass_value::Value;

use super::import;
use super::keywords::parse_keyword;
use super::rules::{MockRule, parse_rule};

pub(super) const UNKNOWN_KEY: &str = "WND-1020";
pub(super) const MISSING_KEY: &str = "WND-1022";
pub(super) const CONFLICT: &str = "WND-1023";
pub(super) const BAD_VALUE: &str = "WND-1024";

const LIMITS: ParseLimits = ParseLimits { bytes: 16 << 20, depth: 100 };

/// The rules by which calls of steps, HTTP requests and questions to models are answered.
#[derive(Clone, Debug)]
pub struct MockFile {
    pub(super) rules: Vec<MockRule>,
    input: Option<Value>,
    otherwise: UnmatchedSteps,
    format: MockFileFormat,
}

/// The handling of a step's call that no rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnmatchedSteps {
    /// The tool is called.
    #[default]
    Call,
    /// The step fails.
    Fail,
}

/// The format that a mock file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MockFileFormat {
    /// `mocks: […]`
    Rules,
    /// The static results of a Logic Apps definition.
    StaticResults,
    /// The mocked operations of a Logic Apps unit test.
    UnitTestMocks,
}

const OTHERWISE: [(&str, UnmatchedSteps); 2] = [("call", UnmatchedSteps::Call), ("fail", UnmatchedSteps::Fail)];

impl MockFile {
    /// Parses a file and reports all problems. A name ending in `.yaml` or `.yml` means YAML, any other JSON.
    pub fn parse(source: &SourceText) -> Result<MockFile, Diagnostics> {
        let mut diagnostics = Diagnostics::new();
        let node = parse_tree(source, &mut diagnostics);
        let file = node.as_ref().and_then(|node| parse_file(node, &mut diagnostics));
        match file {
            Some(file) if !diagnostics.has_errors() => Ok(file),
            _ => Err(diagnostics.sorted()),
        }
    }

    /// Returns true if the text has the shape of a mock file, valid or not: it is no definition.
    pub fn is_mock_file(source: &SourceText) -> bool {
        let node = parse_tree(source, &mut Diagnostics::new());
        node.is_some_and(|node| node.get("mocks").is_some() || import::is_unit_test(&node))
    }

    pub(super) fn imported(rules: Vec<MockRule>, input: Option<Value>, format: MockFileFormat) -> MockFile {
        MockFile { rules, input, otherwise: UnmatchedSteps::Call, format }
    }

    /// Returns true if a rule is meant for questions to a model.
    pub fn has_model(&self) -> bool {
        self.rules.iter().any(MockRule::is_about_models)
    }

    /// Returns true if a rule can answer questions to a model.
    pub(super) fn may_answer_models(&self) -> bool {
        self.rules.iter().any(|rule| rule.targets.models)
    }

    /// Returns the names of the steps that rules for steps name, without the path before them.
    pub fn step_names(&self) -> Vec<String> {
        let steps = self.rules.iter().filter(|rule| rule.targets.steps).filter_map(|rule| rule.when.step.as_ref());
        steps.filter_map(|step| step.last_name()).map(str::to_owned).collect()
    }

    /// Returns the names of steps that rules for every definition and run name, and that none of these names is.
    pub fn unknown_steps(&self, known: &BTreeSet<String>) -> BTreeSet<String> {
        let for_all =
            |rule: &&MockRule| rule.targets.steps && rule.when.definition.is_none() && rule.when.run.is_none();
        let steps = self.rules.iter().filter(for_all).filter_map(|rule| rule.when.step.as_ref()?.last_name());
        steps.filter(|step| !known.contains(*step)).map(str::to_owned).collect()
    }

    /// Returns true if a rule answers HTTP requests.
    pub fn has_requests(&self) -> bool {
        self.rules.iter().any(|rule| rule.targets.requests && rule.when.is_about_requests())
    }

    /// Returns the input for runs that get none otherwise.
    pub fn input(&self) -> Option<&Value> {
        self.input.as_ref()
    }

    pub fn otherwise(&self) -> UnmatchedSteps {
        self.otherwise
    }

    pub fn format(&self) -> MockFileFormat {
        self.format
    }

    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }
}

fn parse_tree(source: &SourceText, out: &mut Diagnostics) -> Option<SyntaxNode> {
    let name = source.name.to_ascii_lowercase();
    match name.ends_with(".yaml") || name.ends_with(".yml") {
        true => parse_yaml(source, LIMITS, ScalarRules::Core, out),
        false => parse_json(source, LIMITS, out),
    }
}

fn parse_file(node: &SyntaxNode, out: &mut Diagnostics) -> Option<MockFile> {
    if node.get("mocks").is_none() {
        if import::is_unit_test(node) {
            return import::unit_test(node, out);
        }
        if let Some(definition) = import::with_static_results(node) {
            return import::static_results(definition, out);
        }
    }
    let mut object = ObjectReader::read(node, "a mock file", out)?;
    object.ignore(&["$schema"]);
    let mocks = object.take("mocks");
    let input = object.take("input").map(to_value);
    let otherwise = object.take("otherwise").and_then(|node| parse_keyword(node, "`otherwise`", &OTHERWISE, out));
    // A misspelled key is already reported by itself.
    if mocks.is_none() && object.unread_entries().next().is_none() {
        let problem = Diagnostic::error(MISSING_KEY, object.span(), "a mock file needs `mocks`");
        out.push(problem.with_hint("such as {\"mocks\": [{\"when\": {\"url\": \"/x\"}, \"body\": 1}]}"));
    }
    object.finish(UNKNOWN_KEY, "a mock file", out);
    let rules = mocks.map(|node| parse_list(node, "`mocks`", out, parse_rule)).unwrap_or_default();
    Some(MockFile { rules, input, otherwise: otherwise.unwrap_or_default(), format: MockFileFormat::Rules })
}

pub(super) fn parse_list<T>(
    node: &SyntaxNode,
    what: &str,
    out: &mut Diagnostics,
    read: fn(&SyntaxNode, &mut Diagnostics) -> Option<T>,
) -> Vec<T> {
    let items = expect_list(node, what, out).unwrap_or_default();
    items.iter().filter_map(|item| read(item, out)).collect()
}

pub(super) fn parse_text(node: &SyntaxNode, what: &str, out: &mut Diagnostics) -> Option<String> {
    expect_text(node, what, out).map(|text| text.text.clone())
}

pub(super) fn parse_integer(
    node: &SyntaxNode,
    what: &str,
    range: std::ops::RangeInclusive<i64>,
    out: &mut Diagnostics,
) -> Option<u64> {
    let number = match &node.kind {
        SyntaxNodeKind::Number(Value::Int(number)) if range.contains(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    if number.is_none() {
        let allowed = match *range.end() {
            i64::MAX => format!("from {} on", range.start()),
            end => format!("from {} to {end}", range.start()),
        };
        let problem = match &node.kind {
            SyntaxNodeKind::Number(Value::Int(number)) => {
                Diagnostic::error(BAD_VALUE, node.span, format!("{what} is out of range: {number}"))
            }
            _ => {
                let message = format!("{what} must be a whole number, found {}", node.describe());
                Diagnostic::error(BAD_VALUE, node.span, message)
            }
        };
        out.push(problem.with_hint(allowed));
    }
    number
}
